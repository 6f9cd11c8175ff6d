"""Every backend keeps every promise of `reprise.sandbox.contract`."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import json
import os
import signal
from pathlib import Path

import psutil
import pytest

from reprise.errors import GuestCallFailed, SandboxDied, SandboxError, TooLarge
from reprise.sandbox.backends import backend
from reprise.sandbox.contract import Limits, Mount
from reprise.sandbox.frames import Channel
from tests.conformance.backends import BACKENDS, ISOLATING, backend_of
from tests.fixtures.sandbox import (
    PATIENCE,
    Cells,
    StartCells,
    alive,
    bash_kernel,
    ipykernel,
)

# Rows of the matrix (tests/fixtures/matrix.py); what has no mark counts as `contract`.
area_limits = pytest.mark.area("limits")
area_files = pytest.mark.area("files")
area_signals = pytest.mark.area("signals")
area_ends = pytest.mark.area("ends")
area_mounts = pytest.mark.area("mounts")


@pytest.fixture(params=BACKENDS)
def name(request: pytest.FixtureRequest) -> str:
    return backend_of(request)


@pytest.fixture(params=ISOLATING)
def isolated(request: pytest.FixtureRequest) -> str:
    return backend_of(request)


def test_it_says_what_it_is_and_that_it_works(name: str) -> None:
    found = backend(name)
    assert found.name == name.partition(":")[0]
    assert found.isolated == (name != "process")
    assert found.isolation.startswith("Isolated" if found.isolated else "Not isolated:")
    assert found.check() == []


# Messages


async def test_a_cell_runs_and_its_outputs_come_in_order(
    name: str, start_cells: StartCells
) -> None:
    cells = await start_cells(name)
    assert cells.guest.kernel_info is not None
    assert cells.guest.kernel_info["language_info"]["name"] == "python"
    ran = await cells.run("for i in range(50): print(i)\n1/0")
    assert ran.text() == "".join(f"{i}\n" for i in range(50))
    assert ran.error == "ZeroDivisionError"


async def test_each_client_gets_its_own_replies_and_buffers_pass(
    name: str, start_cells: StartCells
) -> None:
    cells = await start_cells(name)
    code = """
from comm import get_comm_manager
def opened(comm, msg):
    comm.send({"echo": msg["content"]["data"]}, buffers=[bytes(b)[::-1] for b in msg["buffers"]])
