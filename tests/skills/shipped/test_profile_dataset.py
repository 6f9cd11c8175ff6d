"""profile-dataset finds what is wrong with a table, and bears tables that are wrong in every way."""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import random
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.skills.shipped.scripts import Done, module, run

NAME = "profile-dataset"
values = module(NAME, "profiling.values")
reading = module(NAME, "profiling.reading")
report = module(NAME, "profiling.report")
associations = module(NAME, "profiling.associations")


def profiled(path: Path, *args: str, script: str = "profile_dataset.py") -> Any:
    done = run(
        NAME, script, path.name, *args, workspace=path.parent, strict="parquet" not in script
    )
    assert done.code == 0, done.err
    return done.json


def rules(body: Any, column: str | None = None) -> set[str]:
    return {f["rule"] for f in body["findings"] if column is None or f["column"] == column}


def table(place: Path, header: list[str], rows: list[list[object]], name: str = "t.csv") -> Path:
    path = place / name
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)
    return path


def column(body: Any, name: str) -> Any:
    return next(each for each in body["profile"] if each["name"] == name)


# what it must find ----------------------------------------------------------------------------------


def test_each_fault_of_a_column_is_found_in_that_column(tmp_path: Path) -> None:
    chance = random.Random(1)
    rows: list[list[object]] = [
        [
            f"{chance.randrange(100_000):05d}",
            chance.choice(["1,234.50", "12.00", "3,999.10"]),
            f"{chance.randrange(1, 13):02d}/{chance.randrange(1, 13):02d}/2024",
            chance.choice(["NY", "ny", "LA ", "SF"]),
            chance.choice(["MÃ¼nchen", "Bonn"]),
            -999 if at % 40 == 0 else round(chance.gauss(50, 3), 2),
            "n/k" if at == 17 else at * 1.5,
            chance.choice(["unknown", "a", "b"]),
            "?" if at % 5 == 0 else 7 + at % 3,
            "x",
            "13/01/2024" if at % 2 else "01/13/2024",
            "2024-01-01T10:00" if at % 2 else "2024-01-01T10:00Z",
        ]
        for at in range(400)
    ]
    names = [
        "zip",
        "price",
        "day",
        "city",
        "town",
        "level",
        "number",
        "group",
        "code",
        "one",
        "order",
        "zone",
    ]
    body = profiled(table(tmp_path, names, rows))
    for name, rule in {
        "zip": "code",
        "price": "numbers-as-text",
        "day": "ambiguous-dates",
        "city": "spelling-variants",
        "town": "wrong-encoding",
        "level": "sentinel",
        "number": "stray-values",
        "group": "placeholder",
        "code": "unusual-missing",
        "one": "constant",
        "order": "mixed-date-order",
        "zone": "mixed-zones",
    }.items():
        assert rule in rules(body, name), name
    assert "padded-values" in rules(body, "city")
    done = run(NAME, "profile_dataset.py", "t.csv", "--check", workspace=tmp_path)
    assert done.code == 1
    assert done.json == body
    stray = next(f for f in body["findings"] if f["rule"] == "stray-values")
    assert "'n/k' in row 18" in stray["what"]


def test_a_clean_table_has_nothing_to_be_told(tmp_path: Path) -> None:
    chance = random.Random(2)
    rows: list[list[object]] = [
        [
            f"u{at:04d}",
            round(chance.gauss(170, 9), 1),
            chance.choice("abc"),
            f"2024-{1 + at % 12:02d}-15",
        ]
        for at in range(500)
    ]
    path = table(tmp_path, ["id", "height", "group", "day"], rows)
    done = run(NAME, "profile_dataset.py", path, "--check")
    assert done.code == 0
    assert done.json["findings"] == []
    assert done.json["key_candidates"] == [
        {"columns": ["id"], "checked": "every row that was read"}
    ]


def test_numbers_are_those_that_pandas_computes(tmp_path: Path) -> None:
    import pandas as pd

    chance = random.Random(3)
    numbers = [chance.lognormvariate(2, 1) for _ in range(3_000)]
    path = table(tmp_path, ["v"], [[repr(each)] for each in numbers])
    found, frame = column(profiled(path), "v")["numbers"], pd.read_csv(path)["v"]
    for name, expected in {
        "mean": frame.mean(),
        "deviation": frame.std(),
        "p25": frame.quantile(0.25),
        "p99": frame.quantile(0.99),
        "max": frame.max(),
    }.items():
        assert math.isclose(found[name], expected, rel_tol=1e-5), name


