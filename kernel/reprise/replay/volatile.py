"""Tells what two runs of one program may show differently (addresses, timings, …) apart (pure).

Only two things are decided here: whether two texts, HTML fragments or PNG images are the same,
*volatile* (equal once all that changes from run to run is masked) or different. A mask is a
guess, so what it hid is always reported: a volatile difference is listed, never dropped.

The texts come from a sandbox. Every pattern has bounded or disjoint repeats, so that none takes
more than linear time on a text made to hurt it.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, Literal

Verdict = Literal["same", "volatile", "different"]

#: Where more than this differs nothing is masked: it is a different output.
MASKED_CHARACTERS: Final = 2 << 20

#: A time of day counts as "now" this close to its run, seconds: any time zone, and a long cell.
_NOW: Final = 36 * 3600

_UNIT: Final = r"(?:ns|[µμu]s|ms|s|secs?|seconds?|mins?|minutes?|h|hours?)\b"
_NUMBER: Final = r"(?<![\d.,])\d[\d.,]{0,20}(?:e-?\d{1,3})?"
_DURATION: Final = re.compile(rf"{_NUMBER}\s{{0,3}}{_UNIT}|\b\d{{1,3}}:\d\d(?::\d\d)?\b")
#: A duration is volatile on a line that speaks of one; elsewhere it may be a result.
_SPEAKS_OF_TIME: Final = re.compile(
    r"elapsed|took|\bwall\b|\bcpu\b|run ?time|duration|\btime|timing|\beta\b|per loop|/step|/it"
    r"|it/s|(?:passed|failed|finished|done|completed|ran|trained|fitted|loaded|built|processed)\b.{0,40}"
    r"\b(?:in|after)\b",
    re.IGNORECASE,
)

#: After these words a number needs no unit.
_BARE_DURATION: Final = re.compile(
    rf"(\b(?:elapsed|took|wall[ _-]?time|run ?time|duration)\b[^\d\n]{{1,20}}){_NUMBER}",
    re.IGNORECASE,
)

_ISO: Final = re.compile(
    r"\b(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)([.,]\d{1,9})?)?)?"
    r"(?:Z\b|[+-]\d\d:?\d\d\b)?"
)

_RULES: Final[tuple[tuple[str, re.Pattern[str], str], ...]] = (
    (
        "address",
        re.compile(r"(\bat )0x[0-9a-fA-F]{2,16}\b|\b0x[0-9a-fA-F]{10,16}\b"),
        r"\1<address>",
    ),
    # id() in decimal: CPython's heap and mmap regions on 64-bit Linux.
    ("address", re.compile(r"\b(?:9[3-5]\d{12}|1(?:3[89]|40)\d{12})\b"), "<address>"),
    (
        "id",
        re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"),
        "<uuid>",
    ),
    ("timing", re.compile(r"\[\d{1,4}:\d\d(?::\d\d)?(?:<|, )[^\]\n]{0,80}\]"), "[<timing>]"),
    ("timing", re.compile(rf"{_NUMBER}\s?(?:it/s|s/it|[kKMG]?i?B/s)"), "<rate>"),
    ("timing", re.compile(r"\b[\d,]{1,20} loops? each"), "<n> loops each"),
    # What %timeit warns of when the machine was busy meanwhile (IPython, magics/execution.py).
    (
        "timing",
        re.compile(
            r"The slowest run took [\d.]{1,20} times longer than the fastest\. "
            r"This could mean that an intermediate result is being cached\.\n?"
        ),
        "",
    ),
    ("date", re.compile(r"\b1[6-9]\d{8}\.\d{1,9}\b"), "<now>"),
    (
        "date",
        re.compile(
            r"\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? "
            r"(?:[A-Z][a-z]{2} {1,2}\d{1,2}|\d\d [A-Z][a-z]{2} \d{4})"
            r" \d\d:\d\d:\d\d(?: (?:[AP]M ?)?[A-Z]{0,5})?(?: \d{4})?"
        ),
        "<now>",
    ),
    ("date", re.compile(r"\b\d\d/[A-Z][a-z]{2}/\d{4}[: ]\d\d:\d\d:\d\d"), "<now>"),
    ("date", re.compile(r"(?m)(^|\[)\d\d:\d\d:\d\d(?:[.,]\d{1,9})?\b"), r"\1<clock>"),
    ("path", re.compile(r"(?<=/)tmp[A-Za-z0-9_]{6,12}\b"), "<tmp>"),
    ("path", re.compile(r"/proc/\d{1,7}\b"), "/proc/<pid>"),
    (
        "pid",
        re.compile(r"(\b(?:pid|process(?: id)?|thread)\b[^\w\n]{1,4})\d{1,20}", re.IGNORECASE),
        r"\1<pid>",
    ),
    (
        "port",
        re.compile(
            r"((?:\bport\b[^\w\n]{1,4})|(?:127\.0\.0\.1|localhost|0\.0\.0\.0|\[::1?\]):)\d{2,5}\b",
            re.IGNORECASE,
        ),
        r"\1<port>",
    ),
)

_ANSI: Final = re.compile(r"\x1b\[[0-9;?]{0,40}[A-Za-z]")
_CELL_FILE: Final = re.compile(r"(?:/[^\s/:'\"<>]{1,200}){0,12}/ipykernel_\d{1,10}/\d{1,20}\.py")
_CELL_NAME: Final = re.compile(r"<ipython-input-\d{1,9}-[0-9a-f]{4,40}>")
_PROMPT: Final = re.compile(r"\bIn ?\[\d{1,9}\]")
_ELEMENT_ID: Final = re.compile(r"\bid ?= ?\\?[\"']([A-Za-z0-9][\w-]{3,200})\\?[\"']")
_TOKEN: Final = re.compile(r"[A-Za-z0-9][\w-]{3,200}")

#: What PNG files say beside the picture: texts, times, EXIF.
_PNG_NOTES: Final = frozenset({b"tEXt", b"zTXt", b"iTXt", b"tIME", b"eXIf"})


def compare_texts(
    a: str, b: str, *, markup: bool = False, moments: tuple[int, int] | None = None
) -> tuple[Verdict, str]:
    """Whether two texts are the same, and what was volatile ("address, timing").

    markup: HTML or SVG, whose element ids may be drawn anew.
    moments: when each text was made (µs since the epoch); dates near its moment are volatile.
    """
    if a == b:
        return "same", ""
    a, b = _unnamed(a), _unnamed(b)
    if a == b:
        return "same", ""
    kinds: list[str] = []
    if "\r" in a or "\r" in b:
        whole = a, b
        a, b = overwritten(a), overwritten(b)
        if (a, b) != whole:
            kinds.append("progress")
    if not markup:  # in markup one renamed element may stand on any line
        a, b = _middle(a, b)
    if max(len(a), len(b)) > MASKED_CHARACTERS:
        return ("volatile", "progress") if a == b else ("different", "")
    if markup and a != b:
        ids_a, ids_b = _element_ids(a), _element_ids(b)
        a, b = _with_ids(a, ids_a), _with_ids(b, ids_b)
        if ids_a != ids_b:
            kinds.append("element id")
    a, b = _mask(a, b, moments, kinds)
    return ("volatile", ", ".join(dict.fromkeys(kinds))) if a == b else ("different", "")


def compare_tracebacks(
    a: str, b: str, moments: tuple[int, int] | None = None
) -> tuple[Verdict, str]:
    """As `compare_texts`, blind to colours and to prompt numbers."""
    return compare_texts(
        _PROMPT.sub("In [·]", _ANSI.sub("", a)),
        _PROMPT.sub("In [·]", _ANSI.sub("", b)),
        moments=moments,
    )


def overwritten(text: str) -> str:
    """What a terminal still shows of a text: each line from its last carriage return on."""
    lines = text.replace("\x1b[A", "").split("\n")
    return "\n".join(line.rstrip("\r").rsplit("\r", 1)[-1] for line in lines)


def compare_pngs(a: bytes, b: bytes) -> tuple[Verdict, str]:
    """Volatile when only the notes in the file (program, time of making) differ."""
    if a == b:
        return "same", ""
    picture = _png_picture(a)
    if picture is not None and picture == _png_picture(b):
        return "volatile", "image notes"
    return "different", ""


def _png_picture(data: bytes) -> list[tuple[bytes, bytes]] | None:
    """The chunks that make the picture, the pixel data as one; None for what is no whole PNG."""
    if data[:8] != b"\x89PNG\r\n\x1a\n":
        return None
    chunks: list[tuple[bytes, bytes]] = []
    pixels: list[bytes] = []
    at = 8
    while at + 12 <= len(data):
        (length,) = struct.unpack_from(">I", data, at)
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        if len(body) != length:
            return None
        at += 12 + length
        if kind == b"IEND":
            return [*chunks, (b"IDAT", b"".join(pixels))]
        if kind == b"IDAT":
            pixels.append(body)
        elif kind not in _PNG_NOTES:
            chunks.append((kind, body))
    return None


def _unnamed(text: str) -> str:
    """Without the names of the kernel's own cell files, which never mean anything."""
    if "ipykernel_" in text:
        text = _CELL_FILE.sub("<cell>", text)
    if "<ipython-input-" in text:
        text = _CELL_NAME.sub("<cell>", text)
    return text


