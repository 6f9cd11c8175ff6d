#!/usr/bin/env python3
"""Runs other projects' test suites against the Reprise kernel, presented to them as `python3`.

usage: run.py [--backend B ...] [--suite S ...] [--bare] [--verbose]

The tests come from their projects' source archives and run in an environment of their own (see
environment.py); the kernel runs from the Python that runs this. For each backend (default:
bubblewrap and process) and suite one line is printed, and one for each test that failed. A test
that failed is tried once more alone, since many of these tests measure time, and the line says so.
Exits 1 when a suite passes fewer tests than a bare ipykernel does, or one fails that is not in
catalogue.EXCEPTED. `--bare` runs a bare ipykernel instead, to count anew what it passes.
"""

# ruff: noqa: T201

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from catalogue import EXCEPTED, SUITES, Suite
from environment import Environment, ready

from reprise.jupyter.kernelspec import write_kernelspec
from reprise.log.embedded import Server

#: Seconds that one test, and one suite, may take. Far more than they need, so that only what
#: hangs is cut.
TEST_S = 120
SUITE_S = 1800
#: Seconds that a kernel has to notice that its parent is gone.
END_S = 30

BARE = "bare ipykernel"
RECORDED = Path(__file__).parent / "recorded.py"

#: What became of each test: `{node id: {outcome, said}}`.
Results = dict[str, dict[str, str]]


@dataclass(frozen=True)
class Kernel:
    """What the suites find as `python3`, and the variables it is started with."""

    name: str
    variables: dict[str, str]

    @property
    def excepted(self) -> dict[str, str]:
        return EXCEPTED.get(self.name, {})


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--backend", action="append", choices=list(EXCEPTED), metavar="B")
    parser.add_argument("--suite", action="append", choices=[suite.name for suite in SUITES])
    parser.add_argument("--bare", action="store_true", help="run a bare ipykernel instead")
    parser.add_argument("--verbose", action="store_true", help="show why each test failed")
    options = parser.parse_args()
    environment = ready()
    wanted = [suite for suite in SUITES if not options.suite or suite.name in options.suite]
    fine = True
    for name in [BARE] if options.bare else options.backend or ["bubblewrap", "process"]:
        with kernel(name) as started:
            _check_kernel(environment, started)
            for suite in wanted:
                fine &= _run_suite(environment, started, suite, verbose=options.verbose)
    return 0 if fine else 1


@contextmanager
def kernel(name: str) -> Iterator[Kernel]:
    """A kernelspec `python3` in a folder of its own, with an own log for Reprise."""
    folder = Path(tempfile.mkdtemp(prefix="reprise-suites-"))
    home = folder / "home"
    variables = {
        key: value for key, value in os.environ.items() if not key.startswith(("REPRISE_", "JPY_"))
    }
    variables |= {
        "JUPYTER_PATH": str(folder),
        # Else the kernelspec of the suites' own environment would be found first.
        "JUPYTER_PREFER_ENV_PATH": "0",
        "PYTHONWARNINGS": "ignore",
    }
    spec = folder / "kernels" / "python3"
    if name == BARE:
        spec.mkdir(parents=True)
        argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        told = {"argv": argv, "display_name": BARE, "language": "python"}
        told["metadata"] = {"debugger": True}
        (spec / "kernel.json").write_text(json.dumps(told))
    else:
        write_kernelspec(spec)
        variables |= {"REPRISE_BACKEND": name, "REPRISE_HOME": str(home)}
    try:
        yield Kernel(name, variables)
        _wait_for_kernels(folder)
    finally:
        if home.exists():
            asyncio.run(Server(home).stop())
        shutil.rmtree(folder, ignore_errors=True)


def _wait_for_kernels(folder: Path) -> None:
    """Kernels end with the test process that started them; exits when one is left behind."""
    left = [process for process in psutil.process_iter() if _is_of(process, folder)]
    _, alive = psutil.wait_procs(left, timeout=END_S)
    for process in alive:
        process.kill()
    if alive:
        sys.exit(f"{len(alive)} kernels outlived their tests by {END_S} s.")


