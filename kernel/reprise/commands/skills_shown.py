"""`reprise skills list`, `search`, `show` and `read`: what skills there are and what they say."""

from __future__ import annotations

import argparse
import base64
import sys
from collections.abc import Sequence
from typing import Any

from reprise.commands.opened import when
from reprise.commands.skills_asked import STANDINGS, add_skill, asking, came, found
from reprise.commands.terminal import Terminal, printable
from reprise.errors import SkillNotFound, UsageError
from reprise.quantities import amount
from reprise.skills.as_json import skill_json, version_json
from reprise.skills.catalog import Catalog
from reprise.skills.contract import PERSONAL, Reference, Scope, Skill, Version
from reprise.skills.meant import not_yet_added
from reprise.skills.read import skill_file
from reprise.skills.rows import nearest
from reprise.skills.script import scripts
from reprise.workspace.manifest import shown


def add(acts: Any, common: argparse.ArgumentParser) -> None:
    act = acts.add_parser(
        "list", parents=[common], help="the skills that you see, each as it is now"
    )
    act.add_argument("--scope", metavar="SCOPE", help="personal, team/NAME or organisation only")
    act.add_argument(
        "--all", action="store_true", help="all versions: older ones, drafts, revoked ones too"
    )
    act.set_defaults(act=asking(_list))
    act = acts.add_parser("show", parents=[common], help="what a skill says and how it stands")
    add_skill(act)
    act.set_defaults(act=asking(_show))
    act = acts.add_parser(
        "read", parents=[common], help="a file of a skill; its SKILL.md by default"
    )
    add_skill(act)
    act.add_argument("path", metavar="PATH", nargs="?", help="of a file in it")
    act.set_defaults(act=asking(_read))
    act = acts.add_parser(
        "search",
        parents=[common],
        help="skills by words of their names, descriptions and bodies (exit 1 when none fits)",
    )
    act.add_argument("text", metavar="WORDS", nargs="+", help='such as: csv, "open a file", -excel')
    act.add_argument("--most", type=int, default=20, metavar="N", help="(default: %(default)s)")
    act.set_defaults(act=asking(_search))


# list and search ----------------------------------------------------------------------------------


async def _list(catalog: Catalog, args: argparse.Namespace, terminal: Terminal) -> int:
    scope = None if args.scope is None else Scope.of(args.scope)
    versions = await catalog.list(scope, everything=args.all)
    more = await not_yet_added(versions) if scope in (None, PERSONAL) else []
    if args.json:
        terminal.json(
            {
                "skills": [version_json(version) for version in versions],
                "shipped": [skill_json(skill) for skill in more],
            }
        )
        return 0
    _table(versions, terminal, everything=args.all)
    if more:
        terminal.line()
        terminal.line("Reprise comes with these; used by its name, one is added to your scope:")
        terminal.table(
            ["skill", "description"],
            [[skill.name, terminal.paint(_short(skill.description), "dim")] for skill in more],
        )
    return 0


async def _search(catalog: Catalog, args: argparse.Namespace, terminal: Terminal) -> int:
    versions = await catalog.search(" ".join(args.text), most=args.most)
    if args.json:
        terminal.json({"skills": [version_json(version) for version in versions]})
    elif versions:
        _table(versions, terminal)
    else:
        terminal.line("No skill fits. Try fewer words; `reprise skills list` shows all.")
    return 0 if versions else 1


def _table(versions: Sequence[Version], terminal: Terminal, *, everything: bool = False) -> None:
    if not versions:
        terminal.line(
            "The catalog has no skill that you may see. `reprise skills import PATH` adds one."
        )
        return
    first = {version.reference for version in nearest(versions)}
    rows = []
    for version in versions:
        marks: list[str] = [version.state] if everything or version.state != "published" else []
        if version.deprecated:
            marks.append("deprecated")
        if not everything and version.reference not in first:
            marks.append("hidden by a nearer one")
        rows.append(
            [
                version.reference,
                terminal.paint(version.standing, STANDINGS[version.standing]),
                ", ".join(marks),
                _short(version.description),
            ]
        )
    terminal.table(["skill", "standing", "", "description"], rows)


def _short(description: str) -> str:
    line = " ".join(description.split())
    return line if len(line) <= 100 else f"{line[:99]}…"


# show and read ------------------------------------------------------------------------------------


