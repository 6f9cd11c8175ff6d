"""The scripted model's prompt cache keeps and finds what the real one's documentation says."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprise_server.agent.scripted.editing import CLEARED, edited, size
from reprise_server.agent.scripted.prompt_cache import LOOK_BACK, Counted, PromptCache, places
from tests.agent.asking import LONG, TOOL, assistant, marked, request, result, used, user

MARK = {"type": "ephemeral"}


class Account:
    """One account's cache, with a clock that is set by hand."""

    def __init__(self) -> None:
        self.cache = PromptCache()
        self.now = 0.0

    def ask(self, body: dict[str, Any]) -> Counted:
        counted = self.cache.count(body, self.now)
        self.cache.write(counted, self.now)
        assert counted.total == size(body)
        return counted


@pytest.fixture
def account() -> Account:
    return Account()


def test_a_prefix_is_written_once_and_read_after(account: Account) -> None:
    body = request(user("hi"), system=[marked(LONG)])
    first = account.ask(body)
    assert first.read == 0
    assert first.created_5m > 1024
    second = account.ask(request(user("something else"), system=[marked(LONG)]))
    assert (second.read, second.created) == (first.created, 0)


@pytest.mark.parametrize(
    "changed",
    [
        request(user("hi"), system=[marked(LONG + ".")]),
        request(user("hi"), system=[marked(LONG)], tools=[TOOL]),
        request(user("hi"), system=[{"type": "text", "text": "x"}, marked(LONG)]),
        request(user("hi"), system=[marked(LONG)], model="claude-opus-5-5"),
    ],
    ids=["a_sign", "a_tool_before", "a_block_before", "a_model"],
)
def test_a_byte_that_changes_before_the_breakpoint_finds_nothing(
    account: Account, changed: dict[str, Any]
) -> None:
    account.ask(request(user("hi"), system=[marked(LONG)]))
    assert account.ask(changed).read == 0


def test_the_order_of_keys_counts_and_the_breakpoints_place_does_not(account: Account) -> None:
    begun = [user("a " + LONG), assistant(used(given={"x": 1, "y": 2}))]
    account.ask(request(*begun, user(marked(result())), tools=[TOOL]))
    more = [user(result()), assistant("b"), user(marked("c"))]
    assert account.ask(request(*begun, *more, tools=[TOOL])).read > 1024
    begun[1] = assistant(used(given={"y": 2, "x": 1}))
    assert account.ask(request(*begun, *more, tools=[TOOL])).read == 0


def test_a_text_alone_is_the_same_as_its_block(account: Account) -> None:
    account.ask(request({"role": "user", "content": LONG}, cache_control=MARK))
    assert account.ask(request(user(LONG), cache_control=MARK)).read > 1024


@pytest.mark.parametrize(
    ("model", "words", "kept"),
    [
        ("claude-sonnet-5-5", 1010, False),
        ("claude-sonnet-5-5", 1024, True),
        ("claude-haiku-5-5", 4000, False),
        ("claude-haiku-5-5", 4096, True),
    ],
)
def test_what_is_too_small_is_not_kept_and_nobody_is_told(
    account: Account, model: str, words: int, kept: bool
) -> None:
    counted = account.ask(request(user(marked("word " * words)), model=model))
    assert (counted.created > 0) is kept
    assert (counted.plain == 0) is kept


def test_it_is_forgotten_after_its_time_and_kept_anew_when_read(account: Account) -> None:
    body = request(user(marked(LONG)))
    account.ask(body)
    for _ in range(3):
        account.now += 299
        assert account.ask(body).read > 0
    account.now += 301
    assert account.ask(body).read == 0


def test_an_hour_is_counted_apart(account: Account) -> None:
    body = request(user(marked(LONG)), system=[marked(LONG, "1h")])
    first = account.ask(body)
    assert first.created_1h > 1024
    assert first.created_5m > 1024
    account.now += 600
    second = account.ask(body)
    assert second.read == first.created_1h
    assert second.created_5m == first.created_5m


def test_it_is_there_once_an_answer_began_and_not_before(account: Account) -> None:
    body = request(user(marked(LONG)))
    early = [account.cache.count(body, 0.0) for _ in range(2)]
    assert [counted.read for counted in early] == [0, 0]
    account.cache.write(early[0], 0.0)
    assert account.cache.count(body, 0.0).read > 0