get_comm_manager().register_target("echo", opened)
"""
    await cells.prints(code)
    content = {"comm_id": "c1", "target_name": "echo", "data": {"x": "é\u0000"}}
    cells.send("comm_open", content, buffers=(b"abc", b"", bytes(range(256))), client=b"other")
    while True:
        channel, parts = await cells.next()
        if json.loads(parts[1])["msg_type"] == "comm_msg":
            break
    assert channel is Channel.IOPUB
    assert json.loads(parts[4])["data"] == {"echo": {"x": "é\u0000"}}
    assert parts[5:] == [b"cba", b"", bytes(range(256))[::-1]]
    for client in (b"one", b"\0\1\2\3\4", b"x" * 300):
        asked = cells.send("kernel_info_request", {}, client=client)
        while True:
            channel, parts = await cells.next()
            if channel is Channel.SHELL and json.loads(parts[2])["msg_id"] == asked:
                break
        assert parts[0] == client


async def test_input_goes_to_the_client_that_runs_the_cell(
    name: str, start_cells: StartCells
) -> None:
    cells = await start_cells(name)
    asked = cells.execute("print(input('name? '))", allow_stdin=True)
    while True:
        channel, parts = await cells.next()
        if channel is Channel.STDIN:
            break
    assert parts[0] == b"client"
    assert json.loads(parts[4])["prompt"] == "name? "
    cells.send("input_reply", {"value": "Ada"}, channel=Channel.STDIN)
    assert (await cells.collect(asked)).text() == "Ada\n"


@area_signals
async def test_control_is_answered_while_a_cell_runs(name: str, start_cells: StartCells) -> None:
    cells = await start_cells(name)
    running = cells.execute("import time\nprint('on', flush=True)\nwhile True: time.sleep(0.01)")
    await cells.until(running, "stream")
    asked = cells.send("kernel_info_request", {}, channel=Channel.CONTROL)
    while True:
        channel, parts = await cells.next()
        if channel is Channel.CONTROL:
            break
    assert json.loads(parts[2])["msg_id"] == asked
    await cells.call("interrupt")
    assert (await cells.collect(running)).error == "KeyboardInterrupt"


@area_signals
async def test_an_interrupt_with_nothing_running_is_harmless(
    name: str, start_cells: StartCells
) -> None:
    cells = await start_cells(name)
    await cells.call("interrupt")
    assert await cells.prints("print('still here')") == "still here"


@area_signals
async def test_a_kernel_that_wants_interrupts_as_messages_gets_them(
    name: str, start_cells: StartCells
) -> None:
    kernel = dataclasses.replace(ipykernel(), interrupt_mode="message")
    cells = await start_cells(name, kernel=kernel)
    running = cells.execute("import time\nprint('on', flush=True)\nwhile True: time.sleep(0.01)")
    await cells.until(running, "stream")
    await cells.call("interrupt")
    assert (await cells.collect(running)).error == "KeyboardInterrupt"


async def test_a_kernel_of_another_language_runs(name: str, start_cells: StartCells) -> None:
    cells = await start_cells(name, kernel=bash_kernel())
    ran = await cells.run("x=4; echo $((x * 10 + 2))")
    assert ran.text().strip() == "42"


# Output limits


@area_limits
async def test_a_huge_message_is_cut_with_a_mark_and_the_cell_ends(
    name: str, start_cells: StartCells
) -> None:
    cells = await start_cells(name, limits=Limits(message=1 << 20))
    ran = await cells.run(
        "from IPython.display import display\nprint('x' * (3 << 20))\n"
        "display({'text/plain': 'y' * (3 << 20)}, raw=True)\nprint('end')"
    )
    assert ran.reply["status"] == "ok"
    assert "cut by Reprise" in ran.text()
    assert ran.text().endswith("end\n")
    assert "left out a display_data message" in ran.text("stderr")
    assert all(len(json.dumps(content)) <= 1 << 20 for _, content in ran.outputs)


@area_limits
async def test_a_held_host_stops_the_kernel_and_nothing_is_lost(
    name: str, start_cells: StartCells
) -> None:
    cells = await start_cells(name)
    cells.guest.hold()
    asked = cells.execute("for i in range(64): print(f'{i:06}' + 'x' * (1 << 20), flush=True)")
    # The window is used up long before 64 MiB: then nothing more comes until release.
    held = 0
    with pytest.raises(TimeoutError):
        while True:
            async with asyncio.timeout(2):
                _channel, parts = await cells.inbox.get()
            held += sum(map(len, parts))
    assert held < 8 << 20
    cells.guest.release()
    ran = await cells.collect(asked)
    assert ran.reply["status"] == "ok"
    last = ran.text().replace("x", "").split()
    assert last[-1] == "000063"
    assert [int(number) for number in last] == list(range(int(last[0]), 64))


@area_signals
async def test_a_held_kernel_can_be_interrupted(name: str, start_cells: StartCells) -> None:
    cells = await start_cells(name)
    cells.guest.hold()
    asked = cells.execute("while True: print('x' * (1 << 16), flush=True)")
    while cells.inbox.qsize() < 40:
        await asyncio.sleep(0.01)
    await cells.call("interrupt")
    cells.guest.release()
    assert (await cells.collect(asked)).error == "KeyboardInterrupt"


@area_limits
async def test_what_is_too_large_to_send_is_refused_and_harms_nothing(
    name: str, start_cells: StartCells
) -> None:
    cells = await start_cells(name)
    with pytest.raises(TooLarge):
        cells.execute("x" * (70 << 20))
    assert await cells.prints("print(1)") == "1"


@area_limits
async def test_what_a_stopped_kernel_does_not_take_is_bounded(
    name: str, start_cells: StartCells
) -> None:
    cells = await start_cells(name)
    cells.execute("import os, signal; os.kill(os.getpid(), signal.SIGSTOP)")
    with pytest.raises(SandboxError, match="not taken"):
        for _ in range(60):
            cells.execute("#" * (16 << 20))
            await asyncio.sleep(0)


# Death


DEATHS = {
    "import os; os._exit(3)": ("exit", None, 3),
    "import os; os.kill(os.getpid(), 9)": ("signal", 9, None),
    "import ctypes; ctypes.string_at(0)": ("signal", 11, None),
    "import os; os.abort()": ("signal", 6, None),
}


@area_ends
@pytest.mark.parametrize("code", DEATHS)
async def test_the_language_kernels_death_is_told_with_its_reason(
    name: str, code: str, start_cells: StartCells
) -> None:
    cells = await start_cells(name)
    asked = cells.execute("print('before', flush=True)\nimport time; time.sleep(0.05)\n" + code)
    cause = await cells.ended()
    what, number, exit_code = DEATHS[code]
    assert (cause.what, cause.signal, cause.code) == (what, number, exit_code)
    assert cells.deaths == [cause]
    # What it had said before is not lost with it.
    said = b""
    while not cells.inbox.empty():
        _channel, parts = cells.inbox.get_nowait()
        if json.loads(parts[2]).get("msg_id") == asked:
            said += parts[4]
    assert b"before" in said
    with pytest.raises(SandboxDied):
        cells.execute("1")
    with pytest.raises(SandboxDied):
        await cells.guest.call("ping")


async def test_a_call_made_before_the_language_kernel_is_ready_is_answered(
    name: str, start_cells: StartCells
) -> None:
    cells = await start_cells(name, ready=False)
    await asyncio.wait_for(cells.guest.call("ping"), PATIENCE)


@area_ends
async def test_a_kernel_that_cannot_start_says_why(name: str, start_cells: StartCells) -> None:
    broken = dataclasses.replace(
        ipykernel(), argv=(ipykernel().argv[0], "-c", "raise SystemExit('no such thing')")
    )
    cells = await start_cells(name, kernel=broken, ready=False)
    with pytest.raises(SandboxDied):
        await asyncio.wait_for(cells.guest.ready(), PATIENCE)
    cause = await cells.ended()
    assert (cause.what, cause.code) == ("exit", 1)
    assert "no such thing" in cause.detail


@area_ends
async def test_a_kernel_that_is_not_there_says_so(name: str, start_cells: StartCells) -> None:
    broken = dataclasses.replace(ipykernel(), language="none", argv=("/nonexistent/kernel",))
    cells = await start_cells(name, kernel=broken, ready=False)
    cause = await cells.ended()
    assert "/nonexistent/kernel" in cause.detail


@area_limits
async def test_too_much_memory_ends_the_cell_not_the_machine(
    name: str, start_cells: StartCells
) -> None:
    cells = await start_cells(name, limits=Limits(memory=256 << 20))
    if name != "oci:runsc":  # gVisor does not count what is mapped
        # One process asking for too much gets a MemoryError and lives.
        ran = await cells.run("x = bytearray(400 << 20)")
        assert ran.error == "MemoryError"
    # Several that stay below it one by one are ended by their sum.
    cells.execute(
        "import os\nfor _ in range(6):\n    if os.fork() == 0:\n"
        "        x = os.urandom(1 << 20) * 64\n        while True: pass\n"
        "while True: pass"
    )
    cause = await cells.ended()
    assert cause.what == "memory", cause
    assert cause.limit == 256 << 20


@area_ends
async def test_kill_leaves_no_process(name: str, start_cells: StartCells) -> None:
    cells = await start_cells(name)
    await cells.prints(
        "import subprocess\n"
        "a = subprocess.Popen(['sleep', '1234.5'], start_new_session=True)\n"
        "b = subprocess.Popen(['sh', '-c', '(setsid sleep 1234.5 &)'])\nb.wait()"
    )
    tree = processes_of(cells.guest.container.pid)
    assert len(tree) >= 3
    await cells.guest.kill()
    assert [pid for pid in tree if alive(pid)] == []
    assert cells.deaths[0].what == "killed"
    await cells.guest.kill()
    assert len(cells.deaths) == 1


@area_ends
async def test_the_guests_death_ends_everything(name: str, start_cells: StartCells) -> None:
    cells = await start_cells(name)
    await cells.prints("import subprocess; p = subprocess.Popen(['sleep', '1234.5'])")
    tree = processes_of(cells.guest.container.pid)
    os.kill(guest_of(tree), signal.SIGKILL)
    cause = await cells.ended()
    assert (cause.what, cause.signal) == ("signal", signal.SIGKILL)
    await cells.guest.container.wait()
    assert [pid for pid in tree if alive(pid)] == []


@area_ends
async def test_the_sandbox_ends_with_its_stream(name: str, start_cells: StartCells) -> None:
    """A sandbox never outlives the process that holds the stream."""
    cells = await start_cells(name)
    await cells.prints("import subprocess; p = subprocess.Popen(['sleep', '1234.5'])")
    tree = processes_of(cells.guest.container.pid)
    cells.guest.container.stream.shutdown(2)
    await asyncio.wait_for(cells.guest.container.wait(), PATIENCE)
    assert [pid for pid in tree if alive(pid)] == []


def processes_of(pid: int) -> list[int]:
    """A process and its descendants on the host.

    By parent ids: /proc/PID/task/TID/children may leave some out while others end (proc(5)).
    """
    return [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]


def guest_of(tree: list[int]) -> int:
    """The guest's process on the host; where gVisor's kernel runs it, that kernel's."""
    guests = []
    for pid in tree:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        named = any(part.endswith(b"guest/__main__.py") for part in command)
        if (named and b"--" not in command) or command[0] == b"runsc-sandbox":
            guests.append(pid)
    # A parent that is root inside (`guest.rooted`) has the same command line.
    parents = {psutil.Process(pid).ppid() for pid in guests}
    (guest,) = [pid for pid in guests if pid not in parents]
    return guest


