"""What of a notebook's folder comes in: all that belongs to it, nothing else, within bounds."""

from __future__ import annotations

import os
import pickle
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest

from reprise.log.model import sha256_hex
from reprise.workspace.folder import Bounds, HostFolder, Scan, scan
from reprise.workspace.manifest import Entry, path_text
from reprise.workspace.walk import MAX_DEPTH, hash_file, open_file, walk


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "home"
    monkeypatch.setenv("REPRISE_HOME", str(path))
    return path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "notebooks"
    path.mkdir()
    return path


def write(root: Path, **files: str) -> None:
    for name, text in files.items():
        (root / name).write_text(text)


def taken(found: Scan) -> set[str]:
    return {entry.path for entry in found.manifest}


def left(found: Scan) -> dict[str, str]:
    return {each.path: each.reason for each in found.left_out}


def test_files_directories_and_inner_links_come_in(root: Path) -> None:
    (root / "src").mkdir()
    (root / "src/a.py").write_text("x = 1\n")
    (root / "run.sh").write_text("#!/bin/sh\n")
    (root / "run.sh").chmod(0o755)
    (root / "empty").mkdir()
    (root / "link").symlink_to("src/a.py")
    (root / "absolute").symlink_to(root / "src")
    (root / "dangling").symlink_to("not/there")
    found = scan(root)
    assert not found.left_out
    assert not found.too_big
    by_path = found.manifest.by_path
    assert by_path["src/a.py"] == Entry("src/a.py", "file", 0o644, 6, sha256_hex(b"x = 1\n"))
    assert by_path["run.sh"].mode == 0o755
    assert by_path["empty"].type == "dir"
    assert by_path["link"].target == "src/a.py"
    # A path of this machine would mean nothing inside.
    assert by_path["absolute"].target == "src"
    assert by_path["dangling"].target == "not/there"


def test_version_control_environments_and_caches_stay_out(root: Path, home: Path) -> None:
    for name in (
        ".git", ".hg", ".svn", "node_modules", ".venv", "__pypackages__", "__pycache__",
        ".ipynb_checkpoints", ".mypy_cache", ".pytest_cache", ".cache",
    ):  # fmt: skip
        (root / name).mkdir()
        (root / name / "inside").write_text("x")
    for name, mark in (("myenv", "pyvenv.cfg"), ("conda", "conda-meta")):
        (root / name / mark).mkdir(parents=True)
        (root / name / "big.so").write_text("x")
    write(root, **{".~nb.ipynb": "", ".nb.py.swp": "", "nb.py~": "", "kept.py": "", ".env": ""})
    found = scan(root)
    assert taken(found) == {"kept.py", ".env"}
    assert not found.left_out


def test_the_state_of_reprise_itself_stays_out(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "state/secrets").mkdir(parents=True)
    monkeypatch.setenv("REPRISE_HOME", str(root / "state"))
    write(root, kept="")
    assert taken(scan(root)) == {"kept"}
    assert taken(HostFolder(root.parent, exclude=[root]).first()) == set()


def test_what_is_no_file_is_left_out_with_its_reason(root: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("secret")
    os.mkfifo(root / "pipe")
    (root / "out").symlink_to(tmp_path / "outside")
    (root / "up").symlink_to("../outside")
    (root / "self").symlink_to(".")
    # Its text stays inside, but self/.. is the folder above.
    (root / "sneaky").symlink_to("self/../outside")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(root / "socket"))
        found = scan(root)
    assert taken(found) == {"self"}
    assert set(left(found)) == {"pipe", "out", "up", "sneaky", "socket"}
    assert "leads out" in left(found)["sneaky"]
    assert "no file" in left(found)["pipe"]


def test_names_in_any_encoding_come_in_and_are_read(root: Path) -> None:
    raw = b"caf\xe9 \xff\n.csv"
    Path(os.fsdecode(os.fsencode(root) + b"/" + raw)).write_bytes(b"data")
    folder = HostFolder(root)
    (entry,) = folder.first().manifest
    assert entry.path == path_text(raw)
    assert b"".join(folder.read(entry)) == b"data"
    assert folder.first().manifest.sha256


