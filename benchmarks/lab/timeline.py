"""Whether the Timeline keeps the page as free as JupyterLab itself does, with 50,000 steps.

    python benchmarks/lab/timeline.py [--steps N] [--rounds N]

A real lab on an embedded Postgres; a session of N steps appended by the log's own writer. In one
page of a real Chromium: JupyterLab without our panel (a notebook of 400 cells is loaded and
scrolled, a folder of 300 files opened and scrolled), then the Timeline (opened, scrolled, jumped
through, walked by keys, searched). Printed are tasks over 50 ms, as the browser tells them. The
longest of ours is held against the longest of JupyterLab's.

It needs Chromium, Node and the installed packages of labextension/ui-tests.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import time
import uuid
from pathlib import Path
from typing import Any

from serving import lab, page

from reprise.log.model import Actor, NewOutcome, NewStep, OutputEntry, outputs_hash
from reprise.log.postgres import Log
from reprise.log.writer import Writer

PAGE = Path(__file__).with_name("timeline.mjs")

ENVIRONMENT = "e" * 64
SHOWN = [
    [OutputEntry("stream", {"name": "stdout", "text": "a line of output\n" * 20})],
    [
        OutputEntry(
            "execute_result", {"data": {"text/plain": "   x  y\n0  1  2\n1  3  4"}, "metadata": {}}
        )
    ],
    [OutputEntry("display_data", {"data": {"image/png": "iVBORw0KGgo" * 300}, "metadata": {}})],
    [],
]
RAISED = [
    OutputEntry("error", {"ename": "KeyError", "evalue": "'day'", "traceback": ["KeyError: 'day'"]})
]


def a_step(number: int, chance: random.Random) -> NewStep:
    """Cells mostly, as notebooks have them; commands of an agent between them."""
    at = 1_790_000_000_000_000 + number * 1_000_000
    if chance.random() < 0.2:
        agent = Actor("agent", "b2f0c3de-0000-4000-8000-000000000000", 1 + number // 50)
        return NewStep(
            "command", {"shell": f"python train.py --round {number}"}, ENVIRONMENT, at, agent
        )
    code = f"df_{number} = df.groupby('day').agg('mean')\n" * chance.randint(1, 12)
    payload = {
        "header": {"msg_id": str(uuid.UUID(int=number)), "msg_type": "execute_request"},
        "metadata": {"cellId": f"cell-{number % 400}"},
        "content": {"code": code, "silent": False, "store_history": True},
    }
    return NewStep("cell", payload, ENVIRONMENT, at)


async def append(writer: Writer, count: int) -> None:
    chance = random.Random(8)
    hashes = [outputs_hash(entries) for entries in SHOWN]
    for number in range(count):
        step = await writer.append_step(a_step(number, chance))
        if chance.random() < 0.03:
            outcome = NewOutcome("error", outputs_hash(RAISED), step.new.at, duration_us=9_000)
            await writer.record_outcome(step.seq, outcome, RAISED)
            continue
        which = chance.randrange(len(SHOWN))
        outcome = NewOutcome(
            "ok", hashes[which], step.new.at, duration_us=chance.randint(1, 5_000_000)
        )
        await writer.record_outcome(step.seq, outcome, SHOWN[which])


async def filled(home: Path, steps: int) -> str:
    """A session of that many steps, and a fork of it at each thousandth."""
    log = await Log.connect(home=home)
    session = await log.begin(kernel="python3", notebook="long.ipynb")
    writer = await log.acquire(session, {})
    began = time.monotonic()
    await append(writer, steps)
    await writer.close()
    for at in range(999, steps, 1000):
        await log.fork(session, at)
    print(f"{steps:,} steps appended in {time.monotonic() - began:.0f} s", file=sys.stderr)
    await log.close()
    return str(session)


def beside(folder: Path) -> None:
    """What JupyterLab itself is looked at with."""
    cells = [
        {
            "cell_type": "code",
            "id": f"cell-{number}",
            "metadata": {},
            "execution_count": number,
            "source": f"df_{number} = df.groupby('day').agg('mean')\n" * (1 + number % 12),
            "outputs": [
                {"output_type": "stream", "name": "stdout", "text": "a line of output\n" * 20}
            ],
        }
        for number in range(400)
    ]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    notebook = {"nbformat": 4, "nbformat_minor": 5, "metadata": kernel, "cells": cells}
    (folder / "long.ipynb").write_text(json.dumps(notebook))
    files = folder / "files"
    files.mkdir()
    for number in range(300):
        (files / f"part-{number:05}.csv").write_text("a,b\n1,2\n")


def table(rounds: list[dict[str, Any]]) -> bool:
    """Print what was found; returns whether ours has no longer task than JupyterLab."""
    print(f"{'':34}{'longest':>10}{'over 50 ms':>12}{'together':>11}")
    longest: dict[str, float] = {}
    for who in ("jupyterlab", "timeline"):
        phases = [phase for each in rounds for phase in each[who]]
        for name in dict.fromkeys(phase["name"] for phase in phases):
            tasks = [ms for phase in phases if phase["name"] == name for ms in phase["tasks"]]
            worst = max(tasks, default=0)
            longest[who] = max(longest.get(who, 0), worst)
            print(
                f"{who + ': ' + name:34}{worst:7.0f} ms{len(tasks) / len(rounds):12.1f}"
                f"{sum(tasks) / len(rounds):8.0f} ms"
            )
    ratio = longest["timeline"] / max(longest["jupyterlab"], 50)
    print(f"\nlongest task, the Timeline's to JupyterLab's: {ratio:.2f}")
    firsts = [each["first_ms"] for each in rounds]
    frames = [each["frames"] for each in rounds]
    print(f"first rows after opening: {sorted(firsts)[len(firsts) // 2]:.0f} ms")
    print(f"rows in the page while scrolling: at most {max(each['rows'] for each in frames)}")
    return ratio <= 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with lab() as served:
        beside(Path(served["folder"]))
        session = asyncio.run(filled(Path(served["home"]), arguments.steps))
        given = {**served, "session": session, "steps": arguments.steps}
        rounds = [page(PAGE, given) for _ in range(arguments.rounds)]
    if not table(rounds):
        raise SystemExit("the Timeline has a longer task than JupyterLab")


if __name__ == "__main__":
    main()
