"""Near the limit a conversation is compacted, and what a skill said stays in it word by word."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reprise_server.agent.model import compaction, sizes


def loads(call: str, name: str, body: Any, *, error: bool = False) -> list[dict[str, Any]]:
    used = {"type": "tool_use", "id": call, "name": "load_skill", "input": {"name": name}}
    result = {"type": "tool_result", "tool_use_id": call, "content": body}
    if error:
        result["is_error"] = True
    return [{"role": "assistant", "content": [used]}, {"role": "user", "content": [result]}]


def words(blocks: Any) -> list[str]:
    return [block["text"] for block in blocks]


def test_bodies_of_loaded_skills_are_carried_over_each_once_and_in_full() -> None:
    messages = [
        {"role": "user", "content": "Please"},
        *loads("a", "one", "Body of one"),
        *loads("b", "two", [{"type": "text", "text": "Body"}, {"type": "text", "text": "of two"}]),
        *loads("c", "gone", "No such skill", error=True),
        *loads("d", "one", "Body of one"),
    ]
    assert words(compaction.carried(messages, 100_000)) == [
        compaction.CARRIED + "Body\n\nof two",
        compaction.CARRIED + "Body of one",
    ]


def test_they_survive_a_second_compaction() -> None:
    first = compaction.carried(loads("a", "one", "Body of one"), 100_000)
    for block in ({"type": "compaction", "content": "All."}, {"type": "text", "text": "All."}):
        opened = compaction.opening([block, *first])
        again = compaction.carried([*opened, *loads("b", "two", "Body of two")], 100_000)
        assert words(again) == [
            compaction.CARRIED + "Body of one",
            compaction.CARRIED + "Body of two",
        ]


def test_where_there_is_no_room_the_oldest_are_named() -> None:
    long = "A word. " * 2_000
    messages = [*loads("a", "old", "1" + long), *loads("b", "new", "2" + long)]
    room = int(sizes.of_text("2" + long) * 1.5 / 0.25)
    carried = words(compaction.carried(messages, room))
    assert carried[-1] == compaction.CARRIED + "2" + long
    assert len(carried) == 2
    assert "old" in carried[0]
    assert "load again" in carried[0]


def test_the_persons_latest_words_stay_as_they_are() -> None:
    messages = [
        {"role": "user", "content": "Plot it in blue"},
        *loads("a", "one", "Body of one"),
        {"role": "user", "content": [{"type": "text", "text": "[Reprise] Undone."}]},
    ]
    (block,) = compaction.said(messages)
    assert block["text"] == compaction.SAID + "Plot it in blue"
    carried = compaction.carried(messages, 100_000)
    opened = compaction.opening([{"type": "text", "text": "x"}, *carried, block])
    assert compaction.said(opened) == [block], "a second time as well"
    later = [*opened, {"role": "user", "content": "Now in red"}]
    assert compaction.said(later)[0]["text"] == compaction.SAID + "Now in red"
    assert compaction.said([]) == []
    long = compaction.said([{"role": "user", "content": "x" * 100_000}])
    assert len(long[0]["text"]) < 30_000


def test_results_of_other_tools_are_not_carried() -> None:
    messages = [
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "a", "name": "read_file", "input": {}}],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "a", "content": "secret plan"}],
        },
    ]
    assert compaction.carried(messages, 100_000) == []


def test_the_apis_own_block_comes_first_and_is_the_assistants() -> None:
    block = {"type": "compaction", "content": "All.", "signature": "s"}
    carried = {"type": "text", "text": compaction.CARRIED + "x"}
    messages = compaction.opening([block, carried])
    assert messages[0] == {"role": "assistant", "content": [block]}
    assert messages[1]["role"] == "user"
    assert messages[1]["content"][0] == carried
    assert compaction.opening([{"type": "text", "text": "All."}])[0]["role"] == "user"


def test_the_skills_results_are_never_cleared_by_the_api() -> None:
    (edit,) = compaction.edits(200_000)["edits"]
    assert "load_skill" in edit["exclude_tools"]
    assert edit["trigger"]["value"] < 200_000
    assert compaction.edits(200_000) == compaction.edits(200_000)


@given(st.integers(10_000, 2_000_000), st.integers(1, 200_000))
def test_it_is_due_before_the_context_is_full_and_not_at_once(context: int, answer: int) -> None:
    def due(size: int) -> bool:
        return compaction.due(size, context_tokens=context, max_tokens=answer)

    assert due(int(context * 0.8))
    assert not due(context // 2 - 1)
    assert due(context - answer) or answer > context // 2


def test_sizes_lean_to_too_much_and_are_quick_for_long_texts() -> None:
    text = "for i in range(10):\n    print(i)\n" * 400
    assert sizes.of_text(text) > len(text) / 6
    assert sizes.of_text(text * 1000) > sizes.of_text(text) * 900
    image = {"type": "image", "source": {"type": "base64", "data": "x" * 1_000_000}}
    assert sizes.of_blocks([image]) < 3_000
    usage = {"input_tokens": 10, "cache_read_input_tokens": 100, "output_tokens": 5}
    assert sizes.after(usage, []) == 115
    assert sizes.after(usage, [{"role": "user", "content": "hello"}]) > 115
