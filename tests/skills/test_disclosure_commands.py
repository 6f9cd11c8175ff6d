"""`reprise skills cost` and `catalog` say what skills take of a model's context, and how they know."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reprise.cli import main
from reprise.skills.choosing import BUDGET
from reprise.skills.counting import KEYS
from reprise.skills.tokens import estimate
from tests.fixtures.commands import Reprise, Result
from tests.fixtures.model import KEY, ModelServer, error
from tests.fixtures.model import tokens as model_tokens
from tests.skills.sample import on_disk, script, skill_md


@pytest.fixture
def skill(tmp_path: Path) -> Path:
    return on_disk(
        tmp_path / "count-rows",
        {
            "SKILL.md": skill_md(
                "name: count-rows\ndescription: Counts rows of a csv.\n", "# Count\n\nRun it.\n"
            ),
            "scripts/count.py": script("print(1)\n"),
            "logo.png": b"\x89PNG\0\xff",
        },
    )


class Command:
    """`reprise …` in this process, which has imported what it needs already."""

    def __init__(
        self, home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("REPRISE_HOME", str(home))
        monkeypatch.delenv("REPRISE_DSN", raising=False)
        self._capsys = capsys

    def __call__(self, *args: str) -> Result:
        self._capsys.readouterr()
        code = main(args)
        out, err = self._capsys.readouterr()
        return Result(args, code, out, err)


@pytest.fixture
def command(
    reprise: Reprise, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Command:
    return Command(reprise.home, capsys, monkeypatch)


@pytest.fixture
def plain(command: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Without a key, whatever the machine that runs the tests has."""
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)
    return command


@pytest.fixture
def counting(command: Command, model: ModelServer) -> Command:
    """With a key, and an API that counts."""
    return command


def shown(command: Command, *args: str) -> Any:
    said = command("skills", *args, "--json")
    assert said.returncode == 0, said.stderr
    return json.loads(said.stdout)


def test_a_folder_is_estimated_and_says_so(plain: Command, skill: Path) -> None:
    said = plain("skills", "cost", str(skill))
    assert said.returncode == 0, said.stderr
    assert "its line in the catalog" in said.stdout
    assert "~" in said.stdout
    assert "Estimated from the characters" in said.stdout
    assert "Set ANTHROPIC_API_KEY" in said.stdout
    [told] = shown(plain, "cost", str(skill))["skills"]
    assert [(part["kind"], part["path"]) for part in told["parts"]] == [
        ("line", ""),
        ("body", "SKILL.md"),
        ("file", "logo.png"),
        ("file", "scripts/count.py"),
    ]
    line, body, picture, code = (part["tokens"] for part in told["parts"])
    assert line == estimate('- count-rows: "Counts rows of a csv."\n')
    assert code == estimate("print(1)\n")
    assert picture is None
    assert told["total"] == {"tokens": line + body + code, "counted": False}


def test_with_a_key_the_api_counts_each_part(
    counting: Command, model: ModelServer, skill: Path
) -> None:
    told = shown(counting, "cost", str(skill), "--model", "claude-haiku-5-5")
    assert told["model"] == "claude-haiku-5-5"
    parts = {part["path"] or "line": part for part in told["skills"][0]["parts"]}
    assert parts["scripts/count.py"]["tokens"] == model_tokens("print(1)\n")
    assert parts["scripts/count.py"]["counted"]
    assert parts["line"]["tokens"] == model_tokens('- count-rows: "Counts rows of a csv."\n')
    assert parts["logo.png"] == {
        "kind": "file",
        "path": "logo.png",
        "tokens": None,
        "counted": False,
    }
    assert told["skills"][0]["total"]["counted"]
    assert {request.body["model"] for request in model.requests} == {"claude-haiku-5-5"}
    text = counting("skills", "cost", str(skill)).stdout
    assert "Counted by the API for claude-sonnet-5-5" in text


def test_nothing_is_sent_when_an_estimate_is_asked_for(
    counting: Command, model: ModelServer, skill: Path
) -> None:
    told = shown(counting, "cost", str(skill), "--estimate")
    assert told["model"] is None
    assert not told["skills"][0]["total"]["counted"]
    assert model.requests == []


