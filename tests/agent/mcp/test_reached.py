"""MCP servers over HTTP: found with their headers, bounded, and not followed elsewhere."""

import asyncio
import contextlib
import gzip
import json

import pytest
from mcp.server import Server
from mcp.types import CallToolResult, ListToolsResult, TextContent, Tool

from reprise_server.agent.contract import BadCall, Call, Situation
from reprise_server.agent.mcp.configured import configured_servers
from reprise_server.agent.mcp.listening import Address, listen
from reprise_server.agent.mcp.tools import Servers

SITUATION = Situation(None, "e", isolated=True)
PATIENCE = 60.0


class Far:
    """A server on the network: the SDK's own, or answers that no good server gives."""

    def __init__(self):
        self.seen = []
        self.calls = 0
        #: What the next request is answered with: (status, headers, pieces of the body).
        self.instead = None

    async def on_list_tools(self, context, params):
        return ListToolsResult(tools=[Tool(name="echo", input_schema={"type": "object"})])

    async def on_call_tool(self, context, params):
        self.calls += 1
        return CallToolResult(content=[TextContent(text="far away")])

    def app(self):
        inner = Server(
            "far", on_list_tools=self.on_list_tools, on_call_tool=self.on_call_tool
        ).streamable_http_app(host="127.0.0.1")

        async def app(scope, receive, send):
            if scope["type"] != "http":
                await inner(scope, receive, send)
                return
            self.seen.append(dict(scope["headers"]))
            if self.instead is None or scope["method"] != "POST":
                await inner(scope, receive, send)
                return
            status, headers, pieces = self.instead
            await send({"type": "http.response.start", "status": status, "headers": headers})
            for piece in pieces:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b""})

        return app


@pytest.fixture
async def far():
    found = Far()
    told = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(listen(found.app(), Address("127.0.0.1", 0), told.set_result))
    try:
        async with asyncio.timeout(PATIENCE):
            found.url = await told
        yield found
    finally:
        serving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await serving


@pytest.fixture
async def servers(far):
    headers = {"Authorization": "Bearer s3cr3t-value"}
    configured = configured_servers({"far": {"url": far.url, "headers": headers}}, {})
    async with Servers(configured) as opened:
        yield opened


async def fitted(call, words):
    return words, ()


async def nobody(text, options):
    raise AssertionError("nobody is asked")


async def echo(tool):
    act = await tool.act({}, SITUATION)
    assert act.hosts == ("127.0.0.1",)
    call = Call("c", "conversation", 1, act.input, SITUATION, print, nobody)
    async with asyncio.timeout(PATIENCE):
        return await tool.run(call, act)


def words(result):
    return "".join(block.get("text", "") for block in result.content)


async def test_it_is_asked_with_its_headers(far, servers):
    [tool] = (await servers.offered(fitted)).tools
    assert words(await echo(tool)) == "far away"
    assert all(each[b"authorization"] == b"Bearer s3cr3t-value" for each in far.seen)
    assert all(each[b"accept-encoding"] == b"identity" for each in far.seen)


JSON = (b"content-type", b"application/json")


@pytest.mark.parametrize("what", ["long", "packed", "nonsense", "moved", "failing", "events"])
async def test_an_answer_that_is_none_harms_only_its_call(far, servers, what):
    [tool] = (await servers.offered(fitted)).tools
    far.instead = {
        "long": (200, [JSON], [b"[" + b" " * (1 << 20)] * 12),
        "packed": (
            200,
            [JSON, (b"content-encoding", b"gzip")],
            [gzip.compress(json.dumps({"x": "y" * (16 << 20)}).encode())],
        ),
        "nonsense": (200, [JSON], [b"{]"]),
        "moved": (307, [(b"location", b"http://elsewhere.example/mcp")], []),
        "failing": (500, [JSON], [b"Bearer s3cr3t-value is wrong"]),
        "events": (200, [(b"content-type", b"text/event-stream")], [b"data: {]\n\n"]),
    }[what]
    result = await echo(tool)
    assert result.status in ("error", "lost")
    assert "s3cr3t-value" not in words(result)
    assert far.calls == 0
    far.instead = None
    assert words(await echo(tool)) == "far away"


async def test_one_that_is_gone_is_told_of(far, servers):
    [tool] = (await servers.offered(fitted)).tools
    far.instead = (503, [JSON], [b"{}"])
    offered = await servers.offered(fitted)
    assert offered.tools == ()
    assert "far" in offered.problems[0]
    with contextlib.suppress(BadCall):
        assert (await echo(tool)).status in ("error", "lost")
