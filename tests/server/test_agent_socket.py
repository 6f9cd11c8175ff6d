"""A conversation's websocket tells all, in order, once; what it is sent is done or refused."""

from __future__ import annotations

import asyncio
import html
import json
import re
import socket
import uuid
from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlencode

import pytest
import websocket
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reprise.log.conversation import Entry
from reprise.log.conversations import Conversations
from reprise.log.postgres import Log
from reprise_server.agent.scripted import Step, calls, reply, says
from reprise_server.api import conversation_socket
from reprise_server.api.conversation_socket import PATH, SLOW, ConversationSocket
from reprise_server.api.outbox import Outbox, TooSlow
from reprise_server.api.socket_messages import ACTIONS, MESSAGE_BYTES
from tests.fixtures.agent_server import FRAME, PAGE, Agents, Line, start_agents
from tests.fixtures.kernel import Database
from tests.fixtures.server import Serve

if TYPE_CHECKING:
    from reprise_server.api.service import Service

NOTEBOOK: dict[str, Any] = {
    "nbformat": 4,
    "nbformat_minor": 5,
    "metadata": {},
    "cells": [
        {"id": "first", "cell_type": "markdown", "metadata": {}, "source": "# Rentals"},
    ],
}


def command(line: str) -> Step:
    return calls("run_command", {"command": line})


def seqs(line: Line) -> list[int]:
    return [each["seq"] for each in line.entries]


# Telling ------------------------------------------------------------------------------------------


def test_all_is_told_in_order_to_every_line_that_listens(agents: Agents) -> None:
    conversation, words = agents.begin(
        reply("I will look. ", *command("echo hi").parts), says("Hi.")
    )
    first, second = agents.line(conversation), agents.line(conversation, person="bob")
    hello = first.next()
    assert (hello["type"], hello["yours"], hello["owner"]) == ("hello", True, "alice")
    assert second.next()["yours"] is False
    for line in (first, second):
        assert line.until(lambda told: told["type"] == "told")["ended"] is None
        assert [each["kind"] for each in line.entries] == ["begun", "session"]
    assert first.ask("say", text=words)["type"] == "done"
    asked = first.until(lambda told: told["type"] == "question")
    # What comes of an answer is shown while it comes.
    said = "".join(
        told["delta"]["text"]
        for told in first.heard
        if told["type"] == "delta" and told["delta"]["type"] == "text"
    )
    assert said == "I will look. "
    assert asked["frame"].endswith(f"/decisions/{asked['decision']}/frame")
    waiting = second.until(lambda told: told["type"] == "question")
    assert (waiting["yours"], waiting["decision"]) == (False, None)
    # Also to one that comes in the middle, and knows a part.
    known = seqs(first)[3]
    third = agents.line(conversation, after=known)
    assert third.until(lambda told: told["type"] == "question") == asked
    assert seqs(third) == list(range(known + 1, seqs(third)[-1] + 1))

    answer = first.ask("answer", question=asked["question"], decision="once")
    assert answer["type"] == "done"
    for line in (first, second, third):
        assert line.until(lambda told: told["type"] == "ended")["status"] == "done"
        assert line.entries[-1]["kind"] == "ended"
    assert first.entries == second.entries
    assert seqs(first) == list(range(len(first.entries)))
    assert third.entries == first.entries[known + 1 :]
    # And it is what REST says.
    stored = agents.client.get(f"conversations/{conversation}/entries?limit=500").json()["entries"]
    assert first.entries == stored
    for line in (first, second, third):
        line.close()


def test_a_turn_is_stopped_and_goes_on_over_the_line(agents: Agents) -> None:
    conversation, words = agents.begin(command("echo on"), says("On."))
    line = agents.line(conversation)
    assert line.ask("say", text=words)["type"] == "done"
    line.entry("question")
    assert line.ask("say", text="And?")["error"]["code"] == "turn-runs"
    assert line.ask("cancel")["type"] == "done"
    assert line.entry("ended")["body"]["status"] == "cancelled"
    agents.ended(conversation)
    assert line.ask("continue")["type"] == "done"
    assert line.until(lambda told: told["type"] == "ended")["status"] == "done"
    line.close()


