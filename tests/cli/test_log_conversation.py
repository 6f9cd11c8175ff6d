"""`reprise log --conversation` shows all that was said and done, and that it is as recorded."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Callable, Mapping
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprise.log.conversation import KINDS, Entry, Kind
from reprise.log.conversations import Conversations
from reprise.log.embedded import Server
from reprise.log.postgres import Log
from reprise.log.transcript import transcript
from tests.fixtures.commands import Reprise

Sample = Callable[[str | None], uuid.UUID]

CALL = {"id": "c1", "tool": "run_command", "input": {"command": "pip list"}, "act": {}}
ASKED = {"decision": "ask", "rule": "team/ml/no-pip", "why": "…", "grant": None}
TOLD: list[tuple[int, Kind, dict[str, Any]]] = [
    (1, "said", {"text": "Why is recall low?", "by": "ada"}),
    (1, "waiting", {"why": "overloaded", "seconds": 2, "attempt": 1, "status": 529}),
    (
        1,
        "answered",
        {
            "content": [{"type": "text", "text": "I look.\x1b]0;t\x07"}, {"type": "tool_use"}],
            "stop_reason": "tool_use",
            "usage": {"input_tokens": 10, "cache_read_input_tokens": 90, "output_tokens": 7},
            "cost": {"amount": "0.0123", "currency": "USD"},
        },
    ),
    (1, "called", {**CALL, "verdict": ASKED}),
    (1, "question", {"id": "q1", "call": "c1", "text": "The agent wants to run a command"}),
    (1, "decided", {"question": "q1", "decision": "once", "by": "ada", "how": "terminal"}),
    (1, "running", {"id": "c1"}),
    (
        1,
        "result",
        {
            "id": "c1",
            "status": "ok",
            "content": [],
            "steps": [43],
            "taints": [{"kind": "network", "source": "a.example"}],
            "outside": ["1 request to a.example"],
        },
    ),
    (1, "called", {**CALL, "id": "c2", "verdict": ASKED}),
    (1, "running", {"id": "c2"}),
    (1, "ended", {"status": "interrupted", "why": "the server went"}),
]


async def write(home: Any, session: uuid.UUID) -> uuid.UUID:
    log = await Log.connect(home=home)
    try:
        known = Conversations(log)
        conversation = await known.begin(session, title="recall", body={"model": "m-1"})
        writer = await known.open(conversation, {})
        for turn, kind, body in TOLD:
            await writer.append(turn, kind, body)
        await writer.close()
    finally:
        await log.close()
    return conversation


def test_it_reads_like_a_transcript_and_its_record_is_whole(
    reprise: Reprise, sample_session: Sample
) -> None:
    session = sample_session(None)
    none = reprise("log", str(session), "--conversation")
    assert none.returncode == 2
    assert "no conversation" in none.stderr
    conversation = asyncio.run(write(reprise.home, session))
    shown = reprise("log", str(session), "--conversation")
    assert shown.returncode == 0, shown.stderr
    said = shown.stdout
    assert "\x1b" not in said
    places = [
        said.index(words)
        for words in (
            "conversation with m-1",
            "  1 you   Why is recall low?",
            "waited 2 s: overloaded (529)",
            "  1 agent I look.\\x1b]0;t\\x07",
            "100 tokens in (90 from the cache) · 7 out · 0.0123 USD",
            "  1 asked The agent wants to run a command",
            "once",
            "decided by ada, terminal",
            "> run_command  pip list",
            "ok · step 43 · outside: 1 request to a.example · brought in what is not trusted: network",
            "turn 1: interrupted",
            "may have run: no end recorded",
        )
    ]
    assert places == sorted(places)
    found = json.loads(reprise("log", str(session), "--conversation", "--json").stdout)
    assert [entry["kind"] for entry in found["entries"]][2:] == [kind for _, kind, _ in TOLD]
    assert found["conversation"] == str(conversation)
    chosen = reprise("log", str(session), "--conversation", str(conversation)[:8], "--check")
    assert (chosen.returncode, chosen.stdout) == (0, "whole: 13 entries match their digests\n")
    server = Server(reprise.home)
    asyncio.run(server.ensure_running(None))
    dsn = server.owner_dsn
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute("UPDATE reprise.conversation_entries SET at = at + 1 WHERE seq = 5")
    broken = reprise("log", str(session), "--conversation", "--check", "--json")
    assert broken.returncode == 1
    assert json.loads(broken.stdout)["broken"] == 5


@pytest.mark.parametrize("named", ["0000", "nothing"])
def test_a_conversation_that_is_not_there_is_said_to_be_none(
    reprise: Reprise, sample_session: Sample, named: str
) -> None:
    session = sample_session(None)
    asyncio.run(write(reprise.home, session))
    shown = reprise("log", str(session), "--conversation", named)
    assert shown.returncode == 2
    assert named in shown.stderr


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
FIELDS = st.sampled_from(
    ["id", "status", "content", "verdict", "taints", "edits", "steps", "usage", "text", "grant"]
)


@given(st.lists(st.tuples(st.sampled_from(KINDS), st.dictionaries(FIELDS, JSON)), max_size=8))
def test_no_entry_however_odd_stops_a_transcript(
    written: list[tuple[Kind, Mapping[str, Any]]],
) -> None:
    entries = [Entry(n, 1, kind, body, 0) for n, (kind, body) in enumerate(written)]
    assert all(line.turn == 1 for line in transcript(entries))


def test_a_long_text_says_how_much_is_left_out() -> None:
    [line] = transcript([Entry(0, 1, "said", {"text": "x" * 5_000}, 0)])
    assert "3000 characters more" in line.text
