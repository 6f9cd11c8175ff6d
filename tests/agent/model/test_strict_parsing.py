"""What runs is what was shown: JSON that two readers could read in two ways is no JSON."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprise_server.agent.model.parsing import MAX_DEPTH, NotJson, strict, whole_text

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(VALUES)
def test_what_is_json_is_read_as_python_reads_it(value: object) -> None:
    assert strict(json.dumps(value)) == value


@pytest.mark.parametrize(
    "text",
    [
        '{"path": "a", "path": "b"}',
        '{"a": {"x": 1, "x": 1}}',
        "NaN",
        '{"a": Infinity}',
        "[-Infinity]",
        "1e999",
        '{"a": "\\ud83d"}',
        '{"\\ude00": 1}',
        '{"a": 1',
        '{"a": 1} {"b": 2}',
        "",
        "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1),
        '{"a":' * 50_000,
        "9" * 5000,
        "{'a': 1}",
        '{"a": 1,}',
        '{"a": "\t"}',
    ],
    ids=lambda text: text[:20] or "empty",
)
def test_what_is_not_is_refused(text: str) -> None:
    with pytest.raises(NotJson) as refused:
        strict(text)
    assert refused.value.__cause__ is None
    assert "path" not in str(refused.value), "no word of what was read is repeated"


@given(st.text(alphabet=st.characters() | st.characters(categories=["Cs"]), max_size=60))
def test_a_text_in_pieces_is_whole_again(text: str) -> None:
    found = whole_text(text)
    assert found.encode("utf-8").decode("utf-8") == found
    if not any("\ud800" <= c <= "\udfff" for c in text):
        assert found == text


def test_a_pair_that_came_in_halves_is_one_character() -> None:
    assert whole_text("a\ud83d" + "\ude00b") == "a😀b"
    assert whole_text("\ude00a\ud83d") == "\ufffda\ufffd"
