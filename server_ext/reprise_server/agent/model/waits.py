"""How long to wait before a request is tried again (pure)."""

from __future__ import annotations

import email.utils
import math
from collections.abc import Mapping
from typing import Final

from reprise_server.agent.model.failures import Failure

#: The first wait; each next one is twice as long.
_FIRST: Final = 1.0
_LONGEST_OWN: Final = 60.0
#: An answer that cannot be read costs as much as one that can: not tried as often as the rest.
MAX_MALFORMED: Final = 2


def seconds(failure: Failure, attempt: int, *, longest: float, chance: float) -> float:
    """Before the next attempt. attempt: the one that failed, from 1.  chance: of 0 to 1, so that
    many who failed at once do not come back at once.

    What the server asks for is honoured, up to `longest`; a little is added, never taken off.
    """
    if failure.retry_after is not None:
        wait = failure.retry_after * (1 + 0.1 * chance)
    else:
        wait = min(_FIRST * 2.0 ** min(attempt - 1, 30), _LONGEST_OWN) * (0.75 + 0.25 * chance)
    return min(max(wait, 0.0), longest)


def asked_for(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds of `retry-after` (or `retry-after-ms`); None where there is none that can be read.

    RFC 9110, 10.2.3: seconds or a date. now: seconds since the epoch.
    """
    for name, factor in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        given = headers.get(name)
        if given is None:
            continue
        try:
            wait = float(given) * factor
        except ValueError:
            continue
        if math.isfinite(wait):
            return max(wait, 0.0)
    given = headers.get("retry-after")
    if given is None:
        return None
    try:
        return max(email.utils.parsedate_to_datetime(given).timestamp() - now, 0.0)
    except (ValueError, OverflowError, OSError):
        return None


def may_retry(headers: Mapping[str, str]) -> bool | None:
    """What the server itself says (`x-should-retry`, as the SDK reads it); None: nothing."""
    return {"true": True, "false": False}.get(headers.get("x-should-retry", ""))
