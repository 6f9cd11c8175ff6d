"""Whether policies keep people, too, from opening a host: rules that deny it by its name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from reprise.sandbox.network import PACKAGE_INDEX
from reprise_server.agent.contract import Act, Situation
from reprise_server.agent.policy.engine import owner_of, rule_holds
from reprise_server.agent.policy.levels import levels
from reprise_server.api.isolation import isolated
from reprise_server.api.refusals import Refused

if TYPE_CHECKING:
    from reprise_server.api.base import Endpoint

#: What a person does then, as a rule's `tool` may name it.
TOOL: Final = "allow_host"


async def must_not_be_denied(endpoint: Endpoint, environment: str, places: Iterable[str]) -> None:
    """Refuse (403) a place whose host a rule denies, at any level. Raises Refused.

    Only rules that name hosts count: one that denies whatever acts outside is about the agent.
    """
    bound = await levels(await endpoint.service.log(), endpoint.service.agent_settings)
    situation = Situation(endpoint.person.name, environment, isolated())
    for place in places:
        if place == PACKAGE_INDEX:
            continue
        act = Act(TOOL, "outside", {}, f"allow {place}", hosts=(place,))
        for level in bound:
            for rule in level.policy.rules:
                if rule.decision == "deny" and rule.host and rule_holds(rule, act, situation):
                    why = f" {rule.why}" if rule.why else ""
                    raise Refused(
                        403,
                        "denied-by-policy",
                        f"{owner_of(level.name)} forbids {place} ({level.name}/{rule.name}).{why}"
                        " Nothing was changed.",
                        details={"rule": f"{level.name}/{rule.name}", "place": place},
                    )
