"""File calls stay beneath the workspace, whatever paths and links they are given."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprise.guest import beneath
from reprise.guest.files import Files

SECRET = "the host's"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    (tmp_path / "secret").write_text(SECRET)
    return folder


def files(root: Path) -> Files:
    return Files(str(root), lambda path: False)


def file(path: str, **more: object) -> dict[str, object]:
    return {"path": path, "type": "file", "mode": 0o644, **more}


@pytest.mark.parametrize("openat2", [True, False], ids=["openat2", "step by step"])
@pytest.mark.parametrize(
    "path",
    ["../secret", "a/../../secret", "/etc/passwd", "out", "out/secret", "./out/secret", "a\0b"],
)
def test_no_path_leads_out(
    root: Path, path: str, openat2: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(beneath, "_have_openat2", openat2 and beneath._have_openat2)
    (root / "a").mkdir()
    (root / "out").symlink_to(root.parent)
    with pytest.raises((OSError, ValueError)):
        content = files(root).get(path + ("/secret" if path == "out" else ""), 0, 100)[1]
        raise AssertionError(content)
    with pytest.raises((OSError, ValueError)):
        files(root).put([file(path + ("/secret" if path == "out" else ""))], [b"changed"])
    assert (root.parent / "secret").read_text() == SECRET


def test_removing_a_link_leaves_what_it_points_to(root: Path) -> None:
    (root / "out").symlink_to(root.parent / "secret")
    (root / "folder").mkdir()
    (root / "folder" / "up").symlink_to(root.parent)
    files(root).remove(["out", "folder", "not/there"])
    assert list(root.iterdir()) == []
    assert (root.parent / "secret").read_text() == SECRET


def test_a_file_put_over_a_link_replaces_the_link(root: Path) -> None:
    (root / "data").symlink_to(root.parent / "secret")
    files(root).put([file("data")], [b"mine"])
    assert not (root / "data").is_symlink()
    assert (root.parent / "secret").read_text() == SECRET


@given(st.binary(max_size=5000), st.integers(1, 1000))
def test_a_file_in_pieces_is_whole(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, piece: int
) -> None:
    root = tmp_path_factory.mktemp("pieces")
    served = files(root)
    pieces = [content[at : at + piece] for at in range(0, len(content), piece)] or [b""]
    for number, data in enumerate(pieces):
        served.put([file("deep/er/file", append=number > 0)], [data])
    found = b""
    while len(found) < len(content):
        found += served.get("deep/er/file", len(found), piece)[1]
    assert found == content


def test_the_tree_comes_in_pages_without_gap_or_repeat(root: Path) -> None:
    names = ["a", "a-b", "a/b", "a/c/d", "ab", "b", "é", os.fsdecode(b"\xff")]
    for name in names:
        (root / name).mkdir() if name == "a" else None
    served = files(root)
    served.put([file(name) for name in names if name != "a"], [b"x"] * (len(names) - 1))
    (root / "__pycache__").mkdir()
    expected, more = served.tree(True, 2000, None)
    assert not more
    assert sorted(entry["path"] for entry in expected) == sorted([*names, "a/c"])
    found: list[dict[str, object]] = []
    after = None
    while True:
        entries, more = served.tree(True, 2, after)
        found += entries
        if not more:
            break
        after = str(entries[-1]["path"])
    assert found == expected


def test_special_files_are_neither_read_nor_waited_for(root: Path) -> None:
    os.mkfifo(root / "pipe")
    with pytest.raises(OSError, match="neither"):
        files(root).get("pipe", 0, 1)
    assert files(root).tree(True, 10, None) == ([], False)
