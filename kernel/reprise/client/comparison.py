"""Compares two states of a workspace: which files came, went and changed, and their texts."""

from __future__ import annotations

import difflib
import io
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import BinaryIO, Literal, Protocol

from reprise.errors import GuestCallFailed, UsageError
from reprise.log.model import Json
from reprise.replay.variables import Variable, Variables, compare
from reprise.workspace.manifest import Entry, Manifest

#: A file up to this many bytes is compared line by line, …
TEXT_BYTES = 256 << 10
#: … in at most so many files, the others are told by size and sha256, …
TEXT_FILES = 100
#: … and so many lines of its difference are shown.
DIFF_LINES = 400

Kind = Literal["added", "removed", "changed"]


class Workspace(Protocol):
    """A state of a workspace that can be listed and read. `origin` says in words which one."""

    origin: str

    async def manifest(self, *, hashes: bool) -> Manifest: ...

    async def fetch(self, path: str, sink: BinaryIO, limit: int) -> int:
        """Copy a file into `sink`; returns its size. Raises RepriseError when it is none."""


@dataclass(frozen=True)
class FileChange:
    """What became of one path. `diff`: unified, of text files within bounds, else None.

    cut: more lines differ than the diff shows.
    """

    path: str
    kind: Kind
    before: Entry | None
    after: Entry | None
    diff: str | None = None
    cut: bool = False


def changes(before: Manifest, after: Manifest) -> Iterator[FileChange]:
    """What differs between two hashed trees, in the order of paths."""
    for path in sorted(
        {*before.by_path, *after.by_path}, key=lambda p: p.encode("utf-8", "surrogateescape")
    ):
        old, new = before.get(path), after.get(path)
        if old == new:
            continue
        kind: Kind = "added" if old is None else "removed" if new is None else "changed"
        yield FileChange(path, kind, old, new)


async def compared(
    before: Workspace, after: Workspace, *, own: str | None = ".reprise"
) -> list[FileChange]:
    """All that differs, texts line by line. own: a folder that is left out, with what is in it."""
    return (await compared_paths(before, after, own=own))[0]


async def compared_paths(
    before: Workspace, after: Workspace, *, own: str | None = ".reprise"
) -> tuple[list[FileChange], int]:
    """As `compared`, and how many paths were looked at."""
    old, new = await before.manifest(hashes=True), await after.manifest(hashes=True)

    def counts(path: str) -> bool:
        return own is None or path.partition("/")[0] != own

    found = [change for change in changes(old, new) if counts(change.path)]
    looked = sum(map(counts, {*old.by_path, *new.by_path}))
    shown: list[FileChange] = []
    texts = 0
    for change in found:
        if texts < TEXT_FILES and _worth_reading(change):
            texts += 1
            shown.append(await _with_diff(change, before, after))
        else:
            shown.append(change)
    return shown, looked


def _worth_reading(change: FileChange) -> bool:
    files = [e for e in (change.before, change.after) if e is not None and e.type == "file"]
    if not files or any(entry.size > TEXT_BYTES for entry in files):
        return False
    return len({entry.sha256 for entry in files}) > 1 or len(files) == 1


async def _with_diff(change: FileChange, before: Workspace, after: Workspace) -> FileChange:
    old = await _text(before, change.before)
    new = await _text(after, change.after)
    if old is None or new is None:
        return change
    diff, cut = unified(old, new, change.path)
    return replace(change, diff=diff, cut=cut)


async def _text(workspace: Workspace, entry: Entry | None) -> str | None:
    """A file's text, "" for one that is not there; None for what is none, or has moved on."""
    if entry is None or entry.type != "file":
        return ""
    sink = io.BytesIO()
    try:
        await workspace.fetch(entry.path, sink, TEXT_BYTES)
    except (UsageError, GuestCallFailed):
        return None
    data = sink.getvalue()
    if b"\0" in data:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def unified(old: str, new: str, path: str) -> tuple[str, bool]:
    """A unified diff of at most DIFF_LINES lines, and whether there were more."""
    lines: list[str] = []
    cut = False
    for line in difflib.unified_diff(
        old.splitlines(keepends=True), new.splitlines(keepends=True), f"a/{path}", f"b/{path}"
    ):
        if len(lines) >= DIFF_LINES:
            cut = True
            break
        lines.append(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n")
    return "".join(lines), cut


def change_json(change: FileChange) -> dict[str, Json]:
    """A change for programs."""
    return {
        "path": change.path,
        "kind": change.kind,
        "before": None if change.before is None else entry_json(change.before),
        "after": None if change.after is None else entry_json(change.after),
        "diff": change.diff,
        "cut": change.cut,
    }


class Interpreter(Protocol):
    """A state whose variables can be asked for."""

    async def variables(self) -> Variables | None: ...


async def variables_compared(before: Interpreter, after: Interpreter) -> dict[str, Json] | None:
    """What differs between the variables of two states, for programs; None where an interpreter
    cannot be asked. What nothing can be said of is named with the reason."""
    old, new = await before.variables(), await after.variables()
    if old is None or new is None:
        return None
    found = compare(old, new)
    return {
        "variables": [
            {
                "name": each.name,
                "change": _CHANGES.get(each.kind, "changed"),
                "before": _variable_json(each.before),
                "after": _variable_json(each.after),
            }
            for each in found.different
        ],
        "variables_same": len(found.same),
        "variables_unknown": dict(found.unknown),
    }


_CHANGES: dict[str, Json] = {"missing": "removed", "extra": "added"}


def _variable_json(variable: Variable | None) -> dict[str, Json] | None:
    """text: its value, cut, or nothing where it has no short form."""
    if variable is None:
        return None
    return {"type": variable.type, "text": variable.preview, "shape": variable.shape}


def entry_json(entry: Entry) -> dict[str, Json]:
    """A path of a workspace for programs. size: bytes, of a file."""
    return {
        "path": entry.path,
        "type": entry.type,
        "mode": entry.mode,
        "size": entry.size if entry.type == "file" else None,
        "sha256": entry.sha256,
        "target": entry.target,
    }
