"""Attempts at the kernel's own doors: rare system calls, devices, keyrings, /proc and /sys, sockets.

Everything is tried by opening and asking, never by writing, so that an attempt that succeeds
harms nothing. gVisor answers for itself in most of this: what is asserted of it is that nothing of
the host is behind the answer.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import platform
import socket
from pathlib import Path
from typing import Any

import psutil
import pytest

from reprise.sandbox import seccomp
from tests.fixtures.sandbox import Cells

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(not seccomp.is_known(), reason="the calls' numbers here are not known"),
]

COLUMN = 0 if platform.machine() == "x86_64" else 1
NUMBERS = {
    call: each[COLUMN] for call, each in seccomp._NUMBERS.items() if each[COLUMN] is not None
}
#: Those that are always denied → the name of the error.
DENIED = {
    rule.call: errno.errorcode[rule.error]
    for rule in seccomp.denied()
    if not rule.conditions and rule.call in NUMBERS
}


async def answers(cells: Cells, code: str) -> Any:
    """What a cell says as JSON in the last line that it prints."""
    return json.loads((await cells.prints(code)).splitlines()[-1])


def outside(found: dict[str, str], *allowed: str) -> dict[str, str]:
    """What came out otherwise than as one of these errors."""
    return {what: said for what, said in found.items() if said not in allowed}


# system calls -------------------------------------------------------------------------------------


async def test_calls_that_no_sandbox_needs_are_denied(
    inside: Cells, walled: str, gvisor: bool
) -> None:
    """With arguments that do nothing even where they are allowed. The errors are the filter's own:
    the kernel would say EFAULT, EBADF or EINVAL to these."""
    numbers = {call: NUMBERS[call] for call in DENIED}
    found = await answers(
        inside,
        f"numbers = {numbers!r}\n"
        "print(json.dumps({name: call(number, -1, 0, 0, 0, 0, 0) for name, number in numbers.items()}))",
    )
    if gvisor:
        assert {name for name, said in found.items() if "GOT" in said} <= {"syslog"}, found
        return
    # What a runtime's libseccomp is too old to know it leaves out: none of these gives anything.
    unknown = set() if walled == "bubblewrap" else {"statmount", "listmount", "open_tree_attr"}
    assert {name for name, said in found.items() if said != DENIED[name]} <= unknown, found
    assert {found[name] for name in unknown} <= {"EPERM", "ENOSYS", "EFAULT"}


async def test_namespaces_made_with_clone_are_denied(inside: Cells, gvisor: bool) -> None:
    flags = [
        flag
        for each in seccomp.denied()
        if each.call == "clone"
        for flag in [each.conditions[0].value]
    ]
    script = (
        "import ctypes, errno, os\nlibc = ctypes.CDLL(None, use_errno=True)\n"
        f"for flag in {flags!r}:\n"
        f"    made = libc.syscall({NUMBERS['clone']}, ctypes.c_long(flag | 17), 0, 0, 0, 0)\n"
        "    if made == 0: os._exit(0)\n"
        "    print('MADE' if made > 0 else errno.errorcode[ctypes.get_errno()])\n"
    )
    code = (
        f"done = subprocess.run([sys.executable, '-I', '-c', {script!r}], capture_output=True)\n"
        "print(done.stdout.decode())"
    )
    said = (await inside.prints(code)).split()
    assert len(said) == len(flags) == 7
    assert set(said) <= ({"EPERM", "MADE", "EINVAL", "ENOSYS"} if gvisor else {"EPERM"})


async def test_no_namespace_of_the_host_can_be_joined(inside: Cells) -> None:
    found = await answers(
        inside,
        "import glob\nfound = {}\n"
        "for path in glob.glob('/proc/*/ns/*'):\n"
        "    try: fd = os.open(path, os.O_RDONLY)\n    except OSError: continue\n"
        f"    found[path] = call({NUMBERS['setns']}, fd, 0)\n    os.close(fd)\n"
        "print(json.dumps(found))",
    )
    assert outside(found, "EPERM", "ENOSYS", "EINVAL", "ENOTSUP") == {}


async def test_programs_of_another_abi_get_no_system_call(inside: Cells, gvisor: bool) -> None:
    if platform.machine() != "x86_64":
        pytest.skip("a way of x86-64")
    # mov eax, 20 (getpid); int 0x80; ret
    script = (
        "import ctypes, mmap\n"
        "code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)\n"
        "code.write(bytes([0xb8, 20, 0, 0, 0, 0xcd, 0x80, 0xc3]))\n"
        "at = ctypes.addressof(ctypes.c_char.from_buffer(code))\n"
        "print(ctypes.CFUNCTYPE(ctypes.c_int)(at)())\n"
    )
    said = await inside.prints(
        f"done = subprocess.run([sys.executable, '-I', '-c', {script!r}], capture_output=True)\n"
        "print(done.stdout.decode().strip(), done.returncode)"
    )
    # A kernel without that ABI ends the program, as the filters of OCI runtimes do.
    assert said in (f"-{errno.ENOSYS} 0", "-11", "-31") or (
        gvisor and said.endswith((" 0", "-11"))
    ), said


async def test_a_processes_priority_cannot_be_raised(inside: Cells, gvisor: bool) -> None:
    found = await answers(
        inside,
        "print(json.dumps({"
        "'nice': tried(os.setpriority, os.PRIO_PROCESS, 0, -5),"
        "'realtime': tried(os.sched_setscheduler, 0, os.SCHED_FIFO, os.sched_param(1)),"
        "'oom': tried(lambda: open('/proc/self/oom_score_adj', 'wb', 0).write(b'-900')),"
        "}))",
    )
    if gvisor:
        # Numbers of its own kernel's, which this machine's never hears of.
        found = {"realtime": found["realtime"]}
    assert outside(found, "EPERM", "EACCES", "ENOSYS", "EINVAL") == {}


async def test_a_crash_starts_no_program_of_the_machines(inside: Cells) -> None:
    """A core_pattern that is a pipe runs as root on the host, unless the limit is 1 (or what
    answers the crash is no Linux)."""
    code = "import resource; print(resource.getrlimit(resource.RLIMIT_CORE))"
    assert await inside.prints(code) == "(1, 1)"
    said = await inside.prints(f"print(subprocess.check_output([sys.executable, '-c', {code!r}]))")
    assert "(1, 1)" in said


async def test_keys_cannot_be_pushed_into_a_terminal_of_its_own(
    inside: Cells, gvisor: bool
) -> None:
    """TIOCSTI works for a controlling terminal: here it is one, and still does not."""
    script = (
        "import errno, fcntl, os, pty, termios\n"
        "said, say = os.pipe()\n"
        "pid, fd = pty.fork()\n"
        "if pid == 0:\n"
        "    try: fcntl.ioctl(0, termios.TIOCSTI, b'x'); os.write(say, b'PUSHED')\n"
        "    except OSError as e: os.write(say, errno.errorcode[e.errno].encode())\n"
        "    os._exit(0)\n"
        "print(os.read(said, 100).decode())\n"
    )
    code = (
        f"done = subprocess.run([sys.executable, '-I', '-c', {script!r}], capture_output=True)\n"
        "print(done.stdout.decode().strip())"
    )
    said = await inside.prints(code)
    assert said in ("EPERM", "EIO") or (gvisor and said in ("ENOTTY", "EINVAL")), said


async def test_shared_memory_of_the_host_is_not_there(inside: Cells) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    key = 0x5245_0000 | os.getpid() & 0xFFFF
    made = libc.shmget(key, 4096, 0o1000 | 0o666)  # IPC_CREAT
    assert made >= 0
    try:
        code = f"print(refused(libc.shmget({key}, 0, 0)))"
        assert await inside.prints(code) in ("ENOENT", "ENOSYS")
    finally:
        libc.shmctl(made, 0, None)  # IPC_RMID


# devices, /proc and /sys ----------------------------------------------------------------------------

HARMLESS = {"null", "zero", "full", "random", "urandom", "tty", "ptmx", "stdin", "stdout", "stderr"}
DEVICES = (
    *(
        "kvm",
        "fuse",
        "mem",
        "kmsg",
        "port",
        "nvram",
        "sda",
        "vda",
        "nvme0n1",
        "loop0",
        "userfaultfd",
    ),
    *("loop-control", "mapper/control", "net/tun", "vsock", "vhost-net", "vhost-vsock", "uinput"),
    *(
        "input/event0",
        "dri/card0",
        "snapshot",
        "btrfs-control",
        "autofs",
        "hpet",
        "watchdog",
        "tty0",
    ),
    *("ttyS0", "console", "hwrng", "cpu_dma_latency", "bsg", "sg0", "sr0", "raw/rawctl", "udmabuf"),
    *(
        "dma_heap/system",
        "tpm0",
        "tpmrm0",
        "sev",
        "sgx_enclave",
        "vfio/vfio",
        "ppp",
        "cuse",
        "rfkill",
    ),
)


async def test_no_device_of_the_machine_can_be_opened(inside: Cells, gvisor: bool) -> None:
    names = sorted({*DEVICES, *os.listdir("/dev")} - HARMLESS - {"fd", "pts", "shm", "mqueue"})
    found = await answers(
        inside,
        f"print(json.dumps({{n: tried(opened, '/dev/' + n) for n in {names!r}}}))",
    )
    got = {name for name, said in found.items() if "GOT" in said}
    # gVisor has these two itself, as far as it has them at all.
    assert got <= ({"fuse", "net", "net/tun"} if gvisor else set()), got
    # What is there under the name of a device is that device: not the host's disk as /dev/zero.
    code = (
        "print(json.dumps({n: [os.major(s.st_rdev), os.minor(s.st_rdev)] for n in os.listdir('/dev')"
        " if os.path.exists('/dev/' + n) for s in [os.stat('/dev/' + n)] if s.st_mode & 0o170000 in (0o20000, 0o60000)}))"
    )
    known = {
        "null": [1, 3],
        "zero": [1, 5],
        "full": [1, 7],
        "random": [1, 8],
        "urandom": [1, 9],
        "tty": [5, 0],
        "ptmx": [5, 2],
    }
    there = await answers(inside, code)
    if not gvisor:
        # Names that are links to a descriptor lead to /dev/null.
        links = {"stdin", "stdout", "stderr"}
        assert {n: d for n, d in there.items() if n not in links} == {
            n: d for n, d in known.items() if n in there
        }


async def test_no_device_can_be_made_anywhere(inside: Cells, gvisor: bool) -> None:
    kinds = {
        "memory": (0o20600, 1, 1),
        "log": (0o20600, 1, 11),
        "disk": (0o60600, 253, 0),
        "kvm": (0o20600, 10, 232),
    }
    found = await answers(
        inside,
        f"kinds = {kinds!r}\nfound = {{}}\n"
        "for folder in ('/tmp', '/workspace', '/dev/shm', '/dev', '/run/user/1000'):\n"
        "    for name, (mode, major, minor) in kinds.items():\n"
        "        path = f'{folder}/{name}'\n"
        "        made = tried(os.mknod, path, mode, os.makedev(major, minor))\n"
        "        found[path] = tried(opened, path) if 'GOT' in made else made\n"
        "        if 'GOT' in made: os.unlink(path)\n"
        "print(json.dumps(found))",
    )
    assert outside(found, "EPERM", "EACCES", "EROFS", "ENXIO" if gvisor else "EPERM") == {}


SECRET_FILES = (
    *("/proc/kcore", "/proc/kmsg", "/proc/keys", "/proc/timer_list", "/proc/sched_debug", "/proc/slabinfo"),
    *("/proc/vmallocinfo", "/proc/pagetypeinfo", "/proc/kpagecount", "/proc/kpageflags", "/proc/latency_stats"),
    *("/proc/1/root/etc/shadow", "/proc/1/cwd/../etc/shadow", "/proc/1/mem", "/proc/1/stack"),
    *("/sys/kernel/debug", "/sys/kernel/tracing", "/sys/kernel/security", "/sys/fs/bpf", "/sys/fs/cgroup"),
    *("/sys/firmware", "/sys/class/net", "/sys/block", "/sys/bus", "/sys/module", "/sys/class/block"),
    *("/sys/kernel/uevent_helper", "/sys/power/state", "/sys/hypervisor", "/proc/acpi", "/proc/scsi"),
)  # fmt: skip


async def test_what_tells_of_the_machine_is_closed_or_empty(
    inside: Cells, walled: str, gvisor: bool
) -> None:
    found = await answers(
        inside,
        "def held(path):\n"
        "    if os.path.isdir(path): return len(os.listdir(path))\n"
        "    with open(path, 'rb') as file: return len(file.read(100))\n"
        f"print(json.dumps({{p: tried(held, p) for p in {SECRET_FILES!r}}}))",
    )
    got = {path for path, said in found.items() if "GOT" in said and said != "GOT 0"}
    if walled == "dagger":
        # Shown read-only by the engine; where no shim masks it, the rest of /sys too.
        shown = ("/sys/fs/cgroup",) if await shim_is_there(inside) else ("/sys/", "/proc/")
        got -= {path for path in got if path.startswith(shown)}
    # gVisor makes up a small /sys of its own.
    assert {path for path in got if not (gvisor and path.startswith("/sys/"))} == set(), found
    addresses = await inside.prints(
        "print(tried(lambda: {l.split()[0].strip('0') for l in open('/proc/kallsyms')}))"
    )
    assert addresses in ("GOT {''}", "GOT set()", "ENOENT", "EACCES"), addresses


async def shim_is_there(inside: Cells) -> bool:
    """Whether a Dagger engine has the runtime shim: it leaves six capabilities at most."""
    bounding = await inside.prints(
        "print([l.split()[1] for l in open('/proc/self/status') if l.startswith('CapBnd')][0])"
    )
    return int(bounding, 16).bit_count() <= 6


async def test_nothing_of_proc_or_sys_can_be_opened_for_writing(inside: Cells, walled: str) -> None:
    """All of both is walked, but the files of processes: sysctls, interrupts, groups, hooks."""
    code = """
