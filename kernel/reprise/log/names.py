"""What people call sessions: the newest name counts, and each stays in the log."""

from __future__ import annotations

import uuid

from reprise.log.postgres import Log, now_us

#: Characters of a name, or of a title.
LONGEST = 200


def one_line(text: str) -> str:
    """A name as it is kept: one line, of what Postgres can hold."""
    words = " ".join(text.replace("\0", " ").split())[:LONGEST]
    return words.encode("utf-8", "replace").decode()


async def name_session(log: Log, session: uuid.UUID, name: str, *, by: str | None = None) -> str:
    """Call a session by that name from now on; an empty one takes its name away.

    by: the person, if one is known. Returns the name as it is kept. Raises SessionNotFound.
    """
    await log.reader(session)
    kept = one_line(name)
    await log.query(
        "INSERT INTO reprise.session_names (session, owner, name, by, at)"
        " VALUES (%s, %s, %s, %s, %s)",
        [session, log.owner, kept, by, now_us()],
    )
    return kept


async def free_name(log: Log, wanted: str) -> str:
    """`wanted`, or with a number behind it where another session is called so already."""
    base = one_line(wanted)
    rows = await log.query(
        "SELECT name FROM (SELECT DISTINCT ON (session) name FROM reprise.session_names"
        " WHERE owner = %s ORDER BY session, number DESC) AS newest WHERE starts_with(name, %s)",
        [log.owner, base[: LONGEST - 8]],
    )
    taken = {row[0] for row in rows}
    number, name = 1, base
    while name in taken:
        number += 1
        name = f"{base[: LONGEST - 8]} {number}"
    return name
