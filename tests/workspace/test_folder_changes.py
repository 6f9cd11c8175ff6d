"""An unchanged folder is recognised cheaply; no change of a file that came in is missed."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from reprise.workspace import folder as folders
from reprise.workspace.folder import Bounds, HostFolder
from reprise.workspace.manifest import Manifest, difference
from reprise.workspace.walk import walk


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REPRISE_HOME", str(tmp_path / "home"))
    path = tmp_path / "notebooks"
    path.mkdir()
    return path


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if everything had been written long before it was first looked at."""
    now = time.time_ns
    monkeypatch.setattr("time.time_ns", lambda: now() + 10_000_000_000)


def paths(manifest: Manifest) -> set[str]:
    return {entry.path for entry in manifest}


@pytest.mark.usefixtures("settled")
def test_an_unchanged_folder_reads_no_file(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(100):
        (root / f"{n}.py").write_text(str(n))
    folder = HostFolder(root)
    folder.first()
    monkeypatch.setattr(folders, "hash_file", lambda *_: pytest.fail("a file was read"))
    assert not folder.moved()
    assert folder.changes() is None


@pytest.mark.usefixtures("settled")
def test_a_hundred_files_are_looked_at_in_two_milliseconds(root: Path) -> None:
    for n in range(100):
        (root / f"{n}.py").write_text(str(n))
    folder = HostFolder(root)
    folder.first()
    took = []
    for _ in range(50):
        began = time.perf_counter()
        assert not folder.moved()
        took.append(time.perf_counter() - began)
    assert min(took) < 0.002


@pytest.mark.usefixtures("settled")
def test_edits_additions_and_removals_are_seen(root: Path) -> None:
    (root / "edited").write_text("1")
    (root / "gone").write_text("1")
    (root / "same").write_text("1")
    folder = HostFolder(root)
    before = folder.first().manifest
    (root / "edited").write_text("2")
    (root / "gone").unlink()
    (root / "new").mkdir()
    (root / "new/file").write_text("3")
    assert folder.moved()
    scan = folder.changes()
    assert scan is not None
    change = difference(before, scan.manifest)
    assert [e.path for e in change.added] == ["new", "new/file"]
    assert [e.path for e in change.changed] == ["edited"]
    assert change.removed == ("gone",)
    assert not folder.moved()


def test_a_change_within_the_same_instant_is_not_missed(root: Path) -> None:
    """Same size, same times, same inode: only reading tells, as long as the file is young."""
    path = root / "f"
    path.write_text("1")
    folder = HostFolder(root)
    first = folder.first().manifest
    with path.open("r+") as file:
        file.write("2")
    found = path.stat()
    read = folder._read["f"]
    # As a file system with coarse times would have it.
    signature = read.signature._replace(mtime_ns=found.st_mtime_ns, ctime_ns=found.st_ctime_ns)
    folder._read["f"] = folders._Read(signature, read.entry, read.at_ns)
    assert folder.moved()
    scan = folder.changes()
    assert scan is not None
    assert scan.manifest != first


@pytest.mark.usefixtures("settled")
def test_an_edit_that_puts_the_old_time_back_is_seen(root: Path) -> None:
    path = root / "f"
    path.write_text("1")
    found = path.stat()
    folder = HostFolder(root)
    folder.first()
    with path.open("r+") as file:
        file.write("2")
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
    assert folder.moved()
    assert folder.changes() is not None


@pytest.mark.usefixtures("settled")
def test_the_notebook_itself_comes_in_once_and_others_again(root: Path) -> None:
    (root / "mine.ipynb").write_text("{}")
    (root / "other.ipynb").write_text("{}")
    folder = HostFolder(root, notebook=root / "mine.ipynb")
    first = folder.first().manifest
    assert paths(first) == {"mine.ipynb", "other.ipynb"}
    (root / "mine.ipynb").write_text('{"saved": 1}')
    assert not folder.moved()
    (root / "other.ipynb").write_text('{"saved": 1}')
    assert folder.moved()
    scan = folder.changes()
    assert scan is not None
    change = difference(first, scan.manifest)
    assert [e.path for e in change.put] == ["other.ipynb"]


@pytest.mark.usefixtures("settled")
def test_what_came_in_stays_chosen_when_smaller_files_appear(root: Path) -> None:
    (root / "old").write_bytes(b"x" * 60)
    folder = HostFolder(root, Bounds(bytes=100, files=3))
    folder.first()
    (root / "small").write_bytes(b"x" * 50)
    scan = folder.changes()
    assert scan is not None
    assert paths(scan.manifest) == {"old"}
    assert scan.too_big
    # A new process, which learns from the log what came in, chooses alike.
    again = HostFolder(root, Bounds(bytes=100, files=3))
    again.keep(scan.manifest)
    assert paths(again.first().manifest) == {"old"}


@pytest.mark.usefixtures("settled")
def test_what_grew_out_of_bounds_is_not_taken_for_removed(root: Path) -> None:
    (root / "log").write_bytes(b"x" * 60)
    folder = HostFolder(root, Bounds(bytes=100, files=3))
    first = folder.first().manifest
    (root / "log").write_bytes(b"x" * 600)
    scan = folder.changes()
    assert scan is not None
    assert scan.manifest == first
    assert "log (600 bytes)" in scan.reason


@pytest.mark.usefixtures("settled")
def test_what_became_a_pipe_or_a_link_outside_is_not_taken_for_removed(root: Path) -> None:
    (root / "d").mkdir()
    (root / "d/f").write_text("1")
    (root / "g").write_text("1")
    folder = HostFolder(root)
    first = folder.first().manifest
    (root / "g").unlink()
    os.mkfifo(root / "g")
    (root / "d").rename(root.parent / "moved")
    (root / "d").symlink_to(root.parent / "moved")
    scan = folder.changes()
    assert scan is not None
    assert scan.manifest == first
    assert {each.path for each in scan.left_out} == {"d", "g"}


def test_a_folder_that_became_a_runaway_removes_nothing(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "f").write_text("1")
    folder = HostFolder(root)
    first = folder.first().manifest
    for n in range(300):
        (root / f"n{n}").touch()
    real = walk
    monkeypatch.setattr(folders, "walk", lambda *args: real(*args, max_entries=100))
    scan = folder.changes()
    assert scan is not None
    assert scan.manifest == first
    assert scan.too_big
    assert not folder.due


def test_an_expensive_walk_is_made_about_once_a_second(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = HostFolder(root)
    folder.first()
    assert folder.due
    folder._walk_s = 0.040
    now = folder._walked_at
    monkeypatch.setattr("time.monotonic", lambda: now + 0.5)
    assert not folder.due
    assert not folder.cheap
    monkeypatch.setattr("time.monotonic", lambda: now + 0.9)
    assert folder.due
    folder._walk_s = 1.9
    monkeypatch.setattr("time.monotonic", lambda: now + 1.1)
    assert folder.due
