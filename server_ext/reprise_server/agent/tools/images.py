"""Images that are passed to a model: whole, well-formed and within the API's limits (pure).

A request with an image that the API cannot read is refused, and the image stands in every later
request of the conversation; so what is passed is looked through to its end. Nothing of it is
decoded by more than zlib. GIF and WebP, which only a decoder could prove sound, are not passed; of
JPEG the structure is proven, not each coefficient.
"""

from __future__ import annotations

import base64
import binascii
import struct
import zlib
from dataclasses import dataclass
from typing import Any, Final

#: By preference, where an output has several.
IMAGE_TYPES: Final = ("image/png", "image/jpeg")

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
    if found not in IMAGE_TYPES:
        return f"not shown, since it is {found}; save it as PNG to see it"
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
    rows = _png_rows(width, height, depth * _SAMPLES[colour], laced == 1)
    wanted = sum(count * length for count, length in rows)
    got = zlib.decompressobj().decompress(bytes(pixels), wanted + 1)
    if len(got) != wanted:
        raise ValueError("not the pixels of its size")
    at = 0
    for count, length in rows:
        if max(got[at : at + count * length : length], default=0) > 4:
            raise ValueError("a filter that there is not")
        at += count * length
    return width, height


def _png_rows(width: int, height: int, bits: int, laced: bool) -> list[tuple[int, int]]:
    """How many rows of how many bytes, each with its filter's (PNG, third edition, 8.1 and 9.2)."""
    passes = [(0, 0, 1, 1)]
    if laced:
        passes = [
            *((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4)),
            *((0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)),
        ]
    found = []
    for left, top, across, down in passes:
        columns, rows = -(-(width - left) // across), -(-(height - top) // down)
        if columns > 0 and rows > 0:
            found.append((rows, 1 + (columns * bits + 7) // 8))
    return found


def _jpeg(data: bytes) -> tuple[int, int]:
    """All segments in their order, with the tables that each scan names, and only what a scan may
    hold between them (ISO/IEC 10918-1, annex B)."""
    end = len(data.rstrip(b"\0"))
    at = 2
    size: tuple[int, int] | None = None
    quantised: set[int] = set()
    coded: set[int] = set()
    wanted: dict[int, int] = {}
    scans, progressive = 0, False
    while True:
        if data[at] != 0xFF:
            raise ValueError("no marker")
        marker = data[at + 1]
        if marker == 0xFF:
            at += 1
            continue
        if marker == 0xD9:
            break
        (length,) = struct.unpack(">H", data[at + 2 : at + 4])
        body = data[at + 4 : at + 2 + length]
        if length < 2 or len(body) != length - 2:
            raise ValueError("a broken segment")
        at += 2 + length
        if marker == 0xDB:
            quantised |= _quantisations(body)
        elif marker == 0xC4:
            coded |= _codes(body)
        elif marker in (0xC0, 0xC1, 0xC2) and size is None:
            size, progressive = _frame(body, wanted), marker == 0xC2
        elif marker == 0xDA:
            if size is None or not set(wanted.values()) <= quantised:
                raise ValueError("a table is missing")
            _check_scan(body, set(wanted), coded, progressive)
            at = _after_scan(data, at)
            scans += 1
        elif not (0xE0 <= marker <= 0xEF or marker in (0xDD, 0xFE)):
            raise ValueError("a rare variety")
    if size is None or not scans or at + 2 != end:
        raise ValueError("not whole")
    return size


def _after_scan(data: bytes, at: int) -> int:
    """Where the next segment begins: only stuffed bytes and restarts stand before (B.1.1.5)."""
    while True:
        at = data.index(b"\xff", at)
        if data[at + 1] != 0 and not 0xD0 <= data[at + 1] <= 0xD7:
            return at
        at += 2


def _frame(body: bytes, wanted: dict[int, int]) -> tuple[int, int]:
    """The size; `wanted` gets the quantisation table of each component (B.2.2)."""
    precision, height, width, count = struct.unpack(">BHHB", body[:6])
    if precision != 8 or count not in (1, 3, 4) or len(body) != 6 + 3 * count:
        raise ValueError("a rare variety")
    for at in range(6, len(body), 3):
        name, sampling, table = body[at : at + 3]
        if not (1 <= sampling >> 4 <= 4 and 1 <= sampling & 15 <= 4):
            raise ValueError("no such sampling")
        wanted[name] = table
    return width, height


def _check_scan(body: bytes, components: set[int], coded: set[int], progressive: bool) -> None:
    """Whether a scan is of these components, has its tables and coefficients (B.2.3, G.1.1.1)."""
    count = body[0]
    if len(body) != 4 + 2 * count or not 1 <= count <= 4:
        raise ValueError("a broken scan")
    first, last, bits = body[-3:]
    direct, others = first == 0, last > 0
    if progressive:
        fits = last == 0 if direct else first <= last <= 63 and count == 1
        fits = fits and bits & 15 <= 13 and (bits >> 4 in (0, (bits & 15) + 1))
    else:
        fits = (first, last, bits) == (0, 63, 0)
    if not fits:
        raise ValueError("no such coefficients")
    for at in range(1, 1 + 2 * count, 2):
        name, tables = body[at], body[at + 1]
        wanted = ([tables >> 4] if direct else []) + ([16 | tables & 15] if others else [])
        if name not in components or not set(wanted) <= coded:
            raise ValueError("a table is missing")


def _quantisations(body: bytes) -> set[int]:
    """The tables that a segment defines (B.2.4.1)."""
    found, at = set(), 0
    while at < len(body):
        found.add(body[at] & 15)
        at += 129 if body[at] >> 4 else 65
    if at != len(body):
        raise ValueError("a broken table")
    return found


def _codes(body: bytes) -> set[int]:
    """The tables that a segment defines, 16 added to those of class 1 (B.2.4.2, annex C)."""
    found, at = set(), 0
    while at < len(body):
        kind, counts = body[at], body[at + 1 : at + 17]
        if kind & 0xEC or len(counts) != 16 or sum(counts) > 256:
            raise ValueError("a broken table")
        code = 0
        for length, count in enumerate(counts, 1):
            code += count
            if count and code >= 1 << length:
                raise ValueError("more codes than there are")
            code <<= 1
        values = body[at + 17 : at + 17 + sum(counts)]
        if not kind >> 4 and max(values, default=0) > 15:
            raise ValueError("no such difference")
        found.add(kind)
        at += 17 + sum(counts)
    if at != len(body):
        raise ValueError("a broken table")
    return found


_SIZES: Final = {"image/png": _png, "image/jpeg": _jpeg}
