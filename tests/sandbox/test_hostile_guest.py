"""A guest that wants to harm the host: whatever it says, the host lives, bounded, and knows."""

from __future__ import annotations

import asyncio
import contextlib
import json
import resource
import socket
import struct
import threading

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reprise.errors import ProtocolViolation, SandboxDied, SandboxError, TooLarge
from reprise.sandbox import connection
from reprise.sandbox.commands import Command, CommandEnd, StreamEnd
from reprise.sandbox.connection import Guest
from reprise.sandbox.contract import DeathCause, Limits, Said, SandboxSpec, silent
from reprise.sandbox.frames import WINDOWS, Channel, Decoder, encode, encode_grant
from tests.fixtures.sandbox import PATIENCE, ipykernel

HELLO = encode(Channel.HELLO, [b"1", b""])
MESSAGE = [b"c", b"{}", b"{}", b"{}", b"{}"]


class HostileContainer:
    """A container whose guest is this test: the other end of the stream is `peer`."""

    def __init__(self) -> None:
        self.stream, self.peer = socket.socketpair()
        self.pid = 0
        self.workspace = "/workspace"
        self.killed = False

    async def wait(self) -> DeathCause:
        return DeathCause("vanished", detail="the peer left")

    def memory_exceeded(self) -> int | None:
        return None

    async def kill(self) -> None:
        if not self.killed:
            self.killed = True
            with contextlib.suppress(OSError):
                self.peer.shutdown(socket.SHUT_RDWR)  # wakes a thread that waits in recv
            self.peer.close()


class HostileBackend:
    name = "hostile"
    isolation = "Isolated from nothing, it is a test."
    isolated = True

    def __init__(self) -> None:
        self.container = HostileContainer()

    def check(self) -> list[str]:
        return []

    async def start(self, spec: SandboxSpec, said: Said = silent) -> HostileContainer:
        return self.container


class Heard:
    def __init__(self) -> None:
        self.messages = 0
        self.size = 0
        self.deaths: list[DeathCause] = []

    def message(self, channel: Channel, parts: list[bytes]) -> None:
        self.messages += 1
        self.size += sum(map(len, parts))

    def died(self, cause: DeathCause) -> None:
        self.deaths.append(cause)


async def start(limits: Limits | None = None) -> tuple[Guest, HostileContainer, Heard]:
    backend, heard = HostileBackend(), Heard()
    spec = SandboxSpec(ipykernel(), limits=limits or Limits())
    guest = await Guest.start(backend, spec, heard)
    return guest, backend.container, heard


async def end(guest: Guest, container: HostileContainer) -> None:
    await guest.kill()


async def says(wire: bytes, limits: Limits | None = None) -> tuple[DeathCause, Heard]:
    """How it ends when a guest says this and nothing more; the host must act by itself."""
    guest, container, heard = await start(limits)
    talking = asyncio.get_running_loop().run_in_executor(None, push, container.peer, wire)
    try:
        cause = await asyncio.wait_for(asyncio.shield(guest.ended), PATIENCE)
        await talking
        assert container.killed
        assert heard.deaths == [cause]
        with pytest.raises(SandboxDied):
            await guest.call("ping")
        return cause, heard
    finally:
        await end(guest, container)


def push(peer: socket.socket, wire: bytes) -> None:
    with contextlib.suppress(OSError):  # the host hung up, as it should
        peer.sendall(wire)


LIES = {
    "no such channel": struct.pack(">IBH", 3, 77, 0),
    "a length that never ends": struct.pack(">IBH", 0xFFFFFFFF, Channel.IOPUB, 5),
    "parts that do not add up": struct.pack(">IBHI", 20, Channel.IOPUB, 1, 99) + bytes(20),
    "a message of too few parts": encode(Channel.IOPUB, [b"topic"]),
    "the host's own frames": encode(Channel.CALL, [b"\0\0\0\1", b"{}"]),
    "a ping": encode(Channel.PING, [b"x"]),
    "a pong for no ping": encode(Channel.PONG, [b"x"]),
    "a second hello": HELLO,
    "an answer never asked": encode(Channel.ANSWER, [b"\0\0\0\0", b'{"ok": true}']),
    "an answer without a body": encode(Channel.ANSWER, [b"\0\0\0\0"]),
    "an answer with a crooked id": encode(Channel.ANSWER, [b"\0", b"{}"]),
    "credit never used": encode_grant(Channel.SHELL, 1),
    "credit for no channel": encode(Channel.CREDIT, [struct.pack(">BI", 42, 1)]),
    "malformed credit": encode(Channel.CREDIT, [b""]),
    "an event that does not exist": encode(Channel.EVENT, [b'{"event": "promoted"}']),
    "an event that is no JSON": encode(Channel.EVENT, [b"\xff\xfe"]),
    "an event nested without end": encode(Channel.EVENT, [b"[" * 500_000]),
    "an event that is a list": encode(Channel.EVENT, [b"[]"]),
    "ready without kernel_info": encode(Channel.EVENT, [b'{"event": "ready"}']),
    "ready twice": encode(Channel.EVENT, [b'{"event": "ready", "kernel_info": {}}']) * 2,
    "a death without a cause": encode(Channel.EVENT, [b'{"event": "died", "what": "boredom"}']),
}


