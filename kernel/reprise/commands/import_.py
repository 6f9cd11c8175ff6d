"""`reprise import`: brings a bundle into the log here, after every digest in it was proven."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import uuid
from pathlib import Path

from reprise.bundle.load import (
    DEFAULT_LIMIT,
    Checked,
    Loaded,
    check_bundle,
    checked_json,
    load_bundle,
)
from reprise.bundle.signature import read_public_key
from reprise.bundle.source import opened
from reprise.commands.opened import opened_log
from reprise.commands.terminal import Terminal
from reprise.errors import UsageError
from reprise.quantities import amount, parse_size
from reprise.settings import BACKEND, SESSION

EXAMPLES = """\
  reprise import analysis.reprise
  ssh host reprise export 3f2a -o - | reprise import -
  reprise import analysis.reprise --check                  prove it, import nothing
  reprise import analysis.reprise --require-signer ada.pub
  reprise import analysis.reprise --as-new                 beside the session that it came from
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("bundle", metavar="FILE", help="what `reprise export` wrote; - for stdin")
    parser.add_argument(
        "--check", action="store_true", help="prove that it is whole; no database is asked"
    )
    parser.add_argument("--as-new", action="store_true", help="under a new id")
    parser.add_argument(
        "--require-signer",
        action="append",
        default=[],
        metavar="KEY",
        help="a public key, or the file of one, that must have signed it; several: any of them",
    )
    parser.add_argument(
        "--max-size",
        default=str(DEFAULT_LIMIT),
        metavar="SIZE",
        help=f"what it may hold, uncompressed (default: {amount(DEFAULT_LIMIT)})",
    )
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    limit = parse_size(args.max_size)
    signers = tuple(read_public_key(named) for named in args.require_signer)
    if args.bundle == "-" and sys.stdin.isatty():
        raise UsageError("A bundle is to come on stdin, and stdin is a terminal.")
    path = None if args.bundle == "-" else Path(args.bundle)
    with opened(path, sys.stdin.buffer, limit) as bundle:
        checked = check_bundle(bundle, limit, signers, terminal.status)
        terminal.status("")
        if args.check:
            _tell_checked(checked, args.json, terminal)
            return 0

        async def load() -> Loaded:
            async with opened_log(terminal) as log:
                return await load_bundle(
                    log,
                    bundle,
                    checked,
                    limit=limit,
                    as_new=uuid.uuid4() if args.as_new else None,
                    progress=terminal.status,
                )

        loaded = asyncio.run(load())
    terminal.status("")
    _tell(loaded, args.json, terminal)
    if loaded.outcome == "imported" and os.environ.get(BACKEND) == "process":
        terminal.warn(
            "The backend `process` has no sandbox: a replay runs this session's code as you."
        )
    return 0


def _tell_checked(checked: Checked, as_json: bool, terminal: Terminal) -> None:
    if as_json:
        terminal.json({"whole": True, **checked_json(checked)})
        return
    terminal.line(f"whole: session {checked.head.session}, {_holds(checked)}")
    terminal.line(_signer(checked))


def _tell(loaded: Loaded, as_json: bool, terminal: Terminal) -> None:
    checked = loaded.checked
    if as_json:
        imported = loaded.outcome == "imported"
        terminal.json(
            {**checked_json(checked), "session": str(loaded.session), "imported": imported}
        )
        return
    if loaded.outcome == "there":
        terminal.line(f"session {loaded.session} is here already, step for step; nothing changed")
        return
    terminal.line(f"session {loaded.session}: {_holds(checked)}")
    terminal.line(_signer(checked))
    short = str(loaded.session)[:8]
    terminal.line(f"`reprise verify {short}` replays it here.")
    terminal.line(
        f"To go on with it: `reprise export {short} --to-notebook NAME.ipynb --attached`, or start"
        f" a kernel with {SESSION}={loaded.session}."
    )


def _holds(checked: Checked) -> str:
    seal = checked.seal
    return (
        f"{seal.steps:,} steps and {seal.blobs:,} blobs ({amount(seal.blob_bytes)}) match their"
        " digests"
    )


def _signer(checked: Checked) -> str:
    signed = checked.seal.signed
    if signed is None:
        return "unsigned: nothing tells who made it"
    return f"signed by {signed.key.name} ({signed.key}): {signed.comment}"
