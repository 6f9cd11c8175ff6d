"""Attempts to reach the host's own services through the proxy of a sandbox that may reach some hosts.

On every isolating backend. The rules allow each of these names, so only where a name leads can stop
a connection. What a credential that the proxy adds may be sent to: tests/egress/test_secrets.py.
"""

# ruff: noqa: RUF001 - digits that look like others are among what is tried

from __future__ import annotations

import asyncio
import json
import sys

import psutil

from reprise.guest.network import PORT
from tests.fixtures.egress import Network, answering, serving
from tests.fixtures.sandbox import StartCells, quiet_kernel

MARK = b"the host's own"

SPELLINGS = [
    *("127.0.0.1", "127.0.0.1.", "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7F.1"),
    *("0177.0.0.1", "00000177.0.0.1", "017700000001", "127.0.0.0x1", "127.127.127.127"),
    *("１２７.0.0.1", "127。0。0。1", "①②⑦.0.0.①", "localhost", "LOCALHOST.", "a.localhost"),
    *("::1", "[::1]", "::ffff:127.0.0.1", "[::ffff:7f00:1]", "0:0:0:0:0:ffff:7f00:0001"),
    *("64:ff9b::7f00:1", "2002:7f00:1::", "::127.0.0.1", "fe80::1%lo", "0.0.0.0", "0", "::", "[::]"),
    *("169.254.169.254", "fd00:ec2::254", "metadata.google.internal", "10.0.0.1", "192.168.0.1"),
]  # fmt: skip

#: Asks for each name in each way that the proxy speaks, on one port; what came back, per try.
ATTACK = """
import json, socket, struct, sys
def exchange(*parts, then=b""):
    try:
        with socket.create_connection(("127.0.0.1", PROXY), timeout=50) as sock:
            sock.settimeout(50)
            heard = b""
            for part in parts:
                sock.sendall(part)
                heard += sock.recv(1000)
            if then:
                sock.sendall(then)
            while more := sock.recv(10_000):
                heard += more
            return heard.decode("latin-1")
    except OSError as error:
        return type(error).__name__
def socks(kind, where):
    ask = b"GET / HTTP/1.0\\r\\n\\r\\n"
    return exchange(b"\\5\\1\\0", b"\\5\\1\\0" + kind + where + struct.pack(">H", port), then=ask)
found = {}
for name in names:
    host = name.encode("utf-8")
    shown = host if b":" not in host or host.startswith(b"[") else b"[" + host + b"]"
    place = shown + b":%d" % port
    get = b"GET / HTTP/1.0\\r\\n\\r\\n"
    found[name, "connect"] = exchange(b"CONNECT " + place + b" HTTP/1.1\\r\\nHost: " + place + b"\\r\\n\\r\\n", then=get)
    found[name, "http"] = exchange(b"GET http://" + place + b"/ HTTP/1.1\\r\\nHost: " + place + b"\\r\\nConnection: close\\r\\n\\r\\n")
    found[name, "socks"] = socks(b"\\3", bytes([len(host)]) + host)
for text in ("127.0.0.1", "0.0.0.0", "169.254.169.254", "127.255.255.254"):
    found[text, "socks address"] = socks(b"\\1", socket.inet_aton(text))
for text in ("::1", "::ffff:127.0.0.1", "::", "64:ff9b::7f00:1", "fe80::1"):
    found[text, "socks address"] = socks(b"\\4", socket.inet_pton(socket.AF_INET6, text))
print(json.dumps([[*key, said] for key, said in found.items()]))
"""


def attack(names: list[str], port: int) -> str:
    code = f"PROXY, port, names = {PORT}, {port}, {names!r}\n{ATTACK}"
    return f"{sys.executable} - <<'END'\n{code}\nEND"


async def test_no_service_of_the_host_is_reached_by_any_spelling(
    walled: str, network: Network
) -> None:
    own = sorted(
        each.address
        for addresses in psutil.net_if_addrs().values()
        for each in addresses
        if each.family.name == "AF_INET"
    )
    names = list(dict.fromkeys([*SPELLINGS, *own[:4]]))

    async def resolver(host: str) -> list[str]:
        return ["169.254.169.254"] if host.startswith("metadata") else ["127.0.0.1"]

    async with answering(MARK) as server:
        # As many as there are forms that a rule can have; the others are refused for want of one.
        allowed = [f"{n}:{server.port}" for n in names if n.isascii() and ":" not in n]
        net = await network(
            {"allow": [each.replace(".:", ":") for each in allowed], "rate": 0},
            backend=walled,
            resolver=resolver,
        )
        tries = json.loads(await net.prints(attack(names, server.port)))
        assert len(tries) == 3 * len(names) + 9
        assert [each for each in tries if MARK.decode() in each[2]] == []
        # Each was answered by the proxy, and not with a connection.
        assert {
            way for _, way, said in tries if said.startswith("HTTP/1.1 4") or said[:1] == "\x05"
        }
        assert [each for each in tries if " 200 " in each[2].partition("\r\n")[0]] == []
        assert server.heard == []
        assert {row.verdict for row in net.rows} == {"refused"}
        # The log has them, by whatever way they were asked.
        assert {row.via for row in net.rows} == {"connect", "http", "socks"}
        # The same proxy does serve what is allowed: what failed above failed for where it leads.
        there = await network({"private": [f"127.0.0.1:{server.port}"]}, backend=walled)
        assert MARK.decode() in await there.prints(attack(["127.0.0.1"], server.port))


