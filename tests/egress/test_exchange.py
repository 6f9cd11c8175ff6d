"""What of a request is passed on, what its key is, and what is kept of an answer's head."""

from __future__ import annotations

import string

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from reprise.egress.exchange import (
    NOT_RECORDED,
    Asked,
    Denied,
    Head,
    Headers,
    Origin,
    asked,
    response_headers,
    shown_url,
    stored_headers,
)

HOST = Origin("https", "host.test", 443)
TOKEN = st.text(string.ascii_letters + string.digits + "-_", min_size=1, max_size=20)
VALUE = st.text([chr(n) for n in range(0x21, 0x7F)], min_size=1, max_size=30)
HEADERS = st.lists(st.tuples(TOKEN.map(str.encode), VALUE.map(str.encode)), max_size=8)
TARGET = st.text(string.ascii_letters + "/?&=%~._-", max_size=30).map(lambda text: f"/{text}")


def ask(
    target: str = "/",
    headers: Headers = (),
    *,
    method: str = "GET",
    origin: Origin = HOST,
    records: bool = False,
) -> Asked:
    return asked(origin, method, target, headers, records=records)


@given(TARGET, HEADERS, st.booleans())
def test_nothing_between_two_hops_is_passed_on(
    target: str, headers: list[tuple[bytes, bytes]], records: bool
) -> None:
    assume(not {name.lower() for name, _ in headers} & {b"host", b"upgrade", b"connection"})
    hop = [(b"Connection", b"close, X-Mine"), (b"X-Mine", b"1"), (b"Proxy-Authorization", b"me")]
    found = ask(target, [*headers, *hop, (b"Te", b"trailers")], records=records)
    names = {name.lower() for name, _ in found.headers}
    assert not names & {b"connection", b"x-mine", b"te", b"proxy-authorization", b"host"}
    gone = {b"expect", b"keep-alive", b"transfer-encoding", b"alt-svc", b"x-mine", b"te"}
    gone |= {b"if-none-match", b"if-modified-since"} if records else set()
    for name, value in headers:
        if name.lower() not in gone and not name.lower().startswith(b"proxy-"):
            assert (name, value) in found.headers
    assert found.url == f"https://host.test{target}"


def test_a_header_of_the_framing_is_not_taken_away_by_name() -> None:
    found = ask(headers=[(b"Connection", b"content-length"), (b"Content-Length", b"3")])
    assert found.headers == [(b"Content-Length", b"3")]
    assert found.has_body


@given(TARGET, TARGET, st.sampled_from(["GET", "POST"]), VALUE, VALUE)
def test_a_key_is_that_of_one_request_only(
    one: str, two: str, method: str, body: str, other: str
) -> None:
    key = ask(one, method=method).key(body)
    assert key == ask(one, [(b"X-Any", b"thing")], method=method).key(body)
    assert (ask(two, method=method).key(body) == key) == (one == two)
    assert (ask(one, method=method).key(other) == key) == (body == other)
    assert ask(one, method="PUT").key(body) != key
    assert ask(one, [(b"Range", b"bytes=0-1")], method=method).key(body) != key
    assert ask(one, method=method, origin=Origin("http", "host.test", 443)).key(body) != key
    assert ask(one, method=method, origin=Origin("https", "host.test", 444)).key(body) != key


def test_spellings_of_one_request_have_one_key() -> None:
    keys = {
        ask("/a?b", [(b"Host", b"HOST.test:443"), (b"Range", b"bytes=0-1, 3-")]).key(""),
        ask("https://host.test/a?b", [(b"RANGE", b"bytes=0-1,3-")]).key(""),
        ask("https://HOST.test.:443/a?b#c", [(b"range", b"bytes=0-1"), (b"range", b"3-")]).key(""),
    }
    assert len(keys) == 1


