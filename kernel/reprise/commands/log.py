"""`reprise log`: the steps of a session, and whether its record is whole."""

from __future__ import annotations

import argparse
import asyncio
import json
import shlex
from collections.abc import Mapping

from reprise.commands.log_conversation import conversation
from reprise.commands.log_network import network
from reprise.commands.opened import (
    add_session,
    find_session,
    first_line,
    opened_log,
    took,
    when,
)
from reprise.commands.terminal import Colour, Terminal
from reprise.log.as_json import check_json, mount_json, notice_json, step_json
from reprise.log.model import Json, Status
from reprise.log.postgres import Log
from reprise.log.reader import Reader
from reprise.log.store import Notice, StepRecord
from reprise.replay.vouched import vouched
from reprise.skills.command import without_preparation

EXAMPLES = """\
  reprise log 3f2a                    all steps of the session whose id begins so
  reprise log analysis.ipynb --last 20
  reprise log 3f2a --json | jq '.steps[] | select(.outcome != "ok")'
  reprise log 3f2a --network          what each step asked of the network
  reprise log 3f2a --conversation     the agent's newest conversation there, as a transcript
  reprise log 3f2a --check            recompute every digest; exit 1 names the first bad step
"""

_COLOURS: dict[Status, Colour] = {
    "ok": "green",
    "error": "red",
    "interrupted": "yellow",
    "timeout": "yellow",
    "died": "red",
    "lost": "red",
}


def arguments(parser: argparse.ArgumentParser) -> None:
    add_session(parser)
    parser.add_argument("--last", type=int, metavar="N", help="only the last N steps")
    parser.add_argument("--outputs", action="store_true", help="with --json: what each step showed")
    parser.add_argument(
        "--check",
        action="store_true",
        help="recompute digests, chain and hashes of outputs, and read every blob",
    )
    parser.add_argument(
        "--network", action="store_true", help="which hosts each step asked, and what became of it"
    )
    parser.add_argument(
        "--conversation",
        nargs="?",
        const="",
        metavar="ID",
        help="what was said and done in a conversation with the agent: the newest of the session,"
        " or the one whose id begins so",
    )
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    return asyncio.run(_run(args, terminal))


async def _run(args: argparse.Namespace, terminal: Terminal) -> int:
    async with opened_log(terminal) as log:
        session = await find_session(log, args.session)
        if args.conversation is not None:
            named, as_json = args.conversation, args.json
            return await conversation(log, session, named, as_json, args.check, terminal)
        reader = await log.reader(session)
        if args.check:
            return await _check(log, reader, args, terminal)
        steps = (await reader.info()).steps
        start = 0 if args.last is None else max(0, steps - max(args.last, 0))
        if args.network:
            await network(reader, start, args.json, terminal)
        elif args.json:
            await _as_json(reader, start, args.outputs, terminal)
        else:
            await _as_table(reader, start, terminal)
    return 0


async def _check(log: Log, reader: Reader, args: argparse.Namespace, terminal: Terminal) -> int:
    terminal.status("checking every digest …")
    report = await log.check(reader.session, blobs=True)
    fault = report.fault
    if args.json:
        terminal.json(check_json(report))
    elif fault is None:
        terminal.line(
            f"whole: {report.steps} steps, {report.outputs} batches of outputs and {report.blobs} "
            f"blobs match their digests; the chain ends with {report.chain}"
        )
    else:
        where = f"event {fault.event}" if fault.seq is None else f"step {fault.seq}"
        terminal.line(
            f"{terminal.paint('not whole', 'red')} from {where} on: {fault.what}. "
            f"What lies before it ({report.steps} steps) is as it was recorded."
        )
    return 0 if report.ok else 1


