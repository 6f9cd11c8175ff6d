"""Asks for steps until their answers have come, however many kernels that takes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TypedDict, TypeVar

from reprise.client.failures import KernelGone, NoAnswer
from reprise.client.reach import Reach
from reprise.client.requests import StepRequest
from reprise.client.results import Output, StepResult
from reprise.client.running import Running, Show, ShownOnce
from reprise.client.sources import Bound
from reprise.log.model import Actor, Json

#: Times that a request is repeated after its kernel has gone.
REPEATS = 3

Made = TypeVar("Made", bound=StepResult)
Make = Callable[[Mapping[str, Json], Iterable[Output], str], Made]
#: Answers input(): gets the prompt and whether it is a password.
OnInput = Callable[[str, bool], "str | Awaitable[str]"]


class PlainCellOptions(TypedDict, total=False):
    """What a cell may be given beside its code.

    key: an idempotency key.  actor: who asks, if not the user.  timeout: seconds after which the
    cell is interrupted.  silent, store_history, user_expressions, cell_id: as in Jupyter's
    execute_request.
    """

    key: str | None
    actor: Actor | None
    silent: bool
    store_history: bool
    user_expressions: Mapping[str, str] | None
    cell_id: str | None
    timeout: float | None


class CellOptions(PlainCellOptions, total=False):
    """on_input: answers input(); without it input() raises in the cell."""

    on_input: OnInput | None


class CommandOptions(TypedDict, total=False):
    """What `command` and `stream_command` take beside the command.

    cwd: absolute or relative to the notebook's place.  env: variables on top of the kernel's.
    stdin: text or bytes.  timeout: seconds after which it is ended.  output_bytes, output_lines:
    how much of each stream is shown; the rest is in the file that the result names.
    key, actor: as of a cell.
    """

    cwd: str | None
    env: Mapping[str, str] | None
    stdin: str | bytes | None
    timeout: float | None
    output_bytes: int | None
    output_lines: int | None
    key: str | None
    actor: Actor | None


class MountOptions(TypedDict, total=False):
    """What a mount may be given beside its folder; see `AsyncKernel.mount`."""

    exclude: Sequence[str]
    bound: Bound | None
    key: str | None
    actor: Actor | None
    check: bool


class UploadOptions(MountOptions, total=False):
    """mode: permission bits of a file instead of its own; see `AsyncKernel.upload`."""

    mode: int | None


class Asking:
    """The steps of one client. A request that is repeated carries the key it had."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach

    async def interrupt(self) -> None:
        """Interrupt what runs; harmless when nothing does."""
        line = await self._reach.line()
        await line.ask("interrupt_request", {}, timeout_s=self._reach.patience.answer)

    def running(
        self,
        asked: StepRequest,
        make: Make[Made],
        on_input: OnInput | None = None,
        timeout: float | None = None,
    ) -> Running[Made]:
        return Running(
            lambda show: self._timed(asked, make, show, on_input, timeout),
            self.interrupt,
            asked.key,
        )

    async def finish(self, running: Running[Made], on_output: Show | None, check: bool) -> Made:
        if on_output is not None:
            async for output in running:
                on_output(output)
        result = await running
        return result.check() if check else result

    async def _timed(
        self,
        asked: StepRequest,
        make: Make[Made],
        show: Show,
        on_input: OnInput | None,
        timeout: float | None,  # noqa: ASYNC109
    ) -> Made:
        """`perform`, interrupted after `timeout` seconds."""
        work = self.perform(asked, make, show, on_input)
        if timeout is None:
            return await work
        task = asyncio.ensure_future(work)
        try:
            done, _ = await asyncio.wait([task], timeout=timeout)
            if not done:
                await self.interrupt()
                grace = self._reach.patience.interrupt
                done, _ = await asyncio.wait([task], timeout=grace)
                if not done:
                    raise NoAnswer(
                        f"The step did not end within {grace:g} s of being interrupted. It may"
                        " still run; restart() ends it."
                    )
            return task.result()
        finally:
            task.cancel()

    async def perform(
        self,
        asked: StepRequest,
        make: Make[Made],
        show: Show | None = None,
        on_input: OnInput | None = None,
    ) -> Made:
        """Ask for a step until its answer has come, however many kernels that takes."""
        once = ShownOnce(show or _quiet)
        repeats = 0
        while True:
            line = await self._reach.line()
            outputs: list[Output] = []

            def heard(output: Output, seen: list[Output] = outputs) -> None:
                seen.append(output)
                once(output)

            try:
                token = None
                if asked.actor is not None and asked.actor.kind == "agent":
                    token = await line.agent_token(self._reach.patience.start)
                reply = await line.step(
                    asked.content(token),
                    list(asked.blobs.values()),
                    on_output=heard,
                    on_input=None if on_input is None else _asking(on_input),
                )
            except KernelGone:
                repeats += 1
                if repeats > REPEATS:
                    raise
                once.again()
                continue
            return make(reply.content, outputs, asked.key)


def _quiet(_: Output) -> None:
    """Nobody listens."""


def _asking(on_input: OnInput) -> Callable[[str, bool], Awaitable[str]]:
    async def ask(prompt: str, password: bool) -> str:
        answer = on_input(prompt, password)
        return answer if isinstance(answer, str) else await answer

    return ask
