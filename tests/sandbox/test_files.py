"""File calls stay beneath the workspace, whatever paths and links they are given."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprise.guest import beneath, install
from reprise.guest.calls import kind_and_message
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


# Staged trees

STAGE = ".reprise/stage-0123456789abcdef"


def shape(root: Path) -> dict[str, object]:
    """All below a folder but the stages: type, mode, and content or target."""
    found: dict[str, object] = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if name == ".reprise":
            continue
        if path.is_symlink():
            found[name] = ("link", os.readlink(path))
        elif path.is_dir():
            found[name] = ("dir", path.stat().st_mode & 0o7777)
        else:
            found[name] = ("file", path.stat().st_mode & 0o7777, path.read_bytes())
    return found


def stage(served: Files, entries: list[dict[str, object]]) -> None:
    """Put entries into the stage, as the host does: folders get their own mode in the end."""
    staged = [{**entry, "path": f"{STAGE}/{entry['path']}"} for entry in entries]
    folders = [entry for entry in staged if entry["type"] == "dir"]
    first = {"path": STAGE, "type": "dir", "mode": 0o700}
    served.put([first, *({**entry, "mode": 0o700} for entry in folders)], [])
    rest = [entry for entry in staged if entry["type"] != "dir"]
    served.put(
        [*rest, *folders], [os.fsencode(str(e["path"])) for e in entries if e["type"] == "file"]
    )


def link(path: str, target: str) -> dict[str, object]:
    return {"path": path, "type": "link", "mode": 0o777, "target": target}


def directory(path: str, mode: int) -> dict[str, object]:
    return {"path": path, "type": "dir", "mode": mode}


@pytest.fixture(params=["exchange", "no exchange"])
def exchange(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once as the file system allows, once as where it cannot let two names change places."""
    if request.param == "no exchange":
        monkeypatch.setattr(install, "_exchange_names", lambda *_: False)


def furnish(root: Path) -> None:
    """A workspace with something of each kind."""
    (root / "kept").write_text("kept")
    (root / "replaced").write_text("old")
    (root / "replaced").chmod(0o600)
    (root / "was-folder" / "deep").mkdir(parents=True)
    (root / "was-folder" / "deep" / "f").write_text("old")
    (root / "was-folder" / "deep").chmod(0o500)
    (root / "was-file").write_text("old")
    (root / "was-link").symlink_to("kept")
    (root / "merged").mkdir(mode=0o750)
    (root / "merged" / "mine").write_text("mine")
    (root / "closed").mkdir()
    (root / "closed" / "mine").write_text("mine")
    (root / "closed").chmod(0o555)
    (root / "gone" / "with").mkdir(parents=True)
    (root / "gone" / "with" / "all").write_text("x")
    (root / "gone" / "with").chmod(0o555)


ENTRIES = [
    file("replaced", mode=0o755),
    file("was-folder"),
    file("was-file/now/deep"),
    directory("was-file", 0o711),
    file("was-link"),
    file("merged/new"),
    file("closed/new", mode=0o444),
    directory("closed", 0o511),
    file("fresh/er/f"),
    directory("fresh", 0o500),
    link("fresh/link", "../nowhere"),
    link("kept-not", "kept"),
    file(os.fsdecode(b"caf\xe9/\xff\n")),
]


