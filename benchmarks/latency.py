"""How much longer a cell takes on Reprise, with both durable commits, than on a bare ipykernel.

    python benchmarks/latency.py [--backend B] [--rounds N] [--cells N] [--json]

In each round both kernels are started and then take turns, 10 cells at a time. A time is from the
request to both its idle and its reply. Exits 1 when a target of docs/benchmarks.md is missed.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict

from beside import BARE, REPRISE, Ratio, alternating, bench, machine, report

#: name → (code, cells of it for each 200 of `pass`, the most that the ratio may be)
WORK = {
    "pass": ("pass", 200, 1.35),
    "stream of 1 MB": ("print('x' * 1_000_000)", 20, 1.6),
    "display of 100 KB": (
        "from IPython.display import HTML, display; display(HTML('y' * 100_000))",
        40,
        1.3,
    ),
}
#: Cells run before anything is measured: caches, prepared statements.
WARM = 30
BLOCK = 10


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--backend", default="bubblewrap")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cells", type=int, default=200, help="of `pass`, for each round")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    times: dict[tuple[str, str], list[float]] = defaultdict(list)
    with bench(options.backend) as made:
        # The very first start makes the database; benchmarks/start.py measures that.
        made.start(REPRISE).__exit__()
        for _ in range(options.rounds):
            with made.start(BARE) as bare, made.start(REPRISE) as ours:
                for running in (bare, ours):
                    for _ in range(WARM):
                        running.run("pass")
                for name, (code, count, _) in WORK.items():

                    def measure(kernel: str, name: str = name, code: str = code) -> None:
                        running = bare if kernel == BARE else ours
                        times[kernel, name] += [running.run(code) for _ in range(BLOCK)]

                    blocks = max(1, count * options.cells // 200 // BLOCK)
                    alternating(blocks, lambda: measure(BARE), lambda: measure(REPRISE))
        about = {"backend": options.backend, **machine(made.home)}
    ratios = [
        Ratio(name, "ms", times[REPRISE, name], times[BARE, name], target)
        for name, (_, _, target) in WORK.items()
    ]
    return report(ratios, about, as_json=options.json)


if __name__ == "__main__":
    sys.exit(main())
