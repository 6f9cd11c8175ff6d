"""What was called before, read from a conversation's entries, and judged again (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from reprise.log.model import Json
from reprise_server.agent.contract import (
    Act,
    Effect,
    Entry,
    Grant,
    Situation,
    SkillNamed,
    Taint,
    Verdict,
)
from reprise_server.agent.policy.engine import evaluate, rule_holds
from reprise_server.agent.policy.reading import granted
from reprise_server.agent.policy.rules import Level
from reprise_server.agent.policy.taint import merged

#: So many of the newest calls are looked at.
MOST: Final = 200


@dataclass(frozen=True)
class Past:
    """A call of before. seq: of its entry.  act: what it was about to do.  situation: as it was.
    grants: given before it.  verdict: which it got; None for one that is made up."""

    seq: int
    act: Act
    situation: Situation
    grants: tuple[Grant, ...] = ()
    verdict: Verdict | None = None


@dataclass(frozen=True)
class Tried:
    """A call judged again. now: under the policies that are tried.  changes: whether another
    decision comes out than the one that the call got."""

    past: Past
    now: Verdict

    @property
    def changes(self) -> bool:
        before = self.past.verdict
        return before is not None and before.decision != self.now.decision


def past_calls(entries: Sequence[Entry], situation: Situation, *, most: int = MOST) -> list[Past]:
    """The newest calls of a conversation, in their order. situation: what entries do not say (who,
    environment, isolated, network); taints are the entries'."""
    found: list[Past] = []
    taints: tuple[Taint, ...] = ()
    grants: list[Grant] = []
    for entry in entries:
        body = entry.body
        if entry.kind == "state":
            for each in body.get("taints", ()):
                taints = merged(taints, [(each["kind"], str(each["source"]))], int(each["seq"]))
        elif entry.kind in ("result", "said"):
            brought = [(each["kind"], str(each["source"])) for each in body.get("taints", ())]
            taints = merged(taints, brought, entry.seq)
        elif entry.kind == "decided" and (given := body.get("grant")) is not None:
            grants.append(
                Grant(given["scope"], given["rule"], tuple(given.get("taints", ())), entry.seq)
            )
        elif entry.kind == "called" and body.get("act") is not None and body.get("verdict"):
            verdict = body["verdict"]
            found.append(
                Past(
                    entry.seq,
                    act_of(body["act"]),
                    replace(situation, taints=taints),
                    tuple(grants),
                    Verdict(
                        verdict["decision"], verdict["rule"], verdict["why"], verdict.get("grant")
                    ),
                )
            )
    return found[-most:]


def tried(levels: Sequence[Level], past: Sequence[Past]) -> list[Tried]:
    """What the policies say of each call now."""
    return [Tried(call, evaluate(levels, call.grants, call.act, call.situation)) for call in past]


def also_matched(rule: Mapping[str, Json], past: Sequence[Past]) -> list[Past]:
    """The calls of before that a rule, offered for another call, would have matched as well."""
    read = granted(rule)
    if read is None:
        return []
    return [call for call in past if rule_holds(read, call.act, call.situation)]


def act_of(said: Mapping[str, Any]) -> Act:
    """The act that `Act.to_json` gave."""
    argv, code, skill = said.get("argv"), said.get("code"), said.get("skill")
    return Act(
        tool=str(said["tool"]),
        effect=cast(Effect, str(said["effect"])),
        input=dict(said.get("input") or {}),
        title=str(said.get("title") or said["tool"]),
        argv=None if argv is None else tuple(map(str, argv)),
        code=None if code is None else str(code),
        paths=tuple(map(str, said.get("paths") or ())),
        hosts=tuple(map(str, said.get("hosts") or ())),
        skill=None
        if skill is None
        else SkillNamed(
            str(skill["name"]), str(skill["scope"]), str(skill["digest"]), str(skill["standing"])
        ),
        carries_out=bool(said.get("carries_out")),
    )
