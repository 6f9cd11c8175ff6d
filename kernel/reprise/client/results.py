"""What comes back from a kernel, as values: outputs and the results of steps (pure)."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from reprise.client.failures import refusal
from reprise.errors import RepriseError
from reprise.log.model import STATUSES, Actor, Json, Status

#: Kinds of iopub messages that are no output of a step.
QUIET = frozenset({"status", "execute_input", "iopub_welcome", "debug_event"})


@dataclass(frozen=True)
class Output:
    """One thing that a step showed, as the Jupyter message has it.

    type: stream, display_data, execute_result, error, update_display_data, clear_output, comm_…
    """

    type: str
    content: Mapping[str, Json]
    metadata: Mapping[str, Json] = field(default_factory=dict)
    buffers: tuple[bytes, ...] = ()

    @property
    def stream(self) -> str | None:
        """`stdout` or `stderr` of a stream, else None."""
        return str(self.content.get("name")) if self.type == "stream" else None

    @property
    def text(self) -> str:
        """What of it can be read as plain text; empty when nothing can."""
        if self.type == "stream":
            return str(self.content.get("text", ""))
        if self.type in ("execute_result", "display_data", "update_display_data"):
            data = self.content.get("data")
            return str(data.get("text/plain", "")) if isinstance(data, Mapping) else ""
        return ""


def merged(outputs: Iterable[Output]) -> tuple[Output, ...]:
    """Outputs with consecutive pieces of one stream made one, however they were cut."""
    found: list[Output] = []
    pieces: list[str] = []

    def close() -> None:
        if pieces:
            name = found[-1].stream
            found[-1] = Output("stream", {"name": name, "text": "".join(pieces)})
            pieces.clear()

    for output in outputs:
        if output.stream is not None and pieces and found[-1].stream == output.stream:
            pieces.append(output.text)
            continue
        close()
        found.append(output)
        if output.stream is not None:
            pieces.append(output.text)
    close()
    return tuple(found)


@dataclass(frozen=True)
class StepError:
    """Why a step did not end well: what the cell raised, or what became of the command."""

    name: str
    text: str
    traceback: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.name}: {self.text}".strip(": ")


@dataclass(frozen=True)
class StepResult:
    """How a step ended.

    status: ok, error, interrupted, timeout, died (the sandbox went; the step is rolled back) or
      lost (the kernel went before the outcome was stored: it may have run, and is not run again).
    seq: its place in the session's log.  key: the idempotency key it was asked under.
    repeated: the answer is that of an earlier request with the same key; nothing ran now.
    duration_s: run time in seconds.
    """

    status: Status
    seq: int
    digest: str
    duration_s: float
    error: StepError | None
    outputs: tuple[Output, ...]
    key: str
    repeated: bool

    @property
    def ok(self) -> bool:
        return self.status == "ok"

    @property
    def stdout(self) -> str:
        return "".join(each.text for each in self.outputs if each.stream == "stdout")

    @property
    def stderr(self) -> str:
        return "".join(each.text for each in self.outputs if each.stream == "stderr")

    @property
    def text(self) -> str:
        """All that it showed, as plain text in the order shown (without its error)."""
        parts: list[str] = []
        for each in self.outputs:
            text = each.text
            if not text:
                continue
            if each.stream is None and parts and not parts[-1].endswith("\n"):
                parts.append("\n")
            parts.append(text)
        return "".join(parts)

    def check(self) -> Self:
        """This result when the step ended well. Raises StepFailed."""
        if not self.ok:
            raise StepFailed(self)
        return self


class StepFailed(RepriseError):
    """A step ended otherwise than `ok`; `result` says how, and what it showed."""

    def __init__(self, result: StepResult) -> None:
        said = f" {result.error}" if result.error is not None else ""
        super().__init__(f"Step {result.seq} ended as {result.status}.{said}")
        self.result = result


@dataclass(frozen=True)
class CellResult(StepResult):
    """How a cell ended. `value`: its last expression as plain text, None when there was none."""

    execution_count: int | None
    user_expressions: Mapping[str, Json] = field(default_factory=dict)

    @property
    def value(self) -> str | None:
        for each in self.outputs:
            if each.type == "execute_result":
                return each.text
        return None


@dataclass(frozen=True)
class StreamEnd:
    """What there was of a command's stream.

    cut: more was written than is shown; `file` in the workspace holds all of it then.
    """

    bytes: int = 0
    lines: int = 0
    cut: bool = False
    file: str | None = None

    @classmethod
    def of(cls, value: Json) -> StreamEnd:
        if not isinstance(value, Mapping):
            return cls()
        file = value.get("file")
        return cls(
            _count(value.get("bytes")),
            _count(value.get("lines")),
            value.get("cut") is True,
            file if isinstance(file, str) else None,
        )


@dataclass(frozen=True)
class CommandResult(StepResult):
    """How a command ended: its exit code, or the signal that ended it."""

    exit_code: int | None
    signal: int | None
    timed_out: bool
    stdout_end: StreamEnd
    stderr_end: StreamEnd


@dataclass(frozen=True)
class UploadResult(StepResult):
    """What an upload brought in."""

    files: int
    bytes: int


@dataclass(frozen=True)
class MountResult(StepResult):
    """What was mounted: where it lies inside, and the digest of its tree."""

    path: str
    tree: str
    files: int
    bytes: int


@dataclass(frozen=True)
class BackgroundStart(StepResult):
    """A background command was started; `command` is its number."""

    command: int


@dataclass(frozen=True)
class Artifact:
    """A file that was taken out of a workspace and is stored apart.

    seq: the last step of the session when it was taken (-1: before the first).
    at, mode, actor: when, with which permission bits and by whom; None where nobody said.
    """

    id: uuid.UUID
    session: uuid.UUID
    seq: int
    path: str
    sha256: str
    size: int
    mode: int | None = None
    at: int | None = None
    actor: Actor | None = None


@dataclass(frozen=True)
class State:
    """What stands in the live sandbox after step `seq`: what `verify` compares with.

    files: sha256 of the workspace's manifest.  variables: fingerprint by name.
    """

    seq: int
    files: str | None
    variables: Mapping[str, Json] | None


@dataclass(frozen=True)
class Surroundings:
    """What code of a session runs in.

    environment: its name.  isolated: whether a wall is around the sandbox.  network: the hosts that
    it may reach, as rules are written; ("*",) where nothing holds it back.  workspace: where that
    lies as code sees it.
    """

    environment: str
    isolated: bool
    network: tuple[str, ...]
    workspace: str

    @classmethod
    def of(cls, value: Json) -> Surroundings:
        """What a kernel said of itself; where it did not, nothing good is assumed."""
        match value:
            case {
                "environment": str(name),
                "isolated": bool(isolated),
                "network": list(hosts),
                "workspace": str(workspace),
            }:
                return cls(name, isolated, tuple(map(str, hosts)), workspace)
        return cls("default", False, ("*",), "/workspace")


@dataclass(frozen=True)
class Reply:
    """A reply as it came: its content and its buffers."""

    content: Mapping[str, Json]
    buffers: tuple[bytes, ...] = ()


def _count(value: Json) -> int:
    return value if type(value) is int and value >= 0 else 0


def _number(value: Json) -> int | None:
    return value if type(value) is int else None


def _common(reply: Mapping[str, Json], outputs: Iterable[Output], key: str) -> dict[str, Any]:
    """The fields of every result. Raises the error that a reply without a step tells."""
    seq = reply.get("seq")
    if type(seq) is not int:
        raise refusal(reply)
    outcome = reply.get("outcome", "ok" if reply.get("status") == "ok" else "error")
    if outcome not in STATUSES:
        raise RepriseError(f"The kernel told an outcome that there is not: {outcome!r}.")
    error = None
    if outcome != "ok":
        told = reply.get("traceback")
        inner = reply.get("result")
        if not isinstance(told, list) and isinstance(inner, Mapping):
            told = inner.get("traceback")
        lines = tuple(map(str, told)) if isinstance(told, list) else ()
        error = StepError(str(reply.get("ename", outcome)), str(reply.get("evalue", "")), lines)
    duration = reply.get("duration_s")
    return {
        "status": outcome,
        "seq": seq,
        "digest": str(reply.get("digest", "")),
        "duration_s": float(duration) if isinstance(duration, int | float) else 0.0,
        "error": error,
        "outputs": merged(outputs),
        "key": key,
        "repeated": reply.get("repeated") is True,
    }


def _result(reply: Mapping[str, Json]) -> Mapping[str, Json]:
    found = reply.get("result")
    return found if isinstance(found, Mapping) else {}


def step_result(reply: Mapping[str, Json], outputs: Iterable[Output], key: str) -> StepResult:
    return StepResult(**_common(reply, outputs, key))


def cell_result(reply: Mapping[str, Json], outputs: Iterable[Output], key: str) -> CellResult:
    common, result = _common(reply, outputs, key), _result(reply)
    expressions = result.get("user_expressions")
    return CellResult(
        **common,
        execution_count=_number(result.get("execution_count")),
        user_expressions=expressions if isinstance(expressions, Mapping) else {},
    )


def command_result(reply: Mapping[str, Json], outputs: Iterable[Output], key: str) -> CommandResult:
    common, result = _common(reply, outputs, key), _result(reply)
    return CommandResult(
        **common,
        exit_code=_number(result.get("exit_code")),
        signal=_number(result.get("signal")),
        timed_out=result.get("timed_out") is True,
        stdout_end=StreamEnd.of(result.get("stdout")),
        stderr_end=StreamEnd.of(result.get("stderr")),
    )


def background_start(
    reply: Mapping[str, Json], outputs: Iterable[Output], key: str
) -> BackgroundStart:
    common, result = _common(reply, outputs, key), _result(reply)
    number = _number(result.get("command"))
    return BackgroundStart(**common, command=common["seq"] if number is None else number)


def upload_result(reply: Mapping[str, Json], outputs: Iterable[Output], key: str) -> UploadResult:
    common, result = _common(reply, outputs, key), _result(reply)
    return UploadResult(
        **common, files=_count(result.get("files")), bytes=_count(result.get("bytes"))
    )


def mount_result(reply: Mapping[str, Json], outputs: Iterable[Output], key: str) -> MountResult:
    common, result = _common(reply, outputs, key), _result(reply)
    return MountResult(
        **common,
        path=str(result.get("path", "")),
        tree=str(result.get("tree", "")),
        files=_count(result.get("files")),
        bytes=_count(result.get("bytes")),
    )


def command_json(result: CommandResult) -> dict[str, Json]:
    """A command's result for programs."""
    return {
        "seq": result.seq,
        "digest": result.digest,
        "outcome": result.status,
        "exit_code": result.exit_code,
        "signal": result.signal,
        "timed_out": result.timed_out,
        "duration_s": result.duration_s,
        "stdout": result.stdout,
        "stderr": result.stderr,
        "streams": {"stdout": vars(result.stdout_end), "stderr": vars(result.stderr_end)},
        "key": result.key,
        "repeated": result.repeated,
    }
