"""A session's record as JSON for programs: what the commands print with --json and REST answers.

One shape, whoever asks. Times are ISO 8601 in UTC, durations seconds.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import UTC, datetime

from reprise.log.check import CheckReport
from reprise.log.deletion import Dependents
from reprise.log.model import Json
from reprise.log.store import Artifact, NetworkRow, Notice, SessionInfo, SkillMount, StepRecord


def iso(at_us: int) -> str:
    """A moment in UTC (ISO 8601, microseconds)."""
    return datetime.fromtimestamp(at_us / 1e6, UTC).isoformat(timespec="microseconds")


def session_json(info: SessionInfo, revoked: Sequence[SkillMount] = ()) -> dict[str, Json]:
    """revoked: the skills it has used that are revoked now (`Log.revoked_skills`)."""
    return {
        "id": str(info.id),
        "name": info.name,
        "owner": info.owner,
        "created_at": iso(info.created_at),
        "last_at": iso(info.last_at),
        "steps": info.steps,
        "notebook": info.notebook,
        "kernel": info.kernel,
        "environment": info.environment,
        "holder": None if info.holder is None else dict(info.holder),
        "parent": None if info.parent is None else str(info.parent),
        "fork_seq": info.fork_seq,
        "revoked_skills": [mount_json(mount) for mount in revoked],
    }


def mount_json(mount: SkillMount) -> dict[str, Json]:
    """A skill that a session has used."""
    return {"seq": mount.seq, "target": mount.target, "tree": mount.tree}


def step_json(record: StepRecord, outputs: bool) -> dict[str, Json]:
    """A step, with what it showed if asked."""
    new, outcome = record.step.new, record.outcome
    body: dict[str, Json] = {
        "seq": record.step.seq,
        "kind": new.kind,
        "actor": new.actor.to_json(),
        "at": iso(new.at),
        "payload": dict(new.payload),
        "blobs": list(new.blobs),
        "environment": new.environment,
        "during": None if new.during is None else new.during.seq,
        "digest": record.step.digest.hex(),
        "outcome": None if outcome is None else outcome.status,
        "cause": None if outcome is None or outcome.new.cause is None else dict(outcome.new.cause),
        "execution_count": None if outcome is None else outcome.new.execution_count,
        "duration_s": None if outcome is None else outcome.new.duration_us / 1e6,
        "outputs_sha256": None if outcome is None else outcome.new.outputs,
        "chain": None if outcome is None else outcome.chain.hex(),
    }
    if outputs:
        body["outputs"] = [entry.to_json() for entry in record.outputs]
        body["late_outputs"] = [entry.to_json() for entry in record.late]
    return body


def notice_json(notice: Notice) -> dict[str, Json]:
    return {
        "seq": notice.seq,
        "at": iso(notice.at),
        "code": notice.code,
        "text": notice.text,
        "detail": dict(notice.detail),
    }


def network_json(row: NetworkRow) -> dict[str, Json]:
    """What a step asked of one host."""
    return {
        "seq": row.seq,
        "at": iso(row.at),
        "host": row.host,
        "port": row.port,
        "address": row.address,
        "via": row.via,
        "verdict": row.verdict,
        "reason": row.reason,
        "bytes_up": row.bytes_up,
        "bytes_down": row.bytes_down,
        "duration_s": row.duration_us / 1e6,
        "replay": row.replay,
        "detail": dict(row.detail),
    }


def artifact_json(artifact: Artifact) -> dict[str, Json]:
    return {
        "artifact": str(artifact.id),
        "session": str(artifact.session),
        "seq": artifact.seq,
        "path": artifact.path,
        "sha256": artifact.sha256,
        "size": artifact.size,
        "mode": artifact.mode,
        "actor": artifact.actor.to_json(),
        "at": iso(artifact.at),
    }


def check_json(report: CheckReport) -> dict[str, Json]:
    """Whether a session's record is whole."""
    return {
        "session": str(report.session),
        "whole": report.ok,
        "steps": report.steps,
        "outcomes": report.outcomes,
        "outputs": report.outputs,
        "blobs": report.blobs,
        "chain": report.chain,
        "fault": None if report.fault is None else vars(report.fault),
    }


def dependents_json(found: Dependents, deleted: Sequence[uuid.UUID]) -> dict[str, Json]:
    """What a deletion would take along or wait for, and what it has taken."""
    return {
        "session": str(found.session.id),
        "steps": found.steps,
        "forks": [str(fork.id) for fork in found.forks],
        "held": [
            {"session": str(each.id), "holder": dict(each.holder or {})} for each in found.held
        ],
        "keys": list(found.keys),
        "artifacts": found.artifacts,
        "conversations": found.conversations,
        "deleted": [str(each) for each in deleted],
    }
