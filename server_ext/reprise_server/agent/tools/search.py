"""The tool `search_files`: lines of the workspace's text files that a pattern fits, nothing run.

The host reads the files and looks itself, so a search makes no step and waits for none. Patterns
are RE2's: their time is linear in what is searched, whatever a pattern says; how large a compiled
one may be, how much is read and how long it takes are bounded too.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from reprise.client import KernelGone, NoAnswer
from reprise.errors import RepriseError, UnavailableError
from reprise.log.model import Json
from reprise.quantities import amount
from reprise.workspace.manifest import Entry, shown
from reprise_server.agent.contract import RESULT_CHARACTERS, Act, BadCall, Call, Result, Situation
from reprise_server.agent.tools.paths import OWN, told
from reprise_server.agent.tools.reading import MOST_BYTES, Files, fits
from reprise_server.agent.tools.schemas import fields, texts
from reprise_server.agent.tools.shown import blocks, harmless, several

#: Characters of a pattern, and instructions that it may compile to: a repetition of a repetition
#: is long, and where RE2's automaton outgrows its memory each byte costs as many steps.
MOST_PATTERN: Final = 1_000
MOST_PROGRAM: Final = 2_000
#: Bytes of the automaton's memory.
_MEMORY: Final = 1 << 20
#: Bytes that are searched between two looks at the clock; a longer line is cut.
PIECE: Final = 32 << 10
#: Files and bytes of one search, and seconds for all of it.
MOST_FILES: Final = 5_000
MOST_READ: Final = 64 << 20
SECONDS: Final = 15.0
#: Files that an act names one by one. With more it is of the whole workspace, as policies see it.
MOST_NAMED: Final = 200
ANY: Final = ""
#: Lines that are shown, and that are counted.
MOST_SHOWN: Final = 200
MOST_COUNTED: Final = 10_000
#: Characters of one line that are shown.
_LINE: Final = 300
#: Files that are fetched at once.
_AT_ONCE: Final = 8


class Match(Protocol):
    """What of `re2`'s matches is used."""

    def start(self) -> int: ...


class Pattern(Protocol):
    """What of `re2`'s patterns is used. programsize: instructions."""

    @property
    def programsize(self) -> int: ...

    def search(self, text: bytes, pos: int = 0) -> Match | None: ...


@dataclass
class Found:
    """lines: path, number from 1 and text of those that are shown.  count: of all that fit.
    left_out: why not everything was looked at, by reason, how many files."""

    lines: list[tuple[str, int, str]] = field(default_factory=list)
    count: int = 0
    searched: int = 0
    left_out: dict[str, int] = field(default_factory=dict)

    def leave_out(self, why: str, files: int = 1) -> None:
        if files:
            self.left_out[why] = self.left_out.get(why, 0) + files

    @property
    def full(self) -> bool:
        return self.count >= MOST_COUNTED


class SearchFiles:
    """Looks through text files with a regular expression."""

    name = "search_files"
    description = (
        "Search the text files of the session's workspace for lines that a regular expression fits."
        " Each is shown as path:line: text. Nothing is run, and a running cell is not waited for."
    )
    schema = fields(
        {
            "pattern": texts(
                "The regular expression in RE2's syntax (no look-around, no back-references), such"
                " as def \\w+_total; (?i) in front of it ignores case."
            )
        },
        {"files": texts("Only files that fit this pattern, such as *.py or src/**. Default: all.")},
    )

    def __init__(self, files: Files) -> None:
        self._files = files

    async def act(self, given: Mapping[str, Json], situation: Situation) -> Act:  # noqa: ARG002
        compiled(given["pattern"])
        among, found = await self._among(given)
        if not among and not found.left_out:
            pattern = given.get("files")
            where = f" fits {told(pattern)}" if pattern else " is there"
            raise BadCall(f"No file{where}. list_files shows what is in the workspace.")
        paths = tuple(entry.path for entry in among)
        return Act(
            self.name,
            "read",
            dict(given),
            "search the files",
            paths=paths if len(paths) <= MOST_NAMED else (ANY,),
        )

    async def run(self, call: Call, act: Act) -> Result:
        pattern = compiled(call.input["pattern"])
        among, found = await self._among(call.input)
        if act.paths != (ANY,):
            # Only what was looked at when it was allowed.
            among = [entry for entry in among if entry.path in act.paths]
        read = await self._search(pattern, among, found)
        taints = await self._files.taints(read, call.situation)
        return Result(blocks(_told(found)), taints=taints)

    async def _among(self, given: Mapping[str, Json]) -> tuple[list[Entry], Found]:
        pattern = await self._pattern(given)
        entries = await self._files.there(own=pattern.startswith(f"{OWN}/"))
        return _among(entries, pattern)

    async def _pattern(self, given: Mapping[str, Json]) -> str:
        """Which files are meant: a path that begins in the workspace's own place is understood."""
        pattern = given.get("files") or ""
        if not pattern.startswith("/"):
            return str(pattern)
        root = (await self._files.place.surroundings()).workspace.rstrip("/")
        if not pattern.startswith(f"{root}/"):
            raise BadCall(f"{told(pattern)} is outside of the workspace, {root}.")
        return str(pattern[len(root) + 1 :])

    async def _search(self, pattern: Pattern, among: Sequence[Entry], found: Found) -> list[str]:
        """Look through the files, in order; the paths of those that were read."""
        deadline = time.monotonic() + SECONDS
        read: list[str] = []
        for at in range(0, len(among), _AT_ONCE):
            if found.full or time.monotonic() > deadline:
                why = "enough was found" if found.full else f"{SECONDS:g} s were over"
                found.leave_out(why, len(among) - at)
                break
            batch = among[at : at + _AT_ONCE]
            contents = await asyncio.gather(*(self._content(entry) for entry in batch))
            for entry, data in zip(batch, contents, strict=True):
                if data is None:
                    found.leave_out("could not be read")
                elif b"\0" in data[:8_192]:
                    found.leave_out("no text")
                else:
                    read.append(entry.path)
                    await asyncio.to_thread(search, pattern, entry.path, data, found, deadline)
        return read

    async def _content(self, entry: Entry) -> bytes | None:
        workspace = await self._files.place.workspace()
        try:
            data = await workspace.read(entry.path, limit=MOST_BYTES)
        except (KernelGone, NoAnswer):
            raise
        except RepriseError:
            return None  # it has gone, or grown, since the list was made
        return data.replace(b"\r\n", b"\n")


