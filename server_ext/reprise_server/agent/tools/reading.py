"""The tools `read_file` and `list_files`, and what of files a conversation has seen."""

from __future__ import annotations

import fnmatch
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from reprise.errors import RepriseError, TooLarge
from reprise.log.model import Json
from reprise.quantities import amount
from reprise.workspace.manifest import Entry, parents, shown
from reprise_server.agent.contract import (
    RESULT_CHARACTERS,
    Act,
    BadCall,
    Call,
    Result,
    Situation,
    TaintKind,
)
from reprise_server.agent.policy.taint import of_path
from reprise_server.agent.tools.images import Image, image_of_bytes, kind_of
from reprise_server.agent.tools.paths import OWN, clean, missing, told
from reprise_server.agent.tools.place import Place
from reprise_server.agent.tools.schemas import fields, texts
from reprise_server.agent.tools.shown import LINE, blocks, harmless, several

#: Bytes of a file that is read or edited whole; of larger ones commands show parts.
MOST_BYTES: Final = 8 << 20
#: Lines that are shown at once unless fewer fit or are asked for.
MOST_LINES: Final = 2_000
#: Lines of a listing.
MOST_LISTED: Final = 300
#: Files that a conversation is remembered to have seen.
REMEMBERED: Final = 2_000

#: Left for what stands above the text of a file.
_HEAD: Final = 600


@dataclass(frozen=True)
class Reading:
    """A file as the conversation saw it last. whole: to its end, from its beginning."""

    sha256: str
    whole: bool


class Files:
    """The workspace's files for one conversation: what is there, and what of it was seen."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._seen: dict[str, Reading] = {}

    async def clean(self, path: str) -> str:
        """Raises BadCall."""
        return clean(path, (await self.place.surroundings()).workspace)

    def seen(self, path: str) -> Reading | None:
        return self._seen.get(path)

    def remember(self, path: str, data: bytes, *, whole: bool) -> None:
        """That the model knows this content of a file: all of it, or a part."""
        digest = hashlib.sha256(data).hexdigest()
        before = self._seen.pop(path, None)
        known = before is not None and before.sha256 == digest and before.whole
        self._seen[path] = Reading(digest, whole or known)
        while len(self._seen) > REMEMBERED:
            del self._seen[next(iter(self._seen))]

    async def there(self, *, own: bool = False) -> tuple[Entry, ...]:
        """All that lies in the workspace, without hashes. own: Reprise's own folder, too."""
        return (await (await self.place.files()).manifest(hashes=False, own=own)).entries

    async def read(self, path: str) -> bytes:
        """A file's bytes. Raises BadCall: not there, no file, too large."""
        workspace = await self.place.files()
        try:
            return await workspace.read(path, limit=MOST_BYTES)
        except TooLarge as error:
            raise BadCall(
                f"{told(path)} is larger than the {amount(MOST_BYTES)} that are read at once. Use"
                " search_files to find lines, or run_command with head, tail or sed -n to see"
                " parts."
            ) from error
        except RepriseError as error:
            raise await self._why(path, error) from error

    async def _why(self, path: str, error: RepriseError) -> RepriseError:
        """Why a file could not be read, as a model can act on it."""
        try:
            entries = await self.there(own=path.startswith(f"{OWN}/"))
        except RepriseError:
            return error  # too much lies there to say what is near
        found = next((entry for entry in entries if entry.path == path), None)
        folder = found is not None and found.type == "dir"
        folder = folder or any(path in parents(entry.path) for entry in entries)
        if folder:
            return BadCall(f"{told(path)} is a folder. list_files shows what is in it.")
        if found is None:
            return missing(path, (each.path for each in entries if each.type != "dir"))
        if found.type == "link":
            return BadCall(
                f"{told(path)} is a link to {told(found.target or '')}, which leads to no file"
                " within the workspace."
            )
        return error

    async def taints(
        self, paths: Iterable[str], situation: Situation
    ) -> tuple[tuple[TaintKind, str], ...]:
        """What untrusted content may be in these files."""
        found = list((await self.place.sources()).taints())
        for path in paths:
            found += of_path(path, situation.untrusted_paths)
        return tuple(dict.fromkeys(found))


