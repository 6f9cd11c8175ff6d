"""compare-runs calls equal what is equal within the tolerance, and nothing else."""

from __future__ import annotations

import base64
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.skills.shipped.scripts import Done, module, notebook, run, saved, shown, stream

NAME = "compare-runs"
runs = module(NAME, "comparing.runs")
values = module(NAME, "comparing.values")
TOLERANCE = values.Tolerance()


def compared(place: Path, before: dict[str, Any], after: dict[str, Any], *args: str) -> Done:
    saved(place, before, "before.ipynb")
    saved(place, after, "after.ipynb")
    done = run(
        NAME, "compare_runs.py", "before.ipynb", "after.ipynb", "--check", *args, workspace=place
    )
    assert done.code in (0, 1), done.err
    assert done.json["agree"] is (done.code == 0)
    return done


def cell(text: str, source: str = "show()") -> dict[str, Any]:
    return {"source": source, "outputs": [stream(text)]}


def table(*rows: tuple[object, ...]) -> dict[str, Any]:
    html = "".join("<tr>" + "".join(f"<td>{each}</td>" for each in row) + "</tr>" for row in rows)
    return {
        "source": "df",
        "outputs": [shown(text__html=f"<table>{html}</table>", text__plain="…")],
    }


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        ("mean 0.5", "mean 0.5", "same"),
        ("mean 0.30000000000000004", "mean 0.3", "within tolerance"),
        ("mean 1e-320", "mean 0.0", "within tolerance"),
        ("mean 0.5", "mean 0.51", "different"),
        ("mean 0.5", "mean -0.5", "different"),
        ("mean nan", "mean nan", "same"),
        ("mean nan", "mean 0.5", "different"),
        ("mean inf", "mean -inf", "different"),
        ("mean 0.5", "median 0.5", "different"),
        ("1,234.5 rows", "1234.5 rows", "same"),
        ("a  1\nb 22", "a 1\nb  22", "same"),
        ("took 1.5 s", "took 9.1 s", "volatile"),
        ("at 2024-01-01 10:00:00", "at 2025-06-07 11:12:13", "volatile"),
        ("<T at 0x7f0000001234>", "<T at 0x7f9999991234>", "volatile"),
        ("took 1.5 s, mean 0.5", "took 9.1 s, mean 0.7", "different"),
        ("x1 = 5", "x2 = 5", "different"),
        ("a\nb", "b\na", "different"),
        ("", "x", "different"),
    ],
)
def test_texts(before: str, after: str, verdict: str) -> None:
    found = values.texts(before, after, TOLERANCE)
    if verdict == "same" and before != after:
        assert found.verdict in ("same", "within tolerance")
    else:
        assert found.verdict == verdict
    assert values.texts(after, before, TOLERANCE).verdict == found.verdict


def test_what_differs_is_named_by_cell_row_and_column(tmp_path: Path) -> None:
    before = notebook(
        "x = 1", table(("", "mae", "n"), ("ridge", "0.25", "10"), ("tree", "0.5", "10"))
    )
    after = notebook(
        "x = 1", table(("", "mae", "n"), ("ridge", "0.25", "10"), ("tree", "0.75", "10"))
    )
    done = compared(tmp_path, before, after)
    (entry,) = done.json["differ"]
    assert (entry["after"], entry["name"]) == (2, "cell-2")
    assert entry["outputs"][0]["examples"] == [
        {"where": "row tree, mae", "before": 0.5, "after": 0.75}
    ]
    assert done.json["numbers_off"] == 1
    assert done.json["largest_in_cell"] == 2
    assert compared(tmp_path, before, after, "--relative", "0.5").code == 0


@pytest.mark.parametrize(
    ("after", "why"),
    [
        (table(("a", "b"), ("2", "y"), ("1", "x")), "another order"),
        (table(("a", "c"), ("1", "x"), ("2", "y")), "other columns: ['b'] gone, ['c'] new"),
        (table(("a", "b"), ("1", "x")), "3 rows of 2 before, 2 of 2 after"),
        (table(("a", "b"), ("1", "x"), ("2", "z")), "1 texts differ"),
        (cell("a b"), "a table before, a text after"),
        ({"source": "df", "outputs": []}, "only before"),
    ],
)
def test_tables_that_are_others(tmp_path: Path, after: dict[str, Any], why: str) -> None:
    before = notebook(table(("a", "b"), ("1", "x"), ("2", "y")))
    (entry,) = compared(tmp_path, before, notebook({**after, "source": "df"})).json["differ"]
    assert why in entry["outputs"][0]["why"]


def test_metrics_that_changed_come_with_both_values(tmp_path: Path) -> None:
    before = notebook(cell("accuracy: 0.91\nRMSE = 3.5\nrows: 100\nnote: none\n"))
    after = notebook(cell("accuracy: 0.89\nRMSE = 7.0\nrows: 100\nnote: none\n"))
    metrics = compared(tmp_path, before, after).json["metrics"]
    assert [(m["name"], m["before"], m["after"]) for m in metrics] == [
        ("RMSE", 3.5, 7.0),
        ("accuracy", 0.91, 0.89),
    ]


def test_cells_are_paired_whatever_was_put_between_or_edited(tmp_path: Path) -> None:
    def code(source: str, text: str, name: str) -> dict[str, Any]:
        return {**cell(text, source), "id": name}

    before = notebook(
        code("a = load()", "1", "p"), code("fit(a)", "0.5", "q"), code("plot()", "", "r")
    )
    after = notebook(
        code("a = load()", "1", "p"), code("check(a)", "ok", "new"), code("fit(a, depth=3)", "0.5", "q"), code("plot()", "", "r"),
    )  # fmt: skip
    found = compared(tmp_path, before, after).json
    assert [(e["before"], e["after"], e["verdict"]) for e in found["differ"]] == [
        (None, 2, "only after")
    ]
    for book in (before, after):
        for each in book["cells"]:
            each.pop("id")
    found = compared(tmp_path, before, after).json
    assert [(e["before"], e["after"]) for e in found["differ"]] == [(None, 2)]
    assert found["cells"]["same"] == 3