async def sleeping(name: str, cells: Cells) -> int:
    """How many processes of a sandbox sleep for 1234.5 s."""
    if name == "process":
        tree = processes_of(cells.guest.container.pid)
        return sum(b"1234.5" in Path(f"/proc/{pid}/cmdline").read_bytes() for pid in tree)
    # From inside: what gVisor's kernel runs is no process of this machine's.
    code = (
        "import os; print(sum(b'1234.5' in open(f'/proc/{pid}/cmdline', 'rb').read() "
        "for pid in os.listdir('/proc') if pid.isdigit()))"
    )
    return int(await cells.prints(code))


# Calls


@area_ends
async def test_restart_gives_a_clean_interpreter_and_keeps_files(
    name: str, start_cells: StartCells
) -> None:
    cells = await start_cells(name)
    await cells.prints(
        "x = 1\nopen('kept', 'w').write('yes')\n"
        "import subprocess\nsubprocess.Popen(['sleep', '1234.5'], start_new_session=True)"
    )
    assert await sleeping(name, cells) == 1
    answer, _ = await cells.call("restart_kernel")
    assert answer["kernel_info"]["status"] == "ok"
    ran = await cells.run("print('x' in globals(), open('kept').read())")
    assert ran.text() == "False yes\n"
    assert ran.reply["execution_count"] == 1
    assert await sleeping(name, cells) == 0
    assert cells.deaths == []


