"""review-notebook finds what leaks and hides, says nothing of clean notebooks, and bears bad ones."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.skills.shipped.scripts import module, notebook, run, saved, shown, stream

NAME = "review-notebook"
script = module(NAME, "review_notebook")
loading = module(NAME, "reviewing.notebook")
source = module(NAME, "reviewing.python_source")
names = module(NAME, "reviewing.names")


def reviewed(*cells: Any, most: int = 200, **metadata: Any) -> Any:
    with tempfile.TemporaryDirectory() as place:
        book = loading.load(saved(Path(place), notebook(*cells, **metadata)))
    return json.loads(json.dumps(script.review(book, most)))


def rules(*cells: Any) -> set[str]:
    return {each["rule"] for each in reviewed(*cells)["findings"]}


CLEAN = [
    '"""Rentals by hour."""\nimport random\n\nimport pandas as pd\nfrom pathlib import Path\nrandom.seed(0)',
    "%matplotlib inline\nfolder = Path('data')\nframes = [pd.read_csv(p) for p in sorted(folder.glob('*.csv'))]",
    "df = pd.concat(frames)\nlevels = {name: part for name, part in df.groupby('station')}",
    "def share(frame, *, column='rentals'):\n    total = frame[column].sum()\n    return {k: v / total for k, v in levels.items()}",
    "class Model:\n    factor = 2\n\n    def fit(self, x):\n        self.x_ = x\n        return self\n\n    def twice(self):\n        return [Model.factor * v for v in self.x_]",
    "try:\n    import pyarrow\nexcept ImportError:\n    pyarrow = None\nprint(pyarrow, share(df), Model().fit([1]).twice(), random.random())",
    "with open('notes.txt') as f:\n    lines = [(n, line) for n, line in enumerate(f) if (m := len(line)) > 2]\nprint(lines, m)",
    "match lines:\n    case [first, *rest]:\n        print(first, rest)\n    case {'a': a, **more}:\n        print(a, more)",
    "%%time\ntotal = sum(n for n, _ in lines)\nprint(f'{total=}')",
    "files = !ls\nprint(files)\ntotal?",
    "print([q for row in [[1]] for q in row], (lambda y=total: y + 1)())",
]


def test_a_clean_notebook_has_nothing_to_be_told() -> None:
    body = reviewed(*CLEAN)
    assert body["findings"] == []
    assert body["runs_from_top"] is True
    assert body["outputs_match_order"] is True
    assert body["secrets"] is False


# state that is hidden --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cells", "rule", "cell"),
    [
        (["print(x)", "x = 1"], "used-before-defined", 1),
        (["x += 1"], "used-before-defined", 1),
        (["print(gone)"], "undefined", 1),
        (["x = 1", "del x", "print(x)"], "used-after-del", 3),
        (["def f():\n    return nowhere"], "undefined-in-function", 1),
        (["x = [1]", "x.append(2)"], "changes-when-run-again", 2),
        (
            ["import pandas as pd\ndf = pd.DataFrame()", "df.dropna(inplace=True)"],
            "changes-when-run-again",
            2,
        ),
        (["1 + 1", "print(_1)"], "output-by-number", 2),
        (["x = ("], "syntax", 1),
        (
            [{"source": "x = 1", "execution_count": 5}, {"source": "y = 1", "execution_count": 2}],
            "out-of-order",
            2,
        ),
        (
            [{"source": "x = 1", "execution_count": 5}, {"source": "y = 1", "execution_count": 5}],
            "same-count",
            None,
        ),
        (["x = 1", {"source": "y = 1", "execution_count": None}], "not-run", 2),
        ([{"source": "x = 1", "execution_count": 9}], "runs-missing", None),
        (
            [
                {
                    "source": "1 / 0",
                    "outputs": [{"output_type": "error", "ename": "ZeroDivisionError"}],
                }
            ],
            "error-output",
            1,
        ),
    ],
)
def test_hidden_state_is_found(cells: list[Any], rule: str, cell: int | None) -> None:
    assert (rule, cell) in {(f["rule"], f["cell"]) for f in reviewed(*cells)["findings"]}


@pytest.mark.parametrize(
    "cells",
    [
        ["%run setup.py", "print(brought)"],
        ["from numpy import *", "print(array)"],
        ["globals().update(a=1)", "print(a)"],
        ["exec('a = 1')", "print(a)"],
        ["try:\n    df\nexcept NameError:\n    df = 1"],
        ["def f():\n    return g()", "def g():\n    return f"],
        ["%%capture out\nprint(1)", "print(out)"],
        ["ls -la data", "cat notes.txt", "timeit sum([])", "cd /tmp"],
        ["display(1); get_ipython(); print(In, Out, _, __name__)"],
        ["x: int\nx = 2\nprint(x)"],
        ["import os.path\nprint(os.sep)"],
        ["for i in range(3):\n    pass\nprint(i)"],
        ["class A:\n    x = 1\n    y = x\n    z = [x for _ in range(3)]\nprint(A)"],
        [
            "def f(a):\n    def g():\n        nonlocal a\n        a = 1\n        return a\n    return g\nprint(f)"
        ],
        ["f = lambda n: n if n < 2 else f(n - 1)\nprint(f(3))"],
        ["text = '''\n%not magic\n!nor this\n'''\nprint(text)"],
        ["y = (3\n % 2)\nprint(y)"],
        ["def outer():\n    global made\n    made = 1\nouter()\nprint(made)"],
        ["%%bash\necho $HOME"],
        ["%%html\n<b>hi</b>"],
        ["async def f():\n    return 1\nprint(await f())"],
    ],
)
def test_no_name_is_called_undefined_that_is_not(cells: list[str]) -> None:
    body = reviewed(*cells)
    assert body["runs_from_top"] is True, body["findings"]
    wrong = {
        "undefined",
        "used-before-defined",
        "used-after-del",
        "syntax",
        "undefined-in-function",
    }
    assert {f["rule"] for f in body["findings"]} & wrong == set()


def test_a_cell_of_a_newer_python_does_not_drag_others_down() -> None:
    body = reviewed("type brand new syntax = 1", "print(defined_there)")
    assert {f["rule"] for f in body["findings"]} == {"syntax"}
    body = reviewed("type Brand = new", "print(Brand)", "Brand = 1")
    assert {f["rule"] for f in body["findings"]} <= {"syntax"}


# secrets ----------------------------------------------------------------------------------------------

#: Put together here, so that no scanner takes this file for a leak.
SECRETS = {
    "AWS": "AKIA" + "Q7RTZ2LMNB4XCV6P",
    "GitHub": "ghp_" + "a1B2c3D4e5" * 4,
    "Slack": "xoxb-" + "123456789012-abcdefGHIJKL",
    "private": "-----BEGIN " + "RSA PRIVATE KEY-----",
    "web token": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N",
    "address": "postgresql://rita:" + "s3cr3tpw" + "@db.example.org/x",
    "password": 'password = "' + "hunter2hunter2" + '"',
    "api_key": 'API_KEY: "' + "9f8a7b6c5d4e3f2a1b0c" + '"',
}


@pytest.mark.parametrize("kind", sorted(SECRETS))
def test_a_secret_is_found_everywhere_and_shown_nowhere(kind: str) -> None:
    secret = SECRETS[kind]
    longest = max(secret.replace('"', " ").replace("@", " ").replace(":", " ").split(), key=len)
    cells = [
        f"# first\nx = {secret!r}"
        if "=" not in secret and ": " not in secret
        else f"# first\n{secret}",
        {"source": "print(1)", "outputs": [stream(f"said {secret}\n")]},
        {
            "source": "show()",
            "outputs": [shown(text__html=[f"<b>{secret}", "</b>"], text__plain="x")],
        },
        {"cell_type": "markdown", "source": f"see {secret}"},
    ]
    body = reviewed(*cells)
    found = {(f["rule"], f["cell"], f["line"]) for f in body["findings"] if "secret" in f["rule"]}
    assert {("secret-in-source", 1, 2), ("secret-in-output", 2, None)} <= found
    assert {("secret-in-output", 3, None), ("secret-in-source", 4, 1)} <= found
    assert body["secrets"] is True
    assert longest not in json.dumps(body)


@pytest.mark.parametrize(
    "line",
    [
        'password = os.environ["PASSWORD"]',
        'password = getpass.getpass("password: ")',
        'api_key = "your-api-key-here"',
        'token = "<token>"',
        'api_key = "xxxxxxxxxxxxxxxx"',
        'tokenizer = "bert-base-uncased"',
        'secret_name = "prod/database"',
        'url = "https://user@example.org/"',
        "max_tokens = 4096",
        'connect("postgresql://user:password@localhost/db")',
        'password = "changeme"',
    ],
)
def test_what_only_looks_like_a_secret_is_none(line: str) -> None:
    assert reviewed(line)["secrets"] is False


# leaks of data -------------------------------------------------------------------------------------------

HEAD = """import pandas as pd
from sklearn.preprocessing import StandardScaler
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split, cross_val_score
df = pd.read_csv("rentals.csv")
"""
SPLIT = "X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)\n"
RIGHT = """X = df.drop(columns=["y"])
y = df["y"]
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
scaler = StandardScaler()
A = scaler.fit_transform(X_train)
B = scaler.transform(X_test)
model = LogisticRegression().fit(A, y_train)
print(model.score(A, y_train), model.score(B, y_test))
"""
LEAKS = {"fit-before-split", "fit-on-test", "target-in-features", "resampled-before-split",
         "statistics-before-split", "judged-on-training", "feature-from-target"}  # fmt: skip


@pytest.mark.parametrize(
    ("code", "rule"),
    [
        ("X = df[['a']]\ny = df['y']\nX = StandardScaler().fit_transform(X)\n" + SPLIT, "fit-before-split"),
        ("X = df[['a']]\ny = df['y']\ns = SimpleImputer()\nZ = s.fit_transform(X)\ncross_val_score(m, Z, y)", "fit-before-split"),
        (RIGHT + "scaler.fit(X_test)", "fit-on-test"),
        ("X = df\ny = df['y']\n" + SPLIT, "target-in-features"),
        ("X = df[['a', 'y']].copy()\ny = df['y']\n" + SPLIT, "target-in-features"),
        ("X = df.drop(columns=['b'])\ny = df['y']\nZ = StandardScaler().fit_transform(X)\ntrain_test_split(Z, y)", "target-in-features"),
        ("X = df[['a']]\ny = df['y']\nfrom imblearn.over_sampling import SMOTE\nX, y = SMOTE(random_state=0).fit_resample(X, y)\n" + SPLIT, "resampled-before-split"),
        ("df['a'] = df['a'].fillna(df['a'].mean())\nX = df[['a']]\ny = df['y']\n" + SPLIT, "statistics-before-split"),
        ("df['rate'] = df['y'] / df['n']\nX = df[['rate']]\ny = df['y']\n" + SPLIT, "feature-from-target"),
        (RIGHT.rsplit("print", 1)[0] + "print(model.score(A, y_train))".replace("A", "X_train"), "judged-on-training"),
    ],
)  # fmt: skip
def test_a_leak_of_data_is_found(code: str, rule: str) -> None:
    assert rule in rules(HEAD, code)


@pytest.mark.parametrize(
    "code",
    [
        RIGHT,
        "y = df.pop('y')\nX = df\n" + SPLIT,
        "X, y = df.drop('y', axis=1), df['y']\n" + SPLIT,
        "X = df[['a', 'b']]\ny = df['y']\nprint(cross_val_score(make_pipeline(StandardScaler(), LogisticRegression()), X, y))",
        "S = StandardScaler().fit_transform(df[['a']])\nprint(S)\nX = df[['b']]\ny = df['y']\n"
        + SPLIT,
    ],
)
def test_what_is_done_right_is_no_leak(code: str) -> None:
    assert rules(HEAD, code) & LEAKS == set()


# chance, and what is outside ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "rule"),
    [
        ("import numpy as np\nnp.random.rand(3)", "unseeded"),
        ("from numpy.random import default_rng\ndefault_rng()", "unseeded"),
        ("import random as r\nr.shuffle([])", "unseeded"),
        ("import uuid\nuuid.uuid4()", "unseedable"),
        ("from sklearn.cluster import KMeans\nKMeans(3)", "no-random-state"),
        ("from datetime import datetime\nprint(datetime.now())", "clock"),
        ("import os\nfor n in os.listdir('.'):\n    print(n)", "unsorted-listing"),
        ("for n in {1, 2}:\n    print(n)", "set-order"),
        ("import pandas as pd\npd.read_csv('https://example.org/x.csv')", "network"),
        ("!pip install pandas", "unpinned-install"),
        ("%pip install -q pandas numpy==2.0", "unpinned-install"),
        ("!wget http://example.org/x", "network"),
        ("open('/home/rita/data.csv')", "absolute-path"),
        ("!cp ~/data.csv .", "absolute-path"),
        ("open('C:\\\\data\\\\x.csv')", "absolute-path"),
        ("try:\n    f = 1\nexcept:\n    pass", "errors-hidden"),
        ("import warnings\nwarnings.filterwarnings('ignore')", "warnings-hidden"),
        ("import pandas as pd\npd.read_pickle('x')", "unsafe-load"),
        ("list = [1]", "hides-builtin"),
        ("import json", "unused-import"),
        ("df = 1\ndf[df > 1]['b'] = 0", "chained-assignment"),
        ("eval(input())", "evaluates-text"),
    ],
)
def test_what_will_not_come_out_again_is_found(code: str, rule: str) -> None:
    assert rule in rules(code)


@pytest.mark.parametrize(
    "code",
    [
        "import numpy as np\nnp.random.seed(3)\nnp.random.rand(3)",
        "import numpy as np\nrng = np.random.default_rng(1)\nrng.random()",
        "import os\nprint(sorted(os.listdir('.')), len(os.listdir('.')))",
        "from sklearn.cluster import KMeans\nKMeans(3, random_state=1)",
        "from sklearn.model_selection import KFold\nKFold(5)",
        "!pip install pandas==2.2.0",
        "%pip install -r requirements.txt",
        "print('see https://example.org/home/data/x')",
        "try:\n    f = 1\nexcept OSError:\n    pass",
        "rows = [[0] * 3]\nrows[0][1] = 2",
        "import torch\ntorch.load('x', weights_only=True)",
    ],
)
def test_what_is_tamed_is_not_told(code: str) -> None:
    assert rules(code) == set()


def test_large_outputs_are_told_without_being_shown() -> None:
    big = {"source": "x()", "outputs": [stream("line\n" * 3_000), stream("y" * (2 << 20))]}
    many = {"source": "z()", "outputs": [stream("line\n" * 3_000)]}
    body = reviewed("def x(): ...\ndef z(): ...", big, many)
    assert {"large-output", "long-output"} <= {f["rule"] for f in body["findings"]}
    assert len(json.dumps(body)) < 10_000


# the file, and what may be wrong with it --------------------------------------------------------------------


def test_a_log_is_reviewed_in_the_order_in_which_it_ran(tmp_path: Path) -> None:
    def step(seq: int, code: str) -> dict[str, Any]:
        outputs = [["stream", {"name": "stdout", "text": SECRETS["GitHub"]}, {}, []]]
        return {
            "seq": seq,
            "kind": "cell",
            "payload": {"content": {"code": code}},
            "outputs": outputs,
        }

    log = {
        "session": "s",
        "steps": [
            step(0, "x = 1"),
            {"seq": 1, "kind": "command"},
            step(4, "import os\nos.listdir()"),
        ],
    }
    path = tmp_path / "log.json"
    path.write_text(json.dumps(log))
    done = run(NAME, "review_notebook.py", "log.json", workspace=tmp_path)
    assert done.code == 0
    assert {(f["rule"], f["cell_id"]) for f in done.json["findings"]} >= {
        ("secret-in-output", "step 0"),
        ("unsorted-listing", "step 4"),
    }


def test_the_exit_code_is_what_was_asked_for(tmp_path: Path) -> None:
    path = saved(tmp_path, notebook("import os\nprint(os.listdir())"))
    for wanted, code in (("error", 0), ("warning", 1), ("info", 1)):
        assert run(NAME, "review_notebook.py", path, "--check", wanted).code == code


def test_other_languages_and_python_2_are_searched_for_secrets_only() -> None:
    for info in ({"name": "R"}, {"name": "python", "version": "2.7.18"}):
        body = reviewed("print x; y <- undefined", f"k = {SECRETS['GitHub']!r}", language_info=info)
        assert body["code_was_read"] is False
        assert body["runs_from_top"] is None
        assert body["secrets"] is True


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "3",
        "{}",
        '{"cells": 3}',
        '{"cells": {}}',
        "{" * 100_000,
        '{"worksheets": 1}',
        "\0",
        '{"steps": 1}',
    ],
)
def test_what_is_no_notebook_is_refused_in_words(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.ipynb"
    path.write_text(text)
    done = run(NAME, "review_notebook.py", path)
    assert (done.code == 2) is (not done.out)
    assert done.code == 0 or "Traceback" not in done.err


def test_a_notebook_that_is_wrong_in_every_part_is_reviewed(tmp_path: Path) -> None:
    cells: list[Any] = [
        None, 3, [], {}, {"cell_type": 3, "source": 3}, {"cell_type": "code", "source": ["a", 3, None]},
        {"cell_type": "code", "source": None, "outputs": {"a": 1}, "execution_count": "x", "id": 7},
        {"cell_type": "code", "source": "x", "outputs": [3, {}, {"data": 3}, {"data": {"text/plain": {"a": 1}}}]},
        {"cell_type": "code", "source": "x" * 2_000_000},
        {"cell_type": "code", "source": "(" * 5_000},
        {"cell_type": "code", "source": "x = " + "-" * 50_000 + "1"},
        {"cell_type": "code", "source": "a" + ".b" * 20_000},
        {"cell_type": "code", "source": "[" * 90 + "]" * 90},
        {"cell_type": "code", "source": "x = '\\ud800'\n\0"},
    ]  # fmt: skip
    path = tmp_path / "x.ipynb"
    path.write_text(json.dumps({"cells": cells, "metadata": [], "nbformat": "x"}))
    done = run(NAME, "review_notebook.py", path)
    assert done.code == 0
    assert "bad-cell" in {f["rule"] for f in done.json["findings"]}
    assert len(done.out) < 200_000


def test_findings_are_bounded_and_the_gravest_come_first() -> None:
    body = reviewed(*[f"print(gone_{at}); import m{at}" for at in range(60)], most=5)
    assert len(body["findings"]) == 5
    assert body["findings_left_out"] > 50
    assert {f["severity"] for f in body["findings"]} == {"error"}


LINES = st.lists(
    st.sampled_from(
        [
            "import numpy as np", "x = 1", "%time y = 2", "!ls", "%%bash", "def f(a, *b, c=1, **d):", "    return a",
            "class A(B):", "  pass", "for i in range(3):", "x?", "?x", "z = %who", "w = !ls", '"""', "'''", "print(f'{x!r:>{w}}')",
            "lambda: (yield)", "match x:", "  case {'a': b, **c}:", "    pass", "del x", "global x", "x.y[0] += 1", "with a as (b, c):",
            "try:", "except* E as e:", "await x", "async with a: pass", "[i for i in j if (k := i)]", "@d", "\\", "if 1:", "else:",
            "from . import *", "from x import (a,", "b)", "%", "!", "%%", "?", "\t x", "é = 1", "df[df.a > 1]['b'] = 0", "X.fit(X_test)",
        ]
    )
    | st.text(max_size=15),
    max_size=14,
).map("\n".join)  # fmt: skip


@given(st.lists(LINES, min_size=1, max_size=4))
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_code_is_reviewed(cells: list[str]) -> None:
    body = reviewed(*cells)
    assert body["code_cells"] == len(cells)


@given(LINES)
@settings(max_examples=200, deadline=None)
def test_taking_magics_out_keeps_the_lines(text: str) -> None:
    plain = source._plain(text.split("\n"), source.Source())
    assert len(plain) == len(text.split("\n"))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(
        ["cell_type", "source", "outputs", "data", "text", "metadata", "id", "text/plain", "traceback"]), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(st.lists(VALUES, max_size=5))
@settings(max_examples=200, deadline=None)
def test_any_cells_are_reviewed(cells: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as place:
        path = Path(place, "x.ipynb")
        path.write_text(json.dumps({"cells": cells}))
        json.dumps(script.review(loading.load(path), 20))
