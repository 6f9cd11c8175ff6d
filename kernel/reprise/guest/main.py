"""The guest's start: hears its settings, starts the language kernel, then loads the rest."""

from __future__ import annotations

import os
import signal
import site
import socket

from reprise.guest.language import LanguageKernel
from reprise.guest.prctl import set_child_subreaper, set_dumpable
from reprise.guest.settings import Settings
from reprise.guest.stream import Stream, StreamClosed
from reprise.sandbox.frames import PROTOCOL, Channel, Frame


def main(argv: list[str]) -> int:
    """Serve the host on the descriptor named by argv[0] until it goes away."""
    descriptor = int(argv[0])
    os.set_inheritable(descriptor, False)
    # Cells run as the same user: without this they could ptrace us or open our descriptors.
    set_dumpable(False)
    set_child_subreaper()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    sock = socket.socket(fileno=descriptor)
    stream = Stream(sock)
    stream.send(Channel.HELLO, [str(PROTOCOL).encode(), b""])
    try:
        settings, early = _hear_settings(stream, sock)
        language = LanguageKernel(settings)
        language.start()
        # From here on the language kernel starts beside us, so loading is free of charge.
        site.main()
        from reprise.guest.serve import serve  # noqa: PLC0415

        serve(stream, settings, language, early)
    except StreamClosed:
        pass
    return 0


def _hear_settings(stream: Stream, sock: socket.socket) -> tuple[Settings, list[Frame]]:
    """The settings, and the frames that came in the same breath."""
    while True:
        sock.setblocking(True)
        first = sock.recv(1, socket.MSG_PEEK)
        sock.setblocking(False)
        if not first:
            raise StreamClosed("the host left before it said anything")
        frames = stream.receive()
        if not frames:
            continue
        hello, *early = frames
        if hello.channel is not Channel.HELLO or hello.parts[0] != str(PROTOCOL).encode():
            raise StreamClosed("the host does not speak this protocol")
        return Settings.parse(hello.parts[1]), early
