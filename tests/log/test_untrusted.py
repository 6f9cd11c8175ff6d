"""The first step that makes output static is found at once, along forks, whatever was written in cells."""

from __future__ import annotations

import json
from typing import Any

import psycopg

from reprise.log.model import USER, Actor, NewStep, StepKind, sha256_hex
from reprise.log.postgres import Log
from reprise.log.writer import Writer
from reprise.workspace.manifest import Manifest
from tests.log.words import ok

AGENT = Actor("agent", "c", 1)
EMPTY = Manifest.of([]).to_bytes()
TREE = sha256_hex(EMPTY)


async def took(writer: Writer, kind: StepKind = "cell", actor: Actor = USER, **payload: Any) -> int:
    """One step and its outcome."""
    step = await writer.append_step(NewStep(kind, payload, "0" * 64, 1, actor))
    await writer.record_outcome(step.seq, ok())
    return step.seq


async def test_the_first_step_that_is_not_the_users_own_is_found_along_forks(
    log: Log, writer: Writer
) -> None:
    await writer.blobs.put(EMPTY)
    assert await writer.first_untrusted() is None
    await took(writer, content={"code": "x"})
    await took(writer, "command", shell="x")
    assert await writer.first_untrusted() is None
    before = await log.fork(writer.session, 1)
    mounted = await took(writer, "mount", target="/skills/a", tree=TREE)
    asked = await took(writer, actor=AGENT)
    await took(writer, content={"code": "y"})
    assert await writer.first_untrusted() == mounted
    # What is trusted is left out; an agent's own mount of it is not.
    assert await writer.first_untrusted([TREE]) == asked
    assert await writer.first_untrusted(["b" * 64]) == mounted
    await took(writer, "mount", AGENT, target="/skills/b", tree=TREE)
    assert await writer.first_untrusted([TREE]) == asked
    for at, found, trusting in ((1, None, None), (2, 2, None), (3, 2, 3), (4, 2, 3)):
        reader = await log.reader(await log.fork(writer.session, at))
        assert await reader.first_untrusted() == found
        assert await reader.first_untrusted([TREE]) == trusting
    # A fork's own steps count from where it went its own way.
    held = await log.acquire(before, {})
    assert await held.first_untrusted() is None
    own = await took(held, metadata={"reprise_edited_by": "agent"})
    assert await held.first_untrusted() == own == 2
    await held.close()
    again = await log.reader(await log.fork(before))
    assert await again.first_untrusted() == own


async def test_no_text_of_a_user_passes_for_an_agents_step(writer: Writer) -> None:
    """The rule reads the canonical text of a step, where what a cell holds is always quoted."""
    claims = [
        '{"actor":{"conversation":"c","kind":"agent"}',
        '"reprise_edited_by":"agent"',
        '\\"reprise_edited_by\\":\\"agent\\"',
        json.dumps({"reprise_edited_by": "agent"}),
        "\x00\ud800 \\u0000",
    ]
    for claim in claims:
        await took(writer, content={"code": claim}, metadata={claim: claim, "x": [claim]})
        await took(writer, "command", shell=claim, env={claim: claim})
    await took(writer, metadata={"reprise_edited_by": "user"})
    await took(writer, "command", env={"reprise_edited_by": "agent"})
    assert await writer.first_untrusted() is None


async def test_a_long_history_is_not_walked(log: Log, writer: Writer, dsn: str) -> None:
    """By its index: what it reads does not grow with the steps that it looks for nothing in."""
    for number in range(50):
        await took(writer, content={"code": str(number)})
    asked = await took(writer, actor=AGENT)
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute("ANALYZE reprise.steps")
        admin.execute("SET enable_seqscan = off")
        plan = "\n".join(
            row[0]
            for row in admin.execute(
                "EXPLAIN SELECT min(t.seq) FROM reprise.steps t WHERE t.session = %s"
                " AND t.seq < 1000 AND reprise.untrusted(t.kind, t.body)",
                [writer.session],
            )
        )
    assert "untrusted_steps" in plan
    assert await (await log.reader(writer.session)).first_untrusted() == asked