@pytest.mark.parametrize(("began", "told_there"), [(True, False), (False, False), (True, True)])
async def test_a_line_that_opens_as_a_turn_ends_is_told_so(
    monkeypatch: pytest.MonkeyPatch, began: bool, told_there: bool
) -> None:
    """The end is told once, perhaps between what a line has read and what it follows."""
    entries = [Entry(0, 0, "begun", {}, 1)]
    said, ended = Entry(1, 1, "said", {}, 2), Entry(2, 1, "ended", {"status": "cancelled"}, 3)
    if began:
        entries.append(said)
    runs = began

    class Stored:
        def __init__(self, log: object) -> None:
            pass

        async def entries(self, _: uuid.UUID, *, after: int, most: int) -> list[Entry]:
            return [each for each in entries if each.seq > after][:most]

        async def newest(self, _: object, count: int) -> list[Entry]:
            return entries[-count:]

    class Thread:
        async def watch(self, _: uuid.UUID, tell: Callable[[Any], None], after: int) -> None:
            nonlocal runs
            entries[1:] = [said, ended]
            for each in entries[after + 1 :]:
                tell({"type": "entry", "entry": each.to_json()})
            runs = False
            if told_there:
                tell({"type": "ended", "status": "cancelled"})
            await asyncio.sleep(0)  # what was told in the other thread comes before its answer

    class Conversing:
        running = Thread()

        async def of(self, _: uuid.UUID) -> tuple[Any, str]:
            return SimpleNamespace(entries=len(entries)), "alice"

        async def may(self, *_: object) -> None:
            return None

        async def runs(self, _: uuid.UUID) -> bool:
            return runs

    async def log() -> None:
        return None

    monkeypatch.setattr(conversation_socket, "Conversations", Stored)
    line = object.__new__(ConversationSocket)
    line.initialize(cast("Service", SimpleNamespace(conversing=Conversing(), log=log)))
    line.conversation, line.person, line._by, line._after = uuid.uuid4(), None, "alice", -1
    heard: list[dict[str, Any]] = []

    async def send(text: str) -> None:
        heard.append(json.loads(text))

    line._outbox = Outbox(send, 60.0)
    serving = asyncio.ensure_future(line._serve())
    for _ in range(100):
        await asyncio.sleep(0)
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)
    assert [each["type"] for each in heard][-1] == "ended"
    assert [each for each in heard if each["type"] == "ended"] == [
        {"type": "ended", "status": "cancelled"}
    ]
    assert [each["entry"]["seq"] for each in heard if each["type"] == "entry"] == [0, 1, 2]


def test_a_line_that_breaks_misses_nothing(agents: Agents) -> None:
    conversation, words = agents.begin(command("echo x"), says("X."))
    line = agents.line(conversation)
    line.ask("say", text=words)
    question = line.entry("question")
    line.socket.shutdown()  # torn, not closed
    again = agents.line(conversation, after=question["seq"])
    asked = again.until(lambda told: told["type"] == "question")
    again.ask("answer", question=asked["question"], decision="deny", reason="no")
    again.until(lambda told: told["type"] == "ended")
    whole = [*line.entries, *again.entries]
    assert [each["seq"] for each in whole] == list(range(len(whole)))
    again.close()


# Who may ------------------------------------------------------------------------------------------


def status(agents: Agents, conversation: str, **options: Any) -> int:
    """Of a handshake that is refused."""
    with pytest.raises(websocket.WebSocketBadStatusException) as refused:
        agents.line(conversation, **options)
    return int(refused.value.status_code)


