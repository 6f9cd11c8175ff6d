"""A container whose process 1 is root: the guest in it is not, and trees come in whole.

The container is one of bubblewrap's without a user namespace, with the capabilities that container
engines give by default: as in a Dagger engine, where nobody can enter it.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from reprise.errors import SandboxDied, SandboxError, TooLarge, UsageError
from reprise.sandbox import rooted_mount, view
from reprise.sandbox.bubblewrap import find_bwrap
from reprise.sandbox.child import Child
from reprise.sandbox.connection import Guest, greet
from reprise.sandbox.contained import NamespacedContainer
from reprise.sandbox.contract import SandboxSpec, Tree
from reprise.sandbox.dial import GUEST, ROOTED, Listener
from reprise.sandbox.entering import SandboxGone
from reprise.sandbox.rooted_mount import RootedMount
from reprise.sandbox.trees import CheckedTree, Mounted, check_tree
from reprise.sandbox.view import Link, Shown
from tests.conformance.test_mounts import SKILL, walked
from tests.conformance.test_mounts import wanted as wanted_of
from tests.fixtures.mounts import sha256, tree_of
from tests.fixtures.sandbox import PATIENCE, Cells, ipykernel

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be root in a container")

#: Of those that container engines give by default, what matters here.
_CAPABILITIES = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP")

_SIZE = 64 << 20


class Rooted:
    """`contained.Mounts` over the connection of the guest's parent."""

    def __init__(self) -> None:
        self.mounts: RootedMount

    async def show(self, target: str, tree: CheckedTree, pid: int, alive: int) -> None:
        await self.mounts.show(target, tree)

    async def end(self) -> None:
        self.mounts.close()


class Here:
    """As much of a backend as `greet` needs."""

    name = "rooted"
    isolation = "Isolated for a test."
    isolated = True

    def check(self) -> list[str]:
        return []

    async def start(self, *_: Any) -> Any:
        raise AssertionError


async def start(cells: Cells, spec: SandboxSpec) -> NamespacedContainer:
    """A container with process 1 root, and the guest in it greeted."""
    python = view.guest_interpreter(spec.kernel)
    seen = view.of_host(spec, python)
    listener = Listener((GUEST, ROOTED))
    try:
        arguments = ["--unshare-pid", "--unshare-net", "--unshare-ipc", "--as-pid-1", "--clearenv"]
        arguments += ["--die-with-parent", "--cap-drop", "ALL", "--dev", "/dev", "--proc", "/proc"]
        for name in _CAPABILITIES:
            arguments += ["--cap-add", f"CAP_{name}"]
        for name, value in {**seen.variables, **listener.variables()}.items():
            arguments += ["--setenv", name, value]
        arguments += ["--perms", "1777", "--tmpfs", "/tmp"]
        shown = [Path(each.path) for each in seen.operations if isinstance(each, Shown | Link)]
        for folder in sorted({above for path in shown for above in path.parents}):
            # Those that bubblewrap makes by itself are closed to all but root.
            arguments += ["--perms", "0755", "--dir", str(folder)]
        for each in seen.operations:
            match each:
                case Shown(source, path):
                    arguments += ["--ro-bind", source, path]
                case Link(target, path):
                    arguments += ["--symlink", target, path]
        arguments += ["--perms", "0755", "--size", str(_SIZE), "--tmpfs", "/skills"]
        arguments += ["--bind", str(listener.folder), "/run/reprise/dial"]
        info, told = os.pipe2(os.O_CLOEXEC)
        program = f"{view.LIBRARY}/reprise/guest/__main__.py"
        path = f"/run/reprise/dial/{listener.path.name}"
        child = Child.start(
            [
                *(find_bwrap(), *arguments, "--info-fd", str(told), "--"),
                *(python, "-I", "-S", program, "--rooted", path),
            ],
            pass_fds=[told],
            env={"PATH": "/usr/bin:/bin"},
        )
        os.close(told)
        taken = await asyncio.wait_for(listener.accept(), PATIENCE)
    finally:
        listener.close()
    rooted = Rooted()
    rooted.mounts = RootedMount(taken[ROOTED], Mounted(1 << 30))
    container = NamespacedContainer(child, taken[GUEST], info, None, rooted, memory=0)
    await greet(container, Here(), spec)
    cells.guest = Guest.of(container, spec, cells)
    await asyncio.wait_for(cells.guest.ready(), PATIENCE)
    return container


