"""Every backend shows mounted trees as `reprise.sandbox.contract` promises."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from reprise.errors import SandboxDied, SandboxError, TooLarge, UsageError
from reprise.sandbox.contract import Limits, Tree
from reprise.settings import RUN_UNTRUSTED
from tests.conformance.backends import BACKENDS, backend_of
from tests.fixtures.mounts import for_all, sha256, tree_of
from tests.fixtures.sandbox import PATIENCE, Cells, StartCells

SKILL = {
    "SKILL.md": b"# Count\n",
    "scripts": 0o755,
    "scripts/count.sh": (b'#!/bin/sh\nwc -l < "$1"\n', 0o755),
    "scripts/private.py": (b"x = 1\n", 0o600),
    "closed": 0o700,
    "closed/empty": b"",
    "latest": "scripts/count.sh",
    "gone": "/no/such/place",
    "deep/er/and/deeper.bin": bytes(range(256)) * 5000,
    "caf\u00e9 \U0001f600\n\"'": b"a name\n",
    "latin-\udce9": b"bytes that are no UTF-8\n",
}

#: Prints what lies in a folder: path → [type, mode, content or target].
WALK = """
import hashlib, json, os, stat
def walk(top):
    found = {}
    for folder, names, files in os.walk(os.fsencode(top)):
        for name in names + files:
            path = os.path.join(folder, name)
            s = os.lstat(path)
            if stat.S_ISLNK(s.st_mode):
                what = os.fsdecode(os.readlink(path))
            elif stat.S_ISREG(s.st_mode):
                what = hashlib.sha256(open(path, 'rb').read()).hexdigest()
            else:
                what = None
            key = os.path.relpath(path, os.fsencode(top)).decode('utf-8', 'surrogateescape')
            found[key] = [stat.S_IFMT(s.st_mode), stat.S_IMODE(s.st_mode), what]
    return found
"""


@pytest.fixture(params=BACKENDS)
def name(request: pytest.FixtureRequest) -> str:
    return backend_of(request)


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Trees of the process backend go to a place of this test's own."""
    home = tmp_path / "home"
    monkeypatch.setenv("REPRISE_HOME", str(home))
    # What is mounted here is the tests' own.
    monkeypatch.setenv(RUN_UNTRUSTED, "yes")
    return home


async def mount(cells: Cells, target: str, tree: Tree) -> str:
    return await asyncio.wait_for(cells.guest.container.mount(target, tree), PATIENCE)


async def walked(cells: Cells, path: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        await cells.prints(f"{WALK}\nprint(json.dumps(walk({path!r})))")
    )
    return found


def wanted(tree: Tree, name: str) -> dict[str, Any]:
    """What `WALK` prints of a tree, implied folders included."""
    kinds = {"dir": 0o040000, "file": 0o100000, "link": 0o120000}
    found: dict[str, Any] = {}
    for entry in tree.entries:
        parts = entry.path.split("/")
        for depth in range(1, len(parts)):
            found.setdefault("/".join(parts[:depth]), [kinds["dir"], 0o755, None])
        found[entry.path] = [kinds[entry.type], entry.mode, entry.target or entry.sha256]
    changed = {
        "process": lambda mode: mode & ~0o222,
        # Written by somebody else than the sandbox's user, who could not read what is private.
        "oci:runsc": for_all,
        "dagger": for_all,
    }.get(name, lambda mode: mode)
    for path, (kind, mode, what) in found.items():
        if kind != kinds["link"]:
            found[path] = [kind, changed(mode), what]
    return found


async def test_a_mounted_tree_is_there_whole_with_its_modes(
    name: str, start_cells: StartCells
) -> None:
    cells = await start_cells(name)
    tree = tree_of(SKILL)
    path = await mount(cells, "/skills/count", tree)
    assert (path == "/skills/count") == (name != "process")
    assert await walked(cells, path) == wanted(tree, name)
    # Scripts run, links lead, and the notebook's own work can use it.
    code = (
        "import subprocess; open('three', 'w').write('1\\n2\\n3\\n')\n"
        f"print(subprocess.run([{path!r} + '/latest', 'three'], capture_output=True).stdout.decode())"
    )
    assert await cells.prints(code) == "3"


async def test_a_module_of_a_tree_is_imported(name: str, start_cells: StartCells) -> None:
    cells = await start_cells(name)
    path = await mount(cells, "/mnt/lib", tree_of({"mounted_thing.py": b"answer = 42\n"}))
    code = f"import sys; sys.path.insert(0, {path!r}); import mounted_thing; print(mounted_thing.answer)"
    assert await cells.prints(code) == "42"


