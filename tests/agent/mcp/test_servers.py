"""Configured MCP servers: one that dies, hangs, floods or changes harms its own call, and no more."""

import asyncio
import base64
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import pytest_asyncio

from reprise_server.agent.contract import BadCall, Call, Situation
from reprise_server.agent.mcp.configured import configured_servers
from reprise_server.agent.mcp.opening import open_servers
from reprise_server.agent.mcp.tools import Servers
from reprise_server.agent.settings import RepriseAgent

ODD = Path(__file__).with_name("odd_server.py")
SITUATION = Situation(None, "e", isolated=True)
PATIENCE = 60.0


async def short(call, words):
    """Long texts go to a file in the session; here there is none."""
    return words[:16_000], (7,) if len(words) > 16_000 else ()


async def nobody(text, options):
    raise AssertionError("no tool of a server asks a person")


class Odd:
    """The odd server's tools, as a conversation is offered them."""

    def __init__(self, servers, folder):
        self.servers, self.folder = servers, folder
        self.shown = []

    async def offered(self):
        return await self.servers.offered(short)

    async def call(self, name, given=None, tools=None):
        tools = tools or (await self.offered()).tools
        [tool] = [each for each in tools if each.name == f"mcp__odd__{name}"]
        act = await tool.act(given or {}, SITUATION)
        call = Call("c1", "conversation", 1, act.input, SITUATION, self.shown.append, nobody)
        return await tool.run(call, act)

    def marks(self, name):
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []


#: One event loop for all of them, so that those that harm nothing can share a server.
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory):
    """A server for tests that leave it as it is."""
    folder = tmp_path_factory.mktemp("odd")
    configured = configured_servers(
        {"odd": {"command": [sys.executable, str(ODD), str(folder)]}}, {}
    )
    async with Servers(configured) as servers:
        yield Odd(servers, folder)


@pytest_asyncio.fixture(loop_scope="module")
async def odd(tmp_path):
    configured = configured_servers(
        {
            "odd": {
                "command": [sys.executable, str(ODD), str(tmp_path)],
                "env": {"ODD_TOKEN": "s3cr3t-value"},
            }
        },
        {},
    )
    async with Servers(configured) as servers:
        yield Odd(servers, tmp_path)


def words(result):
    return "\n".join(block["text"] for block in result.content if block["type"] == "text")


async def until(condition):
    async with asyncio.timeout(PATIENCE):
        while not (found := condition()):
            await asyncio.sleep(0.02)
    return found


def runs(pid):
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


async def test_a_tool_is_offered_judged_and_called(shared):
    offered = await shared.offered()
    assert offered.problems == ()
    assert offered.taints == (("mcp", "odd (what it says of its tools)"),)
    names = [tool.name for tool in offered.tools]
    assert names == sorted(names)
    echo = next(tool for tool in offered.tools if tool.name == "mcp__odd__echo")
    act = await echo.act({"text": "hi"}, SITUATION)
    assert (act.tool, act.effect, act.carries_out) == ("mcp/odd/echo", "outside", True)
    result = await shared.call("echo", {"text": "hi"}, offered.tools)
    assert (words(result), result.status) == ("hi", "ok")
    assert result.taints == (("mcp", "odd/echo"),)
    assert result.outside == ('mcp/odd/echo {"text": "hi"}',)
    # It was started once, by whoever first asked.
    assert len(shared.marks("started")) == 1


async def test_none_of_our_secrets_are_in_its_environment(odd, monkeypatch):
    for name in (
        "ANTHROPIC_API_KEY",
        "REPRISE_DSN",
        "JUPYTERHUB_API_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
    ):
        monkeypatch.setenv(name, "hunter2")
    result = await odd.call("environment")
    there = json.loads(words(result))
    assert "hunter2" not in there.values()
    assert there["PATH"] == os.environ["PATH"]
    # Its own is there, and is not shown, wherever it is repeated.
    assert there["ODD_TOKEN"] == "[hidden]"
    told = {tool.name: tool.description for tool in (await odd.offered()).tools}
    assert "Does environment with [hidden]." in told["mcp__odd__environment"]


async def test_one_that_dies_in_a_call_is_told_of_and_started_by_the_next(odd):
    tools = (await odd.offered()).tools
    result = await odd.call("die", tools=tools)
    assert result.status == "lost"
    assert "out of cheese" in words(result)
    assert "exit code 3" in words(result)
    assert result.outside == ("mcp/odd/die {}",)
    assert words(await odd.call("echo", {"text": "again"}, tools)) == "again"
    # The lost call was not made again.
    assert odd.marks("called") == ["die", "echo"]
    assert len(odd.marks("started")) == 2


async def test_one_that_hangs_is_given_up_and_told_so(tmp_path):
    configured = configured_servers(
        {"odd": {"command": [sys.executable, str(ODD), str(tmp_path)], "timeout": 1}}, {}
    )
    async with Servers(configured) as servers:
        odd = Odd(servers, tmp_path)
        result = await odd.call("hang")
        assert result.status == "lost"
        assert "1 seconds" in words(result)
        await until(lambda: odd.marks("cancelled"))


async def test_a_cancelled_call_is_cancelled_there_too(odd):
    task = asyncio.create_task(odd.call("hang"))
    await until(lambda: odd.marks("hanging"))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: odd.marks("cancelled"))
    assert words(await odd.call("echo", {"text": "on"})) == "on"
    assert len(odd.marks("started")) == 1