@asynccontextmanager
async def rooted() -> AsyncIterator[Cells]:
    cells = Cells()
    await start(cells, SandboxSpec(ipykernel()))
    yield cells
    await cells.guest.kill()


@pytest.fixture
async def cells() -> AsyncIterator[Cells]:
    async with rooted() as cells:
        yield cells


async def mount(cells: Cells, target: str, tree: Tree) -> str:
    return await asyncio.wait_for(cells.guest.container.mount(target, tree), PATIENCE)


def wanted(tree: Tree) -> dict[str, Any]:
    return wanted_of(tree, "dagger")


@as_root
async def test_the_guest_and_its_cells_have_nothing_of_roots(cells: Cells) -> None:
    code = """
import os, json
found = []
for pid in [os.getpid(), os.getppid()]:
    status = dict(l.split(':\\t', 1) for l in open(f'/proc/{pid}/status').read().splitlines() if ':\\t' in l)
    found.append([status[k].split() for k in ('Uid', 'Gid', 'Groups', 'CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb', 'NoNewPrivs')])
print(json.dumps(found))
"""
    kernel, guest = json.loads(await cells.prints(code))
    nothing = ["0" * 16]
    assert kernel == guest == [["1000"] * 4, ["1000"] * 4, [], *([nothing] * 5), ["1"]]
    code = """
import os, errno
def tried(do):
    try: do()
    except OSError as e: return errno.errorcode[e.errno]
    return 'DONE'
print({tried(do) for do in (
    lambda: os.setuid(0), lambda: os.setgid(0), lambda: os.setgroups([0]), lambda: os.kill(1, 9),
    lambda: os.listdir('/proc/1/fd'), lambda: open('/proc/1/environ').read(), lambda: open('/proc/1/mem'),
    lambda: os.listdir(f'/proc/{os.getppid()}/fd'), lambda: open(f'/proc/{os.getppid()}/environ').read(),
)})
"""
    found = await cells.prints(code)
    assert "DONE" not in found
    assert await cells.prints("import os; print(sorted(os.listdir('/proc/1/task')))") == "['1']"


@as_root
async def test_a_tree_is_there_whole(cells: Cells) -> None:
    tree = tree_of(SKILL)
    assert await mount(cells, "/skills/count", tree) == "/skills/count"
    assert await walked(cells, "/skills/count") == wanted(tree)
    assert (
        await cells.prints(
            "print({int(os.lstat('/skills/count/' + p).st_mtime) for p in walk('/skills/count')})"
        )
        == "{315532800}"
    )
    new = tree_of({"new": b"new", "scripts": b"now a file"})
    await mount(cells, "/skills/count", new)
    assert await walked(cells, "/skills/count") == wanted(new)
    await mount(cells, "/mnt/a/b/c", new)
    assert await walked(cells, "/mnt/a/b/c") == wanted(new)
    assert (
        await cells.prints("print(os.listdir('/skills'), os.listdir('/mnt'))") == "['count'] ['a']"
    )