def compiled(pattern: str) -> Pattern:
    """Raises BadCall."""
    if not pattern:
        raise BadCall("`pattern` is empty. Give a regular expression, or a word to find.")
    if len(pattern) > MOST_PATTERN:
        raise BadCall(f"`pattern` has {len(pattern):,} characters; {MOST_PATTERN:,} are the most.")
    try:
        # An extra; and most conversations search nothing.
        import re2  # type: ignore[import-untyped] # noqa: PLC0415
    except ImportError as error:
        raise UnavailableError(
            "Searching files needs google-re2: pip install 'jupyter-reprise[agent]'."
        ) from error
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.never_nl = True  # lines are searched, not across them
    options.max_mem = _MEMORY
    try:
        made: Pattern = re2.compile(b"(?m)" + pattern.encode("utf-8"), options)
    except (re2.error, UnicodeEncodeError) as error:
        why = error.args[0] if isinstance(error, re2.error) and error.args else "no text"
        said = why.decode("utf-8", "replace") if isinstance(why, bytes) else str(why)
        raise BadCall(
            f"`pattern` is no regular expression as RE2 has them: {said[:200]}. Look-around and"
            f" back-references are not there. To find the text itself, write {_escaped(pattern)}."
        ) from None
    size = made.programsize
    if size > MOST_PROGRAM:
        raise BadCall(
            f"`pattern` is too large: its repetitions unfold to {size:,} instructions and"
            f" {MOST_PROGRAM:,} are the most. Use * or +, or smaller counts."
        )
    return made


def _escaped(pattern: str) -> str:
    return shown(re.escape(pattern[:100]))


def _among(entries: Sequence[Entry], pattern: str) -> tuple[list[Entry], Found]:
    """The files to look through, and what is left out of it already."""
    found = Found()
    among: list[Entry] = []
    size = 0
    for entry in entries:
        if entry.type != "file" or (pattern and not fits(entry.path, pattern)):
            continue
        if entry.size > MOST_BYTES:
            found.leave_out(f"larger than {amount(MOST_BYTES)}")
        elif len(among) == MOST_FILES or size + entry.size > MOST_READ:
            found.leave_out(f"over {MOST_FILES:,} files or {amount(MOST_READ)}; search narrower")
        else:
            size += entry.size
            among.append(entry)
    return among, found


def search(pattern: Pattern, path: str, data: bytes, found: Found, deadline: float) -> None:
    """Add a file's lines that fit. Blocks, for little longer than until `deadline`."""
    found.searched += 1
    number = 1
    at = 0
    while at < len(data) and not found.full:
        if time.monotonic() > deadline:
            found.leave_out(f"{SECONDS:g} s were over")
            return
        end = data.rfind(b"\n", at, at + PIECE) + 1
        if end <= at:
            end = min(at + PIECE, len(data))
        piece = data[at:end]
        _search_piece(pattern, path, piece, number, found)
        number += piece.count(b"\n")
        at = end


def _search_piece(pattern: Pattern, path: str, piece: bytes, first: int, found: Found) -> None:
    at = 0
    number, counted = first, 0
    while at < len(piece) and not found.full:
        match = pattern.search(piece, at)
        if match is None:
            return
        start = match.start()
        number += piece.count(b"\n", counted, start)
        begin = piece.rfind(b"\n", 0, start) + 1
        end = piece.find(b"\n", start)
        end = len(piece) if end < 0 else end
        if begin == len(piece):
            return  # behind the last line break is no line
        found.count += 1
        if len(found.lines) < MOST_SHOWN:
            text = piece[begin : min(end, begin + 4 * _LINE)].decode("utf-8", "replace")
            found.lines.append((path, number, text))
        number += 1
        at = counted = end + 1


def _told(found: Found) -> str:
    more = "+" if found.full else ""
    said = [f"Lines that fit: {found.count:,}{more}, in {several(found.searched, 'file')}.\n"]
    room = RESULT_CHARACTERS - 1_000
    shown_lines = 0
    for path, number, text in found.lines:
        line = harmless(text)
        cut = f"{line[:_LINE]}…" if len(line) > _LINE else line
        piece = f"{shown(path)}:{number}: {cut}\n"
        if len(piece) > room:
            break
        room -= len(piece)
        said.append(piece)
        shown_lines += 1
    if shown_lines < found.count:
        said.append(f"[{found.count - shown_lines:,} more are not shown; search narrower.]\n")
    for why, files in found.left_out.items():
        said.append(f"[{several(files, 'file')} not searched: {why}]\n")
    return "".join(said)
