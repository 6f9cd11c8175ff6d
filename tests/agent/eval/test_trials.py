"""Trials on real sessions: the tasks can be done with what the agent has, and are told apart."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from reprise.cli import main
from reprise.log.conversations import Conversations
from reprise.log.postgres import Log
from reprise_server.agent.eval.folder import bundled, given_task
from reprise_server.agent.eval.report import reports
from reprise_server.agent.eval.trial import Bench
from reprise_server.agent.scripted import (
    Asked,
    Break,
    Hold,
    ScriptedModel,
    Step,
    calls,
    error,
    says,
)
from reprise_server.agent.settings import RepriseAgent
from tests.fixtures.kernel import PATIENCE, Database

#: What a model that follows the skill finds out: script, its arguments, where the answer goes.
FOLLOWED: dict[str, tuple[str, list[str], str, Any]] = {
    "profile-rentals": (
        "profile_dataset.py",
        ["{workspace}/rentals.csv"],
        "findings.json",
        {
            "rows": 183,
            "duplicate_rows": 3,
            "sentinels": [{"column": "size", "value": 9999}, {"column": "price", "value": -1}],
            "read_as_text": ["zip"],
        },
    ),
    "review-before-sharing": (
        "review_notebook.py",
        ["{workspace}/churn.ipynb"],
        "review.json",
        {"share": False, "secrets_in_cells": [2], "runs_from_top": False, "leaks_in_cells": [5]},
    ),
    "compare-upgrade": (
        "compare_runs.py",
        ["{workspace}/before.ipynb", "{workspace}/after.ipynb"],
        "verdict.json",
        {"same": False, "changed": ["f1"], "cell": 4},
    ),
}
#: What stands in the script's own result, so that the answer could be read from it.
SHOWN = {
    "profile-rentals": ('"duplicate_rows": 3', "9999 stands 2 times", "digits with leading zeros"),
    "review-before-sharing": ("secret-in-source", "fit-before-split", '"runs_from_top": false'),
    "compare-upgrade": ('"name": "f1"', '"agree": false'),
}
GUESS = {"rows": 183, "share": True, "same": True}


def obedient(asked: Asked) -> Step:
    """With skills it does what the skill says; without it guesses."""
    name = next(n for n in FOLLOWED if given_task(n).task.text.strip()[:60] in _task(asked))
    script, args, file, found = FOLLOWED[name]
    skill = given_task(name).task.skill
    write = {"path": file, "content": json.dumps(found)}
    if "load_skill" not in asked.tools:
        write["content"] = json.dumps(GUESS)
        return calls("write_file", write) if asked.answers == 0 else says("I looked at it.")
    if asked.answers == 2:
        shown = asked.results[0].text
        assert all(words in shown for words in SHOWN[name]), shown
    return (
        calls("load_skill", {"skill": skill}),
        calls("run_skill", {"skill": skill, "script": script, "args": args}),
        calls("write_file", write),
        says("Here is what I found."),
    )[asked.answers]


def _task(asked: Asked) -> str:
    return str(asked.messages[0]["content"])


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Any:
    for name in ("ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_CUSTOM_HEADERS", "ANTHROPIC_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    with ScriptedModel(obedient) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", server.key)
        yield server


@pytest.fixture
async def bench(database: Database) -> AsyncIterator[Callable[..., Bench]]:
    log = await Log.connect(database.dsn, home=database.home)

    def made(**settings: Any) -> Bench:
        return Bench(log, RepriseAgent(**settings), variables(database), scripted=True)

    try:
        yield made
    finally:
        await log.close()


def variables(database: Database) -> dict[str, str]:
    return {
        "REPRISE_DSN": database.dsn,
        "REPRISE_HOME": str(database.home),
        "REPRISE_BACKEND": "bubblewrap",
        "REPRISE_SESSION": "",
        "REPRISE_ENVIRONMENT": "",
    }


@pytest.mark.parametrize("name", bundled())
async def test_a_task_is_completed_by_following_its_skill(
    model: Any, bench: Any, name: str
) -> None:
    trial = await bench().trial(given_task(name), "with", 1)
    assert [o.why for o in (*trial.completion, *trial.workflow) if not o.passed] == []
    assert (trial.ended, trial.completed, trial.followed) == ("done", True, True)
    assert trial.spent.requests == 4
    assert trial.spent.input_tokens > trial.spent.output_tokens > 0


async def test_without_skills_there_are_none_and_each_trial_has_a_session_of_its_own(
    model: Any, bench: Any
) -> None:
    given = given_task("profile-rentals")
    price = {"input": "3.00", "output": "15.00", "cache_write": "3.75", "cache_read": "0.30"}
    made = bench(prices={RepriseAgent().model: {**price, "currency": "USD"}})
    trials = [await made.trial(given, "without", n) for n in (1, 2)]
    for trial in trials:
        assert (trial.completed, trial.followed) == (False, True)
        assert [o.passed for o in trial.completion] == [True, True, False, False, False]
        # What takes a skill is not asked of those who have none.
        assert [o.name for o in trial.workflow] == ["does not write over the data"]
        assert trial.spent.cost["USD"] > 0
    assert len({trial.session for trial in trials}) == 2
    body = model.requests[-1].body
    assert "load_skill" not in [tool["name"] for tool in body["tools"]]
    assert "<skills>" not in json.dumps(body["system"])
    entries = await Conversations(made.log).entries(trials[0].conversation)
    assert entries[0].body["scripted"] is True


async def test_a_model_that_is_not_there_counts_for_nothing(model: Any, bench: Any) -> None:
    model.next(error(401, "authentication_error", "no such key"))
    trial = await bench(attempts=1).trial(given_task("profile-rentals"), "with", 1)
    assert (trial.counts, trial.completed) == (False, False)
    [report] = reports([trial])
    assert report.arms[0].broken == 1
    assert report.arms[0].completion.trials == 0
    assert report.helps is None


async def test_what_the_policies_ask_nobody_answers(model: Any, bench: Any) -> None:
    from reprise.log.policies import Policies

    made = bench()
    ask = {"rules": [{"name": "ask", "decision": "ask", "effect": ["write"]}]}
    await Policies(made.log).set("personal", ask)
    try:
        trial = await made.trial(given_task("profile-rentals"), "without", 1)
    finally:
        await Policies(made.log).set("personal", {"rules": []})
    assert (trial.asked, trial.ended, trial.completed) == (1, "done", False)


def test_the_command_compares_both_arms(
    model: Any,
    database: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in variables(database).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path))
    out = tmp_path / "results.json"
    assert main(["eval", "compare-upgrade", "--trials", "1", "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "compare-upgrade  with     1/1 (21–100 %)" in printed
    assert "compare-upgrade  without  0/1 (0–79 %)" in printed
    assert "no difference shown" in printed
    result = json.loads(out.read_text())
    assert [trial["completed"] for trial in result["trials"]] == [True, False]
    assert result["reports"][0]["helps"]["shown"] is False
    # Each trial can be looked up.
    session, conversation = (result["trials"][0][key] for key in ("session", "conversation"))
    assert main(["log", session, "--conversation", conversation]) == 0
    assert "compare_runs.py" in capsys.readouterr().out


def test_what_ctrl_c_cuts_short_is_told_as_far_as_it_came(
    database: Database, tmp_path: Path
) -> None:
    began: list[subprocess.Popen[bytes]] = []
    interrupted: list[bool] = []

    def interrupting(asked: Asked) -> Step:
        if asked.number >= 1:  # the second trial's first request
            if asked.number == 1 and not interrupted:
                interrupted.append(True)
                began[0].send_signal(signal.SIGINT)
            return says("Never heard.", broken=Break(1, "hold", hold=Hold()))
        return says("I looked at it.")

    out = tmp_path / "results.json"
    words = ["eval", "compare-upgrade", "--only", "without", "--trials", "3", "--out", str(out)]
    with ScriptedModel(interrupting) as scripted:
        environ = {
            **os.environ,
            **variables(database),
            "JUPYTER_CONFIG_DIR": str(tmp_path),
            "ANTHROPIC_BASE_URL": scripted.url,
            "ANTHROPIC_API_KEY": scripted.key,
        }
        # Of its own: a signal to the process of the tests would be theirs.
        began.append(subprocess.Popen([sys.executable, "-m", "reprise.cli", *words], env=environ))
        assert began[0].wait(PATIENCE) == 130
    [trial] = json.loads(out.read_text())["trials"]
    assert (trial["number"], trial["ended"]) == (1, "done")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["no-such-task"], "There is no task"),
        (["--trials", "0"], "--trials is from 1"),
        (["--money", "much"], "no amount"),
        (["--money", "1 USD"], "needs the price"),
        (["--money", "0 USD"], "would begin no trial"),
        (["--money", "1 eur", "--model", "priced"], "is paid in USD"),
        (["profile-rentals", "profile-rentals"], "one name"),
        (["--copy", "none", "."], "no bundled task"),
        (["--out", "/no/such/folder/x"], "There is no folder"),
    ],
)
def test_wrong_use_is_said_before_anything_is_tried(
    words: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path))
    price = dict.fromkeys(("input", "output", "cache_write", "cache_read"), "1")
    given = {"RepriseAgent": {"prices": {"priced": {**price, "currency": "USD"}}}}
    (tmp_path / "jupyter_server_config.json").write_text(json.dumps(given))
    assert main(["eval", *words]) == 2
    assert said in capsys.readouterr().err


def test_a_bundled_task_is_listed_and_can_be_made_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["eval", "--list", "--json"]) == 0
    assert [each["task"] for each in json.loads(capsys.readouterr().out)] == bundled()
    assert main(["eval", "--copy", "profile-rentals", "."]) == 0
    copy = tmp_path / "profile-rentals"
    assert given_task(str(copy)) == given_task("profile-rentals")
    (copy / "task.yaml").write_text((copy / "task.yaml").read_text().replace("profile-", "my-", 1))
    assert main(["eval", str(copy)]) == 2
    assert main(["eval", "--copy", "profile-rentals", "."]) == 2
    assert "is there already" in capsys.readouterr().err
