"""Compares a state of the replay with another one: files and variables, with likely causes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, Literal

from reprise.errors import GuestCallFailed, TooLarge
from reprise.log.postgres import now_us
from reprise.log.store import LogReader
from reprise.replay import variables
from reprise.replay.causes import Cause, History
from reprise.replay.difference import excerpts
from reprise.replay.known import Known, ReadFile
from reprise.replay.passage import State
from reprise.replay.reader import Sources
from reprise.replay.report import Compared, FileDifference, NameDifference, StateReport
from reprise.replay.shapes import Shape, shapes_of_texts
from reprise.replay.variables import Variable, VariableDifference
from reprise.replay.volatile import compare_texts
from reprise.sandbox.connection import Guest
from reprise.workspace.manifest import Entry, Manifest
from reprise.workspace.transfer import read_file

#: Files whose texts are compared, and bytes of each.
READ: Final = 40
READ_BYTES: Final = 256 << 10
#: Differences listed of one kind of thing; the rest are counted.
LISTED: Final = 500

_TOO_MUCH: Final = "the workspace is too large to be read through"
_OTHER: Final = "variables of this language cannot be compared"


class States:
    """Compares states and keeps the reports, in order."""

    def __init__(self, reader: LogReader, sources: Sources) -> None:
        self._reader = reader
        self._sources = sources
        self.reports: list[StateReport] = []

    async def compare(self, known: Known, state: State, guest: Guest) -> None:
        """Compare a state of the replay, whose sandbox `guest` still stands there, with `known`."""
        history = await self._sources.upto(known.seq)
        found = StateReport(
            known.seq,
            known.against,
            await self._files(known, state, guest, history),
            self._variables(known, state, history),
            known.at,
        )
        self.reports.append(found)

    def differing(self) -> dict[str, int]:
        """Names that are known to differ, and the step since which they do."""
        found: dict[str, int] = {}
        for report in self.reports:
            for each in report.variables.different:
                if each.since is not None and not each.volatile:
                    earlier = found.get(each.found.name, each.since)
                    found[each.found.name] = min(earlier, each.since)
        return found

    @staticmethod
    def not_chance(outside: Sequence[str]) -> Cause:
        """Why a step differs from the record though two replays agree."""
        text = "Two replays agree with each other, so this is not chance: something outside changed"
        if outside:
            text += f" ({'; '.join(outside[:5])})"
        return Cause(
            "outside",
            f"{text}.",
            "Compare packages, data and the machine with those of the first run.",
        )

    # files -----------------------------------------------------------------------------------

    async def _files(
        self, known: Known, state: State, guest: Guest, history: History
    ) -> Compared[FileDifference]:
        if known.files is None:
            return Compared(why=_why_no_files(known))
        if state.files is None:
            return Compared(why=_TOO_MUCH)
        differences = file_differences(known.files, state.files)
        told: list[FileDifference] = []
        for number, each in enumerate(differences[:LISTED]):
            found = replace(each, since=known.since.get(f"file {each.path}"))
            if number < READ and each.kind == "content" and known.read is not None:
                found = await self._with_diff(found, known.read, guest, known.at or now_us())
            upto = known.seq if found.since is None else found.since
            told.append(replace(found, causes=history.of_file(found.path, upto)))
        files = [entry for entry in known.files if entry.type == "file"]
        unlike = {each.path for each in differences}
        same = sum(entry.path not in unlike for entry in files)
        unknown = {}
        if len(differences) > LISTED:
            unknown["…"] = f"{len(differences) - LISTED} more differences are not listed"
        return Compared(same, tuple(told), unknown)

    async def _with_diff(
        self, found: FileDifference, read: ReadFile, guest: Guest, at: int
    ) -> FileDifference:
        if found.before is None or found.after is None:
            return found
        if max(found.before.size, found.after.size) > READ_BYTES:
            return found
        old = await read(found.before)
        new = await self.read(guest, found.after)
        if old is None or new is None:
            return found
        try:
            before, after = old.decode(), new.decode()
        except UnicodeDecodeError:
            return found
        verdict, _ = compare_texts(before, after, moments=(at, now_us()))
        return replace(found, diff=excerpts(before, after)[2], volatile=verdict == "volatile")

    @staticmethod
    async def read(guest: Guest, entry: Entry) -> bytes | None:
        """A file of a sandbox that still stands; None when it cannot be read."""
        try:
            return await read_file(guest, entry.path, READ_BYTES)
        except (GuestCallFailed, TooLarge):
            return None

    # variables -------------------------------------------------------------------------------

    def _variables(self, known: Known, state: State, history: History) -> Compared[NameDifference]:
        if known.variables is None:
            restart = known.against == "restart"
            return Compared(why="its interpreter had ended" if restart else _OTHER)
        if state.variables is None:
            return Compared(why=_OTHER)
        found = variables.compare(known.variables, state.variables)
        told = [
            self._name(each, known.seq, known.since, history) for each in found.different[:LISTED]
        ]
        return Compared(len(found.same), tuple(told), found.unknown)

    @staticmethod
    def _name(
        found: VariableDifference, seq: int, since: Mapping[str, int], history: History
    ) -> NameDifference:
        first = since.get(f"name {found.name}")
        setter = history.setter(found.name, seq if first is None else first)
        before, after = found.before, found.after
        shapes: tuple[Shape, ...] = ()
        volatile = False
        if before is not None and after is not None and found.kind == "value":
            shapes = shapes_of_texts(before.preview, after.preview)
            volatile = _only_volatile(before, after)
        upto = seq if first is None else first
        causes = history.of_variable(found.name, upto, shapes)
        return NameDifference(found, volatile, setter if first is None else first, causes)


def _only_volatile(before: Variable, after: Variable) -> bool:
    """Whether a short value, seen whole, differs in times, addresses and the like only."""
    if before.shape is not None and before.type != "str":
        return False
    if max(len(before.preview), len(after.preview)) >= 100:
        return False
    if before.type in _CLOCKS:
        return True
    return compare_texts(before.preview, after.preview)[0] == "volatile"


#: Values of these types that differ are readings of a clock.
_CLOCKS: Final = frozenset({"datetime.datetime", "pandas.Timestamp", "uuid.UUID"})


def _why_no_files(known: Known) -> str:
    if known.against == "recorded state":
        return "its files were not taken down (too many, or no sandbox of its own)"
    return _TOO_MUCH


def file_differences(before: Manifest, after: Manifest) -> list[FileDifference]:
    """What is not the same in two trees, in path order."""
    found: list[FileDifference] = []
    for path in sorted({*before.by_path, *after.by_path}):
        old, new = before.get(path), after.get(path)
        if old == new:
            continue
        found.append(FileDifference(path, _kind(old, new), old, new))
    return found


def _kind(
    old: Entry | None, new: Entry | None
) -> Literal["missing", "extra", "content", "mode", "type", "link"]:
    if old is None:
        return "extra"
    if new is None:
        return "missing"
    if old.type != new.type:
        return "type"
    if old.type == "link" and old.target != new.target:
        return "link"
    return "mode" if (old.size, old.sha256) == (new.size, new.sha256) else "content"