@pytest.mark.parametrize("lie", LIES)
async def test_a_lie_ends_the_sandbox_as_a_violation(lie: str) -> None:
    cause, _heard = await says(HELLO + LIES[lie])
    assert cause.what == "violation", cause
    assert cause.detail


def end_of(**changed: object) -> bytes:
    """An answer to call 0 as an honest guest would give it, but for what is changed."""
    stream = {"bytes": 3, "lines": 1, "cut": False, "file": None}
    body: dict[str, object] = {
        "ok": True,
        "exit_code": 0,
        "signal": None,
        "timed_out": False,
        "duration_us": 12,
        "stdout": stream | dict(changed.pop("stdout", {})),  # type: ignore[call-overload]
        "stderr": stream | {"bytes": 0, "lines": 0},
    }
    return encode(Channel.ANSWER, [b"\0\0\0\0", json.dumps(body | changed).encode()])


def wrote(*parts: bytes, call: bytes = b"\0\0\0\0") -> bytes:
    return encode(Channel.COMMAND, [call, *parts])


OUT = wrote(b"o", b"12\n")
FILE = ".reprise/commands/c/stdout"

COMMAND_LIES = {
    "output of no call": wrote(b"o", b"x", call=b"\0\0\0\1"),
    "output of a crooked call": wrote(b"o", b"x", call=b"\0"),
    "output without parts": encode(Channel.COMMAND, []),
    "output without data": wrote(b"o"),
    "empty output": wrote(b"o", b""),
    "output of a third stream": wrote(b"x", b"x"),
    "output with more parts": wrote(b"o", b"x", b"y"),
    "more bytes than asked for": wrote(b"o", b"x" * 101),
    "more bytes, bit by bit": wrote(b"e", b"x" * 60) * 2,
    "more lines than asked for": wrote(b"o", b"\n" * 6),
    "half a line more": wrote(b"o", b"\n" * 5 + b"x"),
    "another line after the last": wrote(b"o", b"\n" * 5) + wrote(b"o", b"x"),
    "output after the end": OUT + end_of() + OUT,
    "two ends": OUT + end_of() * 2,
    "an end that forgets output": OUT + end_of(stdout={"bytes": 0, "lines": 0}),
    "an end of output that never came": end_of(),
    "an end of more output than came": OUT + end_of(stdout={"bytes": 4}),
    "an end of more lines than came": OUT + end_of(stdout={"lines": 2}),
    "a cut where nothing is missing": OUT + end_of(stdout={"cut": True}),
    "a cut before what came": OUT + end_of(stdout={"cut": True, "bytes": 9, "lines": 0}),
    "a file of another's": OUT + end_of(stdout={"cut": True, "bytes": 9, "file": "secret"}),
    "a file that leads out": OUT + end_of(stdout={"cut": True, "bytes": 9, "file": "../x"}),
    "a file for nothing": OUT + end_of(stdout={"file": FILE}),
    "a file that is a number": OUT + end_of(stdout={"cut": True, "bytes": 9, "file": 1}),
    "a stream that is none": OUT + end_of(stderr=7),
    "a stream that is missing": OUT + end_of(stderr=None),
    "bytes that are none": OUT + end_of(stdout={"bytes": "3"}),
    "bytes below zero": end_of(stdout={"bytes": -1, "lines": 0, "cut": True}),
    "bytes beyond all": OUT + end_of(stdout={"bytes": 1 << 80, "cut": True}),
    "a flag that is none": OUT + end_of(timed_out=1),
    "no exit code and no signal": OUT + end_of(exit_code=None),
    "exit code and signal": OUT + end_of(signal=9),
    "an exit code beyond all": OUT + end_of(exit_code=256),
    "an exit code below zero": OUT + end_of(exit_code=-9),
    "an exit code that is none": OUT + end_of(exit_code=True),
    "a signal that is none": OUT + end_of(exit_code=None, signal=0),
    "a signal beyond all": OUT + end_of(exit_code=None, signal=65),
    "a time that is none": OUT + end_of(duration_us=1.5),
    "data with an end": encode(Channel.ANSWER, [b"\0\0\0\0", b'{"ok": true}', b"x"]),
}


