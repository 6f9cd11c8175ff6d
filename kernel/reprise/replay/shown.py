"""A step's outputs as a report shows them to a person: bounded texts and images (pure)."""

from __future__ import annotations

import base64
import binascii
import json
import re
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from reprise.log.model import Json, OutputEntry
from reprise.replay.volatile import overwritten

Kind = Literal["stdout", "stderr", "error", "result", "markup", "image", "question", "end", "note"]

#: Bounds on one step: characters of its texts, pieces, bytes of one image.
CHARACTERS: Final = 60_000
PIECES: Final = 60
IMAGE: Final = 1 << 20
#: An image that unfolds to more would stop the browser it is shown in.
PIXELS: Final = 40_000_000

_ANSI: Final = re.compile(r"\x1b(?:\[[0-9;?]{0,40}[A-Za-z]|\][^\x07\x1b]{0,300}(?:\x07|\x1b\\))")
_TEXTS: Final = ("text/plain", "text/markdown", "text/latex", "application/json")
_MARKUP: Final = ("text/html", "image/svg+xml", "application/javascript")


@dataclass(frozen=True)
class Image:
    mime: Literal["image/png", "image/jpeg", "image/svg+xml"]
    data: bytes


@dataclass(frozen=True)
class Piece:
    """One thing shown. cut: characters of its text that are left out at its end.

    markup: source of HTML and the like, for reading; never to be rendered.
    """

    kind: Kind
    text: str
    image: Image | None = None
    cut: int = 0


def pieces(entries: Iterable[OutputEntry], characters: int = CHARACTERS) -> tuple[Piece, ...]:
    """What a step showed, in order, at most `characters` of it all in all."""
    shown: list[Piece] = []
    left = characters
    for piece in _merged(each for entry in entries for each in _of(entry)):
        if len(shown) >= PIECES:
            shown.append(Piece("note", "More outputs are not shown here."))
            break
        text = piece.text[:left]
        left -= len(text)
        shown.append(Piece(piece.kind, text, piece.image, len(piece.text) - len(text)))
    return tuple(shown)


def _merged(found: Iterable[Piece]) -> Iterable[Piece]:
    """Consecutive pieces of one stream as one."""
    last: Piece | None = None
    for piece in found:
        if last is not None and last.kind == piece.kind and piece.kind in ("stdout", "stderr"):
            last = Piece(last.kind, last.text + piece.text)
            continue
        if last is not None:
            yield last
        last = piece
    if last is not None:
        yield last


def _of(entry: OutputEntry) -> Iterable[Piece]:
    content = entry.content
    if entry.type == "stream":
        kind: Kind = "stderr" if content.get("name") == "stderr" else "stdout"
        yield Piece(kind, plain(overwritten(str(content.get("text", "")))))
    elif entry.type == "error":
        lines = content.get("traceback")
        text = "\n".join(map(str, lines)) if isinstance(lines, list) and lines else ""
        text = text or f"{content.get('ename')}: {content.get('evalue')}"
        yield Piece("error", plain(text))
    elif entry.type in ("display_data", "execute_result", "update_display_data"):
        data = content.get("data")
        yield from _of_bundle(data if isinstance(data, Mapping) else {})
    elif entry.type == "input_request":
        yield Piece("question", plain(str(content.get("prompt", ""))))
    elif entry.type == "step_reply":
        yield from _of_end(content)
    elif entry.type.startswith("comm_"):
        yield Piece("note", f"a widget's message ({entry.type})")


def _of_bundle(data: Mapping[str, Json]) -> Iterable[Piece]:
    words = next((_joined(data[mime]) for mime in _TEXTS if mime in data), "")
    image = next(
        (found for mime in data if (found := image_of(mime, data[mime])) is not None), None
    )
    if image is not None:
        yield Piece("image", words, image)
        return
    if words:
        yield Piece("result", plain(words))
    else:
        for mime in data:
            if mime in _MARKUP:
                yield Piece("markup", plain(_joined(data[mime])))
                return
        yield Piece("note", "an output of type " + ", ".join(map(str, data)))


def _of_end(content: Mapping[str, Json]) -> Iterable[Piece]:
    result = content.get("result")
    if not isinstance(result, Mapping):
        return
    if result.get("signal") is not None:
        yield Piece("end", f"ended by signal {result['signal']}")
    elif result.get("exit_code") is not None:
        yield Piece("end", f"exit code {result['exit_code']}")


def _joined(value: Json) -> str:
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return "".join(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)


def plain(text: str) -> str:
    """Without the sequences that colour a terminal."""
    return _ANSI.sub("", text)


def image_of(mime: str, value: Json) -> Image | None:
    """An image that can be shown safely as a picture; None for what is none, or too large."""
    text = _joined(value)
    if mime == "image/svg+xml":
        # An entity of entities unfolds without end; no plotting library writes one.
        if len(text) > IMAGE or "<!ENTITY" in text or "<svg" not in text:
            return None
        return Image("image/svg+xml", text.encode("utf-8", "replace"))
    if mime not in ("image/png", "image/jpeg") or len(text) > IMAGE * 4 // 3:
        return None
    try:
        data = base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        return None
    size = _png_size(data) if mime == "image/png" else _jpeg_size(data)
    if size is None or not 0 < size[0] * size[1] <= PIXELS:
        return None
    return Image("image/png" if mime == "image/png" else "image/jpeg", data)


def _png_size(data: bytes) -> tuple[int, int] | None:
    if data[:8] != b"\x89PNG\r\n\x1a\n" or data[12:16] != b"IHDR" or len(data) < 24:
        return None
    width, height = struct.unpack_from(">II", data, 16)
    return width, height


def _jpeg_size(data: bytes) -> tuple[int, int] | None:
    """From the frame header: ISO 10918-1, B.2.2."""
    if data[:2] != b"\xff\xd8":
        return None
    at = 2
    while at + 9 < len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        (length,) = struct.unpack_from(">H", data, at + 2)
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack_from(">HH", data, at + 5)
            return width, height
        at += 2 + length
    return None
