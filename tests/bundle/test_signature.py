"""Signatures are minisign's: it makes what is checked here, and checks what is made here."""

from __future__ import annotations

import base64
import hashlib
import io
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from reprise.bundle import layout
from reprise.bundle.archive import MANIFEST, ArchiveReader, manifest_line
from reprise.bundle.load import check_bundle
from reprise.bundle.signature import (
    SecretKey,
    check_signature,
    make_key,
    read_public_key,
    read_secret_key,
)
from reprise.bundle.source import Spooled
from reprise.errors import BadBundle, UsageError
from tests.bundle.forge import one_cell, put_together

# Made by minisign 0.11: keys without and with a password ("horse"), a signature of b"data".
PLAIN = """\
untrusted comment: minisign encrypted secret key
RWQAAEIyAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAgV0S5oikzCf4PcrW2CmN0GA2gQDKMleQvoVCaVNNX6NnBc/uP6+oPKszJzioDQ6r5L7xe/rmFsO5dCPt9bfFAh8YGUjFde/8AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=
"""
PLAIN_PUBLIC = """\
untrusted comment: minisign public key 27CCA488E6125D81
RWSBXRLmiKTMJ6szJzioDQ6r5L7xe/rmFsO5dCPt9bfFAh8YGUjFde/8
"""
LOCKED = """\
untrusted comment: minisign encrypted secret key
RWRTY0IyfWU3jcgjaQ6TyDjIupWQeNzRUlMdtVKwjKaAysm/CdUAAAACAAAAAAAAAEAAAAAAJ/I+zXCFt5695l6oeFBzKk9oybAP9oTua5JiAdpzq5nYU/KyEV+DqL9FEqowsbNc1mSQRnqMs0SG9MI8en+3bVqQ5W9Hmv/rMo8Qka7U09CdeCAqjiG0mdsSvjqhZ8+AaJfB8LjWM88=
"""
LOCKED_PUBLIC = "RWRlLf+H+YsE4g0JU84/NRLxMXW+6ywisO38HO8jpKI+iKrA6BczF2DV"
SIGNATURE = """\
untrusted comment: signature from minisign secret key
RUSBXRLmiKTMJ958z+ZY4w0NAcEVdlL4SsCHlNxRvi7b5ttN+LoOSRa+4a5hVBqZawI/fT3sn5yZdQ+K5qwpkmKa0X7hRUAQgww=
trusted comment: by minisign
YKq+EJsZKCpAGyQwFlDR+UjowxvXFmLL3KiU9zMSUnmqI141t5+LRDsdKhfxEjx6v444DEN93Xl11yDVY5eDBw==
"""
DATA = hashlib.blake2b(b"data").digest()


