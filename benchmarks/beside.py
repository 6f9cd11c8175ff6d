"""The two kernels that are measured beside each other: Reprise and a bare ipykernel.

Both run on the Python that runs the benchmark. Reprise gets a REPRISE_HOME of its own, with an
embedded Postgres that commits durably (as it does for anybody), removed at the end.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager

from reprise.jupyter.kernelspec import write_kernelspec
from reprise.log.embedded import Server
from reprise.settings import RUN_UNTRUSTED

BARE = "bare"
REPRISE = "reprise"
#: Seconds until a kernel that does not answer is given up.
PATIENCE_S = 180.0


@dataclass(frozen=True)
class Bench:
    """Where the kernels of one benchmark come from and what they are started with."""

    folder: Path
    home: Path
    env: Mapping[str, str]
    specs: KernelSpecManager

    def manager(self, name: str) -> KernelManager:
        """A manager for a kernel of that name that is not started yet."""
        return KernelManager(kernel_name=name, kernel_spec_manager=self.specs)

    def start(self, name: str, **env: str) -> Running:
        return Running(self, name, env)


class Running:
    """A started kernel with a client; `start_ms` is from launch to the end of its first cell."""

    def __init__(self, bench: Bench, name: str, env: Mapping[str, str]) -> None:
        began = time.perf_counter()
        self.manager = bench.manager(name)
        with (bench.folder / f"{name}.log").open("ab") as said:
            self.manager.start_kernel(
                cwd=str(bench.folder / "notebooks"),
                env={**bench.env, **env},
                stdout=said,
                stderr=said,
            )
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=PATIENCE_S)
        self.ready_ms = (time.perf_counter() - began) * 1e3
        self.run("pass")
        self.start_ms = (time.perf_counter() - began) * 1e3

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel()
        self.manager.cleanup_resources()

    @property
    def pid(self) -> int:
        return int(self.manager.provisioner.pid)

    def run(self, code: str) -> float:
        """Milliseconds from a cell's request to both its idle and its reply."""
        began = time.perf_counter()
        msg_id = self.client.execute(code)
        while True:
            message = self.client.get_iopub_msg(timeout=PATIENCE_S)
            if (
                message["parent_header"].get("msg_id") == msg_id
                and message["msg_type"] == "status"
                and message["content"]["execution_state"] == "idle"
            ):
                break
        reply = self.client.get_shell_msg(timeout=PATIENCE_S)
        took = (time.perf_counter() - began) * 1e3
        if reply["content"]["status"] != "ok":
            raise SystemExit(f"the cell {code[:60]!r} failed: {reply['content']}")
        return took


@contextmanager
def bench(backend: str) -> Iterator[Bench]:
    with tempfile.TemporaryDirectory(prefix="reprise-bench-") as name:
        folder = Path(name)
        home = folder / "home"
        (folder / "notebooks").mkdir()
        kernels = folder / "kernels"
        write_kernelspec(kernels / REPRISE)
        bare = kernels / BARE
        bare.mkdir()
        argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        told = {"argv": argv, "display_name": BARE, "language": "python"}
        (bare / "kernel.json").write_text(json.dumps(told))
        specs = KernelSpecManager(kernel_dirs=[str(kernels)], ensure_native_kernel=False)
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("REPRISE_", "JPY_"))}
        env = {**kept, "REPRISE_BACKEND": backend, "REPRISE_HOME": str(home)}
        # What is mounted here is the benchmark's own.
        env[RUN_UNTRUSTED] = "yes"
        try:
            yield Bench(folder, home, env, specs)
        finally:
            if home.exists():
                asyncio.run(Server(home).stop())


def fsync_ms(folder: Path) -> float:
    """The median of 8 KiB written and synced, as Postgres does for a commit; milliseconds."""
    times = []
    with (folder / "fsync").open("wb", buffering=0) as file:
        for _ in range(100):
            file.seek(0)
            file.write(b"x" * 8192)
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            times.append((time.perf_counter() - began) * 1e3)
    return statistics.median(times)


def machine(folder: Path) -> dict[str, float]:
    """What a reader needs to judge the figures: a commit's floor here, and how busy it is."""
    load = os.getloadavg()[0]
    return {
        "fsync_ms": round(fsync_ms(folder), 3),
        "load": round(load, 2),
        "cpus": float(os.cpu_count() or 1),
    }


@dataclass(frozen=True)
class Ratio:
    """One measure of Reprise and of what stands beside it, by default a bare ipykernel.

    target: what the ratio of the medians should not pass.
    """

    name: str
    unit: str
    reprise: Sequence[float]
    bare: Sequence[float]
    target: float | None = None
    beside: str = BARE

    @property
    def ratio(self) -> float:
        return statistics.median(self.reprise) / statistics.median(self.bare)

    @property
    def met(self) -> bool:
        return self.target is None or self.ratio <= self.target

    def to_json(self) -> dict[str, Any]:
        def summary(values: Sequence[float]) -> dict[str, float]:
            return {
                "median": round(statistics.median(values), 3),
                "p95": round(_at(values, 0.95), 3),
                "count": len(values),
            }

        return {
            "name": self.name,
            "unit": self.unit,
            "reprise": summary(self.reprise),
            "bare": summary(self.bare),
            "ratio": round(self.ratio, 3),
            "ratio_p95": round(_at(self.reprise, 0.95) / _at(self.bare, 0.95), 3),
            "target": self.target,
            "beside": self.beside,
        }

    def __str__(self) -> str:
        target = "" if self.target is None else f" (at most {self.target:.2f})"
        return (
            f"{self.name:32} {statistics.median(self.reprise):9.2f} {self.unit:3}"
            f"  {self.beside} {statistics.median(self.bare):9.2f} {self.unit:3}"
            f"  ratio {self.ratio:5.2f}{target}"
            f"  p95 {_at(self.reprise, 0.95):.2f} / {_at(self.bare, 0.95):.2f}"
        )


def _at(values: Sequence[float], part: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]


def report(ratios: Sequence[Ratio], about: Mapping[str, Any], *, as_json: bool) -> int:
    """Print the result; 1 when a target was missed."""
    if as_json:
        print(json.dumps({**about, "measures": [ratio.to_json() for ratio in ratios]}, indent=1))
    else:
        for ratio in ratios:
            print(ratio)
        print(", ".join(f"{name} {value}" for name, value in about.items()))
    return 0 if all(ratio.met for ratio in ratios) else 1


def alternating(rounds: int, first: Callable[[], None], second: Callable[[], None]) -> None:
    """Both, `rounds` times, the order swapped each time: a busy moment hits both alike."""
    for number in range(rounds):
        for measure in (first, second) if number % 2 == 0 else (second, first):
            measure()
