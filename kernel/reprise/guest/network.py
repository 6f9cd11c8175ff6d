"""How programs inside find the proxy: its socket, and the variables that name it."""

# pathlib is not loaded in here: the language kernel waits for us.

from __future__ import annotations

import socket
from collections.abc import MutableMapping
from typing import Any

#: The proxy's port on the sandbox's loopback: always the same, so that a replay prints the same.
PORT = 3181

#: Connections that programs have opened and the proxy has not taken yet.
_BACKLOG = 128

_HERE = "localhost,127.0.0.1,::1"


def offer(network: dict[str, Any], environ: MutableMapping[str, str]) -> socket.socket:
    """Begin to listen, and set the variables that lead there.

    Before the language kernel starts: it, and every command, inherits them. Never ALL_PROXY:
    httpx refuses to work with it unless a package of its own is there. Raises OSError.
    """
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", PORT))
        except OSError:
            # Something of the image's own has the port.
            listener.bind(("127.0.0.1", 0))
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    place = f"http://127.0.0.1:{listener.getsockname()[1]}"
    for name in ("HTTP_PROXY", "HTTPS_PROXY"):
        environ[name] = environ[name.lower()] = place
    environ["NO_PROXY"] = environ["no_proxy"] = _HERE
    # Node obeys the variables above when this one says so (22.21, 24.5).
    environ["NODE_USE_ENV_PROXY"] = "1"
    environ.update(network["index"])
    return listener
