"""What a `step_request` asks for, checked, and the `step_reply` to it (docs/messages.md)."""

from __future__ import annotations

import hmac
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from reprise.errors import UsageError
from reprise.jupyter.request import Request
from reprise.log.model import (
    USER,
    Actor,
    Json,
    Outcome,
    OutputEntry,
    Step,
    StepKind,
    canonical,
)
from reprise.log.store import Blobs, StepRecord
from reprise.replay.message import Message, make
from reprise.sandbox.contract import MOUNT_PLACES
from reprise.workspace.manifest import BadManifest, Entry, Manifest, check_path, parse

KINDS: Final = ("cell", "command", "upload", "mount", "comm")
COMM_TYPES: Final = ("comm_open", "comm_msg", "comm_close")
KEY_LENGTH: Final = 200

#: Characters of each word that names a mounted skill.
SKILL_WORD: Final = 100

#: What a command shows of each of its streams, unless it asks for more or less.
OUTPUT_BYTES: Final = 256 << 10
OUTPUT_LINES: Final = 10_000

#: Bounds of a command: its words together, its variables together, bytes; its standard input,
#: which travels in one frame (a longer one is uploaded and redirected).
ARGUMENT_BYTES: Final = 1 << 20
STDIN_BYTES: Final = 8 << 20

_CELL: Final = {
    "silent": False,
    "store_history": True,
    "user_expressions": {},
    "allow_stdin": False,
    "stop_on_error": True,
}
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_NAME: Final = re.compile(r"[^=\0]{1,1000}")


@dataclass(frozen=True)
class StepRequest:
    """A checked request. `payload` is what the log keeps; `blobs` names what it needs (sha256).

    message: for a cell and a comm, the request to the language kernel.
    """

    kind: StepKind
    payload: Mapping[str, Json]
    actor: Actor = USER
    key: str | None = None
    blobs: tuple[str, ...] = ()
    message: Message | None = None

    def same(self, record: StepRecord) -> bool:
        """Whether a recorded step asked for the same."""
        step = record.step
        if step.kind != self.kind:
            return False
        if self.message is None:
            return canonical(_said(step.payload)) == canonical(_said(self.payload))
        content = self.message.content()
        return canonical(step.payload.get("content")) == canonical(content)

    def reply(
        self,
        request: Request,
        step: Step,
        outcome: Outcome,
        last: OutputEntry | None,
        *,
        repeated: bool = False,
    ) -> Message:
        """The answer to a step that was accepted. `last`: the last entry of its record."""
        status = outcome.status
        content: dict[str, Json] = {
            "status": "ok" if status == "ok" else "error",
            "seq": step.seq,
            "digest": step.digest.hex(),
            "outcome": status,
            "duration_s": outcome.new.duration_us / 1e6,
            "result": _result(self.kind, outcome, last),
        }
        if status != "ok":
            content |= _error(status, last)
        if repeated:
            content["repeated"] = True
        return make("step_reply", content, parent=request.message.raw_header)


def _result(kind: StepKind, outcome: Outcome, last: OutputEntry | None) -> Json:
    if kind == "comm":
        return {}
    if last is not None and last.type == "step_reply":
        return last.content.get("result", {})
    if last is not None and last.type == "execute_reply":
        return dict(last.content)
    if kind == "cell":
        # A reply that said no more than that it went well has no entry (replay.link.reply_entry).
        return {"status": outcome.status, "execution_count": outcome.new.execution_count}
    return {}


#: What a step's end means that left no error of its own in the record.
_ENDS: Final = {
    "died": "Its sandbox ended; the step was rolled back.",
    "lost": "The kernel ended before the outcome was recorded; the step was rolled back. It is "
    "not run again by itself, since what it did outside may have happened.",
    "interrupted": "It was interrupted.",
    "timeout": "It ran over its time limit.",
    "error": "It failed.",
}


def _error(status: str, last: OutputEntry | None) -> dict[str, Json]:
    content = {} if last is None else last.content
    return {
        "ename": str(content.get("ename", status)),
        "evalue": str(content.get("evalue", _ENDS[status])),
    }


