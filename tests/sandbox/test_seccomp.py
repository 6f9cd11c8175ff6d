"""The BPF program and the OCI profile deny exactly what the list says, on each machine."""

from __future__ import annotations

import errno
import platform
import re
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprise.sandbox import seccomp

ALLOW, ERROR = 0x7FFF_0000, 0x0005_0000
MACHINES = {"x86_64": (0, 0xC000_003E), "aarch64": (1, 0xC000_00B7)}
PROGRAMS = {machine: seccomp.program(machine) for machine in MACHINES}


def run(program: bytes, arch: int, number: int, arguments: list[int]) -> int:
    """What the kernel would answer: an interpreter of the instructions that filters may have."""
    data = struct.pack("=IIQ6Q", number, arch, 0, *arguments)
    code = list(struct.iter_unpack("=HBBI", program))
    at, accumulator = 0, 0
    while True:
        operation, true, false, value = code[at]
        at += 1
        if operation == 0x20:  # BPF_LD | BPF_W | BPF_ABS
            (accumulator,) = struct.unpack_from("=I", data, value)
        elif operation == 0x54:  # BPF_ALU | BPF_AND | BPF_K
            accumulator &= value
        elif operation == 0x05:  # BPF_JMP | BPF_JA
            at += value
        elif operation == 0x15:  # BPF_JMP | BPF_JEQ | BPF_K
            at += true if accumulator == value else false
        elif operation == 0x35:  # BPF_JMP | BPF_JGE | BPF_K
            at += true if accumulator >= value else false
        else:
            assert operation == 0x06, hex(operation)  # BPF_RET | BPF_K
            return int(value)


def holds(condition: seccomp.Condition, arguments: list[int]) -> bool:
    found = arguments[condition.argument] & 0xFFFF_FFFF
    if condition.op == "is":
        return found & condition.mask == condition.value
    if condition.op == "is not":
        return found != condition.value
    return found >= condition.value


def wanted(machine: str, number: int, arguments: list[int]) -> int:
    """The list, read as a person reads it."""
    column = MACHINES[machine][0]
    for rule in seccomp.denied():
        if seccomp._NUMBERS[rule.call][column] != number:
            continue
        if all(holds(each, arguments) for each in rule.conditions):
            return ERROR | rule.error
    return ALLOW


interesting = st.one_of(
    st.sampled_from([0, 8, 0x2_0008, 0xFFFF_FFFF, 0x5412, 0x541C, 0x1_0000_5412, 40, 16, 17, 1]),
    st.integers(0, 31).map(lambda bit: 1 << bit),
    st.integers(0, 2**64 - 1),
)


@given(
    machine=st.sampled_from(sorted(MACHINES)),
    number=st.integers(0, 500),
    arguments=st.lists(interesting, min_size=6, max_size=6),
)
def test_the_program_answers_as_the_list_says(
    machine: str, number: int, arguments: list[int]
) -> None:
    arch = MACHINES[machine][1]
    found = run(PROGRAMS[machine], arch, number, arguments)
    assert found == wanted(machine, number, arguments)


@given(arguments=st.lists(interesting, min_size=6, max_size=6))
@pytest.mark.parametrize(
    "call", ["clone", "unshare", "ioctl", "socket", "socketpair", "personality"]
)
@pytest.mark.parametrize("machine", sorted(MACHINES))
def test_what_is_looked_at_by_its_arguments(machine: str, call: str, arguments: list[int]) -> None:
    column, arch = MACHINES[machine]
    number = seccomp._NUMBERS[call][column]
    assert number is not None
    found = run(PROGRAMS[machine], arch, number, arguments)
    assert found == wanted(machine, number, arguments)


def test_arguments_as_programs_give_them() -> None:
    def answer(number: int, *arguments: int) -> int:
        padded = [*arguments, *([0] * (6 - len(arguments)))]
        return run(PROGRAMS["x86_64"], 0xC000_003E, number, padded)

    thread = 0x3D0F00
    assert answer(56, thread) == ALLOW
    assert answer(56, thread | 0x1000_0000) == ERROR | errno.EPERM
    # Threads are made by clone3 where it is there; without it libc uses clone.
    assert answer(435) == ERROR | errno.ENOSYS
    vsock, inet, netlink, uevents = 40, 2, 16, 15
    assert answer(41, inet, 1, 0) == ALLOW
    assert answer(41, vsock, 1, 0) == ERROR | errno.EAFNOSUPPORT
    assert answer(41, netlink, 3, 0) == ALLOW
    assert answer(41, netlink, 3, uevents) == ERROR | errno.EPROTONOSUPPORT
    assert answer(16, 0, 0x5401) == ALLOW
    # The kernel looks at 32 bits of an ioctl's number; so does the filter.
    assert answer(16, 0, 0xABCD_0000_5412) == ERROR | errno.EPERM
    assert answer(135, 0xFFFF_FFFF) == ALLOW