def command(**changed: object) -> Command:
    wanted: dict[str, object] = {"name": "c", "shell": "x", "output_bytes": 100, "output_lines": 5}
    return Command(**(wanted | changed))  # type: ignore[arg-type]


async def runs(wire: bytes, wanted: Command) -> tuple[CommandEnd | Exception, bytes]:
    """What a command comes to when a guest says this."""
    guest, container, _heard = await start()
    heard = bytearray()
    try:
        call = guest.run_command(wanted, b"", lambda _stream, data: heard.extend(data))
        running = asyncio.ensure_future(call)
        await asyncio.sleep(0)
        await asyncio.to_thread(push, container.peer, HELLO + wire)
        with contextlib.suppress(OSError):  # the host may have hung up first
            container.peer.shutdown(socket.SHUT_WR)
        (found,) = await asyncio.wait_for(asyncio.gather(running, return_exceptions=True), PATIENCE)
        cause = await asyncio.wait_for(asyncio.shield(guest.ended), PATIENCE)
        if isinstance(found, BaseException):
            assert isinstance(found, SandboxDied), found
            assert found.cause == cause
        return found, bytes(heard)
    finally:
        await end(guest, container)


async def test_an_honest_end_of_a_command_is_believed() -> None:
    found, heard = await runs(OUT + end_of(), command())
    assert isinstance(found, CommandEnd)
    assert (found.exit_code, found.stdout, heard) == (0, StreamEnd(3, 1, False, None), b"12\n")
    cut = {"cut": True, "bytes": 9, "lines": 3, "file": FILE}
    found, _ = await runs(OUT + end_of(stdout=cut, exit_code=None, signal=64), command())
    assert isinstance(found, CommandEnd)
    assert (found.signal, found.stdout) == (64, StreamEnd(9, 3, True, FILE))


@pytest.mark.parametrize("lie", COMMAND_LIES)
async def test_a_lie_about_a_command_is_a_violation_and_nothing_over_its_bounds_is_heard(
    lie: str,
) -> None:
    guest, container, _heard = await start()
    heard = bytearray()
    call = guest.run_command(command(), b"", lambda _stream, data: heard.extend(data))
    running = asyncio.ensure_future(call)
    await asyncio.sleep(0)
    await asyncio.to_thread(push, container.peer, HELLO + COMMAND_LIES[lie])
    cause = await asyncio.wait_for(asyncio.shield(guest.ended), PATIENCE)
    assert cause.what == "violation", cause
    (found,) = await asyncio.gather(running, return_exceptions=True)
    # After an honest end the lie came too late for the command, not for the sandbox.
    assert isinstance(
        found, CommandEnd if lie in ("output after the end", "two ends") else ProtocolViolation
    )
    assert len(heard) <= 100
    assert heard.count(b"\n") <= 5
    await end(guest, container)


async def test_a_background_command_that_writes_to_the_host_is_a_violation() -> None:
    found, heard = await runs(OUT, command(background=True))
    assert isinstance(found, ProtocolViolation)
    assert heard == b""


LISTED = {
    "name": "c",
    "pid": 2,
    "running": False,
    "exit_code": 0,
    "signal": None,
    "started_us": 1,
}


