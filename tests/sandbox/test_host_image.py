"""What of this machine goes into an image of its own environment, and that it is the same each time."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard

from reprise.sandbox import host_image, image_archive
from reprise.sandbox.contract import LanguageKernel
from reprise.sandbox.host_image import Contents, Item
from reprise.sandbox.shared_libraries import closure, needs


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    """A small environment, with what must not go in."""
    top = tmp_path / "environment"
    for folder in ("bin", "lib", "etc"):
        (top / folder).mkdir(parents=True)
    (top / "lib" / "module.py").write_text("x = 1\n")
    (top / "lib" / "private.py").write_text("y = 1\n")
    (top / "lib" / "private.py").chmod(0o600)
    (top / "bin" / "tool").write_text("#!/bin/sh\n")
    (top / "bin" / "tool").chmod(0o4750)
    (top / "bin" / "python").symlink_to("tool")
    (top / "bin" / "outside").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").write_text("linked\n")
    (top / "etc" / "secret.json").write_text("dsn")
    os.mkfifo(top / "lib" / "pipe")
    return top


def by_path(items: list[Item]) -> dict[str, Item]:
    return {item.path: item for item in items}


def test_a_prefix_goes_in_without_its_configuration_and_for_every_user(prefix: Path) -> None:
    items = by_path(host_image.prefix_items(prefix))
    assert items[f"{prefix}/lib/module.py"].mode == 0o644
    # What its owner may read and run, the sandbox's user may; nobody becomes another user.
    assert items[f"{prefix}/lib/private.py"].mode == 0o644
    assert items[f"{prefix}/bin/tool"].mode == 0o755
    assert items[f"{prefix}/bin/python"].target == "tool"
    assert not [path for path in items if "secret" in path or path.startswith(f"{prefix}/etc")]
    assert f"{prefix}/lib/pipe" not in items
    # A link's end is there too, and folders come before what is in them.
    assert items[str(prefix.parent / "elsewhere")].kind == "file"
    seen: set[str] = {"/"}
    for item in host_image.prefix_items(prefix):
        assert os.path.dirname(item.path) in seen, item
        seen.add(item.path)


def test_links_that_run_in_a_circle_end(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    contents = Contents()
    contents.add(tmp_path / "a")
    assert {item.path for item in contents.items()} >= {str(tmp_path / "a"), str(tmp_path / "b")}


class Layer:
    """A layer, as its bytes and opened."""

    def __init__(self, plain: bytes) -> None:
        self.plain = plain
        self.tar = tarfile.open(fileobj=io.BytesIO(plain))  # noqa: SIM115


def layers(archive: bytes) -> Iterator[Layer]:
    """The layers of an archive, each checked against its digests."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as outer:
        blobs = {
            member.name: (outer.extractfile(member) or io.BytesIO()).read()
            for member in outer.getmembers()
        }
    assert json.loads(blobs["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}

    def blob(described: dict[str, object]) -> bytes:
        digest = str(described["digest"]).removeprefix("sha256:")
        data = blobs[f"blobs/sha256/{digest}"]
        assert hashlib.sha256(data).hexdigest() == digest
        assert len(data) == described["size"]
        return data

    (named,) = json.loads(blobs["index.json"])["manifests"]
    manifest = json.loads(blob(named))
    config = json.loads(blob(manifest["config"]))
    for layer, diff in zip(manifest["layers"], config["rootfs"]["diff_ids"], strict=True):
        plain = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(blob(layer))).read()
        assert diff == f"sha256:{hashlib.sha256(plain).hexdigest()}"
        yield Layer(plain)


def test_the_archive_holds_the_files_owned_by_root(prefix: Path) -> None:
    out = io.BytesIO()
    read: list[int] = []
    items = host_image.prefix_items(prefix)
    digest = image_archive.write(out, [items, [Item("/empty", "dir", 0o1777)]], read.append)
    first, second = layers(out.getvalue())
    assert digest.startswith("sha256:")
    members = {member.name: member for member in first.tar.getmembers()}
    module = members[f"{prefix}/lib/module.py".lstrip("/")]
    opened = first.tar.extractfile(module)
    assert opened is not None
    assert opened.read() == b"x = 1\n"
    # Compiled Python in the image names its source by this time.
    assert module.mtime == int((prefix / "lib" / "module.py").stat().st_mtime)
    assert {(m.uid, m.gid, m.uname) for m in members.values()} == {(0, 0, "")}
    assert not any(member.mode & 0o7000 for member in members.values())
    assert [(m.name, m.mode) for m in second.tar.getmembers()] == [("empty", 0o1777)]
    assert sum(read) == sum(os.path.getsize(item.source) for item in items if item.source)


def test_the_same_files_make_the_same_image(prefix: Path) -> None:
    def made() -> tuple[str, bytes]:
        out = io.BytesIO()
        digest = image_archive.write(out, [host_image.prefix_items(prefix)], lambda _: None)
        return digest, out.getvalue()

    assert made() == made()
    before = made()[0]
    (prefix / "lib" / "module.py").write_text("x = 2\n")
    assert made()[0] != before


class Shrinking(io.BytesIO):
    """Empties a file once the first of its content was written."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file = file

    def write(self, data: Any) -> int:
        if len(data) > 4096:
            os.truncate(self._file, 0)
        return super().write(data)


def test_a_file_that_shrinks_meanwhile_makes_no_image(tmp_path: Path) -> None:
    file = tmp_path / "shrinking"
    # Much, and nothing that could be compressed: so some is out before the last is read.
    file.write_bytes(os.urandom(48 << 20))
    with pytest.raises(image_archive.FileChanged, match="shorter"):
        items = [Item("/file", "file", 0o644, source=str(file))]
        image_archive.write(Shrinking(file), [items], lambda _: None)


def test_a_system_prefix_brings_its_python_alone() -> None:
    paths = [item.path for item in host_image.prefix_items(Path("/usr"))]
    assert not [path for path in paths if path.startswith("/usr/share/doc")]


def test_nothing_secret_of_the_machine_goes_in(prefix: Path) -> None:
    kernel = LanguageKernel("python3", "python", (sys.executable,), (prefix,))
    items = by_path(host_image.system_items(kernel, []))
    for path in ("/etc/passwd", "/etc/group", "/etc/hosts", "/etc/nsswitch.conf"):
        # Ours, not the machine's.
        assert items[path].source.startswith(str(Path(host_image.__file__).parent / "etc"))
    for path in ("/etc/shadow", "/etc/ssl/private", "/etc/ssh", "/home", "/boot"):
        assert path not in items
    assert not [
        path for path in items if path.startswith(("/etc/ssl/private", "/etc/ssh", "/var/lib"))
    ]


@pytest.mark.skipif(os.geteuid() != 0, reason="chroot is root's")
def test_its_programs_run_with_nothing_but_the_image(tmp_path: Path) -> None:
    kernel = LanguageKernel("sh", "sh", ("/bin/sh",), ())
    out = io.BytesIO()
    image_archive.write(out, [host_image.system_items(kernel, [])], lambda _: None)
    (layer,) = layers(out.getvalue())
    root = tmp_path / "root"
    (tmp_path / "layer.tar").write_bytes(layer.plain)
    root.mkdir()
    subprocess.run(["tar", "-xf", tmp_path / "layer.tar", "-C", root], check=True)
    script = "set -e; echo b a | tr ' ' '\\n' | sort | gzip | gunzip; tar --version >/dev/null"
    found = shutil.which("chroot", path="/usr/sbin:/sbin:/usr/bin")
    assert found is not None
    done = subprocess.run(
        [found, str(root), "/bin/sh", "-c", script],
        capture_output=True,
        text=True,
        timeout=60,
        env={"PATH": "/usr/bin:/bin"},
    )
    assert (done.stdout, done.stderr) == ("a\nb\n", "")


def test_libraries_are_found_as_the_loader_finds_them() -> None:
    program = Path(shutil.which("bash") or "/bin/sh")
    asked = needs(program)
    assert asked is not None
    assert asked.interpreter.startswith("/lib")
    listed = subprocess.run(
        [asked.interpreter, "--list", str(program)], capture_output=True, text=True, timeout=60
    ).stdout
    wanted = {line.split("=>")[1].split()[0] for line in listed.splitlines() if "=> /" in line}
    found = {os.path.realpath(path) for path in closure([program])}
    assert {os.path.realpath(path) for path in wanted} <= found


@pytest.mark.parametrize(
    "data", [b"", b"#!/bin/sh\n", b"\x7fELF", b"\x7fELF\x02\x01" + b"\xff" * 200]
)
def test_what_is_no_program_needs_nothing(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "file"
    file.write_bytes(data)
    assert needs(file) is None
    assert needs(tmp_path / "absent") is None


@pytest.mark.parametrize("digest", ["sha256:../../etc/passwd", "md5:0", "sha256:" + "0" * 63])
def test_a_layout_is_read_by_digests_alone(tmp_path: Path, digest: str) -> None:
    with pytest.raises(ValueError, match="no digest"):
        image_archive.pack_layout(tmp_path, digest, tmp_path / "out")


def test_an_image_of_a_layout_is_packed_whole_and_alone(tmp_path: Path, prefix: Path) -> None:
    out = io.BytesIO()
    digest = image_archive.write(out, [host_image.prefix_items(prefix)], lambda _: None)
    layout = tmp_path / "layout"
    (tmp_path / "image.tar").write_bytes(out.getvalue())
    layout.mkdir()
    subprocess.run(["tar", "-xf", tmp_path / "image.tar", "-C", layout], check=True)
    (layout / "blobs" / "sha256" / ("0" * 64)).write_bytes(b"of another image")
    image_archive.pack_layout(layout, digest, tmp_path / "packed")
    (layer,) = layers((tmp_path / "packed").read_bytes())
    assert f"{prefix}/lib/module.py".lstrip("/") in layer.tar.getnames()
    with tarfile.open(tmp_path / "packed") as packed:
        assert not [name for name in packed.getnames() if "0" * 64 in name]