async def _as_table(reader: Reader, start: int, terminal: Terminal) -> None:
    """Rows are written as they are read, so a long log needs no memory and starts at once."""
    info = await reader.info()
    terminal.line(
        f"session {reader.session}   kernel {info.kernel}   {info.notebook or ''}".rstrip()
    )
    if info.parent is not None:
        shared = "an empty fork" if info.fork_seq == -1 else f"forked after step {info.fork_seq}"
        terminal.line(terminal.paint(f"{shared} of session {info.parent}", "dim"))
    terminal.line(
        terminal.paint(
            f"{'step':>6}  {'accepted':19}  {'kind':7}  {'by':6}  {'outcome':11}  "
            f"{'took':>10}  what",
            "bold",
        )
    )
    notices = await _notices_by_step(reader)
    revoked = {mount.seq for mount in (await vouched(reader)).revoked}
    async for record in reader.records(start, outputs=False):
        outcome = record.outcome
        status = "running" if outcome is None else outcome.status
        painted = f"{status:11}"
        if outcome is not None:
            painted = terminal.paint(painted, _COLOURS[outcome.status])
        lasted = "" if outcome is None else took(outcome.new.duration_us)
        new = record.step.new
        terminal.line(
            f"{record.step.seq:>6}  {when(new.at)}  {new.kind:7}  {new.actor.kind:6}  "
            f"{painted}  {lasted:>10}  {what(record)}"
        )
        if record.step.seq in revoked:
            text = "revoked since: nothing mounts this content any more"
            terminal.line(f"{'':>6}  {terminal.paint(text, 'red')}")
        for notice in notices.get(record.step.seq, ()):
            terminal.line(f"{'':>6}  {terminal.paint(notice.text, 'dim')}")
    for notice in notices.get(None, ()):
        terminal.line(f"{when(notice.at):>27}  {notice.text}")


async def _notices_by_step(reader: Reader) -> dict[int | None, list[Notice]]:
    found: dict[int | None, list[Notice]] = {}
    for notice in await reader.notices():
        found.setdefault(notice.seq, []).append(notice)
    return found


async def _as_json(reader: Reader, start: int, outputs: bool, terminal: Terminal) -> None:
    info = await reader.info()
    head = {
        "session": str(reader.session),
        "owner": info.owner,
        "notebook": info.notebook,
        "kernel": info.kernel,
        "environment": info.environment,
        "parent": None if info.parent is None else str(info.parent),
        "fork_seq": info.fork_seq,
    }
    terminal.piece(json.dumps(head, indent=2)[:-2] + ',\n  "steps": [')
    between = "\n    "
    async for record in reader.records(start, outputs=outputs):
        terminal.piece(between + json.dumps(step_json(record, outputs), allow_nan=False))
        between = ",\n    "
    revoked = [mount_json(mount) for mount in (await vouched(reader)).revoked]
    notices = [notice_json(notice) for notice in await reader.notices()]
    tail = {"revoked_skills": revoked, "notices": notices}
    terminal.piece("\n  ],\n  " + json.dumps(tail)[1:-1] + "\n}\n")


def what(record: StepRecord) -> str:
    """What a step was, in one line: the first line of a cell, the number of files, …"""
    payload = record.step.payload
    kind = record.step.kind
    if kind == "cell":
        return first_line(str(_mapping(payload.get("content")).get("code", "")))
    if kind == "comm":
        header, content = _mapping(payload.get("header")), _mapping(payload.get("content"))
        target = content.get("target_name") or content.get("comm_id") or ""
        return f"{header.get('msg_type', 'comm')} {target}".rstrip()
    if kind == "upload":
        entries, removed = payload.get("entries") or [], payload.get("removed") or []
        text = f"{len(entries)} files and folders"
        return f"{text}, {len(removed)} removed" if removed else text
    if kind == "restart":
        return "workspace emptied" if payload.get("emptied") else "files kept"
    if kind == "mount":
        skill = _mapping(payload.get("skill"))
        named = f"{skill['scope']}:{skill['name']}@{skill['version']}, " if skill else ""
        return f"{payload.get('target')}  ({named}tree {str(payload.get('tree'))[:12]})"
    if "stop" in payload:
        return f"stop of the command of step {payload['stop']}"
    argv = payload.get("argv")
    text = (
        without_preparation(str(payload.get("shell")))
        if argv is None
        else shlex.join(map(str, argv))
    )
    return first_line(text) + (" &" if payload.get("background") else "")


def _mapping(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, Mapping) else {}
