"""Decides by an environment's rules: which host and port, at which addresses (pure).

A host is judged under its one normal name: lower case, no trailing dot, IDNA, and every spelling of
an IP address (decimal, octal, hexadecimal, shortened, bracketed, full-width) as the address it is.
What is judged is what is resolved and dialled, so no reader of another mind comes after.
"""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from reprise.egress.addresses import BY_ADDRESS, NEVER, TOLD, Address, kind_of, parse
from reprise.egress.contract import Refused
from reprise.sandbox.network import PACKAGE_INDEX, NetworkRules, split_place

#: The ports of a rule that names none.
USUAL_PORTS: Final = frozenset({80, 443})

#: Hosts that programs in a sandbox ask without its proxy.
UNPROXIED: Final = frozenset({"localhost", "127.0.0.1", "::1"})

_LABEL: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
#: A last label like these makes a host an IPv4 address or nothing (WHATWG URL, "ends in a number").
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
_DOTS: Final = str.maketrans({"。": ".", "．": ".", "｡": "."})  # noqa: RUF001 - IDNA's other dots


class NoHost(ValueError):
    """A text that names no host; the message says why."""


def normal_host(text: str) -> str:
    """The one name of a host, or the usual spelling of an IP address. Raises NoHost."""
    if not text or len(text) > 1024:
        raise NoHost("a host has a name")
    text = unicodedata.normalize("NFKC", text).translate(_DOTS).lower()
    if text.startswith("[") and text.endswith("]"):
        text = text[1:-1]
        if ":" not in text:
            raise NoHost("only an IPv6 address stands in brackets")
    if ":" in text:
        address = parse(text)
        if address is None:
            raise NoHost("it is no IPv6 address, or one with a zone")
        return str(address)
    text = text.removesuffix(".")
    labels = text.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        return str(_ipv4(labels))
    if len(text) > 253 and text.isascii():
        raise NoHost("no host has so long a name")
    try:
        labels = [_ascii(label) for label in labels]
    except UnicodeError:
        raise NoHost("its name is none that the domain name system knows") from None
    name = ".".join(labels)
    if len(name) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise NoHost("its name is none that the domain name system knows")
    if _NUMBER.fullmatch(labels[-1]):
        raise NoHost("it is a number, but no address")
    return name


def _ascii(label: str) -> str:
    return label if label.isascii() else label.encode("idna").decode("ascii").lower()


def _ipv4(labels: Sequence[str]) -> ipaddress.IPv4Address:
    """As inet_aton reads it: one to four numbers, the last of which fills what is left."""
    if len(labels) > 4 or not all(_NUMBER.fullmatch(label) for label in labels):
        raise NoHost("it is a number, but no address")
    *bytes_before, rest = (_number(label) for label in labels)
    if any(each > 255 for each in bytes_before) or rest >= 1 << 8 * (4 - len(bytes_before)):
        raise NoHost("it is a number, but no address")
    value = rest
    for place, each in enumerate(bytes_before):
        value |= each << 8 * (3 - place)
    return ipaddress.IPv4Address(value)


def _number(text: str) -> int:
    if len(text) > 32:
        raise NoHost("it is a number, but no address")
    if text.startswith("0x"):
        return int(text[2:] or "0", 16)
    if text.startswith("0") and text != "0":
        if not set(text) <= set("01234567"):
            raise NoHost("it is a number, but no address")
        return int(text, 8)
    return int(text)


@dataclass(frozen=True)
class Rule:
    """A place that the rules name. port: None for the usual ones."""

    host: str
    port: int | None
    subdomains: bool

    def fits(self, host: str, port: int) -> bool:
        if port != self.port and (self.port is not None or port not in USUAL_PORTS):
            return False
        return host.endswith(f".{self.host}") if self.subdomains else host == self.host


