"""Finds which session a kernel process takes: by setting, notebook or kernel id."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Final

from reprise import settings
from reprise.errors import SessionNotFound
from reprise.jupyter.attachment import Attachment, read_identity
from reprise.log.postgres import Log

log = logging.getLogger("reprise")

#: When a notebook may have been moved, so many notebooks beside it are looked into.
NEIGHBOURS: Final = 200


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
