"""Who is bound by which policy: all that stand, in their order; one that cannot be read stops all."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from reprise.log.policies import Policies
from reprise_server.agent.contract import Act, Situation
from reprise_server.agent.policy.engine import evaluate
from reprise_server.agent.policy.levels import PolicyUnavailable, levels
from reprise_server.agent.policy.reading import MAX_BYTES
from reprise_server.agent.policy.rules import Level
from tests.fixtures.catalog import People

READ = Act("read_file", "read", {"path": "a"}, "read a", paths=("a",))
HERE = Situation("alice", "default", isolated=True)


@dataclass
class Settings:
    policy_file: str = ""


def body(decision: str, name: str = "x") -> dict[str, object]:
    return {"rules": [{"name": name, "decision": decision, "effect": "read"}]}


def judged(found: list[Level]) -> tuple[str, str]:
    verdict = evaluate(found, [], READ, HERE)
    return verdict.decision, verdict.rule


async def test_all_that_stand_bind_from_the_top(team: People, tmp_path: Path) -> None:
    file = tmp_path / "server.yaml"
    file.write_text("rules: [{name: s, decision: allow, effect: read}]\n")
    await Policies(team.logs["olga"]).set("organisation", body("allow"))
    await Policies(team.logs["op"]).set("team/ml", body("ask"))
    await Policies(team.logs["alice"]).set("personal", body("allow"))
    alice = await levels(team.logs["alice"], Settings(str(file)))
    assert [level.name for level in alice] == ["server", "organisation", "team/ml", "personal"]
    assert judged(alice) == ("ask", "team/ml/x")
    # Who is in no team is not bound by its policy.
    eve = await levels(team.logs["eve"], Settings())
    assert [level.name for level in eve] == ["organisation"]
    assert judged(eve) == ("allow", "organisation/x")
    # From the next verdict on, in what is open, too.
    await Policies(team.logs["olga"]).set("organisation", body("deny", "no"))
    assert judged(await levels(team.logs["eve"], Settings())) == ("deny", "organisation/no")


@pytest.mark.parametrize(
    "content",
    [b"rules: [", b"rules: 1", b"\xff", b"#" * (MAX_BYTES + 1), None],
    ids=["broken", "none", "bytes", "large", "missing"],
)
async def test_a_policy_that_cannot_be_read_stops_everything(
    team: People, tmp_path: Path, content: bytes | None
) -> None:
    file = tmp_path / "server.yaml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(PolicyUnavailable, match="does nothing until"):
        await levels(team.logs["alice"], Settings(str(file)))


async def test_a_stored_one_that_is_none_stops_everything(team: People) -> None:
    await Policies(team.logs["olga"]).set("organisation", {"rules": [{"name": "X"}]})
    with pytest.raises(PolicyUnavailable, match="version 1, set by olga"):
        await levels(team.logs["alice"], Settings())
    await Policies(team.logs["olga"]).set("organisation", {})
    assert judged(await levels(team.logs["alice"], Settings())) == ("allow", "default/read")