def test_nobody_gets_a_line_without_a_login_or_from_elsewhere(agents: Agents) -> None:
    conversation, _ = agents.begin()
    assert status(agents, conversation, person=None) == 403
    assert (
        status(agents, conversation, person=None, header=["Authorization: token alice-tokem"])
        == 403
    )
    # A page of another site has the browser's cookies, and no more.
    browser = agents.server.login("alice")
    cookie = "; ".join(f"{each.name}={each.value}" for each in browser.cookies.jar)
    host = agents.server.url.split("/")[2]
    with_cookie: dict[str, Any] = {"person": None, "cookie": cookie, "suppress_origin": False}
    assert status(agents, conversation, origin="https://evil.example", **with_cookie) == 403
    line = agents.line(conversation, origin=f"http://{host}", **with_cookie)
    assert line.next()["yours"] is True
    line.close()
    assert status(agents, str(uuid.uuid4())) == 404
    assert status(agents, conversation, after=-2) == 400


def test_an_authorizer_is_asked_for_each_action(agents: Agents) -> None:
    conversation, words = agents.begin(says("Hello."))
    agents.server.deny(("alice", "read", "reprise-conversations"))
    assert status(agents, conversation) == 403
    agents.server.deny(("alice", "execute", "reprise-conversations"))
    line = agents.line(conversation)
    for type_, said in (("say", {"text": words}), ("cancel", {}), ("continue", {})):
        assert line.ask(type_, **said)["error"]["code"] == "not-authorized"
    agents.server.deny(("alice", "write", "reprise-conversations"))
    assert line.ask("notebook-take")["error"]["code"] == "not-authorized"
    agents.server.deny()
    bob = agents.line(conversation, person="bob")
    for type_, said in (("say", {"text": words}), ("cancel", {}), ("notebook-open", {})):
        assert bob.ask(type_, **said)["error"]["code"] == "not-allowed"
    assert agents.kinds(conversation) == ["begun", "session"]
    for each in (line, bob):
        each.close()


def test_a_browser_cannot_approve_over_its_line(agents: Agents) -> None:
    conversation, words = agents.begin(command("echo no"), says("No."))
    host = agents.server.url.split("/")[2]
    line = agents.line(conversation, origin=f"http://{host}", suppress_origin=False)
    line.ask("say", text=words)
    asked = line.until(lambda told: told["type"] == "question")
    answer = line.ask("answer", question=asked["question"], decision="once")
    assert answer["error"]["code"] == "decision-needed"
    assert answer["error"]["decision"] == asked["decision"]
    assert line.ask("answer", question=asked["question"], decision="deny")["type"] == "done"
    line.until(lambda told: told["type"] == "ended")
    assert "running" not in agents.kinds(conversation)
    line.close()


# What is no message -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "message",
    [
        "",
        "{",
        "null",
        "[]",
        '"say"',
        "{}",
        '{"type": 1}',
        '{"type": "entry"}',
        '{"type": "say"}',
        '{"type": "say", "text": ""}',
        '{"type": "say", "text": "a\\u0000b"}',
        '{"type": "say", "text": "\\ud800"}',
        '{"type": "say", "text": "x", "text": "y"}',
        '{"type": "say", "text": "x", "more": 1}',
        '{"type": "say", "text": NaN}',
        '{"type": "cancel", "id": 1e400}',
        '{"type": "cancel", "id": {"a": 1}}',
        '{"type": "answer", "question": "../x", "decision": "once"}',
        '{"type": "answer", "question": "q1", "decision": ""}',
        '{"type": "notebook-answer", "request": 99, "answer": {}}',
        '{"type": "notebook-take"}',
        '{"type": "notebook-open"}',
        "[" * 100_000,
        '{"type": "say", "text": ' + "[" * 40 + "]" * 40 + "}",
    ],
    ids=range(24),
)
def test_what_is_no_message_is_refused_and_the_line_goes_on(lines: Line, message: str) -> None:
    lines.socket.send(message)
    told = lines.until(lambda told: told["type"] == "refused")
    assert told["error"]["code"] in (
        "bad-json",
        "invalid-message",
        "invalid-request",
        "not-asked",
        "not-open",
        "no-notebook",
    )
    assert len(told["error"]["message"]) < 600
    assert lines.ask("cancel")["type"] == "done"


