"""An image that a model's API would refuse is not passed on: it would stand in the way for good."""

from __future__ import annotations

import base64
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprise_server.agent.tools.images import (
    IMAGE_CHARACTERS,
    IMAGES_CHARACTERS,
    MOST_IMAGES,
    Image,
    chosen,
    image,
    image_of_bytes,
)
from reprise_server.agent.tools.shown import summary


def chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def png(width: int = 3, height: int = 2, *, rows: bytes | None = None, laced: int = 0) -> bytes:
    """A picture in true colour, black. rows: other bytes of its pixels."""
    pixels = b"\0" * ((1 + 3 * width) * height) if rows is None else rows
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, laced))
        + chunk(b"tEXt", b"Software\0a test")
        + chunk(b"IDAT", zlib.compress(pixels))
        + chunk(b"IEND", b"")
    )


# The smallest of each kind, as encoders write them.
JPEG = base64.b64decode(
    "/9j/4AAQSkZJRgABAQEASABIAAD/2wBDAP//////////////////////////////////////////////////////////"
    "////////////////////////////wAALCAABAAEBAREA/8QAFAABAAAAAAAAAAAAAAAAAAAAA//EABQQAQAAAAAAAAAA"
    "AAAAAAAAAAD/2gAIAQEAAD8AN//Z"
)
GIF = base64.b64decode("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7")
WEBP = base64.b64decode("UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA==")


@pytest.mark.parametrize(
    ("kind", "data", "size"),
    [
        ("image/png", png(), (3, 2)),
        ("image/jpeg", JPEG, (1, 1)),
        ("image/jpeg", JPEG + b"\0\0", (1, 1)),
    ],
)
def test_each_kind_that_the_api_takes_is_passed(
    kind: str, data: bytes, size: tuple[int, int]
) -> None:
    found = image(kind, base64.encodebytes(data).decode())
    assert isinstance(found, Image)
    assert (found.kind, found.width, found.height) == (kind, *size)
    source = found.block()["source"]
    assert source["media_type"] == kind
    assert base64.b64decode(source["data"]) == data


def test_a_laced_png_has_the_bytes_of_its_passes() -> None:
    # 3×2 in seven passes (Adam7): 1×1, -, -, 1×1, -, 1×1 … of the first row 2 + of the second 3.
    rows = b"\0" * ((1 + 3) + (1 + 3) + (1 + 3) + (1 + 9))
    assert isinstance(image_of_bytes(png(rows=rows, laced=1)), Image)
    assert isinstance(image_of_bytes(png(rows=rows[:-1], laced=1)), str)


@pytest.mark.parametrize("kind", ["png", "jpeg"])
def test_a_cut_image_is_not_passed(kind: str) -> None:
    data = {"png": png(), "jpeg": JPEG}[kind]
    for end in range(len(data)):
        assert isinstance(image_of_bytes(data[:end]), str), end


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (png(rows=b"\0" * 5), "damaged"),
        (png(rows=b"\5" * 20), "damaged"),
        (JPEG.replace(b"\xff\xdb\0\x43\0", b"\xff\xdb\0\x43\3"), "damaged"),
        (JPEG.replace(b"\xff\xc4\0\x14\0", b"\xff\xc4\0\x14\3"), "damaged"),
        (JPEG.replace(b"\xff\xc0", b"\xff\xc3"), "damaged"),
        (GIF, "it is image/gif; save it as PNG"),
        (WEBP, "it is image/webp; save it as PNG"),
        (png(rows=b"\0" * 5_000_000), "damaged"),
        (png(0, 2, rows=b""), "0×2 pixels"),
        (png(2_001, 1), "2001×1 pixels"),
        (png(60_000, 60_000, rows=b""), "60000×60000 pixels"),
        (png()[:-4] + b"\0\0\0\0", "damaged"),
        (png() + b"more", "damaged"),
        (b"<svg/>", "not of that kind"),
        (b"", "not of that kind"),
    ],
)
def test_what_is_damaged_or_too_large_is_told_instead(data: bytes, why: str) -> None:
    found = image_of_bytes(data)
    assert isinstance(found, str)
    assert why in found


def test_a_wrong_name_or_no_base64_is_told() -> None:
    assert image("image/png", base64.b64encode(GIF).decode()) == (
        "not shown, since its bytes are not of that kind"
    )
    assert image("image/png", "no base64!") == "not shown, since it is no base64"
    assert "are the most" in str(image("image/png", "A" * (3 * IMAGE_CHARACTERS)))


@given(
    st.sampled_from([png(), JPEG, GIF, WEBP]),
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), min_size=1, max_size=4),
)
def test_changed_bytes_raise_nothing(data: bytes, changes: list[tuple[int, int]]) -> None:
    made = bytearray(data)
    for at, value in changes:
        made[at % len(made)] = value
    assert isinstance(image_of_bytes(bytes(made)), Image | str)


def test_images_of_one_result_fit_into_an_entry_of_the_log() -> None:
    small = Image("image/png", "A" * 10, 1, 1)
    assert chosen([small] * 9) == ([small] * MOST_IMAGES, 9 - MOST_IMAGES)
    large = Image("image/png", "A" * IMAGE_CHARACTERS, 1, 1)
    kept, left = chosen([large] * 4)
    assert sum(len(each.data) for each in kept) <= IMAGES_CHARACTERS
    assert left == 4 - len(kept)


def test_a_cells_picture_stands_where_it_was_shown() -> None:
    data = {"image/png": base64.b64encode(png()).decode(), "text/plain": "<Figure size 3x2>"}
    found = summary([{"output_type": "display_data", "data": data, "metadata": {}}])
    assert found.text == "[image 1: image/png, 3×2]\n<Figure size 3x2>\n"
    assert [each.kind for each in found.images] == ["image/png"]
