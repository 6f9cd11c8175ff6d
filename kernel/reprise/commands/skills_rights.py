"""`reprise skills trust`, `revoke`, `scopes`, `members`, …: what may run, and who decides that."""

from __future__ import annotations

import argparse
from typing import Any

from reprise.commands.opened import SHOWN_ID
from reprise.commands.skills_asked import add_skill, asking, found
from reprise.commands.terminal import Terminal
from reprise.log.model import Json
from reprise.skills.as_json import member_json, membership_json
from reprise.skills.catalog import Catalog
from reprise.skills.contract import Reference, Scope

#: So many sessions are named; --json names all.
_NAMED = 10


def add(acts: Any, common: argparse.ArgumentParser) -> None:
    act = _judging(acts, common, "trust", "let exactly this content run, for you or for a scope")
    act.add_argument("--undo", action="store_true", help="take the trust back")
    act.add_argument("--reason", metavar="TEXT", default="")
    act.set_defaults(act=asking(_trust))
    act = _judging(
        acts, common, "revoke", "take a content back: it is not mounted any more; sessions go on"
    )
    act.add_argument("--reason", metavar="TEXT", required=True, help="for all who used it")
    act.set_defaults(act=asking(_revoke))
    act = _judging(acts, common, "reinstate", "undo a revocation")
    act.add_argument("--reason", metavar="TEXT", required=True)
    act.set_defaults(act=asking(_reinstate))
    act = acts.add_parser("scopes", parents=[common], help="the scopes you are in, and your roles")
    act.set_defaults(act=asking(_scopes))
    act = acts.add_parser("members", parents=[common], help="who has a role in a scope")
    act.add_argument("scope", metavar="SCOPE", help="team/NAME or organisation")
    act.set_defaults(act=asking(_members))
    act = acts.add_parser("appoint", parents=[common], help="give a login a role in a scope")
    act.add_argument("login", metavar="LOGIN", help="of the database")
    act.add_argument("scope", metavar="SCOPE", help="team/NAME or organisation")
    act.add_argument("role", metavar="ROLE", choices=("member", "reviewer", "admin"))
    act.set_defaults(act=asking(_appoint))
    act = acts.add_parser("dismiss", parents=[common], help="take a login's role in a scope away")
    act.add_argument("login", metavar="LOGIN", help="of the database; your own to leave")
    act.add_argument("scope", metavar="SCOPE", help="team/NAME or organisation")
    act.set_defaults(act=asking(_dismiss))
    act = acts.add_parser(
        "team", parents=[common], help="create a team, with you as its first admin"
    )
    act.add_argument("name", metavar="NAME")
    act.set_defaults(act=asking(_team))


def _judging(
    acts: Any, common: argparse.ArgumentParser, name: str, text: str
) -> argparse.ArgumentParser:
    act: argparse.ArgumentParser = acts.add_parser(name, parents=[common], help=text)
    add_skill(act)
    act.add_argument(
        "--scope", metavar="SCOPE", default="personal", help="for whom (default: you alone)"
    )
    return act


async def _content(catalog: Catalog, named: str, terminal: Terminal) -> tuple[str, str]:
    """The digest that is judged, and how to call it. A digest need not be in the catalog."""
    ref = Reference.of(named)
    if ref.digest is not None:
        return ref.digest, named
    version = await found(catalog, named, terminal)
    return version.digest, f"{version.reference} (sha256:{version.digest})"


def _whom(scope: Scope) -> str:
    return "you" if scope.kind == "personal" else f"everybody in {scope}"


async def _trust(catalog: Catalog, args: argparse.Namespace, terminal: Terminal) -> int:
    scope = Scope.of(args.scope)
    digest, called = await _content(catalog, args.skill, terminal)
    if args.undo:
        await catalog.distrust(digest, scope=scope, reason=args.reason)
    else:
        await catalog.trust(digest, scope=scope, reason=args.reason)
    act = "distrust" if args.undo else "trust"
    standing = await _tell(catalog, act, digest, scope, args, terminal)
    if args.json:
        return 0
    if not args.undo:
        terminal.line(f"{called} may run for {_whom(scope)}: this content and no other.")
    elif standing == "trusted":
        terminal.line(
            f"That trust is taken back. It is trusted all the same, where it is published or what "
            f"Reprise comes with: `reprise skills revoke {args.skill}` keeps it from running."
        )
    else:
        terminal.line(f"{called} runs for {_whom(scope)} only where there is no network.")
    return 0


