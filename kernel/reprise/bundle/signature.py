"""Signatures that minisign makes and checks: Ed25519 over the BLAKE2b of a bundle's manifest.

A bundle that is signed carries the public key too, so that anybody can tell whether the signature
fits; whose key it is, a reader knows by comparing it with one got from elsewhere. Key files are
minisign's own (https://jedisct1.github.io/minisign/, "File formats").
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from reprise.errors import BadBundle, UnavailableError, UsageError

_KEY: Final = b"Ed"
_PREHASHED: Final = b"ED"
_CHECKSUM: Final = b"B2"
_SCRYPT: Final = b"Sc"
_UNTRUSTED: Final = "untrusted comment: "
_TRUSTED: Final = "trusted comment: "
#: A key file is a few hundred bytes.
_FILE_BYTES: Final = 8 << 10
#: What minisign itself asks of scrypt; a file that asks for more is refused.
_SCRYPT_BYTES: Final = 1 << 30

AskPassword = Callable[[str], str]


@dataclass(frozen=True)
class PublicKey:
    """key_id: 8 bytes that minisign draws, by which files are told apart. raw: 32 bytes."""

    key_id: bytes
    raw: bytes

    @property
    def name(self) -> str:
        """The key id as minisign shows it."""
        return f"{int.from_bytes(self.key_id, 'little'):016X}"

    def __str__(self) -> str:
        """The key in one line, as it is given to others."""
        return base64.b64encode(_KEY + self.key_id + self.raw).decode("ascii")

    def to_file(self) -> bytes:
        return f"{_UNTRUSTED}minisign public key {self.name}\n{self}\n".encode("ascii")


@dataclass(frozen=True)
class SecretKey:
    """seed: the 32 bytes of the Ed25519 private key."""

    key_id: bytes
    seed: bytes

    @property
    def public(self) -> PublicKey:
        return PublicKey(self.key_id, self._private().public_key().public_bytes_raw())

    def sign(self, data: bytes, comment: str) -> bytes:
        """A signature file, the same each time it is made. Raises UsageError."""
        if not comment.isprintable():
            raise UsageError("The comment of a signature is one line of text.")
        key = self._private()
        signature = key.sign(hashlib.blake2b(data).digest())
        sealed = key.sign(signature + comment.encode("utf-8"))
        lines = (
            f"{_UNTRUSTED}signature from minisign secret key",
            base64.b64encode(_PREHASHED + self.key_id + signature).decode("ascii"),
            f"{_TRUSTED}{comment}",
            base64.b64encode(sealed).decode("ascii"),
        )
        return "".join(f"{line}\n" for line in lines).encode("utf-8")

    def _private(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(self.seed)


@dataclass(frozen=True)
class Signed:
    """A signature that fits. comment: what the signer says about it, signed as well."""

    key: PublicKey
    comment: str


def check_signature(signer: bytes, signature: bytes, prehash: bytes) -> Signed:
    """What the signature of a manifest says. Raises BadBundle when it does not fit."""
    try:
        key = _public_key(signer)
        lines = signature.decode("utf-8").split("\n")
        if len(lines) != 5 or lines[4] or not lines[2].startswith(_TRUSTED):
            raise ValueError("it is no signature of minisign's")
        comment = lines[2][len(_TRUSTED) :]
        raw, sealed = _decoded(lines[1], 74), _decoded(lines[3], 64)
        if raw[:2] != _PREHASHED or raw[2:10] != key.key_id:
            raise ValueError("it is of another kind or key")
        public = Ed25519PublicKey.from_public_bytes(key.raw)
        public.verify(raw[10:], prehash)
        public.verify(sealed, raw[10:] + comment.encode("utf-8"))
    except InvalidSignature as error:
        raise BadBundle(
            "its signature does not fit: the manifest or the signature was changed"
        ) from error
    except (ValueError, UnicodeError) as error:
        raise BadBundle(f"its signature cannot be read: {error}") from error
    return Signed(key, comment)


def read_public_key(named: str) -> PublicKey:
    """A public key given in one line, or by the path of minisign's file. Raises UsageError."""
    path = Path(named)
    try:
        if len(named) == 56 and named.startswith("RW"):
            return _public_key(f"{_UNTRUSTED}\n{named}\n".encode("ascii"))
        return _public_key(_read(path))
    except (ValueError, UnicodeError) as error:
        raise UsageError(f"{named} is no public key of minisign's: {error}.") from error


