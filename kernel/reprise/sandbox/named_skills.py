"""Which skills an environment lets in, and whose environment it is (pure).

A pattern is `SCOPE:NAME`, where SCOPE is personal, organisation, shipped or team/TEAM and NAME may
have `*`; or `sha256:DIGEST`, one content whatever it is called.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

from reprise.errors import UsageError

#: The scope, in patterns, of the skills that come with Reprise.
SHIPPED: Final = "shipped"
MOST_PATTERNS: Final = 200
_TEAM: Final = re.compile(r"team/[a-z0-9]+(?:[-_][a-z0-9]+)*")
_PATTERN: Final = re.compile(
    r"(?:personal|organisation|shipped|team/[a-z0-9]+(?:[-_][a-z0-9]+)*):[a-z0-9*-]{1,64}"
    r"|sha256:[0-9a-f]{64}"
)


def check_team(value: Any) -> str | None:
    """`team/NAME`, or None for nobody's in particular. Raises UsageError."""
    if value is None or (
        isinstance(value, str) and len(value) <= 69 and _TEAM.fullmatch(value) is not None
    ):
        return value
    raise UsageError(f"{value!r} is no team: team/NAME, with lowercase letters, digits, - and _.")


def check_skills(value: Any) -> tuple[str, ...] | None:
    """Patterns in order, or None for every skill that trust lets in. Raises UsageError."""
    if value is None:
        return None
    if not isinstance(value, list | tuple) or len(value) > MOST_PATTERNS:
        raise UsageError(f"skills is no list of at most {MOST_PATTERNS} patterns.")
    for each in value:
        if not isinstance(each, str) or not _PATTERN.fullmatch(each):
            raise UsageError(
                f"{each!r} names no skills: SCOPE:NAME, where SCOPE is personal, organisation, "
                "shipped or team/TEAM and NAME may have *, such as team/ml:*; or sha256:DIGEST."
            )
    return tuple(value)


def lets_in(
    patterns: Sequence[str] | None, digest: str, known_as: Iterable[tuple[str, str]]
) -> bool:
    """Whether a content may be mounted. known_as: (scope, name) of each place that has it."""
    if patterns is None or f"sha256:{digest}" in patterns:
        return True
    names = [f"{scope}:{name}" for scope, name in known_as]
    return any(fnmatchcase(name, pattern) for pattern in patterns for name in names)
