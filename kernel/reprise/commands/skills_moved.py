"""`reprise skills import` and `export`: skills from and to folders, archives, Git, other tools."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from reprise.commands.opened import opened_log
from reprise.commands.terminal import Colour, Terminal
from reprise.errors import SkillNotFound, SkillRevoked, UsageError
from reprise.log.model import Json
from reprise.skills.arrival import Arrival, bring_in
from reprise.skills.as_json import arrival_json
from reprise.skills.catalog import Catalog
from reprise.skills.contract import PERSONAL, Reference, Scope, SkillTree, Version
from reprise.skills.export import Exported, export_archive, export_into, export_to, is_archive
from reprise.skills.meant import meant
from reprise.skills.places import TOOLS, tool_named, written
from reprise.skills.sources import Looked, look, look_in_tool

_IMPORT_EXAMPLES = """\
examples:
  reprise skills import ~/skills --dry-run        what would come
  reprise skills import pdf-tools.zip
  reprise skills import https://example.org/skills.git --ref v2 --subfolder skills --name pdf
  reprise skills import --from claude-code

A skill comes as a draft of yours that is not trusted until you say so (`reprise skills trust`).
"""

_EXPORT_EXAMPLES = """\
examples:
  reprise skills export profile-dataset --to claude-code     of this project: .claude/skills
  reprise skills export profile-dataset --to codex --user    ~/.agents/skills
  reprise skills export --all --to skills.zip

