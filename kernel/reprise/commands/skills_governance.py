"""`reprise skills promote`, `approve`, `release`, …: how a skill becomes what others get."""

from __future__ import annotations

import argparse
from typing import Any

from reprise.commands.opened import LEAST_PREFIX, SHOWN_ID, when
from reprise.commands.skills_asked import add_skill, asking, found
from reprise.commands.skills_versions import compared, tell_differences
from reprise.commands.terminal import Terminal
from reprise.errors import SkillNotFound, UsageError
from reprise.skills.as_json import promotion_json, version_json
from reprise.skills.catalog import Catalog
from reprise.skills.contract import Promotion, Reference, Scope, Version


def add(acts: Any, common: argparse.ArgumentParser) -> None:
    act = acts.add_parser(
        "promote", parents=[common], help="ask that a skill become part of a wider scope"
    )
    add_skill(act)
    act.add_argument("--to", metavar="SCOPE", required=True, help="team/NAME or organisation")
    act.add_argument("--note", metavar="TEXT", default="", help="for those who decide")
    act.set_defaults(act=asking(_promote))
    act = acts.add_parser(
        "promotions",
        parents=[common],
        help="what you asked for or may decide; one of them with its difference",
    )
    act.add_argument("id", metavar="ID", nargs="?", help="of one, or the beginning of it")
    act.add_argument("--all", action="store_true", help="decided ones, too")
    act.set_defaults(act=asking(_promotions))
    act = _deciding(acts, common, "approve", "let a promotion become a version of that scope")
    act.add_argument("--release", action="store_true", help="and publish it at once")
    act.add_argument("--reason", metavar="TEXT", default="")
    act.set_defaults(act=asking(_approve))
    act = _deciding(acts, common, "refuse", "say no to a promotion")
    act.add_argument("--reason", metavar="TEXT", default="", help="for who asked")
    act.set_defaults(act=asking(_refuse))
    act = _deciding(acts, common, "withdraw", "take your own request for a promotion back")
    act.set_defaults(act=asking(_withdraw))
    act = acts.add_parser(
        "release", parents=[common], help="publish a version: others get it from now on"
    )
    add_skill(act)
    act.set_defaults(act=asking(_release))
    act = acts.add_parser(
        "deprecate", parents=[common], help="mark a version as one that is better not used any more"
    )
    add_skill(act)
    act.add_argument("--reason", metavar="TEXT", default="", help="what to use instead")
    act.add_argument("--undo", action="store_true", help="take the mark away")
    act.set_defaults(act=asking(_deprecate))
    act = acts.add_parser(
        "restore", parents=[common], help="a new version with the content of an old one"
    )
    add_skill(act)
    act.set_defaults(act=asking(_restore))


def _deciding(
    acts: Any, common: argparse.ArgumentParser, name: str, text: str
) -> argparse.ArgumentParser:
    act: argparse.ArgumentParser = acts.add_parser(name, parents=[common], help=text)
    act.add_argument(
        "id",
        metavar="ID",
        help="of a promotion, or the beginning of it (`reprise skills promotions`)",
    )
    return act


# asking -------------------------------------------------------------------------------------------


async def _promote(catalog: Catalog, args: argparse.Namespace, terminal: Terminal) -> int:
    version = await found(catalog, args.skill, terminal)
    exactly = Reference(version.name, version.scope, version.number)
    promotion = await catalog.request_promotion(exactly, Scope.of(args.to), note=args.note)
    if args.json:
        terminal.json(promotion_json(promotion))
        return 0
    short = str(promotion.id)[:SHOWN_ID]
    terminal.line(f"{version.reference} is asked for as {promotion.version.reference} ({short}).")
    terminal.line(
        f"Somebody else who reviews {promotion.to} decides: `reprise skills approve {short}`. "
        f"`reprise skills members {promotion.to}` says who may."
    )
    return 0


async def _promotions(catalog: Catalog, args: argparse.Namespace, terminal: Terminal) -> int:
    if args.id is not None:
        promotion = await _named(catalog, args.id)
        return await _tell_one(catalog, promotion, args, terminal)
    promotions = await catalog.promotions(everything=args.all)
    if args.json:
        terminal.json({"promotions": [promotion_json(each) for each in promotions]})
        return 0
    if not promotions:
        terminal.line("No promotion is open that you asked for or may decide.")
        return 0
    terminal.table(
        ["id", "asked", "by", "version", "decided", "note"],
        [
            [
                str(each.id)[:SHOWN_ID],
                when(each.at),
                each.by,
                each.version.reference,
                _decided(each),
                each.note,
            ]
            for each in promotions
        ],
    )
    return 0


