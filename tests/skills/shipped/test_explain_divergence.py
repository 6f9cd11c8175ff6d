"""explain-divergence names the step where a difference begins, proves causes, and mends them."""

from __future__ import annotations

import ast
import json
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.skills.shipped.scripts import module, run

NAME = "explain-divergence"
cells = module(NAME, "explaining.cells")
shapes = module(NAME, "explaining.shapes")
loading = module(NAME, "explaining.report")
verdict = module(NAME, "explaining.verdict")


def difference(before: str, after: str, **more: Any) -> dict[str, Any]:
    return {"where": "stdout", "kind": "text", "volatile": False, "recorded": before, "replayed": after, "diff": "", **more}  # fmt: skip


def step(seq: int, source: str, *differences: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "seq": seq,
        "kind": "cell",
        "outcome": "ok",
        "verdict": "different" if differences else "same",
        "reason": None,
        "source": source,
        "replays_differ": None,
        "causes": [],
        "differences": list(differences),
        **more,
    }


def report(*steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    """In the form of docs/verify.md."""
    wrong = [each for each in steps if each["verdict"] in ("different", "could not run")]
    return {
        "session": "3f2a",
        "ok": not wrong,
        "sentence": f"{len(wrong)} of {len(steps)} steps came out otherwise.",
        "replays": 2,
        "environment_changes": [],
        "not_compared": [],
        "counts": {},
        "steps": list(steps),
        "states": [],
        **more,
    }


def explained(body: dict[str, Any]) -> list[Any]:
    with tempfile.TemporaryDirectory() as place:
        path = Path(place, "report.json")
        path.write_text(json.dumps(body))
        found = verdict.Explanation(loading.read_report(path))
    roots = [found.described(root) for root in found.roots]
    json.dumps(roots)
    return roots


NUMBERS = difference("total 0.123456", "total 0.654321")


# roots and causes -----------------------------------------------------------------------------------


def test_a_difference_goes_back_to_the_step_that_made_it() -> None:
    (root,) = explained(
        report(
            step(0, "import numpy as np"),
            step(1, "noise = np.random.rand(3)"),
            step(2, "total = noise.sum()"),
            step(3, "print('total', total)", NUMBERS, replays_differ=True),
            step(4, "print('mean', total / 3)", NUMBERS, replays_differ=True),
        )
    )
    assert (root["step"], root["explains"]) == (1, [3, 4])
    assert root["causes"][0]["cause"] == "randomness"
    assert root["mend"]["edit"] == {"step": 1, "line": 1, "insert_before": "np.random.seed(0)"}
    assert root["chance"] == "yes"


def test_a_function_defined_earlier_is_looked_into() -> None:
    (root,) = explained(
        report(
            step(0, "import time\ndef stamp():\n    return time.time()"),
            step(
                1, "print(stamp())", difference("1796000000.1", "1796000009.7"), replays_differ=True
            ),
        )
    )
    assert root["step"] == 1
    assert root["causes"][0]["cause"] == "time"
    assert any("line 3 of step 0" in text for text in root["causes"][0]["evidence"])


@pytest.mark.parametrize(
    ("code", "before", "after", "cause", "mended"),
    [
        ("import os\nprint(os.listdir('d'))", "['a', 'b']", "['b', 'a']", "order", "print(sorted(os.listdir('d')))"),
        ("for n in {'a', 'b'}: print(n)", "a\nb", "b\na", "order", "for n in sorted({'a', 'b'}): print(n)"),
        ("for n in set(names): print(n)", "a\nb", "b\na", "order", "for n in sorted(set(names)): print(n)"),
        ("print(list(set(names)))", "a b", "b a", "order", "print(list(sorted(set(names))))"),
        ("import numpy as np\nprint(np.empty(2))", "0.1 0.2", "0.3 0.4", "memory", "print(np.zeros(2))"),
        ("import numpy as np\nrng = np.random.default_rng()\nprint(rng.random())", "0.1", "0.7", "randomness", "rng = np.random.default_rng(0)"),
        ("import numpy as np\nrng = np.random.default_rng(None)\nprint(rng.random())", "0.1", "0.7", "randomness", "rng = np.random.default_rng(0)"),
        ("from sklearn.cluster import KMeans\nprint(KMeans(n_clusters=3,).fit(x))", "0.1", "0.7", "randomness", "print(KMeans(n_clusters=3, random_state=0).fit(x))"),
        ("print(df.sample(3))", "0.1", "0.7", "randomness", "print(df.sample(3, random_state=0))"),
        ("print(df.sample())", "0.1", "0.7", "randomness", "print(df.sample(random_state=0))"),
    ],
)  # fmt: skip
def test_the_mend_is_an_edit_of_one_line_that_parses(
    code: str, before: str, after: str, cause: str, mended: str
) -> None:
    (root,) = explained(report(step(3, code, difference(before, after), replays_differ=True)))
    assert root["causes"][0]["cause"] == cause
    edit = root["mend"]["edit"]
    assert edit["after"] == mended
    lines = code.split("\n")
    assert lines[edit["line"] - 1].strip() == edit["before"]
    lines[edit["line"] - 1] = edit["after"]
    ast.parse("\n".join(lines))


def test_replays_that_agree_speak_for_what_changed_outside() -> None:
    (root,) = explained(
        report(
            step(0, "import pandas as pd\ndf = pd.read_csv('a.csv')"),
            step(1, "print(df.mean())", NUMBERS, replays_differ=False),
            environment_changes=["pandas 2.2.0 was 2.1.4."],
        )
    )
    assert root["causes"][0]["cause"] == "versions"
    assert any("imports what changed" in text for text in root["causes"][0]["evidence"])
    assert root["mend"]["edit"] is None
    assert "lock" in root["mend"]["do"]


@pytest.mark.parametrize(
    ("after", "cause"),
    [
        ("ModuleNotFoundError: No module named 'x'", "versions"),
        ("FileNotFoundError: a.csv", "files"),
        ("URLError: <urlopen error>", "network"),
    ],
)
def test_an_error_says_what_is_missing(after: str, cause: str) -> None:
    (root,) = explained(
        report(step(0, "print(f())", difference("42", after), replays_differ=False))
    )
    assert root["causes"][0]["cause"] == cause


def test_a_seed_above_takes_randomness_out() -> None:
    (root,) = explained(
        report(
            step(0, "import random\nrandom.seed(0)"),
            step(1, "import os\nx = random.random(), os.getpid()"),
            step(2, "print(x)", difference("0.84 1200", "0.84 1399"), replays_differ=True),
        )
    )
    assert root["causes"][0]["cause"] == "machine"
    assert "randomness" not in {each["cause"] for each in root["causes"]}


def test_two_roots_are_kept_apart_and_stand_in_order() -> None:
    roots = explained(
        report(
            step(0, "import random, os"),
            step(1, "a = random.random()"),
            step(2, "b = os.listdir()"),
            step(3, "print(b)", difference("x y", "y x")),
            step(4, "print(a)", NUMBERS),
        )
    )
    assert [(root["step"], root["explains"]) for root in roots] == [(1, [4]), (2, [3])]


def test_what_is_equal_is_not_explained(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text(json.dumps(report(step(0, "x = 1"), step(1, "print(x)"))))
    done = run(NAME, "explain_divergence.py", "report.json", "--check", workspace=tmp_path)
    assert done.code == 0
    assert done.json["roots"] == []


def test_left_variables_and_files_are_named() -> None:
    states = [
        {
            "seq": 1,
            "against": "second replay",
            "verdict": "different",
            "variables": {
                "different": [{"name": "a", "since": None}, {"name": "v", "volatile": True}]
            },
            "files": {"different": [{"path": "out.csv", "since": 0}]},
        }
    ]
    (root,) = explained(
        report(
            step(0, "import random\na = random.random()"),
            step(1, "print(a)", NUMBERS),
            states=states,
        )
    )
    assert root["also_differ"] == ["file out.csv", "variable a"]


# histories -------------------------------------------------------------------------------------------


def log_of(*codes: str) -> list[dict[str, Any]]:
    return [
        {"seq": seq, "kind": "cell", "payload": {"content": {"code": code}}}
        for seq, code in enumerate(codes)
    ]


@pytest.mark.parametrize("form", ["log", "bundle"])
def test_a_history_fills_in_what_verify_did_not_play(tmp_path: Path, form: str) -> None:
    steps = log_of("import random", "a = random.random()", "b = a", "print(b)")
    (tmp_path / "report.json").write_text(json.dumps(report(step(3, "print(b)", NUMBERS))))
    if form == "log":
        name = "log.json"
        (tmp_path / name).write_text(json.dumps({"session": "3f2a", "steps": steps}))
    else:
        name = "s.reprise"
        (tmp_path / "000000.jsonl").write_text(
            "\n".join(json.dumps(["step", "0" * 64, each]) for each in steps)
            + '\n["outcome","0",{"seq":0}]\n'
        )
        with tarfile.open(tmp_path / name, "w") as archive:
            archive.add(tmp_path / "000000.jsonl", "events/000000.jsonl")
    done = run(NAME, "explain_divergence.py", "report.json", "--history", name, workspace=tmp_path)
    assert done.code == 0, done.err
    assert done.json["roots"][0]["step"] == 1


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[]",
        b"\x28\xb5\x2f\xfd123",
        b"bundle.json" + b"\0" * 600,
        b'{"steps": []}',
        b"[" * 90_000,
    ],
)
def test_what_is_no_report_and_no_history_is_refused(tmp_path: Path, data: bytes) -> None:
    good, bad = tmp_path / "report.json", tmp_path / "bad.json"
    good.write_text(json.dumps(report(step(0, "print(1)", NUMBERS))))
    bad.write_bytes(data)
    assert run(NAME, "explain_divergence.py", bad).code == 2
    assert run(NAME, "explain_divergence.py", good, "--history", bad).code == 2
    assert run(NAME, "compare_reports.py", good, bad).code == 2


