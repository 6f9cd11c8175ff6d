"""`reprise policy`: what the agent may do: shown, checked, tried and set."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import yaml

from reprise.commands.opened import SHOWN_ID, opened_log, when
from reprise.commands.terminal import Colour, Terminal
from reprise.errors import UsageError
from reprise.log.policies import Policies, StoredPolicy
from reprise.log.postgres import Log
from reprise_server.agent.commands import policy_trial
from reprise_server.agent.commands.policy_trial import COLOURS, read_policy
from reprise_server.agent.configured import agent_settings
from reprise_server.agent.policy.advice import advice
from reprise_server.agent.policy.levels import levels
from reprise_server.agent.policy.reading import BadPolicy, Problem, policy_of
from reprise_server.agent.policy.rules import (
    Level,
)

EXAMPLES = """\
  reprise policy show                               what binds you, from the top
  reprise policy check policy.yaml                  what is wrong with it, by line
  reprise policy test run_command -- git log        what becomes of this command
  reprise policy test run_command --shell 'git log; id' --tainted network
  reprise policy test write_file --path out/a.csv --policy policy.yaml --alone
  reprise policy test --conversation 3f2a --policy policy.yaml
                                                    what would have come out otherwise
  reprise policy set personal policy.yaml --note "no commands at night"
  reprise policy history team/ml                    who changed what, and when
