"""`/policy-checks`, `/policy-trials`: what a policy would do before it is set; nothing is kept."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from typing import Any, Final

from reprise.log.conversations import Conversations
from reprise.log.model import Json
from reprise_server.agent.contract import Entry, Situation
from reprise_server.agent.policy.advice import advice
from reprise_server.agent.policy.engine import by_level, evaluate
from reprise_server.agent.policy.imagined import EFFECT_OF, act_of, in_place, situation_of
from reprise_server.agent.policy.levels import levels
from reprise_server.agent.policy.reading import BadPolicy, Problem, parse_policy
from reprise_server.agent.policy.rules import Level, Policy
from reprise_server.agent.policy.trial import MOST, Tried, past_calls, tried
from reprise_server.agent.tools.words import words
from reprise_server.api.base import Asked, Endpoint, operation
from reprise_server.api.conversations import RESOURCE as CONVERSATIONS
from reprise_server.api.isolation import isolated
from reprise_server.api.questions import environment_of
from reprise_server.api.refusals import Refused

RESOURCE: Final = "reprise-policies"

#: Entries of a conversation that a policy is tried on.
_ENTRIES: Final = 20_000
#: Conversations that are looked through for the newest calls.
_CONVERSATIONS: Final = 20


class PolicyChecksEndpoint(Endpoint):
    path = "/policy-checks"
    auth_resource = RESOURCE

    @operation("execute")
    async def post(self, asked: Asked) -> Any:
        body = asked.body
        try:
            policy = await asyncio.to_thread(parse_policy, body["policy"])
        except BadPolicy as error:
            problems = [problem_json(each) for each in error.problems]
            return {"policy": None, "problems": problems, "advice": [], "trial": None}
        trial, scope = None, body.get("scope", "personal")
        if "conversation" in body:
            trial = await self._trial(policy, scope, [uuid.UUID(body["conversation"])])
        elif body.get("recent", False):
            trial = await self._trial(policy, scope, None)
        return {
            "policy": {**policy.to_json(), "digest": policy.digest},
            "problems": [],
            "advice": [problem_json(each) for each in advice(policy)],
            "trial": trial,
        }

    async def _trial(
        self, policy: Policy, scope: str, named: Sequence[uuid.UUID] | None
    ) -> dict[str, Any]:
        """What would come out of the newest calls of these conversations, or of all that are the
        person's own, were this the scope's policy."""
        await self.authorize("read", CONVERSATIONS)
        log = await self.service.log()
        bound = in_place(await levels(log, self.service.agent_settings), Level(scope, policy))
        known = Conversations(log)
        if named is None:
            named = [each.id for each in await known.list(most=_CONVERSATIONS)]
        calls, changes = 0, []
        for conversation in named:
            entries = await known.entries(conversation, most=_ENTRIES)
            judged = await asyncio.to_thread(self._judged, bound, entries, MOST - calls)
            calls += len(judged)
            changes += [_change(conversation, each) for each in judged if each.changes]
            if calls >= MOST:
                break
        return {"calls": calls, "changes": changes}

    def _judged(
        self, bound: Sequence[Level], entries: Sequence[Entry], most: int
    ) -> Sequence[Tried]:
        situation = Situation(self.person.name, environment_of(entries), isolated())
        return tried(bound, past_calls(entries, situation, most=most))


class PolicyTrialsEndpoint(Endpoint):
    path = "/policy-trials"
    auth_resource = RESOURCE

    @operation("execute")
    async def post(self, asked: Asked) -> Any:
        """What becomes of one act: under the policies that bind, and with a draft among them."""
        body = asked.body
        act = act_of(
            body["tool"],
            argv=body.get("argv"),
            shell=body.get("shell"),
            code=body.get("code"),
            paths=body.get("paths", ()),
            hosts=body.get("hosts", ()),
            skill=body.get("skill"),
            standing=body.get("standing", "trusted"),
        )
        situation = situation_of(
            who=body.get("who", self.person.name),
            environment=body.get("environment", "default"),
            isolated=body.get("isolated", isolated()),
            network=body.get("network", ()),
            tainted=body.get("tainted", ()),
        )
        bound = await levels(await self.service.log(), self.service.agent_settings)
        now = evaluate(bound, [], act, situation)
        tried_on = bound
        if "policy" in body:
            draft = await asyncio.to_thread(policy_sent, body["policy"])
            tried_on = in_place(bound, Level(body.get("scope", "personal"), draft))
        verdict = evaluate(tried_on, [], act, situation)
        return {
            "verdict": verdict.to_json(),
            "now": now.to_json(),
            "levels": [
                {"level": level.name, "rule": None if rule is None else rule.to_json()}
                for level, rule in by_level(tried_on, act, situation)
            ],
            "plain": "shell" not in body or words(body["shell"]) is not None,
        }


class PolicyToolsEndpoint(Endpoint):
    path = "/policy-tools"
    auth_resource = RESOURCE

    @operation("read")
    async def get(self, _: Asked) -> Any:
        tools = [{"tool": tool, "effect": effect} for tool, effect in EFFECT_OF.items()]
        return {"tools": tools, "isolated": isolated()}


def policy_sent(text: str) -> Policy:
    """Raises Refused (400) with every problem and its line."""
    try:
        return parse_policy(text)
    except BadPolicy as error:
        problems = [problem_json(each) for each in error.problems]
        raise Refused(400, "bad-policy", str(error), details={"problems": problems}) from error


def problem_json(problem: Problem) -> dict[str, Json]:
    return {"line": problem.line, "text": problem.text, "mend": problem.mend}


def _change(conversation: uuid.UUID, each: Tried) -> dict[str, Any]:
    return {
        "conversation": str(conversation),
        "seq": each.past.seq,
        "title": each.past.act.title,
        "tool": each.past.act.tool,
        "before": None if each.past.verdict is None else each.past.verdict.to_json(),
        "now": each.now.to_json(),
    }


ENDPOINTS: Final = (PolicyChecksEndpoint, PolicyTrialsEndpoint, PolicyToolsEndpoint)
