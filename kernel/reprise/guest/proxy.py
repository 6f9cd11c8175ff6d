"""The proxy on the sandbox's loopback: programs' connections as tunnels of the stream.

In the guest's one loop, never blocking. Of each connection at most a window is held either way, and
while the stream is full nothing more is read from programs.
"""

from __future__ import annotations

import contextlib
import json
import socket

import zmq

from reprise.guest.asking import MAX_HEAD, Asked, accepted, asked, refusal
from reprise.guest.network import Listener
from reprise.guest.stream import Stream
from reprise.sandbox.frames import Channel

#: As `sandbox.contract.TUNNEL_WINDOW`, which is not copied into sandboxes.
WINDOW = 1 << 18
MAX_DATA = 64 << 10

#: Connections of programs at once; others wait to be taken.
MAX_CLIENTS = 256

#: Bytes waiting for the host above which no program is read from.
_FULL = 1 << 20

_ID = 4


class _Client:
    """One connection of a program. number: its tunnel, 0 before there is one.

    up: bytes for the host.  out: bytes for the program.  room: what the host still takes, body:
    what the program may still send (None: anything).
    """

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.fd = sock.fileno()
        self.flags = 0
        self.number = 0
        self.via = "http"
        self.greeted = False
        self.carrying = False
        self.over = False
        self.up = bytearray()
        self.out = bytearray()
        self.room = WINDOW
        self.owed = 0
        self.body: int | None = None
        self.read_end = False
        self.told_end = False
        self.host_end = False
        self.shut = False


