"""`reprise skills cost` and `catalog`: what skills cost a model in tokens, and what it is told."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reprise.commands.opened import opened_log
from reprise.commands.terminal import Terminal
from reprise.errors import SkillNotFound, UnavailableError, UsageError
from reprise.log.model import Json
from reprise.skills.catalog import Catalog
from reprise.skills.choosing import BUDGET, Offer
from reprise.skills.contract import Reference, Skill
from reprise.skills.costs import Cost, Part, counted, parts, total
from reprise.skills.counting import KEYS, MODEL, Counter, has_key
from reprise.skills.disclosure import Disclosure, offer_of, offer_of_shipped, offered
from reprise.skills.folder import read_folder
from reprise.skills.read import read_skill
from reprise.skills.shipped import find_shipped
from reprise.skills.tokens import Tokens

#: The largest notebook that is read; its outputs make it large, and they are not looked at.
_MAX_NOTEBOOK = 256 << 20


@dataclass(frozen=True)
class _Costed:
    """A skill and what its parts take."""

    offer: Offer
    costs: list[Cost]

    def of(self, *kinds: str) -> Tokens:
        return total([cost.tokens for cost in self.costs if cost.part.kind in kinds])


def add(acts: Any, common: argparse.ArgumentParser) -> None:
    act = acts.add_parser(
        "cost",
        parents=[common],
        help="what each part of skills costs a model in tokens: line, body, files",
    )
    act.add_argument(
        "skills",
        metavar="SKILL",
        nargs="*",
        help="[SCOPE:]NAME[@NUMBER], sha256:DIGEST, or the path of a folder (default: all of the "
        "catalog, in sums)",
    )
    act.add_argument(
        "--estimate",
        action="store_true",
        help="estimate, although a key for counting is there; nothing is sent then",
    )
    act.add_argument(
        "--model", default=MODEL, help="whose tokens the API counts (default: %(default)s)"
    )
    act.set_defaults(act=lambda args, terminal: asyncio.run(_cost(args, terminal)))

    act = acts.add_parser(
        "catalog",
        parents=[common],
        help="what a model is told of the catalog when a conversation begins",
    )
    act.add_argument(
        "--notebook", metavar="PATH", help="the notebook that the conversation is about"
    )
    act.add_argument("--task", metavar="TEXT", default="", help="what the person asks for")
    act.add_argument(
        "--budget",
        metavar="TOKENS",
        type=int,
        default=BUDGET,
        help="the most that it may take (default: %(default)s)",
    )
    act.add_argument(
        "--trusted-only", action="store_true", help="leave out what nobody has approved"
    )
    act.set_defaults(act=lambda args, terminal: asyncio.run(_catalog(args, terminal)))


# -- what a model is told --------------------------------------------------------------------------


async def _catalog(args: argparse.Namespace, terminal: Terminal) -> int:
    notebook = None if args.notebook is None else _notebook(Path(args.notebook))
    async with opened_log(terminal) as log:
        view = await Disclosure.begin(
            log,
            notebook,
            path=args.notebook or "",
            task=args.task,
            budget=args.budget,
            untrusted=not args.trusted_only,
        )
    if args.json:
        terminal.json({**view.choice.to_json(), "counted": False})
        return 0
    for line in view.catalog().splitlines():
        terminal.line(line)
    said = Tokens(view.choice.tokens)
    terminal.progress(
        f"{said} tokens (estimated) of {args.budget:,}; {len(view.choice.listed):,} skills are "
        f"named, {view.choice.others:,} are left to the search."
    )
    return 0


def _notebook(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_NOTEBOOK + 1)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from error
    if len(data) > _MAX_NOTEBOOK:
        raise UsageError(f"{path} is larger than {_MAX_NOTEBOOK >> 20} MiB; clear its outputs.")
    try:
        notebook = json.loads(data)
    except (ValueError, RecursionError):
        notebook = None
    if not isinstance(notebook, dict) or not isinstance(notebook.get("cells"), list):
        raise UsageError(f"{path} is no notebook (JSON with cells, nbformat 4).")
    return notebook


# -- what skills cost ------------------------------------------------------------------------------


async def _cost(args: argparse.Namespace, terminal: Terminal) -> int:
    skills, whole = await _named(args.skills, terminal)
    async with AsyncExitStack() as stack:
        counter = await _counter(args, terminal, stack)
        listed = [parts(offer, skill) for offer, skill in skills]
        texts = [part.text for many in listed for part in many]
        if counter:
            terminal.status(f"Counting {len(texts)} texts …")
        numbers, why = await counted([*texts, whole], counter)
        terminal.status("")
    if why:
        terminal.warn(f"Estimated, not counted. {why}")
    told = numbers.pop() if whole is not None else None
    costed = _costed([offer for offer, _ in skills], listed, numbers)
    if args.json:
        model = args.model if counter and not why else None
        terminal.json(_as_json(costed, told, model))
        return 0
    if args.skills:
        _tell_parts(costed, terminal)
    else:
        _tell_sums(costed, terminal)
    if told is not None:
        terminal.line()
        terminal.line(f"The catalog, as a model without a notebook is told it: {told} tokens.")
    _tell_how([*numbers, told], args.model, terminal, asked=args.estimate)
    return 0


async def _named(
    named: Sequence[str], terminal: Terminal
) -> tuple[list[tuple[Offer, Skill]], str | None]:
    """The skills that are meant, and the catalog's text when it is about all of them."""
    folders = [name for name in named if _is_path(name)]
    if named and len(folders) == len(named):
        return [_in_folder(name) for name in named], None
    async with opened_log(terminal) as log:
        catalog = Catalog(log)
        found: list[tuple[Offer, Skill]] = []
        if not named:
            view = await Disclosure.begin(log)
            for offer in await offered(catalog):
                _, skill = await _of_catalog(catalog, offer.reference)
                found.append((offer, skill))
            return found, view.catalog()
        for name in named:
            if _is_path(name):
                found.append(_in_folder(name))
            else:
                found.append(await _of_catalog(catalog, name))
        return found, None


async def _of_catalog(catalog: Catalog, name: str) -> tuple[Offer, Skill]:
    """The skill that a name means. What comes with Reprise is looked at, not added."""
    try:
        version = await catalog.find(name)
    except SkillNotFound:
        skill = find_shipped(name) if Reference.of(name) == Reference(name) else None
        if skill is None:
            raise
        return offer_of_shipped(skill), skill
    return offer_of(version), await catalog.skill(version)


def _is_path(name: str) -> bool:
    """Whether a folder is meant: a reference has a slash in its scope only, before a colon."""
    return name.startswith((".", "~")) or "/" in name.partition(":")[0].removeprefix("team/")


def _in_folder(name: str) -> tuple[Offer, Skill]:
    path = Path(name).expanduser()
    skill = read_skill(read_folder(path), folder=path.resolve().name)
    return Offer(skill.name, skill.name, skill.digest, skill.description), skill


async def _counter(
    args: argparse.Namespace, terminal: Terminal, stack: AsyncExitStack
) -> Counter | None:
    if args.estimate or not has_key():
        return None
    try:
        return await stack.enter_async_context(Counter(args.model))
    except UnavailableError as error:
        terminal.warn(str(error))
        return None


def _costed(
    offers: Sequence[Offer], listed: Sequence[Sequence[Part]], numbers: Sequence[Tokens | None]
) -> list[_Costed]:
    left = iter(numbers)
    return [
        _Costed(offer, [Cost(part, next(left)) for part in many])
        for offer, many in zip(offers, listed, strict=True)
    ]


def _tell_parts(costed: Sequence[_Costed], terminal: Terminal) -> None:
    rows = []
    for one in costed:
        name = one.offer.reference
        for cost in one.costs:
            shown = "no text" if cost.tokens is None else str(cost.tokens)
            rows.append([name, shown, _said(cost.part)])
            name = ""
        rows.append(["", str(one.of("line", "body", "file")), "all of it"])
    terminal.table(["SKILL", "TOKENS", "WHAT"], rows)


def _said(part: Part) -> str:
    if part.kind == "line":
        return "its line in the catalog, in each request"
    return "its body, once it is loaded" if part.kind == "body" else part.path


def _tell_sums(costed: Sequence[_Costed], terminal: Terminal) -> None:
    rows = [
        [str(one.of("line")), str(one.of("body")), str(one.of("file")), one.offer.reference]
        for one in costed
    ]
    rows.append(
        [str(total([one.of(kind) for one in costed])) for kind in ("line", "body", "file")]
        + ["all of them"]
    )
    terminal.table(["LINE", "BODY", "FILES", "SKILL"], rows)


def _tell_how(
    numbers: Sequence[Tokens | None], model: str, terminal: Terminal, *, asked: bool
) -> None:
    known = [number for number in numbers if number is not None]
    if any(number.counted for number in known):
        terminal.line(f"Counted by the API for {model}; what begins with ~ is estimated.")
        return
    how = "" if asked or has_key() else f" Set {KEYS[0]} to have them counted by the API."
    terminal.line(f"Estimated from the characters, rather too many than too few.{how}")


def _as_json(
    costed: Sequence[_Costed], catalog: Tokens | None, model: str | None
) -> dict[str, Json]:
    return {
        "model": model,
        "skills": [
            {
                "skill": one.offer.reference,
                "digest": one.offer.digest,
                "parts": [
                    {
                        "kind": cost.part.kind,
                        "path": cost.part.path,
                        **_number(cost.tokens),
                    }
                    for cost in one.costs
                ],
                "total": _number(one.of("line", "body", "file")),
            }
            for one in costed
        ],
        "catalog": None if catalog is None else _number(catalog),
    }


def _number(tokens: Tokens | None) -> dict[str, Json]:
    """tokens is null where there is no text."""
    if tokens is None:
        return {"tokens": None, "counted": False}
    return {"tokens": tokens.number, "counted": tokens.counted}
