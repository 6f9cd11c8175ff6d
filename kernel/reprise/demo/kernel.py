"""A kernel process as the demo uses it: start it, run a cell, kill it or its sandbox."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager

from reprise.errors import UnavailableError
from reprise.jupyter.sidecar import read_sidecar

#: Seconds that a kernel may take to answer, or a cell to end. Far above what the slowest machine
#: needs, so that only a kernel that hangs is given up.
PATIENCE_S = 180.0

#: What a cell showed: `["stream", name, text]` or `[type, data by MIME type]`.
Shown = list[list[Any]]


@dataclass(frozen=True)
class CellRun:
    """How one cell went. `prompt` is its number; `error` the name and text of what it raised."""

    status: str
    prompt: int | None
    shown: Shown
    seconds: float
    error: str = ""


@dataclass
class _Collector:
    """Gathers what a cell shows; consecutive pieces of one stream count as one text."""

    on_output: Callable[[], None] | None
    shown: Shown = field(default_factory=list)

    def __call__(self, message: dict[str, Any]) -> None:
        kind, content = message["msg_type"], message["content"]
        if kind == "stream":
            last = self.shown[-1] if self.shown else None
            if last is not None and last[:2] == ["stream", content["name"]]:
                last[2] += content["text"]
            else:
                self.shown.append(["stream", content["name"], content["text"]])
        elif kind in {"execute_result", "display_data"}:
            self.shown.append([kind, content["data"]])
        elif kind == "error":
            self.shown.append(["error", {"ename": content["ename"], "evalue": content["evalue"]}])
        else:
            return
        if self.on_output is not None:
            hook, self.on_output = self.on_output, None
            hook()


class DemoKernel:
    """One kernel process with a client, from `with` to the end of its block."""

    def __init__(
        self, name: str, specs: KernelSpecManager, folder: Path, env: Mapping[str, str]
    ) -> None:
        self._manager = KernelManager(kernel_name=name, kernel_spec_manager=specs)
        self._folder = folder
        self._env = {**os.environ, **env}
        self._log_path = folder.parent / f"{name}-{time.monotonic_ns()}.log"

    def __enter__(self) -> Self:
        # What a kernel says on its stderr belongs to a failure's report, not between our lines.
        with self._log_path.open("wb") as kernel_log:
            self._manager.start_kernel(
                cwd=str(self._folder), env=self._env, stdout=kernel_log, stderr=kernel_log
            )
        self._client = self._manager.client()
        self._client.start_channels()
        try:
            self._client.wait_for_ready(timeout=PATIENCE_S)
        except RuntimeError as error:
            self.__exit__(None, None, None)
            raise UnavailableError(
                f"The kernel did not start ({error}). It said:\n{self.said() or '(nothing)'}\n"
                "`reprise doctor` says what this machine lacks."
            ) from error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=not self.alive)
        self._manager.cleanup_resources()

    @property
    def alive(self) -> bool:
        return bool(self._manager.is_alive())

    @property
    def pid(self) -> int:
        """The kernel process."""
        pid = getattr(self._manager.provisioner, "pid", None)
        if not isinstance(pid, int):
            raise UnavailableError("The kernel process has no pid to send a signal to.")
        return pid

    @property
    def sandbox_pid(self) -> int:
        """The outermost process of its sandbox, from the file beside the connection file."""
        found = read_sidecar(Path(self._manager.connection_file))
        pid = None if found is None else found.get("sandbox_pid")
        if not isinstance(pid, int):
            raise UnavailableError("The kernel did not say which process its sandbox is.")
        return pid

    def said(self) -> str:
        """The last lines of what the kernel process wrote on its stderr."""
        return "\n".join(self._log_path.read_text(errors="replace").splitlines()[-20:])

    def run(self, code: str, cell_id: str, on_output: Callable[[], None] | None = None) -> CellRun:
        """Run a cell to its end. `on_output` is called once, when it first shows something.

        Raises UnavailableError when the kernel does not answer.
        """
        collector = _Collector(on_output)
        started = time.perf_counter()
        try:
            # Each cell waits for the one before, so none is behind a failed one to be aborted.
            reply = self._client.execute_interactive(
                code,
                allow_stdin=False,
                stop_on_error=False,
                timeout=PATIENCE_S,
                output_hook=collector,
            )
        except (TimeoutError, RuntimeError) as error:
            raise UnavailableError(
                f"The kernel did not answer cell {cell_id!r} ({error}). It said:\n{self.said()}"
            ) from error
        content = reply["content"]
        return CellRun(
            status=str(content["status"]),
            prompt=content.get("execution_count"),
            shown=collector.shown,
            seconds=time.perf_counter() - started,
            error=f"{content.get('ename', '')}: {content.get('evalue', '')}".strip(": "),
        )

    def kill_sandbox(self) -> int:
        """SIGKILL to the sandbox; returns the pid it had."""
        pid = self.sandbox_pid
        os.kill(pid, signal.SIGKILL)
        return pid

    def kill(self) -> tuple[int, int]:
        """SIGKILL to the kernel process; returns its pid and its sandbox's, both gone by then.

        Raises UnavailableError when the sandbox outlives its kernel.
        """
        pid, sandbox = self.pid, psutil.Process(self.sandbox_pid)
        os.kill(pid, signal.SIGKILL)
        try:
            sandbox.wait(timeout=PATIENCE_S)
        except psutil.TimeoutExpired as error:
            raise UnavailableError(
                f"The sandbox (pid {sandbox.pid}) outlived its kernel; end it by hand."
            ) from error
        return pid, sandbox.pid