# the mend, judged ------------------------------------------------------------------------------------


def test_a_second_report_says_what_the_mend_did(tmp_path: Path) -> None:
    before = report(
        step(0, "a = random.random()"), step(1, "print(a)", NUMBERS), step(2, "print(t())", NUMBERS), step(3, "print(old)", NUMBERS),
    )  # fmt: skip
    after = report(
        step(0, "random.seed(0)\na = random.random()"), step(1, "print(a)"), step(2, "print(t())", NUMBERS), step(3, "print(9)", NUMBERS),
    )  # fmt: skip
    good = report(step(0, "a = 1"), step(1, "print(a)"))
    for name, body in {"before": before, "after": after, "good": good}.items():
        (tmp_path / name).write_text(json.dumps(body))
    assert run(NAME, "compare_reports.py", "before", "after", workspace=tmp_path).code == 0
    done = run(NAME, "compare_reports.py", "before", "after", "--check", workspace=tmp_path)
    assert done.code == 1
    found = done.json
    assert (found["mended"], found["holds"]) == (1, False)
    assert [each["before"] for each in found["steps"]["mended"]] == [1]
    assert [each["before"] for each in found["steps"]["still"]] == [2, 3]
    assert (
        run(NAME, "compare_reports.py", "before", "good", "--check", workspace=tmp_path).code == 0
    )


