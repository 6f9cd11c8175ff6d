"""Ids drawn anew are replaced wherever they stand, and nothing else is."""

from __future__ import annotations

import json
import time
import uuid

from hypothesis import given
from hypothesis import strategies as st

from reprise.log.model import OutputEntry, canonical
from reprise.replay.identity import IdMap, Pairing, opening

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


def see(pairing: Pairing, ids: IdMap, entry: OutputEntry) -> str | None:
    opened = opening(entry.type, entry.content)
    assert opened is not None
    return pairing.learn(ids, opened)


def test_each_id_is_known_as_soon_as_it_is_opened() -> None:
    ids = IdMap()
    old, new = [uuid.uuid4().hex for _ in range(3)], [uuid.uuid4().hex for _ in range(3)]
    pairing = Pairing([open_comm(each) for each in old])
    for n in range(3):
        assert pairing
        assert see(pairing, ids, open_comm(new[n])) == old[n]
        assert ids.to_kernel(old[n].encode()) == new[n].encode()
        assert len(ids) == n + 1
    assert not pairing
    assert see(pairing, ids, open_comm(uuid.uuid4().hex)) is None


def test_an_id_that_is_known_already_is_itself_whatever_comes_before_it() -> None:
    """A step opens new displays and shows an earlier one again, in another order than before."""
    ids = IdMap()
    earlier, new_earlier = uuid.uuid4().hex, uuid.uuid4().hex
    ids.add(earlier, new_earlier)
    first, second = uuid.uuid4().hex, uuid.uuid4().hex
    pairing = Pairing([display(earlier), display(first), display("a-chosen-1"), display(second)])
    drawn_first, drawn_second = uuid.uuid4().hex, uuid.uuid4().hex
    seen = [display(each) for each in (drawn_first, "a-chosen-1", new_earlier, drawn_second)]
    assert [see(pairing, ids, each) for each in seen] == [first, "a-chosen-1", earlier, second]
    assert ids.living(earlier) == new_earlier
    assert (ids.living(first), ids.living(second)) == (drawn_first, drawn_second)
    assert not pairing


def test_learning_again_from_what_was_mapped_changes_nothing() -> None:
    """A comparison learns from outputs in which the ids have been replaced already."""
    recorded = [open_comm(uuid.uuid4().hex) for _ in range(5)]
    ids = IdMap()
    ids.learn(recorded, recorded)
    assert not ids
    ids.learn(recorded, list(reversed(recorded)))
    assert not ids


def test_learning_one_by_one_costs_the_same_for_each() -> None:
    """A replay learns ids between messages: thousands of widgets must not make it quadratic."""
    ids = IdMap()
    message = canonical({"a": uuid.uuid4().hex})
    began = time.perf_counter()
    for _ in range(20_000):
        ids.add(uuid.uuid4().hex, uuid.uuid4().hex)
        ids.to_client(message)
    assert time.perf_counter() - began < 5


@given(pairs, st.lists(st.integers(0, 19), max_size=40))
def test_pairs_that_come_and_go_leave_no_trace(
    given_pairs: list[tuple[str, str]], order: list[int]
) -> None:
    """Replaced pairs, in any order: what is mapped is what the last pair of each id says."""
    ids, expected = IdMap(), dict[str, str]()
    for n in order:
        old, _ = given_pairs[n % len(given_pairs)]
        _, new = given_pairs[(n * 7) % len(given_pairs)]
        if ids.add(old, new):
            expected = {k: v for k, v in expected.items() if v != new}
            expected[old] = new
    for old, new in expected.items():
        assert ids.to_kernel(old.encode()) == new.encode()
        assert ids.to_client(new.encode()) == old.encode()
    assert len(ids) == len(expected)
    for old, _ in given_pairs:
        if old not in expected:
            assert ids.to_kernel(old.encode()) == old.encode()