def _middle(a: str, b: str) -> tuple[str, str]:
    """Without the lines that both begin with and those that both end with."""
    left, right = a.split("\n"), b.split("\n")
    start, shorter = 0, min(len(left), len(right))
    while start < shorter and left[start] == right[start]:
        start += 1
    end = 0
    while end < shorter - start and left[-1 - end] == right[-1 - end]:
        end += 1
    # Each with its end, so that no lines and one empty line stay two things.
    middles = left[start : len(left) - end], right[start : len(right) - end]
    first, second = ("".join(line + "\n" for line in lines) for lines in middles)
    return first, second


def _element_ids(markup: str) -> dict[str, str]:
    """The ids of its elements, each with its order of appearance; ids without a digit are words."""
    ids: dict[str, str] = {}
    for match in _ELEMENT_ID.finditer(markup):
        if any(character.isdigit() for character in match.group(1)):
            ids.setdefault(match.group(1), f"#{len(ids)}")
    return ids


def _with_ids(markup: str, ids: dict[str, str]) -> str:
    """With ids replaced wherever they are named (labels, styles, scripts, clip paths)."""
    if not ids:
        return markup
    return _TOKEN.sub(lambda match: ids.get(match.group(), match.group()), markup)


def _mask(a: str, b: str, moments: tuple[int, int] | None, kinds: list[str]) -> tuple[str, str]:
    """Both texts masked, rule by rule, until they are equal; notes what differed by its kind."""
    first, second = moments or (None, None)
    for kind, mask in _MASKS:
        if a == b:
            break
        hidden_a: list[str] = []
        hidden_b: list[str] = []
        a, b = mask(a, first, hidden_a), mask(b, second, hidden_b)
        if hidden_a != hidden_b:
            kinds.append(kind)
    return a, b


