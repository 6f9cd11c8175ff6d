"""The connection file and the sockets it names: shell, control, stdin, iopub, heartbeat."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import stat
import threading
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import zmq

from reprise.errors import UnavailableError, UsageError

#: Milliseconds that closing a socket waits for messages still on their way (as ipykernel).
LINGER_MS = 1000

#: Messages that may wait for one slow iopub reader before zmq drops some: never so few that a
#: burst of prints costs a client its `idle`; their size is bounded by the output limit.
IOPUB_BACKLOG = 100_000


@dataclass
class ConnectionInfo:
    """A Jupyter connection file (jupyter_client.connect). A port of 0 is chosen at binding."""

    path: Path
    transport: str = "tcp"
    ip: str = "127.0.0.1"
    key: bytes = b""
    signature_scheme: str = "hmac-sha256"
    shell_port: int = 0
    iopub_port: int = 0
    stdin_port: int = 0
    control_port: int = 0
    hb_port: int = 0
    curve_publickey: bytes | None = None
    curve_secretkey: bytes | None = None

    def endpoint(self, port: int) -> str:
        if self.transport == "ipc":
            return f"ipc://{self.ip}-{port}"
        return f"tcp://{self.ip}:{port}"

    def ports(self) -> dict[str, int]:
        names = ("shell_port", "iopub_port", "stdin_port", "control_port", "hb_port")
        return {name: getattr(self, name) for name in names}


def read_connection_file(path: Path) -> ConnectionInfo:
    """Read it, or begin a new one under that path. Raises UsageError when it is malformed."""
    try:
        data = json.loads(path.read_bytes())
    except FileNotFoundError:
        return ConnectionInfo(path, key=uuid.uuid4().hex.encode())
    except (OSError, ValueError) as error:
        raise UsageError(f"The connection file {path} cannot be read: {error}.") from error
    try:
        info = ConnectionInfo(
            path,
            transport=str(data.get("transport", "tcp")),
            ip=str(data.get("ip", "127.0.0.1")),
            key=str(data.get("key", "")).encode(),
            signature_scheme=str(data.get("signature_scheme") or "hmac-sha256"),
        )
        for name in info.ports():
            setattr(info, name, int(data.get(name, 0)))
        for name in ("curve_publickey", "curve_secretkey"):
            if data.get(name):
                setattr(info, name, str(data[name]).encode("ascii"))
    except (AttributeError, TypeError, ValueError) as error:
        raise UsageError(f"The connection file {path} is malformed: {error}.") from error
    if info.transport not in ("tcp", "ipc"):
        raise UsageError(
            f"The connection file {path} asks for transport {info.transport!r}; tcp and ipc exist."
        )
    return info


def write_connection_file(info: ConnectionInfo) -> None:
    """Write a file of our own (ports now known), readable by its owner only."""
    data: dict[str, object] = {
        "transport": info.transport,
        "ip": info.ip,
        "key": info.key.decode(),
        "signature_scheme": info.signature_scheme,
        "kernel_name": "reprise",
        **info.ports(),
    }
    info.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    with os.fdopen(os.open(info.path, flags, stat.S_IRUSR | stat.S_IWUSR), "w") as file:
        json.dump(data, file, indent=1)


class Socket:
    """A bound zmq socket on the event loop: `on_message` is called for each multipart message.

    zmq's file descriptor tells of changes only (edge-triggered), so after each send and each
    burst its event state is looked at again.
    """

    #: Messages handled in one go before other work gets its turn.
    BURST = 100

    def __init__(self, socket: zmq.Socket[bytes], on_message: Callable[[list[bytes]], None]):
        self._socket = socket
        self._on_message = on_message
        self._loop = asyncio.get_running_loop()
        self._fd = int(socket.getsockopt(zmq.FD))
        self._loop.add_reader(self._fd, self._readable)
        self._again = False
        self._loop.call_soon(self._readable)

    def send(self, frames: Sequence[bytes]) -> bool:
        """Queue a message; never blocks. False when a stdin peer is not there (yet)."""
        try:
            self._socket.send_multipart(frames, zmq.NOBLOCK)
        except zmq.ZMQError as error:
            if error.errno not in (zmq.EAGAIN, zmq.EHOSTUNREACH):
                raise
            return False
        finally:
            self._look_again()
        return True

    def drain(self) -> None:
        """Handle every message that has arrived by now."""
        while self._receive_one():
            pass
        self._look_again()

    def _readable(self) -> None:
        self._again = False
        for _ in range(self.BURST):
            if not self._receive_one():
                return
        self._look_again()

    def _receive_one(self) -> bool:
        if self._socket.closed:
            return False
        try:
            frames = self._socket.recv_multipart(zmq.NOBLOCK)
        except zmq.Again:
            return False
        self._on_message(frames)
        return True

    def _look_again(self) -> None:
        if not self._again and not self._socket.closed:
            self._again = True
            self._loop.call_soon(self._readable)

    def close(self) -> None:
        if not self._socket.closed:
            self._loop.remove_reader(self._fd)
            self._socket.close(LINGER_MS)


class Sockets:
    """All sockets of a kernel, bound as the connection file says.

    Raises UnavailableError when a port is taken.
    """

    def __init__(self, info: ConnectionInfo) -> None:
        self.info = info
        self.context = zmq.Context()
        self._raw: dict[str, zmq.Socket[bytes]] = {}
        for name, kind in (
            ("shell", zmq.ROUTER),
            ("control", zmq.ROUTER),
            ("stdin", zmq.ROUTER),
            ("iopub", zmq.XPUB),
            ("hb", zmq.ROUTER),
        ):
            socket: zmq.Socket[bytes] = self.context.socket(kind)
            socket.linger = LINGER_MS
            if kind == zmq.ROUTER:
                # A client that reconnects under its identity takes it over (ipykernel#270).
                socket.router_handover = 1
                # A client asks on shell before its stdin has shaken hands; zmq would drop the
                # question without a word, and the cell would wait for ever.
                socket.router_mandatory = name == "stdin"
            else:
                socket.sndhwm = IOPUB_BACKLOG
                # Each subscriber is welcomed, also the second one to the same topic.
                socket.setsockopt(zmq.XPUB_VERBOSE, 1)
            if info.curve_secretkey is not None:
                socket.curve_server = True
                socket.curve_secretkey = info.curve_secretkey
                if info.curve_publickey is not None:
                    socket.curve_publickey = info.curve_publickey
            self._bind(name, socket)
            self._raw[name] = socket

    def _bind(self, name: str, socket: zmq.Socket[bytes]) -> None:
        info = self.info
        port = getattr(info, f"{name}_port")
        try:
            if port:
                socket.bind(info.endpoint(port))
            elif info.transport == "tcp":
                setattr(info, f"{name}_port", socket.bind_to_random_port(f"tcp://{info.ip}"))
            else:
                port = 1
                while Path(f"{info.ip}-{port}").exists():
                    port += 1
                socket.bind(info.endpoint(port))
                setattr(info, f"{name}_port", port)
        except zmq.ZMQError as error:
            raise UnavailableError(
                f"The {name} channel cannot be opened at {info.endpoint(port)}: {error}. "
                "Is a kernel with the same connection file still running?"
            ) from error

    def listen(self, name: str, on_message: Callable[[list[bytes]], None]) -> Socket:
        return Socket(self._raw[name], on_message)

    def beat(self) -> None:
        """Echo heartbeats in a thread of their own: they say that the process lives."""
        socket = self._raw.pop("hb")

        def echo() -> None:
            with contextlib.suppress(zmq.ZMQError), socket:
                while True:
                    socket.send_multipart(socket.recv_multipart())

        threading.Thread(target=echo, name="heartbeat", daemon=True).start()

    def close(self) -> None:
        """Close the context once what is queued has been sent (at most the linger time)."""
        self.context.term()

    def remove_files(self) -> None:
        """Remove the ipc sockets' files; zmq leaves some behind when it is killed."""
        if self.info.transport == "ipc":
            for port in self.info.ports().values():
                Path(f"{self.info.ip}-{port}").unlink(missing_ok=True)
