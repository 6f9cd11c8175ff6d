"""What a step, an outcome and an output from a stranger may say, and which blobs they name (pure).

The engine reads stored steps without looking twice, so nothing gets into a log that could make it
stumble: each field is checked here for its type and its range.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, get_args

from reprise.bundle.lines import is_sha256
from reprise.errors import BadBundle, RepriseError
from reprise.log.model import (
    STATUSES,
    STEP_KINDS,
    ActorKind,
    Json,
    NewOutcome,
    NewStep,
    OutputEntry,
    canonical_outcome,
    canonical_step,
    parse_outcome,
    parse_step,
)
from reprise.workspace.manifest import Entry, Manifest, check_path, parse

#: What Postgres keeps numbers in.
_BIGINT: Final = 1 << 63
#: As long as a client's idempotency key may be (docs/messages.md), and names like it.
_WORD: Final = 1_000
#: Where a mount can be seen.
_MOUNTS: Final = ("/skills/", "/mnt/")
#: The tree of a restart on a backend whose workspace is the notebook's own folder.
IN_PLACE: Final = "in-place"

#: A blob that is named: its sha256, and whether it is a manifest whose files are needed too.
Mention = tuple[str, bool]


class _Wrong(Exception):
    """A field that is not as it should be."""


def checked_step(body: Mapping[str, Json], text: bytes, where: str) -> NewStep:
    """The step whose canonical form is `text`. Raises BadBundle."""
    try:
        _require(_whole(body.get("seq")) and _whole(body.get("event")), "place")
        _require(body.get("kind") in STEP_KINDS, "kind")
        _require(isinstance(body.get("payload"), dict), "payload")
        _require(is_sha256(body.get("environment")), "environment")
        _require(_time(body.get("at")), "time")
        _require(_actor(body.get("actor")), "actor")
        _require(_pair(body.get("during"), body["seq"]), "during")
        _require(_names(body.get("blobs")), "blobs")
        _require(_optional(body.get("key"), _word), "key")
        _require(_optional(body.get("late"), is_sha256), "late")
        _PAYLOADS[body["kind"]](body["payload"])
        new = parse_step(body)
        # What it says beyond these fields would be lost.
        same = canonical_step(body["seq"], body["event"], new, body.get("late")) == text
        _require(same, "form")
    except (_Wrong, KeyError, TypeError, RepriseError) as error:
        raise BadBundle(f"{where} is no step that Reprise records ({_reason(error)})") from error
    return new


def checked_outcome(body: Mapping[str, Json], text: bytes, where: str) -> NewOutcome:
    """The outcome whose canonical form is `text`. Raises BadBundle."""
    try:
        _require(_whole(body.get("seq")) and _whole(body.get("event")), "place")
        _require(body.get("status") in STATUSES, "status")
        _require(is_sha256(body.get("outputs")), "outputs")
        _require(_time(body.get("at")) and _whole(body.get("duration_us")), "times")
        inputs = body.get("inputs")
        _require(isinstance(inputs, list) and all(_optional(i, _text) for i in inputs), "inputs")
        _require(_optional(body.get("execution_count"), _time), "execution count")
        _require(_optional(body.get("cause"), _mapping), "cause")
        _require(isinstance(body.get("cut"), bool), "cut")
        _require(_optional(body.get("late"), is_sha256), "late")
        new = parse_outcome(body)
        same = canonical_outcome(body["seq"], body["event"], new, body.get("late")) == text
        _require(same, "form")
    except (_Wrong, KeyError, TypeError) as error:
        raise BadBundle(f"{where} is no outcome that Reprise records ({_reason(error)})") from error
    return new


def checked_entry(value: Json, where: str) -> OutputEntry:
    """An output. Raises BadBundle."""
    try:
        _require(isinstance(value, list) and len(value) == 4, "form")
        type_, content, metadata, blobs = value
        _require(_word(type_), "type")
        _require(_mapping(content) and _mapping(metadata), "content")
        _require(_names(blobs), "blobs")
        if type_ == "stream":
            _require(_text(content.get("name")) and _text(content.get("text")), "stream")
    except _Wrong as error:
        raise BadBundle(f"{where} is no output that Reprise records ({_reason(error)})") from error
    return OutputEntry.from_json(value)


def mentions_of_step(new: NewStep) -> Iterator[Mention]:
    """The blobs a checked step needs, in order."""
    for name in new.blobs:
        yield name, False
    if new.kind == "upload":
        for _, type_, _, _, content in new.payload["entries"]:
            if type_ == "file" and content is not None:
                yield content, False
    elif new.kind == "command":
        if new.payload.get("stdin") is not None:
            yield new.payload["stdin"], False
    elif new.kind in ("mount", "restart"):
        tree = new.payload["tree"]
        if tree is not None and tree != IN_PLACE:
            yield tree, True


def files_of_tree(data: bytes, name: str) -> list[str]:
    """The blobs that a named tree needs, in order. Raises BadBundle."""
    try:
        return parse(data).blobs()
    except RepriseError as error:
        raise BadBundle(f"the tree {name} is malformed: {error}") from error


# payloads ----------------------------------------------------------------------------------------


def _message(payload: Mapping[str, Json]) -> None:
    header = payload["header"]
    _require(_mapping(header) and _mapping(payload["metadata"]), "message")
    _require(_mapping(payload["content"]), "message")
    _require(_word(header.get("msg_type")) and _word(header.get("msg_id")), "message's header")
    _require(_optional(header.get("subshell_id"), _word), "message's subshell")


def _cell(payload: Mapping[str, Json]) -> None:
    _message(payload)
    _require(_text(payload["content"].get("code")), "code")


def _comm(payload: Mapping[str, Json]) -> None:
    _message(payload)
    _require(_optional(payload["content"].get("comm_id"), _word), "comm's id")


def _command(payload: Mapping[str, Json]) -> None:
    if "stop" in payload:
        _require(set(payload) == {"stop"} and _whole(payload["stop"]), "stop")
        return
    shell, argv = payload.get("shell"), payload.get("argv")
    _require((shell is None) != (argv is None), "command")
    _require(_optional(shell, _text), "shell")
    _require(argv is None or (_texts(argv) and len(argv) > 0), "argv")
    _require(_optional(payload.get("cwd"), _text), "cwd")
    env = payload.get("env")
    _require(env is None or (_mapping(env) and _texts(list(env.values()))), "env")
    _require(_optional(payload.get("stdin"), is_sha256), "stdin")
    timeout = payload.get("timeout_s")
    _require(timeout is None or (type(timeout) in (int, float) and timeout > 0), "time limit")
    _require(_whole(payload["output_bytes"]) and _whole(payload["output_lines"]), "caps")
    _require(isinstance(payload.get("background", False), bool), "background")


def _upload(payload: Mapping[str, Json]) -> None:
    entries, removed = payload["entries"], payload["removed"]
    _require(isinstance(entries, list) and isinstance(removed, list), "entries")
    for entry in Manifest.of(Entry.from_json(entry) for entry in entries):
        _require(entry.type != "file" or entry.sha256 is not None, "content of a file")
    for path in removed:
        check_path(path)


def _mount(payload: Mapping[str, Json]) -> None:
    target = payload["target"]
    _require(_text(target) and target.startswith(_MOUNTS), "target")
    check_path(target[1:])
    _require(is_sha256(payload["tree"]), "tree")
    skill = payload.get("skill")
    _require(
        skill is None
        or (
            _mapping(skill)
            and set(skill) == {"name", "scope", "version"}
            and all(map(_text, skill.values()))
        ),
        "skill",
    )
    _require(isinstance(payload.get("trusted", False), bool), "trust")


def _restart(payload: Mapping[str, Json]) -> None:
    tree = payload["tree"]
    _require(tree is None or tree == IN_PLACE or is_sha256(tree), "tree")


_PAYLOADS: Final[Mapping[str, Callable[[Mapping[str, Json]], None]]] = {
    "cell": _cell,
    "command": _command,
    "upload": _upload,
    "mount": _mount,
    "comm": _comm,
    "restart": _restart,
}


# fields ------------------------------------------------------------------------------------------


def _require(true: bool, field: str) -> None:
    if not true:
        raise _Wrong(field)


def _reason(error: Exception) -> str:
    if isinstance(error, _Wrong):
        return f"its {error}"
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)


def _whole(value: object) -> bool:
    return type(value) is int and 0 <= value < _BIGINT


def _time(value: object) -> bool:
    return type(value) is int and -_BIGINT <= value < _BIGINT


def _text(value: object) -> bool:
    return isinstance(value, str)


def _texts(value: object) -> bool:
    return isinstance(value, list) and all(map(_text, value))


def _word(value: object) -> bool:
    return isinstance(value, str) and len(value) <= _WORD


def _mapping(value: object) -> bool:
    return isinstance(value, dict)


def _names(value: object) -> bool:
    return isinstance(value, list) and all(map(is_sha256, value))


def _optional(value: object, check: Callable[[object], bool]) -> bool:
    return value is None or check(value)


def _pair(value: object, seq: int) -> bool:
    if value is None:
        return True
    return (
        isinstance(value, Sequence)
        and len(value) == 2
        and all(map(_whole, value))
        and value[0] < seq
    )


def _actor(value: object) -> bool:
    return (
        isinstance(value, dict)
        and value.get("kind") in get_args(ActorKind)
        and _optional(value.get("conversation"), _word)
        and _optional(value.get("turn"), _time)
    )