@pytest.mark.parametrize(
    "target",
    [
        "https://other.test/",
        "https://host.test:444/",
        "http://host.test/",
        "https://host.test@other.test/",
        "//other.test/",
        "ftp://host.test/",
    ],
)
def test_no_other_host_is_asked_by_a_target(target: str) -> None:
    if target.startswith("//"):
        # A path, however it looks: the connection and the Host header decide.
        assert ask(target).origin == HOST
        return
    with pytest.raises(Denied) as denied:
        ask(target)
    assert denied.value.status in (400, 421)


@pytest.mark.parametrize(
    "host",
    ["other.test", "host.test:444", "host.test.other.test", "host.test, other.test", "", "[::1]"],
)
def test_no_other_host_is_asked_by_a_header(host: str) -> None:
    with pytest.raises(Denied) as denied:
        ask(headers=[(b"Host", host.encode())])
    assert denied.value.status == 421


def test_an_address_is_named_in_its_usual_spelling() -> None:
    six = Origin("http", "::1", 80)
    assert six.authority == "[::1]"
    for host in (b"[::1]", b"[0:0::1]:80", b"[::1]:80"):
        assert ask(headers=[(b"Host", host)], origin=six).url == "http://[::1]/"
    four = Origin("http", "127.0.0.2", 8080)
    assert (
        ask(headers=[(b"Host", b"0x7f.2:8080")], origin=four).origin.authority == "127.0.0.2:8080"
    )


@given(HEADERS)
@example([(b"Set-Cookie", b"a=b; Path=/"), (b"Location", b"https://x/?token=1")])
def test_what_is_kept_of_a_head_can_be_sent_again(headers: list[tuple[bytes, bytes]]) -> None:
    kept = stored_headers(response_headers(headers))
    names = [name for name, _ in response_headers(headers)]
    assert [name.encode() for name, _ in kept] == names
    again = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in kept]
    assert stored_headers(again) == kept


@given(st.sampled_from(["Authorization", "X-Auth-Token", "X-Api-Key", "x-csrf-token"]), VALUE)
def test_secrets_in_headers_are_not_kept(name: str, value: str) -> None:
    assert stored_headers([(name.encode(), value.encode())]) == ((name, NOT_RECORDED),)


def test_of_a_cookie_its_name_is_kept() -> None:
    kept = stored_headers([(b"Set-Cookie", b"session=a-secret==; Path=/; HttpOnly")])
    assert kept == (("Set-Cookie", f"session={NOT_RECORDED}; Path=/; HttpOnly"),)


def test_headers_that_say_how_to_authenticate_are_kept() -> None:
    headers = [(b"WWW-Authenticate", b'Basic realm="x"'), (b"X-Author", b"Ada")]
    assert stored_headers(headers) == (
        ("WWW-Authenticate", 'Basic realm="x"'),
        ("X-Author", "Ada"),
    )


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://h/a?b=c&d=e", "https://h/a?b=c&d=e"),
        ("https://h/a?key=abc&q=1", f"https://h/a?key={NOT_RECORDED}&q=1"),
        ("https://h/a?X-Amz-Signature=abc", f"https://h/a?X-Amz-Signature={NOT_RECORDED}"),
        ("https://h/a?access%5Ftoken=abc", f"https://h/a?access%5Ftoken={NOT_RECORDED}"),
        ("https://h/a?api_key=&x", f"https://h/a?api_key={NOT_RECORDED}&x"),
        ("https://h/a?keyword=abc", "https://h/a?keyword=abc"),
        ("https://h/" + "a" * 3000, "https://h/" + "a" * 1990 + "…"),
    ],
)
def test_a_shown_address_tells_no_secret(url: str, shown: str) -> None:
    assert shown_url(url) == shown


@given(TARGET)
def test_every_address_can_be_shown(target: str) -> None:
    assert shown_url(f"https://h{target}").startswith("https://h/")


def test_a_length_is_read_however_it_is_written() -> None:
    assert Head(200, "", [(b"content-LENGTH", b"12")]).length == 12
    assert Head(200, "", []).length is None