async def _revoke(catalog: Catalog, args: argparse.Namespace, terminal: Terminal) -> int:
    scope = Scope.of(args.scope)
    digest, called = await _content(catalog, args.skill, terminal)
    usage = (await catalog.usage_of([digest]))[digest]
    await catalog.revoke(digest, scope=scope, reason=args.reason)
    sessions = await catalog.sessions_using(digest)
    await _tell(
        catalog,
        "revoke",
        digest,
        scope,
        args,
        terminal,
        sessions=[str(session) for session in sessions],
        sessions_of_all=usage.sessions,
    )
    if args.json:
        return 0
    terminal.line(f"{called} is not mounted any more for {_whom(scope)}.")
    if sessions:
        named = ", ".join(str(session)[:SHOWN_ID] for session in sessions[:_NAMED])
        more = f" and {len(sessions) - _NAMED} more" if len(sessions) > _NAMED else ""
        terminal.line(f"You used it in {named}{more}: they go on, and are marked.")
    if usage.sessions > len(sessions):
        terminal.line(f"In all it was used in {usage.sessions} sessions, those of others included.")
    return 0


async def _reinstate(catalog: Catalog, args: argparse.Namespace, terminal: Terminal) -> int:
    scope = Scope.of(args.scope)
    digest, called = await _content(catalog, args.skill, terminal)
    await catalog.reinstate(digest, scope=scope, reason=args.reason)
    standing = await _tell(catalog, "reinstate", digest, scope, args, terminal)
    if not args.json:
        terminal.line(f"{called} is not revoked in {scope} any more; for you it is {standing} now.")
    return 0


async def _tell(
    catalog: Catalog,
    act: str,
    digest: str,
    scope: Scope,
    args: argparse.Namespace,
    terminal: Terminal,
    **more: Json,
) -> str:
    """How the content stands now; with --json what was done, too."""
    standing = (await catalog.standings([digest]))[digest]
    if args.json:
        terminal.json(
            {
                "act": act,
                "digest": digest,
                "scope": str(scope),
                "reason": args.reason,
                "standing": standing,
                **more,
            }
        )
    return standing


async def _scopes(catalog: Catalog, args: argparse.Namespace, terminal: Terminal) -> int:
    scopes = await catalog.scopes()
    if args.json:
        terminal.json({"scopes": [membership_json(each) for each in scopes]})
        return 0
    terminal.table(["scope", "your role"], [[str(each.scope), each.role] for each in scopes])
    if len(scopes) == 1:
        terminal.line(
            "Teams and the organisation need a server (REPRISE_DSN) with a login for each person: "
            "here everybody is one login."
        )
    return 0


async def _members(catalog: Catalog, args: argparse.Namespace, terminal: Terminal) -> int:
    scope = Scope.of(args.scope)
    members = await catalog.members(scope)
    if args.json:
        terminal.json({"scope": str(scope), "members": [member_json(each) for each in members]})
        return 0
    terminal.table(["login", "role"], [[each.login, each.role] for each in members])
    if scope.kind == "organisation":
        terminal.line("Everybody else with a login here is a member.")
    return 0


async def _appoint(catalog: Catalog, args: argparse.Namespace, terminal: Terminal) -> int:
    scope = Scope.of(args.scope)
    await catalog.appoint(args.login, scope, args.role)
    if args.json:
        terminal.json({"scope": str(scope), "login": args.login, "role": args.role})
    else:
        terminal.line(f"{args.login} is {args.role} in {scope}.")
    return 0


async def _dismiss(catalog: Catalog, args: argparse.Namespace, terminal: Terminal) -> int:
    scope = Scope.of(args.scope)
    await catalog.dismiss(args.login, scope)
    if args.json:
        terminal.json({"scope": str(scope), "login": args.login, "role": None})
    else:
        terminal.line(f"{args.login} has no role in {scope} any more.")
    return 0


async def _team(catalog: Catalog, args: argparse.Namespace, terminal: Terminal) -> int:
    scope = await catalog.create_team(args.name)
    if args.json:
        terminal.json({"scope": str(scope)})
    else:
        terminal.line(f"{scope} is there. `reprise skills appoint LOGIN {scope} reviewer` goes on.")
    return 0
