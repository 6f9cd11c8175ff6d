"""Run before an OCI runtime: gives it a place of its own in which it has no rights on this machine.

    python -I -S oci_launch.py JSON

    {"parent": pid, "procs": [cgroup.procs files to join], "stage": folder or null,
     "sources": [[name, path]], "uid": host user or null, "users": [[inside, host user], …],
     "info": descriptor that is told {"child-pid": …}, or null, "stream": descriptor or null,
     "hide": [folder], "namespaces": how many user namespaces may be made below ours, or null,
     "argv": [runtime, …], "env": {…}}

As root it first shows the sources, as for bubblewrap (`launch`), and stops being root. Then the
runtime gets namespaces of every kind: it is root of a user namespace in which there are only the
`users`, each one of an ordinary user's or of a private range, and it is init of a PID namespace:
when it ends, or we do, or whoever started us, all its processes end, those that hide from it too.
Standard library and what launches bubblewrap only.
"""

# pathlib takes longer to load than all of this takes to run.

import ctypes
import json
import os
import select
import signal
import sys
from typing import Any

sys.path.insert(0, __file__.rsplit("/", 3)[0])

from reprise.sandbox.launch import stage

_CLONE_NEWNS = 0x00020000
_CLONE_NEWCGROUP = 0x02000000
_CLONE_NEWUTS = 0x04000000
_CLONE_NEWIPC = 0x08000000
_CLONE_NEWUSER = 0x10000000
_CLONE_NEWPID = 0x20000000
_CLONE_NEWNET = 0x40000000
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 0x2, 0x4, 0x8
_MS_REC, _MS_PRIVATE = 0x4000, 0x40000
_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_NO_NEW_PRIVS = 38

#: Where the runtime finds the stream: the first descriptor that --preserve-fds passes on.
_STREAM = 3

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _prctl(option: int, value: int) -> None:
    _check(_libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0), f"prctl {option}")


def _mount(source: str, target: str, kind: str, flags: int, data: str | None = None) -> None:
    names = [os.fsencode(part) for part in (source, target, kind)]
    options = None if data is None else data.encode()
    _check(_libc.mount(*names, ctypes.c_ulong(flags), options), f"mount {target}")


def _die_with(parent: int) -> None:
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit("the process that asked for this sandbox has gone")


def _become(uid: int | None) -> None:
    if uid is not None:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        os.chdir("/")
        # Its files in /proc are ours again: the maps are written there.
        _prctl(_PR_SET_DUMPABLE, 1)


def _unshare(users: list[list[int]], uid: int | None) -> None:
    """A user namespace with these users, and all others but the PID namespace in it.

    One user may be mapped by itself. More take whoever may: a process that is still root, or
    newuidmap(1), which knows from /etc/subuid which users are ours.
    """
    if len(users) == 1:
        _become(uid)
        host = users[0][1], os.getgid()
        _new_user_namespace()
        _write("/proc/self/setgroups", "deny")
        for name, outside in zip(("uid_map", "gid_map"), host, strict=True):
            _write(f"/proc/self/{name}", f"{users[0][0]} {outside} 1")
    else:
        ready, tell = os.pipe2(os.O_CLOEXEC)
        done, finish = os.pipe2(os.O_CLOEXEC)
        me = os.getpid()
        mapper = os.fork()
        if mapper == 0:
            os.close(tell)
            os.read(ready, 1)
            try:
                _map(me, users, as_root=uid is not None)
                os._exit(0)
            finally:
                os._exit(1)
        os.close(finish)
        _become(uid)
        _new_user_namespace()
        os.close(tell)
        _pid, status = os.waitpid(mapper, 0)
        os.close(done)
        if status != 0:
            sys.exit("the sandbox's users could not be mapped")
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)
    rest = _CLONE_NEWNS | _CLONE_NEWUTS | _CLONE_NEWIPC | _CLONE_NEWNET | _CLONE_NEWPID
    if _libc.unshare(rest | _CLONE_NEWCGROUP) != 0:
        _check(_libc.unshare(rest), "unshare")


def _new_user_namespace() -> None:
    _check(_libc.unshare(_CLONE_NEWUSER), "user namespace")


def _map(pid: int, users: list[list[int]], *, as_root: bool) -> None:
    for kind in ("uid", "gid"):
        if as_root:
            _write(f"/proc/{pid}/{kind}_map", "".join(f"{a} {b} 1\n" for a, b in users))
            continue
        words = [str(word) for pair in users for word in (*pair, 1)]
        program = f"new{kind}map"
        mapping = os.posix_spawnp(program, [program, str(pid), *words], os.environ)
        if os.waitpid(mapping, 0)[1] != 0:
            os._exit(1)


def _write(file: str, text: str) -> None:
    with open(file, "w") as opened:
        opened.write(text)


def _inside(order: dict[str, Any], alive: int) -> None:
    """In the fresh init of the PID namespace: become the runtime."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    gone = select.poll()
    gone.register(alive, 0)
    if gone.poll(0):
        os._exit(1)  # it ended before it could take us with it
    os.close(alive)
    _mount("none", "/", "none", _MS_REC | _MS_PRIVATE)
    _mount("proc", "/proc", "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    for folder in order["hide"]:
        _mount("reprise", folder, "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=0755,size=4k")
    if order["namespaces"] is not None:
        _write("/proc/sys/user/max_user_namespaces", str(order["namespaces"]))
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    kept = 2
    if order["stream"] is not None:
        os.dup2(order["stream"], _STREAM)
        kept = _STREAM
    os.closerange(kept + 1, 4096)
    os.execve(order["argv"][0], order["argv"], order["env"])  # noqa: S606


def main() -> None:
    order = json.loads(sys.argv[1])
    for file in order["procs"]:
        _write(file, "0")
    if order["stage"] is not None:
        stage(order["stage"], order["sources"])
    _die_with(order["parent"])
    _unshare(order["users"], order["uid"])
    # Again: a change of user has reset it.
    _die_with(order["parent"])
    alive, ours = os.pipe2(os.O_CLOEXEC)
    init = os.fork()
    if init == 0:
        os.close(ours)
        try:
            _inside(order, alive)
        except BaseException as error:  # noqa: BLE001  nothing may return from the child
            os.write(2, f"the runtime could not be started: {error}".encode())
        finally:
            os._exit(127)
    os.close(alive)
    if order["info"] is not None:
        os.write(order["info"], json.dumps({"child-pid": init}).encode())
    # Nothing of the sandbox's may be open here: its end would not be seen.
    os.closerange(3, ours)
    os.closerange(ours + 1, 4096)
    status = os.waitpid(init, 0)[1]
    code = os.waitstatus_to_exitcode(status)
    os._exit(128 - code if code < 0 else code)


if __name__ == "__main__":
    main()
