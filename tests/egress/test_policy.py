"""A host is judged under one name, whatever spelling it was asked for under."""

# ruff: noqa: RUF001 - letters that look like others are what is tested

from __future__ import annotations

import contextlib
import ipaddress
import socket
from ipaddress import IPv4Address

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reprise.egress.contract import Refused
from reprise.egress.policy import NoHost, Policy, normal_host
from reprise.sandbox.network import parse_rules

LOOPBACK = [
    "127.0.0.1",
    "127.0.0.1.",
    "127.1",
    "127.0.1",
    "2130706433",
    "0x7f000001",
    "0x7F.1",
    "0177.0.0.1",
    "00000177.0.0.1",
    "017700000001",
    "127.0.0.0x1",
    "１２７.0.0.1",
    "127。0。0。1",
    "127．0．0．1",
    "①②⑦.0.0.①",
    "::ffff:127.0.0.1",
    "[::ffff:127.0.0.1]",
    "::FFFF:7F00:1",
    "0:0:0:0:0:ffff:7f00:0001",
]


@pytest.mark.parametrize("text", LOOPBACK)
def test_every_spelling_of_loopback_is_loopback(text: str) -> None:
    assert normal_host(text) == "127.0.0.1"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Example.ORG", "example.org"),
        ("example.org.", "example.org"),
        ("EXAMPLE。org", "example.org"),
        ("ｅｘａｍｐｌｅ.org", "example.org"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("BÜCHER.example", "xn--bcher-kva.example"),
        ("_srv.example.org", "_srv.example.org"),
        ("[2001:DB8::0:1]", "2001:db8::1"),
        ("1.example", "1.example"),
        ("0x7f.example", "0x7f.example"),
        ("localhost", "localhost"),
    ],
)
def test_a_host_has_one_name(text: str, name: str) -> None:
    assert normal_host(text) == name


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "..",
        "a..b",
        "example.org..",
        " example.org",
        "example.org\n",
        "example.org\0.evil.example",
        "exam ple.org",
        "a/b",
        "a@b",
        "a:b",
        "a%2eb",
        "℀.example",
        "-a.example",
        "[127.0.0.1]",
        "[::1",
        "::1]",
        "fe80::1%lo",
        "fe80::1%25lo",
        "1.2.3.4.5",
        "256.0.0.1",
        "1.2.3.256",
        "127.0.0.08",
        "4294967296",
        "0x1ffffffff",
        "example.0x",
        "example.127",
        "\ud800.example",
        "x" * 64 + ".example",
        ".".join(["abcdefgh"] * 32),
        "9" * 5000,
    ],
)
def test_what_is_no_host_is_none(text: str) -> None:
    with pytest.raises(NoHost):
        normal_host(text)


def spellings(address: IPv4Address) -> st.SearchStrategy[str]:
    """Ways in which inet_aton reads an address: one to four numbers, each in one of three bases."""
    number = int(address)

    def parts(count: int) -> st.SearchStrategy[str]:
        high = [number >> 8 * (3 - place) & 0xFF for place in range(count - 1)]
        low = number & (1 << 8 * (5 - count)) - 1
        each = [
            st.sampled_from(
                [str(value), hex(value), hex(value).upper().replace("X", "x"), f"0{value:o}"]
            )
            for value in (*high, low)
        ]
        return st.tuples(*each).map(".".join)

    return st.integers(1, 4).flatmap(parts)


@given(st.ip_addresses(v=4).flatmap(lambda a: st.tuples(st.just(a), spellings(a))))
def test_every_spelling_of_an_address_is_that_address(
    drawn: tuple[IPv4Address, str],
) -> None:
    address, text = drawn
    assert socket.inet_aton(text) == address.packed  # the spelling is one
    assert normal_host(text) == str(address)


@given(st.text(alphabet="0123456789abcdefxX.:[]% 1７。", max_size=24))
@example("0x")
@example("1.0x")
def test_no_reader_of_numbers_sees_another_address_in_a_name(text: str) -> None:
    try:
        name = normal_host(text)
    except NoHost:
        return
    assert normal_host(name) == name
    read = None
    with contextlib.suppress(OSError, UnicodeError):
        read = socket.getaddrinfo(name, None, flags=socket.AI_NUMERICHOST)[0][4][0]
    if read is not None:
        assert ipaddress.ip_address(read) == ipaddress.ip_address(name)
    with contextlib.suppress(OSError):
        assert str(IPv4Address(socket.inet_aton(name))) == name


@given(st.text(max_size=40))
def test_a_normal_name_is_one_that_name_servers_know(text: str) -> None:
    try:
        name = normal_host(text)
    except NoHost:
        return
    assert name.isascii()
    assert name == name.lower()
    assert normal_host(name) == name
    assert not set(name) & set(" /\\@#?%\0\r\n")


# Rules --------------------------------------------------------------------------------------------


def policy(**rules: object) -> Policy:
    return Policy(parse_rules(rules))


