"""What stands beside the history in a bundle: notices, states, artifacts, answers of hosts (pure).

The chain does not close over them; the manifest does.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Generic, TypeVar, get_args

from reprise.bundle import layout
from reprise.bundle.bounded import parse_canonical
from reprise.bundle.lines import is_sha256
from reprise.bundle.shape import Mention
from reprise.errors import BadBundle, RepriseError
from reprise.log.model import Actor, ActorKind, Json, canonical
from reprise.log.store import Artifact, Notice, RecordedResponse, StateRecord
from reprise.workspace.manifest import MAX_SIZE, check_path

_BIGINT: Final = 1 << 63
_WORD: Final = 1_000
#: Artifacts in a bundle name no id: whoever imports them draws one.
NO_ID: Final = uuid.UUID(int=0)

Record = Notice | StateRecord | Artifact | RecordedResponse
R = TypeVar("R", Notice, StateRecord, Artifact, RecordedResponse)

#: What a header may be, so that it can be sent again: a token, and a line of Latin-1.
_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,1000}")
_HEADER_VALUE: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_METHOD: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")


@dataclass(frozen=True)
class Table(Generic[R]):
    """How the records of one member are written and read."""

    name: str
    write: Callable[[R], Json]
    read: Callable[[list[Json]], R]

    def to_bytes(self, records: Iterable[R]) -> bytes:
        return b"".join(canonical(self.write(record)) + b"\n" for record in records)

    def parse(self, line: bytes, number: int, steps: int) -> R:
        """A line of a history of so many steps. Raises BadBundle."""
        where = f"line {number} of {self.name}"
        value = parse_canonical(line, where)
        try:
            record = self.read(value)
            fits = canonical(self.write(record)) == line and stands_in(record, steps)
        except (ValueError, TypeError, RepriseError) as error:
            raise BadBundle(f"{where} says what Reprise does not record") from error
        if not fits:
            raise BadBundle(f"{where} says what Reprise does not record")
        return record


def mentions(record: Record) -> list[Mention]:
    """The blobs a record needs. Of a state only the list of its files is kept, not the files."""
    if isinstance(record, Artifact):
        return [(record.sha256, False)]
    if isinstance(record, StateRecord) and record.files is not None:
        return [(record.files, False)]
    if isinstance(record, RecordedResponse):
        return [(piece, False) for piece in record.pieces]
    return []


def stands_in(record: Record, steps: int) -> bool:
    """Whether a record belongs to a history of so many steps."""
    return record.seq is None or -1 <= record.seq < steps


def _write_notice(notice: Notice) -> Json:
    return [notice.seq, notice.at, notice.code, notice.text, dict(notice.detail)]


def _read_notice(value: list[Json]) -> Notice:
    seq, at, code, text, detail = value
    _require(seq is None or _number(seq), _number(at), isinstance(text, str))
    _require(isinstance(code, str) and len(code) <= _WORD and "\0" not in code)
    _require(isinstance(detail, dict))
    return Notice(seq, at, code, text, detail)


def _write_state(state: StateRecord) -> Json:
    variables = None if state.variables is None else dict(state.variables)
    return [state.seq, state.at, state.files, variables]


def _read_state(value: list[Json]) -> StateRecord:
    seq, at, files, variables = value
    _require(_number(seq), _number(at))
    _require(files is None or is_sha256(files), variables is None or isinstance(variables, dict))
    return StateRecord(seq, at, files, variables)


def _write_artifact(artifact: Artifact) -> Json:
    return [
        artifact.seq,
        artifact.path,
        artifact.sha256,
        artifact.size,
        artifact.mode,
        artifact.actor.to_json(),
        artifact.at,
    ]


def _read_artifact(value: list[Json]) -> Artifact:
    seq, path, sha256, size, mode, actor, at = value
    _require(_number(seq), _number(at), is_sha256(sha256))
    _require(_number(size) and 0 <= size <= MAX_SIZE, _number(mode) and 0 <= mode <= 0o777)
    _require(isinstance(actor, Mapping) and actor.get("kind") in get_args(ActorKind))
    conversation, turn = actor.get("conversation"), actor.get("turn")
    _require(conversation is None or (isinstance(conversation, str) and len(conversation) <= _WORD))
    _require(turn is None or _number(turn))
    who = Actor(actor["kind"], conversation, turn)
    return Artifact(NO_ID, NO_ID, seq, check_path(path), sha256, size, mode, who, at)


def _write_recorded(recorded: RecordedResponse) -> Json:
    return [
        recorded.seq,
        recorded.idle,
        recorded.key,
        recorded.nth,
        recorded.at,
        recorded.state,
        recorded.why,
        recorded.method,
        recorded.url,
        recorded.status,
        recorded.reason,
        [list(each) for each in recorded.headers],
        [list(each) for each in recorded.trailers],
        list(recorded.pieces),
        recorded.size,
    ]


def _read_recorded(value: list[Json]) -> RecordedResponse:
    seq, idle, key, nth, at, state, why, method, url, *answer = value
    status, reason, headers, trailers, pieces, size = answer
    _require(_number(seq), isinstance(idle, bool), is_sha256(key), _number(nth) and nth >= 0)
    _require(_number(at), state in ("whole", "part", "absent"))
    _require(isinstance(why, str) and (why == "") == (state == "whole"))
    _require(isinstance(method, str) and _METHOD.fullmatch(method) is not None)
    _require(isinstance(url, str))
    _require(type(status) is int and (200 <= status < 600 or (status, state) == (0, "absent")))
    _require(isinstance(reason, str) and _HEADER_VALUE.fullmatch(reason) is not None)
    _require(isinstance(pieces, list) and all(is_sha256(piece) for piece in pieces))
    _require(_number(size) and size >= 0, state != "absent" or not pieces)
    return RecordedResponse(
        seq=seq,
        idle=idle,
        key=key,
        nth=nth,
        at=at,
        state=state,
        why=why,
        method=method,
        url=url,
        status=status,
        reason=reason,
        headers=_headers(headers),
        trailers=_headers(trailers),
        pieces=tuple(pieces),
        size=size,
    )


def _headers(value: Json) -> tuple[tuple[str, str], ...]:
    _require(isinstance(value, list))
    for each in value:
        _require(isinstance(each, list) and len(each) == 2)
        _require(all(isinstance(text, str) for text in each))
        _require(_HEADER_NAME.fullmatch(each[0]) is not None)
        _require(_HEADER_VALUE.fullmatch(each[1]) is not None)
        length = each[1] if each[0].lower() == "content-length" else "0"
        _require(length.isascii() and length.isdigit() and len(length) <= 18)
    return tuple((name, text) for name, text in value)


def _require(*true: bool) -> None:
    if not all(true):
        raise ValueError


def _number(value: object) -> bool:
    return type(value) is int and -_BIGINT <= value < _BIGINT


NOTICES: Final = Table(layout.NOTICES, _write_notice, _read_notice)
STATES: Final = Table(layout.STATES, _write_state, _read_state)
ARTIFACTS: Final = Table(layout.ARTIFACTS, _write_artifact, _read_artifact)
RECORDED: Final = Table(layout.RECORDED, _write_recorded, _read_recorded)
