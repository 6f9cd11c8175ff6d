"""What a trial left: its files, its calls in their order, its answer (pure)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any

from reprise_server.agent.contract import Entry
from reprise_server.agent.model.prices import Price, input_tokens, parts


@dataclass(frozen=True)
class Made:
    """One call. status: how it ended; None where its result is missing.  code: of a cell or a
    command, what ran."""

    tool: str
    input: Mapping[str, Any]
    status: str | None
    code: str | None

    @property
    def ok(self) -> bool:
        return self.status == "ok"


@dataclass(frozen=True)
class Spent:
    """Tokens as the API counts them, requests, and money by currency where prices are known."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: Mapping[str, Decimal] = field(default_factory=dict)


@dataclass(frozen=True)
class Evidence:
    """files: of the workspace, by path, those that checks name.  given: as they were given.
    commands: of command checks, exit code and what they wrote."""

    calls: tuple[Made, ...]
    answer: str
    files: Mapping[str, bytes] = field(default_factory=dict)
    given: Mapping[str, bytes] = field(default_factory=dict)
    commands: Mapping[str, tuple[int | None, str]] = field(default_factory=dict)


def calls_of(entries: Sequence[Entry]) -> tuple[Made, ...]:
    """The calls of a conversation, in the order in which they were judged."""
    ends = {e.body["id"]: str(e.body["status"]) for e in entries if e.kind == "result"}
    return tuple(
        Made(
            str(entry.body["tool"]),
            entry.body["input"],
            ends.get(entry.body["id"]),
            (entry.body.get("act") or {}).get("code"),
        )
        for entry in entries
        if entry.kind == "called"
    )


def answer_of(entries: Sequence[Entry]) -> str:
    """The text of the newest whole answer."""
    for entry in reversed(entries):
        if entry.kind == "answered" and not entry.body.get("partial"):
            texts = [b["text"] for b in entry.body["content"] if b.get("type") == "text"]
            return "\n".join(texts)
    return ""


def spent_of(entries: Sequence[Entry], price: Price | None = None) -> Spent:
    """What the conversation took: answers, compactions, and attempts that were cut off.

    price: of what has no cost of its own, since it failed.
    """
    requests = inputs = outputs = 0
    cost: dict[str, Decimal] = {}
    for entry in entries:
        if entry.kind not in ("answered", "compacted"):
            continue
        usage = entry.body.get("usage") or {}
        requests += 1
        for part in parts(usage):
            inputs += input_tokens(part)
            outputs += int(part.get("output_tokens") or 0)
        paid = entry.body.get("cost")
        if isinstance(paid, Mapping):
            try:
                amount = Decimal(str(paid["amount"]))
            except (InvalidOperation, KeyError):
                continue
            currency = str(paid.get("currency", "USD"))
        elif price is not None:
            amount, currency = price.of(usage).amount, price.currency
        else:
            continue
        cost[currency] = cost.get(currency, Decimal(0)) + amount
    return Spent(requests, inputs, outputs, cost)


def text_of(value: Any) -> str:
    """An input as checks look into it."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
