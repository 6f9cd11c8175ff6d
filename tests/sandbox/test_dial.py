"""Guests that dial: one connection for each token, and nothing for anybody else who reaches it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from reprise.errors import SandboxError
from reprise.guest import dial as inside
from reprise.guest.stream import Stream, StreamClosed
from reprise.sandbox import connection, dial
from reprise.sandbox.connection import Guest, settings_for
from reprise.sandbox.contract import SandboxSpec
from reprise.sandbox.dial import GUEST, ROOTED, Listener
from reprise.sandbox.frames import Channel, encode
from tests.fixtures.sandbox import PATIENCE, StartCells, alive, quiet_kernel
from tests.sandbox.test_hostile_guest import start as start_hostile

LIBRARY = Path(dial.__file__).parents[2]


@pytest.fixture
async def listener() -> AsyncIterator[Listener]:
    listener = Listener()
    yield listener
    listener.close()


def dialled(listener: Listener, said: bytes | None = None) -> socket.socket:
    """A connection that has said something; the right token unless told otherwise."""
    with contextlib.ExitStack() as made:
        sock = made.enter_context(socket.socket(socket.AF_UNIX))
        sock.connect(str(listener.path))
        sock.sendall(f"{listener.tokens[GUEST]}\n".encode() if said is None else said)
        sock.setblocking(False)
        made.pop_all()
    return sock


async def accepted(listener: Listener) -> dict[str, socket.socket]:
    return await asyncio.wait_for(listener.accept(), PATIENCE)


async def is_dropped(sock: socket.socket) -> bool:
    """Whether the other end has closed it, without a word."""
    with contextlib.suppress(ConnectionError):
        return (
            await asyncio.wait_for(asyncio.get_running_loop().sock_recv(sock, 1), PATIENCE) == b""
        )
    return True


async def test_the_right_token_gets_the_stream_and_the_socket_goes_away(
    listener: Listener,
) -> None:
    path, folder = listener.path, listener.folder
    assert stat.S_ISSOCK(path.stat().st_mode)
    assert [each.name for each in folder.iterdir()] == [path.name]
    with dialled(listener, f"{listener.tokens[GUEST]}\nthe stream".encode()) as sock:
        with (await accepted(listener))[GUEST] as taken:
            assert not taken.getblocking()
            assert taken.recv(100) == b"the stream"
            taken.send(b"heard")
            assert await asyncio.get_running_loop().sock_recv(sock, 100) == b"heard"
        assert not folder.parent.exists()
        with pytest.raises(OSError, match="No such file"):
            dialled(listener)


async def test_nobody_else_on_this_machine_can_reach_it(listener: Listener) -> None:
    """It lies in a folder that only its user may enter, whatever its own mode is."""
    closed = listener.folder.parent.stat()
    assert (closed.st_uid, stat.S_IMODE(closed.st_mode)) == (os.geteuid(), 0o700)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give folders away")
async def test_a_listener_for_another_user_is_that_users() -> None:
    listener = Listener(uid=123_456)
    closed = listener.folder.parent.stat()
    assert (closed.st_uid, stat.S_IMODE(closed.st_mode)) == (123_456, 0o700)
    listener.close()
    assert not listener.folder.parent.exists()


WRONG = {
    "another token": b"0" * 64 + b"\n",
    "no line feed": b"0" * 65,
    "nothing": b"",
    "a part and no more": b"0" * 10,
    "far too much": b"x" * (1 << 16),
    "what a proxy says": b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"\r\n" * 40,
}


@pytest.mark.parametrize("wrong", WRONG)
async def test_a_wrong_dial_gets_nothing_and_ends_no_wait(listener: Listener, wrong: str) -> None:
    waiting = asyncio.ensure_future(accepted(listener))
    with dialled(listener, WRONG[wrong]) as bad:
        if wrong in ("nothing", "a part and no more"):
            bad.shutdown(socket.SHUT_WR)
        assert await is_dropped(bad)
        assert not waiting.done()
        with dialled(listener) as good, (await waiting)[GUEST] as taken:
            good.send(b"x")
            assert await asyncio.get_running_loop().sock_recv(taken, 1) == b"x"


async def test_one_who_says_nothing_is_dropped_in_time(
    listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dial, "_PRESENT", 0.05)
    waiting = asyncio.ensure_future(accepted(listener))
    with dialled(listener, b"") as silent, dialled(listener, b"0" * 20) as halting:
        assert await is_dropped(silent)
        assert await is_dropped(halting)
        with dialled(listener), (await waiting)[GUEST]:
            pass


async def test_another_sandboxs_guest_gets_nothing(listener: Listener) -> None:
    """It has a token, which is another listener's."""
    other = Listener()
    waiting = asyncio.ensure_future(accepted(listener))
    with dialled(listener, f"{other.tokens[GUEST]}\n".encode()) as stranger:
        assert await is_dropped(stranger)
    other.close()
    with dialled(listener), (await waiting)[GUEST]:
        pass


