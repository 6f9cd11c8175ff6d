"""Attempts to escape from a bubblewrap sandbox, each made by a cell and each refused.

Run as root (whose sandboxes live under an unprivileged uid) and, by test_as_ordinary_user, as
an ordinary user.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from reprise.sandbox.contract import Limits
from tests.fixtures.sandbox import PATIENCE, Cells, StartCells, alive

LIMITS = Limits(memory=512 << 20, processes=64, workspace=32 << 20, tmp=16 << 20)


@pytest.fixture
async def bubblewrap(start_cells: StartCells) -> AsyncIterator[Cells]:
    cells = await start_cells("bubblewrap", limits=LIMITS)
    await cells.prints(
        "import ctypes, errno, json, os, pathlib, socket, subprocess, sys\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "def refused(result):\n"
        "    assert result == -1, result\n"
        "    return errno.errorcode[ctypes.get_errno()]\n"
    )
    yield cells
    # Whatever was tried, the sandbox's own work goes on.
    if not cells.guest.ended.done():
        assert await cells.prints("print('alive')") == "alive"


async def test_the_hosts_files_are_not_there(bubblewrap: Cells, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hunter2")
    tmp_path.chmod(0o755)
    paths = [str(secret), "/etc/shadow", "/root/.ssh", "/home/x", "/var/lib", "/proc/1/root/var"]
    code = f"print([p for p in {paths!r} if os.path.exists(p)])"
    assert await bubblewrap.prints(code) == "[]"
    assert await bubblewrap.prints("print('root:' in open('/etc/passwd').read())") == "True"
    own = Path("/etc/passwd").read_text()
    assert await bubblewrap.prints("print(repr(open('/etc/passwd').read()))") != repr(own)
    names = set(json.loads(await bubblewrap.prints("print(json.dumps(os.listdir('/')))")))
    assert names.isdisjoint({"boot", "home", "media", "opt", "srv", "var"} - prefixes())
    # Places for mounted trees, nothing of the host's.
    for place in {"mnt", "skills"} - prefixes():
        assert await bubblewrap.prints(f"print(os.listdir('/{place}'))") == "[]"


def prefixes() -> set[str]:
    """Top folders that hold the environment itself."""
    import sys

    return {Path(prefix).resolve().parts[1] for prefix in (sys.prefix, sys.base_prefix)}


async def test_the_prefixs_configuration_is_masked(bubblewrap: Cells) -> None:
    import sys

    prefix = Path(sys.prefix).resolve()
    code = f"p = {str(prefix / 'etc')!r}; print(os.listdir(p) if os.path.isdir(p) else [])"
    assert await bubblewrap.prints(code) == "[]"


@pytest.mark.parametrize("family", ["127.0.0.1", "::1", "unix", "abstract"])
async def test_the_hosts_sockets_cannot_be_reached(
    bubblewrap: Cells, family: str, tmp_path: Path
) -> None:
    """Its loopback and its database's socket: both answer on the host, neither inside."""
    kind = socket.AF_INET if "." in family else socket.AF_INET6 if ":" in family else socket.AF_UNIX
    path = str(tmp_path / ".s.PGSQL.5432")
    tmp_path.chmod(0o755)
    with socket.socket(kind) as listener:
        if kind == socket.AF_UNIX:
            address: object = path if family == "unix" else f"\0reprise-test-{os.getpid()}"
            listener.bind(address)
            if family == "unix":
                os.chmod(path, 0o777)
        else:
            listener.bind((family, 0))
            address = listener.getsockname()[:2]
        listener.listen()
        with socket.socket(kind) as client:
            client.connect(address)
        code = (
            f"s = socket.socket({int(kind)})\ntry:\n    s.connect({address!r})\n"
            "except OSError as e:\n    print(errno.errorcode[e.errno])\nelse:\n    print('REACHED')"
        )
        assert await bubblewrap.prints(code) in ("ECONNREFUSED", "ENOENT", "EADDRNOTAVAIL")


async def test_there_is_no_network_but_its_own_loopback(bubblewrap: Cells) -> None:
    assert await bubblewrap.prints("print([n for _, n in socket.if_nameindex()])") == "['lo']"
    code = "s = socket.socket(); s.connect(('192.0.2.1', 80))"
    assert (await bubblewrap.run(code)).error == "OSError"