@pytest.mark.usefixtures("exchange")
def test_a_staged_tree_comes_in_with_its_modes_and_merges(root: Path) -> None:
    furnish(root)
    served = files(root)
    stage(served, ENTRIES)
    assert not any(e["path"].startswith(STAGE) for e in served.tree(False, 2000, None)[0])
    served.install(STAGE, ["gone", "kept", "not/there", "replaced/not/there"])
    assert shape(root) == {
        "replaced": ("file", 0o755, b"replaced"),
        "was-folder": ("file", 0o644, b"was-folder"),
        "was-file": ("dir", 0o711),
        "was-file/now": ("dir", 0o755),
        "was-file/now/deep": ("file", 0o644, b"was-file/now/deep"),
        "was-link": ("file", 0o644, b"was-link"),
        "merged": ("dir", 0o750),
        "merged/mine": ("file", 0o644, b"mine"),
        "merged/new": ("file", 0o644, b"merged/new"),
        "closed": ("dir", 0o511),
        "closed/mine": ("file", 0o644, b"mine"),
        "closed/new": ("file", 0o444, b"closed/new"),
        "fresh": ("dir", 0o500),
        "fresh/er": ("dir", 0o755),
        "fresh/er/f": ("file", 0o644, b"fresh/er/f"),
        "fresh/link": ("link", "../nowhere"),
        "kept-not": ("link", "kept"),
        "caf\udce9": ("dir", 0o755),
        "caf\udce9/\udcff\n": ("file", 0o644, b"caf\xe9/\xff\n"),
    }
    assert not (root / ".reprise").exists()


@pytest.mark.usefixtures("exchange")
def test_whichever_move_fails_all_is_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = failing = 0

    def counted(real: Callable[..., object]) -> Callable[..., object]:
        def fails(*arguments: object, **more: object) -> object:
            nonlocal count
            count += 1
            if count == failing:
                raise OSError(errno.EIO, "the disk is broken", "here")
            return real(*arguments, **more)

        return fails

    for name in ("_rename", "_exchange_names", "_clear_marks"):
        monkeypatch.setattr(install, name, counted(getattr(install, name)))
    while count >= failing:
        failing += 1
        root = tmp_path / str(failing)
        root.mkdir()
        furnish(root)
        before = shape(root)
        served = files(root)
        stage(served, ENTRIES)
        count = 0
        with contextlib.suppress(OSError):
            served.install(STAGE, ["gone", "kept"])
        assert (shape(root) == before) == (count >= failing), failing
        assert not (root / ".reprise").exists()
    assert failing > 12