found, seen = [], 0
for top in ('/proc', '/sys'):
    for folder, folders, files in os.walk(top):
        if folder == '/proc':
            folders[:] = [f for f in folders if not f.isdigit() and f not in ('self', 'thread-self')]
        for name in files:
            path = os.path.join(folder, name)
            seen += 1
            try:
                descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
            except OSError:
                continue
            if os.fstat(descriptor).st_rdev != os.makedev(1, 3):
                found.append(path)
            os.close(descriptor)
print(json.dumps([found, seen]))
"""
    found, seen = await answers(inside, code)
    if walled == "dagger" and not await shim_is_there(inside):
        found = [path for path in found if not path.startswith("/proc/pressure/")]
    assert found == []
    assert seen > 20


async def test_no_control_group_can_be_changed(inside: Cells) -> None:
    code = """
found = []
places = [line.split()[1] for line in open('/proc/self/mounts') if line.split()[2].startswith('cgroup')]
for top in [*places, '/sys/fs/cgroup']:
    for folder, _, files in os.walk(top):
        found += [tried(os.mkdir, os.path.join(folder, 'made'))]
        found += [tried(opened, os.path.join(folder, f), os.O_WRONLY) for f in files]
print(json.dumps(found))
"""
    assert [each for each in await answers(inside, code) if "GOT" in each] == []


async def test_the_maps_of_users_cannot_be_written(inside: Cells) -> None:
    found = await answers(
        inside,
        "print(json.dumps({f'{p}/{n}': tried(lambda: open(f'/proc/{p}/{n}', 'wb', 0).write(b'0 0 1'))"
        " for p in ('self', '1') for n in ('uid_map', 'gid_map', 'setgroups')}))",
    )
    assert {path for path, said in found.items() if "GOT" in said} == set()


async def test_no_program_of_the_wall_can_be_opened_for_writing(inside: Cells) -> None:
    """/proc/PID/exe of what was started from outside (the way of CVE-2019-5736)."""
    code = (
        "import glob\n"
        "print(json.dumps({p: tried(opened, p, os.O_WRONLY) for p in"
        " [*glob.glob('/proc/[0-9]*/exe'), '/proc/self/exe', '/proc/1/exe']}))"
    )
    found = await answers(inside, code)
    # Not even ETXTBSY: that one goes away when the program ends.
    assert outside(found, "EACCES", "EROFS", "EPERM", "ENOENT") == {}


async def test_no_descriptor_leads_outside(inside: Cells) -> None:
    """What processes have open, as they were given it (the way of CVE-2024-21626)."""
    code = """
