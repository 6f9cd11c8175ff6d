"""Skills, versions, promotions and findings as JSON: one shape for commands and for REST (pure)."""

from __future__ import annotations

from collections.abc import Mapping

from reprise.log.as_json import iso
from reprise.log.model import Json
from reprise.skills.arrival import Arrival
from reprise.skills.contract import EXECUTABLE, Finding, Promotion, Skill, SkillTree, Usage, Version
from reprise.skills.rows import Event, Member, Membership


def version_json(version: Version) -> dict[str, Json]:
    """A version; `reference` names this very one."""
    return {
        "scope": str(version.scope),
        "name": version.name,
        "number": version.number,
        "reference": version.reference,
        "digest": version.digest,
        "description": version.description,
        "state": version.state,
        "standing": version.standing,
        "deprecated": version.deprecated,
        "by": version.by,
        "at": iso(version.at),
        "origin": version.origin.to_json(),
        "note": version.note,
    }


def skill_json(skill: Skill) -> dict[str, Json]:
    """What a SKILL.md says, without its body."""
    return {
        "name": skill.name,
        "description": skill.description,
        "digest": skill.digest,
        "license": skill.license,
        "compatibility": skill.compatibility,
        "metadata": dict(skill.metadata),
        "allowed_tools": list(skill.allowed_tools),
        "other": dict(skill.other),
        "files": files_json(skill.tree),
        "findings": [finding_json(each) for each in skill.findings],
    }


def files_json(tree: SkillTree) -> list[Json]:
    """Its files, in the order of their paths; sizes in bytes."""
    return [
        {
            "path": entry.path,
            "size": entry.size,
            "executable": entry.mode == EXECUTABLE,
            "sha256": entry.sha256,
        }
        for entry in tree.manifest
    ]


def finding_json(finding: Finding) -> dict[str, Json]:
    return {
        "rule": finding.rule,
        "severity": finding.severity,
        "path": finding.path,
        "line": finding.line,
        "text": finding.text,
        "mend": finding.mend,
    }


def arrival_json(arrival: Arrival) -> dict[str, Json]:
    """What became of a skill that was brought in."""
    skill = arrival.found.skill
    return {
        "name": arrival.found.name,
        "folder": arrival.found.folder,
        "origin": arrival.found.origin.to_json(),
        "what": arrival.what,
        "digest": None if skill is None else skill.digest,
        "version": None if arrival.version is None else version_json(arrival.version),
        "problem": arrival.problem or None,
        "findings": [] if skill is None else [finding_json(each) for each in skill.findings],
        "notes": list(arrival.found.notes),
    }


def promotion_json(promotion: Promotion) -> dict[str, Json]:
    """A request; `version` is the one in the wider scope."""
    return {
        "id": str(promotion.id),
        "version": version_json(promotion.version),
        "to": str(promotion.to),
        "by": promotion.by,
        "at": iso(promotion.at),
        "note": promotion.note,
        "decided": promotion.decided,
        "decided_by": promotion.decided_by,
        "decided_at": None if promotion.decided_at is None else iso(promotion.decided_at),
        "reason": promotion.reason,
        "number": promotion.number,
    }


def event_json(event: Event) -> dict[str, Json]:
    return {
        "act": event.act,
        "scope": str(event.scope),
        "name": event.name,
        "number": event.number,
        "digest": event.digest,
        "by": event.by,
        "at": iso(event.at),
        "reason": event.reason,
        "promotion": None if event.promotion is None else str(event.promotion),
    }


def usage_json(usage: Usage) -> dict[str, Json]:
    return {
        "digest": usage.digest,
        "loads": usage.loads,
        "mounts": usage.mounts,
        "runs": usage.runs,
        "failures": usage.failures,
        "sessions": usage.sessions,
        "last_at": None if usage.last_at is None else iso(usage.last_at),
    }


def membership_json(membership: Membership) -> dict[str, Json]:
    return {"scope": str(membership.scope), "role": membership.role}


def member_json(member: Member) -> Mapping[str, Json]:
    return {"login": member.login, "role": member.role}
