"""`reprise env promote`: what a session installed for itself becomes an environment."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import tempfile
import uuid
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from reprise.client.comparison import Workspace
from reprise.commands.env_create import report
from reprise.commands.opened import add_session, find_session, opened_log
from reprise.commands.terminal import Terminal
from reprise.commands.workspaces import opened_workspace, past
from reprise.environments.create import check_free, interpreter_of, kept_wheels, promoted
from reprise.environments.promotion import (
    RECORD_BYTES,
    WHEEL_BYTES,
    Installed,
    host_pins,
    installed,
    is_wheel_of,
    origin,
    wheels_of,
)
from reprise.errors import RepriseError, UsageError
from reprise.log.model import Json
from reprise.log.postgres import Log
from reprise.sandbox.named import NamedEnvironment, environments, load
from reprise.sandbox.packages import unpublished

_DIRECT_URL_BYTES: Final = 1 << 20

_EXAMPLES = """\
examples:
  reprise env promote analysis.ipynb stats        the session's environment and what it installed
  reprise env promote 3f2a stats --at 12          as of step 12
  reprise env promote 3f2a stats --without pywin32

The packages of the session's environment and those that `%pip install` put into the session, all
pinned to the versions they have there, are locked and built. A wheel that the session installed
from its workspace is carried over, if it still lies there unchanged. What was installed from a
folder, a repository or an address cannot be, and is named.
"""


@dataclass
class _Found:
    """What a session has of its own. wheels: files carried over, in `folder`."""

    pins: list[str] = field(default_factory=list)
    wheels: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def add(acts: Any, _common: argparse.ArgumentParser) -> None:
    act = acts.add_parser(
        "promote",
        help="make an environment of a session's and what it installed",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_session(act)
    act.add_argument("name", metavar="NAME", help="the environment to make")
    act.add_argument("--at", type=int, metavar="N", help="as after step N")
    act.add_argument(
        "--without",
        action="append",
        default=[],
        metavar="PACKAGE",
        help="leave a package out, such as one that no index has",
    )
    act.add_argument("--find-links", type=Path, action="append", default=[], metavar="DIR")
    act.add_argument("--replace", action="store_true", help="let NAME stand on this instead")
    act.add_argument("--json", action="store_true", help="the result as JSON")
    act.set_defaults(act=_promote)


def _promote(args: argparse.Namespace, terminal: Terminal) -> int:
    check_free(args.name, replaces=args.replace)
    with tempfile.TemporaryDirectory(prefix="reprise-promote-") as scratch:
        spec, found = asyncio.run(_look(args, Path(scratch), terminal))
        if not found.pins and not found.left_out:
            raise UsageError(
                f"Session {args.session} has installed nothing of its own, so there is nothing to "
                f"promote. `reprise env create {args.name} --from …` gives its environment "
                "another name."
            )
        if not found.pins:
            raise UsageError(
                "Nothing that the session installed can be carried over: "
                f"{'; '.join(found.left_out)}."
            )
        base, base_left = _base(spec)
        created = promoted(
            args.name,
            spec.get("lock"),
            base,
            found.pins,
            python=_python(spec),
            without=args.without,
            wheels=Path(scratch),
            find_links=[*kept_wheels(_named(spec)), *args.find_links],
            settings_of=_named(spec),
            replaces=args.replace,
            told=terminal.status,
        )
    terminal.status("")
    left_out = [*found.left_out, *base_left]
    if not args.json:
        terminal.line(f"Of the session: {', '.join(found.pins)}.")
        if found.wheels:
            terminal.line(f"Wheels of its workspace, kept with it: {', '.join(found.wheels)}.")
        for each in left_out:
            terminal.warn(f"left out: {each}")
    report(
        created,
        args.json,
        terminal,
        promoted=found.pins,
        wheels=found.wheels,
        left_out=left_out,
    )
    return 0


async def _look(
    args: argparse.Namespace, scratch: Path, terminal: Terminal
) -> tuple[Mapping[str, Json], _Found]:
    async with opened_log(terminal) as log:
        session = await find_session(log, args.session)
        reader = await log.reader(session)
        digest = (await reader.info()).environment
        if digest is None:
            raise UsageError(f"Session {session} has no step yet, so it has installed nothing.")
        spec = await reader.environment(digest)
        if spec.get("image"):
            raise UsageError(
                f"Session {session} ran in an image ({spec['image']}), and an environment is built "
                "on this machine's Python. Add its packages to the recipe of the image."
            )
        async with _workspace(args, log, session, terminal) as workspace:
            terminal.status("reading what it installed …")
            return spec, await _read(workspace, scratch, {*args.without})


@contextlib.asynccontextmanager
async def _workspace(
    args: argparse.Namespace, log: Log, session: uuid.UUID, terminal: Terminal
) -> AsyncIterator[Workspace]:
    if args.at is not None:
        async with past(log, session, args.at, terminal) as workspace:
            yield workspace
    else:
        async with opened_workspace(log, session, terminal) as workspace:
            yield workspace


async def _read(workspace: Workspace, scratch: Path, without: set[str]) -> _Found:
    manifest = await workspace.manifest(hashes=False)
    paths = {entry.path: entry.size for entry in manifest.entries if entry.type == "file"}
    packages, other = installed(paths)
    found = _Found(left_out=[f"{each} was not installed from a wheel" for each in other])
    for package in packages:
        if package.name in without:
            continue
        said = f"{package.folder}/direct_url.json"
        direct = await _bytes(workspace, said, _DIRECT_URL_BYTES) if said in paths else None
        came = origin(direct)
        if came.problem:
            found.left_out.append(f"{package.pin}: {came.problem}")
            continue
        wheel = await _carried(workspace, package, came.wheel, paths, scratch)
        if came.wheel is not None and wheel is None:
            found.left_out.append(
                f"{package.pin}: its wheel {came.wheel} does not lie in the workspace, or is not "
                "the one that was installed"
            )
            continue
        found.pins.append(package.pin)
        if wheel is not None:
            found.wheels.append(wheel)
    return found


async def _carried(
    workspace: Workspace,
    package: Installed,
    wheel: str | None,
    paths: Mapping[str, int],
    scratch: Path,
) -> str | None:
    """The name of the package's wheel, copied out of the workspace, if it lies there."""
    record_path = f"{package.folder}/RECORD"
    candidates = sorted(wheels_of(paths, package))
    if wheel is not None:
        candidates = [each for each in candidates if each.rpartition("/")[2] == wheel]
    if not candidates or record_path not in paths:
        return None
    record = await _bytes(workspace, record_path, RECORD_BYTES)
    for path in candidates:
        target = scratch / path.rpartition("/")[2]
        with target.open("wb") as file:
            await workspace.fetch(path, file, WHEEL_BYTES)
        if await asyncio.to_thread(is_wheel_of, target, record):
            return target.name
        target.unlink()
    return None


async def _bytes(workspace: Workspace, path: str, limit: int) -> bytes:
    file = io.BytesIO()
    await workspace.fetch(path, file, limit)
    return file.getvalue()


def _base(spec: Mapping[str, Json]) -> tuple[list[str], list[str]]:
    """The packages of a host's prefix that go along, and why others cannot."""
    if spec.get("built"):
        return [], []
    local = unpublished(Path(str(spec.get("base"))))
    pins, left_out = host_pins(spec, local)
    return pins, [
        f"{name}: this machine has it from a folder or an address, not from an index"
        for name in left_out
    ]


def _named(spec: Mapping[str, Json]) -> NamedEnvironment:
    """An environment that stands on what the session ran in; what is usual where there is none."""
    built = spec.get("built")
    for name in environments() if built else ():
        with contextlib.suppress(RepriseError):
            if (found := load(name)).packages == built:
                return found
    return NamedEnvironment(packages=None if built is None else str(built))


def _python(spec: Mapping[str, Json]) -> str | None:
    """The interpreter to build on: of the environment that the session ran in, if it is here."""
    environment = _named(spec)
    return None if environment.packages is None else interpreter_of(environment.packages)
