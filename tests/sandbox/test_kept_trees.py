"""Trees that the process backend keeps in REPRISE_HOME are whole, made anew, or collected."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from reprise.errors import SandboxError
from reprise.sandbox.kept_trees import CollectedTrees, collect
from reprise.sandbox.kept_trees import keep as keep_for
from reprise.sandbox.tree_use import TreeUse
from reprise.sandbox.trees import CheckedTree, check_tree
from reprise.settings import RUN_UNTRUSTED
from tests.fixtures.mounts import tree_of
from tests.fixtures.sandbox import PATIENCE, StartCells

FILES = {"a": b"a", "d/b": (b"bb", 0o755), "d": 0o750, "l": "a", "closed": 0, "secret": (b"s", 0)}


async def keep(tree: CheckedTree, mounts: Path) -> Path:
    """Keep it for a sandbox that ends at once."""
    use = TreeUse(mounts)
    try:
        return await keep_for(tree, mounts, use)
    finally:
        use.end()


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
    assert set(os.listdir(tmp_path / "mounts")) == {kept.name, ".marks"}


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
    assert {path.name for path in (tmp_path / "mounts").iterdir()} <= {
        ".marks",
        "elsewhere",
        kept.name,
    }
    assert Path("/etc/passwd").exists()


async def test_makers_at_once_all_find_it_whole(tmp_path: Path) -> None:
    tree = check_tree(tree_of({f"{i}": os.urandom(2000) for i in range(40)}))
    found = await asyncio.gather(*(keep(tree, tmp_path / "mounts") for _ in range(8)))
    assert set(found) == {tmp_path / "mounts" / tree.digest}
    assert set(os.listdir(tmp_path / "mounts")) == {tree.digest, ".marks"}
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
    found = {path.name for path in (tmp_path / "mounts").iterdir()}
    assert found == {kept.name, other.name, ".marks"}


async def test_a_tree_whose_bytes_fail_leaves_nothing(tmp_path: Path) -> None:
    async def wrong(digest: str) -> bytes:
        return b"wrong"

    with pytest.raises(SandboxError, match="not those"):
        await keep(check_tree(tree_of({"d/a": b"right"}, wrong)), tmp_path / "mounts")
    assert os.listdir(tmp_path / "mounts") == [".marks"]


async def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "mounts").write_bytes(b"a file")
    with pytest.raises(SandboxError, match=f"{tmp_path}/mounts"):
        await keep(check_tree(tree_of({"a": b""})), tmp_path / "mounts")


# collection --------------------------------------------------------------------------------------

NOTHING = CollectedTrees(0, 0, 0)

#: Keeps a tree in a process of its own, says so, and uses it until somebody ends it.
USER = """
import asyncio, sys
from pathlib import Path
from reprise.sandbox.kept_trees import keep
from reprise.sandbox.tree_use import TreeUse
from reprise.sandbox.trees import check_tree
from tests.fixtures.mounts import tree_of
mounts = Path(sys.argv[1])
asyncio.run(keep(check_tree(tree_of({"f": b"ff"})), mounts, TreeUse(mounts)))
print("kept", flush=True)
sys.stdin.read()
"""

#: Collects whatever is not in use, again and again, until stdin ends.
COLLECTOR = """
import os, sys
from pathlib import Path
from reprise.sandbox.kept_trees import collect
os.set_blocking(0, False)
print("begins", flush=True)
gone = 0
while sys.stdin.buffer.raw.read(1) is None:
    gone += collect(Path(sys.argv[1]), grace_s=-60, dry_run=False).trees
