"""What hosts answered to requests of steps: written beside the log, read by replays."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

from reprise.log.blobs import Ask
from reprise.log.lineage import Line, along, columns
from reprise.log.model import Json, canonical
from reprise.log.store import RecordedResponse

_PAGE_ROWS: Final = 200

_COLUMNS: Final = (
    "t.seq, t.idle, encode(t.key, 'hex'), t.nth, t.at, t.state, t.pieces, t.size, t.body::text"
)

INSERT: Final = (
    "INSERT INTO reprise.recorded"
    " (session, owner, epoch, seq, idle, key, nth, at, state, pieces, size, body)"
    " VALUES (%s, %s, %s, %s, %s, %b, %s, %s, %s, %b::bytea[], %s, %s)"
    " ON CONFLICT DO NOTHING"
)


def values_of(session: uuid.UUID, owner: str, epoch: int, row: RecordedResponse) -> list[Any]:
    """The values of INSERT."""
    body: list[Json] = [
        row.why,
        row.method,
        row.url,
        row.status,
        row.reason,
        [list(each) for each in row.headers],
        [list(each) for each in row.trailers],
    ]
    return [
        session,
        owner,
        epoch,
        row.seq,
        row.idle,
        bytes.fromhex(row.key),
        row.nth,
        row.at,
        row.state,
        [bytes.fromhex(name) for name in row.pieces],
        row.size,
        canonical(body).decode("ascii"),
    ]


async def select_recorded(
    ask: Ask, line: Line, seq: int, key: str, nth: int, idle: bool
) -> RecordedResponse | None:
    """See `LogReader.recorded`. A fork's own answers come before those it shares."""
    rows = await ask(
        along(
            f"SELECT {_COLUMNS} FROM line g"  # noqa: S608
            " JOIN reprise.recorded t ON t.session = g.session AND t.seq < g.end_seq"
            " WHERE t.key = %b AND t.nth = %s AND (t.seq = %s OR t.idle OR %s)"
            " ORDER BY abs(t.seq - %s), t.seq, g.place DESC LIMIT 1"
        ),
        [*columns(line), bytes.fromhex(key), nth, seq, idle, seq],
    )
    return _row(rows[0]) if rows else None


async def count_recorded(ask: Ask, line: Line, seq: int, key: str) -> int:
    """See `LogReader.recorded_count`."""
    [(count,)] = await ask(
        along(
            "SELECT coalesce(max(t.nth) + 1, 0) FROM line g"
            " JOIN reprise.recorded t ON t.session = g.session AND t.seq < g.end_seq"
            " WHERE t.key = %b AND t.seq = %s"
        ),
        [*columns(line), bytes.fromhex(key), seq],
    )
    return int(count)


async def select_all_recorded(ask: Ask, line: Line) -> AsyncIterator[RecordedResponse]:
    """See `LogReader.all_recorded`."""
    after: tuple[Any, ...] = (-2, b"", -1)
    while True:
        rows = await ask(
            along(
                f"SELECT DISTINCT ON (t.seq, t.key, t.nth) {_COLUMNS} FROM line g"  # noqa: S608
                " JOIN reprise.recorded t ON t.session = g.session AND t.seq < g.end_seq"
                " WHERE (t.seq, t.key, t.nth) > (%s::bigint, %b::bytea, %s::bigint)"
                " ORDER BY t.seq, t.key, t.nth, g.place DESC LIMIT %s"
            ),
            [*columns(line), *after, _PAGE_ROWS],
        )
        for row in rows:
            found = _row(row)
            yield found
            after = (found.seq, bytes.fromhex(found.key), found.nth)
        if len(rows) < _PAGE_ROWS:
            return


def _row(row: Sequence[Any]) -> RecordedResponse:
    seq, idle, key, nth, at, state, pieces, size, body = row
    why, method, url, status, reason, headers, trailers = json.loads(body)
    return RecordedResponse(
        seq=seq,
        idle=idle,
        key=key,
        nth=nth,
        at=at,
        state=state,
        why=why,
        method=method,
        url=url,
        status=status,
        reason=reason,
        headers=tuple((name, value) for name, value in headers),
        trailers=tuple((name, value) for name, value in trailers),
        pieces=tuple(bytes(name).hex() for name in pieces),
        size=size,
    )
