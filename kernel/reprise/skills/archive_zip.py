"""The zip form of archives: one reading of it, and one writing.

Two programs can see different files in one zip: its directory and the headers beside the data may
differ, members may overlap, something may stand before, between or after them. Here a zip is read
only when there is one way to read it (APPNOTE.TXT 6.3.10); the standard library's reader takes
what it is told. Written: the same bytes for the same files, from the same zlib.
"""

from __future__ import annotations

import io
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final, NamedTuple

from reprise.errors import BadSkill
from reprise.skills.archive_members import (
    MAX_MEMBERS,
    Member,
    Members,
    clean_name,
    members_of,
    mode_of,
    refusal,
)
from reprise.skills.contract import PLAIN

_END: Final = struct.Struct("<4s4H2LH")
_END_64: Final = struct.Struct("<4sQ2H2L4Q")
_LOCATOR_64: Final = struct.Struct("<4sLQL")
_ENTRY: Final = struct.Struct("<4s6H3L5H2L")
_LOCAL: Final = struct.Struct("<4s5H3L2H")

#: A comment has at most so many bytes.
_COMMENT: Final = 0xFFFF
_NO_16: Final = 0xFFFF
_NO_32: Final = 0xFFFFFFFF
#: Of a directory: names and extra fields of members, some hundred bytes each.
_MAX_DIRECTORY: Final = 64 << 20

_ENCRYPTED: Final = 0x1 | 0x40 | 0x2000
_SIZES_AFTER: Final = 0x8
_UTF8: Final = 0x800
_UNICODE_PATH: Final = 0x7075
_STORED: Final = 0
_DEFLATED: Final = 8
_FOLDER_ON_DOS: Final = 0x10

#: The first moment that a zip can tell.
_BEGINNING: Final = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class _Directory:
    """Where the directory is, and how many members it has."""

    offset: int
    size: int
    count: int


def zip_members(file: BinaryIO, size: int) -> Members:
    """What a zip of `size` bytes holds; `file` is read again for each member. Raises BadSkill."""
    directory = _directory(file, size)
    raw = _at(file, directory.offset, directory.size)
    spans: list[_Span] = []
    by_path = members_of(_members(file, raw, directory, spans), size)
    _refuse_overlaps(spans, directory.offset)
    return Members(by_path, lambda member: _bytes(file, member))


def _at(file: BinaryIO, offset: int, size: int) -> bytes:
    file.seek(offset)
    data = file.read(size)
    if len(data) != size:
        raise BadSkill(f"It ends within what it says stands at byte {offset:,}.")
    return data


def _directory(file: BinaryIO, size: int) -> _Directory:
    start = max(0, size - _END.size - _COMMENT)
    tail = _at(file, start, size - start)
    # The last one whose comment ends where the file ends: one before it stands in a comment.
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or len(tail) - at < _END.size:
        raise BadSkill("It has no end of a zip: it is cut off, or something stands after it.")
    _, disk, first_disk, here, count, length, offset, comment = _END.unpack_from(tail, at)
    if start + at + _END.size + comment != size:
        raise BadSkill("After the end of the zip stands something more.")
    end = start + at
    if start + at >= _LOCATOR_64.size:
        locator = _at(file, end - _LOCATOR_64.size, _LOCATOR_64.size)
        if locator[:4] == b"PK\x06\x07":
            _, _, place, disks = _LOCATOR_64.unpack(locator)
            if place > end - _LOCATOR_64.size - _END_64.size or disks > 1:
                raise BadSkill("Its end names a place for large sizes that is not there.")
            large = _END_64.unpack(_at(file, place, _END_64.size))
            if large[0] != b"PK\x06\x06" or place + large[1] + 12 != end - _LOCATOR_64.size:
                raise BadSkill("Its end names a place for large sizes that is not there.")
            told = (disk, first_disk, here, count, length, offset)
            missing = (_NO_16, _NO_16, _NO_16, _NO_16, _NO_32, _NO_32)
            for small, none, big in zip(told, missing, large[4:], strict=True):
                if small not in (none, big):
                    raise BadSkill("Its two ends say different things.")
            disk, first_disk, here, count, length, offset = large[4:]
            end = place
    if disk or first_disk or here != count:
        raise BadSkill("It is one part of a zip in several parts.")
    if count > MAX_MEMBERS or length > _MAX_DIRECTORY:
        raise BadSkill(f"It says it holds {count:,} members; {MAX_MEMBERS:,} are the most.")
    if offset + length != end:
        raise BadSkill(
            "Its directory is not where it says: something stands before the zip, or within it."
        )
    return _Directory(offset, length, count)