def test_names_do_not_depend_on_the_locale(root: Path) -> None:
    (root / "é.txt").write_text("x")
    code = f"from reprise.workspace.folder import scan; print(ascii([e.path for e in scan({str(root)!r}).manifest]))"
    for variables in (
        {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
        {"LC_ALL": "C.UTF-8"},
    ):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout == "['\\xe9.txt']\n"


def test_the_smaller_files_come_in_first_and_the_sentence_names_the_largest(root: Path) -> None:
    (root / "data").mkdir()
    for name, size in (
        ("data/huge.csv", 9_000),
        ("data/big.csv", 5_000),
        ("a.py", 10),
        ("b.py", 10),
    ):
        (root / name).write_bytes(b"x" * size)
    (root / "nothing").mkdir()
    found = scan(root, Bounds(bytes=6_000, files=10))
    assert taken(found) == {"a.py", "b.py", "data", "data/big.csv"}
    assert found.too_big
    assert "data/huge.csv (8.8 KiB)" in found.reason
    assert "big.csv" not in found.reason
    assert f"reprise env mount {root}/data" in found.reason
    assert "\n" not in found.reason
    few = scan(root, Bounds(bytes=1 << 20, files=2))
    assert taken(few) == {"a.py", "b.py"}
    assert few.too_big


def test_a_sparse_giant_is_not_read(root: Path) -> None:
    with (root / "giant").open("wb") as file:
        file.truncate(1 << 40)
    write(root, a="1")
    found = scan(root)
    assert taken(found) == {"a"}
    assert "giant (1 TiB)" in found.reason


@pytest.mark.parametrize("bound", [{"max_entries": 100}, {"max_seconds": 0.0}])
def test_a_runaway_folder_stops_early_and_takes_nothing(
    root: Path, bound: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(600):
        (root / f"{n}").touch()
    found = walk(root, **bound)  # type: ignore[arg-type]
    assert found.entries <= 256
    assert found.runaway
    monkeypatch.setattr("reprise.workspace.folder.walk", lambda *_: walk(root, **bound))  # type: ignore[arg-type]
    folder = HostFolder(root)
    scanned = folder.first()
    assert len(scanned.manifest) == 0
    assert scanned.too_big
    assert str(root) in scanned.reason
    assert "reprise env mount DIR" in scanned.reason
    # A home directory is not walked again before each cell.
    assert not folder.due


def test_a_walk_is_bounded_unless_told_otherwise() -> None:
    assert walk.__kwdefaults__ == {"max_entries": 50_000, "max_seconds": 2.0}


def test_a_folder_that_is_gone_or_deep_does_not_raise(root: Path) -> None:
    path = root
    for _ in range(MAX_DEPTH + 5):
        path = path / "d"
    path.mkdir(parents=True)
    (path / "leaf").touch()
    found = scan(root)
    assert any("directories deep" in reason for reason in left(found).values())
    assert scan(root / "not-there").too_big


def test_unreadable_files_are_told_and_the_rest_comes_in(open_dir: Path) -> None:
    """As an ordinary user: root could read everything."""
    write(open_dir, readable="1", secret="2")
    (open_dir / "closed").mkdir()
    (open_dir / "closed/inner").touch()
    (open_dir / "secret").chmod(0)
    (open_dir / "closed").chmod(0)
    found = as_ordinary_user(lambda: scan(open_dir))
    assert taken(found) == {"readable"}
    assert left(found) == {
        "secret": "cannot be read (Permission denied)",
        "closed": "cannot be opened (Permission denied)",
    }


def as_ordinary_user(look: Callable[[], Scan]) -> Scan:
    """In a forked child: an interpreter of root's is often out of an ordinary user's reach."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
            with os.fdopen(write, "wb") as out:
                pickle.dump(look(), out)
            status = 0
        finally:
            os._exit(status)
    os.close(write)
    with os.fdopen(read, "rb") as source:
        data = source.read()
    assert os.waitpid(child, 0)[1] == 0
    return cast(Scan, pickle.loads(data))


@pytest.fixture
def open_dir() -> Iterator[Path]:
    """A directory that an ordinary user reaches (pytest's own are closed to others)."""
    path = Path(tempfile.mkdtemp(prefix="reprise-folder-"))
    path.chmod(0o755)
    yield path
    (path / "closed").chmod(0o700)
    shutil.rmtree(path)


# races ---------------------------------------------------------------------------------------


def test_a_file_that_grows_while_it_is_read_is_what_it_was_declared(root: Path) -> None:
    path = root / "growing"
    path.write_bytes(b"x" * 10)
    assert hash_file(root, "growing", 4) == (4, sha256_hex(b"xxxx"))
    folder = HostFolder(root)
    (entry,) = folder.first().manifest
    path.write_bytes(b"x" * 10 + b"more")
    assert b"".join(folder.read(entry)) == b"x" * 10


def test_a_file_or_directory_swapped_for_a_link_is_not_followed(root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "f").write_text("secret")
    (root / "d").mkdir()
    (root / "d/f").write_text("mine")
    os.close(open_file(root, "d/f"))
    (root / "d/f").unlink()
    (root / "d/f").symlink_to(outside / "f")
    with pytest.raises(OSError, match="symbolic links"):
        open_file(root, "d/f")
    (root / "d/f").unlink()
    (root / "d").rmdir()
    (root / "d").symlink_to(outside)
    with pytest.raises(OSError, match="Not a directory"):
        open_file(root, "d/f")


def test_a_file_swapped_for_a_pipe_does_not_hang(root: Path) -> None:
    os.mkfifo(root / "f")
    with pytest.raises(OSError, match="no regular file"):
        open_file(root, "f")


def test_a_folder_in_turmoil_is_survived_and_nothing_outside_is_read(
    root: Path, tmp_path: Path
) -> None:
    """One thread swaps files, links and directories while scans run: none raises, none leaks."""
    outside = tmp_path / "outside"
    outside.mkdir()
    secret = b"secret" * 100
    for n in range(5):
        (outside / f"f{n}").write_bytes(secret)
    stop = threading.Event()

    def churn() -> None:
        n = 0
        while not stop.is_set():
            n += 1
            place = root / f"p{n % 5}"
            try:
                match n % 4:
                    case 0:
                        place.mkdir()
                        (place / "f1").write_bytes(b"inner")
                    case 1:
                        (place / "f1").unlink(missing_ok=True)
                        place.rmdir()
                    case 2:
                        place.symlink_to(outside)
                    case 3:
                        place.unlink()
            except OSError:
                if not place.is_dir():
                    place.unlink(missing_ok=True)

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        folder = HostFolder(root)
        scans = [folder.first() for _ in range(150)]
        # On a busy machine the other thread may not have had a turn in all of them.
        patience = time.monotonic() + 60
        while not any(len(each.manifest) for each in scans) and time.monotonic() < patience:
            scans.append(folder.first())
    finally:
        stop.set()
        thread.join()
    hashes = {sha for each in scans for sha in each.manifest.blobs()}
    assert sha256_hex(secret) not in hashes
    assert any(len(each.manifest) for each in scans)