class ReadFile:
    """Shows a file of the workspace, by lines."""

    name = "read_file"
    description = (
        "Read a file of the session's workspace: text with line numbers, or an image. Long files"
        " are shown in parts; go on with start_line. Changes of a file need that it was read"
        " before. Nothing is run and nothing changes."
    )
    schema = fields(
        {"path": texts("The file, relative to the workspace, such as data/x.csv.")},
        {
            "start_line": {
                "type": "integer",
                "description": "The first line to show, counted from 1. Default 1.",
            },
            "lines": {
                "type": "integer",
                "description": f"How many lines to show, at most {MOST_LINES}.",
            },
        },
    )

    def __init__(self, files: Files) -> None:
        self._files = files

    async def act(self, given: Mapping[str, Json], situation: Situation) -> Act:  # noqa: ARG002
        path = await self._files.clean(given["path"])
        if not path:
            raise BadCall("The path is the workspace itself. list_files shows what is in it.")
        _range(given)
        return Act(self.name, "read", dict(given), f"read {shown(path)}", paths=(path,))

    async def run(self, call: Call, act: Act) -> Result:
        (path,) = act.paths
        data = await self._files.read(path)
        taints = await self._files.taints(act.paths, call.situation)
        if kind_of(data) is not None:
            found = image_of_bytes(data)
            if isinstance(found, Image):
                head = f"{shown(path)}: {found.kind}, {found.width}×{found.height} pixels\n"
                return Result(blocks(head, [found]), taints=taints)
            return Result(blocks(f"{shown(path)}: an image, {found}.\n"), taints=taints)
        text = decoded(data)
        if text is None:
            head = (
                f"{shown(path)} is no text: {len(data):,} bytes, sha256"
                f" {hashlib.sha256(data).hexdigest()}. Read it with a program that knows its kind,"
                " in a cell or a command.\n"
            )
            return Result(blocks(head), taints=taints)
        start, most = _range(call.input)
        part = _part(path, text, start, most)
        self._files.remember(path, data, whole=part.whole)
        return Result(blocks(part.text), taints=taints)


def _range(given: Mapping[str, Json]) -> tuple[int, int]:
    """First line and number of lines. Raises BadCall."""
    start, most = given.get("start_line") or 1, given.get("lines") or MOST_LINES
    if start < 1 or not 1 <= most <= MOST_LINES:
        raise BadCall(
            f"`start_line` is counted from 1 and `lines` is 1 to {MOST_LINES:,}; these were"
            f" {start} and {most}."
        )
    return int(start), int(most)


@dataclass(frozen=True)
class _Part:
    text: str
    whole: bool


