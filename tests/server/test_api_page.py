"""docs/rest.md does what it says: its examples run, and its tables are what the handlers say."""

from __future__ import annotations

import contextlib
import io
import re
import uuid
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reprise_server.api import events, parts
from reprise_server.settings import RepriseApi
from tests.fixtures.commands import Reprise
from tests.fixtures.server import Serve

PAGE = (Path(__file__).parents[2] / "docs" / "rest.md").read_text()


def blocks() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)


def test_the_examples_work_in_their_order(
    serve: Serve,
    reprise: Reprise,
    sample_session: Callable[[str | None], uuid.UUID],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On the embedded database, with a session in it."""
    sample_session(None)
    server = serve(home=reprise.home, people=False)
    monkeypatch.setenv("JUPYTER_URL", server.url)
    monkeypatch.setenv("JUPYTER_TOKEN", "t")
    named: dict[str, Any] = {}
    told = []
    for block in blocks():
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown):
            exec(compile(block, "docs/rest.md", "exec"), named)
        told.append(shown.getvalue())
    named["api"].close()
    first, skills, trust, environments, sessions, files, _ = told
    assert first.startswith("3.1")
    assert "yours" in first or "token" in first
    assert skills.splitlines() == [
        "personal:count-rows@1 draft untrusted",
        "['SKILL.md', 'scripts/count.py']",
        "count-rows",
        "['script-help']",
    ]
    assert trust.split() == ["trusted", "409", "content-changed"]
    assert environments.splitlines() == ["['default']", "['example.org']"]
    assert sessions.splitlines()[-1].startswith("done {")
    assert files.splitlines()[-1] == "1"
    assert "ok" in files.split()

    guests = named["Guests"]
    for name, action, resource, expected in (
        ("alice", "write", "reprise-skills", True),
        ("bob", "read", "reprise-skills", True),
        ("bob", "write", "reprise-skills", False),
        ("bob", "read", "kernels", False),
    ):
        user = SimpleNamespace(username=name)
        assert guests.is_authorized(None, None, user, action, resource) is expected


def test_the_table_of_resources_is_what_authorizers_are_asked_about() -> None:
    asked = {
        (made.resource or endpoint.auth_resource, made.action)
        for endpoint in parts.ENDPOINTS
        for made in endpoint.operations.values()
    }
    rows = re.findall(
        r"^\| `(reprise[a-z-]*)` \| ?(.*?) ?\| ?(.*?) ?\| ?(.*?) ?\|$", PAGE, re.MULTILINE
    )
    said = {
        (resource, action)
        for resource, *cells in rows
        for action, cell in zip(("read", "write", "execute"), cells, strict=True)
        if cell
    }
    assert said == asked


def test_its_settings_and_events_are_all_there_are() -> None:
    settings = {
        name
        for name, trait in RepriseApi.class_own_traits().items()
        if trait.metadata.get("config")
    }
    table = PAGE.partition("## Limits")[2].partition("## Errors")[0]
    assert set(re.findall(r"`([a-z_]+)`", table)) >= settings
    told = set(re.findall(r"`(urn:jupyter-reprise:[a-z-]+:1)`", PAGE))
    assert told == {events.schema_id(path.stem) for path in events.FOLDER.glob("*.yaml")}