@as_root
async def test_nothing_of_a_tree_can_be_changed_from_inside(cells: Cells) -> None:
    """Though its own modes would let anybody."""
    await mount(
        cells,
        "/skills/x",
        tree_of({"f": (b"mounted", 0o666), "d": 0o777, "d/g": (b"", 0o777), "own": (b"o", 0o600)}),
    )
    code = """
import os, errno, json
def tried(do):
    try: do()
    except OSError as e: return errno.errorcode[e.errno]
    return 'DONE'
found = set()
for top in ('/skills', '/skills/x', '/skills/x/d', '/mnt'):
    for do in (
        lambda: open(top + '/new', 'w'), lambda: os.mkdir(top + '/new'), lambda: os.symlink('/etc', top + '/new'),
        lambda: os.chmod(top, 0o777), lambda: os.utime(top), lambda: os.rename(top, top + '.old'),
        lambda: os.rename('/workspace/.reprise', top + '/new'), lambda: os.chown(top, 1000, 1000),
        lambda: os.open(top, os.O_TMPFILE | os.O_RDWR),
    ):
        found.add(tried(do))
for file in ('/skills/x/f', '/skills/x/d/g', '/skills/x/own'):
    for do in (
        lambda: open(file, 'w'), lambda: open(file, 'a'), lambda: os.truncate(file, 0), lambda: os.unlink(file),
        lambda: os.rename(file, file + '2'), lambda: os.link(file, file + '2'), lambda: os.chmod(file, 0o777),
        lambda: os.utime(file), lambda: os.open('/proc/self/fd/%d' % os.open(file, os.O_RDONLY), os.O_WRONLY),
    ):
        found.add(tried(do))
print(json.dumps(sorted(found)), open('/skills/x/f').read(), open('/skills/x/own').read())
"""
    found, said = (await cells.prints(code)).rsplit("]", 1)
    assert set(json.loads(found + "]")) <= {"EACCES", "EPERM", "EXDEV", "EROFS"}
    assert said == " mounted o"


@as_root
async def test_a_mount_that_is_given_up_leaves_what_was_there(cells: Cells) -> None:
    old = tree_of({"f": b"old"})
    await mount(cells, "/skills/x", old)
    asked = asyncio.Event()

    async def never(digest: str) -> bytes:
        if digest == sha256(b"a"):
            return b"a"
        asked.set()
        await asyncio.get_running_loop().create_future()
        raise AssertionError

    mounting = asyncio.ensure_future(
        mount(cells, "/skills/x", tree_of({"a": b"a", "b": b"b"}, never))
    )
    await asyncio.wait_for(asked.wait(), PATIENCE)
    # In the making it shows nothing but a name.
    code = (
        "import os\ntry: print(os.listdir('/skills/.reprise-incoming'))\n"
        "except PermissionError: print('closed')"
    )
    assert await cells.prints(code) == "closed"
    mounting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await mounting
    assert await walked(cells, "/skills/x") == wanted(old)

    async def wrong(digest: str) -> bytes:
        return b"not these"

    with pytest.raises(SandboxError, match="stored bytes"):
        await mount(cells, "/skills/x", tree_of({"g": b"new"}, wrong))
    # The connection is good for the next one.
    new = tree_of({"h": b"newer" * (1 << 19)})
    await mount(cells, "/skills/x", new)
    assert await walked(cells, "/skills/x") == wanted(new)
    assert await cells.prints("print(os.listdir('/skills'))") == "['x']"


@as_root
async def test_what_does_not_fit_leaves_what_was_there(cells: Cells) -> None:
    old = tree_of({"f": b"old"})
    await mount(cells, "/skills/x", old)
    with pytest.raises(TooLarge, match="no room"):
        await mount(
            cells, "/skills/x", tree_of({f"{i}": os.urandom(1) * (16 << 20) for i in range(5)})
        )
    assert await walked(cells, "/skills/x") == wanted(old)
    await mount(cells, "/skills/y", tree_of({"f": b"x" * (16 << 20)}))
    with pytest.raises(UsageError):
        await mount(cells, "/etc/x", old)


@as_root
async def test_a_place_that_is_not_roots_alone_is_refused(cells: Cells) -> None:
    # Only root can open it up; a test is root on the host.
    root = psutil.Process(cells.guest.container.pid).children()[0]
    os.chmod(f"/proc/{root.pid}/root/skills", 0o777)
    with pytest.raises(SandboxError, match="others than root may write"):
        await mount(cells, "/skills/x", tree_of({"f": b"f"}))


