"""One session with a Dagger engine: the client process, the connection, and what it has loaded."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections import deque
from pathlib import Path

import dagger

import reprise
from reprise.errors import SandboxError
from reprise.sandbox import dagger_cli
from reprise.sandbox.contract import Said

#: Seconds that opening a session may take: Dagger may have to start an engine, or pull one.
_OPENING = 300.0
#: Seconds in which an engine answers the least of questions.
_ANSWERING = 30.0
#: Seconds without an answer after which a person is told that this takes long.
_LONG = 2.0
#: Seconds that the client has to leave by itself once its input has ended; it writes logs then.
_LEAVING = 10.0

#: What is kept of what the client writes, to explain its end, in lines.
_KEPT_LINES = 40
_LONGEST_LINE = 1 << 16

#: What of the package a guest is made of.
_LIBRARY = (
    "reprise/__init__.py",
    "reprise/guest/*.py",
    "reprise/guest/__pycache__",
    "reprise/sandbox/__init__.py",
    "reprise/sandbox/frames.py",
    "reprise/sandbox/__pycache__",
)

#: The SDK reads these where it opens a connection, one at a time.
_opening = asyncio.Lock()


class Session:
    """An open session with an engine."""

    def __init__(
        self, process: asyncio.subprocess.Process, kept: deque[str], draining: asyncio.Task[None]
    ) -> None:
        self._process = process
        self._kept = kept
        self._draining = draining
        self._stack = contextlib.AsyncExitStack()
        self._library: dagger.Directory | None = None
        self._loading = asyncio.Lock()
        self.client: dagger.Client
        self.engine = ""
        self.broken = False
        self.pid = process.pid

    @classmethod
    async def open(cls, said: Said) -> Session:
        """Raises SandboxError: no program, no engine, versions that do not match."""
        program, sdk = dagger_cli.find_cli(), dagger_cli.sdk_version()
        environment = dagger_cli.client_environment()
        await asyncio.to_thread(dagger_cli.check_reachable)
        process = await _start(program, environment, sdk)
        kept: deque[str] = deque(maxlen=_KEPT_LINES)
        draining = asyncio.create_task(_drain(process, kept))
        session = cls(process, kept, draining)
        try:
            told = asyncio.get_running_loop().call_later(
                _LONG, said, "waiting for the Dagger engine"
            )
            try:
                async with asyncio.timeout(_OPENING):
                    await session._connect()
            finally:
                told.cancel()
            dagger_cli.check_engine(session.engine, sdk)
        except BaseException:
            await session.close()
            raise
        return session

    async def _connect(self) -> None:
        output = self._process.stdout
        assert output is not None  # noqa: S101  it was asked for as a pipe
        try:
            parameters = json.loads(await output.readline())
            port, token = int(parameters["port"]), str(parameters["session_token"])
        except (ValueError, KeyError, TypeError):
            raise await self._no_engine() from None
        async with _opening:
            # The way by which several clients share one session that Dagger documents.
            os.environ["DAGGER_SESSION_PORT"] = str(port)
            os.environ["DAGGER_SESSION_TOKEN"] = token
            try:
                # retry: the SDK asks up to five times by default, and may run an exec again.
                config = dagger.Config(retry=None, log_output=None)
                self.client = await self._stack.enter_async_context(dagger.Connection(config))
                self.engine = await self.client.version()
            except dagger.DaggerError as error:
                raise SandboxError(
                    f"The Dagger engine did not answer as expected: {first_line(error)}. Nothing "
                    "was started. Is it of the version of `dagger` on PATH?"
                ) from error
            finally:
                for name in ("DAGGER_SESSION_PORT", "DAGGER_SESSION_TOKEN"):
                    os.environ.pop(name, None)

    async def _no_engine(self) -> SandboxError:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LEAVING):
                await self._draining
        return dagger_cli.no_engine(self.explanation())

    def explanation(self) -> str:
        """The last thing that Dagger's client complained of."""
        lines = [line for line in self._kept if "rror" in line] or list(self._kept)
        return lines[-1][:500].strip(" .") if lines else "Dagger's client gave no reason"

    @property
    def alive(self) -> bool:
        return not self.broken and self._process.returncode is None

    async def answers(self) -> bool:
        """Whether the engine is still behind it: the client outlives an engine that went."""
        try:
            async with asyncio.timeout(_ANSWERING):
                await self.client.version()
        except (dagger.DaggerError, TimeoutError):
            self.broken = True
        return self.alive

    async def library(self) -> dagger.Directory:
        """The guest's code, loaded once for all sandboxes of the session."""
        async with self._loading:
            if self._library is None:
                package = Path(reprise.__file__).parents[1]
                loaded = self.client.host().directory(str(package), include=list(_LIBRARY))
                self._library = await loaded.sync()
            return self._library

    async def close(self) -> None:
        """End it, and every container in it. Idempotent."""
        self.broken = True
        # The engine may be gone: then saying goodbye to it fails, and it is over all the same.
        with contextlib.suppress(Exception):
            async with asyncio.timeout(_LEAVING):
                await self._stack.aclose()
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            async with asyncio.timeout(_LEAVING):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
        self._draining.cancel()


async def _start(program: str, environment: dict[str, str], sdk: str) -> asyncio.subprocess.Process:
    labels = ["dagger.io/sdk.name:python", f"dagger.io/sdk.version:{sdk}"]
    try:
        return await asyncio.create_subprocess_exec(
            program,
            "session",
            *(part for label in labels for part in ("--label", label)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment,
            limit=_LONGEST_LINE,
        )
    except OSError as error:
        raise SandboxError(f"{program} could not be started: {error}. Nothing was.") from error


async def _drain(process: asyncio.subprocess.Process, kept: deque[str]) -> None:
    """Read what the client writes, so that it never waits for us; the end of it is kept."""
    output = process.stderr
    assert output is not None  # noqa: S101  it was asked for as a pipe
    while data := await output.read(_LONGEST_LINE):
        kept.extend(line for line in data.decode("utf-8", "replace").splitlines() if line.strip())


def first_line(error: BaseException) -> str:
    """What an error says, on one line, for the middle of a sentence."""
    text = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return text.strip(" .")[:500]
