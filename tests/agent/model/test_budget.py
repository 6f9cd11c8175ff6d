"""A turn stays within its requests and tokens, a conversation within its money, also after a crash."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprise.errors import UsageError
from reprise.log.conversation import Entry
from reprise_server.agent.model.budget import Budget, Spent
from tests.agent.model.test_prices import GIVEN


def entries(*given: tuple[int, str, dict[str, Any]]) -> list[Entry]:
    return [
        Entry(seq, turn, kind, body, 0)  # type: ignore[arg-type]
        for seq, (turn, kind, body) in enumerate(given)
    ]


def budget(**given: Any) -> Budget:
    return Budget.of(
        **({"model": "m", "requests": 3, "tokens": 0, "money": "", "prices": {"m": GIVEN}} | given)
    )


def asked(turn: int, estimate: int = 1000) -> tuple[int, str, dict[str, Any]]:
    return turn, "asked", {"model": "m", "input_estimate": estimate}


def answered(turn: int, tokens: int, cost: str | None = None) -> tuple[int, str, dict[str, Any]]:
    paid = None if cost is None else {"amount": cost, "currency": "USD"}
    return turn, "answered", {"usage": {"input_tokens": tokens}, "cost": paid}


def test_requests_are_counted_by_the_turn() -> None:
    log = entries(asked(1), answered(1, 5), asked(1), answered(1, 5), asked(2), answered(2, 5))
    assert budget().spent(log, 1).requests == 2
    assert budget().spent(log, 2).requests == 1
    assert budget().refuses(budget().spent(log, 1)) is None
    why = budget(requests=2).refuses(budget().spent(log, 1))
    assert why is not None
    assert "turn_requests" in why


def test_tokens_are_counted_by_the_turn_and_money_by_the_conversation() -> None:
    with_money = budget(money="1 USD")
    log = entries(asked(1), answered(1, 7_000, "0.40"), asked(2), answered(2, 9_000, "0.59"))
    assert with_money.spent(log, 2) == Spent(1, 9_000, Decimal("0.99"))
    assert with_money.refuses(with_money.spent(log, 2)) is None
    more = entries(
        asked(1), answered(1, 7_000, "0.40"), asked(2), answered(2, 9_000, "0.60"), asked(3, 0)
    )
    why = with_money.refuses(with_money.spent(more, 3))
    assert why is not None
    assert "1.00 USD" in why
    assert budget(tokens=9_000).refuses(budget().spent(log, 2)) is not None
    assert budget(tokens=9_001).refuses(budget().spent(log, 2)) is None


def test_a_request_whose_answer_never_came_is_counted_by_its_estimate() -> None:
    """The server died: what it took is not known, and not nothing."""
    with_money = budget(money="1 USD")
    for after in ([], [asked(1, 0), answered(1, 0, "0")]):
        spent = with_money.spent(entries(asked(1, 100_000), *after), 1)
        assert spent.tokens == 100_000
        assert spent.money == Decimal("0.3")


def test_going_on_gives_a_turn_its_bounds_anew_and_no_money() -> None:
    with_money = budget(money="1 USD")
    log = entries(
        asked(1),
        answered(1, 50, "0.2"),
        asked(1, 100_000),
        (1, "ended", {"status": "interrupted"}),
        (1, "continued", {}),
        asked(1),
        answered(1, 60, "0.1"),
    )
    assert with_money.spent(log, 1) == Spent(1, 60, Decimal("0.6"))


def test_a_compaction_is_paid_for() -> None:
    body = {
        "content": [],
        "before": 1,
        "usage": {"input_tokens": 100},
        "cost": {"amount": "0.5", "currency": "USD"},
    }
    log = entries(asked(1), (1, "compacted", body))
    assert budget(money="1 USD").spent(log, 1) == Spent(1, 100, Decimal("0.5"))


def test_without_a_recorded_cost_todays_price_counts() -> None:
    log = entries(asked(1), answered(1, 1_000_000))
    assert budget(money="5 USD").spent(log, 1).money == Decimal(3)


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({"model": "unknown", "money": "1 USD"}, "unknown"),
        ({"prices": {}, "money": "1 USD"}, "prices"),
        ({"money": "1 EUR"}, "EUR"),
        ({"money": "lots"}, "lots"),
    ],
)
def test_a_bound_in_money_that_cannot_be_kept_is_refused(given: dict[str, Any], word: str) -> None:
    with pytest.raises(UsageError, match=word):
        budget(**given)


def test_without_a_bound_no_price_is_needed() -> None:
    assert budget(model="unknown", prices={}).refuses(Spent(0, 10**9)) is None


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("asked"), st.integers(0, 1000)),
        st.tuples(st.just("answered"), st.integers(0, 1000)),
        st.tuples(st.just("said"), st.just(0)),
        st.tuples(st.just("ended"), st.just(0)),
        st.tuples(st.just("continued"), st.just(0)),
    ),
    max_size=20,
)


@given(STEPS)
def test_what_was_spent_never_shrinks_but_by_going_on(steps: list[tuple[str, int]]) -> None:
    with_money = budget(money="1 USD")
    log: list[Entry] = []
    turn, before = 1, Spent()
    for kind, number in steps:
        turn += kind == "said"
        body: dict[str, Any] = {"input_estimate": number}
        if kind == "answered":
            body = {"usage": {"input_tokens": number + 1000}}
        log.append(Entry(len(log), turn, kind, body, 0))  # type: ignore[arg-type]
        now = with_money.spent(log, turn)
        assert now.money >= before.money or kind == "answered"
        if kind not in ("said", "continued"):
            assert now.requests >= before.requests
        if kind in ("said", "continued"):
            assert now.requests == 0
        before = now
