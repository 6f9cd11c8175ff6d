"""Kills parts of living kernels at random moments and counts broken promises (there are none).

    python -m benchmarks.soak --kills 1000

Runs random cells in real sessions on real sandboxes and a real Postgres, kills a random part of
it (router, sandbox, guest, language kernel, Postgres, the connections to it, or all at once) at a
random moment, and after each kill compares what the client was told, what the log holds, what the
digest chain proves and what the interpreter remembers (tests/faults/history.py says how). Exits
with 1 when any of that disagrees. Needs the test dependencies (`pip install -e '.[test]'`).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import random
import shutil
import signal
import statistics
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path

from reprise.log.postgres import Log
from tests.faults.history import BEGIN, History
from tests.fixtures.kernel import Database, Kernels
from tests.fixtures.postgres import TestServer

KINDS = ("router", "sandbox", "guest", "language", "postgres", "connections", "everything")
BACKENDS = ("process", "bubblewrap")

#: A new session begins after so many kills, so that replays stay short and histories differ.
KILLS_PER_SESSION = 10


@dataclass
class Tally:
    """What happened, added up."""

    kills: dict[str, int] = field(default_factory=dict)
    ways_back: dict[str, list[float]] = field(default_factory=dict)
    cells: int = 0
    steps: int = 0
    sessions: int = 0
    violations: list[str] = field(default_factory=list)

    @property
    def total(self) -> int:
        return sum(self.kills.values())

    def add(self, other: Tally) -> None:
        for kind, count in other.kills.items():
            self.kills[kind] = self.kills.get(kind, 0) + count
        for kind, times in other.ways_back.items():
            self.ways_back.setdefault(kind, []).extend(times)
        self.cells += other.cells
        self.steps += other.steps
        self.sessions += other.sessions
        self.violations += other.violations


class Soak:
    """Kills in one session after another, on one server."""

    def __init__(self, server: TestServer, folder: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.server = server
        self.folder = folder
        home = folder / "home"
        home.mkdir(mode=0o700)
        self.database = Database(server, server.create_database(), home)
        asyncio.run(self._migrate())
        self.tally = Tally()

    async def _migrate(self) -> None:
        await (await Log.connect(self.database.dsn, home=self.database.home)).close()

    def session(self, kills: int, backend: str | None = None) -> None:
        """One session with so many kills."""
        kernels = Kernels(self.database, self.folder / f"session-{self.tally.sessions}")
        kernels.folder.mkdir()
        backend = backend or self.random.choice(BACKENDS)
        self.tally.sessions += 1
        where = f"session {self.tally.sessions} on {backend}"
        try:
            history = History.begin(kernels, kernels(backend))
            for _ in range(kills):
                kind = self.random.choice(KINDS)
                self.kill(history, kind, where)
            self.tally.cells += len(history.cells)
            self.tally.steps += len(kernels.read(history.kernel).steps)
        except Exception:  # noqa: BLE001 - reported as a violation; the next session goes on
            logs = kernels.started[-1].log()[-2000:] if kernels.started else ""
            self.tally.violations.append(f"{where}: {traceback.format_exc()}\n{logs}")
        finally:
            kernels.close()
            shutil.rmtree(kernels.folder, ignore_errors=True)

    def kill(self, history: History, kind: str, where: str) -> None:
        for _ in range(self.random.randint(0, 2)):
            self.quiet(history)
        # In mid-cell, between two of a burst, or with nothing running.
        for _ in range(self.random.choice((0, 1, 1, 1, 3))):
            history.send(self.body())
        self.pause(history, self.random.choice((0.0, 0.02, 0.1, 0.3)) * self.random.random())
        began = time.monotonic()
        self.strike(history, kind)
        if self.random.random() < 0.2:
            # On the way back, once more.
            self.pause(history, self.random.random())
            again = self.random.choice(KINDS)
            self.strike(history, again)
            self.tally.kills[again] = self.tally.kills.get(again, 0) + 1
        self.tally.kills[kind] = self.tally.kills.get(kind, 0) + 1
        # Every cell that was sent is answered, and the next one stands on what the log says.
        history.finish()
        state = history.state()
        self.tally.ways_back.setdefault(kind, []).append(time.monotonic() - began)
        found = [
            f"{where}, kill {self.tally.total} ({kind}): {v}" for v in history.violations(state)
        ]
        self.tally.violations += found
        if found:
            raise AssertionError("the session is given up after a violation")

    def pause(self, history: History, seconds: float) -> None:
        """Let the kernel work for a while, taking in what it says."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            history.client.pump(left)

    def body(self) -> str:
        number = self.random.randint(0, 10_000)
        return self.random.choice(
            (
                "",
                f"print({number})",
                f"for i in range({number % 300}): print(i)",
                f"time.sleep({number % 200 / 1000}); print('slept')",
                f"print('before', flush=True); time.sleep({number % 400 / 1000}); print('after')",
                "raise ValueError('on purpose')",
                f"import os; open('file-{number % 5}', 'w').write('{number}' * 1000)",
            )
        )

    def quiet(self, history: History) -> None:
        """Something that ends before the kill comes."""
        act = self.random.choices(("cell", "input", "interrupt", "restart"), (6, 1, 1, 1))[0]
        if act == "cell":
            history.run(self.body())
        elif act == "input":
            history.client.handle_input = lambda _: "answered"
            ran = history.run("print(input('say something '))")
            assert ran.text().strip() == "answered", ran
            history.client.handle_input = None
        elif act == "interrupt":
            sent = history.send("print('running', flush=True); time.sleep(600)")
            history.client.shows(sent.msg_id, "running")
            history.client.ask("interrupt_request", channel="control")
            history.finish()
        else:
            history.learn()
            history.kernel.shutdown(restart=True)
            history.again()
            assert history.client.run(BEGIN).status == "ok"

    def strike(self, history: History, kind: str) -> None:
        kernel = history.kernel
        if kind == "connections":
            self.database.lose_connections()
        elif kind == "postgres":
            self.server.stop(signal.SIGKILL)
            self.pause(history, self.random.random())
            self.server.start()
        elif kind in ("sandbox", "guest", "language"):
            kernel.kill(kind)
        elif kind == "router":
            kernel.kill("router")
            history.again()
        else:
            kernel.kill("router")
            self.server.stop(signal.SIGKILL)
            self.server.start()
            history.again()


