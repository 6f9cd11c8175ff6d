"""Attempts to change, or to look behind, what is mounted in a bubblewrap sandbox.

Run as root (whose sandboxes live under an unprivileged uid) and, by test_as_ordinary_user, as
an ordinary user.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest

from reprise.errors import GuestCallFailed, SandboxDied, TooLarge, UsageError
from reprise.sandbox.contract import Limits, Mount, Tree
from tests.fixtures.mounts import sha256, tree_of
from tests.fixtures.sandbox import PATIENCE, Cells, StartCells

TREE = {"f": b"mounted", "x.sh": (b"#!/bin/sh\n", 0o755), "d/g": (b"", 0o777), "d": 0o777, "l": "f"}


@pytest.fixture
async def cells(start_cells: StartCells) -> AsyncIterator[Cells]:
    cells = await start_cells("bubblewrap", limits=Limits(memory=512 << 20, mounts=16 << 20))
    await cells.prints(
        "import ctypes, errno, json, mmap, os, shutil, subprocess, sys, threading\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "def refused(result):\n"
        "    assert result == -1, result\n"
        "    return errno.errorcode[ctypes.get_errno()]\n"
        "def tried(do):\n"
        "    try: do()\n"
        "    except OSError as e: return errno.errorcode[e.errno]\n"
        "    return 'DONE'\n"
    )
    yield cells
    # Whatever was tried, nobody of ours is left in there.
    assert helpers() == []


def helpers() -> list[psutil.Process]:
    """Programs of this process that enter a sandbox."""
    found = []
    for child in psutil.Process().children(recursive=True):
        try:
            if any(part.endswith("/enter.py") for part in child.cmdline()):
                found.append(child)
        except (psutil.NoSuchProcess, psutil.ZombieProcess):
            continue
    return found


async def mount(cells: Cells, target: str, tree: Tree) -> str:
    return await asyncio.wait_for(cells.guest.container.mount(target, tree), PATIENCE)


@asynccontextmanager
async def half_way(cells: Cells, target: str) -> AsyncIterator[asyncio.Event]:
    """A mount of {"a": b"first", "b": b"second"} that has written "a" and waits for the event."""
    asked, go = asyncio.Event(), asyncio.Event()
    tree = tree_of({"a": b"first", "b": b"second"})

    async def read(digest: str) -> bytes:
        if digest == sha256(b"first"):
            return b"first"
        asked.set()
        await go.wait()
        return b"second"

    mounting = asyncio.ensure_future(mount(cells, target, Tree(tree.digest, tree.entries, read)))
    await asyncio.wait_for(asked.wait(), PATIENCE)
    # The helper shows that it is inside by the name that it makes.
    place = f"/{target.split('/')[1]}"
    await cells.prints(
        f"import os, time\nwhile '.reprise-incoming' not in os.listdir({place!r}): time.sleep(.001)"
    )
    try:
        yield go
    finally:
        go.set()
        await asyncio.wait({mounting})
    await mounting


@pytest.mark.parametrize("moment", ["during", "after"])
async def test_nothing_mounted_can_be_changed(cells: Cells, moment: str) -> None:
    """During another mount and after it, by any call that changes files: at a tree, beside it and in the places themselves."""
    await mount(cells, "/skills/x", tree_of(TREE))
    await mount(cells, "/mnt/deep/x", tree_of(TREE))
    code = """
found = set()
for top in ('/skills', '/skills/x', '/mnt', '/mnt/deep', '/mnt/deep/x', '/skills/x/d'):
    for do in (
        lambda: open(top + '/new', 'w'),
        lambda: os.mkdir(top + '/new'),
        lambda: os.symlink('/etc', top + '/new'),
        lambda: os.mkfifo(top + '/new'),
        lambda: os.chmod(top, 0o777),
        lambda: os.utime(top),
        lambda: os.setxattr(top, 'user.x', b'x'),
        lambda: os.rename(top, top + '.old'),
        lambda: os.rename('/workspace', top + '/new'),
        lambda: os.chown(top, 1000, 1000),
        lambda: os.open(top, os.O_TMPFILE | os.O_RDWR),
        lambda: os.open('/proc/self/fd/%d/new' % os.open(top, os.O_RDONLY), os.O_CREAT | os.O_RDWR),
        lambda: os.open('new', os.O_CREAT | os.O_RDWR, dir_fd=os.open(top, os.O_PATH)),
    ):
        found.add(tried(do))
