"""`reprise policy` sets, shows, keeps and tries policies; what is wrong changes nothing."""

from __future__ import annotations

import asyncio
import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from reprise.cli import main
from reprise.log.conversations import Conversations
from reprise.log.postgres import Log
from reprise_server.agent.contract import Act, Taint
from reprise_server.agent.policy.imagined import EFFECT_OF
from tests.agent.toolboxes import EFFECTS, all_tools
from tests.fixtures.kernel import Database

POLICY = """\
rules:
  - {name: no-tools-outside, decision: deny, tool: "mcp/*"}
  - name: looking
    decision: allow
    tool: run_command
    argv: [git, status]
  - {name: ask-to-run, decision: ask, effect: run, why: I want to see it.}
"""


@pytest.fixture
def place(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REPRISE_DSN", database.dsn)
    monkeypatch.setenv("REPRISE_HOME", str(database.home))
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "policy.yaml").write_text(POLICY)
    return tmp_path


def test_a_policy_is_set_shown_and_kept(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def said(*words: str, code: int = 0) -> str:
        assert main(["policy", *words]) == code
        return capsys.readouterr().out

    def told(*words: str) -> Any:
        return json.loads(said(*words, "--json"))

    before = len(told("history", "personal")["versions"])
    stored = told("set", "personal", "policy.yaml", "--note", "first")
    assert (stored["version"], stored["note"]) == (before + 1, "first")
    [level] = told("show")["levels"]
    assert level["level"] == "personal"
    assert level["rules"][0]["name"] == "no-tools-outside"
    shown = said("show")
    assert "ask    ask-to-run  effect: run" in shown
    assert "argv: git status" in shown
    assert "I want to see it." in shown
    # What is written out can be set again, and is the same policy.
    (place / "again.yaml").write_text(said("history", "personal", str(before + 1)))
    again = told("set", "personal", "again.yaml")
    assert again["digest"] == stored["digest"]
    assert "first" in said("history", "personal")
    # It binds.
    assert said("test", "run_command", "--", "git", "status").startswith("allow  personal/looking")
    assert said("test", "run_command", "--", "git", "push").startswith("ask  personal/ask-to-run")
    said("test", "mcp/a/b", "--expect", "deny")
    said("test", "mcp/a/b", "--expect", "allow", code=1)


def test_what_is_wrong_changes_nothing(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["policy", "history", "personal", "--json"])
    before = capsys.readouterr().out
    (place / "bad.yaml").write_text(POLICY.replace("deny", "denied"))
    for words, code, says in (
        (["set", "personal", "bad.yaml"], 2, "bad.yaml:2: 'denied' is no decision"),
        (["set", "personal", "missing.yaml"], 2, "cannot be read"),
        (["set", "nowhere", "policy.yaml"], 2, "is no scope"),
        (["set", "team/none", "policy.yaml"], 2, "team/none"),
        (["check", "bad.yaml", "policy.yaml"], 1, ""),
        (["history", "personal", "999"], 2, "has no policy 999"),
        (["test"], 2, "Name a TOOL"),
        (["test", "fly"], 2, "is no tool"),
        (["test", "run_cells", "--alone"], 2, "needs --policy"),
        (["test", "run_cells", "--policy", "policy.yaml", "--scope", "mine"], 2, "is no scope"),
        (["test", "--conversation", "00000000"], 2, "No conversation's id"),
    ):
        assert main(["policy", *words]) == code, words
        assert says in capsys.readouterr().err
    main(["policy", "history", "personal", "--json"])
    assert capsys.readouterr().out == before


def test_what_was_called_before_is_judged_again(
    place: Path, database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    conversation = asyncio.run(_called(database))
    words = ["policy", "test", "--conversation", str(conversation)[:8]]
    assert main([*words, "--policy", "policy.yaml", "--alone"]) == 0
    assert "Of the last 3 calls 2 would come out otherwise." in capsys.readouterr().out
    assert main([*words, "--policy", "policy.yaml", "--alone", "--json"]) == 0
    calls = json.loads(capsys.readouterr().out)["calls"]
    assert [(call["tool"], call["before"]["decision"], call["now"]["rule"]) for call in calls] == [
        ("read_file", "allow", "default/read"),
        ("run_command", "allow", "personal/ask-to-run"),
        ("mcp/a/b", "ask", "personal/no-tools-outside"),
    ]


async def _called(database: Database) -> uuid.UUID:
    """A conversation with three calls in it."""
    log = await Log.connect(database.dsn, home=database.home)
    try:
        session = await log.begin(kernel="python3")
        known = Conversations(log)
        made = await known.begin(
            session, body={"model": "m", "provider": "anthropic", "policy": []}
        )
        writer = await known.open(made, {"pid": 1})
        await writer.append(1, "said", {"text": "go", "by": None})
        for number, (tool, effect, decision) in enumerate(
            [
                ("read_file", "read", "allow"),
                ("run_command", "run", "allow"),
                ("mcp/a/b", "outside", "ask"),
            ]
        ):
            act = Act(tool, effect, {"n": number}, "x", code="ls; ls" if effect == "run" else None)  # type: ignore[arg-type]
            verdict = {"decision": decision, "rule": "default/x", "why": "so", "grant": None}
            body = {"id": f"t{number}", "tool": tool, "input": {}, "act": act.to_json()}
            await writer.append(1, "called", {**body, "verdict": verdict})
            taint = Taint("network", "a.example", 0).to_json()
            await writer.append(
                1, "result", {"id": f"t{number}", "status": "ok", "content": [], "taints": [taint]}
            )
        await writer.close()
        return made
    finally:
        await log.close()


def test_every_tool_that_there_is_can_be_tried() -> None:
    assert list(EFFECT_OF) == [tool.name for tool in all_tools()]
    assert EFFECT_OF == EFFECTS