@pytest.fixture(scope="module")
def lines(agents: Agents) -> Line:
    """A line to a conversation in which nothing happens."""
    conversation, _ = agents.begin()
    line = agents.line(conversation)
    line.until(lambda told: told["type"] == "told")
    return line


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
fields = st.sampled_from(
    ["id", "text", "question", "decision", "reason", "request", "answer", "path"]
)
#: No `say` or `continue` that fits: it would begin a turn.
messages = st.builds(
    lambda kind, said: {**said, "type": kind},
    st.sampled_from([*ACTIONS, "hello", ""]).filter(lambda kind: kind != "say") | json_values,
    st.dictionaries(fields, json_values | st.sampled_from(["q1", "once", 0]), max_size=4),
)


@given(st.lists(messages | json_values, min_size=1, max_size=5))
@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_message_makes_the_server_fail_or_hang(lines: Line, said: list[Any]) -> None:
    for each in said:
        lines.socket.send(json.dumps(each))
    # It answers still, and none of it was a fault of the server's.
    assert lines.ask("cancel")["type"] == "done"
    for told in lines.heard:
        assert told["type"] != "refused" or told["error"]["code"] != "internal", told


def test_a_line_that_sends_nothing_but_nonsense_is_closed(agents: Agents) -> None:
    conversation, _ = agents.begin()
    line = agents.line(conversation)
    for _ in range(60):
        line.socket.send("nonsense")
    assert line.closed() == 4029


def test_a_message_has_a_bound(agents: Agents, lines: Line) -> None:
    lines.socket.send(json.dumps({"type": "say", "text": "x" * MESSAGE_BYTES}))
    assert lines.until(lambda told: told["type"] == "refused")["error"]["code"] == "too-large"
    lines.socket.send(json.dumps({"type": "say", "text": "x" * 200_001}))
    assert lines.until(lambda told: told["type"] == "refused")["error"]["code"] == "invalid-request"
    assert lines.ask("cancel")["type"] == "done"
    # Far over it, nothing of it is kept.
    conversation, _ = agents.begin()
    line = agents.line(conversation)
    try:
        line.socket.send("x" * (2 * MESSAGE_BYTES))
        assert line.closed() in (1009, None)
    except (ConnectionError, websocket.WebSocketException):
        pass  # cut off while it was being sent


def test_the_document_and_the_socket_know_the_same_messages(agents: Agents) -> None:
    document = agents.client.get("openapi.json").json()["x-websockets"][PATH]
    assert set(document["takes"]) == set(ACTIONS)
    for way in ("takes", "tells"):
        for name, schema in document[way].items():
            assert schema["properties"]["type"] == {"const": name}


# Readers that are slow ----------------------------------------------------------------------------


async def test_what_waits_for_a_slow_reader_is_bounded() -> None:
    taken: list[str] = []
    stuck = asyncio.Event()

    async def send(text: str) -> None:
        await stuck.wait()
        taken.append(text)

    def entry(seq: int) -> dict[str, Any]:
        return {"type": "entry", "entry": {"seq": seq, "body": "x" * 100}}

    box = Outbox(send, 60.0, most_bytes=10_000, most_messages=20)
    running = asyncio.ensure_future(box.run())
    for number in range(10):
        box.put(entry(number))
    for _ in range(100):  # for eyes only: they never fill the room
        box.put({"type": "delta", "delta": {"text": "y"}}, passing=True)
    for number in range(10, 20):
        box.put(entry(number))
    with pytest.raises(TooSlow):
        box.put(entry(20))
    small = Outbox(send, 60.0, most_bytes=300)
    with pytest.raises(TooSlow):
        for number in range(9):
            small.put(entry(number))
    stuck.set()
    while box.after < 19:
        await asyncio.sleep(0)
    running.cancel()
    assert [json.loads(text)["entry"]["seq"] for text in taken] == list(range(20))
    # A message that is larger than all the room passes where nothing else waits.
    Outbox(send, 60.0, most_bytes=10).put(entry(0))


