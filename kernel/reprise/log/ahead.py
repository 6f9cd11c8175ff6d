"""Reads many blobs in the order in which they are needed, several at a time."""

from __future__ import annotations

from collections.abc import Iterable

from reprise.log.blobs import IN_POSTGRES_BYTES
from reprise.log.store import Blobs

#: What is read at once, at most: a round trip to Postgres costs as much as some 100 KB. So many
#: blobs in Postgres hold 64 MiB at the very most, should the sizes be lies.
HELD_BYTES = 4 << 20
HELD = 64


class ReadAhead:
    """Callable as `Blobs.get`; what it holds of what comes next is bounded.

    coming: sha256 and size of each, in the order in which they will be asked for; others can be
    asked for too. The sizes only say how many are read at once.
    """

    def __init__(self, blobs: Blobs, coming: Iterable[tuple[str, int]]) -> None:
        self._blobs = blobs
        self._order = [(name, size) for name, size in coming if size <= IN_POSTGRES_BYTES]
        self._places = {name: place for place, (name, _) in reversed([*enumerate(self._order)])}
        self._held: dict[str, bytes] = {}

    async def __call__(self, sha256: str) -> bytes:
        """Raises as `Blobs.get`."""
        if sha256 not in self._places:
            return await self._blobs.get(sha256)
        if sha256 not in self._held:
            self._held = {}  # or twice as much would be held
            self._held = await self._blobs.small(self._from(self._places[sha256]))
        held = self._held.get(sha256)
        return await self._blobs.get(sha256) if held is None else held

    def _from(self, place: int) -> list[str]:
        """The next ones from a place on, as many as may be held."""
        names: dict[str, None] = {}
        room = HELD_BYTES
        for name, size in self._order[place:]:
            room -= 0 if name in names else size
            if names and (room < 0 or len(names) == HELD):
                break
            names[name] = None
        return list(names)
