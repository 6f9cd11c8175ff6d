"""`/agent`: which model answers here, and whether it can be asked, before anybody says a word."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from reprise.errors import RepriseError
from reprise_server.agent.assembled import Assembly
from reprise_server.agent.model import open_model
from reprise_server.agent.model.prices import Money
from reprise_server.agent.settings import RepriseAgent
from reprise_server.api.base import Asked, Endpoint, operation
from reprise_server.api.conversations import RESOURCE


class AgentEndpoint(Endpoint):
    path = "/agent"
    auth_resource = RESOURCE

    @operation("read")
    async def get(self, _: Asked) -> Any:
        """Nothing is sent to the model's endpoint."""
        assembly = self.service.conversing.assembly
        # The first one imports the SDK.
        why = await asyncio.to_thread(_missing, assembly.settings)
        return said(assembly, why)


def said(assembly: Assembly, why: str | None) -> dict[str, Any]:
    settings = assembly.settings
    # What is wrong with a bound in money is said by `why`.
    bounded = why is None and settings.money.strip()
    money = Money.parse(settings.money).to_json() if bounded else None
    return {
        "model": settings.model,
        "provider": settings.provider,
        "ready": why is None,
        "why": why,
        "context_tokens": settings.context_tokens,
        "money": money,
        "scripted": assembly.scripted,
    }


def _missing(settings: RepriseAgent) -> str | None:
    """Why the model cannot be asked; None where it can."""

    async def tried() -> None:
        await open_model(settings).close()

    try:
        asyncio.run(tried())
    except RepriseError as error:
        return str(error)
    return None


ENDPOINTS: Final = (AgentEndpoint,)
