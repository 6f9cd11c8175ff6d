"""The canonical form and the hashes: equal for what is equal, different for what differs."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprise.log.model import (
    NO_OUTPUTS,
    Actor,
    During,
    LateHash,
    NewOutcome,
    NewStep,
    OutputEntry,
    canonical,
    canonical_outcome,
    canonical_step,
    outputs_hash,
    parse_outcome,
    parse_step,
)

# Any Python str, lone surrogates and NUL included: JSON allows them and clients send them.
texts = st.text(st.characters(codec=None), max_size=20)
numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
objects = st.dictionaries(texts, values, max_size=4)
hashes = st.binary(min_size=32, max_size=32).map(bytes.hex)
streams = st.builds(
    lambda name, text: OutputEntry("stream", {"name": name, "text": text}),
    st.sampled_from(["stdout", "stderr", "\xfe"]),
    texts,
)
displays = st.builds(
    OutputEntry, st.sampled_from(["display_data", "error"]), objects, objects, st.tuples(hashes)
)
outputs = st.lists(streams | displays, max_size=8)


@given(values)
def test_canonical_text_is_ascii_json_that_means_the_same(value: object) -> None:
    data = canonical(value)
    assert data.isascii()
    assert canonical(json.loads(data)) == data


@given(st.lists(st.tuples(texts, values), max_size=6, unique_by=lambda pair: pair[0]))
def test_the_order_of_keys_does_not_matter(pairs: list[tuple[str, object]]) -> None:
    assert canonical(dict(pairs)) == canonical(dict(reversed(pairs)))


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_what_json_has_no_form_for_is_refused(number: float) -> None:
    with pytest.raises(ValueError, match="JSON"):
        canonical({"x": number})


@given(outputs, st.data())
def test_the_hash_does_not_depend_on_how_streams_were_cut(
    entries: list[OutputEntry], data: st.DataObject
) -> None:
    pieces: list[OutputEntry] = []
    for entry in entries:
        if entry.type != "stream":
            pieces.append(entry)
            continue
        text = entry.content["text"]
        at = data.draw(st.integers(0, len(text)))
        pieces += [
            OutputEntry("stream", {**entry.content, "text": part})
            for part in (text[:at], text[at:])
        ]
    assert outputs_hash(pieces) == outputs_hash(entries)


def _merged(entries: list[OutputEntry]) -> list[object]:
    """What a person would call the same outputs, by another road than the hash takes."""
    merged: list[object] = []
    for entry in entries:
        if entry.type != "stream":
            merged.append(canonical(entry.to_json()))
        elif merged and isinstance(merged[-1], list) and merged[-1][0] == entry.content["name"]:
            merged[-1][1] += entry.content["text"]
        else:
            merged.append([entry.content["name"], entry.content["text"]])
    return merged


@given(outputs, outputs)
def test_the_hash_tells_apart_what_differs(
    first: list[OutputEntry], second: list[OutputEntry]
) -> None:
    same = _merged(first) == _merged(second)
    assert (outputs_hash(first) == outputs_hash(second)) == same


def test_framing_cannot_be_forged_by_text() -> None:
    """Text that looks like another stream's beginning, or like an entry, stays text."""
    forged = [
        [OutputEntry("stream", {"name": "stdout", "text": "a\xfestderr\xfeb"})],
        [
            OutputEntry("stream", {"name": "stdout", "text": "a"}),
            OutputEntry("stream", {"name": "stderr", "text": "b"}),
        ],
        [OutputEntry("stream", {"name": "stdout\xfea", "text": ""})],
        [OutputEntry("stream", {"name": "stdout", "text": "a\xff\xfd2:{}"})],
        [
            OutputEntry("stream", {"name": "stdout", "text": "a"}),
            OutputEntry("display_data", {}),
        ],
        [],
    ]
    assert len({outputs_hash(entries) for entries in forged}) == len(forged)
    assert outputs_hash([]) == NO_OUTPUTS


steps = st.builds(
    NewStep,
    kind=st.sampled_from(["cell", "command", "upload", "mount", "comm", "restart"]),
    payload=objects,
    environment=hashes,
    at=st.integers(0, 2**53),
    actor=st.builds(Actor)
    | st.builds(Actor, st.just("agent"), texts, st.integers(0, 99))
    | st.just(Actor("system")),
    during=st.none() | st.builds(During, st.integers(0, 99), st.integers(0, 99)),
    blobs=st.lists(hashes, max_size=3).map(tuple),
    key=st.none() | texts,
)
outcomes = st.builds(
    NewOutcome,
    status=st.sampled_from(["ok", "error", "interrupted", "timeout", "died", "lost"]),
    outputs=hashes,
    at=st.integers(0, 2**53),
    duration_us=st.integers(0, 2**53),
    inputs=st.lists(st.none() | texts, max_size=3).map(tuple),
    execution_count=st.none() | st.integers(0, 99),
    cause=st.none() | objects,
    cut=st.booleans(),
)
late_hashes = st.none() | hashes


@given(steps, late_hashes)
def test_a_step_comes_back_from_its_canonical_form(new: NewStep, late: str | None) -> None:
    body = canonical_step(3, 5, new, late)
    parsed = json.loads(body)
    assert parse_step(parsed) == new
    assert canonical_step(3, 5, parse_step(parsed), late) == body
    assert parsed.get("late") == late


@given(outcomes, late_hashes)
def test_an_outcome_comes_back_from_its_canonical_form(new: NewOutcome, late: str | None) -> None:
    body = canonical_outcome(3, 5, new, late)
    parsed = json.loads(body)
    assert parse_outcome(parsed) == new
    assert canonical_outcome(3, 5, parse_outcome(parsed), late) == body


batches = st.lists(st.tuples(st.integers(0, 999), st.binary(max_size=20)), max_size=4)


@given(batches, batches)
def test_late_outputs_hash_alike_only_when_they_are_alike(
    first: list[tuple[int, bytes]], second: list[tuple[int, bytes]]
) -> None:
    def digest(rows: list[tuple[int, bytes]]) -> str | None:
        total = LateHash()
        for seq, batch in rows:
            total.add(seq, batch)
        return total.hexdigest()

    assert (digest(first) == digest(second)) == (first == second)
    assert (digest(first) is None) == (not first)