def read_secret_key(path: Path, ask: AskPassword | None) -> SecretKey:
    """A secret key of minisign's, its password asked for if it has one.

    Raises UsageError when it is none, the password is wrong, or there is nobody to ask.
    """
    try:
        raw = _decoded(_second_line(_read(path)), 158)
        kinds, salt = (raw[:2], raw[2:4], raw[4:6]), raw[6:38]
        ops, memory = (int.from_bytes(raw[at : at + 8], "little") for at in (38, 46))
        body = raw[54:]
        if kinds[0] != _KEY or kinds[2] != _CHECKSUM or kinds[1] not in (_SCRYPT, b"\0\0"):
            raise ValueError("it is of a kind that is not known")
        if kinds[1] == _SCRYPT:
            if ask is None:
                raise ValueError("it has a password, and there is no terminal to ask for it")
            stream = _stretched(ask(f"Password of {path}: "), salt, ops, memory, len(body))
            body = bytes(a ^ b for a, b in zip(body, stream, strict=True))
        key_id, secret, checksum = body[:8], body[8:72], body[72:]
        expected = hashlib.blake2b(_KEY + key_id + secret, digest_size=32).digest()
        # Without a password minisign leaves the checksum empty; the halves tell then.
        if kinds[1] == _SCRYPT and not hmac.compare_digest(checksum, expected):
            raise ValueError("its password is wrong, or it was changed")
        key = SecretKey(key_id, secret[:32])
        if key.public.raw != secret[32:]:
            raise ValueError("its two halves do not fit together")
    except (ValueError, UnicodeError) as error:
        raise UsageError(f"{path} is no secret key that can be used: {error}.") from error
    return key


def make_key(path: Path) -> PublicKey:
    """Write a new secret key without a password (readable by its owner only) and `path`.pub.

    Raises UsageError when either is there already.
    """
    key = SecretKey(os.urandom(8), os.urandom(32))
    secret = key.seed + key.public.raw
    checksum = hashlib.blake2b(_KEY + key.key_id + secret, digest_size=32).digest()
    raw = _KEY + b"\0\0" + _CHECKSUM + bytes(48) + key.key_id + secret + checksum
    text = f"{_UNTRUSTED}minisign secret key\n{base64.b64encode(raw).decode('ascii')}\n"
    public = path.with_name(f"{path.name}.pub")
    made: list[Path] = []
    for place, data, mode in (
        (path, text.encode("ascii"), 0o600),
        (public, key.public.to_file(), 0o644),
    ):
        try:
            handle = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            made.append(place)
            with os.fdopen(handle, "wb") as file:
                file.write(data)
        except OSError as error:
            # Half a key, or one without its other half, is of no use and would be in the way.
            for each in made:
                each.unlink()
            if isinstance(error, FileExistsError):
                raise UsageError(f"{place} is there already; a key is never replaced.") from error
            raise UnavailableError(
                f"{place} could not be written: {error.strerror}. No key was made."
            ) from error
    return key.public


def _public_key(data: bytes) -> PublicKey:
    raw = _decoded(_second_line(data), 42)
    if raw[:2] != _KEY:
        raise ValueError("it is of a kind that is not known")
    return PublicKey(raw[2:10], raw[10:])


def _second_line(data: bytes) -> str:
    lines = data.decode("utf-8").split("\n")
    if len(lines) < 2 or not lines[0].startswith(_UNTRUSTED.strip()):
        raise ValueError("it does not begin as minisign's files do")
    return lines[1].strip()


def _decoded(line: str, size: int) -> bytes:
    try:
        raw = base64.b64decode(line, validate=True)
    except binascii.Error as error:
        raise ValueError("it is not base64") from error
    if len(raw) != size:
        raise ValueError(f"it holds {len(raw)} bytes, not {size}")
    return raw


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_FILE_BYTES)
    except OSError as error:
        raise UsageError(f"The key {path} cannot be read: {error.strerror}.") from error


def _stretched(password: str, salt: bytes, ops: int, memory: int, size: int) -> bytes:
    """scrypt with libsodium's reading of its two limits (crypto_pwhash_scryptsalsa208sha256)."""
    ops = max(ops, 32768)
    if memory > _SCRYPT_BYTES or ops > 1 << 30:
        raise ValueError("its password would take more memory than minisign ever asks for")
    r = 8
    most = ops // (r * 4) if ops < memory // 32 else memory // (r * 128)
    log_n = 1
    while (1 << log_n) <= most // 2:
        log_n += 1
    p = 1 if ops < memory // 32 else max(1, (ops // 4) // (1 << log_n) // r)
    return hashlib.scrypt(
        password.encode("utf-8"),
        salt=salt,
        n=1 << log_n,
        r=r,
        p=p,
        maxmem=2 * _SCRYPT_BYTES - 2,  # the most that OpenSSL takes
        dklen=size,
    )
