"""Which skills sessions have used, and how the content of each stands now."""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection, Sequence

from reprise.log.blobs import Ask
from reprise.log.lineage import Line, along, columns
from reprise.log.model import SKILLS
from reprise.log.store import SessionInfo, SkillMount, Standing


async def select_skill_mounts(ask: Ask, line: Line) -> list[SkillMount]:
    """The mounts of a history below /skills that did not fail, in order."""
    rows = await ask(
        along(
            "SELECT t.seq, t.body::text, o.status FROM line g"
            " JOIN reprise.steps t ON t.session = g.session AND t.seq < g.end_seq"
            # As the index `untrusted_steps` has it, which holds every mount.
            " AND t.kind = 'mount' AND reprise.untrusted(t.kind, t.body)"
            " LEFT JOIN reprise.outcomes o ON o.session = t.session AND o.seq = t.seq"
            " ORDER BY t.seq"
        ),
        [*columns(line)],
    )
    found = (_skill_mount(*row) for row in rows)
    return [mount for mount in found if mount is not None]


def _skill_mount(seq: int, body: str, status: str | None) -> SkillMount | None:
    """What a mount step says; None when it mounts no skill, or is known to have failed.

    Parsed here, since Postgres' functions of json refuse texts with a NUL.
    """
    payload = json.loads(body)["payload"]
    target = str(payload["target"])
    if status == "error" or not target.startswith(SKILLS):
        return None
    return SkillMount(seq, target, str(payload["tree"]), payload.get("trusted") is True)


async def select_standings(ask: Ask, trees: Collection[str]) -> dict[str, Standing]:
    """How each of these contents stands for the login that asks; one query, none for none."""
    if not trees:
        return {}
    rows = await ask(
        "SELECT digest, standing FROM reprise.skill_standings(%s::text[])", [sorted(set(trees))]
    )
    return dict(rows)


async def select_uses(
    ask: Ask, owner: str, sessions: Sequence[SessionInfo]
) -> dict[uuid.UUID, list[SkillMount]]:
    """The skills that each of these sessions of an owner has used; those without are left out.

    sessions: all of the owner, so that what a fork shares is found in its parent.
    """
    rows = await ask(
        "SELECT t.session, t.seq, t.body::text, o.status FROM reprise.steps t"
        " LEFT JOIN reprise.outcomes o ON o.session = t.session AND o.seq = t.seq"
        " WHERE t.owner = %s AND t.kind = 'mount' AND reprise.untrusted(t.kind, t.body)"
        " ORDER BY t.session, t.seq",
        [owner],
    )
    own: dict[uuid.UUID, list[SkillMount]] = {}
    for session, *row in rows:
        mount = _skill_mount(*row)
        if mount is not None:
            own.setdefault(session, []).append(mount)
    if not own:
        return {}
    known = {info.id: info for info in sessions}
    found = {}
    for info in sessions:
        mounts = list(own.get(info.id, ()))
        at, shared = info, info.fork_seq
        while at.parent is not None and shared is not None:
            mounts += [mount for mount in own.get(at.parent, ()) if mount.seq <= shared]
            if at.parent not in known:
                break
            at = known[at.parent]
            shared = min(shared, -1 if at.fork_seq is None else at.fork_seq)
        if mounts:
            found[info.id] = sorted(mounts, key=lambda mount: mount.seq)
    return found
