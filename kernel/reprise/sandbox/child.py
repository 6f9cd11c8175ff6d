"""A process started by a backend: awaited by pidfd, its stderr kept for messages, bounded."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, cast

#: The end of a sandbox's stderr that is kept to explain its death, in bytes.
_TAIL = 8192


class Child:
    """One started process.

    Not asyncio.subprocess: a pidfd needs no thread and no child watcher, and `start` stays
    synchronous, so nothing can be left behind between fork and the caller's `try`.
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._loop = asyncio.get_running_loop()
        self.pid = process.pid
        self._pidfd = os.pidfd_open(process.pid)
        self._ended: asyncio.Future[int] = self._loop.create_future()
        self._tail = b""
        self._output: IO[bytes] = cast("IO[bytes]", process.stderr)
        self._stderr = self._output.fileno()
        os.set_blocking(self._stderr, False)
        self._loop.add_reader(self._pidfd, self._on_end)
        self._loop.add_reader(self._stderr, self._on_stderr)

    @classmethod
    def start(
        cls,
        argv: Sequence[str | Path],
        *,
        pass_fds: Sequence[int],
        env: Mapping[str, str],
        cwd: Path | None = None,
        stdin: int = subprocess.DEVNULL,
    ) -> Child:
        """Start it in a session of its own, stdout on /dev/null. Raises OSError."""
        return cls(
            subprocess.Popen(
                [os.fspath(part) for part in argv],
                stdin=stdin,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=pass_fds,
                env=dict(env),
                cwd=cwd,
                start_new_session=True,
            )
        )

    def _on_end(self) -> None:
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        code = self._process.wait()
        self._on_stderr()
        self._close_stderr()
        self._ended.set_result(code)

    def _on_stderr(self) -> None:
        with contextlib.suppress(BlockingIOError, ValueError, OSError):
            data = os.read(self._stderr, 1 << 16)
            if not data:
                self._loop.remove_reader(self._stderr)
            self._tail = (self._tail + data)[-_TAIL:]

    def _close_stderr(self) -> None:
        if not self._output.closed:
            self._loop.remove_reader(self._stderr)
            self._output.close()

    def said(self) -> str:
        """The end of what it wrote to stderr."""
        return self._tail.decode("utf-8", "replace").strip()

    @property
    def ended(self) -> bool:
        return self._ended.done()

    async def wait(self) -> int:
        """Its return code as subprocess gives it (negative: a signal)."""
        return await asyncio.shield(self._ended)

    def send_signal(self, number: int) -> None:
        """Signal it; it cannot be anyone else, because it is not reaped before `_on_end`."""
        if not self._ended.done():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)
