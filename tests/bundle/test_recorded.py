"""Answers of hosts in a bundle: only what can be served again comes in, in one form."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest

from reprise.bundle import layout
from reprise.log.model import Json, sha256_hex
from reprise.log.postgres import Log
from tests.bundle.conftest import exported, imported
from tests.bundle.forge import Forge, Members, members, one_cell, put_together
from tests.bundle.sample import BEGAN, begin, cell, run
from tests.bundle.test_hostile import check, refused

HTML = "text/html"


def line(**changes: Json) -> list[Json]:
    said: dict[str, Json] = {
        "seq": 0,
        "idle": False,
        "key": sha256_hex(b"a request"),
        "nth": 0,
        "at": BEGAN,
        "state": "whole",
        "why": "",
        "method": "GET",
        "url": "https://example.org/",
        "status": 200,
        "reason": "OK",
        "headers": [["Content-Type", HTML]],
        "trailers": [],
        "pieces": [],
        "size": 0,
    }
    assert not set(changes) - set(said)
    return list({**said, **changes}.values())


def with_answers(*lines: list[Json]) -> Forge:
    forge = one_cell()
    forge.recorded += lines
    return forge


def test_an_answer_comes_in() -> None:
    forge = with_answers(line(), line(nth=1, state="part", why="cut"))
    piece = forge.blob(b"body")
    forge.recorded.append(line(nth=2, pieces=[piece, piece], size=8))
    assert check(forge.bundle()).head.recorded
    assert not check(one_cell().bundle()).head.recorded


@pytest.mark.parametrize(
    "changes",
    [
        {"seq": 1},
        {"seq": -2},
        {"seq": "0"},
        {"idle": 0},
        {"key": "ab"},
        {"nth": -1},
        {"at": 1 << 63},
        {"state": "other"},
        {"why": "although it is whole"},
        {"state": "part"},
        {"method": "GET /"},
        {"url": None},
        {"status": 99},
        {"status": 0},
        {"status": 101},
        {"status": True},
        {"reason": "OK\r\nX: 1"},
        {"headers": [["X", "a\r\nY: b"]]},
        {"headers": [["X Y", "a"]]},
        {"headers": [["", "a"]]},
        {"headers": [["X", "\u20ac"]]},
        {"headers": [["X"]]},
        {"headers": {"X": "a"}},
        {"headers": [["Content-Length", "-1"]]},
        {"headers": [["content-length", "1" * 40]]},
        {"trailers": [["X", "\0"]]},
        {"pieces": ["ab"]},
        {"pieces": None},
        {"pieces": [sha256_hex(b"that is not there")]},
        {"size": -1},
        {"state": "absent", "why": "no", "pieces": [sha256_hex(b"body")]},
    ],
    ids=str,
)
def test_an_answer_that_cannot_be_is_refused(changes: dict[str, Json]) -> None:
    refused(with_answers(line(**changes)).bundle())


def test_fields_are_neither_more_nor_fewer() -> None:
    refused(with_answers([*line(), 1]).bundle())
    refused(with_answers(line()[:-1]).bundle())
    refused(with_answers(line()).bundle(version=1))


def test_they_stand_in_one_order_each_once() -> None:
    first, second = line(), line(nth=1)
    assert check(with_answers(first, second).bundle())
    refused(with_answers(second, first).bundle(), "not in its order")
    refused(with_answers(first, first).bundle(), "not in its order")


@pytest.mark.parametrize("change", ["empty", "gone", "early"])
def test_the_member_is_there_when_it_says_something(change: str) -> None:
    parts = members(with_answers(line()).bundle())
    at = next(n for n, (name, _) in enumerate(parts) if name == layout.RECORDED)
    assert put_together(parts) == with_answers(line()).bundle()
    changed: dict[str, Callable[[], Members]] = {
        "empty": lambda: [*parts[:at], (layout.RECORDED, b""), *parts[at + 1 :]],
        "gone": lambda: [*parts[:at], *parts[at + 1 :]],
        "early": lambda: [*parts[: at - 1], parts[at], parts[at - 1], *parts[at + 1 :]],
    }
    refused(put_together(changed[change]()))


async def test_a_session_without_answers_is_a_bundle_as_before(log: Log) -> None:
    writer = await begin(log)
    await run(writer, cell("1"))
    await writer.close()
    names = [name for name, _ in members(await exported(log, writer.session))]
    assert layout.RECORDED not in names
    head = dict(members(await exported(log, writer.session)))[layout.HEAD]
    assert b'"version":1' in head


async def test_a_fork_takes_the_answers_of_its_steps_along(
    log: Log, other: Log, sample: uuid.UUID
) -> None:
    fork = await log.fork(sample, 1)
    await imported(other, await exported(log, fork))
    found = [each.seq async for each in (await other.reader(fork)).all_recorded()]
    assert found == [-1, 1, 1]