# the experiment ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("codes", "causes"),
    [
        (["import random", "print(random.random())"], ["randomness"]),
        (["from datetime import datetime", "print(datetime.now().isoformat())"], ["time"]),
        (["names = {'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'}", "print(list(names))"], ["set order"]),
        (["import random, time", "print(random.random(), time.time_ns())"], ["randomness", "time"]),
    ],
)
def test_an_experiment_tells_the_cause(tmp_path: Path, codes: list[str], causes: list[str]) -> None:
    steps = [step(at, code) for at, code in enumerate(codes)]
    (tmp_path / "report.json").write_text(json.dumps(report(*steps)))
    asked = ("report.json", "--step", "1", "--times", "2")
    done = run(NAME, "probe_causes.py", *asked, workspace=tmp_path)
    assert done.code == 0, done.err
    assert done.json["causes"] == causes, done.json
    assert done.json["reproduced"] is True


def test_what_comes_out_the_same_is_looked_for_outside(tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("b\na\n")
    codes = ["text = open('lines.txt').read()", "print(sorted(text.split()))"]
    (tmp_path / "report.json").write_text(
        json.dumps(report(*[step(at, c) for at, c in enumerate(codes)]))
    )
    done = run(
        NAME, "probe_causes.py", "report.json", "--step", "1", "--times", "2", workspace=tmp_path
    )
    assert done.code == 0
    assert done.json["shown"] == "['a', 'b']\n"
    assert "outside" in done.json["sentence"]


def test_an_experiment_changes_nothing_of_the_workspace(tmp_path: Path) -> None:
    (tmp_path / "kept.txt").write_text("1")
    (tmp_path / "link").symlink_to("/etc/hostname")
    code = "import os\nopen('kept.txt', 'a').write('2')\nopen('new', 'w').close()\nos.remove('link')\nprint(open('kept.txt').read())"
    (tmp_path / "report.json").write_text(json.dumps(report(step(0, code))))
    before = sorted(path.name for path in tmp_path.iterdir())
    done = run(
        NAME, "probe_causes.py", "report.json", "--step", "0", "--times", "2", workspace=tmp_path
    )
    assert done.json["shown"] == "12\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert (tmp_path / "kept.txt").read_text() == "1"


def test_cells_that_end_the_interpreter_or_never_end_are_borne(tmp_path: Path) -> None:
    for name, code in {
        "exit": "import os\nos._exit(3)",
        "loop": "while True: pass",
        "raise": "raise SystemExit(1)",
    }.items():
        (tmp_path / name).write_text(json.dumps(report(step(0, code))))
    ended = run(NAME, "probe_causes.py", "exit", "--step", "0", "--times", "2", workspace=tmp_path)
    assert ended.code == 0
    assert "ended: 3" in ended.json["shown"]
    slow = run(NAME, "probe_causes.py", "loop", "--step", "0", "--timeout", "1", workspace=tmp_path)
    assert slow.code == 3
    assert "longer than 1 s" in slow.err
    left = run(NAME, "probe_causes.py", "raise", "--step", "0", "--times", "2", workspace=tmp_path)
    assert left.json["shown"] == "SystemExit: 1\n"


def test_magics_and_commands_are_left_out_and_named(tmp_path: Path) -> None:
    steps = [
        step(0, "%matplotlib inline\n!ls\nx = 1"),
        step(1, "ls", kind="command"),
        step(2, "print(x)"),
    ]
    (tmp_path / "report.json").write_text(json.dumps(report(*steps)))
    done = run(
        NAME, "probe_causes.py", "report.json", "--step", "2", "--times", "2", workspace=tmp_path
    )
    assert done.json["left_out"] == ["magics or shell lines of step 0", "the command of step 1"]
    assert done.json["shown"] == "1\n"
    assert run(NAME, "probe_causes.py", "report.json", "--step", "1", workspace=tmp_path).code == 2


# shapes, and any input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "name"),
    [
        ("at 0x7f3a00ff", "at 0x7f3a1111", "address"),
        ("2024-01-01", "2024-01-02", "date"),
        (
            "id 0d9a2c1e-0000-4000-8000-123456789abc",
            "id 1d9a2c1e-0000-4000-8000-123456789abc",
            "identifier",
        ),
        ("a\nb", "b\na", "order"),
        ("{1, 2}", "{2, 1}", "order"),
        ("sum 0.30000000000000004", "sum 0.3", "rounding"),
        ("sum 0.31", "sum 0.47", "numbers"),
        ("", "x", "presence"),
        ("cat", "dog", "other"),
    ],
)
def test_how_a_difference_looks(before: str, after: str, name: str) -> None:
    assert shapes.shape(before, after)[0] == name


