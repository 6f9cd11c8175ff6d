"""`/policies…`: the policies that bind whoever asks, checked, tried on what was called, and set."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from typing import Any, Final

from reprise.log.as_json import iso
from reprise.log.conversations import Conversations
from reprise.log.model import Json
from reprise.log.policies import Policies, StoredPolicy
from reprise_server.agent.contract import Situation
from reprise_server.agent.policy.advice import advice
from reprise_server.agent.policy.levels import level_of, levels, of_file
from reprise_server.agent.policy.reading import BadPolicy, Problem, parse_policy
from reprise_server.agent.policy.rules import SERVER, Level, Policy
from reprise_server.agent.policy.trial import past_calls, tried
from reprise_server.api import governance
from reprise_server.api.base import Asked, Endpoint, operation
from reprise_server.api.conversations import RESOURCE as CONVERSATIONS
from reprise_server.api.governance import Act
from reprise_server.api.isolation import isolated
from reprise_server.api.questions import environment_of
from reprise_server.api.refusals import Refused

_RESOURCE: Final = "reprise-policies"

#: Entries of a conversation that a policy is tried on.
_ENTRIES: Final = 20_000


class PoliciesEndpoint(Endpoint):
    path = "/policies"
    auth_resource = _RESOURCE

    @operation("read")
    async def get(self, _: Asked) -> Any:
        """From the top; one that cannot be read is told, since nothing is allowed until it can."""
        found: list[dict[str, Any]] = []
        file = self.service.agent_settings.policy_file
        if file:
            policy = await asyncio.to_thread(of_file, file)
            said = {"level": SERVER, "digest": policy.digest, **policy.to_json()}
            found.append({**said, "version": None, "by": None, "at": None, "note": ""})
        bound = await Policies(await self.service.log()).current()
        found += [{**stored_json(each), **level_of(each).policy.to_json()} for each in bound]
        return {"policies": found}

    @operation("write", "reprise-policy-governance", widens=True)
    async def put(self, asked: Asked) -> Any:
        body = asked.body
        scope, policy = body["scope"], _policy(body["policy"])
        await governance.admit(self, Act("set policy", scope, policy.digest))
        stored = await Policies(await self.service.log()).set(
            scope, policy.to_json(), body.get("note", ""), after=body.get("after")
        )
        told = {"scope": scope, "version": stored.version, "digest": stored.digest}
        self.emit("policy", {"action": "set", **told})
        return {**stored_json(stored), **policy.to_json()}


class PolicyVersionsEndpoint(Endpoint):
    path = "/policies/versions"
    auth_resource = _RESOURCE

    @operation("read")
    async def get(self, asked: Asked) -> Any:
        found = await Policies(await self.service.log()).history(asked.query["scope"])
        return {"versions": [{**stored_json(each), "rules": each.body["rules"]} for each in found]}


class PolicyChecksEndpoint(Endpoint):
    path = "/policy-checks"
    auth_resource = _RESOURCE

    @operation("execute")
    async def post(self, asked: Asked) -> Any:
        """Nothing is kept of what is sent."""
        body = asked.body
        try:
            policy = await asyncio.to_thread(parse_policy, body["policy"])
        except BadPolicy as error:
            problems = [problem_json(each) for each in error.problems]
            return {"policy": None, "problems": problems, "advice": [], "trial": None}
        trial = None
        if "conversation" in body:
            scope = body.get("scope", "personal")
            trial = await self._trial(policy, scope, uuid.UUID(body["conversation"]))
        return {
            "policy": {**policy.to_json(), "digest": policy.digest},
            "problems": [],
            "advice": [problem_json(each) for each in advice(policy)],
            "trial": trial,
        }

    async def _trial(self, policy: Policy, scope: str, conversation: uuid.UUID) -> dict[str, Any]:
        """What would come out of the newest calls of a conversation, were this the scope's."""
        await self.authorize("read", CONVERSATIONS)
        log = await self.service.log()
        bound = await levels(log, self.service.agent_settings)
        entries = await Conversations(log).entries(conversation, most=_ENTRIES)
        environment = environment_of(entries)
        past = past_calls(entries, Situation(self.person.name, environment, isolated()))
        judged = await asyncio.to_thread(tried, _with(bound, Level(scope, policy)), past)
        return {
            "calls": len(judged),
            "changes": [
                {
                    "seq": each.past.seq,
                    "title": each.past.act.title,
                    "tool": each.past.act.tool,
                    "before": None if each.past.verdict is None else each.past.verdict.to_json(),
                    "now": each.now.to_json(),
                }
                for each in judged
                if each.changes
            ],
        }


def _policy(text: str) -> Policy:
    """Raises Refused (400) with every problem and its line."""
    try:
        return parse_policy(text)
    except BadPolicy as error:
        problems = [problem_json(each) for each in error.problems]
        raise Refused(400, "bad-policy", str(error), details={"problems": problems}) from error


def _with(bound: Sequence[Level], level: Level) -> list[Level]:
    """The levels, one of them as it would be: where it stands, or where it would."""
    names = [each.name for each in bound]
    if level.name in names:
        return [level if each.name == level.name else each for each in bound]
    order = {SERVER: 0, "organisation": 1, "personal": 3}
    return sorted([*bound, level], key=lambda each: (order.get(each.name, 2), each.name))


def stored_json(stored: StoredPolicy) -> dict[str, Json]:
    """A stored version without its rules."""
    return {
        "level": stored.scope,
        "version": stored.version,
        "digest": stored.digest,
        "by": stored.by,
        "at": iso(stored.at_us),
        "note": stored.note,
    }


def problem_json(problem: Problem) -> dict[str, Json]:
    return {"line": problem.line, "text": problem.text, "mend": problem.mend}


ENDPOINTS: Final = (PoliciesEndpoint, PolicyVersionsEndpoint, PolicyChecksEndpoint)
