"""What a step_request asks for: payloads by kind, checked before they are sent (pure)."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from reprise.errors import UsageError
from reprise.log.model import SKILLS, Actor, Json, StepKind, sha256_hex
from reprise.workspace.manifest import BadManifest, check_path, path_bytes

#: The contract's bound on an idempotency key (docs/messages.md).
KEY_CHARACTERS: Final = 200
#: A command's input up to this goes along as text, readable in the log; more as bytes beside it.
STDIN_TEXT: Final = 32 << 10


@dataclass(frozen=True)
class StepRequest:
    """A step to ask for. `blobs`: bytes that the payload names, by their sha256."""

    kind: StepKind
    payload: Mapping[str, Json]
    key: str
    blobs: Mapping[str, bytes]
    actor: Actor | None = None

    def content(self, token: str | None = None) -> dict[str, Json]:
        """The content of the message. `token`: the kernel's, which an agent's step needs."""
        found: dict[str, Json] = {
            "kind": self.kind,
            "payload": dict(self.payload),
            "key": self.key,
        }
        if self.actor is not None and self.actor.kind == "agent":
            found["actor"] = self.actor.to_json()
            if token is not None:
                found["token"] = token
        return found


def request(
    kind: StepKind,
    payload: Mapping[str, Json],
    *,
    key: str | None = None,
    blobs: Mapping[str, bytes] | None = None,
    actor: Actor | None = None,
) -> StepRequest:
    """A request under `key`, or under a key of its own. Raises UsageError."""
    if key is not None and not 0 < len(key) <= KEY_CHARACTERS:
        raise UsageError(f"A key has 1 to {KEY_CHARACTERS} characters; this one has {len(key)}.")
    return StepRequest(kind, payload, key or uuid.uuid4().hex, dict(blobs or {}), actor)


def cell_payload(
    code: str,
    *,
    silent: bool = False,
    store_history: bool = True,
    allow_stdin: bool = False,
    user_expressions: Mapping[str, str] | None = None,
    cell_id: str | None = None,
) -> dict[str, Json]:
    payload: dict[str, Json] = {
        "code": code,
        "silent": silent,
        "store_history": store_history and not silent,
        "user_expressions": dict(user_expressions or {}),
        "allow_stdin": allow_stdin,
        "stop_on_error": True,
    }
    if cell_id is not None:
        payload["cell_id"] = cell_id
    return payload


def command_payload(
    command: str | Sequence[str],
    *,
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
    stdin: str | bytes | None = None,
    timeout: float | None = None,
    output_bytes: int | None = None,
    output_lines: int | None = None,
    background: bool = False,
) -> tuple[dict[str, Json], dict[str, bytes]]:
    """The payload, and the bytes that it names by their sha256. Raises UsageError."""
    payload: dict[str, Json] = {}
    if isinstance(command, str):
        if not command.strip():
            raise UsageError("The command is empty. Give shell text, or a list of words.")
        payload["shell"] = _plain("command", command)
    else:
        words = [_plain("word of the command", word) for word in command]
        if not words or not words[0]:
            raise UsageError("The command has no words. The first one is the program to run.")
        payload["argv"] = words
    if cwd is not None:
        payload["cwd"] = _plain("cwd", cwd)
    if env:
        for name in env:
            if not name or "=" in name:
                raise UsageError(f"{name!r} cannot be the name of a variable.")
        payload["env"] = {_plain("name", n): _plain("variable", v) for n, v in env.items()}
    blobs: dict[str, bytes] = {}
    if stdin is not None:
        if isinstance(stdin, str):
            data = _plain("input", stdin, nul=True).encode("utf-8", "surrogateescape")
        else:
            data = bytes(stdin)
        if isinstance(stdin, str) and len(data) <= STDIN_TEXT:
            payload["stdin"] = stdin
        else:
            digest = sha256_hex(data)
            payload["stdin"], blobs[digest] = {"sha256": digest}, data
    if timeout is not None:
        if not timeout > 0:
            raise UsageError(f"A time limit of {timeout} s leaves no time to run.")
        payload["timeout_s"] = timeout
    for name, bound in (("output_bytes", output_bytes), ("output_lines", output_lines)):
        if bound is not None:
            if bound < 0:
                raise UsageError(f"{name} is a count, not {bound}.")
            payload[name] = bound
    if background:
        payload["background"] = True
    return payload, blobs


def place(text: str) -> str:
    """A path of the workspace that a caller wrote: `./a//b/` is `a/b`, the root is "".

    Raises UsageError for what leads out of it.
    """
    if text.startswith("/"):
        raise UsageError(
            f"{text!r} is an absolute path. Name one relative to the workspace, such as data/x.csv."
        )
    names = [name for name in text.split("/") if name not in ("", ".")]
    if not names:
        return ""
    try:
        return check_path("/".join(names))
    except BadManifest as error:
        raise UsageError(f"{text!r} cannot be a place in the workspace: {error}") from error


def below(folder: str, path: str) -> str:
    """`path` beneath `folder` of the workspace; either may be the root ("")."""
    return "/".join(part for part in (folder, path) if part)


def mount_target(target: str | None, name: str) -> str:
    """Where to show a folder called `name`. Raises UsageError; the kernel checks it again."""
    found = target if target is not None else f"{SKILLS}{name}"
    if not found.startswith("/"):
        raise UsageError(f"{found!r} is not an absolute path, such as /skills/{name}.")
    return found.rstrip("/") or "/"


def _plain(what: str, text: Any, *, nul: bool = False) -> str:
    """Text that can be given to a process: it stands for bytes and, unless `nul`, holds no NUL."""
    if not isinstance(text, str):
        raise UsageError(f"A {what} is text, not {type(text).__name__}.")
    if "\0" in text and not nul:
        raise UsageError(f"The {what} {text[:40]!r} holds a NUL, which no process can be given.")
    try:
        path_bytes(text)
    except BadManifest as error:
        raise UsageError(f"The {what} {text[:40]!r} stands for no bytes.") from error
    return text
