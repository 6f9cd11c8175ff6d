"""Run as root before bubblewrap: shows it what it needs, joins the cgroup, stops being root.

    python -I -S launch.py JSON

    {"procs": [cgroup.procs files to join], "stage": folder or null, "sources": [[name, path]],
     "uid": int or null, "parent": pid, "argv": [bwrap, …]}

With a stage: in a mount namespace of its own it puts a tmpfs over the folder and binds
each at stage/name, because the sources may lie beneath folders that only root may enter
(/root/project/.venv). Standard library only, quick to load, imports nothing of Reprise.
"""

# pathlib takes longer to load than all of this takes to run.

import ctypes
import json
import os
import signal
import stat
import sys

_CLONE_NEWNS = 0x00020000
_MS_NOSUID = 0x2
_MS_NODEV = 0x4
_MS_BIND = 0x1000
_MS_REC = 0x4000
_MS_PRIVATE = 0x40000
_PR_SET_PDEATHSIG = 1
_PR_SET_NO_NEW_PRIVS = 38

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _mount(source: str, target: str, kind: str | None, flags: int, data: str | None) -> None:
    encoded = [None if part is None else os.fsencode(part) for part in (source, target, kind)]
    options = None if data is None else data.encode()
    _check(_libc.mount(*encoded, ctypes.c_ulong(flags), options), f"mount {target}")


def stage(folder: str, sources: list[list[str]]) -> None:
    _check(_libc.unshare(_CLONE_NEWNS), "unshare")
    _mount("none", "/", None, _MS_REC | _MS_PRIVATE, None)
    # Opened before the stage covers its folder: a source may lie beneath it.
    opened = [(name, os.open(path, os.O_PATH | os.O_CLOEXEC)) for name, path in sources]
    _mount("reprise", folder, "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=0755,size=64k")
    for name, descriptor in opened:
        target = f"{folder}/{name}"
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            os.mkdir(target, 0o755)
        else:
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
        _mount(f"/proc/self/fd/{descriptor}", target, None, _MS_BIND | _MS_REC, None)
        os.close(descriptor)


def main() -> None:
    order = json.loads(sys.argv[1])
    for file in order["procs"]:
        with open(file, "w") as procs:
            procs.write("0")
    if order["stage"] is not None:
        stage(order["stage"], order["sources"])
    if order["uid"] is not None:
        os.setgroups([])
        os.setresgid(order["uid"], order["uid"], order["uid"])
        os.setresuid(order["uid"], order["uid"], order["uid"])
        os.chdir("/")
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")
    # After the change of user, which resets it.
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")
    if os.getppid() != order["parent"]:
        sys.exit("the process that asked for this sandbox has gone")
    os.execv(order["argv"][0], order["argv"])  # noqa: S606


if __name__ == "__main__":
    main()
