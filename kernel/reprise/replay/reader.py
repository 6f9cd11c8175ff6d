"""Reads what a session's steps asked for: in words for people, and into a `causes.History`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Final

from reprise.log.model import REPLAYED, Json, Step
from reprise.log.store import LogReader, StepRecord
from reprise.replay.causes import History

#: Python files of one upload that are read for what their functions do, and bytes of each.
_MODULES: Final = 50
_MODULE_BYTES: Final = 100_000
#: Names of files of an upload that are listed.
_NAMED: Final = 5


class Sources:
    """The history of a session as far as somebody asked for it, read once and in order."""

    def __init__(self, reader: LogReader) -> None:
        self._reader = reader
        self._history = History()
        self._next = 0

    async def upto(self, seq: int) -> History:
        """What is known of the steps, those up to `seq` among them."""
        if seq < self._next:
            return self._history
        start, self._next = self._next, seq + 1
        async for record in self._reader.records(start, seq + 1, outputs=False):
            await self._read(record)
        return self._history

    async def _read(self, record: StepRecord) -> None:
        if record.outcome is None or record.outcome.status not in REPLAYED:
            return
        step = record.step
        if step.kind == "cell":
            self._history.cell(step.seq, source(record))
        elif step.kind == "command":
            self._history.command(step.seq, source(record))
        elif step.kind == "restart":
            self._history.restart(step.seq)
        elif step.kind == "upload":
            await self._modules(step)

    async def _modules(self, step: Step) -> None:
        entries = step.payload.get("entries")
        python = [
            each
            for each in (entries if isinstance(entries, list) else [])
            if isinstance(each, list)
            and len(each) == 5
            and each[1] == "file"
            and str(each[0]).endswith(".py")
            and each[3] <= _MODULE_BYTES
        ]
        for path, _type, _mode, _size, sha256 in python[:_MODULES]:
            text = (await self._reader.blobs.get(sha256)).decode("utf-8", "replace")
            name = str(path).removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            self._history.module(step.seq, name, text)


def source(record: StepRecord) -> str:
    """What a step asked for, for people: a cell's code, a command's line, an upload's files."""
    payload = record.step.payload
    kind = record.step.kind
    if kind == "cell":
        return str(_mapping(payload.get("content")).get("code", ""))
    if kind == "command":
        return _command(payload)
    if kind == "upload":
        return _upload(payload)
    if kind == "mount":
        return f"mount {payload.get('target')} ({_mounted(payload)})"
    if kind == "restart":
        return "reset" if payload.get("emptied") else "restart"
    header, content = _mapping(payload.get("header")), _mapping(payload.get("content"))
    named = content.get("target_name") or content.get("comm_id") or ""
    return f"{header.get('msg_type', kind)} {named}".rstrip()


def _mounted(payload: Mapping[str, Json]) -> str:
    skill = _mapping(payload.get("skill"))
    named = f"skill {skill['scope']}:{skill['name']}@{skill['version']}, " if skill else ""
    return f"{named}tree {str(payload.get('tree'))[:12]}"


def _command(payload: Mapping[str, Json]) -> str:
    if "stop" in payload:
        return f"stop command {payload['stop']}"
    argv = payload.get("argv")
    line = shlex.join(map(str, argv)) if isinstance(argv, list) else str(payload.get("shell") or "")
    return f"{line} &" if payload.get("background") else line


def _upload(payload: Mapping[str, Json]) -> str:
    entries = [each for each in payload.get("entries") or [] if isinstance(each, list) and each]
    removed = payload.get("removed") or []
    names = ", ".join(str(each[0]) for each in entries[:_NAMED])
    more = f" and {len(entries) - _NAMED} more" if len(entries) > _NAMED else ""
    text = f"{len(entries)} file(s) and folder(s): {names}{more}" if entries else ""
    gone = f"{len(removed)} removed" if removed else ""
    return "; ".join(part for part in (text, gone) if part) or "nothing"


def _mapping(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, Mapping) else {}
