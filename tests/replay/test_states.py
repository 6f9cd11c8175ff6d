"""Looking at a sandbox changes nothing in it, and tells its files and variables, on each backend."""

import dataclasses
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprise.log.postgres import Log
from reprise.replay import states, variables
from reprise.replay.executor import request_reply
from reprise.replay.link import KernelLink
from reprise.replay.message import make
from reprise.replay.passage import Watched, first_difference
from reprise.replay.state_report import file_differences
from reprise.sandbox.backends import backend
from reprise.sandbox.connection import Guest
from reprise.sandbox.contract import SandboxSpec
from reprise.sandbox.frames import Channel
from reprise.workspace.manifest import Entry, Manifest, parse
from tests.fixtures.sandbox import bash_kernel, ipykernel


class Kernel:
    """A language kernel that runs code for its value."""

    def __init__(self, link: KernelLink) -> None:
        self.link = link

    async def run(self, code: str, **expressions: str) -> dict[str, Any]:
        content = {
            "code": code,
            "silent": False,
            "store_history": True,
            "user_expressions": expressions,
            "allow_stdin": False,
            "stop_on_error": False,
        }
        reply = await request_reply(self.link, make("execute_request", content), Channel.SHELL)
        assert reply["status"] == "ok", reply
        return reply

    async def value(self, expression: str) -> str:
        """The repr of an expression, evaluated without leaving a trace."""
        reply = await request_reply(
            self.link,
            make(
                "execute_request",
                {
                    "code": "",
                    "silent": True,
                    "store_history": False,
                    "user_expressions": {"it": expression},
                    "allow_stdin": False,
                    "stop_on_error": False,
                },
            ),
            Channel.SHELL,
        )
        found = reply["user_expressions"]["it"]
        assert found["status"] == "ok", found
        text: str = found["data"]["text/plain"]
        return text

    async def ask(self) -> variables.Variables:
        found = await variables.ask(self.link)
        assert found is not None
        return found


async def started(name: str, folder: Path, language: Any = None) -> Kernel:
    folder.mkdir()
    spec = SandboxSpec(kernel=language or ipykernel(), workspace=folder)
    link = KernelLink()
    link.attach(await Guest.start(backend(name), spec, link))
    await link.guest.ready()
    return Kernel(link)


@pytest.fixture(params=["bubblewrap", "process"])
async def kernel(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Kernel]:
    made = await started(request.param, tmp_path / "workspace")
    yield made
    await made.link.guest.kill()


#: Whatever a look could disturb. Namespaces by name and identity, so that nothing is replaced.
_ALL = """(
    sorted((name, id(value)) for name, value in get_ipython().user_ns.items()),
    get_ipython().execution_count,
    list(get_ipython().history_manager.input_hist_raw),
    hash(__import__('random').getstate()),
    __import__('numpy').random.get_state()[2],
    hash(__import__('numpy').random.get_state()[1].tobytes()),
    rng.bit_generator.state,
    len(__import__('warnings').filters),
    __import__('os').getcwd(),
    sorted(__import__('os').listdir('.')),
    __import__('sys').getrecursionlimit(),
    sorted(name for name in __import__('sys').modules if 'reprise' in name),
    [frame_.filename for frame_ in __import__('traceback').extract_stack()][:3],
    __import__('gc').isenabled(),
    repr(getattr(__import__('sys'), 'last_value', None)),
    __import__('threading').active_count(),
)"""


async def test_a_look_changes_nothing(kernel: Kernel) -> None:
    await kernel.run(
        "import random, numpy as np, pandas as pd\n"
        "rng = np.random.default_rng(5)\n"
        "random.seed(1); np.random.seed(1)\n"
        "frame = pd.DataFrame({'a': np.random.rand(5), 'b': list('vwxyz')})\n"
        "class Thing:\n"
        "    def __repr__(self): raise RuntimeError\n"
        "thing, stream = Thing(), (n for n in range(3))\n"
        "ring = []; ring.append(ring)\n"
        "12"
    )
    before = await kernel.value(_ALL)
    found = await kernel.ask()
    assert found.by_name["frame"].digest is not None
    assert found.by_name["thing"].digest is not None
    assert await kernel.value(_ALL) == before
    assert await kernel.ask() == found
    assert await kernel.value("(_, __, next(stream))") == "(12, '', 0)"
    assert (await kernel.run("_ + 1"))["execution_count"] == 2


async def test_two_kernels_agree_on_everything_deterministic(tmp_path: Path) -> None:
    code = (
        "import collections, datetime, decimal, pathlib, re\n"
        "import numpy as np, pandas as pd\n"
        "from dataclasses import dataclass\n"
        "@dataclass\n"
        "class Row:\n"
        "    a: int\n"
        "words = set('the quick brown fox'.split())\n"
        "rows = [Row(1), Row(2)]\n"
        "frame = pd.DataFrame({'a': np.random.default_rng(0).random(9)})\n"
        "def add(a, b=[1]):\n    return {a, *b, 'x', 'y'}\n"
        "pattern = re.compile('a+')\n"
        "counted = collections.Counter('hello')\n"
    )
    one = await started("bubblewrap", tmp_path / "one")
    two = await started("process", tmp_path / "two")
    try:
        await one.run(code)
        await two.run("padding = [object() for _ in range(999)]; del padding\n" + code)
        compared = variables.compare(await one.ask(), await two.ask())
        assert compared.different == ()
        assert compared.unknown == {}
        assert {"words", "rows", "frame", "add", "pattern", "counted", "Row"} <= set(compared.same)
        await two.run("words.add('dog'); rows[1].a = 3; frame.iloc[8, 0] = 0; pattern = 'a+'")
        compared = variables.compare(await one.ask(), await two.ask())
        assert {each.name for each in compared.different} == {"words", "rows", "frame", "pattern"}
    finally:
        await one.link.guest.kill()
        await two.link.guest.kill()