async def _tell_one(
    catalog: Catalog, promotion: Promotion, args: argparse.Namespace, terminal: Terminal
) -> int:
    base = await catalog.base(promotion)
    changed = await compared(catalog, base, promotion.version)
    if args.json:
        terminal.json(
            {
                **promotion_json(promotion),
                "base": None if base is None else version_json(base),
                "files": [each.to_json() for each in changed],
            }
        )
        return 0
    terminal.line(terminal.paint(f"{promotion.version.reference}  {promotion.id}", "bold"))
    terminal.line(f"asked    {when(promotion.at)} by {promotion.by}  {promotion.note}".rstrip())
    terminal.line(f"decided  {_decided(promotion)}")
    terminal.line(f"digest   sha256:{promotion.version.digest}")
    if base is None:
        terminal.line(f"{promotion.to} has no published version of it; all its files are new:")
    else:
        terminal.line(f"what changes from {base.reference}, which is published there:")
    terminal.line()
    tell_differences(changed, terminal)
    return 0


def _decided(promotion: Promotion) -> str:
    if promotion.decided is None:
        return "open"
    reason = f": {promotion.reason}" if promotion.reason else ""
    return f"{promotion.decided} by {promotion.decided_by}{reason}"


async def _named(catalog: Catalog, named: str) -> Promotion:
    """The promotion with this id, or the only one whose id begins with it."""
    if len(named) < LEAST_PREFIX:
        raise UsageError(f"{named!r} is too short: {LEAST_PREFIX} characters of the id at least.")
    promotions = await catalog.promotions(everything=True)
    fits = [each for each in promotions if str(each.id).startswith(named.lower())]
    if not fits:
        raise SkillNotFound(
            f"No promotion that you asked for or may decide is {named!r}. "
            "`reprise skills promotions --all` lists them."
        )
    if len(fits) > 1:
        raise UsageError(
            f"{named!r} fits {', '.join(str(each.id) for each in fits)}. Write more of the id."
        )
    return fits[0]


# deciding -----------------------------------------------------------------------------------------


async def _approve(catalog: Catalog, args: argparse.Namespace, terminal: Terminal) -> int:
    asked = await _named(catalog, args.id)
    promotion = await catalog.decide(asked.id, True, args.reason, release=args.release)
    if args.json:
        terminal.json(promotion_json(promotion))
    elif promotion.version.state == "published":
        terminal.line(f"{promotion.version.reference} is approved and published.")
    else:
        terminal.line(
            f"{promotion.version.reference} is approved. Nobody gets it before "
            f"`reprise skills release {promotion.version.reference}`."
        )
    return 0


async def _refuse(catalog: Catalog, args: argparse.Namespace, terminal: Terminal) -> int:
    asked = await _named(catalog, args.id)
    promotion = await catalog.decide(asked.id, False, args.reason)
    return _told(promotion, args, terminal)


async def _withdraw(catalog: Catalog, args: argparse.Namespace, terminal: Terminal) -> int:
    asked = await _named(catalog, args.id)
    return _told(await catalog.withdraw(asked.id), args, terminal)


def _told(promotion: Promotion, args: argparse.Namespace, terminal: Terminal) -> int:
    if args.json:
        terminal.json(promotion_json(promotion))
    else:
        terminal.line(f"{promotion.version.reference}: {_decided(promotion)}. It stays a draft.")
    return 0


# versions -----------------------------------------------------------------------------------------


async def _release(catalog: Catalog, args: argparse.Namespace, terminal: Terminal) -> int:
    return _done(await catalog.release(args.skill), "is published", args, terminal)


async def _deprecate(catalog: Catalog, args: argparse.Namespace, terminal: Terminal) -> int:
    version = await catalog.deprecate(args.skill, args.reason, undo=args.undo)
    said = "is not deprecated any more" if args.undo else "is deprecated"
    return _done(version, said, args, terminal)


async def _restore(catalog: Catalog, args: argparse.Namespace, terminal: Terminal) -> int:
    return _done(await catalog.restore(args.skill), "is the current version", args, terminal)


def _done(version: Version, said: str, args: argparse.Namespace, terminal: Terminal) -> int:
    if args.json:
        terminal.json(version_json(version))
    else:
        terminal.line(f"{version.reference} {said}.")
    return 0
