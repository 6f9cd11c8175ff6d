"""Amazon's event stream, in which Bedrock carries a model's events (pure).

Format: "application/vnd.amazon.eventstream": prelude (total and header length, CRC-32), headers,
payload, CRC-32 of all before it; numbers big-endian.
"""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Mapping
from typing import Any, Final

CONTENT_TYPE: Final = "application/vnd.amazon.eventstream"
#: A header's value is text.
_TEXT: Final = 7


def chunk(event: Mapping[str, Any]) -> bytes:
    """One event of the model's stream, as Bedrock wraps it."""
    inner = json.dumps(event, ensure_ascii=False, separators=(",", ":"))
    payload = {"bytes": base64.b64encode(inner.encode("utf-8", "surrogatepass")).decode()}
    headers = {
        ":event-type": "chunk",
        ":content-type": "application/json",
        ":message-type": "event",
    }
    return _message(headers, json.dumps(payload).encode())


def exception(kind: str, message: str) -> bytes:
    """A failure in the middle of a stream, such as `modelStreamErrorException`."""
    headers = {
        ":exception-type": kind,
        ":content-type": "application/json",
        ":message-type": "exception",
    }
    return _message(headers, json.dumps({"message": message}).encode())


def _message(headers: Mapping[str, str], payload: bytes) -> bytes:
    packed = b"".join(
        struct.pack(">B", len(name))
        + name.encode()
        + struct.pack(">BH", _TEXT, len(value))
        + value.encode()
        for name, value in headers.items()
    )
    prelude = struct.pack(">II", 16 + len(packed) + len(payload), len(packed))
    checked = prelude + struct.pack(">I", zlib.crc32(prelude)) + packed + payload
    return checked + struct.pack(">I", zlib.crc32(checked))
