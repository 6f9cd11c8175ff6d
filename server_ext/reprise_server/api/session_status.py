"""`/sessions/{session}/status`, `/kernels/{kernel}`: how a session stands, told at once.

A kernel that holds the session is asked, which wakes nothing; of a session at rest the log tells.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from reprise.client.environment import environment_of
from reprise.client.glance import glance
from reprise.client.holder import held_elsewhere, running_kernel
from reprise.jupyter.live_status import kept_json, network_json, plan_json
from reprise.jupyter.sidecar import read_sidecar
from reprise.jupyter.static.policy import Policy
from reprise.jupyter.static.since import first_untrusted
from reprise.log.model import Json
from reprise.log.reader import Reader
from reprise.log.store import SessionInfo
from reprise.replay.plan import plan
from reprise.replay.restarts import last_kept, trees
from reprise.replay.vouched import vouched
from reprise.sandbox.backends import backend
from reprise_server.api.base import Asked, Endpoint, operation
from reprise_server.api.refusals import Refused
from reprise_server.api.sessions import RESOURCE, SessionEndpoint

#: Seconds that a kernel has to answer what it answers at once.
ANSWER_S: Final = 10.0


class StatusEndpoint(SessionEndpoint):
    path = "/sessions/{session}/status"

    @operation("read")
    async def get(self, asked: Asked) -> Any:
        reader = await self.reader(asked)
        info = await reader.info()
        connection = running_kernel(info)
        if connection is None:
            return await at_rest(reader, info)
        return await glance(connection, "status_request", {}, ANSWER_S)


class ResumeEndpoint(SessionEndpoint):
    path = "/sessions/{session}/resume"

    @operation("execute")
    async def post(self, asked: Asked) -> Any:
        info = await (await self.reader(asked)).info()
        connection = running_kernel(info)
        if connection is None:
            if info.holder is not None:
                raise held_elsewhere(info)
            raise Refused(
                409,
                "no-kernel",
                f"No kernel holds session {info.id}, so nothing comes back. Open its notebook.",
            )
        return await glance(connection, "resume_request", {"op": asked.body["op"]}, ANSWER_S)


class KernelEndpoint(Endpoint):
    path = "/kernels/{kernel}"
    auth_resource = RESOURCE

    @operation("read")
    async def get(self, asked: Asked) -> Any:
        """From the kernel's own file: it is not asked, so one that is busy is found, too."""
        named = asked.path["kernel"]
        kernels = self.settings["kernel_manager"]
        if named not in kernels:
            raise Refused(404, "kernel-not-found", f"This server runs no kernel {named}.")
        manager = kernels.get_kernel(named)
        said = read_sidecar(Path(getattr(manager, "connection_file", "") or "."))
        spec = getattr(manager, "kernel_spec", None)
        ours = said is not None or "reprise.jupyter" in getattr(spec, "argv", ())
        return {
            "kernel": named,
            "reprise": ours,
            "session": None if said is None else said["session"],
        }


async def at_rest(reader: Reader, info: SessionInfo) -> dict[str, Json]:
    """How a session stands that no kernel here holds; as `jupyter.live_status` says it."""
    named = await environment_of(reader, info)
    chosen = backend()
    steps = await reader.summaries()
    hosts = [*named.network.allow, *named.network.private] if chosen.isolated else ["*"]
    known = await vouched(reader)
    policy = Policy(named.output).opened(*await first_untrusted(reader, known.trusted))
    kept = await last_kept(reader, steps, isolated=chosen.isolated)
    route = plan(steps, trees=trees(steps, isolated=chosen.isolated))
    return {
        "session": str(info.id),
        "state": "resting" if info.holder is None else "held",
        "text": None if info.holder is None else str(held_elsewhere(info)),
        "backend": {
            "name": chosen.name,
            "isolated": chosen.isolated,
            "isolation": chosen.isolation,
        },
        "environment": {"name": named.name, "digest": info.environment},
        "language": info.kernel,
        "network": network_json(
            hosts, None if known.shut is None else known.shut[1], isolated=chosen.isolated
        ),
        "memory": {"used": None, "limit": named.sandbox_limits().memory or None},
        "steps": info.steps,
        "running": None,
        "since": None,
        "output": policy.to_json(named.name),
        "snapshot": kept_json(kept),
        "plan": plan_json(route),
        "resume": None,
        "last_resume": None,
        "death": None,
        "held": None if info.holder is None else dict(info.holder),
    }


ENDPOINTS: Final = (StatusEndpoint, ResumeEndpoint, KernelEndpoint)
