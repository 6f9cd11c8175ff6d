"""How programs inside find the proxy: where it listens, and the variables that name it."""

# pathlib is not loaded in here: the language kernel waits for us.

from __future__ import annotations

import contextlib
import socket
from collections.abc import MutableMapping
from typing import Any, NamedTuple

#: The proxy's port on the sandbox's loopback: always the same, so that a replay prints the same.
PORT = 3181

#: Connections that programs have opened and the proxy has not taken yet.
_BACKLOG = 128

_HERE = "localhost,127.0.0.1,::1"


class Listener(NamedTuple):
    """Where programs connect to. target: the host and port behind it, None for the proxy."""

    sock: socket.socket
    target: tuple[str, int] | None = None


def offer(network: dict[str, Any], environ: MutableMapping[str, str]) -> list[Listener]:
    """Begin to listen, and set the variables that lead there.

    Before the language kernel starts: it, and every command, inherits them. Never ALL_PROXY:
    httpx refuses to work with it unless a package of its own is there. Raises OSError.
    """
    try:
        proxy = _listen("127.0.0.1", PORT)
    except OSError:
        # Something of the image's own has the port.
        proxy = _listen("127.0.0.1", 0)
    found = [Listener(proxy)]
    for host, port in network["forwards"]:
        for address in ("127.0.0.1", "::1") if host == "localhost" else (host,):
            # Not where a program of the image listens, nor below 1024: that takes a privilege.
            with contextlib.suppress(OSError):
                found.append(Listener(_listen(address, port), (host, port)))
    place = f"http://127.0.0.1:{proxy.getsockname()[1]}"
    for name in ("HTTP_PROXY", "HTTPS_PROXY"):
        environ[name] = environ[name.lower()] = place
    environ["NO_PROXY"] = environ["no_proxy"] = _HERE
    # Node obeys the variables above when this one says so (22.21, 24.5).
    environ["NODE_USE_ENV_PROXY"] = "1"
    environ.update(network["index"])
    return found


def _listen(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener
