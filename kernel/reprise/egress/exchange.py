"""A request and a response as they pass the proxy: what is refused, changed, recorded (pure).

Nothing that a header says is recorded of a request; of a response its head is, without the values
of headers that carry secrets (`stored_headers`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, quote, urlsplit

from reprise.egress.policy import NoHost, bracketed, normal_host, place
from reprise.log.model import canonical, sha256_hex

#: As h11 has them: names and values as bytes, in order, names as they were written.
Headers = Sequence[tuple[bytes, bytes]]

#: What stands in a recorded head in place of a secret.
NOT_RECORDED: Final = "not-recorded"

#: Characters of a URL that people are shown.
_SHOWN: Final = 2_000

#: Between two neighbours only (RFC 9110, 7.6.1; Proxy-Connection was never defined), and Alt-Svc,
#: which would lead to other ports and protocols.
_HOP: Final = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"transfer-encoding",
        b"upgrade",
        b"alt-svc",
    }
)
#: Not taken away because a Connection header names them: the framing is ours to say.
_KEPT: Final = frozenset({b"host", b"content-length", b"trailer"})
#: A record must hold the answer itself, not that somebody had it already.
_CONDITIONS: Final = frozenset({b"if-none-match", b"if-modified-since"})

_SECRET: Final = re.compile(
    r"token|secret|passw|signature|credential|(api|access|private)[-_]?key"
    r"|auth(?!or(?!i[sz]))|session|jwt|csrf|xsrf",
    re.IGNORECASE,
)
#: Of a query, where names are shorter.
_SECRET_WORDS: Final = frozenset({"key", "sig", "sid", "code", "pwd", "pass"})
#: They say how to authenticate, not with what.
_NO_SECRET: Final = frozenset({"www-authenticate", "access-control-allow-credentials"})

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


class Denied(Exception):
    """The proxy does not pass this request on; the message is the sentence for the program."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


@dataclass(frozen=True)
class Head:
    """Status line and headers of an answer, as they go to the program.

    trailers: what stands behind a body that came without a length.
    """

    status: int
    reason: str
    headers: Headers
    trailers: Headers = ()

    @property
    def length(self) -> int | None:
        """The length of the body as its headers say it; h11 has checked them."""
        for name, value in self.headers:
            if name.lower() == b"content-length":
                return int(value)
        return None


@dataclass(frozen=True)
class Origin:
    """Which server a request is for. host: normal (`policy.normal_host`)."""

    scheme: str
    host: str
    port: int

    @property
    def authority(self) -> str:
        """As a Host header names it."""
        if self.port == _DEFAULT_PORTS[self.scheme]:
            return bracketed(self.host)
        return place(self.host, self.port)

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}"


@dataclass(frozen=True)
class Asked:
    """A request that may be passed on.

    target: path and query, or "*".  headers: what is passed on, without Host.
    range: the Range header's value without spaces, "" for none.  has_body: it may be empty.
    chunked: a body comes without a length.
    """

    origin: Origin
    method: str
    target: str
    headers: Headers
    range: str
    has_body: bool
    chunked: bool

    @property
    def url(self) -> str:
        return f"{self.origin}{self.target}"

    @property
    def repeatable(self) -> bool:
        """Whether asking twice does no more than asking once, and can be done."""
        return not self.has_body and self.method in ("GET", "HEAD", "OPTIONS")

    def key(self, body_sha256: str) -> str:
        """Under which the answer is recorded; the values stay secret, whatever they are."""
        return sha256_hex(canonical([self.method, self.url, self.range, body_sha256]))


