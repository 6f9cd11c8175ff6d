"""Files of skills that were read lately, so that looking through one does not read it each time."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from reprise.skills.contract import SkillTree

#: Bytes of files, of all that are kept.
_MOST: Final = 96 << 20


class Trees:
    """By digest, which names their very bytes; who may see them is asked before, each time."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._kept: OrderedDict[str, SkillTree] = OrderedDict()
        self._size = 0

    def get(self, digest: str) -> SkillTree | None:
        found = self._kept.get(digest)
        if found is not None:
            self._kept.move_to_end(digest)
        return found

    def put(self, tree: SkillTree) -> None:
        """Keep it; those that were asked for longest ago give way."""
        if tree.digest in self._kept or tree.manifest.size > self._most:
            return
        self._kept[tree.digest] = tree
        self._size += tree.manifest.size
        while self._size > self._most:
            _, old = self._kept.popitem(last=False)
            self._size -= old.manifest.size