print(gone, flush=True)
"""


def python(code: str, mounts: Path, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, str(mounts)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
        env={**os.environ, **(env or {})},
    )


def age(mounts: Path, digest: str) -> None:
    os.utime(mounts / ".marks" / digest, (0, 0))


def marks(mounts: Path) -> set[str]:
    return set(os.listdir(mounts / ".marks"))


async def test_what_nobody_has_used_for_the_grace_goes_whole(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    assert collect(mounts, grace_s=0, dry_run=False) == NOTHING
    tree, other = check_tree(tree_of(FILES)), check_tree(tree_of({"o": b"o"}))
    await keep(tree, mounts)
    await keep(other, mounts)
    assert collect(mounts, grace_s=60, dry_run=False) == NOTHING
    age(mounts, tree.digest)
    assert collect(mounts, grace_s=60, dry_run=True) == CollectedTrees(1, 0, 5)
    assert set(os.listdir(mounts)) == {tree.digest, other.digest, ".marks"}
    assert collect(mounts, grace_s=60, dry_run=False) == CollectedTrees(1, 0, 5)
    assert set(os.listdir(mounts)) == {other.digest, ".marks"}
    assert marks(mounts) == {other.digest, "lock"}
    await keep(tree, mounts)
    assert (mounts / tree.digest / "d/b").read_bytes() == b"bb"


async def test_what_a_sandbox_uses_stays_however_old(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    tree = check_tree(tree_of(FILES))
    use, second = TreeUse(mounts), TreeUse(mounts)
    for each in (use, use, second):
        await keep_for(tree, mounts, each)
    age(mounts, tree.digest)
    assert collect(mounts, grace_s=60, dry_run=False) == NOTHING
    use.end()
    use.end()
    age(mounts, tree.digest)
    assert collect(mounts, grace_s=60, dry_run=False) == NOTHING
    second.end()
    # The grace begins when the last use ends.
    assert collect(mounts, grace_s=60, dry_run=False) == NOTHING
    age(mounts, tree.digest)
    assert collect(mounts, grace_s=60, dry_run=False).trees == 1


async def test_to_mount_it_again_is_to_use_it(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    tree = check_tree(tree_of(FILES))
    await keep(tree, mounts)
    age(mounts, tree.digest)
    before = (mounts / tree.digest).stat()
    await keep(tree, mounts)
    assert collect(mounts, grace_s=60, dry_run=False) == NOTHING
    after = (mounts / tree.digest).stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


async def test_a_user_that_was_killed_uses_nothing(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    with python(USER, mounts) as user:
        assert user.stdout is not None
        assert user.stdout.readline() == "kept\n"
        assert collect(mounts, grace_s=-60, dry_run=False) == NOTHING
        user.kill()
    assert len(marks(mounts)) == 3
    assert collect(mounts, grace_s=60, dry_run=False) == NOTHING
    assert collect(mounts, grace_s=-60, dry_run=False) == CollectedTrees(1, 0, 2)
    assert marks(mounts) == {"lock"}


async def test_a_collection_that_was_killed_leaves_nothing_half(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    tree = check_tree(tree_of(FILES))
    await keep(tree, mounts)
    with python(COLLECTOR, mounts, {"REPRISE_FAILPOINT": "trees-set-aside:kill"}) as collector:
        assert collector.wait(PATIENCE) == -signal.SIGKILL
    assert not (mounts / tree.digest).exists()
    assert collect(mounts, grace_s=60, dry_run=True) == CollectedTrees(0, 1, 5)
    assert collect(mounts, grace_s=60, dry_run=False) == CollectedTrees(0, 1, 5)
    assert os.listdir(mounts) == [".marks"]
    assert marks(mounts) == {"lock"}


async def test_makers_and_collectors_race_and_what_is_used_is_there(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    trees = [
        check_tree(tree_of({f"d/{i}": bytes([i, n]) * 100 for i in range(10)})) for n in range(2)
    ]

    async def mount_and_look() -> None:
        for turn in range(40):
            tree = trees[turn % 2]
            use = TreeUse(mounts)
            kept = await keep_for(tree, mounts, use)
            for _ in range(3):
                await asyncio.sleep(0)
                assert {path.name for path in (kept / "d").iterdir()} == {*map(str, range(10))}
                assert (kept / "d/9").read_bytes() == bytes([9, turn % 2]) * 100
            use.end()

    collectors = [python(COLLECTOR, mounts) for _ in range(2)]
    gone = 0
    try:
        for each in collectors:
            assert each.stdout is not None
            assert each.stdout.readline() == "begins\n"
        await asyncio.wait_for(asyncio.gather(*(mount_and_look() for _ in range(3))), PATIENCE)
    finally:
        for each in collectors:
            gone += int(each.communicate(timeout=PATIENCE)[0] or 0)
    assert all(each.returncode == 0 for each in collectors)
    assert gone > 0  # else they did not race
    collect(mounts, grace_s=-60, dry_run=False)
    assert os.listdir(mounts) == [".marks"]
    assert marks(mounts) == {"lock"}


async def test_names_that_are_no_trees_are_left_alone(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    (mounts / "mine").mkdir(parents=True)
    (mounts / "ab").write_bytes(b"x")
    # Of a Reprise that made no marks yet: it counts from when it came to its name.
    old = mounts / ("0" * 64)
    old.mkdir()
    assert collect(mounts, grace_s=60, dry_run=False) == NOTHING
    assert collect(mounts, grace_s=-60, dry_run=False).trees == 1
    assert set(os.listdir(mounts)) == {"mine", "ab", ".marks"}


async def test_a_mount_lasts_as_long_as_its_sandbox(
    start_cells: StartCells, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.mkdir()
    monkeypatch.setenv(RUN_UNTRUSTED, "yes")
    cells = await start_cells("process")
    path = await cells.guest.container.mount("/skills/s", tree_of({"f": b"ff"}))
    assert collect(home / "mounts", grace_s=-60, dry_run=False) == NOTHING
    assert await cells.prints(f"print(open({path + '/f'!r}).read())") == "ff"
    await cells.guest.kill()
    assert collect(home / "mounts", grace_s=-60, dry_run=False) == CollectedTrees(1, 0, 2)