#: Masks a text that was made at a moment; what it hid is added to the list.
_Mask = Callable[[str, int | None, list[str]], str]


def _blanking(pattern: re.Pattern[str], blank: str) -> _Mask:
    def mask(text: str, _: int | None, hidden: list[str]) -> str:
        def put(match: re.Match[str]) -> str:
            hidden.append(match.group())
            return match.expand(blank)

        return pattern.sub(put, text)

    return mask


def _mask_dates(text: str, moment: int | None, hidden: list[str]) -> str:
    def put(match: re.Match[str]) -> str:
        year, month, day, hour, minute, second, fraction = match.groups()
        if moment is None:
            # Without a moment only a clock read to fractions of a second is surely "now".
            now = fraction is not None
        else:
            try:
                told = datetime(
                    int(year), int(month), int(day), int(hour or 12), int(minute or 0), tzinfo=UTC
                )
            except ValueError:
                return match.group()
            now = abs(told.timestamp() + int(second or 0) - moment / 1e6) <= _NOW
        if not now:
            return match.group()
        hidden.append(match.group())
        return "<now>"

    return _ISO.sub(put, text)


def _mask_durations(text: str, _: int | None, hidden: list[str]) -> str:
    def put(match: re.Match[str]) -> str:
        hidden.append(match.group())
        return "<duration>"

    return "\n".join(
        _DURATION.sub(put, line) if _SPEAKS_OF_TIME.search(line) else line
        for line in text.split("\n")
    )


#: In order: a clock inside a progress bar belongs to the bar, a number with a unit to its unit.
_MASKS: Final[tuple[tuple[str, _Mask], ...]] = (
    *((kind, _blanking(pattern, blank)) for kind, pattern, blank in _RULES),
    ("date", _mask_dates),
    ("timing", _mask_durations),
    ("timing", _blanking(_BARE_DURATION, r"\1<duration>")),
)