async def test_a_message_without_end_fills_nothing(odd):
    result = await odd.call("flood")
    assert result.status == "lost"
    assert "8 MiB" in words(result)
    assert words(await odd.call("echo", {"text": "on"})) == "on"


async def test_a_long_answer_is_fitted(shared):
    result = await shared.call("long")
    assert result.steps == (7,)
    assert words(result).startswith("line 0\n")


async def test_images_are_passed_and_what_is_none_is_named(shared):
    result = await shared.call("image")
    [image] = [block for block in result.content if block["type"] == "image"]
    assert image["source"]["media_type"] == "image/png"
    assert base64.b64decode(image["source"]["data"]).startswith(b"\x89PNG")
    assert "a picture\n[image 1]\n[an image, not shown" in words(result)
    assert "svg+xml" in words(result)


async def test_other_content_is_named_or_read(shared):
    assert words(await shared.call("pieces")) == (
        "[audio: not shown]\n[a resource named a b: file:///etc/passwd]\n"
        "[mem://notes]\nsome notes\n[mem://blob: 3 bytes that are no text: not shown]"
    )


async def test_an_error_is_one_for_the_model(shared):
    result = await shared.call("fail")
    assert (result.status, words(result)) == ("error", "it did not work")
    refused = await shared.call("refuse")
    assert refused.status == "error"
    assert "mcp" in dict(refused.taints)


async def test_progress_is_shown(odd):
    await odd.call("steps")
    assert odd.shown == ["1 of 2 half, [hidden]\n"]


async def test_lines_that_are_no_messages_are_passed_over(shared):
    assert words(await shared.call("nonsense")) == "after nonsense"


async def test_a_schema_for_its_own_results_is_not_believed(shared):
    async with asyncio.timeout(PATIENCE):
        assert "!" in words(await shared.call("structured"))


async def test_tools_change_between_conversations_only(odd):
    tools = (await odd.offered()).tools
    told = [tool.description for tool in tools]
    (odd.folder / "changed").touch()
    assert [tool.description for tool in tools] == told
    assert words(await odd.call("echo", {"text": "as before"}, tools)) == "as before"
    # Started again it is another server, and the model was not told of it.
    await odd.call("die", tools=tools)
    with pytest.raises(BadCall, match="changed this tool"):
        await odd.call("echo", {"text": "other"}, tools)
    assert odd.marks("called") == ["echo", "die"]
    fresh = (await odd.offered()).tools
    assert all("approve everything" in tool.description for tool in fresh)
    assert words(await odd.call("echo", {"text": "new"}, fresh)) == "new"


async def test_its_whole_tree_ends_with_it(odd):
    strays = words(await odd.call("child")).split()
    assert all(runs(pid) for pid in strays)
    await odd.servers.close()
    assert not any(runs(pid) for pid in strays)


HOLDER = """
import asyncio, sys
from reprise_server.agent.mcp.configured import configured_servers
from reprise_server.agent.mcp.connection import Connection
async def main():
    [server] = configured_servers({"odd": {"command": sys.argv[1:]}}, {})
    connection = Connection(server)
    await connection.list()
    got = await connection.call("child", {}, print)
    print(got.content[0].text, flush=True)
    await asyncio.sleep(3600)
asyncio.run(main())
"""


async def test_it_dies_with_us_however_we_die(tmp_path):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, sys.executable, str(ODD), str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        strays = (await asyncio.to_thread(holder.stdout.readline)).split()
        assert len(strays) == 2
        assert all(runs(pid) for pid in strays)
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        holder.stdout.close()
    await until(lambda: not any(runs(pid) for pid in strays))


async def test_servers_that_cannot_be_asked_are_named_and_the_others_offered(tmp_path):
    configured = configured_servers(
        {
            "absent": {"command": ["reprise-no-such-program"]},
            "deaf": {"url": "http://127.0.0.1:9/mcp"},
            "ends": {"command": ["false"]},
            "odd": {"command": [sys.executable, str(ODD), str(tmp_path)]},
        },
        {},
    )
    async with Servers(configured) as servers:
        offered = await servers.offered(short)
    assert {tool.name.split("__")[1] for tool in offered.tools} == {"odd"}
    assert [problem.split()[3] for problem in offered.problems] == ["absent", "deaf", "ends"]
    assert "No such file" in offered.problems[0]
    assert "exit code 1" in offered.problems[2]
    assert all("It was asked nothing." in problem for problem in offered.problems)


async def test_a_third_partys_server_is_used_as_it_is():
    """mcp-server-time, of the protocol's own authors, from PyPI."""
    settings = RepriseAgent()
    settings.mcp_servers = {
        "time": {"command": [sys.executable, "-m", "mcp_server_time", "--local-timezone", "UTC"]}
    }
    servers = open_servers(settings)
    async with servers:
        tools = {tool.name: tool for tool in (await servers.offered(short)).tools}
        assert list(tools) == ["mcp__time__convert_time", "mcp__time__get_current_time"]
        convert = tools["mcp__time__convert_time"]
        given = {
            "source_timezone": "Asia/Tokyo",
            "target_timezone": "Asia/Kolkata",
            "time": "12:00",
        }
        act = await convert.act(given, SITUATION)
        call = Call("c1", "conversation", 1, act.input, SITUATION, print, nobody)
        assert "-3.5h" in words(await convert.run(call, act))
        act = await convert.act({**given, "target_timezone": "Nowhere/Land"}, SITUATION)
        result = await convert.run(call, act)
        assert result.status == "error"
        assert "Nowhere/Land" in words(result)
