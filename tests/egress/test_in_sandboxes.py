"""Programs in real sandboxes: much at once, much in size, and refusals that a person can read."""

# ruff: noqa: RUF001 - digits that look like others are among what is tried

from __future__ import annotations

import asyncio
import hashlib
import sys

import pytest

from reprise.guest.network import PORT
from tests.fixtures.egress import Network, answering, serving

PYTHON = sys.executable


async def here(host: str) -> list[str]:
    return ["127.0.0.1"]


def program(code: str) -> str:
    """A Python program as a command. `proxied(host, port)` connects through the proxy."""
    common = f"""
import hashlib, socket, sys, threading
def proxied(host, port):
    sock = socket.create_connection(("127.0.0.1", {PORT}))
    sock.sendall(f"CONNECT {{host}}:{{port}} HTTP/1.1\\r\\n\\r\\n".encode())
    head = b""
    while not head.endswith(b"\\r\\n\\r\\n"):
        more = sock.recv(1)
        assert more, head
        head += more
    assert b" 200 " in head, head
    return sock
"""
    return f"{PYTHON} - <<'END'\n{common}{code}\nEND"


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.write_eof()


async def test_sixty_four_connections_at_once(network: Network) -> None:
    together = asyncio.Barrier(64)

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = await reader.readline()
        # Nobody is answered before all are there.
        await together.wait()
        writer.write(line.upper())

    async with serving(handle) as server:
        net = await network({"private": [f"127.0.0.1:{server.port}"]})
        said = await net.prints(
            program(f"""
found = [None] * 64
def one(number):
    sock = proxied("127.0.0.1", {server.port})
    sock.sendall(b"line %d\\n" % number)
    found[number] = sock.makefile("rb").read()
threads = [threading.Thread(target=one, args=[number]) for number in range(64)]
[each.start() for each in threads]
[each.join() for each in threads]
print(found == [b"LINE %d\\n" % number for number in range(64)])
""")
        )
        assert said == "True"
        await net.egress.close()
        assert [row.verdict for row in net.rows] == ["allowed"] * 64


async def test_fifty_megabytes_each_way_arrive_whole(network: Network) -> None:
    size = 50 << 20

    async with serving(echo) as server:
        net = await network({"private": [f"127.0.0.1:{server.port}"]})
        said = await net.prints(
            program(f"""
import random
data = random.Random(1).randbytes({size})
sock = proxied("127.0.0.1", {server.port})
def send():
    sock.sendall(data)
    sock.shutdown(socket.SHUT_WR)
threading.Thread(target=send).start()
seen = hashlib.sha256()
while part := sock.recv(1 << 16):
    seen.update(part)
print(seen.hexdigest() == hashlib.sha256(data).hexdigest())
""")
        )
        assert said == "True"
        await net.egress.close()
        [row] = net.rows
        assert (row.bytes_up, row.bytes_down, row.reason) == (size, size, "")


async def test_each_way_ends_by_itself(network: Network) -> None:
    """A program that has said all still hears; a host that has said all still hears."""
    heard = asyncio.get_running_loop().create_future()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"all I say")
        writer.write_eof()
        heard.set_result(await reader.read())

    async with serving(echo) as first, serving(handle) as second:
        places = [f"127.0.0.1:{first.port}", f"127.0.0.1:{second.port}"]
        net = await network({"private": places})
        said = await net.prints(
            program(f"""
sock = proxied("127.0.0.1", {first.port})
sock.sendall(b"question")
sock.shutdown(socket.SHUT_WR)
print(sock.makefile("rb").read())
sock = proxied("127.0.0.1", {second.port})
print(sock.makefile("rb").read())
sock.sendall(b"after its end")
sock.close()
""")
        )
        assert said == "b'question'\nb'all I say'"
        assert await heard == b"after its end"


async def test_a_program_that_reads_slowly_holds_up_nobody_else(network: Network) -> None:
    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(bytes(1 << 16))
            await writer.drain()

    async with serving(flood) as deaf, answering() as server:
        places = [f"127.0.0.1:{deaf.port}", f"127.0.0.1:{server.port}"]
        net = await network({"private": places})
        said = await net.prints(
            program(f"""
import urllib.request
idle = [proxied("127.0.0.1", {deaf.port}) for _ in range(20)]
opener = urllib.request.build_opener(
    urllib.request.ProxyHandler({{"http": "http://127.0.0.1:{PORT}"}}))
# NO_PROXY names 127.0.0.1, another spelling of it goes through the proxy.
print(opener.open("http://127.1:{server.port}/").read())
""")
        )
        assert said == "b'hello\\n'"


