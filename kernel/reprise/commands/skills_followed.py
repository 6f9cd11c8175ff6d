"""`reprise skills sync` and `publish`: what changed at the source, and a marketplace for others."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from reprise.commands.opened import opened_log
from reprise.commands.skills_moved import refuse_revoked
from reprise.commands.terminal import Colour, Terminal
from reprise.errors import UsageError
from reprise.log.model import Json
from reprise.skills.arrival import Arrival, bring_in, newest
from reprise.skills.as_json import version_json
from reprise.skills.catalog import Catalog
from reprise.skills.contract import PERSONAL, Scope, Skill, Version
from reprise.skills.meant import meant
from reprise.skills.publishing import Published, publish, published_in
from reprise.skills.rows import nearest
from reprise.skills.sync import FOLLOWED, Held, Upstream, look_upstream

_SYNC_EXAMPLES = """\
examples:
  reprise skills sync                       what changed where your skills came from
  reprise skills sync pdf-tools --apply     take the change; it is trusted anew by you, or not
"""

_PUBLISH_EXAMPLES = """\
examples:
  reprise skills publish ~/our-skills                     all that is released and trusted
  reprise skills publish ~/our-skills profile-dataset     this one; the others stay as they are
  git -C ~/our-skills push
  claude plugin marketplace add ./our-skills              in Claude Code
  reprise skills import https://example.org/our-skills.git
"""


def add(acts: Any, common: argparse.ArgumentParser) -> None:
    act = acts.add_parser(
        "sync",
        parents=[common],
        help="what changed where skills came from (exit 1 when something did)",
        epilog=_SYNC_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    act.add_argument("names", metavar="NAME", nargs="*", help="of your own scope (default: all)")
    act.add_argument("--apply", action="store_true", help="add what changed as new versions")
    act.add_argument("--new", action="store_true", help="with --apply: skills that are new there")
    act.set_defaults(act=_sync)

    act = acts.add_parser(
        "publish",
        parents=[common],
        help="write a marketplace of Claude Code, a Git repository",
        epilog=_PUBLISH_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    act.add_argument("folder", metavar="DIR", type=Path, help="the repository; made when not there")
    act.add_argument(
        "refs", metavar="SKILL", nargs="*", help="[SCOPE:]NAME[@NUMBER], or sha256:DIGEST"
    )
    act.add_argument("--scope", metavar="SCOPE", help="without SKILL: those of this scope only")
    act.add_argument("--name", metavar="NAME", help="of the marketplace (default: as it is)")
    act.add_argument("--owner", metavar="NAME", help="whose it is (default: whom Git commits as)")
    act.add_argument(
        "--remove", action="append", default=[], metavar="NAME", help="take this one out"
    )
    act.add_argument(
        "--adopt", action="store_true", help="also in a repository that Reprise did not make"
    )
    act.set_defaults(act=_publish)


# sync ---------------------------------------------------------------------------------------------


def _sync(args: argparse.Namespace, terminal: Terminal) -> int:
    if args.new and not args.apply:
        raise UsageError("--new goes with --apply.")

    async def follow() -> tuple[list[Upstream], list[str], list[Arrival]]:
        async with opened_log(terminal) as log:
            catalog = Catalog(log)
            versions = await newest(catalog, PERSONAL)
            held, passed = await _held(catalog, versions, args.names)
            terminal.status("asking where they came from …")
            found = await asyncio.to_thread(
                look_upstream, held, added=not args.names, here=versions.keys()
            )
            terminal.status("")
            taken = [
                each.found
                for each in found
                if each.found is not None
                and (each.what == "changed" or (each.what == "added" and args.new))
            ]
            arrivals = await bring_in(catalog, taken, note="sync") if args.apply else []
            return found, passed, arrivals

    found, passed, arrivals = asyncio.run(follow())
    versions = {each.found.name: each.version for each in arrivals if each.version is not None}
    if args.json:
        terminal.json(
            {"skills": [_upstream_json(each, versions) for each in found], "notes": passed}
        )
    else:
        _tell_upstream(found, versions, terminal)
        for note in passed:
            terminal.line(terminal.paint(note, "dim"))
    open_ = [each for each in found if each.what not in ("unchanged", "added")]
    return int(any(each.what != "changed" or not args.apply for each in open_))


async def _held(
    catalog: Catalog, versions: Mapping[str, Version], names: Sequence[str]
) -> tuple[list[Held], list[str]]:
    """The versions whose source can be asked, and why others' cannot."""
    for name in names:
        if name not in versions:
            raise UsageError(f"You have no skill {name!r} of your own. Nothing was asked.")
    held, passed = [], []
    for name, version in sorted(versions.items()):
        if names and name not in names:
            continue
        if version.origin.kind in FOLLOWED:
            held.append(Held(version, await catalog.tree(version)))
        else:
            passed.append(f"{name}: {_NOT_ASKED.get(version.origin.kind, 'was written here')}")
    return held, passed


_NOT_ASKED = {"archive": "came from an archive; import a newer one", "shipped": "came with Reprise"}

_COLOURS: dict[str, Colour] = {
    "unchanged": "dim",
    "changed": "green",
    "added": "green",
    "removed": "yellow",
    "broken": "red",
    "unreachable": "red",
}


