"""A session as a plain notebook: its cells with what they showed, and notes for what is no cell."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from typing import Final

import nbformat

from reprise.bundle.outputs import Outputs, clean
from reprise.log.model import Json
from reprise.log.reader import Reader
from reprise.log.store import SessionInfo, StepRecord
from reprise.workspace.manifest import shown

#: What nbformat takes for the id of a cell.
CELL_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
#: Files of an upload that are named one by one.
_NAMED: Final = 50

#: Why a cell has no place in a state that was built again.
_ENDED: Final = {
    "died": "its sandbox died, so it was rolled back",
    "lost": "the kernel went away in it, so it was rolled back",
    "interrupted": "it was interrupted",
    "timeout": "it ran over its time",
}


async def as_notebook(reader: Reader, *, attached: bool = False) -> tuple[bytes, int]:
    """The bytes of the notebook, and how many of its cells hold code.

    attached: opened with Reprise's kernel, it goes on with the session.
    """
    info = await reader.info()
    notebook = _Notebook()
    async for record in reader.records():
        notebook.add(record)
    metadata = await kernel_metadata(reader, info, attached=attached)
    if attached:
        metadata["reprise"] = {"session": str(reader.session)}
    whole = nbformat.from_dict(  # type: ignore[no-untyped-call]
        {"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": notebook.cells}
    )
    nbformat.validate(whole)
    text = json.dumps(whole, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
    return clean(text).encode("utf-8") + b"\n", notebook.codes


async def kernel_metadata(reader: Reader, info: SessionInfo, *, attached: bool) -> dict[str, Json]:
    """Which kernel a session's notebook says it is of. attached: Reprise's own."""
    metadata: dict[str, Json] = {}
    if info.environment is not None:
        spec = await reader.environment(info.environment)
        metadata = _kernelspec(spec, info.kernel)
    if attached:
        metadata["kernelspec"] = {"name": "reprise", "display_name": "Python 3 (Reprise)"}
        if info.kernel != "python3":
            name = f"reprise-{info.kernel}"
            metadata["kernelspec"] = {"name": name, "display_name": name}
    return metadata


def _kernelspec(spec: Mapping[str, Json], kernel: str) -> dict[str, Json]:
    described = spec.get("kernel")
    language = described.get("language") if isinstance(described, Mapping) else None
    named: dict[str, Json] = {"name": kernel, "display_name": kernel}
    if not isinstance(language, str):
        return {"kernelspec": named}
    return {"kernelspec": {**named, "language": language}, "language_info": {"name": language}}


class _Notebook:
    """Cells as they come; a later one may still change what an earlier one shows."""

    def __init__(self) -> None:
        self.cells: list[dict[str, Json]] = []
        self.codes = 0
        self._ids: set[str] = set()
        self._displays: dict[str, list[dict[str, Json]]] = {}

    def add(self, record: StepRecord) -> None:
        kind = record.step.kind
        if kind == "cell":
            self._cell(record)
        elif kind == "command":
            self._command(record)
        elif kind != "comm":
            self._note(record, note(record))

    def _cell(self, record: StepRecord) -> None:
        content = record.step.payload["content"]
        if content.get("silent") or content.get("store_history") is False:
            return  # what a front end asks for itself
        self._code(record, str(content["code"]))

    def _command(self, record: StepRecord) -> None:
        if "stop" in record.step.payload:
            self._note(record, note(record))
        else:
            self._code(record, bash_cell(record.step.payload))

    def _code(self, record: StepRecord, source: str) -> None:
        outcome = record.outcome
        count = None if outcome is None else outcome.new.execution_count
        shown = Outputs(self._displays, count)
        for entry in (*record.outputs, *record.late):
            shown.add(entry)
        agent = record.step.new.actor.kind == "agent"
        self.cells.append(
            {
                "cell_type": "code",
                "id": self._id(record),
                "metadata": {"tags": ["agent"]} if agent else {},
                "source": clean(source),
                "execution_count": count,
                "outputs": shown.list,
            }
        )
        self.codes += 1
        if outcome is not None and outcome.status in _ENDED:
            self._note(record, f"*Step {record.step.seq}: {_ENDED[outcome.status]}.*")

    def _note(self, record: StepRecord, text: str) -> None:
        cell = {"cell_type": "markdown", "id": self._id(record, "note-"), "metadata": {}}
        self.cells.append({**cell, "source": clean(text)})

    def _id(self, record: StepRecord, prefix: str = "") -> str:
        """The id that the cell had in its notebook, if it is free, else one by its digest."""
        metadata = record.step.payload.get("metadata")
        own = metadata.get("cellId") if isinstance(metadata, Mapping) else None
        digest = f"{prefix}{record.step.digest.hex()[:16]}"
        fits = isinstance(own, str) and CELL_ID.fullmatch(own) and own not in self._ids
        chosen = str(own) if fits and not prefix else digest
        self._ids.add(chosen)
        return chosen


def bash_cell(payload: Mapping[str, Json]) -> str:
    """A command as a cell that IPython can run."""
    argv = payload.get("argv")
    lines = ["%%bash"]
    if payload.get("cwd") is not None:
        lines.append(f"cd {shlex.quote(str(payload['cwd']))}")
    for name, value in sorted((payload.get("env") or {}).items()):
        lines.append(f"export {name}={shlex.quote(str(value))}")
    if payload.get("stdin") is not None:
        lines.append(f"# its stdin was the blob {payload['stdin']}")
    if payload.get("background"):
        lines.append("# it ran in the background")
    lines.append(shlex.join(map(str, argv)) if argv is not None else str(payload.get("shell")))
    return "\n".join(lines)


def note(record: StepRecord) -> str:
    """What a step that is no code did, in Markdown."""
    payload, kind = record.step.payload, record.step.kind
    if kind == "restart":
        files = "its files were removed" if payload.get("emptied") else "its files stayed"
        return f"---\n*Here the interpreter was started afresh; {files}.*"
    if kind == "mount":
        return f"*Mounted at `{payload['target']}`: the files of tree `{payload['tree']}`.*"
    if kind == "command":
        return f"*Background command {payload.get('stop')} was ended.*"
    lines = [
        f"- `{shown(str(path))}`" + (f" ({size:,} bytes)" if type_ == "file" else f" ({type_})")
        for path, type_, _, size, _ in payload["entries"][:_NAMED]
    ]
    lines += [f"- `{shown(str(path))}` removed" for path in payload["removed"][:_NAMED]]
    more = len(payload["entries"]) + len(payload["removed"]) - len(lines)
    lines += [f"- and {more:,} more"] if more else []
    return "*Files came in:*\n\n" + "\n".join(lines)
