"""A command in the background: looked at, read, waited for, stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Literal

from reprise.client.failures import NoAnswer
from reprise.client.results import CommandResult
from reprise.client.workspace import BackgroundStatus, LiveWorkspace
from reprise.errors import UsageError

#: Seconds between two looks at whether it has ended: the kernel tells nobody by itself.
LOOK_S = 0.1

Stream = Literal["stdout", "stderr"]


class Background:
    """A background command of a session. `command` is its number: the seq of its step."""

    def __init__(
        self,
        command: int,
        workspace: LiveWorkspace,
        stop: Callable[[int], Awaitable[CommandResult]],
    ) -> None:
        self.command = command
        self._workspace = workspace
        self._stop = stop

    def __repr__(self) -> str:
        return f"<background command {self.command}>"

    async def status(self) -> BackgroundStatus:
        """How it stands. Raises UsageError when the sandbox knows it no more (after a restart)."""
        for each in await self._workspace.commands():
            if each.command == self.command:
                return each
        raise UsageError(
            f"There is no background command {self.command} any more: a restart, a reset or the"
            " sandbox's end ends them all."
        )

    async def read(self, stream: Stream = "stdout", offset: int = 0) -> bytes:
        """What it has written so far, from byte `offset` on."""
        status = await self.status()
        path = status.stdout if stream == "stdout" else status.stderr
        return await self._workspace.read(path, offset)

    async def wait(self, timeout: float | None = None) -> BackgroundStatus:  # noqa: ASYNC109
        """Return when it has ended. Raises NoAnswer after `timeout` seconds; it runs on then."""
        try:
            async with asyncio.timeout(timeout):
                while (status := await self.status()).running:  # noqa: ASYNC110
                    await asyncio.sleep(LOOK_S)
                return status
        except TimeoutError:
            raise NoAnswer(
                f"Background command {self.command} still runs after {timeout:g} s."
            ) from None

    async def stop(self) -> CommandResult:
        """End it, with all that it started: SIGTERM, then SIGKILL. A step of its own."""
        return await self._stop(self.command)
