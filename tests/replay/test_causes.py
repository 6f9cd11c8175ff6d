"""Where a difference may come from: named by what the code does and by what differs, never too surely."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprise.log.model import OutputEntry
from reprise.replay.causes import Cause, History
from reprise.replay.compare import compare
from reprise.replay.difference import Comparison
from reprise.replay.scan import scan_python, scan_shell
from reprise.replay.shapes import shapes_of, shapes_of_texts


def outputs(text: str) -> list[OutputEntry]:
    return [OutputEntry("stream", {"name": "stdout", "text": text})]


def between(old: str, new: str) -> Comparison:
    return compare(outputs(old), outputs(new))


ANY = between("result 1", "result 2")


def causes(*cells: str, comparison: Comparison = ANY) -> tuple[Cause, ...]:
    """What is said of a difference in the last of some cells."""
    history = History()
    for seq, cell in enumerate(cells):
        history.cell(seq, cell)
    return history.of_step(len(cells) - 1, comparison)


IMPORTS = "import time, random, os, glob, uuid, threading, numpy as np, pandas as pd"


@pytest.mark.parametrize(
    ("cell", "what", "call"),
    [
        ("print(time.time())", "time", "time.time"),
        ("from datetime import datetime as d\nprint(d.now())", "time", "d.now"),
        ("import datetime\nx = datetime.date.today()", "time", "datetime.date.today"),
        ("print(pd.Timestamp.now())", "time", "pd.Timestamp.now"),
        ("t = time.perf_counter()", "measurement", "time.perf_counter"),
        ("%timeit sum([1])", "measurement", "%timeit"),
        ("%%time\nx = 1", "measurement", "%%time"),
        ("print(random.random())", "randomness", "random.random"),
        ("from random import shuffle as mix\nmix(x)", "randomness", "mix"),
        ("np.random.rand(3)", "randomness", "np.random.rand"),
        ("rng = np.random.default_rng()", "randomness", "np.random.default_rng"),
        ("rng = np.random.default_rng(None)", "randomness", "np.random.default_rng"),
        ("np.random.seed()\nnp.random.rand(3)", "randomness", "np.random.seed"),
        ("df.sample(3)", "randomness", "df.sample"),
        (
            "from sklearn.model_selection import train_test_split\na, b = train_test_split(x)",
            "randomness",
            "train_test_split",
        ),
        (
            "from sklearn.ensemble import RandomForestClassifier as F\nm = F(n_jobs=1)",
            "randomness",
            "F",
        ),
        ("import torch\ntorch.randn(3)", "randomness", "torch.randn"),
        ("print(uuid.uuid4())", "randomness", "uuid.uuid4"),
        ("import secrets\nsecrets.token_hex()", "randomness", "secrets.token_hex"),
        ("os.urandom(4)", "randomness", "os.urandom"),
        ("for name in os.listdir('.'):\n    print(name)", "file order", "os.listdir"),
        ("print(glob.glob('*.csv'))", "file order", "glob.glob"),
        ("from pathlib import Path\n[p for p in Path('.').iterdir()]", "file order", "….iterdir"),
        ("for each in {1, 2}:\n    print(each)", "set order", "a set"),
        ("print(list(set(words)))", "set order", "list(a set)"),
        ("threading.Thread(target=f).start()", "thread order", "threading.Thread"),
        (
            "from concurrent.futures import as_completed\nfor d in as_completed(w): print(d)",
            "thread order",
            "as_completed",
        ),
        ("import asyncio\nawait asyncio.gather(a(), b())", "thread order", "asyncio.gather"),
        ("print(id(x))", "identity", "id"),
        ("print(os.getpid())", "process", "os.getpid"),
        ("import tempfile\ntempfile.mkdtemp()", "process", "tempfile.mkdtemp"),
        ("open('/proc/self/status').read()", "process", "/proc/self/status"),
        ("print(path.stat().st_mtime)", "process", "st_mtime"),
        ("import requests\nrequests.get(url)", "network", "requests.get"),
        ("from urllib.request import urlopen\nurlopen(u)", "network", "urlopen"),
        ("np.empty(3)", "memory", "np.empty"),
        ("!date", "time", "date"),
        ("now = !date +%s", "time", "date"),
        ("%%bash\necho hi\necho $RANDOM", "randomness", "$RANDOM"),
        ("if True:\n    !curl example.org", "network", "curl"),
        ("class A:\n    made = time.time()", "time", "time.time"),
        ("def f(a=time.time()):\n    return a", "time", "time.time"),
        ("x = [time.time() for _ in range(3)]", "time", "time.time"),
    ],
)
def test_what_a_cell_does_is_named(cell: str, what: str, call: str) -> None:
    found = causes(IMPORTS, cell)
    assert found, cell
    assert (what, True) in {(each.what, f"`{call}`" in each.text) for each in found}
    assert all(each.mend for each in found)
    assert all(each.text.startswith("Likely because") for each in found)


@pytest.mark.parametrize(
    "cell",
    [
        "print('time.time()')",
        "# time.time()",
        "def f():\n    return time.time()",
        "f = lambda: 1",
        "rng = np.random.default_rng(0)\nrng.normal()",
        "np.random.seed(0)\nnp.random.rand(3)",
        "random.seed(1)\nrandom.random()",
        "df.sample(3, random_state=1)",
        "print(sorted(os.listdir('.')), len(glob.glob('*')))",
        "print(sorted(p.name for p in folder.iterdir()))",
        "for each in sorted({1, 2}): print(each)",
        "x = 1",
        "this is ( not Python",
        "%%html\n<script>time.time()</script>",
        "",
        "\x00",
        "(" * 5000,
        "x = " + "-" * 20_000 + "1",
        "time.time()\n" * 30_000,  # longer than is read
    ],
)
def test_what_it_does_not_do_is_not_named(cell: str) -> None:
    assert causes(IMPORTS, cell) == ()


def test_a_seed_of_an_earlier_cell_counts_and_a_restart_ends_it() -> None:
    assert causes(IMPORTS, "np.random.seed(0)", "np.random.rand(3)") == ()
    history = History()
    history.cell(0, f"{IMPORTS}\nnp.random.seed(0)")
    history.restart(1)
    history.cell(2, f"{IMPORTS}\nnp.random.rand(3)")
    assert [each.what for each in history.of_step(2, ANY)] == ["randomness"]


def test_what_a_function_of_the_session_does_is_found_where_it_is_called() -> None:
    cells = (
        IMPORTS,
        "def inner():\n    return random.random()\ndef outer():\n    return inner()",
        "class Model:\n    def fit(self):\n        self.at = time.time()",
        "outer()",
    )
    (found,) = causes(*cells)
    assert (found.what, found.seq, found.line) == ("randomness", 1, 2)
    assert "`outer`" in found.text
    (found,) = causes(*cells, "Model().fit()")
    assert (found.what, found.seq) == ("time", 2)
    assert causes(*cells, "Model()") == ()
    # defined anew, without it
    assert causes(*cells, "def outer():\n    return 4", "outer()") == ()


def test_functions_that_call_each_other_end() -> None:
    cells = ("def a():\n    b()\ndef b():\n    a()\n    print(id(1))", "a()")
    assert [each.what for each in causes(*cells)] == ["identity"]


def test_what_an_uploaded_module_does_is_found() -> None:
    history = History()
    history.module(0, "tools", "import random\ndef draw():\n    return random.random()\n")
    history.cell(1, "import tools\nfrom tools import draw as d")
    history.cell(2, "tools.draw()")
    history.cell(3, "d()")
    for seq in (2, 3):
        (found,) = history.of_step(seq, ANY)
        assert (found.what, found.seq, found.line) == ("randomness", 0, 3)


def test_what_comes_from_an_earlier_step_is_said_to() -> None:
    cells = (IMPORTS, "x = random.random()", "y = x + 1", "z = 5", "print(y)")
    (found,) = causes(*cells)
    assert (found.what, found.seq) == ("earlier step", 1)
    assert "`y`" in found.text
    assert "step 1" in found.text
    assert causes(*cells, "print(z)") == ()
    assert causes(*cells, "y = 3", "print(y)") == ()  # set anew


def test_names_that_are_known_to_differ_are_said_to() -> None:
    history = History()
    history.cell(0, "x = mystery()")
    history.cell(1, "print(x)")
    (found,) = history.of_step(1, ANY, {"x": 0})
    assert found.text == "Uses `x`, which differs since step 0."
    assert history.of_step(1, ANY, {"x": 1, "other": 0}) == ()


def test_the_cause_that_fits_the_difference_is_chosen() -> None:
    cell = "print(time.time(), random.random(), os.listdir('.'), id(x))"
    clock = between("2020-01-01 10:00:00 x", "2020-01-02 11:00:00 x")
    assert {each.what for each in causes(IMPORTS, cell, comparison=clock)} == {"time"}
    order = between("a.txt\nb.txt\nc.txt", "b.txt\na.txt\nc.txt")
    assert "file order" in {each.what for each in causes(IMPORTS, cell, comparison=order)}
    address = between("<A at 0x7f1234567890>", "<A at 0x7f1234567990>")
    assert {each.what for each in causes(IMPORTS, cell, comparison=address)} == {"identity"}


def test_what_differs_says_something_where_the_code_says_nothing() -> None:
    (found,) = causes("thing", comparison=between("<A at 0x7f1234567890>", "<A at 0x7f1234567990>"))
    assert found.what == "address"
    (found,) = causes("total(x)", comparison=between("0.1234567891", "0.1234567892"))
    assert found.what == "rounding"


@pytest.mark.parametrize(
    ("old", "new", "shapes"),
    [
        ("a\nb\nc", "c\na\nb", ("order",)),
        ("{'a', 'b'}", "{'b', 'a'}", ("order",)),
        ("[1, 2, 3]", "[3, 1, 2]", ("order",)),
        ("sum 0.30000000000000004", "sum 0.30000000000000001", ("rounding",)),
        ("sum 0.3", "sum 0.4", ()),
        ("sum 3", "sum 4", ()),
        ("at 2024-01-01", "at 2025-01-01", ("time",)),
        ("at 12:30:01", "at 12:30:02", ("time",)),
        ("1700000000.5", "1700000001.25", ("time",)),
        ("<x 0x7f1234567890>", "<x 0x7f1234560000>", ("address",)),
        (
            "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed",
            "2b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed",
            ("uuid",),
        ),
        ("at 2024-01-01: 5 rows", "at 2025-01-01: 6 rows", ()),
        ("same", "same", ()),
        ("", "x", ()),
    ],
)
def test_what_a_difference_looks_like(old: str, new: str, shapes: tuple[str, ...]) -> None:
    assert shapes_of_texts(old, new) == shapes


def test_volatile_differences_have_their_shapes() -> None:
    found = between("took 3.1 s at <A at 0x7f1234567890>", "took 3.9 s at <A at 0x7f1234567990>")
    assert set(shapes_of(found)) == {"address", "timing"}


def test_variables_and_files_lead_to_the_step_that_made_them() -> None:
    history = History()
    history.cell(0, IMPORTS)
    history.cell(1, "t = time.time()\nopen('out/stamp.txt', 'w').write(str(t))")
    history.cell(2, "n = 5")
    history.cell(3, "u = t + n")
    history.command(4, "date > made.txt")
    (found,) = history.of_variable("t", 4)
    assert (found.what, found.seq) == ("time", 1)
    assert "step 1" in found.text
    assert history.of_variable("n", 4) == ()
    assert history.of_variable("no such name", 4) == ()
    (found,) = history.of_variable("u", 4)
    assert (found.what, found.seq) == ("earlier step", 1)
    assert history.of_variable("u", 2) == ()  # not set yet
    assert [each.seq for each in history.of_file("out/stamp.txt", 4)] == [1]
    assert [each.what for each in history.of_file("made.txt", 4)] == ["time"]
    assert history.of_file("other.txt", 4) == ()
    assert (history.setter("t", 4), history.setter("t", 0)) == (1, None)


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("date", "time"),
        ("echo $(date)", "time"),
        ("shuf lines.txt", "randomness"),
        ("head -c 5 /dev/urandom | xxd", "randomness"),
        ("mktemp -d", "process"),
        ("ps aux", "process"),
        ("ls -lt", "process"),
        ("find . -name '*.py'", "file order"),
        ("time make", "measurement"),
        ("curl -s https://example.org", "network"),
        ("pip install x", "network"),
    ],
)
def test_what_a_command_does_is_named(line: str, what: str) -> None:
    assert [each.what for each in scan_shell(line)] == [what]


@pytest.mark.parametrize(
    "line", ["echo update", "# date", "find . | sort", "cat dates.csv", "ls", "python run.py", ""]
)
def test_a_plain_command_is_not_suspected(line: str) -> None:
    assert scan_shell(line) == []


def test_what_a_cell_uses_and_sets() -> None:
    scan = scan_python(
        "a = b + 1\n"
        "c += a\n"
        "for i in rows: total = i\n"
        "d = [k for k in e]\n"
        "f = lambda m: m + n\n"
        "def g(p, *q): r = p; return r + s\n"
        "with open(h) as w: pass\n"
        "if (z := y): pass",
        {},
    )
    assert scan.loads - {"open"} == {"b", "c", "rows", "e", "n", "s", "h", "y"}
    assert {"a", "c", "i", "total", "d", "f", "g", "w", "z"} <= scan.stores
    assert not {"k", "m", "p", "q", "r"} & (scan.loads | scan.stores)


@given(st.text(), st.text())
def test_any_source_and_any_difference_are_survived(source: str, other: str) -> None:
    history = History()
    history.cell(0, source)
    history.command(1, source)
    history.module(2, "m", source)
    for seq in range(3):
        for each in history.of_step(seq, between(source, other)):
            assert len(each.text) < 500
