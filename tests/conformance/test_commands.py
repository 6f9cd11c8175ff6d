"""Commands in a sandbox of every backend: what they see, what comes of them, how they end."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import random
import resource
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest

from reprise.errors import GuestCallFailed, SandboxDied
from reprise.sandbox.commands import Command
from reprise.sandbox.connection import Guest
from reprise.sandbox.contract import DeathCause, Limits
from reprise.sandbox.frames import WINDOWS, Channel
from tests.conformance.backends import BACKENDS, backend_of
from tests.fixtures.sandbox import (
    PATIENCE,
    StartCells,
    alive,
    quiet_kernel,
)
from tests.fixtures.shell import (
    begin,
    content,
    guest_process,
    left,
    peak_memory,
    processes,
    run,
    until,
)


@pytest.fixture(params=BACKENDS)
def name(request: pytest.FixtureRequest) -> str:
    return backend_of(request)


@pytest.fixture
async def guest(name: str, start_cells: StartCells) -> Guest:
    """A sandbox without cells."""
    return (await start_cells(name, kernel=quiet_kernel())).guest


# What comes of a command


async def test_its_streams_come_in_order_and_its_exit_code(guest: Guest) -> None:
    ran = await run(guest, "for i in $(seq 500); do echo $i; echo err$i >&2; done; exit 7")
    assert ran.stdout == b"".join(b"%d\n" % i for i in range(1, 501))
    assert ran.stderr == b"".join(b"err%d\n" % i for i in range(1, 501))
    assert (ran.end.exit_code, ran.end.signal, ran.end.timed_out) == (7, None, False)
    assert (ran.end.stdout.bytes, ran.end.stdout.lines) == (len(ran.stdout), 500)
    assert not ran.end.stdout.cut
    assert ran.end.stdout.file is None
    assert ran.end.duration_us > 0


async def test_what_it_writes_comes_while_it_runs(guest: Guest) -> None:
    going = begin(guest, "mkfifo go; echo waiting; read word < go; echo $word")
    await going.until(b"waiting\n")
    await run(guest, "echo went > go")
    assert (await going.ended()).stdout == b"waiting\nwent\n"


async def test_a_signal_is_told_as_one(guest: Guest) -> None:
    ran = await run(guest, "echo before; kill -SEGV $$")
    assert (ran.end.exit_code, ran.end.signal) == (None, signal.SIGSEGV)
    assert ran.stdout == b"before\n"


async def test_argv_runs_without_a_shell(guest: Guest) -> None:
    odd = os.fsdecode(b"\xff$HOME\n")
    ran = await run(guest, argv=("printf", "%s|", odd, ""))
    assert ran.stdout == b"\xff$HOME\n||"


async def test_binary_output_comes_as_it_was_written(guest: Guest) -> None:
    data = random.Random(1).randbytes(200_000)
    ran = await run(guest, argv=("cat",), stdin=data)
    assert ran.stdout == data


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"argv": ("no-such-program",)}, "program"),
    ({"argv": ("./not-executable",)}, "program"),
    ({"argv": ("printf", "x" * (1 << 20))}, "program"),
    ({"argv": ("true",), "cwd": "no/such/folder"}, "cwd"),
    ({"argv": ("true",), "cwd": "not-executable"}, "cwd"),
    ({"argv": ("true",), "shell": "true"}, "arguments"),
    ({}, "arguments"),
    ({"argv": ()}, "arguments"),
    ({"argv": ("a\0b",)}, "arguments"),
    ({"shell": "a\0b"}, "arguments"),
    ({"shell": "true", "cwd": "a\0b"}, "arguments"),
    ({"shell": "true", "env": {"A=B": "x"}}, "arguments"),
    ({"shell": "true", "env": {"A": "\0"}}, "arguments"),
    ({"shell": "\ud800"}, "arguments"),
    ({"shell": "true", "name": "../out"}, "arguments"),
    ({"shell": "true", "timeout_s": -1.0}, "arguments"),
    ({"shell": "true", "output_bytes": 1 << 40}, "arguments"),
]


async def test_what_cannot_be_run_says_why(guest: Guest) -> None:
    await run(guest, "echo '#!/bin/sh' > not-executable")
    for background in (False, True):
        for wanted, kind in REFUSED:
            with pytest.raises(GuestCallFailed) as failed:
                await run(guest, background=background, **wanted)
            assert failed.value.kind == kind, wanted
            assert (await run(guest, "echo fine")).stdout == b"fine\n"
    assert await guest.commands() == []


# What a command has


async def test_its_stdin_is_what_it_was_given(guest: Guest) -> None:
    data = random.Random(2).randbytes(5_000_000)
    ran = await run(guest, argv=("sha256sum",), stdin=data)
    assert ran.stdout.split()[0].decode() == hashlib.sha256(data).hexdigest()
    assert (await run(guest, "cat; echo end")).stdout == b"end\n"


@pytest.mark.parametrize("shell", ["head -c 1", "exec <&-; printf a", "printf a"])
async def test_one_that_does_not_read_all_of_its_stdin_ends_all_the_same(
    guest: Guest, shell: str
) -> None:
    ran = await run(guest, shell, stdin=b"a" * 5_000_000)
    assert (ran.stdout, ran.end.exit_code) == (b"a", 0)
    assert (await run(guest, "echo fine")).stdout == b"fine\n"


async def test_it_runs_where_the_notebook_lies_or_where_it_is_told(
    name: str, start_cells: StartCells
) -> None:
    guest = (await start_cells(name, kernel=quiet_kernel(), cwd="deep/er")).guest
    top = guest.container.workspace
    odd = os.fsdecode(b"\xffodd")
    ran = await run(guest, "pwd; mkdir -p sub; mkdir $'\\xffodd'")
    assert ran.stdout.decode() == f"{top}/deep/er\n"
    assert (await run(guest, "pwd", cwd="sub")).stdout.decode() == f"{top}/deep/er/sub\n"
    assert (await run(guest, "pwd", cwd=odd)).stdout == f"{top}/deep/er/".encode() + b"\xffodd\n"
    assert (await run(guest, "pwd", cwd="/usr")).stdout == b"/usr\n"


async def test_its_variables_are_those_of_cells_and_what_is_given(
    name: str, start_cells: StartCells
) -> None:
    cells = await start_cells(name, variables={"TZ": "Asia/Tokyo"})
    code = "import os, json; print(json.dumps(dict(os.environ)))"
    in_cell = json.loads(await cells.prints(code))
    ran = await run(cells.guest, argv=("env", "-0"), env={"TZ": "UTC", "MORE": "\udcff"})
    found = dict(pair.split("=", 1) for pair in os.fsdecode(ran.stdout).split("\0") if pair)
    assert (found.pop("TZ"), found.pop("MORE")) == ("UTC", "\udcff")
    # What ipykernel sets for itself is not the sandbox's.
    own = {"PYDEVD_USE_FRAME_EVAL", "JPY_PARENT_PID", "JPY_SESSION_NAME", "CLICOLOR"}
    own |= {"CLICOLOR_FORCE", "FORCE_COLOR", "TERM", "PAGER", "GIT_PAGER", "MPLBACKEND"}
    expected = {key: value for key, value in in_cell.items() if key not in {"TZ", *own}}
    assert {key: value for key, value in found.items() if key not in own} == expected


async def test_it_has_its_own_limits_descriptors_and_session(
    name: str, start_cells: StartCells
) -> None:
    limits = Limits(open_files=777)
    guest = (await start_cells(name, kernel=quiet_kernel(), limits=limits)).guest
    ran = await run(
        guest,
        "ulimit -n; ulimit -c; echo /proc/self/fd/*;"
        # Set as soon as it runs.
        "until grep -q 700 /proc/$$/oom_score_adj; do :; done; cat /proc/$$/oom_score_adj;"
        "ps -o pid=,sid=,pgid= -p $$ || cut -d' ' -f1,5,6 /proc/$$/stat",
    )
    files, core, descriptors, score, ids = ran.stdout.decode().splitlines()
    assert (files, core, score) == ("777", "0", "700")
    opened = [int(each.rpartition("/")[2]) for each in descriptors.split()]
    assert opened[:3] == [0, 1, 2]
    assert len(opened) <= 4  # the fourth is what the shell reads these names with
    assert len(set(ids.split())) == 1
    if name == "oci:runsc":
        return  # gVisor does not tell what is blocked
    blocked = await run(guest, "grep -E 'Sig(Blk|Ign)' /proc/self/status")
    # 32 and 33 are glibc's own, which it ignores in whatever posix_spawn starts.
    masks = [int(line.split()[1], 16) for line in blocked.stdout.splitlines()]
    assert [mask & ~(3 << 31) for mask in masks] == [0, 0]


@pytest.mark.skipif(os.geteuid() != 0, reason="what a guest has open is closed to its own user")
async def test_what_watches_over_it_has_nothing_of_the_guests_open(guest: Guest) -> None:
    other = begin(guest, "cat; sleep 1234.5", name="other", stdin=b"x" * 1_000_000)
    going = begin(guest, "echo on; sleep 1234.5", name="this")
    await going.until(b"on")
    inside = guest_process(guest)
    keepers = [each for each in inside.children() if each.name() == "reprise-keeper"]
    assert len(keepers) == 2
    of_guest = opened(inside.pid)
    assert any(name.startswith("socket:") for name in of_guest)
    for process in [*keepers, *processes(guest, "1234.5")]:
        shared = opened(process.pid) & of_guest
        # The two ends of a pipe have one name; a command's are its own three.
        assert all(name.startswith(("pipe:", "/dev/null")) for name in shared), shared
        assert process not in keepers or len(opened(process.pid)) <= 5
    for each in (going, other):
        await guest.signal_command(each.name, signal.SIGKILL)
        await each.ended()


def opened(pid: int) -> set[str]:
    """What a process has open."""
    folder = Path(f"/proc/{pid}/fd")
    return {os.readlink(folder / name) for name in os.listdir(folder)}


async def test_its_memory_counts_for_the_sandboxs(name: str, start_cells: StartCells) -> None:
    limits = Limits(memory=256 << 20)
    guest = (await start_cells(name, kernel=quiet_kernel(), limits=limits)).guest
    code = """
