"""How many step + outcome pairs a second one session takes, beside bare single-row inserts.

    python benchmarks/appends.py [--pairs N] [--dsn DSN]

Each pair is two durable commits: the step, then its outcome with its last outputs. The bare
inserts go through the same driver on the same server in the same run, alternating with the
pairs, so that a busy machine slows both. Also printed: what one fsync costs here.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from pathlib import Path

from beside import fsync_ms

from reprise.log.connect import open_connection
from reprise.log.embedded import Server
from reprise.log.model import NewOutcome, NewStep, OutputEntry, outputs_hash
from reprise.log.postgres import Log

CODE = "frame = read('sales.csv')\nframe.groupby('region').agg({'amount': ['mean', 'sum']})\n"


async def measure(dsn: str | None, home: Path, pairs: int) -> None:
    log = await Log.connect(dsn, home=home)
    writer = await log.acquire(await log.begin(kernel="python3"), {"name": "benchmark"})
    bare = await open_connection(dsn or (log._server.owner_dsn if log._server else ""))
    await bare.execute("CREATE SCHEMA IF NOT EXISTS reprise_benchmark")
    await bare.execute("DROP TABLE IF EXISTS reprise_benchmark.bare")
    await bare.execute(
        "CREATE TABLE reprise_benchmark.bare (id bigint PRIMARY KEY, body text NOT NULL)"
    )
    cursor = bare.cursor()
    entries = [OutputEntry("stream", {"name": "stdout", "text": "region  mean  sum\n" * 5})]
    digest = outputs_hash(entries)
    payload = {"header": {"msg_id": "0" * 32}, "metadata": {}, "content": {"code": CODE}}
    pair_times: list[float] = []
    bare_times: list[float] = []
    block = 50
    for start in range(0, pairs, block):
        began = time.perf_counter()
        for number in range(start, start + block):
            step = await writer.append_step(NewStep("cell", payload, "e" * 64, number))
            await writer.record_outcome(step.seq, NewOutcome("ok", digest, number), entries)
        middle = time.perf_counter()
        for number in range(start, start + block):
            await cursor.execute(
                "INSERT INTO reprise_benchmark.bare VALUES (%s, %s)",
                [number, CODE * 4],
                prepare=True,
            )
        pair_times.append((middle - began) / block)
        bare_times.append((time.perf_counter() - middle) / block)
    await bare.execute("DROP SCHEMA reprise_benchmark CASCADE")
    await bare.close()
    pair, single = statistics.median(pair_times), statistics.median(bare_times)
    print(f"fsync (8 KiB, median)          {fsync_ms(home):8.3f} ms")
    print(f"bare INSERT with commit        {single * 1e3:8.3f} ms  {1 / single:8.0f} /s")
    print(f"step + outcome (two commits)   {pair * 1e3:8.3f} ms  {1 / pair:8.0f} pairs/s")
    print(f"best block                     {min(pair_times) * 1e3:8.3f} ms")
    print(f"ratio to two bare INSERTs      {pair / (2 * single):8.2f}")
    report = await log.check(writer.session)
    if report.fault is not None:
        raise SystemExit(f"the log that was measured is not whole: {report.fault}")
    await writer.close()
    await log.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=3000)
    parser.add_argument("--dsn", default=os.environ.get("REPRISE_DSN"))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="reprise-bench-") as folder:
        home = Path(folder)
        try:
            asyncio.run(measure(arguments.dsn, home, arguments.pairs))
        finally:
            asyncio.run(Server(home).stop())


if __name__ == "__main__":
    main()