def test_an_api_that_refuses_leaves_an_estimate_and_the_reason(
    reprise: Reprise, counting: Command, model: ModelServer, skill: Path
) -> None:
    model.next(*[error(401, "authentication_error", f"invalid x-api-key: {KEY}")] * 20)
    said = counting("skills", "cost", str(skill))
    assert said.returncode == 0
    assert "it does not take this key (status 401)" in said.stderr
    assert "~" in said.stdout
    assert KEY not in said.stdout + said.stderr
    model.next(*[error(401, "authentication_error", f"invalid x-api-key: {KEY}")] * 20)
    environ = {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": KEY, "REPRISE_DEBUG": "1"}
    debugged = reprise("skills", "cost", str(skill), **environ)
    assert "(status 401)" in debugged.stderr
    assert KEY not in debugged.stdout + debugged.stderr


def test_the_catalog_is_summed_up_and_printed(plain: Command, tmp_path: Path, skill: Path) -> None:
    assert plain("skills", "import", str(skill)).returncode == 0
    told = shown(plain, "cost")
    names = {one["skill"] for one in told["skills"]}
    assert {"personal:count-rows@1", "profile-dataset"} <= names
    assert 0 < told["catalog"]["tokens"] <= BUDGET
    text = plain("skills", "cost").stdout
    assert "all of them" in text
    assert "as a model without a notebook is told it" in text
    assert shown(plain, "cost", "count-rows")["skills"][0]["skill"] == "personal:count-rows@1"
    listed = plain("skills", "catalog")
    assert listed.stdout.startswith("<skills>\n")
    assert "- count-rows (untrusted: nobody has approved it): " in listed.stdout
    assert "tokens (estimated) of 2,000" in listed.stderr
    assert "count-rows" not in plain("skills", "catalog", "--trusted-only").stdout


def test_a_notebook_and_a_task_decide_what_is_told_within_a_budget(
    plain: Command, tmp_path: Path
) -> None:
    for number in range(12):
        folder = tmp_path / "many" / f"knit-{number}"
        description = "Knits pullovers of wool, with needles of many sizes. " * 4
        on_disk(
            folder,
            {"SKILL.md": skill_md(f"name: knit-{number}\ndescription: {description}\n")},
        )
    assert plain("skills", "import", str(tmp_path / "many")).returncode == 0
    notebook = tmp_path / "prices.ipynb"
    source = "import pandas as pd\npd.read_csv('prices.csv')"
    cells = [{"cell_type": "code", "source": source, "metadata": {}}]
    notebook.write_text(json.dumps({"cells": cells, "nbformat": 4, "nbformat_minor": 5}))
    told = shown(plain, "catalog", "--notebook", str(notebook), "--budget", "300")
    assert told["tokens"] <= 300
    assert told["counted"] is False
    assert '- profile-dataset: "' in told["text"]
    assert (
        '- knit-0 (untrusted: nobody has approved it): "'
        in (shown(plain, "catalog", "--task", "knit a pullover", "--budget", "300")["text"])
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot be read"),
        ("{", "is no notebook"),
        ("[]", "is no notebook"),
        ("[" * 100_000, "is no notebook"),
        ('{"cells": 1}', "is no notebook"),
    ],
)
def test_what_is_no_notebook_is_refused(
    plain: Command, tmp_path: Path, content: str | None, said: str
) -> None:
    path = tmp_path / "x.ipynb"
    if content is not None:
        path.write_text(content)
    told = plain("skills", "catalog", "--notebook", str(path))
    assert told.returncode == 2
    assert said in told.stderr
    assert len(told.stderr) < 500


def test_wrong_use_is_told(plain: Command, tmp_path: Path) -> None:
    assert plain("skills", "catalog", "--budget", "5").returncode == 2
    for named in ("./nowhere", "no-such-skill", str(tmp_path)):
        told = plain("skills", "cost", named)
        assert told.returncode == 2, told.stderr
        assert "Traceback" not in told.stderr
