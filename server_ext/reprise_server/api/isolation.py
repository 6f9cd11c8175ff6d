"""Whether a wall stands around what this server's kernels run, as its backend is set."""

from __future__ import annotations

import os

from reprise.settings import BACKEND, DEFAULT_BACKEND


def isolated() -> bool:
    """False on the backend `process`, where code has the rights of whoever runs the server."""
    return os.environ.get(BACKEND, DEFAULT_BACKEND) != "process"
