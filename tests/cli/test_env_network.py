"""`reprise env allow`, `deny` and `network` change what sandboxes may reach, and say so."""

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
    return Reprise(home, {"PIP_CONFIG_FILE": "/dev/null", "UV_NO_CONFIG": "1"})


def network(env: Reprise, name: str = "default") -> Any:
    shown = env("env", "show", name, "--json")
    assert shown.returncode == 0, shown.stderr
    return json.loads(shown.stdout)["network"]


def test_hosts_are_allowed_and_denied_again(env: Reprise) -> None:
    allowed = env("env", "allow", "Example.org", "*.example.org:8443", "package-index")
    assert allowed.returncode == 0, allowed.stderr
    assert "restart a running one" in allowed.stdout
    assert network(env) == {"allow": ["*.example.org:8443", "example.org", "package-index"]}
    shown = env("env", "show").stdout
    assert "*.example.org:8443, example.org, package-index" in shown
    again = env("env", "allow", "example.org", "--json")
    assert json.loads(again.stdout)["network"] == network(env)
    denied = env("env", "deny", "example.org", "package-index")
    assert denied.returncode == 0, denied.stderr
    assert "Kernels that run keep what they have" in denied.stdout
    assert network(env) == {"allow": ["*.example.org:8443"]}
    env("env", "deny", "*.example.org:8443")
    assert network(env) == {}


def test_a_private_place_is_allowed_as_such_or_not_at_all(env: Reprise) -> None:
    refused = env("env", "allow", "example.org", "10.1.2.3:8080")
    assert refused.returncode == 2
    assert "--private" in refused.stderr
    assert network(env) == {}
    env("env", "allow", "db.example.org:5432")
    env("env", "allow", "db.example.org:5432", "10.1.2.3:8080", "--private")
    assert network(env) == {"private": ["10.1.2.3:8080", "db.example.org:5432"]}
    # Allowed as private, it stays so.
    env("env", "allow", "10.1.2.3:8080", "--private")
    env("env", "allow", "db.example.org:5432")
    assert network(env) == {"private": ["10.1.2.3:8080", "db.example.org:5432"]}
    env("env", "deny", "10.1.2.3:8080")
    assert network(env) == {"private": ["db.example.org:5432"]}


@pytest.mark.parametrize(
    "place",
    [
        "",
        "exa mple.org",
        "https://example.org",
        "example.org:0",
        "*",
        "a.*.org",
        "example.org:http",
    ],
)
def test_what_is_no_place_changes_nothing(env: Reprise, place: str) -> None:
    refused = env("env", "allow", "example.org", place)
    assert refused.returncode == 2
    assert network(env) == {}
    assert env("env", "allow", place, "--private").returncode == 2


def test_what_was_not_allowed_cannot_be_denied(env: Reprise) -> None:
    env("env", "allow", "example.org")
    refused = env("env", "deny", "example.net")
    assert refused.returncode == 2
    assert "Allowed: example.org." in refused.stderr


def test_package_index_is_said_to_be_what_the_tools_are_configured_with(env: Reprise) -> None:
    url = "https://me:secret@index.example:8443/simple"
    variables = {"PIP_INDEX_URL": url, "UV_DEFAULT_INDEX": url}
    said = env("env", "allow", "package-index", "--json", **variables)
    assert json.loads(said.stdout)["package_index"]["places"] == ["index.example:8443"]
    said = env("env", "allow", "package-index", **variables)
    assert "package-index is index.example:8443." in said.stdout
    assert "secret" not in said.stdout + said.stderr
    assert "secret" not in json.dumps(network(env))
    # It needs no --private, wherever it is.
    env("env", "allow", "package-index", "--private")
    assert network(env) == {"allow": ["package-index"]}


def test_limits_are_set_and_taken_back(env: Reprise) -> None:
    said = env(
        "env", "network", "--connections", "8", "--rate", "none", "--bytes", "10GiB", "--json"
    )
    assert json.loads(said.stdout)["limits"] == {"connections": 8, "rate": 0, "bytes": 10 << 30}
    assert network(env) == {"connections": 8, "rate": 0, "bytes": 10 << 30}
    env("env", "network", "--rate", "default", "--connections", "default")
    assert network(env) == {"bytes": 10 << 30}
    assert "10 GiB" in env("env", "network").stdout
    assert env("env", "network", "--rate", "many").returncode == 2


def test_each_environment_has_rules_of_its_own(env: Reprise) -> None:
    env("env", "allow", "example.org", "--environment", "open")
    assert network(env, "open") == {"allow": ["example.org"]}
    assert network(env) == {}
