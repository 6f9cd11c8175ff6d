"""What kind of address an address is, in whatever form it hides another (pure).

Sources: the IANA registries of special-purpose addresses for IPv4 and IPv6; RFC 4291 (mapped and
compatible), 3056 (6to4), 4380 (Teredo), 5214 (ISATAP), 6052 and 8215 (NAT64), 2765 (SIIT); the
handbooks of clouds for where their metadata services answer.
"""

from __future__ import annotations

import ipaddress
from ipaddress import IPv4Address, IPv6Address
from typing import Final, Literal, get_args

#: "own": an address of this machine that is none of the others. "translated": an IPv6 address that
#: stands for an IPv4 address elsewhere.
Kind = Literal[
    "public",
    "own",
    "loopback",
    "link-local",
    "metadata",
    "private",
    "shared",
    "multicast",
    "reserved",
    "unspecified",
    "translated",
]

#: Never dialled, whatever the rules say: nothing answers there, or the machine itself does.
NEVER: Final = frozenset[Kind]({"multicast", "unspecified"})

#: Dialled only when the rules name the very address: no name may lead there.
BY_ADDRESS: Final = frozenset[Kind]({"metadata", "translated"})

#: How a person is told of each.
TOLD: Final[dict[Kind, str]] = {
    "public": "a public address",
    "own": "an address of this machine",
    "loopback": "the loopback of this machine",
    "link-local": "a link-local address",
    "metadata": "a metadata service",
    "private": "a private address",
    "shared": "a private address",
    "multicast": "a multicast address",
    "reserved": "a reserved address",
    "unspecified": "no address of a host",
    "translated": "an IPv4 address in an IPv6 one",
}
assert set(TOLD) == set(get_args(Kind))  # noqa: S101 - a kind without words would fail far away

Address = IPv4Address | IPv6Address

#: Where clouds answer with credentials or as the machine's own host: AWS, GCP, Azure and OpenStack;
#: AWS's DNS, NTP and task credentials; Azure's wire server; Alibaba; Oracle.
_METADATA: Final = frozenset(
    ipaddress.ip_address(text)
    for text in (
        "169.254.169.254",
        "169.254.169.253",
        "169.254.169.123",
        "169.254.170.2",
        "169.254.170.23",
        "168.63.129.16",
        "100.100.100.200",
        "192.0.0.192",
        "fd00:ec2::254",
        "fd00:ec2::253",
        "fd00:ec2::123",
        "fd00:ec2::23",
        "fd20:ce::254",
        "fe80::a9fe:a9fe",
    )
)

_IPV4: Final[tuple[tuple[str, Kind], ...]] = (
    ("0.0.0.0/32", "unspecified"),
    ("0.0.0.0/8", "reserved"),
    ("10.0.0.0/8", "private"),
    ("100.64.0.0/10", "shared"),
    ("127.0.0.0/8", "loopback"),
    ("169.254.0.0/16", "link-local"),
    ("172.16.0.0/12", "private"),
    ("192.0.0.0/24", "reserved"),
    ("192.0.2.0/24", "reserved"),
    ("192.88.99.0/24", "reserved"),
    ("192.168.0.0/16", "private"),
    ("198.18.0.0/15", "reserved"),
    ("198.51.100.0/24", "reserved"),
    ("203.0.113.0/24", "reserved"),
    ("224.0.0.0/4", "multicast"),
    ("240.0.0.0/4", "reserved"),
)

#: The first that fits counts. What none of them holds is reserved: only 2000::/3 is given out.
_IPV6: Final[tuple[tuple[str, Kind], ...]] = (
    ("::/128", "unspecified"),
    ("::1/128", "loopback"),
    ("::/96", "translated"),  # IPv4-compatible
    ("::ffff:0:0:0/96", "translated"),  # SIIT
    ("64:ff9b:1::/48", "translated"),  # NAT64 of one's own network
    ("100::/64", "reserved"),
    ("2001::/32", "translated"),  # Teredo
    ("2001::/23", "reserved"),
    ("2001:db8::/32", "reserved"),
    ("2002::/16", "translated"),  # 6to4
    ("3fff::/20", "reserved"),
    ("2000::/3", "public"),
    ("fc00::/7", "private"),
    ("fe80::/10", "link-local"),
    ("fec0::/10", "private"),
    ("ff00::/8", "multicast"),
)

_V4: Final = tuple((ipaddress.IPv4Network(text), kind) for text, kind in _IPV4)
_V6: Final = tuple((ipaddress.IPv6Network(text), kind) for text, kind in _IPV6)

_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
#: The interface identifier of ISATAP: 0000:5efe or 0200:5efe, then the IPv4 address.
_ISATAP: Final = frozenset({0x00005EFE, 0x02005EFE})


def parse(text: str) -> Address | None:
    """An address as getaddrinfo writes it; None for one with a zone, or for what is none."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return None if isinstance(address, IPv6Address) and address.scope_id else plain(address)


def plain(address: Address) -> Address:
    """The IPv4 address of an IPv4-mapped one: a socket makes no difference between them."""
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def kind_of(address: Address, own: frozenset[Address] = frozenset()) -> Kind:
    """What kind of address it is. own: all addresses of this machine's interfaces."""
    address = plain(address)
    if address in _METADATA:
        return "metadata"
    found: Kind
    if isinstance(address, IPv4Address):
        found = next((kind for network, kind in _V4 if address in network), "public")
    elif address in _NAT64:
        # What DNS64 makes of public names; in it the IPv4 address counts.
        return kind_of(IPv4Address(int(address) & 0xFFFFFFFF), own)
    else:
        found = next((kind for network, kind in _V6 if address in network), "reserved")
        if found == "public" and (int(address) >> 32) & 0xFFFFFFFF in _ISATAP:
            found = "translated"
    return "own" if found == "public" and address in own else found
