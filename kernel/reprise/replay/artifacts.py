"""Takes files out of a workspace: stored by sha256 apart from the log, with who and when."""

from __future__ import annotations

from reprise.errors import TooLarge
from reprise.log.model import Actor
from reprise.log.postgres import Log
from reprise.log.store import Artifact, LogReader
from reprise.quantities import amount
from reprise.sandbox.connection import Guest
from reprise.settings import ARTIFACT_BYTES
from reprise.workspace.transfer import read_file, stat_path


async def keep_file(guest: Guest, log: Log, reader: LogReader, path: str, actor: Actor) -> Artifact:
    """Store a file of the workspace as an artifact of the session, as after its last step.

    Raises GuestCallFailed when it is no file, TooLarge over ARTIFACT_BYTES; nothing is kept then.
    """
    found = await stat_path(guest, path)
    if found is not None and found.size > ARTIFACT_BYTES:
        raise TooLarge(
            f"{path!r} holds {amount(found.size)}; {amount(ARTIFACT_BYTES)} are the most that is "
            "kept as an artifact. Nothing was stored."
        )
    data = await read_file(guest, path, ARTIFACT_BYTES)
    sha256 = await reader.blobs.put(data)
    last = (await reader.info()).steps - 1
    mode = 0o644 if found is None else found.mode
    return await log.add_artifact(
        reader.session,
        seq=last,
        path=path,
        sha256=sha256,
        size=len(data),
        mode=mode,
        actor=actor,
    )