for file in ('/skills/x/f', '/mnt/deep/x/d/g'):
    reading = os.open(file, os.O_RDONLY)
    for do in (
        lambda: open(file, 'w'),
        lambda: open(file, 'a'),
        lambda: open(file, 'r+'),
        lambda: os.truncate(file, 0),
        lambda: os.unlink(file),
        lambda: os.rename(file, file + '2'),
        lambda: os.rename('/workspace/.reprise', file),
        lambda: os.link(file, file + '2'),
        lambda: os.chmod(file, 0o777),
        lambda: os.utime(file),
        lambda: os.setxattr(file, 'user.x', b'x'),
        lambda: os.open('/proc/self/fd/%d' % reading, os.O_WRONLY),
        lambda: os.open('/proc/self/fd/%d' % reading, os.O_RDWR | os.O_TRUNC),
        lambda: os.open('/proc/1/root' + file, os.O_WRONLY),
        lambda: os.open('/proc/self/cwd/..' + file, os.O_WRONLY),
        lambda: os.fchmod(reading, 0o777),
        lambda: os.ftruncate(reading, 0),
        lambda: os.write(reading, b'x'),
        lambda: os.posix_fallocate(reading, 0, 1 << 20),
        lambda: mmap.mmap(reading, 4, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE) if os.fstat(reading).st_size else os.write(reading, b'x'),
    ):
        found.add(tried(do))
print(json.dumps(sorted(found)))
"""
    if moment == "during":
        async with half_way(cells, "/skills/y"):
            found = json.loads(await cells.prints(code))
    else:
        async with half_way(cells, "/skills/y"):
            pass
        found = json.loads(await cells.prints(code))
    allowed = {"EROFS", "EACCES", "EPERM", "EBADF", "EXDEV", "ENOTDIR", "EINVAL", "EBUSY"}
    assert set(found) <= allowed, found
    assert "EROFS" in found
    assert await cells.prints("print(open('/skills/x/l').read())") == "mounted"


async def test_no_mount_can_be_made_writable_moved_or_covered(cells: Cells) -> None:
    await mount(cells, "/skills/x", tree_of(TREE))
    code = """
AT_FDCWD, EMPTY = -100, 0x1000
attr = (ctypes.c_uint64 * 4)(0, 1, 0, 0)
found = []
for place in (b'/skills', b'/skills/x', b'/mnt', b'/'):
    found += [
        refused(libc.mount(None, place, None, 0x20, None)),
        refused(libc.mount(None, place, None, 0x20 | 0x1000, None)),
        refused(libc.mount(place, b'/workspace', None, 0x1000, None)),
        refused(libc.mount(b'/workspace', place, None, 0x1000, None)),
        refused(libc.mount(place, b'/workspace', None, 0x2000, None)),
        refused(libc.mount(b'none', place, b'tmpfs', 0, None)),
        refused(libc.mount(b'none', place, b'overlay', 0, b'lowerdir=/skills,upperdir=/tmp,workdir=/tmp')),
        refused(libc.umount2(place, 2)),
        refused(libc.pivot_root(place, place) if hasattr(libc, 'pivot_root') else libc.syscall(155, place, place)),
        refused(libc.syscall(428, AT_FDCWD, place, 1)),
        refused(libc.syscall(442, AT_FDCWD, place, 0, attr, 32)),
        refused(libc.syscall(433, AT_FDCWD, place, 0)),
        refused(libc.syscall(429, AT_FDCWD, place, AT_FDCWD, b'/workspace', 0)),
    ]
# And not with privileges of a namespace of its own.
script = "import ctypes, errno; l = ctypes.CDLL(None, use_errno=True)\\n" \\
    "print('MADE' if l.unshare(0x10000000 | 0x20000) == 0 else errno.errorcode[ctypes.get_errno()])"
found.append(subprocess.run([sys.executable, '-I', '-c', script], capture_output=True, text=True).stdout.strip())
print(json.dumps(found))
"""
    found = json.loads(await cells.prints(code))
    assert set(found) <= {"EPERM", "EACCES", "ENOSPC", "EINVAL", "ENOSYS"}, found
    assert "MADE" not in found


async def test_the_guest_cannot_be_made_to_write_there(cells: Cells) -> None:
    await mount(cells, "/skills/x", tree_of(TREE))
    await cells.prints("os.symlink('/skills/x', 'way'); os.symlink('/skills/x/f', 'file')")
    for path in ("way/new", "way/f", "file", "../skills/x/f", "/skills/x/f"):
        entry = {"path": path, "type": "file", "mode": 0o644}
        try:
            await cells.call("put", {"entries": [entry]}, (b"changed",))
        except GuestCallFailed:
            continue
        # It may have put a file in the link's place, in the workspace.
        assert path == "file"
    with pytest.raises(GuestCallFailed):
        await cells.call("remove", {"paths": ["../skills/x/f"]})
    code = "print(open('/skills/x/f').read(), sorted(os.listdir('/skills/x')))"
    assert await cells.prints(code) == "mounted ['d', 'f', 'l', 'x.sh']"


async def test_a_tree_in_the_making_shows_nothing_but_a_name(cells: Cells) -> None:
    await mount(cells, "/skills/x", tree_of({"a": b"old"}))
    async with half_way(cells, "/skills/x"):
        code = """
