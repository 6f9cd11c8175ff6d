"""docs/model-endpoints.md says what is so: each of its settings opens a model."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from traitlets.config import Config

from reprise_server.agent.model import compaction, open_model
from reprise_server.agent.settings import RepriseAgent

PAGE = (Path(__file__).parents[3] / "docs" / "model-endpoints.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_each_block_of_settings_opens_a_model(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "made-up")
    c = Config()
    exec(compile(BLOCKS[number], "model-endpoints.md", "exec"), {"c": c})
    given = RepriseAgent(config=c)
    assert c.RepriseAgent, "it sets something"
    for name in c.RepriseAgent:
        assert name in RepriseAgent.class_trait_names(config=True)
    if given.provider == "vertex":
        # Signing in takes an extra that the tests do not have, and somebody's account.
        given.api_key = "made-up"
    model = open_model(given)
    assert model.name == given.model
    assert (model.budget.money is not None) == bool(given.money)


def test_the_settings_named_in_the_text_exist() -> None:
    named = set(re.findall(r"RepriseAgent\.(\w+)", PAGE))
    named |= {"attempts", "longest_wait", "silence", "context_tokens", "turn_requests"}
    assert named <= set(RepriseAgent.class_trait_names(config=True))


def test_the_shares_of_the_context_are_those_of_the_code() -> None:
    assert compaction.edits(100)["edits"][0]["trigger"]["value"] == 60
    assert "from 60 % on" in PAGE
    assert compaction.due(80, context_tokens=100, max_tokens=10)
    assert not compaction.due(79, context_tokens=100, max_tokens=10)
    assert PAGE.count("from 80 % on") == 2
