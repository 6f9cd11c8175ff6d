"""`/environments…`: what named environments say, how they differ, which hosts they may reach."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import Any, Final

from reprise.client.environments import (
    InUse,
    as_json,
    in_use,
    listed,
    packages_of,
    spec_of,
)
from reprise.commands.env_network import must_be_dialled
from reprise.commands.opened import find_session
from reprise.egress.package_index import package_index
from reprise.environments.create import from_environment
from reprise.errors import RepriseError, SessionNotFound, UsageError
from reprise.log.model import Json
from reprise.log.postgres import Log
from reprise.sandbox.built import built_lock
from reprise.sandbox.environment import difference
from reprise.sandbox.named import NamedEnvironment, environments, load, remove
from reprise.sandbox.named_network import network_allow, network_deny
from reprise.sandbox.network import PACKAGE_INDEX, NetworkRules, check_place
from reprise.settings import BACKEND, DEFAULT_BACKEND, DEFAULT_ENVIRONMENT, ENVIRONMENT
from reprise_server.api import governance
from reprise_server.api.base import Answer, Asked, Endpoint, operation
from reprise_server.api.environment_work import building, checking
from reprise_server.api.governance import Act
from reprise_server.api.host_rules import must_not_be_denied
from reprise_server.api.isolation import isolated
from reprise_server.api.refusals import Refused

_RESOURCE: Final = "reprise-environments"
#: What an environment allows is not everybody's to change who may start a kernel in it.
_GOVERNANCE: Final = "reprise-environment-governance"


class EnvironmentsEndpoint(Endpoint):
    path = "/environments"
    auth_resource = _RESOURCE

    @operation("read")
    async def get(self, _: Asked) -> Any:
        used = await in_use(await self.service.log())

        def look() -> dict[str, Any]:
            found, broken = [], {}
            for name in environments():
                try:
                    found.append(_in_list(load(name), used))
                except RepriseError as error:
                    broken[name] = str(error)
            return {
                "environments": found,
                "broken": broken,
                "usual": os.environ.get(ENVIRONMENT) or DEFAULT_ENVIRONMENT,
                "backend": os.environ.get(BACKEND) or DEFAULT_BACKEND,
                "isolated": isolated(),
            }

        return await asyncio.to_thread(look)

    @operation("execute", _GOVERNANCE, status=202, widens=True)
    async def post(self, asked: Asked) -> Any:
        name, other = asked.body["environment"], asked.body.get("from")
        said = f"{name}: of {'a lock' if other is None else other}"
        await governance.admit(self, Act("create environment", "machine", said))
        if other is None:
            wanted = await asyncio.to_thread(building, name, asked.body["lock"])
            job, new = self.service.workshop.begin(wanted, self.person)
            return Answer(job.to_json(), 202 if new else 200)

        def named() -> dict[str, Any]:
            if other not in environments():
                raise _absent(other, "environment")
            return _told(from_environment(name, other).environment)

        made = await asyncio.to_thread(named)
        self.emit("environment", {"action": "created", "environment": name})
        return Answer(made, 201)


class CheckEndpoint(Endpoint):
    path = "/environments/{environment}/check"
    auth_resource = _RESOURCE

    @operation("execute", status=202)
    async def post(self, asked: Asked) -> Any:
        environment = await asyncio.to_thread(_load, asked)
        job, new = self.service.workshop.begin(checking(environment.name), self.person)
        return Answer(job.to_json(), 202 if new else 200)


class EnvironmentEndpoint(Endpoint):
    path = "/environments/{environment}"
    auth_resource = _RESOURCE

    @operation("read")
    async def get(self, asked: Asked) -> Any:
        return await asyncio.to_thread(lambda: _told(_load(asked)))

    @operation("write", _GOVERNANCE, status=204)
    async def delete(self, asked: Asked) -> Any:
        name = asked.path["environment"]
        await governance.admit(self, Act("remove environment", "machine", name))
        await asyncio.to_thread(lambda: remove(_load(asked).name))
        self.emit("environment", {"action": "removed", "environment": name})


class LockEndpoint(Endpoint):
    path = "/environments/{environment}/lock"
    auth_resource = _RESOURCE

    @operation("read")
    async def get(self, asked: Asked) -> Any:
        def look() -> dict[str, Any]:
            environment = _load(asked)
            digest = environment.packages
            text = None if digest is None else built_lock(digest)
            if text is None:
                raise Refused(
                    404,
                    "no-lock",
                    f"The environment {environment.name} has no lock: it was not built, or what was"
                    " built is not on this machine.",
                )
            return {"environment": environment.name, "built": digest, "lock": text}

        return await asyncio.to_thread(look)


class NetworkEndpoint(Endpoint):
    path = "/environments/{environment}/network"
    auth_resource = _RESOURCE

    @operation("read")
    async def get(self, asked: Asked) -> Any:
        return await asyncio.to_thread(lambda: _network_of(_load(asked)))


class AllowEndpoint(Endpoint):
    path = "/environments/{environment}/network/allow"
    auth_resource = _RESOURCE

    @operation("write", _GOVERNANCE, widens=True)
    async def post(self, asked: Asked) -> Any:
        name, places = asked.path["environment"], asked.body["places"]
        private = asked.body.get("private", False)
        told = f"{name}: {', '.join(places)}{' (also private addresses)' if private else ''}"
        # Nobody is asked to press what could not be done.
        await asyncio.to_thread(_load, asked)
        for each in places:
            must_be_dialled(check_place(each, (PACKAGE_INDEX,)), private)
        await must_not_be_denied(self, name, places)
        await governance.admit(self, Act("allow hosts", "machine", told))

        def change() -> dict[str, Any]:
            return _network_of(network_allow(name, places, private=private))

        said = await asyncio.to_thread(change)
        self.emit("environment", {"action": "hosts-allowed", "environment": name, "places": places})
        return said


class DenyEndpoint(Endpoint):
    path = "/environments/{environment}/network/deny"
    auth_resource = _RESOURCE

    @operation("write", _GOVERNANCE)
    async def post(self, asked: Asked) -> Any:
        name, places = asked.path["environment"], asked.body["places"]
        await governance.admit(self, Act("deny hosts", "machine", f"{name}: {', '.join(places)}"))

        def change() -> dict[str, Any]:
            _load(asked)
            return _network_of(network_deny(name, places))

        said = await asyncio.to_thread(change)
        self.emit("environment", {"action": "hosts-denied", "environment": name, "places": places})
        return said


class DifferencesEndpoint(Endpoint):
    path = "/environment-differences"
    auth_resource = _RESOURCE

    @operation("read")
    async def get(self, asked: Asked) -> Any:
        old, new = asked.query["old"], asked.query["new"]
        log = await self.service.log()
        said = difference(await _side(log, old), await _side(log, new))
        return {"old": old, "new": new, "differences": said}


async def _side(log: Log, named: str) -> Mapping[str, Json]:
    """The spec of an environment as it is now, or of the one that a session last ran in."""
    if named in await asyncio.to_thread(environments):
        return await asyncio.to_thread(lambda: spec_of(load(named)))
    try:
        reader = await log.reader(await find_session(log, named))
    except SessionNotFound:
        raise _absent(named, "environment or session") from None
    info = await reader.info()
    if info.environment is None:
        raise UsageError(f"Session {reader.session} has no step yet, so it ran in no environment.")
    return await reader.environment(info.environment)


def _load(asked: Asked) -> NamedEnvironment:
    """Raises Refused (404) and, for a file that cannot be read, UsageError."""
    name = asked.path["environment"]
    if name not in environments():
        raise _absent(name, "environment")
    return load(name)


def _told(environment: NamedEnvironment) -> dict[str, Any]:
    # What stands on the host is read each time; a built one that is gone is shown too.
    try:
        packages, missing = packages_of(spec_of(environment)), None
    except RepriseError as error:
        packages, missing = {}, str(error)
    said = as_json(environment)
    said["network"] = _network(environment.network)
    return {**said, "packages": packages, "missing": missing}


def _in_list(environment: NamedEnvironment, used: InUse) -> dict[str, Any]:
    rules = environment.network
    return {
        **listed(environment, used),
        "network": [*sorted(rules.allow), *sorted(rules.private)],
        "output": environment.output,
        "team": environment.team,
    }


def _absent(name: str, what: str) -> Refused:
    return Refused(404, "environment-not-found", f"There is no {what} {name!r} here.")


def _network_of(environment: NamedEnvironment) -> dict[str, Any]:
    said = {"environment": environment.name, "network": _network(environment.network)}
    if PACKAGE_INDEX in environment.network.allow:
        index = package_index()
        said["package_index"] = {"places": list(index.places), "said": list(index.said)}
    return said


def _network(rules: NetworkRules) -> dict[str, Any]:
    """Where a credential is kept on the machine is nobody's business here."""
    return {
        "open": rules.open,
        "allow": sorted(rules.allow),
        "private": sorted(rules.private),
        "record": rules.record,
        "secrets": [{"host": each.host, "header": each.header} for each in rules.secrets],
        "connections": rules.connections,
        "rate": rules.rate,
        "bytes": rules.bytes,
    }


ENDPOINTS: Final = (
    EnvironmentsEndpoint,
    EnvironmentEndpoint,
    CheckEndpoint,
    LockEndpoint,
    NetworkEndpoint,
    AllowEndpoint,
    DenyEndpoint,
    DifferencesEndpoint,
)
