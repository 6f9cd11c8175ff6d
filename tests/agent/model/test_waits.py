"""A wait honours what the server asks for, within its bound; an error's words hold no secret."""

from __future__ import annotations

import base64
import email.utils
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprise_server.agent.model import failures, waits
from reprise_server.agent.model.failures import Failure, Secrets

CHANCE = st.floats(0, 1)


@given(st.floats(0, 1e12), st.integers(1, 10**6), st.floats(0, 600), CHANCE)
def test_what_the_server_asks_for_is_waited_within_the_bound(
    asked: float, attempt: int, longest: float, chance: float
) -> None:
    failure = Failure("x", again=True, retry_after=asked)
    wait = waits.seconds(failure, attempt, longest=longest, chance=chance)
    assert min(asked, longest) <= wait <= longest or wait == longest == 0


@given(st.integers(1, 10**6), st.floats(0, 600), CHANCE)
def test_our_own_waits_grow_and_are_bounded(attempt: int, longest: float, chance: float) -> None:
    def wait(number: int) -> float:
        failure = Failure("x", again=True)
        return waits.seconds(failure, number, longest=longest, chance=chance)

    assert 0 <= wait(attempt) <= min(longest, 60)
    assert wait(attempt) <= wait(attempt + 1)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "1500", "retry-after": "7"}, 1.5),
        ({"retry-after-ms": "soon", "retry-after": "7"}, 7.0),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "Wed, 99 Foo 2026 99:99:99 GMT"}, None),
        ({}, None),
        ({"retry-after": email.utils.formatdate(1_000_012, usegmt=True)}, 12.0),
        ({"retry-after": email.utils.formatdate(5, usegmt=True)}, 0.0),
    ],
    ids=str,
)
def test_retry_after_is_read(headers: dict[str, str], expected: float | None) -> None:
    assert waits.asked_for(headers, 1_000_000) == expected


@given(st.text(max_size=40))
def test_any_header_is_a_time_or_none(value: str) -> None:
    found = waits.asked_for({"retry-after": value}, 0)
    assert found is None or (math.isfinite(found) and found >= 0)


KEY = "sk-ant-api03-AbCdEfGhIjKlMnOpQrStUvWxYz-0123456789"


def told(status: int, said: str) -> Failure:
    return failures.refused(
        status,
        said=said,
        model="m",
        host="h.example",
        secrets=Secrets([KEY, None, ""]),
        retry_after=None,
    )


@pytest.mark.parametrize(
    "said",
    [
        f"bad key {KEY}",
        f"bad key {KEY.lower()}",
        f"bad key {KEY[:10]}…{KEY[-8:]}",
        f"bad key …{KEY[20:26]}",
        f"bad\nkey {KEY[:20]}\u200b{KEY[20:]}",
        " ".join(KEY),
    ],
)
def test_an_endpoints_words_that_hold_part_of_a_key_are_left_out(said: str) -> None:
    failure = told(400, said)
    assert failure.why == "The endpoint at h.example does not take this request (m, status 400)"


def test_an_endpoints_words_are_shown_otherwise_short_and_in_one_line() -> None:
    failure = told(400, "messages.3:\n\x1b[31mmust\u202e not be empty.")
    assert failure.why.endswith("status 400): messages.3: [31mmust not be empty")
    assert len(told(500, "x" * 10_000).why) < 600


@pytest.mark.parametrize("status", [401, 403])
def test_of_a_refused_key_nothing_is_repeated(status: int) -> None:
    encoded = base64.b64encode(KEY.encode()).decode()
    assert encoded not in told(status, f"unknown key {encoded}").why


@pytest.mark.parametrize(
    ("status", "again"),
    [(s, True) for s in (408, 409, 429, 500, 502, 503, 504, 529)]
    + [(s, False) for s in (301, 307, 400, 401, 402, 403, 404, 413, 422)],
)
def test_what_may_pass_is_tried_again_and_nothing_else(status: int, again: bool) -> None:
    assert told(status, "").again is again


@pytest.mark.parametrize(
    ("status", "said", "full"),
    [
        (400, "prompt is too long: 300000 tokens > 200000 maximum", True),
        (400, "input length and `max_tokens` exceed context limit: 1 + 2 > 2", True),
        (413, "", True),
        (400, "messages: at least one message is required", False),
        (500, "prompt is too long", False),
    ],
)
def test_a_full_context_is_told_apart(status: int, said: str, full: bool) -> None:
    assert told(status, said).full is full


def test_secrets_show_themselves_nowhere() -> None:
    secrets: Any = Secrets([KEY])
    assert KEY[:8] not in f"{secrets!r} {secrets}"
    assert secrets.plus(["another-secret"]).stand_in("xx another-secret xx")
    assert not Secrets(["a", "ab"]).stand_in("ab")
