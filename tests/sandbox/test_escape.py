"""Attempts to escape from a sandbox of each isolating backend, each made by a cell and each refused.

Run as root (whose sandboxes live under an unprivileged uid) and, by test_as_ordinary_user, as
an ordinary user. What is tried at the kernel's own doors is in test_escape_kernel.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from pathlib import Path

import pytest

from tests.fixtures.inside import LIMITS, start
from tests.fixtures.sandbox import PATIENCE, Cells, alive

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_the_hosts_files_are_not_there(inside: Cells, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hunter2")
    tmp_path.chmod(0o755)
    paths = [str(secret), "/etc/shadow", "/root/.ssh", "/home/x", "/var/lib", "/proc/1/root/var"]
    code = f"print([p for p in {paths!r} if os.path.exists(p)])"
    assert await inside.prints(code) == "[]"
    assert await inside.prints("print('root:' in open('/etc/passwd').read())") == "True"
    own = Path("/etc/passwd").read_text()
    assert await inside.prints("print(repr(open('/etc/passwd').read()))") != repr(own)
    names = set(json.loads(await inside.prints("print(json.dumps(os.listdir('/')))")))
    assert names.isdisjoint({"boot", "home", "media", "opt", "srv", "var"} - prefixes())
    # Places for mounted trees, nothing of the host's.
    for place in {"mnt", "skills"} - prefixes():
        assert await inside.prints(f"print(os.listdir('/{place}'))") == "[]"


def prefixes() -> set[str]:
    """Top folders that hold the environment itself."""
    import sys

    return {Path(prefix).resolve().parts[1] for prefix in (sys.prefix, sys.base_prefix)}


async def test_the_prefixs_configuration_is_masked(inside: Cells) -> None:
    import sys

    prefix = Path(sys.prefix).resolve()
    code = f"p = {str(prefix / 'etc')!r}; print(os.listdir(p) if os.path.isdir(p) else [])"
    assert await inside.prints(code) == "[]"


@pytest.mark.parametrize("family", ["127.0.0.1", "::1", "unix", "abstract"])
async def test_the_hosts_sockets_cannot_be_reached(
    inside: Cells, family: str, tmp_path: Path
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
        assert await inside.prints(code) in ("ECONNREFUSED", "ENOENT", "EADDRNOTAVAIL")


async def test_there_is_no_network_but_its_own_loopback(inside: Cells) -> None:
    assert await inside.prints("print([n for _, n in socket.if_nameindex()])") == "['lo']"
    code = "s = socket.socket(); s.connect(('192.0.2.1', 80))"
    assert (await inside.run(code)).error == "OSError"


async def test_no_secret_of_the_environment_went_in(
    walled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    cells = await start(walled)
    code = (
        "import glob\nfound = []\n"
        "for p in glob.glob('/proc/[0-9]*/environ'):\n"
        "    try: found.append(open(p, 'rb').read())\n    except OSError: pass\n"
        "print(b'hunter2' in b''.join(found), len(found) > 0)"
    )
    try:
        assert await cells.prints(code) == "False True"
    finally:
        await cells.guest.kill()


async def test_no_process_of_the_host_is_seen(inside: Cells) -> None:
    seen = json.loads(
        await inside.prints(
            "print(json.dumps([open(f'/proc/{p}/comm').read() for p in os.listdir('/proc')"
            " if p.isdigit()]))"
        )
    )
    assert len(seen) <= 4, seen
    assert (
        await inside.prints(f"print(os.path.exists('/proc/{os.getpid()}/stat'))") == "False"
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
async def test_the_kernels_settings_cannot_be_opened_for_writing(inside: Cells, path: str) -> None:
    # Opened only: nothing is ever written.
    ran = await inside.run(f"os.open({path!r}, os.O_WRONLY)")
    if path == "/proc/sysrq-trigger" and not ran.error:
        # Masked by /dev/null where the host has it.
        code = f"print(os.stat({path!r}).st_rdev == os.makedev(1, 3))"
        assert await inside.prints(code) == "True"
        return
    assert ran.error in ("PermissionError", "OSError", "FileNotFoundError"), ran


async def test_nothing_can_be_mounted(inside: Cells) -> None:
    code = (
        "print(refused(libc.mount(b'none', b'/tmp', b'tmpfs', 0, None)))\n"
        "print(refused(libc.umount2(b'/proc/sys', 2)))\n"
        "print(refused(libc.mount(None, b'/', None, 32, None)))\n"
        "print(refused(libc.chroot(b'/tmp')))"
    )
    found = (await inside.prints(code)).split()
    assert set(found) <= {"EPERM", "EACCES", "EINVAL"}
    assert found[0] == "EPERM"


async def test_no_namespaces_can_be_made(inside: Cells, gvisor: bool) -> None:
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
    found = (await inside.prints(code)).split()
    assert len(found) == len(flags)
    # gVisor makes some, which are its own kernel's affair: the host sees none of it.
    assert set(found) <= {"EPERM", "ENOSPC", *(("MADE", "EINVAL") if gvisor else ())}


async def test_it_has_no_privilege_and_can_gain_none(inside: Cells, gvisor: bool) -> None:
    status = await inside.prints("print(open('/proc/self/status').read())")
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert fields["Uid"].split() == ["1000"] * 4
    assert {fields[name].strip("0") for name in ("CapInh", "CapPrm", "CapEff")} == {""}
    if not gvisor:  # it tells neither of these, and honours no setuid bit at all
        assert fields["NoNewPrivs"] == "1"
        assert fields["CapAmb"].strip("0") == ""
        # One seccomp filter at least.
        assert fields["Seccomp"] == "2"
    assert (await inside.run("os.setuid(0)")).error in ("PermissionError", "OSError")


async def test_host_uid_0_is_not_mapped(inside: Cells, walled: str, gvisor: bool) -> None:
    if walled == "dagger":
        # An engine makes no user namespaces: what runs as 1000 is 1000 on its machine, without a
        # way to be anyone else (docs/backends.md).
        ids = "print(os.getresuid(), os.getresgid(), os.getgroups())"
        assert await inside.prints(ids) == "(1000, 1000, 1000) (1000, 1000, 1000) []"
        said = await inside.prints(
            "print({line.split()[1] for line in open('/proc/self/status')"
            " if line.startswith(('CapInh', 'CapPrm', 'CapEff', 'CapAmb'))}, "
            "[line.split()[1] for line in open('/proc/self/status') if 'NoNewPrivs' in line])"
        )
        assert said == "{'0000000000000000'} ['1']"
        return
    mapped = await inside.prints("print(open('/proc/self/uid_map').read())")
    lines = [tuple(map(int, line.split())) for line in mapped.splitlines()]
    if not gvisor:
        # runc wants a user 0 in there; it is nobody on the host either, and nothing runs as it.
        assert {line[0] for line in lines} in ({1000}, {0, 1000})
        assert {line[2] for line in lines} == {1}
    # Through the namespace between: the process itself, seen from the host.
    host_uids = set()
    for pid in tree(inside.guest.container.pid):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("Uid:"):
                host_uids |= set(map(int, line.split()[1:]))
    assert 0 not in host_uids
    if os.geteuid() == 0:
        assert len(host_uids) <= 2
        assert min(host_uids) >= 0x7000_0000


def tree(pid: int) -> list[int]:
    found = [pid]
    for parent in found:
        for task in Path(f"/proc/{parent}/task").iterdir():
            found += map(int, (task / "children").read_text().split())
    return found


async def test_a_fork_bomb_meets_its_limit_and_the_next_restart_clears_it(
    inside: Cells, gvisor: bool
) -> None:
    # By a small program: gVisor cannot tell the guest what forked processes share of their memory.
    code = (
        "script = 'while true; do sleep 600 & done'\n"
        "bomb = subprocess.Popen(['sh', '-c', script], stderr=subprocess.PIPE, text=True)\n"
        "for line in bomb.stderr:\n"
        "    if 'fork' in line.lower(): break\n"
        "print(line.strip().lower())"
    )
    if gvisor:
        # Its kernel's own threads count too: at the limit the sandbox ends, or takes no more calls.
        # Either way it can be ended whole.
        inside.execute(code)
        said = asyncio.ensure_future(_until_said(inside))
        await asyncio.wait(
            {said, inside.guest.ended}, timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED
        )
        said.cancel()
        await asyncio.gather(said, return_exceptions=True)
        pid = inside.guest.container.pid
        await inside.guest.kill()
        assert not alive(pid)
        return
    assert "fork" in await inside.prints(code)
    assert len(tree(inside.guest.container.pid)) <= LIMITS.processes + 8
    await inside.call("restart_kernel")
    usage, _ = await inside.call("usage")
    assert usage["processes"] < 5


async def _until_said(cells: Cells) -> None:
    while True:
        _channel, parts = await cells.next()
        if b"fork" in parts[4] and json.loads(parts[1])["msg_type"] == "stream":
            return


@pytest.mark.parametrize("folder", ["/workspace", "/tmp", "/dev/shm", "/run/user/1000"])
async def test_filling_a_disk_hits_a_limit_and_is_undone_by_removing(
    inside: Cells, folder: str
) -> None:
    code = (
        f"f = open({folder + '/fill'!r}, 'wb', buffering=0)\n"
        "try:\n"
        "    for _ in range(2000): f.write(b'x' * (1 << 20))\n"
        "except OSError as e:\n"
        "    said = errno.errorcode[e.errno], f.tell() <= 32 << 20\n"
        f"f.close(); os.unlink({folder + '/fill'!r}); print(said)"
    )
    assert "('ENOSPC', True)" in await inside.prints(code)


@pytest.mark.parametrize(
    "folder",
    ["/", "/usr", "/etc", "/dev", "/proc", "/run", "PREFIX", "/run/reprise/lib/reprise/guest"],
)
async def test_nothing_else_can_be_written(inside: Cells, folder: str) -> None:
    import sys

    where = folder.replace("PREFIX", f"{sys.base_prefix}/lib")
    ran = await inside.run(f"open({where + '/new'!r}, 'w')")
    assert ran.error in ("OSError", "PermissionError", "FileNotFoundError"), ran


async def test_a_setsid_child_ends_with_the_sandbox(inside: Cells) -> None:
    await inside.prints(
        "p = subprocess.Popen(['setsid', 'sh', '-c', 'trap \"\" TERM HUP INT; sleep 4321 & wait'])\n"
        "import time\nwhile len(os.listdir('/proc')) == 0: time.sleep(0.01)"
    )
    found = tree(inside.guest.container.pid)
    assert len(found) >= 3
    await asyncio.wait_for(inside.guest.kill(), PATIENCE)
    assert [pid for pid in found if alive(pid)] == []


async def test_the_guest_cannot_be_killed_or_stopped(
    inside: Cells, walled: str, gvisor: bool
) -> None:
    code = (
        "import signal\n"
        "for number in (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM, signal.SIGINT):\n"
        "    os.kill(1, number)\n"
        "print(os.getppid())"
    )
    if walled == "dagger":
        # Its init is root's. The guest is the cell's own user's there, and no init.
        answers = await inside.prints("print({tried(os.kill, 1, n) for n in (9, 15, 19)})")
        assert answers == "{'EPERM'}"
        code = "os.kill(os.getppid(), 9)"
    if gvisor or walled == "dagger":
        # The cell ends its sandbox, and nothing else.
        inside.execute(code)
        assert (await inside.ended()).what in ("signal", "exit", "vanished")
        return
    assert await inside.prints(code) == "1"
    assert await inside.call("ping") == ({}, [])


async def test_the_guest_cannot_be_traced_or_read(inside: Cells, gvisor: bool) -> None:
    code = (
        "def iovec(size):\n"
        "    held = ctypes.create_string_buffer(size)\n"
        "    return (ctypes.c_void_p * 2)(ctypes.addressof(held), size)\n"
        "for pid in [p for p in map(int, filter(str.isdigit, os.listdir('/proc')))"
        " if b'guest/__main__' in open(f'/proc/{p}/cmdline', 'rb').read()]:\n"
        "    print('trace', refused(libc.ptrace(16, pid, 0, 0)))\n"
        "    print('mem', tried(lambda: open(f'/proc/{pid}/mem', 'rb+').read(1)))\n"
        "    to, at = iovec(8), iovec(8)\n"
        "    print('vm', refused(libc.process_vm_readv(pid, to, 1, at, 1, 0)))\n"
        "    for name in ('environ', 'maps', 'auxv'):\n"
        "        print(name, tried(lambda: len(open(f'/proc/{pid}/{name}', 'rb').read())))\n"
        "    print('fds', tried(lambda: len(os.listdir(f'/proc/{pid}/fd'))))\n"
        "    print('fd', tried(lambda: [opened(f'/proc/{pid}/fd/{n}', os.O_RDWR)"
        " for n in range(3, 64)]))\n"
        "    print('take', call(438, tried(os.pidfd_open, pid) and 3, 3, 0))\n"
    )
    lines = (await inside.prints(code)).splitlines()
    found = dict(line.split(" ", 1) for line in lines)
    assert len(found) == 9, found
    # gVisor shows which descriptors and maps there are; none of them can be had.
    shown = {"environ", "maps", "auxv", "fds"} if gvisor else set()
    assert {what for what, said in found.items() if "GOT" in said} <= shown, found
    assert set(found.values()) - {found[what] for what in shown} <= {
        *("EPERM", "EACCES", "ENOSYS"),
        # gVisor's word for a socket that is opened by a name.
        "ENXIO" if gvisor else "EPERM",
    }


async def test_the_guests_token_is_nowhere(inside: Cells, walled: str) -> None:
    """What a guest that dials presents: 64 digits, good for one connection, and wiped."""
    code = (
        "import glob, re\nfound = []\n"
        "for path in glob.glob('/proc/[0-9]*/environ') + glob.glob('/proc/[0-9]*/cmdline'):\n"
        "    try: found.append(open(path, 'rb').read())\n    except OSError: pass\n"
        "text = b''.join(found)\n"
        "print(re.findall(rb'[0-9a-f]{64}', text), b'REPRISE_TOKEN=--' in text, 'REPRISE_TOKEN' in os.environ)"
    )
    found, wiped, kept = (await inside.prints(code)).rsplit(" ", 2)
    assert (found, kept) == ("[]", "False")
    # The test would see it: where the guest dials and its environment is shown, it is crossed out.
    assert wiped == "True" or walled != "oci:runsc"


async def test_another_guest_cannot_dial_in(inside: Cells, walled: str) -> None:
    """The socket that a guest dials is gone from the host once it has; the mount leads nowhere."""
    code = (
        "import glob\n"
        "sockets = [p for p in glob.glob('/run/**', recursive=True) if not os.path.isdir(p)"
        " and os.path.exists(p) and os.stat(p).st_mode & 0o170000 == 0o140000]\n"
        "for path in [*sockets, '/run/reprise/dial', '/run/reprise/dial/guest']:\n"
        "    s = socket.socket(socket.AF_UNIX)\n"
        "    if '/user/' not in path: print(tried(s.connect, path))\n"
    )
    said = (await inside.prints(code)).split()
    assert len(said) >= 2
    assert set(said) <= {"ECONNREFUSED", "ENOENT", "ENOTDIR", "EACCES"}, said


async def test_the_stream_is_open_in_no_process_that_cells_can_read(
    inside: Cells, gvisor: bool
) -> None:
    code = (
        "import glob\nfound = []\n"
        "for fd in glob.glob('/proc/[0-9]*/fd/*'):\n"
        "    try: target = os.readlink(fd)\n    except OSError: continue\n"
        "    if int(fd.split('/')[2]) != os.getpid() and target.startswith('socket:'):\n"
        "        found.append(tried(opened, fd, os.O_RDWR))\n"
        "print(json.dumps(found))\n"
    )
    found = json.loads(await inside.prints(code))
    # gVisor lets them be seen, and opens no socket by such a name, as Linux does not.
    assert set(found) <= ({"ENXIO", "ENODEV"} if gvisor else set()), found


async def test_keys_cannot_be_pushed_into_a_terminal(inside: Cells) -> None:
    assert (await inside.run("os.open('/dev/tty', os.O_RDWR)")).error == "OSError"
    code = (
        "import fcntl, termios\n"
        "for fd in (0, 1, 2):\n"
        "    try: fcntl.ioctl(fd, termios.TIOCSTI, b'x')\n"
        "    except OSError as e: print(errno.errorcode[e.errno])\n"
        "    else: print('PUSHED')"
    )
    assert set((await inside.prints(code)).split()) <= {"ENOTTY", "EPERM", "EIO"}


async def test_no_device_can_be_made_or_found(inside: Cells, gvisor: bool) -> None:
    made = "tried(os.mknod, '/tmp/disk', 0o60600, os.makedev(253, 0))"
    code = f"print({made}, tried(opened, '/tmp/disk')); os.path.exists('/tmp/disk') and os.unlink('/tmp/disk')"
    said = await inside.prints(code)
    # A file of that name can be made in gVisor; there is no disk behind it.
    assert said in (("EPERM ENOENT", "GOT None ENXIO") if gvisor else ("EPERM ENOENT",))
    devices = json.loads(await inside.prints("print(json.dumps(os.listdir('/dev')))"))
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
        "mqueue",
        "pts",
        "ptmx",
        "core",
        "console",
        # Of gVisor's own making.
        *(("fuse", "net") if gvisor else ()),
    }