@pytest.mark.parametrize(
    "commands",
    [
        None,
        {},
        [1],
        [LISTED] * 1001,
        [LISTED | {"name": "../x"}],
        [LISTED | {"name": 1}],
        [LISTED | {"pid": -1}],
        [LISTED | {"pid": None}],
        [LISTED | {"running": "yes"}],
        [LISTED | {"exit_code": None}],
        [LISTED | {"signal": 9}],
        [LISTED | {"started_us": 1.0}],
    ],
)
async def test_a_listing_that_is_none_is_a_violation(commands: object) -> None:
    guest, container, _heard = await start()
    call = asyncio.ensure_future(guest.commands())
    await asyncio.sleep(0)
    body = json.dumps({"ok": True, "commands": commands}).encode()
    container.peer.sendall(HELLO + encode(Channel.ANSWER, [b"\0\0\0\0", body]))
    with pytest.raises(ProtocolViolation):
        await asyncio.wait_for(call, PATIENCE)
    await end(guest, container)


async def test_a_command_that_is_given_too_much_is_refused_before_the_guest_hears_of_it() -> None:
    guest, container, _heard = await start()
    with pytest.raises(TooLarge, match="standard input"):
        await guest.run_command(command(), bytes(13 << 20), lambda *_: None)
    with pytest.raises(TooLarge):
        await guest.run_command(command(shell="x" * (17 << 20)), b"", lambda *_: None)
    await end(guest, container)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.one_of(
            st.builds(wrote, st.sampled_from([b"o", b"e", b"x"]), st.binary(max_size=60)),
            st.builds(
                lambda parts: encode(Channel.COMMAND, parts),
                st.lists(st.binary(max_size=6), max_size=4),
            ),
            st.builds(
                lambda name, value: end_of(**{name: value}),
                st.sampled_from(["exit_code", "signal", "timed_out", "duration_us", "stderr"]),
                st.recursive(
                    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
                    lambda inner: (
                        st.lists(inner, max_size=3)
                        | st.dictionaries(st.text(max_size=5), inner, max_size=3)
                    ),
                ),
            ),
            st.sampled_from(sorted(COMMAND_LIES)),
        ),
        max_size=8,
    )
)
def test_whatever_a_guest_says_of_a_command_it_keeps_to_its_bounds(
    chunks: list[bytes | str],
) -> None:
    wire = b"".join(COMMAND_LIES[part] if isinstance(part, str) else part for part in chunks)
    _found, heard = asyncio.run(runs(wire, command()))
    assert len(heard) <= 200  # of both streams
    assert heard.count(b"\n") <= 10


@pytest.mark.parametrize(
    "first", [encode(Channel.IOPUB, MESSAGE), encode(Channel.HELLO, [b"2", b""])]
)
async def test_without_a_proper_hello_nothing_is_heard(first: bytes) -> None:
    cause, heard = await says(first)
    assert cause.what == "violation"
    assert heard.messages == 0


async def test_a_message_over_the_sessions_limit_is_refused() -> None:
    wire = encode(Channel.IOPUB, [*MESSAGE, bytes(2 << 20)])
    cause, heard = await says(HELLO + wire, Limits(message=1 << 20))
    assert cause.what == "violation"
    assert heard.messages == 0


async def test_a_death_report_may_hold_nonsense_but_not_harm() -> None:
    event = {
        "event": "died",
        "what": "signal",
        "signal": "9",
        "code": 1 << 90,
        "detail": "x" * 99_999,
    }
    cause, _ = await says(HELLO + encode(Channel.EVENT, [json.dumps(event).encode()]))
    assert (cause.what, cause.signal, cause.code) == ("signal", None, None)
    assert len(cause.detail) <= 4096


async def test_a_violation_fails_calls_that_wait() -> None:
    guest, container, _heard = await start()
    call = asyncio.ensure_future(guest.call("ping"))
    await asyncio.sleep(0)
    container.peer.sendall(HELLO + LIES["a ping"])
    with pytest.raises(ProtocolViolation):
        await asyncio.wait_for(call, PATIENCE)
    await end(guest, container)


async def test_a_flood_without_credit_is_cut_off() -> None:
    guest, container, heard = await start()
    guest.hold()
    frame = encode(Channel.IOPUB, [*MESSAGE, bytes(60_000)])
    flooding = asyncio.get_running_loop().run_in_executor(
        None, push, container.peer, HELLO + frame * 400
    )
    cause = await asyncio.wait_for(asyncio.shield(guest.ended), PATIENCE)
    await flooding
    assert cause.what == "violation"
    assert "without credit" in cause.detail
    assert heard.size <= WINDOWS[Channel.IOPUB] + len(frame)
    await end(guest, container)


