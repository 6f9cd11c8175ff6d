"""What a program asks the proxy for: CONNECT, absolute-form HTTP or SOCKS5, from its first bytes.

Pure: bytes in, what they mean out. Nothing here protects anybody: the host judges every host and
port by itself. RFC 9110 and 9112 (HTTP), RFC 1928 (SOCKS5).
"""

from __future__ import annotations

import re
from typing import NamedTuple

#: Bytes that a program has for saying what it wants.
MAX_HEAD = 64 << 10

_CONNECTED = b"HTTP/1.1 200 Connection established\r\n\r\n"
_REASONS = {400: "Bad request", 403: "Forbidden", 429: "Too many", 502: "Bad gateway"}
#: Headers for the proxy, or between two hops only.
_DROPPED = (b"proxy-", b"connection:", b"keep-alive:", b"host:")
_URL = re.compile(rb"http://(?:[^/?#@]*@)?([^/?#@]*)([^#]*)", re.IGNORECASE)


class Asked(NamedTuple):
    """A connection that is asked for.

    via: "connect", "http", "socks"; "forward" for what is asked without words.
    head: what goes to the host before all else.  used: how many of the first bytes are dealt with.
    body: how many bytes follow them, None when that is not known.
    """

    host: str
    port: int
    via: str
    head: bytes
    used: int
    body: int | None


class Reply(NamedTuple):
    """What the program is told now. over: nothing more is to come. used: bytes dealt with."""

    data: bytes
    over: bool
    used: int


def asked(data: bytes, greeted: bool) -> Asked | Reply | None:
    """What these first bytes ask for; None while there are too few. greeted: SOCKS has begun."""
    if greeted or data[:1] == b"\5":
        return _socks(data, greeted)
    end = data.find(b"\r\n\r\n")
    if end < 0:
        if len(data) > MAX_HEAD or (data and not data[:1].isalpha()):
            return Reply(refusal("http", 400, "this proxy speaks HTTP and SOCKS5"), True, 0)
        return None
    return _http(data[: end + 2], end + 4)


def accepted(via: str) -> bytes:
    """What tells the program that its connection is there."""
    if via == "socks":
        return b"\5\0\0\1\0\0\0\0\0\0"
    return _CONNECTED if via == "connect" else b""


def refusal(via: str, status: int, text: str) -> bytes:
    """What tells the program that there is none, and why.

    Clients show the reason phrase (pip, requests, urllib), or the body.
    """
    if via == "forward":
        return b""
    if via == "socks":
        code = {403: 2, 502: 4}.get(status, 1)
        return b"\5%c\0\1\0\0\0\0\0\0" % code
    phrase = re.sub(r"[^\x20-\x7e]+", "?", text)[:500] or _REASONS.get(status, "Refused")
    body = f"{text}\n".encode("utf-8", "replace")
    head = (
        f"HTTP/1.1 {status} {phrase}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode("ascii") + body


def _http(head: bytes, used: int) -> Asked | Reply:
    line, _, rest = head.partition(b"\r\n")
    words = line.split(b" ")
    if len(words) != 3:
        return Reply(refusal("http", 400, "this is no HTTP request"), True, used)
    method, target, version = words
    if method == b"CONNECT":
        host, port = _authority(target, 0)
        if not port:
            return Reply(refusal("http", 400, "CONNECT wants HOST:PORT"), True, used)
        return Asked(host, port, "connect", b"", used, None)
    found = _URL.fullmatch(target)
    if found is None:
        text = "this is a proxy: it takes CONNECT, and http:// addresses written out"
        return Reply(refusal("http", 400, text), True, used)
    host, port = _authority(found[1], 80)
    if not port:
        return Reply(refusal("http", 400, "the address names no host"), True, used)
    path = found[2] if found[2].startswith(b"/") else b"/" + found[2]
    headers, body = _headers(rest)
    lines = [b" ".join((method, path, version)), b"Host: " + found[1], *headers, b"", b""]
    return Asked(host, port, "http", b"\r\n".join(lines), used, body)


def _authority(text: bytes, port: int) -> tuple[str, int]:
    """Host and port; port 0 for what names none."""
    host, colon, number = text.rpartition(b":")
    if not colon or text.endswith(b"]"):
        host = text
    elif number.isdigit() and len(number) <= 5:
        port = int(number)
    elif number or not port:
        return "", 0
    if not host or not 0 < port < 65536:
        return "", 0
    return host.decode("utf-8", "replace"), port


def _headers(rest: bytes) -> tuple[list[bytes], int | None]:
    """Headers as the host gets them, and the length of the body.

    One request a connection: the answer to a next one could not be told from that to this.
    """
    kept: list[bytes] = []
    body: int | None = 0
    upgraded = dropped = False
    for line in rest.split(b"\r\n"):
        name = line.lower()
        if line[:1] in (b" ", b"\t"):
            if not dropped:
                kept.append(line)
            continue
        if name.startswith(b"content-length:"):
            length = line.partition(b":")[2].strip()
            body = int(length) if length.isdigit() and len(length) < 19 else None
        elif name.startswith(b"transfer-encoding:"):
            body = None
        elif name.startswith(b"upgrade:"):
            upgraded = True
        dropped = name.startswith(_DROPPED)
        if line and not dropped:
            kept.append(line)
    kept.append(b"Connection: " + (b"Upgrade" if upgraded else b"close"))
    return kept, None if upgraded else body


def _socks(data: bytes, greeted: bool) -> Asked | Reply | None:
    if not greeted:
        if len(data) < 2 or len(data) < 2 + data[1]:
            return None
        used = 2 + data[1]
        free = 0 in data[2:used]
        return Reply(b"\5\0" if free else b"\5\xff", not free, used)
    if len(data) < 5:
        return None
    if data[0] != 5 or data[1] != 1:
        return Reply(b"\5\7\0\1\0\0\0\0\0\0", True, 0)
    kind = data[3]
    length = {1: 4, 3: 1 + data[4], 4: 16}.get(kind)
    if length is None:
        return Reply(b"\5\x08\0\1\0\0\0\0\0\0", True, 0)
    used = 4 + length + 2
    if len(data) < used:
        return None
    address = data[4 : 4 + length]
    if kind == 3:
        host = address[1:].decode("utf-8", "replace")
    elif kind == 1:
        host = ".".join(map(str, address))
    else:
        host = ":".join(address[at : at + 2].hex() for at in range(0, 16, 2))
    port = int.from_bytes(data[used - 2 : used], "big")
    if not host or not port:
        return Reply(refusal("socks", 400, ""), True, used)
    return Asked(host, port, "socks", b"", used, None)
