"""Runs a command as on Binder: as an ordinary user, who gets no privileges and makes no namespaces.

`python confined.py USER FILTER COMMAND…`. USER: its name, or "-" to stay who one is. FILTER: a file
with a seccomp program (`reprise.sandbox.seccomp.program`), which denies new namespaces as the
default profile of container engines does. Needs the standard library only.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import sys
from pathlib import Path

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 38, 22, 2


class _Program(ctypes.Structure):
    """struct sock_fprog of linux/filter.h."""

    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def main(name: str, program: str, *command: str) -> None:
    instructions = Path(program).read_bytes()
    if name != "-":
        user = pwd.getpwnam(name)
        os.setgroups([])
        os.setresgid(user.pw_gid, user.pw_gid, user.pw_gid)
        os.setresuid(user.pw_uid, user.pw_uid, user.pw_uid)
    libc = ctypes.CDLL(None, use_errno=True)
    held = ctypes.create_string_buffer(instructions, len(instructions))
    loaded = _Program(len(instructions) // 8, ctypes.cast(held, ctypes.c_void_p))
    for arguments in (
        (_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
        (_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(loaded)),
    ):
        if libc.prctl(*arguments) != 0:
            raise OSError(ctypes.get_errno(), "prctl")
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(*sys.argv[1:])
