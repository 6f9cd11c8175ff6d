"""`reprise export`: a session as one file: a bundle to import elsewhere, a notebook, a script."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import getpass
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from reprise.bundle import layout
from reprise.bundle.notebook import as_notebook
from reprise.bundle.script import write_script
from reprise.bundle.signature import SecretKey, make_key, read_secret_key
from reprise.bundle.source import compressed
from reprise.bundle.write import Exported, Sign, write_bundle
from reprise.commands.opened import SHOWN_ID, find_session, opened_log
from reprise.commands.terminal import Terminal
from reprise.errors import UsageError
from reprise.log.postgres import Log
from reprise.log.reader import Reader
from reprise.quantities import amount
from reprise.workspace.replaced import replacing

EXAMPLES = """\
  reprise export analysis.ipynb                     writes analysis.reprise
  reprise export 3f2a -o - --compress | ssh host reprise import -
  reprise export --make-key ~/.reprise.key          once; give others what is in ~/.reprise.key.pub
  reprise export 3f2a --sign ~/.reprise.key
  reprise export 3f2a --to-notebook analysis.ipynb  cells with their recorded outputs
  reprise export 3f2a --to-script analysis.py       runs the history again without Reprise
"""

_WARNING = (
    "It holds all that the session's cells and commands said, showed and were given, uploaded files"
    " included. Passwords asked for with getpass were never stored."
)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "session",
        metavar="SESSION",
        nargs="?",
        help="its id or the beginning of it, or the path of its notebook (`reprise sessions`)",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="where the bundle goes (default: NOTEBOOK.reprise in this folder; - for stdout)",
    )
    parser.add_argument("--force", action="store_true", help="replace a file that is there")
    parser.add_argument("--compress", action="store_true", help="zstd around the bundle")
    parser.add_argument(
        "--notices", action="store_true", help="with notices, which may name folders here"
    )
    parser.add_argument("--artifacts", action="store_true", help="with the artifacts")
    parser.add_argument(
        "--sign", type=Path, metavar="KEYFILE", help="sign it with a secret key of minisign's form"
    )
    parser.add_argument(
        "--comment", metavar="TEXT", help="with --sign: what you say about it, signed as well"
    )
    parser.add_argument(
        "--make-key", type=Path, metavar="FILE", help="make a key to sign with, and FILE.pub"
    )
    parser.add_argument(
        "--to-notebook", type=Path, metavar="FILE", help="write an .ipynb instead of a bundle"
    )
    parser.add_argument(
        "--attached",
        action="store_true",
        help="with --to-notebook: one that goes on with this session when it is opened",
    )
    parser.add_argument(
        "--to-script",
        type=Path,
        metavar="FILE",
        help="write a .py that runs the history without Reprise, and its files beside it",
    )
    parser.add_argument("--json", action="store_true", help="what was written, as JSON")


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    if args.make_key is not None:
        return _make_key(args, terminal)
    if args.session is None:
        raise UsageError("Name the SESSION to export (`reprise sessions` lists them).")
    if args.to_notebook is not None and args.to_script is not None:
        raise UsageError("--to-notebook and --to-script are two exports; ask for one at a time.")
    if args.json and args.output == "-":
        raise UsageError("With -o - the bundle is on stdout, so --json has no place there.")
    if args.comment is not None and args.sign is None:
        raise UsageError("--comment belongs to a signature; add --sign KEYFILE.")
    return asyncio.run(_run(args, terminal))


def _make_key(args: argparse.Namespace, terminal: Terminal) -> int:
    public = make_key(args.make_key)
    if args.json:
        terminal.json({"key_id": public.name, "public_key": str(public)})
        return 0
    terminal.line(f"{args.make_key}: your secret key; it has no password, so keep it to yourself")
    terminal.line(f"{args.make_key}.pub: the public key, for those who want to know it is you:")
    terminal.line(str(public))
    return 0


async def _run(args: argparse.Namespace, terminal: Terminal) -> int:
    key = None if args.sign is None else _secret_key(args.sign, terminal)
    async with opened_log(terminal) as log:
        reader = await log.reader(await find_session(log, args.session))
        if args.to_notebook is not None:
            return await _to_notebook(reader, args, terminal)
        if args.to_script is not None:
            return await _to_script(reader, args, terminal)
        return await _to_bundle(log, reader, args, key, terminal)


def _secret_key(path: Path, terminal: Terminal) -> SecretKey:
    return read_secret_key(path, getpass.getpass if terminal.err.isatty() else None)


# bundles -----------------------------------------------------------------------------------------


async def _to_bundle(
    log: Log, reader: Reader, args: argparse.Namespace, key: SecretKey | None, terminal: Terminal
) -> int:
    target = await _target(reader, args)
    artifacts = await log.artifacts(reader.session) if args.artifacts else []
    with _sink(target) as sink, _maybe_compressed(sink, args.compress) as stream:
        written = await write_bundle(
            reader,
            stream,
            notices=args.notices,
            artifacts=artifacts,
            sign=None if key is None else _signer(key, args.comment),
            progress=terminal.status,
        )
    terminal.status("")
    if args.json:
        terminal.json({"file": str(target), **_as_json(written, key)})
    elif target is None:
        terminal.progress(f"{_told(written, key)}. {_WARNING}")
    else:
        terminal.line(f"{target}: {_told(written, key)}, {amount(target.stat().st_size)}")
        terminal.line(f"digest {written.digest}")
        terminal.progress(_WARNING)
    return 0


async def _target(reader: Reader, args: argparse.Namespace) -> Path | None:
    """Where the bundle goes; None for stdout."""
    if args.output == "-":
        if sys.stdout.isatty():
            raise UsageError("A bundle on a terminal helps nobody; send it to a file or a pipe.")
        return None
    name = str(reader.session)[:SHOWN_ID]
    if args.output is None:
        notebook = (await reader.info()).notebook
        name = name if notebook is None else Path(notebook).stem
    target = Path(args.output or f"{name}.reprise")
    _check_target(target, args.force)
    return target


def _check_target(target: Path, force: bool) -> None:
    if target.is_dir():
        raise UsageError(f"{target} is a folder. Name the file to write.")
    if os.path.lexists(target) and not force:
        raise UsageError(f"{target} is there already. Name another file, or use --force.")
    if not target.parent.is_dir():
        raise UsageError(f"There is no folder {target.parent} to write {target.name} into.")


@contextlib.contextmanager
def _sink(target: Path | None) -> Iterator[BinaryIO]:
    if target is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with replacing(target) as file:
        yield file


@contextlib.contextmanager
def _maybe_compressed(sink: BinaryIO, wanted: bool) -> Iterator[BinaryIO]:
    if not wanted:
        yield sink
        return
    with compressed(sink) as stream:
        yield stream


def _signer(key: SecretKey, comment: str | None) -> Sign:
    def sign(head: layout.Head, manifest: bytes) -> tuple[bytes, bytes]:
        # No time in it: the same session signed again gives the same bytes.
        said = comment if comment is not None else f"session {head.session}, {head.steps} steps"
        return key.public.to_file(), key.sign(manifest, said)

    return sign


def _told(written: Exported, key: SecretKey | None) -> str:
    signed = "" if key is None else f", signed by {key.public.name}"
    return f"{written.head.steps:,} steps and {written.blobs:,} blobs{signed}"


def _as_json(written: Exported, key: SecretKey | None) -> dict[str, object]:
    return {
        "session": str(written.head.session),
        "steps": written.head.steps,
        "events": written.head.events,
        "chain": written.head.chain,
        "blobs": written.blobs,
        "blob_bytes": written.blob_bytes,
        "digest": written.digest,
        "signed_by": None if key is None else str(key.public),
    }


# other forms -------------------------------------------------------------------------------------


async def _to_notebook(reader: Reader, args: argparse.Namespace, terminal: Terminal) -> int:
    _check_target(args.to_notebook, args.force)
    data, cells = await as_notebook(reader, attached=args.attached)
    with replacing(args.to_notebook) as file:
        file.write(data)
    return _wrote(args.to_notebook, f"{cells:,} cells with their recorded outputs", args, terminal)


async def _to_script(reader: Reader, args: argparse.Namespace, terminal: Terminal) -> int:
    _check_target(args.to_script, args.force)
    written = await write_script(reader, args.to_script, force=args.force)
    return _wrote(args.to_script, written, args, terminal)


def _wrote(target: Path, what: str, args: argparse.Namespace, terminal: Terminal) -> int:
    if args.json:
        terminal.json({"file": str(target)})
    else:
        terminal.line(f"{target}: {what}")
    return 0
