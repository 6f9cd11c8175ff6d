"""docs/guardrails.md does what it says: each policy on it is one, each command shows what stands there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from reprise.cli import main
from reprise_server.agent.policy.reading import BadPolicy, parse_policy

PAGE = (Path(__file__).parents[2] / "docs" / "guardrails.md").read_text()
BLOCKS = re.findall(r"^```(yaml|bash|text)\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)


def test_the_page_shows_what_the_commands_show(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    said, ran = "", 0
    for language, text in BLOCKS:
        if language == "yaml":
            name = text.splitlines()[0].removeprefix("# ")
            (tmp_path / name).write_text(text)
        elif language == "bash":
            for line in text.splitlines():
                program, *words = shlex.split(line)
                assert program == "reprise"
                main(words)
                ran += 1
            said = capsys.readouterr().out
        else:
            said = re.sub(r"(sha256:[0-9a-f]{4})[0-9a-f]{60}", r"\1", said)
            assert re.sub(r"sha256:\w{4}", "sha256:", said) == re.sub(
                r"sha256:\w{4}", "sha256:", text
            )
    assert ran > 20


def test_every_condition_of_a_rule_has_its_row() -> None:
    with pytest.raises(BadPolicy, match="no field") as refused:
        parse_policy("rules:\n  - name: x\n    decision: allow\n    no: 1\n")
    listed = refused.value.problems[0].mend.removeprefix("It may have ").removesuffix(".")
    table = PAGE.partition("## Conditions")[2].partition("## ")[0]
    rows = set(re.findall(r"^\| `(\w+)` \|", table, flags=re.MULTILINE))
    assert rows == set(listed.split(", ")) - {"name", "decision", "why"}
