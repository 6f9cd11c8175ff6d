"""The policies that bind whoever asks, each a list of versions in a scope of the catalog's."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

from reprise.errors import NotAllowed, RepriseError, TooLarge, UnavailableError, UsageError
from reprise.log.model import Json, canonical
from reprise.log.postgres import Log

#: Bytes of one policy, as migration 0008 bounds it.
MAX_POLICY = 256 << 10
#: The scope of whoever asks.
PERSONAL = "personal"

_COLUMNS = "scope, version, body::text, encode(digest, 'hex'), by, at, note"


@dataclass(frozen=True)
class StoredPolicy:
    """One version. scope: organisation, team/NAME or personal.  digest: sha256 of its body."""

    scope: str
    version: int
    body: Mapping[str, Any]
    digest: str
    by: str
    at_us: int
    note: str


class Policies:
    """Read and set through functions of the schema, which know who asks."""

    def __init__(self, log: Log) -> None:
        self._log = log

    async def current(self) -> list[StoredPolicy]:
        """The newest of each scope that binds us: organisation, teams by name, personal."""
        rows = await self._ask(f"SELECT {_COLUMNS} FROM reprise.policies_of_mine()", [])  # noqa: S608
        order = {"organisation": 0, PERSONAL: 2}
        return sorted(map(_stored, rows), key=lambda each: (order.get(each.scope, 1), each.scope))

    async def history(self, scope: str) -> list[StoredPolicy]:
        """All versions, the newest first. Raises NotAllowed outside of one's scopes."""
        rows = await self._ask(
            f"SELECT {_COLUMNS} FROM reprise.policy_history(%s)",  # noqa: S608
            [await self._written(scope)],
        )
        return [_stored(row) for row in rows]

    async def set(
        self, scope: str, body: Mapping[str, Json], note: str = "", *, after: int | None = None
    ) -> StoredPolicy:
        """Add a version, which binds from the next verdict on.

        after: the version that it is to follow (0: none yet); default: the newest there is now.
        Raises NotAllowed (an admin of the scope may), UsageError when another one came first,
        TooLarge.
        """
        text = canonical(dict(body)).decode("ascii")
        if len(text) > MAX_POLICY:
            raise TooLarge(
                f"A policy of {len(text)} bytes is over the bound of {MAX_POLICY} bytes. Nothing"
                " was changed."
            )
        if after is None:
            known = {each.scope: each.version for each in await self.current()}
            after = known.get(scope, 0)
        rows = await self._ask(
            f"SELECT {_COLUMNS} FROM reprise.set_policy(%s, %s, %s, %s::bigint)",  # noqa: S608
            [await self._written(scope), text, note, after],
        )
        return _stored(rows[0])

    async def _written(self, scope: str) -> str:
        if scope == PERSONAL:
            [(login,)] = await self._log.query("SELECT session_user::text")
            return f"personal/{login}"
        if scope != "organisation" and not scope.startswith("team/"):
            raise UsageError(
                f"{scope!r} is no scope of a policy: personal, team/NAME or organisation."
            )
        return scope

    async def _ask(self, statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        try:
            return await self._log.query(statement, values)
        except RepriseError as error:
            cause = error.__cause__
            if isinstance(cause, psycopg.errors.LockNotAvailable):
                raise UnavailableError(
                    "Somebody else is setting a policy and has not finished for five seconds."
                    " Nothing was changed. Try again."
                ) from error
            refusals = {"RP010": NotAllowed, "RP011": UsageError, "RP012": UsageError}
            if isinstance(cause, psycopg.Error) and cause.sqlstate in refusals:
                said = [cause.diag.message_primary, cause.diag.message_hint]
                raise refusals[cause.sqlstate](" ".join(each for each in said if each)) from error
            raise


def _stored(row: Sequence[Any]) -> StoredPolicy:
    scope, version, body, digest, by, at, note = row
    shown = PERSONAL if scope.startswith("personal/") else scope
    return StoredPolicy(shown, version, json.loads(body), digest, by, at, note)
