"""Every address that is not a public host's is known for what it is, however it is wrapped."""

from __future__ import annotations

import ipaddress
from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reprise.egress.addresses import Kind, kind_of, parse

V4 = {
    "0.0.0.0": "unspecified",
    "0.1.2.3": "reserved",
    "10.0.0.1": "private",
    "100.64.0.1": "shared",
    "100.127.255.255": "shared",
    "100.100.100.200": "metadata",
    "127.0.0.1": "loopback",
    "127.255.255.254": "loopback",
    "168.63.129.16": "metadata",
    "169.254.0.1": "link-local",
    "169.254.169.254": "metadata",
    "169.254.170.2": "metadata",
    "172.16.0.1": "private",
    "172.31.255.255": "private",
    "172.32.0.1": "public",
    "192.0.0.192": "metadata",
    "192.0.2.1": "reserved",
    "192.168.1.1": "private",
    "198.18.0.1": "reserved",
    "224.0.0.1": "multicast",
    "239.255.255.255": "multicast",
    "240.0.0.1": "reserved",
    "255.255.255.255": "reserved",
    "8.8.8.8": "public",
}
V6 = {
    "::": "unspecified",
    "::1": "loopback",
    "::7f00:1": "translated",
    "::ffff:127.0.0.1": "loopback",
    "::ffff:0:127.0.0.1": "translated",
    "::ffff:169.254.169.254": "metadata",
    "64:ff9b::7f00:1": "loopback",
    "64:ff9b::a9fe:a9fe": "metadata",
    "64:ff9b::808:808": "public",
    "64:ff9b:1::808:808": "translated",
    "100::1": "reserved",
    "2001::1": "translated",
    "2001:0:4136:e378:8000:63bf:80ff:fffe": "translated",
    "2001:db8::1": "reserved",
    "2002:7f00:1::": "translated",
    "2002:a9fe:a9fe::1": "translated",
    "2606:4700::5efe:7f00:1": "translated",
    "2606:4700::200:5efe:a00:1": "translated",
    "2606:4700::1": "public",
    "fc00::1": "private",
    "fd12:3456::1": "private",
    "fd00:ec2::254": "metadata",
    "fe80::1": "link-local",
    "fe80::a9fe:a9fe": "metadata",
    "fec0::1": "private",
    "ff02::1": "multicast",
    "4000::1": "reserved",
    "5f00::1": "reserved",
}


@pytest.mark.parametrize(("text", "kind"), [*V4.items(), *V6.items()])
def test_an_address_is_of_its_kind(text: str, kind: Kind) -> None:
    address = parse(text)
    assert address is not None
    assert kind_of(address) == kind


@given(st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)))
@example(IPv6Address("::ffff:10.0.0.1"))
def test_only_addresses_of_hosts_in_the_internet_are_public(
    address: IPv4Address | IPv6Address,
) -> None:
    if kind_of(address) == "public":
        mapped = getattr(address, "ipv4_mapped", None)
        assert (mapped or address).is_global
        assert not address.is_multicast


@given(st.ip_addresses(v=4))
def test_an_ipv4_address_is_no_better_in_an_ipv6_one(address: IPv4Address) -> None:
    number = int(address)
    hidden = {
        "mapped": 0xFFFF << 32 | number,
        "compatible": number,
        "siit": 0xFFFF << 48 | number,
        "nat64": 0x64FF9B << 96 | number,
        "nat64 of one's own": 0x64FF9B0001 << 80 | number,
        "6to4": 0x2002 << 112 | number << 80 | 1,
        "teredo": 0x20010000 << 96 | number << 64 | (number ^ 0xFFFFFFFF),
        "isatap": 0x26064700 << 96 | 0x5EFE << 32 | number,
    }
    for form, value in hidden.items():
        kind = kind_of(IPv6Address(value))
        if form in ("mapped", "nat64"):
            assert kind == kind_of(address), form
        else:
            assert kind != "public", form


def test_a_public_address_of_this_machine_is_its_own() -> None:
    own = frozenset({ipaddress.ip_address("8.8.4.4"), ipaddress.ip_address("2606:4700::5")})
    for text in ("8.8.4.4", "::ffff:8.8.4.4", "64:ff9b::808:404", "2606:4700::5"):
        address = parse(text)
        assert address is not None
        assert kind_of(address, own) == "own", text


def test_an_address_with_a_zone_is_none() -> None:
    assert parse("fe80::1%eth0") is None
    assert parse("fe80::1%1") is None