@dataclass(frozen=True)
class Parsing:
    """What is needed to read step requests: the agent's token, where blobs are, the bounds."""

    token: str
    blobs: Blobs
    output_limit: int

    async def request(self, message: Message) -> StepRequest:
        """Check a step_request and store the bytes that came with it.

        Raises UsageError: nothing was recorded and nothing ran.
        """
        content = message.content()
        kind = content.get("kind")
        if kind not in KINDS:
            raise UsageError(f"A step_request's kind is one of {', '.join(KINDS)}, not {kind!r}.")
        payload = content.get("payload")
        if not isinstance(payload, dict):
            raise UsageError(f"The payload of a {kind} step is not an object.")
        actor = actor_of(content, self.token)
        key = content.get("key")
        if key is not None and (not isinstance(key, str) or not 0 < len(key) <= KEY_LENGTH):
            raise UsageError(f"A step_request's key is text of 1 to {KEY_LENGTH} characters.")
        if kind == "cell":
            sent = _cell_message(message, payload)
            return StepRequest("cell", {}, actor, key, message=sent)
        if kind == "comm":
            return StepRequest("comm", {}, actor, key, message=_comm_message(message, payload))
        if message.buffers:
            await self.blobs.put_many(message.buffers)
        if kind == "command":
            checked, blobs = await self._command(payload)
        elif kind == "upload":
            checked, blobs = await self._upload(payload)
        else:
            checked, blobs = await self._mount(payload)
        return StepRequest(kind, checked, actor, key, blobs)

    async def _command(self, payload: dict[str, Any]) -> tuple[dict[str, Json], tuple[str, ...]]:
        if "stop" in payload:
            _only(payload, ("stop",), "command")
            return {"stop": _number(payload, "stop", 0, 1 << 53)}, ()
        known = ("shell", "argv", "cwd", "env", "stdin", "timeout_s", "output_bytes")
        _only(payload, (*known, "output_lines", "background"), "command")
        shell, argv = payload.get("shell"), payload.get("argv")
        if (shell is None) == (argv is None):
            raise UsageError("A command is either `shell`, a text, or `argv`, a list of words.")
        words = [shell] if argv is None else argv
        if (
            not isinstance(words, list)
            or not all(map(_is_text, words))
            or not words
            or not words[0]
        ):
            raise UsageError("A command's words are text without NUL, the first one not empty.")
        if sum(len(word.encode("utf-8", "surrogatepass")) for word in words) > ARGUMENT_BYTES:
            raise UsageError(
                f"The command is longer than {ARGUMENT_BYTES:,} bytes. Upload it as a file and run "
                "that."
            )
        cwd = payload.get("cwd")
        if cwd is not None and not _is_word(cwd):
            raise UsageError("A command's cwd is a path.")
        stdin = await self._stdin(payload.get("stdin"))
        timeout = payload.get("timeout_s")
        if timeout is not None and (
            isinstance(timeout, bool)
            or not isinstance(timeout, int | float)
            or not math.isfinite(timeout)
            or timeout <= 0
        ):
            raise UsageError("A command's timeout_s is a number of seconds above 0.")
        most = self.output_limit or 1 << 40
        checked: dict[str, Json] = {
            "shell": shell,
            "argv": argv,
            "cwd": cwd,
            "env": _variables(payload.get("env")),
            "stdin": stdin,
            "timeout_s": None if timeout is None else float(timeout),
            "output_bytes": _number(payload, "output_bytes", 0, most, min(OUTPUT_BYTES, most)),
            "output_lines": _number(payload, "output_lines", 0, 1 << 40, OUTPUT_LINES),
            "background": _flag(payload, "background"),
        }
        return checked, (() if stdin is None else (stdin,))

    async def _stdin(self, stdin: Json) -> str | None:
        if stdin is None:
            return None
        if isinstance(stdin, str):
            data = stdin.encode("utf-8", "surrogateescape")
            if len(data) <= STDIN_BYTES:
                return await self.blobs.put(data)
        elif isinstance(stdin, dict) and stdin.keys() == {"sha256"}:
            (name,) = await self._require([stdin["sha256"]], "a command's stdin")
            if len(await self.blobs.get(name)) <= STDIN_BYTES:
                return name
        else:
            raise UsageError('A command\'s stdin is text, or {"sha256": …} of a buffer.')
        raise UsageError(
            f"A command's stdin is at most {STDIN_BYTES:,} bytes. Upload a file, and redirect it "
            "with `shell`."
        )

    async def _upload(self, payload: dict[str, Any]) -> tuple[dict[str, Json], tuple[str, ...]]:
        _only(payload, ("entries", "removed"), "upload")
        manifest = _manifest(payload.get("entries", []))
        removed = payload.get("removed", [])
        try:
            if not isinstance(removed, list):
                raise BadManifest("`removed` is no list of paths.")
            paths = [check_path(path) for path in removed]
        except BadManifest as error:
            raise UsageError(f"An upload cannot be made: {error}") from error
        if not manifest and not paths:
            raise UsageError("An upload of nothing; name `entries` or `removed`.")
        names = await self._require(manifest.blobs(), "an upload")
        entries = [entry.to_json() for entry in manifest]
        return {"root": "", "entries": entries, "removed": paths}, names

    async def _mount(self, payload: dict[str, Any]) -> tuple[dict[str, Json], tuple[str, ...]]:
        _only(payload, ("target", "entries", "tree", "skill"), "mount")
        target = payload.get("target")
        places = " or ".join(MOUNT_PLACES)
        if not _is_word(target) or not str(target).startswith(tuple(f"{p}/" for p in MOUNT_PLACES)):
            raise UsageError(f"A mount's target is an absolute path below {places}.")
        tree = payload.get("tree")
        if (tree is None) == ("entries" not in payload):
            raise UsageError("A mount names either its `entries` or a stored `tree`.")
        if tree is None:
            manifest = _manifest(payload["entries"])
        else:
            await self._require([tree], "a mount")
            try:
                manifest = parse(await self.blobs.get(tree))
            except BadManifest as error:
                raise UsageError(f"{tree} is not the manifest of a tree: {error}") from error
        await self._require(manifest.blobs(), "a mount")
        if tree is None:
            tree = await self.blobs.put(manifest.to_bytes())
        named = _skill(payload["skill"]) if "skill" in payload else {}
        return {"target": target, "tree": tree, **named}, (tree,)

    async def _require(self, names: Sequence[Json], whose: str) -> tuple[str, ...]:
        """`names`, each once, when all are stored."""
        wrong = [n for n in names if not isinstance(n, str) or not _SHA256.fullmatch(n)]
        unique = () if wrong else tuple(dict.fromkeys(names))
        missing = wrong or sorted(await self.blobs.missing(unique))
        if missing:
            listed = ", ".join(f"{name!s:.70}" for name in missing[:5])
            raise UsageError(
                f"The bytes of {whose} are not stored: {len(missing)} of {len(names)} missing "
                f"({listed}). Send them as buffers with the request."
            )
        return unique


