"""`reprise policy test`: which rule decides of an act, or of what was called before."""

from __future__ import annotations

import argparse
import asyncio
import uuid
from pathlib import Path
from typing import Any, Final

from reprise.commands.opened import LEAST_PREFIX, first_line, opened_log
from reprise.commands.terminal import Colour, Terminal
from reprise.errors import UsageError
from reprise.log.conversations import Conversations
from reprise_server.agent.configured import agent_settings
from reprise_server.agent.contract import Act, Situation, Verdict
from reprise_server.agent.policy.engine import by_level, evaluate
from reprise_server.agent.policy.imagined import act_of, in_place, situation_of
from reprise_server.agent.policy.levels import levels
from reprise_server.agent.policy.reading import MAX_BYTES, parse_policy
from reprise_server.agent.policy.rules import (
    DECISIONS,
    ORGANISATION,
    PERSONAL,
    SERVER,
    STANDINGS,
    TAINTS,
    Level,
    Policy,
)
from reprise_server.agent.policy.trial import Tried, past_calls, tried

COLOURS: Final[dict[str, Colour]] = {"allow": "green", "ask": "yellow", "deny": "red"}
_ALL: Final = 10_000_000


def add(acts: Any, common: argparse.ArgumentParser) -> None:
    act = acts.add_parser(
        "test", parents=[common], help="which rule decides of an act, or of past calls"
    )
    act.add_argument(
        "tool",
        metavar="TOOL",
        nargs="?",
        help="such as run_command (its words behind --), write_file or mcp/SERVER/TOOL",
    )
    act.add_argument("--shell", metavar="TEXT", help="a command as shell text")
    act.add_argument("--code", metavar="TEXT", help="of a cell")
    act.add_argument("--path", metavar="PATH", action="append", default=[], help="of the workspace")
    act.add_argument("--host", metavar="HOST", action="append", default=[], help="that it reaches")
    act.add_argument("--skill", metavar="SCOPE:NAME", help="that it is about")
    act.add_argument("--standing", choices=STANDINGS, default="trusted", help="of the skill")
    act.add_argument("--environment", metavar="NAME", default="default")
    act.add_argument(
        "--network",
        metavar="HOST",
        action="append",
        default=[],
        help="a host that the environment lets code reach",
    )
    act.add_argument(
        "--not-isolated", action="store_true", help="as on a backend that isolates nothing"
    )
    act.add_argument(
        "--tainted",
        metavar="KIND",
        choices=TAINTS,
        action="append",
        default=[],
        help=f"untrusted content is in the context: {', '.join(TAINTS)}",
    )
    act.add_argument("--who", metavar="NAME", help="the person whose conversation it is")
    act.add_argument(
        "--conversation", metavar="ID", help="its calls instead, judged again (or the beginning)"
    )
    act.add_argument("--policy", metavar="FILE", help="as if this were the policy of --scope")
    act.add_argument("--scope", metavar="SCOPE", default=PERSONAL, help="default: personal")
    act.add_argument("--alone", action="store_true", help="no policy but FILE counts")
    act.add_argument(
        "--expect", choices=DECISIONS, help="exit 1 when anything else comes out of an act"
    )
    act.set_defaults(act=_test)