def test_leaks_of_the_target_are_told_and_ids_are_not(tmp_path: Path) -> None:
    chance = random.Random(4)
    rows: list[list[object]] = []
    for at in range(600):
        y = chance.random() < 0.15
        rows.append(
            [at, "closed" if y else "open", "2024-01-01" if y else "", chance.random(), int(y)]
        )
    body = profiled(table(tmp_path, ["id", "status", "ended", "noise", "y"], rows), "--target", "y")
    assert "leakage" in rules(body, "status")
    assert "absence-tells-target" in rules(body, "ended")
    assert not rules(body, "noise") & {"leakage", "leakage-by-name"}
    assert "leakage" not in rules(body, "id")
    assert "imbalance" in rules(body, "y")
    assert body["target"]["task"] == "classification"
    assert body["target"]["strongest"][0]["column"] == "status"


def test_a_number_that_tells_a_number_is_a_leak(tmp_path: Path) -> None:
    chance = random.Random(5)
    rows: list[list[object]] = [
        [y * 1.19 + 3, chance.gauss(0, 1), y] for y in (chance.gauss(100, 20) for _ in range(300))
    ]
    body = profiled(table(tmp_path, ["gross", "noise", "net"], rows), "--target", "net")
    assert "leakage" in rules(body, "gross")
    assert body["target"]["task"] == "regression"


def test_a_pair_of_columns_is_found_as_key(tmp_path: Path) -> None:
    rows: list[list[object]] = [
        [f"s{a}", f"2024-01-{b:02d}", 1] for a in range(20) for b in range(1, 29)
    ]
    body = profiled(table(tmp_path, ["station", "day", "n"], rows))
    assert ["station", "day"] in [
        sorted(k["columns"], reverse=True) for k in body["key_candidates"]
    ]


def test_duplicates_of_rows_columns_and_names(tmp_path: Path) -> None:
    rows: list[list[object]] = [[at, at % 7, at % 7, "z"] for at in range(50)]
    body = profiled(table(tmp_path, ["a", "b", "c", "b"], [*rows, *rows[:10]]))
    assert body["duplicate_rows"] == 10
    assert {"duplicate-rows", "duplicate-column", "duplicate-name"} <= rules(body)
    assert len(body["profile"]) == 4


# forms of files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "cp1252"]
)
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_encodings_and_delimiters_are_found_out(encoding: str, delimiter: str) -> None:
    lines = [delimiter.join(["Größe", "Straße", "n"])]
    lines += [
        delimiter.join([f"{at},5" if delimiter != "," else f'"{at},5"', "süß", str(at)])
        for at in range(40)
    ]
    body = whole_profile("t.txt", "\r\n".join(lines).encode(encoding))
    assert [each["name"] for each in body["profile"]] == ["Größe", "Straße", "n"]
    assert body["rows"] == 40
    assert column(body, "Straße")["top"] == [{"value": "süß", "count": 40}]
    assert ("encoding-guessed" in rules(body)) is (encoding == "cp1252")


