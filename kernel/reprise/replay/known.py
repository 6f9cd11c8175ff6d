"""What is known of the states that a session's steps had left, for a replay to be compared with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from reprise.errors import LogCorrupt
from reprise.log.model import REPLAYED
from reprise.log.store import LogReader, StateRecord, StepSummary
from reprise.replay.executor import IN_PLACE
from reprise.replay.report import Against
from reprise.replay.states import compared
from reprise.replay.variables import Variables
from reprise.replay.variables import parse as parse_variables
from reprise.workspace.manifest import BadManifest, Entry, Manifest
from reprise.workspace.manifest import parse as parse_manifest

#: The latest so many recorded states are compared: looking costs up to some seconds each.
COMPARED: Final = 100

ReadFile = Callable[[Entry], Awaitable[bytes | None]]


@dataclass(frozen=True)
class Known:
    """A state to compare the replay's with, as it was after step `seq`.

    read: a file's bytes on that side, None where they cannot be had.
    since: of a second replay: the step after which each key ("name x", "file y") first differed.
    """

    seq: int
    against: Against
    files: Manifest | None
    variables: Variables | None
    at: int | None = None
    read: ReadFile | None = None
    since: Mapping[str, int] = field(default_factory=dict)


async def known_states(
    reader: LogReader,
    steps: Sequence[StepSummary],
    start: int,
    live: Known | None,
    *,
    isolated: bool,
) -> list[Known]:
    """What is known of states after steps from `start` on, the earliest first.

    isolated: whether the replay has a workspace of its own; without one, files are in no record.
    Raises LogCorrupt when a recorded manifest is damaged.
    """
    stop = len(steps)
    found: list[Known] = []
    recorded = [each for each in await reader.states() if start <= each.seq < stop]
    for record in recorded[-COMPARED:]:
        state = await of_record(reader, record, "recorded state")
        if state.files is not None or state.variables is not None:
            found.append(state)
    for step in steps[start:]:
        kept = step.kind == "restart" and step.status in REPLAYED and step.tree is not None
        if not kept or step.tree == IN_PLACE or not isolated:
            continue
        files = await _manifest(reader, str(step.tree))
        if len(files) or not found:
            found.append(Known(step.seq, "restart", files, None, read=_from_blobs(reader)))
    if live is not None and start <= live.seq < stop:
        found.append(live)
    return sorted(found, key=lambda each: each.seq)


async def of_record(reader: LogReader, record: StateRecord, against: Against) -> Known:
    """A state that was taken down, or that a running kernel has just told."""
    files = None if record.files is None else await _manifest(reader, record.files)
    variables: Variables | None = None
    if record.variables is not None:
        variables = parse_variables(record.variables)
    return Known(
        record.seq,
        against,
        files,
        variables,
        at=record.at,
        read=None if files is None else _from_blobs(reader),
    )


async def _manifest(reader: LogReader, sha256: str) -> Manifest:
    try:
        return compared(parse_manifest(await reader.blobs.get(sha256)))
    except BadManifest as error:
        raise LogCorrupt(f"The recorded manifest {sha256} is malformed: {error}") from error


def _from_blobs(reader: LogReader) -> ReadFile:
    async def read(entry: Entry) -> bytes | None:
        """Kept only if a step brought it in, or a restart kept its tree."""
        if entry.sha256 is None or await reader.blobs.missing([entry.sha256]):
            return None
        return await reader.blobs.get(entry.sha256)

    return read