async def test_an_empty_tree_is_an_empty_folder(name: str, start_cells: StartCells) -> None:
    cells = await start_cells(name)
    path = await mount(cells, "/skills/empty", tree_of({}))
    assert await cells.prints(f"import os; print(os.listdir({path!r}))") == "[]"


async def test_a_mount_replaces_what_was_there_whole(name: str, start_cells: StartCells) -> None:
    cells = await start_cells(name)
    await mount(cells, "/skills/x", tree_of({"old": b"old", "both": b"old", "d/old": b""}))
    new = tree_of({"new": b"new", "both": (b"new", 0o755), "d": b"now a file"})
    path = await mount(cells, "/skills/x", new)
    assert await walked(cells, path) == wanted(new, name)
    # And the same once more.
    assert await walked(cells, await mount(cells, "/skills/x", new)) == wanted(new, name)


async def test_many_mounts_stand_beside_each_other(name: str, start_cells: StartCells) -> None:
    cells = await start_cells(name)
    trees = {
        f"/{place}/{'a/b/' * (i % 3)}m{i}": tree_of({f"f{i}": str(i).encode()})
        for i in range(15)
        for place in ("skills", "mnt")
    }
    paths = dict(
        zip(
            trees,
            await asyncio.gather(*(mount(cells, *each) for each in trees.items())),
            strict=True,
        )
    )
    for target, path in paths.items():
        assert await walked(cells, path) == wanted(trees[target], name), target


async def test_a_thousand_files(name: str, start_cells: StartCells) -> None:
    cells = await start_cells(name)
    tree = tree_of(
        {
            f"d{i % 17}/{i}": (i.to_bytes(4, "big") * i, 0o755 if i % 3 else 0o640)
            for i in range(1000)
        }
    )
    path = await mount(cells, "/mnt/thousand", tree)
    assert await walked(cells, path) == wanted(tree, name)


async def test_times_are_the_same_at_every_mount(name: str, start_cells: StartCells) -> None:
    cells = await start_cells(name)
    path = await mount(cells, "/skills/t", tree_of({"a/f": b"x", "l": "a/f"}))
    code = (
        "import os\nprint({int(os.lstat(p).st_mtime) for p in "
        f"[{path!r}] + [{path!r} + '/' + n for n in ('a', 'a/f', 'l')]}})"
    )
    assert await cells.prints(code) == "{315532800}"


async def test_what_is_mounted_outlasts_a_restart_of_the_interpreter(
    name: str, start_cells: StartCells
) -> None:
    cells = await start_cells(name)
    path = await mount(cells, "/skills/kept", tree_of({"f": b"here"}))
    await cells.call("restart_kernel")
    await asyncio.wait_for(cells.guest.ready(), PATIENCE)
    assert await cells.prints(f"print(open({path!r} + '/f').read())") == "here"


@pytest.mark.parametrize(
    "target",
    [
        "/skills", "/skills/", "/mnt/", "/", "", "skills/x", "/etc/x", "/workspace/x", "/skillsx/y",
        "/skills/../etc", "/skills/./x", "/skills//x", "/skills/x/", "/mnt/x/..", "//skills/x",
        "/skills/a\0b", "/skills/" + "n" * 256, "/skills/" + "é" * 128, "/skills/\ud800",
        "/skills/.reprise-incoming", "/mnt/.reprise-incoming/x", "/mnt" + "/n" * 2100,
    ],
)  # fmt: skip
async def test_a_target_elsewhere_is_refused(
    name: str, start_cells: StartCells, target: str
) -> None:
    cells = await start_cells(name, ready=False)
    with pytest.raises(UsageError, match=r"\S"):
        await mount(cells, target, tree_of({"f": b""}))


async def test_a_mount_lies_neither_in_nor_above_another(
    name: str, start_cells: StartCells
) -> None:
    cells = await start_cells(name)
    there = tree_of({"f": b"first"})
    path = await mount(cells, "/mnt/a/b", there)
    for target in ("/mnt/a", "/mnt/a/b/c", "/mnt/a/b/f"):
        with pytest.raises(UsageError, match=r"/mnt/a/b"):
            await mount(cells, target, tree_of({"f": b"second"}))
    assert await walked(cells, path) == wanted(there, name)
    await mount(cells, "/mnt/a/bc", tree_of({"f": b"beside"}))


