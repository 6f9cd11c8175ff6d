"""A result that is too long for a model lies whole in a file of the workspace, its ends shown."""

from __future__ import annotations

import hashlib
import re
from typing import Final

from reprise.errors import RepriseError
from reprise_server.agent.contract import RESULT_CHARACTERS, Call
from reprise_server.agent.tools.paths import RESULTS
from reprise_server.agent.tools.place import Place, Under
from reprise_server.agent.tools.shown import fitted

#: Bytes of a result that are kept; what a step showed stands in the log whatever is kept.
MOST_KEPT: Final = 16 << 20

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


def result_file(call: Call) -> str:
    """Where a call's result lies. The id comes from whoever serves the model."""
    name = call.id
    if not _NAME.fullmatch(name):
        name = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:32]
    return f"{RESULTS}/{name}.txt"


async def within(
    place: Place,
    call: Call,
    head: str,
    body: str,
    *,
    number: int = 2,
) -> tuple[str, tuple[int, ...]]:
    """`head` and `body` as one text within a result's bound, and the steps that it took.

    number: of the call's steps, the one that writes the file. When it cannot be kept that is said
    in it: what was done is done all the same.
    """
    if len(head) + len(body) <= RESULT_CHARACTERS:
        return head + body, ()
    steps: tuple[int, ...] = ()
    room = RESULT_CHARACTERS - len(head)
    path = result_file(call)
    where = f"All of it is in the file {path}: read_file shows parts, search_files finds."
    data = body.encode("utf-8", "replace")
    try:
        done = await place.upload(data[:MOST_KEPT], path, Under.of(call, number))
        steps = (done.seq,)
    except RepriseError as error:
        where = f"It could not be kept in a file: {str(error)[:300]}"
    else:
        if len(data) > MOST_KEPT:
            where = f"Its first {MOST_KEPT:,} bytes are in the file {path}."
    return head + fitted(body, room, where).text, steps
