"""The sandbox's own authority: what clients accept, for one host each, and nowhere in a file."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import gc
import os
import shutil
import ssl
import subprocess
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import Encoding

from reprise.egress import authority as authorities
from reprise.egress.authority import Authority
from tests.fixtures.sandbox import PATIENCE

HOSTS = ["host.test", "127.0.0.2", "::1", "_under.score.test", f"{'long-' * 12}a.{'b' * 60}.test"]


def written(authority: Authority, host: str, folder: Path) -> tuple[Path, Path]:
    own, leaf = folder / "authority.pem", folder / "leaf.pem"
    own.write_text(authority.certificate)
    leaf.write_bytes(authority.leaf(host).public_bytes(Encoding.PEM))
    return own, leaf


@pytest.mark.parametrize("host", HOSTS)
def test_openssl_accepts_it_by_its_strictest_rules(host: str, tmp_path: Path) -> None:
    own, leaf = written(Authority(), host, tmp_path)
    name = ["-verify_ip", host] if host in ("127.0.0.2", "::1") else ["-verify_hostname", host]
    command = ["openssl", "verify", "-x509_strict", *name, "-purpose", "sslserver"]
    shown = subprocess.run([*command, "-CAfile", own, leaf], capture_output=True, text=True)
    assert shown.returncode == 0, shown.stderr


def test_openssl_refuses_it_for_another_host(tmp_path: Path) -> None:
    own, leaf = written(Authority(), "host.test", tmp_path)
    for name in ("other.test", "sub.host.test"):
        command = ["openssl", "verify", "-verify_hostname", name, "-CAfile", own, leaf]
        assert subprocess.run(command, capture_output=True).returncode != 0


def test_a_leaf_signs_nothing(tmp_path: Path) -> None:
    authority = Authority()
    leaf = authority.leaf("host.test")
    constraints = leaf.extensions.get_extension_for_class(x509.BasicConstraints)
    assert constraints.critical
    assert not constraints.value.ca
    assert not leaf.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign
    own = x509.load_pem_x509_certificate(authority.certificate.encode())
    assert own.extensions.get_extension_for_class(x509.BasicConstraints).value.path_length == 0


def test_each_sandbox_has_another_one() -> None:
    one, two = Authority(), Authority()
    assert one.certificate != two.certificate
    trusting_one = x509.load_pem_x509_certificate(one.certificate.encode())
    with pytest.raises(InvalidSignature):
        two.leaf("host.test").verify_directly_issued_by(trusting_one)
    one.leaf("host.test").verify_directly_issued_by(trusting_one)


def test_no_key_is_ever_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is open while a certificate is loaded, none of it is a file of a file system."""
    opened: list[str] = []
    load = ssl.SSLContext.load_cert_chain

    def noted(self: ssl.SSLContext, path: Path, *more: object) -> None:
        opened.append(os.readlink(path))
        load(self, path, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", noted)
    monkeypatch.chdir(tmp_path)
    before = set(os.listdir("/proc/self/fd"))
    Authority().context("host.test")
    gc.collect()
    assert [path.partition(":")[0] for path in opened] == ["/memfd"]
    assert set(os.listdir("/proc/self/fd")) <= before
    assert list(tmp_path.iterdir()) == []


def test_a_host_keeps_its_certificate_until_it_is_nearly_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    authority = Authority()
    first = authority.context("host.test")
    assert authority.context("host.test") is first
    later = dt.datetime.now(dt.UTC) + dt.timedelta(days=370)
    monkeypatch.setattr(authorities, "_now", lambda: later)
    assert authority.context("host.test") is not first


def test_no_number_of_hosts_fills_the_memory() -> None:
    authority = Authority()
    for number in range(300):
        authority.context(f"h{number}.test")
    assert len(authority._contexts) == 256


GO = """
package main
import ("crypto/x509"; "encoding/pem"; "os"; "fmt")
func main() {
  own, _ := os.ReadFile(os.Args[1]); leaf, _ := os.ReadFile(os.Args[2])
  pool := x509.NewCertPool(); pool.AppendCertsFromPEM(own)
  block, _ := pem.Decode(leaf); found, err := x509.ParseCertificate(block.Bytes)
  if err == nil { _, err = found.Verify(x509.VerifyOptions{Roots: pool, DNSName: os.Args[3]}) }
  if err != nil { fmt.Println(err); os.Exit(1) }
}
"""
NODE = """
const tls = require('tls'), fs = require('fs');
const [own, port, host] = process.argv.slice(1);
const s = tls.connect({host: '127.0.0.1', port: +port, servername: host, ca: fs.readFileSync(own)},
  () => { console.log(s.authorized, s.getProtocol()); s.end(); });
s.on('error', error => { console.log(error.code); process.exit(1); });
"""


@pytest.mark.skipif(shutil.which("go") is None, reason="no Go here")
def test_go_accepts_it(tmp_path: Path) -> None:
    own, leaf = written(Authority(), "host.test", tmp_path)
    (tmp_path / "main.go").write_text(GO)
    env = {"HOME": str(tmp_path), "GOCACHE": str(tmp_path / "cache"), "PATH": os.environ["PATH"]}
    for host, code in (("host.test", 0), ("other.test", 1)):
        command = ["go", "run", "main.go", own, leaf, host]
        shown = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
        assert shown.returncode == code, shown.stdout + shown.stderr


@pytest.mark.skipif(shutil.which("node") is None, reason="no Node here")
async def test_node_accepts_it(tmp_path: Path) -> None:
    authority = Authority()
    own, _ = written(authority, "host.test", tmp_path)

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            await reader.read()
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=authority.context("host.test"))
    async with server:
        port = str(server.sockets[0].getsockname()[1])
        for host, said in (("host.test", "true TLSv1.3"), ("other.test", "")):
            process = await asyncio.create_subprocess_exec(
                *("node", "-e", NODE, str(own), port, host), stdout=asyncio.subprocess.PIPE
            )
            shown, _ = await asyncio.wait_for(process.communicate(), PATIENCE)
            assert shown.decode().startswith(said)
            assert (process.returncode == 0) == bool(said)
