"""Opens paths strictly beneath a folder: openat2(2) where the kernel has it, else step by step."""

from __future__ import annotations

import ctypes
import errno
import os

_SYS_OPENAT2 = 437  # the same number on every architecture (Linux 5.6)
_RESOLVE_NO_MAGICLINKS = 0x02
_RESOLVE_BENEATH = 0x08

_libc = ctypes.CDLL(None, use_errno=True)


class _OpenHow(ctypes.Structure):
    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


def components(path: str) -> list[str]:
    """The parts of a relative path; [] for the folder itself. Raises OSError for anything else."""
    parts = [part for part in path.split("/") if part]
    if path.startswith("/") or "\0" in path or ".." in parts or "." in parts:
        raise OSError(errno.EXDEV, "a path must be relative, without . and ..", path)
    return parts


def open_beneath(root: int, path: str, flags: int, mode: int = 0) -> int:
    """A descriptor of `path` resolved beneath the folder `root`.

    Symbolic links are followed only while they stay beneath it. Raises OSError (EXDEV or ELOOP
    when it would leave the folder).
    """
    name = "/".join(components(path)) or "."
    flags |= os.O_CLOEXEC
    if _have_openat2:
        return _openat2(root, name, flags, mode)
    return open_step_by_step(root, name, flags, mode)


def open_step_by_step(root: int, path: str, flags: int, mode: int = 0) -> int:
    """As `open_beneath` for kernels without openat2: follows no symbolic link at all."""
    *folders, last = path.split("/")
    at = os.dup(root)
    try:
        for folder in folders:
            below = os.open(
                folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at
            )
            os.close(at)
            at = below
        return os.open(last, flags | os.O_NOFOLLOW, mode, dir_fd=at)
    finally:
        os.close(at)


def _openat2(root: int, path: str, flags: int, mode: int) -> int:
    how = _OpenHow(flags=flags, mode=mode, resolve=_RESOLVE_BENEATH | _RESOLVE_NO_MAGICLINKS)
    while True:
        found: int = _libc.syscall(
            ctypes.c_long(_SYS_OPENAT2),
            ctypes.c_int(root),
            ctypes.c_char_p(os.fsencode(path)),
            ctypes.byref(how),
            ctypes.c_size_t(ctypes.sizeof(how)),
        )
        if found >= 0:
            return found
        number = ctypes.get_errno()
        # EAGAIN: a rename raced with the resolution (openat2(2)).
        if number not in (errno.EAGAIN, errno.EINTR):
            raise OSError(number, os.strerror(number), path)


def _probe() -> bool:
    root = os.open("/", os.O_PATH | os.O_CLOEXEC)
    try:
        os.close(_openat2(root, ".", os.O_PATH | os.O_CLOEXEC, 0))
    except OSError as error:
        # EPERM: a container's seccomp filter that has not heard of it.
        if error.errno in (errno.ENOSYS, errno.EPERM):
            return False
        raise
    finally:
        os.close(root)
    return True


_have_openat2 = _probe()
