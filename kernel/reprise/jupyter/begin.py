"""The first moments of a kernel process: its sandbox starts while the rest is still being imported.

A kernel's start is mostly Python's imports, twice: the language kernel's inside the sandbox and
the router's outside. So only what starting a sandbox takes is imported here at first; the
router, Postgres and the replay follow while the language kernel starts on another core.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from reprise import settings
from reprise.errors import RepriseError, SandboxError
from reprise.jupyter.arguments import split_arguments
from reprise.jupyter.kernelspec import NATIVE, language_kernel
from reprise.replay.link import KernelLink
from reprise.sandbox.backends import backend
from reprise.sandbox.connection import Guest
from reprise.sandbox.contract import Backend, LanguageKernel, SandboxSpec
from reprise.sandbox.environment import FIXED_VARIABLES, sandbox_spec
from reprise.sandbox.named import NamedEnvironment, load

log = logging.getLogger("reprise")

#: Meant for the router alone, where the language kernel otherwise gets the whole environment.
_ROUTERS_OWN = ("JPY_PARENT_PID", "JPY_INTERRUPT_EVENT")


@dataclass(frozen=True)
class Beginning:
    """What a kernel process knows before its router exists.

    link: to the first sandbox, already starting; None when it could not be started (the first
      cell tries again and tells why).
    """

    connection_file: Path
    kernel: str
    environ: Mapping[str, str]
    backend: Backend
    environment: NamedEnvironment
    language: LanguageKernel
    spec: SandboxSpec
    folder: Path
    link: KernelLink | None


def main(argv: list[str] | None = None) -> int:
    """Run a kernel process to its end; returns its exit code."""
    logging.basicConfig(
        level=os.environ.get("REPRISE_LOG_LEVEL", "WARNING").upper(),
        format="[reprise] %(levelname)s %(message)s",
        stream=sys.stderr,
    )
    options, extra = _parse(sys.argv[1:] if argv is None else argv)
    try:
        asyncio.run(_run(options, extra, os.environ))
    except RepriseError as error:
        log.critical("%s", error)
        return error.exit_code
    return 0


def _parse(argv: list[str]) -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(
        prog="python -m reprise.jupyter", description="The Reprise kernel; Jupyter starts it."
    )
    parser.add_argument("-f", "--f", dest="connection_file", required=True, type=Path)
    parser.add_argument("--kernel", default=NATIVE, help="the language kernel's kernelspec")
    # What front ends append (nbclient: --HistoryManager.hist_file=…) is for the language kernel.
    return parser.parse_known_args(argv)


async def _run(
    options: argparse.Namespace, arguments: Sequence[str], environ: Mapping[str, str]
) -> None:
    parent = os.getppid()
    beginning = await _begin(options, arguments, environ)
    # Deliberately late (see the module's docstring): nothing needs the router before now.
    from reprise.jupyter.app import KernelProcess  # noqa: PLC0415

    await KernelProcess(beginning).run(parent)


async def _begin(
    options: argparse.Namespace, arguments: Sequence[str], environ: Mapping[str, str]
) -> Beginning:
    chosen = backend(environ.get(settings.BACKEND))
    environment = load(environ=environ)
    language = language_kernel(options.kernel, environ)
    kept, left_out = split_arguments(arguments, isolated=chosen.isolated)
    if left_out:
        log.warning("Left out, since a sandbox has no folder of the host's: %s", " ".join(left_out))
    language = replace(language, argv=(*language.argv, *kept))
    folder = Path.cwd()
    spec = sandbox_spec(environment, language, folder, environ)
    if not chosen.isolated:
        spec = replace(spec, variables=_own_variables(environ))
    link = KernelLink()
    try:
        link.attach(await Guest.start(chosen, spec, link))
        first: KernelLink | None = link
    except SandboxError as error:
        log.error("%s", error)
        first = None
    return Beginning(
        options.connection_file,
        options.kernel,
        environ,
        chosen,
        environment,
        language,
        spec,
        folder,
        first,
    )


def _own_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Without isolation a cell sees what ipykernel's would, but not our settings (a DSN!)."""
    own = {
        name: value
        for name, value in environ.items()
        if not name.startswith("REPRISE_") and name not in _ROUTERS_OWN
    }
    return {**FIXED_VARIABLES, **own}
