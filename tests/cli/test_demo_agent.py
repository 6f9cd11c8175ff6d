"""`reprise demo --agent` tells the agent's story from end to end, and says what was not as told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reprise.cli import main
from reprise_server.agent.demo.folder import lay_out, lay_out_skill, rows, totals
from reprise_server.agent.demo.script import answer
from reprise_server.agent.demo.story import Story
from reprise_server.agent.scripted import Asked, Failure
from tests.fixtures.commands import Reprise


def test_the_story_is_as_told_and_leaves_nothing(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    scratch = tmp_path_factory.mktemp("t")
    mine = Reprise(scratch / "home")
    shown = mine("demo", "--agent", timeout=280, TMPDIR=str(scratch), ANTHROPIC_API_KEY="mine")
    assert shown.returncode == 0, shown.stdout + shown.stderr
    for words in (
        "conversation with claude-sonnet-5-5 (scripted: no model answers here)",
        "> run_skill",
        "denied · ask by personal/nothing-leaves-after-strangers",
        "turn 1 undone: back before step 1",
        "All as told.",
    ):
        assert words in shown.stdout
    assert "\nNO " not in shown.stdout
    assert shown.stdout.rstrip().endswith(
        "No model answers here: what it says is a script. All else is real."
    )
    assert shown.stderr.startswith("No model answers here")
    assert "kill -9 of the sandbox" in shown.stderr
    # Nor has the person's own log, catalog or policy to know of it.
    assert list(scratch.iterdir()) == []


def test_a_turn_that_did_nothing_is_told_as_that(tmp_path: Path) -> None:
    class Silent:
        def begin(self, text: str) -> None: ...
        def event(self, text: str) -> None: ...

    story = Story(tmp_path, None, Silent())  # type: ignore[arg-type]
    story._judge()
    assert len(story.told.findings) == 7
    assert not any(finding.ok for finding in story.told.findings)
    assert not story.told.ok


def test_keep_without_agent_is_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--keep"]) == 2
    assert "--keep belongs to --agent" in capsys.readouterr().err


def test_the_table_sums_to_what_it_is_held_against(tmp_path: Path) -> None:
    """By the script of the skill itself, as it is run in the session."""
    import subprocess
    import sys

    lay_out(tmp_path)
    skill = lay_out_skill(tmp_path / "skills")
    script = skill / "scripts" / "sum_by_column.py"
    assert script.stat().st_mode & 0o111
    ran = subprocess.run(
        [sys.executable, str(script), "sales.csv", "--by", "region", "--of", "amount"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert json.loads(ran.stdout) == {"sums": totals(), "rows": len(rows()), "left_out": [19, 60]}


def test_the_script_of_the_model_ends_and_says_so() -> None:
    body: dict[str, Any] = {"messages": [{"role": "assistant", "content": "x"}] * 99}
    assert isinstance(answer(Asked(0, "", {}, body)), Failure)
