"""What answers cost: prices as an operator set them, exact to the last digit (pure).

Reprise knows no prices of its own: they change, and differ by contract and cloud.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from reprise.errors import UsageError

_MILLION: Final = Decimal(1_000_000)
_FIELDS: Final = ("input", "output", "cache_write", "cache_read")
#: Nothing costs this much; a larger number is a slip.
_MOST: Final = Decimal(1_000_000_000)


@dataclass(frozen=True)
class Money:
    """An amount in a currency: `Money.parse("2.50 USD")`."""

    amount: Decimal
    currency: str

    @classmethod
    def parse(cls, text: str) -> Money:
        """Raises UsageError."""
        words = text.split()
        if len(words) != 2:
            raise UsageError(
                f'{text!r} is no amount of money. Write the amount and the currency: "2.50 USD".'
            )
        return cls(_amount(words[0], "the amount"), _currency(words[1], "the amount"))

    def __str__(self) -> str:
        return f"{self.amount:f} {self.currency}"

    def to_json(self) -> dict[str, str]:
        return {"amount": f"{self.amount:f}", "currency": self.currency}


@dataclass(frozen=True)
class Price:
    """What a million tokens of one model cost. cache_write, cache_read: of input that is put into
    the prompt cache (for five minutes) and taken from it."""

    input: Decimal
    output: Decimal
    cache_write: Decimal
    cache_read: Decimal
    currency: str

    def of(self, usage: Mapping[str, Any]) -> Money:
        """What this usage costs. Compactions within it and attempts that were cut off included."""
        total = Decimal(0)
        for part in parts(usage):
            total += (
                part.get("input_tokens", 0) * self.input
                + part.get("output_tokens", 0) * self.output
                + part.get("cache_creation_input_tokens", 0) * self.cache_write
                + part.get("cache_read_input_tokens", 0) * self.cache_read
            ) / _MILLION
        # 0.000300 and 0.0003 are one amount: written one way.
        return Money(_plain(total), self.currency)


def parts(usage: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Usages that are billed: its own, those of compactions (which the API counts apart), and of
    attempts before it that were cut off (`lost`)."""
    found: list[Mapping[str, Any]] = [usage]
    iterations = usage.get("iterations")
    if isinstance(iterations, list):
        found += [
            one for one in iterations if isinstance(one, dict) and one.get("type") == "compaction"
        ]
    lost = usage.get("lost")
    if isinstance(lost, list):
        found += [one for one in lost if isinstance(one, dict)]
    return found


def total_tokens(usage: Mapping[str, Any]) -> int:
    """All tokens, in and out, cached ones too."""
    names = (
        "input_tokens",
        "output_tokens",
        "cache_creation_input_tokens",
        "cache_read_input_tokens",
    )
    return sum(int(part.get(name) or 0) for part in parts(usage) for name in names)


def input_tokens(usage: Mapping[str, Any]) -> int:
    """What the model read, from the cache or not: the size of the request."""
    return sum(
        int(usage.get(name) or 0)
        for name in ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    )


def price_of(prices: Mapping[str, Any], model: str) -> Price | None:
    """The price that was set for this model; None where none was. Raises UsageError."""
    given = prices.get(model)
    if given is None:
        return None
    where = f"The price of {model} (c.RepriseAgent.prices)"
    if not isinstance(given, Mapping):
        raise UsageError(f"{where} must name {', '.join(_FIELDS)} and currency.")
    missing = [name for name in (*_FIELDS, "currency") if name not in given]
    unknown = sorted(str(name) for name in given if name not in (*_FIELDS, "currency"))
    if missing or unknown:
        wrong = [f"lacks {name}" for name in missing] + [f"has {name!r}" for name in unknown]
        raise UsageError(
            f"{where} {', '.join(wrong)}. It names what a million tokens cost, as texts: "
            '{"input": "3.00", "output": "15.00", "cache_write": "3.75", "cache_read": "0.30", '
            '"currency": "USD"}.'
        )
    return Price(
        input=_amount(given["input"], f"input of {model}"),
        output=_amount(given["output"], f"output of {model}"),
        cache_write=_amount(given["cache_write"], f"cache_write of {model}"),
        cache_read=_amount(given["cache_read"], f"cache_read of {model}"),
        currency=_currency(given["currency"], f"the price of {model}"),
    )


def _amount(given: Any, what: str) -> Decimal:
    # A float would be 0.299999…; whole numbers and texts say what they mean.
    if isinstance(given, bool) or not isinstance(given, str | int | Decimal):
        raise UsageError(f'{what}: {given!r} is no amount. Write it as a text: "0.30".')
    try:
        amount = Decimal(given)
    except InvalidOperation:
        raise UsageError(f'{what}: {given!r} is no amount. Write it as "0.30".') from None
    if not amount.is_finite() or amount < 0 or amount > _MOST:
        raise UsageError(f"{what}: {given!r} is no amount that anything costs.")
    return amount


def _currency(given: Any, what: str) -> str:
    if not isinstance(given, str) or not (given.isascii() and given.isalpha() and len(given) == 3):
        raise UsageError(f'{what}: {given!r} is no currency. Write three letters, such as "USD".')
    return given.upper()


def _plain(amount: Decimal) -> Decimal:
    amount = amount.normalize()
    exponent = amount.as_tuple().exponent
    return amount.quantize(Decimal(1)) if isinstance(exponent, int) and exponent > 0 else amount
