"""Puts a notebook back to before a turn, in the live document and over nobody's edits."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from reprise_server.agent.contract import Document, Edit, Stale
from reprise_server.agent.notebook.cells import normal
from reprise_server.agent.notebook.undoing import PutBack, put_back

#: Times that it is looked at anew since somebody typed meanwhile.
ATTEMPTS: Final = 5


async def put_back_in(
    document: Document, before: bytes, edits: Sequence[Edit], *, doing: bool = True
) -> PutBack:
    """Put back the cells of `edits` and say which those are, and which were kept.

    before: the snapshot of before the turn (`cells.snapshot`).  edits: what the turn's calls did,
    as their results say, and as `batch.edits_of` says of calls that have none.
    doing: else nothing is put back, and what would be is said.
    Raises Stale after some attempts, RepriseError; then nothing was put back.
    """
    then = normal(json.loads(before), document.path)
    for attempt in range(1, ATTEMPTS + 1):
        now = normal(await document.read(), document.path)
        found = put_back(then, now, edits)
        try:
            if found.changes and doing:
                await document.apply(found.changes)
        except Stale:
            if attempt == ATTEMPTS:
                raise
            continue
        return found
    raise AssertionError("the last attempt returns or raises")
