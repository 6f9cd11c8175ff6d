"""Asks the catalog's functions in Postgres; what they refuse becomes one of our errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import psycopg

from reprise.errors import (
    BadSkill,
    NotAllowed,
    RepriseError,
    SkillNotFound,
    SkillRevoked,
    UnavailableError,
    UsageError,
)
from reprise.log.postgres import Log

#: SQLSTATEs of migration 0007.
_REFUSALS: Final[dict[str, type[RepriseError]]] = {
    "RP010": NotAllowed,
    "RP011": SkillNotFound,
    "RP012": UsageError,
    "RP013": SkillRevoked,
    "RP014": BadSkill,
}


class Asking:
    """A part of the catalog: it asks the functions of the schema, which know who asks."""

    def __init__(self, log: Log) -> None:
        self._log = log

    async def _ask(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows that a function gives.

        Raises NotAllowed, SkillNotFound, SkillRevoked, BadSkill and UsageError in the words of the
        function, with its hint; UnavailableError when somebody else did not finish; otherwise
        DatabaseUnavailable and RepriseError.
        """
        try:
            return await self._log.query(statement, values)
        except RepriseError as error:
            refusal = _refusal(error.__cause__)
            if refusal is None:
                raise
            raise refusal from error


def _refusal(cause: BaseException | None) -> RepriseError | None:
    if isinstance(cause, psycopg.errors.LockNotAvailable):
        return UnavailableError(
            "Somebody else is changing the same skill, or a right in its scope, and has not "
            "finished for five seconds. Nothing was changed. Try again; when it stays so, an "
            "operator finds the open transaction in pg_stat_activity and can end it."
        )
    if not isinstance(cause, psycopg.Error) or cause.sqlstate not in _REFUSALS:
        return None
    said = [cause.diag.message_primary, cause.diag.message_hint]
    return _REFUSALS[cause.sqlstate](" ".join(text for text in said if text))


def storable(text: str) -> str:
    """`text` as Postgres can hold it: without NUL and without what UTF-8 cannot write."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()
