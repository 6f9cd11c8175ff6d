"""Credentials that the proxy adds to requests: for which host, read when, and hidden in answers.

A sandbox never sees one: it is read on the host for each request, goes into one header of requests
to exactly the host it belongs to, over TLS, and is masked where the host's answer repeats it.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import quote

from reprise.egress.addresses import parse
from reprise.egress.exchange import Denied, Headers, Origin
from reprise.egress.policy import Rule, rule
from reprise.sandbox.network import HostSecret

#: Bytes of a credential.
_MOST: Final = 16 << 10
#: Shorter texts stand in answers by chance, and masking them would spoil those.
_LEAST_MASKED: Final = 8


@dataclass(frozen=True)
class Credential:
    """A header and its whole value, as it is sent. texts: what of it must not be shown."""

    header: bytes
    value: bytes = field(repr=False)
    texts: tuple[bytes, ...] = field(repr=False)


class Secrets:
    """The credentials of one environment."""

    def __init__(
        self, secrets: Iterable[HostSecret], environ: Mapping[str, str] = os.environ
    ) -> None:
        self._secrets: list[tuple[Rule, HostSecret]] = [
            (found, each) for each in secrets if (found := rule(each.host)) is not None
        ]
        self._environ = environ

    def concern(self, host: str, port: int) -> bool:
        """Whether some credential belongs to that host (normal) and port."""
        return any(each.fits(host, port) for each, _ in self._secrets)

    async def of(self, origin: Origin) -> tuple[Credential, ...]:
        """Those of one server, read now. Raises Denied: it has no TLS, or one cannot be read."""
        found = [each for fits, each in self._secrets if fits.fits(origin.host, origin.port)]
        if found and origin.scheme != "https" and not _is_loopback(origin.host):
            raise Denied(
                403,
                f"The proxy adds a credential to requests to {origin.host}, and does that over TLS "
                f"only. Ask for https://{origin.host} instead.",
            )
        return tuple([await asyncio.to_thread(self._read, each) for each in found])

    def _read(self, secret: HostSecret) -> Credential:
        kind, _, name = secret.source.partition(":")
        try:
            text = self._environ[name] if kind == "env" else _read_file(Path(name))
        except KeyError:
            raise _unreadable(secret, f"{name} is not set where the kernel runs") from None
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise _unreadable(secret, f"{name} cannot be read there: {reason}") from None
        text = text.strip()
        if not text or len(text) > _MOST or not (text.isascii() and text.isprintable()):
            # Another character could end the header, and begin one of its own.
            raise _unreadable(secret, f"what {name} holds is no line of printable ASCII")
        value = f"{secret.prefix}{text}".encode("ascii")
        return Credential(secret.header.encode("ascii"), value, _texts(secret, text))


def _unreadable(secret: HostSecret, reason: str) -> Denied:
    return Denied(
        502,
        f"The credential for {secret.host} is missing, so nothing was sent: {reason}. Whoever runs "
        "Reprise can set it (`reprise env show` lists where it is read from).",
    )


def _read_file(path: Path) -> str:
    # A pipe or a device would keep us waiting.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("it is no file")
        return file.read(_MOST + 1).decode("utf-8")


def _texts(secret: HostSecret, text: str) -> tuple[bytes, ...]:
    """What would give a credential away: itself, as it stands in JSON and URLs, and what HTTP's
    Basic scheme wraps in it."""
    plain = {text}
    if secret.prefix.strip().lower() == "basic":
        try:
            pair = base64.b64decode(text, validate=True).decode("utf-8")
            plain |= {pair, pair.partition(":")[2]}
        except (binascii.Error, UnicodeDecodeError):
            plain |= {text.partition(":")[2]}
    found = {
        form.encode()
        for each in plain
        for form in (each, json.dumps(each)[1:-1], quote(each), quote(each, safe=""))
    }
    return tuple(sorted((each for each in found if len(each) >= _LEAST_MASKED), key=len))[::-1]


def _is_loopback(host: str) -> bool:
    address = parse(host)
    return host == "localhost" if address is None else address.is_loopback


def with_credentials(headers: Headers, credentials: Iterable[Credential]) -> Headers:
    """Headers of a request with the credentials in place of what the sandbox sent there.

    The answer must be readable, so that it can be masked: no encoding is asked for.
    """
    credentials = tuple(credentials)
    if not credentials:
        return headers
    replaced = {each.header.lower() for each in credentials} | {b"accept-encoding"}
    return [
        *((name, value) for name, value in headers if name.lower() not in replaced),
        *((each.header, each.value) for each in credentials),
        (b"Accept-Encoding", b"identity"),
    ]


class Mask:
    """Replaces texts in a stream by as many asterisks, wherever they are cut."""

    def __init__(self, texts: Iterable[bytes]) -> None:
        self._texts = tuple(texts)
        self._held = b""

    @classmethod
    def of(cls, credentials: Iterable[Credential]) -> Mask:
        return cls(text for each in credentials for text in each.texts)

    def headers(self, headers: Headers) -> Headers:
        """Headers with their values masked."""
        return [(name, self.whole(value)) for name, value in headers]

    def whole(self, data: bytes) -> bytes:
        """A text by itself, such as a header's value."""
        for text in self._texts:
            data = data.replace(text, b"*" * len(text))
        return data

    def feed(self, data: bytes) -> bytes:
        """The next bytes of the stream; those that may begin a text are held back."""
        if not self._texts:
            return data
        data = self.whole(self._held + data)
        held = max(_begun(data, text) for text in self._texts)
        self._held = data[len(data) - held :]
        return data[: len(data) - held]

    def end(self) -> bytes:
        """What was held back, at the stream's end."""
        data, self._held = self._held, b""
        return data


def _begun(data: bytes, text: bytes) -> int:
    """How long the longest end of `data` is with which `text` begins."""
    for length in range(min(len(text) - 1, len(data)), 0, -1):
        if text.startswith(data[-length:]):
            return length
    return 0