hidden = '/skills/.reprise-incoming'
print(sorted(os.listdir('/skills')), open('/skills/x/a').read(), os.listdir('/skills/x'))
print({tried(do) for do in (
    lambda: os.listdir(hidden), lambda: open(hidden + '/a'), lambda: os.chdir(hidden),
    lambda: os.stat(hidden + '/a'), lambda: os.open(hidden, os.O_RDONLY),
    lambda: os.listdir('/proc/self/fd/%d' % os.open(hidden, os.O_PATH)),
)})
print(tried(lambda: os.chmod(hidden, 0o755)), tried(lambda: os.rmdir(hidden)))
"""
        assert (await cells.prints(code)).splitlines() == [
            "['.reprise-incoming', 'x'] old ['a']",
            "{'EACCES'}",
            "EROFS EROFS",
        ]
    code = (
        "print(os.listdir('/skills'), sorted(os.listdir('/skills/x')), open('/skills/x/a').read())"
    )
    assert await cells.prints(code) == "['x'] ['a', 'b'] first"


async def test_who_looks_at_a_name_finds_the_old_tree_or_the_new_one(cells: Cells) -> None:
    """Never none and never a part, however often it is replaced while a thread looks."""
    await mount(cells, "/skills/x", tree_of({"n": b"0", "m": b"0"}))
    await cells.prints(
        """
seen, missed, stop = set(), [], threading.Event()
def look():
    while not stop.is_set():
        try: seen.add(open('/skills/x/n').read())
        except OSError as e: missed.append(repr(e))