def soak(kills: int, seed: int, backend: str | None, tell: Callable[[Tally], None]) -> Tally:
    """So many kills on a server of its own."""
    folder = Path(tempfile.mkdtemp(prefix="reprise-soak-"))
    server = TestServer()
    try:
        server.start()
        running = Soak(server, folder, seed)
        while running.tally.total < kills:
            running.session(min(KILLS_PER_SESSION, kills - running.tally.total), backend)
            tell(running.tally)
        return running.tally
    finally:
        server.remove()
        shutil.rmtree(folder, ignore_errors=True)


def table(tally: Tally) -> str:
    lines = [f"{'killed':<12} {'times':>6} {'way back, median':>17} {'longest':>9}"]
    for kind in KINDS:
        times = tally.ways_back.get(kind, [0.0])
        lines.append(
            f"{kind:<12} {tally.kills.get(kind, 0):>6} {statistics.median(times):>15.2f} s"
            f" {max(times):>7.2f} s"
        )
    every = [each for times in tally.ways_back.values() for each in times] or [0.0]
    lines += [
        f"{'in all':<12} {tally.total:>6} {statistics.median(every):>15.2f} s {max(every):>7.2f} s",
        f"{tally.sessions} sessions, {tally.cells} cells sent, {tally.steps} steps recorded",
        f"violations: {len(tally.violations)}",
    ]
    return "\n".join(lines)


def _worker(kills: int, seed: int, backend: str | None) -> Tally:
    told = [0]

    def tell(tally: Tally) -> None:
        print(
            f"worker {os.getpid()}: {tally.total} of {kills} kills,"
            f" {len(tally.violations)} violations",
            *tally.violations[told[0] :],
            sep="\n  ",
            file=sys.stderr,
            flush=True,
        )
        told[0] = len(tally.violations)

    return soak(kills, seed, backend, tell)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=None, help="for the same choices again")
    parser.add_argument("--backend", choices=BACKENDS, default=None, help="default: both")
    parser.add_argument("--workers", type=int, default=1, help="sessions at the same time")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(1 << 32) if options.seed is None else options.seed
    began = time.monotonic()
    tally = Tally()
    shares = [
        options.kills // options.workers + (i < options.kills % options.workers)
        for i in range(options.workers)
    ]
    with ProcessPoolExecutor(
        options.workers, mp_context=multiprocessing.get_context("spawn")
    ) as pool:
        running = [
            pool.submit(_worker, share, seed + number, options.backend)
            for number, share in enumerate(shares)
        ]
        for each in as_completed(running):
            tally.add(each.result())
    for violation in tally.violations:
        print(violation, end="\n\n")
    if options.json:
        medians = {kind: statistics.median(times) for kind, times in tally.ways_back.items()}
        body = {
            "seed": seed,
            "kills": tally.kills,
            "median_way_back_s": medians,
            "sessions": tally.sessions,
            "cells": tally.cells,
            "steps": tally.steps,
            "violations": len(tally.violations),
        }
        print(json.dumps(body, indent=2))
    else:
        print(f"seed {seed}, {time.monotonic() - began:.0f} s")
        print(table(tally))
    return 1 if tally.violations else 0


if __name__ == "__main__":
    sys.exit(main())
