"""Whether a fork costs the same whatever the length of the history, and what a collection costs.

    python benchmarks/forks.py [--steps N]

Forks sessions of 1,000 and of N steps in the middle and at the end, then appends while blobs are
collected. A fork is held against 100 ms.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import tempfile
import time
import uuid
from pathlib import Path

from long_log import append, fill

from reprise.log.connect import open_connection
from reprise.log.embedded import Server
from reprise.log.model import NewOutcome, NewStep, outputs_hash
from reprise.log.postgres import Log
from reprise.log.writer import Writer

#: Milliseconds a fork may take (docs/benchmarks.md).
TARGET_MS = 100


async def session_of(log: Log, length: int) -> uuid.UUID:
    session = await log.begin(kernel="python3")
    writer = await log.acquire(session, {})
    await append(writer, 1)  # the rows that `fill` copies
    await writer.close()
    await fill(log, session, length)
    return session


async def forks(log: Log, session: uuid.UUID, length: int) -> dict[str, float]:
    """Medians in milliseconds: a fork, and a fork's first step from the wish to the commit."""
    times: dict[str, list[float]] = {}
    for _ in range(15):
        for where, at in (("in the middle", length // 2), ("at the end", length - 1)):
            began = time.perf_counter()
            fork = await log.fork(session, at)
            forked = time.perf_counter()
            writer = await log.acquire(fork, {})
            await append(writer, 1)
            appended = time.perf_counter()
            await writer.close()
            times.setdefault(f"fork {where}", []).append(forked - began)
            times.setdefault(f"and its first step, {where}", []).append(appended - forked)
    return {name: statistics.median(values) * 1e3 for name, values in times.items()}


async def pairs(writer: Writer, until: asyncio.Event, least: int) -> float:
    """Milliseconds for a step that names a blob and its outcome; median."""
    found = []
    name = await writer.blobs.put(b"named by all")
    while len(found) < least or not until.is_set():
        began = time.perf_counter()
        step = await writer.append_step(NewStep("cell", {}, "e" * 64, 1, blobs=(name,)))
        await writer.record_outcome(step.seq, NewOutcome("ok", outputs_hash(()), 1))
        found.append(time.perf_counter() - began)
    return statistics.median(found) * 1e3


async def collection(log: Log, blobs: int) -> None:
    writer = await log.acquire(await log.begin(kernel="python3"), {})
    done = asyncio.Event()
    done.set()
    quiet = await pairs(writer, done, 200)
    await writer.blobs.put_many([os.urandom(1000) for _ in range(blobs)])
    if log._server is None:
        raise SystemExit("this needs the embedded server")
    owner = await open_connection(log._server.owner_dsn)
    await owner.execute("UPDATE reprise.blobs SET touched_at = '-infinity'")
    await owner.close()
    done.clear()

    async def collect() -> float:
        began = time.perf_counter()
        found = await log.collect()
        done.set()
        if found.blobs != blobs:
            raise SystemExit(f"{found.blobs} blobs were collected, not {blobs}")
        return time.perf_counter() - began

    seconds, beside = await asyncio.gather(collect(), pairs(writer, done, 1))
    report = await log.check(writer.session, blobs=True)
    await writer.close()
    if report.fault is not None:
        raise SystemExit(f"a named blob is gone: {report.fault}")
    print(f"\ncollecting {blobs:,} blobs      {seconds:9.2f} s")
    print(f"a pair without it          {quiet:9.2f} ms")
    print(f"a pair beside it           {beside:9.2f} ms   ratio {beside / quiet:.2f}")


async def measure(home: Path, steps: int) -> None:
    log = await Log.connect(home=home)
    short, long = [await forks(log, await session_of(log, n), n) for n in (1000, steps)]
    print(f"{'':36}{'1,000':>12}{steps:>12,}{'ratio':>8}")
    for name in short:
        print(f"{name:36}{short[name]:9.2f} ms{long[name]:9.2f} ms{long[name] / short[name]:8.2f}")
    await collection(log, 5_000)
    await log.close()
    slowest = max(value for name, value in (short | long).items() if name.startswith("fork"))
    if slowest > TARGET_MS:
        raise SystemExit(f"a fork takes {slowest:.0f} ms, more than {TARGET_MS} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=100_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="reprise-bench-") as folder:
        home = Path(folder)
        try:
            asyncio.run(measure(home, arguments.steps))
        finally:
            asyncio.run(Server(home).stop())


if __name__ == "__main__":
    main()
