"""Programs in a sandbox use a host whose TLS the proxy opens as if it did not."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from reprise.egress.authority import Authority
from reprise.egress.connections import Egress
from reprise.egress.contract import NetworkRow
from reprise.egress.intercept import ReadingProxy
from reprise.sandbox.contract import GuestNetwork
from reprise.sandbox.network import parse_rules
from tests.fixtures.egress import Networked
from tests.fixtures.reading import HOSTS, Heard, Site, answer, site, trusting_hosts
from tests.fixtures.sandbox import PATIENCE, StartCells, quiet_kernel

KEY = "a-key-that-nobody-sees"
PYTHON = sys.executable

#: Each asks for URL (in its environment) and prints the body.
PROGRAMS = {
    "curl": 'curl -sS --fail "$URL"',
    "curl, SOCKS": 'curl -sS --fail --socks5-hostname "${HTTP_PROXY#http://}" "$URL"',
    "wget": 'wget -nv -O- "$URL"',
    "urllib": f"""{PYTHON} -c "
import os, urllib.request as u
print(u.urlopen(os.environ['URL']).read().decode(), end='')" """,
    "requests": f"""{PYTHON} -c "
import os, requests
print(requests.get(os.environ['URL']).text, end='')" """,
    "httpx": f"""{PYTHON} -c "
import os, httpx
print(httpx.get(os.environ['URL']).text, end='')" """,
    "urllib3, a pool of its own": f"""{PYTHON} -c "
import os, ssl, urllib3
http = urllib3.ProxyManager(os.environ['HTTPS_PROXY'], ssl_context=ssl.create_default_context())
print(http.request('GET', os.environ['URL']).data.decode(), end='')" """,
    "openssl": 'echo | openssl s_client -proxy "${HTTP_PROXY#http://}" -connect "${URL#https://}"'
    ' -servername host.test -verify_return_error -brief 2>&1 | grep -o "Verification: OK"; echo hello',
    "node, with an agent": """node -e '
const http = require("http"), tls = require("tls"), proxy = new URL(process.env.HTTPS_PROXY);
const url = new URL(process.env.URL);
http.request({host: proxy.hostname, port: proxy.port, method: "CONNECT", path: url.host})
  .on("connect", (_, socket) => {
    const s = tls.connect({socket, servername: url.hostname}, () => {
      s.write(`GET / HTTP/1.1\\r\\nHost: ${url.host}\\r\\nConnection: close\\r\\n\\r\\n`);
      let all = ""; s.on("data", d => all += d);
      s.on("end", () => process.stdout.write(all.split("\\r\\n\\r\\n")[1]));
    });
  }).end()' """,
}


@dataclass
class Net:
    """A sandbox whose connections to `host.test` are read."""

    guest: Networked
    host: Site
    url: str


async def _here(_host: str) -> list[str]:
    return ["127.0.0.1"]


async def _answers(heard: Heard, writer: asyncio.StreamWriter) -> bool:
    writer.write(answer(b"hello\n"))
    return heard.headers.get("connection") != "close"


@pytest.fixture
async def net(start_cells: StartCells) -> AsyncIterator[Net]:
    async with site(_answers) as host:
        place = f"host.test:{host.port}"
        secret = {"host": place, "header": "X-Key", "prefix": "", "source": "env:KEY"}
        rules = parse_rules({"private": [place], "secrets": [secret]})
        authority = Authority()
        proxy = ReadingProxy(rules, authority, environ={"KEY": KEY}, trusted=trusting_hosts)
        rows: list[NetworkRow] = []
        said: list[tuple[str, str]] = []
        proxy.say = lambda code, text: said.append((code, text))
        egress = Egress(rules, rows.append, resolver=_here, interceptor=proxy)
        cells = await start_cells(
            "bubblewrap",
            kernel=quiet_kernel(),
            ready=False,
            network=GuestNetwork(authority=authority.certificate),
        )
        egress.attach(cells.guest)
        await asyncio.wait_for(cells.guest.ready(), PATIENCE)
        egress.begin(4)
        yield Net(Networked(cells, egress, rows, said), host, f"https://{place}")
        await egress.close()


@pytest.mark.parametrize("program", PROGRAMS)
async def test_a_program_reaches_the_host_and_the_key_only_the_host(net: Net, program: str) -> None:
    if not shutil.which(PROGRAMS[program].split()[0]):
        pytest.skip("it is not installed here")
    assert (await net.guest.prints(PROGRAMS[program], URL=net.url)).endswith("hello")
    if program != "openssl":
        assert [heard.headers["x-key"] for heard in net.host.heard] == [KEY]
        net.guest.egress.end(4)
        [row] = net.guest.rows
        assert (row.seq, row.host, row.verdict) == (4, "host.test", "allowed")
        assert row.detail == {"method": "GET", "url": f"{net.url}/", "status": 200}
    shown = await net.guest.run(
        'env; cat "$SSL_CERT_FILE" "$NODE_EXTRA_CA_CERTS"; ls -la /proc/*/fd'
    )
    assert KEY not in shown.stdout
    assert "PRIVATE KEY" not in shown.stdout


async def test_many_requests_of_one_program_use_one_connection(net: Net) -> None:
    code = """import os, requests
with requests.Session() as s:
    for n in range(20): assert s.get(os.environ['URL'] + f'/{n}').text == 'hello\\n'"""
    await net.guest.prints(f'{PYTHON} -c "{code}"', URL=net.url)
    assert len(net.host.heard) == 20
    assert net.host.connections == 1


