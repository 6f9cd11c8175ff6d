"""The kernel process: reads its connection file, starts the session, and ends with its parent."""

from __future__ import annotations

import asyncio
import getpass
import logging
import os
import platform
import secrets
import signal
import sys
import time
import uuid
from functools import cached_property
from pathlib import Path

from reprise import settings
from reprise.errors import RepriseError
from reprise.jupyter.admission import Admission, admit_person
from reprise.jupyter.attach import resolve
from reprise.jupyter.attachment import Attachment, notebook_key
from reprise.jupyter.begin import Beginning
from reprise.jupyter.connection import (
    Sockets,
    read_connection_file,
    write_connection_file,
)
from reprise.jupyter.live_status import Around
from reprise.jupyter.router import Router
from reprise.jupyter.sidecar import remove_sidecar, write_sidecar
from reprise.jupyter.static.screen import Screen
from reprise.jupyter.static.since import first_untrusted
from reprise.jupyter.wire import Signer
from reprise.log.model import Json
from reprise.log.postgres import Log, now_us
from reprise.log.store import Notice, SessionLog
from reprise.replay.engine import LiveSession
from reprise.replay.surroundings import SessionPlan
from reprise.replay.vouched import Vouched
from reprise.sandbox.chosen import Found, keep
from reprise.sandbox.environment import environment_spec
from reprise.sandbox.view import WORKSPACE
from reprise.workspace.folder import HostFolder

log = logging.getLogger("reprise")

#: Seconds between two looks at whether the parent still lives (as ipykernel's parent poller).
PARENT_POLL_S = 1.0


class KernelProcess:
    """One kernel process from its start to its end."""

    def __init__(self, beginning: Beginning) -> None:
        self._beginning = beginning
        self._environ = beginning.environ
        self._info = read_connection_file(beginning.options.connection_file)
        self._attachment: Attachment = beginning.attachment
        self._stop = asyncio.Event()
        #: What the session's notices are to say of its beginning: (code, text).
        self._words: list[tuple[str, str]] = []
        if beginning.gone is not None:
            self._words.append(("environment-gone", beginning.gone))
        self._session_id: uuid.UUID | None = None
        self._sandbox_pid: int | None = None
        #: What a client must show to act as an agent. It stands in the kernel's own file, which
        #: the server extension can read and a browser can not.
        self._agent_token = secrets.token_hex(32)

    async def run(self, parent: int) -> None:
        """Serve until a shutdown, a signal, or the end of `parent` (a process id)."""
        begun = self._beginning
        logging.basicConfig(
            level=self._environ.get("REPRISE_LOG_LEVEL", "WARNING").upper(),
            format="[reprise] %(levelname)s %(message)s",
            stream=sys.stderr,
        )
        if begun.left_out:
            log.warning(
                "Left out, since a sandbox has no folder of the host's: %s",
                " ".join(begun.left_out),
            )
        chosen, spec = begun.backend, begun.spec
        new_file = not self._info.path.exists()
        sockets = Sockets(self._info)
        sockets.beat()
        if new_file:
            write_connection_file(self._info)
        screen = Screen(begun.environment.output, begun.environment.name, lambda: session.comms)
        router = Router(
            sockets,
            Signer(self._info.key, self._info.signature_scheme),
            spec.limits,
            self._around,
            self._agent_token,
            screen,
            Admission(
                chosen.isolated,
                begun.network is not None,
                begun.environment.name,
                begun.environment.skills,
            ),
            on_shutdown=self._stop.set,
            on_terminated=self._ended_by_signal,
        )
        session = LiveSession(
            router,
            SessionPlan(
                chosen,
                spec,
                lambda: environment_spec(begun.environment, begun.language, self._environ),
                self._folder if chosen.isolated and self._takes_folder else None,
                begun.language.name,
                begun.network,
            ),
            self._open_log,
            self._holder(),
            lambda opened, known: self._opened(opened, known, screen),
            self._sandbox_started,
            begun.container,
        )
        session.launch()
        router.serve(session)
        begun.words.to(router.starting)
        if not chosen.isolated:
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

    @property
    def _takes_folder(self) -> bool:
        return self._environ.get(settings.FOLDER, "").strip().lower() != "no"

    def _folder(self) -> HostFolder:
        """The notebook's folder; mounted data inside it is not uploaded as well."""
        notebook = self._attachment.notebook
        return HostFolder(
            Path.cwd(),
            notebook=None if notebook is None else Path(notebook),
            exclude=[mount.source for mount in self._beginning.environment.mounts],
        )

    async def _open_log(self) -> tuple[Log, uuid.UUID]:
        opened = await Log.connect(progress=lambda text: log.info("%s", text))
        environment = self._beginning.environment
        if environment.team is not None:
            try:
                await admit_person(opened, environment.team, environment.name)
            except BaseException:
                await opened.close()
                raise
        session, _ = await resolve(
            opened,
            self._attachment,
            kernel=self._beginning.options.kernel,
            tell=lambda word: self._words.append(("identity-not-followed", word)),
        )
        return opened, session

    async def _opened(self, opened: SessionLog, known: Vouched, screen: Screen) -> None:
        # Asked of the whole history again: trust may have come, or gone, since it was recorded.
        screen.opened(*await first_untrusted(opened, known.trusted))
        left, self._session_id = self._session_id, opened.session
        for code, word in self._words:
            await opened.note(Notice(None, now_us(), code, word, {}))
            log.warning("%s", word)
        self._words.clear()
        for key in self._attachment.keys:
            await opened.bind(key)
        notebook = self._attachment.notebook
        if notebook is not None and left not in (None, opened.session):
            # The notebook on disk may name the session it was with until now.
            await opened.bind(notebook_key(notebook, left))
        if self._beginning.chosen is not None:
            self._keep_chosen(self._beginning.chosen, opened.session)
        self._write_sidecar()

    def _keep_chosen(self, found: Found, session: uuid.UUID) -> None:
        """A session that has its sandbox is not refused because a file could not be written."""
        try:
            keep(found, session, self._attachment.keys)
        except RepriseError as error:
            log.warning(
                "The environment that was chosen is not kept for session %s: %s", session, error
            )

    def _sandbox_started(self, pid: int) -> None:
        self._sandbox_pid = pid
        self._write_sidecar()

    def _write_sidecar(self) -> None:
        if self._session_id is not None:
            write_sidecar(
                self._info.path,
                self._session_id,
                sandbox_pid=self._sandbox_pid,
                agent_token=self._agent_token,
                surroundings=self._surroundings(),
            )

    @cached_property
    def _around(self) -> Around:
        """What code of this kernel runs in."""
        begun = self._beginning
        rules = begun.environment.network
        if not begun.backend.isolated:
            hosts: tuple[str, ...] = ("*",)
        elif begun.network is None:
            hosts = ()
        else:
            hosts = (*rules.allow, *rules.private)
        return Around(
            begun.backend,
            begun.environment.name,
            begun.language.name,
            hosts,
            begun.spec.limits.memory,
        )

    def _surroundings(self) -> dict[str, Json]:
        """What whoever runs code here has to know of it: see `client.results.Surroundings`."""
        isolated = self._beginning.backend.isolated
        return self._around.to_json(WORKSPACE if isolated else str(Path.cwd()))

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
        loop.add_signal_handler(signal.SIGINT, router.interrupt)
        loop.add_signal_handler(signal.SIGUSR1, _say_what_waits)
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


def _say_what_waits() -> None:
    """On SIGUSR1: what each task waits for, on stderr; for reports of a kernel that hangs."""
    for task in asyncio.all_tasks():
        task.print_stack(file=sys.stderr)