def looked(pid):
    found = {}
    for name in os.listdir(f'/proc/{pid}/fd'):
        path = f'/proc/{pid}/fd/{name}'
        try:
            target, is_folder = os.readlink(path), os.path.isdir(path)
        except OSError:
            continue
        found[name] = [target, sorted(os.listdir(f'{path}/..'))[:9] if is_folder else []]
    return found
script = '''
import json, os
print(json.dumps([[os.readlink(f'/proc/self/fd/{n}') for n in os.listdir('/proc/self/fd')
                   if os.path.exists(f'/proc/self/fd/{n}')], os.getcwd(), os.readlink('/proc/self/root')]))
'''
child = subprocess.run([sys.executable, '-I', '-c', script], close_fds=False, capture_output=True)
print(json.dumps([looked(os.getpid()), json.loads(child.stdout)]))
"""
    mine, (child, cwd, root) = await answers(inside, code)
    assert (cwd, root) == ("/workspace", "/")
    own = ("/workspace/", "/tmp/", "/dev/", "/run/user/1000/", "/proc/")
    for target in [*(each[0] for each in mine.values()), *child]:
        kind = target.split(":")[0]
        assert kind in ("pipe", "socket", "anon_inode", "host") or target.startswith(own), target
    # No folder is open at all, so no `..` of one leads anywhere.
    assert {target: below for target, below in mine.values() if below} == {}


# sockets -------------------------------------------------------------------------------------------

ENGINES = (
    *("/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock", "/run/crio/crio.sock"),
    *("/run/podman/podman.sock", "/run/user/1000/podman/podman.sock", "/run/user/1000/docker.sock"),
    *("/run/dagger/engine.sock", "/run/buildkit/buildkitd.sock", "/run/cri-dockerd.sock"),
    *("/run/dbus/system_bus_socket", "/run/user/1000/bus", "/run/systemd/private", "/run/systemd/notify"),
    *("/run/systemd/journal/socket", "/run/udev/control", "/tmp/.X11-unix/X0", "/run/lxd.socket"),
    *("/var/lib/lxd/unix.socket", "/run/libvirt/libvirt-sock", "/run/snapd.socket", "/dev/log"),
)  # fmt: skip


def sockets_of_the_host() -> list[str]:
    """All unix sockets that listen on this machine, abstract ones as Python writes them."""
    found = []
    for line in Path("/proc/net/unix").read_text(errors="surrogateescape").splitlines()[1:]:
        parts = line.split(maxsplit=7)
        if len(parts) == 8 and int(parts[3], 16) & 0x10000:  # __SO_ACCEPTCON
            found.append(parts[7].replace("@", "\0", 1) if parts[7].startswith("@") else parts[7])
    return found


async def test_no_socket_of_the_machine_can_be_reached(inside: Cells, tmp_path: Path) -> None:
    """Container engines' by their usual names, and every one that listens on this machine now."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0reprise-escape-{os.getpid()}")
        listener.listen()
        there = sockets_of_the_host()
        assert f"\0reprise-escape-{os.getpid()}" in there
        # The guest's own sockets to the language kernel have these names inside.
        names = [n for n in {*ENGINES, *there} if not n.startswith("/run/user/1000/k")]
        found = await answers(
            inside,
            "def reach(path, kind):\n"
            "    with socket.socket(socket.AF_UNIX, kind) as s: s.connect(path)\n"
            f"print(json.dumps({{p: [tried(reach, p, k) for k in (socket.SOCK_STREAM, socket.SOCK_DGRAM)]"
            f" for p in {sorted(names)!r}}}))",
        )
    assert {path: said for path, said in found.items() if "GOT None" in said} == {}


