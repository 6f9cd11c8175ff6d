"""Widget messages keep their order, and only what nobody can see any more is dropped."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprise.errors import SandboxDied
from reprise.jupyter.comms import Comms, Waiting
from reprise.jupyter.request import Request
from reprise.log.model import canonical
from reprise.replay.message import Message, make


def comm_msg(
    comm: str, data: dict[str, Any], *, client: bytes = b"page", buffers: tuple[bytes, ...] = ()
) -> Request:
    message = make("comm_msg", {"comm_id": comm, "data": data}, buffers=buffers)
    return Request("shell", [client], message)


def update(comm: str = "slider", client: bytes = b"page", /, **state: Any) -> Request:
    data = {"method": "update", "state": state, "buffer_paths": []}
    return comm_msg(comm, data, client=client)


def click(comm: str = "button") -> Request:
    return comm_msg(comm, {"method": "custom", "content": {"event": "click"}})


def kept(*requests: Request) -> list[int]:
    """The numbers of those that are left."""
    waiting = Waiting()
    for request in requests:
        waiting.put(request)
    return [requests.index(request) for request in waiting]


def test_a_later_update_of_the_same_keys_overtakes() -> None:
    assert kept(update(value=1), update(value=2), update(value=3)) == [2]
    assert kept(update(value=1), update(value=2, min=0)) == [1]
    assert kept(update(value=1), update("other", value=1), update(value=2)) == [1, 2]


def test_what_somebody_could_still_see_stays() -> None:
    assert kept(update(value=1, min=0), update(value=2)) == [0, 1]
    assert kept(update(value=1), update(min=2)) == [0, 1]
    # Another page waits for the echo of its own update.
    assert kept(update(value=1), update("slider", b"other", value=2)) == [0, 1]
    # A click sees what its page had sent before it, whichever widget it is of.
    assert kept(update(value=1), click(), update(value=2)) == [0, 1, 2]
    assert kept(click(), click()) == [0, 1]
    ask = {"method": "request_state"}
    assert kept(comm_msg("slider", ask), comm_msg("slider", ask)) == [0, 1]
    # Values in buffers are not in the state: only the same paths replace them.
    picture = {"method": "update", "state": {}, "buffer_paths": [["value"]]}
    assert kept(comm_msg("i", picture, buffers=(b"1",)), comm_msg("i", picture)) == [1]
    assert kept(comm_msg("i", picture, buffers=(b"1",)), update("i", format="png")) == [0, 1]


def test_what_is_no_update_of_ipywidgets_stays() -> None:
    for data in (
        {"method": "update", "state": [1], "buffer_paths": []},
        {"method": "update", "state": {"a": 1}, "more": 1},
        {"method": "update"},
        {"state": {"a": 1}},
        {},
    ):
        assert kept(comm_msg("c", data), comm_msg("c", data)) == [0, 1]
    for content in (b"[", b"{}", canonical({"comm_id": 1, "data": {}}), b'{"comm_id":"c"}'):
        made = make("comm_msg", {})
        broken = Message(made.header, made.raw_header, b"{}", b"{}", content)
        twice = (Request("shell", [b"page"], broken), Request("shell", [b"page"], broken))
        waiting = Waiting()
        assert [waiting.put(each) for each in twice] == [[], []]


actions = st.lists(
    st.tuples(
        st.sampled_from(["update", "click"]),
        st.sampled_from(["a", "b"]),
        st.dictionaries(st.sampled_from("xyz"), st.integers(0, 9), min_size=1),
    ),
    max_size=30,
)


@given(actions)
def test_the_end_and_what_each_click_sees_are_as_if_nothing_was_dropped(
    given_actions: list[tuple[str, str, dict[str, int]]],
) -> None:
    """Against a plain model: the values of all keys at each click, and at the end."""

    def play(requests: list[Request]) -> list[dict[str, int]]:
        values: dict[str, int] = {}
        seen = []
        for request in requests:
            content = request.message.content()
            if content["data"]["method"] == "update":
                comm = content["comm_id"]
                values |= {f"{comm}.{k}": v for k, v in content["data"]["state"].items()}
            else:
                seen.append(dict(values))
        return [*seen, values]

    sent = [
        update(comm, **state) if kind == "update" else click(comm)
        for kind, comm, state in given_actions
    ]
    waiting = Waiting()
    dropped = [gone for request in sent for gone in waiting.put(request)]
    left = list(waiting)
    assert play(left) == play(sent)
    assert left == [request for request in sent if request not in dropped]
    assert len(left) + len(dropped) == len(sent)


class Sender:
    """Comms whose messages are sent when the test says so."""

    def __init__(self) -> None:
        self.live = asyncio.Event()
        self.go = asyncio.Semaphore(0)
        self.sent: list[Request] = []
        self.dropped: list[Request] = []
        self.refused: list[Request] = []
        self.error: SandboxDied | None = None
        self.rests = False
        self.comms = Comms(
            self._ready,
            self._send,
            self.dropped.append,
            lambda r, _: self.refused.append(r),
            lambda: self.rests,
        )

    async def _ready(self) -> None:
        await self.live.wait()
        if self.error is not None:
            raise self.error

    async def _send(self, request: Request) -> None:
        await self.go.acquire()
        self.sent.append(request)


async def test_what_waits_for_a_resume_is_sent_in_order_and_what_was_overtaken_told_at_once() -> (
    None
):
    sender = Sender()
    first, second, third, last = update(value=1), update(value=2), click(), update(value=3)
    for request in (first, second, third, last):
        sender.comms.put(request, behind=False)
        await asyncio.sleep(0)
    assert sender.dropped == [first]
    sender.live.set()
    for _ in range(3):
        sender.go.release()
    await sender.comms.sent()
    assert sender.sent == [second, third, last]


async def test_what_came_behind_a_cell_waits_for_it_and_the_cell_for_what_came_before() -> None:
    sender = Sender()
    sender.live.set()
    before, behind = update(value=1), update(value=2)
    sender.comms.put(before, behind=False)
    sender.comms.put(behind, behind=True)
    cell = asyncio.ensure_future(sender.comms.sent())
    await asyncio.sleep(0)
    assert not cell.done()
    sender.go.release()
    await cell
    assert sender.sent == [before]
    sender.comms.release()
    sender.go.release()
    await sender.comms.sent()
    assert sender.sent == [before, behind]


async def test_a_resume_that_was_given_up_refuses_all_that_waited_for_it() -> None:
    sender = Sender()
    sender.error = SandboxDied("no sandbox")
    waited = [update(value=1), click(), update(value=2)]
    for request in waited:
        sender.comms.put(request, behind=False)
    sender.live.set()
    await sender.comms.sent()
    assert (sender.refused, sender.sent) == (waited, [])
    # What comes later tries anew.
    sender.error = None
    later = click()
    sender.comms.put(later, behind=False)
    sender.go.release()
    await sender.comms.sent()
    assert sender.sent == [later]


def asks_for_widgets(comm: str = "control") -> list[Request]:
    """What a page sends as soon as it has a kernel."""
    opened = {"comm_id": comm, "target_name": "jupyter.widget.control", "data": {}}
    begun = Request("shell", [b"page"], make("comm_open", opened))
    return [begun, comm_msg(comm, {"method": "request_states"})]


async def test_what_pages_send_by_themselves_brings_nothing_back() -> None:
    sender = Sender()
    sender.rests = True
    sender.live.set()
    for _ in range(4):
        sender.go.release()
    page = asks_for_widgets()
    for each in page:
        sender.comms.put(each, behind=False)
    await asyncio.sleep(0.01)
    assert sender.sent == [], "nobody wants anything of the session"
    slid = update(value=1)
    sender.comms.put(slid, behind=False)  # a person moves a slider
    await asyncio.sleep(0.01)
    assert sender.sent == [*page, slid]


@pytest.mark.parametrize("by", ["a resume", "a cell"])
async def test_what_pages_sent_by_themselves_goes_before_whatever_brings_it_back(by: str) -> None:
    sender = Sender()
    sender.rests = True
    sender.live.set()
    for _ in range(2):
        sender.go.release()
    page = asks_for_widgets()
    for each in page:
        sender.comms.put(each, behind=False)
    await asyncio.sleep(0.01)
    if by == "a resume":
        sender.rests = False
        sender.comms.look()
        await asyncio.sleep(0.01)
    else:
        await sender.comms.sent()
    assert sender.sent == page
