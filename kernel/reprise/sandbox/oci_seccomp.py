"""The system calls that a container under crun or runc may not make: a seccomp profile, as data.

The groups are those of systemd's SystemCallFilter (systemd.exec(5): @mount, @module, @keyring, …)
that no program of an ordinary user needs, and what Docker's documentation lists as blocked by
default (docs.docker.com/engine/security/seccomp): so a stock language kernel misses nothing.
Most of them need a privilege that the sandbox does not have; a bug in the kernel behind one of
them is out of reach nevertheless. gVisor, whose kernel is its own, gets none.
"""

from __future__ import annotations

import errno
import platform
from typing import Any

_DENIED: dict[str, tuple[str, ...]] = {
    "mounts": (
        *("mount", "umount", "umount2", "pivot_root", "chroot", "mount_setattr", "move_mount"),
        *("open_tree", "fsopen", "fsconfig", "fsmount", "fspick", "quotactl", "quotactl_fd"),
        *("listmount", "statmount", "open_tree_attr"),
    ),
    "namespaces": ("unshare", "setns"),
    "modules": ("init_module", "finit_module", "delete_module", "create_module", "query_module"),
    "keyrings": ("add_key", "request_key", "keyctl"),
    "tracing of the kernel": ("bpf", "perf_event_open", "lookup_dcookie", "fanotify_init"),
    "memory of others": ("process_vm_writev", "userfaultfd", "kcmp"),
    "rings": ("io_uring_setup", "io_uring_enter", "io_uring_register"),
    "files by handle": ("open_by_handle_at", "name_to_handle_at"),
    "clocks": (
        *("settimeofday", "clock_settime", "clock_settime64", "clock_adjtime", "clock_adjtime64"),
        *("adjtimex", "stime"),
    ),
    "the machine": (
        *("reboot", "kexec_load", "kexec_file_load", "swapon", "swapoff", "syslog", "acct"),
        *("iopl", "ioperm", "vhangup", "sethostname", "setdomainname", "nfsservctl", "vm86"),
        *("vm86old", "modify_ldt", "uselib", "ustat", "sysfs", "_sysctl", "get_kernel_syms"),
    ),
    "memory nodes": ("mbind", "migrate_pages", "move_pages", "set_mempolicy"),
}

#: CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET (sched.h).
_NEW_NAMESPACE = (
    *(0x00020000, 0x02000000, 0x04000000, 0x08000000),
    *(0x10000000, 0x20000000, 0x40000000),
)

#: Sockets that lead out of the network namespace or into seldom tried parts of the kernel:
#: AF_ALG, AF_VSOCK (socket.h).
_FAMILIES = (38, 40)

#: TIOCSTI puts words into another's terminal, TIOCLINUX too (ioctl_tty(2)).
_IOCTLS = (0x5412, 0x541C)

_ARCHITECTURES = {
    "x86_64": ("SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"),
    "aarch64": ("SCMP_ARCH_AARCH64", "SCMP_ARCH_ARM"),
}


def profile() -> dict[str, Any] | None:
    """`linux.seccomp` of a bundle's configuration; None on a machine whose calls we do not know."""
    architectures = _ARCHITECTURES.get(platform.machine())
    if architectures is None:
        return None
    refused = [
        _rule(sorted(name for group in _DENIED.values() for name in group), errno.EPERM),
        # Its flags lie in memory, where no filter sees them; libc then takes `clone`.
        _rule(["clone3"], errno.ENOSYS),
        *(
            _rule(["clone"], errno.EPERM, index=0, value=flag, masked=flag)
            for flag in _NEW_NAMESPACE
        ),
        *(_rule(["socket"], errno.EAFNOSUPPORT, index=0, value=each) for each in _FAMILIES),
        *(
            _rule(["ioctl"], errno.EPERM, index=1, value=each, masked=0xFFFFFFFF)
            for each in _IOCTLS
        ),
    ]
    return {
        "defaultAction": "SCMP_ACT_ALLOW",
        "architectures": list(architectures),
        "syscalls": refused,
    }


def _rule(
    names: list[str],
    number: int,
    *,
    index: int | None = None,
    value: int = 0,
    masked: int | None = None,
) -> dict[str, Any]:
    """Refuse these calls with an error, or only those whose argument has this value.

    masked: the bits of the argument that are looked at; None: all of them.
    """
    rule: dict[str, Any] = {"names": names, "action": "SCMP_ACT_ERRNO", "errnoRet": int(number)}
    if index is not None and masked is None:
        rule["args"] = [{"index": index, "value": value, "op": "SCMP_CMP_EQ"}]
    elif index is not None:
        # In this comparison `value` is the mask and `valueTwo` what must be left of the argument.
        rule["args"] = [
            {"index": index, "value": masked, "valueTwo": value, "op": "SCMP_CMP_MASKED_EQ"}
        ]
    return rule