async def test_bytes_that_are_not_the_trees_leave_what_was_there(
    name: str, start_cells: StartCells
) -> None:
    cells = await start_cells(name)
    old = tree_of({"f": b"old"})
    path = await mount(cells, "/skills/x", old)

    for wrong in (b"nEw", b"new and more", b""):

        async def read(digest: str, wrong: bytes = wrong) -> bytes:
            return b"a" * 100_000 if digest == sha256(b"a" * 100_000) else wrong

        tampered = tree_of({"a": b"a" * 100_000, "f": b"new"}, read)
        with pytest.raises(SandboxError, match="not those that the tree names"):
            await mount(cells, "/skills/x", tampered)
    assert await walked(cells, path) == wanted(old, name)


async def test_a_store_that_fails_half_way_leaves_what_was_there(
    name: str, start_cells: StartCells
) -> None:
    cells = await start_cells(name)
    old = tree_of({"f": b"old"})
    path = await mount(cells, "/skills/x", old)
    blobs = {f"{i}": b"%d" % i for i in range(9)}
    by_digest = {sha256(data): data for data in blobs.values()}

    async def failing(digest: str) -> bytes:
        if by_digest[digest] == b"5":
            raise ConnectionResetError("the database went away")
        return by_digest[digest]

    with pytest.raises(ConnectionResetError, match="database"):
        await mount(cells, "/skills/x", tree_of(blobs, failing))
    with pytest.raises(ConnectionResetError, match="database"):
        await mount(cells, "/skills/new/place", tree_of(blobs, failing))
    assert await walked(cells, path) == wanted(old, name)
    # The way is free for another.
    await mount(cells, "/skills/new", tree_of({"f": b""}))


async def test_a_mount_that_is_cancelled_leaves_what_was_there(
    name: str, start_cells: StartCells
) -> None:
    cells = await start_cells(name)
    old = tree_of({"f": b"old"})
    path = await mount(cells, "/skills/x", old)
    asked = asyncio.Event()

    async def never(digest: str) -> bytes:
        asked.set()
        await asyncio.get_running_loop().create_future()
        raise AssertionError

    mounting = asyncio.ensure_future(mount(cells, "/skills/x", tree_of({"g": b"new"}, never)))
    await asyncio.wait_for(asked.wait(), PATIENCE)
    mounting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await mounting
    assert await walked(cells, path) == wanted(old, name)
    new = tree_of({"h": b"newer"})
    assert await walked(cells, await mount(cells, "/skills/x", new)) == wanted(new, name)


async def test_more_than_the_limit_is_refused_and_leaves_what_was_there(
    name: str, start_cells: StartCells
) -> None:
    cells = await start_cells(name, limits=Limits(mounts=8 << 20))
    old = tree_of({"f": b"x" * (3 << 20)})
    path = await mount(cells, "/skills/x", old)
    for target in ("/skills/y", "/mnt/y"):
        with pytest.raises(TooLarge, match=r"8 MiB.*env limit mounts"):
            await mount(cells, target, tree_of({"f": b"y" * (5 << 20)}))
    # Many small files count as well.
    with pytest.raises(TooLarge):
        await mount(cells, "/mnt/many", tree_of({f"{i}": b"" for i in range(1500)}))
    assert await walked(cells, path) == wanted(old, name)
    # What is replaced no longer counts: this one fits only in its place.
    new = tree_of({"f": b"z" * (7 << 20)})
    for _ in range(4):
        assert await walked(cells, await mount(cells, "/skills/x", new)) == wanted(new, name)


async def test_a_sandbox_that_ends_during_a_mount_says_so(
    name: str, start_cells: StartCells
) -> None:
    cells = await start_cells(name)
    container = cells.guest.container
    asked, killed = asyncio.Event(), asyncio.Event()

    async def read(digest: str) -> bytes:
        asked.set()
        await killed.wait()
        return b"late"

    mounting = asyncio.ensure_future(mount(cells, "/skills/x", tree_of({"f": b"late"}, read)))
    await asyncio.wait_for(asked.wait(), PATIENCE)
    await asyncio.wait_for(container.kill(), PATIENCE)
    killed.set()
    with pytest.raises(SandboxDied) as raised:
        await mounting
    assert raised.value.cause == await container.wait()
    with pytest.raises(SandboxDied):
        await mount(cells, "/skills/x", tree_of({"f": b"late"}))


async def test_a_tree_that_is_not_what_its_digest_names_is_refused(
    name: str, start_cells: StartCells
) -> None:
    cells = await start_cells(name)
    good = tree_of({"a": b"a"})
    for digest in ("0" * 64, "../" * 21 + "x", "", good.digest.upper()):
        with pytest.raises(UsageError, match="digest"):
            await mount(cells, "/skills/x", Tree(digest, good.entries, good.read))
