"""One of a command's two streams: what of it goes to the host, and what into a file."""

# pathlib is not loaded in here: the language kernel waits for us.

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import Any

from reprise.guest.files import Files

#: The most that is kept of one stream in its file, in bytes; a last line says when that is not all.
MAX_FILE = 64 << 20

_LAST_LINE = b"\n[Reprise keeps no more than %d bytes of a stream; the rest is not here.]\n"


class Output:
    """Takes what a command writes to one stream, and never refuses: a command is not to hang.

    Up to its bounds the stream is sent. From the first byte over them nothing more is, and all
    of it, from its beginning, is kept in a file.

    send: called with what goes to the host. None: nothing does, all goes to the file.
    """

    def __init__(
        self,
        files: Files,
        path: str,
        *,
        max_bytes: int,
        max_lines: int,
        send: Callable[[bytes], None] | None,
    ) -> None:
        self.bytes = 0
        self.lines = 0
        self.cut = False
        self._files = files
        self._path = path
        self._room = max_bytes
        self._lines_left = max_lines
        self._send = send
        #: What was sent so far: the file begins with it if there must be one.
        self._head = bytearray()
        self._file = -1
        self._file_room = MAX_FILE
        if send is None:
            self._open()

    @property
    def to_file(self) -> bool:
        """Whether nothing more of it goes to the host."""
        return self.cut or self._send is None

    def take(self, data: bytes) -> None:
        self.bytes += len(data)
        lines = data.count(b"\n")
        self.lines += lines
        if self._send is not None and not self.cut:
            fits = min(len(data), self._room)
            if lines >= self._lines_left:
                fits = min(fits, _end_of_line(data, self._lines_left))
            if head := data[:fits]:
                self._send(head)
                self._head += head
                self._room -= fits
                self._lines_left -= head.count(b"\n")
            if fits == len(data):
                return
            self.cut = True
            self._open()
            self._keep(self._head)
            self._head = bytearray()
            data = data[fits:]
        self._keep(data)

    def end(self) -> dict[str, Any]:
        """How the stream ended, as the contract has it; no more is taken."""
        there = self._file >= 0 and self._files.is_at(self._path, self._file)
        self._close()
        self._head = bytearray()
        return {
            "bytes": self.bytes,
            "lines": self.lines,
            "cut": self.cut,
            "file": self._path if there else None,
        }

    def _open(self) -> None:
        with contextlib.suppress(OSError, RecursionError):
            self._file = self._files.replace_file(self._path)

    def _keep(self, data: bytes | bytearray) -> None:
        if self._file < 0 or not self._file_room:
            return
        kept = memoryview(data)[: self._file_room]
        self._file_room -= len(kept)
        try:
            _write(self._file, kept)
            if not self._file_room:
                _write(self._file, memoryview(_LAST_LINE % MAX_FILE))
        except OSError:
            # A full disk: what is there is not the stream, and its room may be needed.
            if self._send is not None and self._files.is_at(self._path, self._file):
                with contextlib.suppress(OSError):
                    self._files.remove([self._path])
            self._close()

    def _close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _end_of_line(data: bytes, number: int) -> int:
    """How many bytes the first so many lines take."""
    end = 0
    for _ in range(number):
        end = data.index(b"\n", end) + 1
    return end


def _write(file: int, data: memoryview) -> None:
    while data:
        data = data[os.write(file, data) :]
