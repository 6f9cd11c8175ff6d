"""Runs tests again as an ordinary user: `python -m tests.sandbox.ordinary_user pytest arguments`.

Root's interpreter, packages and checkout may lie where only root may go (/root/.pyenv, a
checkout below it). In a mount namespace of its own each such folder is covered with an empty
one that everybody may enter, in which only what the tests need is shown again at its own path.
Then it becomes the user and runs pytest, with a home folder of its own (a system user may have none).
"""

from __future__ import annotations

import ctypes
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from reprise.guest.prctl import set_parent_death_signal

NAME = "reprise-test"

_CLONE_NEWNS = 0x00020000
_MS_BIND, _MS_REC, _MS_PRIVATE = 0x1000, 0x4000, 0x40000

_libc = ctypes.CDLL(None, use_errno=True)


def _mount(source: str, target: str, kind: str, flags: int, data: str | None = None) -> None:
    options = None if data is None else data.encode()
    done = _libc.mount(source.encode(), target.encode(), kind.encode(), flags, options)
    if done != 0:
        raise OSError(ctypes.get_errno(), f"mount {target}")


def account() -> pwd.struct_passwd:
    """The user the tests run as, made if it is not there."""
    try:
        return pwd.getpwnam(NAME)
    except KeyError:
        subprocess.run(["useradd", "--system", "--create-home", NAME], check=True)
        return pwd.getpwnam(NAME)


def closed_folders(path: Path) -> list[Path]:
    """Folders on the way to a path that an ordinary user may not enter."""
    return [folder for folder in reversed(path.parents) if not folder.stat().st_mode & 0o001]


def show(paths: list[Path]) -> None:
    """Make paths reachable for everybody, in this process's mount namespace only."""
    if _libc.unshare(_CLONE_NEWNS) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    _mount("none", "/", "none", _MS_REC | _MS_PRIVATE)
    closed = {path: folders[0] for path in paths if (folders := closed_folders(path))}
    opened = {path: os.open(path, os.O_PATH) for path in closed}
    for folder in sorted(set(closed.values())):
        _mount("reprise", str(folder), "tmpfs", 0, "mode=0755,size=64k")
    for path, descriptor in opened.items():
        if path.exists():
            continue  # beneath one that was shown before
        path.mkdir(parents=True)
        _mount(f"/proc/self/fd/{descriptor}", str(path), "none", _MS_BIND | _MS_REC)


def main(arguments: list[str]) -> None:
    user = account()
    checkout = Path(__file__).resolve().parents[2]
    wanted = {Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve(), checkout}
    show(sorted(wanted))
    home = tempfile.mkdtemp(prefix=f"{NAME}-")
    os.chown(home, user.pw_uid, user.pw_gid)
    os.setgroups([])
    os.setresgid(user.pw_gid, user.pw_gid, user.pw_gid)
    os.setresuid(user.pw_uid, user.pw_uid, user.pw_uid)
    os.chdir(checkout)
    kept = {key: value for key, value in os.environ.items() if key in ("LANG", "CI")}
    environment = {
        **kept,
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": home,
        "USER": NAME,
        "REPRISE_TEST_ORDINARY_USER": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    try:
        # Ended with this process: whoever waits too long for it kills this one.
        done = subprocess.run(
            command,
            env=environment,
            check=False,
            preexec_fn=lambda: set_parent_death_signal(signal.SIGKILL),
        )
        sys.exit(done.returncode)
    finally:
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1:])
