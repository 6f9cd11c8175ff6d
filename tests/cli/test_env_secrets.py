"""`reprise env record` and `secret` change what the proxy keeps and adds, and hold no secret."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.commands import Reprise


@pytest.fixture
def env(tmp_path: Path) -> Reprise:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    return Reprise(home, {"API_KEY": "a-key-that-is-in-no-file"})


def network(env: Reprise) -> Any:
    shown = env("env", "show", "default", "--json")
    assert shown.returncode == 0, shown.stderr
    return json.loads(shown.stdout)["network"]


def test_recording_is_turned_on_and_off(env: Reprise) -> None:
    shown = env("env", "record", "on")
    assert shown.returncode == 0, shown.stderr
    assert "records what hosts answer" in shown.stdout
    assert "reprise env allow HOST" in shown.stdout
    assert network(env) == {"record": True}
    env("env", "allow", "example.org")
    again = env("env", "record", "on", "--json")
    assert json.loads(again.stdout)["network"] == {"allow": ["example.org"], "record": True}
    assert "no longer records" in env("env", "record", "off").stdout
    assert network(env) == {"allow": ["example.org"]}


def test_a_credential_is_named_and_taken_away(env: Reprise) -> None:
    env("env", "allow", "api.example.org")
    shown = env("env", "secret", "API.example.org", "--from", "env:API_KEY")
    assert shown.returncode == 0, shown.stderr
    assert shown.stderr == ""
    header = ("--header", "X-Api-Key", "--prefix", "", "--from", "file:/missing")
    warned = env("env", "secret", "api.example.org:8443", *header)
    assert "There is no file /missing yet" in warned.stderr
    assert "api.example.org:8443 is not allowed yet" in warned.stderr
    one = {
        "host": "api.example.org",
        "header": "Authorization",
        "prefix": "Bearer ",
        "source": "env:API_KEY",
    }
    two = {**one, "host": "api.example.org:8443", "header": "X-Api-Key", "prefix": ""}
    assert network(env)["secrets"] == [one, {**two, "source": "file:/missing"}]
    # Another source takes the place of the one before.
    env("env", "secret", "api.example.org", "--header", "authorization", "--from", "env:OTHER")
    assert [each["source"] for each in network(env)["secrets"]] == ["env:OTHER", "file:/missing"]
    assert env("env", "secret", "api.example.org", "--remove").returncode == 0
    assert [each["host"] for each in network(env)["secrets"]] == ["api.example.org:8443"]
    for path in env.home.rglob("*.json"):
        assert "a-key-that-is-in-no-file" not in path.read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["api.example.org"], "--from"),
        (["*.example.org", "--from", "env:K"], "not to a wildcard"),
        (["api.example.org", "--from", "a-key"], "env:NAME or file:/PATH"),
        (["api.example.org", "--header", "Host", "--from", "env:K"], "holds no credential"),
        (["api.example.org", "--prefix", "ü", "--from", "env:K"], "ASCII"),
        (["a b", "--from", "env:K"], "no HOST"),
        (["api.example.org", "--remove"], "no such credential"),
        (["api.example.org", "--remove", "--from", "env:K"], "nothing else"),
    ],
)
def test_what_makes_no_sense_changes_nothing(env: Reprise, arguments: list[str], said: str) -> None:
    shown = env("env", "secret", *arguments)
    assert shown.returncode == 2
    assert said in shown.stderr
    assert network(env) == {}