@given(st.text(max_size=60), st.text(max_size=60))
@settings(max_examples=300, deadline=None)
def test_any_two_texts_differ_somehow(before: str, after: str) -> None:
    name, words = shapes.shape(before, after)
    assert name
    assert words


SOURCES = st.lists(
    st.sampled_from(
        ["import numpy as np", "a = np.random.rand(3)", "print(a)", "for n in {1}: print(n)", "def f():", "    return a", "!date",
         "%%bash", "x = (", "df.sample()", "os.listdir('é')", "y = KMeans()", "lambda: 0", "\0", "class A: x = f()", "b = list(set(a))"]
    )
    | st.text(max_size=12),
    max_size=6,
).map("\n".join)  # fmt: skip


@given(
    st.lists(
        st.tuples(
            SOURCES,
            st.booleans(),
            st.sampled_from([True, False, None]),
            st.sampled_from(["cell", "command"]),
        ),
        max_size=6,
    )
)
@settings(max_examples=200, deadline=None)
def test_any_session_is_explained(drawn: list[tuple[str, bool, bool | None, str]]) -> None:
    steps = [
        step(at, code, *([NUMBERS] if wrong else []), replays_differ=chance, kind=kind)
        for at, (code, wrong, chance, kind) in enumerate(drawn)
    ]
    roots = explained(report(*steps))
    # Each step that differs is explained by exactly one root, which is not later than it.
    told = [(root["step"], seq) for root in roots for seq in root["explains"]]
    assert sorted(seq for _, seq in told) == [each["seq"] for each in steps if each["differences"]]
    assert all(root <= seq for root, seq in told)


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(
    ["causes", "differences", "source", "reason", "replays_differ", "verdict", "kind", "seq"]), JUNK, max_size=8))  # fmt: skip
@settings(max_examples=200, deadline=None)
def test_a_report_that_is_wrong_in_every_part_is_borne(junk: dict[str, Any]) -> None:
    explained(report({**step(0, "print(1)", NUMBERS), **junk}))
