"""How long the rest of a replay takes, as it is told: never less than nothing, nothing at its end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprise.replay.pace import Pace

seconds = st.floats(min_value=0, max_value=1e5)


def test_it_is_what_is_expected_until_something_was_played() -> None:
    assert Pace({3: 4.0, 5: 2.0}).remaining_s(0.0) == 6.0


def test_what_was_slower_than_expected_makes_the_rest_slower() -> None:
    pace = Pace({1: 10.0, 2: 10.0})
    pace.played(1)
    assert pace.remaining_s(10.0) == pytest.approx(10.0)
    assert pace.remaining_s(22.0) == pytest.approx(20.0)
    assert pace.remaining_s(4.0) == pytest.approx(5.0)


def test_a_small_first_step_says_little_of_the_rest() -> None:
    pace = Pace({1: 0.01, 2: 100.0})
    pace.played(1)
    assert pace.remaining_s(0.5) < 150.0, "fifty times slower, but of a hundredth of a second"


@given(st.dictionaries(st.integers(0, 50), seconds, max_size=20), st.data())
def test_it_ends_at_nothing_in_whatever_order_steps_end(
    expected: dict[int, float], data: st.DataObject
) -> None:
    pace = Pace(expected)
    elapsed = 0.0
    for seq in data.draw(st.permutations(list(expected))):
        assert pace.left > 0
        assert pace.remaining_s(elapsed) >= 0.0
        pace.played(seq)
        pace.played(seq)  # told twice, counted once
        pace.played(999)
        elapsed += data.draw(seconds)
    assert (pace.left, pace.remaining_s(elapsed)) == (0, 0.0)
