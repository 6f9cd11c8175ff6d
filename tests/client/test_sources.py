"""What of the host comes in: everything that was named, as it is, or an error (no kernel)."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from reprise.client import Bound
from reprise.client.comparison import changes, unified
from reprise.client.sources import of_bytes, of_path
from reprise.errors import TooLarge, UsageError
from reprise.workspace.manifest import Entry, Manifest


def test_a_folder_comes_in_with_all_that_it_holds(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_text("x")
    (tmp_path / "empty").mkdir(mode=0o750)
    script = tmp_path / "run.sh"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    (tmp_path / "link").symlink_to("run.sh")
    (tmp_path / "away").symlink_to("/etc/passwd")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe")).write_bytes(b"raw")
    source = of_path(tmp_path, "in/here")
    found = {entry.path: entry for entry in source.manifest}
    assert set(found) == {
        "in/here",
        "in/here/.git",
        "in/here/.git/config",
        "in/here/empty",
        "in/here/run.sh",
        "in/here/link",
        "in/here/away",
        "in/here/\udcff\udcfe",
    }
    assert found["in/here/run.sh"].mode == 0o755
    assert found["in/here/empty"].mode == 0o750
    assert found["in/here/away"].target == "/etc/passwd"
    assert dict(source.contents()).keys() == set(source.manifest.blobs())


def test_nothing_is_left_out_unless_asked(tmp_path: Path) -> None:
    for name in ("a.py", "a.pyc", "deep/b.pyc", "deep/c.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(name)
    kept = of_path(tmp_path, "", exclude=["*.pyc"])
    assert [entry.path for entry in kept.manifest] == ["a.py", "deep", "deep/c.py"]
    kept = of_path(tmp_path, "", exclude=["deep"])
    assert [entry.path for entry in kept.manifest] == ["a.py", "a.pyc"]


def test_what_cannot_come_in_is_an_error(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as sock:
        here = Path.cwd()
        os.chdir(tmp_path)  # a socket's path is short
        try:
            sock.bind("s")
        finally:
            os.chdir(here)
    with pytest.raises(UsageError, match="socket"):
        of_path(tmp_path, "in")
    with pytest.raises(UsageError, match="cannot be read"):
        of_path(tmp_path / "missing", "in")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="neither a file nor a folder"):
        of_path(tmp_path / "pipe", "in")


def test_bounds_hold(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 60)
    (tmp_path / "b").write_bytes(b"y" * 60)
    assert of_path(tmp_path, "in", bound=Bound(bytes=120)).size == 120
    for bound in (Bound(bytes=119), Bound(files=2)):
        with pytest.raises(TooLarge):
            of_path(tmp_path, "in", bound=bound)
    with pytest.raises(TooLarge):
        of_path(tmp_path / "a", "in", bound=Bound(bytes=59))
    with pytest.raises(TooLarge):
        of_bytes(b"x" * 60, "in", bound=Bound(bytes=59))


def test_a_file_that_changes_before_it_is_sent_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("before")
    source = of_path(path, "a")
    path.write_text("after!")
    with pytest.raises(UsageError, match="changed while it was read"):
        list(source.contents())


def test_two_trees_are_compared() -> None:
    def file(path: str, data: bytes, mode: int = 0o644) -> Entry:
        return Entry(path, "file", mode).containing(data)

    before = Manifest.of([file("a", b"1"), file("b", b"2"), file("c", b"3")])
    after = Manifest.of([file("a", b"1"), file("b", b"2!"), file("d", b"4")])
    assert [(c.path, c.kind) for c in changes(before, after)] == [
        ("b", "changed"),
        ("c", "removed"),
        ("d", "added"),
    ]
    assert list(changes(before, before)) == []
    moded = Manifest.of([file("a", b"1", 0o755), file("b", b"2"), file("c", b"3")])
    assert [c.path for c in changes(before, moded)] == ["a"]


def test_a_difference_is_bounded() -> None:
    diff, cut = unified("a\nb\n", "a\nc", "f")
    assert not cut
    assert diff.endswith("-b\n+c\n\\ No newline at end of file\n")
    diff, cut = unified("", "x\n" * 10_000, "f")
    assert cut
    assert diff.count("\n") <= 400