def test_forms_of_json(tmp_path: Path) -> None:
    records = [{"a": at, "b": None if at % 2 else "x", "c": {"deep": [at]}} for at in range(30)]
    texts = {
        "r.json": json.dumps(records),
        "w.json": json.dumps({"meta": 1, "data": records}),
        "c.json": json.dumps({"a": list(range(30)), "b": ["x", None] * 15, "c": [[1]] * 30}),
        "l.jsonl": "\n".join(map(json.dumps, records)),
        "l.txt": "\n".join(map(json.dumps, records)) + "\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
        body = profiled(tmp_path / name)
        assert body["rows"] == 30, name
        assert column(body, "b")["missing"] == 15, name
        assert column(body, "a")["type"] == "integer", name


def test_a_packed_file_is_read_within_bounds(tmp_path: Path) -> None:
    path = tmp_path / "t.csv.gz"
    with gzip.open(path, "wt") as file:
        file.write("a,b\n")
        for at in range(30_000):
            file.write(f"{at},{'x' * 50}\n")
    body = profiled(path, "--rows", "5000")
    assert body["rows"] == 5_000
    assert body["read"].startswith("the first 5000 rows")
    (tmp_path / "cut.csv.gz").write_bytes(path.read_bytes()[:-2_000])
    assert "unreadable-rest" in rules(profiled(tmp_path / "cut.csv.gz"))


@pytest.mark.parametrize("script", ["profile_parquet.py", "profile_excel.py"])
def test_parquet_feather_and_excel(tmp_path: Path, script: str) -> None:
    import pandas as pd

    frame = pd.DataFrame(
        {
            "a": range(300),
            "b": [None if at % 3 == 0 else at / 7 for at in range(300)],
            "c": pd.date_range("2024-01-01", periods=300),
            "d": ["x", "y", "z"] * 100,
        }
    )
    paths = []
    if "parquet" in script:
        frame.to_parquet(tmp_path / "t.parquet", row_group_size=50)
        frame.to_feather(tmp_path / "t.feather")
        paths = [tmp_path / "t.parquet", tmp_path / "t.feather"]
    else:
        frame.to_excel(tmp_path / "t.xlsx", index=False)
        paths = [tmp_path / "t.xlsx"]
    for path in paths:
        body = profiled(path, script=script)
        assert body["rows"] == 300
        assert column(body, "b")["missing"] == 100
        assert column(body, "c")["dates"]["latest"] == "2024-10-26"
        body = profiled(path, "--rows", "60", script=script)
        assert 60 <= body["rows"] <= 66
        assert body["read"] != "all rows"
    broken = tmp_path / f"broken{paths[0].suffix}"
    broken.write_bytes(paths[0].read_bytes()[:200])
    done = run(NAME, script, broken, strict=False)
    assert done.code == 2
    assert "is no" in done.err


def test_a_missing_package_is_named(tmp_path: Path) -> None:
    (tmp_path / "pyarrow.py").write_text("raise ImportError('gone', name='pyarrow')\n")
    (tmp_path / "t.parquet").write_bytes(b"PAR1")
    import subprocess
    import sys

    from reprise.skills.shipped import folder

    done = subprocess.run(
        [sys.executable, "scripts/profile_parquet.py", str(tmp_path / "t.parquet")],
        cwd=folder() / NAME,
        env={"PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 3, done.stderr
    assert "pip install pyarrow" in done.stderr


# bounds ----------------------------------------------------------------------------------------------


def test_a_large_file_is_sampled_from_all_of_it_and_no_row_comes_twice(tmp_path: Path) -> None:
    path = tmp_path / "big.csv"
    with path.open("w") as file:
        file.write("id,text\n")
        for at in range(120_000):
            file.write(f'{at},"said ""{at % 7}"", twice"\n')
    body = profiled(path, "--rows", "4000")
    ids = column(body, "id")
    assert body["duplicate_rows"] == 0
    assert ids["unique"] is True
    assert 3_500 <= body["rows"] <= 4_000
    assert ids["numbers"]["min"] == 0
    assert ids["numbers"]["max"] > 110_000
    assert "a sample: " in body["read"]
    assert rules(body) & {"ragged-rows", "mixed-types"} == set()


def test_wide_tables_and_long_values_are_cut(tmp_path: Path) -> None:
    names = [f"c{at}" for at in range(1_000)]
    rows: list[list[object]] = [["v" * 3_000 if at == 0 else at for at in range(1_000)]] * 3
    done = run(NAME, "profile_dataset.py", table(tmp_path, names, rows), "--columns", "20")
    assert done.json["columns"] == 1_000
    assert done.json["columns_left_out"] == 980
    assert len(done.out) < 60_000
    assert "v" * 100 not in done.out


def test_an_unclosed_quote_is_told(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('a,b\n1,2\n3,"x' + "\n5,6" * 2_000_000)
    assert "unreadable-rest" in rules(profiled(path))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n\n\n",
        b" ",
        b"\xef\xbb\xbf",
        b"[]",
        b"{}",
        b"[1,",
        b"3",
        b"\0\0\0\0",
        b"PAR1\0\0\0\0" * 50,
    ],
)
@pytest.mark.parametrize("name", ["t.csv", "t.json", "t.jsonl", "t.csv.gz"])
def test_what_is_no_table_is_refused(name: str, content: bytes) -> None:
    body = whole_profile(name, content)
    assert body is None or json.dumps(body, allow_nan=False)


def test_a_refusal_is_told_in_words(tmp_path: Path) -> None:
    for content in (b"", b"[]", b"\0\0\0\0"):
        (tmp_path / "t.json").write_bytes(content)
        done = run(NAME, "profile_dataset.py", "t.json", workspace=tmp_path)
        assert (done.code, done.out) == (2, "")
        assert "t.json" in done.err


def test_a_folder_a_pipe_and_a_missing_column_are_refused(tmp_path: Path) -> None:
    assert run(NAME, "profile_dataset.py", tmp_path).code == 2
    path = table(tmp_path, ["a"], [[1]])
    done = run(NAME, "profile_dataset.py", path, "--target", "b")
    assert done.code == 2
    assert "'b'" in done.err
    assert run(NAME, "profile_dataset.py", path, "--encoding", "no-such").code == 2
    assert run(NAME, "profile_dataset.py", path, "--delimiter", "ab").code == 2
    assert run(NAME, "profile_dataset.py", path, "--rows", "0").code == 2


def test_the_same_file_gives_the_same_bytes(tmp_path: Path) -> None:
    chance = random.Random(6)
    rows: list[list[object]] = [[chance.random(), chance.choice("abc")] for _ in range(25_000)]
    path = table(tmp_path, ["v", "w"], rows)
    first, second = (run(NAME, "profile_dataset.py", path, "--target", "w") for _ in range(2))
    assert first == second
    assert isinstance(first, Done)


# single values ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "kind", "number"),
    [
        ("", "missing", None),
        (" NaN ", "missing", None),
        ("42", "integer", 42),
        ("-3.5e2", "number", -350),
        ("00123", "code", None),
        ("1234567890123456", "code", None),
        ("1,234.50", "formatted", 1234.5),
        ("1.234,50", "formatted", 1234.5),
        ("3,14", "formatted", 3.14),
        ("1 234", "formatted", 1234),
        ("12 %", "formatted", 12),
        ("$5.00", "formatted", 5),
        ("(5.00)", "formatted", -5),
        ("2024-02-29", "date", None),
        ("2023-02-29", "text", None),
        ("31/12/2024", "date", None),
        ("99/99/2024", "text", None),
        ("Jan 5, 2024", "date", None),
        ("5 March 2024", "date", None),
        ("2024-01-01T10:00:00Z", "datetime", None),
        ("10:30", "time", None),
        ("yes", "boolean", 1),
        ("inf", "number", math.inf),
        ("-inf", "number", -math.inf),
        ("1e999", "number", math.inf),
        ("192.168.0.1", "text", None),
        ("1.2.3", "text", None),
        ("٣", "text", None),
        ("²", "text", None),
    ],
)
def test_what_a_value_is(text: str, kind: str, number: float | None) -> None:
    found = values.classified(text)
    assert (found.kind, found.number) == (kind, number)


@given(st.text(max_size=80) | st.from_regex(r"[-+$€(]?[0-9.,' %/:T-]{1,40}[)%]?", fullmatch=True))
@settings(max_examples=400, deadline=None)
def test_any_text_is_something(text: str) -> None:
    found = values.classified(text)
    assert found.kind
    assert found.number is None or not math.isnan(found.number)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=20,
)