async def test_no_socket_leads_past_the_network_namespace(inside: Cells, gvisor: bool) -> None:
    """Families that know no network namespace (AF_VSOCK reaches the host of a virtual machine), or
    load modules; raw packets; the kernel's own over netlink."""
    families = {name: int(getattr(socket, name)) for name in dir(socket) if name.startswith("AF_")}
    kinds = ["SOCK_STREAM", "SOCK_DGRAM", "SOCK_RAW", "SOCK_SEQPACKET"]
    found = await answers(
        inside,
        f"families = {families!r}\n"
        "def made(family, kind, protocol=0):\n"
        "    with socket.socket(family, kind, protocol): return 'made'\n"
        "found = {f'{name} {kind}': tried(made, family, getattr(socket, kind))"
        f" for name, family in families.items() for kind in {kinds!r}}}\n"
        "for protocol in range(1, 32):\n"
        "    found[f'netlink {protocol}'] = tried(made, socket.AF_NETLINK, socket.SOCK_RAW, protocol)\n"
        "print(json.dumps(found))",
    )
    got = {what for what, said in found.items() if "GOT" in said}
    usual = {
        *(f"{f} {k}" for f in ("AF_INET", "AF_INET6") for k in ("SOCK_STREAM", "SOCK_DGRAM")),
        *(f"AF_UNIX {kind}" for kind in kinds),
        *(f"{f} {k}" for f in ("AF_NETLINK", "AF_ROUTE") for k in ("SOCK_DGRAM", "SOCK_RAW")),
    }
    # gVisor has some of netlink's own, for its own network.
    assert got - (usual | {f"netlink {n}" for n in range(32)} if gvisor else usual) == set()
    assert not any(what.startswith("AF_VSOCK") for what in got)
    if not gvisor:
        # The filter's own errors, not a missing module's.
        assert {found[f"AF_VSOCK {kind}"] for kind in kinds} == {"EAFNOSUPPORT"}
        assert {found[f"AF_ALG {kind}"] for kind in kinds} == {"EAFNOSUPPORT"}
        assert found["netlink 15"] == "EPROTONOSUPPORT"


