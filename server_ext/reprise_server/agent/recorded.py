"""Acts and verdicts as their entries have them, read back (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reprise_server.agent.contract import Act, SkillNamed, Verdict


def act_of(value: Mapping[str, Any]) -> Act:
    """The act whose `to_json` this is."""
    argv, skill = value["argv"], value["skill"]
    return Act(
        value["tool"],
        value["effect"],
        value["input"],
        value["title"],
        None if argv is None else tuple(argv),
        value["code"],
        tuple(value["paths"]),
        tuple(value["hosts"]),
        None if skill is None else SkillNamed(**skill),
        value["carries_out"],
    )


def verdict_of(value: Mapping[str, Any]) -> Verdict:
    """The verdict whose `to_json` this is."""
    return Verdict(value["decision"], value["rule"], value["why"], value["grant"])