@area_files
async def test_files_go_in_and_come_out(name: str, start_cells: StartCells) -> None:
    cells = await start_cells(name, cwd="deep/er")
    odd = os.fsdecode(b"\xff\n name")
    entries = [
        {"path": "deep/er/data.csv", "type": "file", "mode": 0o600},
        {"path": "deep/script", "type": "file", "mode": 0o755},
        {"path": odd, "type": "file", "mode": 0o644},
        {"path": "empty", "type": "dir", "mode": 0o700},
        {"path": "link", "type": "link", "mode": 0o777, "target": "deep/script"},
    ]
    await cells.call("put", {"entries": entries}, (b"a,b\n1,2\n", b"#!/bin/sh\necho run\n", b"odd"))
    assert await cells.prints("print(open('data.csv').read())") == "a,b\n1,2"
    assert await cells.prints("import subprocess as s; s.run(['../script']); print()") == "run"
    await cells.prints(
        "import os; os.mkdir('made'); open('made/big', 'wb').write(b'z' * 5_000_000)"
    )
    found, _ = await cells.call("tree", {"hashes": True, "limit": 1000})
    by_path = {entry["path"]: entry for entry in found["entries"]}
    assert by_path["deep/er/data.csv"]["sha256"] == hashlib.sha256(b"a,b\n1,2\n").hexdigest()
    assert by_path["deep/er/data.csv"]["mode"] == 0o600
    assert by_path["deep/script"]["mode"] == 0o755
    assert by_path["link"] | {"mtime_ns": 0} == {
        "path": "link",
        "type": "link",
        "mode": 0o777,
        "size": 0,
        "mtime_ns": 0,
        "target": "deep/script",
    }
    assert by_path[odd]["size"] == 3
    assert by_path["deep/er/made/big"]["size"] == 5_000_000
    assert not [path for path in by_path if "pyvenv" in path or "bin/python" in path]
    content = b""
    while len(content) < 5_000_000:
        about, data = await cells.call(
            "get", {"path": "deep/er/made/big", "offset": len(content), "length": 1 << 20}
        )
        assert about["size"] == 5_000_000
        content += data[0]
    assert content == b"z" * 5_000_000
    await cells.call("remove", {"paths": ["deep", odd, "not/there"]})
    left, _ = await cells.call("tree", {"hashes": False, "limit": 1000})
    assert {entry["path"] for entry in left["entries"] if not entry["path"].startswith(".")} == {
        "empty",
        "link",
    }


