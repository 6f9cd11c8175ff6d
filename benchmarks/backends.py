"""What each backend costs, all of them and a bare ipykernel side by side in one run.

    python benchmarks/backends.py [--only B …] [--rounds N] [--images DIR] [--json]

In each round every kernel is started, its sandbox is killed once and resumed, and then all take
turns. Backends that do not work here are named with the reason. Dagger is also measured beside
the same commands done as Archestra does them: one `with_exec` more on a chain for each command.
`--images` is a folder that keeps Dagger's image of this Python from one run to the next (0.5 GB).
Exits 1 when a target of docs/benchmarks.md is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import psutil
from beside import BARE, PATIENCE_S, REPRISE, Bench, Running, bench, machine
from commands import command
from memory import pss

from reprise.errors import RepriseError
from reprise.sandbox.backends import backend

KINDS = ("process", "bubblewrap", "oci:crun", "oci:runc", "oci:runsc", "dagger", "dagger:runsc")
#: name → unit, in the order in which they are shown.
MEASURES = {
    "ready": "ms",  # launch to the end of the first cell, the database running
    "pass": "ms",
    "command": "ms",  # `true`; on bare ipykernel a cell that runs it
    "1 MB stream": "ms",
    "resume": "ms",  # death of the language kernel to the end of the next cell
    "idle": "MiB",
}
WARM = 10
BLOCKS = 4
#: Of each measure in one block.
COUNTS = {"pass": 10, "command": 5, "1 MB stream": 2}
#: What Dagger is meant to reach: measure → (limit, whether it is a ratio to bare ipykernel).
TARGETS = {"pass": (1.5, True), "ready": (1500.0, False), "command": (25.0, False)}
CHAIN = 20

STREAM = "print('x' * 1_000_000)"
RUN_TRUE = "import subprocess; _ = subprocess.run('true', shell=True)"
DIE = "import os; os.kill(os.getpid(), 9)"
#: The engine's daemon: what it has started lately is a sandbox of ours.
ENGINE = "dagger-engine"
#: Runtimes whose processes are left to the machine's first process.
RUNTIMES = ("runc", "crun", "runsc", "runsc-sandbox", "runsc-gofer", "exe")

Times = dict[str, dict[str, list[float]]]


@dataclass
class Found:
    """What was measured: kind → measure → values; why a kind was not; the two ways of commands."""

    times: Times = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))
    absent: dict[str, str] = field(default_factory=dict)
    ours: list[float] = field(default_factory=list)
    chained: list[float] = field(default_factory=list)

    def median(self, kind: str, measure: str) -> float | None:
        values = self.times[kind][measure]
        return statistics.median(values) if values else None

    def ratio(self, kind: str, measure: str) -> float | None:
        ours, bare = self.median(kind, measure), self.median(BARE, measure)
        return ours / bare if ours and bare else None

    def targets(self) -> Iterator[tuple[str, bool]]:
        """(what Dagger reached beside its target, whether it is met)."""
        for measure, (most, is_ratio) in TARGETS.items():
            value = (self.ratio if is_ratio else self.median)("dagger", measure)
            if value is not None:
                unit = " × bare ipykernel" if is_ratio else f" {MEASURES[measure]}"
                yield f"dagger, {measure}: {value:.2f}{unit} (at most {most:g})", value <= most

    def to_json(self) -> dict[str, Any]:
        return {
            "measures": {
                kind: {
                    measure: {
                        "median": self.median(kind, measure),
                        "ratio": self.ratio(kind, measure),
                        "count": len(values),
                    }
                    for measure, values in by_measure.items()
                }
                for kind, by_measure in self.times.items()
            },
            "absent": self.absent,
            "targets": [{"what": what, "met": met} for what, met in self.targets()],
            "commands_ms": {"reprise": self.ours, "chain": self.chained},
        }

    def __str__(self) -> str:
        lines = [" " * 14 + "".join(f"{f'{name}, {unit}':>22}" for name, unit in MEASURES.items())]
        for kind in self.times:
            row = f"{kind:14}"
            for measure in MEASURES:
                value, ratio = self.median(kind, measure), self.ratio(kind, measure)
                times = f" ({ratio:.2f}×)" if ratio and kind != BARE else ""
                row += f"{'–' if value is None else f'{value:.1f}{times}':>22}"
            lines.append(row)
        lines += [f"{kind}: not measured: {why}" for kind, why in self.absent.items()]
        lines += [f"{'met   ' if met else 'MISSED'} {what}" for what, met in self.targets()]
        if self.ours and self.chained:
            ours, chained = statistics.median(self.ours), statistics.median(self.chained)
            lines.append(
                f"the same {CHAIN} commands: {ours:.1f} ms each on a live sandbox, "
                f"{chained:.1f} ms as a chain of with_exec: {chained / ours:.1f} times as long"
            )
        return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=KINDS, default=KINDS, metavar="BACKEND")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--images", type=Path, help="where Dagger's image of this Python is kept")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = Found()
    with bench("process") as made:
        os.environ["REPRISE_HOME"] = str(made.home)
        if options.images is not None:
            options.images.mkdir(parents=True, exist_ok=True)
            (made.home / "images").mkdir(parents=True, mode=0o700)
            (made.home / "images" / "dagger").symlink_to(options.images.resolve())
        kinds = [BARE, *(kind for kind in options.only if _works(made, kind, found))]
        for number in range(options.rounds):
            turned = kinds[number % len(kinds) :] + kinds[: number % len(kinds)]
            measure_round(made, turned, found, last=number == options.rounds - 1)
        if "dagger" in kinds:
            measure_chain(made, found)
        about = {"rounds": options.rounds, **machine(made.home)}
    if options.json:
        print(json.dumps({**about, **found.to_json()}, indent=1))
    else:
        print(found)
        print(", ".join(f"{name} {value}" for name, value in about.items()))
    return 0 if all(met for _, met in found.targets()) else 1


def started(made: Bench, kind: str) -> Running:
    if kind == BARE:
        return made.start(BARE)
    name, _, runtime = kind.partition(":")
    if name == "dagger":
        return made.start(REPRISE, REPRISE_BACKEND=name, REPRISE_DAGGER_RUNTIME=runtime)
    return made.start(REPRISE, REPRISE_BACKEND=kind)


def _works(made: Bench, kind: str, found: Found) -> bool:
    """Whether it works; the first start, which makes the database or an image, is over then."""
    try:
        problems = backend("dagger" if kind.startswith("dagger:") else kind).check()
        if not problems:
            with started(made, kind):
                return True
    except (RepriseError, RuntimeError, SystemExit) as error:
        problems = [str(error)]
    found.absent[kind] = problems[0]
    return False


def measure_round(made: Bench, kinds: list[str], found: Found, *, last: bool) -> None:
    with ExitStack() as stack:
        running: dict[str, Running] = {}
        own: dict[str, set[int]] = {}
        for kind in kinds:
            before = set(psutil.pids())
            with measured(f"{kind}, start", found):
                running[kind] = stack.enter_context(started(made, kind))
                found.times[kind]["ready"].append(running[kind].start_ms)
                own[kind] = set(psutil.pids()) - before
        if last:
            for kind, kernel in running.items():
                found.times[kind]["idle"].append(resident(kernel, own[kind]))
        for kind, kernel in running.items():
            with measured(f"{kind}, resume", found):
                found.times[kind]["resume"].append(resumed(made, kernel, kind))
        for kind, kernel in running.items():
            with measured(f"{kind}, pass", found):
                for _ in range(WARM):
                    kernel.run("pass")
        for block in range(BLOCKS):
            there = list(running)
            for kind in there[block % len(there) :] + there[: block % len(there)]:
                measure_block(kind, running[kind], found)


def measure_block(kind: str, kernel: Running, found: Found) -> None:
    work: dict[str, Callable[[], float]] = {
        "pass": lambda: kernel.run("pass"),
        "command": lambda: kernel.run(RUN_TRUE) if kind == BARE else command(kernel, "true"),
        "1 MB stream": lambda: kernel.run(STREAM),
    }
    for name, once in work.items():
        with measured(f"{kind}, {name}", found):
            for _ in range(COUNTS[name]):
                found.times[kind][name].append(once())


@contextmanager
def measured(what: str, found: Found) -> Iterator[None]:
    """A measure that does not work somewhere is told of, and costs no other."""
    try:
        yield
    except (SystemExit, RuntimeError) as error:
        found.absent[what] = str(error)[:200]


def resident(kernel: Running, own: set[int]) -> float:
    """MiB (PSS) of a kernel's processes: below it, below the engine, or left by a runtime.

    own: the processes that appeared while it was started.
    """
    roots = [psutil.Process(kernel.pid)]
    for process in psutil.process_iter(["name", "ppid"]):
        is_left = process.info["ppid"] == 1 and process.info["name"] in RUNTIMES
        if process.info["name"] == ENGINE or (is_left and process.pid in own):
            roots.append(process)
    total = 0
    for pid in {below.pid for root in roots for below in (root, *root.children(recursive=True))}:
        with suppress(FileNotFoundError, ProcessLookupError, StopIteration, psutil.NoSuchProcess):
            total += pss(pid) if pid in own else 0
    return total / (1 << 20)


def resumed(made: Bench, kernel: Running, kind: str) -> float:
    """Milliseconds from the language kernel's death to the end of a cell that needs its state.

    On a bare ipykernel somebody starts another one and runs the cells again by hand.
    """
    if kind == BARE:
        began = time.perf_counter()
        with made.start(BARE) as fresh:
            fresh.run("value = 41")
            fresh.run("assert value == 41")
            return (time.perf_counter() - began) * 1e3
    kernel.run("value = 41")
    msg_id = kernel.client.execute(DIE)
    while kernel.client.get_shell_msg(timeout=PATIENCE_S)["parent_header"].get("msg_id") != msg_id:
        pass
    began = time.perf_counter()
    kernel.run("assert value == 41")
    return (time.perf_counter() - began) * 1e3


def measure_chain(made: Bench, found: Found) -> None:
    """The same commands as steps of a session, and as execs on a chain that is asked for whole."""
    lines = [f"echo {number} >> log" for number in range(CHAIN)]
    with started(made, "dagger") as kernel:
        command(kernel, "true")
        found.ours += [command(kernel, line) for line in lines]
    root = made.folder / "root"
    _shell_root(root)
    with Path(os.devnull).open("w") as nowhere:
        found.chained += asyncio.run(_chain(root, lines, nowhere))


async def _chain(root: Path, lines: list[str], nowhere: TextIO) -> list[float]:
    import dagger  # noqa: PLC0415  only where Dagger is measured

    times = []
    async with dagger.connection(dagger.Config(log_output=nowhere, retry=None)):
        base = dagger.dag.container().with_rootfs(dagger.dag.host().directory(str(root)))
        base = base.with_env_variable("BEGUN", str(time.time()))
        await base.with_exec(["/bin/sh", "-c", ":"]).sync()
        for count in range(1, len(lines) + 1):
            began = time.perf_counter()
            chain = base
            for line in lines[:count]:
                chain = chain.with_exec(["/bin/sh", "-c", line])
            await chain.stdout()
            times.append((time.perf_counter() - began) * 1e3)
    return times


def _shell_root(root: Path) -> None:
    """A root file system with this machine's sh and nothing else."""
    shell = Path("/bin/sh").resolve()
    (root / "bin").mkdir(parents=True)
    shutil.copy2(shell, root / "bin" / "sh")
    said = subprocess.run(["ldd", str(shell)], capture_output=True, text=True, check=True).stdout
    for needed in (word for word in said.split() if word.startswith("/")):
        place = root / needed.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(Path(needed).resolve(), place)


if __name__ == "__main__":
    sys.exit(main())
