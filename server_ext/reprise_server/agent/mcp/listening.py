"""`reprise mcp --http`: streamable HTTP behind a bearer token, for named hosts only."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import json
import re
import socket
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import uvicorn
from mcp.server import Server
from mcp.server.transport_security import TransportSecuritySettings

from reprise.errors import UnavailableError, UsageError

PATH: Final = "/mcp"
#: Where the token is read from unless a file is named.
VARIABLE: Final = "REPRISE_MCP_TOKEN"
#: Characters of a token: it is the only thing that keeps strangers out.
_SHORTEST: Final = 32
_LONGEST: Final = 4_096
_BODY: Final = 4 << 20
_CLIENTS: Final = 64

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]


@dataclass(frozen=True)
class Address:
    """host: a name or an address as a socket takes it.  port: 0 for any that is free."""

    host: str
    port: int

    @property
    def local(self) -> bool:
        """Whether only this machine reaches it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def address(text: str) -> Address:
    """HOST:PORT, an IPv6 address in brackets. Raises UsageError."""
    found = re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})", text)
    if found is None or int(found[2]) > 65_535:
        raise UsageError(f"{text!r} is no HOST:PORT, such as 127.0.0.1:8765.")
    return Address(found[1].strip("[]"), int(found[2]))


def token(file: Path | None, environ: Mapping[str, str]) -> str:
    """The bearer token, from a file or the variable. Raises UsageError, never with a part of it."""
    if file is not None:
        where = str(file)
        try:
            if file.stat().st_mode & 0o077:
                raise UsageError(f"{where} can be read by others: chmod 600 {where}")
            found = file.read_text("ascii").strip()
        except (OSError, ValueError) as error:
            raise UsageError(f"The token's file {where} cannot be read: {error}") from error
    else:
        where, found = VARIABLE, environ.get(VARIABLE, "").strip()
    if not found:
        raise UsageError(
            f"Over HTTP a bearer token is needed: --token-file FILE or {VARIABLE}. One is made by: "
            "python3 -c 'import secrets; print(secrets.token_urlsafe(32))'"
        )
    if not _SHORTEST <= len(found) <= _LONGEST or not re.fullmatch(r"[A-Za-z0-9._~+/-]+=*", found):
        raise UsageError(
            f"The token in {where} must be {_SHORTEST} characters or more of A-Z a-z 0-9 . _ ~ + /"
            " - (RFC 6750)."
        )
    return found


def application(
    server: Server[Any],
    secret: str,
    where: Address,
    *,
    hosts: Sequence[str] = (),
    origins: Sequence[str] = (),
) -> App:
    """The ASGI application.

    hosts: further names by which it is called (the Host header), such as a proxy's.  origins: of
    pages that may ask; none may unless named here.
    Raises UsageError when it is to be reached from elsewhere and has no name there.
    """
    if not where.local and not hosts:
        raise UsageError(
            f"{where.host} can be reached from other machines: name what they call this one with "
            "--allow-host NAME, and put a proxy with TLS before it."
        )
    names = [*(["127.0.0.1", "localhost", "[::1]"] if where.local else []), *hosts]
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=[*names, *(f"{name}:*" for name in names)],
        allowed_origins=list(origins),
    )
    inner = server.streamable_http_app(
        streamable_http_path=PATH,
        transport_security=security,
        max_request_body_size=_BODY,
        max_sessions=_CLIENTS,
    )
    return _Guarded(inner, secret)


class _Guarded:
    """Lets nothing through without the token; what comes without it is not even read."""

    def __init__(self, inner: Any, secret: str) -> None:
        self._inner = inner
        self._secret = hashlib.sha256(secret.encode()).digest()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or (scope["type"] == "http" and self._knows(scope)):
            await self._inner(scope, receive, send)
        elif scope["type"] == "http":
            await _refuse(send)
        # A websocket is answered by nothing: the server closes it.

    def _knows(self, scope: Message) -> bool:
        given = [value for name, value in scope["headers"] if name.lower() == b"authorization"]
        if len(given) != 1:
            return False
        scheme, _, value = given[0].partition(b" ")
        # Digests of one length: how long the comparison takes says nothing of the token.
        digest = hashlib.sha256(value.strip()).digest()
        return hmac.compare_digest(digest, self._secret) and scheme.lower() == b"bearer"


async def _refuse(send: Send) -> None:
    body = json.dumps({"error": "a bearer token is needed"}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"www-authenticate", b'Bearer realm="reprise"'),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": 401, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def listen(app: App, where: Address, told: Callable[[str], None]) -> None:
    """Serve until a signal ends it, or a cancellation. told: gets the URL once it listens.

    Raises UnavailableError when the port cannot be had.
    """
    family = socket.AF_INET6 if ":" in where.host else socket.AF_INET
    try:
        listening = socket.create_server((where.host, where.port), family=family, backlog=_CLIENTS)
    except OSError as error:
        raise UnavailableError(
            f"Port {where.port} of {where.host} cannot be listened on: {error.strerror}."
        ) from error
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        limit_concurrency=_CLIENTS * 2,
        timeout_graceful_shutdown=10,
        ws="none",
    )
    server = uvicorn.Server(config)
    with listening:
        host, port = listening.getsockname()[:2]
        serving = asyncio.ensure_future(server.serve(sockets=[listening]))
        # Who asks from now on waits in the socket's queue.
        told(f"http://{f'[{host}]' if ':' in host else host}:{port}{PATH}")
        try:
            await asyncio.shield(serving)
        except asyncio.CancelledError:
            server.should_exit = True
            await serving
            raise
