"""Does what a command, an upload or a mount step says, live and on replay alike."""

from __future__ import annotations

import asyncio
import codecs
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from reprise.errors import (
    GuestCallFailed,
    LogCorrupt,
    SandboxDied,
    SandboxError,
    UsageError,
)
from reprise.log.ahead import ReadAhead
from reprise.log.model import Json, OutputEntry, Status, Step
from reprise.log.store import Blobs
from reprise.replay.link import KernelLink
from reprise.sandbox.commands import BackgroundCommand, Command, CommandEnd, StreamEnd
from reprise.sandbox.connection import Guest
from reprise.sandbox.contract import DeathCause, Tree
from reprise.workspace.manifest import BadManifest, Manifest, parse
from reprise.workspace.transfer import apply_upload, upload_change

#: The kinds of steps that are calls to the guest or the backend, not messages to the interpreter.
CALLS: Final = frozenset({"command", "upload", "mount"})

#: Of what an installation that failed half way says: the workspace is in neither state.
HALF_INSTALLED: Final = "half-installed"

#: Seconds that a background command has to end by itself when it is stopped.
STOP_GRACE_S = 2.0
_STOP_LOOK_S = 0.02


@dataclass(frozen=True)
class CallEnd:
    """How a call ended. `result`: for the step_reply; `error`: name and sentence, if it failed."""

    status: Status
    result: Mapping[str, Json] = field(default_factory=dict)
    error: tuple[str, str] | None = None
    cause: Mapping[str, Json] | None = None

    def entry(self) -> OutputEntry:
        """The last entry of the step's record: what its step_reply says of the end."""
        content: dict[str, Json] = {"status": self.status, "result": dict(self.result)}
        if self.error is not None:
            content |= {"ename": self.error[0], "evalue": self.error[1]}
        return OutputEntry("step_reply", content)


Show = Callable[[OutputEntry], object]


async def perform(
    step: Step, link: KernelLink, blobs: Blobs, show: Show, *, in_place: bool = False
) -> CallEnd:
    """Do the step in a sandbox and say how it ended; `show` gets what a command writes.

    in_place: the workspace is the notebook's own folder and this is a replay, which never writes
      there: an upload is left out.
    A failed upload or mount changed nothing. Raises SandboxDied, and LogCorrupt when the record
    or one of its blobs is damaged.
    """
    try:
        if step.kind == "command":
            if "stop" in step.payload:
                return await _stop(link.guest, str(step.payload["stop"]))
            return await _command(step, link.guest, blobs, show)
        if step.kind == "upload":
            return await _upload(step, link.guest, blobs, in_place=in_place)
        return await _mount(step, link, blobs)
    except GuestCallFailed as error:
        if error.kind == HALF_INSTALLED:
            await link.guest.kill()
            text = f"Its files could not all be put in their places: {error}"
            raise SandboxDied(text, DeathCause("killed", detail=text)) from error
        return CallEnd("error", error=(type(error).__name__, str(error)))
    except (UsageError, SandboxError) as error:
        return CallEnd("error", error=(type(error).__name__, str(error)))


# commands ----------------------------------------------------------------------------------------


class _Decoded:
    """A command's bytes as stream outputs: UTF-8, what is none is shown as U+FFFD."""

    def __init__(self, show: Show) -> None:
        self._show = show
        make = codecs.getincrementaldecoder("utf-8")
        self._decoders = {"stdout": make("replace"), "stderr": make("replace")}

    def __call__(self, stream: Literal["stdout", "stderr"], data: bytes) -> None:
        self._say(stream, self._decoders[stream].decode(data))

    def close(self) -> None:
        for stream, decoder in self._decoders.items():
            self._say(stream, decoder.decode(b"", final=True))

    def _say(self, stream: str, text: str) -> None:
        if text:
            self._show(OutputEntry("stream", {"name": stream, "text": text}))


def command_of(seq: int, payload: Mapping[str, Json]) -> Command:
    """The command that step `seq` runs; its name in the sandbox is its number."""
    argv = payload.get("argv")
    return Command(
        name=str(seq),
        argv=None if argv is None else tuple(argv),
        shell=payload.get("shell"),
        cwd=payload.get("cwd"),
        env=payload.get("env") or {},
        timeout_s=payload.get("timeout_s"),
        output_bytes=payload["output_bytes"],
        output_lines=payload["output_lines"],
        background=bool(payload.get("background")),
    )