def whole_profile(name: str, data: bytes, **asked: Any) -> Any:
    with tempfile.TemporaryDirectory() as place:
        path = Path(place, name)
        path.write_bytes(data)
        try:
            opened = reading.open_table(path, reading.Asked(rows=500, **asked))
            return report.profile(opened, report.Options())
        except reading.Unreadable:
            return None


@given(
    st.sampled_from(["t.csv", "t.tsv", "t.json", "t.jsonl", "t", "t.csv.gz"]),
    st.binary(max_size=400)
    | st.text(alphabet='a1,;\t|"\n\r é.-/:{}[]', max_size=400).map(lambda text: text.encode()),
)
@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_bytes_are_a_table_or_refused(name: str, data: bytes) -> None:
    body = whole_profile(name, data)
    if body is not None:
        json.dumps(body, allow_nan=False)


@given(st.lists(JSON, min_size=1, max_size=12))
@settings(max_examples=150, deadline=None)
def test_any_json_is_a_table_or_refused(rows: list[Any]) -> None:
    for name, text in (("t.json", json.dumps(rows)), ("t.jsonl", "\n".join(map(json.dumps, rows)))):
        body = whole_profile(name, text.encode())
        if body is not None:
            json.dumps(body, allow_nan=False)


@given(
    st.lists(
        st.tuples(
            *[st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)] * 3
        ),
        min_size=1,
        max_size=20,
    )
)
@settings(max_examples=150, deadline=None)
def test_what_a_writer_of_csv_writes_is_read_back(rows: list[tuple[str, str, str]]) -> None:
    text = io.StringIO(newline="")
    writer = csv.writer(text, quoting=csv.QUOTE_ALL)
    writer.writerow(["one", "two", "three"])
    writer.writerows(rows)
    body = whole_profile("t.csv", text.getvalue().encode(), encoding="utf-8", delimiter=",")
    assert body["rows"] == len(rows)
    for at, found in enumerate(body["profile"]):
        assert found["missing"] == sum(
            row[at].strip().casefold() in values.MISSING_WORDS for row in rows
        )


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xy")), min_size=4, max_size=60))
@settings(max_examples=200, deadline=None)
def test_a_share_is_between_none_and_all(rows: list[tuple[str, str]]) -> None:
    feature, target = [a for a, _ in rows], [b for _, b in rows]
    assert 0 <= associations.told(feature, target) <= 1
    # A column of its own values tells nothing.
    assert associations.told(list(range(len(rows))), target) == 0
