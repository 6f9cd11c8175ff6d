"""`reprise fork`: a new session that shares another one's history up to a step."""

from __future__ import annotations

import argparse
import asyncio
import uuid

from reprise.client.holder import held_elsewhere, running_kernel
from reprise.commands.opened import add_session, find_session, opened_log
from reprise.commands.terminal import Terminal
from reprise.errors import UnavailableError
from reprise.jupyter.visitor import KernelWorkspace
from reprise.log.postgres import Log
from reprise.log.store import SessionInfo

EXAMPLES = """\
  reprise fork 3f2a                   as it stands after its last step
  reprise fork analysis.ipynb --at 7  as it stood after step 7 (`reprise log` numbers them)
  reprise fork 3f2a --at -1           an empty session that knows where it came from
  REPRISE_SESSION=$(reprise fork 3f2a --at 7) jupyter console --kernel reprise
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    add_session(parser)
    add_at(parser)
    parser.add_argument(
        "--attach",
        action="store_true",
        help="let the notebook, and the kernel that runs on it, go over to the fork, as `reprise "
        "rewind` does",
    )
    add_interrupt(parser)
    parser.add_argument("--json", action="store_true", help="as JSON")


def add_at(parser: argparse.ArgumentParser) -> None:
    """The --at option."""
    parser.add_argument(
        "--at",
        type=int,
        metavar="N",
        help="the last step to share (default: the last one that has ended; -1: none)",
    )


def add_interrupt(parser: argparse.ArgumentParser) -> None:
    """The --interrupt option."""
    parser.add_argument(
        "--interrupt",
        action="store_true",
        help="interrupt the step that runs, instead of staying with it",
    )


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    fork, went = asyncio.run(
        forked(args.session, args.at, terminal, attach=args.attach, interrupt=args.interrupt)
    )
    if args.json:
        terminal.json(as_json(fork, went))
    else:
        terminal.line(str(fork.id))
    return 0


def as_json(fork: SessionInfo, went: list[str]) -> dict[str, object]:
    """A fork for programs. `attached`: what leads to it now."""
    return {
        "session": str(fork.id),
        "parent": str(fork.parent),
        "fork_seq": fork.fork_seq,
        "steps": fork.steps,
        "attached": went,
    }


async def forked(
    named: str, at: int | None, terminal: Terminal, *, attach: bool, interrupt: bool
) -> tuple[SessionInfo, list[str]]:
    """Fork a session; with `attach` whatever leads to it leads to the fork from then on.

    Returns the fork and the keys that went over. The session itself stays as it is.
    """
    async with opened_log(terminal) as log:
        session = await find_session(log, named)
        info = await (await log.reader(session)).info()
        connection = running_kernel(info)
        if attach and info.holder is not None and connection is None:
            raise held_elsewhere(info)
        fork = await log.fork(session, at)
        went = []
        if attach:
            if connection is not None:
                terminal.status("the kernel goes over …")
                with KernelWorkspace(connection) as kernel:
                    await _go_over(kernel, fork, interrupt)
                terminal.status("")
            went = await log.rebind(session, fork)
        return await _info(log, fork), went


async def _go_over(kernel: KernelWorkspace, fork: uuid.UUID, interrupt: bool) -> None:
    try:
        await asyncio.to_thread(kernel.attach, fork, interrupt=interrupt)
    except UnavailableError as error:
        raise UnavailableError(
            f"{error} The fork is there, as session {fork}, and nothing leads to it; `reprise"
            f" delete {fork}` takes it away."
        ) from error


async def _info(log: Log, session: uuid.UUID) -> SessionInfo:
    return await (await log.reader(session)).info()
