"""What an environment says of the network: which hosts, what is recorded, whose keys (pure).

The rules are part of an environment's digest; `reprise.egress` decides by them. JSON form, each
part optional:

    {"allow": ["example.org:443", "*.example.org", "package-index"], "private": ["10.1.2.3:8080"],
     "record": false, "secrets": [{"host", "header", "prefix", "source"}],
     "connections": 64, "rate": 600, "bytes": 1073741824}
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from reprise.errors import UsageError

#: In `allow`: whatever index pip and uv are configured with on the host.
PACKAGE_INDEX: Final = "package-index"

#: Open connections at once; new ones in a minute; bytes of one step, both ways. 0: no limit.
CONNECTIONS: Final = 64
RATE: Final = 600
BYTES: Final = 1 << 30

_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_HOST: Final = re.compile(rf"(?:\*\.)?{_LABEL}(?:\.{_LABEL})*|\[[0-9A-Fa-f:.]+\]")
_HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}")
#: The proxy's own to say.
_FRAMING: Final = frozenset(
    {
        "host",
        "connection",
        "content-length",
        "transfer-encoding",
        "accept-encoding",
        "te",
        "upgrade",
    }
)
_SOURCE: Final = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]{0,127}|file:/[^\0\n]{1,4000}")


@dataclass(frozen=True)
class HostSecret:
    """A credential that the proxy adds to requests to one host; the sandbox never sees it.

    source: "env:NAME" or "file:/PATH" of the host, read for each request and never stored.
    """

    host: str
    header: str
    prefix: str
    source: str

    def to_json(self) -> dict[str, str]:
        return {
            "host": self.host,
            "header": self.header,
            "prefix": self.prefix,
            "source": self.source,
        }


@dataclass(frozen=True)
class NetworkRules:
    """Which connections sandboxes of an environment may make. Nothing said: none.

    allow: HOST or HOST:PORT (without one: 80 and 443), `*.HOST` for its subdomains, IP addresses
      (IPv6 in brackets), PACKAGE_INDEX.  private: the same, for addresses that are refused
      otherwise (private, loopback, link-local).
    """

    allow: tuple[str, ...] = ()
    private: tuple[str, ...] = ()
    record: bool = False
    secrets: tuple[HostSecret, ...] = ()
    connections: int = CONNECTIONS
    rate: int = RATE
    bytes: int = BYTES

    @property
    def open(self) -> bool:
        """Whether anything may go out at all."""
        return bool(self.allow or self.private)

    @property
    def opens_tls(self) -> bool:
        """Whether the proxy must read what goes through it."""
        return self.record or bool(self.secrets)

    def to_json(self) -> dict[str, Any]:
        """Its canonical form: only what differs from nothing said."""
        said: dict[str, Any] = {}
        if self.allow:
            said["allow"] = sorted(self.allow)
        if self.private:
            said["private"] = sorted(self.private)
        if self.record:
            said["record"] = True
        if self.secrets:
            said["secrets"] = [
                each.to_json() for each in sorted(self.secrets, key=lambda s: (s.host, s.header))
            ]
        for name, usual in (("connections", CONNECTIONS), ("rate", RATE), ("bytes", BYTES)):
            if getattr(self, name) != usual:
                said[name] = getattr(self, name)
        return said


def parse_rules(value: Any) -> NetworkRules:
    """Rules from their JSON form. Raises UsageError naming the field."""
    if not isinstance(value, dict):
        raise UsageError("network is no object.")
    known = {"allow", "private", "record", "secrets", "connections", "rate", "bytes"}
    if unknown := set(value) - known:
        raise UsageError(f"network: unknown field {min(unknown)!r}.")
    record = value.get("record", False)
    if not isinstance(record, bool):
        raise UsageError("network.record is neither true nor false.")
    secrets = value.get("secrets", [])
    if not isinstance(secrets, list):
        raise UsageError("network.secrets is no list.")
    return NetworkRules(
        allow=_places(value, "allow", named=(PACKAGE_INDEX,)),
        private=_places(value, "private"),
        record=record,
        secrets=tuple(_secret(each) for each in secrets),
        connections=_count(value, "connections", CONNECTIONS),
        rate=_count(value, "rate", RATE),
        bytes=_count(value, "bytes", BYTES),
    )


def is_recorded(egress: Any) -> bool:
    """Whether what a recorded environment says of the network is that answers are recorded."""
    return isinstance(egress, Mapping) and egress.get("record") is True


def check_place(text: Any, named: tuple[str, ...] = ()) -> str:
    """HOST[:PORT] as rules name it, in lower case. Raises UsageError."""
    if isinstance(text, str) and text in named:
        return text
    if isinstance(text, str) and len(text) <= 300:
        host, port = split_place(text)
        if _HOST.fullmatch(host) and (port is None or 0 < port < 65536):
            return text.lower()
    raise UsageError(
        f"{text!r} is no HOST, HOST:PORT or *.HOST. Give a name such as example.org, with :443 "
        "for one port only; an IPv6 address stands in brackets."
    )


def split_place(text: str) -> tuple[str, int | None]:
    """Host and port of a rule; port -1 for one that is no number."""
    host, colon, port = text.rpartition(":")
    if not colon or host.endswith(":") or (text.startswith("[") and text.endswith("]")):
        return text, None
    return host, int(port) if port.isdecimal() and port.isascii() and len(port) <= 5 else -1


def _places(value: Mapping[str, Any], field: str, named: tuple[str, ...] = ()) -> tuple[str, ...]:
    places = value.get(field, [])
    if not isinstance(places, list):
        raise UsageError(f"network.{field} is no list.")
    try:
        return tuple(dict.fromkeys(check_place(place, named) for place in places))
    except UsageError as error:
        raise UsageError(f"network.{field}: {error}") from None


def _secret(value: Any) -> HostSecret:
    fields = ("host", "header", "prefix", "source")
    if (
        not isinstance(value, dict)
        or set(value) != set(fields)
        or not all(isinstance(each, str) for each in value.values())
    ):
        raise UsageError(f"network.secrets: each has the texts {', '.join(fields)}.")
    host = check_place(value["host"])
    if host.startswith("*."):
        raise UsageError("network.secrets: a credential belongs to one host, not to a wildcard.")
    if not _HEADER.fullmatch(value["header"]):
        raise UsageError(f"network.secrets: {value['header']!r} is no name of a header.")
    if value["header"].lower() in _FRAMING:
        raise UsageError(f"network.secrets: the header {value['header']} holds no credential.")
    prefix = value["prefix"]
    if not (prefix.isascii() and prefix.isprintable()) or len(prefix) > 64:
        raise UsageError("network.secrets: prefix is one line of at most 64 ASCII characters.")
    if not _SOURCE.fullmatch(value["source"]):
        raise UsageError("network.secrets: source is env:NAME or file:/PATH.")
    return HostSecret(host, value["header"], prefix, value["source"])


def _count(value: Mapping[str, Any], field: str, usual: int) -> int:
    count = value.get(field, usual)
    if type(count) is not int or not 0 <= count < 1 << 50:
        raise UsageError(f"network.{field} is no number from 0 on.")
    return count
