"""Images that are passed to a model: whole, well-formed and within the API's limits (pure).

A request with an image that the API cannot read is refused, and the image stands in every later
request of the conversation; so what is passed is looked through to its end, and nothing of it is
decoded by more than zlib.
"""

from __future__ import annotations

import base64
import binascii
import struct
import zlib
from dataclasses import dataclass
from typing import Any, Final

#: By preference, where an output has several.
IMAGE_TYPES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")

#: Pixels of a side. The API takes 8,000, but 2,000 once a request holds more than 20 images.
MOST_SIDE: Final = 2_000
#: Base64 characters of one image and of all in a result: an entry of the log holds 4 MiB.
IMAGE_CHARACTERS: Final = 1_500_000
IMAGES_CHARACTERS: Final = 3_000_000
#: Images of one result.
MOST_IMAGES: Final = 8

_PNG: Final = b"\x89PNG\r\n\x1a\n"
#: Samples of a pixel by colour type, and the depths each may have (PNG, third edition, 11.2.1).
_SAMPLES: Final = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
_DEPTHS: Final = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}


@dataclass(frozen=True)
class Image:
    """kind: its media type.  data: base64, as the API takes it.  width, height: pixels."""

    kind: str
    data: str
    width: int
    height: int

    def block(self) -> dict[str, Any]:
        source = {"type": "base64", "media_type": self.kind, "data": self.data}
        return {"type": "image", "source": source}