async def test_a_flood_of_dials_keeps_nobody_out(listener: Listener) -> None:
    waiting = asyncio.ensure_future(accepted(listener))
    with contextlib.ExitStack() as flood:
        for _ in range(300):
            flood.enter_context(dialled(listener, b"0" * 64))
            await asyncio.sleep(0)
            assert len([each for each in listener._presenting if not each.cancelling()]) <= 32
        assert len(listener._presenting) < 100
        with dialled(listener), (await waiting)[GUEST]:
            pass


async def test_a_token_is_good_once(listener: Listener) -> None:
    twice = Listener((GUEST, ROOTED))
    waiting = asyncio.ensure_future(twice.accept())
    with dialled(twice) as first, dialled(twice) as second:
        dropped = [asyncio.ensure_future(is_dropped(each)) for each in (first, second)]
        done, pending = await asyncio.wait(
            dropped, timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED
        )
        assert (len(done), len(pending)) == (1, 1)
        with dialled(twice, f"{twice.tokens[ROOTED]}\n".encode()):
            taken = await asyncio.wait_for(waiting, PATIENCE)
            assert set(taken) == {GUEST, ROOTED}
            for each in taken.values():
                each.close()
        await asyncio.wait(pending)


async def test_who_does_not_dial_in_time_is_named(listener: Listener) -> None:
    with pytest.raises(SandboxError, match=r"its guest did not dial back within 0 s"):
        await listener.accept(0.05)
    assert not listener.folder.parent.exists()


async def test_a_wait_that_is_given_up_leaves_nothing(listener: Listener) -> None:
    both = Listener((GUEST, ROOTED))
    waiting = asyncio.ensure_future(both.accept())
    with dialled(both) as half, dialled(both, b"") as silent:
        while len(both._presenting) != 1 or not both._taken:
            await asyncio.sleep(0.001)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await is_dropped(half)
        assert await is_dropped(silent)
    assert not both.folder.parent.exists()


