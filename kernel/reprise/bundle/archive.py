"""The container of a bundle: the one form of a tar archive that is written and accepted.

Plain POSIX ustar (`tar tf` lists it): regular files only, every other field of a header fixed, so
that equal members give equal bytes on every machine. Written and read in one pass, by sequential
writes and reads alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from reprise.errors import BadBundle, LogCorrupt, TooLarge

BLOCK: Final = 512
#: What eleven octal digits can say; the extensions that can say more are not used.
MAX_MEMBER: Final = 8**11 - 1
#: Bytes moved at once.
PIECE: Final = 1 << 20

#: The sha256 of every member before it.
MANIFEST: Final = "manifest.sha256"

_NAME: Final = 100
_SIZE: Final = slice(124, 135)


class Sink(Protocol):
    """Where a bundle goes: a file, a pipe, a compressor."""

    def write(self, data: bytes, /) -> object: ...


class Source(Protocol):
    """Where a bundle comes from. `read` gives fewer bytes than asked only at the end."""

    def read(self, size: int, /) -> bytes: ...


def header(name: str, size: int) -> bytes:
    """The one header of a member of this name and size."""
    raw = name.encode("ascii")
    if not 0 < len(raw) <= _NAME or not 0 <= size <= MAX_MEMBER:
        raise LogCorrupt(f"{name[:200]!r} of {size} bytes cannot be a member of a bundle.")
    parts = (
        raw.ljust(_NAME, b"\0"),
        b"0000644\0",  # mode
        b"0000000\0" * 2,  # uid, gid
        b"%011o\0" % size,
        b"%011o\0" % 0,  # mtime
        b" " * 8,  # the checksum counts itself as spaces
        b"0",  # a regular file
        b"\0" * 100,  # no link
        b"ustar\x0000",
        b"\0" * 64,  # no names of user and group
        b"0000000\0" * 2,  # no device
        b"\0" * 167,  # no prefix
    )
    block = b"".join(parts)
    return block[:148] + b"%06o\0 " % sum(block) + block[156:]


def manifest_line(sha256: str, name: str) -> bytes:
    """A member in the manifest, as `sha256sum -c` reads it."""
    return f"{sha256}  {name}\n".encode("ascii")


class ArchiveWriter:
    """Writes members in the order in which they are added, and the manifest over them."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._manifest = bytearray()

    def add(self, name: str, data: bytes) -> None:
        self.add_pieces(name, len(data), (data,))

    def add_pieces(self, name: str, size: int, pieces: Iterable[bytes]) -> str:
        """A member whose bytes come in pieces; returns their sha256.

        Raises LogCorrupt when they are not `size` bytes: what was written is no bundle then, and
        no reader takes it for one.
        """
        self._sink.write(header(name, size))
        total, written = hashlib.sha256(), 0
        for piece in pieces:
            written += len(piece)
            if written > size:
                break
            total.update(piece)
            self._sink.write(piece)
        if written != size:
            raise LogCorrupt(f"{name} should hold {size} bytes and holds others.")
        self._sink.write(b"\0" * (-size % BLOCK))
        self._manifest += manifest_line(total.hexdigest(), name)
        return total.hexdigest()

    def manifest(self) -> bytes:
        """The manifest of all members so far."""
        return bytes(self._manifest)

    def end(self) -> None:
        self._sink.write(b"\0" * (2 * BLOCK))


@dataclass(frozen=True)
class Sums:
    """What the manifest of all members so far is. blake2b: what minisign signs, 64 bytes."""

    size: int
    sha256: str
    blake2b: bytes


@dataclass(frozen=True)
class Member:
    """A member of a bundle that is being read."""

    name: str
    size: int


class ArchiveReader:
    """Reads members in order and refuses whatever `ArchiveWriter` does not write.

    limit: bytes that the whole archive may have, headers included.
    Raises BadBundle, and TooLarge past the limit. Memory stays at one piece, unless a caller asks
    for a whole member.
    """

    def __init__(self, source: Source, limit: int) -> None:
        self._source = source
        self._limit = limit
        self._offset = 0
        self._member: Member | None = None
        self._left = 0
        self._hash = hashlib.sha256()
        self._manifest = (hashlib.sha256(), hashlib.blake2b())
        self._manifest_size = 0

    def sums(self) -> Sums:
        """Of the manifest over all members before the one that is being read."""
        sha256, blake2b = self._manifest
        return Sums(self._manifest_size, sha256.hexdigest(), blake2b.digest())

    def next(self) -> Member | None:
        """The next member, or None at the end. The one before it must have been read."""
        self._close()
        block = self._take(BLOCK, "the header of a member")
        if not block.strip(b"\0"):
            self._end()
            return None
        name, size = _name(block), _size(block)
        if name is None or size is None or header(name, size) != block:
            raise BadBundle(
                f"at byte {self._offset - BLOCK:,} stands no header that a bundle has"
                + (f" ({name!r})" if name else "")
            )
        if size > self._limit - self._offset:
            raise TooLarge(f"{name} is said to hold {size:,} bytes, over {self._limit:,} in all")
        self._member, self._left, self._hash = Member(name, size), size, hashlib.sha256()
        return self._member

    def pieces(self) -> Iterator[bytes]:
        """What is left of the member."""
        while self._left:
            wanted = min(self._left, PIECE)
            piece = self._take(wanted, self._name())
            self._left -= wanted
            self._hash.update(piece)
            yield piece

    def whole(self, bound: int) -> bytes:
        """The member's bytes, in memory. Raises BadBundle when they are more than `bound`."""
        if self._left > bound:
            raise BadBundle(
                f"{self._name()} holds {self._left:,} bytes; {bound:,} are the most it can have"
            )
        return b"".join(self.pieces())

    def sha256(self) -> str:
        """Of the member, which must have been read."""
        return self._hash.hexdigest()

    def _close(self) -> None:
        if self._member is None:
            return
        for _ in self.pieces():
            pass
        padding = self._take(-self._member.size % BLOCK, self._name())
        if padding.strip(b"\0"):
            raise BadBundle(f"after {self._name()} stand bytes that belong to nothing")
        line = manifest_line(self.sha256(), self._member.name)
        for total in self._manifest:
            total.update(line)
        self._manifest_size += len(line)
        self._member = None

    def _end(self) -> None:
        if self._take(BLOCK, "the end").strip(b"\0"):
            raise BadBundle("its end is not where it should be")
        if self._source.read(1):
            raise BadBundle(f"after its end, at byte {self._offset:,}, stands something more")

    def _name(self) -> str:
        return "the bundle" if self._member is None else self._member.name

    def _take(self, size: int, of: str) -> bytes:
        if size > self._limit - self._offset:
            raise TooLarge(f"it holds more than {self._limit:,} bytes")
        data = self._source.read(size)
        self._offset += len(data)
        if len(data) != size:
            raise BadBundle(f"it ends at byte {self._offset:,}, within {of}: the rest is missing")
        return data


def _name(block: bytes) -> str | None:
    try:
        return block[:_NAME].rstrip(b"\0").decode("ascii") or None
    except UnicodeDecodeError:
        return None


def _size(block: bytes) -> int | None:
    digits = block[_SIZE]
    # int() would also take spaces, signs and underscores.
    return int(digits, 8) if digits.isdigit() and not set(digits) & set(b"89") else None
