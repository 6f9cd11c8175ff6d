"""Policies over REST: what is wrong is told by line, what binds is seen, setting one is pressed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.fixtures.agent_server import FRAME, PAGE, refused
from tests.fixtures.kernel import Database
from tests.fixtures.server import JupyterServer, Serve

POLICY = """
rules:
  - name: no-curl
    decision: deny
    why: Data comes from the data office.
    tool: run_command
"""


@pytest.fixture(scope="module")
def own(
    serve: Serve, database: Database, tmp_path_factory: pytest.TempPathFactory
) -> JupyterServer:
    """A server of one person, with an operator's policy."""
    file: Path = tmp_path_factory.mktemp("policy") / "server.yaml"
    file.write_text("rules:\n  - name: ask-first\n    decision: ask\n    effect: outside\n")
    options = [f"--RepriseAgent.policy_file={file}"]
    return serve(dsn=database.dsn, people=False, options=options)


@pytest.fixture(scope="module")
def client(own: JupyterServer) -> httpx.Client:
    return own.client()


def levels(client: httpx.Client) -> list[tuple[str, int | None, list[str]]]:
    return [
        (each["level"], each["version"], [rule["name"] for rule in each["rules"]])
        for each in client.get("policies").json()["policies"]
    ]


def test_a_policy_is_checked_set_seen_and_followed_by_another(client: httpx.Client) -> None:
    assert levels(client) == [("server", None, ["ask-first"])]
    checked = client.post("policy-checks", json={"policy": POLICY}).json()
    assert checked["problems"] == []
    assert checked["policy"]["rules"][0]["name"] == "no-curl"
    # What a command may not do, a cell can do as well.
    assert any("effect: run" in each["mend"] for each in checked["advice"])
    assert levels(client) == [("server", None, ["ask-first"])]  # nothing was kept

    asked = {"scope": "personal", "policy": POLICY, "note": "first", "after": 0}
    stored = client.put("policies", json=asked)
    assert stored.status_code == 200, stored.text
    assert (stored.json()["version"], stored.json()["note"]) == (1, "first")
    assert stored.json()["digest"] == checked["policy"]["digest"]
    assert levels(client) == [("server", None, ["ask-first"]), ("personal", 1, ["no-curl"])]
    # Whoever looked at another version than the newest does not write over it.
    again = client.put("policies", json={**asked, "policy": "rules: []"})
    assert again.status_code == 400
    assert client.put("policies", json={**asked, "policy": "rules: []", "after": 1}).is_success
    versions = client.get("policies/versions", params={"scope": "personal"}).json()["versions"]
    assert [(each["version"], len(each["rules"])) for each in versions] == [(2, 0), (1, 1)]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("rules:\n  - name: x\n    decision: perhaps\n", 3),
        ("rules:\n  - name: x\n    decision: deny\n    unknown: 1\n", 4),
        ("rules: [", 2),
        ("", 0),
        ("- 1", 1),
        ("rules:\n  - &a {name: x, decision: deny}\n  - *a\n", 3),
    ],
    ids=range(6),
)
def test_what_is_no_policy_is_told_by_line_and_never_set(
    client: httpx.Client, text: str, line: int
) -> None:
    checked = client.post("policy-checks", json={"policy": text}).json()
    assert checked["policy"] is None
    assert [each["line"] for each in checked["problems"]][:1] == [line]
    answer = client.put("policies", json={"scope": "personal", "policy": text})
    error = refused(answer, 400, "bad-policy")
    assert error["problems"] == checked["problems"]


def test_others_scopes_are_not_ones_own(client: httpx.Client) -> None:
    for scope in ("organisation", "team/nobody"):
        answer = client.put("policies", json={"scope": scope, "policy": "rules: []"})
        refused(answer, 403, "not-allowed")


# Widening acts from a browser ---------------------------------------------------------------------


def needed(answer: httpx.Response) -> dict[str, Any]:
    return refused(answer, 428, "decision-needed")


