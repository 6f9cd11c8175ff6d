"""Whatever a request holds, it is taken as the document says or refused in a sentence, never a 500."""

from __future__ import annotations

import http.client
import json
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reprise_server.api import parts
from reprise_server.api.bodies import MAX_DEPTH, parse_json
from reprise_server.api.document import METHODS
from reprise_server.api.refusals import Refused
from tests.fixtures.kernel import Database
from tests.fixtures.server import PATIENCE, JupyterServer, Serve

DIGEST = "0" * 64
TRUST = {"digest": DIGEST, "scope": "personal"}
AT = f"skills/sha256:{DIGEST}/trust"


@pytest.fixture(scope="module")
def own(serve: Serve, database: Database) -> JupyterServer:
    """A server of one person, without names; it takes few bodies, and not for long."""
    options = [
        "--RepriseApi.body_patience=1",
        "--RepriseApi.concurrent=4",
        f"--RepriseApi.bodies_bytes={3 << 20}",
    ]
    return serve(dsn=database.dsn, home=database.home, people=False, options=options)


@pytest.fixture(scope="module")
def client(own: JupyterServer) -> httpx.Client:
    return own.client()


def refused(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code), answer.text
    found: dict[str, Any] = answer.json()["error"]
    return found


# JSON ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"nothing",
        b"{} {}",
        b'{"digest": "' + b"a" * 64 + b'", "digest": "b", "scope": "personal"}',
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b'{"a": 1' + b"0" * 5000 + b"}",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1),
        b'{"a": "\\ud800"}',
        b'{"\\udfff": 1}',
        b'{"a": "\\u0000"}',
        b'"\xff"',
        b"\xef\xbb\xbf{}",
        b"[" + b"1," * 300_000 + b"1]",
    ],
    ids=range(16),
)
def test_what_is_no_json_of_ours_is_refused(client: httpx.Client, body: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    refused(client.post(AT, content=body, headers=headers), 400, "bad-json")


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({}, "/"),
        ([], "/"),
        (None, "/"),
        ("text", "/"),
        ({**TRUST, "more": 1}, "/"),
        ({**TRUST, "scope": 1}, "/scope"),
        ({**TRUST, "scope": "team/"}, "/scope"),
        ({**TRUST, "scope": "team/a\n"}, "/scope"),
        ({**TRUST, "scope": "personal/alice"}, "/scope"),
        ({**TRUST, "digest": "A" * 64}, "/digest"),
        ({**TRUST, "digest": ["0" * 64]}, "/digest"),
        ({**TRUST, "digest": DIGEST + "\n"}, "/digest"),
        ({**TRUST, "reason": "x" * 5000}, "/reason"),
        ({**TRUST, "reason": {"a": {"b": {"c": 1}}}}, "/reason"),
    ],
)
def test_a_body_that_the_document_does_not_know_names_the_field(
    client: httpx.Client, body: Any, where: str
) -> None:
    answer = client.post(AT, content=json.dumps(body), headers={"Content-Type": "application/json"})
    error = refused(answer, 400, "invalid-request")
    assert error["where"] == where
    # What was sent is not repeated at length.
    assert len(error["message"]) < 600


def test_a_truth_is_no_number_and_the_other_way_round(client: httpx.Client) -> None:
    for value in (1, 0, "true", None):
        body = {"places": ["example.org"], "private": value}
        answer = client.post("environments/default/network/allow", json=body)
        assert refused(answer, 400, "invalid-request")["where"] == "/private"
    assert refused(client.get("skills", params={"limit": "true"}), 400, "invalid-request")
    assert refused(client.get("skills", params={"everything": "1"}), 400, "invalid-request")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(json_values)
@settings(max_examples=200)
def test_json_means_what_python_means_by_it_or_is_refused(value: Any) -> None:
    text = json.dumps(value).encode()
    with suppress(Refused):
        assert parse_json(text) == value
    if isinstance(value, int | None):
        assert abs(value or 0) > 10**18 or parse_json(text) == value


BODIES = [
    (path.replace("{skill}", f"sha256:{DIGEST}").replace("{environment}", "default"), method)
    for path, item in parts.document().value["paths"].items()
    for method in METHODS
    if "requestBody" in item.get(method, {})
    and "{" not in path.replace("{skill}", "").replace("{environment}", "")
]

