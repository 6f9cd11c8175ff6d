"""The skills that come with Reprise: where they lie, what they are, and their digests.

In a wheel they lie within the package (`reprise/shipped_skills`), so they are found wherever an
installer put it; in a checkout they are its own `skills/`, so that an edit counts at once. Whoever
can change them can change Reprise itself, which is why their digests are trusted everywhere.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import reprise
from reprise.errors import UnavailableError
from reprise.skills.contract import EXECUTABLE, PLAIN, SKILL_FILE, Skill, SkillTree
from reprise.skills.paths import is_left_out
from reprise.workspace.manifest import Entry, Manifest

_PACKAGE = Path(reprise.__file__).parent


class _Stamp(NamedTuple):
    """What tells that a file was changed without reading it."""

    path: str
    mode: int
    size: int
    modified: int
    inode: int


def folder() -> Path:
    """Where the shipped skills lie, one folder each. Raises UnavailableError."""
    packed = _PACKAGE / "shipped_skills"
    if packed.is_dir():
        return packed
    checkout = _PACKAGE.parents[1]
    if (checkout / "pyproject.toml").is_file() and (checkout / "skills").is_dir():
        return checkout / "skills"
    raise UnavailableError(
        f"The skills that come with Reprise are not at {packed}. The installation is not whole: "
        "install jupyter-reprise again."
    )


def shipped() -> list[tuple[Skill, Path]]:
    """Every shipped skill and its folder, by name. Raises BadSkill for one that is none."""
    # The kernel needs the digests only, and this brings a YAML parser.
    from reprise.skills.read import read_skill  # noqa: PLC0415

    return [(read_skill(tree, folder=path.name), path) for path, tree in _trees(folder()).items()]


def find_shipped(name: str) -> Skill | None:
    """The shipped skill of that name. Raises BadSkill when what lies there is none."""
    from reprise.skills.read import read_skill  # noqa: PLC0415

    place = folder()
    tree = _trees(place).get(place / name)
    return None if tree is None else read_skill(tree, folder=name)


def shipped_digests() -> frozenset[str]:
    """The digests of all shipped skills.

    Files are read again only when their stat has changed: a call costs some microseconds a file.
    """
    try:
        return frozenset(tree.digest for tree in _trees(folder()).values())
    except UnavailableError:
        return frozenset()  # nothing is shipped, so nothing of it is trusted


def _trees(root: Path) -> dict[Path, SkillTree]:
    found = {}
    for each in sorted(root.iterdir()):
        if each.is_dir() and (each / SKILL_FILE).is_file():
            stamps = tuple(sorted(_stamps(str(each), "")))
            found[each] = _tree(each, stamps)
    return found


def _stamps(root: str, below: str) -> Iterator[_Stamp]:
    with os.scandir(Path(root, below)) as entries:
        for entry in entries:
            path = f"{below}/{entry.name}" if below else entry.name
            if is_left_out(entry.name):
                continue
            if entry.is_dir(follow_symlinks=False):
                yield from _stamps(root, path)
            elif entry.is_file(follow_symlinks=False):
                now = entry.stat(follow_symlinks=False)
                yield _Stamp(path, now.st_mode, now.st_size, now.st_mtime_ns, now.st_ino)


@lru_cache(maxsize=64)
def _tree(root: Path, stamps: tuple[_Stamp, ...]) -> SkillTree:
    contents: dict[str, bytes] = {}
    entries = []
    for each in stamps:
        data = (root / each.path).read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        contents[digest] = data
        mode = EXECUTABLE if each.mode & stat.S_IXUSR else PLAIN
        entries.append(Entry(each.path, "file", mode, len(data), digest))
    return SkillTree(Manifest.of(entries), contents)
