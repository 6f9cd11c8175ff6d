"""Silence of the folder watch must mean that nothing changed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from reprise.workspace.folder import HostFolder


@pytest.fixture
def watched(tmp_path: Path) -> HostFolder:
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.txt").write_text("one")
    (tmp_path / "sub" / "b.txt").write_text("two")
    folder = HostFolder(tmp_path)
    folder.first()
    folder.moved()  # the walk that begins with every directory watched
    return folder


def test_silence_is_believed_only_after_a_walk_with_all_directories_watched(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one")
    folder = HostFolder(tmp_path)
    folder.first()
    assert folder.due
    folder.moved()
    assert not folder.due


def _rewrite(root: Path) -> None:
    (root / "a.txt").write_text("changed")


def _replace(root: Path) -> None:
    (root / "new").write_text("x")
    (root / "new").replace(root / "a.txt")


def _deep(root: Path) -> None:
    (root / "sub" / "b.txt").write_text("changed")


def _new_directory(root: Path) -> None:
    (root / "more" / "deeper").mkdir(parents=True)
    (root / "more" / "deeper" / "c.txt").write_text("x")


def _remove(root: Path) -> None:
    shutil.rmtree(root / "sub")


def _mode(root: Path) -> None:
    (root / "a.txt").chmod(0o755)


def _link(root: Path) -> None:
    (root / "link").symlink_to("a.txt")


@pytest.mark.parametrize(
    "change", [_rewrite, _replace, _deep, _new_directory, _remove, _mode, _link]
)
def test_every_kind_of_change_breaks_the_silence(
    watched: HostFolder, change: Callable[[Path], None]
) -> None:
    assert not watched.due
    change(watched.root)
    assert watched.due
    assert watched.changes() is not None


def test_what_happens_in_a_directory_made_during_the_silence_is_seen_too(
    watched: HostFolder,
) -> None:
    (watched.root / "more").mkdir()
    assert watched.due
    watched.changes()
    (watched.root / "more" / "late.txt").write_text("x")
    assert watched.due
    assert watched.changes() is not None


def test_reading_a_file_does_not_break_the_silence(watched: HostFolder) -> None:
    (watched.root / "a.txt").read_bytes()
    os.listdir(watched.root)
    assert not watched.due
