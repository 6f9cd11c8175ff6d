"""Nobody gets past the API's walls: no login, no right, no token against forgery, at any method."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from reprise_server.api import parts
from reprise_server.api.document import Operation
from tests.fixtures.server import JupyterServer

OPERATIONS = [
    (endpoint, method, made)
    for endpoint in parts.ENDPOINTS
    for method, made in endpoint.operations.items()
]
NAMES = [f"{method} {endpoint.path}" for endpoint, method, _ in OPERATIONS]

#: What some parameter of a path takes.
SAMPLES = (
    "some-name",
    "default",
    "00000000-0000-4000-8000-000000000000",
    "0",
    "1",
    "a" * 64,
    "0" * 32,
)


def address(path: str, operation: Operation) -> str:
    """A path that the template fits, so that nothing is refused for its own sake."""
    for (place, name), parameter in operation.parameters.items():
        if place == "path":
            values: list[Any] = [
                int(each) if parameter.kind == "integer" else each
                for each in SAMPLES
                if parameter.kind != "integer" or each.isdecimal()
            ]
            fitting = [each for each in values if parameter.validator.is_valid(each)]
            assert fitting, f"no sample fits {name} of {path}; add one"
            path = path.replace(f"{{{name}}}", str(fitting[0]))
    return path


def code(answer: httpx.Response) -> str:
    found: str = answer.json()["error"]["code"]
    return found


@pytest.fixture(scope="module")
def stranger(api: JupyterServer) -> httpx.Client:
    return api.client(None)


@pytest.fixture(scope="module")
def liar(api: JupyterServer) -> httpx.Client:
    return api.client(None, Authorization="token alice-tokem")


@pytest.fixture(scope="module")
def alice(api: JupyterServer) -> httpx.Client:
    return api.client("alice")


@pytest.fixture(scope="module")
def browser(api: JupyterServer) -> httpx.Client:
    """alice's, logged in by a cookie."""
    client = api.login("alice")
    assert client.get("me").json()["name"] == "alice"
    return client


@pytest.mark.parametrize(("endpoint", "method", "made"), OPERATIONS, ids=NAMES)
def test_every_method_asks_who_you_are_and_whether_you_may(
    api: JupyterServer,
    stranger: httpx.Client,
    liar: httpx.Client,
    alice: httpx.Client,
    browser: httpx.Client,
    endpoint: Any,
    method: str,
    made: Any,
) -> None:
    path = address(endpoint.path, parts.document().operations[endpoint.path, method])
    # A body that nobody would take: whoever may not ask does not even hear that.
    sent = {} if method in ("get", "delete") else {"json": {"nonsense": 1}}
    api.asked()
    for client in (stranger, liar):
        answer = getattr(client, method)(path, **sent)
        assert (answer.status_code, code(answer)) == (403, "not-authenticated")
    assert api.asked() == []  # no Authorizer is asked about nobody

    resource = made.resource or endpoint.auth_resource
    api.deny(("alice", made.action, resource))
    answer = getattr(alice, method)(path, **sent)
    assert (answer.status_code, code(answer)) == (403, "not-authorized")
    assert resource in answer.json()["error"]["message"]
    # Exactly this was asked, once.
    assert api.asked() == [["alice", made.action, resource]]
    # Another action or resource says nothing about this one.
    api.deny(("alice", "other", resource), ("alice", made.action, "other"))
    if method != "get":
        answer = getattr(browser, method)(path, **sent)
        assert (answer.status_code, code(answer)) == (403, "xsrf")
        assert api.asked() == []
        wrong = getattr(browser, method)(path, headers={"X-XSRFToken": "x"}, **sent)
        assert (wrong.status_code, code(wrong)) == (403, "xsrf")
    api.deny()


