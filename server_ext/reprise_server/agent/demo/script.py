"""What the scripted model answers, from what stands in each request (pure).

It plays a model that is diligent and obeys whoever spoke last, a stranger's note included: what
keeps it from harm is not its judgement.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from reprise_server.agent.demo.folder import NOTE, SKILL, TABLE
from reprise_server.agent.scripted import Asked, Call, Reply, Step, Text, Thought, calls, error
from reprise_server.agent.scripted import reply as replied

#: What the person asks for.
TASK: Final = (
    f"Sum {TABLE} by region with a skill, and put the sums into the notebook. There may be news in "
    f"{NOTE}. Check the sums over and over before you are done."
)
#: Shown by the cell in whose middle the sandbox is killed.
AT_WORK: Final = "checking, round 1"
#: What the last cell shows when all that was there before the kill is there again.
CHECKED: Final = "the sums hold"

_SUMS: Final = """\
totals = {}
for sale in sales:
    if sale["amount"]:
        totals[sale["region"]] = totals.get(sale["region"], 0) + int(sale["amount"])
totals = dict(sorted(totals.items()))
totals"""
_CHECK: Final = """\
import time

for number in range(1, {rounds} + 1):
    print("checking, round", number, flush=True)
    again = sum(int(sale["amount"] or 0) for sale in sales)
    if again != sum(totals.values()):
        raise SystemExit("they do not")
    time.sleep({pause})
print("{checked}")"""


def check_cell(rounds: int, pause: float) -> str:
    return _CHECK.format(rounds=rounds, pause=pause, checked=CHECKED)


def answer(asked: Asked) -> Step:
    """The answer to one request of the conversation: the n-th where n are in its context."""
    if asked.answers >= len(_STEPS):
        return error(400, "invalid_request_error", "The demo's script is at its end.")
    return _STEPS[asked.answers](asked)


def _load(asked: Asked) -> Reply:
    told = "\n".join(block["text"] for block in asked.body.get("system", []))
    if f"- {SKILL}" not in told:
        return replied(f"No skill called {SKILL} is listed for me, so I cannot begin.")
    return replied(
        Thought("A skill in my list fits: sums by a column. I load it before I do anything."),
        Text(f"I load the skill {SKILL}, since it fits."),
        Call("load_skill", {"skill": SKILL}),
    )


def _reference(_: Asked) -> Reply:
    given = {"skill": SKILL, "path": "references/amounts.md"}
    return calls("read_skill_file", given, first="It wants its reference read first.")


def _run_skill(_: Asked) -> Reply:
    words = [f"{{workspace}}/{TABLE}", "--by", "region", "--of", "amount"]
    given = {"skill": SKILL, "script": "sum_by_column.py", "args": words}
    return calls("run_skill", given, first="Empty amounts are left out. I run the script.")


def _read(_: Asked) -> Reply:
    return calls("read_notebook", {}, first="Two rows have no amount. Now the notebook.")


def _edit(_: Asked) -> Reply:
    # Nobody waits for 600 rounds: the sandbox is killed in the middle of them.
    edits = [
        {"do": "insert", "type": "markdown", "source": "## Sums by region", "after": "load"},
        {"do": "insert", "type": "code", "source": _SUMS, "after": "#1"},
        {"do": "insert", "type": "code", "source": check_cell(600, 0.5), "after": "#2"},
    ]
    return calls("edit_notebook", {"edits": edits}, first="I add the sums, and a check of them.")


def _run_sums(asked: Asked) -> Reply:
    return calls("run_cells", {"cells": [_inserted(asked)[1].cell]})


def _read_note(_: Asked) -> Reply:
    return calls("read_file", {"path": NOTE}, first="The sums are there. The news, then.")


def _obey(_: Asked) -> Reply:
    return calls("save_artifact", {"path": TABLE}, first="It says to save the table at once.")


def _count(_: Asked) -> Reply:
    words = "I leave that. I count the lines of the table by a command."
    return calls("run_command", {"command": f"wc -l {TABLE}"}, first=words)


def _check(asked: Asked) -> Reply:
    return calls("run_cells", {"cells": [_inserted(asked)[2].cell]}, first="Now the check.")


def _shorten(asked: Asked) -> Reply:
    cell = _inserted(asked)[2]
    source = check_cell(3, 0.01)
    edit = {"do": "replace", "cell": cell.cell, "was": cell.hash, "source": source}
    words = "The sandbox died in the middle of it. Three rounds are enough: I change the cell."
    return calls("edit_notebook", {"edits": [edit]}, first=words)


def _check_again(asked: Asked) -> Reply:
    return calls("run_cells", {"cells": [_inserted(asked)[2].cell]})


def _done(_: Asked) -> Reply:
    return replied(
        "The sums by region are in the notebook, checked. Rows 19 and 60 have no amount and are "
        "left out. A note in your inbox wanted the table saved elsewhere; you said no to it."
    )


_STEPS: Final[tuple[Callable[[Asked], Step], ...]] = (
    _load,
    _reference,
    _run_skill,
    _read,
    _edit,
    _run_sums,
    _read_note,
    _obey,
    _count,
    _check,
    _shorten,
    _check_again,
    _done,
)


#: Cells that `_edit` makes.
_MADE: Final = 3


class Inserted:
    """A cell that the notebook's tool said it had made."""

    def __init__(self, line: re.Match[str]) -> None:
        self.cell = line["cell"]
        self.hash = line["hash"]


_LINE: Final = re.compile(r"^cell (?P<cell>\S+) inserted .*hash (?P<hash>[0-9a-f]+)", re.MULTILINE)


def _inserted(asked: Asked) -> list[Inserted]:
    """The three cells, from the result of the call that made them."""
    for message in asked.messages:
        for block in message["content"]:
            if isinstance(block, Mapping) and block["type"] == "tool_result":
                found = [Inserted(line) for line in _LINE.finditer(_text(block))]
                if len(found) == _MADE:
                    return found
    raise LookupError("No result in the request tells of three cells that were made.")


def _text(block: Mapping[str, Any]) -> str:
    content = block.get("content", "")
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content)
