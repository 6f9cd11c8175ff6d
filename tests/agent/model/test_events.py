"""A stream is cut into its events however its bytes come, and nothing in it grows without bound."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprise_server.agent.model import events as module
from reprise_server.agent.model.events import BadStream, Event, Events
from tests.agent.model.stream import WHOLE, wire


def cut(data: bytes, places: list[int]) -> list[bytes]:
    at = sorted({place % (len(data) + 1) for place in places})
    return [data[a:b] for a, b in zip([0, *at], [*at, len(data)], strict=True)]


@given(
    places=st.lists(st.integers(min_value=0), max_size=30),
    ends=st.sampled_from(["\n", "\r", "\r\n"]),
)
def test_the_events_are_the_same_however_they_come(places: list[int], ends: str) -> None:
    data = wire(WHOLE, ends)
    whole = Events().feed(data)
    # A CR at the very end could be half of a CR LF; the event is whole all the same.
    assert [event.name for event in whole] == [event["type"] for event in WHOLE]
    split = Events()
    assert [event for piece in cut(data, places) for event in split.feed(piece)] == whole


def test_lines_that_are_no_events_are_passed_over() -> None:
    data = b": comment\nid: 3\nretry: 5\n\nevent: x\n\ndata: {\ndata: }\n\ndata:no space\n\n"
    assert Events().feed(data) == [Event("", "{\n}"), Event("", "no space")]


def test_an_event_that_has_not_ended_is_none() -> None:
    assert Events().feed(b"event: message_stop\ndata: {}\n") == []


def test_one_event_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_EVENT", 1000)
    for data in (
        b"data: " + b"x" * 2000,
        b"data: xxxxxxxx\n" * 200,
        b"x" * 900 + b"\r" + b"y" * 2000,
    ):
        events = Events()
        with pytest.raises(BadStream, match="One event"):
            for at in range(0, len(data), 100):
                events.feed(data[at : at + 100])


def test_a_stream_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_STREAM", 10_000)
    events = Events()
    with pytest.raises(BadStream, match="The answer is over"):
        for _ in range(1000):
            events.feed(b": ping\n\n" * 10)


def test_a_long_line_that_comes_in_crumbs_takes_no_quadratic_time() -> None:
    events = Events()
    for _ in range(3000):
        assert events.feed(b"x" * 1000) == []
    assert events.feed(b"\n\ndata: 1\n\n") == [Event("", "1")]


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(BadStream, match="UTF-8"):
        Events().feed(b"data: \xff\xfe\n\n")


@given(st.binary(max_size=400), st.lists(st.integers(min_value=0), max_size=6))
def test_any_bytes_give_events_or_are_refused(data: bytes, places: list[int]) -> None:
    events = Events()
    try:
        for piece in cut(data, places):
            for event in events.feed(piece):
                assert isinstance(event.data, str)
    except BadStream:
        return
