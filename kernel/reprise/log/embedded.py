"""The embedded Postgres server in REPRISE_HOME: started on first use, shared, never doubled.

    REPRISE_HOME/postgres/<major>/      0711
        data/      the data directory, 0700, of the account the server runs as
        run/       the socket, 0700: other users of the machine cannot reach it
        start      locked by whoever is starting the server
        use        locked shared by every process that uses it
        alive      locked by the server's processes as long as one lives; holds its pid
        watcher    locked by the process that stops an idle server
        server.log

The locks are flock locks on inherited descriptors, so they end with the processes that hold
them, however those end. Postgres refuses to run as root: then the server runs under an account
of its own, with the data directory as its working directory and named /proc/self/cwd, so that
it works even below a home that only root can enter.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psycopg

from reprise.errors import UnavailableError
from reprise.log import watcher
from reprise.log.accounts import Account, server_account
from reprise.log.binaries import Binaries, find_binaries
from reprise.log.connect import KERNEL_ROLE

#: Seconds without a user after which the server stops; REPRISE_DATABASE_IDLE overrides.
IDLE_SECONDS = 600.0

#: Seconds to wait for a start (crash recovery after a power cut included).
_START_SECONDS = 60.0

#: Longest socket path that the system's sockaddr_un takes, without the final NUL.
_SOCKET_PATH_BYTES = 107

_SOCKET = ".s.PGSQL.5432"
_SUPERUSER = "postgres"

_SETTINGS = {
    "listen_addresses": "",
    "unix_socket_directories": "../run",  # from the data directory: short, whatever the home
    "unix_socket_permissions": "0700",
    "max_connections": "200",
    # Small durable commits: on disk before they are acknowledged, with as little WAL as possible.
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_wal_size": "1GB",
    "min_wal_size": "128MB",
    "checkpoint_timeout": "15min",
    "shared_buffers": "64MB",
    "huge_pages": "off",
    "jit": "off",
    "autovacuum_naptime": "5min",
    "max_parallel_workers": "0",
    "logging_collector": "off",
    "log_destination": "stderr",
    "log_min_messages": "warning",
    "log_checkpoints": "off",
    "log_statement": "none",
    "log_min_error_statement": "panic",  # statements hold people's code and data
}


class Server:
    """The server of one home, as one process sees it. `release` ends this process's use."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._root = home / "postgres"
        self._folder: Path | None = None
        self._use: int | None = None
        self._socket_folder: int | None = None
        self._one_thread = threading.Lock()

    @property
    def kernel_dsn(self) -> str:
        return f"host={_quoted(self._host())} dbname=postgres user={KERNEL_ROLE}"

    @property
    def owner_dsn(self) -> str:
        return f"host={_quoted(self._host())} dbname=postgres user={_SUPERUSER}"

    async def ensure_running(self, progress: Callable[[str], None] | None) -> None:
        """Return when the server accepts connections, starting it if it does not run.

        Raises UnavailableError.
        """
        if self._use is not None and self._accepts():
            return
        await asyncio.to_thread(self._ensure_running, progress)

    async def ensure_answering(self, progress: Callable[[str], None] | None) -> None:
        """As `ensure_running`, and wait until it answers: it may be recovering from a crash."""
        await asyncio.to_thread(self._ensure_answering, progress)

    async def stop(self) -> bool:
        """Stop the server at once, whoever uses it. Returns whether one was running."""
        return await asyncio.to_thread(self._stop)

    def release(self) -> None:
        """Say that this process uses the server no more."""
        for descriptor in (self._use, self._socket_folder):
            if descriptor is not None:
                os.close(descriptor)
        self._use = self._socket_folder = None

    # -- starting (blocking, in a thread) ----------------------------------------------------------

    def _ensure_running(self, progress: Callable[[str], None] | None) -> None:
        with self._one_thread:
            try:
                binaries = self._choose()
                folder = self._folder = self._root / str(binaries.major)
                self._make_folders(folder)
                self._claim_use(folder)
                if not self._accepts():
                    self._start(binaries, folder, progress)
                self._ensure_watched(folder)
            except OSError as error:
                raise UnavailableError(_explained(error, self._root)) from error

    def _ensure_answering(self, progress: Callable[[str], None] | None) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while True:
            self._ensure_running(progress)
            if self._answers():
                return
            self._wait(deadline, self._root)

    def _claim_use(self, folder: Path) -> None:
        """Be counted as a user; waits while a watcher that found nobody stops the server."""
        if self._use is None:
            self._use = _open_lock(folder / "use")
        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                fcntl.flock(self._use, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                self._wait(deadline, folder)
            else:
                return

    def _stop(self) -> bool:
        folders = [path.parent for path in self._root.glob("[0-9]*/alive")]
        stopped = [self._stop_one(folder) for folder in folders]
        return any(stopped)

    def _stop_one(self, folder: Path) -> bool:
        deadline = time.monotonic() + _START_SECONDS
        start = _open_lock(folder / "start")
        alive = _open_lock(folder / "alive")
        try:
            while not watcher.try_lock(start):
                self._wait(deadline, folder)
            postmaster = watcher.postmaster(alive)
            if postmaster is None or not watcher.is_alive(alive):
                return False
            os.kill(postmaster, signal.SIGINT)
            while watcher.is_alive(alive):
                self._wait(deadline, folder)
            return True
        finally:
            os.close(start)
            os.close(alive)

    def _choose(self) -> Binaries:
        """The binaries that fit the data that is there, else the newest."""
        majors = []
        if self._root.is_dir():
            majors = sorted(
                int(entry.name)
                for entry in self._root.iterdir()
                if entry.name.isdigit() and (entry / "data" / "PG_VERSION").exists()
            )
        if not majors:
            return find_binaries()
        return find_binaries(majors[-1])

    def _make_folders(self, folder: Path) -> None:
        for path, mode in ((self.home, 0o700), (self._root, 0o711), (folder, 0o711)):
            if not path.exists():
                path.mkdir(mode=mode, parents=path == self.home, exist_ok=True)
                path.chmod(mode)  # the umask may have taken more

    def _start(
        self, binaries: Binaries, folder: Path, progress: Callable[[str], None] | None
    ) -> None:
        deadline = time.monotonic() + _START_SECONDS
        start = _open_lock(folder / "start")
        alive = _open_lock(folder / "alive")
        try:
            while not watcher.try_lock(start):
                self._wait(deadline, folder)
            while not self._accepts():
                if watcher.try_lock(alive):
                    self._launch(binaries, folder, alive, deadline, progress)
                    return
                # Its processes live but do not answer: it is starting, recovering or stopping.
                self._wait(deadline, folder)
        finally:
            os.close(start)
            os.close(alive)

    def _wait(self, deadline: float, folder: Path) -> None:
        if time.monotonic() > deadline:
            raise UnavailableError(
                f"The embedded Postgres in {folder} runs but did not answer for"
                f" {_START_SECONDS:.0f} s. Its log is {folder / 'server.log'}. If it hangs, end the"
                f" process whose pid is in {folder / 'alive'} and try again; nothing is lost."
            )
        time.sleep(0.02)

    def _launch(
        self,
        binaries: Binaries,
        folder: Path,
        alive: int,
        deadline: float,
        progress: Callable[[str], None] | None,
    ) -> None:
        """Start the server; `alive` is locked by us, and passed on to it."""
        account = server_account(folder, binaries)
        data = folder / "data"
        if not data.exists():
            if progress is not None:
                progress("Starting the embedded Postgres (first use: creating its files) …")
            self._create(account, folder)
        self._check_data(data, binaries.major)
        # `alive` proves that no server lives, so a pid file is a leftover; its pid may by now
        # belong to anyone, and Postgres would then refuse to start.
        for leftover in (data / "postmaster.pid", folder / "run" / f"{_SOCKET}.lock"):
            leftover.unlink(missing_ok=True)
        log = folder / "server.log"
        if log.exists() and log.stat().st_size > 1 << 20:
            log.replace(folder / "server.log.1")
        settings = dict(_SETTINGS)
        if binaries.major >= 18:
            settings["io_method"] = "sync"  # no worker processes for a database this small
        command = [str(account.binaries.postgres), "-D", account.data_argument(data)]
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        with log.open("ab") as output:
            began = output.tell()
            pid = _spawn_detached(
                command,
                cwd=data,
                stderr=output,
                pass_fds=[alive],
                env=account.environment(),
                **account.credentials(),
            )
        watcher.write_postmaster(alive, pid)
        while not self._answers():
            if not watcher.runs(pid):
                raise UnavailableError(_ended(log, began, folder))
            if time.monotonic() > deadline:
                self._wait(deadline, folder)
            time.sleep(0.01)

    def _create(self, account: Account, folder: Path) -> None:
        """initdb into a folder of its own that becomes `data` in one rename when it is whole."""
        fresh = folder / "data.new"
        if fresh.exists():
            shutil.rmtree(fresh)  # an initdb that was killed
        run = folder / "run"
        for path in (fresh, run):
            path.mkdir(mode=0o700, exist_ok=True)
            account.own(path)
        result = subprocess.run(
            [
                account.binaries.initdb,
                *("-D", account.data_argument(fresh), "-U", _SUPERUSER),
                *("--auth=trust", "--encoding=UTF8", "--locale=C"),
                *("--no-sync", "--no-instructions"),
            ],
            cwd=fresh,
            capture_output=True,
            text=True,
            timeout=_START_SECONDS,
            check=False,
            env=account.environment(),
            **account.credentials(),
        )
        if result.returncode != 0:
            reason = " ".join((result.stderr or result.stdout).split())[-600:]
            shutil.rmtree(fresh, ignore_errors=True)
            raise UnavailableError(
                f"The embedded Postgres could not create its files in {folder}: {reason}"
                " Nothing was kept. Free disk space there or set REPRISE_HOME to another folder."
            )
        _sync_tree(fresh)
        fresh.rename(folder / "data")
        _fsync(folder)

    def _check_data(self, data: Path, major: int) -> None:
        version = data / "PG_VERSION"
        if not version.exists():
            raise UnavailableError(
                f"{data} is there but is not a Postgres data directory (it has no PG_VERSION)."
                " Nothing was changed. Move it away, or set REPRISE_HOME to another folder."
            )
        found = version.read_text("ascii", "replace").strip()
        if found != str(major):
            raise UnavailableError(
                f"{data} was made by PostgreSQL {found}, and this is PostgreSQL {major}. Nothing"
                f" was changed. Move it to {data.parent.parent / found / 'data'} to use it with"
                f" PostgreSQL {found}, or set REPRISE_HOME to another folder."
            )

    def _ensure_watched(self, folder: Path) -> None:
        myself = _open_lock(folder / "watcher")
        alive = _open_lock(folder / "alive")
        use = _open_lock(folder / "use")
        try:
            if not watcher.try_lock(myself):
                return
            watcher.unlock(myself)
            idle = float(os.environ.get("REPRISE_DATABASE_IDLE") or IDLE_SECONDS)
            fds = [use, alive, myself]
            _spawn_detached(
                [sys.executable, "-I", "-S", watcher.__file__, *map(str, fds), str(idle)],
                cwd=Path("/"),
                stderr=subprocess.DEVNULL,
                pass_fds=fds,
            )
        finally:
            for descriptor in (myself, alive, use):
                os.close(descriptor)

    # -- asking ---------------------------------------------------------------------------------

    def _host(self) -> str:
        """The socket's folder for libpq; by descriptor when its path is too long for a socket."""
        if self._folder is None:
            raise RuntimeError("ensure_running comes first")
        run = self._folder / "run"
        if len(os.fsencode(run / _SOCKET)) <= _SOCKET_PATH_BYTES:
            return str(run)
        if self._socket_folder is None:
            self._socket_folder = os.open(run, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        return f"/proc/self/fd/{self._socket_folder}"

    def _accepts(self) -> bool:
        """Whether something listens on the socket."""
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(2)
            probe.connect(f"{self._host()}/{_SOCKET}")
            return True
        return False

    def _answers(self) -> bool:
        """Whether the server has finished starting."""
        if not self._accepts():
            return False
        try:
            psycopg.connect(self.owner_dsn, connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True


def _spawn_detached(command: Sequence[str], *, stderr: Any, **options: Any) -> int:
    """Start a process that is nobody's child, in a session of its own; returns its pid.

    A shell starts it and ends: so it outlives us, gets no signal that is meant for us, and leaves
    no zombie in a process that runs for days.
    """
    shell = subprocess.run(
        ["/bin/sh", "-c", '"$@" >&2 & echo $!', "sh", *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=stderr,
        start_new_session=True,
        timeout=_START_SECONDS,
        check=True,
        **options,
    )
    return int(shell.stdout)


def _open_lock(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _quoted(value: str) -> str:
    """A value for a conninfo string."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_tree(folder: Path) -> None:
    """Make a finished tree durable: once for all files, instead of initdb's file by file."""
    for parent, _, names in os.walk(folder):
        for name in names:
            _fsync(Path(parent) / name)
        _fsync(Path(parent))


def _ended(log: Path, began: int, folder: Path) -> str:
    with log.open("rb") as file:
        file.seek(began)
        said = " ".join(file.read(4000).decode("utf-8", "replace").split())
    full = " The disk is full." if "No space left on device" in said else ""
    return (
        f"The embedded Postgres in {folder} did not start.{full} It said: {said[-800:]}"
        f" What was acknowledged is still in {folder / 'data'}. Its log is {log}."
    )


def _explained(error: OSError, root: Path) -> str:
    reason = error.strerror or str(error)
    hint = "Set REPRISE_HOME to a folder that you can write to"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        hint = "Free some space there, or set REPRISE_HOME to a folder on another disk"
    return (
        f"The embedded Postgres in {root} could not be started: {reason}"
        f" ({error.filename or root}). {hint}, or use another database with REPRISE_DSN."
    )
