"""What a model reads of outputs acts on nobody, hides nothing and is bounded, whatever they hold."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprise.client.results import CommandResult, StepError, StreamEnd
from reprise_server.agent.contract import RESULT_CHARACTERS
from reprise_server.agent.tools.shown import (
    blocks,
    ended,
    fitted,
    harmless,
    headline,
    summary,
)

HOSTILE = st.text(
    st.one_of(
        st.characters(),
        st.sampled_from("\x1b\r\n\t\b\x07\x9b\u202e\u2066\u200b\ufeff\U000e0041\ud800m[]0;"),
    ),
    max_size=80,
)


@given(HOSTILE)
def test_no_control_character_passes(text: str) -> None:
    said = harmless(text)
    assert all(
        char in "\n\t" or unicodedata.category(char) not in ("Cc", "Cs", "Cn", "Co")
        for char in said
    )
    assert not set(said) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200b\ufeff")
    assert harmless(said) == said
    said.encode("utf-8")


def test_colours_go_and_other_escapes_show() -> None:
    assert harmless("\x1b[31mred\x1b[0m\x1b[K") == "red"
    assert harmless("\x1b]52;c;aGk=\x07x") == "␛]52;c;aGk=�x"
    assert harmless("\x1b[2Jx") == "␛[2Jx"
    assert harmless("a\r\nb") == "a\nb"


def test_what_was_overwritten_is_said_to_be() -> None:
    assert harmless("10%\r20%\r100%\n") == "[overwritten 2 times] 100%\n"
    assert harmless("rm -rf /\rls") == "[overwritten 1 time] ls"
    assert harmless("\rdone\r") == "done"


@given(st.text(max_size=400).map(lambda text: text * 40), st.integers(1_000, 3_000))
def test_a_fitted_text_keeps_both_ends(text: str, most: int) -> None:
    found = fitted(text, most, "The rest is in a file.")
    assert len(found.text) <= most
    if len(text) <= most:
        assert (found.text, found.left_out) == (text, 0)
    else:
        assert "The rest is in a file." in found.text
        assert f"{len(text):,} characters in all" in found.text
        head, _, tail = found.text.partition("\n[… ")
        assert text.startswith(head)
        assert text.endswith(tail.partition("]\n")[2])
        kept = len(head) + len(tail.partition("]\n")[2])
        assert found.left_out == len(text) - kept


def test_each_kind_of_output_is_summed_up() -> None:
    found = summary(
        [
            {"output_type": "stream", "name": "stdout", "text": "a\n"},
            {"output_type": "stream", "name": "stderr", "text": ["w", "arn\n"]},
            {
                "output_type": "execute_result",
                "data": {"text/html": "<table>", "text/plain": ["x  y", "\n1  2"]},
                "metadata": {},
                "execution_count": 1,
            },
            {
                "output_type": "display_data",
                "data": {"application/vnd.plotly.v1+json": {"data": []}},
                "metadata": {},
            },
            {"output_type": "display_data", "data": {"text/markdown": "**b**"}, "metadata": {}},
            {
                "output_type": "error",
                "ename": "ValueError",
                "evalue": "no",
                "traceback": ["\x1b[31m----\x1b[0m", "ValueError: no"],
            },
        ]
    )
    assert found.text == (
        "a\n[stderr] warn\nx  y\n1  2\n"
        "[shown, but not as text: application/vnd.plotly.v1+json (12 characters)]\n"
        "**b**\n----\nValueError: no\n"
    )
    assert found.images == []


def test_of_a_deep_traceback_both_ends_are_shown() -> None:
    lines = [f"frame {number}" for number in range(500)]
    error = {"output_type": "error", "ename": "E", "evalue": "v", "traceback": lines}
    text = summary([error]).text
    assert "frame 0\n" in text
    assert "[… 440 lines …]" in text
    assert text.endswith("frame 499\nE: v\n")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | HOSTILE,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(HOSTILE, inner, max_size=3),
    max_leaves=8,
)


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "output_type": st.sampled_from(
                    ["stream", "error", "display_data", "execute_result", "update", ""]
                )
            },
            optional={
                "name": JSON,
                "text": JSON,
                "ename": JSON,
                "evalue": JSON,
                "traceback": JSON,
                "data": JSON
                | st.dictionaries(
                    st.sampled_from(["text/plain", "image/png", "image/gif", "text/markdown"]), JSON
                ),
            },
        ),
        max_size=4,
    )
)
def test_outputs_of_any_shape_are_summed_up(outputs: list[dict[str, Any]]) -> None:
    found = summary(outputs)
    assert harmless(found.text) == found.text


def test_a_result_over_its_bound_is_a_mistake_of_ours() -> None:
    assert blocks("") == [{"type": "text", "text": "(nothing)"}]
    with pytest.raises(ValueError, match="not fitted"):
        blocks("x" * (RESULT_CHARACTERS + 1))


@pytest.mark.parametrize(
    ("status", "call", "said"),
    [
        ("ok", "ok", "step 7 · ok · 1.5 s\n"),
        ("error", "error", "step 7 · error · 1.5 s\n"),
        ("timeout", "error", "took longer than it may"),
        ("interrupted", "error", "had done until then is there"),
        ("died", "error", "rolled back: state is as before the step. (too much memory)"),
        ("lost", "lost", "Do not run it again unless that is safe"),
    ],
)
def test_how_a_step_ended_is_said_with_what_it_means(status: Any, call: str, said: str) -> None:
    error = None if status == "ok" else StepError("E", "too much memory")
    end = StreamEnd()
    result = CommandResult(status, 7, "", 1.5, error, (), "k", False, None, None, False, end, end)
    assert said in headline(result)
    assert ended(result) == call
