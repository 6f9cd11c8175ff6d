"""How much memory the parts of a Reprise kernel keep resident, beside a bare ipykernel.

    python benchmarks/memory.py [--backend B] [--kernels N] [--json]

N kernels of each kind are started, each runs a few cells, and the processes of one of each (the
median by total) are listed. PSS counts a shared page in parts, one for each process that has it,
so it is what one more kernel costs; RSS counts it whole in each.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections import defaultdict
from pathlib import Path

import psutil
from beside import BARE, REPRISE, Running, bench, machine

CELLS = (
    "import json, re, collections",
    "table = [{'n': n, 'name': str(n)} for n in range(1000)]",
    "print(collections.Counter(len(row['name']) for row in table))",
    "table[0]",
)
MIB = 1 << 20

Sizes = dict[str, dict[str, float]]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--backend", default="bubblewrap")
    parser.add_argument("--kernels", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with bench(options.backend) as made, contextlib.ExitStack() as stack:
        found: dict[str, list[Sizes]] = defaultdict(list)
        running = [
            (name, stack.enter_context(made.start(name)))
            for _ in range(options.kernels)
            for name in (BARE, REPRISE)
        ]
        for _, kernel in running:
            for code in CELLS:
                kernel.run(code)
        for name, kernel in running:
            found[name].append(sizes(kernel))
        about = {"backend": options.backend, "kernels": options.kernels, **machine(made.home)}
    bare, ours = _middle(found[BARE]), _middle(found[REPRISE])
    rows = {"bare ipykernel": bare["language kernel"], **ours, "all of Reprise": _sum(ours)}
    ratio = _total(ours) / _total(bare)
    if options.json:
        print(json.dumps({**about, "mib": rows, "ratio_pss": round(ratio, 2)}, indent=1))
        return 0
    print(f"{'':18}{'PSS':>10}{'RSS':>10}  MiB")
    for name, size in rows.items():
        print(f"{name:18}{size['pss']:10.1f}{size['rss']:10.1f}")
    print(f"all of Reprise / bare ipykernel (PSS): {ratio:.2f}")
    print(", ".join(f"{name} {value}" for name, value in about.items()))
    return 0


def sizes(kernel: Running) -> Sizes:
    """MiB of each part of one kernel."""
    first = psutil.Process(kernel.pid)
    parts: Sizes = {}
    for process in [first, *first.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            size = parts.setdefault(_part(process), {"pss": 0.0, "rss": 0.0})
            size["pss"] += pss(process.pid) / MIB
            size["rss"] += process.memory_info().rss / MIB
    return parts


def _part(process: psutil.Process) -> str:
    line = " ".join(process.cmdline()[:8])
    for mark, part in (
        ("ipykernel_launcher", "language kernel"),
        ("guest/__main__.py", "guest"),
        ("reprise.jupyter", "router"),
        ("bwrap", "bubblewrap"),
    ):
        if mark in line:
            return part
    return "other"


def pss(pid: int) -> int:
    """Bytes, as smaps_rollup says. Exits where the kernel does not let us ask (needs root)."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except PermissionError:
        raise SystemExit(
            f"Process {pid} of the sandbox may not be looked into. Run this as root."
        ) from None
    return next(int(x.split()[1]) << 10 for x in text.splitlines() if x.startswith("Pss:"))


def _total(sizes: Sizes) -> float:
    return sum(size["pss"] for size in sizes.values())


def _sum(sizes: Sizes) -> dict[str, float]:
    return {key: sum(size[key] for size in sizes.values()) for key in ("pss", "rss")}


def _middle(all_sizes: list[Sizes]) -> Sizes:
    return sorted(all_sizes, key=_total)[len(all_sizes) // 2]


if __name__ == "__main__":
    sys.exit(main())
