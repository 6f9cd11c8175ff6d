"""Short ways to say a step, an outcome and an output in these tests."""

from __future__ import annotations

from reprise.log.model import NewOutcome, NewStep, OutputEntry, outputs_hash

ENVIRONMENT = "e" * 64


def cell(code: str = "1", **changes: object) -> NewStep:
    values: dict[str, object] = {
        "kind": "cell",
        "payload": {"header": {}, "metadata": {}, "content": {"code": code}},
        "environment": ENVIRONMENT,
        "at": 1_700_000_000_000_000,
    }
    return NewStep(**{**values, **changes})  # type: ignore[arg-type]


def text(*pieces: str) -> list[OutputEntry]:
    return [OutputEntry("stream", {"name": "stdout", "text": piece}) for piece in pieces]


def ok(*entries: OutputEntry, **changes: object) -> NewOutcome:
    values: dict[str, object] = {
        "status": "ok",
        "outputs": outputs_hash(entries),
        "at": 1_700_000_000_000_001,
        "duration_us": 7,
        "execution_count": 1,
    }
    return NewOutcome(**{**values, **changes})  # type: ignore[arg-type]
