"""`reprise skills versions`, `history`, `usage` and `diff`: how a skill came to be what it is."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from typing import Any, Final

from reprise.commands.opened import when
from reprise.commands.skills_asked import STANDINGS, add_skill, asking, came, found
from reprise.commands.terminal import Colour, Terminal
from reprise.errors import UsageError
from reprise.log.model import Json
from reprise.skills.as_json import event_json, usage_json, version_json
from reprise.skills.catalog import Catalog
from reprise.skills.contract import Version
from reprise.skills.difference import FileDifference, differences
from reprise.workspace.manifest import shown

_ACTS: Final = {
    "add": "added",
    "ask": "asked for its promotion",
    "approve": "approved",
    "refuse": "refused",
    "withdraw": "withdrew the promotion",
    "release": "released",
    "deprecate": "deprecated",
    "undeprecate": "took the deprecation back",
    "restore": "restored",
    "trust": "trusted its content",
    "distrust": "took the trust back",
    "revoke": "revoked its content",
    "reinstate": "reinstated its content",
}


def add(acts: Any, common: argparse.ArgumentParser) -> None:
    act = acts.add_parser("versions", parents=[common], help="all versions of a skill in its scope")
    add_skill(act)
    act.set_defaults(act=asking(_versions))
    act = acts.add_parser("history", parents=[common], help="who did what with a skill, and why")
    add_skill(act)
    act.set_defaults(act=asking(_history))
    act = acts.add_parser(
        "diff",
        parents=[common],
        help="how two versions differ, file by file (exit 1 when they do)",
    )
    add_skill(act)
    act.add_argument(
        "other", metavar="OTHER", nargs="?", help="compared with; default the version before it"
    )
    act.set_defaults(act=asking(_diff))
    act = acts.add_parser("usage", parents=[common], help="how often each version was used")
    add_skill(act)
    act.set_defaults(act=asking(_usage))


async def _versions(catalog: Catalog, args: argparse.Namespace, terminal: Terminal) -> int:
    versions = await catalog.versions(args.skill)
    if args.json:
        terminal.json({"versions": [version_json(version) for version in versions]})
        return 0
    terminal.table(
        ["version", "state", "standing", "added", "by", "from", "note"],
        [
            [
                version.reference,
                version.state + (", deprecated" if version.deprecated else ""),
                terminal.paint(version.standing, STANDINGS[version.standing]),
                when(version.at),
                version.by,
                came(version.origin),
                version.note,
            ]
            for version in versions
        ],
    )
    return 0


async def _history(catalog: Catalog, args: argparse.Namespace, terminal: Terminal) -> int:
    events = await catalog.history(args.skill)
    if args.json:
        terminal.json({"events": [event_json(event) for event in events]})
        return 0
    rows = []
    for event in events:
        what = f"{event.scope}:{event.name}@{event.number}" if event.name else str(event.scope)
        rows.append([when(event.at), event.by, _ACTS[event.act], what, event.reason])
    terminal.table(["when", "who", "did what", "of", "why"], rows)
    return 0


async def _usage(catalog: Catalog, args: argparse.Namespace, terminal: Terminal) -> int:
    counted = await catalog.usage(args.skill)
    if args.json:
        versions: list[Json] = [
            {**version_json(version), "usage": usage_json(usage)} for version, usage in counted
        ]
        terminal.json({"versions": versions})
        return 0
    terminal.table(
        ["version", "loads", "mounts", "runs", "failures", "sessions", "last used"],
        [
            [
                version.reference,
                *map(str, (usage.loads, usage.mounts, usage.runs, usage.failures, usage.sessions)),
                "never" if usage.last_at is None else when(usage.last_at),
            ]
            for version, usage in counted
        ],
    )
    return 0


# diff ---------------------------------------------------------------------------------------------


async def _diff(catalog: Catalog, args: argparse.Namespace, terminal: Terminal) -> int:
    version = await found(catalog, args.skill, terminal)
    if args.other is not None:
        old, new = version, await found(catalog, args.other, terminal)
    else:
        before = [v for v in await catalog.versions(version.reference) if v.number < version.number]
        if not before:
            raise UsageError(
                f"{version.reference} is the first version that you see, so there is none before "
                "it. Name another: `reprise skills diff OLD NEW`."
            )
        old, new = before[0], version
    changed = await compared(catalog, old, new)
    if args.json:
        terminal.json(
            {
                "old": version_json(old),
                "new": version_json(new),
                "files": [each.to_json() for each in changed],
            }
        )
    else:
        terminal.line(f"{old.reference} → {new.reference}")
        tell_differences(changed, terminal)
    return 1 if changed else 0


async def compared(catalog: Catalog, old: Version | None, new: Version) -> list[FileDifference]:
    """How the files of two versions differ; of all of them when there is no old one."""
    before = None if old is None else await catalog.tree(old)
    after = await catalog.tree(new)
    return await asyncio.to_thread(differences, before, after)


def tell_differences(changed: Sequence[FileDifference], terminal: Terminal) -> None:
    if not changed:
        terminal.line("The same files.")
    for each in changed:
        mode = f" ({each.mode})" if each.mode else ""
        terminal.line(terminal.paint(f"{each.what} {shown(each.path)}{mode}", "bold"))
        if each.note:
            terminal.line(f"  {each.note}")
        for line in each.diff.splitlines():
            terminal.line(f"  {_painted(line, terminal)}")


def _painted(line: str, terminal: Terminal) -> str:
    colours: dict[str, Colour] = {"+": "green", "-": "red"}
    colour = colours.get(line[:1])
    return line if colour is None else terminal.paint(line, colour)