def test_what_cannot_be_undone_is_told(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served = files(root)
    stage(served, [file("a"), file("b")])
    real, count = install._rename, 0

    def breaks(*arguments: object) -> None:
        nonlocal count
        count += 1
        if count > 1:
            raise OSError(errno.EIO, "the disk is broken")
        real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(install, "_rename", breaks)
    with pytest.raises(install.HalfInstalled, match="could not be moved back"):
        served.install(STAGE, [])


@pytest.mark.parametrize("removed", [["../secret"], ["/etc"], [""], ["."], ["out/secret"]])
def test_removing_leads_nowhere_else_and_nothing_comes_in_then(
    root: Path, removed: list[str]
) -> None:
    (root / "out").symlink_to(root.parent)
    served = files(root)
    stage(served, [file("new")])
    with pytest.raises(OSError, match=r".*"):
        served.install(STAGE, removed)
    assert (root.parent / "secret").read_text() == SECRET
    assert shape(root) == {"out": ("link", str(root.parent))}


def test_a_staged_path_follows_links_only_inside(root: Path) -> None:
    (root / "out").symlink_to(root.parent)
    (root / "real").mkdir()
    (root / "inside").symlink_to("real")
    served = files(root)
    stage(served, [file("out/secret"), file("inside/f")])
    served.install(STAGE, [])
    assert (root.parent / "secret").read_text() == SECRET
    assert not (root / "out").is_symlink()  # it was in the way
    assert (root / "out" / "secret").read_text() == "out/secret"
    assert (root / "inside").is_symlink()
    assert (root / "real" / "f").read_text() == "inside/f"


JUGGLER = """
import itertools, os, sys
root, outside = sys.argv[1:]
os.chdir(root)
for n in itertools.count():
    d = f"d{n % 3}"
    for act in (
        lambda: os.rename(d, f".away{n}"),
        lambda: os.symlink(outside, d),
        lambda: os.unlink(d),
        lambda: os.mkdir(d),
    ):
        try:
            act()
        except OSError:
            pass
"""


@pytest.mark.parametrize("seconds", [3])
def test_links_that_come_and_go_lead_an_installation_nowhere(root: Path, seconds: int) -> None:
    """A program that turns folders into links and back while trees come in."""
    outside = root.parent / "outside"
    outside.mkdir()
    for number in range(3):
        (root / f"d{number}").mkdir()
    juggler = subprocess.Popen([sys.executable, "-c", JUGGLER, str(root), str(outside)])
    served = files(root)
    ends = {"in": 0, "not in": 0}
    deadline = time.monotonic() + seconds
    try:
        while time.monotonic() < deadline:
            stage(served, [file(f"d{n}/sub/f") for n in range(3)] + [file("d1"), file("top")][:1])
            try:
                served.install(STAGE, ["d2"])
                ends["in"] += 1
            except (OSError, install.HalfInstalled):
                ends["not in"] += 1
                served.remove([STAGE])
    finally:
        juggler.kill()
        juggler.wait()
    assert ends["in"] > 10, ends
    assert list(outside.iterdir()) == []
    assert (root.parent / "secret").read_text() == SECRET


def test_what_was_left_half_uploaded_is_no_part_of_the_tree(root: Path) -> None:
    served = files(root)
    stage(served, [file("a/b")])
    served.put([file(".reprise/commands/7/stdout"), file(".reprise/stage-mine")], [b"x", b"y"])
    found = {entry["path"] for entry in served.tree(True, 2000, None)[0]}
    assert found == {
        ".reprise",
        ".reprise/commands",
        ".reprise/commands/7",
        ".reprise/commands/7/stdout",
        ".reprise/stage-mine",
    }


def test_a_folder_that_is_closed_to_its_owner_can_be_removed(root: Path) -> None:
    (root / "a" / "b").mkdir(parents=True)
    (root / "a" / "b" / "f").write_text("x")
    (root / "a" / "b").chmod(0o000)
    (root / "a").chmod(0o500)
    files(root).remove(["a"])
    assert list(root.iterdir()) == []


def test_kinds_of_errors_tell_a_missing_file_from_a_folder(root: Path) -> None:
    (root / "d").mkdir()
    (root / "f").write_text("x")
    (root / "out").symlink_to(root.parent)
    os.mkfifo(root / "pipe")
    kinds = {}
    for path in ("missing", "f/below", "out/secret", "pipe", "../x"):
        with pytest.raises(OSError, match=r".*") as failed:
            files(root).get(path, 0, 1)
        kinds[path] = kind_and_message(failed.value)[0]
    assert kinds == {
        "missing": "not-found",
        "f/below": "not-found",
        "out/secret": "outside",
        "pipe": "not-a-file",
        "../x": "outside",
    }


def test_an_upload_left_half_done_is_cleared_when_it_is_old(tmp_path: Path) -> None:
    own = tmp_path / ".reprise"
    names = {name: own / name for name in ("stage-" + "0" * 16, "stage-" + "1" * 16, "stage-mine")}
    for path in names.values():
        (path / "below").mkdir(parents=True)
        (path / "below" / "half").write_bytes(b"x")
    old, young, others = names.values()
    for path in (old, others):
        os.utime(path, (0, 0))
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    (old / "out").symlink_to(outside)
    os.utime(old, (0, 0))
    Files(str(tmp_path), lambda _: False).clear_stages(3600)
    assert not old.exists()
    assert (young / "below" / "half").exists()
    assert (others / "below" / "half").exists()
    assert (outside / "kept").exists()


def test_a_planted_link_leads_no_clearing_out(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    stage = outside / ("stage-" + "0" * 16)
    stage.mkdir(parents=True)
    os.utime(stage, (0, 0))
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / ".reprise").symlink_to(outside)
    Files(str(workspace), lambda _: False).clear_stages(3600)
    assert stage.exists()