import os, time
for _ in range(6):
    if os.fork() == 0:
        held = os.urandom(1 << 20) * 64
        time.sleep(1234.5)
time.sleep(1234.5)
"""
    with pytest.raises(SandboxDied) as died:
        await run(guest, argv=("python3", "-c", code))
    assert isinstance(died.value.cause, DeathCause)
    assert died.value.cause.what == "memory"


# Bounds of output


async def test_a_stream_over_its_bytes_is_cut_and_its_file_holds_all(guest: Guest) -> None:
    data = random.Random(3).randbytes(1_000_000)
    ran = await run(guest, "cat; echo fine >&2", name="big", stdin=data, output_bytes=1000)
    assert ran.stdout == data[:1000]
    end = ran.end.stdout
    assert (end.bytes, end.cut, end.file) == (len(data), True, ".reprise/commands/big/stdout")
    assert await content(guest, str(end.file)) == data
    assert (ran.stderr, ran.end.stderr.cut, ran.end.stderr.file) == (b"fine\n", False, None)


async def test_a_stream_over_its_lines_is_cut_at_a_line(guest: Guest) -> None:
    ran = await run(guest, "seq 20000", output_lines=10)
    assert ran.stdout == b"".join(b"%d\n" % i for i in range(1, 11))
    assert (ran.end.stdout.lines, ran.end.stdout.cut) == (20000, True)
    whole = await content(guest, str(ran.end.stdout.file))
    assert whole == b"".join(b"%d\n" % i for i in range(1, 20001))


@pytest.mark.parametrize("bounds", [{"output_lines": 3}, {"output_bytes": 6}])
async def test_a_stream_that_just_fits_is_not_cut(guest: Guest, bounds: dict[str, int]) -> None:
    ran = await run(guest, "seq 3", **bounds)
    assert (ran.stdout, ran.end.stdout.cut) == (b"1\n2\n3\n", False)
    over = await run(guest, "seq 3; printf x", **bounds)
    assert (over.stdout, over.end.stdout.cut) == (b"1\n2\n3\n", True)
    assert await content(guest, str(over.end.stdout.file)) == b"1\n2\n3\nx"


async def test_nothing_of_a_stream_may_be_wanted(guest: Guest) -> None:
    for bounds in ({"output_bytes": 0}, {"output_lines": 0}):
        ran = await run(guest, "seq 3", **bounds)
        assert (ran.stdout, ran.end.stdout.cut) == (b"", True)
        assert await content(guest, str(ran.end.stdout.file)) == b"1\n2\n3\n"


async def test_200_megabytes_of_output_take_little_memory_and_no_more_disk_than_allowed(
    guest: Guest,
) -> None:
    inside = guest_process(guest)
    await run(guest, "seq 100000")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10, peak_memory(inside)
    ran = await run(guest, "head -c 200000000 /dev/zero | tr '\\0' x")
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10, peak_memory(inside)
    assert ran.end.exit_code == 0
    assert (ran.end.stdout.bytes, ran.end.stdout.cut) == (200_000_000, True)
    assert len(ran.stdout) == 256 << 10
    assert after[0] - before[0] < 16 << 20
    assert after[1] - before[1] < 16 << 20
    kept = {"path": ran.end.stdout.file, "offset": 64 << 20, "length": 1000}
    about, data = await guest.call("get", kept)
    assert about["size"] == (64 << 20) + len(data[0])
    assert data[0].startswith(b"\n[Reprise keeps no more than 67108864 bytes of a stream")


@pytest.mark.skipif("bubblewrap" not in BACKENDS, reason="needs a workspace with a size")
async def test_a_full_disk_neither_hangs_nor_ends_it(start_cells: StartCells) -> None:
    limits = Limits(workspace=8 << 20)
    guest = (await start_cells("bubblewrap", kernel=quiet_kernel(), limits=limits)).guest
    ran = await run(guest, "head -c 30000000 /dev/zero; echo end >&2")
    assert (ran.end.exit_code, ran.stderr) == (0, b"end\n")
    assert (ran.end.stdout.bytes, ran.end.stdout.cut) == (30_000_000, True)
    assert ran.end.stdout.file is None
    # What could not be whole was not left in the way.
    assert (await run(guest, "head -c 6000000 /dev/zero > f && echo fits")).stdout == b"fits\n"


@pytest.mark.parametrize(
    "plant",
    [
        "mkdir -p .reprise; rm -rf .reprise/commands; ln -s $PWD/victims .reprise/commands",
        "mkdir -p .reprise; rm -rf .reprise/commands; ln -s ../../out .reprise/commands",
        "mkdir -p .reprise; rm -rf .reprise/commands; ln -s nowhere .reprise/commands",
        "mkdir -p .reprise; rm -rf .reprise/commands; echo > .reprise/commands",
        "mkdir -p .reprise/commands; ln -s $PWD/victims .reprise/commands/big",
        "mkdir -p .reprise/commands; mkfifo .reprise/commands/big",
        "mkdir -p .reprise/commands/big; ln -s $PWD/victims/stdout .reprise/commands/big/stdout",
        "mkdir -p .reprise/commands/big/stdout/deep",
        "mv .reprise elsewhere; ln -s /tmp .reprise",
        "mv .reprise elsewhere; ln -s / .reprise",
    ],
)
async def test_what_was_planted_where_its_file_goes_makes_way(guest: Guest, plant: str) -> None:
    await run(guest, "mkdir victims; echo precious > victims/stdout")
    # Even planted by the command itself, after it has begun.
    for shell in (f"{plant}; seq 1000", "seq 1000"):
        ran = await run(guest, shell, name="big", output_lines=1)
        assert ran.end.stdout.file == ".reprise/commands/big/stdout", ran
        assert len(await content(guest, ran.end.stdout.file)) == 3893
    assert await content(guest, "victims/stdout") == b"precious\n"
    outside = await run(guest, "ls /tmp/commands /commands ../out 2>/dev/null")
    assert outside.stdout == b""


# How it ends


async def test_what_it_started_ends_with_it(guest: Guest) -> None:
    ran = await run(
        guest,
        "sleep 1234.5 & nohup sleep 1234.5 >/dev/null 2>&1 & setsid sleep 1234.5 &"
        "(setsid sh -c '(sleep 1234.5 &)'; sleep 1234.5 &) &"
        "(trap '' TERM HUP INT; sleep 1234.5) &"
        "until [ $(cat /proc/[0-9]*/cmdline | tr -d '\\0' | grep -ao sleep1234.5 | wc -l) -ge 6 ];"
        "do :; done; echo all",
    )
    assert ran.stdout == b"all\n"
    assert ran.end.exit_code == 0
    assert await left(guest, "1234.5") == 0


async def test_one_that_kills_its_keeper_is_ended_with_all_it_started(
    name: str, start_cells: StartCells
) -> None:
    cells = await start_cells(name)
    await cells.prints(
        "import subprocess; p = subprocess.Popen(['sleep', '1234.7'], start_new_session=True)"
    )
    other = begin(cells.guest, "echo on; sleep 1234.6", name="other")
    await other.until(b"on")
    ran = await run(
        cells.guest,
        "setsid sleep 1234.5 & (setsid sh -c '(sleep 1234.5 &)') & sleep 1234.5 &"
        "until [ $(cat /proc/[0-9]*/cmdline | tr -d '\\0' | grep -ao sleep1234.5 | wc -l) -ge 3 ];"
        "do :; done; echo all; kill -9 $PPID; exec sleep 1234.5",
    )
    assert ran.stdout == b"all\n"
    assert (ran.end.exit_code, ran.end.signal) == (None, signal.SIGKILL)
    assert await left(cells.guest, "1234.5") == 0
    # Nobody else's was.
    assert len(processes(cells.guest, "1234.6")) == 1
    assert len(processes(cells.guest, "1234.7")) == 1
    await cells.guest.signal_command("other", signal.SIGTERM)
    assert (await other.ended()).end.signal == signal.SIGTERM
    assert await cells.prints("print(p.poll())") == "None"


async def test_one_that_stops_its_keeper_ends_all_the_same(guest: Guest) -> None:
    ran = await run(guest, "setsid sleep 1234.5 & kill -STOP $PPID; exit 3")
    assert ran.end.exit_code == 3
    assert await left(guest, "1234.5") == 0


CHAIN = """
import os, time
if os.fork() == 0:
    os.setsid()
    end = time.monotonic() + 60
    while time.monotonic() < end:  # always another process, never the same for long
        if os.fork():
            os._exit(0)
