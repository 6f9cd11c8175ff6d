"""How an act on the catalog is run, and how the skill that a person named is found and told."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from reprise.commands.opened import opened_log
from reprise.commands.terminal import Colour, Terminal
from reprise.skills.catalog import Catalog
from reprise.skills.contract import Origin, Reference, Version

STANDINGS: Final[dict[str, Colour]] = {"trusted": "green", "untrusted": "yellow", "revoked": "red"}

Asked = Callable[[Catalog, argparse.Namespace, Terminal], Awaitable[int]]


def asking(do: Asked) -> Callable[[argparse.Namespace, Terminal], int]:
    """What runs an act on the catalog of whoever runs the command."""

    async def opened(args: argparse.Namespace, terminal: Terminal) -> int:
        async with opened_log(terminal) as log:
            return await do(Catalog(log), args, terminal)

    return lambda args, terminal: asyncio.run(opened(args, terminal))


def add_skill(act: argparse.ArgumentParser) -> None:
    """The SKILL argument."""
    act.add_argument(
        "skill", metavar="SKILL", help="[SCOPE:]NAME[@NUMBER], or sha256:DIGEST, of the catalog"
    )


async def found(catalog: Catalog, named: str, terminal: Terminal) -> Version:
    """The version that was named; says when that name could have meant others."""
    version = await catalog.find(named)
    ref = Reference.of(named)
    others = [] if ref.scope or ref.digest else await catalog.clashes(version)
    warn_of(version, others, terminal)
    return version


def warn_of(version: Version, others: Sequence[Version], terminal: Terminal) -> None:
    """What somebody should know who did not name a scope, or who is about to use it."""
    if others:
        terminal.warn(
            f"{version.reference} is meant; there is {', '.join(v.reference for v in others)} of "
            "that name, too. Write SCOPE:NAME for another one."
        )
    if version.standing == "revoked":
        terminal.warn(
            f"{version.reference} was revoked: it is read and never run. `reprise skills history "
            f"{version.name}` says by whom and why."
        )


def came(origin: Origin) -> str:
    """Where a version came from, in words."""
    within = f", {origin.subfolder}" if origin.subfolder else ""
    commit = f" at {origin.commit[:12]}" if origin.commit else ""
    words = {
        "folder": "a folder",
        "archive": "an archive",
        "git": "Git",
        "shipped": "Reprise itself",
        "written": "somebody's hand",
    }[origin.kind]
    return f"{words} {origin.where}{commit}{within}".rstrip()