async def test_what_a_killed_process_left_is_removed() -> None:
    code = (
        "import asyncio, os\nfrom reprise.sandbox.dial import Listener\n"
        "async def main():\n    print(Listener().folder, flush=True)\n    os._exit(1)\n"
        "asyncio.run(main())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    left = Path(done.stdout.strip())
    assert left.exists()
    Listener().close()
    assert not left.parent.exists()


# The guest's end


@asynccontextmanager
async def dialling_guest(
    tmp_path: Path, before: str = ""
) -> AsyncIterator[tuple[subprocess.Popen[bytes], socket.socket]]:
    """A guest that has dialled. before: code that it runs first."""
    listener = Listener()
    runtime = tmp_path / "runtime"
    runtime.mkdir()
    code = (
        "import sys\nimport reprise.guest.main as m\n"
        f"{before}\nsys.exit(m.main(['--dial', sys.argv[1]]))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(listener.path)],
        env={
            **listener.variables(),
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": str(LIBRARY),
            "REPRISE_RUNTIME": str(runtime),
        },
        cwd=tmp_path,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            with (await accepted(listener))[GUEST] as stream:
                yield process, stream
        finally:
            process.kill()


async def ended(process: subprocess.Popen[bytes]) -> int:
    return await asyncio.wait_for(asyncio.to_thread(process.wait), PATIENCE)


def hello(tmp_path: Path) -> bytes:
    settings = settings_for(SandboxSpec(quiet_kernel()), str(tmp_path), False)
    import json

    return encode(Channel.HELLO, [b"1", json.dumps(settings).encode()])


async def test_a_silent_host_is_taken_for_gone(tmp_path: Path) -> None:
    """In Dagger the end of the host's socket is not seen: the guest ends nevertheless, with 0."""
    async with dialling_guest(tmp_path, "m.SILENCE = 2.0") as (process, stream):
        stream.setblocking(True)
        stream.sendall(hello(tmp_path))
        heard = b""
        while b"ready" not in heard:  # its language kernel runs
            heard += await asyncio.to_thread(stream.recv, 1 << 16)
        children = [int(each) for each in _children(process.pid)]
        assert children
        assert await ended(process) == 0
    assert [pid for pid in children if alive(pid)] == []


def _children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


@pytest.mark.parametrize("moment", ["before its settings", "after its settings"])
async def test_a_dialled_guest_ends_with_0_when_the_stream_does(
    tmp_path: Path, moment: str
) -> None:
    async with dialling_guest(tmp_path) as (process, stream):
        if moment == "after its settings":
            stream.send(hello(tmp_path))
        stream.close()
        assert await ended(process) == 0


@pytest.mark.parametrize(
    "said",
    [encode(Channel.HELLO, [b"9", b""]), encode(Channel.HELLO, [b"1", b"no JSON"]), b"\xff" * 99],
)
async def test_a_dialled_guest_ends_with_0_whatever_it_hears(tmp_path: Path, said: bytes) -> None:
    async with dialling_guest(tmp_path) as (process, stream):
        stream.send(said)
        assert await ended(process) == 0


async def test_a_dialled_guest_that_cannot_connect_ends_with_0(tmp_path: Path) -> None:
    done = await asyncio.to_thread(
        subprocess.run,
        [
            *(sys.executable, "-I", "-S", LIBRARY / "reprise" / "guest" / "__main__.py"),
            *("--dial", str(tmp_path / "nowhere")),
        ],
        env={"REPRISE_TOKEN": "x"},
        capture_output=True,
    )
    assert done.returncode == 0
    assert b"FileNotFoundError" in done.stderr


async def test_goodbye_ends_a_dialled_guest_with_0(tmp_path: Path) -> None:
    async with dialling_guest(tmp_path) as (process, stream):
        stream.send(hello(tmp_path) + encode(Channel.GOODBYE, []))
        assert await ended(process) == 0


def test_a_token_is_nowhere_once_it_was_taken() -> None:
    code = (
        "import os\nfrom reprise.guest.dial import take\n"
        "token = take('REPRISE_TOKEN')\n"
        "print(token == 'sesame' * 9, 'REPRISE_TOKEN' in os.environ, "
        "b'sesame' in open('/proc/self/environ', 'rb').read(), repr(take('REPRISE_TOKEN')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"REPRISE_TOKEN": "sesame" * 9, "PYTHONPATH": str(LIBRARY)},
        capture_output=True,
        text=True,
    )
    assert done.stdout == "True False False ''\n", done.stderr


async def test_no_cell_finds_the_token(tmp_path: Path, start_cells: StartCells) -> None:
    """gVisor lets a process read the environment that another one was started with."""
    from tests.fixtures.sandbox import usable

    if why_not := usable("oci:runsc"):
        pytest.skip(why_not)
    cells = await start_cells("oci:runsc")
    code = """
import glob, os
seen = b''
for path in glob.glob('/proc/[0-9]*/environ'):
    try: seen += open(path, 'rb').read()
    except OSError: pass
found = [v for v in seen.split(b'\\0') if v.startswith((b'REPRISE_TOKEN=', b'REPRISE_ROOT_TOKEN='))]
print({v.partition(b'=')[2].strip(b'-') for v in found} <= {b''}, 'REPRISE_TOKEN' in os.environ)
try: print(os.listdir('/run/reprise/dial'))
except OSError as e: print(e)
"""
    assert (await cells.prints(code)).splitlines() == ["True False", "[]"]


# Silence and goodbye, one by one


def test_a_stream_counts_silence_and_not_what_waits_to_be_read() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert Stream(ours).wait_for_word() is None
        stream = Stream(ours, 3600.0)
        left = stream.wait_for_word()
        assert left is not None
        assert 3000 < left <= 3600
        stream.silence = 0.0
        # We were stopped for long, and the host has pinged meanwhile.
        theirs.send(encode(Channel.PING, [b"x"]))
        assert stream.wait_for_word() == 0.0
        assert [frame.channel for frame in stream.receive()] == [Channel.PING]
        with pytest.raises(StreamClosed, match="said nothing"):
            stream.wait_for_word()


@pytest.mark.parametrize("name", ["process", "bubblewrap"])
async def test_goodbye_lets_the_guest_end_by_itself_behind_all_that_was_sent(
    name: str, start_cells: StartCells, tmp_path: Path
) -> None:
    cells = await start_cells(name, kernel=quiet_kernel())
    entry = {"path": "last", "type": "file", "mode": 0o644}
    size = 12 << 20  # more than there is credit for
    putting = asyncio.ensure_future(
        cells.guest.call("put", {"entries": [entry]}, (b"x" * (size // 2),))
    )
    more = asyncio.ensure_future(
        cells.guest.call("put", {"entries": [{**entry, "append": True}]}, (b"x" * (size // 2),))
    )
    await asyncio.sleep(0)
    await asyncio.wait_for(cells.guest.goodbye(), PATIENCE)
    for each in (putting, more):
        with contextlib.suppress(Exception):
            await each
    assert cells.deaths[0].what == "killed"
    # By itself: nobody has killed it.
    assert (await cells.guest.container.wait()).code == 0
    if name == "process":
        assert (tmp_path / "workspace-0" / "last").stat().st_size == size
    await cells.guest.goodbye()
    assert len(cells.deaths) == 1


async def test_a_guest_that_ignores_goodbye_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "GOODBYE_PATIENCE", 0.05)
    guest, container, heard = await start_hostile()
    await asyncio.wait_for(Guest.goodbye(guest), PATIENCE)
    assert container.killed
    assert [cause.what for cause in heard.deaths] == ["killed"]


def test_both_ends_call_the_tokens_the_same() -> None:
    assert dial.VARIABLES == {GUEST: inside.GUEST, ROOTED: inside.ROOTED}
