"""The guest's start: hears its settings, starts the language kernel, then loads the rest."""

from __future__ import annotations

import os
import signal
import site
import socket
import sys

from reprise.guest import network
from reprise.guest.language import LanguageKernel
from reprise.guest.prctl import set_child_subreaper, set_dumpable
from reprise.guest.settings import Settings
from reprise.guest.stream import SILENCE, Stream, StreamClosed
from reprise.sandbox.frames import PROTOCOL, Channel, Frame


def main(argv: list[str]) -> int:
    """Serve the host until it goes away; its arguments are in `__main__`."""
    if len(argv) == 1:
        guest(socket.socket(fileno=int(argv[0])), dialled=False)
        return 0
    # Dialled from a container of which nothing may be known but its exit code, and where another
    # one than 0 could lose the container's files: so it is 0 whatever happens.
    try:
        from reprise.guest import dial  # noqa: PLC0415

        how, path = argv
        if how == "--rooted":
            from reprise.guest import rooted  # noqa: PLC0415

            rooted.run(path, lambda sock: guest(sock, dialled=True, shared_users=True))
        else:
            # Cells run as the same user: without this they could read the token.
            set_dumpable(False)
            guest(dial.dial(path, dial.take(dial.GUEST)), dialled=True)
    except BaseException:  # noqa: BLE001  said, not passed over: it goes to the container's log
        sys.excepthook(*sys.exc_info())
    return 0


def guest(sock: socket.socket, *, dialled: bool, shared_users: bool = False) -> None:
    """Serve the host on its stream until it goes away.

    dialled: the end of the stream may not be seen, so long silence counts as one.
    shared_users: others may have this user too, so its processes cannot be counted.
    """
    sock.set_inheritable(False)
    # Cells run as the same user: without this they could ptrace us or open our descriptors.
    set_dumpable(False)
    set_child_subreaper()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    stream = Stream(sock, SILENCE if dialled else None)
    stream.send(Channel.HELLO, [str(PROTOCOL).encode(), b""])
    try:
        settings, early = _hear_settings(stream, sock)
        if shared_users:
            settings = settings._replace(processes=0)
        proxy = None
        if settings.network is not None:
            # First: the language kernel inherits the variables that lead there.
            proxy = network.offer(settings.network, os.environ)
            if certificate := settings.network["authority"]:
                from reprise.guest.authority import trust  # noqa: PLC0415

                prefix = os.path.dirname(os.path.dirname(settings.argv[0]))
                trust(certificate, os.environ, prefix)
        if settings.isolated:
            _make_folders()
        language = LanguageKernel(settings)
        language.start()
        # From here on the language kernel starts beside us, so loading is free of charge.
        site.main()
        from reprise.guest.serve import serve  # noqa: PLC0415

        serve(stream, settings, language, early, proxy)
    except StreamClosed:
        pass


def _make_folders() -> None:
    """The user's own, in file systems that were empty at first."""
    for name in ("HOME", "XDG_CACHE_HOME"):
        if folder := os.environ.get(name):
            os.makedirs(folder, exist_ok=True)


def _hear_settings(stream: Stream, sock: socket.socket) -> tuple[Settings, list[Frame]]:
    """The settings, and the frames that came in the same breath."""
    while True:
        sock.settimeout(stream.silence)
        try:
            first = sock.recv(1, socket.MSG_PEEK)
        except TimeoutError:
            raise StreamClosed("the host said nothing") from None
        except OSError as error:
            raise StreamClosed(str(error)) from error
        finally:
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
