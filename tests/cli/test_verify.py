"""`reprise verify` finds what differs in outputs, files and variables, and says where it may come from."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from reprise.demo.kernel import DemoKernel
from tests.fixtures.commands import Reprise

Recorded = Callable[..., str]


@pytest.fixture
def recorded(reprise: Reprise, tmp_path: Path) -> Recorded:
    """Runs cells in a session of their own and returns its id."""

    def run(*codes: str, **env: str) -> str:
        folder = tmp_path / "project"
        folder.mkdir()
        path = folder / "work.ipynb"
        nbformat.write(new_notebook(cells=[new_code_cell(code) for code in codes]), path)
        shown = reprise("run", str(path), "--json", "--allow-errors", cwd=folder, **env)
        assert shown.returncode in (0, 1), shown.stderr
        path.unlink()  # or the copy that a sandbox without isolation gets would hold it
        return str(json.loads(shown.stdout)["session"])

    return run


def verified(reprise: Reprise, session: str, *args: str, expect: int, **more: Any) -> Any:
    shown = reprise("verify", session, "--json", *args, **more)
    assert shown.returncode == expect, shown.stdout + shown.stderr
    return json.loads(shown.stdout)


def cells(report: Any) -> list[Any]:
    return [step for step in report["steps"] if step["kind"] == "cell"]


def state(report: Any, against: str) -> Any:
    (found,) = [each for each in report["states"] if each["against"] == against]
    return found


HIDDEN = (
    "import random, time, os",
    "def draw():\n    return random.random()",
    "x = draw()",
    "with open('stamp.txt', 'w') as out:\n    out.write(f'line\\n{time.time_ns() % 10**6}\\nlast\\n')",
    "y = x + 1; z = 5",
    "print('all the same')",
)


def test_two_replays_show_what_no_output_shows(reprise: Reprise, recorded: Recorded) -> None:
    session = recorded(*HIDDEN)
    report = verified(reprise, session, "--twice", expect=1)
    assert {step["verdict"] for step in report["steps"]} == {"same"}
    assert report["ok"] is False
    assert "left other files and variables" in report["sentence"]
    found = state(report, "second replay")
    names = {each["name"]: each for each in found["variables"]["different"]}
    assert set(names) == {"x", "y"}
    first = cells(report)[0]["seq"]
    assert (names["x"]["since"], names["y"]["since"]) == (first + 2, first + 4)
    (cause, *_) = names["x"]["causes"]
    assert (cause["what"], cause["seq"], cause["line"]) == ("randomness", first + 1, 2)
    assert "draw" in cause["text"]
    assert "random.seed(0)" in cause["mend"]
    (cause, *_) = names["y"]["causes"]
    assert cause["what"] == "earlier step"
    (file,) = found["files"]["different"]
    assert (file["path"], file["kind"], file["since"]) == ("stamp.txt", "content", first + 3)
    assert [line[:1] for line in file["diff"].splitlines()[1:]] == [" ", "-", "+", " ", " "]
    assert [each["what"] for each in file["causes"]] == ["time"]


def test_a_session_without_chance_verifies_in_every_way(
    reprise: Reprise, recorded: Recorded, tmp_path: Path
) -> None:
    session = recorded(
        "import numpy as np, pandas as pd, random",
        "np.random.seed(0); random.seed(0)\nrng = np.random.default_rng(1)",
        "frame = pd.DataFrame({'a': np.random.rand(50), 'b': rng.random(50)})\n"
        "words = set('some words in a set'.split())\nframe.to_csv('frame.csv')\nframe.head(3)",
        "class Model:\n    def fit(self, data): self.mean = data.mean(); return self\n"
        "model = Model().fit(frame.a); numbers = [random.random() for _ in range(9)]",
        "1/0",
    )
    page = tmp_path / "report.html"
    report = verified(reprise, session, "--twice", "--html", str(page), expect=0)
    assert report["replays"] == 2
    assert {step["verdict"] for step in report["steps"]} == {"same"}
    found = state(report, "second replay")
    assert found["verdict"] == "same"
    assert found["variables"]["same"] >= 7
    assert found["variables"]["not_compared"] == {}
    assert found["files"]["same"] >= 1
    assert "left the same files and variables" in report["sentence"]
    assert page.read_text().startswith("<!DOCTYPE html>")
    assert report["sentence"] in page.read_text()


def test_what_was_taken_down_at_the_end_is_compared(reprise: Reprise, recorded: Recorded) -> None:
    session = recorded(*HIDDEN)
    report = verified(reprise, session, expect=1)
    assert report["replays"] == 1
    found = state(report, "recorded state")
    assert found["seq"] == report["steps"][-1]["seq"]
    assert {each["name"] for each in found["variables"]["different"]} == {"x", "y"}
    assert [each["path"] for each in found["files"]["different"]] == ["stamp.txt"]
    assert found["variables"]["same"] >= 4


def test_only_the_asked_part_is_compared(reprise: Reprise, recorded: Recorded) -> None:
    session = recorded("import os", "print(os.urandom(4).hex(), 'x')", "a = 1", "print(a)")
    whole = verified(reprise, session, "--once", expect=1)
    first = cells(whole)[0]["seq"]
    later = verified(reprise, session, "--once", "--from", str(first + 2), expect=0)
    assert [step["seq"] for step in later["steps"]] == [first + 2, first + 3]
    assert later["from"] == later["brought_back"] == first + 2
    assert later["steps"][-1]["verdict"] == "same"  # what lies before was brought back
    early = verified(reprise, session, "--once", "--to", str(first), expect=0)
    assert [step["seq"] for step in early["steps"]] == list(range(first + 1))
    middle = str(first + 1)
    one = verified(reprise, session, "--once", "--from", middle, "--to", middle, expect=1)
    assert [step["verdict"] for step in one["steps"]] == ["different"]
    for args in (["--from", "99"], ["--to", "99"], ["--from", "3", "--to", "2"], ["--from", "-1"]):
        shown = reprise("verify", session, *args)
        assert (shown.returncode, shown.stdout) == (2, "")
        assert "step" in shown.stderr


def test_a_difference_that_is_no_chance_is_told_from_one(
    reprise: Reprise, recorded: Recorded
) -> None:
    session = recorded(
        "import time, os", "print('zone', time.tzname)", "print(os.urandom(3).hex(), 'z')", TZ="UTC"
    )
    report = verified(reprise, session, "--twice", expect=1, TZ="Asia/Tokyo")
    _, zone, chance = cells(report)
    assert (zone["verdict"], zone["second_replay"], zone["replays_differ"]) == (
        "different",
        "different",
        False,
    )
    assert zone["causes"][0]["what"] == "outside"
    assert "TZ" in zone["causes"][0]["text"]
    assert any("TZ" in each for each in report["environment_changes"])
    assert chance["replays_differ"] is True
    assert [each["what"] for each in chance["causes"]] == ["randomness"]


def test_a_later_step_is_told_to_follow_from_an_earlier_one(
    reprise: Reprise, recorded: Recorded
) -> None:
    session = recorded("import uuid\nname = str(uuid.uuid4())[:7] + 'g'", "print(name)")
    report = verified(reprise, session, "--twice", expect=1)
    made, shown = cells(report)
    assert made["verdict"] == "same"
    (cause,) = shown["causes"]
    assert (cause["what"], cause["seq"]) == ("earlier step", made["seq"])
    assert "`name`" in cause["text"]
    text = reprise("verify", session, "--once").stdout
    assert "why? " in text
    assert "uuid.uuid4" in text


@pytest.mark.parametrize("backend", ["bubblewrap", "process"])
def test_on_each_backend(reprise: Reprise, recorded: Recorded, backend: str) -> None:
    env = {"REPRISE_BACKEND": backend}
    session = recorded(
        "import random\nx = random.random()\nopen('made.txt', 'w').write('m')", **env
    )
    report = verified(reprise, session, "--twice", expect=1, **env)
    assert report["backend"] == backend
    found = state(report, "second replay")
    assert [each["name"] for each in found["variables"]["different"]] == ["x"]
    assert found["files"]["different"] == []


def test_a_page_is_written_whole_and_nothing_runs_on_it(
    reprise: Reprise, recorded: Recorded, tmp_path: Path
) -> None:
    hostile = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
    session = recorded(
        f"import os\nfrom IPython.display import HTML, display\ndisplay(HTML({hostile!r}))\n"
        f"print({hostile!r}, os.urandom(2))\nopen('odd <b>.txt', 'wb').write(os.urandom(9))"
    )
    page = tmp_path / "report.html"
    shown = reprise("verify", session, "--html", str(page))
    assert shown.returncode == 1, shown.stderr
    assert str(page) in shown.stdout
    whole = page.read_text()
    assert "<script>alert" not in whole
    assert "<img src=x" not in whole
    assert "odd &lt;b&gt;.txt" in whole
    assert "Content-Security-Policy" in whole
    refused = reprise("verify", session, "--html", str(tmp_path / "no folder" / "report.html"))
    assert refused.returncode == 2
    assert "no folder" in refused.stderr


def test_the_running_kernel_is_compared_and_not_disturbed(
    reprise: Reprise, kernel: DemoKernel, session: str
) -> None:
    assert kernel.run("import random, os\nx = random.random(); y = 5", "a").status == "ok"
    assert kernel.run("open('n.txt', 'w').write(f'a\\n{x}\\n'); 41", "b").status == "ok"
    report = verified(reprise, session, expect=1)
    found = state(report, "running kernel")
    assert report["replays"] == 1
    assert [each["name"] for each in found["variables"]["different"]] == ["x"]
    (file,) = found["files"]["different"]
    assert file["path"] == "n.txt"
    assert "-0." in file["diff"]  # read from the kernel's workspace
    assert "+0." in file["diff"]
    assert kernel.run("print(y, _ + 1, len(In))", "c").shown == [["stream", "stdout", "5 42 4\n"]]