def asked(origin: Origin, method: str, target: str, headers: Headers, *, records: bool) -> Asked:
    """The request as it is passed on. Raises Denied. records: whether its answer is recorded."""
    if method == "CONNECT":
        raise Denied(501, f"A tunnel within the connection to {origin} cannot be read.")
    if method == "TRACE":
        raise Denied(501, "TRACE is not passed on: it would show what the proxy adds.")
    names = {name.lower(): value for name, value in headers}
    if b"websocket" in names.get(b"upgrade", b"").lower():
        raise Denied(
            501,
            f"A websocket to {origin.host} is refused: this environment's proxy reads what is said "
            "to that host, to record it or to add a credential, and can do so for requests with "
            "an answer only.",
        )
    target = _target(origin, target)
    if b"host" in names and not _names(names[b"host"], origin):
        raise _misdirected(origin)
    return Asked(
        origin,
        method,
        target,
        _passed_on(headers, {b"host", b"expect"} | (_CONDITIONS if records else set())),
        b",".join(value for name, value in headers if name.lower() == b"range")
        .replace(b" ", b"")
        .decode("latin-1"),
        has_body=b"content-length" in names or b"transfer-encoding" in names,
        chunked=b"transfer-encoding" in names,
    )


def _target(origin: Origin, target: str) -> str:
    if target.startswith("/") or target == "*":
        return target
    try:
        parts = urlsplit(target)
        port = parts.port or _DEFAULT_PORTS.get(parts.scheme)
        same = (
            parts.scheme == origin.scheme
            and normal_host(parts.hostname or "") == origin.host
            and port == origin.port
        )
    except (ValueError, NoHost):
        raise Denied(400, "This is no URL that can be asked for.") from None
    if not same:
        raise _misdirected(origin)
    return (parts.path or "/") + (f"?{parts.query}" if "?" in target.partition("#")[0] else "")


def _names(host: bytes, origin: Origin) -> bool:
    """Whether a Host header names this server; one without a port leaves that to the connection."""
    name, colon, port = host.decode("latin-1").rpartition(":")
    if not colon or port.endswith("]"):
        name, port = host.decode("latin-1"), ""
    try:
        return normal_host(name) == origin.host and port in ("", str(origin.port))
    except NoHost:
        return False


def _misdirected(origin: Origin) -> Denied:
    return Denied(
        421,
        f"This connection was opened to {origin}, and the request on it names another host. Open "
        "a connection to that host instead.",
    )


def _passed_on(headers: Headers, without: Iterable[bytes] = ()) -> Headers:
    nominated = {
        word.strip().lower()
        for name, value in headers
        if name.lower() == b"connection"
        for word in value.split(b",")
    }
    dropped = (_HOP | nominated - _KEPT) | set(without)
    return [(name, value) for name, value in headers if name.lower() not in dropped]


def response_headers(headers: Headers) -> Headers:
    """Those of a host's response that are passed on."""
    return _passed_on(headers)


def stored_headers(headers: Headers) -> tuple[tuple[str, str], ...]:
    """Those of a response, or its trailers, as they are recorded."""
    return tuple(
        (name.decode("latin-1"), _stored(name.decode("latin-1").lower(), value.decode("latin-1")))
        for name, value in headers
    )


def _stored(name: str, value: str) -> str:
    if name in ("set-cookie", "set-cookie2"):
        # Which cookies there are is part of what a program sees; what is in them is a credential.
        cookie, semicolon, rest = value.partition(";")
        return f"{cookie.partition('=')[0]}={NOT_RECORDED}{semicolon}{rest}"
    if name == "location":
        return value
    return NOT_RECORDED if _SECRET.search(name) and name not in _NO_SECRET else value


def shown_url(url: str) -> str:
    """A URL for people: without what a query's names say is secret, and not without end."""
    base, mark, query = url.partition("?")
    if mark:
        parts = []
        for part in query.split("&"):
            name, equals, _ = part.partition("=")
            known = "".join(each for each, _ in parse_qsl(f"{name}=1")[:1]).lower()
            secret = equals and (_SECRET.search(known) or known in _SECRET_WORDS)
            parts.append(f"{name}={quote(NOT_RECORDED)}" if secret else part)
        base += "?" + "&".join(parts)
    return base if len(base) <= _SHOWN else f"{base[:_SHOWN]}…"
