"""A part of a file of a skill, as a model is shown it when it asks for one (pure)."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from reprise.errors import UsageError
from reprise.skills.contract import EXECUTABLE, Skill
from reprise.skills.loaded import base
from reprise.skills.quoted import block, one_line
from reprise.workspace.manifest import Entry, shown

#: Characters of a file that are shown at once.
MAX_SHOWN = 64_000


@dataclass(frozen=True)
class FilePart:
    """A part of a file of a loaded skill.

    size: bytes of the whole file.  text: what a model is shown; None for a file that is no text.
    data: the bytes of the part.  start, following: in characters of the text, in bytes where there
    is none; following is None at the file's end.
    """

    path: str
    size: int
    executable: bool
    text: str | None
    data: bytes
    start: int
    following: int | None


def part_of(skill: Skill, path: str, start: int = 0, most: int = MAX_SHOWN) -> FilePart:
    """A part of a file, from `start` on, at most `most` characters (bytes where it is no text).

    path: within the skill; below /skills/NAME is understood. Raises UsageError for one that the
    skill does not have, with the near ones, and for a part that is none.
    """
    if start < 0 or not 1 <= most <= MAX_SHOWN:
        raise UsageError(f"A part of a file begins at 0 or later and has 1 to {MAX_SHOWN:,}.")
    entry = _entry(skill, path)
    data = skill.tree.get(entry.path) or b""
    executable = entry.mode == EXECUTABLE
    text = _decoded(data)
    if text is None:
        raw = data[start : start + most]
        end = start + len(raw)
        return FilePart(
            entry.path, entry.size, executable, None, raw, start, end if end < len(data) else None
        )
    piece = text[start : start + most]
    end = start + len(piece)
    return FilePart(
        entry.path,
        entry.size,
        executable,
        block(piece),
        piece.encode(),
        start,
        end if end < len(text) else None,
    )


def text_of(skill: Skill, entry: Entry) -> str | None:
    """The whole of a file as a model would be shown it; None when it is no text."""
    text = _decoded(skill.tree.get(entry.path) or b"")
    return None if text is None else block(text)


def _decoded(data: bytes) -> str | None:
    try:
        return None if b"\0" in data else data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _entry(skill: Skill, path: str) -> Entry:
    wanted = path.removeprefix(f"{base(skill.name)}/").removeprefix("./")
    entry = skill.tree.manifest.get(wanted)
    if entry is not None and entry.type == "file":
        return entry
    paths = [each.path for each in skill.tree.manifest if each.type == "file"]
    near = _near(wanted, paths)
    raise UsageError(
        f"{skill.name} has no file {one_line(path)[:200]!r}."
        + (f" It has {', '.join(map(shown, near))}." if near else "")
    )


def _near(wanted: str, paths: Sequence[str]) -> Collection[str]:
    name = wanted.rpartition("/")[2]
    same = [path for path in paths if path.rpartition("/")[2] == name]
    return same[:5] or difflib.get_close_matches(wanted[:200], paths[:1_000], n=5)