async def test_a_reader_that_takes_nothing_is_given_up() -> None:
    async def send(_: str) -> None:
        await asyncio.Event().wait()

    with pytest.raises(TooSlow):
        await Outbox(send, 0.01).send_now("x")


def test_a_slow_reader_is_dropped_and_comes_again(serve: Serve, database: Database) -> None:
    """Also: what was told to come again loses nothing; a server that stops says so."""
    agents, opened = start_agents(serve, database, "--RepriseApi.socket_patience=3")
    with opened, agents.lines:
        conversation, _ = agents.begin()
        asyncio.run(_fill(database, uuid.UUID(conversation), megabytes=9))
        small = [(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)]
        slow = agents.line(conversation, sockopt=small)
        # It does not read. The server gives it up, and keeps nothing for it.
        quick = agents.line(conversation)
        quick.until(lambda told: told["type"] == "told")
        assert seqs(quick) == list(range(11))
        agents.once(conversation, lambda _: "was too slow" in agents.server.said())
        # One that still takes nothing is cut off before it has heard why.
        assert drained(slow) in (SLOW, None)
        assert len(slow.entries) < 11
        again = agents.line(conversation, after=seqs(slow)[-1] if slow.entries else -1)
        again.until(lambda told: told["type"] == "told")
        assert [*seqs(slow), *seqs(again)] == list(range(11))
        agents.server.end()
        assert again.closed() == 1001


def drained(line: Line) -> int | None:
    """Read what had been sent before the end; the code that it was closed with."""
    while True:
        try:
            opcode, data = line.socket.recv_data()
        except (websocket.WebSocketConnectionClosedException, ConnectionResetError):
            return None
        if opcode == websocket.ABNF.OPCODE_CLOSE:
            return int.from_bytes(data[:2], "big")
        line.heard.append(json.loads(data))


async def _fill(database: Database, conversation: uuid.UUID, *, megabytes: int) -> None:
    """Entries of a megabyte each."""
    log = await Log.connect(database.dsn, home=database.home)
    try:
        writer = await Conversations(log).open(conversation, {})
        for _ in range(megabytes):
            await writer.append(0, "state", {"disclosure": "x" * (1 << 20), "taints": []})
        await writer.close()
    finally:
        await log.close()


# The page's notebook ------------------------------------------------------------------------------


def page(line: Line, notebook: dict[str, Any]) -> dict[str, Any]:
    """Answer what the page is asked until its turn waits or ends; what was asked last."""
    while True:
        told = line.next()
        if told["type"] in ("ended", "question"):
            return told
        if told["type"] == "notebook":
            answer: dict[str, Any] = {"notebook": notebook}
            if told["asks"]["do"] == "apply":
                for change in told["asks"]["changes"]:
                    assert change["what"] == "insert"
                    notebook["cells"].append({**change["put"], "id": change["cell"]})
                answer = {"applied": True}
            line.send("notebook-answer", request=told["request"], answer=answer)


def test_the_agent_edits_the_notebook_in_the_page_that_holds_it(agents: Agents) -> None:
    insert = {"edits": [{"do": "insert", "after": "first", "type": "markdown", "source": "Added."}]}
    conversation, words = agents.begin(
        calls("read_notebook", {}),
        calls("edit_notebook", insert),
        says("Added."),
        notebook="a.ipynb",
    )
    first, second = agents.line(conversation), agents.line(conversation)
    assert first.ask("notebook-take")["error"]["code"] == "not-open"
    first.send("notebook-open")
    assert first.until(lambda told: told["type"] == "lease")["holds"] is True
    second.send("notebook-open")
    assert second.until(lambda told: told["type"] == "lease")["holds"] is False
    second.send("notebook-take")
    assert second.until(lambda told: told["type"] == "lease")["holds"] is True
    assert first.until(lambda told: told["type"] == "lease")["holds"] is False
    # Nobody asked it.
    first.send("notebook-answer", request=1, answer={"notebook": {}})
    assert first.until(lambda told: told["type"] == "refused")["error"]["code"] == "not-asked"
    # The one that holds it goes: the other one is asked.
    second.close()
    assert first.until(lambda told: told["type"] == "lease")["holds"] is True
    notebook = json.loads(json.dumps(NOTEBOOK))
    first.send("say", text=words)
    told = page(first, notebook)
    while told["type"] == "question":
        first.send("answer", question=told["question"], decision="once")
        told = page(first, notebook)
    assert told["status"] == "done"
    assert [each["source"] for each in notebook["cells"]] == ["# Rentals", "Added."]
    snapshot = next(each for each in first.entries if each["kind"] == "notebook")
    assert snapshot["body"]["where"] == "page"
    first.close()


