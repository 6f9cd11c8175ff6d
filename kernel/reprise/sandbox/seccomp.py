"""The system calls that no sandbox needs, denied: as a BPF program, and as an OCI profile.

A sandbox shares the host's Linux kernel; most ways out of one led through a rare system call. What
is denied here has no use in a notebook, or needs a privilege that no sandbox has. Everything else
is allowed, so that a new libc or a new kernel breaks nothing. ptrace and process_vm_readv are
allowed on purpose: debuggers and profilers use them, and the guest lets nobody trace it. Programs
of another ABI (32-bit ones) get no system call at all: their numbers mean other things.

Sources: seccomp(2), linux/seccomp.h, linux/filter.h; the numbers are those of asm/unistd_64.h
(x86-64) and asm-generic/unistd.h (aarch64).
"""

from __future__ import annotations

import errno
import functools
import platform
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

#: Name → numbers on x86-64 and on aarch64; None where there is no such call.
_NUMBERS: Final[dict[str, tuple[int | None, int | None]]] = {
    # keyrings are the kernel's own and in no namespace
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    # programs in the kernel, its counters, its queues, page faults held up at will
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "fanotify_init": (300, 262),
    # mounts
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "statmount": (457, 457),
    "listmount": (458, 458),
    "open_tree_attr": (467, 467),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    # files by number instead of by path (the way out of old container engines)
    "open_by_handle_at": (304, 265),
    # namespaces
    "setns": (308, 268),
    "unshare": (272, 97),
    "clone": (56, 220),
    "clone3": (435, 435),
    # the machine itself
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "acct": (163, 89),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "syslog": (103, 116),
    "vhangup": (153, 58),
    "iopl": (172, None),
    "ioperm": (173, None),
    "modify_ldt": (154, None),
    # what nothing uses any more
    "uselib": (134, None),
    "ustat": (136, None),
    "sysfs": (139, None),
    "_sysctl": (156, None),
    "create_module": (174, None),
    "get_kernel_syms": (177, None),
    "query_module": (178, None),
    "nfsservctl": (180, 42),
    "lookup_dcookie": (212, 18),
    # another process' descriptors
    "pidfd_getfd": (438, 438),
    # looked at by their arguments
    "personality": (135, 92),
    "ioctl": (16, 29),
    "socket": (41, 198),
    "socketpair": (53, 199),
}

#: Answered as by a kernel that has no such call, so that programs take the way of before: libc
#: clone (whose flags can be seen) instead of clone3, an event loop epoll instead of io_uring.
_UNKNOWN = frozenset({
    *("clone3", "io_uring_setup", "io_uring_enter", "io_uring_register", "statmount", "listmount"),
    *("uselib", "ustat", "sysfs", "_sysctl", "create_module", "get_kernel_syms", "query_module"),
    *("nfsservctl", "lookup_dcookie"),
})  # fmt: skip


@dataclass(frozen=True)
class Condition:
    """Something about the lower 32 bits of an argument, which is all that these calls look at.

    op: "is" (argument & mask == value), "is not", "at least".
    """

    argument: int
    op: Literal["is", "is not", "at least"]
    value: int
    mask: int = 0xFFFF_FFFF


@dataclass(frozen=True)
class Denied:
    """A call that fails with `error` when all conditions hold; without any, always."""

    call: str
    error: int
    conditions: tuple[Condition, ...] = ()


#: CLONE_NEW*: time, mounts, control groups, UTS, IPC, users, processes, network.
_NEW_TIME = 0x80
_NEW = (0x2_0000, 0x200_0000, 0x400_0000, 0x800_0000, 0x1000_0000, 0x2000_0000, 0x4000_0000)

#: AF_UNIX, AF_INET, AF_INET6 and AF_NETLINK are all that programs use. The others are no business
#: of a network namespace (AF_VSOCK reaches the host of a virtual machine) or load modules.
_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_OTHER_FAMILIES = tuple(
    family for family in range(_UNIX, _NETLINK) if family not in (_UNIX, _INET, _INET6)
)
#: Names of interfaces and addresses; not audit, crypto, netfilter or the rest.
_NETLINK_ROUTE = 0

#: Characters pushed into a terminal as if typed: TIOCSTI, and TIOCLINUX' paste.
_TERMINAL = (0x5412, 0x541C)

#: personality(2) as Docker's profile has it: 0, UNAME26 and short inodes, and the question.
_PERSONALITY_BITS = (3, 17)
_TOP = 1 << 31


def denied() -> list[Denied]:
    """All that is denied, in the order of the table above."""
    rules: list[Denied] = []
    for call in _NUMBERS:
        rules += _of_call(call)
    return rules


def _of_call(call: str) -> Iterable[Denied]:
    if call in ("clone", "unshare"):
        # In clone the lowest byte is the signal at the child's end.
        for flag in (*_NEW, _NEW_TIME) if call == "unshare" else _NEW:
            yield Denied(call, errno.EPERM, (Condition(0, "is", flag, flag),))
    elif call == "ioctl":
        for request in _TERMINAL:
            yield Denied(call, errno.EPERM, (Condition(1, "is", request),))
    elif call in ("socket", "socketpair"):
        for family in _OTHER_FAMILIES:
            yield Denied(call, errno.EAFNOSUPPORT, (Condition(0, "is", family),))
        yield Denied(call, errno.EAFNOSUPPORT, (Condition(0, "at least", _NETLINK + 1),))
        protocol = Condition(2, "is not", _NETLINK_ROUTE)
        yield Denied(call, errno.EPROTONOSUPPORT, (Condition(0, "is", _NETLINK), protocol))
    elif call == "personality":
        yield from _personality()
    else:
        yield Denied(call, errno.ENOSYS if call in _UNKNOWN else errno.EPERM)


