"""Over HTTP nothing is answered without the token, to a page, or under another name."""

import asyncio
import contextlib
import os
from pathlib import Path

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from reprise.errors import UsageError
from reprise_server.agent.mcp.listening import (
    VARIABLE,
    Address,
    address,
    application,
    listen,
    token,
)
from reprise_server.agent.mcp.offered_session import Means
from reprise_server.agent.mcp.offering import Offering
from reprise_server.agent.mcp.server import serve
from reprise_server.agent.settings import RepriseAgent

SECRET = "a-secret-of-more-than-thirty-two-characters"
PATIENCE = 60.0
ASK = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    },
}
USUAL = {
    "Authorization": f"Bearer {SECRET}",
    "Accept": "application/json, text/event-stream",
    "Content-Type": "application/json",
}


@pytest.fixture
async def url(log, tmp_path):
    means = Means(log, RepriseAgent(), tmp_path, {}, False, "me")
    offering = Offering(means)
    app = application(await serve(offering), SECRET, Address("127.0.0.1", 0))
    told = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(listen(app, Address("127.0.0.1", 0), told.set_result))
    try:
        async with asyncio.timeout(PATIENCE):
            yield await told
    finally:
        serving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await serving
        await offering.close()


async def post(url, headers, body=ASK):
    async with httpx2.AsyncClient(trust_env=False, timeout=PATIENCE) as client:
        return await client.post(url, headers=headers, json=body)


async def test_the_sdks_client_with_the_token_is_served(url):
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {SECRET}"}) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        tools = [tool.name for tool in (await client.list_tools()).tools]
        assert {"run_cell", "run_skill", "verify_session"} <= set(tools)
        result = await client.call_tool("list_sessions", {})
        assert result.content[0].text == "None yet. begin_session begins one."
        # Several clients may be there: none of them has a session that is meant by itself.
        unnamed = await client.call_tool("run_cell", {"code": "1"})
        assert unnamed.is_error
        assert "Name a `session`" in unnamed.content[0].text


async def test_a_client_of_the_older_protocol_is_served(url):
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {SECRET}"}) as http,
        Client(streamable_http_client(url, http_client=http), mode="legacy") as client,
    ):
        assert client.protocol_version < "2026"
        result = await client.call_tool("list_sessions", {})
        assert not result.is_error


async def test_without_the_token_nothing_is_answered(url):
    headers = {**USUAL}
    del headers["Authorization"]
    for authorization in (
        *(None, "", "Bearer", SECRET, f"Bearer {SECRET[:-1]}", f"Bearer {SECRET}x"),
        *(f"Bearer {SECRET.upper()}", f"Basic {SECRET}", f"Bearer {SECRET}, Bearer {SECRET}"),
    ):
        given = {} if authorization is None else {"Authorization": authorization}
        refused = await post(url, {**headers, **given})
        assert refused.status_code == 401, authorization
        assert refused.headers["www-authenticate"].startswith("Bearer")
        assert SECRET not in refused.text
    # Nor is it told whether there is such a page.
    assert (await post(url.replace("/mcp", "/else"), headers)).status_code == 401


async def test_the_right_token_alone_is_not_enough_from_a_page_or_under_another_name(url):
    assert (await post(url, USUAL)).status_code == 200
    for origin in ("https://evil.example", "null", "http://localhost:8888"):
        refused = await post(url, {**USUAL, "Origin": origin})
        assert refused.status_code == 403
    for host in ("evil.example", "127.0.0.1.evil.example:80", "localhost.evil.example"):
        assert (await post(url, {**USUAL, "Host": host})).status_code == 421


async def test_a_body_over_the_bound_is_refused(url):
    big = {**ASK, "params": {**ASK["params"], "x": "y" * (5 << 20)}}
    assert (await post(url, USUAL, big)).status_code == 413


async def test_other_machines_may_ask_only_under_a_name_that_was_allowed(log, tmp_path):
    means = Means(log, RepriseAgent(), tmp_path, {}, False, "me")
    server = await serve(Offering(means))
    with pytest.raises(UsageError, match="--allow-host"):
        application(server, SECRET, Address("0.0.0.0", 1))
    assert application(server, SECRET, Address("0.0.0.0", 1), hosts=["notebooks.example"])


def test_a_token_comes_from_a_file_of_ones_own_or_the_variable(tmp_path: Path):
    file = tmp_path / "token"
    file.write_text(f"{SECRET}\n")
    file.chmod(0o644)
    with pytest.raises(UsageError, match="can be read by others"):
        token(file, {})
    file.chmod(0o600)
    assert token(file, {}) == SECRET
    assert token(None, {VARIABLE: SECRET}) == SECRET
    with pytest.raises(UsageError, match="bearer token is needed"):
        token(None, {})
    with pytest.raises(UsageError, match="cannot be read"):
        token(tmp_path / "absent", {})
    for short in ("short", SECRET + " " + SECRET, "ü" * 40):
        with pytest.raises(UsageError) as raised:
            token(None, {VARIABLE: short})
        assert short not in str(raised.value)
    assert "secrets.token_urlsafe(32)" in _said(lambda: token(None, {}))


def _said(doing):
    with pytest.raises(UsageError) as raised:
        doing()
    return str(raised.value)


@pytest.mark.parametrize(
    ("text", "found", "local"),
    [
        ("127.0.0.1:8765", Address("127.0.0.1", 8765), True),
        ("localhost:0", Address("localhost", 0), True),
        ("[::1]:80", Address("::1", 80), True),
        ("0.0.0.0:80", Address("0.0.0.0", 80), False),
        ("host.example:65535", Address("host.example", 65535), False),
    ],
)
def test_an_address_is_read(text, found, local):
    assert address(text) == found
    assert found.local is local


@pytest.mark.parametrize(
    "text", ["", "8765", "localhost", ":80", "a:b", "a:65536", "a b:1", "::1:2"]
)
def test_what_is_no_address_is_refused(text):
    with pytest.raises(UsageError, match="no HOST:PORT"):
        address(text)


@given(st.text(max_size=60))
def test_any_text_is_an_address_or_refused(text):
    with contextlib.suppress(UsageError):
        assert address(text).port <= 65_535


def test_the_variable_is_not_read_where_a_file_is_named(tmp_path: Path):
    assert VARIABLE not in os.environ
    with pytest.raises(UsageError, match="absent"):
        token(tmp_path / "absent", {VARIABLE: SECRET})