def actor_of(content: Mapping[str, Json], right: str) -> Actor:
    """Who asks, by `actor` and `token`; `right` is the token of an agent. Raises UsageError."""
    asked = content.get("actor")
    if asked is None or asked == "user" or asked == {"kind": "user"}:
        return USER
    token = content.get("token")
    if not isinstance(asked, dict) or asked.get("kind") != "agent":
        raise UsageError("A step_request's actor is a user or an agent.")
    if not isinstance(token, str) or not hmac.compare_digest(
        token.encode("utf-8", "surrogatepass"), right.encode()
    ):
        raise UsageError(
            "This client may not act as an agent: its token is not this kernel's. Nothing ran."
        )
    conversation, turn = asked.get("conversation"), asked.get("turn")
    if not isinstance(conversation, str) or len(conversation) > KEY_LENGTH:
        raise UsageError("An agent names its conversation, in at most 200 characters.")
    if type(turn) is not int or not 0 <= turn < 1 << 31:
        raise UsageError("An agent numbers its turn.")
    return Actor("agent", conversation, turn)


def stored_reply(record: StepRecord) -> OutputEntry | None:
    """The entry of a recorded step that tells its end, if it has one."""
    last = record.outputs[-1] if record.outputs else None
    if last is not None and last.type in ("step_reply", "execute_reply", "error"):
        return last
    return None


def _said(payload: Mapping[str, Json]) -> dict[str, Json]:
    """A payload without what the kernel itself found out (`jupyter.admission`)."""
    return {name: value for name, value in payload.items() if name != "trusted"}


