"""`reprise eval`: tasks tried with and without skills, each in a fresh session, and compared."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Mapping
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reprise.commands.terminal import Terminal
from reprise.errors import RepriseError, UnavailableError, UsageError

if TYPE_CHECKING:
    from reprise_server.agent.eval.folder import GivenTask
    from reprise_server.agent.model.prices import Money
    from reprise_server.agent.settings import RepriseAgent

EXAMPLES = """\
  reprise eval --list
  reprise eval profile-rentals --trials 10 --model claude-haiku-5-5
  reprise eval --trials 5 --out results.json        all bundled tasks
  reprise eval --copy profile-rentals .             to write a task of your own from it
  reprise eval ./my-task --only with --trials 3
"""

#: Trials of one arm of a task: each costs money.
_MOST_TRIALS = 1_000


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "task", nargs="*", help="bundled tasks by name, or folders (default: all bundled ones)"
    )
    parser.add_argument("--list", action="store_true", help="list the bundled tasks")
    parser.add_argument(
        "--copy", nargs=2, metavar=("TASK", "FOLDER"), help="copy a bundled task into a folder"
    )
    parser.add_argument(
        "--trials", type=int, default=3, metavar="N", help="of each task with, and without (3)"
    )
    parser.add_argument("--only", choices=("with", "without"), help="one of the two arms alone")
    parser.add_argument("--model", help="the model (default: of the agent's settings)")
    parser.add_argument("--environment", metavar="NAME", help="of the sessions' kernels")
    parser.add_argument(
        "--money",
        metavar="AMOUNT",
        help='begin no trial once all have cost so much, such as "5 USD"; needs prices',
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="write all of it as JSON, too")
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    folder = import_module("reprise_server.agent.eval.folder")
    if args.list:
        listed = [folder.given_task(name).task for name in folder.bundled()]
        if args.json:
            terminal.json([{"task": t.name, "skill": t.skill, "text": t.text} for t in listed])
        else:
            terminal.table(
                ["task", "skill", "what is asked"],
                [[t.name, t.skill, " ".join(t.text.split())] for t in listed],
            )
        return 0
    if args.copy is not None:
        terminal.line(str(folder.copied(args.copy[0], Path(args.copy[1]))))
        return 0
    if not 1 <= args.trials <= _MOST_TRIALS:
        raise UsageError(f"--trials is from 1 to {_MOST_TRIALS}.")
    if args.out is not None and not args.out.absolute().parent.is_dir():
        raise UsageError(f"There is no folder {args.out.parent} to write {args.out.name} into.")
    tasks = [folder.given_task(name) for name in args.task or folder.bundled()]
    if len({given.task.name for given in tasks}) < len(tasks):
        raise UsageError("Two of the tasks have one name.")
    trials, about, cut = asyncio.run(_tried(args, tasks, terminal))
    report = import_module("reprise_server.agent.eval.report")
    found = report.reports(trials)
    whole = report.whole(found, trials, about)
    if args.out is not None:
        with import_module("reprise.workspace.replaced").replacing(args.out) as file:
            file.write(json.dumps(whole, indent=2).encode())
    if args.json:
        terminal.json(whole)
    else:
        terminal.table(
            ["task", "skills", "completed", "followed", "seconds", "tokens", "cost", "broken"],
            report.rows(found),
        )
        for each in found:
            terminal.line(each.sentence)
    if cut is not None:
        raise cut
    if not any(trial.counts for trial in trials):
        raise UnavailableError(f"No trial came to its end: {trials[-1].why or 'the model was cut'}")
    return 0


async def _tried(
    args: argparse.Namespace,
    tasks: list[GivenTask],
    terminal: Terminal,
) -> tuple[list[Any], dict[str, Any], BaseException | None]:
    """What was tried, what it is about, and what cut it short, if anything did: trials cost money,
    so those that came to an end are told all the same."""
    # Only now: these bring in the model's library.
    settings_of = import_module("reprise_server.agent.configured").agent_settings
    bench_of = import_module("reprise_server.agent.eval.trial").Bench
    settings = settings_of(**({} if args.model is None else {"model": args.model}))
    bound = None if args.money is None else _bound(args.money, settings)
    environ = {} if args.environment is None else {"REPRISE_ENVIRONMENT": args.environment}
    arms = ("with", "without") if args.only is None else (args.only,)
    trials: list[Any] = []
    async with import_module("reprise.commands.opened").opened_log(terminal) as log:
        bench = bench_of(log, settings, environ)
        skills = {given.task.skill: await bench.digest(given.task.skill) for given in tasks}
        # An arm after the other within each number: what changes in the meantime (a busy machine,
        # a busy model) meets both.
        for number in range(1, args.trials + 1):
            for given in tasks:
                for arm in arms:
                    if bound is not None and _spent(trials, bound.currency) >= bound.amount:
                        terminal.warn(f"{args.money} are spent; no further trial was begun")
                        return trials, _about(settings, args, skills), None
                    terminal.status(f"{given.task.name}, {arm} skills, trial {number} …")
                    try:
                        trials.append(trial := await bench.trial(given, arm, number))
                    except (asyncio.CancelledError, RepriseError) as error:
                        if not trials:
                            raise
                        terminal.status("")
                        terminal.warn("cut short; what follows is of the trials before")
                        stopped = isinstance(error, asyncio.CancelledError)
                        cut = KeyboardInterrupt() if stopped else error
                        return trials, _about(settings, args, skills), cut
                    terminal.status("")
                    terminal.progress(_line(trial))
    return trials, _about(settings, args, skills), None


def _line(trial: Any) -> str:
    missed = [o.name for o in (*trial.completion, *trial.workflow) if not o.passed]
    words = "completed" if trial.completed else "not completed"
    if not trial.counts:
        words = f"does not count ({trial.ended}: {trial.why})"
    return (
        f"{trial.task} {trial.arm} {trial.number}: {words}, {trial.seconds:.1f} s"
        + (f"; missed: {', '.join(missed)}" if missed and trial.counts else "")
        + f"  session {trial.session}"
    )


def _about(settings: Any, args: argparse.Namespace, skills: Mapping[str, str]) -> dict[str, Any]:
    return {
        "model": settings.model,
        "provider": settings.provider,
        "environment": args.environment,
        "skills": dict(skills),
        "trials_of_each": args.trials,
    }


def _spent(trials: list[Any], currency: str) -> Decimal:
    return sum((trial.spent.cost.get(currency, Decimal(0)) for trial in trials), Decimal(0))


def _bound(given: str, settings: RepriseAgent) -> Money:
    """What all trials may cost. Raises UsageError where nobody could tell when they do."""
    prices = import_module("reprise_server.agent.model.prices")
    bound: Money = prices.Money.parse(given)
    if not bound.amount:
        raise UsageError("--money 0 would begin no trial.")
    price = prices.price_of(settings.prices, settings.model)
    if price is None:
        raise UsageError(
            f"--money needs the price of {settings.model}: c.RepriseAgent.prices (docs/eval.md)."
        )
    if price.currency != bound.currency:
        raise UsageError(f"--money is {bound}, but {settings.model} is paid in {price.currency}.")
    return bound
