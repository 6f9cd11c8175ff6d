"""The workspace of a running kernel, for other processes: answers to `workspace_request`.

What each operation asks and answers is in docs/messages.md. It reads what is there and, but for
`reset`, `sync` and `keep`, changes nothing; so it is not logged, save that a reset is a step, and
what a sync brings in is one.
"""

from __future__ import annotations

from collections.abc import Mapping

from reprise.errors import GuestCallFailed, RepriseError
from reprise.jupyter.steps import actor_of
from reprise.log.model import Actor, Json
from reprise.replay.engine import LiveSession
from reprise.replay.message import Malformed, Message
from reprise.sandbox.commands import BackgroundCommand
from reprise.workspace.listing import PAGE, list_folder
from reprise.workspace.transfer import workspace_manifest

#: Bytes of a file in one reply.
PIECE = 4 << 20
#: Programs that one request looks for, and characters of a name.
PROGRAMS = 200
PROGRAM_NAME = 4_000

#: The kind of refusal of a folder's list while no state stands.
NOT_READY = "not-ready"

Answer = tuple[dict[str, Json], list[bytes]]


def between_steps(message: Message, *, idle: bool) -> bool:
    """Whether a workspace_request has to wait for its turn among the steps. idle: whether none
    runs or waits; else what is queued brings in itself what a `sync` would."""
    try:
        op = message.content().get("op")
        return op in ("state", "reset") or (op == "sync" and idle)
    except Malformed:
        return False


async def answer(
    session: LiveSession, content: Mapping[str, Json], token: str, *, between: bool
) -> Answer:
    """The router's side. Errors of the guest are told in the reply.

    token: what an agent has to show.  between: whether this is a moment between two steps.
    """
    try:
        if content.get("op") == "folder" and not session.live:
            # Whoever merely looks brings nothing back, and waits for nothing.
            text = f"The session is {session.state}, so no workspace stands to be looked into."
            raise GuestCallFailed(text, NOT_READY)
        await session.ready()
        if content.get("op") == "sync":
            if between:
                await session.fresh()
                await session.upkeep.sync_folder()
            return {"status": "ok", "synced": between}, []
        told, data = await _answer(session, content, actor_of(content, token))
        return {"status": "ok", **told}, data
    except (RepriseError, TypeError, ValueError) as error:
        said: dict[str, Json] = {"ename": type(error).__name__, "evalue": str(error)}
        if isinstance(error, GuestCallFailed):
            said["kind"] = error.kind
        return {"status": "error", **said}, []


async def _answer(session: LiveSession, content: Mapping[str, Json], actor: Actor) -> Answer:
    guest = session.link.guest
    match content.get("op"):
        case "list":
            manifest = await workspace_manifest(
                guest,
                hashes=bool(content.get("hashes", True)),
                own=bool(content.get("own", True)),
            )
            return {"entries": [entry.to_json() for entry in manifest]}, []
        case "folder":
            path, after = content.get("path", ""), content.get("after")
            limit, own = int(content.get("limit", PAGE)), bool(content.get("own", True))
            page = await list_folder(guest, path, after, limit, own=own)
            return page.to_json(), []
        case "read":
            length = min(int(content.get("length", PIECE)), PIECE)
            asked = {"path": content.get("path"), "offset": content.get("offset", 0)}
            told, data = await guest.call("get", {**asked, "length": length})
            return {name: told.get(name) for name in ("size", "type", "mode", "link")}, data
        case "keep":
            kept = await session.upkeep.keep(str(content.get("path")), actor)
            told = {"id": str(kept.id), "sha256": kept.sha256, "size": kept.size, "seq": kept.seq}
            return told, []
        case "commands":
            return {"commands": [_listed(each) for each in await guest.commands()]}, []
        case "environment":
            return {"environment": session.environment, "shut": _shut(session)}, []
        case "programs":
            return {"found": sorted(await guest.programs(_names(content.get("names"))))}, []
        case "state":
            state = await session.upkeep.state()
            return {"seq": state.seq, "files": state.files, "variables": state.variables}, []
        case "reset":
            return {"seq": await session.upkeep.reset()}, []
        case other:
            raise GuestCallFailed(
                f"No operation {other!r}; there are list, folder, read, keep, commands, "
                "environment, programs, sync, state and reset."
            )


def _shut(session: LiveSession) -> str | None:
    """Why nothing is connected, whatever the environment allows."""
    return None if session.vouched.shut is None else session.vouched.shut[1]


def _names(asked: Json) -> list[str]:
    if not isinstance(asked, list) or len(asked) > PROGRAMS:
        raise ValueError(f"`names` is a list of at most {PROGRAMS} programs")
    for name in asked:
        if not isinstance(name, str) or "\0" in name or not 0 < len(name) <= PROGRAM_NAME:
            raise ValueError("a program's name is text without NUL")
    return asked


def _listed(command: BackgroundCommand) -> dict[str, Json]:
    folder = f".reprise/commands/{command.name}"
    return {
        "command": int(command.name),
        "running": command.running,
        "exit_code": command.exit_code,
        "signal": command.signal,
        "started_at": command.started_us,
        "stdout": f"{folder}/stdout",
        "stderr": f"{folder}/stderr",
    }