def rule(place: str) -> Rule | None:
    """A place of `NetworkRules` as a rule; None where it names no host at all."""
    host, port = split_place(place)
    subdomains = host.startswith("*.")
    try:
        name = normal_host(host.removeprefix("*."))
    except NoHost:
        return None
    if subdomains and parse(name) is not None:
        return None
    return Rule(name, port, subdomains)


class Policy:
    """The rules of one environment, ready to judge.

    index: places of the package index that the host's pip and uv are configured with; they count
      where the rules allow `package-index`, private ones too: the operator named them there.
    environment: its name, for the sentences.
    """

    def __init__(
        self,
        rules: NetworkRules,
        *,
        index: Iterable[str] = (),
        environment: str = "default",
    ) -> None:
        private = set(rules.private)
        if PACKAGE_INDEX in rules.allow:
            private.update(index)
        self._allowed = _rules(set(rules.allow) - {PACKAGE_INDEX})
        self._private = _rules(private)
        self._option = "" if environment == "default" else f" --environment {environment}"

    def permits(self, host: str, port: int) -> bool:
        """Whether it may be asked for at all; `admitted` judges where it leads."""
        return any(each.fits(host, port) for each in (*self._allowed, *self._private))

    def judge(self, host: str, port: int) -> None:
        """Raises Refused for a host (normal) and port that no rule names."""
        if self.permits(host, port):
            return
        address = parse(host)
        private = address is not None and kind_of(address) != "public"
        raise Refused(
            f"{place(host, port)} is not allowed here; allow it with: "
            + self._command(host, port, private=private)
        )

    def admitted(
        self, host: str, port: int, found: Iterable[str], own: frozenset[Address] = frozenset()
    ) -> list[str]:
        """Those of a host's addresses that may be dialled, in order. Raises Refused.

        own: the addresses of this machine's interfaces.
        """
        named = any(each.fits(host, port) for each in self._private)
        given = parse(host)
        admitted: list[str] = []
        refused: Address | None = None
        for text in found:
            address = parse(text)
            if address is None:
                continue
            kind = kind_of(address, own)
            if kind == "public" or (
                named and kind not in NEVER and (kind not in BY_ADDRESS or address == given)
            ):
                if str(address) not in admitted:
                    admitted.append(str(address))
            elif refused is None:
                refused = address
        if admitted:
            return admitted
        if refused is None:
            raise Refused(f"{place(host, port)} is not allowed here: it has no address to dial")
        kind = kind_of(refused, own)
        where = f"{place(host, port)} is not allowed here: it "
        where += f"is {TOLD[kind]}" if refused == given else f"leads to {refused}, {TOLD[kind]}"
        if kind in NEVER:
            raise Refused(where)
        name = str(refused) if kind in BY_ADDRESS else host
        raise Refused(f"{where}; allow it with: {self._command(name, port, private=True)}")

    def _command(self, host: str, port: int, *, private: bool) -> str:
        shown = place(host, port)
        if port in USUAL_PORTS and not private:
            shown = bracketed(host)
        return f"reprise env allow {shown}{' --private' if private else ''}{self._option}"


def forwards(rules: NetworkRules, index: Iterable[str] = ()) -> tuple[tuple[str, int], ...]:
    """Places of this machine's loopback that the rules allow, by host and port.

    Programs ask no proxy for these hosts (NO_PROXY), so the guest listens there for them.
    """
    places = set(rules.private)
    if PACKAGE_INDEX in rules.allow:
        places.update(index)
    found = (each for each in _rules(places) if not each.subdomains and each.host in UNPROXIED)
    return tuple((each.host, each.port) for each in found if each.port is not None)


def _rules(places: Iterable[str]) -> tuple[Rule, ...]:
    return tuple(found for each in sorted(places) if (found := rule(each)) is not None)


def bracketed(host: str) -> str:
    """A host as it stands before a port."""
    return f"[{host}]" if ":" in host else host


def place(host: str, port: int) -> str:
    """HOST:PORT."""
    return f"{bracketed(host)}:{port}"