async def test_pip_installs_from_an_index_that_is_read(
    start_cells: StartCells, tmp_path: Path
) -> None:
    """And uv: both through the proxy, with the certificates that they are pointed at."""
    wheel = _wheel(tmp_path)

    async def index(heard: Heard, writer: asyncio.StreamWriter) -> bool:
        if heard.target == "/simple/tiny-thing/":
            page = f'<a href="/files/{wheel.name}">{wheel.name}</a>'.encode()
            writer.write(answer(page, headers={"Content-Type": "text/html"}))
        elif heard.target == f"/files/{wheel.name}":
            writer.write(answer(wheel.read_bytes()))
        else:
            writer.write(answer(b"no", "404 Not Found"))
        return True

    async with site(index) as host:
        place = f"host.test:{host.port}"
        secret = {"host": place, "header": "Authorization", "prefix": "", "source": "env:KEY"}
        rules = parse_rules({"private": [place], "secrets": [secret]})
        authority = Authority()
        proxy = ReadingProxy(rules, authority, environ={"KEY": KEY}, trusted=trusting_hosts)
        egress = Egress(rules, lambda _row: None, resolver=_here, interceptor=proxy)
        url = f"https://{place}/simple/"
        cells = await start_cells(
            "bubblewrap",
            kernel=quiet_kernel(),
            ready=False,
            network=GuestNetwork(
                authority=authority.certificate,
                index={"PIP_INDEX_URL": url, "UV_DEFAULT_INDEX": url},
            ),
        )
        egress.attach(cells.guest)
        await asyncio.wait_for(cells.guest.ready(), PATIENCE)
        guest = Networked(cells, egress, [], [])
        uv = shutil.which("uv", path=str(Path(PYTHON).parent)) or "uv"
        for command in (
            f"{PYTHON} -m pip install --no-cache-dir --target /tmp/a tiny-thing",
            f"{uv} pip install --python {PYTHON} --target /tmp/b tiny-thing",
        ):
            await guest.prints(command)
        assert await guest.prints("ls /tmp/a/tiny_thing.py /tmp/b/tiny_thing.py")
        await egress.close()
    assert {heard.headers["authorization"] for heard in host.heard} == {KEY}


def _wheel(folder: Path) -> Path:
    """A wheel with one module in it."""
    import zipfile

    path = folder / "tiny_thing-1.0-py3-none-any.whl"
    info = "tiny_thing-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("tiny_thing.py", "there = True\n")
        wheel.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-thing\nVersion: 1.0\n"
        )
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")
    return path


@pytest.mark.skipif(shutil.which("git") is None, reason="no git here")
async def test_git_clones_from_a_host_that_is_read(start_cells: StartCells, tmp_path: Path) -> None:
    """Over git's own protocol on HTTP, served as plain files."""
    work, bare = tmp_path / "work", tmp_path / "repo.git"
    work.mkdir()
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@t", "-c", "init.defaultBranch=main"]
    (work / "a.txt").write_text("from git\n")
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"]):
        subprocess.run([*git, *command], cwd=work, check=True)
    subprocess.run([*git, "clone", "-q", "--bare", work, bare], check=True)
    subprocess.run([*git, "update-server-info"], cwd=bare, check=True)

    async def files(heard: Heard, writer: asyncio.StreamWriter) -> bool:
        path = (tmp_path / heard.target.partition("?")[0].lstrip("/")).resolve()
        found = path.is_file() and path.is_relative_to(bare)
        writer.write(answer(path.read_bytes()) if found else answer(b"", "404 Not Found"))
        return True

    async with site(files) as host:
        place = f"host.test:{host.port}"
        secret = {"host": place, "header": "X-Key", "prefix": "", "source": "env:KEY"}
        rules = parse_rules({"private": [place], "secrets": [secret]})
        authority = Authority()
        proxy = ReadingProxy(rules, authority, environ={"KEY": KEY}, trusted=trusting_hosts)
        egress = Egress(rules, lambda _row: None, resolver=_here, interceptor=proxy)
        cells = await start_cells(
            "bubblewrap",
            kernel=quiet_kernel(),
            ready=False,
            network=GuestNetwork(authority=authority.certificate),
        )
        egress.attach(cells.guest)
        await asyncio.wait_for(cells.guest.ready(), PATIENCE)
        guest = Networked(cells, egress, [], [])
        shown = await guest.prints(
            f"git clone -q https://{place}/repo.git /tmp/r && cat /tmp/r/a.txt"
        )
        assert shown == "from git"
        await egress.close()


async def test_a_program_that_trusts_nobody_it_is_told_to_is_told_why(net: Net) -> None:
    """It sees an error of certificates; the session's notices say what to do."""
    shown = await net.guest.run(
        'env -u SSL_CERT_FILE -u CURL_CA_BUNDLE curl -sS --cacert /etc/ssl/certs/ca-certificates.crt "$URL"',
        URL=net.url,
    )
    assert shown.end.exit_code == 60  # "peer certificate cannot be authenticated"
    assert [code for code, _ in net.guest.said] == ["network-not-trusted"]
    assert "SSL_CERT_FILE" in net.guest.said[0][1]
    assert net.host.heard == []


async def test_a_program_that_obeys_no_proxy_has_no_other_way_out(net: Net) -> None:
    shown = await net.guest.run(
        f"""{PYTHON} -c "
import socket
socket.create_connection(('host.test', 443), timeout=5)" """
    )
    assert shown.end.exit_code != 0
    assert "gaierror" in shown.stderr
    assert net.host.connections == 0


async def test_the_system_is_still_trusted_for_hosts_that_are_not_read(net: Net) -> None:
    count = 'grep -c "BEGIN CERTIFICATE"'
    system = await net.guest.prints(f"{count} /etc/ssl/certs/ca-certificates.crt")
    both = await net.guest.prints(f'{count} "$SSL_CERT_FILE"')
    assert int(both) == int(system) + 1
    assert HOSTS.certificate not in await net.guest.prints('cat "$SSL_CERT_FILE"')
