"""What the chat costs the page: typing while an answer streams, first paint, memory.

    python benchmarks/lab/chat.py [--turns N] [--minutes N] [--rounds N]

A real lab, a scripted model, one page of a real Chromium. Measured beside JupyterLab itself in the
same page and run:

  typing   milliseconds from a key to the frame that shows it: in a cell of a notebook with the chat
           closed (JupyterLab itself); in that cell, and in the composer, while an answer streams
  paint    milliseconds until the newest turn of a conversation of N turns stands in the panel,
           beside those until a notebook of 400 cells shows its first one
  memory   bytes of the page's heap, collected, and its nodes: before and after as much was
           streamed as comes in N minutes at 60 tokens a second (sped up)

It needs Chromium, Node, the built lab extension and the packages of labextension/ui-tests.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from pathlib import Path
from statistics import median
from typing import Any

from serving import control, lab, page

from reprise.log.conversations import Conversations
from reprise.log.postgres import Log

PAGE = Path(__file__).with_name("chat.mjs")

#: What comes in an answer: prose, a list, a table, code, as models write them.
PARAGRAPH = (
    "Class 1 is **rare**: only 4 % of the rows are of it, so a model that never says it is right"
    " in 96 of 100 cases. *Recall* counts what it finds of that class: so it is low here.\n\n"
)
PIECES = (
    "## What I found\n\n",
    PARAGRAPH,
    "- `churn` is the target\n- `days` has gaps, mostly in March\n- two columns say the same\n\n",
    "| class | rows | found |\n|---|---|---|\n| 0 | 960 | 951 |\n| 1 | 40 | 9 |\n\n",
    "```python\nweights = len(y) / np.bincount(y)\nmodel.fit(X, y, weights)\n```\n\n",
    "The loss is $$L = -\\sum_i w_{y_i} \\log p_i$$ with a weight for each class.\n\n",
    PARAGRAPH,
)
#: Characters of a token, and tokens of a second, as fast models write.
CHARACTERS, TOKENS = 4, 60


def prose(characters: int) -> str:
    found: list[str] = []
    size = 0
    while size < characters:
        piece = PIECES[len(found) % len(PIECES)]
        found.append(piece)
        size += len(piece)
    return "".join(found)


async def filled(home: Path, turns: int) -> str:
    """A session with a conversation of so many turns, each with an answer and a command."""
    log = await Log.connect(home=home)
    session = await log.begin(kernel="python3")
    known = Conversations(log)
    body: dict[str, Any] = {"model": "claude-sonnet-5-5", "provider": "anthropic", "policy": []}
    conversation = await known.begin(session, notebook="chat.ipynb", title="A long one", body=body)
    writer = await known.open(conversation, {})
    act: dict[str, Any] = {"tool": "run_command", "effect": "run", "title": "run a command"}
    act |= {"input": {"command": "wc -l data/*.csv"}, "code": "wc -l data/*.csv", "paths": []}
    verdict = {"decision": "allow", "rule": "default/run", "why": "It stays here.", "grant": None}
    for turn in range(1, turns + 1):
        call, usage = f"c{turn}", {"input_tokens": 900, "output_tokens": 120}
        said = {"type": "text", "text": prose(600)}
        used = {"type": "tool_use", "id": call, "name": "run_command", "input": act["input"]}
        asked = {"model": "claude-sonnet-5-5", "attempt": 1, "input_estimate": 900, "digest": ""}
        shown = [{"type": "text", "text": "step 3 · ok · 0.1 s\nexit code 0\n" + "1 row\n" * 60}]
        entries: list[tuple[Any, dict[str, Any]]] = [
            ("said", {"text": f"question {turn}", "by": None}),
            ("asked", asked),
            ("answered", {"content": [said, used], "stop_reason": "tool_use", "usage": usage}),
            (
                "called",
                {
                    "id": call,
                    "tool": "run_command",
                    "input": act["input"],
                    "act": act,
                    "verdict": verdict,
                },
            ),
            ("running", {"id": call}),
            (
                "result",
                {
                    "id": call,
                    "status": "ok",
                    "content": shown,
                    "steps": [3],
                    "taints": [],
                    "edits": [],
                    "outside": [],
                },
            ),
            ("answered", {"content": [said], "stop_reason": "end_turn", "usage": usage}),
            ("ended", {"status": "done"}),
        ]
        for kind, each in entries:
            await writer.append(turn if kind == "said" else writer.turn, kind, each)
    await writer.close()
    await log.close()
    return str(session)


def notebooks(folder: Path, session: str) -> None:
    """One that the conversation is of, and one that JupyterLab is looked at with."""
    ours = {"kernelspec": {"name": "reprise", "display_name": "Python 3 (Reprise)"}}
    for name, count, metadata in (
        ("chat.ipynb", 3, {**ours, "reprise": {"session": session}}),
        ("stream.ipynb", 3, ours),
        ("long.ipynb", 400, {"kernelspec": {"name": "python3", "display_name": "Python 3"}}),
    ):
        cells: list[dict[str, Any]] = [
            {
                "cell_type": "code",
                "id": f"cell-{number}",
                "metadata": {},
                "execution_count": None,
                "source": f"df_{number} = df.groupby('day').agg('mean')\n" * (1 + number % 12),
                "outputs": [],
            }
            for number in range(count)
        ]
        notebook = {"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": cells}
        (folder / name).write_text(json.dumps(notebook))


def quantile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def table(rounds: list[dict[str, Any]], turns: int) -> None:
    print(f"{'typing, ms from key to frame':44}{'median':>9}{'95 %':>9}{'ratio':>9}")
    base = median(ms for each in rounds for ms in each["typing"]["cell, JupyterLab itself"])
    for name in rounds[0]["typing"]:
        values = [ms for each in rounds for ms in each["typing"][name]]
        middle = median(values)
        print(f"{name:44}{middle:9.1f}{quantile(values, 0.95):9.1f}{middle / base:9.2f}")
    paint = median(each["paint"]["chat"] for each in rounds)
    notebook = median(each["paint"]["notebook"] for each in rounds)
    print(f"\nfirst paint, {turns:,} turns in the panel: {paint:.0f} ms")
    print(f"first paint, 400 cells in a notebook: {notebook:.0f} ms; ratio {paint / notebook:.2f}")
    memory = rounds[0]["memory"]
    before, after = memory["before"], memory["after"]
    streamed = memory["characters"]
    print(
        f"memory: {before['heap'] / 1e6:.1f} MB before the chat, {after['heap'] / 1e6:.1f} MB after"
        f" {streamed / 1e6:.2f} MB of answers; ratio {after['heap'] / before['heap']:.2f};"
        f" nodes {before['nodes']:,} → {after['nodes']:,}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=1_000)
    parser.add_argument("--minutes", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    characters = arguments.minutes * 60 * TOKENS * CHARACTERS
    each = characters // max(1, arguments.minutes)
    with lab() as served:
        session = asyncio.run(filled(Path(served["home"]), arguments.turns))
        notebooks(Path(served["folder"]), session)
        slow = [{"say": prose(90_000), "pause": 0.02}]
        control(served, "script", {"words": "stream slowly", "steps": slow})
        control(served, "script", {"words": "stream fast", "steps": [{"say": prose(each)}]})
        rounds = [
            page(
                PAGE,
                {
                    **served,
                    "turns": arguments.turns,
                    "fast": arguments.minutes if number == 0 else 0,
                    "each": each,
                },
            )
            for number in range(arguments.rounds)
        ]
    table(rounds, arguments.turns)


if __name__ == "__main__":
    main()
