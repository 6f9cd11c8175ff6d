"""Finds the shared libraries that programs need, as the dynamic loader would (ld.so(8)).

Reads the ELF files themselves: `ldd` runs what it is asked about.
"""

from __future__ import annotations

import functools
import os
import re
import struct
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

#: Where the loader looks last, and the only places where there is no cache of its own.
_USUAL = ("/lib", "/usr/lib", "/lib64", "/usr/lib64", "/usr/local/lib")

#: Loaded by name at run time, so nothing lists them: name service, threads' unwinding, and
#: character sets are asked for by glibc itself.
_LOADED_BY_NAME = (
    "libnss_files.so.2",
    "libnss_dns.so.2",
    "libresolv.so.2",
    "libgcc_s.so.1",
    "libpthread.so.0",
    "libdl.so.2",
    "librt.so.1",
    "libutil.so.1",
    "libm.so.6",
)

# From the ELF specification (gABI 4.1) and elf.h.
_PT_LOAD, _PT_DYNAMIC, _PT_INTERP = 1, 2, 3
_DT_NEEDED, _DT_STRTAB, _DT_STRSZ, _DT_RPATH, _DT_RUNPATH = 1, 5, 10, 15, 29
_MOST_HEADERS = 512
_MOST_DYNAMIC = 1 << 20
_MOST_STRINGS = 64 << 20


@dataclass(frozen=True)
class Needs:
    """What one ELF file asks the loader for. path: folders to look in first, as written there."""

    interpreter: str
    libraries: tuple[str, ...]
    path: tuple[str, ...]


def needs(file: Path) -> Needs | None:
    """What a file needs; None for one that is no ELF file of this kind of machine, or is broken."""
    try:
        with file.open("rb") as opened:
            return _read(opened)
    except (OSError, struct.error, ValueError):
        return None


def closure(files: Iterable[Path]) -> list[Path]:
    """The libraries that files need, and those that these need, by the paths the loader finds.

    A library that is nowhere is left out: the program would not find it here either.
    """
    found: dict[str, Path] = {}
    waiting = [(file, asked) for file in files if (asked := needs(file)) is not None]
    named = _cache()
    for name in _LOADED_BY_NAME:
        if name in named:
            _add(Path(named[name]), found, waiting)
    while waiting:
        file, asked = waiting.pop()
        if asked.interpreter:
            _add(Path(asked.interpreter), found, waiting)
        for library in asked.libraries:
            where = _find(library, file, asked.path, named)
            if where is not None:
                _add(where, found, waiting)
    return sorted(found.values())


def _add(path: Path, found: dict[str, Path], waiting: list[tuple[Path, Needs]]) -> None:
    name = os.path.normpath(path)
    if name not in found and Path(name).is_file():
        found[name] = Path(name)
        if (asked := needs(path)) is not None:
            waiting.append((path, asked))


def _find(library: str, file: Path, path: Iterable[str], named: dict[str, str]) -> Path | None:
    if "/" in library:
        return Path(library) if Path(library).is_file() else None
    origin = os.fspath(file.parent)
    for folder in path:
        expanded = folder.replace("$ORIGIN", origin).replace("${ORIGIN}", origin)
        if expanded and (candidate := Path(expanded, library)).is_file():
            return candidate
    if library in named:
        return Path(named[library])
    return next((Path(each, library) for each in _USUAL if Path(each, library).is_file()), None)


@functools.cache
def _cache() -> dict[str, str]:
    """The loader's own cache: name → path, of this machine's kind (the first one wins)."""
    try:
        said = subprocess.run(
            ["ldconfig", "-p"],
            capture_output=True,
            timeout=20,
            check=False,
            env={"PATH": "/usr/sbin:/sbin:/usr/bin:/bin", "LC_ALL": "C"},
        ).stdout.decode("utf-8", "surrogateescape")
    except (OSError, subprocess.TimeoutExpired):
        return {}
    kind = {"x86_64": "x86-64", "aarch64": "AArch64"}.get(os.uname().machine, "")
    found: dict[str, str] = {}
    for line in said.splitlines():
        match = re.fullmatch(r"\s+(\S+) \(([^)]*)\) => (\S+)", line)
        if match and kind in match[2]:
            found.setdefault(match[1], match[3])
    return found


def _read(file: BinaryIO) -> Needs | None:
    head = file.read(64)
    # 64 bits, the machine's own byte order being little-endian: x86-64 and AArch64.
    if head[:6] != b"\x7fELF\x02\x01" or len(head) < 64:
        return None
    offset, size, count = *struct.unpack_from("<Q", head, 32), *struct.unpack_from("<HH", head, 54)
    if size != 56 or count > _MOST_HEADERS:
        return None
    headers = [
        struct.unpack_from("<IIQQQQQQ", entry)
        for entry in _pieces(_at(file, offset, size * count), size)
    ]
    interpreter = ""
    dynamic: list[tuple[int, int]] = []
    loads: list[tuple[int, int, int]] = []
    for kind, _flags, where, address, _physical, length, _memory, _align in headers:
        if kind == _PT_INTERP and length < 4096:
            interpreter = os.fsdecode(_at(file, where, length).rstrip(b"\0"))
        elif kind == _PT_DYNAMIC and length <= _MOST_DYNAMIC:
            pieces = _pieces(_at(file, where, length), 16)
            dynamic = [struct.unpack("<QQ", entry) for entry in pieces]
        elif kind == _PT_LOAD:
            loads.append((address, where, length))
    if not dynamic:
        return Needs(interpreter, (), ()) if interpreter else None
    strings = _strings(file, dict(reversed(dynamic)), loads)
    texts = {
        tag: [_text(strings, value) for each, value in dynamic if each == tag]
        for tag in (_DT_NEEDED, _DT_RPATH, _DT_RUNPATH)
    }
    path = [part for text in texts[_DT_RUNPATH] or texts[_DT_RPATH] for part in text.split(":")]
    return Needs(interpreter, tuple(texts[_DT_NEEDED]), tuple(path))


def _strings(file: BinaryIO, dynamic: dict[int, int], loads: list[tuple[int, int, int]]) -> bytes:
    table, size = dynamic.get(_DT_STRTAB, 0), dynamic.get(_DT_STRSZ, 0)
    for address, where, length in loads:
        if address <= table < address + length and size <= _MOST_STRINGS:
            return _at(file, where + table - address, size)
    return b""


def _text(strings: bytes, start: int) -> str:
    end = strings.find(b"\0", start)
    return os.fsdecode(strings[start:end]) if 0 <= start < end else ""


def _at(file: BinaryIO, offset: int, size: int) -> bytes:
    file.seek(offset)
    return file.read(size)


def _pieces(data: bytes, size: int) -> Iterator[bytes]:
    for start in range(0, len(data) - size + 1, size):
        yield data[start : start + size]
