"""What the guest's parent finds out of the engine that runs it, and tells the host.

An engine with our runtime shim (docs/dagger.md) has replaced REPRISE_SHIM by REPRISE_SHIM_APPLIED.
The host hears, first of all on the parent's connection: u16 length, JSON {"applied": what stands
there, or null}. Then all that was meant for this file alone leaves the environment, and what the
engine put there for programs of its own.
"""

from __future__ import annotations

import json
import os
import socket

_ASKED = "REPRISE_SHIM"
_APPLIED = "REPRISE_SHIM_APPLIED"
#: The engine's own, about its telemetry: it would let the sandbox write into the engine's logs.
_ENGINES = ("OTEL_", "TRACEPARENT", "_DAGGER_", "DAGGER_")
_OURS = ("REPRISE_SHIM", "REPRISE_NONCE")


#: Where a container sees how often the kernel has killed one of its processes for memory, in
#: control groups of version 1 and 2 ("oom_kill N").
_KILLED = ("/sys/fs/cgroup/memory/memory.oom_control", "/sys/fs/cgroup/memory.events")


def killed_for_memory() -> int:
    """How many processes of this container the kernel has killed for its memory limit."""
    for path in _KILLED:
        try:
            with open(path) as file:
                words = file.read().split()
            return int(words[words.index("oom_kill") + 1])
        except (OSError, ValueError, IndexError):
            continue
    return 0


def asked() -> bool:
    """Whether a shim was asked for, so that the host waits for a report."""
    return _ASKED in os.environ or _APPLIED in os.environ


def report(sock: socket.socket) -> bool:
    """Tell the host, and clear the environment. Whether the network was taken away."""
    applied = os.environ.get(_APPLIED)
    for name in list(os.environ):
        if name.startswith((*_ENGINES, *_OURS)):
            del os.environ[name]
    told = json.dumps({"applied": applied}).encode()
    sock.sendall(len(told).to_bytes(2, "big") + told)
    try:
        return applied is not None and json.loads(applied)["network"] == "none"
    except (ValueError, KeyError, TypeError):
        return False
