"""What a kernel process was started with: a session by setting, its kernel id, its notebook.

Light: a kernel that something was chosen for reads this before its sandbox starts.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from reprise import settings
from reprise.errors import UsageError
from reprise.log.model import Json

#: Of larger notebooks only the end is read, where nbformat (keys sorted) writes the metadata.
NOTEBOOK_BYTES: Final = 32 << 20
TAIL_BYTES: Final = 256 << 10

_UUID: Final = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_KERNEL_FILE: Final = re.compile(rf"kernel-({_UUID})\.json")
#: VS Code names a remote session after the notebook and an id of its own.
_VS_CODE: Final = re.compile(rf"-jvsc-{_UUID}(?=(?:\.ipynb)?$)")
_IDENTITY_AT_END: Final = re.compile(
    rb'"reprise"\s{0,99}:\s{0,99}\{[^{}]{0,999}"session"\s{0,99}:\s{0,99}"([0-9a-f-]{36})"'
)


@dataclass(frozen=True)
class Attachment:
    """What this process knows about itself.

    keys: what leads to its session, the strongest first; the router binds them all.
    session: the session asked for by REPRISE_SESSION.
    notebook: absolute path of the notebook, if the client told it.
    identity: the session that the notebook's metadata name (`reprise_server` writes it there).
    """

    keys: tuple[str, ...]
    session: uuid.UUID | None
    notebook: str | None
    identity: uuid.UUID | None = None


def attachment(
    connection_file: Path,
    environ: Mapping[str, str],
    inherited: Mapping[str, str] | None = None,
) -> Attachment:
    """Read what a kernel process was started with.

    The kernel id comes before the notebook: a kernel that a client restarts has changed neither,
    but it may have been given another session by an `attach_request`.

    inherited: the environment of the process that started this one (default: read from /proc).
      A JPY_SESSION_NAME that stands there too names that process's notebook, not ours (papermill
      run in a notebook's cell).
    Raises UsageError when REPRISE_SESSION is no UUID.
    """
    session = None
    named = environ.get(settings.SESSION, "").strip()
    if named:
        try:
            session = uuid.UUID(named)
        except ValueError as error:
            raise UsageError(
                f"{settings.SESSION}={named!r} is not a session id. Nothing was started. Set it to"
                " an id that `reprise sessions` lists or to a new UUID, or unset it."
            ) from error
    keys = []
    kernel = kernel_key(connection_file)
    if kernel is not None:
        keys.append(kernel)
    notebook = identity = None
    path = environ.get("JPY_SESSION_NAME", "")
    if path and path != (_parents_environ() if inherited is None else inherited).get(
        "JPY_SESSION_NAME"
    ):
        notebook = _notebook_path(path)
    if notebook is not None:
        identity = read_identity(Path(notebook))
        if identity is not None:
            keys.append(notebook_key(notebook, identity))
    return Attachment(tuple(keys), session, notebook, identity)


def kernel_key(connection_file: Path) -> str | None:
    """By the id that a server gave the kernel: a restart keeps it. None for other files."""
    kernel = _KERNEL_FILE.fullmatch(connection_file.name)
    return None if kernel is None else f"kernel:{kernel.group(1)}"


def notebook_key(notebook: str, identity: uuid.UUID) -> str:
    """Path and identity together: a new notebook at an old path inherits nothing."""
    return f"notebook:{identity}:{notebook}"


def read_identity(notebook: Path) -> uuid.UUID | None:
    """`metadata.reprise.session` of a notebook file; None for whatever cannot be read so."""
    try:
        # Not to wait for a writer, should the path be a pipe.
        with open(notebook, "rb", opener=_without_waiting) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                return None
            size = found.st_size
            if size > NOTEBOOK_BYTES:
                file.seek(size - TAIL_BYTES)
                named = _IDENTITY_AT_END.findall(file.read(TAIL_BYTES))
                return _uuid(named[-1].decode("ascii")) if named else None
            data = file.read(NOTEBOOK_BYTES)
        if b'"reprise"' not in data:
            return None
        value = json.loads(data)
    except (OSError, ValueError, RecursionError):
        return None
    for key in ("metadata", "reprise", "session"):
        value = value.get(key) if isinstance(value, dict) else None
    return _uuid(value)


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def _uuid(value: Json) -> uuid.UUID | None:
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            return uuid.UUID(value)
    return None


def _notebook_path(session_name: str) -> str | None:
    """JPY_SESSION_NAME as an absolute path; None for what is no notebook (a console's name)."""
    path = Path(_VS_CODE.sub("", session_name))
    if path.suffix != ".ipynb":
        return None
    if not path.is_absolute():
        # Relative to the server's root, which we do not know; Jupyter starts a kernel in the
        # notebook's own folder.
        path = Path.cwd() / path.name
    return os.path.realpath(path)


def _parents_environ() -> dict[str, str]:
    try:
        data = Path(f"/proc/{os.getppid()}/environ").read_bytes()
    except OSError:  # not Linux, or the parent runs as another user
        return {}
    pairs = (os.fsdecode(entry).partition("=") for entry in data.split(b"\0") if b"=" in entry)
    return {name: value for name, _, value in pairs}
