"""The first moments of a kernel process: its sandbox starts while the rest is still being imported.

A kernel's start is mostly Python's imports, twice: the language kernel's inside the sandbox and
the router's outside. So only what starting a sandbox takes is imported here at first; the
router, Postgres and the replay follow while the language kernel starts on another core.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from reprise import settings
from reprise.errors import RepriseError, UsageError
from reprise.jupyter.arguments import split_arguments
from reprise.jupyter.attachment import Attachment, attachment
from reprise.jupyter.kernelspec import NATIVE, language_kernel
from reprise.sandbox import chosen
from reprise.sandbox.backends import backend
from reprise.sandbox.connection import launch
from reprise.sandbox.contract import Backend, Container, LanguageKernel, SandboxSpec
from reprise.sandbox.environment import FIXED_VARIABLES, environment_kernel, sandbox_spec
from reprise.sandbox.named import NamedEnvironment

if TYPE_CHECKING:
    from reprise.replay.network import Network

#: Meant for the router alone, where the language kernel otherwise gets the whole environment.
_ROUTERS_OWN = ("JPY_PARENT_PID", "JPY_INTERRUPT_EVENT")


#: Seconds in which a process is started; what is not done by then is done beside the rest.
QUICK_S = 0.1

USAGE = "Usage: python -m reprise.jupyter -f CONNECTION_FILE [--kernel NAME]; Jupyter starts it."


@dataclass(frozen=True)
class Options:
    """The command line. `arguments` go to the language kernel."""

    connection_file: Path
    kernel: str
    arguments: tuple[str, ...]


class Words:
    """What the start of the first sandbox says, kept until there is somebody to hear it."""

    def __init__(self) -> None:
        self._kept: list[str] = []
        self._hear: Callable[[str], None] = self._kept.append

    def __call__(self, text: str) -> None:
        self._hear(text)

    def to(self, hear: Callable[[str], None]) -> None:
        """From now on `hear` hears it; first of all the latest that was said so far."""
        self._hear = hear
        for text in self._kept[-1:]:
            hear(text)


@dataclass(frozen=True)
class Beginning:
    """What a kernel process knows before its router exists.

    container: the first sandbox, already starting; when it could not be started, the first cell
      tries again and tells.
    words: what that start says.  network: None where nothing may go out.
    left_out: arguments that the language kernel does not get.
    chosen: what a person chose for this session, if anybody did.  gone: that the environment which
      was chosen is not there any more, in words.
    """

    options: Options
    environ: Mapping[str, str]
    attachment: Attachment
    backend: Backend
    environment: NamedEnvironment
    language: LanguageKernel
    spec: SandboxSpec
    container: asyncio.Task[Container]
    words: Words
    network: Network | None = None
    left_out: tuple[str, ...] = ()
    chosen: chosen.Found | None = None
    gone: str | None = None


def main(argv: list[str] | None = None) -> int:
    """Run a kernel process to its end; returns its exit code."""
    try:
        options = parse(sys.argv[1:] if argv is None else argv)
        asyncio.run(_run(options, os.environ))
    except RepriseError as error:
        print(f"[reprise] {error}", file=sys.stderr)  # noqa: T201
        return error.exit_code
    return 0


def parse(argv: Sequence[str]) -> Options:
    """Our two options; the rest is for the language kernel (nbclient: --HistoryManager.…=…).

    By hand, since importing argparse is a twentieth of a kernel's start. Raises UsageError.
    """
    connection_file: str | None = None
    kernel = NATIVE
    rest: list[str] = []
    words = iter(argv)
    for word in words:
        name, equals, value = word.partition("=")
        if name not in ("-f", "--f", "--kernel"):
            rest.append(word)
            continue
        found = value if equals else next(words, None)
        if not found:
            raise UsageError(f"{name} needs a value. {USAGE}")
        if name == "--kernel":
            kernel = found
        else:
            connection_file = found
    if connection_file is None:
        raise UsageError(f"No connection file was given. {USAGE}")
    return Options(Path(connection_file), kernel, tuple(rest))


async def _run(options: Options, environ: Mapping[str, str]) -> None:
    parent = os.getppid()
    walls = backend(environ.get(settings.BACKEND))
    # Read first only where something was chosen for some session: a notebook may be large.
    attached = attachment(options.connection_file, environ) if chosen.any_made(environ) else None
    found = None if attached is None else chosen.find(attached, environ)
    environment, gone = chosen.environment(found, environ)
    language = environment_kernel(environment, language_kernel(options.kernel, environ))
    kept, left_out = split_arguments(options.arguments, isolated=walls.isolated)
    language = replace(language, argv=(*language.argv, *kept))
    spec = sandbox_spec(environment, language, Path.cwd(), environ)
    if not walls.isolated:
        spec = replace(spec, variables=_own_variables(environ))
    network: Network | None = None
    if spec.network is not None:
        # Only then: a kernel that may not go out does not pay for it.
        from reprise.replay.network import Network  # noqa: PLC0415

        network = Network(spec)
        spec = network.spec
    words = Words()
    container = asyncio.get_running_loop().create_task(launch(walls, spec, words))
    # Where a sandbox takes longer (an image is pulled), the kernel answers its clients meanwhile.
    await asyncio.wait([container], timeout=QUICK_S)
    # Deliberately late (see the module's docstring): nothing needs the router before now.
    from reprise.jupyter.app import KernelProcess  # noqa: PLC0415

    beginning = Beginning(
        options,
        environ,
        attached or attachment(options.connection_file, environ),
        walls,
        environment,
        language,
        spec,
        container,
        words,
        network,
        left_out,
        found,
        gone,
    )
    await KernelProcess(beginning).run(parent)


def _own_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Without isolation a cell sees what ipykernel's would, but not our settings (a DSN!)."""
    own = {
        name: value
        for name, value in environ.items()
        if not name.startswith("REPRISE_") and name not in _ROUTERS_OWN
    }
    return {**FIXED_VARIABLES, **own}
