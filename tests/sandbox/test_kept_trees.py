"""Trees that the process backend keeps in REPRISE_HOME are whole, or are made anew."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from reprise.errors import SandboxError
from reprise.sandbox.kept_trees import keep
from reprise.sandbox.trees import check_tree
from tests.fixtures.mounts import tree_of
from tests.fixtures.sandbox import PATIENCE

FILES = {"a": b"a", "d/b": (b"bb", 0o755), "d": 0o750, "l": "a", "closed": 0, "secret": (b"s", 0)}


def modes(folder: Path) -> dict[str, int]:
    return {
        str(path.relative_to(folder)): path.lstat().st_mode & 0o777
        for path in folder.rglob("*")
        if not path.is_symlink()
    }


async def test_nobody_may_write_and_the_owner_may_read(tmp_path: Path) -> None:
    kept = await keep(check_tree(tree_of(FILES)), tmp_path / "mounts")
    assert modes(kept) == {"a": 0o444, "d": 0o550, "d/b": 0o555, "closed": 0o500, "secret": 0o400}
    assert kept.stat().st_mode & 0o777 == 0o555
    assert os.listdir(tmp_path / "mounts") == [kept.name]


@pytest.mark.parametrize(
    "change",
    [
        lambda kept: (kept / "a").write_bytes(b"A"),
        lambda kept: (kept / "a").write_bytes(b"longer"),
        lambda kept: (kept / "a").unlink(),
        lambda kept: (kept / "d/b").chmod(0o644),
        lambda kept: (kept / "d").chmod(0o777),
        lambda kept: (kept / "new").write_bytes(b""),
        lambda kept: (kept / "l").rename(kept / "m"),
        lambda kept: ((kept / "l").unlink(), (kept / "l").symlink_to("/etc/passwd")),
        lambda kept: ((kept / "a").unlink(), (kept / "a").symlink_to("/etc/passwd")),
        lambda kept: ((kept / "a").unlink(), os.mkfifo(kept / "a")),
        lambda kept: (kept.rename(kept.with_name("elsewhere")), kept.write_bytes(b"a file")),
        lambda kept: (kept.rename(kept.with_name("elsewhere")), kept.symlink_to("/etc")),
    ],
)
async def test_a_changed_tree_is_made_anew(
    tmp_path: Path, change: Callable[[Path], object]
) -> None:
    tree = check_tree(tree_of(FILES))
    kept = await keep(tree, tmp_path / "mounts")
    for path in (kept, kept / "d", kept / "a"):
        path.chmod(path.stat().st_mode | 0o200)
    change(kept)
    assert await keep(tree, tmp_path / "mounts") == kept
    assert not kept.is_symlink()
    assert (kept / "a").read_bytes() == b"a"
    assert os.readlink(kept / "l") == "a"
    assert modes(kept) == {"a": 0o444, "d": 0o550, "d/b": 0o555, "closed": 0o500, "secret": 0o400}
    assert {path.name for path in (tmp_path / "mounts").iterdir()} <= {kept.name, "elsewhere"}
    assert Path("/etc/passwd").exists()


async def test_makers_at_once_all_find_it_whole(tmp_path: Path) -> None:
    tree = check_tree(tree_of({f"{i}": os.urandom(2000) for i in range(40)}))
    found = await asyncio.gather(*(keep(tree, tmp_path / "mounts") for _ in range(8)))
    assert set(found) == {tmp_path / "mounts" / tree.digest}
    assert os.listdir(tmp_path / "mounts") == [tree.digest]
    assert len(list(found[0].iterdir())) == 40


async def test_what_a_killed_maker_left_is_removed(tmp_path: Path) -> None:
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait(PATIENCE)
    left = tmp_path / "mounts" / f".making-{done.pid}-0123"
    (left / "d").mkdir(parents=True)
    (left / "d/f").write_bytes(b"half")
    (left / "d").chmod(0o555)
    other = tmp_path / "mounts" / f".making-{os.getpid()}-0123"
    other.mkdir()
    kept = await keep(check_tree(tree_of({"f": b""})), tmp_path / "mounts")
    assert {path.name for path in (tmp_path / "mounts").iterdir()} == {kept.name, other.name}


async def test_a_tree_whose_bytes_fail_leaves_nothing(tmp_path: Path) -> None:
    async def wrong(digest: str) -> bytes:
        return b"wrong"

    with pytest.raises(SandboxError, match="not those"):
        await keep(check_tree(tree_of({"d/a": b"right"}, wrong)), tmp_path / "mounts")
    assert os.listdir(tmp_path / "mounts") == []


async def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "mounts").write_bytes(b"a file")
    with pytest.raises(SandboxError, match=f"{tmp_path}/mounts"):
        await keep(check_tree(tree_of({"a": b""})), tmp_path / "mounts")