@as_root
@pytest.mark.parametrize("how", ["goodbye", "stream", "guest killed", "asked to end"])
async def test_however_the_guest_ends_the_container_exits_with_0(how: str) -> None:
    """Whatever was still running is gone."""
    async with rooted() as cells:
        await cells.prints(
            "import subprocess\nsubprocess.Popen(['sleep', '1234.5'], start_new_session=True)"
        )
        container = cells.guest.container
        tree = psutil.Process(container.pid).children(recursive=True)
        parent, guest, *_ = tree
        assert len(tree) >= 4
        if how == "goodbye":
            await asyncio.wait_for(cells.guest.goodbye(), PATIENCE)
        elif how == "stream":
            container.stream.shutdown(socket.SHUT_RDWR)
        elif how == "guest killed":
            assert guest.uids().real == 1000
            guest.kill()
        else:
            parent.terminate()
        cause = await asyncio.wait_for(container.wait(), PATIENCE)
        assert cause.code == 0, cause
        assert [each for each in tree if each.is_running()] == []


@as_root
async def test_a_guest_whose_parent_is_killed_ends() -> None:
    async with rooted() as cells:
        tree = psutil.Process(cells.guest.container.pid).children(recursive=True)
        tree[0].kill()
        await cells.ended()
        await asyncio.wait_for(cells.guest.container.wait(), PATIENCE)
        assert [each for each in tree if each.is_running()] == []
        with pytest.raises(SandboxDied):
            await mount(cells, "/skills/x", tree_of({"f": b"f"}))


# A parent that lies


def answers(data: bytes) -> Callable[[socket.socket], None]:
    return lambda peer: peer.sendall(data)


LIES: dict[str, Callable[[socket.socket], None]] = {
    "an answer that does not exist": answers(b"\x09\0\0"),
    "a text without end": answers(b"\x01\xff\xff" + b"x" * 100),
    "half an answer": answers(b"\x01"),
    "nothing": lambda peer: peer.close(),
}


@pytest.mark.parametrize("lie", LIES)
async def test_a_parent_that_lies_is_taken_for_gone(
    lie: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rooted_mount, "_PATIENCE", 1.0)
    ours, peer = socket.socketpair()
    ours.setblocking(False)
    mounts = RootedMount(ours, Mounted(1 << 30))
    LIES[lie](peer)
    tree = check_tree(tree_of({"f": b"f"}))
    with pytest.raises(SandboxGone):
        await asyncio.wait_for(mounts.show("/skills/x", tree), PATIENCE)
    with pytest.raises(SandboxGone):
        await mounts.show("/skills/x", tree)
    peer.close()


async def test_a_parent_that_reads_nothing_is_taken_for_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rooted_mount, "_PATIENCE", 0.2)
    ours, peer = socket.socketpair()
    ours.setblocking(False)
    mounts = RootedMount(ours, Mounted(1 << 30))
    with peer, pytest.raises(SandboxGone):
        await asyncio.wait_for(
            mounts.show("/skills/x", check_tree(tree_of({"f": b"f" * (8 << 20)}))), PATIENCE
        )


async def test_what_a_parent_says_of_an_error_is_shown_as_text() -> None:
    ours, peer = socket.socketpair()
    ours.setblocking(False)
    mounts = RootedMount(ours, Mounted(1 << 30))
    text = b"\x1b]0;title\x07<script>"
    peer.sendall(b"\x01" + len(text).to_bytes(2, "big") + text)
    with pytest.raises(SandboxError) as raised:
        await mounts.show("/skills/x", check_tree(tree_of({"f": b"f"})))
    assert "\x1b" not in str(raised.value)
    mounts.close()
    peer.close()


def test_both_ends_mean_the_same() -> None:
    from reprise.guest import rooted as inside
    from reprise.sandbox.contract import MOUNT_PLACES

    assert inside.PLACES == MOUNT_PLACES
    assert rooted_mount._PIECE == inside.PIECE
    assert inside.GIVE_UP.to_bytes(4, "big") == rooted_mount._GIVE_UP
    ends = (inside.SHOWN, inside.FAILED, inside.FULL, inside.GIVEN_UP)
    assert ends == (
        *(rooted_mount._SHOWN, rooted_mount._FAILED, rooted_mount._FULL, rooted_mount._GIVEN_UP),
    )
