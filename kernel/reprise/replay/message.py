"""Jupyter messages as raw frames, with just the parts parsed that routing and the log need (pure).

Frames without identities, delimiter and signature: header, parent_header, metadata, content,
*buffers (Jupyter messaging protocol 5.4, "The wire protocol").
"""

from __future__ import annotations

import contextlib
import json
import math
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import orjson

from reprise.log.model import Json, OutputEntry, canonical, sha256_hex

#: Protocol version in headers that we make ourselves.
PROTOCOL = "5.4"

#: iopub types that are not outputs of a step: recomputed, or of the debugger's session only.
UNRECORDED = frozenset({"status", "execute_input", "debug_event", "iopub_welcome"})


#: Bytes of a stream's content from which the faster parser pays.
LARGE = 32 << 10


class Malformed(ValueError):
    """A message that is not what the protocol says; the text names the part."""


def _constant(word: str) -> str:
    """NaN and infinities are not JSON; kernels that send them anyway get their spelling kept."""
    return word


def _number(text: str) -> float | str:
    """A number that no float holds (1e999) would become an infinity: it keeps its spelling, too."""
    value = float(text)
    return value if math.isfinite(value) else text


#: One for all: `json.loads` makes a new decoder whenever it is given an option.
_DECODER = json.JSONDecoder(parse_constant=_constant, parse_float=_number)


def parse_object(data: bytes, part: str) -> dict[str, Json]:
    """A JSON object from one frame. Raises Malformed."""
    try:
        value = _DECODER.decode(_text(data))
    except (ValueError, RecursionError) as error:
        raise Malformed(f"the {part} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise Malformed(f"the {part} is not a JSON object")
    return value


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        # jupyter_client sends undecodable file names as the bytes that they stand for.
        return data.decode("utf-8", "surrogateescape")


@dataclass(frozen=True)
class Message:
    """One message as raw frames; `header` parsed, the rest left as bytes."""

    header: Mapping[str, Json]
    raw_header: bytes
    raw_parent: bytes
    raw_metadata: bytes
    raw_content: bytes
    buffers: tuple[bytes, ...] = ()

    @classmethod
    def from_frames(cls, frames: Sequence[bytes]) -> Message:
        """From header, parent, metadata, content, *buffers. Raises Malformed."""
        if len(frames) < 4:
            raise Malformed(f"{len(frames)} frames where at least 4 are needed")
        header = parse_object(frames[0], "header")
        for name in ("msg_id", "msg_type"):
            value = header.get(name)
            if not isinstance(value, str) or not value or len(value) > 256:
                raise Malformed(f"the header's {name} is not a string of 1 to 256 characters")
        return cls(header, frames[0], frames[1], frames[2], frames[3], tuple(frames[4:]))

    @property
    def msg_id(self) -> str:
        return str(self.header["msg_id"])

    @property
    def msg_type(self) -> str:
        return str(self.header["msg_type"])

    @property
    def subshell_id(self) -> str | None:
        value = self.header.get("subshell_id")
        return value if isinstance(value, str) and value else None

    @property
    def size(self) -> int:
        frames = (self.raw_header, self.raw_parent, self.raw_metadata, self.raw_content)
        return sum(map(len, frames)) + sum(map(len, self.buffers))

    @property
    def payload_size(self) -> int:
        """Bytes of content, metadata and buffers."""
        return len(self.raw_content) + len(self.raw_metadata) + sum(map(len, self.buffers))

    def content(self) -> dict[str, Json]:
        """Raises Malformed."""
        if self.msg_type == "stream" and len(self.raw_content) > LARGE:
            # Two strings, so nothing that orjson reads otherwise than the standard library.
            with contextlib.suppress(orjson.JSONDecodeError):
                value = orjson.loads(self.raw_content)
                if isinstance(value, dict):
                    return value
        return parse_object(self.raw_content, "content")

    def metadata(self) -> dict[str, Json]:
        return parse_object(self.raw_metadata, "metadata")

    def parent_id(self) -> str | None:
        """msg_id of the request this belongs to. Raises Malformed."""
        value = parse_object(self.raw_parent, "parent_header").get("msg_id")
        return value if isinstance(value, str) else None

    def frames(self) -> list[bytes]:
        return [
            self.raw_header,
            self.raw_parent,
            self.raw_metadata,
            self.raw_content,
            *self.buffers,
        ]

    def with_content(self, content: Mapping[str, Json]) -> Message:
        return replace(self, raw_content=canonical(content))


def make(
    msg_type: str,
    content: Mapping[str, Json],
    *,
    parent: bytes = b"{}",
    metadata: Mapping[str, Json] | None = None,
    session: str = "reprise",
    buffers: Sequence[bytes] = (),
    msg_id: str | None = None,
) -> Message:
    """A message of our own. `parent` is the raw header of the request it answers."""
    header = {
        "msg_id": msg_id or uuid.uuid4().hex,
        "msg_type": msg_type,
        "username": "reprise",
        "session": session,
        "date": datetime.now(UTC).isoformat(),
        "version": PROTOCOL,
    }
    return Message(
        header,
        canonical(header),
        parent,
        canonical(metadata or {}),
        canonical(content),
        tuple(buffers),
    )


def request_payload(message: Message) -> dict[str, Json]:
    """A cell's or comm's payload for the log: everything needed to send the same request again."""
    return {
        "header": dict(message.header),
        "metadata": message.metadata(),
        "content": message.content(),
    }


def request_from_payload(payload: Mapping[str, Json], buffers: Sequence[bytes] = ()) -> Message:
    """The recorded request with the header it had, so that late outputs still name their cell."""
    header = payload["header"]
    return Message(
        header,
        canonical(header),
        b"{}",
        canonical(payload["metadata"]),
        canonical(payload["content"]),
        tuple(buffers),
    )


def output_entry(message: Message) -> OutputEntry:
    """An iopub message as the log keeps it. Raises Malformed."""
    return OutputEntry(
        message.msg_type,
        message.content(),
        message.metadata(),
        tuple(sha256_hex(buffer) for buffer in message.buffers),
    )