def read_policy(path: str) -> Policy:
    """The policy in a file. Raises BadPolicy, UsageError."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"{path} cannot be read: {why}.") from error
    return parse_policy(data, path)


def _test(args: argparse.Namespace, terminal: Terminal) -> int:
    if (args.tool is None) == (args.conversation is None):
        raise UsageError("Name a TOOL to try, or --conversation ID, and not both.")
    if args.alone and args.policy is None:
        raise UsageError("--alone needs --policy FILE.")
    if args.scope not in (SERVER, ORGANISATION, PERSONAL) and not args.scope.startswith("team/"):
        raise UsageError(f"{args.scope!r} is no scope of a policy.")
    trying = None if args.policy is None else Level(args.scope, read_policy(args.policy))
    if args.alone and trying is not None and args.conversation is None:
        return _test_act([trying], args, terminal)
    return asyncio.run(_test_with_log(trying, args, terminal))


async def _test_with_log(trying: Level | None, args: argparse.Namespace, terminal: Terminal) -> int:
    async with opened_log(terminal) as log:
        bound: list[Level] = []
        if not args.alone:
            bound = await levels(log, agent_settings())
        if trying is not None:
            bound = in_place(bound, trying)
        if args.conversation is None:
            return _test_act(bound, args, terminal)
        found = await _named(Conversations(log), args.conversation)
        entries = await Conversations(log).entries(found, most=_ALL)
    calls = tried(bound, past_calls(entries, _situation(args)))
    return _tell_calls(calls, args, terminal)


async def _named(known: Conversations, named: str) -> uuid.UUID:
    if len(named) < LEAST_PREFIX:
        raise UsageError(f"{named!r} is too short: {LEAST_PREFIX} characters of the id at least.")
    found = [info.id for info in await known.list(most=_ALL) if str(info.id).startswith(named)]
    if len(found) != 1:
        which = "No conversation's" if not found else f"{len(found)} conversations'"
        raise UsageError(f"{which} id begins with {named!r}.")
    return found[0]


def _situation(args: argparse.Namespace) -> Situation:
    return situation_of(
        who=args.who,
        environment=args.environment,
        isolated=not args.not_isolated,
        network=args.network,
        tainted=args.tainted,
    )


def _act(args: argparse.Namespace) -> Act:
    """The act that the arguments describe. Raises UsageError."""
    return act_of(
        args.tool,
        argv=args.words or None,
        shell=args.shell,
        code=args.code,
        paths=args.path,
        hosts=args.host,
        skill=args.skill,
        standing=args.standing,
    )


def _test_act(bound: list[Level], args: argparse.Namespace, terminal: Terminal) -> int:
    act, situation = _act(args), _situation(args)
    verdict = evaluate(bound, [], act, situation)
    said = by_level(bound, act, situation)
    if args.json:
        terminal.json(
            {
                "act": act.to_json(),
                "verdict": verdict.to_json(),
                "levels": [
                    {"level": level.name, "rule": None if rule is None else rule.to_json()}
                    for level, rule in said
                ],
            }
        )
    else:
        terminal.line(f"{_painted(verdict, terminal)}  {verdict.rule}")
        terminal.line(verdict.why)
        if args.shell is not None and act.argv is None:
            terminal.line("It is more than plain words for a shell, so no argv pattern matches it.")
        for level, rule in said:
            words = "says nothing" if rule is None else f"{rule.decision}, by {rule.name}"
            terminal.line(terminal.paint(f"  {level.name}: {words}", "dim"))
    return int(args.expect is not None and verdict.decision != args.expect)


def _tell_calls(calls: list[Tried], args: argparse.Namespace, terminal: Terminal) -> int:
    changed = [call for call in calls if call.changes]
    if args.json:
        terminal.json(
            {
                "calls": [
                    {
                        "seq": call.past.seq,
                        "tool": call.past.act.tool,
                        "before": None
                        if call.past.verdict is None
                        else call.past.verdict.to_json(),
                        "now": call.now.to_json(),
                        "changes": call.changes,
                    }
                    for call in calls
                ]
            }
        )
        return 0
    rows = []
    for call in calls:
        before = "" if call.past.verdict is None else call.past.verdict.decision
        act = call.past.act
        what = act.code if act.code is not None else ", ".join(act.paths) or act.title
        rows.append(
            [
                str(call.past.seq),
                before,
                call.now.decision + (" *" if call.changes else ""),
                call.now.rule,
                f"{act.tool}  {first_line(what)}",
            ]
        )
    if rows:
        terminal.table(["entry", "then", "now", "rule", "call"], rows)
    terminal.line(f"Of the last {len(calls)} calls {len(changed)} would come out otherwise.")
    return 0


def _painted(verdict: Verdict, terminal: Terminal) -> str:
    return terminal.paint(verdict.decision, COLOURS[verdict.decision])
