"""Jobs: bounded, in order, the same for everybody, cancelled at any moment, forgotten in the end."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from traitlets.config import Config

from reprise.errors import KeyInUse, UsageError
from reprise_server.api import job as job_module
from reprise_server.api.job import Done, Job, Outputs, Progress, Result
from reprise_server.api.people import Person
from reprise_server.api.refusals import Refused
from reprise_server.api.workshop import Wanted, Workshop
from reprise_server.settings import RepriseApi

ALICE, BOB = Person("alice"), Person("bob")
PATIENCE = 60.0


class Held:
    """Work that goes on until it is let go, on whatever loop it runs; keeps what became of it."""

    def __init__(self, result: Any = None, error: BaseException | None = None) -> None:
        self.began = threading.Event()
        self.go = threading.Event()
        self.cancelled = threading.Event()
        self.dropped = 0
        self._result = result
        self._error = error

    async def __call__(self, job: Job) -> Done:
        self.began.set()
        try:
            await asyncio.to_thread(self._wait)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        finally:
            self.go.set()
        if self._error is not None:
            raise self._error
        return Done({"ok": True}, self._result)

    def _wait(self) -> None:
        assert self.go.wait(PATIENCE)

    def drop(self) -> None:
        self.dropped += 1

    def wanted(self, kind: str = "verify", **more: Any) -> Wanted:
        return Wanted(kind, more.pop("session", None), {}, self, let_go=self.drop, **more)


Make = Callable[..., Workshop]


@pytest.fixture
def told() -> list[tuple[str, str]]:
    return []


@pytest.fixture
async def make(told: list[tuple[str, str]]) -> AsyncIterator[Make]:
    made: list[Workshop] = []

    def workshop(**settings: Any) -> Workshop:
        chosen = RepriseApi(config=Config({"RepriseApi": settings}))
        found = Workshop(
            chosen,
            logging.getLogger("tests"),
            lambda event, said: told.append((event, said["action"])),
        )
        made.append(found)
        return found

    yield workshop
    for each in made:
        await each.close()


async def state(job: Job, *wanted: str) -> Job:
    """The job as soon as it is in one of these states."""
    async with asyncio.timeout(PATIENCE):
        while job.state not in wanted:
            await job.changed(job.version, PATIENCE)
    return job


async def ended(job: Job) -> Job:
    return await state(job, "done", "failed", "cancelled")


async def began(held: Held) -> None:
    assert await asyncio.to_thread(held.began.wait, PATIENCE)


async def test_so_many_run_at_once_and_the_first_is_the_first(make: Make) -> None:
    workshop = make(jobs_running=2)
    held = [Held() for _ in range(4)]
    jobs = [workshop.begin(each.wanted(), ALICE)[0] for each in held]
    await began(held[0])
    await began(held[1])
    other = Held()
    theirs, _ = workshop.begin(other.wanted(), BOB)  # another person's count apart
    await began(other)
    assert [job.state for job in jobs] == ["running", "running", "queued", "queued"]
    held[1].go.set()
    await began(held[2])
    assert jobs[3].state == "queued"
    for each in (*held, other):
        each.go.set()
    for job in (*jobs, theirs):
        assert (await ended(job)).state == "done"
    assert [each.dropped for each in held] == [1, 1, 1, 1]


async def test_a_lane_keeps_its_order(make: Make) -> None:
    workshop = make()
    order: list[int] = []

    def wanted(number: int) -> Wanted:
        async def work(job: Job) -> Done:
            order.append(number)
            await asyncio.sleep(0)
            order.append(number)
            return Done({})

        return Wanted("cell", None, {}, work, lane="steps of x")

    jobs = [workshop.begin(wanted(number), ALICE)[0] for number in range(20)]
    for job in jobs:
        await ended(job)
    assert order == [number for number in range(20) for _ in range(2)]


async def test_what_waits_or_runs_is_cancelled_and_lets_go_once(
    make: Make, told: list[tuple[str, str]]
) -> None:
    workshop = make(jobs_running=1)
    running, waiting, after = Held(), Held(), Held()
    first, second, third = (
        workshop.begin(each.wanted(), ALICE)[0] for each in (running, waiting, after)
    )
    await began(running)
    workshop.cancel(second)
    await state(second, "cancelled")
    assert not waiting.began.is_set()
    assert (second.started_at, second.error) == (
        None,
        {"code": "cancelled", "message": "It was cancelled."},
    )
    workshop.cancel(first)
    workshop.cancel(first)
    await state(first, "cancelled")
    assert running.cancelled.is_set()
    await began(after)  # the lane goes on
    after.go.set()
    await ended(third)
    for job in (first, second, third):
        workshop.cancel(job)  # what has ended stays as it is
    assert [job.state for job in (first, second, third)] == ["cancelled", "cancelled", "done"]
    assert [each.dropped for each in (running, waiting, after)] == [1, 1, 1]
    async with asyncio.timeout(PATIENCE):
        while len(told) < 6:  # it is told on the server's own loop, a moment later
            await asyncio.sleep(0.01)
    assert sorted(told) == [
        *[("job", "cancelled")] * 2,
        ("job", "done"),
        *[("job", "queued")] * 3,
    ]


async def test_an_interrupted_job_tells_what_came_of_it(make: Make) -> None:
    workshop = make()
    held = Held()
    job, _ = workshop.begin(held.wanted(interrupt=held.go.set), ALICE)
    await began(held)
    workshop.cancel(job)
    await state(job, "cancelled")
    assert not held.cancelled.is_set()
    assert job.summary == {"ok": True}
    assert job.error is not None


async def test_what_fails_is_said_in_our_words_only(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    workshop = make()
    for error, code in (
        (UsageError("Name a step."), "usage"),
        (ZeroDivisionError("secret"), "internal"),
    ):
        held = Held(error=error)
        held.go.set()
        job = await ended(workshop.begin(held.wanted(), ALICE)[0])
        assert job.state == "failed"
        assert job.error is not None
        assert job.error["code"] == code
        assert "secret" not in str(job.to_json())
    assert "secret" in caplog.text  # in the server's own log it is


async def test_the_same_is_one_job_until_it_has_ended(make: Make) -> None:
    workshop = make()
    session = uuid.uuid4()
    first, twin, later = Held(), Held(), Held()
    job, new = workshop.begin(first.wanted(session=session, same="x"), ALICE)
    assert new
    assert workshop.begin(twin.wanted(session=session, same="x"), BOB) == (job, False)
    assert twin.dropped == 1
    other, new = workshop.begin(later.wanted(session=session, same="y"), ALICE)
    assert (new, other is job) == (True, False)
    first.go.set()
    await ended(job)
    again, new = workshop.begin(Held().wanted(session=session, same="x"), ALICE)
    assert new
    workshop.cancel(again)
    # One that is being cancelled is nobody's answer.
    await ended(again)
    assert workshop.begin(Held().wanted(session=session, same="x"), ALICE)[1]
    later.go.set()


async def test_what_is_done_once_is_told_again_and_nothing_else_under_its_key(make: Make) -> None:
    workshop = make()
    held = Held()
    held.go.set()
    job, _ = workshop.begin(held.wanted("cell", same="key", once=True, mark="a"), ALICE)
    await ended(job)
    assert workshop.begin(Held().wanted("cell", same="key", once=True, mark="a"), ALICE) == (
        job,
        False,
    )
    other = Held()
    with pytest.raises(KeyInUse):
        workshop.begin(other.wanted("cell", same="key", once=True, mark="b"), ALICE)
    assert other.dropped == 1
    failing = Held(error=UsageError("no"))
    failing.go.set()
    failed, _ = workshop.begin(failing.wanted("cell", same="two", once=True, mark="a"), ALICE)
    await ended(failed)
    retried, new = workshop.begin(held.wanted("cell", same="two", once=True, mark="a"), ALICE)
    assert new  # nothing had come of it
    await ended(retried)


async def test_more_than_so_many_are_refused(make: Make) -> None:
    workshop = make(jobs_waiting=3, jobs_running=1)
    held = [Held() for _ in range(4)]
    for each in held[:3]:
        workshop.begin(each.wanted(), ALICE)
    with pytest.raises(Refused) as caught:
        workshop.begin(held[3].wanted(), ALICE)
    assert (caught.value.status_code, caught.value.code) == (429, "too-many-jobs")
    assert held[3].dropped == 1
    workshop.begin(held[3].wanted(), BOB)
    for each in held:
        each.go.set()


async def test_what_has_ended_is_kept_for_a_while_and_in_bounds(make: Make) -> None:
    workshop = make(jobs_kept=3)
    jobs = []
    for _ in range(5):
        held = Held({"steps": [1, 2, 3]})
        held.go.set()
        jobs.append(await ended(workshop.begin(held.wanted(), ALICE)[0]))
    assert workshop.jobs() == jobs[:1:-1]
    with pytest.raises(Refused, match="404"):
        workshop.job(jobs[0].id)
    assert workshop.job(jobs[4].id) is jobs[4]
    assert jobs[0].result is not None
    assert jobs[0].result.piece(0) == b""  # its bytes are gone, too
    workshop.drop(jobs[4])
    assert workshop.jobs() == jobs[3:1:-1]
    running = Held()
    going, _ = workshop.begin(running.wanted(), ALICE)
    with pytest.raises(Refused, match="409"):
        workshop.drop(going)
    running.go.set()

    short = make(jobs_kept_for=1.0)
    held = Held()
    held.go.set()
    job = await ended(short.begin(held.wanted(), ALICE)[0])
    async with asyncio.timeout(PATIENCE):
        while job.version == (version := job.version) and short._jobs:
            await job.changed(version, PATIENCE)  # forgetting is a change
    assert short.jobs() == []


async def test_large_results_make_others_go_sooner(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reprise_server.api.workshop._RESULTS_BYTES", 1000)
    workshop = make()
    for _ in range(4):
        held = Held({"text": "x" * 400})
        held.go.set()
        await ended(workshop.begin(held.wanted(), ALICE)[0])
    assert len(workshop.jobs()) == 2
    monkeypatch.setattr(job_module, "RESULT_BYTES", 300)
    held = Held({"text": "x" * 400})
    held.go.set()
    job = await ended(workshop.begin(held.wanted(), ALICE)[0])
    assert (job.state, job.result, job.summary) == ("done", None, {"ok": True})


async def test_closing_ends_everything_and_nothing_begins_after_it(make: Make) -> None:
    workshop = make(jobs_running=1)
    gentle, waiting = Held(), Held()
    stubborn, _ = workshop.begin(gentle.wanted(interrupt=lambda: None), ALICE)
    queued, _ = workshop.begin(waiting.wanted(), ALICE)
    await began(gentle)
    workshop.cancel(stubborn)  # it takes no notice
    await workshop.close()
    assert (stubborn.state, queued.state) == ("cancelled", "cancelled")
    assert gentle.cancelled.is_set()
    assert not waiting.began.is_set()
    assert (gentle.dropped, waiting.dropped) == (1, 1)
    with pytest.raises(Refused, match="503"):
        workshop.begin(Held().wanted(), ALICE)
    names = [each.name for each in threading.enumerate()]
    assert "reprise-jobs" not in names


async def test_many_wait_for_one_change(make: Make) -> None:
    workshop = make()
    held = Held()
    job, _ = workshop.begin(held.wanted(), ALICE)
    await began(held)
    version = job.version
    waiting = [asyncio.ensure_future(job.changed(version, PATIENCE)) for _ in range(50)]
    gone = asyncio.ensure_future(job.changed(version, PATIENCE))
    await asyncio.sleep(0)
    gone.cancel()
    held.go.set()
    await asyncio.gather(*waiting)
    assert job.version > version
    await job.changed(version, PATIENCE)  # it has changed already
    await ended(job)
    assert not job._waiting


async def test_waiting_ends_without_a_change() -> None:
    job = Job("verify", None, "alice", {})
    await job.changed(0, 0.01)
    assert (job.version, job._waiting) == (0, set())


def test_outputs_are_the_last_ones_within_bounds() -> None:
    outputs = Outputs(limit=1000)
    for number in range(100):
        outputs.add(["stream", {"text": f"{number:080}"}, {}, []])
    found, skipped = outputs.since(-1)
    assert skipped
    assert [int(each[1]["text"]) for each in found] == list(range(100 - len(found), 100))
    assert 5 <= len(found) <= 10
    assert outputs.since(97) == (found[-2:], False)
    assert outputs.since(99) == ([], False)
    assert outputs.since(10**9) == ([], False)
    outputs.add(["stream", {"text": "x" * 2000}, {}, []])  # larger than all there is room for
    outputs.add(["stream", {"text": "last"}, {}, []])
    found, skipped = outputs.since(99)
    assert (len(found), skipped, outputs.count) == (1, True, 102)


def test_a_result_reads_as_it_was_written() -> None:
    for value in (
        {},
        {"a": 1},
        {"steps": [], "n": None},
        {"steps": [{"x": "é\ud800\0"}, 2, [3]], "b": {"c": [1]}},
        {"steps": ["y" * 100_000] * 30},
    ):
        result = Result(value)
        data = b""
        while piece := result.piece(len(data)):
            data += piece
        assert len(data) == result.size

        assert json.loads(data) == value
        result.close()
        assert result.piece(0) == b""


async def test_a_job_is_told_while_it_changes() -> None:
    job = Job("verify", uuid.uuid4(), "alice", {"from": 1})
    said = job.to_json()
    assert (said["state"], said["progress"]["text"]) == ("queued", "waiting for its turn")
    job.start()
    job.tell(Progress("step 3 of 9", 3, 9, {"same": 2, "different": 1}))
    job.show(["stream", {"name": "stdout", "text": "x"}, {}, []])
    said = job.to_json()
    assert said["progress"] == {
        "text": "step 3 of 9",
        "done": 3,
        "total": 9,
        "counts": {"same": 2, "different": 1},
    }
    assert (said["outputs"], said["version"], said["state"]) == (1, 3, "running")