def policy(agents: Agents, text: str) -> None:
    """Set the person's own, as a program."""
    answer = agents.client.put("policies", json={"scope": "personal", "policy": text})
    assert answer.status_code == 200, answer.text


def test_a_page_approves_some_cells_of_a_batch_and_writes_those_alone(agents: Agents) -> None:
    edits = [
        {"do": "insert", "after": "first", "type": "markdown", "source": "One."},
        {"do": "insert", "after": "#1", "type": "markdown", "source": "Two."},
        {"do": "insert", "after": "#2", "type": "markdown", "source": "Three."},
    ]
    conversation, words = agents.begin(
        calls("edit_notebook", {"edits": edits}), says("Some of it."), notebook="b.ipynb"
    )
    policy(agents, "rules:\n  - {name: edits, decision: ask, tool: edit_notebook}\n")
    line = agents.line(conversation)
    try:
        line.send("notebook-open")
        notebook = json.loads(json.dumps(NOTEBOOK))
        brought = [{"kind": "cell", "name": "first"}]
        line.send("say", text=words, brought=brought)
        told = page(line, notebook)
        assert told["type"] == "question"
        asked = next(each["body"] for each in line.entries if each["kind"] == "question")
        one, two, three = asked["parts"]

        def press(part: str, label: str) -> dict[str, Any]:
            query = urlencode({"part": part, "theme": "dark"})
            shown = agents.client.get(f"decisions/{told['decision']}/frame?{query}", headers=FRAME)
            found = re.findall(r'data-nonce="([^"]+)">([^<]+)<', html.unescape(shown.text))
            (nonce,) = [each for each, name in found if name == label]
            while True:
                answer = agents.client.post(
                    f"decisions/{told['decision']}",
                    json={"nonce": nonce},
                    headers=PAGE,
                )
                if answer.status_code != 425:
                    assert answer.status_code == 200, answer.text
                    pressed: dict[str, Any] = answer.json()
                    return pressed

        now = press(one, "Accept")
        assert now["ended"] is None
        assert [each["accepted"] for each in now["parts"]] == [True, None, None]
        assert [each["source"] for each in notebook["cells"]] == ["# Rentals"]
        # To reject takes no press in a frame.
        parts = [{"part": two, "reason": "too long"}]
        done = line.ask("answer", question=asked["id"], decision="deny", rejected=parts)
        assert done["type"] == "done"
        assert press(three, "Accept")["ended"]["option"] == "once"
        assert page(line, notebook)["status"] == "done"
    finally:
        line.close()
        policy(agents, "rules: []\n")
    assert [each["source"] for each in notebook["cells"]] == ["# Rentals", "One.", "Three."]
    decided = next(each["body"] for each in line.entries if each["kind"] == "decided")
    assert decided["rejected"] == [{"part": two, "reason": "too long"}]
    said = next(each["body"] for each in line.entries if each["kind"] == "said")
    assert said["brought"] == brought
    result = next(each["body"] for each in line.entries if each["kind"] == "result")
    assert "They say: too long" in result["content"][0]["text"]
    found = agents.client.get(f"conversations/{conversation}/edits").json()["edits"]
    assert [(each["cell"], each["before"], each["known"]) for each in found] == [
        (one, None, True),
        (three, None, True),
    ]
    assert found[1]["after"] == {"type": "markdown", "source": "Three."}
    later = agents.client.get(f"conversations/{conversation}/edits", params={"since": 2})
    assert later.json() == {"edits": []}