def _tell_upstream(
    found: Sequence[Upstream], versions: Mapping[str, Version], terminal: Terminal
) -> None:
    for each in found:
        if each.what == "added" and each.name not in versions:
            continue
        word = terminal.paint(f"{each.what:11}", _COLOURS[each.what])
        taken = versions.get(each.name)
        terminal.line(
            f"{word}  {each.name}  {_from_to(each)}" + (f"  → {taken.reference}" if taken else "")
        )
        if each.reason:
            terminal.line(f"             {each.reason}")
        for file in each.files:
            told = ", ".join(filter(None, (file.what, file.mode, file.note)))
            terminal.line(f"    {file.path}: {told}")
            for line in file.diff.splitlines():
                colour: Colour = "green" if line[:1] == "+" else "red" if line[:1] == "-" else "dim"
                terminal.line(f"      {terminal.paint(line, colour)}")
    there = [each for each in found if each.what == "added" and each.name not in versions]
    if there:
        names = ", ".join(each.name for each in there[:20]) + (", …" if there[20:] else "")
        terminal.line(f"Also there, and not here ({len(there):,}): {names}")
        terminal.line("`reprise skills sync --apply --new` takes them, too.")


def _from_to(upstream: Upstream) -> str:
    before = upstream.held.version.origin.commit if upstream.held else None
    now = upstream.found.origin.commit if upstream.found else None
    if not now:
        return ""
    return f"{before[:12]} → {now[:12]}" if before and before != now else now[:12]


def _upstream_json(upstream: Upstream, versions: Mapping[str, Version]) -> dict[str, Json]:
    taken = versions.get(upstream.name) if upstream.what in ("changed", "added") else None
    found = upstream.found
    return {
        "name": upstream.name,
        "what": upstream.what,
        "held": None if upstream.held is None else version_json(upstream.held.version),
        "origin": None if found is None else found.origin.to_json(),
        "digest": None if found is None or found.skill is None else found.skill.digest,
        "reason": upstream.reason or None,
        "files": [file.to_json() for file in upstream.files],
        "taken": None if taken is None else version_json(taken),
    }


# publish ------------------------------------------------------------------------------------------


def _publish(args: argparse.Namespace, terminal: Terminal) -> int:
    if args.refs and args.scope:
        raise UsageError("--scope chooses among all skills; with SKILL write SCOPE:NAME.")
    shelves = published_in(args.folder)
    for name in args.remove:
        if name not in shelves:
            raise UsageError(f"{args.folder} holds no skill {name!r}. Nothing was changed.")

    async def read() -> tuple[dict[str, Skill], set[str], list[str]]:
        async with opened_log(terminal) as log:
            catalog = Catalog(log)
            standings = await catalog.standings([shelf.digest for shelf in shelves.values()])
            revoked = {
                name for name, shelf in shelves.items() if standings.get(shelf.digest) == "revoked"
            }
            versions, passed = await _chosen(catalog, args, terminal)
            skills = {version.name: await catalog.skill(version) for version in versions}
            leaving = revoked | {*args.remove}
            if not args.refs and not args.remove:
                leaving |= shelves.keys() - skills.keys()
            return skills, leaving - skills.keys(), passed

    skills, leaving, passed = asyncio.run(read())
    done = publish(
        args.folder,
        skills,
        name=args.name,
        owner=args.owner,
        leaving=leaving,
        adopt=args.adopt,
    )
    if args.json:
        terminal.json(_published_json(done, args.folder, passed))
        return 0
    for each in done.skills:
        colour: Colour = "dim" if each.what == "unchanged" else "green"
        terminal.line(f"{terminal.paint(f'{each.what:9}', colour)}  {each.name} {each.version}")
    for note in passed:
        terminal.line(terminal.paint(note, "dim"))
    if done.commit is None:
        terminal.line(f"Nothing changed in the marketplace {done.name}.")
    else:
        terminal.line(
            f"Committed {done.commit[:12]} to {done.branch} of {args.folder} ({done.name})."
        )
    return 0


async def _chosen(
    catalog: Catalog, args: argparse.Namespace, terminal: Terminal
) -> tuple[list[Version], list[str]]:
    """What goes in, and why some of what might does not."""
    if args.refs:
        versions = [await meant(catalog, text) for text in args.refs]
        for version in versions:
            refuse_revoked(version)
            if version.standing == "untrusted":
                terminal.warn(f"{version.reference} is trusted by nobody.")
        if len({version.name for version in versions}) < len(versions):
            raise UsageError("A marketplace has one skill of each name. Nothing was changed.")
        return versions, []
    if args.remove:
        return [], []
    scope = None if args.scope is None else Scope.of(args.scope)
    passed, chosen = [], []
    for version in nearest(await catalog.list(scope)):
        why = (
            "is not released"
            if version.state != "published"
            else "is trusted by nobody"
            if version.standing == "untrusted"
            else "was revoked"
            if version.standing == "revoked"
            else "is deprecated"
            if version.deprecated
            else ""
        )
        if why:
            passed.append(f"not published: {version.reference} {why}")
        else:
            chosen.append(version)
    if not chosen:
        raise UsageError(
            "No skill that you may see is released, trusted and not deprecated, so there is "
            "nothing to publish. Nothing was changed. Name skills, release one (`reprise skills "
            "release NAME`), or take some out with --remove NAME."
        )
    return chosen, passed


def _published_json(done: Published, folder: Path, passed: Sequence[str]) -> dict[str, Json]:
    return {
        "folder": str(folder),
        "name": done.name,
        "branch": done.branch,
        "commit": done.commit,
        "skills": [
            {"name": each.name, "what": each.what, "version": each.version} for each in done.skills
        ],
        "notes": list(passed),
    }