async def test_a_request_with_a_body_gets_through(network: Network) -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"Content-Length: 300000" in head
        body = await reader.readexactly(300_000)
        digest = hashlib.sha256(body).hexdigest().encode()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 64\r\nConnection: close\r\n\r\n" + digest)

    async with serving(handle) as server:
        net = await network({"private": [f"host.test:{server.port}"]}, resolver=here)
        shell = (
            f"head -c 300000 /dev/zero | curl -sS --data-binary @- http://host.test:{server.port}"
        )
        assert await net.prints(shell) == hashlib.sha256(bytes(300_000)).hexdigest()


REFUSED = {
    "curl": 'curl -sS "$URL"',
    "urllib": f"{PYTHON} -c 'import os, urllib.request as u; u.urlopen(os.environ[\"URL\"])'",
    "requests": f"{PYTHON} -c 'import os, requests; r = requests.get(os.environ[\"URL\"]); print(r.text)'",
    "httpx": f"{PYTHON} -c 'import os, httpx; r = httpx.get(os.environ[\"URL\"]); print(r.text)'",
    "pip": f'{PYTHON} -m pip download --no-deps --retries 1 --trusted-host example.org --index-url "$URL/simple" reprise-none',
}


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("client", REFUSED)
async def test_a_refusal_is_a_sentence_with_the_command_that_allows_it(
    network: Network, client: str, scheme: str
) -> None:
    port = {"http": 80, "https": 443}[scheme]
    sentence = (
        f"example.org:{port} is not allowed here; allow it with: reprise env allow example.org"
    )
    net = await network({"allow": ["example.net"]})
    net.egress.begin(2)
    output = await net.run(REFUSED[client], URL=f"{scheme}://example.org")
    shown = output.stdout + output.stderr
    # Two show none of a proxy's words; there the notice is what is seen.
    if (client, scheme) not in (("curl", "https"), ("pip", "http")):
        assert sentence in " ".join(shown.split()), shown
    assert net.said == [("network-refused", f"{sentence[0].upper()}{sentence[1:]}.")]
    assert {(row.seq, row.host, row.verdict, row.reason) for row in net.rows} == {
        (2, "example.org", "refused", sentence)
    }


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
async def test_an_allowed_port_of_the_hosts_loopback_is_found_on_ones_own(
    network: Network, host: str
) -> None:
    """Programs ask no proxy for it, whatever they speak."""
    async with answering() as server, answering() as other:
        net = await network({"private": [f"{host}:{server.port}"], "allow": ["localhost"]})
        net.egress.begin(1)
        assert await net.prints(f"curl -sS http://{host}:{server.port}/") == "hello"
        net.egress.end(1)
        [row] = net.rows
        assert (row.seq, row.host, row.port, row.verdict) == (1, host, server.port, "allowed")
        output = await net.run(f"curl -sS http://{host}:{other.port}/")
        assert output.end.exit_code
        assert other.heard == []


async def test_nothing_goes_out_but_through_the_proxy(network: Network) -> None:
    async with answering() as server:
        net = await network({"private": [f"host.test:{server.port}"]}, resolver=here)
        output = await net.run(f"curl -sS --noproxy '*' http://127.0.0.1:{server.port}")
        assert output.end.exit_code
        assert server.heard == []
        names = await net.prints("cut -d: -f1 /proc/net/dev | tail -n +3")
        assert names.split() == ["lo"]


LOOPBACK = [
    "127.0.0.1", "localhost", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "127.0.0.1.",
    "[::1]", "[::ffff:127.0.0.1]", "[0:0:0:0:0:ffff:7f00:1]", "0.0.0.0", "0", "[::]",
    "127.127.127.127", "１２７.0.0.1", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "169.254.169.254",
    "[fe80::1%25lo]", "[::127.0.0.1]", "LOCALHOST.",
]  # fmt: skip


async def test_no_spelling_of_this_machine_is_reached(network: Network) -> None:
    """Everything else is allowed, so that only where it leads can stop it."""
    async with answering(b"the host's own") as server:
        places = [f"{text.rstrip('.')}:{server.port}" for text in LOOPBACK if "%" not in text]
        net = await network({"allow": [each for each in places if each.isascii()], "rate": 0})
        for text in LOOPBACK:
            for way in ("", "--proxytunnel", f"--socks5-hostname 127.0.0.1:{PORT}"):
                shell = f"curl -sS --noproxy '' {way} 'http://{text}:{server.port}/'"
                output = await net.run(shell)
                assert "own" not in output.stdout, (text, way)
        assert server.heard == []
        assert {row.verdict for row in net.rows} == {"refused"}
        assert len(net.rows) > len(LOOPBACK)


