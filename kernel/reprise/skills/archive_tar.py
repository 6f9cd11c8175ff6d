"""The tar form of archives: unpacked within bounds, read without surprises, written the same."""

from __future__ import annotations

import gzip
import io
import tarfile
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import BinaryIO, Final, Literal, cast

import zstandard

from reprise.errors import BadSkill
from reprise.skills.archive_members import (
    Member,
    Members,
    check_unpacked,
    clean_name,
    members_of,
    mode_of,
    refusal,
)

Packed = Literal["tar", "gz", "zst"]

_PIECE: Final = 1 << 20
#: Kept in memory up to here, in a file without a name above.
_IN_MEMORY: Final = 16 << 20
#: zstd's own bound for readers that do not know the writer; `--long` asks for more.
_WINDOW: Final = 128 << 20
#: Four bytes of zstd can stand for a block of 128 KiB, and a piece is unpacked whole.
_ZSTD_PIECE: Final = 256
_BLOCK: Final = 512

#: What the standard library raises on tar archives that nobody meant to write.
_BROKEN: Final = (
    tarfile.TarError,
    ValueError,
    LookupError,
    OSError,
    EOFError,
    OverflowError,
    RecursionError,
)

_LINKS: Final = {
    tarfile.SYMTYPE: "is a symbolic link (pack what it leads to: tar --dereference)",
    tarfile.LNKTYPE: "is a hard link (pack it as a file: tar --hard-dereference)",
}


@contextmanager
def unpacked(file: BinaryIO, size: int, packed: Packed) -> Iterator[BinaryIO]:
    """The plain tar in `file`, of `size` bytes. Raises BadSkill past a bound, while unpacking."""
    if packed == "tar":
        yield file
        return
    with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY) as plain:
        total = 0
        pieces = _gunzipped(file) if packed == "gz" else _unzstd(file)
        for piece in pieces:
            total += len(piece)
            check_unpacked(total, size)
            plain.write(piece)
        plain.seek(0)
        yield cast("BinaryIO", plain)


def _gunzipped(file: BinaryIO) -> Iterator[bytes]:
    unpacking = zlib.decompressobj(zlib.MAX_WBITS | 16)
    data = b""
    try:
        while not unpacking.eof:
            data = unpacking.unconsumed_tail or file.read(_PIECE)
            if not data:
                raise BadSkill("It is cut off: the end of what gzip packed is missing.")
            yield unpacking.decompress(data, _PIECE)
    except zlib.error as error:
        raise BadSkill(f"It cannot be unpacked (gzip: {error}).") from error
    if unpacking.unused_data or file.read(1):
        raise BadSkill("After the end of what gzip packed stands something more.")


def _unzstd(file: BinaryIO) -> Iterator[bytes]:
    unpacking = zstandard.ZstdDecompressor(max_window_size=_WINDOW).decompressobj()
    try:
        while not unpacking.eof:
            data = file.read(_ZSTD_PIECE)
            if not data:
                raise BadSkill("It is cut off: the end of what zstd packed is missing.")
            yield unpacking.decompress(data)
    except zstandard.ZstdError as error:
        raise BadSkill(f"It cannot be unpacked (zstd: {error}).") from error
    if unpacking.unused_data or file.read(1):
        raise BadSkill("After the end of what zstd packed stands something more.")


def tar_members(file: BinaryIO) -> Members:
    """What a plain tar holds; `file` is read again for each member. Raises BadSkill."""
    size = file.seek(0, 2)
    file.seek(0)
    try:
        archive = tarfile.TarFile(fileobj=file, mode="r", encoding="utf-8")
    except _BROKEN as error:
        raise BadSkill(
            "It is no archive that is read here: .zip (or .skill), .tar, .tar.gz and .tar.zst are."
        ) from error
    by_path = members_of(_found(archive, size), size)
    return Members(by_path, lambda member: _bytes(file, member))


def _found(archive: tarfile.TarFile, size: int) -> Iterator[Member]:
    """Members in order, and at the end whether it was the end."""
    end = 0
    while True:
        try:
            info = archive.next()
        except _BROKEN as error:
            raise BadSkill(
                f"What stands at byte {archive.offset:,} is no member of a tar ({error})."
            ) from error
        if info is None:
            break
        member = _member(info)
        end = info.offset_data + -(-(info.size if info.isreg() else 0) // _BLOCK) * _BLOCK
        if end > size:
            raise refusal(
                member.path or info.name, "is cut off: the rest of the archive is missing"
            )
        yield member
    _refuse_more(archive, end, size)


def _refuse_more(archive: tarfile.TarFile, end: int, size: int) -> None:
    """Raises BadSkill unless nothing but empty blocks, two at least, stand after all members."""
    file = cast("BinaryIO", archive.fileobj)
    file.seek(end)
    left = size - end
    if left < 2 * _BLOCK:
        raise BadSkill("It is cut off: the end of the tar is missing.")
    while left > 0 and (piece := file.read(min(left, _PIECE))):
        if piece.strip(b"\0"):
            raise BadSkill("After its last member stands something that is no member.")
        left -= len(piece)


def _member(info: tarfile.TarInfo) -> Member:
    name = info.name
    path = clean_name(name)
    if info.isdir():
        return Member(path, folder=True)
    fault = _LINKS.get(info.type, "")
    if not fault and info.issparse():
        fault = "is a sparse file (pack it without --sparse)"
    if not fault and info.type not in (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE):
        fault = "is no file (a pipe or a device)"
    if not path:
        raise refusal(name, "has no name")
    if fault:
        return Member(path, fault=fault)
    if info.size < 0 or info.offset_data < 0:
        raise refusal(name, "has a size below nothing")
    return Member(path, mode=mode_of(info.mode), size=info.size, at=(info.offset_data,))


def _bytes(file: BinaryIO, member: Member) -> bytes:
    file.seek(member.at[0])
    data = file.read(member.size)
    if len(data) != member.size:
        raise refusal(member.path, "is cut off: the rest of the archive is missing")
    return data


def write_tar_gz(files: Iterable[tuple[str, int, bytes]]) -> bytes:
    """A tar.gz of these files: (path, mode, bytes), in their order, without times and owners."""
    out = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=out, mode="wb", compresslevel=9, filename="", mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT, encoding="utf-8") as tar,
    ):
        for path, mode, data in files:
            info = tarfile.TarInfo(path)
            info.mode, info.size = mode, len(data)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()
