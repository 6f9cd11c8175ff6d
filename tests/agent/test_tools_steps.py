"""Tools on a real session: what they run is a step of the agent's, what they refuse is none."""

from __future__ import annotations

import pytest

from reprise_server.agent.contract import BadCall
from tests.fixtures.place import ToolBench, text_of


async def test_a_command_is_a_step_of_the_agents_under_the_calls_key(bench: ToolBench) -> None:
    result = await bench.do("run_command", command="echo one && echo two >&2; exit 3")
    (seq,) = result.steps
    (record,) = await bench.place.of_call(f"{bench.conversation}:toolu_1")
    assert record.step.seq == seq
    assert record.step.new.actor.to_json() == {
        "kind": "agent",
        "conversation": bench.conversation,
        "turn": 1,
    }
    assert record.step.payload["shell"] == "echo one && echo two >&2; exit 3"
    assert result.status == "error"
    text = text_of(result)
    assert f"step {seq} · error" in text
    assert "exit code 3" in text
    assert "[stdout]\none" in text
    assert "[stderr]\ntwo" in text
    assert result.taints == ()
    assert "one" in "".join(bench.shown)


async def test_plain_words_run_without_a_shell(bench: ToolBench) -> None:
    act = await bench.act("run_command", command="printf '%s|' 'a b' \"$HOME\"")
    assert act.argv is None
    result = await bench.do("run_command", command="printf '%s|' 'a b' --x=1 /usr*")
    assert "/usr" in text_of(result)
    act = await bench.act("run_command", command="printf '%s|' 'a b' --x=1")
    assert act.argv == ("printf", "%s|", "a b", "--x=1")
    result = await bench.do("run_command", command="printf '%s|' 'a b' --x=1")
    assert "a b|--x=1|" in text_of(result)
    key = f"{bench.conversation}:toolu_{bench.numbers}"
    (record,) = await bench.place.of_call(key)
    assert record.step.payload["argv"] == ["printf", "%s|", "a b", "--x=1"]


async def test_the_same_call_runs_once(bench: ToolBench) -> None:
    given = {"command": "echo x >> once.txt; wc -l < once.txt"}
    act = await bench.act("run_command", **given)
    call = bench.call(given)
    tool = bench.tool("run_command")
    first = await tool.run(call, act)
    again = await tool.run(call, act)
    assert again.steps == first.steps
    assert "answered from the log, nothing ran again" in text_of(again)
    assert text_of(await bench.do("read_file", path="once.txt")).endswith("1\tx\n")


async def test_what_is_refused_leaves_no_step(bench: ToolBench) -> None:
    before = await bench.place.quiet()
    for given, said in (
        ({"command": "  "}, "is empty"),
        ({"command": "a\0b"}, "NUL"),
        ({"command": "ls", "cwd": "../.."}, "no path within the workspace"),
        ({"command": "ls", "timeout_s": 0}, "from 1 to 7,200"),
        ({"command": 7}, "`command` is a number; it must be a text"),
        ({"comand": "ls"}, "`command`?"),
    ):
        with pytest.raises(BadCall, match=said.replace("?", r"\?")):
            await bench.act("run_command", **given)
    assert await bench.place.quiet() == before
