"""Writes files of this machine as an OCI image in one archive, the same bytes for the same files.

The form is an OCI image layout (image-layout.md of opencontainers/image-spec) as a tar archive,
which engines import. Layers are compressed with zstd, quick and in several threads.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import tarfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

import zstandard

from reprise.sandbox.host_image import Item

#: Fast, since the archive is written once and read by engines on the same network, if not machine.
_LEVEL = 3
_CHUNK = 1 << 20

_LAYER = "application/vnd.oci.image.layer.v1.tar+zstd"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_INDEX = "application/vnd.oci.image.index.v1+json"

#: The name that an engine which asks for one finds it under.
TAG = "environment"

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


class FileChanged(Exception):
    """A file of the environment was replaced while the image was written."""


def write(out: BinaryIO, layers: Sequence[Iterable[Item]], written: Callable[[int], None]) -> str:
    """Write the archive; the digest of the image's manifest, "sha256:…".

    out: seekable.  written: hears how many bytes of files went in, as it goes on.
    Raises OSError, FileChanged.
    """
    _member(out, "oci-layout", json.dumps({"imageLayoutVersion": "1.0.0"}).encode())
    found = [_layer(out, items, written) for items in layers]
    config = _json(
        {
            "architecture": _ARCHITECTURES.get(os.uname().machine, os.uname().machine),
            "os": "linux",
            "config": {"WorkingDir": "/"},
            "rootfs": {"type": "layers", "diff_ids": [diff for _, diff in found]},
        }
    )
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": _blob(out, config, _CONFIG),
            "layers": [layer for layer, _ in found],
        }
    )
    described = _blob(out, manifest, _MANIFEST)
    named = {"annotations": {"org.opencontainers.image.ref.name": TAG}}
    index = {"schemaVersion": 2, "mediaType": _INDEX, "manifests": [{**described, **named}]}
    _member(out, "index.json", _json(index))
    out.write(b"\0" * 1024)  # two empty blocks end a tar archive
    return str(described["digest"])


def pack_layout(folder: Path, digest: str, archive: Path) -> None:
    """Pack one image of an OCI layout into an archive. Raises OSError, ValueError, KeyError."""
    wanted = [digest]
    manifest = json.loads(_blob_file(folder, digest).read_bytes())
    media = manifest.get("mediaType", _MANIFEST)
    if "manifests" in manifest:
        raise ValueError(f"{digest} names images for several machines; name one of them")
    wanted += [manifest["config"]["digest"], *(each["digest"] for each in manifest["layers"])]
    size = _blob_file(folder, digest).stat().st_size
    described = {"mediaType": media, "digest": digest, "size": size}
    named = {"annotations": {"org.opencontainers.image.ref.name": TAG}}
    index = {"schemaVersion": 2, "mediaType": _INDEX, "manifests": [{**described, **named}]}
    with archive.open("wb") as out:
        _member(out, "oci-layout", json.dumps({"imageLayoutVersion": "1.0.0"}).encode())
        for each in dict.fromkeys(wanted):
            path = _blob_file(folder, each)
            with path.open("rb") as blob:
                size = os.fstat(blob.fileno()).st_size
                out.write(_header(f"blobs/sha256/{path.name}", size))
                shutil.copyfileobj(blob, out, _CHUNK)
                out.write(b"\0" * (-size % 512))
        _member(out, "index.json", _json(index))
        out.write(b"\0" * 1024)


def _blob_file(folder: Path, digest: str) -> Path:
    if not re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
        raise ValueError(f"{digest!a} is no digest")
    return folder / "blobs" / "sha256" / digest.removeprefix("sha256:")


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _blob(out: BinaryIO, data: bytes, media: str) -> dict[str, Any]:
    digest = hashlib.sha256(data).hexdigest()
    _member(out, f"blobs/sha256/{digest}", data)
    return {"mediaType": media, "digest": f"sha256:{digest}", "size": len(data)}


def _header(name: str, size: int) -> bytes:
    head = tarfile.TarInfo(name)
    head.size = size
    return head.tobuf(tarfile.USTAR_FORMAT)


def _member(out: BinaryIO, name: str, data: bytes) -> None:
    out.write(_header(name, len(data)) + data + b"\0" * (-len(data) % 512))


class _Hashing(io.RawIOBase):
    """Passes on what is written, and knows its size and sha256."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._hash = hashlib.sha256()
        self.size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._out.write(data)
        self._hash.update(data)
        self.size += len(data)
        return len(data)

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()


def _layer(
    out: BinaryIO, items: Iterable[Item], written: Callable[[int], None]
) -> tuple[dict[str, Any], str]:
    """Write one layer; what the manifest says of it, and the digest of it uncompressed."""
    start = out.tell()
    out.write(b"\0" * 512)  # its header, which names it by its digest, is written afterwards
    packed = _Hashing(out)
    compressor = zstandard.ZstdCompressor(level=_LEVEL, threads=-1)
    with compressor.stream_writer(cast("BinaryIO", packed), closefd=False) as stream:
        plain = _Hashing(cast("BinaryIO", stream))
        with io.BufferedWriter(plain, _CHUNK) as buffered:
            _tar(cast("BinaryIO", buffered), items, written)
    out.write(b"\0" * (-packed.size % 512))
    end = out.tell()
    out.seek(start)
    out.write(_header(f"blobs/sha256/{packed.digest}", packed.size))
    out.seek(end)
    digest = f"sha256:{packed.digest}"
    return {"mediaType": _LAYER, "digest": digest, "size": packed.size}, f"sha256:{plain.digest}"


def _tar(out: BinaryIO, items: Iterable[Item], written: Callable[[int], None]) -> None:
    for item in items:
        # Owned by root, with nothing of this machine's users, whoever owns it here.
        head = tarfile.TarInfo(item.path.lstrip("/"))
        head.mode = item.mode
        if item.kind == "file":
            size = _file(out, head, item.source)
            written(size)
            continue
        head.type = tarfile.DIRTYPE if item.kind == "dir" else tarfile.SYMTYPE
        head.linkname = item.target
        out.write(_encoded(head))
    out.write(b"\0" * 1024)


def _file(out: BinaryIO, head: tarfile.TarInfo, source: str) -> int:
    with Path(source).open("rb") as file:
        found = os.fstat(file.fileno())
        head.size = found.st_size
        # Compiled Python names its source by time and size (PEP 552).
        head.mtime = int(found.st_mtime)
        out.write(_encoded(head))
        left = found.st_size
        while left:
            data = file.read(min(left, _CHUNK))
            if not data:
                raise FileChanged(f"{source} became shorter while it was read")
            out.write(data)
            left -= len(data)
    out.write(b"\0" * (-found.st_size % 512))
    return found.st_size


def _encoded(head: tarfile.TarInfo) -> bytes:
    return head.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")
