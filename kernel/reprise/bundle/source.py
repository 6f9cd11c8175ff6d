"""A bundle as it is given: a file or a pipe, compressed or not, made readable twice."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, BinaryIO, Final

import zstandard

from reprise.bundle.archive import PIECE, Source
from reprise.errors import BadBundle, TooLarge, UnavailableError, UsageError

_ZSTD: Final = b"\x28\xb5\x2f\xfd"
#: The window that zstd's own tools allow without being asked: memory of one decompressor.
_WINDOW: Final = 128 << 20
#: Level 10 is near the best of what costs little memory; `zstd -19` of the plain file does better.
_LEVEL: Final = 10


class Spooled:
    """A bundle's bytes in a file, which can be read from the beginning again and again."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def from_start(self) -> Source:
        """A reader from the first byte; the one before it is of no use any more."""
        self._file.seek(0)
        packed = self._file.read(len(_ZSTD)) == _ZSTD
        self._file.seek(0)
        if packed:
            return _Unpacked(self._file)
        return _Exact(self._file)


@contextlib.contextmanager
def opened(path: Path | None, standard: BinaryIO, limit: int) -> Iterator[Spooled]:
    """The bundle at `path`, or on `standard` input when it is None.

    What is no plain file is copied into one without a name, at most `limit` bytes, so that it
    can be proven whole before anything is done with it. Raises TooLarge, UsageError,
    UnavailableError.
    """
    if path is None:
        with _spooled(standard, limit) as file:
            yield Spooled(file)
        return
    try:
        given = path.open("rb")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from error
    with given:
        if stat.S_ISREG(os.fstat(given.fileno()).st_mode):
            yield Spooled(given)
            return
        with _spooled(given, limit) as file:
            yield Spooled(file)


@contextlib.contextmanager
def _spooled(pipe: IO[bytes], limit: int) -> Iterator[BinaryIO]:
    try:
        with tempfile.TemporaryFile(prefix="reprise-import-") as file:
            size = 0
            while piece := pipe.read(PIECE):
                size += len(piece)
                if size > limit:
                    raise TooLarge(f"it holds more than {limit:,} bytes")
                file.write(piece)
            yield file
    except OSError as error:
        raise UnavailableError(
            f"The bundle could not be copied to {tempfile.gettempdir()}: {error.strerror}. Nothing"
            " was imported."
        ) from error


class _Exact:
    """Reads as much as is asked for, unless the end comes before."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def read(self, size: int, /) -> bytes:
        return self._file.read(size)


class _Unpacked:
    """The same through a zstd decompressor, whose output is taken as it is asked for."""

    def __init__(self, file: BinaryIO) -> None:
        self._stream = zstandard.ZstdDecompressor(max_window_size=_WINDOW).stream_reader(
            file, read_across_frames=True
        )

    def read(self, size: int, /) -> bytes:
        parts: list[bytes] = []
        while size:
            try:
                part = self._stream.read(size)
            except zstandard.ZstdError as error:
                raise BadBundle(f"it cannot be decompressed ({error})") from error
            if not part:
                break
            parts.append(part)
            size -= len(part)
        return b"".join(parts)


@contextlib.contextmanager
def compressed(sink: BinaryIO) -> Iterator[BinaryIO]:
    """A sink whose bytes arrive in `sink` as one zstd frame. Raises nothing of its own."""
    compressor = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True)
    with compressor.stream_writer(sink, closefd=False) as stream:
        yield stream
