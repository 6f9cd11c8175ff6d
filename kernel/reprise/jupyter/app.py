"""The kernel process: reads its connection file, starts the session, and ends with its parent."""

from __future__ import annotations

import argparse
import asyncio
import getpass
import logging
import os
import platform
import signal
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from reprise.errors import RepriseError
from reprise.jupyter.attach import (
    Attachment,
    attachment,
    remove_sidecar,
    resolve,
    write_sidecar,
)
from reprise.jupyter.connection import (
    ConnectionInfo,
    Sockets,
    read_connection_file,
    write_connection_file,
)
from reprise.jupyter.kernelspec import language_kernel
from reprise.jupyter.router import Router
from reprise.jupyter.wire import Signer
from reprise.log.model import Json
from reprise.log.postgres import Log
from reprise.log.store import Notice, SessionLog
from reprise.replay.engine import LiveSession, SessionPlan, now_us
from reprise.sandbox.backends import backend
from reprise.sandbox.environment import environment_spec, sandbox_spec
from reprise.sandbox.named import load
from reprise.workspace.folder import HostFolder

log = logging.getLogger("reprise")

#: Seconds between two looks at whether the parent still lives (as ipykernel's parent poller).
PARENT_POLL_S = 1.0


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m reprise.jupyter", description="The Reprise kernel; Jupyter starts it."
    )
    parser.add_argument("-f", "--f", dest="connection_file", required=True, type=Path)
    parser.add_argument("--kernel", default="python3", help="the language kernel's kernelspec")
    # What front ends append (nbclient: --HistoryManager.hist_file=…) is for the language kernel.
    found, extra = parser.parse_known_args(argv)
    found.extra = extra
    return found


def main(argv: list[str] | None = None) -> int:
    logging.basicConfig(
        level=os.environ.get("REPRISE_LOG_LEVEL", "WARNING").upper(),
        format="[reprise] %(levelname)s %(message)s",
        stream=sys.stderr,
    )
    options = parse(sys.argv[1:] if argv is None else argv)
    try:
        info = read_connection_file(options.connection_file)
        asyncio.run(KernelProcess(info, options.kernel, os.environ, options.extra).run())
    except RepriseError as error:
        log.critical("%s", error)
        return error.exit_code
    return 0


#: Meant for the router alone, where the language kernel otherwise gets the whole environment.
_ROUTERS_OWN = ("JPY_PARENT_PID", "JPY_INTERRUPT_EVENT")


def _own_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Without isolation a cell sees what ipykernel's would, but not our settings (a DSN!)."""
    return {
        name: value
        for name, value in environ.items()
        if not name.startswith("REPRISE_") and name not in _ROUTERS_OWN
    }


class KernelProcess:
    """One kernel process from its start to its end."""

    def __init__(
        self,
        info: ConnectionInfo,
        kernel: str,
        environ: Mapping[str, str],
        arguments: Sequence[str] = (),
    ) -> None:
        self._arguments = tuple(arguments)
        self._info = info
        self._kernel = kernel
        self._environ = environ
        self._attachment: Attachment = attachment(info.path, environ)
        self._stop = asyncio.Event()
        self._session_id: uuid.UUID | None = None

    async def run(self) -> None:
        parent = os.getppid()
        chosen = backend(self._environ.get("REPRISE_BACKEND"))
        environment = load(environ=self._environ)
        language = language_kernel(self._kernel)
        language = replace(language, argv=(*language.argv, *self._arguments))
        folder = Path.cwd()
        spec = sandbox_spec(environment, language, folder, self._environ)
        if not chosen.isolated:
            spec = replace(spec, variables=_own_variables(self._environ))
        new_file = not self._info.path.exists()
        sockets = Sockets(self._info)
        sockets.beat()
        if new_file:
            write_connection_file(self._info)
        note = "" if chosen.isolated else f"WARNING: {chosen.isolation}"
        router = Router(
            sockets,
            Signer(self._info.key, self._info.signature_scheme),
            spec.limits,
            note,
            on_shutdown=self._stop.set,
            on_terminated=self._ended_by_signal,
        )
        notebook = self._attachment.notebook
        session = LiveSession(
            router,
            SessionPlan(
                chosen,
                spec,
                lambda: environment_spec(environment, language, self._environ),
                HostFolder(folder, notebook=None if notebook is None else Path(notebook))
                if chosen.isolated
                else None,
                language.name,
            ),
            self._open_log,
            self._holder(),
            self._opened,
            self._sandbox_started,
        )
        session.launch()
        router.serve(session)
        if note:
            router.notice(Notice(None, now_us(), "not-isolated", chosen.isolation, {}))
        self._listen_to_signals(router)
        watch = asyncio.get_running_loop().create_task(self._watch_parent(parent))
        begin = asyncio.get_running_loop().create_task(session.resume_eagerly())
        try:
            await self._stop.wait()
            await router.stop_running()
        finally:
            watch.cancel()
            begin.cancel()
            await session.close()
            await router.close()
            sockets.close()
            sockets.remove_files()
            remove_sidecar(self._info.path)

    async def _open_log(self) -> tuple[Log, uuid.UUID]:
        opened = await Log.connect(progress=lambda text: log.info("%s", text))
        session, _ = await resolve(opened, self._attachment, kernel=self._kernel)
        return opened, session

    async def _opened(self, opened: SessionLog) -> None:
        self._session_id = opened.session
        for key in self._attachment.keys:
            await opened.bind(key)
        self._write_sidecar()

    def _sandbox_started(self, pid: int) -> None:
        self._sandbox_pid = pid
        self._write_sidecar()

    def _write_sidecar(self) -> None:
        if self._session_id is not None:
            write_sidecar(self._info.path, self._session_id, sandbox_pid=self._sandbox_pid)

    _sandbox_pid: int | None = None

    def _holder(self) -> dict[str, Json]:
        return {
            "pid": os.getpid(),
            "host": platform.node(),
            "user": getpass.getuser(),
            "since": time.strftime("%Y-%m-%d %H:%M:%S %z"),
            "notebook": self._attachment.notebook,
        }

    def _ended_by_signal(self) -> None:
        log.warning("The language kernel was told to end (SIGTERM), so the kernel ends.")
        self._stop.set()

    def _listen_to_signals(self, router: Router) -> None:
        loop = asyncio.get_running_loop()
        tasks: set[asyncio.Task[None]] = set()

        def interrupt() -> None:
            task = loop.create_task(router.interrupt())
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        loop.add_signal_handler(signal.SIGINT, interrupt)
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._stop.set)

    async def _watch_parent(self, parent: int) -> None:
        """A router must not outlive whoever started it (kernels left behind hold leases)."""
        if not self._environ.get("JPY_PARENT_PID"):
            return
        # No event tells of a parent's end without a race; ipykernel polls too.
        while os.getppid() == parent:  # noqa: ASYNC110
            await asyncio.sleep(PARENT_POLL_S)
        log.warning("The process that started this kernel is gone; the kernel ends.")
        self._stop.set()