class Proxy:
    """listeners: where programs connect to (`network.offer`)."""

    def __init__(self, listeners: list[Listener], stream: Stream, poller: zmq.Poller) -> None:
        self._listeners = {each.sock.fileno(): each for each in listeners}
        self._stream = stream
        self._poller = poller
        self._clients: dict[int, _Client] = {}
        self._tunnels: dict[int, _Client] = {}
        #: tunnels that we have ended, and the host has not said so yet
        self._ending: set[int] = set()
        #: clients that are not read from because the stream is full
        self._held: set[_Client] = set()
        self._last = 0
        self._taking = False
        self._take_more(True)

    def owns(self, source: object) -> bool:
        """Whether a descriptor of the poller is one of ours."""
        return source in self._clients or source in self._listeners

    # The loop ---------------------------------------------------------------------------------

    def handle(self, fd: int, event: int) -> None:
        """Something has happened to one of our descriptors."""
        if fd in self._listeners:
            self._accept(self._listeners[fd])
            return
        client = self._clients[fd]
        if event & zmq.POLLOUT:
            self._write(client)
        if event & zmq.POLLIN and fd in self._clients:
            self._read(client)
        elif event & zmq.POLLERR and fd in self._clients and _is_gone(client.sock):
            self._abort(client)
        self._settle(client)

    def after(self) -> None:
        """Read on from those who waited for room in the stream."""
        if self._held and not self._full():
            held, self._held = self._held, set()
            for client in held:
                self._settle(client)

    def _full(self) -> bool:
        return self._stream.queued(Channel.TUNNEL) > _FULL

    def _take_more(self, more: bool) -> None:
        self._taking = more
        for fd in self._listeners:
            self._poller.register(fd, zmq.POLLIN if more else 0)

    def _accept(self, listener: Listener) -> None:
        for _ in range(16):
            try:
                sock, _peer = listener.sock.accept()
            except BlockingIOError:
                return
            except OSError:
                # It gave up again; or no descriptor is left, and those there are must close first.
                if self._clients:
                    self._take_more(False)
                return
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            client = _Client(sock)
            self._clients[client.fd] = client
            if listener.target is not None:
                self._open(client, Asked(*listener.target, "forward", b"", 0, None))
            self._settle(client)
            if len(self._clients) >= MAX_CLIENTS and not self._forget_one():
                self._take_more(False)
                return

    def _forget_one(self) -> bool:
        """Let go of a connection that is over and only its program has not closed."""
        for client in self._clients.values():
            if client.over and not client.out:
                self._forget(client)
                return True
        return False

    def _settle(self, client: _Client) -> None:
        """Do what can be done for a client now, and wait for what it waits for."""
        if client.fd not in self._clients:
            return
        self._send_up(client)
        if client.over and not client.out and not client.shut:
            self._shut(client)
        if client.host_end and not client.out:
            if not client.shut:
                self._shut(client)
            if client.told_end:
                self._end(client)
                self._forget(client)
                return
        if client.fd in self._clients:
            self._wait(client)

    def _wait(self, client: _Client) -> None:
        flags = int(zmq.POLLERR)
        if client.out:
            flags |= zmq.POLLOUT
        if not client.read_end and (
            client.over or not client.number or (client.carrying and not client.up and client.room)
        ):
            if client.carrying and self._full():
                self._held.add(client)
            else:
                flags |= zmq.POLLIN
        if flags != client.flags:
            client.flags = flags
            self._poller.register(client.fd, flags)

    # From programs ----------------------------------------------------------------------------

    def _read(self, client: _Client) -> None:
        most = min(MAX_DATA, client.room) if client.carrying else MAX_DATA
        try:
            data = client.sock.recv(most)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self._abort(client)
            return
        if client.over:
            if not data:
                self._forget(client)
            return  # it says on what nobody hears: read, so that it gets our last words
        if not data:
            client.read_end = True
            if not client.number:
                self._forget(client)
            return
        client.up += data
        if client.carrying:
            if client.body is not None:
                client.body -= len(data)
                if client.body < 0:
                    # The next request on a connection that is for one.
                    self._abort(client)
        elif not client.number:
            self._hear(client)

    def _hear(self, client: _Client) -> None:
        while not client.number and not client.over:
            found = asked(bytes(client.up), client.greeted)
            if found is None:
                if len(client.up) > MAX_HEAD:
                    self._say_last(client, refusal("http", 400, "this request has no end"))
                return
            del client.up[: found.used]
            if isinstance(found, Asked):
                self._open(client, found)
            elif found.over:
                self._say_last(client, found.data)
            else:
                client.greeted = True
                client.out += found.data
                self._write(client)

    def _open(self, client: _Client, found: Asked) -> None:
        self._last += 1
        client.number, client.via = self._last, found.via
        self._tunnels[client.number] = client
        if found.via == "http":
            client.body = found.body
            if client.body is not None:
                # What came with the head belongs to the request, or to one too many.
                client.body -= len(client.up)
                del client.up[len(client.up) + min(0, client.body) :]
        client.up[:0] = found.head
        # To the host a forwarded connection is as good as one that was asked for by CONNECT.
        via = "connect" if found.via == "forward" else found.via
        body = {"host": found.host[:1024], "port": found.port, "via": via}
        self._send(client.number, b"o", json.dumps(body).encode())

    def _send_up(self, client: _Client) -> None:
        if not client.carrying:
            return
        while client.up and client.room:
            part = bytes(client.up[: min(MAX_DATA, client.room)])
            del client.up[: len(part)]
            client.room -= len(part)
            self._send(client.number, b"d", part)
        if client.read_end and not client.up and not client.told_end:
            client.told_end = True
            self._send(client.number, b"e")

    # From the host ----------------------------------------------------------------------------

    def take(self, parts: list[bytes]) -> None:
        """A TUNNEL frame of the host."""
        number, verb, data = int.from_bytes(parts[0], "big"), parts[1], parts[2]
        client = self._tunnels.get(number)
        if verb in (b"x", b"r"):
            if number in self._ending:
                # It has crossed ours, or answers it.
                self._ending.discard(number)
                return
            if client is not None:
                del self._tunnels[number]
                self._send(number, b"x")
                if verb == b"r":
                    self._refused(client, data)
                elif client.host_end:
                    self._say_last(client, b"")  # it still gets all that the host said
                elif client.carrying:
                    self._abort(client)
                else:
                    self._say_last(client, refusal(client.via, 502, "the connection was cut"))
                self._settle(client)
            return
        if client is None:
            return
        match verb:
            case b"a":
                client.carrying = True
                client.out += accepted(client.via)
                self._write(client)
            case b"d":
                client.out += data
                client.owed += len(data)
                self._write(client)
            case b"w":
                client.room += int.from_bytes(data, "big")
            case b"e":
                client.host_end = True
        self._settle(client)

    def _refused(self, client: _Client, data: bytes) -> None:
        body = json.loads(data)
        self._say_last(client, refusal(client.via, body["status"], body["text"]))

    def _write(self, client: _Client) -> None:
        """Write what there is for a program, as far as it takes it."""
        while client.out:
            try:
                sent = client.sock.send(client.out)
            except (BlockingIOError, InterruptedError):
                break
            except OSError:
                self._abort(client)
                return
            del client.out[:sent]
        owed = client.owed - len(client.out)
        if client.number in self._tunnels and owed * 4 >= WINDOW and not client.host_end:
            client.owed -= owed
            self._send(client.number, b"w", owed.to_bytes(4, "big"))

    # Ends -------------------------------------------------------------------------------------

    def _say_last(self, client: _Client, data: bytes) -> None:
        """Tell a program something, and that this is all; then hear it out until it closes."""
        client.over = True
        client.carrying = False
        client.up.clear()
        client.out += data
        self._write(client)

    def _shut(self, client: _Client) -> None:
        client.shut = True
        with contextlib.suppress(OSError):
            client.sock.shutdown(socket.SHUT_WR)

    def _end(self, client: _Client) -> None:
        """End a client's tunnel, if there is one, towards the host."""
        if self._tunnels.pop(client.number, None) is not None:
            self._ending.add(client.number)
            self._send(client.number, b"x")

    def _abort(self, client: _Client) -> None:
        self._end(client)
        self._forget(client)

    def _forget(self, client: _Client) -> None:
        if self._clients.pop(client.fd, None) is None:
            return
        self._held.discard(client)
        if client.flags:
            self._poller.unregister(client.fd)
        client.sock.close()
        if not self._taking:
            self._take_more(True)

    def _send(self, number: int, verb: bytes, data: bytes = b"") -> None:
        self._stream.send(Channel.TUNNEL, [number.to_bytes(_ID, "big"), verb, data])


def _is_gone(sock: socket.socket) -> bool:
    """Whether a connection has been reset, or ended both ways."""
    try:
        return not sock.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        return True