def _personality() -> Iterable[Denied]:
    """Every value with a bit that is not allowed, but all bits at once, which is a question."""
    for bit in range(31):
        if bit not in _PERSONALITY_BITS:
            flag = _TOP | 1 << bit
            yield Denied("personality", errno.EPERM, (Condition(0, "is", 1 << bit, flag),))
        yield Denied("personality", errno.EPERM, (Condition(0, "is", _TOP, _TOP | 1 << bit),))


# as a BPF program ---------------------------------------------------------------------------------

#: Machine → column of the table, its AUDIT_ARCH, and from where on numbers are another ABI's (x32).
_MACHINES: Final[dict[str, tuple[int, int, int | None]]] = {
    "x86_64": (0, 0xC000_003E, 0x4000_0000),
    "aarch64": (1, 0xC000_00B7, None),
}

#: BPF_LD|W|ABS, BPF_ALU|AND|K, BPF_JMP|JA, |JEQ|K, |JGE|K, BPF_RET|K.
_LOAD, _AND, _GO, _IF_EQUAL, _IF_AT_LEAST, _RETURN = 0x20, 0x54, 0x05, 0x15, 0x35, 0x06
#: SECCOMP_RET_ALLOW and SECCOMP_RET_ERRNO.
_ALLOW, _ERROR = 0x7FFF_0000, 0x0005_0000
#: Offsets in struct seccomp_data; both machines are little-endian, so an argument's lower half
#: comes first.
_NR, _ARCH, _ARGUMENTS = 0, 4, 16

#: code, jump if true, jump if false, value (struct sock_filter).
_Instruction = tuple[int, int, int, int]


#: The machines that there is a filter for.
MACHINES = tuple(_MACHINES)


def is_known(machine: str | None = None) -> bool:
    """Whether there is a filter for a machine (this one without a name)."""
    return (machine or platform.machine()) in _MACHINES


@functools.cache
def program(machine: str | None = None) -> bytes:
    """The filter for a machine (this one's name without one) as an array of struct sock_filter.

    Raises LookupError for a machine whose numbers are not in the table.
    """
    machine = machine or platform.machine()
    if machine not in _MACHINES:
        raise LookupError(f"no numbers of system calls are known for {machine}")
    column, arch, foreign = _MACHINES[machine]
    made: list[_Instruction] = [
        (_LOAD, 0, 0, _ARCH),
        (_IF_EQUAL, 1, 0, arch),
        (_RETURN, 0, 0, _ERROR | errno.ENOSYS),
        (_LOAD, 0, 0, _NR),
    ]
    if foreign is not None:
        made += [(_IF_AT_LEAST, 0, 1, foreign), (_RETURN, 0, 0, _ERROR | errno.ENOSYS)]
    for call, numbers in _NUMBERS.items():
        number = numbers[column]
        if number is not None:
            body = _body(list(_of_call(call)))
            # A jump by condition goes 255 instructions at most, an unconditional one anywhere.
            made += [(_IF_EQUAL, 1, 0, number), (_GO, 0, 0, len(body)), *body]
    made.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *each) for each in made)


def _body(rules: Sequence[Denied]) -> list[_Instruction]:
    """What is done for one call: the first rule that holds denies it, none allows it."""
    made: list[_Instruction] = []
    for rule in rules:
        checks: list[list[_Instruction]] = []
        for each in rule.conditions:
            load = [(_LOAD, 0, 0, _ARGUMENTS + 8 * each.argument)]
            if each.mask != 0xFFFF_FFFF:
                load.append((_AND, 0, 0, each.mask))
            checks.append(load)
        # From each check to behind the rule: what is left of the checks, and the return.
        sizes = [len(check) + 1 for check in checks]
        for position, (each, load) in enumerate(zip(rule.conditions, checks, strict=True)):
            past = sum(sizes[position + 1 :]) + 1
            code = _IF_AT_LEAST if each.op == "at least" else _IF_EQUAL
            holds, fails = (past, 0) if each.op == "is not" else (0, past)
            made += [*load, (code, holds, fails, each.value)]
        made.append((_RETURN, 0, 0, _ERROR | rule.error))
        if not rule.conditions:
            return made
    made.append((_RETURN, 0, 0, _ALLOW))
    return made


# as an OCI profile --------------------------------------------------------------------------------


def oci_profile(machine: str | None = None) -> dict[str, Any]:
    """`linux.seccomp` of an OCI bundle's config.json, with the same list. Raises LookupError.

    An OCI runtime compares all 64 bits of an argument; where the kernel looks at 32, a mask keeps
    the upper half from making a difference, or any upper half is refused with the rest.
    """
    machine = machine or platform.machine()
    if machine not in _MACHINES:
        raise LookupError(f"no numbers of system calls are known for {machine}")
    column = _MACHINES[machine][0]
    return {
        "defaultAction": "SCMP_ACT_ALLOW",
        "architectures": [f"SCMP_ARCH_{machine.upper()}"],
        "syscalls": [
            {
                "names": [rule.call],
                "action": "SCMP_ACT_ERRNO",
                "errnoRet": rule.error,
                **({"args": [_oci(each) for each in rule.conditions]} if rule.conditions else {}),
            }
            for rule in denied()
            if _NUMBERS[rule.call][column] is not None
        ],
    }


def _oci(condition: Condition) -> dict[str, Any]:
    index = {"index": condition.argument}
    if condition.op == "is":
        masked = {"value": condition.mask, "valueTwo": condition.value}
        return {**index, "op": "SCMP_CMP_MASKED_EQ", **masked}
    op = "SCMP_CMP_NE" if condition.op == "is not" else "SCMP_CMP_GE"
    return {**index, "op": op, "value": condition.value}
