"""`reprise mcp`: offers sessions and skills to other agents, by the Model Context Protocol."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import select
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from reprise.commands.terminal import Terminal
from reprise.errors import UsageError
from reprise_server.agent.mcp.opening import no_sdk

EXAMPLES = """\
  reprise mcp                                     over stdin and stdout, as MCP clients start it
  reprise mcp --folder ~/project                  new sessions begin with that folder's files
  reprise mcp --session analysis.ipynb            a client may work in this session, too
  reprise mcp --http 127.0.0.1:8765 --token-file ~/.config/reprise/mcp-token

A client's settings: {"mcpServers": {"reprise": {"command": "reprise", "args": ["mcp"]}}}
docs/mcp.md says what it is offered, and what the policies have to say.
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--session",
        action="append",
        default=[],
        metavar="SESSION",
        help="a session that may be used, beside those that are begun here; repeatable. With one,"
        " it is the one that is meant where none is named",
    )
    parser.add_argument(
        "--all-sessions", action="store_true", help="every session of yours may be used"
    )
    parser.add_argument(
        "--folder", type=Path, metavar="DIR", help="whose files new sessions begin with (none)"
    )
    parser.add_argument(
        "--environment", metavar="NAME", help="of kernels that are started (default: the usual)"
    )
    parser.add_argument(
        "--vouch",
        action="store_true",
        help="you vouch for what the other agent reads elsewhere: else it counts as untrusted, and"
        " what could carry data out is refused",
    )
    http = parser.add_argument_group("over HTTP")
    http.add_argument("--http", metavar="HOST:PORT", help="listen there instead of on stdin")
    http.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help="holds the bearer token (default: the variable REPRISE_MCP_TOKEN)",
    )
    http.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="a name by which it is called, such as a proxy's; repeatable",
    )
    http.add_argument(
        "--allow-origin",
        action="append",
        default=[],
        metavar="ORIGIN",
        help="of pages that may ask (default: no page); repeatable",
    )


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    if args.http is None and (args.token_file or args.allow_host or args.allow_origin):
        raise UsageError("--token-file, --allow-host and --allow-origin belong to --http.")
    if args.folder is not None and not args.folder.is_dir():
        raise UsageError(f"There is no folder {args.folder}.")
    if args.http is None and sys.stdin.isatty():
        terminal.progress(
            "This speaks MCP on stdin and stdout; a client starts it. `reprise mcp --help`"
        )
    try:
        asyncio.run(_run(args, terminal))
    except ModuleNotFoundError as error:
        raise no_sdk(error) from error
    except asyncio.CancelledError:
        return 128 + signal.SIGTERM
    return 0


async def _run(args: argparse.Namespace, terminal: Terminal) -> None:
    # As clients and service managers end a server: its conversations and kernels end with it.
    if (task := asyncio.current_task()) is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    # Only now: what a client waits for must not be what `--help` waits for.
    opened = import_module("reprise.commands.opened")
    listening: Any = None
    if args.http is not None:
        listening = import_module("reprise_server.agent.mcp.listening")
        where = listening.address(args.http)
        secret = listening.token(args.token_file, os.environ)
    server_of = import_module("reprise_server.agent.mcp.server").serve
    offered = import_module("reprise_server.agent.mcp.offered_session")
    offering_of = import_module("reprise_server.agent.mcp.offering").Offering
    settings = import_module("reprise_server.agent.configured").agent_settings()
    environ = {} if args.environment is None else {"REPRISE_ENVIRONMENT": args.environment}
    with tempfile.TemporaryDirectory(prefix="reprise-mcp-") as empty:
        async with opened.opened_log(terminal) as log:
            named = [await opened.find_session(log, each) for each in args.session]
            means = offered.Means(
                log,
                settings,
                Path(empty) if args.folder is None else args.folder.absolute(),
                environ,
                args.vouch,
                log.owner,
            )
            offering = offering_of(means, named, args.all_sessions, own=args.http is None)
            server = await server_of(offering)
            try:
                if listening is None:
                    await _over_stdio(server)
                else:
                    app = listening.application(
                        server, secret, where, hosts=args.allow_host, origins=args.allow_origin
                    )
                    await listening.listen(app, where, terminal.progress)
            finally:
                await offering.close()


async def _over_stdio(server: Any) -> None:
    stdio_server = import_module("mcp.server.stdio").stdio_server
    with _stdin_that_ends() as ended:
        async with stdio_server() as (received, sent):
            try:
                await server.run(received, sent, server.create_initialization_options())
            finally:
                os.close(ended)


@contextlib.contextmanager
def _stdin_that_ends() -> Iterator[int]:
    """Stdin through a pipe of ours, which ends when the descriptor given here is closed.

    The SDK reads stdin in a thread that nothing interrupts, and waits for it: after Ctrl-C until
    the client says something more.
    """
    theirs = os.dup(0)
    reading, writing = os.pipe()
    watched, ended = os.pipe()
    os.dup2(reading, 0)
    os.close(reading)

    def copy() -> None:
        with open(writing, "wb", buffering=0) as ours, contextlib.suppress(OSError):  # noqa: PTH123
            while True:
                ready, _, _ = select.select([theirs, watched], [], [])
                if watched in ready or not (chunk := os.read(theirs, 65_536)):
                    return
                while chunk:
                    chunk = chunk[ours.write(chunk) :]

    threading.Thread(target=copy, name="reprise-mcp-stdin", daemon=True).start()
    try:
        yield ended
    finally:
        os.dup2(theirs, 0)