async def test_a_frame_that_never_ends_holds_little_and_blocks_nobody() -> None:
    guest, container, heard = await start()
    head = struct.pack(">IBHI", (6 << 20), Channel.IOPUB, 1, (6 << 20) - 7)
    container.peer.sendall(HELLO + head + bytes(1000))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not guest.ended.done()
    assert heard.messages == 0
    await asyncio.wait_for(guest.kill(), PATIENCE)
    assert guest.ended.result().what == "killed"
    await end(guest, container)


async def test_one_that_reads_nothing_is_noticed_by_the_sender() -> None:
    guest, container, _heard = await start()
    container.peer.sendall(HELLO)
    message = [b"c", b"{}", b"{}", b"{}", bytes(8 << 20)]
    for _ in range(connection.MAX_QUEUED // (9 << 20)):
        guest.send(Channel.SHELL, message)
    with pytest.raises(SandboxError, match="not taken"):
        for _ in range(5):
            guest.send(Channel.SHELL, message)
    await end(guest, container)


async def test_silence_is_noticed_but_not_when_we_slept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "PING_INTERVAL", 0.02)
    monkeypatch.setattr(connection, "PING_PATIENCE", 0.1)
    guest, container, _heard = await start()
    container.peer.sendall(HELLO)
    cause = await asyncio.wait_for(asyncio.shield(guest.ended), PATIENCE)
    assert cause.what == "vanished"
    assert "said nothing" in cause.detail
    await end(guest, container)


async def test_answered_pings_keep_it_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "PING_INTERVAL", 0.01)
    guest, container, _heard = await start()
    pings = []
    container.peer.sendall(HELLO)

    def answer() -> None:
        decoder = Decoder()
        while len(pings) < 10:
            data = container.peer.recv(1 << 16)
            if not data:
                return
            for frame in decoder.feed(data):
                if frame.channel is Channel.PING:
                    pings.append(frame.parts[0])
                    container.peer.sendall(encode(Channel.PONG, frame.parts))

    await asyncio.wait_for(asyncio.to_thread(answer), PATIENCE)
    assert len(set(pings)) == 10
    assert not guest.ended.done()
    await end(guest, container)


async def test_an_endless_flood_of_small_messages_keeps_memory_bounded() -> None:
    """A guest that honours credit may send for ever: the host keeps nothing of it."""
    guest, container, heard = await start()
    stop = threading.Event()

    def flood() -> None:
        peer, decoder, balance = container.peer, Decoder(), WINDOWS[Channel.IOPUB]
        frame = encode(Channel.IOPUB, [*MESSAGE, bytes(100)])
        batch = frame * 200
        peer.sendall(HELLO)
        try:
            while not stop.is_set():
                while balance > len(batch):
                    peer.sendall(batch)
                    balance -= len(batch)
                for received in decoder.feed(peer.recv(1 << 16)):
                    if received.channel is Channel.CREDIT:
                        balance += struct.unpack(">BI", received.parts[0])[1]
        except OSError:
            pass

    flooding = asyncio.get_running_loop().run_in_executor(None, flood)
    before = 0
    while heard.messages < 300_000:
        await asyncio.sleep(0.01)
        if heard.messages > 50_000 and not before:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 16 << 10
    assert not guest.ended.done()
    stop.set()
    await end(guest, container)
    await flooding


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.one_of(
            st.binary(max_size=200),
            st.builds(
                encode,
                st.sampled_from([c for c in Channel if c not in (Channel.CREDIT, Channel.PONG)]),
                st.lists(st.binary(max_size=6), max_size=6),
            ),
            st.sampled_from(sorted(LIES)),
        ),
        max_size=12,
    )
)
def test_whatever_a_guest_says_the_host_lives_and_tells_at_most_one_death(
    chunks: list[bytes | str],
) -> None:
    # A lie goes by its name: some are too long to be shown.
    wire = HELLO + b"".join(LIES[part] if isinstance(part, str) else part for part in chunks)

    async def attack() -> None:
        guest, container, heard = await start()
        await asyncio.to_thread(push, container.peer, wire)
        with contextlib.suppress(OSError):  # the host may have hung up first
            container.peer.shutdown(socket.SHUT_WR)
        cause = await asyncio.wait_for(asyncio.shield(guest.ended), PATIENCE)
        assert cause.what in ("violation", "vanished", "signal", "exit", "memory")
        assert heard.deaths == [cause]
        await end(guest, container)

    asyncio.run(attack())
