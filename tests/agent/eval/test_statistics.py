"""Intervals are those of the literature, and never claim what few trials cannot show."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprise_server.agent.eval.statistics import Rate, difference, median, wilson

COUNTS = st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@pytest.mark.parametrize(
    ("hits", "trials", "low", "high"),
    [
        # Newcombe 1998, "Two-sided confidence intervals for the single proportion", table I.
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0000, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilsons_interval_is_the_published_one(hits, trials, low, high):
    found = wilson(hits, trials)
    assert found == pytest.approx((low, high), abs=5e-5)


@pytest.mark.parametrize(
    ("first", "second", "low", "high"),
    [
        # Newcombe 1998, "Interval estimation for the difference …", table II, method 10.
        ((56, 70), (48, 80), 0.0524, 0.3339),
        ((9, 10), (3, 10), 0.1705, 0.8090),
        ((6, 7), (2, 7), 0.0582, 0.8062),
        ((5, 56), (0, 29), -0.0381, 0.1926),
        ((0, 10), (0, 20), -0.1611, 0.2775),
        ((10, 10), (0, 20), 0.6791, 1.0000),
    ],
)
def test_newcombes_interval_is_the_published_one(first, second, low, high):
    found = difference(Rate(*first), Rate(*second))
    assert (found.low, found.high) == pytest.approx((low, high), abs=5e-5)


@given(COUNTS)
def test_an_interval_holds_its_rate_and_stays_within_what_is_possible(counts):
    hits, trials = counts
    low, high = wilson(hits, trials)
    assert 0 <= low <= hits / trials <= high <= 1
    assert low < high
    mirrored = wilson(trials - hits, trials)
    assert mirrored == pytest.approx((1 - high, 1 - low))


@given(COUNTS)
def test_more_trials_of_the_same_rate_narrow_it(counts):
    hits, trials = counts
    few, many = wilson(hits, trials), wilson(hits * 4, trials * 4)
    assert many[1] - many[0] < few[1] - few[0]


@given(COUNTS, COUNTS)
def test_a_difference_lies_within_its_interval_and_turns_with_its_sides(one, other):
    first, second = Rate(*one), Rate(*other)
    found, turned = difference(first, second), difference(second, first)
    assert -1 <= found.low <= found.value <= found.high <= 1
    assert (turned.low, turned.high) == pytest.approx((-found.high, -found.low))
    assert found.shown == turned.shown


@given(COUNTS)
def test_the_same_on_both_sides_is_no_difference(counts):
    assert not difference(Rate(*counts), Rate(*counts)).shown


def test_one_trial_of_each_shows_nothing():
    assert not difference(Rate(1, 1), Rate(0, 1)).shown
    assert difference(Rate(0, 0), Rate(1, 1)) is None
    assert wilson(0, 0) == (0, 1)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30))
def test_half_lie_on_each_side_of_the_median(values):
    middle = median(values)
    assert sum(value < middle for value in values) <= len(values) / 2
    assert sum(value > middle for value in values) <= len(values) / 2
    assert median([]) is None
