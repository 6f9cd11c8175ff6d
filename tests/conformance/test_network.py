"""The network of a sandbox is the same on every backend: none, or what its rules allow."""

from __future__ import annotations

import shlex
import sys

import pytest

from reprise.guest.network import PORT
from tests.conformance.backends import BACKENDS, backend_of
from tests.fixtures.egress import Network, answering
from tests.fixtures.sandbox import StartCells, quiet_kernel
from tests.fixtures.shell import run


@pytest.fixture(params=[each for each in BACKENDS if each != "process"])
def name(request: pytest.FixtureRequest) -> str:
    return backend_of(request)


async def here(host: str) -> list[str]:
    return ["127.0.0.1"]


def asks(url: str, tries: str = "") -> str:
    """A command that prints what a URL answers, or how it fails."""
    code = f"""
import urllib.error, urllib.request
{tries}
try:
    print(urllib.request.urlopen({url!r}, timeout=60).read().decode())
except urllib.error.HTTPError as error:
    print(error.code, error.read().decode())
except OSError as error:
    print("failed", error)
"""
    return f"{sys.executable} -c {shlex.quote(code)}"


async def test_programs_reach_what_is_allowed_and_nothing_else(name: str, network: Network) -> None:
    async with answering() as server, answering() as other:
        rules = {"private": [f"host.test:{server.port}"]}
        net = await network(rules, backend=name, resolver=here)
        net.egress.begin(1)
        assert await net.prints(asks(f"http://host.test:{server.port}/")) == "hello"
        refused = await net.prints(asks(f"http://host.test:{other.port}/"))
        assert refused.startswith("403 ")
        assert f"reprise env allow host.test:{other.port}" in refused
        direct = "urllib.request.install_opener(urllib.request.build_opener(urllib.request.ProxyHandler({})))"
        said = await net.prints(asks(f"http://127.0.0.1:{server.port}/", direct))
        assert said.startswith("failed")
        assert len(server.heard) == 1
        assert other.heard == []
        net.egress.end(1)
        assert [(row.seq, row.verdict) for row in net.rows] == [(1, "allowed"), (1, "refused")]


async def test_an_allowed_port_of_the_hosts_loopback_is_found(name: str, network: Network) -> None:
    async with answering() as server:
        net = await network({"private": [f"localhost:{server.port}"]}, backend=name)
        assert await net.prints(asks(f"http://localhost:{server.port}/")) == "hello"


async def test_a_restarted_interpreter_has_the_same_network(name: str, network: Network) -> None:
    async with answering() as server:
        net = await network({"private": [f"host.test:{server.port}"]}, backend=name, resolver=here)
        url = f"http://host.test:{server.port}/"
        assert await net.prints(asks(url)) == "hello"
        await net.cells.call("restart_kernel")
        assert await net.prints(asks(url)) == "hello"


async def test_without_rules_no_proxy_is_offered(name: str, start_cells: StartCells) -> None:
    guest = (await start_cells(name, kernel=quiet_kernel())).guest
    code = f"import socket; socket.create_connection(('127.0.0.1', {PORT}), 60)"
    ran = await run(guest, f"env | grep -ic proxy; {sys.executable} -c {shlex.quote(code)}")
    assert ran.stdout == b"0\n"
    assert ran.end.exit_code
