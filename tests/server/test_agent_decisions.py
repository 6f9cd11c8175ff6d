"""A decision is pressed once, by its person, after what it shows to the last byte could be read."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import html
import re
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprise_server.agent.contract import Entry
from reprise_server.agent.exact import escaped, pieces
from reprise_server.api.deciding import VIEW_S, Decision, Decisions, NotNeeded, Pressed
from reprise_server.api.decision_frame import decision_page, message_page
from reprise_server.api.matter import Choice, Matter
from reprise_server.api.people import Person
from reprise_server.api.questions import matter_of, open_questions, parts_of_matter
from reprise_server.api.refusals import Refused

ALICE, BOB = Person("alice"), Person("bob")
CHOICES = (Choice("allow", "Allow", "accept"), Choice("deny", "Deny", "reject", reason=True))
MATTER = Matter("Do it", (("what", "x"),), "because", CHOICES, "Nobody answered.")


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def made(clock: Clock | None = None, seconds: float = 60.0) -> tuple[Decisions, Clock, Any]:
    clock = clock or Clock()
    decisions = Decisions(clock)
    decision, new = decisions.open(MATTER, ALICE, "key", seconds)
    assert new
    return decisions, clock, decision


def code(call: Any) -> str:
    with pytest.raises(Refused) as refused:
        asyncio.run(call)
    return refused.value.code


# Pressing -----------------------------------------------------------------------------------------


def test_a_nonce_works_once_for_its_person_and_not_too_soon() -> None:
    decisions, clock, decision = made()
    nonces = decisions.show(decision)
    press = decisions.press
    assert code(press(decision.id, nonces["allow"], None, ALICE)) == "too-soon"
    clock.now += 2 * VIEW_S
    assert code(press(decision.id, nonces["allow"], None, BOB)) == "not-yours"
    assert code(press(decision.id, nonces["allow"], None, Person(None))) == "not-yours"
    assert code(press(decision.id, "guessed", None, ALICE)) == "no-such-press"
    done = asyncio.run(press(decision.id, nonces["deny"], "not now", ALICE))
    assert (done.ended.option, done.ended.reason) == ("deny", "not now")
    for nonce in nonces.values():
        assert code(press(decision.id, nonce, None, ALICE)) == "decided"
    assert nonces["allow"] not in repr(decision)


def test_each_showing_has_nonces_of_its_own_and_old_ones_stop() -> None:
    decisions, clock, decision = made()
    first = decisions.show(decision)
    again = decisions.show(decision)
    assert not set(first.values()) & set(again.values())
    clock.now += 2 * VIEW_S
    for _ in range(40):
        decisions.show(decision)
    assert code(decisions.press(decision.id, first["allow"], None, ALICE)) == "no-such-press"
    assert len(decision.nonces) <= 2 * 16


def test_nobody_in_time_is_a_no() -> None:
    decisions, clock, decision = made(seconds=5.0)
    nonces = decisions.show(decision)
    clock.now += 5.0
    assert code(decisions.press(decision.id, nonces["allow"], None, ALICE)) == "decided"
    assert decision.ended.how == "timeout"
    assert decisions.take(decision.id, "key", ALICE, "allow") is False
    clock.now += 10_000
    with pytest.raises(Refused):
        decisions.find(decision.id)


def test_what_was_pressed_is_taken_once_soon_and_for_the_same_alone() -> None:
    for change in ("key", "person", "option", "late", None):
        decisions, clock, decision = made()
        nonces = decisions.show(decision)
        assert decisions.take(decision.id, "key", ALICE, "allow") is False
        clock.now += 2 * VIEW_S
        asyncio.run(decisions.press(decision.id, nonces["allow"], None, ALICE))
        clock.now += 61 if change == "late" else 1
        took = decisions.take(
            decision.id,
            "other" if change == "key" else "key",
            BOB if change == "person" else ALICE,
            "deny" if change == "option" else "allow",
        )
        assert took is (change is None), change
        assert decisions.take(decision.id, "key", ALICE, "allow") is (
            change not in ("late", None)
        ), change


def test_a_press_that_could_not_be_passed_on_is_none() -> None:
    clock = Clock()
    decisions = Decisions(clock)
    tried: list[str] = []

    async def on_press(pressed: Pressed) -> None:
        tried.append(pressed.option)
        if len(tried) == 1:
            raise ConnectionError

    decision, _ = decisions.open(MATTER, ALICE, "key", 60.0, on_press)
    first = decisions.show(decision)
    clock.now += 2 * VIEW_S
    with pytest.raises(ConnectionError):
        asyncio.run(decisions.press(decision.id, first["allow"], None, ALICE))
    assert decision.ended is None
    # That nonce is used up; a new showing has others.
    assert code(decisions.press(decision.id, first["allow"], None, ALICE)) == "no-such-press"
    second = decisions.show(decision)
    clock.now += 2 * VIEW_S
    asyncio.run(decisions.press(decision.id, second["allow"], None, ALICE))
    assert tried == ["allow", "allow"]


def test_a_press_for_what_was_decided_meanwhile_is_none() -> None:
    clock = Clock()
    decisions = Decisions(clock)

    async def on_press(pressed: Pressed) -> None:
        raise NotNeeded("It was answered in a terminal.")

    decision, _ = decisions.open(MATTER, ALICE, "key", 60.0, on_press)
    nonces = decisions.show(decision)
    clock.now += 2 * VIEW_S
    assert code(decisions.press(decision.id, nonces["allow"], None, ALICE)) == "decided"
    assert decision.ended is not None
    assert decision.ended.how == "elsewhere"
    assert decisions.take(decision.id, "key", ALICE, "allow") is False


def test_two_presses_at_once_are_one() -> None:
    clock = Clock()
    decisions = Decisions(clock)
    passed: list[str] = []

    async def run() -> list[Any]:
        going = asyncio.Event()

        async def on_press(pressed: Pressed) -> None:
            passed.append(pressed.option)
            await going.wait()

        decision, _ = decisions.open(MATTER, ALICE, "key", 60.0, on_press)
        one, two = decisions.show(decision), decisions.show(decision)
        clock.now += 2 * VIEW_S
        first = asyncio.ensure_future(decisions.press(decision.id, one["allow"], None, ALICE))
        second = asyncio.ensure_future(decisions.press(decision.id, two["deny"], None, ALICE))
        await asyncio.sleep(0)
        going.set()
        return await asyncio.gather(first, second, return_exceptions=True)

    results = asyncio.run(run())
    assert [isinstance(each, Refused) for each in results] == [False, True]
    assert passed == ["allow"]


def test_few_wait_for_one_person() -> None:
    decisions = Decisions(Clock())
    for number in range(32):
        decisions.open(MATTER, ALICE, str(number), 60.0)
    with pytest.raises(Refused, match="429"):
        decisions.open(MATTER, ALICE, "more", 60.0)
    decisions.open(MATTER, BOB, "bob", 60.0)

    async def on_press(_: Pressed) -> None: ...

    # Acts that somebody's page asks for leave room for the agent's questions.
    decisions.open(MATTER, ALICE, "question", 60.0, on_press)
    decisions.end_under("3", "Elsewhere.")
    decisions.open(MATTER, ALICE, "more", 60.0)
    assert [each.key for each in decisions.waiting(BOB)] == ["bob"]


# Part by part -------------------------------------------------------------------------------------

EDITS = [
    {"do": "replace", "cell": "a", "was": "0" * 64, "type": "code", "source": "x = 1\n\u202e"},
    {"do": "insert", "cell": "n", "after": "a", "type": "code", "source": "y = 2"},
    {"do": "delete", "cell": "b", "was": "1" * 64},
]


class Parted:
    """A decision on a batch of edits of three cells, and what was passed on of it."""

    def __init__(self) -> None:
        act = {"tool": "edit_notebook", "title": "change 3 cells of n.ipynb", "skill": None}
        act["input"] = {"notebook": "n.ipynb", "edits": EDITS}
        body = {"id": "q1", "call": "c1", "text": "asked", "act": act, "parts": ["a", "n", "b"]}
        body |= {"options": ["once", "deny"], "until_us": 0}
        question = open_questions([Entry(0, 1, "question", body, 0)])[0]
        self.clock = Clock()
        self.decisions = Decisions(self.clock)
        self.passed: list[Pressed] = []
        parts = parts_of_matter(question, {})
        assert parts is not None
        matter = matter_of(question, {})
        self.decision, _ = self.decisions.open(matter, ALICE, "key", 60.0, self.on_press, parts)

    async def on_press(self, pressed: Pressed) -> None:
        self.passed.append(pressed)

    def press(self, part: str | None, option: str, reason: str | None = None) -> Decision:
        nonces = self.decisions.show(self.decision, part)
        self.clock.now += 2 * VIEW_S
        press = self.decisions.press(self.decision.id, nonces[option], reason, ALICE)
        return asyncio.run(press)


def test_nothing_is_passed_on_before_each_part_has_its_own_press() -> None:
    made = Parted()
    made.press("a", "accept")
    made.press("b", "reject", "it is needed")
    assert made.passed == []
    assert made.decision.ended is None
    ended = made.press("n", "accept").ended
    assert made.passed == [Pressed("once", None, {"b": "it is needed"})]
    assert ended is not None
    assert ended.told == "Accepted, but for 1 of 3."


def test_a_nonce_of_one_part_presses_no_other() -> None:
    """What the page around a frame has of it is the nonces that were pressed."""
    made = Parted()
    shown = {part: made.decisions.show(made.decision, part) for part in ("a", "n", "b")}
    made.clock.now += 2 * VIEW_S
    press = made.decisions.press
    asyncio.run(press(made.decision.id, shown["a"]["accept"], None, ALICE))
    for nonce in shown["a"].values():
        assert code(press(made.decision.id, nonce, None, ALICE)) == "no-such-press"
    assert set(made.decision.answers) == {"a"}
    with pytest.raises(Refused, match="404"):
        made.decisions.show(made.decision, "elsewhere")


def test_all_parts_rejected_is_a_denial_with_their_reasons() -> None:
    made = Parted()
    made.press("a", "reject", "wrong")
    made.press("n", "reject", "wrong")
    made.press("b", "reject", "no")
    assert made.passed == [Pressed("deny", "wrong; no")]


def test_the_whole_is_pressed_without_what_was_rejected_and_as_it_was_shown() -> None:
    made = Parted()
    before = made.decisions.show(made.decision)
    made.press("n", "reject", "too much")
    made.clock.now += 2 * VIEW_S
    # It was shown with that part.
    pressed = made.decisions.press(made.decision.id, before["once"], None, ALICE)
    assert code(pressed) == "no-such-press"
    said = dict(made.decision.matter.said)
    assert "y = 2" not in said.values()
    assert said["rejected already, so left out"] == "n"
    made.press(None, "once")
    assert made.passed == [Pressed("once", None, {"n": "too much"})]


def test_parts_are_rejected_without_a_press_and_never_accepted_so() -> None:
    made = Parted()
    made.press("a", "accept")
    reject = made.decisions.reject
    assert code(reject(made.decision, {"n": None}, BOB)) == "not-yours"
    assert code(reject(made.decision, {"elsewhere": None}, ALICE)) == "part-not-found"
    assert code(reject(made.decision, {"n": None, "a": None}, ALICE)) == "decided"
    assert set(made.decision.answers) == {"a"}, "nothing changed"
    asyncio.run(reject(made.decision, {"n": "changed meanwhile"}, ALICE))
    assert made.passed == []
    asyncio.run(reject(made.decision, {"b": None}, ALICE))
    assert made.passed == [Pressed("once", None, {"n": "changed meanwhile", "b": None})]
    assert code(reject(made.decision, {"b": None}, ALICE)) == "decided"


def test_a_denial_of_the_whole_leaves_no_part() -> None:
    made = Parted()
    made.press("n", "reject", "too much")
    made.press(None, "deny", "none of it")
    assert made.passed == [Pressed("deny", "none of it")]


def test_a_part_shows_what_it_writes_to_the_last_byte() -> None:
    made = Parted()
    matter = made.decision.part("a")
    page = decision_page("d", matter, made.decisions.show(made.decision, "a"), 60, "light").page
    assert b"x = 1\n<b>\\u202e</b>" in page
    assert b"y = 2" not in page
    assert "0" * 64 in page.decode()
    assert matter.title == "Replace cell a"
    assert "after a" in made.decision.part("n").said[0][0]


# What is shown ------------------------------------------------------------------------------------


@given(st.text())
def test_nothing_unseen_is_shown_as_it_is(text: str) -> None:
    for shown, was_escaped in pieces(text):
        for letter in shown:
            category = unicodedata.category(letter)
            assert letter in "\n " or category[0] not in "CZ", hex(ord(letter))
        if was_escaped:
            assert shown.isascii()
    assert not re.search(r" (\n|$)", "".join(shown for shown, _ in pieces(text)))


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_what_is_shown_is_all_of_it(text: str) -> None:
    """Read back: what is escaped by its meaning, the rest as it stands."""
    back = ""
    for shown, was_escaped in pieces(text):
        back += shown.encode("ascii").decode("unicode_escape") if was_escaped else shown
    # A line feed at the end is written out besides.
    assert back == (f"{text}\n" if text.endswith("\n") else text)


@given(st.text(), st.text())
def test_no_two_texts_look_the_same_in_a_terminal(one: str, other: str) -> None:
    assert (escaped(one) == escaped(other)) is (one == other)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[2K", "a\\x1b[2K"),
        ("a\tb\r\n", "a\\tb\\r\\n\n"),
        ("if True: pass  \nx", "if True: pass\\x20\\x20\nx"),
        ("\u202eevil", "\\u202eevil"),
        ("a\U000e0041b", "a\\U000e0041b"),
        ("\u200b\u2800\u3164\ufe0f", "\\u200b\\u2800\\u3164\\ufe0f"),
        ("\x00\x7f\x9b", "\\x00\\x7f\\x9b"),
        ("ünïcode 日本 😀", "ünïcode 日本 😀"),
        ("z\u0300\u0300\u0300\u0300", "z\u0300\u0300\\u0300\\u0300"),
        ("\ud800", "\\ud800"),
    ],
    ids=range(10),
)
def test_examples_of_what_is_shown(text: str, shown: str) -> None:
    assert "".join(each.shown for each in pieces(text)) == shown


@given(st.text(), st.text(), st.sampled_from(["light", "dark", "high-contrast"]))
def test_no_text_becomes_markup(title: str, text: str, theme: Any) -> None:
    choices = (
        Choice("once", "Allow once", "accept"),
        Choice("pattern", "Pattern", "warn", (("rule", text),)),
    )
    matter = Matter(title, ((title, text),), text, choices, text)
    nonces = {"once": "a" * 43, "pattern": "b" * 43}
    page = decision_page("1", matter, nonces, 60.0, theme).page.decode("ascii")
    plain = decision_page(
        "1",
        Matter(
            "x",
            (("x", "x"),),
            "x",
            (choices[0], Choice("pattern", "Pattern", "warn", (("rule", "x"),))),
            "x",
        ),
        nonces,
        60.0,
        theme,
    ).page.decode("ascii")

    def tags(page: str) -> list[str]:
        return [
            each for each in re.findall(r"<(/?[a-zA-Z!][^\s>]*)", page) if each not in ("b", "/b")
        ]

    assert tags(page) == tags(plain)
    assert "\x1b" not in page


def test_its_policy_lets_run_nothing_but_its_own_script() -> None:
    shown = decision_page("1", MATTER, {"allow": "a", "deny": "b"}, 60.0, "dark")
    page = shown.page.decode()
    for element in ("script", "style"):
        (text,) = re.findall(rf"<{element}>(.*?)</{element}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(html.unescape(text).encode()).digest()).decode()
        assert text == html.unescape(text)  # a browser takes it as it is
        assert f"{element}-src 'sha256-{digest}'" in shown.policy
    assert shown.policy.startswith(
        "sandbox allow-scripts; default-src 'none'; frame-ancestors 'self'; "
    )
    assert "style=" not in page
    assert not re.search(r"\son[a-z]+=", page)
    # A refusal stands first: it is what a key that is pressed by mistake meets.
    assert page.index("Deny") < page.index(">Allow<")
    said = message_page("<b>Waiting</b> for \u202eyou.", "light")
    assert "script-src" not in said.policy
    assert b"&lt;b&gt;Waiting&lt;/b&gt; for \\u202eyou." in said.page


# Questions ----------------------------------------------------------------------------------------


def entries(*said: tuple[str, dict[str, Any]]) -> list[Entry]:
    return [Entry(seq, 1, kind, body, 0) for seq, (kind, body) in enumerate(said)]  # type: ignore[arg-type]


QUESTION = {
    "id": "q2",
    "call": "c",
    "text": "run",
    "until_us": 1,
    "options": ["once", "session", "pattern", "deny"],
    "act": {
        "tool": "edit_notebook",
        "title": "change 1 cell",
        "input": {"edits": [{"do": "replace", "source": "a\nb"}, {"do": "delete"}], "n": 1},
        "hosts": ["a.example"],
        "skill": {"name": "s", "scope": "team/x", "digest": "d", "standing": "untrusted"},
    },
    "session_rule": {"name": "s", "decision": "allow", "tool": ["edit_notebook"]},
    "pattern": None,
}
CALLED = {"id": "c", "verdict": {"decision": "ask", "rule": "team/x/edits", "why": "They ask."}}


def test_a_question_shows_all_of_its_act_and_why() -> None:
    (found,) = open_questions(entries(("called", CALLED), ("question", QUESTION)))
    matter = matter_of(found, {"session": [f"call {number}" for number in range(25)]})
    assert dict(matter.said) == {
        "tool": "edit_notebook",
        "edits 1 do": "replace",
        "edits 1 source": "a\nb",
        "edits 2 do": "delete",
        "n": "1",
        "of the skill": "team/x:s sha256:d (untrusted)",
        "reaches": "a.example",
    }
    assert matter.why == "team/x/edits: They ask."
    # No pattern was offered.
    assert [each.option for each in matter.choices] == ["once", "session", "deny"]
    (session,) = [each for each in matter.choices if each.option == "session"]
    assert '"edit_notebook"' in session.shows[0][1]
    assert session.shows[1][1].endswith("call 19\nand 5 more")


@pytest.mark.parametrize(
    "after",
    [
        ("decided", {"question": "q2"}),
        ("ended", {"status": "interrupted"}),
        ("said", {"text": "x"}),
    ],
    ids=["decided", "ended", "said"],
)
def test_a_question_waits_until_something_ends_it(after: tuple[str, dict[str, Any]]) -> None:
    before = (("called", CALLED), ("question", QUESTION))
    assert len(open_questions(entries(*before))) == 1
    assert open_questions(entries(*before, after)) == []


def test_a_turn_that_goes_on_waits_for_what_it_was_cut_at() -> None:
    cut = (("called", CALLED), ("question", QUESTION), ("ended", {"status": "interrupted"}))
    again = (*cut, ("continued", {"by": None}))
    assert [each.id for each in open_questions(entries(*again))] == ["q2"]
    assert open_questions(entries(*again, ("result", {"id": "c"}))) == []
    assert open_questions(entries(*cut, ("said", {"text": "x"}), ("continued", {}))) == []
    anew = open_questions(entries(*again, ("question", {**QUESTION, "id": "q5"})))
    assert [each.id for each in anew] == ["q5"]
    # A call that asked by itself is not run again, so its question is over.
    own = {**QUESTION, "act": None}
    went_on = (("question", own), cut[-1], again[-1])
    assert open_questions(entries(*went_on)) == []


def test_what_is_asked_again_after_its_turn_was_cut_is_a_new_decision() -> None:
    decisions = Decisions(Clock())
    one, _ = decisions.open(MATTER, ALICE, "question:1:q:alice", 60.0)
    other, _ = decisions.open(MATTER, ALICE, "question:2:q:alice", 60.0)
    decisions.end_under("question:1:", "Its turn ended.", again=True)
    assert one.ended is not None
    assert decisions.find(one.id) is one
    assert decisions.under(one.key) is None
    two, new = decisions.open(MATTER, ALICE, one.key, 60.0)
    assert new
    assert two.id != one.id
    assert decisions.under(other.key) is other