def _is_of(process: psutil.Process, folder: Path) -> bool:
    with suppress(psutil.Error):
        kernel = "-f" in process.cmdline()
        return kernel and process.environ().get("JUPYTER_PATH") == str(folder)
    return False


def _check_kernel(environment: Environment, kernel: Kernel) -> None:
    """Refuse to count another kernel's successes as ours."""
    code = "from jupyter_client.kernelspec import get_kernel_spec as g; print(g('python3').argv)"
    found = subprocess.run(
        [environment.python, "-c", code],
        env=kernel.variables,
        capture_output=True,
        text=True,
        timeout=TEST_S,
        check=True,
    ).stdout
    program = "ipykernel_launcher" if kernel.name == BARE else "reprise.jupyter"
    if sys.executable not in found or program not in found:
        sys.exit(f"The suites would not run this kernel, but {found.strip()}")


def _run_suite(environment: Environment, kernel: Kernel, suite: Suite, *, verbose: bool) -> bool:
    began = time.monotonic()
    results = _pytest(environment, kernel, suite, suite.tests)
    again = [name for name in failed(results) if name not in kernel.excepted]
    second = _pytest(environment, kernel, suite, again) if again else {}
    mended = [name for name in again if second.get(name, {}).get("outcome") == "passed"]
    first = {name: _last_line(results[name]["said"]) for name in mended}
    for name in mended:
        results[name] = second[name]
    passed = sum(result["outcome"] == "passed" for result in results.values())
    skipped = sum(result["outcome"] == "skipped" for result in results.values())
    left = failed(results)
    excepted = [name for name in left if name in kernel.excepted]
    unexpected = [name for name in left if name not in kernel.excepted]
    print(
        f"{kernel.name:14}  {suite.name:20} {passed:3} of {len(results) - skipped:3} passed"
        f" (least {suite.least}), {len(excepted)} excepted, {skipped} skipped,"
        f" {len(mended)} at a second try, {time.monotonic() - began:.0f} s",
        flush=True,
    )
    for name in excepted:
        print(f"    excepted: {name}: {kernel.excepted[name]}")
    for name in mended:
        print(f"    passed when tried again: {name}: {first[name]}")
    for name in unexpected:
        print(f"    failed: {name}: {_last_line(results[name]['said'])}")
        if verbose:
            print(results[name]["said"])
    for name, result in results.items():
        if result["outcome"] == "passed" and name in kernel.excepted:
            print(f"    passed this time, though it is excepted: {name}")
    sys.stdout.flush()
    return passed + len(excepted) >= suite.least and (not unexpected or kernel.name == BARE)


def failed(results: Results) -> list[str]:
    return [name for name, result in results.items() if result["outcome"] == "failed"]


def _pytest(
    environment: Environment, kernel: Kernel, suite: Suite, tests: Sequence[str]
) -> Results:
    """Run tests of a suite; raises SystemExit with what pytest said when it could not."""
    with tempfile.TemporaryDirectory(prefix="reprise-suite-") as scratch:
        results = Path(scratch) / "results.json"
        # Of the archive's own configuration only what its tests need: no coverage, no warnings
        # as errors (they are about other projects' code on other versions than it was made for).
        options = ["-q", "-p", "no:cacheprovider", "-o", "addopts=", "-o", "filterwarnings=ignore"]
        command = [environment.python, RECORDED, results, *options, "--timeout", TEST_S, *tests]
        process = subprocess.Popen(
            [str(part) for part in command],
            cwd=environment.tests_of(suite),
            env=kernel.variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            said, _ = process.communicate(timeout=SUITE_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            said, _ = process.communicate()
        found: Any = json.loads(results.read_text()) if results.exists() else {}
        if not found:
            sys.exit(f"{suite.name} did not come to its end:\n{said[-4000:]}")
        return dict(found)


def _last_line(said: str) -> str:
    """What pytest marks as the error (`E   …`), or else the last line."""
    lines = said.strip().splitlines() or [""]
    errors = [line[1:].strip() for line in lines if line.startswith("E  ")]
    return (errors or lines)[0 if errors else -1][:160]


if __name__ == "__main__":
    sys.exit(main())