def key(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "key"
    path.write_text(text)
    return path


def test_what_minisign_signed_is_checked() -> None:
    signed = check_signature(PLAIN_PUBLIC.encode(), SIGNATURE.encode(), DATA)
    assert signed.comment == "by minisign"
    assert signed.key.name == "27CCA488E6125D81"
    assert signed.key == read_public_key(str(signed.key))


def test_keys_of_minisign_are_read(tmp_path: Path) -> None:
    plain = read_secret_key(key(tmp_path, PLAIN), None)
    assert str(plain.public) == PLAIN_PUBLIC.splitlines()[1]
    # Ed25519 is deterministic, so this is what minisign wrote, to the last byte.
    assert plain.sign(b"data", "by minisign").decode() == SIGNATURE


def test_a_key_with_a_password_asks_for_it(tmp_path: Path) -> None:
    path = key(tmp_path, LOCKED)
    assert str(read_secret_key(path, lambda _: "horse").public) == LOCKED_PUBLIC
    with pytest.raises(UsageError, match="password is wrong"):
        read_secret_key(path, lambda _: "mule")
    with pytest.raises(UsageError, match="no terminal"):
        read_secret_key(path, None)


def test_a_new_key_is_its_owners_alone_and_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "mine"
    public = make_key(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_secret_key(path, None).public == public
    assert read_public_key(str(tmp_path / "mine.pub")) == public == read_public_key(str(public))
    before = path.read_bytes()
    with pytest.raises(UsageError, match="is there already"):
        make_key(path)
    assert path.read_bytes() == before


@pytest.mark.skipif(shutil.which("minisign") is None, reason="minisign is not installed")
def test_minisign_checks_a_bundle_without_reprise(tmp_path: Path) -> None:
    bundle, _ = signed_bundle(read_secret_key(key(tmp_path, PLAIN), None))
    (tmp_path / "bundle").write_bytes(bundle)
    subprocess.run(["tar", "xf", "bundle"], cwd=tmp_path, check=True)
    subprocess.run(["sha256sum", "-c", "--quiet", MANIFEST], cwd=tmp_path, check=True)
    line = ["minisign", "-V", "-m", MANIFEST, "-p", layout.SIGNER]
    subprocess.run(line, cwd=tmp_path, check=True)


def signed_bundle(secret: SecretKey, comment: str = "mine") -> tuple[bytes, bytes]:
    """A signed bundle, and its manifest."""
    parts = one_cell().members()
    manifest = b"".join(
        manifest_line(hashlib.sha256(content).hexdigest(), name) for name, content in parts
    )
    after = [
        (layout.SIGNER, secret.public.to_file()),
        (layout.SIGNATURE, secret.sign(manifest, comment)),
    ]
    return put_together(parts, after=after), manifest


def test_a_signed_bundle_tells_whose_it_is(tmp_path: Path) -> None:
    mine = read_secret_key(key(tmp_path, PLAIN), None)
    bundle, _ = signed_bundle(mine, "ü, signed")
    seal = check_bundle(Spooled(io.BytesIO(bundle))).seal
    assert seal.signed is not None
    assert (seal.signed.key, seal.signed.comment) == (mine.public, "ü, signed")
    check_bundle(Spooled(io.BytesIO(bundle)), signers=(mine.public,))
    other = make_key(tmp_path / "other")
    check_bundle(Spooled(io.BytesIO(bundle)), signers=(other, mine.public))
    with pytest.raises(BadBundle, match=f"signed by {mine.public.name}.*not by {other.name}"):
        check_bundle(Spooled(io.BytesIO(bundle)), signers=(other,))
    with pytest.raises(BadBundle, match="not signed"):
        check_bundle(Spooled(io.BytesIO(one_cell().bundle())), signers=(mine.public,))


def test_a_signature_of_something_else_is_refused(tmp_path: Path) -> None:
    mine = read_secret_key(key(tmp_path, PLAIN), None)
    parts = one_cell().members()
    _, manifest = signed_bundle(mine)
    good = mine.sign(manifest, "mine")
    lines = good.decode().split("\n")
    other = read_public_key(str(make_key(tmp_path / "other")))

    def bits(line: str, at: int) -> str:
        raw = bytearray(base64.b64decode(line))
        raw[at] ^= 1
        return base64.b64encode(raw).decode()

    def with_line(number: int, text: str) -> bytes:
        return "\n".join([*lines[:number], text, *lines[number + 1 :]]).encode()

    wrong = [
        mine.sign(manifest + b"x", "mine"),
        with_line(2, "trusted comment: yours"),
        with_line(2, "comment: mine"),
        with_line(1, bits(lines[1], 0)),  # of another kind
        with_line(1, bits(lines[1], 5)),  # of another key
        with_line(1, bits(lines[1], 40)),
        with_line(3, bits(lines[3], 3)),
        with_line(3, "?"),
        with_line(3, lines[3][:-4]),
        good + b"more\n",
        good[:-1],
        b"\xff\xfe\n" * 4,
        b"",
    ]
    for signature in wrong:
        after = [(layout.SIGNER, mine.public.to_file()), (layout.SIGNATURE, signature)]
        with pytest.raises(BadBundle, match="signature"):
            check_bundle(Spooled(io.BytesIO(put_together(parts, after=after))))
    after = [(layout.SIGNER, other.to_file()), (layout.SIGNATURE, good)]
    with pytest.raises(BadBundle, match="signature"):
        check_bundle(Spooled(io.BytesIO(put_together(parts, after=after))))


def test_the_sums_of_a_reader_are_those_of_the_manifest() -> None:
    data = one_cell().bundle()
    reader = ArchiveReader(io.BytesIO(data), len(data))
    while (member := reader.next()) is not None and member.name != MANIFEST:
        reader.whole(len(data))
    sums = reader.sums()
    manifest = reader.whole(len(data))
    assert sums.size == len(manifest)
    assert sums.sha256 == hashlib.sha256(manifest).hexdigest()
    assert sums.blake2b == hashlib.blake2b(manifest).digest()


@pytest.mark.parametrize("text", ["", "x", PLAIN_PUBLIC, PLAIN[:-30], SIGNATURE, "\0" * 300])
def test_what_is_no_key_is_refused(tmp_path: Path, text: str) -> None:
    path = key(tmp_path, text)
    with pytest.raises(UsageError, match="no secret key"):
        read_secret_key(path, None)
    if text != PLAIN_PUBLIC:
        with pytest.raises(UsageError, match="no public key"):
            read_public_key(str(path))