async def test_the_network_cannot_be_changed(inside: Cells) -> None:
    """An address for the loopback, asked for over netlink: RTM_NEWADDR, and the answer's error."""
    code = """
s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
s.settimeout(20)
body = struct.pack('=BBBBI', 2, 32, 0, 254, 1)
for kind in (2, 1):
    body += struct.pack('=HH4s', 8, kind, bytes([10, 77, 1, 1]))
s.send(struct.pack('=IHHII', 16 + len(body), 20, 0x405, 1, 0) + body)
answer = s.recv(4096)
print(errno.errorcode.get(-struct.unpack_from('=i', answer, 16)[0], 'CHANGED'))
"""
    assert await inside.prints(code) in ("EPERM", "EOPNOTSUPP", "EACCES")


async def test_no_address_but_its_own_loopback_can_be_reached(inside: Cells) -> None:
    """The machine's own addresses, a cloud's metadata, and any name."""
    families = (socket.AF_INET, socket.AF_INET6)
    own = {
        each.address.partition("%")[0]
        for addresses in psutil.net_if_addrs().values()
        for each in addresses
        if each.family in families and not each.address.startswith(("127.", "::1"))
    }
    others = {"169.254.169.254", "169.254.170.2", "fd00:ec2::254", "100.100.100.200", "192.0.2.1"}
    found = await answers(
        inside,
        "def reach(address, kind):\n"
        "    family = socket.AF_INET6 if ':' in address else socket.AF_INET\n"
        "    with socket.socket(family, kind) as s:\n"
        "        s.settimeout(20)\n"
        "        s.connect((address, 80))\n"
        "        if kind == socket.SOCK_DGRAM: s.send(b'x')\n"
        f"print(json.dumps({{f'{{a}} {{int(k)}}': tried(reach, a, k) for a in {sorted(own | others)!r}"
        " for k in (socket.SOCK_STREAM, socket.SOCK_DGRAM)}))",
    )
    # EINVAL: a link-local address, of no interface that there is.
    refusals = ("ENETUNREACH", "EHOSTUNREACH", "EADDRNOTAVAIL", "EAFNOSUPPORT", "EPERM", "EINVAL")
    assert outside(found, *refusals) == {}
    assert "GOT" not in await inside.prints("print(tried(socket.getaddrinfo, 'example.org', 80))")
