"""Ids drawn anew are replaced wherever they stand, and nothing else is."""

from __future__ import annotations

import json
import time
import uuid

from hypothesis import given
from hypothesis import strategies as st

from reprise.log.model import OutputEntry, canonical
from reprise.replay.identity import IdMap

drawn = st.one_of(
    st.uuids(version=4).map(lambda u: u.hex),
    st.uuids(version=4).map(str),
)


pairs = st.lists(
    st.tuples(drawn, drawn), min_size=1, max_size=20, unique_by=(lambda p: p[0], lambda p: p[1])
)


def open_comm(comm_id: str, target: str = "jupyter.widget", model: str = "M") -> OutputEntry:
    content = {"comm_id": comm_id, "target_name": target, "data": {"state": {"_model_name": model}}}
    return OutputEntry("comm_open", content)


def display(display_id: str) -> OutputEntry:
    return OutputEntry("display_data", {"data": {}, "transient": {"display_id": display_id}})


@given(pairs, st.lists(st.text(max_size=10), max_size=5))
def test_there_and_back(given_pairs: list[tuple[str, str]], words: list[str]) -> None:
    """Whatever stands around the ids, both ways give back what was there."""
    ids = IdMap()
    for recorded, new in given_pairs:
        ids.add(recorded, new)
    kept = [recorded for recorded, _ in given_pairs]
    value = {"a": kept, **{f"IPY_MODEL_{each}": words for each in kept}}
    sent = ids.to_kernel(canonical(value))
    new_of = dict(given_pairs)
    assert json.loads(sent) == {
        "a": [new_of[each] for each in kept],
        **{f"IPY_MODEL_{new_of[each]}": words for each in kept},
    }
    assert json.loads(ids.to_client(sent)) == value


@given(st.binary(max_size=200))
def test_bytes_without_ids_pass_untouched(data: bytes) -> None:
    ids = IdMap()
    ids.add(uuid.uuid4().hex, uuid.uuid4().hex)
    assert ids.to_kernel(data) is data
    assert ids.to_client(data) is data


def test_empty_is_falsy_and_touches_nothing() -> None:
    ids = IdMap()
    assert not ids
    data = b"x"
    assert ids.to_kernel(data) is data
    ids.add("a1" * 16, "b2" * 16)
    assert ids
    assert len(ids) == 1


def test_an_id_is_never_replaced_inside_a_longer_word() -> None:
    ids = IdMap()
    ids.add("a1b2c3d4", "f0f0f0f0")
    for text in (b"xa1b2c3d4", b"a1b2c3d4e5", b"1a1b2c3d4", b"A1B2C3D4"):
        assert ids.to_kernel(text) == text
    for text in (b"a1b2c3d4", b'"a1b2c3d4"', b"IPY_MODEL_a1b2c3d4", b"a1b2c3d4-x", b"a1b2c3d4_row"):
        assert ids.to_kernel(text) == text.replace(b"a1b2c3d4", b"f0f0f0f0")


def test_ids_behind_an_escape_are_found() -> None:
    ids = IdMap()
    ids.add("a1b2c3d4", "f0f0f0f0")
    for before in ("\n", "\t", "é", "\u2028", '"'):
        data = canonical({"text": before + "a1b2c3d4"})
        assert json.loads(ids.to_kernel(data)) == {"text": before + "f0f0f0f0"}


def test_the_longer_of_two_ids_that_fit_wins() -> None:
    ids = IdMap()
    ids.add("aaaa1111", "short-01")
    ids.add("aaaa1111-bbbb", "long-0002")
    assert (
        ids.to_kernel(b"aaaa1111-bbbb aaaa1111 aaaa1111-bbbbb")
        == b"long-0002 short-01 short-01-bbbbb"
    )


def test_swapped_ids_are_swapped_once() -> None:
    ids = IdMap()
    one, two = "1" * 32, "2" * 32
    ids.add(one, two)
    ids.add(two, one)
    assert ids.to_kernel(f"{one} {two}".encode()) == f"{two} {one}".encode()


def test_words_and_names_that_people_chose_stay() -> None:
    ids = IdMap()
    assert not ids.add("progress", "training")  # words
    assert not ids.add("a1", "b2")  # short
    assert not ids.add("same-id-123", "same-id-123")
    assert not ids.add('quote"12345678', "b2b2b2b2b2")
    ids.learn([display("my-bar-2024-plot")], [display("my-bar-2024-plot")])
    assert not ids


def test_a_second_replay_replaces_what_the_first_drew() -> None:
    ids = IdMap()
    ids.add("recorded-1", "first-run-1")
    ids.add("recorded-1", "second-run-2")
    assert ids.to_client(b"second-run-2 first-run-1") == b"recorded-1 first-run-1"
    ids.add("recorded-9", "second-run-2")
    assert ids.to_client(b"second-run-2") == b"recorded-9"
    assert ids.to_kernel(b"recorded-1") == b"recorded-1"


def test_learning_pairs_by_order_of_opening_within_a_kind() -> None:
    old = [uuid.uuid4().hex for _ in range(5)]
    new = [uuid.uuid4().hex for _ in range(5)]
    ids = IdMap()
    ids.learn(
        [
            open_comm(old[0], model="LayoutModel"),
            open_comm(old[1], model="IntSliderModel"),
            display(old[2]),
            display(old[2]),
            display(old[3]),
        ],
        [  # the widget library opened one more layout this time, and comms overtook the display
            display(new[2]),
            open_comm(new[0], model="LayoutModel"),
            open_comm(new[4], model="LayoutModel"),
            open_comm(new[1], model="IntSliderModel"),
            display(new[3]),
        ],
    )
    assert ids.to_kernel(" ".join(old[:4]).encode()) == " ".join(new[:4]).encode()


def test_many_ids_cost_no_more_than_few() -> None:
    """Time follows the bytes: five thousand ids, one megabyte of text that looks like ids."""
    ids = IdMap()
    for _ in range(5000):
        ids.add(uuid.uuid4().hex, uuid.uuid4().hex)
    data = b" ".join(uuid.uuid4().hex.encode() for _ in range(30_000))
    ids.to_kernel(b"")  # compiles
    began = time.perf_counter()
    assert ids.to_kernel(data) == data
    assert time.perf_counter() - began < 2
