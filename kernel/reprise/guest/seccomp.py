"""Filters of system calls for a process and all that it starts (seccomp(2)).

`deny_calls` loads the one that the host has made (`sandbox/seccomp.py`), where no runtime did.

`deny_network` denies every socket but unix ones: for containers whose network cannot be taken away
from outside. It looks at system calls, not at addresses: the sandbox's own loopback goes with the
rest. Unix sockets stay, the language kernel's among them, and the kernel may be asked which
interfaces there are (NETLINK_ROUTE): ZeroMQ ends the whole process when getifaddrs(3) fails. Other
ways to a socket are closed too: io_uring, and the calls of 32-bit programs.
"""

from __future__ import annotations

import base64
import ctypes
import errno
import os

_PR_SET_SECCOMP = 22
_SECCOMP_MODE_FILTER = 2
_AF_UNIX = 1
_AF_NETLINK = 16
_NETLINK_ROUTE = 0

# Classic BPF (linux/bpf_common.h), and what a filter answers (linux/seccomp.h).
_LOAD, _JUMP_EQUAL, _JUMP_GREATER_EQUAL, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
# Offsets in struct seccomp_data; of arguments the low halves, on little-endian machines.
_NUMBER, _ARCHITECTURE, _FAMILY, _PROTOCOL = 0, 4, 16, 32

#: Machine → its audit architecture and the number of socket(2) there.
_MACHINES = {"x86_64": (0xC000003E, 41), "aarch64": (0xC00000B7, 198)}
_IO_URING_SETUP = 425
#: From here on numbers are x32's on x86-64, other spellings of the same calls.
_X32 = 0x40000000

#: With the name of a machine behind it: the variable with the host's filter for it, in base64.
FILTER = "REPRISE_FILTER_"


class _Instruction(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_ushort),
        ("true", ctypes.c_ubyte),
        ("false", ctypes.c_ubyte),
        ("value", ctypes.c_uint),
    )


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.POINTER(_Instruction)))


def deny_network() -> None:
    """From now on, and for good. The process may gain no privileges any more (no_new_privs).

    Raises OSError where the kernel has no seccomp, or the machine is not one of those known.
    """
    machine = os.uname().machine
    if machine not in _MACHINES:
        raise OSError(errno.ENOSYS, f"no filter is known for {machine}")
    architecture, socket = _MACHINES[machine]
    denied = _ERRNO | errno.EPERM
    program = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_JUMP_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, denied),
        (_LOAD, 0, 0, _NUMBER),
        (_JUMP_GREATER_EQUAL, 0, 1, _X32),
        (_RETURN, 0, 0, denied),
        (_JUMP_EQUAL, 0, 1, _IO_URING_SETUP),
        (_RETURN, 0, 0, _ERRNO | errno.ENOSYS),
        (_JUMP_EQUAL, 1, 0, socket),
        (_RETURN, 0, 0, _ALLOW),
        (_LOAD, 0, 0, _FAMILY),
        (_JUMP_EQUAL, 3, 0, _AF_UNIX),
        (_JUMP_EQUAL, 0, 3, _AF_NETLINK),
        (_LOAD, 0, 0, _PROTOCOL),
        (_JUMP_EQUAL, 0, 1, _NETLINK_ROUTE),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, denied),
    ]
    _load([_Instruction(*each) for each in program])


def taken() -> bytes:
    """The host's filter for this machine, empty when it has none; out of the environment then."""
    filters = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith(FILTER)}
    return base64.b64decode(filters.get(f"{FILTER}{os.uname().machine}", ""))


def deny_calls(program: bytes) -> None:
    """Load an array of struct sock_filter, for good. The process may gain no privileges any more.

    Raises OSError where the kernel has no seccomp.
    """
    size = ctypes.sizeof(_Instruction)
    _load([_Instruction.from_buffer_copy(program, at) for at in range(0, len(program), size)])


def _load(program: list[_Instruction]) -> None:
    instructions = (_Instruction * len(program))(*program)
    loaded = _Program(len(program), instructions)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(loaded), 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"seccomp: {os.strerror(number)}")
