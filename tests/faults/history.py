"""A session as its client saw it, and whether the log and the state agree with that.

Each cell of a history leaves its *token* in a list of the interpreter (`ran`) and in a file
beside the notebook (`trace`), so that a cell that was lost, doubled, moved or run again shows.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from reprise.log.model import REPLAYED
from reprise.log.store import StepRecord
from tests.fixtures.kernel import Client, Kernel, Kernels, Ran, Recorded, is_state, shown_text

#: Errors by which Reprise itself says that a cell was not run (then it is no step, or `lost`).
REFUSED = frozenset(
    {"DatabaseUnavailable", "LeaseLost", "ResumeCancelled", "SandboxError", "UnavailableError"}
)

#: The first cell of a history, and after a restart.
BEGIN = "import time\nran = []\nopen('trace', 'a').close()"


@dataclass
class Sent:
    """A cell that was sent. reply: what its client was told, if anything; text: what it saw."""

    token: int
    msg_id: str
    reply: dict[str, object] | None = None
    text: str = ""
    whole: bool = False  # the idle came, so `text` is all of it


@dataclass
class History:
    """Sends cells, remembers what came back, and finds what does not agree with it."""

    kernels: Kernels
    kernel: Kernel
    client: Client
    cells: list[Sent] = field(default_factory=list)
    gone: set[int] = field(default_factory=set)  # interrupted steps that a resume left out

    @classmethod
    def begin(cls, kernels: Kernels, kernel: Kernel) -> History:
        client = kernel.client()
        assert client.run(BEGIN).status == "ok"
        return cls(kernels, kernel, client)

    @property
    def isolated(self) -> bool:
        return self.kernel.backend != "process"

    def send(self, body: str = "", **options: object) -> Sent:
        token = len(self.cells)
        mark = f"ran.append({token})\nwith open('trace', 'a') as f: _ = f.write('{token}\\n')\n"
        sent = Sent(token, self.client.execute(f"{mark}{body}", **options))
        self.cells.append(sent)
        return sent

    def run(self, body: str = "", **options: object) -> Ran:
        sent = self.send(body, **options)
        ran = self.client.finish(sent.msg_id)
        self.learn()
        return ran

    def finish(self) -> None:
        """Wait until every cell that was sent has its reply and its idle."""
        for sent in self.cells:
            if not sent.whole:
                self.client.finish(sent.msg_id)
        self.learn()

    def learn(self) -> None:
        """Take in what has come from the kernel, also when it is dead by now."""
        while self.client.sockets and self.client.pump(0):
            pass
        waiting = {sent.msg_id: sent for sent in self.cells if not sent.whole}
        for heard in self.client.heard:
            sent = waiting.get(heard.parent or "")
            if sent is None:
                continue
            if heard.channel == "shell":
                sent.reply = heard.content
            elif heard.type == "stream":
                sent.text += str(heard.content["text"])
            elif is_state(heard, "idle"):
                sent.whole = True
        for sent in waiting.values():
            if not sent.whole:
                sent.text = ""  # read again from the beginning when more has come

    def again(self, **env: str) -> None:
        """The router is gone: learn what it had said, and start the next one."""
        self.learn()
        for sent in self.cells:
            sent.whole = True  # nothing more comes
        self.kernel = self.kernels.again(self.kernel, **env)
        self.client = self.kernel.client()

    # judging

    def state(self) -> tuple[list[int], list[int]]:
        """Tokens in the interpreter and in the file, asked with a cell of its own.

        Cells that die with a sandbox that was just killed are asked again: that is promised.
        """
        while True:
            ran = self.client.run("print((ran, [int(t) for t in open('trace').read().split()]))")
            if ran.error not in ("SandboxDied", *REFUSED):
                break
        assert ran.status == "ok", ran.reply
        found: tuple[list[int], list[int]] = ast.literal_eval(ran.text())
        return found

    def violations(self, state: tuple[list[int], list[int]] | None = None) -> list[str]:
        """What contradicts the guarantees, in words; asks the live kernel if no state is given."""
        self.learn()
        in_memory, in_file = state or self.state()
        recorded = self.kernels.read(self.kernel)
        return [
            *_of_the_log(recorded),
            *self._of_the_record(recorded),
            *self._of_the_state(recorded, in_memory, in_file),
        ]

    def _of_the_record(self, recorded: Recorded) -> Iterator[str]:
        by_id: dict[str, list[StepRecord]] = {}
        for record in recorded.cells:
            by_id.setdefault(record.step.payload["header"]["msg_id"], []).append(record)
        last = -1
        for sent in self.cells:
            found = by_id.get(sent.msg_id, [])
            if len(found) > 1:
                yield f"cell {sent.token} is {len(found)} steps"
            if found:
                if found[0].step.seq < last:
                    yield f"cell {sent.token} is out of order"
                last = found[0].step.seq
            yield from _told_and_stored(sent, found[0] if found else None)

    def _of_the_state(
        self, recorded: Recorded, in_memory: list[int], in_file: list[int]
    ) -> Iterator[str]:
        ids = {sent.msg_id: sent.token for sent in self.cells}
        since, ever = list[tuple[int, str]](), list[tuple[int, str]]()
        for record in recorded.steps:
            if record.step.kind == "restart":
                since.clear()
            if record.step.kind != "cell" or record.outcome is None:
                continue
            token = ids.get(record.step.payload["header"]["msg_id"])
            if token is not None:
                since.append((token, record.outcome.status))
                ever.append((token, record.outcome.status))
        yield from self._compared("memory", since, in_memory)
        if self.isolated:
            yield from self._compared("the workspace", ever, in_file)
        else:
            # The file lies outside what a replay rebuilds: it counts how often each cell ran.
            for token, status in ever:
                if status in ("lost", "died") and in_file.count(token) > 1:
                    yield f"cell {token} ended as {status} and was run again"

    def _compared(
        self, where: str, steps: list[tuple[int, str]], found: list[int]
    ) -> Iterator[str]:
        expected = []
        for token, status in steps:
            # An interrupted step keeps what it did until the state has to be built again.
            kept = status == "interrupted" and token in found and token not in self.gone
            if status in REPLAYED or kept:
                expected.append(token)
        if where == "memory":
            self.gone |= {t for t, s in steps if s == "interrupted" and t not in found}
        if found != expected:
            yield f"in {where} stand the cells {found}, by the log it is {expected}"


def _of_the_log(recorded: Recorded) -> Iterator[str]:
    if recorded.report.fault is not None:
        yield f"the chain is broken: {recorded.report.fault}"
    open_steps = [r.step.seq for r in recorded.steps if r.outcome is None]
    if open_steps:
        yield f"steps without an outcome: {open_steps}"
    last = 0
    for record in recorded.steps:
        if record.step.kind == "restart":
            last = 0
        count = None if record.outcome is None else record.outcome.new.execution_count
        # Beside each other, cells of subshells share numbers, as in ipykernel.
        beside = bool(record.step.payload.get("header", {}).get("subshell_id"))
        if count is not None and not beside:
            if count <= last:
                yield f"step {record.step.seq} has prompt number {count} after {last}"
            last = count


def _told_and_stored(sent: Sent, record: StepRecord | None) -> Iterator[str]:
    """Whether what the client was told of a cell is what the log holds."""
    stored = None if record is None or record.outcome is None else record.outcome.status
    if sent.reply is None:
        return  # nothing was acknowledged, anything but a second run may be true
    status, name = str(sent.reply["status"]), str(sent.reply.get("ename", ""))
    allowed: tuple[str | None, ...]
    if status == "ok":
        allowed = ("ok", "interrupted")
    elif status == "aborted":
        allowed = (None,)
    elif name == "SandboxDied":
        allowed = ("died", None)
    elif name in REFUSED:
        allowed = (None, "lost")
    elif name == "KeyboardInterrupt":
        allowed = ("interrupted",)
    else:
        allowed = ("error",)
    if stored not in allowed:
        yield f"cell {sent.token} was told as {status} {name}, the log has {stored}"
    if stored in REPLAYED and sent.whole and record is not None and status in ("ok", "error"):
        shown = shown_text(record)
        if sent.text and shown != sent.text:
            yield f"cell {sent.token} showed {sent.text[-80:]!r}, the log has {shown[-80:]!r}"


def trace_of(folder: Path) -> list[int]:
    """Tokens in the trace of a notebook folder (process backend)."""
    return [int(word) for word in (folder / "trace").read_text().split()]