class _Span(NamedTuple):
    """The bytes that a member takes up, its header included."""

    begin: int
    end: int
    name: str


def _members(
    file: BinaryIO, raw: bytes, directory: _Directory, spans: list[_Span]
) -> Iterator[Member]:
    at = 0
    for _ in range(directory.count):
        if len(raw) - at < _ENTRY.size or raw[at : at + 4] != b"PK\x01\x02":
            raise BadSkill(f"Its directory ends before the {directory.count:,} members it names.")
        fields = _ENTRY.unpack_from(raw, at)
        (_, made, _, flags, method, _, _, crc, packed, unpacked) = fields[:10]
        (named, extra, comment, disk, _, attributes, offset) = fields[10:]
        at += _ENTRY.size
        encoded = raw[at : at + named]
        extras = raw[at + named : at + named + extra]
        at += named + extra + comment
        if at > len(raw):
            raise BadSkill("Its directory ends within a member.")
        name = _name(encoded, flags)
        _refuse_other_name(name, encoded, extras)
        if _NO_32 in (packed, unpacked, offset) or disk == _NO_16:
            unpacked, packed, offset, disk = _large(name, extras, unpacked, packed, offset, disk)
        if disk:
            raise refusal(name, "lies in another part of the zip")
        begin = _begin(file, directory.offset, (name, encoded, flags, method), offset)
        if not flags & _SIZES_AFTER:
            _compare(file, name, offset, (crc, packed, unpacked))
        if begin + packed > directory.offset:
            raise refusal(name, "ends after the end of all members")
        spans.append(_Span(offset, begin + packed, name))
        yield _member(
            name,
            (flags, method, made >> 8, attributes),
            (begin, packed, unpacked, crc, method),
        )
    if at != len(raw):
        raise BadSkill("Its directory holds more members than it says.")


def _name(encoded: bytes, flags: int) -> str:
    try:
        return encoded.decode()
    except UnicodeDecodeError:
        coding = "says it is" if flags & _UTF8 else "is not"
        raise refusal(
            encoded.decode("cp437"), f"has a name that {coding} UTF-8, and cannot be read as it"
        ) from None


def _fields(extras: bytes) -> Iterator[tuple[int, bytes]]:
    """The extra fields of a member: kind and content (APPNOTE 4.5.1)."""
    at = 0
    while len(extras) - at >= 4:
        kind, length = struct.unpack_from("<2H", extras, at)
        yield kind, extras[at + 4 : at + 4 + length]
        at += 4 + length


def _refuse_other_name(name: str, encoded: bytes, extras: bytes) -> None:
    """Raises BadSkill when some readers would call the member otherwise (APPNOTE 4.6.9)."""
    for kind, body in _fields(extras):
        if kind == _UNICODE_PATH and body[5:] != encoded:
            raise refusal(name, "has another name among its extra fields")


def _large(
    name: str, extras: bytes, unpacked: int, packed: int, offset: int, disk: int
) -> tuple[int, int, int, int]:
    """The sizes and the place of a member that does not fit in 32 bits (APPNOTE 4.5.3)."""
    for kind, field in _fields(extras):
        if kind != 1:
            continue
        values, body = [], field
        for value, none, form in (
            (unpacked, _NO_32, "<Q"),
            (packed, _NO_32, "<Q"),
            (offset, _NO_32, "<Q"),
            (disk, _NO_16, "<L"),
        ):
            if value != none:
                values.append(value)
                continue
            if len(body) < struct.calcsize(form):
                raise refusal(name, "lacks the sizes that it says stand elsewhere")
            values.append(struct.unpack_from(form, body)[0])
            body = body[struct.calcsize(form) :]
        return values[0], values[1], values[2], values[3]
    raise refusal(name, "lacks the sizes that it says stand elsewhere")


