"""Dials the host: connects to the socket that it put inside, and presents the token.

The token is good for one connection; nobody else in the sandbox gets to see it nevertheless.
"""

from __future__ import annotations

import ctypes
import os
import socket

#: Variables with the tokens, as `sandbox.dial` names them: the guest's, its parent's (`rooted`).
GUEST = "REPRISE_TOKEN"
ROOTED = "REPRISE_ROOT_TOKEN"

#: Seconds that connecting and presenting may take. The socket is there before we are.
_PATIENCE = 60.0


def take(variable: str) -> str:
    """The variable's value, which nobody finds afterwards: not in the environment that children
    get, and not in /proc/PID/environ, which shows this memory to whoever may look."""
    value = os.environ.get(variable, "")
    libc = ctypes.CDLL(None)
    libc.getenv.restype = ctypes.c_void_p
    where = libc.getenv(variable.encode())
    if where:
        ctypes.memset(where, ord("-"), len(os.fsencode(value)))
    os.environ.pop(variable, None)
    return value


def dial(path: str, token: str) -> socket.socket:
    """A connection to the host. Raises OSError."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.settimeout(_PATIENCE)
        sock.connect(path)
        sock.sendall(f"{token}\n".encode())
    except BaseException:
        sock.close()
        raise
    return sock
