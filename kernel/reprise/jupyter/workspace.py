"""The workspace of a running kernel, for the command line: answers to a custom control message.

`workspace_request {op, …}` → `workspace_reply {status, …}`, answered by the router:

| op    | more                       | reply                                                 |
|-------|----------------------------|-------------------------------------------------------|
| list  | hashes: bool               | entries: [[path, type, mode, size, sha256 or target]] |
| read  | path, offset, length       | size, type; the bytes as a message buffer             |
| reset | –                          | seq of the restart step                               |

It reads what is there and, but for `reset`, changes nothing, so it is not logged.
"""

from __future__ import annotations

from collections.abc import Mapping

from reprise.errors import GuestCallFailed, RepriseError
from reprise.log.model import Json
from reprise.replay.engine import LiveSession
from reprise.workspace.transfer import workspace_manifest

#: Bytes of a file in one reply.
PIECE = 4 << 20


async def answer(
    session: LiveSession, content: Mapping[str, Json]
) -> tuple[dict[str, Json], list[bytes]]:
    """The router's side. Errors of the guest are told in the reply."""
    try:
        await session.ready()
        op = content.get("op")
        if op == "list":
            hashes = bool(content.get("hashes", True))
            manifest = await workspace_manifest(session.link.guest, hashes=hashes)
            return {"status": "ok", "entries": [entry.to_json() for entry in manifest]}, []
        if op == "read":
            length = min(int(content.get("length", PIECE)), PIECE)
            asked = {"path": content.get("path"), "offset": content.get("offset", 0)}
            told, data = await session.link.guest.call("get", {**asked, "length": length})
            return {"status": "ok", "size": told.get("size"), "type": told.get("type")}, data
        if op == "reset":
            return {"status": "ok", "seq": await session.reset()}, []
        raise GuestCallFailed(f"there is no operation {op!r}; list, read and reset exist")
    except (RepriseError, TypeError, ValueError) as error:
        return {"status": "error", "ename": type(error).__name__, "evalue": str(error)}, []
