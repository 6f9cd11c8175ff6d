"""An MCP server as a child process: bounded messages, none of our secrets, and it ends with us.

Like the SDK's own transport, except for what that leaves open: a line without an end would fill
our memory, and a server that ignores the end of its stdin would outlive a killed server of ours.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, Self, cast

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp.types import jsonrpc_message_adapter

from reprise_server.agent.mcp import keeper
from reprise_server.agent.mcp.configured import ConfiguredServer

#: What a program needs to run as its user. Nothing that holds a key, a DSN or a token.
_INHERITED: Final = frozenset(
    {"HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"}
)
#: Bytes of one message.
LONGEST_MESSAGE: Final = 8 << 20
#: Of stderr, the end is kept, for whoever asks why a server went.
_KEPT_OF_STDERR: Final = 4_096
#: Seconds a server has to end by itself once its stdin is closed; then its tree is ended.
_GRACE_S: Final = 2.0
_PATIENCE_S: Final = 15.0

Streams = tuple[
    MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]
]


class Ending:
    """Why a server's process is gone, as far as it is known: its code where it ended by itself, the
    end of its stderr."""

    def __init__(self) -> None:
        self.why = ""
        self._stderr = b""
        self.code: int | None = None

    def heard(self, chunk: bytes) -> None:
        self._stderr = (self._stderr + chunk)[-_KEPT_OF_STDERR:]

    @property
    def stderr(self) -> str:
        return self._stderr.decode("utf-8", "replace").strip()


class _Pipes(NamedTuple):
    stdin: asyncio.StreamWriter
    stdout: asyncio.StreamReader
    stderr: asyncio.StreamReader

    @classmethod
    def of(cls, process: asyncio.subprocess.Process) -> Self:
        return cls(*cast(Any, (process.stdin, process.stdout, process.stderr)))


def environment(server: ConfiguredServer, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that a server's process gets: a few of ours, and those configured for it."""
    ours = {
        name: value
        for name, value in environ.items()
        if name in _INHERITED or name.startswith("LC_")
    }
    return {**ours, **server.env}


@asynccontextmanager
async def child(server: ConfiguredServer, ending: Ending) -> AsyncIterator[Streams]:
    """Start the server's program and speak with it; both ends with the block. Raises OSError."""
    watched, lifeline = os.pipe()
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            "-S",
            str(Path(keeper.__file__)),
            str(watched),
            *server.command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment(server, os.environ),
            pass_fds=(watched,),
            start_new_session=True,
            limit=LONGEST_MESSAGE,
        )
    except BaseException:
        os.close(lifeline)
        raise
    finally:
        os.close(watched)
    pipes = _Pipes.of(process)
    try:
        async with _speaking(pipes, ending) as streams:
            yield streams
    finally:
        # Whoever cancels us waits for this: bounded, and a server must not be left behind.
        ended = asyncio.ensure_future(_end(process, pipes, lifeline, ending))
        while not ended.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.shield(ended)
        ended.result()


@asynccontextmanager
async def _speaking(pipes: _Pipes, ending: Ending) -> AsyncIterator[Streams]:
    arriving, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    sent, leaving = anyio.create_memory_object_stream[SessionMessage](0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_read, pipes.stdout, arriving, ending)
        tasks.start_soon(_write, pipes.stdin, leaving)
        tasks.start_soon(_drain, pipes.stderr, ending)
        try:
            yield received, sent
        finally:
            tasks.cancel_scope.cancel()
            for stream in (arriving, received, sent, leaving):
                stream.close()


async def _read(
    stdout: asyncio.StreamReader,
    arriving: MemoryObjectSendStream[SessionMessage | Exception],
    ending: Ending,
) -> None:
    with arriving, contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        while True:
            try:
                line = await stdout.readuntil(b"\n")
            except asyncio.IncompleteReadError:
                return
            except asyncio.LimitOverrunError:
                ending.why = f"it sent a message of over {LONGEST_MESSAGE >> 20} MiB"
                return
            if not line.strip():
                continue
            try:
                message = jsonrpc_message_adapter.validate_json(line, by_name=False)
            except (ValueError, RecursionError):
                # Words on stdout are a common mistake of servers: passed over, as by other clients.
                await arriving.send(ValueError("a line that is no message"))
                continue
            await arriving.send(SessionMessage(message))


async def _write(
    stdin: asyncio.StreamWriter, leaving: MemoryObjectReceiveStream[SessionMessage]
) -> None:
    with leaving, contextlib.suppress(OSError):
        async for each in leaving:
            text = each.message.model_dump_json(by_alias=True, exclude_unset=True)
            stdin.write(text.encode() + b"\n")
            await stdin.drain()


async def _end(
    process: asyncio.subprocess.Process, pipes: _Pipes, lifeline: int, ending: Ending
) -> None:
    """The order of the specification: close stdin, wait, then end the tree."""
    try:
        pipes.stdin.close()
        drained = [
            asyncio.ensure_future(_drain(pipes.stdout, None)),
            asyncio.ensure_future(_drain(pipes.stderr, ending)),
        ]
        with contextlib.suppress(TimeoutError):
            ending.code = await asyncio.wait_for(process.wait(), _GRACE_S)
    finally:
        os.close(lifeline)
    try:
        await asyncio.wait_for(process.wait(), _PATIENCE_S)
    except TimeoutError:
        process.kill()
        await process.wait()
    for each in drained:
        each.cancel()
    await asyncio.gather(*drained, return_exceptions=True)


async def _drain(stream: asyncio.StreamReader, ending: Ending | None) -> None:
    """A server that is stuck in writing does not see that its stdin was closed."""
    with contextlib.suppress(ValueError):
        while chunk := await stream.read(65_536):
            if ending is not None:
                ending.heard(chunk)
