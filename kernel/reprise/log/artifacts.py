"""Files taken out of workspaces: recorded beside the log, never replayed."""

from __future__ import annotations

import json
import uuid

from reprise.log.blobs import Ask
from reprise.log.model import Actor, canonical
from reprise.log.store import Artifact


async def insert_artifact(ask: Ask, owner: str, artifact: Artifact) -> None:
    """Once, however often it is sent: its id is drawn by the caller."""
    await ask(
        "INSERT INTO reprise.artifacts (id, owner, session, seq, sha256, size, mode, at, body)"
        " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING",
        [
            artifact.id,
            owner,
            artifact.session,
            artifact.seq,
            bytes.fromhex(artifact.sha256),
            artifact.size,
            artifact.mode,
            artifact.at,
            canonical([artifact.path, artifact.actor.to_json()]).decode("ascii"),
        ],
    )


async def select_artifacts(ask: Ask, owner: str, session: uuid.UUID | None) -> list[Artifact]:
    """Those of one session, or of all of an owner, in the order in which they were taken."""
    rows = await ask(
        "SELECT id, session, seq, encode(sha256, 'hex'), size, mode, at, body::text"
        " FROM reprise.artifacts WHERE owner = %s AND (%s::uuid IS NULL OR session = %s)"
        " ORDER BY number",
        [owner, session, session],
    )
    found = []
    for identity, of_session, seq, sha256, size, mode, at, body in rows:
        path, who = json.loads(body)
        actor = Actor(who["kind"], who.get("conversation"), who.get("turn"))
        found.append(Artifact(identity, of_session, seq, path, sha256, size, mode, actor, at))
    return found
