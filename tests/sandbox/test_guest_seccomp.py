"""The filter by which a guest denies itself the network where nobody outside can."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import reprise

LIBRARY = str(Path(reprise.__file__).parents[1])

BEGIN = f"""
import ctypes, errno, os, socket, sys
sys.path.insert(0, {LIBRARY!r})
from reprise.guest.prctl import set_no_new_privileges
from reprise.guest.seccomp import deny_network
set_no_new_privileges()
deny_network()
"""


def behind_the_filter(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-I", "-c", BEGIN + code], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(
    "family",
    ["AF_INET", "AF_INET6", "AF_PACKET", "AF_VSOCK", "AF_ALG"],
)
def test_no_socket_but_unix_ones(family: str) -> None:
    code = f"""
try:
    socket.socket(socket.{family}, socket.SOCK_RAW if "{family}" == "AF_PACKET" else socket.SOCK_DGRAM)
except OSError as error:
    print(errno.errorcode[error.errno])
"""
    assert behind_the_filter(code) == "EPERM"


def test_interfaces_can_be_listed_and_no_other_netlink_is_open() -> None:
    code = """
print([name for _, name in socket.if_nameindex()][:1])
for protocol in (2, 9, 15, 16, 20):
    try:
        socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol)
    except OSError as error:
        print(errno.errorcode[error.errno])
"""
    said = behind_the_filter(code).splitlines()
    assert said[0] == "['lo']"
    assert said[1:] == ["EPERM"] * 5


def test_zeromq_binds_what_is_no_network_and_lives() -> None:
    code = """
import zmq
context = zmq.Context()
sock = context.socket(zmq.PULL)
try:
    sock.bind_to_random_port("tcp://127.0.0.1")
except zmq.ZMQError as error:
    print(errno.errorcode[error.errno])
"""
    assert behind_the_filter(code) in ("EPERM", "EACCES")


def test_unix_sockets_and_pairs_work_and_children_have_it_too() -> None:
    code = """
left, right = socket.socketpair()
left.send(b"x")
assert right.recv(1) == b"x"
socket.socket(socket.AF_UNIX).close()
if os.fork() == 0:
    os.execv(sys.executable, [sys.executable, "-c", "import socket; socket.socket()"])
print(os.waitstatus_to_exitcode(os.wait()[1]))
"""
    assert behind_the_filter(code) == "1"


def test_high_bits_of_the_family_are_not_looked_at_by_the_kernel_nor_passed_by_us() -> None:
    code = """
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.argtypes = [ctypes.c_long] * 4
number = {"x86_64": 41, "aarch64": 198}[os.uname().machine]
for family in (2, 2 | 1 << 32, 1 | 2 << 8):
    print(libc.syscall(number, family, 1, 0), errno.errorcode[ctypes.get_errno()])
"""
    assert behind_the_filter(code).splitlines() == ["-1 EPERM"] * 3


def test_io_uring_is_no_way_round() -> None:
    code = """
libc = ctypes.CDLL(None, use_errno=True)
print(libc.syscall(425, 1, 0), errno.errorcode[ctypes.get_errno()])
"""
    assert behind_the_filter(code) == "-1 ENOSYS"


@pytest.mark.skipif("x86_64" not in __import__("os").uname().machine, reason="x86-64's own ABIs")
def test_other_numberings_of_the_same_calls_are_denied() -> None:
    code = """
libc = ctypes.CDLL(None, use_errno=True)
print(libc.syscall(0x40000000 | 41, 2, 1, 0), errno.errorcode[ctypes.get_errno()])
"""
    assert behind_the_filter(code) == "-1 EPERM"