@pytest.mark.parametrize("machine", sorted(MACHINES))
def test_another_abi_gets_no_system_call(machine: str) -> None:
    other = 0x4000_0003  # AUDIT_ARCH_I386
    assert run(PROGRAMS[machine], other, 1, [0] * 6) == ERROR | errno.ENOSYS
    if machine == "x86_64":
        assert run(PROGRAMS[machine], 0xC000_003E, 0x4000_0001, [0] * 6) == ERROR | errno.ENOSYS


def test_a_machine_that_is_not_known_has_no_filter() -> None:
    assert not seccomp.is_known("s390x")
    with pytest.raises(LookupError):
        seccomp.program("s390x")
    with pytest.raises(LookupError):
        seccomp.oci_profile("s390x")


def test_the_program_is_short_enough_for_the_kernel() -> None:
    assert max(len(each) // 8 for each in PROGRAMS.values()) <= 4096  # BPF_MAXINSNS


HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}


@pytest.mark.parametrize("machine", sorted(MACHINES))
def test_the_numbers_are_those_of_the_kernels_headers(machine: str) -> None:
    header = HEADERS[machine]
    if not header.exists():
        pytest.skip(f"{header} is not installed (linux-libc-dev)")
    found = dict(
        re.findall(r"^#define\s+__NR(?:3264)?_(\w+)\s+(\d+)$", header.read_text(), re.MULTILINE)
    )
    assert len(found) > 200
    known = {call: numbers[MACHINES[machine][0]] for call, numbers in seccomp._NUMBERS.items()}
    # Headers older than a call do not have it; and no call has another's number.
    assert {c: n for c, n in known.items() if c in found and n != int(found[c])} == {}
    missing = [call for call, number in known.items() if number is not None and call not in found]
    assert set(missing) <= {"statmount", "listmount", "open_tree_attr"}
    numbers = [number for number in known.values() if number is not None]
    assert len(numbers) == len(set(numbers))


def test_the_oci_profile_is_the_same_list() -> None:
    profile = seccomp.oci_profile("x86_64")
    assert profile["defaultAction"] == "SCMP_ACT_ALLOW"
    assert profile["architectures"] == ["SCMP_ARCH_X86_64"]
    # No argument twice in a rule: runtimes and libseccomp refuse or misread that.
    for rule in profile["syscalls"]:
        indexes = [each["index"] for each in rule.get("args", [])]
        assert len(indexes) == len(set(indexes))
        assert rule["errnoRet"] in (errno.EPERM, errno.ENOSYS, 93, 97)
    names = {name for rule in profile["syscalls"] for name in rule["names"]}
    assert names == {call for call, numbers in seccomp._NUMBERS.items() if numbers[0] is not None}


@pytest.mark.skipif(platform.machine() not in MACHINES, reason="no filter is made here")
@given(
    call=st.sampled_from(["clone", "unshare", "ioctl", "socket", "personality"]),
    arguments=st.lists(interesting, min_size=6, max_size=6),
)
def test_the_oci_profile_denies_at_least_what_the_program_denies(
    call: str, arguments: list[int]
) -> None:
    """An OCI runtime compares 64 bits: no upper half may slip through that the kernel ignores."""
    number = seccomp._NUMBERS[call][0]
    assert number is not None
    if wanted("x86_64", number, arguments) == ALLOW:
        return
    operations = {
        "SCMP_CMP_MASKED_EQ": lambda arg, a, b: arg & a == b,
        "SCMP_CMP_NE": lambda arg, a, _b: arg != a,
        "SCMP_CMP_GE": lambda arg, a, _b: arg >= a,
    }
    assert any(
        all(
            operations[each["op"]](arguments[each["index"]], each["value"], each.get("valueTwo"))
            for each in rule.get("args", [])
        )
        for rule in seccomp.oci_profile("x86_64")["syscalls"]
        if call in rule["names"]
    )
