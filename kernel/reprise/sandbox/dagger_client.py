"""A kernel's way to the Dagger broker: finds it in REPRISE_HOME, or starts it, and asks it."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import reprise
from reprise.errors import SandboxError
from reprise.sandbox import dagger_cli
from reprise.sandbox.contract import Said, silent
from reprise.sandbox.dagger_order import MAX_LINE, PROTOCOL, decode, encode
from reprise.settings import home

SOCKET_NAME = "socket"
#: Held by the broker as long as it lives, and by whoever starts one.
LOCK = "lock"
_START_LOCK = "start"
_LOG = "log"
_MAX_LOG = 1 << 20

#: Seconds that a broker may take until it listens, another one that is just leaving included.
_STARTING = 60.0

#: What makes another broker: other values of these lead to another engine, or to other rights.
_TOLD_APART = (dagger_cli.RUNNER_HOST, dagger_cli.CLI_BIN, "DOCKER_CONFIG", "DOCKER_HOST")


def broker_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the broker for these variables lives, made (0700)."""
    told = [reprise.__version__, reprise.__file__, sys.executable, str(PROTOCOL)]
    told += [environ.get(name, "") for name in _TOLD_APART]
    name = hashlib.sha256("\0".join(told).encode("utf-8", "surrogateescape")).hexdigest()[:16]
    folder = home() / "dagger" / name
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


@contextlib.contextmanager
def _address(folder: Path) -> Iterator[str]:
    """The socket's path in a form that is short enough for a socket (107 bytes)."""
    opened = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{opened}/{SOCKET_NAME}"
    finally:
        os.close(opened)


def bound_socket(folder: Path) -> socket.socket:
    """The broker's end; its lock is held."""
    (folder / SOCKET_NAME).unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with _address(folder) as address:
        listening.bind(address)
    (folder / SOCKET_NAME).chmod(0o600)
    return listening


def connected_socket(folder: Path) -> socket.socket | None:
    """A connection to the broker that lives there, or None."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _address(folder) as address:
            sock.connect(address)
    except OSError:
        sock.close()
        return None
    return sock


def reach(environ: Mapping[str, str] = os.environ) -> socket.socket:
    """A connection to the broker, started where there is none. Blocks. Raises SandboxError.

    What is surely missing is said before anything is started.
    """
    dagger_cli.sdk_version()
    dagger_cli.find_cli(environ)
    folder = broker_folder(environ)
    if (sock := connected_socket(folder)) is not None:
        return sock
    lock = os.open(folder / _START_LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        deadline = time.monotonic() + _STARTING
        while time.monotonic() < deadline:
            if (sock := connected_socket(folder)) is not None:
                return sock
            _start(folder, environ)
    finally:
        os.close(lock)
    raise SandboxError(
        f"The Dagger broker was started and does not answer. Nothing else was. Its log: "
        f"{folder / _LOG}"
    )


def _start(folder: Path, environ: Mapping[str, str]) -> None:
    """Start a broker; returns when it listens, or has ended (another one was leaving)."""
    kept = folder / _LOG
    if kept.exists() and kept.stat().st_size > _MAX_LOG:
        kept.unlink()
    with kept.open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "reprise.sandbox.dagger_broker", str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd="/",
            env=dagger_cli.client_environment(environ),
            start_new_session=True,
        )
    assert process.stdout is not None  # noqa: S101  it was asked for as a pipe
    with process.stdout as output:
        listens = bool(output.readline())
    process.wait()  # what listens is a child of its
    if not listens and not _is_held(folder / LOCK):
        raise SandboxError(f"The Dagger broker ended as soon as it was started. Its log: {kept}")


def _is_held(lock: Path) -> bool:
    opened = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(opened)


class Line:
    """A connection to the broker, and what comes on it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._peeked: dict[str, Any] | None = None

    @classmethod
    async def open(cls) -> Line:
        """Raises SandboxError."""
        sock = await asyncio.to_thread(reach)
        sock.setblocking(False)
        return cls(*await asyncio.open_unix_connection(sock=sock, limit=MAX_LINE))

    async def say(self, line: bytes) -> None:
        """Raises SandboxError when the broker is gone."""
        try:
            self._writer.write(line)
            await self._writer.drain()
        except OSError as error:
            raise SandboxError(f"The Dagger broker went away: {error}.") from error

    async def hear(self, said: Said = silent) -> dict[str, Any] | None:
        """The next word that is no `said`; None when the broker is gone. Raises SandboxError."""
        peeked, self._peeked = self._peeked, None
        return peeked or await self._next(said)

    async def peek(self, said: Said = silent) -> dict[str, Any] | None:
        """As `hear`, and it is heard again. Cancelled, nothing is lost."""
        self._peeked = await self._next(said)
        return self._peeked

    async def _next(self, said: Said) -> dict[str, Any] | None:
        while True:
            try:
                line = await self._reader.readline()
            except (OSError, ValueError):
                return None
            if not line:
                return None
            word = decode(line)
            if "failed" in word:
                raise SandboxError(str(word["failed"]))
            if "said" not in word:
                return word
            said(str(word["said"]))

    def close(self) -> None:
        """Idempotent. What runs for us ends."""
        self._writer.close()


def status(environ: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """What the broker says of the engine. Blocks, for as long as an engine takes to start.

    Raises SandboxError.
    """
    sock = reach(environ)
    with sock, sock.makefile("rb") as answers:
        sock.sendall(encode({"protocol": PROTOCOL, "ask": "status"}))
        for line in answers:
            word = decode(line)
            if "failed" in word:
                raise SandboxError(str(word["failed"]))
            if "said" not in word:
                return word
    raise SandboxError("The Dagger broker went away. Try again.")