def test_pictures_errors_and_cells_that_did_not_run(tmp_path: Path) -> None:
    def book(picture: bytes, error: str, count: int | None) -> dict[str, Any]:
        return notebook(
            {"source": "plot()", "outputs": [shown(image__png=base64.b64encode(picture).decode())]},
            {"source": "f()", "outputs": [{"output_type": "error", "ename": "E", "evalue": error}]},
            {"source": "g()", "execution_count": count},
        )

    assert compared(tmp_path, book(b"a", "x", 1), book(b"a", "x", 1)).code == 0
    found = compared(tmp_path, book(b"a", "x", 1), book(b"b", "y", None)).json
    assert [each["verdict"] for each in found["differ"]] == [
        "different",
        "different",
        "not run after",
    ]


def test_logs_of_sessions_are_runs(tmp_path: Path) -> None:
    def log(text: str) -> str:
        outputs = [["stream", {"name": "stdout", "text": text}, {}, []]]
        step = {
            "seq": 1,
            "kind": "cell",
            "payload": {"content": {"code": "p()"}},
            "outputs": outputs,
        }
        return json.dumps({"session": "s", "steps": [{"seq": 0, "kind": "upload"}, step]})

    (tmp_path / "a.json").write_text(log("mean: 1.0"))
    (tmp_path / "b.json").write_text(log("mean: 2.0"))
    done = run(NAME, "compare_runs.py", "a.json", "b.json", workspace=tmp_path)
    assert done.json["metrics"][0]["change"] == 1.0
    assert done.json["differ"][0]["name"] == "step 1"
    without = json.loads(log("x"))
    del without["steps"][1]["outputs"]
    (tmp_path / "c.json").write_text(json.dumps(without))
    done = run(NAME, "compare_runs.py", "a.json", "c.json", workspace=tmp_path)
    assert done.code == 2
    assert "--outputs" in done.err


@pytest.mark.parametrize("text", ["", "[]", "3", "{}", '{"cells": 3}', "{" * 90_000, "\0", "null"])
def test_what_is_no_run_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "x").write_text(text)
    good = saved(tmp_path, notebook("1"))
    assert run(NAME, "compare_runs.py", good, tmp_path / "x").code == 2


def test_a_run_that_is_wrong_in_every_part_is_compared(tmp_path: Path) -> None:
    cells: list[Any] = [
        None, 3, {}, {"cell_type": "code", "source": "x", "outputs": [None, 3, {}, {"output_type": "display_data", "data": 3}]},
        {"cell_type": "code", "source": 3, "outputs": 3}, {"cell_type": "code", "source": ["y"], "id": 3, "execution_count": "x"},
        {"cell_type": "code", "source": "z", "outputs": [shown(image__png="@"), shown(text__html=["<table><td>1", "<td>2"]), shown(a__b={"c": 1})]},
    ]  # fmt: skip
    book = {"cells": cells}
    assert compared(tmp_path, book, book).code == 0
    assert compared(tmp_path, book, notebook("x")).code == 1
    assert compared(tmp_path, {"cells": []}, {"cells": []}).code == 0


def test_the_tolerance_is_a_number_that_makes_sense(tmp_path: Path) -> None:
    path = saved(tmp_path, notebook("1"))
    for wrong in ("-1", "nan", "inf", "x"):
        assert run(NAME, "compare_runs.py", path, path, "--relative", wrong).code == 2


TEXTS = st.lists(
    st.sampled_from(["mean", "0.5", "1e3", "nan", "inf", "-3", ".", ",", ":", "=", "\n", " ", "%", "10:00:00", "0x7f00aa11", "1,000", "_"])
    | st.text(max_size=4) | st.floats().map(repr),
    max_size=12,
).map("".join)  # fmt: skip


@given(TEXTS, TEXTS)
@settings(max_examples=300, deadline=None)
def test_any_two_texts_are_compared_both_ways(before: str, after: str) -> None:
    there, back = values.texts(before, after, TOLERANCE), values.texts(after, before, TOLERANCE)
    assert there.verdict == back.verdict
    assert values.texts(before, before, TOLERANCE).verdict == "same"
    json.dumps(there.examples, allow_nan=False)
    values.metrics(before)


@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(0, 1))
@settings(max_examples=300, deadline=None)
def test_a_number_agrees_with_what_lies_within_the_tolerance(number: float, share: float) -> None:
    tolerance = values.Tolerance(relative=1e-3, absolute=0.0)
    near = number * (1 - share * 0.999e-3)
    assert tolerance.agree(number, near)
    assert tolerance.agree(number, near) == tolerance.agree(near, number)
    if abs(number) > 1e-300:
        assert not tolerance.agree(number, number * 1.01) or (
            math.isinf(number * 1.01) is False and number == 0
        )


@given(
    st.lists(
        st.lists(st.sampled_from(["1", "2.0", "a", "", "nan"]), min_size=1, max_size=3), max_size=4
    )
)
@settings(max_examples=200, deadline=None)
def test_a_table_is_like_itself_and_not_like_a_changed_one(rows: list[list[str]]) -> None:
    given = tuple(map(tuple, rows))
    assert values.tables(given, given, TOLERANCE).verdict == "same"
    changed = (*given, ("new",))
    assert values.tables(given, changed, TOLERANCE).verdict == "different"
