"""The recorder keeps what is shown, bounds it, and never depends on how messages were cut."""

from __future__ import annotations

import json
import time
import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from reprise.log.model import OutputEntry, canonical, outputs_hash
from reprise.replay.recorder import SMALL, SMALL_ENTRIES, OutputRecorder, is_mark


def out(text: str, name: str = "stdout") -> OutputEntry:
    return OutputEntry("stream", {"name": name, "text": text})


def shown(data: str) -> OutputEntry:
    return OutputEntry("display_data", {"data": {"text/plain": data}, "metadata": {}})


texts = st.text(alphabet=st.characters(codec="utf-8") | st.just("\ud800"), max_size=12)
streams = st.builds(out, texts, st.sampled_from(["stdout", "stderr"]))
others = st.one_of(
    st.builds(shown, texts),
    st.builds(lambda wait: OutputEntry("clear_output", {"wait": wait}), st.booleans()),
    st.builds(
        lambda text: OutputEntry(
            "update_display_data",
            {"data": {"text/plain": text}, "transient": {"display_id": "bar"}},
        ),
        texts,
    ),
)
entries = st.lists(streams | others, max_size=40)


def coalesced(all_entries: list[OutputEntry]) -> list[OutputEntry]:
    result: list[OutputEntry] = []
    for entry in all_entries:
        last = result[-1] if result else None
        if (
            entry.type == "stream"
            and last is not None
            and last.type == "stream"
            and last.content["name"] == entry.content["name"]
        ):
            text = last.content["text"] + entry.content["text"]
            result[-1] = out(text, entry.content["name"])
        else:
            result.append(entry)
    return result


@given(entries, st.sets(st.integers(0, 40)))
def test_takes_concatenate_to_what_was_shown(
    given_entries: list[OutputEntry], takes: set[int]
) -> None:
    recorder = OutputRecorder(1 << 20)
    taken: list[OutputEntry] = []
    for index, entry in enumerate(given_entries):
        assert recorder.add(entry) == (entry,)
        if index in takes:
            taken += recorder.take()
            assert recorder.pending_bytes == 0
    taken += recorder.take()
    assert coalesced(taken) == coalesced(given_entries)
    assert recorder.hexdigest() == outputs_hash(given_entries) == outputs_hash(taken)
    assert recorder.count == len(coalesced(given_entries))
    assert not recorder.cut


@given(entries, st.integers(1, 2000), st.booleans())
def test_what_fits_is_recorded_whole_so_that_it_may_be_shown_before(
    given_entries: list[OutputEntry], limit: int, raw: bool
) -> None:
    recorder = OutputRecorder(limit, limit_entries=20)
    for entry in given_entries:
        body = [dict(entry.content), {"ключ": "значение"}]
        size = len(json.dumps(body, ensure_ascii=raw).encode("utf-8", "surrogatepass"))
        fits = recorder.fits(size)
        message = OutputEntry(entry.type, entry.content, {"ключ": "значение"})
        shown = recorder.add(message, size)
        if fits:
            assert len(shown) == 1
            assert shown[0] is message


@given(entries)
def test_a_batch_holds_no_two_neighbours_of_one_stream(given_entries: list[OutputEntry]) -> None:
    recorder = OutputRecorder(1 << 20)
    for entry in given_entries:
        recorder.add(entry)
    assert recorder.take() == coalesced(given_entries)


@given(
    st.lists(streams, min_size=1, max_size=20),
    st.integers(1, 60),
    st.data(),
)
def test_the_cut_falls_at_one_place_however_streams_were_divided(
    given_entries: list[OutputEntry], limit: int, data: st.DataObject
) -> None:
    """Dividing texts into other messages, with takes between, moves no byte."""
    divided: list[OutputEntry] = []
    for entry in given_entries:
        text = entry.content["text"]
        at = data.draw(st.integers(0, len(text)))
        divided += [out(text[:at], entry.content["name"]), out(text[at:], entry.content["name"])]

    def run(all_entries: list[OutputEntry], take: bool) -> tuple[list[OutputEntry], str, bool, int]:
        recorder = OutputRecorder(limit)
        kept: list[OutputEntry] = []
        for entry in all_entries:
            recorder.add(entry)
            if take:
                kept += recorder.take()
        kept += recorder.take()
        return coalesced(kept), recorder.hexdigest(), recorder.cut, recorder.count

    assert run(divided, True)[1:] == run(given_entries, False)[1:]
    assert run(divided, True)[0] == coalesced(run(given_entries, False)[0])