def test_actions_are_told_apart() -> None:
    """Reading, changing one's own and ruling over others are three things to an Authorizer."""
    found = {
        (made.action, made.resource or endpoint.auth_resource) for endpoint, _, made in OPERATIONS
    }
    assert {
        ("read", "reprise-skills"),
        ("write", "reprise-skills"),
        ("write", "reprise-skill-governance"),
        ("read", "reprise-environments"),
        ("write", "reprise-environment-governance"),
    } <= found
    for endpoint, method, made in OPERATIONS:
        if method == "get":
            assert made.action == "read"
        else:
            assert made.action != "read"
        if made.widens:
            resource = made.resource or endpoint.auth_resource
            assert resource.endswith("-governance"), endpoint.path


def test_a_browser_with_the_token_against_forgery_gets_in(browser: httpx.Client) -> None:
    token = browser.cookies.get("_xsrf")
    assert token
    body = {"places": ["example.org"]}
    answer = browser.post(
        "environments/default/network/deny", json=body, headers={"X-XSRFToken": token}
    )
    assert code(answer) == "not-allowed"  # alice is not the person of this login: another wall


def test_a_front_end_elsewhere_that_has_the_token_reads_why_it_was_refused(
    alice: httpx.Client,
) -> None:
    answer = alice.get("skills/none-such", headers={"Origin": "https://lab.example.org"})
    assert answer.status_code == 404
    assert answer.headers["Access-Control-Allow-Origin"] == "https://lab.example.org"


def test_a_page_elsewhere_gets_no_file_by_a_link(browser: httpx.Client) -> None:
    """A cookie goes along with a link on another site; Jupyter looks at where it came from."""
    for headers in ({"Referer": "https://example.org/"}, {}):
        answer = browser.get("skills/some-name/file", params={"path": "SKILL.md"}, headers=headers)
        assert answer.status_code == 403
    answer = browser.get("me", headers={"Origin": "https://example.org"})
    assert answer.status_code == 404
    assert "alice" not in answer.text


@pytest.mark.parametrize("method", ["get", "post", "put", "patch", "delete"])
def test_what_is_not_there_is_said_to_those_who_may_ask(
    stranger: httpx.Client, alice: httpx.Client, method: str
) -> None:
    for path in ("nothing", "", "skills/some-name/nothing", "../api/nothing"):
        answer = stranger.request(method, path)
        assert code(answer) == "not-authenticated"
        answer = alice.request(method, path)
        assert (answer.status_code, code(answer)) == (404, "not-found")


def test_methods_that_nobody_made_do_nothing(alice: httpx.Client, stranger: httpx.Client) -> None:
    for method in ("PUT", "PATCH", "DELETE"):
        answer = alice.request(method, "me")
        assert (answer.status_code, code(answer)) == (405, "method-not-allowed")
    assert alice.request("HEAD", "me").status_code == 405
    assert alice.request("FROB", "me").status_code == 405
    # What a browser asks before a request from elsewhere is told no secrets.
    answer = stranger.request("OPTIONS", "skills")
    assert answer.status_code in (200, 204)


def test_a_login_of_nobody_is_not_taken(api: JupyterServer) -> None:
    for token in ("token -token", "token", "Basic YWxpY2U6eA==", "token alice-tokens"):
        assert code(api.client(None, Authorization=token).get("me")) == "not-authenticated"


def test_the_document_is_served_for_this_very_server(api: JupyterServer) -> None:
    answer = api.client("alice").get("openapi.json")
    assert answer.status_code == 200
    said = answer.json()
    assert said["openapi"].startswith("3.1.")
    assert said["servers"] == [{"url": "/base/reprise/api"}]
    assert answer.headers["Cache-Control"] == "no-store"


def test_a_person_hears_who_he_is_here(api: JupyterServer) -> None:
    said = api.client("alice").get("me").json()
    assert said["name"] == "alice"
    assert not said["anonymous"]
    assert said["login"] == "postgres"
    assert not said["governance"]["may"]
    assert "c.RepriseApi.logins" in said["governance"]["why"]