def _skill(value: Json) -> dict[str, Json]:
    """Which skill is mounted, in the catalog's words; for people, since the tree names it."""
    if (
        not isinstance(value, dict)
        or value.keys() != {"name", "scope", "version"}
        or not all(isinstance(each, str) and 0 < len(each) <= SKILL_WORD for each in value.values())
    ):
        raise UsageError(
            "A mount's `skill` gives name, scope and version, each a text of 1 to "
            f"{SKILL_WORD} characters."
        )
    return {"skill": dict(value)}


def _cell_message(asked: Message, payload: dict[str, Any]) -> Message:
    """An execute_request under the id of the request, so that its outputs belong to that."""
    _only(payload, ("code", "cell_id", *_CELL), "cell")
    if not isinstance(payload.get("code"), str):
        raise UsageError("A cell's `code` is text.")
    cell_id = payload.get("cell_id")
    if cell_id is not None and not isinstance(cell_id, str):
        raise UsageError("A cell's `cell_id` is text.")
    content = {"code": payload["code"], **{k: payload.get(k, v) for k, v in _CELL.items()}}
    if not isinstance(content["user_expressions"], dict):
        raise UsageError("A cell's `user_expressions` is an object.")
    metadata = {} if cell_id is None else {"cellId": cell_id}
    return _as(asked, "execute_request", content, metadata, ())


def _comm_message(asked: Message, payload: dict[str, Any]) -> Message:
    _only(payload, ("msg_type", "content", "metadata"), "comm")
    msg_type, content = payload.get("msg_type"), payload.get("content")
    if msg_type not in COMM_TYPES or not isinstance(content, dict):
        raise UsageError(f"A comm step has a msg_type of {', '.join(COMM_TYPES)}, and a content.")
    metadata = payload.get("metadata", {})
    if not isinstance(metadata, dict):
        raise UsageError("A comm step's metadata is an object.")
    return _as(asked, str(msg_type), content, metadata, asked.buffers)


def _as(
    asked: Message,
    msg_type: str,
    content: Mapping[str, Json],
    metadata: Mapping[str, Json],
    buffers: Sequence[bytes],
) -> Message:
    header = {**asked.header, "msg_type": msg_type}
    header.pop("subshell_id", None)
    return Message(
        header,
        canonical(header),
        asked.raw_parent,
        canonical(dict(metadata)),
        canonical(dict(content)),
        tuple(buffers),
    )


def _only(payload: Mapping[str, Json], known: Sequence[str], kind: str) -> None:
    unknown = sorted(map(str, payload.keys() - set(known)))
    if unknown:
        raise UsageError(f"A {kind} step has no {', '.join(unknown[:5])}; it has {list(known)}.")


def _is_text(value: object) -> bool:
    return isinstance(value, str) and "\0" not in value


def _is_word(value: object) -> bool:
    return _is_text(value) and value != ""


def _number(
    payload: Mapping[str, Json], name: str, least: int, most: int, default: int | None = None
) -> int:
    value = payload.get(name, default)
    if type(value) is not int or not least <= value <= most:
        raise UsageError(f"`{name}` is a number from {least:,} to {most:,}, not {value!r:.100}.")
    return value


def _flag(payload: Mapping[str, Json], name: str) -> bool:
    value = payload.get(name, False)
    if not isinstance(value, bool):
        raise UsageError(f"`{name}` is true or false.")
    return value


def _variables(value: Json) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(
        _NAME.fullmatch(name) and isinstance(text, str) and "\0" not in text
        for name, text in value.items()
    ):
        raise UsageError("A command's env gives a text to each name (no = and no NUL).")
    if sum(len(name) + len(text) for name, text in value.items()) > ARGUMENT_BYTES:
        raise UsageError(f"A command's variables are longer than {ARGUMENT_BYTES:,} bytes.")
    return dict(value)


def _manifest(entries: Json) -> Manifest:
    try:
        if not isinstance(entries, list):
            raise BadManifest("`entries` is no list.")
        manifest = Manifest.of(Entry.from_json(entry) for entry in entries)
        unnamed = [e.path for e in manifest if e.type == "file" and e.sha256 is None]
        if unnamed:
            raise BadManifest(f"The file {unnamed[0]!r} names no sha256.")
    except BadManifest as error:
        raise UsageError(f"The entries cannot be taken: {error}") from error
    return manifest