fields = st.sampled_from(
    ["digest", "scope", "reason", "files", "path", "text", "places", "to", "note", "team", "login"]
)
plausible = st.dictionaries(
    fields,
    st.sampled_from(["personal", "team/x", DIGEST, "organisation", "", "\n"]) | json_values,
    max_size=6,
)


@given(st.sampled_from(BODIES), plausible | json_values)
@settings(
    max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
def test_no_body_makes_the_server_fail(
    client: httpx.Client, own: JupyterServer, target: tuple[str, str], body: Any
) -> None:
    path, method = target
    answer = client.request(
        method,
        path,
        content=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    assert answer.status_code < 500, (answer.text, own.said()[-3000:])


# queries, paths, headers --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "query",
    [
        "unknown=1",
        "q=a&q=b",
        "q=",
        "q=%ff",
        "q=%00",
        "q=" + "x" * 201,
        "limit=0",
        "limit=501",
        "limit=-1",
        "limit=1e3",
        "limit=%D9%A1",
        "limit=" + "9" * 400,
        "offset=99999999999999999999",
        "scope=team/../x",
        "scope=personal%0A",
        "everything=yes",
    ],
)
def test_a_query_that_the_document_does_not_know_is_refused(
    client: httpx.Client, query: str
) -> None:
    refused(client.get(f"skills?{query}"), 400, "invalid-request")


@pytest.mark.parametrize(
    "name",
    [
        "Upper",
        "a--b",
        "..",
        "%2e%2e",
        "a%2Fb",
        "a%00",
        "a@0",
        "a@1@2",
        "a@99999999999",
        "sha256:short",
        "%0d%0aSet-Cookie:x=y",
        "%ff",
        "a%0A",
        "x" * 81,
    ],
)
def test_a_path_that_names_no_skill_is_not_there(client: httpx.Client, name: str) -> None:
    answer = client.get(f"skills/{name}")
    assert answer.status_code in (400, 404), answer.text
    assert "Set-Cookie" not in answer.headers or "x=y" not in answer.headers["Set-Cookie"]


def test_nothing_of_a_request_becomes_a_header(client: httpx.Client) -> None:
    evil = "x\r\nSet-Cookie: stolen=1\r\n\r\n<script>"
    for path, params in (
        ("skills/some-name/file", {"path": evil}),
        ("skills", {"q": evil}),
        ("environment-differences", {"old": evil, "new": evil}),
    ):
        answer = client.get(path, params=params)
        assert "stolen" not in str(answer.headers)
        assert answer.headers["Content-Type"] == "application/json"
    body = b'{"files": [{"path": "SKILL.md", "text": "x"}]}'
    answer = client.post(
        "skills", params={"filename": evil}, content=body, headers={"Content-Type": "x"}
    )
    refused(answer, 400, "invalid-request")


@pytest.mark.parametrize(
    ("content_type", "expected"),
    [
        ("application/json", 403),
        ("application/json; charset=utf-8", 403),
        ('Application/JSON; charset="UTF-8"', 403),
        ("application/json; charset=utf-16", 415),
        ("application/json; a=b; charset=utf-8", 415),
        ("text/plain", 415),
        ("application/x-www-form-urlencoded", 415),
        ("multipart/form-data; boundary=x", 415),
        ("", 415),
    ],
)
def test_only_json_is_taken_as_json(client: httpx.Client, content_type: str, expected: int) -> None:
    """What a form on another site can send without being asked is not taken."""
    body = json.dumps({**TRUST, "scope": "organisation"}).encode()
    headers = {"Content-Type": content_type} if content_type else {}
    answer = client.post(AT, content=body, headers=headers)
    assert answer.status_code == expected, answer.text


def test_a_body_where_none_is_wanted_is_refused(client: httpx.Client) -> None:
    headers = {"Content-Type": "application/json"}
    refused(client.request("GET", "me", content=b"{}", headers=headers), 415, "content-type")
    refused(client.post(AT), 400, "no-body")
    packed = {**headers, "Content-Encoding": "gzip"}
    refused(client.post(AT, content=b"x", headers=packed), 415, "content-encoding")


# sizes and time -----------------------------------------------------------------------------------


def raw(server: JupyterServer, head: str, *, length: int | None) -> socket.socket:
    """A connection on which the head of a request was sent, as the server's owner."""
    at = urlsplit(server.url)
    connection = socket.create_connection((at.hostname or "", at.port or 0), PATIENCE)
    size = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
    connection.sendall(
        f"{head} HTTP/1.1\r\nHost: {at.netloc}\r\nAuthorization: token t\r\n{size}\r\n"
        "Content-Type: application/json\r\n\r\n".encode()
    )
    return connection


def answered(connection: socket.socket) -> http.client.HTTPResponse:
    response = http.client.HTTPResponse(connection)
    response.begin()
    return response


def said(response: http.client.HTTPResponse) -> str:
    found: str = json.loads(response.read())["error"]["code"]
    return found


def test_a_body_over_its_bound_is_refused(client: httpx.Client) -> None:
    body = b'{"a": "' + b"x" * (1 << 20) + b'"}'
    headers = {"Content-Type": "application/json"}
    refused(client.post(AT, content=body, headers=headers), 413, "too-large")


def test_a_huge_body_is_refused_before_it_comes(own: JupyterServer) -> None:
    with raw(own, f"POST /base/reprise/api/{AT}", length=1 << 40) as connection:
        response = answered(connection)
        assert (response.status, said(response)) == (413, "too-large")
        assert response.getheader("Connection") == "close"


def test_a_body_of_unsaid_size_is_refused_where_its_bound_is(own: JupyterServer) -> None:
    with raw(own, f"POST /base/reprise/api/{AT}", length=None) as connection:
        piece = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
        for _ in range(17):
            connection.sendall(piece)
        response = answered(connection)
        assert (response.status, said(response)) == (413, "too-large")


def test_all_bodies_together_are_bounded(own: JupyterServer, client: httpx.Client) -> None:
    with raw(own, "POST /base/reprise/api/skills", length=None) as connection:
        piece = b"100000\r\n" + b"x" * 0x100000 + b"\r\n"
        for _ in range(3):
            connection.sendall(piece)
        connection.sendall(b"1\r\nx\r\n")
        response = answered(connection)
        assert (response.status, said(response)) == (503, "busy")
    # All is given back.
    refused(client.post(AT, json={**TRUST, "scope": "organisation"}), 403, "not-allowed")


def test_a_slow_body_is_given_up(own: JupyterServer) -> None:
    with raw(own, f"POST /base/reprise/api/{AT}", length=100) as connection:
        connection.sendall(b"{")
        response = answered(connection)
        assert (response.status, said(response)) == (408, "too-slow")
        assert connection.recv(1) == b""


def test_also_one_whose_sender_may_not_ask(own: JupyterServer) -> None:
    at = urlsplit(own.url)
    connection = socket.create_connection((at.hostname or "", at.port or 0), PATIENCE)
    with connection:
        head = f"POST /base/reprise/api/{AT} HTTP/1.1\r\nHost: {at.netloc}\r\n"
        connection.sendall(f"{head}Content-Length: 100\r\n\r\n".encode())
        response = answered(connection)
        assert (response.status, said(response)) == (408, "too-slow")


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_few_requests_of_one_person_are_under_way_at_once(
    own: JupyterServer, client: httpx.Client
) -> None:
    head = "POST /base/reprise/api/skills"
    held = [raw(own, head, length=1000) for _ in range(4)]
    try:
        eventually(lambda: client.get("me").status_code == 429)
        answer = client.get("me")
        if answer.status_code == 429:  # they are given up after a second
            refused(answer, 429, "too-many-at-once")
            assert answer.headers["Retry-After"] == "1"
    finally:
        for connection in held:
            connection.close()
    # Clients that went away in the middle hold nothing.
    eventually(lambda: client.get("me").status_code == 200)
    for _ in range(20):
        raw(own, head, length=1000).close()
    eventually(lambda: client.get("me").status_code == 200)


def test_many_at_once_are_all_answered(own: JupyterServer) -> None:
    def ask(_: int) -> int:
        with httpx.Client(trust_env=False, timeout=PATIENCE) as one:
            return one.get(
                f"{own.url}reprise/api/skills", headers={"Authorization": "token t"}
            ).status_code

    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(ask, range(64)))
    assert set(found) <= {200, 429}
    assert found.count(200) >= 4
