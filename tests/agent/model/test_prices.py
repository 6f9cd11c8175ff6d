"""Money is exact, and a price that is not one is refused instead of guessed."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprise.errors import UsageError
from reprise_server.agent.model.prices import Money, Price, price_of, total_tokens

#: Made-up prices: Reprise has none of its own.
GIVEN = {
    "input": "3.00",
    "output": "15",
    "cache_write": "3.75",
    "cache_read": "0.30",
    "currency": "usd",
}
COUNTS = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
USAGES = st.fixed_dictionaries({}, optional={name: st.integers(0, 10**9) for name in COUNTS})


def price() -> Price:
    found = price_of({"m": GIVEN}, "m")
    assert found is not None
    return found


@given(USAGES, st.lists(USAGES, max_size=2), st.lists(USAGES, max_size=2))
def test_a_cost_is_exact_and_counts_all_that_was_billed(
    usage: dict[str, Any], compactions: list[dict[str, Any]], lost: list[dict[str, Any]]
) -> None:
    each = [Fraction(x) for x in ("3.00", "15", "3.75", "0.30")]
    billed = [usage, *compactions, *lost]
    expected = sum(
        used.get(name, 0) * per / 10**6
        for used in billed
        for name, per in zip(COUNTS, each, strict=True)
    )
    # A message among the iterations is counted in the usage itself.
    iterations = [{"type": "message", "input_tokens": 5}]
    iterations += [{"type": "compaction", **one} for one in compactions]
    cost = price().of({**usage, "iterations": iterations, "lost": lost})
    assert Fraction(cost.amount) == expected
    assert Money.parse(str(cost)) == cost
    assert total_tokens({**usage, "lost": lost, "iterations": iterations}) == sum(
        used.get(name, 0) for used in billed for name in COUNTS
    )


def test_a_cost_is_written_as_people_write_it() -> None:
    assert str(price().of({"input_tokens": 100})) == "0.0003 USD"
    assert str(price().of({"output_tokens": 2_000_000})) == "30 USD"
    assert str(price().of({})) == "0 USD"
    assert price().of({"input_tokens": 1}).to_json() == {"amount": "0.000003", "currency": "USD"}


def test_no_price_is_not_a_price_of_nothing() -> None:
    assert price_of({"m": GIVEN}, "other") is None
    assert price_of({}, "m") is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"input": None},
        {"input": 3.0},
        {"input": "-1"},
        {"input": "NaN"},
        {"input": "Infinity"},
        {"input": "1e30"},
        {"input": "3,00"},
        {"input": True},
        {"input": ""},
        {"currency": "dollars"},
        {"currency": 3},
        {"currency": "US$"},
        {"discount": "0.5"},
    ],
    ids=str,
)
def test_a_price_that_is_none_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"m\b"):
        price_of({"m": GIVEN | wrong}, "m")


@pytest.mark.parametrize("left_out", sorted(GIVEN))
def test_a_price_that_leaves_something_out_is_refused(left_out: str) -> None:
    given = {name: value for name, value in GIVEN.items() if name != left_out}
    with pytest.raises(UsageError, match=f"lacks {left_out}"):
        price_of({"m": given}, "m")
    with pytest.raises(UsageError, match="must name"):
        price_of({"m": "3.00 USD"}, "m")


@pytest.mark.parametrize("text", ["", "2.50", "USD 2.50", "2.50 USD now", "two USD", "-1 USD"])
def test_an_amount_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        Money.parse(text)


def test_an_amount_is_read() -> None:
    assert Money.parse(" 2.50  eur ") == Money(Decimal("2.50"), "EUR")
