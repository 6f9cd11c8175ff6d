"""A model that asks the scripted one, with its waits recorded instead of waited."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from reprise_server.agent.contract import Listener, Prompt, Waiting
from reprise_server.agent.model.asking import ApiModel
from reprise_server.agent.model.budget import Budget
from reprise_server.agent.model.clients import open_client
from reprise_server.agent.scripted import ScriptedModel
from reprise_server.agent.settings import RepriseAgent

#: Whatever is heard of the model while a test waits for it.
PATIENCE = 60.0

TOOL = {
    "name": "run_cells",
    "description": "Runs cells.",
    "strict": True,
    "input_schema": {
        "type": "object",
        "properties": {"cells": {"type": "array", "items": {"type": "string"}}},
        "required": ["cells"],
        "additionalProperties": False,
    },
}


def prompt(*said: Any) -> Prompt:
    """Messages in turn: the person's, the model's, the person's …"""
    messages = [
        {"role": "assistant" if at % 2 else "user", "content": content}
        for at, content in enumerate(said or ("Run it",))
    ]
    return Prompt([TOOL], [{"type": "text", "text": "Be brief."}], messages)


@dataclass
class Heard:
    """What a listener was told."""

    deltas: list[Any] = field(default_factory=list)
    waits: list[Waiting] = field(default_factory=list)
    asked: list[int] = field(default_factory=list)
    cut: list[tuple[list[Any], Any]] = field(default_factory=list)
    #: Called with what is heard of a wait or a delta, before anything else happens.
    then: Callable[[Any], None] = lambda _: None

    def listener(self) -> Listener:
        def delta(one: Any) -> None:
            self.deltas.append(one)
            self.then(one)

        def waiting(one: Waiting) -> None:
            self.waits.append(one)
            self.then(one)

        def cut(content: Any, usage: Any) -> None:
            self.cut.append((list(content), usage))

        return Listener(delta, waiting, self.asked.append, cut)


def settings(**given: Any) -> RepriseAgent:
    return RepriseAgent(**({"model": "claude-sonnet-5-5", "context_management": "api"} | given))


async def at_once(_: float) -> None:
    await asyncio.sleep(0)


@asynccontextmanager
async def speaking(
    scripted: ScriptedModel,
    *,
    sleep: Callable[[float], Awaitable[None]] = at_once,
    **given: Any,
) -> AsyncIterator[ApiModel]:
    """A model whose settings lead to the scripted one."""
    wanted = settings(**({"base_url": scripted.url, "api_key": scripted.key} | given))
    budget = Budget.of(
        model=wanted.model,
        requests=wanted.turn_requests,
        tokens=wanted.turn_tokens,
        money=wanted.money,
        prices=wanted.prices,
    )
    model = ApiModel(
        open_client(wanted), wanted, wanted.model, budget, sleep=sleep, chance=lambda: 0.0
    )
    try:
        yield model
    finally:
        await model.close()


async def until(true: Callable[[], bool]) -> None:
    """For what happens in the scripted server's thread, which tells nobody."""
    async with asyncio.timeout(PATIENCE):
        while not true():
            await asyncio.sleep(0.005)