@pytest.mark.parametrize(("added", "found"), [(LOOK_BACK - 1, True), (LOOK_BACK, False)])
def test_it_looks_back_twenty_places_and_no_further(
    account: Account, added: int, found: bool
) -> None:
    account.ask(request(user(marked(LONG))))
    blocks = ["w"] * (added - 1)
    assert (account.ask(request(user(LONG, *blocks, marked("end")))).read > 0) is found


def test_a_breakpoint_between_bridges_a_long_turn(account: Account) -> None:
    account.ask(request(user(marked(LONG))))
    blocks = ["w"] * 15
    grown = user(LONG, *blocks, marked("here"), *blocks, marked("end"))
    assert account.ask(request(grown)).read > 1024


def test_only_what_was_a_breakpoint_is_found(account: Account) -> None:
    """Nothing is kept at places between, though the prefix up to there is the same."""
    account.ask(request(user(LONG, LONG, marked("end"))))
    assert account.ask(request(user(LONG, LONG, marked("other")))).read == 0


def test_the_choice_of_tools_invalidates_the_messages_alone(account: Account) -> None:
    body = request(user(marked(LONG)), system=[marked(LONG)], tools=[TOOL])
    first = account.ask(body)
    second = account.ask({**body, "tool_choice": {"type": "none"}})
    assert 0 < second.read < first.created


@pytest.mark.parametrize("turns", [12])
def test_a_conversation_with_a_breakpoint_at_its_end_reads_all_but_the_newest(
    account: Account, turns: int
) -> None:
    messages: list[dict[str, Any]] = []
    sizes = []
    for number in range(turns):
        messages.append(user(f"turn {number} " + LONG))
        counted = account.ask(request(*messages, cache_control=MARK))
        assert counted.read == (sizes[-1] if sizes else 0)
        assert counted.plain == 0
        sizes.append(counted.total)
        messages.append(assistant(f"answer {number}"))


BLOCKS = st.lists(st.tuples(st.sampled_from(["a", "b", LONG]), st.booleans()), max_size=30)


@given(st.lists(BLOCKS.filter(bool), min_size=1, max_size=4))
def test_what_is_read_is_a_prefix_that_somebody_wrote(
    conversations: list[list[tuple[str, bool]]],
) -> None:
    """Whatever was asked: a hit is a common prefix of an earlier request's and this one's, up to a
    breakpoint of the earlier one, and the four counts are the whole."""
    account = Account()
    written: dict[str, int] = {}
    for blocks in conversations:
        left = 4
        content = []
        for text, wanted in blocks:
            mark = wanted and left > 0
            left -= mark
            content.append(marked(text) if mark else {"type": "text", "text": text})
        body = request(user(*content))
        counted = account.ask(body)
        texts = [text for text, _ in blocks]
        walked = list(places(body))
        prefixes = {json.dumps(texts[: at + 1]): place for at, place in enumerate(walked)}
        if counted.read:
            found = [written[key] for key in prefixes if key in written]
            assert counted.read in found
        for key, place in prefixes.items():
            if place.ttl and place.tokens >= 1024:
                written[key] = place.tokens


def test_editing_clears_old_results_and_says_what() -> None:
    messages = [user("go")]
    for number in range(5):
        name = "load" if number == 0 else "run"
        messages += [assistant(used(f"t{number}", name)), user(result(f"t{number}", LONG))]
    edit = {
        "type": "clear_tool_uses_20250919",
        "trigger": {"type": "input_tokens", "value": 3000},
        "keep": {"type": "tool_uses", "value": 2},
        "exclude_tools": ["load"],
    }
    tools = [TOOL, {**TOOL, "name": "load"}]
    body = request(*messages, tools=tools, context_management={"edits": [edit]})
    seen, told = edited(body)
    contents = [message["content"][0].get("content") for message in seen["messages"][2::2]]
    assert contents == [LONG, CLEARED, CLEARED, LONG, LONG]
    assert told is not None
    [applied] = told["applied_edits"]
    assert applied["cleared_tool_uses"] == 2
    assert applied["cleared_input_tokens"] == size(body) - size(seen)
    edit["trigger"] = {"type": "tool_uses", "value": 5}
    assert edited(body)[1] == {"applied_edits": []}


def test_what_stands_before_a_compaction_is_out_of_the_context() -> None:
    summary = {"type": "compaction", "content": "So far: much."}
    body = request(user(LONG), assistant(summary, "Going on."), user("and?"))
    seen, told = edited(body)
    assert seen["messages"] == body["messages"][1:]
    assert told is None
    assert size(seen) < 100
