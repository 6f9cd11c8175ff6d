"""How a rate is written: so many in a second, a minute or an hour."""

from __future__ import annotations

import re
from typing import Final

from reprise.errors import UsageError

_RATE: Final = re.compile(r"([1-9][0-9]{0,6})/(s|min|h)")
_SECONDS: Final = {"s": 1.0, "min": 60.0, "h": 3600.0}


def parse_rate(text: str) -> tuple[int, float]:
    """How many in how many seconds, from "600/min". Raises UsageError."""
    found = _RATE.fullmatch(text)
    if found is None:
        raise UsageError(f"{text!r} is no rate. Write NUMBER/s, NUMBER/min or NUMBER/h.")
    return int(found[1]), _SECONDS[found[2]]
