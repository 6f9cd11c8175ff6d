"""Carries Jupyter messages between the stream's channels and the language kernel's sockets."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Callable, Sequence

import zmq

from reprise.guest.wire import Signer, split
from reprise.sandbox.frames import Channel

#: Client identities kept at once; the one unused longest goes first. A notebook has one or two.
MAX_CLIENTS = 64

#: Messages read from one socket before the others get a turn.
_TURN = 200

#: The kernel asks for input on the stdin socket of whoever sent the request, and its ROUTER
#: drops what is for a peer it has not met: a client's first request waits until they have met.
#: The kernel's ZMQ thread answers at once even while a cell runs; only a stopped kernel does not.
_HANDSHAKE_MS = 200

#: The guest's own identity at the language kernel.
_OWN = b"reprise-guest"

_REQUEST_PORTS = {
    Channel.SHELL: "shell_port",
    Channel.CONTROL: "control_port",
    Channel.STDIN: "stdin_port",
}


class Relay:
    """The sockets to one run of the language kernel.

    A client has a DEALER for shell, stdin and control each, all under the client's identity,
    as jupyter_client's own sockets have: the kernel sees what it would see without us.

    deliver: called with (channel, parts) for each message that comes out.
    """

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        poller: zmq.Poller,
        endpoint: Callable[[str], str],
        key: str,
        deliver: Callable[[Channel, list[bytes]], None],
    ) -> None:
        self._context = context
        self._poller = poller
        self._endpoint = endpoint
        self._signer = Signer(key)
        self._deliver = deliver
        self._clients: OrderedDict[bytes, dict[Channel, zmq.Socket[bytes]]] = OrderedDict()
        self._sources: dict[zmq.Socket[bytes], tuple[Channel, bytes]] = {}
        self.iopub = self._open(zmq.SUB, "iopub_port")
        # Unbounded: what PUB cannot hand over it drops, `idle` included. The bound is kept by
        # pausing the kernel (`main`), not by the socket.
        self.iopub.setsockopt(zmq.SUBSCRIBE, b"")
        self._own_session = self._signer.session.encode()
        self._own_busy = False
        self._own_control: zmq.Socket[bytes] | None = None
        #: Content of the kernel_info_reply to our own request, once it came.
        self.kernel_info: bytes | None = None

    def ask_kernel_info(self) -> None:
        """Send the request whose answer shows that the language kernel is up."""
        self._own_busy = True
        shell = self._open(zmq.DEALER, "shell_port", _OWN)
        self._sources[shell] = (Channel.SHELL, _OWN)
        shell.send_multipart(self._signer.request("kernel_info_request"))

    def request_interrupt(self) -> None:
        """Send an interrupt_request of our own on the control channel."""
        control = self._own_control
        if control is None:
            control = self._own_control = self._open(zmq.DEALER, "control_port", _OWN)
            self._sources[control] = (Channel.CONTROL, _OWN)
        control.send_multipart(self._signer.request("interrupt_request"))

    def _open(
        self, kind: int, port: str, identity: bytes = b"", wait_ms: int = 0
    ) -> zmq.Socket[bytes]:
        socket = self._context.socket(kind)
        socket.linger = 0
        socket.rcvhwm = 0
        # The kernel may not have bound yet; try again soon, the wait is part of its start.
        socket.reconnect_ivl = 5
        if identity:
            socket.identity = identity
        if wait_ms:
            monitor = socket.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED)
            socket.connect(self._endpoint(port))
            monitor.poll(wait_ms)
            socket.disable_monitor()
        else:
            socket.connect(self._endpoint(port))
        self._poller.register(socket, zmq.POLLIN)
        return socket

    def _close(self, socket: zmq.Socket[bytes]) -> None:
        self._poller.unregister(socket)
        self._sources.pop(socket, None)
        socket.close()

    def close(self) -> None:
        """Close every socket; messages on the way are lost with the kernel."""
        for socket in [self.iopub, *self._sources]:
            self._close(socket)
        self._clients.clear()

    def forward(self, channel: Channel, parts: Sequence[bytes]) -> bool:
        """Hand a client's message to the language kernel; False while it has no room for it."""
        client = parts[0]
        sockets = self._clients.get(client)
        if sockets is None:
            if len(self._clients) >= MAX_CLIENTS:
                _old, unused = self._clients.popitem(last=False)
                for socket in unused.values():
                    self._close(socket)
            sockets = self._clients[client] = {}
            for each, port in _REQUEST_PORTS.items():
                wait = _HANDSHAKE_MS if each is Channel.STDIN else 0
                sockets[each] = self._open(zmq.DEALER, port, identity_for(client), wait)
                self._sources[sockets[each]] = (each, client)
        self._clients.move_to_end(client)
        try:
            sockets[channel].send_multipart(self._signer.sign(parts[1:]), zmq.NOBLOCK)
        except zmq.Again:
            return False
        return True

    def readable(self, socket: zmq.Socket[bytes]) -> bool:
        """Deliver what has come on a socket; False when it is none of this relay's."""
        if socket is self.iopub:
            self._read_iopub()
            return True
        source = self._sources.get(socket)
        if source is None:
            return False
        channel, client = source
        for _ in range(_TURN):
            found = _receive(socket)
            if found is None:
                return True
            message = split(found)
            if message is None:
                continue
            if client is _OWN and channel is Channel.CONTROL:
                continue
            if client is _OWN:
                self.kernel_info = message[1][3]
                self._close(socket)
                return True
            self._deliver(channel, [client, *message[1]])
        return True

    def _read_iopub(self) -> None:
        for _ in range(_TURN):
            found = _receive(self.iopub)
            if found is None:
                return
            message = split(found)
            if message is None:
                continue
            routing, parts = message
            if self._own_busy and self._own_session in parts[1]:
                # The busy and idle of our own request concern nobody outside.
                self._own_busy = b'"idle"' not in parts[3]
                continue
            self._deliver(Channel.IOPUB, [routing[-1] if routing else b"", *parts])

    def drain(self, wait_ms: int) -> None:
        """Deliver what the ended kernel had already sent, until nothing comes for `wait_ms`."""
        poller = zmq.Poller()
        for socket in [self.iopub, *self._sources]:
            poller.register(socket, zmq.POLLIN)
        while ready := poller.poll(wait_ms):
            for socket, _event in ready:
                self.readable(socket)
                if socket.closed:
                    poller.unregister(socket)


def _receive(socket: zmq.Socket[bytes]) -> list[bytes] | None:
    with contextlib.suppress(zmq.Again):
        return socket.recv_multipart(zmq.NOBLOCK)
    return None


def identity_for(client: bytes) -> bytes:
    """A DEALER identity as like the client's as ZMQ allows: 1 to 255 bytes, no leading zero.

    A client that named itself keeps its name; one that ZMQ numbered (a leading zero) gets its
    number in hex.
    """
    if client and client[0] != 0 and len(client) <= 255:
        return client
    return b"anonymous-" + client.hex().encode()[:240]
