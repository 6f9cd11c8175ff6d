"""What we send is what the live API takes, and a task comes to its end there.

Each test runs against the scripted model, so that it is known to work, and against the live API
where ANTHROPIC_API_KEY is set (a few cents); where it is not, that is said loudly.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reprise_server.agent.contract import Listener, Prompt, text
from reprise_server.agent.messages import described
from reprise_server.agent.model import open_model
from reprise_server.agent.prompt import SYSTEM
from reprise_server.agent.scripted import Asked, Step, Thought, calls, reply, says
from reprise_server.agent.scripted.replies import Call
from reprise_server.agent.settings import KEY, RepriseAgent
from tests.agent.toolboxes import all_tools
from tests.fixtures.commands import Reprise
from tests.fixtures.model import ModelServer
from tests.fixtures.untested import NOT_TESTED

Endpoint = Callable[[Callable[[Asked], Step]], dict[str, str]]

#: Asked once, before a fixture of this process sets another.
LIVE = {
    name: value
    for name in (KEY, "ANTHROPIC_BASE_URL")
    if (value := os.environ.get(name)) is not None
}


@pytest.fixture(params=["scripted", "live"])
def endpoint(request: pytest.FixtureRequest, scripted: Callable[..., ModelServer]) -> Endpoint:
    """Gives what leads a process to the model: the script's, or the live one."""

    def opened(script: Callable[[Asked], Step]) -> dict[str, str]:
        if request.param == "live":
            if KEY not in LIVE:
                pytest.skip(f"{NOT_TESTED} the live model: {KEY} is not set")
            return LIVE
        model = scripted(script)
        return {KEY: model.key, "ANTHROPIC_BASE_URL": model.url}

    return opened


def settings(environ: dict[str, str]) -> RepriseAgent:
    return RepriseAgent(
        api_key=environ[KEY], base_url=environ.get("ANTHROPIC_BASE_URL", ""), max_tokens=4_000
    )


async def test_all_that_a_request_has_is_taken(endpoint: Endpoint) -> None:
    """All tools, strict where they are; thinking, breakpoints of the cache, edits of the context;
    then the answer sent back byte for byte, with a result."""

    def script(asked: Asked) -> Step:
        if asked.answers:
            return says("It is empty.")
        return reply(Thought("To be looked at."), Call("read_notebook", {}))

    model = open_model(settings(endpoint(script)))
    tools = [described(tool) for tool in all_tools()]
    words = "Call the tool read_notebook now, once, without any arguments. Then say what it gave."
    messages: list[Any] = [{"role": "user", "content": [text(words)]}]
    system = [text(SYSTEM), text("No skills are listed.")]
    try:
        first = await model.respond(Prompt(tools, system, messages), Listener())
        assert first.stop_reason == "tool_use"
        [call] = [block for block in first.content if block["type"] == "tool_use"]
        assert call["name"] == "read_notebook"
        result = {
            "type": "tool_result",
            "tool_use_id": call["id"],
            "content": [text("The notebook has no cells.")],
        }
        messages += [
            {"role": "assistant", "content": list(first.content)},
            {"role": "user", "content": [result]},
        ]
        second = await model.respond(Prompt(tools, system, messages), Listener())
        counted = await model.count(Prompt(tools, system, messages))
    finally:
        await model.close()
    assert second.stop_reason == "end_turn"
    assert second.usage["cache_read_input_tokens"] > 1_000
    assert counted > 1_000


def test_a_task_comes_to_its_end(endpoint: Endpoint, tmp_path: Path, reprise: Reprise) -> None:
    def script(asked: Asked) -> Step:
        made = re.search(r"cell (\S+) inserted", asked.text)
        if made:
            return calls("run_cells", {"cells": [made[1]]})
        if asked.answers:
            return says("It shows 42.")
        edit = {"do": "insert", "type": "code", "source": "6 * 7"}
        return calls("edit_notebook", {"edits": [edit]})

    notebook = tmp_path / "small.ipynb"
    empty: dict[str, Any] = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": []}
    notebook.write_text(json.dumps(empty))
    task = "Insert one code cell whose whole source is `6 * 7`, run it, and say what it shows."
    ran = reprise(
        "agent", task, "--notebook", str(notebook), cwd=tmp_path, timeout=280, **endpoint(script)
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "42" in ran.stdout
    cells = json.loads(notebook.read_text())["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    assert any("42" in json.dumps(output) for output in outputs)
