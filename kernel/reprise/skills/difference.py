"""How two versions of a skill differ, file by file, in a size that a person reads (pure)."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Final, Literal

from reprise.log.model import Json
from reprise.skills.contract import EXECUTABLE, SkillTree
from reprise.workspace.manifest import Entry, shown

#: Texts above are not compared line by line, which takes time in the square of their length.
_MAX_BYTES: Final = 256 << 10
_MAX_LINES: Final = 5_000
#: Of one file's diff. The rest is counted.
_SHOWN_LINES: Final = 200
_SHOWN_WIDTH: Final = 400

What = Literal["added", "changed", "removed"]


@dataclass(frozen=True)
class FileDifference:
    """One file. mode: what became of its executable bit, "" when nothing did.

    diff: unified, with paths as shown; "" where lines say nothing, and then why is in `note`.
    """

    path: str
    what: What
    mode: Literal["", "now executable", "no longer executable"] = ""
    diff: str = ""
    note: str = ""

    def to_json(self) -> dict[str, Json]:
        return asdict(self)


def differences(old: SkillTree | None, new: SkillTree | None) -> list[FileDifference]:
    """What leads from one tree to another, in the order of paths. None: no skill at all."""
    return list(_differences(old, new))


def _differences(old: SkillTree | None, new: SkillTree | None) -> Iterator[FileDifference]:
    before = {} if old is None else old.manifest.by_path
    after = {} if new is None else new.manifest.by_path
    for path in sorted({*before, *after}):
        was, now = before.get(path), after.get(path)
        if was == now:
            continue
        what: What = "added" if was is None else "removed" if now is None else "changed"
        a, b = _bytes(old, was), _bytes(new, now)
        diff, note = _diff(path, what, a, b)
        yield FileDifference(path, what, _mode(was, now), diff, note)


def _bytes(tree: SkillTree | None, entry: Entry | None) -> bytes:
    return b"" if tree is None or entry is None else tree.get(entry.path) or b""


def _mode(
    was: Entry | None, now: Entry | None
) -> Literal["", "now executable", "no longer executable"]:
    if now is None or (was is not None and was.mode == now.mode):
        return ""
    if now.mode == EXECUTABLE:
        return "now executable"
    return "" if was is None else "no longer executable"


def _diff(path: str, what: What, a: bytes, b: bytes) -> tuple[str, str]:
    if a == b:
        return "", ""
    if len(a) > _MAX_BYTES or len(b) > _MAX_BYTES:
        return "", f"too large to be compared by lines ({len(a):,} → {len(b):,} bytes)"
    try:
        old, new = _lines(a), _lines(b)
    except UnicodeDecodeError:
        return "", f"not text ({len(a):,} → {len(b):,} bytes)"
    if len(old) > _MAX_LINES or len(new) > _MAX_LINES:
        return "", f"too many lines to be compared ({len(old):,} → {len(new):,})"
    name = shown(path)
    lines = list(
        difflib.unified_diff(
            old,
            new,
            "/dev/null" if what == "added" else f"a/{name}",
            "/dev/null" if what == "removed" else f"b/{name}",
            lineterm="",
        )
    )
    more = len(lines) - _SHOWN_LINES
    text = "\n".join(_short(lines[:_SHOWN_LINES]))
    return text, f"{more:,} more lines of difference" if more > 0 else ""


def _lines(data: bytes) -> list[str]:
    """Lines as a diff shows them: whatever but a line feed is written out within its line."""
    if b"\0" in data:
        raise UnicodeDecodeError("utf-8", data, data.index(b"\0"), data.index(b"\0") + 1, "NUL")
    text = data.decode()
    lines = text.split("\n")
    if lines[-1]:
        lines.append("\\ no line feed at the end of the file")
    else:
        lines.pop()
    return [line.replace("\r", "␍") for line in lines]


def _short(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        yield line if len(line) <= _SHOWN_WIDTH else f"{line[:_SHOWN_WIDTH]} …"