@pytest.mark.parametrize(
    "headers",
    [
        PAGE,
        {"Sec-Fetch-Site": "none"},
        {"Origin": "http://localhost:8888"},
        {"Origin": "null"},
        {"Origin": ""},
    ],
    ids=range(5),
)
def test_a_browser_is_asked_to_press_whatever_it_says_of_itself(
    own: JupyterServer, client: httpx.Client, headers: dict[str, str]
) -> None:
    body = {"scope": "personal", "policy": "rules: []", "note": str(sorted(headers.items()))}
    before = levels(client)
    found = needed(client.put("policies", json=body, headers=headers))
    assert levels(client) == before
    # The same question is the same decision; another one is another.
    assert needed(client.put("policies", json=body, headers=headers)) == found
    other = {**body, "note": "other"}
    assert (
        needed(client.put("policies", json=other, headers=headers))["decision"] != found["decision"]
    )
    # Naming a decision that nobody pressed is no press.
    for named in (found["decision"], "nonsense", "0" * 36):
        more = {**headers, "X-Reprise-Decision": named}
        assert (
            needed(client.put("policies", json=body, headers=more))["decision"] == found["decision"]
        )
    shown = client.get(own.url.removesuffix("/base/") + found["frame"], headers=FRAME).text
    assert "anonymous wants to: set policy" in shown
    assert "rules: []" in shown


def test_a_login_by_cookie_is_a_browsers(own: JupyterServer) -> None:
    with httpx.Client(trust_env=False) as browser:
        for params in ({}, {"token": "t"}):
            browser.get(f"{own.url}login", params=params)
        answer = browser.put(
            f"{own.url}reprise/api/policies",
            json={"scope": "personal", "policy": "rules: []"},
            headers={"X-XSRFToken": browser.cookies.get("_xsrf", default="") or ""},
        )
    assert (answer.status_code, answer.json()["error"]["code"]) == (428, "decision-needed")


def test_a_program_that_keeps_cookies_is_none(client: httpx.Client) -> None:
    client.get("me")
    headers = {"Cookie": "username-localhost-8888=x; _xsrf=y"}
    body = {"scope": "personal", "policy": "rules: []"}
    assert client.put("policies", json=body, headers=headers).status_code == 200


# One act, and the calls of before -----------------------------------------------------------------


def test_one_act_is_tried_on_what_binds_and_on_a_draft(client: httpx.Client) -> None:
    asked = {"tool": "mcp/crm/find", "isolated": True}
    said = client.post("policy-trials", json=asked).json()
    assert (said["verdict"]["decision"], said["verdict"]["rule"]) == ("ask", "server/ask-first")
    assert said["now"] == said["verdict"]
    assert said["levels"][0]["level"] == "server"
    draft = "rules:\n  - {name: no-crm, decision: deny, tool: mcp/crm/*}\n"
    said = client.post("policy-trials", json={**asked, "policy": draft}).json()
    assert (said["verdict"]["rule"], said["now"]["rule"]) == ("personal/no-crm", "server/ask-first")
    # As a team's, it stands between the server's and one's own.
    said = client.post("policy-trials", json={**asked, "policy": draft, "scope": "team/ml"}).json()
    assert [each["level"] for each in said["levels"]][:2] == ["server", "team/ml"]
    broken = client.post("policy-trials", json={**asked, "policy": "rules: 1"})
    assert refused(broken, 400, "bad-policy")["problems"]
    refused(client.post("policy-trials", json={"tool": "no_such_tool"}), 400, "usage")


@pytest.mark.parametrize(
    ("asked", "decision", "rule"),
    [
        ({"tool": "run_cells", "isolated": True}, "allow", "default/run"),
        ({"tool": "run_cells", "isolated": False}, "ask", "default/run"),
        ({"tool": "run_cells", "isolated": True, "tainted": ["network"]}, "allow", "default/run"),
        (
            {
                "tool": "run_cells",
                "isolated": True,
                "tainted": ["network"],
                "network": ["a.example"],
            },
            "ask",
            "taint",
        ),
        ({"tool": "load_skill", "skill": "x", "standing": "revoked"}, "deny", "revoked"),
    ],
    ids=range(5),
)
def test_the_situation_counts(
    client: httpx.Client, asked: dict[str, Any], decision: str, rule: str
) -> None:
    client.put("policies", json={"scope": "personal", "policy": "rules: []"})
    verdict = client.post("policy-trials", json=asked).json()["verdict"]
    assert (verdict["decision"], verdict["rule"]) == (decision, rule)


def test_a_command_that_is_more_than_words_matches_no_pattern(client: httpx.Client) -> None:
    draft = "rules:\n  - {name: log, decision: deny, tool: none}\n"
    for shell, plain in (("git log", True), ("git log; id", False)):
        asked = {"tool": "run_command", "shell": shell, "isolated": True, "policy": draft}
        assert client.post("policy-trials", json=asked).json()["plain"] is plain


def test_the_tools_are_told_as_policies_name_them(client: httpx.Client) -> None:
    said = client.get("policy-tools").json()
    assert {"tool": "run_command", "effect": "run"} in said["tools"]
    assert not said["isolated"]  # these servers run on the backend `process`
