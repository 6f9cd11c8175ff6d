"""Whatever a model gives a tool: an act, a result or a sentence it can act on, and within bounds."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reprise.errors import RepriseError
from reprise.log.conversation import MAX_BODY
from reprise.log.postgres import Log
from reprise.skills.disclosure import Disclosure
from reprise.workspace.manifest import check_path
from reprise_server.agent.contract import RESULT_CHARACTERS, BadCall, Decided, Tool
from reprise_server.agent.tools.schemas import check_input
from reprise_server.agent.tools.toolbox import toolbox
from tests.agent.toolboxes import EFFECTS
from tests.fixtures.kernel import Database, Kernel
from tests.fixtures.place import ToolBench, bench_of, text_of

TEXTS = st.sampled_from(
    [
        *(
            "",
            " ",
            "a",
            "a.txt",
            "dir",
            "dir/a.txt",
            "..",
            "../..",
            "/",
            "/workspace",
            "/etc/passwd",
        ),
        *(
            "/skills/x",
            ".reprise",
            ".reprise/results",
            "a\0b",
            "a\nb",
            "\ud800",
            "\u202e",
            "*",
            "**",
        ),
        *(
            "x" * 300,
            "x/" * 2_500,
            "~",
            "$(id)",
            "; id",
            "-rf",
            "--",
            "(",
            "(a+)+$",
            "[",
            "\\",
            "é",
        ),
        *("profile-dataset", "personal:a@1", "sha256:" + "0" * 64, "%s", "{workspace}", "\x1b[2J"),
    ]
) | st.text(st.characters(), max_size=12)
NUMBERS = st.sampled_from([0, 1, -1, 2, 10**6, 2**63, -(2**70), 0.5, float("inf"), float("nan")])


def inputs(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """What fits a schema, and holds what a model should not write."""
    match schema.get("type"):
        case "object":
            known = {name: inputs(inner) for name, inner in schema["properties"].items()}
            required = {name: known.pop(name) for name in schema["required"]}
            return st.fixed_dictionaries(required, optional=known)
        case "array":
            return st.lists(inputs(schema["items"]), max_size=4)
        case "integer":
            return NUMBERS.filter(lambda number: isinstance(number, int))
        case "number":
            return NUMBERS
        case "boolean":
            return st.booleans()
        case _:
            return TEXTS


@pytest.fixture(scope="module")
def workplace(
    shared_kernel: Kernel, database: Database
) -> Iterator[tuple[asyncio.Runner, ToolBench]]:
    """Tools on one session, and the loop that they run on."""

    async def opened() -> tuple[ToolBench, Log]:
        log = await Log.connect(database.dsn, home=database.home)
        environ = {"REPRISE_DSN": database.dsn, "REPRISE_HOME": str(database.home)}
        place = bench_of(log, shared_kernel, environ)
        kernel = await place.kernel()
        await kernel.command("mkdir -p dir; echo a > a.txt; echo b > dir/a.txt", check=True)
        view = await Disclosure.begin(log)
        return ToolBench(place, toolbox(place, view), shared_kernel.folder), log

    with asyncio.Runner() as runner:
        bench, log = runner.run(opened())
        yield runner, bench
        runner.run(bench.place.close())
        runner.run(log.close())


#: Those that do not change the session a test stands on, and answer at once.
NAMES = [
    *("run_command", "read_file", "write_file", "list_files", "search_files", "search_skills"),
    *("load_skill", "read_skill_file", "run_skill", "save_artifact", "ask_user", "fork_session"),
]


@pytest.mark.parametrize("name", [*NAMES, "rewind_session"])
@settings(max_examples=40)
@given(data=st.data())
def test_an_act_or_a_refusal(
    workplace: tuple[asyncio.Runner, ToolBench], name: str, data: st.DataObject
) -> None:
    runner, bench = workplace
    tool = bench.tool(name)
    given_ = data.draw(inputs(dict(tool.schema)))
    said = runner.run(attempt(bench, tool, given_, run=name != "rewind_session"))
    assert len(said) <= 70_000
    said.encode("utf-8")


async def attempt(bench: ToolBench, tool: Tool, given_: Any, *, run: bool) -> str:
    """One call as a turn makes it; what the model is told."""
    before = await bench.place.quiet()
    try:
        checked = check_input(tool.name, tool.schema, given_)
        act = await tool.act(checked, bench.situation)
    except RepriseError as error:
        assert await bench.place.quiet() == before
        return str(error)
    assert (act.tool, act.effect) == (tool.name, EFFECTS[tool.name])
    assert act.input == checked
    assert len(act.title) < 3_000
    assert all(path == "" or check_path(path) == path for path in act.paths)
    if not run or _endless(act.code):
        return act.title
    bench.answers = [Decided("yes", "terminal")]
    try:
        async with asyncio.timeout(120):
            result = await tool.run(bench.call(checked), act)
    except BadCall as error:
        assert await bench.place.quiet() == before
        return str(error)
    except RepriseError as error:
        return str(error)
    assert len(json.dumps(list(result.content)).encode()) < MAX_BODY
    if tool.name != "load_skill":
        assert len(text_of(result)) <= RESULT_CHARACTERS
    return text_of(result)


def _endless(code: str | None) -> bool:
    """A shell that waits for what nobody gives would end at its time limit only."""
    return code is not None and code.strip() in ("-rf", "yes")
