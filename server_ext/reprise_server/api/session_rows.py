"""`/sessions/{session}/rows`: the history in lines that are had by their number."""

from __future__ import annotations

from typing import Any, Final

from reprise.log.as_json import iso
from reprise.log.model import Json
from reprise.log.rows import Row, RowFilter
from reprise.log.search import StepFilter
from reprise_server.api.base import Asked, operation
from reprise_server.api.sessions import SessionEndpoint


class RowsEndpoint(SessionEndpoint):
    path = "/sessions/{session}/rows"

    @operation("read")
    async def get(self, asked: Asked) -> Any:
        reader = await self.reader(asked)
        query = asked.query
        steps = StepFilter(query["kind"], query["actor"], query["outcome"], query["q"] or "")
        found = await self.service.row_searches.rows(
            reader, RowFilter(steps, query["cell"]), query["offset"], query["limit"]
        )
        return {
            "session": str(reader.session),
            "total": found.total,
            "found": found.found,
            "found_exact": found.exact,
            "rows": [_row_json(row) for row in found.rows],
        }


def _row_json(row: Row) -> dict[str, Json]:
    return {
        "row": row.number,
        "seq": row.seq,
        "kind": row.kind,
        "actor": dict(row.asked.actor),
        "at": iso(row.at),
        "outcome": row.status,
        "cause": row.cause,
        "duration_s": None if row.duration_us is None else row.duration_us / 1e6,
        "execution_count": row.execution_count,
        "cell": row.asked.cell,
        "text": row.asked.text,
        "lines": row.asked.lines,
        "shown": row.shown,
        "digest": row.digest,
    }


ENDPOINTS: Final = (RowsEndpoint,)