async def test_no_secret_of_the_environment_went_in(
    start_cells: StartCells, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    cells = await start_cells("bubblewrap")
    code = (
        "import glob\nfound = []\n"
        "for p in glob.glob('/proc/[0-9]*/environ'):\n"
        "    try: found.append(open(p, 'rb').read())\n    except OSError: pass\n"
        "print(b'hunter2' in b''.join(found), len(found) > 0)"
    )
    assert await cells.prints(code) == "False True"


async def test_no_process_of_the_host_is_seen(bubblewrap: Cells) -> None:
    seen = json.loads(
        await bubblewrap.prints(
            "print(json.dumps([open(f'/proc/{p}/comm').read() for p in os.listdir('/proc')"
            " if p.isdigit()]))"
        )
    )
    assert len(seen) <= 4, seen
    assert (
        await bubblewrap.prints(f"print(os.path.exists('/proc/{os.getpid()}/stat'))") == "False"
        or os.getpid() < 10
    )


@pytest.mark.parametrize(
    "path",
    [
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/kernel/hostname",
        "/proc/sys/vm/overcommit_memory",
        "/proc/sys/user/max_user_namespaces",
        "/proc/sys/net/ipv4/ip_forward",
        "/proc/sysrq-trigger",
        "/proc/1/oom_score_adj",
        "/proc/1/mem",
    ],
)
async def test_the_kernels_settings_cannot_be_opened_for_writing(
    bubblewrap: Cells, path: str
) -> None:
    # Opened only: nothing is ever written.
    ran = await bubblewrap.run(f"os.open({path!r}, os.O_WRONLY)")
    if path == "/proc/sysrq-trigger" and not ran.error:
        # Masked by /dev/null where the host has it.
        code = f"print(os.stat({path!r}).st_rdev == os.makedev(1, 3))"
        assert await bubblewrap.prints(code) == "True"
        return
    assert ran.error in ("PermissionError", "OSError", "FileNotFoundError"), ran


async def test_nothing_can_be_mounted(bubblewrap: Cells) -> None:
    code = (
        "print(refused(libc.mount(b'none', b'/tmp', b'tmpfs', 0, None)))\n"
        "print(refused(libc.umount2(b'/proc/sys', 2)))\n"
        "print(refused(libc.mount(None, b'/', None, 32, None)))\n"
        "print(refused(libc.chroot(b'/tmp')))"
    )
    found = (await bubblewrap.prints(code)).split()
    assert set(found) <= {"EPERM", "EACCES", "EINVAL"}
    assert found[0] == "EPERM"


async def test_no_namespaces_can_be_made(bubblewrap: Cells) -> None:
    flags = {"user": 0x10000000, "mount": 0x00020000, "net": 0x40000000, "pid": 0x20000000}
    # In a process of its own: unshare refuses a user namespace to any that has threads.
    script = (
        "import ctypes, errno; libc = ctypes.CDLL(None, use_errno=True)\n"
        f"for flag in {list(flags.values())}:\n"
        "    done = libc.unshare(flag)\n"
        "    print(errno.errorcode[ctypes.get_errno()] if done else 'MADE')\n"
    )
    code = (
        f"done = subprocess.run([sys.executable, '-I', '-c', {script!r}], capture_output=True)\n"
        "print(done.stdout.decode())"
    )
    found = (await bubblewrap.prints(code)).split()
    assert len(found) == len(flags)
    assert set(found) <= {"EPERM", "ENOSPC"}


async def test_it_has_no_privilege_and_can_gain_none(bubblewrap: Cells) -> None:
    status = await bubblewrap.prints("print(open('/proc/self/status').read())")
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert fields["Uid"].split() == ["1000"] * 4
    assert fields["NoNewPrivs"] == "1"
    assert {fields[name].strip("0") for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {""}
    assert (await bubblewrap.run("os.setuid(0)")).error in ("PermissionError", "OSError")


async def test_host_uid_0_is_not_mapped(bubblewrap: Cells) -> None:
    mapped = await bubblewrap.prints("print(open('/proc/self/uid_map').read())")
    inside, _outside, count = map(int, mapped.split())
    assert (inside, count) == (1000, 1)
    # Through the namespace between: the process itself, seen from the host.
    host_uids = set()
    for pid in tree(bubblewrap.guest.container.pid):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("Uid:"):
                host_uids |= set(map(int, line.split()[1:]))
    assert 0 not in host_uids
    if os.geteuid() == 0:
        assert len(host_uids) == 1
        assert min(host_uids) >= 0x7000_0000


def tree(pid: int) -> list[int]:
    found = [pid]
    for parent in found:
        for task in Path(f"/proc/{parent}/task").iterdir():
            found += map(int, (task / "children").read_text().split())
    return found


async def test_a_fork_bomb_meets_its_limit_and_the_next_restart_clears_it(
    bubblewrap: Cells,
) -> None:
    code = (
        "made = 0\n"
        "try:\n"
        "    while made < 500:\n"
        "        if os.fork() == 0:\n"
        "            import time\n"
        "            while True: time.sleep(60)\n"
        "        made += 1\n"
        "except BlockingIOError:\n"
        "    print(made)"
    )
    made = int(await bubblewrap.prints(code))
    assert made < LIMITS.processes
    assert len(tree(bubblewrap.guest.container.pid)) <= LIMITS.processes + 8
    await bubblewrap.call("restart_kernel")
    usage, _ = await bubblewrap.call("usage")
    assert usage["processes"] < 5


@pytest.mark.parametrize("folder", ["/workspace", "/tmp", "/dev/shm", "/run/user/1000"])
async def test_filling_a_disk_hits_a_limit_and_is_undone_by_removing(
    bubblewrap: Cells, folder: str
) -> None:
    code = (
        f"f = open({folder + '/fill'!r}, 'wb', buffering=0)\n"
        "try:\n"
        "    for _ in range(2000): f.write(b'x' * (1 << 20))\n"
        "except OSError as e:\n"
        "    print(errno.errorcode[e.errno], f.tell() <= 32 << 20)\n"
        f"f.close(); os.unlink({folder + '/fill'!r})"
    )
    assert await bubblewrap.prints(code) == "ENOSPC True"


@pytest.mark.parametrize(
    "folder",
    ["/", "/usr", "/etc", "/dev", "/proc", "/run", "PREFIX", "/run/reprise/lib/reprise/guest"],
)
async def test_nothing_else_can_be_written(bubblewrap: Cells, folder: str) -> None:
    import sys

    where = folder.replace("PREFIX", f"{sys.base_prefix}/lib")
    ran = await bubblewrap.run(f"open({where + '/new'!r}, 'w')")
    assert ran.error in ("OSError", "PermissionError", "FileNotFoundError"), ran


async def test_a_setsid_child_ends_with_the_sandbox(bubblewrap: Cells) -> None:
    await bubblewrap.prints(
        "p = subprocess.Popen(['setsid', 'sh', '-c', 'trap \"\" TERM HUP INT; sleep 4321 & wait'])\n"
        "import time\nwhile len(os.listdir('/proc')) == 0: time.sleep(0.01)"
    )
    found = tree(bubblewrap.guest.container.pid)
    await asyncio.wait_for(bubblewrap.guest.kill(), PATIENCE)
    assert [pid for pid in found if alive(pid)] == []


async def test_the_guest_cannot_be_killed_or_stopped(bubblewrap: Cells) -> None:
    code = (
        "import signal\n"
        "for number in (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM, signal.SIGINT):\n"
        "    os.kill(1, number)\n"
        "print(os.getppid())"
    )
    assert await bubblewrap.prints(code) == "1"
    assert await bubblewrap.call("ping") == ({}, [])


async def test_the_guest_cannot_be_traced_or_read(bubblewrap: Cells) -> None:
    code = (
        "guests = [int(p) for p in os.listdir('/proc') if p.isdigit()"
        " and b'guest/__main__' in open(f'/proc/{p}/cmdline', 'rb').read()]\n"
        "for pid in guests:\n"
        "    print(refused(libc.ptrace(16, pid, 0, 0)))\n"
        "    for name in ('mem', 'environ', 'fd', 'maps'):\n"
        "        try: os.listdir(f'/proc/{pid}/fd') if name == 'fd' else open(f'/proc/{pid}/{name}').read()\n"
        "        except PermissionError: print('EPERM')\n"
        "        else: print('READ', name)\n"
        "    print(refused(libc.syscall(438, os.pidfd_open(pid), 3, 0)))\n"
    )
    found = (await bubblewrap.prints(code)).split()
    assert found
    assert set(found) <= {"EPERM", "EACCES"}, found


async def test_the_stream_is_open_in_no_process_that_cells_can_read(bubblewrap: Cells) -> None:
    code = (
        "import glob\nfound = []\n"
        "for fd in glob.glob('/proc/[0-9]*/fd/*'):\n"
        "    try: target = os.readlink(fd)\n    except OSError: continue\n"
        "    pid = int(fd.split('/')[2])\n"
        "    if target.startswith('socket:'): found.append(pid)\n"
        "print(set(found) <= {os.getpid()})\n"
    )
    assert await bubblewrap.prints(code) == "True"


async def test_keys_cannot_be_pushed_into_a_terminal(bubblewrap: Cells) -> None:
    assert (await bubblewrap.run("os.open('/dev/tty', os.O_RDWR)")).error == "OSError"
    code = (
        "import fcntl, termios\n"
        "for fd in (0, 1, 2):\n"
        "    try: fcntl.ioctl(fd, termios.TIOCSTI, b'x')\n"
        "    except OSError as e: print(errno.errorcode[e.errno])\n"
        "    else: print('PUSHED')"
    )
    assert set((await bubblewrap.prints(code)).split()) <= {"ENOTTY", "EPERM", "EIO"}


async def test_no_device_can_be_made_or_found(bubblewrap: Cells) -> None:
    assert (
        await bubblewrap.run("os.mknod('/tmp/d', 0o60600, os.makedev(8, 0))")
    ).error == "PermissionError"
    devices = json.loads(await bubblewrap.prints("print(json.dumps(os.listdir('/dev')))"))
    assert set(devices) <= {
        "null",
        "zero",
        "full",
        "random",
        "urandom",
        "tty",
        "fd",
        "stdin",
        "stdout",
        "stderr",
        "shm",
        "pts",
        "ptmx",
        "core",
        "console",
    }
