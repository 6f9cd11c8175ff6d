"""The library's entry: `connect` (from plain Python) and `aconnect` (on an event loop)."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from pathlib import Path

from reprise.client.kernel import AsyncKernel, session_id
from reprise.client.portal import Portal
from reprise.client.reach import Patience, Wanted
from reprise.client.sync import Kernel
from reprise.errors import UsageError
from reprise.log.model import Actor


async def aconnect(
    session: uuid.UUID | str | None = None,
    *,
    notebook: str | Path | None = None,
    connection_file: str | Path | None = None,
    folder: str | Path | None = None,
    kernel: str | None = None,
    env: Mapping[str, str] | None = None,
    start: bool = True,
    actor: Actor | None = None,
    patience: Patience | None = None,
) -> AsyncKernel:
    """A session's kernel: the one that holds it on this machine, or one that is started for it.

    session: its id; one that is not there is begun under that id. None: a new session.
    notebook: the session of that notebook, begun when it has none.
    connection_file: the kernel of that file, whatever its session is.
    folder: where a kernel that is started runs; its files come in as a notebook's folder does.
      Default: the folder of the session's notebook, for a new session the current one.
    kernel: the kernelspec to start (default: the session's, for a new one `reprise`).
    env: variables on top of this process', such as REPRISE_BACKEND.
    start: False to start no kernel.  actor: who asks for the steps (default: the user).
    Raises LeaseHeld when a kernel elsewhere holds the session, UsageError, UnavailableError.
    """
    wanted = Wanted(
        session=None if session is None else session_id(session),
        connection=_absolute(connection_file),
        notebook=_absolute(notebook),
        folder=_absolute(folder),
        kernel=kernel,
        environ={**os.environ, **(env or {})},
        may_start=start,
    )
    if wanted.folder is not None and not wanted.folder.is_dir():
        raise UsageError(f"There is no folder {wanted.folder}.")
    made = AsyncKernel(wanted, patience or Patience(), actor)
    try:
        await made.connect()
    except BaseException:
        await made.close()
        raise
    return made


def connect(
    session: uuid.UUID | str | None = None,
    *,
    notebook: str | Path | None = None,
    connection_file: str | Path | None = None,
    folder: str | Path | None = None,
    kernel: str | None = None,
    env: Mapping[str, str] | None = None,
    start: bool = True,
    actor: Actor | None = None,
    patience: Patience | None = None,
) -> Kernel:
    """As `aconnect`, for code without an event loop (or inside a running one)."""
    portal = Portal()
    try:
        found = portal.call(
            lambda _: aconnect(
                session,
                notebook=notebook,
                connection_file=connection_file,
                folder=folder,
                kernel=kernel,
                env=env,
                start=start,
                actor=actor,
                patience=patience,
            )
        )
    except BaseException:
        portal.close()
        raise
    return Kernel(portal, found)


def _absolute(path: str | Path | None) -> Path | None:
    return None if path is None else Path(path).absolute()
