"""What a command says: text, tables and JSON on stdout; progress, warnings and errors on stderr."""

from __future__ import annotations

import json
import os
import re
import shutil
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TextIO

Colour = Literal["red", "green", "yellow", "dim", "bold"]

_CODES: dict[Colour, str] = {
    "red": "31",
    "green": "32",
    "yellow": "33",
    "dim": "2",
    "bold": "1",
}

_OURS = re.compile("(\x1b\\[(?:0|" + "|".join(_CODES.values()) + ")m)")


@dataclass
class Terminal:
    """Where a command writes. Colour and the live status line appear on a real terminal only."""

    out: TextIO
    err: TextIO
    _status_shown: bool = False

    def line(self, text: str = "") -> None:
        """One line of the result."""
        self._clear()
        self.out.write(printable(text) + "\n")

    def json(self, value: Any) -> None:
        """The result as JSON, for programs; NaN and Infinity are refused, not invented."""
        self._clear()
        self.out.write(json.dumps(value, indent=2, allow_nan=False, sort_keys=False) + "\n")

    def piece(self, text: str) -> None:
        """Part of a result that is written as it comes; the caller ends its lines."""
        self._clear()
        self.out.write(text)

    def table(self, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Columns aligned left; the last one is cut at the terminal's width, if there is one."""
        cells = [[_one_line(cell) for cell in row] for row in [header, *rows]]
        widths = [max(_width(row[i]) for row in cells) for i in range(len(header))]
        room = shutil.get_terminal_size().columns if self.out.isatty() else 0
        for number, row in enumerate(cells):
            *first, last = row
            left = "".join(
                cell + " " * (width - _width(cell) + 2)
                for cell, width in zip(first, widths, strict=False)
            )
            if room and _width(left) + _width(last) > room:
                last = last[: max(room - _width(left) - 1, 0)] + "…"
            text = (left + last).rstrip()
            self.line(self.paint(text, "bold") if number == 0 else text)

    def paint(self, text: str, colour: Colour) -> str:
        """`text` in `colour` where stdout shows colours, else as it is."""
        return f"\x1b[{_CODES[colour]}m{text}\x1b[0m" if _colours(self.out) else text

    def status(self, text: str) -> None:
        """Replace the live line on stderr; nothing on a pipe. Empty text takes it away."""
        if not self.err.isatty():
            return
        self._clear()
        if text:
            columns = shutil.get_terminal_size().columns
            self.err.write(printable(text)[: columns - 1])
            self._status_shown = True
        self.err.flush()

    def progress(self, text: str) -> None:
        """A line on stderr that stays."""
        self._clear()
        self.err.write(printable(text) + "\n")
        self.err.flush()

    def warn(self, text: str) -> None:
        self._labelled("warning", "yellow", text)

    def error(self, text: str) -> None:
        self._labelled("error", "red", text)

    def _labelled(self, label: str, colour: Colour, text: str) -> None:
        self._clear()
        shown = f"\x1b[{_CODES[colour]}m{label}:\x1b[0m" if _colours(self.err) else f"{label}:"
        self.err.write(f"reprise: {shown} {printable(text)}\n")
        self.err.flush()

    def _clear(self) -> None:
        if self._status_shown:
            self.err.write("\r\x1b[K")
            self.err.flush()
            self._status_shown = False


def printable(text: str) -> str:
    """`text` without control characters that could drive the terminal of whoever reads it.

    Code in a sandbox chooses names and outputs; an escape sequence in one must not retitle the
    window, hide a line or answer a prompt. The few colours that `paint` uses pass.
    """
    if text.isprintable():
        return text
    return "".join(
        piece if number % 2 else _escaped(piece) for number, piece in enumerate(_OURS.split(text))
    )


def _escaped(text: str) -> str:
    return "".join(
        char
        if char in "\n\t" or unicodedata.category(char) not in {"Cc", "Cf", "Cs"}
        else char.encode("unicode_escape").decode("ascii")
        for char in text
    )


def _one_line(text: str) -> str:
    return printable(text).replace("\n", "⏎").replace("\t", " ")


def _width(text: str) -> int:
    """Columns that `text` takes: wide East Asian characters take two, colours and marks none."""
    total = 0
    escape = False
    for char in text:
        if escape:
            escape = char != "m"
        elif char == "\x1b":
            escape = True
        elif not unicodedata.combining(char):
            total += 2 if unicodedata.east_asian_width(char) in "WF" else 1
    return total


def _colours(stream: TextIO) -> bool:
    return stream.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