@pytest.mark.parametrize(
    "code",
    [
        "import json; json.dumps = None",
        "import hashlib; hashlib.sha256 = None",
        "import builtins; builtins.sorted = None",
        "get_ipython().display_formatter.format = None",
        "get_ipython().user_ns[5] = 6; globals()['\\ud800'] = 1",
        "import sys; sys.modules['numpy'] = 7; sys.modules['IPython'] = 7",
        "get_ipython().kernel.do_execute = None",
        "import json; json.dumps = lambda value: 'x' * 6_000_000",
        "import json; json.dumps = lambda value: '[' * 100_000",
        "import time; time.perf_counter = lambda: 'now'",
    ],
)
async def test_whatever_the_kernel_answers_is_data(kernel: Kernel, code: str) -> None:
    await kernel.run(f"kept = 1\n{code}")
    found = await variables.ask(kernel.link)
    assert found is None or found.by_name["kept"].type == "int"
    tree = await states.files(kernel.link.guest)
    assert tree is not None


async def test_another_language_is_not_asked(tmp_path: Path) -> None:
    made = await started("bubblewrap", tmp_path / "workspace", bash_kernel())
    try:
        assert await variables.ask(made.link) is None
    finally:
        await made.link.guest.kill()


async def test_a_state_is_stored(kernel: Kernel, log: Log) -> None:
    await kernel.run("open('a.txt', 'w').write('hello'); x = 5")
    writer = await log.acquire(await log.begin(notebook=None, kernel="python3"), {"pid": 1})
    try:
        sha256, held = await states.take(kernel.link, writer.blobs, isolated=True)
        assert sha256 is not None
        tree = parse(await writer.blobs.get(sha256))
        entry = tree.get("a.txt")
        assert entry is not None
        assert entry.size == 5
        found = variables.parse(json.loads(json.dumps(held)))
        assert found is not None
        assert found.by_name["x"].preview == "5"
        without, _ = await states.take(kernel.link, writer.blobs, isolated=False)
        assert without is None
    finally:
        await writer.close()


async def test_a_workspace_that_is_too_large_is_left_alone(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    await kernel.run("open('large', 'wb').truncate(5000)\n" + "import os; os.mkdir('.reprise2')")
    assert await states.files(kernel.link.guest) is not None
    monkeypatch.setattr(states, "BYTES", 4999)
    assert await states.files(kernel.link.guest) is None
    monkeypatch.setattr(states, "BYTES", 5000)
    monkeypatch.setattr(states, "FILES", 1)
    assert await states.files(kernel.link.guest) is None


paths = st.sampled_from(["a", "b", "c", "d/e", "d/f", "g"])
entries = st.builds(
    lambda size, mode, text: (size, mode, text * 64),
    st.integers(0, 2),
    st.sampled_from([0o644, 0o755]),
    st.sampled_from("abc"),
)
trees = st.dictionaries(paths, entries).map(
    lambda made: Manifest.of(Entry(path, "file", m, s, x) for path, (s, m, x) in made.items())
)


@given(trees, trees)
def test_files_differ_where_their_entries_do(left: Manifest, right: Manifest) -> None:
    found = {each.path: each for each in file_differences(left, right)}
    for path in {*left.by_path, *right.by_path}:
        old, new = left.get(path), right.get(path)
        assert (path in found) == (old != new)
        if path not in found:
            continue
        kind = found[path].kind
        assert (kind == "missing") == (new is None)
        assert (kind == "extra") == (old is None)
        if old is not None and new is not None:
            moded = dataclasses.replace(old, mode=new.mode) == new
            assert kind == ("mode" if moded else "content")


histories = st.lists(st.dictionaries(st.sampled_from("xyz"), st.sampled_from("123")), max_size=8)


@given(histories, histories, st.sets(st.integers(0, 7)), st.sets(st.integers(0, 7)))
def test_since_when_two_replays_differ(
    left: list[dict[str, str]],
    right: list[dict[str, str]],
    left_out: set[int],
    right_out: set[int],
) -> None:
    """Against the plain definition: the first of the steps, all up to the end, that both saw differ."""
    steps = min(len(left), len(right))
    ours, theirs = Watched(), Watched()
    for seq in range(steps):
        for watched, history, out in ((ours, left, left_out), (theirs, right, right_out)):
            if seq not in out:
                watched.add(seq, history[seq])
    both = [seq for seq in range(steps) if seq not in left_out | right_out]
    expected = {}
    for key in "xyz":
        since = None
        for seq in reversed(both):
            if left[seq].get(key) == right[seq].get(key):
                break
            since = seq
        if since is not None:
            expected[key] = since
    assert first_difference(ours, theirs) == expected