"""

#: `reprise policy test TOOL -- WORD …`
WORDS = True


Doing = Callable[[argparse.Namespace, Terminal], int]


def arguments(parser: argparse.ArgumentParser) -> None:
    acts = parser.add_subparsers(title="what to do", metavar="ACT", required=True)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--json", action="store_true", help="the result as JSON")

    act = acts.add_parser("show", parents=[common], help="the policies that bind you")
    act.set_defaults(act=_with_log(_show))

    act = acts.add_parser(
        "check", parents=[common], help="what is wrong with policies (exit 1 when something is)"
    )
    act.add_argument("files", metavar="FILE", nargs="+", help="YAML or JSON")
    act.set_defaults(act=_check)

    policy_trial.add(acts, common)

    act = acts.add_parser("set", parents=[common], help="make a file the policy of a scope")
    act.add_argument("scope", metavar="SCOPE", help="personal, team/NAME or organisation")
    act.add_argument("file", metavar="FILE", help="YAML or JSON")
    act.add_argument("--note", metavar="TEXT", default="", help="why, for its history")
    act.set_defaults(act=_with_log(_set))

    act = acts.add_parser("history", parents=[common], help="all versions of a scope's policy")
    act.add_argument("scope", metavar="SCOPE", help="personal, team/NAME or organisation")
    act.add_argument(
        "version", metavar="VERSION", nargs="?", type=int, help="write this one out as YAML"
    )
    act.set_defaults(act=_with_log(_history))


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    code: int = args.act(args, terminal)
    return code


def _with_log(do: Callable[[Log, argparse.Namespace, Terminal], Awaitable[int]]) -> Doing:
    async def opened(args: argparse.Namespace, terminal: Terminal) -> int:
        async with opened_log(terminal) as log:
            return await do(log, args, terminal)

    return lambda args, terminal: asyncio.run(opened(args, terminal))


# show, check, set, history ------------------------------------------------------------------------


async def _show(log: Log, args: argparse.Namespace, terminal: Terminal) -> int:
    found = await levels(log, agent_settings())
    if args.json:
        terminal.json({"levels": [_level_json(level) for level in found]})
        return 0
    for level in found:
        terminal.line(
            terminal.paint(level.name, "bold") + f"  sha256:{level.policy.digest[:SHOWN_ID]}"
        )
        for rule in level.policy.rules:
            _tell_rule(rule.to_json(), terminal)
        if not level.policy.rules:
            terminal.line("  (no rules)")
    if not found:
        terminal.line("No policy binds you but what is built in:")
    terminal.line(terminal.paint("default", "bold") + "  where no rule above holds")
    terminal.line("  allow  reading, loading skills, asking you, saving artifacts")
    terminal.line(
        "  allow  editing, writing, running, forking and rewinding in an isolated sandbox;"
    )
    terminal.line("         asked where the backend isolates nothing")
    terminal.line("  ask    what acts outside (tools of MCP servers)")
    terminal.line("  Always: revoked skills are denied; once untrusted content is in the context,")
    terminal.line("  what can carry data out or act outside is asked.")
    return 0


def _level_json(level: Level) -> dict[str, Any]:
    return {**level.to_json(), **level.policy.to_json()}


def _tell_rule(rule: dict[str, Any], terminal: Terminal) -> None:
    decision = str(rule["decision"])
    conditions = "  ".join(
        f"{name}: {_flat(value)}"
        for name, value in rule.items()
        if name not in ("name", "decision", "why")
    )
    painted = terminal.paint(f"{decision:<5}", COLOURS[decision])
    terminal.line(f"  {painted}  {rule['name']}  {conditions or '(always)'}".rstrip())
    if why := rule.get("why"):
        terminal.line(f"         {terminal.paint(str(why), 'dim')}")


def _flat(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(" ".join(each) if isinstance(each, list) else str(each) for each in value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _check(args: argparse.Namespace, terminal: Terminal) -> int:
    bad = False
    told: list[dict[str, Any]] = []
    for path in args.files:
        problems: tuple[Problem, ...] = ()
        warnings: list[Problem] = []
        digest = None
        try:
            policy = read_policy(path)
            warnings, digest = advice(policy), policy.digest
        except BadPolicy as error:
            problems, bad = error.problems, True
        told.append(
            {
                "path": path,
                "ok": digest is not None,
                "digest": digest,
                "errors": [vars(each) for each in problems],
                "warnings": [vars(each) for each in warnings],
            }
        )
        if not args.json:
            _tell_checked(path, digest, problems, warnings, terminal)
    if args.json:
        terminal.json({"policies": told})
    return int(bad)


def _tell_checked(
    path: str,
    digest: str | None,
    problems: tuple[Problem, ...],
    warnings: list[Problem],
    terminal: Terminal,
) -> None:
    verdict = terminal.paint("no policy", "red") if digest is None else f"ok (sha256:{digest})"
    terminal.line(f"{terminal.paint(path, 'bold')}: {verdict}")
    for word, colour, found in (("error", "red", problems), ("warning", "yellow", warnings)):
        for each in found:
            place = f"{path}:{each.line}" if each.line else path
            terminal.line(f"  {place}: {terminal.paint(word, _colour(colour))} {each.text}")
            terminal.line(f"      {terminal.paint(each.mend, 'dim')}")


def _colour(name: str) -> Colour:
    return "red" if name == "red" else "yellow"


async def _set(log: Log, args: argparse.Namespace, terminal: Terminal) -> int:
    policy = read_policy(args.file)
    for each in advice(policy):
        terminal.warn(f"{args.file}:{each.line}: {each.text} {each.mend}")
    stored = await Policies(log).set(args.scope, policy.to_json(), args.note)
    if args.json:
        terminal.json(_stored_json(stored))
        return 0
    terminal.line(
        f"{stored.scope} has policy {stored.version}: {len(policy.rules)} rules. It binds from the"
        " next call on."
    )
    return 0


async def _history(log: Log, args: argparse.Namespace, terminal: Terminal) -> int:
    found = await Policies(log).history(args.scope)
    if args.version is not None:
        one = next((each for each in found if each.version == args.version), None)
        if one is None:
            raise UsageError(f"{args.scope} has no policy {args.version}.")
        if args.json:
            terminal.json(_stored_json(one))
        else:
            terminal.piece(_as_yaml(one))
        return 0
    if args.json:
        terminal.json({"versions": [_stored_json(each) for each in found]})
        return 0
    if not found:
        terminal.line(f"{args.scope} has had no policy.")
        return 0
    terminal.table(
        ["version", "set", "by", "rules", "digest", "note"],
        [
            [
                str(each.version),
                when(each.at_us),
                each.by,
                str(len(each.body.get("rules", []))),
                each.digest[:SHOWN_ID],
                each.note,
            ]
            for each in found
        ],
    )
    return 0


def _as_yaml(stored: StoredPolicy) -> str:
    """As a person writes it; one that is no policy as it is stored."""
    try:
        body: Mapping[str, Any] = policy_of(stored.body).to_json()
    except BadPolicy:
        body = stored.body
    return str(yaml.safe_dump(dict(body), sort_keys=False, allow_unicode=False))


def _stored_json(stored: StoredPolicy) -> dict[str, Any]:
    return {**vars(stored), "body": dict(stored.body)}
