"""Programs in a sandbox use the network as they always do, where the rules allow it."""

from __future__ import annotations

import sys

import pytest

from tests.fixtures.egress import Network, answering

#: Each asks for URL (in its environment) and prints the body.
PROGRAMS = {
    "curl": 'curl -sS --fail "$URL"',
    "curl, CONNECT": 'curl -sS --fail --proxytunnel "$URL"',
    "curl, SOCKS": 'curl -sS --fail --socks5-hostname "${HTTP_PROXY#http://}" "$URL"',
    "urllib": f"""{sys.executable} -c "
import os, urllib.request as u
print(u.urlopen(os.environ['URL']).read().decode(), end='')" """,
    "requests": f"""{sys.executable} -c "
import os, requests
print(requests.get(os.environ['URL']).text, end='')" """,
    "httpx": f"""{sys.executable} -c "
import os, httpx
print(httpx.get(os.environ['URL']).text, end='')" """,
}


@pytest.mark.parametrize("program", PROGRAMS)
async def test_a_program_reaches_what_is_allowed(network: Network, program: str) -> None:
    async with answering() as server:
        place = f"127.0.0.1:{server.port}"
        net = await network({"private": [f"host.test:{server.port}"]}, resolver=_here)
        net.egress.begin(4)
        url = f"http://host.test:{server.port}/a?b=c"
        assert await net.prints(PROGRAMS[program], URL=url) == "hello"
        net.egress.end(4)
        [row] = net.rows
        assert (row.seq, row.host, row.port, row.address) == (
            4,
            "host.test",
            server.port,
            "127.0.0.1",
        )
        assert (row.verdict, row.reason, row.replay) == ("allowed", "", False)
        assert row.bytes_up > 20
        assert row.bytes_down > len("hello\n")
        [head] = server.heard
        assert head.startswith(b"GET /a?b=c HTTP/1.1\r\n")
        assert f"host.test:{server.port}".encode() in head
        assert b"proxy" not in head.lower()
        assert place not in str(net.said)


async def _here(host: str) -> list[str]:
    return ["127.0.0.1"]