def _begin(file: BinaryIO, end: int, told: tuple[str, bytes, int, int], offset: int) -> int:
    """Where a member's bytes begin, when what stands before them agrees with the directory."""
    name, encoded, flags, method = told
    if offset > end - _LOCAL.size:
        raise refusal(name, "lies outside the archive")
    head = _LOCAL.unpack(_at(file, offset, _LOCAL.size))
    if head[0] != b"PK\x03\x04":
        raise refusal(name, "is not where the directory says")
    if head[2] != flags or head[3] != method:
        raise refusal(name, "is packed in one way by the directory, in another by its own header")
    begin = offset + _LOCAL.size + head[9] + head[10]
    if begin > end or _at(file, offset + _LOCAL.size, head[9]) != encoded:
        raise refusal(name, "has another name in its own header")
    return int(begin)


def _compare(file: BinaryIO, name: str, offset: int, told: tuple[int, int, int]) -> None:
    """Raises BadSkill unless the header of a member says the same sizes as the directory."""
    head = _LOCAL.unpack(_at(file, offset, _LOCAL.size))
    crc, packed, unpacked = head[6], head[7], head[8]
    large = _NO_32 in (packed, unpacked)
    if crc != told[0] or (not large and (packed, unpacked) != told[1:]):
        raise refusal(name, "has other sizes in its own header than in the directory")
    if large:
        extra = _at(file, offset + _LOCAL.size + head[9], head[10])
        real = _large(name, extra, unpacked, packed, 0, 0)
        if (real[1], real[0]) != told[1:]:
            raise refusal(name, "has other sizes in its own header than in the directory")


def _member(
    name: str, told: tuple[int, int, int, int], at: tuple[int, int, int, int, int]
) -> Member:
    flags, method, system, attributes = told
    size = at[2]
    path = clean_name(name)
    # The upper half holds the mode of a file on Unix, whatever system the writer says it is on.
    mode = attributes >> 16
    kind = stat.S_IFMT(mode)
    if name.endswith("/") or (system == 0 and attributes & _FOLDER_ON_DOS):
        if size:
            raise refusal(name, "is a folder with bytes of its own")
        return Member(path, folder=True, at=at)
    fault = ""
    if kind == stat.S_IFLNK:
        fault = "is a symbolic link (pack what it leads to)"
    elif kind not in (0, stat.S_IFREG):
        fault = "is no file (a folder by its mode, a socket, a pipe or a device)"
    elif flags & _ENCRYPTED:
        fault = "is encrypted"
    elif method not in (_STORED, _DEFLATED):
        fault = f"is packed by a method ({method}) that is not read here: pack it with deflate"
    elif method == _STORED and at[1] != size:
        raise refusal(name, "is not packed and yet of two sizes")
    return Member(path, mode=mode_of(mode) if mode else PLAIN, size=size, fault=fault, at=at)


def _refuse_overlaps(spans: Iterable[_Span], end: int) -> None:
    """Raises BadSkill unless members lie one after the other, from the first byte on."""
    ordered = sorted(spans)
    if (ordered[0].begin if ordered else end) != 0:
        raise BadSkill("Before its first member stands something else.")
    reached = 0
    for span in ordered:
        if span.begin < reached:
            raise refusal(span.name, "shares bytes with the member before it")
        reached = span.end


def _bytes(file: BinaryIO, member: Member) -> bytes:
    begin, packed, unpacked, crc, method = member.at
    data = _at(file, begin, packed)
    if method == _DEFLATED:
        data = _inflated(member, data, unpacked)
    if len(data) != unpacked or zlib.crc32(data) != crc:
        raise refusal(member.path, "does not hold the bytes that the directory says")
    return data


def _inflated(member: Member, data: bytes, size: int) -> bytes:
    unpacking = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        # One byte more shows that there are more, without their being unpacked.
        plain = unpacking.decompress(data, size + 1)
    except zlib.error as error:
        raise refusal(member.path, f"cannot be unpacked ({error})") from error
    if not unpacking.eof or unpacking.unused_data:
        raise refusal(member.path, "does not hold the bytes that the directory says")
    return plain


def write_zip(files: Iterable[tuple[str, int, bytes]]) -> bytes:
    """A zip of these files: (path, mode, bytes), in their order, without a time of their own."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path, mode, data in files:
            info = zipfile.ZipInfo(path, _BEGINNING)
            info.create_system = 3  # Unix, whose modes these are
            info.external_attr = (stat.S_IFREG | mode) << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, data)
    return out.getvalue()
