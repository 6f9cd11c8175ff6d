"""Finds the folders that are skills in a source, as the clients that read skills do (pure).

A folder with a SKILL.md is a skill, and what lies below it is its own. Looked through breadth
first, names in order, to a depth and a number of folders that the client guide of agentskills.io
gives ("Adding skills support": depth 4 to 6, at most 2,000 folders); what version control and
package managers keep is not entered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from reprise.skills.contract import SKILL_FILE
from reprise.skills.paths import is_left_out
from reprise.workspace.manifest import shown

MAX_DEPTH: Final = 6
MAX_FOLDERS: Final = 2_000

#: Folders of other people's packages, and of caches: a SKILL.md in there is not this source's.
_SKIPPED: Final = frozenset(
    {
        "node_modules",
        ".venv",
        "venv",
        "site-packages",
        "__pypackages__",
        ".tox",
        ".nox",
        ".pixi",
        ".conda",
        ".jj",
        ".bzr",
        ".cache",
        ".ipynb_checkpoints",
    }
)
#: A folder with one of these is an environment, whatever its name.
_ENVIRONMENT: Final = frozenset({"pyvenv.cfg", "conda-meta"})

#: "other": a link, a submodule, a device: nothing that is entered.
Kind = Literal["file", "folder", "other"]


class Folders(Protocol):
    """Something that has folders. Paths are relative, separated by "/"; "" is the top."""

    def names(self, folder: str) -> Mapping[str, Kind]:
        """What lies directly in it. Raises BadSkill when that cannot be said."""


@dataclass(frozen=True)
class Places:
    """folders: of the skills, in the order found.  notes: what was not looked at, and why."""

    folders: tuple[str, ...]
    notes: tuple[str, ...]


def is_skill(names: Iterable[str]) -> bool:
    """Whether these names make a folder a skill, or what its reader should have a word about."""
    return any(name.casefold() == SKILL_FILE.casefold() for name in names)


def skill_folders(source: Folders, top: str = "") -> Places:
    """The folders of `source` that are skills, `top` or below it. Raises BadSkill."""
    found: list[str] = []
    notes: list[str] = []
    deeper: list[str] = []
    waiting = deque([(top, 0)])
    looked_at = 0
    while waiting:
        folder, depth = waiting.popleft()
        if looked_at >= MAX_FOLDERS:
            notes.append(
                f"Only the first {MAX_FOLDERS:,} folders were looked through; what lies in "
                f"{shown(folder)} and after it was not. Name the folder that the skills are in."
            )
            break
        looked_at += 1
        names = source.names(folder)
        if is_skill(names):
            found.append(folder)
            continue
        if folder != top and not _ENVIRONMENT.isdisjoint(names):
            continue
        inner = sorted(
            name
            for name, kind in names.items()
            if kind == "folder" and name not in _SKIPPED and not is_left_out(name)
        )
        if depth < MAX_DEPTH:
            waiting.extend((f"{folder}/{name}" if folder else name, depth + 1) for name in inner)
        elif inner:
            deeper.append(folder)
    if deeper:
        more = f" and {len(deeper) - 1:,} other folders" if deeper[1:] else ""
        notes.append(
            f"What lies below {shown(deeper[0])}{more} was not looked through: it is more than "
            f"{MAX_DEPTH} folders deep."
        )
    return Places(tuple(found), tuple(notes))