async def test_a_name_server_that_changes_its_mind_changes_nothing(
    walled: str, network: Network
) -> None:
    """Each connection is looked up once, and made to what was looked at. The attacker's names lead
    into the host one moment and elsewhere the next."""
    asked: list[str] = []

    async def resolver(host: str) -> list[str]:
        asked.append(host)
        if host == "named.test":
            # Another of the host's addresses for whoever asks a second time.
            return ["127.0.0.1"] if asked.count(host) == 1 else ["127.0.0.2"]
        return ["127.0.0.1"] if len(asked) % 2 else ["::1", "127.0.0.1", "169.254.169.254"]

    async with answering(b"the one that was named") as server:
        rules = {
            "private": [f"named.test:{server.port}"],
            "allow": [f"rebind.test:{server.port}"],
            "rate": 0,
        }
        net = await network(rules, backend=walled, resolver=resolver)
        url = f"http://named.test:{server.port}/"
        fetch = f"import urllib.request as u; print(u.urlopen({url!r}).read())"
        assert "the one that was named" in await net.prints(f'{sys.executable} -c "{fetch}"')
        assert asked == ["named.test"]
        before = len(server.heard)
        tries = json.loads(await net.prints(attack(["rebind.test"] * 3, server.port)))
        assert [each for each in tries if "named" in each[2] and "200" in each[2]] == []
        assert len(server.heard) == before
        # Three times by three ways, and no look behind what was judged.
        assert asked.count("rebind.test") == 9


async def test_a_redirect_into_the_host_is_judged_anew(walled: str, network: Network) -> None:
    async def here(_host: str) -> list[str]:
        return ["127.0.0.1"]

    async with answering(MARK) as inner:

        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            head = await reader.readuntil(b"\r\n\r\n")
            number = int(head.split()[1].rpartition(b"/")[2] or 0)
            places = ("127.0.0.1", "127.1", "[::1]", "2130706433", "localhost", "other.test")
            target = f"http://{places[number]}:{inner.port}/"
            writer.write(b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nConnection: close\r\n")
            writer.write(b"Location: %s\r\n\r\n" % target.encode())
            await writer.drain()

        async with serving(handle) as outer:
            net = await network(
                {"private": [f"host.test:{outer.port}"], "rate": 0}, backend=walled, resolver=here
            )
            fetch = (
                "import urllib.error, urllib.request as u\n"
                f"o = u.build_opener(u.ProxyHandler({{'http': 'http://127.0.0.1:{PORT}'}}))\n"
                "import os; os.environ.pop('NO_PROXY', 0); os.environ.pop('no_proxy', 0)\n"
                "for n in range(6):\n"
                f"    try: print(o.open(f'http://host.test:{outer.port}/{{n}}').read())\n"
                "    except urllib.error.HTTPError as e: print(e.code, e.read().decode())\n"
            )
            said = await net.prints(f"{sys.executable} - <<'END'\n{fetch}\nEND")
            assert said.count("is not allowed here") + said.count("403") >= 6
            assert MARK.decode() not in said
            assert inner.heard == []


async def test_another_sandbox_has_nothing_of_it(
    walled: str, network: Network, start_cells: StartCells
) -> None:
    """The proxy listens on the loopback of its own sandbox; one without a network has none."""
    async with answering(MARK) as server:
        net = await network({"private": [f"127.0.0.1:{server.port}"]}, backend=walled)
        other = await network({"private": [f"127.0.0.2:{server.port}"]}, backend=walled)
        assert MARK.decode() in await net.prints(attack(["127.0.0.1"], server.port))
        heard = len(server.heard)
        assert MARK.decode() not in await other.prints(attack(["127.0.0.1"], server.port))
        closed = await start_cells(walled, kernel=quiet_kernel())
        net.cells = closed
        said = json.loads(await net.prints(attack(["127.0.0.1"], server.port)))
        assert {each[2] for each in said} == {"ConnectionRefusedError"}
        assert len(server.heard) == heard
