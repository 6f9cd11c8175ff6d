"""How long the replay of a 200-cell session takes, beside nbclient's run of the same notebook.

    python benchmarks/replay.py [--backend B] [--rounds N] [--cells N] [--json]

The notebook is made here: cells of about 10 to 50 ms that compute, parse, sort, define, print and
display. It is recorded once on Reprise; then nbclient's runs on a bare ipykernel and replays of
the record in fresh sandboxes alternate. Both are timed whole, the kernel's start included, and
for the cells alone. Exits 1 when the whole takes more than 1.05 times as long, or when the replay
does not show what was recorded.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
import uuid

import nbformat
from beside import BARE, REPRISE, Bench, Ratio, alternating, bench, machine, report
from nbclient import NotebookClient

from reprise.commands.workspaces import fresh_sandbox
from reprise.log.postgres import Log
from reprise.log.store import LogReader
from reprise.replay.plan import plan
from reprise.replay.verify import DetachedSandbox

#: What the cells do, with {n} (the cell's number) and {size} (3 to 13) filled in.
KINDS = (
    """
rows_{n} = [(i * 7919 % 1009, i) for i in range({size} * 1000)]
rows_{n}.sort()
len(rows_{n})
""",
    """
total_{n} = sum(i * i % 7 for i in range({size} * 4000))
print('total', total_{n})
""",
    """
import json
parsed_{n} = json.loads(json.dumps([{{'n': i, 's': str(i)}} for i in range({size} * 300)]))
parsed_{n}[-1]
""",
    """
import re, collections
text_{n} = ' '.join(str(i) for i in range({size} * 1500))
collections.Counter(re.findall('[0-9]', text_{n})).most_common(3)
""",
    """
def f_{n}(k):
    return k if k < 2 else f_{n}(k - 1) + f_{n}(k - 2)
for i in range(5):
    print(i, f_{n}(16 + i % 3))
""",
    """
from IPython.display import HTML, display
rows = ''.join(f'<tr><td>{{i}}</td><td>{{i * i}}</td></tr>' for i in range({size} * 100))
display(HTML('<table>' + rows + '</table>'))
""",
)
Times = dict[str, list[float]]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--backend", default="bubblewrap")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cells", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    codes = [KINDS[n % len(KINDS)].format(n=n, size=3 + n * 5 % 11) for n in range(options.cells)]
    times: Times = {name: [] for name in ("nbclient", "nbclient cells", "replay", "replay cells")}
    with bench(options.backend) as made:
        os.environ.update({name: made.env[name] for name in ("REPRISE_HOME", "REPRISE_BACKEND")})
        session = uuid.uuid4()
        _nbclient(made, REPRISE, codes, {}, REPRISE_SESSION=str(session))
        alternating(
            options.rounds,
            lambda: _nbclient(made, BARE, codes, times),
            lambda: asyncio.run(_replay(session, times)),
        )
        about = {"backend": options.backend, "cells": len(codes), **machine(made.home)}
    ratios = [
        Ratio("replay / nbclient, whole", "s", times["replay"], times["nbclient"], 1.05),
        Ratio("the cells alone", "s", times["replay cells"], times["nbclient cells"]),
    ]
    return report(ratios, about, as_json=options.json)


def _nbclient(made: Bench, kernel: str, codes: list[str], times: Times, **env: str) -> None:
    cells = [nbformat.v4.new_code_cell(code) for code in codes]  # type: ignore[no-untyped-call]
    notebook = nbformat.v4.new_notebook(cells=cells)  # type: ignore[no-untyped-call]
    client = NotebookClient(notebook, km=made.manager(kernel), timeout=600)
    began = time.perf_counter()
    with client.setup_kernel(
        cwd=str(made.folder / "notebooks"),
        env={**made.env, **env},
        cleanup_kc=True,
    ):
        ready = time.perf_counter()
        for number, cell in enumerate(notebook.cells):
            client.execute_cell(cell, number)
        ended = time.perf_counter()
    times.setdefault("nbclient", []).append(ended - began)
    times.setdefault("nbclient cells", []).append(ended - ready)


async def _replay(session: uuid.UUID, times: Times) -> None:
    log = await Log.connect()
    try:
        reader = await log.reader(session)
        with fresh_sandbox(await reader.info()) as (backend, spec):
            began = time.perf_counter()
            async with DetachedSandbox(reader, backend, spec) as sandbox:
                ready = time.perf_counter()
                await _play(reader, sandbox)
                ended = time.perf_counter()
    finally:
        await log.close()
    times["replay"].append(ended - began)
    times["replay cells"].append(ended - ready)


async def _play(reader: LogReader, sandbox: DetachedSandbox) -> None:
    """As a resume and `reprise verify` do: each step is compared with the record."""
    summaries = await reader.summaries()
    async for played in sandbox.player().play(plan(summaries), summaries[-1].seq + 1):
        compared = played.comparison
        if played.problem is not None or (compared and compared.verdict == "different"):
            raise SystemExit(f"step {played.record.step.seq} was not replayed: {played}")


if __name__ == "__main__":
    sys.exit(main())
