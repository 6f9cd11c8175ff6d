"""The prctl(2) calls, and capset(2), that Python has no name for."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_KEEPCAPS = 8
_PR_SET_NAME = 15
_PR_CAPBSET_DROP = 24
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38

#: linux/capability.h: sets of 64 capabilities, for which the kernel takes two structs.
_CAPABILITY_VERSION_3 = 0x20080522

_libc = ctypes.CDLL(None, use_errno=True)


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl({option}, {value})")


def set_dumpable(dumpable: bool) -> None:
    """Whether processes of the same user may ptrace this one and open its /proc entries."""
    _prctl(_PR_SET_DUMPABLE, int(dumpable))


def set_parent_death_signal(number: int) -> None:
    """The signal this process gets when the thread that started it ends."""
    _prctl(_PR_SET_PDEATHSIG, number)


def set_child_subreaper() -> None:
    """Orphaned descendants become children of this process instead of init's."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def set_name(name: bytes) -> None:
    """What this process is called in lists of processes; at most 15 bytes."""
    if _libc.prctl(_PR_SET_NAME, ctypes.c_char_p(name), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_NAME)")


def set_no_new_privileges() -> None:
    """No program that this process starts gets more than it has (setuid, file capabilities)."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def drop_capabilities(*, bounding: bool) -> None:
    """Give up every capability that there is: to get any again (bounding, which takes
    CAP_SETPCAP), or those this process has. Raises OSError."""
    if not bounding:
        _capset((ctypes.c_uint32 * 6)())
        return
    for capability in range(64):
        try:
            _prctl(_PR_CAPBSET_DROP, capability)
        except OSError as error:
            if error.errno == errno.EINVAL:
                return  # the kernel has no more
            raise


def keep_capabilities(change: Callable[[], None]) -> None:
    """Change the user (`change`) without losing capabilities. Raises OSError."""
    found = (ctypes.c_uint32 * 6)()
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    if _libc.capget(header, found) != 0:
        raise OSError(ctypes.get_errno(), "capget")
    _prctl(_PR_SET_KEEPCAPS, 1)
    change()
    # The permitted ones were kept, the effective ones are asked for again.
    _capset(found)


def _capset(wanted: ctypes.Array[ctypes.c_uint32]) -> None:
    """Set effective, permitted and inheritable capabilities: three words for each half."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    if _libc.capset(header, wanted) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"capset: {os.strerror(number)}")
