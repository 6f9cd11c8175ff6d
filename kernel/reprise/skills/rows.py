"""What the catalog's rows say, as data, and which of several versions is meant (pure)."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from reprise.log.store import Standing
from reprise.skills.contract import (
    ORGANISATION,
    PERSONAL,
    Origin,
    Promotion,
    Reference,
    Scope,
    Usage,
    Version,
)

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Event:
    """One act on a skill or a content.

    act: add, ask, approve, refuse, withdraw, release, deprecate, undeprecate, restore, trust,
    distrust, revoke or reinstate.  number, name: None where a digest was judged.
    at: microseconds since the epoch, UTC.
    """

    act: str
    scope: Scope
    name: str | None
    number: int | None
    digest: str
    by: str
    at: int
    reason: str
    promotion: uuid.UUID | None = None


@dataclass(frozen=True)
class Member:
    """Somebody in a scope. role: member, reviewer or admin."""

    login: str
    role: str


@dataclass(frozen=True)
class Membership:
    """A scope of whoever asks, and his role there."""

    scope: Scope
    role: str


def scope_of(written: str) -> Scope:
    """The scope of a row; 'personal/LOGIN' is personal, since nobody sees another's."""
    kind, _, rest = written.partition("/")
    if kind == "team":
        return Scope("team", rest)
    return ORGANISATION if kind == "organisation" else PERSONAL


def version_of(row: Row, shipped: frozenset[str]) -> Version:
    """A row of type reprise.skill_version. shipped: digests that are trusted unless revoked."""
    scope, name, number, digest, description, state, standing, deprecated, by, at, origin, note = (
        row
    )
    return Version(
        scope=scope_of(scope),
        name=name,
        number=number,
        digest=digest,
        description=description,
        state=state,
        standing=standing_of(standing, digest, shipped),
        deprecated=deprecated,
        by=by,
        at=at,
        origin=origin_of(origin),
        note=note,
    )


def origin_of(text: str) -> Origin:
    """An origin as it was stored; whoever adds a version says it, so nothing of it is relied on."""
    said = json.loads(text)
    commit = said.get("commit")
    return Origin(
        kind=said["kind"],
        where=str(said.get("where") or ""),
        commit=commit if isinstance(commit, str) else None,
        subfolder=str(said.get("subfolder") or ""),
        ref=str(said.get("ref") or ""),
    )


def promotion_of(row: Row, version: Version) -> Promotion:
    """A row of reprise.skill_promotions_seen. version: the one in the wider scope."""
    identity, _, _, number, by, at, note, decided, decided_by, decided_at, reason = row
    return Promotion(
        id=identity,
        version=version,
        to=version.scope,
        by=by,
        at=at,
        note=note,
        decided=decided,
        decided_by=decided_by,
        decided_at=decided_at,
        reason=reason,
        number=number,
    )


def event_of(row: Row) -> Event:
    """A row of reprise.skill_history."""
    act, scope, name, number, digest, promotion, by, at, reason = row
    return Event(act, scope_of(scope), name, number, digest, by, at, reason, promotion)


def usage_of(row: Row) -> Usage:
    """A row of reprise.skill_usage."""
    return Usage(*row)


def standing_of(said: str, digest: str, shipped: frozenset[str]) -> Standing:
    """What comes with Reprise is trusted everywhere, unless it was revoked."""
    if said == "untrusted" and digest in shipped:
        return "trusted"
    return cast(Standing, said)


def chosen(versions: Sequence[Version], ref: Reference) -> Version | None:
    """The version that `ref` means among those it could mean, nearest scope and newest first.

    The nearest scope that has one others get; a named number or digest is taken whatever its
    state. Where all that could be meant is revoked or not published, the first: its standing and
    its state say so, and it is not mounted.
    """
    if not versions:
        return None
    if ref.number is not None or ref.digest is not None:
        return versions[0]
    for version in versions:
        if is_current(version):
            return version
    return versions[0]


def is_current(version: Version) -> bool:
    """Whether this is one that its scope offers: published, in one's own scope any; not revoked."""
    return version.standing != "revoked" and (
        version.state == "published" or version.scope == PERSONAL
    )


def nearest(versions: Iterable[Version]) -> list[Version]:
    """Of the versions with one name the first, for versions whose nearest scope comes first."""
    found: dict[str, Version] = {}
    for version in versions:
        found.setdefault(version.name, version)
    return list(found.values())
