"""Whether a log of 100,000 steps is as quick as one of 1,000: append, tail, summaries, take.

    python benchmarks/long_log.py [--steps N]

Prints each time for both lengths and the ratio; planning reads `summaries`, so that is held
against one second.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
import uuid
from pathlib import Path

from reprise.log.connect import open_connection
from reprise.log.embedded import Server
from reprise.log.model import NewOutcome, NewStep, OutputEntry, outputs_hash
from reprise.log.postgres import Log
from reprise.log.writer import Writer

ENTRIES = [OutputEntry("stream", {"name": "stdout", "text": "a line of output\n" * 3})]
DIGEST = outputs_hash(ENTRIES)
PAYLOAD = {"header": {"msg_id": "0" * 32}, "metadata": {}, "content": {"code": "x = x + 1"}}


_COPIES = (
    """
    INSERT INTO reprise.steps
           (session, seq, event, owner, epoch, kind, environment, at, body, digest)
    SELECT session, n, 2 * n, owner, epoch, kind, environment, at, body, sha256(n::text::bytea)
      FROM reprise.steps, generate_series(1, %(last)s) AS n
     WHERE session = %(session)s AND seq = 0
    """,
    """
    INSERT INTO reprise.outcomes
           (session, seq, event, owner, epoch, status, duration_us, execution_count, at, body,
            chain)
    SELECT session, n, 2 * n + 1, owner, epoch, status, duration_us, execution_count, at, body,
           sha256(n::text::bytea)
      FROM reprise.outcomes, generate_series(1, %(last)s) AS n
     WHERE session = %(session)s AND seq = 0
    """,
    """
    INSERT INTO reprise.outputs (session, seq, number, event, owner, epoch, late, body)
    SELECT session, n, n, 2 * n + 1, owner, epoch, late, body
      FROM reprise.outputs, generate_series(1, %(last)s) AS n
     WHERE session = %(session)s AND seq = 0
    """,
    """
    UPDATE reprise.heads
       SET next_seq = %(last)s + 1, next_event = 2 * (%(last)s + 1), next_output = %(last)s + 1
     WHERE session = %(session)s
    """,
)


async def append(writer: Writer, count: int) -> None:
    for number in range(count):
        step = await writer.append_step(NewStep("cell", PAYLOAD, "e" * 64, number))
        await writer.record_outcome(
            step.seq, NewOutcome("ok", DIGEST, number, duration_us=5), ENTRIES
        )


async def fill(log: Log, session: uuid.UUID, length: int) -> None:
    """Copy the first step until there are `length`, past the triggers: with other digests than a
    real log's, but with the same rows, sizes and indexes."""
    if log._server is None:
        raise SystemExit("this needs the embedded server")
    connection = await open_connection(log._server.owner_dsn)
    await connection.execute("SET session_replication_role = replica")
    for statement in _COPIES:
        await connection.execute(statement, {"last": length - 1, "session": session})
    await connection.execute("ANALYZE")
    await connection.close()


async def timed(log: Log, session: uuid.UUID) -> dict[str, float]:
    """Seconds for what a kernel does with a session of this length; medians of several."""
    times: dict[str, list[float]] = {}

    def note(name: str, began: float, per: int = 1) -> None:
        times.setdefault(name, []).append((time.perf_counter() - began) / per)

    for _ in range(7):
        began = time.perf_counter()
        writer = await log.acquire(session, {})
        note("take the session", began)
        began = time.perf_counter()
        await append(writer, 100)
        note("append a pair", began, 100)
        began = time.perf_counter()
        tail = [record async for record in writer.records(writer.next_seq - 20)]
        note("read the last 20", began)
        if len(tail) != 20:
            raise SystemExit("the tail is not whole")
        began = time.perf_counter()
        await log.sessions()
        note("list sessions", began)
        began = time.perf_counter()
        summaries = await writer.summaries()
        note("summaries", began)
        if len(summaries) != writer.next_seq:
            raise SystemExit("the summaries are not whole")
        await writer.close()
    return {name: statistics.median(values) for name, values in times.items()}


async def measure(home: Path, steps: int) -> None:
    log = await Log.connect(home=home)
    found = []
    for length in (1000, steps):
        session = await log.begin(kernel="python3")
        writer = await log.acquire(session, {})
        await append(writer, 1)  # the rows that `fill` copies
        await writer.close()
        await fill(log, session, length)
        found.append(await timed(log, session))
    short, long = found
    print(f"{'':18}{'1,000':>12}{steps:>12,}{'ratio':>8}")
    for name in short:
        print(
            f"{name:18}{short[name] * 1e3:9.2f} ms{long[name] * 1e3:9.2f} ms"
            f"{long[name] / short[name]:8.2f}"
        )
    await log.close()
    if long["summaries"] > 1:
        raise SystemExit("summaries take more than a second")


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