"""


async def test_one_that_flees_from_process_to_process_is_caught(guest: Guest) -> None:
    ran = await run(guest, argv=("python3", "-c", CHAIN, "1234.5"))
    assert ran.end.exit_code == 0
    assert await left(guest, "1234.5") == 0


async def test_a_fork_bomb_ends(start_cells: StartCells) -> None:
    limits = Limits(processes=200)
    cells = await start_cells("bubblewrap", limits=limits)
    before, _ = await cells.call("usage")
    going = begin(cells.guest, "b() { b | b & }; b; echo on; sleep 1234.5", name="bomb")
    await going.until(b"on")
    full = 0
    async with asyncio.timeout(PATIENCE):
        while full < 150:
            full = (await cells.call("usage"))[0]["processes"]
    await asyncio.wait_for(cells.guest.signal_command("bomb", signal.SIGKILL), PATIENCE)
    assert (await going.ended()).end.signal == signal.SIGKILL
    after, _ = await cells.call("usage")
    # Its keeper may wait for another command.
    assert after["processes"] <= before["processes"] + 1
    assert await cells.prints("print('lives')") == "lives"


async def test_a_time_limit_asks_first_and_then_ends(guest: Guest) -> None:
    polite = await run(
        guest, "trap 'echo bye; exit 5' TERM; while :; do sleep 0.01; done", timeout_s=0.3
    )
    assert (polite.stdout, polite.end.exit_code, polite.end.timed_out) == (b"bye\n", 5, True)
    deaf = await run(
        guest, "trap '' TERM; setsid sleep 1234.5 & while :; do sleep 0.01; done", timeout_s=0.3
    )
    assert (deaf.end.exit_code, deaf.end.signal, deaf.end.timed_out) == (None, signal.SIGKILL, True)
    assert deaf.end.duration_us >= 2_000_000
    assert await left(guest, "1234.5") == 0
    quick = await run(guest, "echo quick", timeout_s=30.0)
    assert not quick.end.timed_out


async def test_sigkill_takes_the_whole_tree_and_then_says_so(guest: Guest) -> None:
    going = begin(guest, "setsid sleep 1234.5 & echo on; sleep 1234.5", name="tree")
    await going.until(b"on")
    await guest.signal_command("tree", signal.SIGKILL)
    assert await left(guest, "1234.5") == 0
    assert (await going.ended()).end.signal == signal.SIGKILL
    with pytest.raises(GuestCallFailed) as failed:
        await guest.signal_command("tree", signal.SIGTERM)
    assert failed.value.kind == "ended"


async def test_a_restart_ends_all_and_whoever_waits_is_told(
    name: str, start_cells: StartCells
) -> None:
    cells = await start_cells(name)
    await run(cells.guest, "exec sleep 1234.5", name="behind", background=True)
    going = begin(cells.guest, "echo on; setsid sleep 1234.5 & sleep 1234.5")
    await going.until(b"on")
    await cells.call("restart_kernel")
    ran = await going.ended()
    assert (ran.stdout, ran.end.signal) == (b"on\n", signal.SIGKILL)
    assert await left(cells.guest, "1234.5") == 0
    (listed,) = await cells.guest.commands()
    assert (listed.name, listed.running, listed.signal) == ("behind", False, signal.SIGKILL)
    assert (await run(cells.guest, "echo again")).stdout == b"again\n"
    assert await cells.prints("print('clean')") == "clean"


async def test_the_sandboxs_end_ends_commands(name: str, start_cells: StartCells) -> None:
    cells = await start_cells(name, kernel=quiet_kernel())
    await run(cells.guest, "setsid sleep 1234.5 & exec sleep 1234.5", name="b", background=True)
    async with asyncio.timeout(PATIENCE):
        while len(found := processes(cells.guest, "1234.5")) < 2:
            await asyncio.sleep(0.01)
    await cells.guest.kill()
    assert [process for process in found if alive(process.pid)] == []


# Many


async def test_many_at_once_do_not_mix(guest: Guest) -> None:
    going = [begin(guest, f"for i in $(seq 200); do echo {n}; done") for n in range(30)]
    for n, each in enumerate(going):
        ran = await each.ended()
        assert ran.stdout == b"%d\n" % n * 200


async def test_no_more_than_64_run_and_names_are_unique(guest: Guest) -> None:
    await asyncio.gather(
        *(run(guest, "exec sleep 1234.5", name=f"n{n}", background=True) for n in range(64))
    )
    with pytest.raises(GuestCallFailed) as failed:
        await run(guest, "true")
    assert failed.value.kind == "many"
    await guest.signal_command("n7", signal.SIGKILL)
    with pytest.raises(GuestCallFailed) as failed:
        await run(guest, "true", name="n8")
    assert failed.value.kind == "name"
    assert (await run(guest, "echo fits", name="n7")).stdout == b"fits\n"


async def test_hundreds_one_after_another_leave_nothing_behind(guest: Guest) -> None:
    inside = guest_process(guest)
    for _ in range(3):
        await run(guest, "echo x", stdin=b"x")
    before = open_descriptors(inside), len(inside.children(recursive=True))
    size = inside.memory_info().rss
    for number in range(300):
        ran = await run(guest, "echo x", stdin=b"x" if number % 2 else b"")
        assert ran.stdout == b"x\n"
    assert (open_descriptors(inside), len(inside.children(recursive=True))) == before
    assert inside.memory_info().rss - size < 4 << 20


def open_descriptors(process: psutil.Process) -> int:
    """How many it has open; 0 for whoever may not know (the guest's are closed to its own user)."""
    try:
        return process.num_fds()
    except psutil.AccessDenied:
        return 0


# In the background


async def test_a_background_command_is_listed_read_and_stopped(guest: Guest) -> None:
    ran = await run(
        guest,
        "echo out; echo err >&2; cat; exec sleep 1234.5",
        name="bg",
        stdin=b"in",
        background=True,
    )
    assert (ran.stdout, ran.end.exit_code) == (b"", None)
    listed = await until(guest, lambda found: found.running and found.pid > 0, "bg")
    assert listed.started_us > 0
    async with asyncio.timeout(PATIENCE):
        while await content(guest, ".reprise/commands/bg/stdout") != b"out\nin":
            await asyncio.sleep(0.01)
    assert await content(guest, ".reprise/commands/bg/stderr") == b"err\n"
    await guest.signal_command("bg", signal.SIGTERM)
    stopped = await until(guest, lambda found: not found.running, "bg")
    assert (stopped.exit_code, stopped.signal) == (None, signal.SIGTERM)
    assert await left(guest, "1234.5") == 0


async def test_a_background_command_that_ends_says_how(guest: Guest) -> None:
    await run(guest, "setsid sleep 1234.5 & seq 3; exit 4", name="bg", background=True)
    ended = await until(guest, lambda found: not found.running, "bg")
    assert (ended.exit_code, ended.signal) == (4, None)
    assert await content(guest, ".reprise/commands/bg/stdout") == b"1\n2\n3\n"
    assert await left(guest, "1234.5") == 0
    # Another of that name takes its place.
    await run(guest, "exit 0", name="bg", background=True)
    again = await until(guest, lambda found: not found.running, "bg")
    assert again.exit_code == 0
    assert await content(guest, ".reprise/commands/bg/stdout") == b""


async def test_a_background_command_has_a_time_limit_too(guest: Guest) -> None:
    await run(guest, "exec sleep 1234.5", name="bg", background=True, timeout_s=0.2)
    ended = await until(guest, lambda found: not found.running, "bg")
    assert ended.signal == signal.SIGTERM


# Beside cells


async def test_signals_of_commands_and_interrupts_of_cells_keep_apart(
    name: str, start_cells: StartCells
) -> None:
    cells = await start_cells(name)
    asked = cells.execute("import time\nprint('on', flush=True)\nwhile True: time.sleep(0.01)")
    await cells.until(asked, "stream")
    going = begin(
        cells.guest, "trap 'echo hit; exit 9' INT; echo on; while :; do sleep 0.01; done", name="c"
    )
    await going.until(b"on")
    await cells.guest.signal_command("c", signal.SIGINT)
    ran = await going.ended()
    assert (ran.stdout, ran.end.exit_code) == (b"on\nhit\n", 9)
    # The cell still runs; its interrupt leaves the next command alone.
    await run(
        cells.guest,
        "trap 'echo hit' INT; echo on; while :; do sleep 0.01; done",
        name="d",
        background=True,
    )
    await cells.call("interrupt")
    assert (await cells.collect(asked)).error == "KeyboardInterrupt"
    (listed,) = await cells.guest.commands()
    assert listed.running
    assert b"hit" not in await content(cells.guest, ".reprise/commands/d/stdout")


async def test_cells_and_commands_see_each_others_files_at_once(
    name: str, start_cells: StartCells
) -> None:
    cells = await start_cells(name)
    await cells.prints("open('from-cell', 'w').write('1'); import os; os.mkfifo('pipe')")
    assert (await run(cells.guest, "cat from-cell; echo 2 > from-command")).stdout == b"1"
    assert await cells.prints("print(open('from-command').read())") == "2"
    # While both run.
    await run(
        cells.guest,
        "while read word; do echo got $word; done < pipe > answers",
        name="r",
        background=True,
    )
    await cells.prints("with open('pipe', 'w') as f: f.write('from a cell\\n')")
    await until(cells.guest, lambda found: not found.running, "r")
    assert await cells.prints("print(open('answers').read())") == "got from a cell"


async def test_a_flood_of_a_command_holds_up_no_cell(name: str, start_cells: StartCells) -> None:
    cells = await start_cells(name)
    going = begin(cells.guest, "yes", name="yes", output_bytes=64 << 20, output_lines=1 << 30)
    await going.until(b"y")
    for number in range(20):
        assert await cells.prints(f"print({number})") == str(number)
    await cells.guest.signal_command("yes", signal.SIGKILL)
    ran = await going.ended()
    assert ran.stdout == (b"y\n" * (len(ran.stdout) // 2 + 1))[: len(ran.stdout)]


async def test_a_host_that_holds_makes_a_command_wait_and_nothing_is_lost(guest: Guest) -> None:
    guest.hold()
    going = begin(guest, "seq 2000000", name="held", output_bytes=32 << 20, output_lines=1 << 30)
    window = WINDOWS[Channel.COMMAND]
    async with asyncio.timeout(PATIENCE):
        while len(going.written["stdout"]) < window - (1 << 17):
            await asyncio.sleep(0.01)
    # It has written what window, queue and pipe take, and waits.
    (process,) = processes(guest, "2000000")[-1:]
    async with asyncio.timeout(PATIENCE):
        while process.status() != "sleeping" or len(going.written["stdout"]) < window - (1 << 17):
            await asyncio.sleep(0.01)
    assert len(going.written["stdout"]) <= window + (1 << 17)
    guest.release()
    ran = await going.ended()
    assert ran.end.stdout.lines == 2_000_000
    assert (
        hashlib.sha256(ran.stdout).digest()
        == hashlib.sha256(b"".join(b"%d\n" % i for i in range(1, 2_000_001))).digest()
    )


async def test_what_a_held_host_wants_killed_is_killed(guest: Guest) -> None:
    guest.hold()
    going = begin(guest, "yes", name="held", output_bytes=32 << 20, output_lines=1 << 30)
    async with asyncio.timeout(PATIENCE):
        while len(going.written["stdout"]) < WINDOWS[Channel.COMMAND] - (1 << 17):
            await asyncio.sleep(0.01)
    await asyncio.wait_for(guest.signal_command("held", signal.SIGKILL), PATIENCE)
    assert processes(guest, "yes") == []
    guest.release()
    assert (await going.ended()).end.signal == signal.SIGKILL


async def test_who_gives_up_waiting_does_no_harm(guest: Guest) -> None:
    waiting = asyncio.ensure_future(
        guest.run_command(Command("given-up", shell="yes | head -c 3000000"), b"", lambda *_: None)
    )
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert waiting.cancelled()
    assert (await run(guest, "echo fine")).stdout == b"fine\n"
    assert not guest.ended.done()
