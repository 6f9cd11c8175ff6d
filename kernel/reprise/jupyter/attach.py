"""Finds which session a kernel process takes: by setting, notebook or kernel id."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import re
import stat
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from reprise import settings
from reprise.errors import SessionNotFound, UsageError
from reprise.jupyter.sidecar import read_sidecar, remove_sidecar, write_sidecar
from reprise.log.model import Json
from reprise.log.postgres import Log

__all__ = [
    "Attachment",
    "attachment",
    "notebook_key",
    "read_identity",
    "read_sidecar",
    "remove_sidecar",
    "resolve",
    "write_sidecar",
]

log = logging.getLogger("reprise")

#: Of larger notebooks only the end is read, where nbformat (keys sorted) writes the metadata.
NOTEBOOK_BYTES: Final = 32 << 20
TAIL_BYTES: Final = 256 << 10
#: When a notebook may have been moved, so many notebooks beside it are looked into.
NEIGHBOURS: Final = 200

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
    kernel = _KERNEL_FILE.fullmatch(connection_file.name)
    if kernel is not None:
        keys.append(f"kernel:{kernel.group(1)}")
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


def notebook_key(notebook: str, identity: uuid.UUID) -> str:
    """Path and identity together: a new notebook at an old path inherits nothing."""
    return f"notebook:{identity}:{notebook}"


async def resolve(
    opened: Log,
    attached: Attachment,
    *,
    kernel: str,
    tell: Callable[[str], None] = log.warning,
) -> tuple[uuid.UUID, bool]:
    """The session this process takes, and whether it was begun now.

    A notebook that carries the identity of a session of this owner keeps it when it was renamed
    or moved; a *copy* gets a new session, since two notebooks in one history would mix their
    states. It counts as a copy while another notebook with that identity is where the session
    was begun, or beside either of the two. An identity that belongs to another owner, or to no
    session of this database, is a stranger's notebook and gets a new session as well.

    kernel: name of the language kernel, recorded with a new session.
    tell: takes a sentence for the user when the identity was not followed.
    """
    if attached.session is not None:
        new = not await _owned(opened, attached.session)
        begun = await opened.begin(
            session=attached.session, notebook=attached.notebook, kernel=kernel
        )
        return begun, new
    for key in attached.keys:
        found = await opened.find(key)
        if found is not None:
            return found, False
    notebook, identity = attached.notebook, attached.identity
    if notebook is not None and identity is not None:
        word = await _refusal(opened, Path(notebook), identity)
        if word is None:
            return identity, False
        tell(word)
    return await opened.begin(notebook=notebook, kernel=kernel), True


async def _refusal(opened: Log, notebook: Path, identity: uuid.UUID) -> str | None:
    """Why the notebook cannot have the session its metadata name; None when it can."""
    take = f"To go on with it here, start the kernel with {settings.SESSION}={identity}."
    try:
        info = await (await opened.reader(identity)).info()
    except SessionNotFound:
        return (
            f"{notebook.name} names the session {identity}, which is not among yours: it was made"
            " by somebody else, on another database, or the session was deleted. It begins a new"
            " session."
        )
    begun = None if info.notebook is None else Path(info.notebook)
    if begun == notebook:
        return None
    other = await asyncio.to_thread(_other_home, notebook, begun, identity)
    if other is None:
        return None
    return (
        f"{notebook.name} looks like a copy of {other}: both name the session {identity}. The copy"
        f" begins a new session. {take}"
    )


async def _owned(opened: Log, session: uuid.UUID) -> bool:
    try:
        await opened.reader(session)
    except SessionNotFound:
        return False
    return True


def _other_home(notebook: Path, begun: Path | None, identity: uuid.UUID) -> Path | None:
    """Another notebook that carries the identity, looked for where it is likely to be."""
    candidates = [] if begun is None else [begun]
    for folder in dict.fromkeys(path.parent for path in (notebook, begun) if path is not None):
        with contextlib.suppress(OSError):
            with os.scandir(folder) as entries:
                beside = [entry.path for entry in entries if entry.name.endswith(".ipynb")]
            candidates += (Path(path) for path in sorted(beside)[:NEIGHBOURS])
    for path in dict.fromkeys(candidates):
        if path != notebook and read_identity(path) == identity and not _same(path, notebook):
            return path
    return None


def _same(a: Path, b: Path) -> bool:
    with contextlib.suppress(OSError):
        return a.samefile(b)
    return False


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
