"""`/policies…`: the policies that bind whoever asks, their versions, and setting one."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from reprise.log.as_json import iso
from reprise.log.model import Json
from reprise.log.policies import Policies, StoredPolicy
from reprise_server.agent.policy.levels import level_of, of_file
from reprise_server.agent.policy.rules import SERVER
from reprise_server.api import governance
from reprise_server.api.base import Asked, Endpoint, operation
from reprise_server.api.governance import Act
from reprise_server.api.policy_trials import RESOURCE, policy_sent


class PoliciesEndpoint(Endpoint):
    path = "/policies"
    auth_resource = RESOURCE

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
        scope, policy = body["scope"], policy_sent(body["policy"])
        await governance.admit(self, Act("set policy", scope, policy.digest))
        stored = await Policies(await self.service.log()).set(
            scope, policy.to_json(), body.get("note", ""), after=body.get("after")
        )
        told = {"scope": scope, "version": stored.version, "digest": stored.digest}
        self.emit("policy", {"action": "set", **told})
        return {**stored_json(stored), **policy.to_json()}


class PolicyVersionsEndpoint(Endpoint):
    path = "/policies/versions"
    auth_resource = RESOURCE

    @operation("read")
    async def get(self, asked: Asked) -> Any:
        found = await Policies(await self.service.log()).history(asked.query["scope"])
        return {"versions": [{**stored_json(each), "rules": each.body["rules"]} for each in found]}


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


ENDPOINTS: Final = (PoliciesEndpoint, PolicyVersionsEndpoint)