def _part(path: str, text: str, start: int, most: int) -> _Part:
    """Lines of a file with their numbers, as many as fit."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    if not lines:
        return _Part(f"{shown(path)} is empty.\n", whole=True)
    if start > len(lines):
        raise BadCall(
            f"{told(path)} has {several(len(lines), 'line')}; there is no line {start:,}."
        )
    room = RESULT_CHARACTERS - _HEAD
    said: list[str] = []
    cut = False
    width = len(str(min(len(lines), start + most)))
    for number in range(start, min(len(lines), start + most - 1) + 1):
        line = harmless(lines[number - 1].removesuffix("\r"))
        if len(line) > LINE:
            line, cut = f"{line[:LINE]}[… {len(line) - LINE:,} more characters]", True
        piece = f"{number:>{width}}\t{line}\n"
        if len(piece) > room and said:
            break
        room -= len(piece)
        said.append(piece)
    last = start + len(said) - 1
    head = f"{shown(path)[:300]}: {several(len(lines), 'line')}"
    if start > 1 or last < len(lines):
        head += f", here {start:,} to {last:,}"
    if last < len(lines):
        head += f"; go on with start_line={last + 1}"
    return _Part(f"{head}\n{''.join(said)}", whole=start == 1 and last == len(lines) and not cut)


def decoded(data: bytes) -> str | None:
    """The text of a file, a byte order mark kept; None for what is no text."""
    try:
        return None if b"\0" in data else data.decode("utf-8")
    except UnicodeDecodeError:
        return None


class ListFiles:
    """Shows what lies in the workspace."""

    name = "list_files"
    description = (
        "List files and folders of the session's workspace with their sizes, all or those that a"
        " pattern fits. Deep folders are counted instead of listed where there is too much."
    )
    schema = fields(
        {"path": texts("The folder to list, relative to the workspace; empty for all of it.")},
        {"pattern": texts("Only files that fit, such as *.csv or data/**/*.parquet.")},
    )

    def __init__(self, files: Files) -> None:
        self._files = files

    async def act(self, given: Mapping[str, Json], situation: Situation) -> Act:  # noqa: ARG002
        path = await self._files.clean(given["path"])
        what = f"list {shown(path)}" if path else "list the files"
        return Act(self.name, "read", dict(given), what, paths=(path,) if path else ())

    async def run(self, call: Call, act: Act) -> Result:
        folder = act.paths[0] if act.paths else ""
        pattern = call.input.get("pattern") or ""
        own = any(each == OWN or each.startswith(f"{OWN}/") for each in (folder, pattern))
        entries = await self._files.there(own=own)
        if folder:
            _check_folder(folder, entries)
        below = [each for each in entries if _below(each.path, folder)]
        if pattern:
            found = [each for each in below if each.type != "dir" and fits(each.path, pattern)]
            text = _found(found, pattern)
        else:
            text = listing(below, folder)
        # Names of files are content, too.
        return Result(blocks(text), taints=await self._files.taints((), call.situation))


def _check_folder(folder: str, entries: Sequence[Entry]) -> None:
    """Raises BadCall unless it is a folder that is there."""
    if any(folder in parents(entry.path) for entry in entries):
        return
    found = next((entry for entry in entries if entry.path == folder), None)
    if found is None:
        folders = dict.fromkeys(above for entry in entries for above in parents(entry.path))
        folders |= dict.fromkeys(entry.path for entry in entries if entry.type == "dir")
        raise missing(folder, folders, "folder")
    if found.type != "dir":
        raise BadCall(f"{told(folder)} is a {found.type}, not a folder. read_file shows a file.")


def _below(path: str, folder: str) -> bool:
    return not folder or path.startswith(f"{folder}/")


def fits(path: str, pattern: str) -> bool:
    """Whether a pattern of the shell fits a path: `*` within a name, `**` over folders; a pattern
    without a slash fits names anywhere."""
    if "/" not in pattern:
        return fnmatch.fnmatchcase(path.rpartition("/")[2], pattern)
    return _fit(path.split("/"), [each for each in pattern.split("/") if each not in ("", ".")])


def _fit(names: list[str], patterns: list[str]) -> bool:
    """By dynamic programming: many `**` must not make it slow."""
    reached = {0}
    for pattern in patterns:
        if pattern == "**":
            reached = set(range(min(reached), len(names) + 1)) if reached else set()
        else:
            reached = {
                at + 1
                for at in reached
                if at < len(names) and fnmatch.fnmatchcase(names[at], pattern)
            }
    return len(names) in reached


def _found(entries: Sequence[Entry], pattern: str) -> str:
    if not entries:
        return f"No file fits {told(pattern)}.\n"
    lines = [_line(entry) for entry in entries]
    return _bounded(lines, f"Files that fit: {len(entries):,}\n")


def listing(entries: Sequence[Entry], folder: str) -> str:
    """A tree as lines, folders deeper than fits counted."""
    if not entries:
        return "The workspace is empty.\n" if not folder else f"{shown(folder)} is empty.\n"
    base = 0 if not folder else folder.count("/") + 1
    deepest = max(entry.path.count("/") - base for entry in entries)
    depth = deepest
    while depth > 0 and sum(e.path.count("/") - base <= depth for e in entries) > MOST_LISTED:
        depth -= 1
    inside: dict[str, tuple[int, int]] = {}
    for entry in entries:
        level = entry.path.count("/") - base
        if level > depth:
            above = "/".join(entry.path.split("/")[: base + depth + 1])
            count, size = inside.get(above, (0, 0))
            inside[above] = (count + (entry.type != "dir"), size + entry.size)
    listed = {entry.path for entry in entries}
    lines = [
        _line(entry, inside.get(entry.path))
        for entry in entries
        if entry.path.count("/") - base <= depth
    ]
    lines += [
        _line(Entry(above, "dir", 0o755), held)
        for above, held in inside.items()
        if above not in listed
    ]
    files = [entry for entry in entries if entry.type == "file"]
    size = sum(entry.size for entry in files)
    return _bounded(lines, f"{several(len(files), 'file')}, {amount(size)}:\n")


def _line(entry: Entry, inside: tuple[int, int] | None = None) -> str:
    name = shown(entry.path)
    if entry.type == "dir":
        more = "" if inside is None else f"  ({several(inside[0], 'file')}, {amount(inside[1])})"
        return f"{name}/{more}"
    if entry.type == "link":
        return f"{name} -> {shown(entry.target or '')[:200]}"
    return f"{name}  {amount(entry.size)}"


def _bounded(lines: list[str], head: str) -> str:
    room = RESULT_CHARACTERS - len(head) - 200
    said: list[str] = []
    for line in lines[:MOST_LISTED]:
        if len(line) + 1 > room:
            break
        room -= len(line) + 1
        said.append(f"{line}\n")
    left = len(lines) - len(said)
    more = f"… and {left:,} more; name a folder or a pattern to see them.\n" if left else ""
    return f"{head}{''.join(said)}{more}"
