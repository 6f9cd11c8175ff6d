"""Reads many blobs in the order in which they are needed, several at a time."""

from __future__ import annotations

from collections.abc import Iterable

from reprise.log.blobs import IN_POSTGRES_BYTES
from reprise.log.store import Blobs

#: What is read at once, at most: a round trip to Postgres costs as much as some 100 KB.
HELD_BYTES = 4 << 20
HELD = 1_000


class ReadAhead:
    """Callable as `Blobs.get`; what it holds of what comes next is bounded.

    coming: sha256 and size of each, in the order in which they will be asked for; others can be
    asked for too. One whose size is a lie is read by itself.
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
            wanted = self._from(self._places[sha256])
            self._held = await self._blobs.small(wanted)
            for name in wanted.keys() - self._held.keys():
                self._places.pop(name, None)  # it may be gone already
        held = self._held.get(sha256)
        return await self._blobs.get(sha256) if held is None else held

    def _from(self, place: int) -> dict[str, int]:
        """The next ones from a place on, as many as may be held, with their sizes."""
        names: dict[str, int] = {}
        room = HELD_BYTES
        for name, size in self._order[place:]:
            room -= 0 if name in names else size
            if names and (room < 0 or len(names) == HELD):
                break
            names.setdefault(name, size)
        return names
