"""How much longer a kernel takes to start on Reprise than a bare ipykernel.

    python benchmarks/start.py [--backend B] [--rounds N] [--json]

"start" is from launch to the end of the first cell, with the embedded Postgres running, as for
every notebook but the first; the two kernels alternate. Beside it: the first start after
Postgres had stopped, and the very first one, which makes the database.
"""

from __future__ import annotations

import argparse
import asyncio
import sys

from beside import BARE, REPRISE, Ratio, alternating, bench, machine, report

from reprise.log.embedded import Server


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--backend", default="bubblewrap")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    ready: dict[str, list[float]] = {BARE: [], REPRISE: []}
    start: dict[str, list[float]] = {BARE: [], REPRISE: []}

    def measure(name: str) -> None:
        with made.start(name) as running:
            ready[name].append(running.ready_ms)
            start[name].append(running.start_ms)

    with bench(options.backend) as made:
        with made.start(BARE):
            pass  # both programs' files are in the page cache from here on
        with made.start(REPRISE) as running:
            very_first = running.start_ms
        asyncio.run(Server(made.home).stop())
        with made.start(REPRISE) as running:
            after_stop = running.start_ms
        alternating(options.rounds, lambda: measure(BARE), lambda: measure(REPRISE))
        about = {"backend": options.backend, **machine(made.home)}
    ratios = [
        Ratio("start to ready", "ms", ready[REPRISE], ready[BARE]),
        Ratio("start to end of first cell", "ms", start[REPRISE], start[BARE], 1.35),
        Ratio("the same, Postgres was stopped", "ms", [after_stop], start[BARE]),
        Ratio("the same, no database yet", "ms", [very_first], start[BARE]),
    ]
    return report(ratios, about, as_json=options.json)


if __name__ == "__main__":
    sys.exit(main())
