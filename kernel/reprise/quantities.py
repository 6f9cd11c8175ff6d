"""Sizes and times as people write and read them: "2 GiB", "90s"."""

from __future__ import annotations

import math
import re

from reprise.errors import UsageError

_SIZES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(?:([kmgt]?)(?:i?b)?|bytes?)", re.IGNORECASE)
_TIMES = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_TIME = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(s|min|m|h|)", re.IGNORECASE)


def amount(size: int) -> str:
    """Bytes for people: "64 MiB", "1.5 GiB", "12 bytes"."""
    value = float(size)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if value < 1024:
            text = f"{value:.0f}" if unit == "bytes" else f"{value:.1f}".removesuffix(".0")
            return f"{text} {unit}"
        value /= 1024
    return f"{value:.1f}".removesuffix(".0") + " TiB"


def parse_size(text: str) -> int:
    """Bytes of "2GiB", "512 MB", "1.5g", "4096". Units are powers of 1024 (MB as MiB).

    Raises UsageError.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{text!r} is no size. Write one as 2GiB, 512MiB or 4096 (bytes).")
    return int(float(match[1]) * _SIZES[(match[2] or "").lower()])


def parse_seconds(text: str) -> float:
    """Seconds of "90", "90s", "5min", "2h". Raises UsageError."""
    match = _TIME.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{text!r} is no time. Write one as 90s, 5min or 2h.")
    return float(match[1]) * _TIMES[match[2].lower()]


def seconds(value: float) -> str:
    """A time for people: "90 s"; whole seconds without a fraction."""
    return f"{value:g} s" if math.isfinite(value) else "no end"