@given(st.lists(streams | others, min_size=1, max_size=40), st.integers(1, 200))
def test_what_is_shown_is_what_is_recorded_and_stays_within_the_bound(
    given_entries: list[OutputEntry], limit: int
) -> None:
    recorder = OutputRecorder(limit)
    published = [part for entry in given_entries for part in recorder.add(entry)]
    taken = recorder.take()
    assert coalesced(taken) == coalesced(published)
    assert recorder.hexdigest() == outputs_hash(taken)
    marks = [entry for entry in taken if is_mark(entry)]
    assert len(marks) == (1 if recorder.cut else 0)
    size = sum(
        len(entry.content["text"].encode("utf-8", "surrogatepass"))
        if entry.type == "stream"
        else len(canonical(entry.to_json()))
        for entry in taken
        if not is_mark(entry)
    )
    assert size <= limit
    if not recorder.cut:
        assert published == given_entries


def test_a_text_is_cut_exactly_at_the_bound_between_characters() -> None:
    recorder = OutputRecorder(16)
    entry = out("ä" * 10)  # 2 bytes each; the name takes 6
    part, mark = recorder.add(entry)
    assert part.content["text"] == "ä" * 5
    assert is_mark(mark)
    assert "16 bytes" in mark.content["text"]
    assert recorder.add(out("more")) == ()
    assert recorder.cut
    assert recorder.take() == [part, mark]
    # Three bytes of room for a character of four.
    odd = OutputRecorder(9)
    assert [each.content["text"] for each in odd.add(out("😀"))][:-1] == [""]
    assert odd.cut


def test_the_mark_says_the_bound_in_a_unit_people_read() -> None:
    recorder = OutputRecorder(16 << 20)
    *_, mark = recorder.add(out("x" * (17 << 20)))
    assert "output cut after 16 MiB" in mark.content["text"]
    many = OutputRecorder(16 << 20, limit_entries=1000)
    marks = [each for i in range(1001) for each in many.add(shown(str(i))) if is_mark(each)]
    assert "1,000 outputs" in marks[0].content["text"]


def test_how_the_step_ended_passes_after_the_cut_but_not_without_end() -> None:
    recorder = OutputRecorder(10)
    recorder.add(out("0123456789"))
    error = OutputEntry("error", {"ename": "E", "evalue": "v", "traceback": ["t"]})
    assert recorder.add(error) == (error,)
    huge = OutputEntry("error", {"ename": "E", "evalue": "v" * SMALL, "traceback": ["t" * SMALL]})
    (short,) = recorder.add(huge)
    assert short.content["ename"] == "E"
    assert len(canonical(short.to_json())) < 4096
    big = OutputEntry("execute_result", {"data": {"text/plain": "x" * SMALL}, "metadata": {}})
    assert recorder.add(big) == ()
    passed = sum(len(recorder.add(error)) for _ in range(10 * SMALL_ENTRIES))
    assert passed <= SMALL_ENTRIES
    reply = OutputEntry(
        "execute_reply",
        {
            "status": "ok",
            "execution_count": 3,
            "user_expressions": {"x": "y" * SMALL},
            "payload": [],
        },
    )
    (answer,) = recorder.add(reply)
    assert answer.content == {
        "status": "ok",
        "execution_count": 3,
        "user_expressions": {},
        "payload": [],
    }
    assert recorder.take()[-1] == answer


def test_metadata_and_names_cannot_pass_the_bound_unseen() -> None:
    recorder = OutputRecorder(10_000)
    for index in range(1000):
        name = "stdout" if index % 2 else "stderr"
        recorder.add(OutputEntry("stream", {"name": name, "text": ""}, {"pad": "x" * 1000}))
    assert recorder.cut
    assert len(recorder.take()) <= 12
    named = OutputRecorder(10_000)
    for index in range(100):
        named.add(out("", f"{index}" + "n" * 1000))
    assert named.cut


def test_a_million_tiny_prints_make_one_entry_and_little_memory() -> None:
    recorder = OutputRecorder(16 << 20)
    began = time.perf_counter()
    for index in range(1_000_000):
        recorder.add(out("x\n" if index % 2 else "y\n"))
    assert time.perf_counter() - began < 30  # linear: seconds, not hours
    assert recorder.count == 1
    (entry,) = recorder.take()
    assert len(entry.content["text"]) == 2_000_000


def test_memory_follows_the_batch_not_all_outputs() -> None:
    recorder = OutputRecorder(64 << 20)
    tracemalloc.start()
    try:
        for _ in range(60):
            recorder.add(out("x" * (1 << 20)))
            recorder.take()
        assert tracemalloc.get_traced_memory()[0] < 8 << 20
    finally:
        tracemalloc.stop()
    assert not recorder.cut


def test_a_long_stream_taken_often_counts_once() -> None:
    """Twenty thousand batches of one progress bar are no reason to cut it."""
    recorder = OutputRecorder(16 << 20, limit_entries=100)
    for index in range(1000):
        recorder.add(out(f"\r{index}", "stderr"))
        recorder.take()
    assert not recorder.cut