thread = threading.Thread(target=look); thread.start()
"""
    )
    for i in range(1, 12):
        await mount(cells, "/skills/x", tree_of({"n": b"%d" % i, "m": b"%d" % i}))
    found = await cells.prints(
        "stop.set(); thread.join(); print(missed[:3], '' in seen, len(seen) > 1)"
    )
    assert found == "[] False True"


async def test_the_helper_is_not_seen_and_has_no_right_on_this_machine(cells: Cells) -> None:
    before = await cells.prints(
        "print(json.dumps([p for p in os.listdir('/proc') if p.isdigit()]))"
    )
    async with half_way(cells, "/skills/x"):
        [helper] = helpers()
        assert (
            await cells.prints("print(json.dumps([p for p in os.listdir('/proc') if p.isdigit()]))")
            == before
        )
        status = dict(
            line.split(":\t", 1)
            for line in Path(f"/proc/{helper.pid}/status").read_text().splitlines()
            if ":\t" in line
        )
        assert status["NoNewPrivs"] == "1"
        assert "0" not in status["Uid"].split()
        assert "0" not in status["Gid"].split()
        if os.geteuid() == 0:
            container = Path(f"/proc/{cells.guest.container.pid}/status").read_text()
            assert f"Uid:\t{status['Uid']}" in container
            # Whatever it might open by a name does not exist.
            assert os.listdir(f"/proc/{helper.pid}/root") == []
            assert "(deleted)" in os.readlink(f"/proc/{helper.pid}/cwd")
            own = os.readlink("/proc/self/ns/user")
            assert os.readlink(f"/proc/{helper.pid}/ns/user") != own
            # A mount namespace that nobody else is in.
            others = {
                os.readlink(f"/proc/{process.pid}/ns/mnt")
                for process in psutil.Process(cells.guest.container.pid).children(recursive=True)
            }
            assert os.readlink(f"/proc/{helper.pid}/ns/mnt") not in {
                *others,
                os.readlink("/proc/self/ns/mnt"),
            }
        else:
            # Not dumpable: it is nobody's to trace, not even this user's.
            assert os.stat(f"/proc/{helper.pid}/mem").st_uid != os.geteuid()
    assert not helper.is_running()


async def test_the_sandbox_learns_nothing_of_the_host_by_a_mount(cells: Cells) -> None:
    look = (
        "print(open('/proc/self/mountinfo').read(), open('/proc/self/mounts').read(), "
        "[each for each in open('/proc/self/status') if each.startswith(('Cap', 'Uid', 'NSpid'))])"
    )
    before = await cells.prints(look)
    async with half_way(cells, "/mnt/a/b"):
        assert await cells.prints(look) == before
    assert await cells.prints(look) == before


async def test_files_kept_open_do_not_get_it_more_memory(cells: Cells) -> None:
    """A sandbox that holds on to replaced trees meets a bound, and its mounts stay whole."""
    big = [tree_of({"f": bytes([i]) * (9 << 20)}) for i in range(8)]
    await mount(cells, "/skills/x", big[0])
    await cells.prints("held = []")
    shown = 0
    with pytest.raises(TooLarge, match="files of them open"):
        for i in range(1, 8):
            await cells.prints("held.append(open('/skills/x/f', 'rb'))")
            await mount(cells, "/skills/x", big[i])
            shown = i
    assert shown >= 1
    code = "print(set(open('/skills/x/f', 'rb').read()), os.listdir('/skills'), os.statvfs('/skills').f_blocks * os.statvfs('/skills').f_frsize >> 20)"
    assert await cells.prints(code) == f"{{{shown}}} ['x'] 32"
    await cells.prints("[each.close() for each in held]")
    await mount(cells, "/skills/x", big[7])
    assert await cells.prints("print(set(open('/skills/x/f', 'rb').read()))") == "{7}"


async def test_a_sandbox_whose_helper_is_killed_ends(cells: Cells) -> None:
    with pytest.raises(SandboxDied):
        async with half_way(cells, "/skills/x") as go:
            [helper] = helpers()
            helper.kill()
            go.set()
    assert (await cells.ended()) is not None


async def test_a_sandbox_that_is_killed_leaves_no_helper(cells: Cells) -> None:
    with pytest.raises(SandboxDied):
        async with half_way(cells, "/skills/x"):
            [helper] = helpers()
            os.kill(cells.guest.container.pid, signal.SIGKILL)
            await asyncio.wait_for(cells.guest.container.wait(), PATIENCE)
            assert not helper.is_running()


async def test_a_host_that_is_killed_leaves_no_helper(tmp_path: Path) -> None:
    """Its sandbox goes with it, and so does the helper that is inside."""
    script = textwrap.dedent(
        """
        import asyncio, os, sys
        from pathlib import Path
        from tests.fixtures.mounts import tree_of
        from tests.fixtures.sandbox import Cells, ipykernel
        from tests.sandbox.test_mount import half_way, helpers
        from reprise.sandbox.backends import backend
        from reprise.sandbox.connection import Guest
        from reprise.sandbox.contract import SandboxSpec

        async def main():
            cells = Cells()
            cells.guest = await Guest.start(backend("bubblewrap"), SandboxSpec(ipykernel()), cells)
            await cells.guest.ready()
            async with half_way(cells, "/skills/x"):
                print(helpers()[0].pid, cells.guest.container.pid, flush=True)
                await asyncio.get_running_loop().create_future()

        asyncio.run(main())
        """
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]
    ) as host:
        assert host.stdout is not None
        line = await asyncio.to_thread(host.stdout.readline)
        ends = [os.pidfd_open(int(pid)) for pid in line.split()]
        assert len(ends) == 2
        host.kill()
    for end in ends:
        gone, _, _ = await asyncio.to_thread(select.select, [end], [], [], PATIENCE)
        os.close(end)
        assert gone


async def test_what_the_environment_shows_there_is_kept(
    start_cells: StartCells, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "host").write_text("host")
    for folder in (tmp_path, data):
        folder.chmod(0o755)
    (data / "host").chmod(0o666)
    cells = await start_cells(
        "bubblewrap", mounts=(Mount(data, "/mnt/data/set"), Mount(data, "/skills"))
    )
    for target in ("/mnt/data", "/mnt/data/set", "/mnt/data/set/x", "/skills/x"):
        with pytest.raises(UsageError, match="environment"):
            await mount(cells, target, tree_of(TREE))
    await mount(cells, "/mnt/data/beside", tree_of({"f": b"tree"}))
    await mount(cells, "/mnt/other", tree_of({"f": b"tree"}))
    await mount(cells, "/mnt/other", tree_of({"f": b"new tree"}))
    code = (
        "print(open('/mnt/data/set/host').read(), open('/skills/host').read(), "
        "open('/mnt/data/beside/f').read(), open('/mnt/other/f').read())"
    )
    assert await cells.prints(code) == "host host tree new tree"
    assert (await cells.run("open('/mnt/data/set/host', 'w')")).error == "OSError"
    assert os.listdir(data) == ["host"]
    assert (data / "host").read_text() == "host"


async def test_a_mount_at_the_first_moment_waits_for_the_sandbox(start_cells: StartCells) -> None:
    """Before bubblewrap has made its root, the host's would be entered."""
    cells = await start_cells("bubblewrap", ready=False)
    await mount(cells, "/skills/x", tree_of({"f": b"early"}))
    await asyncio.wait_for(cells.guest.ready(), PATIENCE)
    assert await cells.prints("print(open('/skills/x/f').read())") == "early"
    assert not os.path.exists("/skills/x")
