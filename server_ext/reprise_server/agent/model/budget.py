"""Whether a turn may ask the model once more: requests, tokens and money, from its entries (pure).

What was spent is read from the conversation's entries, so a restarted server counts on where the
old one stopped. A request whose answer never came is counted by what was estimated for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from reprise.errors import UsageError
from reprise.log.conversation import Entry
from reprise_server.agent.model.prices import Money, Price, price_of, total_tokens


@dataclass(frozen=True)
class Spent:
    """requests, tokens: of the turn, since it was last told to go on.  money: of the whole
    conversation, in the budget's currency."""

    requests: int = 0
    tokens: int = 0
    money: Decimal = Decimal(0)


@dataclass(frozen=True)
class Budget:
    """requests, tokens: of one turn; 0 tokens: no bound.  money: of the whole conversation."""

    requests: int
    tokens: int = 0
    money: Money | None = None
    price: Price | None = None

    @classmethod
    def of(
        cls,
        *,
        model: str,
        requests: int,
        tokens: int,
        money: str,
        prices: Mapping[str, Any],
    ) -> Budget:
        """Raises UsageError: a bound in money that cannot be kept is refused, not ignored."""
        price = price_of(prices, model)
        if not money.strip():
            return cls(requests, tokens, None, price)
        most = Money.parse(money)
        if price is None:
            raise UsageError(
                f"The conversation may cost {most}, but nobody said what {model} costs, so this "
                "could not be kept. Nothing was sent. Set c.RepriseAgent.prices for it, or take "
                "the bound away (c.RepriseAgent.money)."
            )
        if price.currency != most.currency:
            raise UsageError(
                f"The conversation may cost {most}, but {model} is paid in {price.currency}. "
                "Nothing was sent. Set both in one currency."
            )
        return cls(requests, tokens, most, price)

    def spent(self, entries: Iterable[Entry], turn: int) -> Spent:
        """What these entries of one conversation say was spent."""
        requests = tokens = 0
        money = Decimal(0)
        waiting: Entry | None = None
        for entry in entries:
            if entry.kind in ("asked", "said", "continued") and waiting is not None:
                tokens, money = self._unanswered(waiting, turn, tokens, money)
                waiting = None
            if entry.kind == "asked":
                waiting = entry
                requests += entry.turn == turn
            elif entry.kind == "continued" and entry.turn == turn:
                requests = tokens = 0
            elif entry.kind == "answered" or (entry.kind == "compacted" and "usage" in entry.body):
                waiting = None
                usage = entry.body.get("usage")
                usage = usage if isinstance(usage, dict) else {}
                if entry.turn == turn:
                    tokens += total_tokens(usage)
                money += self._cost(entry.body.get("cost"), usage)
        if waiting is not None:
            tokens, money = self._unanswered(waiting, turn, tokens, money)
        return Spent(requests, tokens, money)

    def refuses(self, spent: Spent) -> str | None:
        """Why the model is not asked once more, for a person; None where it may be.

        The last answer may go over the bound, by what one answer takes at most.
        """
        if spent.requests >= self.requests:
            return (
                f"The turn has asked the model {spent.requests} times, which is its bound "
                "(c.RepriseAgent.turn_requests). What was done stands. Continue the turn to go on."
            )
        if self.tokens and spent.tokens >= self.tokens:
            return (
                f"The turn has taken {spent.tokens:,} tokens of {self.tokens:,} "
                "(c.RepriseAgent.turn_tokens). What was done stands. Continue the turn to go on."
            )
        if self.money is not None and spent.money >= self.money.amount:
            return (
                f"The conversation has cost {Money(spent.money, self.money.currency)} of "
                f"{self.money} (c.RepriseAgent.money). What was done stands. Begin a new "
                "conversation, or have the bound raised."
            )
        return None

    def _unanswered(
        self, asked: Entry, turn: int, tokens: int, money: Decimal
    ) -> tuple[int, Decimal]:
        guessed = asked.body.get("input_estimate")
        usage = {"input_tokens": guessed} if isinstance(guessed, int) and guessed > 0 else {}
        if asked.turn == turn:
            tokens += total_tokens(usage)
        return tokens, money + self._cost(None, usage)

    def _cost(self, cost: Any, usage: Mapping[str, Any]) -> Decimal:
        """As it was recorded, in this currency; else by today's price."""
        if self.money is None:
            return Decimal(0)
        if isinstance(cost, dict) and cost.get("currency") == self.money.currency:
            return Money.parse(f"{cost.get('amount')} {self.money.currency}").amount
        return self.price.of(usage).amount if self.price is not None else Decimal(0)
