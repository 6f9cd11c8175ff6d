"""A kernel process of our own: started for one session, restarted, and ended with us."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from jupyter_client.kernelspec import NoSuchKernel
from jupyter_client.manager import AsyncKernelManager
from jupyter_core.paths import jupyter_runtime_dir
from jupyter_core.utils import ensure_async

from reprise.client.failures import KernelGone, NoAnswer
from reprise.client.line import Line, open_line
from reprise.client.specs import kernel_specs
from reprise.errors import UnavailableError, UsageError
from reprise.settings import FOLDER, SESSION

#: Lines of what a kernel wrote on its stderr that an error repeats.
SAID_LINES = 20
SAID_BYTES = 16 << 10
#: A kernel that we start inside a notebook's cell is not that notebook's.
_OF_THE_STARTER = ("JPY_SESSION_NAME", "JPY_PARENT_PID")


@dataclass(frozen=True)
class Start:
    """How a kernel process is started.

    kernel: the kernelspec.  folder: where it runs; the files there come in as a notebook's do.
    bring_folder: False when they must not (a session of another folder).
    notebook: the notebook that the session belongs to, if one is known.
    environ: all of its variables but our own.
    """

    kernel: str
    folder: Path
    environ: Mapping[str, str]
    notebook: Path | None = None
    bring_folder: bool = True

    def variables(self, session: uuid.UUID) -> dict[str, str]:
        kept = {name: value for name, value in self.environ.items() if name not in _OF_THE_STARTER}
        if self.notebook is not None:
            kept["JPY_SESSION_NAME"] = str(self.notebook)
        if not self.bring_folder:
            kept[FOLDER] = "no"
        return {**kept, SESSION: str(session)}


class OwnKernel:
    """Made by `start_kernel`; `close` ends the process."""

    def __init__(
        self, start: Start, manager: AsyncKernelManager, log: Path, stack: contextlib.ExitStack
    ) -> None:
        self._start = start
        self._manager = manager
        self._log = log
        self._stack = stack

    @property
    def pid(self) -> int:
        pid = getattr(self._manager.provisioner, "pid", None)
        if not isinstance(pid, int):
            raise KernelGone(f"The kernel process has ended. It said:\n{self.said()}")
        return pid

    @property
    def connection(self) -> Path:
        return Path(self._manager.connection_file)

    def said(self) -> str:
        """The last lines of what the kernel process wrote on its stderr."""
        try:
            with self._log.open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - SAID_BYTES))
                text = file.read().decode("utf-8", "replace")
        except OSError:
            text = ""
        return "\n".join(text.splitlines()[-SAID_LINES:]) or "(nothing)"

    async def line(self, timeout_s: float, heartbeat_s: float) -> Line:
        """A connection to it, as soon as it answers. Raises KernelGone, NoAnswer."""
        try:
            return await open_line(
                self.connection, pid=self.pid, timeout_s=timeout_s, heartbeat_s=heartbeat_s
            )
        except (KernelGone, NoAnswer) as error:
            raise type(error)(
                f"The kernel did not start: {error} It said:\n{self.said()}\n"
                "`reprise doctor` says what this machine lacks."
            ) from error

    async def restart(self, session: uuid.UUID) -> None:
        """A `restart` step, then a new process on the session (it may have gone to another one)."""
        await self._manager.restart_kernel(env=self._start.variables(session))

    async def close(self, *, now: bool = False) -> None:
        """Shut it down as Jupyter does; it is killed when it does not end by itself, or `now`."""
        try:
            if self._manager.has_kernel:
                gone = not await self._manager.is_alive()
                await self._manager.shutdown_kernel(now=now or gone)
            await ensure_async(self._manager.cleanup_resources())
        finally:
            self._stack.close()


async def start_kernel(start: Start, session: uuid.UUID) -> OwnKernel:
    """Start a kernel process on a session. Raises UsageError, UnavailableError."""
    with contextlib.ExitStack() as opened:
        specs = opened.enter_context(kernel_specs())
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="reprise-client-")))
        log = folder / "stderr"
        # Open as long as the kernel: a restarted one gets it too.
        said = opened.enter_context(log.open("ab"))
        manager = AsyncKernelManager(
            kernel_name=start.kernel,
            kernel_spec_manager=specs,
            # Where other clients look for one.
            connection_file=str(_runtime() / f"kernel-{uuid.uuid4()}.json"),
        )
        starting = asyncio.ensure_future(
            manager.start_kernel(
                cwd=str(start.folder), env=start.variables(session), stdout=said, stderr=said
            )
        )
        try:
            # Stopped half way, a process would be there that nobody knows.
            await asyncio.shield(starting)
        except asyncio.CancelledError:
            await asyncio.wait([starting])
            if not starting.exception():
                await OwnKernel(start, manager, log, opened.pop_all()).close(now=True)
            raise
        except NoSuchKernel as error:
            known = ", ".join(sorted(specs.find_kernel_specs()))
            raise UsageError(
                f"There is no kernel named {start.kernel!r}; Jupyter knows {known}. "
                "`reprise kernelspec add` wraps one of them."
            ) from error
        except OSError as error:
            raise UnavailableError(
                f"The kernel {start.kernel!r} could not be started in {start.folder}: {error}."
            ) from error
        return OwnKernel(start, manager, log, opened.pop_all())


def _runtime() -> Path:
    folder = Path(jupyter_runtime_dir())
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder
