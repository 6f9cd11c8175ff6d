"""`reprise sessions`: all sessions of a person, the one used last first."""

from __future__ import annotations

import argparse
import asyncio
import uuid
from collections.abc import Iterator, Mapping, Sequence

from reprise.commands.opened import SHOWN_ID, opened_log, when
from reprise.commands.terminal import Terminal
from reprise.log.as_json import session_json
from reprise.log.store import SessionInfo, SkillMount

EXAMPLES = """\
  reprise sessions
  reprise sessions --last 5
  reprise sessions --tree             which session was forked from which, and where
  reprise sessions --json | jq -r '.sessions[0].id'
"""


#: Skills that sessions have used and that were revoked since.
Revoked = Mapping[uuid.UUID, Sequence[SkillMount]]

_HEADER = ["session", "last used", "steps", "kernel", "state", "notebook"]


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--last", type=int, metavar="N", help="only the N used last")
    parser.add_argument(
        "--tree", action="store_true", help="forks below what they were forked from"
    )
    parser.add_argument("--json", action="store_true", help="as JSON, with whole ids")


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    everything, revoked = asyncio.run(_sessions(terminal))
    sessions = everything if args.last is None else everything[: max(args.last, 0)]
    if args.json:
        terminal.json(
            {"sessions": [session_json(info, revoked.get(info.id, ())) for info in sessions]}
        )
    elif not sessions:
        terminal.line("No sessions yet. `reprise demo` makes one, and so does each notebook.")
    elif args.tree:
        terminal.table(
            ["session", "forked", *_HEADER[1:]],
            [
                [branch + _short(info), _forked(info), *_row(info, revoked)[1:]]
                for branch, info in drawn(everything, sessions)
            ],
        )
    else:
        terminal.table(
            _HEADER,
            [_row(info, revoked) for info in sessions],
        )
    return 0


async def _sessions(terminal: Terminal) -> tuple[list[SessionInfo], Revoked]:
    async with opened_log(terminal) as log:
        found = await log.sessions()
        return found, await log.revoked_skills(found)


def drawn(
    everything: Sequence[SessionInfo], wanted: Sequence[SessionInfo]
) -> Iterator[tuple[str, SessionInfo]]:
    """The wanted sessions and all they come from, each below its parent, with its branch.

    The tree that was used last comes first; the forks of one session are in the order of the
    steps they leave it at.
    """
    known = {info.id: info for info in everything}
    kept: dict[uuid.UUID, SessionInfo] = {}
    roots: dict[uuid.UUID, SessionInfo] = {}
    for info in wanted:
        at = info
        while at.id not in kept:
            kept[at.id] = at
            if at.parent is None or at.parent not in known:
                roots[at.id] = at
                break
            at = known[at.parent]
    forks: dict[uuid.UUID, list[SessionInfo]] = {}
    for info in kept.values():
        if info.parent is not None:
            forks.setdefault(info.parent, []).append(info)
    # Not recursive: a history may have been rewound a thousand times.
    waiting = [("", "", info) for info in reversed(roots.values())]
    while waiting:
        branch, below, info = waiting.pop()
        yield branch, info
        children = sorted(
            forks.get(info.id, ()), key=lambda fork: (fork.fork_seq or 0, fork.created_at, fork.id)
        )
        for place, child in reversed(list(enumerate(children, 1))):
            last = place == len(children)
            waiting.append(
                (below + ("└─ " if last else "├─ "), below + ("   " if last else "│  "), child)
            )


def _short(info: SessionInfo) -> str:
    return str(info.id)[:SHOWN_ID]


def _forked(info: SessionInfo) -> str:
    if info.fork_seq is None:
        return ""
    return "empty" if info.fork_seq == -1 else f"after step {info.fork_seq}"


def _row(info: SessionInfo, revoked: Revoked) -> list[str]:
    states = []
    if info.holder is not None:
        states.append(f"in use (pid {info.holder['pid']})" if "pid" in info.holder else "in use")
    if mounts := revoked.get(info.id):
        targets = ", ".join(dict.fromkeys(mount.target for mount in mounts))
        states.append(f"used what was revoked: {targets}")
    return [
        _short(info),
        when(info.last_at),
        str(info.steps),
        info.kernel,
        "; ".join(states),
        info.notebook or "",
    ]