@area_files
@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        ("get", {"path": "../../etc/passwd", "offset": 0, "length": 10}),
        ("get", {"path": "/etc/passwd", "offset": 0, "length": 10}),
        ("get", {"path": "missing", "offset": 0, "length": 10}),
        ("put", {"entries": [{"path": "../x", "type": "file"}]}),
        ("put", {"entries": "nonsense"}),
        ("remove", {"paths": [""]}),
        ("tree", {"limit": "many"}),
        ("nonsense", {}),
    ],
)
async def test_a_wrong_call_fails_and_harms_nothing(
    name: str, call: str, arguments: dict[str, object], start_cells: StartCells
) -> None:
    cells = await start_cells(name)
    with pytest.raises(GuestCallFailed):
        await cells.call(call, arguments, (b"data",))
    assert (await cells.call("ping")) == ({}, [])


async def test_usage_counts(name: str, start_cells: StartCells) -> None:
    cells = await start_cells(name)
    before, _ = await cells.call("usage")
    await cells.prints(
        "import subprocess\nx = b'x' * (64 << 20)\np = subprocess.Popen(['sleep', '1234.5'])\n"
        "open('f', 'wb').write(b'y' * (8 << 20))"
    )
    after, _ = await cells.call("usage")
    assert after["memory"] - before["memory"] >= 60 << 20
    assert after["processes"] >= before["processes"] + 1
    if name != "process":
        assert after["workspace"] - before["workspace"] >= 8 << 20


# What goes in


async def test_only_allowlisted_variables_go_in(
    name: str, start_cells: StartCells, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    monkeypatch.setenv("REPRISE_DSN", "postgres://secret")
    cells = await start_cells(name, variables={"TZ": "Asia/Tokyo", "PROJECT": "p"})
    found = json.loads(await cells.prints("import os, json; print(json.dumps(dict(os.environ)))"))
    assert (found["TZ"], found["PROJECT"]) == ("Asia/Tokyo", "p")
    assert "AWS_SECRET_ACCESS_KEY" not in found
    assert "REPRISE_DSN" not in found


@area_mounts
async def test_a_mount_is_there_and_read_only(
    isolated: str, start_cells: StartCells, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "rows").write_text("1 2 3")
    tmp_path.chmod(0o755)
    cells = await start_cells(isolated, mounts=(Mount(data, "/data"),))
    assert await cells.prints("print(open('/data/rows').read())") == "1 2 3"
    for path in ("/data/rows", "/data/new"):
        assert (await cells.run(f"open({path!r}, 'w')")).error in ("OSError", "PermissionError")


@area_files
async def test_home_and_tmp_can_be_written(name: str, start_cells: StartCells) -> None:
    cells = await start_cells(name)
    ran = await cells.run(
        "import os, tempfile, pathlib\n"
        "p = pathlib.Path.home() if os.getuid() == 1000 else pathlib.Path(tempfile.mkdtemp())\n"
        "(p / '.config' / 'app').mkdir(parents=True); (p / '.config' / 'app' / 'x').write_text('x')\n"
        "tempfile.TemporaryFile().write(b'x')"
    )
    assert ran.error == ""


@area_files
async def test_pip_installs_a_local_wheel_for_the_session_only(
    isolated: str, start_cells: StartCells
) -> None:
    cells = await start_cells(isolated)
    made = """
import zipfile
with zipfile.ZipFile("tiny_thing-1.0-py3-none-any.whl", "w") as z:
    z.writestr("tiny_thing.py", "answer = 42\\n")
    info = "tiny_thing-1.0.dist-info/"
    z.writestr(info + "METADATA", "Metadata-Version: 2.1\\nName: tiny_thing\\nVersion: 1.0\\n")
    z.writestr(info + "WHEEL", "Wheel-Version: 1.0\\nGenerator: t\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
    z.writestr(info + "RECORD", "")
"""
    await cells.prints(made)
    ran = await cells.run("%pip install --no-index ./tiny_thing-1.0-py3-none-any.whl")
    assert "Successfully installed" in ran.text(), ran
    assert await cells.prints("import tiny_thing; print(tiny_thing.answer)") == "42"
    # What the environment below has is still there.
    assert (
        await cells.prints("import ipykernel, sys; print(sys.prefix)") == "/workspace/.reprise/venv"
    )
    found, _ = await cells.call("tree", {"hashes": False, "limit": 2000})
    assert any(entry["path"].endswith("tiny_thing.py") for entry in found["entries"])
    await cells.call("restart_kernel")
    assert await cells.prints("import tiny_thing; print(tiny_thing.answer)") == "42"


@area_ends
async def test_starting_and_ending_leaves_no_descriptor_behind(
    name: str, start_cells: StartCells
) -> None:
    async def once() -> None:
        cells = await start_cells(name)
        await cells.guest.kill()

    await once()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        await once()
    assert len(os.listdir("/proc/self/fd")) == before
