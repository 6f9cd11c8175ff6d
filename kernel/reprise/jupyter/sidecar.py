"""The file by which a running kernel says which session it holds, beside its connection file.

`reprise_server` reads it to write the session into the notebook, and commands to find the
kernel of a session. Light: the Jupyter server imports it.
"""

from __future__ import annotations

import json
import os
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from reprise.log.model import Json

SIDECAR_BYTES: Final = 64 << 10
_SIDECAR_END: Final = ".reprise.json"


def sidecar_path(connection_file: Path) -> Path:
    """Where a kernel says which session it holds: beside its connection file.

    The name starts with a dot, since Jupyter takes whatever matches `kernel*.json` there for a
    connection file (`jupyter console --existing` picks the one read last).
    """
    return connection_file.with_name(f".{connection_file.stem}{_SIDECAR_END}")


def write_sidecar(
    connection_file: Path,
    session: uuid.UUID,
    *,
    sandbox_pid: int | None = None,
    agent_token: str | None = None,
    surroundings: Mapping[str, Json] | None = None,
) -> None:
    """Say which session this process holds. Readable by this user only; replaced whole.

    agent_token: what a client shows to ask for steps as an agent (docs/messages.md).
    surroundings: what code of this kernel runs in (`client.results.Surroundings`).
    """
    body = {
        "session": str(session),
        "pid": os.getpid(),
        "sandbox_pid": sandbox_pid,
        "agent_token": agent_token,
        "surroundings": dict(surroundings or {}),
    }
    path = sidecar_path(connection_file)
    handle, name = tempfile.mkstemp(prefix=f".{connection_file.stem}-", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(body, file)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def read_sidecar(connection_file: Path) -> dict[str, Json] | None:
    """What `write_sidecar` wrote ({session, pid, sandbox_pid, agent_token, surroundings}), if a
    kernel did."""
    try:
        with sidecar_path(connection_file).open("rb") as file:
            value = json.loads(file.read(SIDECAR_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and _is_uuid(value.get("session")) else None


def _is_uuid(value: Json) -> bool:
    try:
        return isinstance(value, str) and str(uuid.UUID(value)) == value
    except ValueError:
        return False


def remove_sidecar(connection_file: Path) -> None:
    """At a clean end of the kernel."""
    sidecar_path(connection_file).unlink(missing_ok=True)


def sidecars(runtime_dir: Path) -> Iterator[tuple[Path, dict[str, Json]]]:
    """The connection files of Reprise's kernels in a folder, with what their sidecars say."""
    for path in sorted(runtime_dir.glob(f".*{_SIDECAR_END}")):
        connection = path.with_name(path.name[1:].removesuffix(_SIDECAR_END) + ".json")
        found = read_sidecar(connection)
        if found is not None:
            yield connection, found
