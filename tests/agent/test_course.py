"""Whatever a model, a person and dying processes do, entries say what comes next, and it is right."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from reprise_server.agent import course
from reprise_server.agent.contract import Entry
from reprise_server.agent.messages import NO_RESULT, messages_of

#: What may happen at each turn of the way, in the order in which it is drawn.
STOPS = ["tool_use", "tool_use", "end_turn", "max_tokens", "pause_turn", "refusal"]
VERDICTS = ["allow", "allow", "ask", "deny", "problem"]


@dataclass
class World:
    """What does as `next_move` says, with chance for all that is not ours; it may die anywhere."""

    data: st.DataObject
    entries: list[Entry] = field(default_factory=list)
    turn: int = 0
    ran: list[str] = field(default_factory=list)
    #: Calls that were allowed, by verdict or person.
    allowed: set[str] = field(default_factory=set)
    sent: list[str] = field(default_factory=list)
    calls: int = 0

    def draw(self, options: Sequence[Any]) -> Any:
        return self.data.draw(st.sampled_from(options))

    def add(self, kind: Any, body: Mapping[str, Any]) -> None:
        self.entries.append(Entry(len(self.entries), self.turn, kind, dict(body), 0))

    def begin(self) -> None:
        self.add("begun", {"model": "m"})
        self.add("session", {"session": "s", "why": "begun"})

    def say(self) -> None:
        at = course.course(self.entries)
        for call in at.calls:
            if call.running and call.result is None:
                self.add("result", course.result_body(call.id, "lost", "lost"))
        for kind, body in course.settled(course.course(self.entries)):
            self.add(kind, body)
        self.turn += 1
        self.add("said", {"text": f"words {self.turn}", "by": None})

    def step(self) -> None:
        match course.next_move(self.entries):
            case course.Ask(compact):
                assert not compact
                self.ask()
            case course.Judge(call):
                assert call.id not in self.ran
                self.judge(call.id)
            case course.Put(call):
                self.add("question", {"id": f"q{len(self.entries)}", "call": call.id, "act": {}})
            case course.Wait(call):
                assert call.question is not None
                decision = self.draw(["once", "session", "deny"])
                if decision != "deny":
                    self.allowed.add(call.id)
                body = {"question": call.question["id"], "decision": decision, "how": "terminal"}
                self.add("decided", body)
            case course.Run(call):
                self.add("running", {"id": call.id})
                assert call.id in self.allowed, "it ran and nothing allowed it"
                assert call.id not in self.ran, "it ran twice"
                self.ran.append(call.id)
                if self.draw([True, True, False]):
                    self.add("result", course.result_body(call.id, "ok", "done"))
            case course.Close(call, status, words):
                self.add("result", course.result_body(call.id, status, words))
            case course.Recover(call):
                assert call.id in self.ran
                self.add("result", course.result_body(call.id, "lost", "may have run"))
            case course.End(status, why):
                self.add("ended", {"status": status, "why": why})
            case course.Rest():
                if self.entries[-1].body.get("status") in course.CONTINUABLE and self.draw([1, 0]):
                    self.add("continued", {"by": None})
                else:
                    self.say()

    def ask(self) -> None:
        messages = messages_of(self.entries)
        check(messages)
        self.sent.append(json.dumps(messages))
        self.add("asked", {"model": "m"})
        if self.draw([False, False, True]):
            self.add("answered", {"content": [], "stop_reason": "failed", "partial": True})
            for kind, body in course.closing(self.entries, "failed", "x"):
                self.add(kind, body)
            return
        stop = self.draw(STOPS)
        content: list[dict[str, Any]] = [{"type": "text", "text": self.draw(["Hm.", " "])}]
        if stop == "tool_use":
            for _ in range(self.draw([1, 2, 3])):
                self.calls += 1
                block = {"type": "tool_use", "id": f"c{self.calls}", "name": "t", "input": {}}
                content.append(block)
        self.add("answered", {"content": content, "stop_reason": stop})

    def judge(self, call: str) -> None:
        found = self.draw(VERDICTS)
        body: dict[str, Any] = {"id": call, "tool": "t", "input": {}, "act": {}}
        if found == "problem":
            self.add("called", {**body, "act": None, "verdict": None, "problem": "no"})
            return
        if found == "allow":
            self.allowed.add(call)
        verdict = {"decision": found, "rule": "r", "why": "w.", "grant": None}
        self.add("called", {**body, "verdict": verdict})

    def die(self) -> None:
        """The process goes; the next one finds the turn open."""
        if course.course(self.entries).ended is None:
            for kind, body in course.closing(self.entries, "interrupted", "gone"):
                self.add(kind, body)

    def stop(self) -> None:
        """A person stops the turn; what runs is given its end first."""
        at = course.course(self.entries)
        if at.ended is None:
            for call in at.calls:
                if call.running and call.result is None:
                    self.add("result", course.result_body(call.id, "cancelled", "cut"))
            for kind, body in course.closing(self.entries, "cancelled", None):
                self.add(kind, body)


def check(messages: Sequence[Mapping[str, Any]]) -> None:
    """What the Messages API refuses: no user first, a call without its result in the next turn."""
    assert messages
    assert messages[0]["role"] == "user"
    turns: list[tuple[str, list[Mapping[str, Any]]]] = []
    for message in messages:
        assert message["content"]
        if turns and turns[-1][0] == message["role"]:
            turns[-1][1].extend(message["content"])
        else:
            turns.append((message["role"], list(message["content"])))
    waiting: list[str] = []
    for role, blocks in turns:
        if role == "user":
            leading = blocks[: len(waiting)]
            assert [block.get("tool_use_id") for block in leading] == waiting
            assert NO_RESULT not in json.dumps(blocks), "the model was not told what is recorded"
            assert all(block["type"] != "tool_result" for block in blocks[len(waiting) :])
            waiting = []
        else:
            assert not waiting
            waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
        for block in blocks:
            assert block["type"] != "text" or block["text"].strip()
    assert not waiting


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_no_call_runs_twice_or_unasked_and_each_gets_its_end(data: st.DataObject) -> None:
    world = World(data)
    world.begin()
    world.say()
    for _ in range(data.draw(st.integers(1, 60))):
        world.step()
        match data.draw(st.sampled_from(["on", "on", "on", "on", "die", "stop"])):
            case "die":
                world.die()
            case "stop":
                world.stop()
    # In the end somebody says something new: then every call that was ever asked for has its end.
    world.die()
    world.say()
    results = [entry.body["id"] for entry in world.entries if entry.kind == "result"]
    assert len(results) == len(set(results)), "a call ended twice"
    assert set(results) == {f"c{number}" for number in range(1, world.calls + 1)}
    check(messages_of(world.entries))


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_each_request_begins_with_the_one_before(data: st.DataObject) -> None:
    """Byte by byte, or the provider's cache of it is lost; a refusal alone takes something back."""
    world = World(data)
    world.begin()
    world.say()
    for _ in range(data.draw(st.integers(1, 60))):
        world.step()
        if data.draw(st.sampled_from([False, False, False, True])):
            world.die()
        if any(entry.body.get("stop_reason") == "refusal" for entry in world.entries[-3:]):
            return
    for before, after in zip(world.sent, world.sent[1:], strict=False):
        old, new = json.loads(before), json.loads(after)
        assert new[: len(old) - 1] == old[:-1]
        last, same = old[-1], new[len(old) - 1]
        assert same["role"] == last["role"]
        assert same["content"][: len(last["content"])] == last["content"]


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_what_comes_next_does_not_depend_on_who_asks(data: st.DataObject) -> None:
    """A process that reads the entries says the same as the one that wrote them."""
    world = World(data)
    world.begin()
    world.say()
    for _ in range(data.draw(st.integers(1, 30))):
        world.step()
        read = [
            Entry(e.seq, e.turn, e.kind, json.loads(json.dumps(e.body)), e.at_us)
            for e in world.entries
        ]
        assert repr(course.next_move(read)) == repr(course.next_move(world.entries))
