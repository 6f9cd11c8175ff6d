"""Large batches of outputs in compressed form (pure).

The embedded Postgres is built without lz4, so it would write a megabyte of text uncompressed,
twice (its write-ahead log and its table), before a cell could be told to be over. Packed, a
batch is a JSON string `zstd:<bytes>:<base64>` where others are a JSON array, so the column stays
JSON for whoever reads it by hand.
"""

from __future__ import annotations

import base64
import binascii

import zstandard

from reprise.errors import LogCorrupt

#: Smaller batches are not worth it.
PACK_ABOVE = 16 << 10

#: A packed batch has to be this much smaller (base64 adds a third; pictures hardly shrink).
WORTH = 0.75

#: The most one batch may unpack to: an entry's bound and its row's, as the writer has them.
MAX_UNPACKED = 160 << 20

_MARK = "zstd"


def pack(batch: bytes) -> bytes:
    """A JSON array's bytes, as a JSON string where that is clearly smaller."""
    if len(batch) < PACK_ABOVE:
        return batch
    body = base64.b64encode(zstandard.ZstdCompressor(level=1).compress(batch))
    packed = b'"%s:%d:%s"' % (_MARK.encode(), len(batch), body)
    return packed if len(packed) < WORTH * len(batch) else batch


def unpack(body: str) -> str | bytes:
    """The JSON array of a stored batch. Raises LogCorrupt when it is no batch of ours."""
    if not body.startswith('"'):
        return body
    parts = body.strip('"').split(":")
    try:
        mark, size, data = parts
        packed = base64.b64decode(data, validate=True)
        expected = int(size)
        if mark != _MARK or not 0 <= expected <= MAX_UNPACKED:
            raise ValueError(f"{mark!r} of {size} bytes")
        # The frame's own word on its size must not make us allocate more than the batch says.
        if zstandard.get_frame_parameters(packed).content_size > expected:
            raise ValueError("more bytes than it says")
        batch = zstandard.ZstdDecompressor().decompress(packed, max_output_size=expected)
    except (ValueError, binascii.Error, zstandard.ZstdError) as error:
        raise LogCorrupt(f"A packed batch of outputs cannot be unpacked: {error}.") from error
    if len(batch) != expected:
        raise LogCorrupt(f"A packed batch of outputs holds {len(batch)} bytes, not {expected}.")
    return batch