async def test_a_redirect_into_a_private_range_is_judged_anew(network: Network) -> None:
    async with answering(b"the host's own") as inner:
        target = f"http://127.0.0.1:{inner.port}/"

        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nConnection: close\r\n")
            writer.write(b"Location: %s\r\n\r\n" % target.encode())

        async with serving(handle) as outer:
            net = await network({"private": [f"host.test:{outer.port}"]}, resolver=here)
            shell = f"curl -sSL --noproxy '' http://host.test:{outer.port}/"
            output = await net.run(shell)
            assert "is not allowed here" in output.stdout
            assert inner.heard == []
            await net.egress.close()
            verdicts = [(row.host, row.verdict) for row in net.rows]
            assert sorted(verdicts) == [("127.0.0.1", "refused"), ("host.test", "allowed")]


async def test_a_connection_for_one_host_leads_to_no_other(network: Network) -> None:
    """Host headers and further requests on a connection change nothing of where it leads."""
    async with answering(b"inner") as inner, answering(b"outer") as outer:
        net = await network({"private": [f"host.test:{outer.port}"]}, resolver=here)
        said = await net.prints(
            program(f"""
sock = socket.create_connection(("127.0.0.1", {PORT}))
request = "GET http://host.test:{outer.port}/ HTTP/1.1\\r\\nHost: 127.0.0.1:{inner.port}\\r\\n\\r\\n"
request += "GET http://127.0.0.1:{inner.port}/ HTTP/1.1\\r\\n\\r\\n"
sock.sendall(request.encode())
print(sock.makefile("rb").read().count(b"inner"))
""")
        )
        assert said == "0"
        assert inner.heard == []
        for head in outer.heard:
            assert f"Host: host.test:{outer.port}".encode() in head
            assert str(inner.port).encode() not in head


NONSENSE = {
    "TLS to the proxy": "\\x16\\x03\\x01",
    "no request": "GET\\r\\n\\r\\n",
    "a path": "GET / HTTP/1.1\\r\\n\\r\\n",
    "https in absolute form": "GET https://example.org/ HTTP/1.1\\r\\n\\r\\n",
    "no port": "CONNECT example.org HTTP/1.1\\r\\n\\r\\n",
    "port 0": "CONNECT example.org:0 HTTP/1.1\\r\\n\\r\\n",
    "a head without end": "GET http://example.org/ HTTP/1.1\\r\\nA: {'a' * 100000}",
}


@pytest.mark.parametrize("name", NONSENSE)
async def test_nonsense_said_to_the_proxy_is_answered(network: Network, name: str) -> None:
    net = await network({"allow": ["example.org"]})
    said = await net.prints(
        program(f"""
sock = socket.create_connection(("127.0.0.1", {PORT}))
sock.sendall(f"{NONSENSE[name]}".encode("latin-1"))
print(sock.makefile("rb").readline())
""")
    )
    assert said.startswith("b'HTTP/1.1 400 ")
    assert net.rows == []


async def test_the_proxy_outlives_programs_that_vanish(network: Network) -> None:
    async with serving(echo) as server, answering() as other:
        places = [f"127.0.0.1:{server.port}", f"host.test:{other.port}"]
        net = await network({"private": places, "rate": 0}, resolver=here)
        for _ in range(3):
            output = await net.run(
                program(f"""
import os, signal
socks = [proxied("127.0.0.1", {server.port}) for _ in range(30)]
for sock in socks[:10]:
    sock.sendall(bytes(1 << 16))
socks += [socket.create_connection(("127.0.0.1", {PORT})) for _ in range(10)]
os.kill(os.getpid(), signal.SIGKILL)
""")
            )
            assert output.end.exit_code == 128 + 9, output  # as the shell says it
        assert await net.prints(f"curl -sS http://host.test:{other.port}/") == "hello"


async def test_programs_find_the_proxy_by_their_variables(network: Network) -> None:
    net = await network(
        {"allow": ["example.org"]}, variables={"PIP_INDEX_URL": "https://example.org"}
    )
    said = await net.prints("env | grep -iE '_proxy|PIP_INDEX|NODE_USE' | sort")
    place = f"http://127.0.0.1:{PORT}"
    assert said.splitlines() == [
        f"HTTPS_PROXY={place}",
        f"HTTP_PROXY={place}",
        "NODE_USE_ENV_PROXY=1",
        "NO_PROXY=localhost,127.0.0.1,::1",
        "PIP_INDEX_URL=https://example.org",
        f"http_proxy={place}",
        f"https_proxy={place}",
        "no_proxy=localhost,127.0.0.1,::1",
    ]


async def test_without_isolation_no_proxy_is_offered(network: Network) -> None:
    """It would stand on this machine's own loopback, open to all of its users."""
    net = await network({"allow": ["example.org"]}, backend="process")
    said = await net.prints("env | grep -c 3181; true")
    assert said == "0"