@pytest.mark.parametrize(
    ("place", "host", "port", "fits"),
    [
        ("example.org", "example.org", 443, True),
        ("example.org", "example.org", 80, True),
        ("example.org", "example.org", 8080, False),
        ("example.org:8080", "example.org", 8080, True),
        ("example.org:8080", "example.org", 443, False),
        ("example.org", "a.example.org", 443, False),
        ("example.org", "notexample.org", 443, False),
        ("*.example.org", "a.example.org", 443, True),
        ("*.example.org", "a.b.example.org", 443, True),
        ("*.example.org", "example.org", 443, False),
        ("*.example.org", "evilexample.org", 443, False),
        ("*.example.org:81", "a.example.org", 81, True),
        ("Example.ORG", "example.org", 443, True),
        ("127.1:80", "127.0.0.1", 80, True),
        ("[2001:db8::1]:80", "2001:db8::1", 80, True),
        ("[2001:DB8:0::1]", "2001:db8::1", 443, True),
    ],
)
def test_a_rule_fits_its_places_and_no_others(place: str, host: str, port: int, fits: bool) -> None:
    assert policy(allow=[place]).permits(host, port) is fits
    assert policy(private=[place]).permits(host, port) is fits


def test_a_refusal_names_the_command_that_allows_it() -> None:
    with pytest.raises(Refused) as refused:
        policy().judge("example.org", 443)
    assert str(refused.value) == (
        "example.org:443 is not allowed here; allow it with: reprise env allow example.org"
    )
    with pytest.raises(Refused, match=r"reprise env allow example\.org:99 --environment x$"):
        Policy(parse_rules({}), environment="x").judge("example.org", 99)
    with pytest.raises(Refused, match=r"reprise env allow 10\.0\.0\.1:80 --private$"):
        policy().judge("10.0.0.1", 80)
    with pytest.raises(Refused, match=r"reprise env allow \[2606:4700::1\]$"):
        policy().judge("2606:4700::1", 443)


PRIVATE = ["10.1.2.3", "127.0.0.1", "::1", "fe80::1", "100.64.0.1", "fd00::1", "192.168.0.1"]


@pytest.mark.parametrize("address", PRIVATE)
def test_a_name_that_leads_to_a_private_address_is_refused(address: str) -> None:
    with pytest.raises(Refused) as refused:
        policy(allow=["example.org"]).admitted("example.org", 443, [address])
    assert address in str(refused.value)
    assert str(refused.value).endswith("reprise env allow example.org:443 --private")
    allowed = policy(private=["example.org"])
    assert allowed.admitted("example.org", 443, [address]) == [address]


@pytest.mark.parametrize("address", PRIVATE)
def test_an_allowed_private_address_is_refused_unless_named_as_private(address: str) -> None:
    shown = f"[{address}]" if ":" in address else address
    with pytest.raises(Refused):
        policy(allow=[shown]).admitted(address, 443, [address])
    assert policy(private=[shown]).admitted(address, 443, [address]) == [address]


@pytest.mark.parametrize(
    "address", ["169.254.169.254", "fd00:ec2::254", "2002:7f00:1::", "::7f00:1"]
)
def test_no_name_leads_to_a_metadata_service(address: str) -> None:
    with pytest.raises(Refused, match="--private"):
        policy(private=["example.org"]).admitted("example.org", 443, [address])
    shown = f"[{address}]" if ":" in address else address
    assert policy(private=[shown]).admitted(address, 443, [address]) == [address]


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "224.0.0.1", "ff02::1"])
def test_what_is_no_host_is_never_dialled(address: str) -> None:
    shown = f"[{address}]" if ":" in address else address
    with pytest.raises(Refused):
        policy(private=[shown, "example.org"]).admitted(address, 443, [address])
    with pytest.raises(Refused):
        policy(private=[shown, "example.org"]).admitted("example.org", 443, [address])


def test_of_several_addresses_only_the_public_ones_are_dialled() -> None:
    found = ["127.0.0.1", "8.8.8.8", "::ffff:10.0.0.1", "2606:4700::1", "::ffff:8.8.8.8"]
    admitted = policy(allow=["example.org"]).admitted("example.org", 443, found)
    assert admitted == ["8.8.8.8", "2606:4700::1"]


def test_an_address_of_this_machine_is_private() -> None:
    own = frozenset({ipaddress.ip_address("8.8.8.8")})
    with pytest.raises(Refused, match="an address of this machine"):
        policy(allow=["example.org"]).admitted("example.org", 443, ["8.8.8.8"], own)


def test_a_resolver_that_answers_with_nonsense_leads_nowhere() -> None:
    with pytest.raises(Refused):
        policy(allow=["example.org"]).admitted("example.org", 443, ["fe80::1%eth0", "x", ""])


def test_the_package_index_counts_only_where_it_is_allowed() -> None:
    index = ["127.0.0.1:3141"]
    assert Policy(parse_rules({"allow": ["package-index"]}), index=index).admitted(
        "127.0.0.1", 3141, ["127.0.0.1"]
    ) == ["127.0.0.1"]
    assert not Policy(parse_rules({"allow": ["example.org"]}), index=index).permits(
        "127.0.0.1", 3141
    )