async def _command(step: Step, guest: Guest, blobs: Blobs, show: Show) -> CallEnd:
    command = command_of(step.seq, step.payload)
    stdin = step.payload.get("stdin")
    data = b"" if stdin is None else await blobs.get(stdin)
    decoded = _Decoded(show)
    try:
        end = await guest.run_command(command, data, decoded)
    finally:
        decoded.close()
    if command.background:
        return CallEnd("ok", {"command": step.seq})
    result: dict[str, Json] = {
        **_ended(end.exit_code, end.signal),
        "timed_out": end.timed_out,
        "stdout": _stream(end.stdout),
        "stderr": _stream(end.stderr),
    }
    if end.timed_out:
        cause = {"what": "timeout", "limit_s": command.timeout_s}
        text = f"It ran longer than its {command.timeout_s:g} s and was ended."
        return CallEnd("timeout", result, ("CommandTimeout", text), cause)
    if end.exit_code == 0:
        return CallEnd("ok", result)
    return CallEnd("error", result, ("CommandFailed", how_it_ended(end)))


def how_it_ended(end: CommandEnd) -> str:
    """A clause for people: exit code or signal by name."""
    if end.signal is None:
        return f"It ended with exit code {end.exit_code}."
    try:
        name = signal.Signals(end.signal).name
    except ValueError:
        name = "a signal"
    return f"It was ended by {name} ({end.signal})."


def _ended(exit_code: int | None, number: int | None) -> dict[str, Json]:
    return {"exit_code": exit_code, "signal": number}


def _stream(end: StreamEnd) -> dict[str, Json]:
    return {"bytes": end.bytes, "lines": end.lines, "cut": end.cut, "file": end.file}


async def _stop(guest: Guest, name: str) -> CallEnd:
    """End a background command: SIGTERM to its group, then SIGKILL to its whole tree."""
    found = await _background(guest, name)
    if found is not None and found.running:
        await guest.signal_command(name, signal.SIGTERM)
        deadline = asyncio.get_running_loop().time() + STOP_GRACE_S
        while (found := await _background(guest, name)) is not None and found.running:
            if asyncio.get_running_loop().time() > deadline:
                await guest.signal_command(name, signal.SIGKILL)
            # The guest tells the end of a background command to nobody by itself.
            await asyncio.sleep(_STOP_LOOK_S)
    if found is None:
        text = f"There is no background command {name}; a restart ends them all."
        return CallEnd("error", error=("NoSuchCommand", text))
    return CallEnd("ok", _ended(found.exit_code, found.signal))


async def _background(guest: Guest, name: str) -> BackgroundCommand | None:
    return next((each for each in await guest.commands() if each.name == name), None)


# files -------------------------------------------------------------------------------------------


async def _upload(step: Step, guest: Guest, blobs: Blobs, *, in_place: bool) -> CallEnd:
    if not in_place:
        await apply_upload(guest, step.payload, blobs)
    entries, _ = upload_change(step.payload)
    return CallEnd("ok", _amount(Manifest.of(entries)))


async def _mount(step: Step, link: KernelLink, blobs: Blobs) -> CallEnd:
    target, sha256 = step.payload["target"], step.payload["tree"]
    try:
        manifest = parse(await blobs.get(sha256))
    except BadManifest as error:
        raise LogCorrupt(f"The tree {sha256} of step {step.seq} is malformed: {error}") from error
    files = ((entry.sha256, entry.size) for entry in manifest if entry.sha256 is not None)
    tree = Tree(sha256, manifest.entries, ReadAhead(blobs, files), trusted=link.trusts(sha256))
    path = await link.guest.container.mount(target, tree)
    return CallEnd("ok", {"path": path, "tree": sha256, **_amount(manifest)})


def _amount(manifest: Manifest) -> dict[str, Json]:
    files = [entry for entry in manifest if entry.type == "file"]
    return {"files": len(files), "bytes": manifest.size}
