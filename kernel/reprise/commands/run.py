"""`reprise run`: executes a notebook in a session, without a browser, and writes a copy."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import time
import uuid
import warnings
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import nbformat
from jupyter_client.kernelspec import NoSuchKernel
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat.warnings import MissingIDFieldWarning

from reprise.client.specs import kernel_specs
from reprise.commands.opened import first_line, took
from reprise.commands.terminal import Terminal
from reprise.errors import UnavailableError, UsageError
from reprise.settings import SESSION
from reprise.workspace.replaced import replacing

EXAMPLES = """\
  reprise run analysis.ipynb                      writes analysis.executed.ipynb
  reprise run analysis.ipynb -o out/report.ipynb
  reprise run analysis.ipynb --session 3f2a1c5e-0d0c-4b7e-9a44-0d4f3d1c2b10
  reprise run analysis.ipynb --json | jq -r .session
"""

#: Seconds a kernel may take to answer after its start. A first sandbox on a cold disk is slow.
START_S = 180


@dataclass(frozen=True)
class CellResult:
    """How a code cell went; `number` counts code cells from 1."""

    number: int
    id: str
    status: Literal["ok", "error", "timeout", "died"]
    seconds: float
    execution_count: int | None = None
    error: str = ""


@dataclass(frozen=True)
class Job:
    """What to run and how."""

    notebook: Any
    source: Path
    output: Path
    kernel: str
    session: uuid.UUID
    timeout: int | None
    allow_errors: bool


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("notebook", type=Path, metavar="NOTEBOOK", help="an .ipynb file")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="where the executed copy goes (default: NAME.executed.ipynb beside the notebook)",
    )
    parser.add_argument(
        "--session",
        type=_session,
        metavar="ID",
        help="go on in this session, or begin one under this id (default: a new one)",
    )
    parser.add_argument(
        "--kernel",
        metavar="NAME",
        help="the kernelspec (default: the notebook's own if it is one of Reprise's, else reprise)",
    )
    parser.add_argument("--timeout", type=int, metavar="S", help="seconds that a cell may take")
    parser.add_argument(
        "--allow-errors", action="store_true", help="go on after a cell that failed; still exit 1"
    )
    parser.add_argument("--verbose", action="store_true", help="a line for each cell on stderr")
    parser.add_argument("--json", action="store_true", help="the result as JSON")


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    notebook = read_notebook(args.notebook)
    job = Job(
        notebook=notebook,
        source=args.notebook,
        output=args.output or args.notebook.with_suffix(".executed.ipynb"),
        kernel=args.kernel or kernel_of(notebook, args.notebook),
        session=args.session or uuid.uuid4(),
        timeout=args.timeout,
        allow_errors=args.allow_errors,
    )
    if not job.output.parent.is_dir():
        raise UsageError(f"There is no folder {job.output.parent} to write {job.output.name} into.")
    verbose = args.verbose or (terminal.err.isatty() and not args.json)
    cells: list[CellResult] = []
    try:
        asyncio.run(_execute(job, cells, terminal, verbose))
    finally:
        # Also after Ctrl-C and a dead kernel: what was computed until then is worth having.
        write_notebook(notebook, job.output)
    failed = [cell for cell in cells if cell.status != "ok"]
    if args.json:
        terminal.json(
            {
                "session": str(job.session),
                "notebook": str(job.source),
                "output": str(job.output),
                "kernel": job.kernel,
                "ok": not failed,
                "failed": failed[0].number if failed else None,
                "cells": [vars(cell) for cell in cells],
            }
        )
    else:
        for cell in failed:
            terminal.error(f"cell {cell.number} ({cell.id}) failed: {cell.error}")
        terminal.line(f"{len(cells)} cells run, written to {job.output}")
        terminal.line(f"session {job.session}")
    return 1 if failed else 0


async def _execute(job: Job, cells: list[CellResult], terminal: Terminal, verbose: bool) -> None:
    codes = [
        (index, cell)
        for index, cell in enumerate(job.notebook.cells)
        if cell.cell_type == "code" and cell.source.strip()
    ]
    async with _client(job) as client:
        for number, (index, cell) in enumerate(codes, start=1):
            terminal.status(f"[{number}/{len(codes)}] {first_line(cell.source)}")
            result = await _run_cell(client, cell, index, number)
            cells.append(result)
            if verbose:
                terminal.progress(
                    f"[{number}/{len(codes)}] {result.status:7} "
                    f"{took(round(result.seconds * 1e6)):>9}  {first_line(cell.source)}"
                )
            if result.status != "ok" and (result.status != "error" or not job.allow_errors):
                break
        client.set_widgets_metadata()
    terminal.status("")


@contextlib.asynccontextmanager
async def _client(job: Job) -> AsyncIterator[NotebookClient]:
    """A kernel on the job's session, and nbclient's client to it."""
    with kernel_specs() as specs:
        manager = AsyncKernelManager(kernel_name=job.kernel, kernel_spec_manager=specs)
        client = NotebookClient(
            job.notebook,
            km=manager,
            timeout=job.timeout,
            startup_timeout=START_S,
            allow_errors=False,
        )
        folder = str(job.source.resolve().parent)
        env = {**os.environ, SESSION: str(job.session)}
        try:
            await manager.start_kernel(cwd=folder, env=env)
        except NoSuchKernel as error:
            known = ", ".join(sorted(specs.find_kernel_specs()))
            raise UsageError(
                f"There is no kernel named {job.kernel!r}; Jupyter knows {known}. "
                "`reprise kernelspec add` wraps one of them."
            ) from error
        try:
            try:
                await client.async_start_new_kernel_client()
            except RuntimeError as error:
                raise UnavailableError(
                    f"The kernel {job.kernel!r} did not start: {error}. "
                    "`reprise doctor` says what this machine lacks."
                ) from error
            yield client
        finally:
            if client.kc is not None:
                client.kc.stop_channels()
            if manager.has_kernel:
                await manager.shutdown_kernel()


async def _run_cell(client: NotebookClient, cell: Any, index: int, number: int) -> CellResult:
    started = time.perf_counter()
    status: Literal["ok", "error", "timeout", "died"] = "ok"
    error = ""
    try:
        await client.async_execute_cell(cell, index)
    except CellExecutionError as failure:
        status, error = "error", f"{failure.ename}: {failure.evalue}"
    except CellTimeoutError:
        status, error = "timeout", f"it took longer than {client.timeout} s and was interrupted"
    except DeadKernelError:
        status, error = "died", "the kernel process ended; its session is kept in the log"
    return CellResult(
        number=number,
        id=str(cell.get("id", "")),
        status=status,
        seconds=round(time.perf_counter() - started, 3),
        execution_count=cell.execution_count,
        error=error,
    )


def read_notebook(path: Path) -> Any:
    """A notebook of any version that nbformat reads, as version 4. Raises UsageError."""
    try:
        with warnings.catch_warnings():
            # Older notebooks have no cell ids; they get some, and that is all there is to say.
            warnings.simplefilter("ignore", MissingIDFieldWarning)
            notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    except OSError as error:
        raise UsageError(f"The notebook {path} cannot be read: {error.strerror}.") from error
    except (ValueError, AttributeError, KeyError, TypeError, nbformat.ValidationError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UsageError(f"{path} is not a notebook that nbformat can read: {reason}") from error
    return notebook


def kernel_of(notebook: Any, path: Path) -> str:
    """The kernel to use when none was named. Raises UsageError for another language's notebook."""
    spec = notebook.metadata.get("kernelspec", {})
    name = str(spec.get("name", ""))
    if name == "reprise" or name.startswith("reprise-"):
        return name
    language = str(
        spec.get("language") or notebook.metadata.get("language_info", {}).get("name", "")
    )
    if language and language.lower() not in {"python", "ipython"}:
        raise UsageError(
            f"{path} is written for {name or language} ({language}). Wrap its kernel with "
            f"`reprise kernelspec add {name or 'NAME'}` and name it with --kernel "
            f"reprise-{name or 'NAME'}."
        )
    return "reprise"


def write_notebook(notebook: Any, path: Path) -> None:
    """Write it whole or not at all. Raises UnavailableError."""
    text = nbformat.writes(notebook)  # type: ignore[no-untyped-call]
    with replacing(path) as file:
        file.write(text.rstrip("\n").encode("utf-8", "surrogatepass") + b"\n")


def _session(text: str) -> uuid.UUID:
    try:
        return uuid.UUID(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a session's whole id (a UUID)") from None
