"""docs/agent-api.md does what it says: its program drives a conversation with jupyter-server alone."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

from reprise.log.conversation import KINDS
from reprise_server.agent.scripted import Asked, Step, by_answers, calls, says
from reprise_server.api import parts
from tests.fixtures.agent_server import start_agents
from tests.fixtures.kernel import Database
from tests.fixtures.server import Serve

PAGE = (Path(__file__).parents[2] / "docs" / "agent-api.md").read_text()
WORDS = "How many lines has rentals.csv?"


def test_the_program_works(
    serve: Serve, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    (program,) = re.findall(r"^```python\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)
    agents, opened = start_agents(serve, database, people=False)
    with opened:
        steps: list[Step] = [
            calls("run_command", {"command": "wc -l rentals.csv"}, first="I count them."),
            calls("write_file", {"path": "note.txt", "content": "3"}),
            says("I counted."),
        ]
        script = by_answers(steps)

        def scripted(asked: Asked) -> Step:
            return script(asked)

        agents.scripts[WORDS] = scripted
        monkeypatch.setenv("JUPYTER_URL", agents.server.url)
        monkeypatch.setenv("JUPYTER_TOKEN", "t")
        shown = io.StringIO()
        named: dict[str, object] = {}
        with contextlib.redirect_stdout(shown):
            exec(compile(program, "docs/agent-api.md", "exec"), named)
        named["api"].close()  # type: ignore[attr-defined]
        named["line"].shutdown()  # type: ignore[attr-defined]
    told = shown.getvalue().splitlines()
    assert told[0] == "agent: I count them."
    assert told[1].startswith("run_command {'command': 'wc -l rentals.csv'} ask default/run")
    assert told[2].endswith("-> once")
    assert "agent: I counted." in told
    assert "turn done" in told


def test_its_tables_are_what_there_is() -> None:
    for kind in KINDS:
        assert f"`{kind}`" in PAGE, kind
    document = parts.document().value
    for path in document["paths"]:
        if path.startswith("/conversations/{conversation}/"):
            assert f"…/{path.split('/')[3]}" in PAGE, path
    (socket,) = document["x-websockets"].values()
    for name in socket["takes"]:
        assert f"`{name}`" in PAGE, name
    for code in ("4008", "4029"):
        assert code in PAGE