async def _show(catalog: Catalog, args: argparse.Namespace, terminal: Terminal) -> int:
    try:
        version = await found(catalog, args.skill, terminal)
    except SkillNotFound:
        skill = await _shipped(args.skill)
        if skill is None:
            raise
        return _show_shipped(skill, args, terminal)
    skill = await catalog.skill(version)
    if args.json:
        terminal.json({**version_json(version), "skill": skill_json(skill)})
        return 0
    terminal.line(terminal.paint(version.reference, "bold"))
    terminal.line(" ".join(skill.description.split()))
    terminal.line()
    deprecated = ", deprecated" if version.deprecated else ""
    terminal.line(f"state          {version.state}{deprecated}")
    terminal.line(f"standing       {_standing(version, terminal)}")
    terminal.line(f"added          {when(version.at)} by {version.by}, from {came(version.origin)}")
    if version.note:
        terminal.line(f"note           {version.note}")
    _tell(skill, terminal)
    return 0


async def _shipped(named: str) -> Skill | None:
    ref = Reference.of(named)
    if ref.scope not in (None, PERSONAL) or ref.number is not None:
        return None
    for skill in await not_yet_added([]):
        if ref in (Reference(skill.name, ref.scope), Reference(digest=skill.digest)):
            return skill
    return None


def _show_shipped(skill: Skill, args: argparse.Namespace, terminal: Terminal) -> int:
    if args.json:
        terminal.json({"skill": skill_json(skill), "standing": "trusted"})
        return 0
    terminal.line(terminal.paint(skill.name, "bold"))
    terminal.line(" ".join(skill.description.split()))
    terminal.line()
    terminal.line("state          comes with Reprise; used by its name, it is added to your scope")
    terminal.line(f"standing       {terminal.paint('trusted', 'green')}")
    _tell(skill, terminal)
    return 0


def _tell(skill: Skill, terminal: Terminal) -> None:
    terminal.line(f"digest         sha256:{skill.digest}")
    if skill.license:
        terminal.line(f"license        {' '.join(skill.license.split())}")
    if skill.compatibility:
        terminal.line(f"compatibility  {' '.join(skill.compatibility.split())}")
    if skill.allowed_tools:
        asks = " ".join(skill.allowed_tools)
        terminal.line(f"asks for       {asks}  {terminal.paint('(this grants nothing)', 'dim')}")
    for key, value in skill.metadata.items():
        terminal.line(f"{key:<13}  {value}")
    entries = skill.tree.manifest.entries
    terminal.line(f"files          {len(entries)}, {amount(skill.tree.manifest.size)}")
    runs = set(scripts(skill.tree))
    for entry in entries:
        mark = terminal.paint("  runs", "dim") if entry.path in runs else ""
        terminal.line(f"  {amount(entry.size):>10}  {shown(entry.path)}{mark}")
    for finding in skill.findings:
        terminal.warn(f"{finding.path}: {finding.text} {finding.mend}")


def _standing(version: Version, terminal: Terminal) -> str:
    said = terminal.paint(version.standing, STANDINGS[version.standing])
    if version.standing == "untrusted":
        return (
            f"{said}: it is read, and runs only where there is no network "
            f"(`reprise skills trust {version.reference}`, or a promotion)"
        )
    if version.standing == "revoked":
        return f"{said}: it is read and never run"
    return f"{said}: it may run"


async def _read(catalog: Catalog, args: argparse.Namespace, terminal: Terminal) -> int:
    shipped_one = None
    try:
        version = await found(catalog, args.skill, terminal)
        tree = await catalog.tree(version)
    except SkillNotFound:
        shipped_one = await _shipped(args.skill)
        if shipped_one is None:
            raise
        tree = shipped_one.tree
    path = args.path or skill_file(tree)
    data = tree.get(path)
    if data is None:
        listed = ", ".join(shown(entry.path) for entry in tree.manifest.entries[:20])
        raise UsageError(f"{args.skill} has no file {path!r}. It has {listed}.")
    if args.path is None and shipped_one is None:
        await catalog.used(version.digest, "load")
    if args.json:
        terminal.json({"path": path, "digest": tree.digest, "size": len(data), **_as_json(data)})
    elif sys.stdout.isatty():
        # On a terminal, nothing in a file drives it.
        sys.stdout.write(printable(data.decode("utf-8", "backslashreplace")))
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    return 0


def _as_json(data: bytes) -> dict[str, str]:
    try:
        return {"text": data.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}
