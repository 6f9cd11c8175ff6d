"""`reprise reset`: a clean interpreter and an empty workspace, as one more step of the session."""

from __future__ import annotations

import argparse
import asyncio
import getpass
import os
import platform
import uuid

from reprise.commands.opened import add_session, find_session, opened_log
from reprise.commands.terminal import Terminal
from reprise.commands.workspaces import running_kernel
from reprise.jupyter.visitor import KernelWorkspace
from reprise.log.postgres import Log
from reprise.replay.at_rest import reset

EXAMPLES = """\
  reprise reset 3f2a
  reprise reset analysis.ipynb
"""

#: Seconds to wait for a kernel that is just shutting down.
WAIT_S = 3.0


def arguments(parser: argparse.ArgumentParser) -> None:
    add_session(parser)
    parser.add_argument("--json", action="store_true", help="the step as JSON")


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    session, seq = asyncio.run(_reset(args.session, terminal))
    if args.json:
        terminal.json({"session": str(session), "seq": seq})
    else:
        terminal.line(
            f"Session {session} has a clean interpreter and an empty workspace (step {seq}). "
            "Its earlier steps are still in `reprise log`."
        )
    return 0


async def _reset(named: str, terminal: Terminal) -> tuple[uuid.UUID, int]:
    async with opened_log(terminal) as log:
        session = await find_session(log, named)
        connection = running_kernel(await (await log.reader(session)).info())
        if connection is None:
            return session, await _append(log, session)
    with KernelWorkspace(connection) as kernel:
        reply, _ = await asyncio.to_thread(kernel.ask, op="reset")
    return session, int(reply["seq"])


async def _append(log: Log, session: uuid.UUID) -> int:
    """As the session's writer for a moment. Raises LeaseHeld when a kernel elsewhere is."""
    holder = {"pid": os.getpid(), "host": platform.node(), "user": getpass.getuser()}
    writer = await log.acquire(session, {**holder, "what": "reprise reset"}, wait=WAIT_S)
    try:
        return (await reset(writer)).seq
    finally:
        await writer.close()
