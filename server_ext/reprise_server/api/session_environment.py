"""`/sessions/{session}/environment` and `…/network/allow`: what was chosen for one session."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from reprise.client.choosing import Chosen, choose_hosts, chosen_of, move
from reprise.client.holder import held_elsewhere, running_kernel
from reprise.commands.env_network import must_be_dialled
from reprise.sandbox.chosen import applied, fewer_hosts, more_hosts
from reprise.sandbox.named import NamedEnvironment, environments, load
from reprise_server.api import governance
from reprise_server.api.base import Asked, operation
from reprise_server.api.governance import Act
from reprise_server.api.host_rules import must_not_be_denied
from reprise_server.api.refusals import Refused
from reprise_server.api.sessions import SessionEndpoint

_GOVERNANCE: Final = "reprise-environment-governance"


class SessionEnvironmentEndpoint(SessionEndpoint):
    path = "/sessions/{session}/environment"

    @operation("read")
    async def get(self, asked: Asked) -> Any:
        log = await self.service.log()
        return await _told(await chosen_of(log, self.session(asked)))

    @operation("execute", _GOVERNANCE, status=201, patience_s=120.0, widens=True)
    async def post(self, asked: Asked) -> Any:
        """Moving to where more can be reached takes the session's files there: that is pressed."""
        session, name = self.session(asked), asked.body["environment"]
        # Whose server it is not learns nothing of what there is.
        await governance.admit(
            self, Act("change environment", "machine", f"session {session}: {name}")
        )
        log = await self.service.log()
        if name not in await asyncio.to_thread(environments):
            raise Refused(404, "environment-not-found", f"There is no environment {name!r} here.")
        info = await (await log.reader(session)).info()
        if running_kernel(info) is None:
            if info.holder is not None:
                raise held_elsewhere(info)
            raise Refused(
                409,
                "no-kernel",
                "No kernel runs for this session, so its files are not at hand. Nothing was"
                " changed. Open its notebook, run a cell, and ask again.",
            )
        more = _more(await _now(await chosen_of(log, session)), await asyncio.to_thread(load, name))
        if more:
            what = f"session {session} to {name}, which {'; '.join(more)}"
            await governance.admit(self, Act("use environment", "machine", what))
        made = await move(log, session, name, interrupt=asked.body.get("interrupt", False))
        fork = str(made.info.id)
        self.emit("session", {"action": "rewound", "session": str(session), "fork": fork})
        return {**made.to_json(), "environment": name}


class SessionAllowEndpoint(SessionEndpoint):
    path = "/sessions/{session}/network/allow"

    @operation("write", _GOVERNANCE, widens=True)
    async def post(self, asked: Asked) -> Any:
        session, places = self.session(asked), asked.body["places"]
        private = asked.body.get("private", False)
        # Whose server it is not learns nothing of sessions and policies. Only then is it pressed.
        await governance.admit(
            self, Act("change environment", "machine", f"session {session}: {', '.join(places)}")
        )
        log = await self.service.log()
        for each in places:
            must_be_dialled(each, private)
        before = await chosen_of(log, session)
        choice = more_hosts(before.choice, places, private=private)
        await must_not_be_denied(self, (await _now(before)).name, places)
        told = f"session {session}: {', '.join(places)}{' (also private addresses)' * private}"
        await governance.admit(self, Act("allow hosts", "machine", told))
        made = await choose_hosts(log, session, choice)
        return await self._told("hosts-allowed", made, places)

    async def _told(self, action: str, made: Chosen, places: list[str]) -> Any:
        said = await _told(made)
        name = said["next"]["environment"]
        told = {"action": action, "session": str(made.session), "places": places}
        self.emit("environment", {**told, "environment": name})
        return said


class SessionDenyEndpoint(SessionAllowEndpoint):
    path = "/sessions/{session}/network/deny"

    @operation("write", _GOVERNANCE)
    async def post(self, asked: Asked) -> Any:
        log = await self.service.log()
        session, places = self.session(asked), asked.body["places"]
        told = f"session {session}: {', '.join(places)}"
        await governance.admit(self, Act("deny hosts", "machine", told))
        before = await chosen_of(log, session)
        made = await choose_hosts(log, session, fewer_hosts(before.choice, places))
        return await self._told("hosts-denied", made, places)


async def _now(chosen: Chosen) -> NamedEnvironment:
    """What the next kernel of the session runs in."""
    return (await asyncio.to_thread(applied, chosen.choice))[0]


async def _told(chosen: Chosen) -> dict[str, Any]:
    named, gone = await asyncio.to_thread(applied, chosen.choice)
    rules = named.network
    next_one = {"environment": named.name, "network": [*rules.allow, *rules.private]}
    return {**chosen.to_json(), "next": next_one, "gone": gone}


def _more(old: NamedEnvironment, new: NamedEnvironment) -> list[str]:
    """What code may do in `new` that it may not in `old`, in words."""
    found = []
    before = {*old.network.allow, *old.network.private}
    hosts = sorted({*new.network.allow, *new.network.private} - before)
    if hosts:
        found.append(f"may reach {', '.join(hosts)}")
    private = sorted({*new.network.private} - {*old.network.private})
    if private:
        found.append(f"may reach private addresses of {', '.join(private)}")
    data = sorted({each.target for each in new.mounts if each not in old.mounts})
    if data:
        found.append(f"has the data at {', '.join(data)}")
    secrets = {each.host for each in new.network.secrets} - {
        each.host for each in old.network.secrets
    }
    if secrets:
        found.append(f"has credentials for {', '.join(sorted(secrets))}")
    if new.output == "live" and old.output != "live":
        found.append("lets scripts in outputs run")
    return found


ENDPOINTS: Final = (SessionEnvironmentEndpoint, SessionAllowEndpoint, SessionDenyEndpoint)
