"""What is packed comes out as it went in; what was not packed by us is refused, bounded."""

from __future__ import annotations

import base64
import hashlib
import json

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from reprise.errors import LogCorrupt
from reprise.log.packing import PACK_ABOVE, pack, unpack


@given(st.lists(st.text(), max_size=20), st.integers(0, 40))
def test_a_batch_comes_out_as_it_went_in(texts: list[str], repeats: int) -> None:
    batch = json.dumps([texts * repeats, "y" * 1000 * repeats]).encode()
    assert json.loads(unpack(pack(batch).decode())) == json.loads(batch)


def test_large_text_shrinks_and_stays_json_and_pictures_stay_as_they_are() -> None:
    text = json.dumps(["x" * 1_000_000]).encode()
    assert len(pack(text)) < 1000
    assert isinstance(json.loads(pack(text)), str)
    noise = b"".join(hashlib.sha256(b"%d" % number).digest() for number in range(3000))
    picture = json.dumps([base64.b64encode(noise).decode()]).encode()
    assert len(picture) > PACK_ABOVE
    assert pack(picture) is picture


def _body(data: bytes, size: int | str) -> str:
    return f'"zstd:{size}:{base64.b64encode(data).decode()}"'


_FRAME = zstandard.ZstdCompressor().compress(b"[" * 100_000)
_NO_SIZE = zstandard.ZstdCompressor(write_content_size=False).compress(b"[" * 100_000)


@pytest.mark.parametrize(
    "body",
    [
        '"gzip:3:AAAA"',
        '"zstd:3"',
        '"zstd:3:not base64!"',
        _body(b"no frame", 3),
        _body(_FRAME, -1),
        _body(_FRAME, "many"),
        _body(_FRAME, 10),
        _body(_NO_SIZE, 10),
        _body(_FRAME, 100_001),
        _body(_FRAME[:-5], 100_000),
        _body(_FRAME, 1 << 40),
    ],
)
def test_a_batch_that_lies_is_refused(body: str) -> None:
    with pytest.raises(LogCorrupt):
        unpack(body)