def image(kind: str, text: str) -> Image | str:
    """An image from base64, or a phrase why it is not passed."""
    if len(text) > 2 * IMAGE_CHARACTERS:
        return _too_large(len(text) * 3 // 4)
    try:
        data = base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        return "not shown, since it is no base64"
    return image_of_bytes(data, kind)


def image_of_bytes(data: bytes, kind: str | None = None) -> Image | str:
    """An image from its file's bytes, or a phrase why it is not passed. kind: None for any."""
    found = kind_of(data)
    if found is None or (kind is not None and found != kind):
        return "not shown, since its bytes are not of that kind"
    encoded = base64.b64encode(data).decode("ascii")
    if len(encoded) > IMAGE_CHARACTERS:
        return _too_large(len(data))
    try:
        width, height = _SIZES[found](data)
    except (struct.error, IndexError, ValueError, zlib.error):
        return "not shown, since it is damaged or of a variety that is not known here"
    if not (0 < width <= MOST_SIDE and 0 < height <= MOST_SIDE):
        return (
            f"not shown, since it has {width}×{height} pixels and {MOST_SIDE:,} a side are the"
            " most; make it smaller (figsize, dpi) to see it"
        )
    return Image(found, encoded, width, height)


def chosen(images: list[Image]) -> tuple[list[Image], int]:
    """Those that fit into one result, the last ones first counted out; and how many do not."""
    kept: list[Image] = []
    room = IMAGES_CHARACTERS
    for each in images:
        if len(kept) == MOST_IMAGES or len(each.data) > room:
            break
        room -= len(each.data)
        kept.append(each)
    return kept, len(images) - len(kept)


def kind_of(data: bytes) -> str | None:
    """The media type that a file begins like."""
    if data.startswith(_PNG):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "image/webp"
    return None


def _too_large(size: int) -> str:
    most = IMAGE_CHARACTERS * 3 // 4
    return f"not shown, since it has {size:,} bytes and {most:,} are the most"


def _png(data: bytes) -> tuple[int, int]:
    """Every chunk whole and right, and as many bytes of pixels as its size says."""
    width, height, depth, colour, packing, filtering, laced = struct.unpack(">IIBBBBB", data[16:29])
    if data[12:16] != b"IHDR" or packing or filtering or laced > 1:
        raise ValueError("not a header")
    if depth not in _DEPTHS.get(colour, ()):
        raise ValueError("no such colours")
    if width > MOST_SIDE or height > MOST_SIDE:
        return width, height
    at, pixels, palette = len(_PNG), bytearray(), False
    while True:
        length, name = struct.unpack(">I4s", data[at : at + 8])
        body = data[at + 8 : at + 8 + length]
        (check,) = struct.unpack(">I", data[at + 8 + length : at + 12 + length])
        if len(body) != length or zlib.crc32(name + body) != check:
            raise ValueError("a broken chunk")
        at += 12 + length
        if name == b"IDAT":
            pixels += body
        palette = palette or name == b"PLTE"
        if name == b"IEND":
            break
    if at != len(data) or (colour == 3 and not palette):
        raise ValueError("not whole")
    wanted = _png_bytes(width, height, depth * _SAMPLES[colour], laced == 1)
    reader = zlib.decompressobj()
    got = len(reader.decompress(bytes(pixels), wanted + 1))
    if got != wanted or (not reader.eof and reader.unconsumed_tail):
        raise ValueError("not the pixels of its size")
    return width, height


def _png_bytes(width: int, height: int, bits: int, laced: bool) -> int:
    """Bytes of the rows, each with its filter's byte (PNG, third edition, 8.1 and 9.2)."""
    passes = [(0, 0, 1, 1)]
    if laced:
        passes = [
            *((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4)),
            *((0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)),
        ]
    total = 0
    for left, top, across, down in passes:
        columns, rows = -(-(width - left) // across), -(-(height - top) // down)
        if columns > 0 and rows > 0:
            total += rows * (1 + (columns * bits + 7) // 8)
    return total


def _jpeg(data: bytes) -> tuple[int, int]:
    """Segments up to the scan, and an end (ISO/IEC 10918-1, annex B)."""
    if not data.rstrip(b"\0").endswith(b"\xff\xd9"):
        raise ValueError("no end")
    at, size = 2, None
    while True:
        if data[at] != 0xFF:
            raise ValueError("no marker")
        marker = data[at + 1]
        if marker == 0xFF:
            at += 1
            continue
        (length,) = struct.unpack(">H", data[at + 2 : at + 4])
        if length < 2:
            raise ValueError("a broken segment")
        if marker == 0xDA:
            break
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            if marker > 0xC2:
                raise ValueError("a rare variety")
            _, height, width = struct.unpack(">BHH", data[at + 4 : at + 9])
            size = width, height
        at += 2 + length
    if size is None:
        raise ValueError("no frame")
    return size


def _gif(data: bytes) -> tuple[int, int]:
    """Blocks to the trailer, with at least one image (GIF89a specification, 18 to 27)."""
    width, height, flags = struct.unpack("<HHB", data[6:11])
    at, images = 13 + _colours(flags), 0
    while True:
        if data[at] == 0x3B:
            break
        if data[at] == 0x21:
            at += 2
        elif data[at] == 0x2C:
            at += 10 + _colours(data[at + 9]) + 1
            images += 1
        else:
            raise ValueError("no block")
        while data[at]:
            at += 1 + data[at]
        at += 1
    if not images:
        raise ValueError("no image")
    return width, height


def _colours(flags: int) -> int:
    """Bytes of a table of colours."""
    return 3 << ((flags & 7) + 1) if flags & 0x80 else 0


def _webp(data: bytes) -> tuple[int, int]:
    """The container whole, and the size that its first chunk says (RFC 9649)."""
    (length,) = struct.unpack("<I", data[4:8])
    if length + 8 != len(data):
        raise ValueError("not whole")
    name = data[12:16]
    if name == b"VP8 ":
        if data[23:26] != b"\x9d\x01\x2a":
            raise ValueError("no frame")
        width, height = struct.unpack("<HH", data[26:30])
        return width & 0x3FFF, height & 0x3FFF
    if name == b"VP8L":
        if data[20] != 0x2F:
            raise ValueError("no frame")
        (bits,) = struct.unpack("<I", data[21:25])
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if name == b"VP8X":
        width = int.from_bytes(data[24:27], "little") + 1
        height = int.from_bytes(data[27:30], "little") + 1
        return width, height
    raise ValueError("no frame")


_SIZES: Final = {
    "image/png": _png,
    "image/jpeg": _jpeg,
    "image/gif": _gif,
    "image/webp": _webp,
}