A folder that holds what no version of the catalog has is left alone, and told.
"""


def add(acts: Any, common: argparse.ArgumentParser) -> None:
    act = acts.add_parser(
        "import",
        parents=[common],
        help="bring skills in (exit 1 when one of them cannot come)",
        epilog=_IMPORT_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    act.add_argument(
        "source",
        metavar="SOURCE",
        nargs="?",
        help="a folder, an archive (.zip, .skill, .tar, .tar.gz, .tar.zst), or a Git repository",
    )
    act.add_argument(
        "--from", dest="tool", metavar="TOOL", help=f"what a tool has: {', '.join(TOOLS)}"
    )
    act.add_argument(
        "--name", action="append", default=[], metavar="NAME", help="this one only (repeatable)"
    )
    act.add_argument("--ref", default="", metavar="REF", help="a branch, a tag or a commit of Git")
    act.add_argument("--subfolder", default="", metavar="FOLDER", help="look in there only")
    act.add_argument("--scope", default=str(PERSONAL), metavar="SCOPE", help="default: %(default)s")
    act.add_argument("--note", default="", metavar="TEXT", help="why, for the skill's history")
    act.add_argument(
        "--project", type=Path, metavar="DIR", help="whose tools --from means (default: here)"
    )
    act.add_argument(
        "--dry-run", "--list", action="store_true", help="say what would come, and add nothing"
    )
    act.set_defaults(act=_import)

    act = acts.add_parser(
        "export",
        parents=[common],
        help="write skills where other tools read them (exit 1 when one was left alone)",
        epilog=_EXPORT_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    act.add_argument(
        "refs", metavar="SKILL", nargs="*", help="[SCOPE:]NAME[@NUMBER], or sha256:DIGEST"
    )
    act.add_argument(
        "--to",
        required=True,
        metavar="WHERE",
        help=f"a tool ({', '.join(TOOLS)}), a folder, or an archive (.zip, .skill, .tar.gz)",
    )
    act.add_argument("--all", action="store_true", help="every skill that you may see")
    whose = act.add_mutually_exclusive_group()
    whose.add_argument("--user", action="store_true", help="for all your projects")
    whose.add_argument("--project", type=Path, metavar="DIR", help="for this one (default: here)")
    act.add_argument("--force", action="store_true", help="write over what differs, too")
    act.set_defaults(act=_export)


# import -------------------------------------------------------------------------------------------


def _import(args: argparse.Namespace, terminal: Terminal) -> int:
    looked = _looked(args, terminal)
    scope = Scope.of(args.scope)

    async def bring() -> list[Arrival]:
        async with opened_log(terminal) as log:
            return await bring_in(
                Catalog(log), looked.found, scope=scope, note=args.note, only_look=args.dry_run
            )

    arrivals = asyncio.run(bring())
    if args.json:
        terminal.json(
            {
                "dry_run": args.dry_run,
                "skills": [arrival_json(each) for each in arrivals],
                "notes": list(looked.notes),
            }
        )
    else:
        for each in arrivals:
            _tell_arrival(each, args.dry_run, terminal)
        for note in looked.notes:
            terminal.warn(note)
        _tell_next(arrivals, args.dry_run, terminal)
    return int(any(each.what == "refused" for each in arrivals))


def _looked(args: argparse.Namespace, terminal: Terminal) -> Looked:
    if (args.source is None) == (args.tool is None):
        raise UsageError("Name either a SOURCE or a tool with --from, one of the two.")
    if args.tool is not None:
        if args.ref or args.subfolder:
            raise UsageError("--ref and --subfolder belong to a SOURCE, not to --from.")
        return look_in_tool(tool_named(args.tool), args.project or Path.cwd(), names=args.name)
    if args.project is not None:
        raise UsageError("--project belongs to --from.")
    terminal.status("looking for skills …")
    try:
        return look(args.source, ref=args.ref, subfolder=args.subfolder, names=args.name)
    finally:
        terminal.status("")


_COLOURS: dict[str, Colour] = {"refused": "red", "unchanged": "dim", "differs": "red"}
_WORDS = {"new": "added", "changed": "added", "unchanged": "unchanged", "refused": "refused"}
_WOULD = {"new": "new", "changed": "changed", "unchanged": "unchanged", "refused": "refused"}


def _tell_arrival(arrival: Arrival, dry_run: bool, terminal: Terminal) -> None:
    found = arrival.found
    word = (_WOULD if dry_run else _WORDS)[arrival.what]
    colour: Colour = _COLOURS.get(arrival.what, "green")
    place = found.folder or "."
    named = found.name if dry_run or arrival.version is None else arrival.version.reference
    terminal.line(f"{terminal.paint(f'{word:9}', colour)}  {named}  {terminal.paint(place, 'dim')}")
    if arrival.problem:
        terminal.line(f"           {arrival.problem}")
    if found.skill is None or arrival.what == "unchanged":
        return
    if dry_run:
        terminal.line(f"           {' '.join(found.skill.description.split())[:200]}")
    for finding in found.skill.findings:
        line = "" if finding.line is None else f":{finding.line}"
        terminal.line(f"           {finding.path}{line}: {finding.text} ({finding.rule})")
    for note in found.notes:
        terminal.line(f"           {note}")


def _tell_next(arrivals: Iterable[Arrival], dry_run: bool, terminal: Terminal) -> None:
    added = [each for each in arrivals if each.what in ("new", "changed")]
    waiting = [each.version for each in added if each.version and not dry_run]
    waiting = [version for version in waiting if version.standing == "untrusted"]
    if waiting:
        terminal.line(
            f"Read {'it' if len(waiting) == 1 else 'them'} before you trust "
            f"{'it' if len(waiting) == 1 else 'them'}: reprise skills show {waiting[0].name}; "
            f"reprise skills trust {waiting[0].name}"
        )


# export -------------------------------------------------------------------------------------------


def _export(args: argparse.Namespace, terminal: Terminal) -> int:
    if bool(args.refs) == args.all:
        raise UsageError("Name the skills to export, or --all.")
    to_tool = args.to in TOOLS
    if not to_tool and (args.user or args.project is not None):
        raise UsageError("--user and --project say which folder of a tool; --to names no tool.")
    if (
        not to_tool
        and not is_archive(args.to)
        and "/" not in args.to
        and not Path(args.to).is_dir()
    ):
        raise UsageError(
            f"{args.to!r} is no tool ({', '.join(TOOLS)}), no archive and no folder that is there. "
            f"To make a folder of that name, write ./{args.to}"
        )

    async def read() -> tuple[dict[str, SkillTree], frozenset[str]]:
        async with opened_log(terminal) as log:
            catalog = Catalog(log)
            everything = await catalog.list(everything=True)
            trees = await _trees(catalog, await _references(catalog, args), terminal)
            return trees, frozenset(version.digest for version in everything)

    trees, known = asyncio.run(read())
    if is_archive(args.to) and not to_tool:
        what = export_archive(Path(args.to), trees, force=args.force)
        if args.json:
            terminal.json({"path": args.to, "what": what, "skills": sorted(trees)})
        else:
            terminal.line(f"{what}  {args.to}: {', '.join(sorted(trees))}")
        return 0
    if to_tool:
        project = None if args.user else (args.project or Path.cwd())
        done = export_to(tool_named(args.to), trees, project, known=known, force=args.force)
        where = written(tool_named(args.to), project)
    else:
        where = Path(args.to)
        done = export_into(where, trees, known=known, force=args.force)
    if args.json:
        terminal.json({"path": str(where), "skills": [_exported_json(each) for each in done]})
    else:
        _tell_exported(done, terminal)
    return int(any(each.what == "differs" for each in done))


async def _references(catalog: Catalog, args: argparse.Namespace) -> list[Reference]:
    if not args.all:
        return [Reference.of(text) for text in args.refs]
    names = {version.name: None for version in await catalog.list()}
    return [Reference(name) for name in names]


def refuse_revoked(version: Version) -> None:
    """Raises SkillRevoked: what was taken back is not handed on."""
    if version.standing == "revoked":
        raise SkillRevoked(
            f"{version.reference} was revoked, so it is not handed on. Nothing was written. "
            f"`reprise skills history {version.name}` says by whom and why."
        )


async def _trees(
    catalog: Catalog, references: Iterable[Reference], terminal: Terminal
) -> dict[str, SkillTree]:
    """The files of each skill by its name. Raises SkillNotFound, SkillRevoked, UsageError."""
    trees: dict[str, SkillTree] = {}
    for reference in references:
        version = await meant(catalog, reference)
        refuse_revoked(version)
        if version.standing == "untrusted":
            terminal.warn(
                f"{version.reference} is trusted by nobody. Other tools run its scripts without "
                "the wall that Reprise puts around them."
            )
        if version.name in trees and trees[version.name].digest != version.digest:
            raise UsageError(
                f"Two different skills called {version.name} cannot be written side by side."
            )
        trees[version.name] = await catalog.tree(version)
    if not trees:
        raise SkillNotFound("There is no skill to export. `reprise skills list` shows those here.")
    return trees


def _tell_exported(done: Iterable[Exported], terminal: Terminal) -> None:
    for each in done:
        colour: Colour = _COLOURS.get(each.what, "green")
        terminal.line(f"{terminal.paint(f'{each.what:9}', colour)}  {each.path}")
        for line in each.differs[:20]:
            terminal.line(f"           {line}")
        if each.what == "differs":
            terminal.line(
                "           It was left as it is. Import it, or give --force to replace it."
            )


def _exported_json(exported: Exported) -> dict[str, Json]:
    return {
        "name": exported.name,
        "path": str(exported.path),
        "what": exported.what,
        "differs": list(exported.differs),
    }
