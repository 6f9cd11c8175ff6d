"""docs/eval.md says what is: its task is one, and each kind of check has its row."""

import re
from pathlib import Path

import pytest

from reprise_server.agent.eval.evidence import Evidence
from reprise_server.agent.eval.judging import completion
from reprise_server.agent.eval.statistics import Rate, difference
from reprise_server.agent.eval.task import BadTask, task_of

PAGE = (Path(__file__).parents[3] / "docs" / "eval.md").read_text()


def test_the_task_on_it_is_one_and_its_checks_work():
    [text] = re.findall(r"^```yaml\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)
    task = task_of(text.encode(), "eval.md")
    given = {"trains.csv": b"a"}
    right = Evidence((), "There are 41.", {**given, "late.json": b'{"late": 41}'}, given)
    assert all(outcome.passed for outcome in completion(task, right))
    wrong = Evidence((), "There are 40.", {"late.json": b'{"late": 40}'}, given)
    assert not any(outcome.passed for outcome in completion(task, wrong))


def test_each_kind_of_check_has_its_row():
    rows = set(re.findall(r"^\| `(\w+):", PAGE, flags=re.MULTILINE))
    listed: set[str] = set()
    for checks in ("completion: [{x: 1}]", "completion: [{file: a}]\nworkflow: [{x: 1}]"):
        with pytest.raises(BadTask) as refused:
            task_of(f"name: t\nskill: s\ntask: x\n{checks}\n".encode(), "t")
        listed |= set(str(refused.value).partition("is one of ")[2].split(", "))
    assert rows == listed


def test_the_numbers_in_it_go_together():
    [helped] = re.findall(r"\+(\d+) points; 95 %: \+(\d+) to \+(\d+)", PAGE)
    found = difference(Rate(9, 10), Rate(4, 10))
    assert helped == tuple(f"{x * 100:.0f}" for x in (found.value, found.low, found.high))
    for hits, trials, low, high in re.findall(r"(\d+)/(\d+) \((\d+)–(\d+) %\)", PAGE):
        interval = Rate(int(hits), int(trials)).interval
        assert (low, high) == tuple(f"{x * 100:.0f}" for x in interval)
