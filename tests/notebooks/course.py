"""Runs a notebook's cells on a kernel, kills parts of it on the way, and keeps what came out."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reprise.log.model import OutputEntry, sha256_hex
from reprise.log.store import StepRecord
from reprise.replay.message import UNRECORDED
from tests.fixtures.kernel import Client, Kernel, KernelEnded, Kernels, Ran

#: Seconds that a cell of a real notebook may take, the way back before it included.
CELL_S = 900.0

FINGERPRINT = Path(__file__).with_name("fingerprint.py").read_text()


@dataclass
class Kill:
    """SIGKILL to a part while cell number `at` runs, `after_s` seconds after it was sent."""

    at: int
    part: str
    after_s: float
    became: str = ""

    def __str__(self) -> str:
        return f"{self.part} at cell {self.at + 1} after {self.after_s:.2f} s: {self.became}"


@dataclass(frozen=True)
class Cell:
    """A cell as it went at its last run.

    shown: what the client got; None when the router died between the outcome and the telling.
    record: what the log has.
    """

    code: str
    seconds: float
    prompt: int | None
    shown: list[OutputEntry] | None
    record: StepRecord


@dataclass
class Run:
    """One course through a notebook. back_s: seconds from each kill to the cell's next start."""

    session: uuid.UUID
    kills: tuple[Kill, ...] = ()
    cells: list[Cell] = field(default_factory=list)
    variables: dict[str, list[str]] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    back_s: float = 0.0


def run_notebook(
    kernels: Kernels,
    codes: Sequence[str],
    folder: Path,
    backend: str,
    kills: Sequence[Kill] = (),
) -> Run:
    """From a new session to its kernel's shutdown."""
    began = time.monotonic()
    course = _Course(kernels, kernels(backend, folder=folder))
    planned = {kill.at: kill for kill in kills}
    ran = [course.cell(code, planned.get(at)) for at, code in enumerate(codes)]
    found = Run(course.kernel.session, tuple(kills), back_s=course.back_s)
    printed = course.client.prints(FINGERPRINT, store_history=False)
    found.variables = json.loads(printed)
    listed = course.client.ask(
        "workspace_request", {"op": "list", "hashes": True}, channel="control"
    )
    found.files = _files(listed)
    course.kernel.shutdown()
    found.seconds = time.monotonic() - began
    recorded = kernels.database.read(found.session)
    by_id = {r.step.payload["header"]["msg_id"]: r for r in recorded.cells}
    for code, (result, seconds) in zip(codes, ran, strict=True):
        record = by_id[result.msg_id]
        found.cells.append(
            Cell(
                code,
                seconds,
                None if record.outcome is None else record.outcome.new.execution_count,
                shown(result) if result.reply else None,
                record,
            )
        )
    return found


class _Course:
    """A kernel, or the next one on the same session when it was killed."""

    def __init__(self, kernels: Kernels, kernel: Kernel) -> None:
        self._kernels = kernels
        self.kernel = kernel
        self.client: Client = kernel.client()
        self.back_s = 0.0
        self._kills: list[Kill] = []

    def cell(self, code: str, kill: Kill | None) -> tuple[Ran, float]:
        """Run a cell to its end, again when it was rolled back; and how long its last run took."""
        if kill is not None:
            self._kills.append(kill)
            return self._killed(code, kill)
        began = time.monotonic()
        ran = self.client.run(code, CELL_S, stop_on_error=False)
        if ran.error == "SandboxDied" and self._kills:
            # A killed sandbox takes a moment to be gone, and quick cells may still get through.
            self._kills[-1].became = "a later cell rolled back, run again"
            return self._again(code)
        return ran, time.monotonic() - began

    def _killed(self, code: str, kill: Kill) -> tuple[Ran, float]:
        """Run a cell and kill on the way; what its last run brought."""
        began = time.monotonic()
        msg_id = self.client.execute(code, stop_on_error=False)
        timer = threading.Timer(kill.after_s, self.kernel.kill, [kill.part])
        timer.start()
        ran: Ran | None = None
        try:
            ran = self.client.finish(msg_id, CELL_S)
            took = time.monotonic() - began
        except KernelEnded:
            took = time.monotonic() - began
        timer.join()
        if kill.part == "router":
            self.kernel = self._kernels.again(self.kernel)
            self.client = self.kernel.client()
        if ran is not None and ran.error != "SandboxDied":
            kill.became = "it had ended"
            return ran, took
        if ran is None and self._recorded(msg_id) in ("ok", "error"):
            # Its outcome was stored, but the client was not told: its effects stand.
            kill.became = "it had ended, untold"
            return Ran(msg_id, {}, []), took
        kill.became = "rolled back, run again" if ran is not None else "lost, run again"
        return self._again(code)

    def _again(self, code: str) -> tuple[Ran, float]:
        """Run a rolled-back cell again, timing the way back to where it can start."""
        began = time.monotonic()
        msg_id = self.client.execute(code, stop_on_error=False)
        self.client.wait(lambda h: h.parent == msg_id and h.type == "execute_input", CELL_S)
        self.back_s += time.monotonic() - began
        return self.client.finish(msg_id, CELL_S), time.monotonic() - began

    def _recorded(self, msg_id: str) -> str | None:
        for record in reversed(self._kernels.read(self.kernel).cells):
            if record.step.payload["header"]["msg_id"] == msg_id:
                return None if record.outcome is None else record.outcome.status
        return None


def shown(ran: Ran) -> list[OutputEntry]:
    """What the client was shown, without the progress of a way back, which clears itself."""
    entries: list[OutputEntry] = []
    ours = False
    for heard in ran.heard:
        kind, content, message = heard.type, heard.content, heard.message
        if heard.channel != "iopub" or kind in UNRECORDED:
            continue
        transient = content.get("transient")
        name = transient.get("display_id", "") if isinstance(transient, dict) else ""
        if str(name).startswith("reprise-"):
            ours = True
            continue
        if kind == "clear_output" and ours:
            ours = False
            continue
        buffers = tuple(sha256_hex(bytes(buffer)) for buffer in message["buffers"])
        entries.append(OutputEntry(kind, content, message["metadata"], buffers))
    return entries


def _files(listed: dict[str, Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    for path, *what in listed["entries"]:
        if not {"__pycache__", ".ipynb_checkpoints"} & set(path.split("/")):
            found[path] = json.dumps(what)
    return found
