"""A conversation as Markdown: what was said is in it, and says nothing to Markdown itself."""

from __future__ import annotations

import uuid
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reprise.log.as_markdown import conversation_markdown
from reprise.log.conversation import ConversationInfo, Entry


def document(title: str, *entries: tuple[str, dict[str, Any]]) -> str:
    info = ConversationInfo(uuid.uuid4(), "ada", uuid.uuid4(), "a`b.ipynb", title, 0, 0, 1, 1)
    made = [
        Entry(seq, 1, kind, body, 0)  # type: ignore[arg-type]
        for seq, (kind, body) in enumerate(entries)
    ]
    return "".join(conversation_markdown(info, made))


def answered(text: str) -> tuple[str, dict[str, Any]]:
    return "answered", {"content": [{"type": "text", "text": text}], "stop_reason": "end_turn"}


def test_words_are_in_fences_and_answers_in_quotes() -> None:
    said = "```\n# mine\n````x"
    told = document("# <b>*t*", ("said", {"text": said}), answered("# theirs\n- one"))
    assert told.splitlines()[0] == r"# \# \<b\>\*t\*"
    assert "`````text\n```\n# mine\n````x\n`````\n" in told
    assert "> # theirs\n> - one\n" in told


@given(st.text(min_size=1), st.text())
def test_no_text_ends_its_place(said: str, answer: str) -> None:
    told = document(said, ("said", {"text": said}), answered(answer))
    headings = [line for line in told.split("\n") if line.startswith("#")]
    fence = next(line for line in told.split("\n") if line.startswith("```"))
    inside, outside = False, []
    for line in told.split("\n"):
        if line in (fence, fence.removesuffix("text")) and line.startswith("```"):
            inside = not inside
        elif not inside:
            outside.append(line)
    assert headings[0].startswith("# ")
    assert [line for line in outside if line.startswith("#")][1:] == ["## Turn 1"]
    assert not inside
