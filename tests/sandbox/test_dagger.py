"""The dagger backend on a real engine: one broker for many, images once, layers for `reuse: never`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from reprise.errors import SandboxDied, SandboxError
from reprise.sandbox import dagger_broker, dagger_exec
from reprise.sandbox.backends import backend
from reprise.sandbox.connection import Guest, greet
from reprise.sandbox.contract import (
    Container,
    GuestNetwork,
    LanguageKernel,
    Mount,
    Renewable,
    SandboxSpec,
)
from reprise.sandbox.dagger import REGISTRY, DaggerContainer
from reprise.sandbox.dagger_client import broker_folder, connected_socket, status
from reprise.sandbox.dagger_shim import RUNTIME, enforcement
from tests.fixtures.dagger import REGISTRY as LOOPBACK
from tests.fixtures.dagger import DaggerHere, Engine
from tests.fixtures.sandbox import PATIENCE, Cells, StartCells, alive, ipykernel, quiet_kernel

#: For what the first use of an engine takes: an image is unpacked there.
LONG = 300.0


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.05)


def gone(process: psutil.Process) -> bool:
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def container_of(cells: Cells) -> DaggerContainer:
    container = cells.guest.container
    assert isinstance(container, DaggerContainer)
    return container


# The broker


async def test_the_sandboxes_of_a_user_share_one_broker_and_one_session(
    dagger_alone: DaggerHere, start_cells: StartCells
) -> None:
    # At once: each would start a broker.
    starting = [asyncio.create_task(asyncio.to_thread(status)) for _ in range(3)]
    first = await start_cells("dagger", kernel=quiet_kernel())
    second = await start_cells("dagger", kernel=quiet_kernel())
    await asyncio.gather(*starting)
    session = await asyncio.to_thread(status)
    (broker,) = dagger_alone.brokers()
    clients = [child.pid for child in broker.children()]
    assert clients == [session["pid"]]
    assert str(session["engine"]).lstrip("v")[0].isdigit()
    # Each has its own processes, and the end of one is none of the other.
    await first.guest.kill()
    assert not second.guest.ended.done()
    await second.call("ping")


async def test_what_others_could_read_is_closed_to_them(
    dagger_alone: DaggerHere, start_cells: StartCells
) -> None:
    await start_cells("dagger", kernel=quiet_kernel())
    folder = broker_folder()
    assert folder.stat().st_mode & 0o077 == 0
    assert (folder / "socket").stat().st_mode & 0o077 == 0
    # Nor does what they can read hold a token of the session.
    (broker,) = dagger_alone.brokers()
    for process in [broker, *broker.children()]:
        assert not [word for word in process.cmdline() if "token" in word.lower()]


KERNEL = """
import asyncio, os
from tests.fixtures.sandbox import Cells, quiet_kernel
from reprise.sandbox.backends import backend
from reprise.sandbox.connection import Guest
from reprise.sandbox.contract import SandboxSpec

async def main():
    cells = Cells()
    cells.guest = await Guest.start(backend("dagger"), SandboxSpec(kernel=quiet_kernel()), cells)
    await cells.guest.ready()
    print(cells.guest.container.pid, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_the_broker_survives_the_kernel_that_started_it_and_its_sandbox_does_not(
    dagger_alone: DaggerHere, start_cells: StartCells
) -> None:
    kernel = await asyncio.to_thread(
        subprocess.Popen, [sys.executable, "-c", KERNEL], stdout=subprocess.PIPE, text=True
    )
    assert kernel.stdout is not None
    with kernel, kernel.stdout:
        inside = int(await asyncio.to_thread(kernel.stdout.readline))
        (broker,) = dagger_alone.brokers()
        assert broker not in psutil.Process(kernel.pid).children(recursive=True)
        kernel.kill()
        kernel.wait()
    if inside not in [child.pid for child in broker.children()]:
        await until(lambda: not alive(inside))
    await start_cells("dagger", kernel=quiet_kernel())
    assert dagger_alone.brokers() == [broker]


async def test_a_killed_broker_ends_its_sandboxes_and_is_replaced(
    dagger_alone: DaggerHere, start_cells: StartCells
) -> None:
    cells = await start_cells("dagger", kernel=quiet_kernel())
    (broker,) = dagger_alone.brokers()
    broker.kill()
    cause = await cells.ended()
    assert cause.what == "vanished"
    with pytest.raises(SandboxDied):
        await cells.call("ping")
    await start_cells("dagger", kernel=quiet_kernel())
    assert len(dagger_alone.brokers()) == 1
    assert dagger_alone.brokers() != [broker]


async def test_a_session_whose_client_died_is_replaced(
    dagger_alone: DaggerHere, start_cells: StartCells
) -> None:
    cells = await start_cells("dagger", kernel=quiet_kernel())
    before = await asyncio.to_thread(status)
    os.kill(before["pid"], signal.SIGKILL)
    assert (await cells.ended()).what == "vanished"
    await start_cells("dagger", kernel=quiet_kernel())
    after = await asyncio.to_thread(status)
    assert after["pid"] != before["pid"]


async def test_a_broker_that_nobody_uses_ends(
    dagger_alone: DaggerHere, start_cells: StartCells, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(dagger_broker.IDLE_VARIABLE, "0.5")
    cells = await start_cells("dagger", kernel=quiet_kernel())
    (broker,) = dagger_alone.brokers()
    clients = broker.children()
    await cells.guest.kill()
    await until(lambda: gone(broker) and all(map(gone, clients)))
    assert connected_socket(broker_folder()) is None
    # The next one starts another.
    await start_cells("dagger", kernel=quiet_kernel())


async def test_a_worn_session_is_left_to_those_who_are_in_it(
    dagger_alone: DaggerHere, start_cells: StartCells, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dagger_broker, "SESSION_SANDBOXES", 1)
    ready = asyncio.Event()
    serving = asyncio.create_task(dagger_broker.serve(broker_folder(), LONG, ready.set))
    try:
        await ready.wait()
        first = await start_cells("dagger", kernel=quiet_kernel())
        second = await start_cells("dagger", kernel=quiet_kernel())
        clients = [
            child.pid for child in psutil.Process().children() if "session" in child.cmdline()
        ]
        assert len(clients) == 2
        await first.call("ping")
        await second.call("ping")
        await first.guest.kill()
        await until(lambda: sum(map(alive, clients)) == 1)
        await second.call("ping")
    finally:
        serving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await serving


# What is inside


async def test_nothing_of_the_engine_or_of_ours_is_left_in_the_environment(
    dagger: DaggerHere, start_cells: StartCells
) -> None:
    cells = await start_cells("dagger")
    names = json.loads(await cells.prints("import json, os; print(json.dumps(list(os.environ)))"))
    assert not [
        name
        for name in names
        if name.startswith(("REPRISE", "OTEL", "DAGGER", "_DAGGER", "TRACEPARENT"))
    ]
    who = "import os; print(os.getuid(), os.getgid(), os.getgroups())"
    assert await cells.prints(who) == "1000 1000 []"


async def test_data_is_there_read_only(
    dagger: DaggerHere, start_cells: StartCells, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "table.csv").write_text("a,b\n")
    cells = await start_cells("dagger", mounts=(Mount(data, "/data"),))
    assert await cells.prints("print(open('/data/table.csv').read())") == "a,b"
    assert (await cells.run("open('/data/table.csv', 'a')")).error == "PermissionError"


# A fresh container for every step


async def renewed(cells: Cells, spec: SandboxSpec) -> None:
    """As the engine does between two steps."""
    old = cells.guest.container
    assert isinstance(old, Renewable)
    await cells.guest.goodbye()
    new: Container = await asyncio.wait_for(old.renew(), LONG)
    await greet(new, backend("dagger"), spec)
    cells.guest = Guest.of(new, spec, cells)
    await asyncio.wait_for(cells.guest.ready(), PATIENCE)


async def test_files_go_on_in_a_fresh_container_and_nothing_else_does(
    dagger: DaggerHere, start_cells: StartCells
) -> None:
    spec = SandboxSpec(kernel=ipykernel(), reuse="never")
    cells = await start_cells("dagger", reuse="never")
    first = cells.guest.container.pid
    await cells.prints(
        "import os, subprocess; x = 1\n"
        "open('kept', 'w').write('0'); os.chmod('kept', 0o640); os.symlink('kept', 'link')\n"
        "os.mkdir('sub'); open('/tmp/left', 'w')\n"
        "p = subprocess.Popen(['sleep', '1234.5'], start_new_session=True)"
    )
    for number in (1, 2, 3):
        await renewed(cells, spec)
        code = (
            "import os\nassert 'x' not in dir()\n"
            f"assert open('kept').read() == '{number - 1}'\n"
            f"open('link', 'w').write('{number}'); x = 1\n"
            "print(oct(os.stat('kept').st_mode & 0o777), os.listdir('sub'), os.getuid(),\n"
            "      os.stat('kept').st_uid, [p for p in os.listdir('/proc') if p.isdigit() and\n"
            "      b'1234.5' in open(f'/proc/{p}/cmdline', 'rb').read()])"
        )
        assert await cells.prints(code) == "0o640 [] 1000 1000 []"
    assert cells.guest.container.pid != first
    await cells.guest.kill()


async def test_a_long_chain_is_flattened_and_the_files_stay(
    dagger_alone: DaggerHere, start_cells: StartCells, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dagger_exec, "FLATTEN_AFTER", 2)
    flattened: list[int] = []
    flatten = dagger_exec.Sandbox._flatten

    async def counted(self: dagger_exec.Sandbox, done: object) -> None:
        flattened.append(1)
        await flatten(self, done)  # type: ignore[arg-type]

    monkeypatch.setattr(dagger_exec.Sandbox, "_flatten", counted)
    ready = asyncio.Event()
    serving = asyncio.create_task(dagger_broker.serve(broker_folder(), LONG, ready.set))
    spec = SandboxSpec(kernel=quiet_kernel(), reuse="never")
    try:
        await ready.wait()
        cells = await start_cells("dagger", kernel=quiet_kernel(), reuse="never")
        entry = {"path": "kept", "type": "file", "mode": 0o600}
        for number in range(5):
            await cells.call("put", {"entries": [entry]}, (str(number).encode(),))
            await renewed(cells, spec)
            found, data = await cells.call("get", {"path": "kept", "offset": 0, "length": 100})
            assert (data, found["mode"]) == ([str(number).encode()], 0o600)
        # In layers 2, 3 (1 after flattening, and one more), 4 and 5.
        assert len(flattened) == 4
        await cells.guest.kill()
    finally:
        serving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await serving


async def test_what_was_killed_cannot_be_gone_on_with(
    dagger: DaggerHere, start_cells: StartCells
) -> None:
    cells = await start_cells("dagger", kernel=quiet_kernel(), reuse="never")
    container = container_of(cells)
    await cells.guest.kill()
    with pytest.raises(SandboxError, match="no files to go on with"):
        await container.renew()


# Without the shim, and with it


NETWORK = """
import os, socket
found = []
for family in (socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK, socket.AF_PACKET):
    try:
        kind = socket.SOCK_RAW if family == socket.AF_PACKET else socket.SOCK_DGRAM
        socket.socket(family, kind).close()
        found.append("open")
    except OSError as error:
        found.append(error.errno)
print(found, sorted(line.split(":")[0].strip() for line in list(open("/proc/net/dev"))[2:]))
"""


async def test_without_the_shim_there_is_no_socket_to_the_network(
    own_dagger: DaggerHere, own_dagger_engine: Engine, start_cells: StartCells
) -> None:
    own_dagger_engine.use(own_dagger_engine.runtime)
    cells = await asyncio.wait_for(start_cells("dagger"), LONG)
    assert not container_of(cells).report.applied
    sockets, _ = (await cells.prints(NETWORK)).rsplit(" [", 1)
    # Which interfaces there are may be asked (netlink); nothing can be sent.
    assert sockets == "[1, 1, 'open', 1]"
    # What stays works: pipes, unix sockets, processes that talk to each other.
    code = "import multiprocessing as m\nwith m.Pool(2) as p: print(p.map(abs, [-1, -2]))"
    assert await cells.prints(code) == "[1, 2]"
    said = enforcement()
    assert (
        said["memory"] == "for each process by RLIMIT_DATA, for all together by the guest's watch"
    )
    assert said["cpus"].startswith("not enforced")
    assert "seccomp" in said["network"]


async def test_without_the_shim_an_environment_with_a_network_does_not_start(
    own_dagger: DaggerHere, own_dagger_engine: Engine, start_cells: StartCells
) -> None:
    own_dagger_engine.use(own_dagger_engine.runtime)
    with pytest.raises(SandboxError, match=r"runtime shim.*docs/dagger\.md"):
        await start_cells("dagger", kernel=quiet_kernel(), network=GuestNetwork())


async def test_without_the_shim_no_runtime_can_be_chosen(
    own_dagger: DaggerHere,
    own_dagger_engine: Engine,
    start_cells: StartCells,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own_dagger_engine.use(own_dagger_engine.runtime)
    monkeypatch.setenv(RUNTIME, "runsc")
    with pytest.raises(SandboxError, match=f"{RUNTIME}=runsc"):
        await start_cells("dagger", kernel=quiet_kernel())


async def test_with_the_shim_there_is_loopback_and_nothing_else(
    own_dagger: DaggerHere, own_dagger_engine: Engine, start_cells: StartCells
) -> None:
    own_dagger_engine.use_shim()
    cells = await asyncio.wait_for(start_cells("dagger"), LONG)
    report = container_of(cells).report
    assert (report.applied, report.network) == (True, "none")
    found = await cells.prints(NETWORK)
    assert found.endswith("['lo']")
    assert found.startswith("['open', 'open', 'open'")
    assert enforcement()["cpus"].startswith("by a control group")


# Images


async def test_an_image_is_published_once_and_again_when_the_registry_lost_it(
    own_dagger: DaggerHere,
    own_dagger_engine: Engine,
    start_cells: StartCells,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(REGISTRY, f"{LOOPBACK}/team")
    said: list[str] = []

    async def start() -> None:
        spec = SandboxSpec(kernel=small_kernel())
        cells = Cells()
        cells.guest = await Guest.start(backend("dagger"), spec, cells, said.append)
        await cells.guest.kill()

    images = own_dagger.home / "images" / "dagger"
    images.unlink()
    images.mkdir()
    await asyncio.wait_for(start(), LONG)
    assert any("making an image" in text for text in said)
    assert any(f"publishing the environment's image to {LOOPBACK}/team" in text for text in said)
    (kept,) = images.iterdir()  # the archive is gone
    published = json.loads(kept.read_text())["published"]
    name = published[f"{LOOPBACK}/team"]
    assert name.startswith(f"{LOOPBACK}/team/reprise-environment:")
    assert "@sha256:" in name

    # Another session, another engine's cache: pulled by its digest, made by nobody.
    said.clear()
    own_dagger.end_brokers()
    own_dagger_engine.end(signal.SIGTERM)
    own_dagger_engine.forget()
    own_dagger_engine.start()
    await asyncio.wait_for(start(), LONG)
    assert not [text for text in said if "making" in text or "publishing" in text]

    said.clear()
    own_dagger.end_brokers()
    own_dagger_engine.end(signal.SIGTERM)
    own_dagger_engine.forget()
    own_dagger_engine.lose_images()
    own_dagger_engine.start()
    await asyncio.wait_for(start(), LONG)
    assert "the registry no longer has the environment's image; it is made again" in said
    assert any("publishing" in text for text in said)


def small_kernel() -> LanguageKernel:
    """A kernel whose environment is small: the base Python, the packages of which are few."""
    return quiet_kernel()


async def test_an_environment_may_be_an_image_of_a_layout(
    dagger: DaggerHere, start_cells: StartCells, tmp_path: Path
) -> None:
    # A first start makes the archive of this environment; as a layout it is somebody's image.
    await asyncio.wait_for(start_cells("dagger", kernel=quiet_kernel()), LONG)
    archives = list((dagger.home / "images" / "dagger").glob("*.tar"))
    archive = max(archives, key=lambda path: path.stat().st_mtime)
    layout = tmp_path / "layout"
    layout.mkdir()
    await asyncio.to_thread(subprocess.run, ["tar", "-xf", archive, "-C", layout], check=True)
    (described,) = json.loads((layout / "index.json").read_text())["manifests"]
    image = f"oci:{layout}@{described['digest']}"
    kernel = LanguageKernel("quiet", "python", quiet_kernel().argv, ())
    cells = await asyncio.wait_for(start_cells("dagger", kernel=kernel, image=image), LONG)
    await cells.call("ping")
    without = LanguageKernel("quiet", "python", ("/no/python",), ())
    with pytest.raises(SandboxError, match=r"ended as soon as it was started.*Python 3\.11"):
        await start_cells("dagger", kernel=without, image=image)


@pytest.mark.parametrize(
    ("image", "said"),
    [
        (f"{LOOPBACK}/no/such@sha256:{'0' * 64}", "is not in its registry|cannot be pulled"),
        (f"localhost:1/no/such@sha256:{'0' * 64}", "cannot be pulled by the Dagger engine"),
        (f"oci:/no/layout@sha256:{'0' * 64}", "cannot be read from /no/layout"),
    ],
)
async def test_an_image_that_is_not_there_says_so(
    own_dagger: DaggerHere, start_cells: StartCells, image: str, said: str
) -> None:
    kernel = LanguageKernel("quiet", "python", quiet_kernel().argv, ())
    with pytest.raises(SandboxError, match=said):
        await start_cells("dagger", kernel=kernel, image=image)


async def test_a_registry_that_cannot_be_reached_says_so(
    dagger: DaggerHere, start_cells: StartCells, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(REGISTRY, "localhost:1")
    with pytest.raises(
        SandboxError, match=r"localhost:1 \(REPRISE_REGISTRY\).*Nothing was started"
    ):
        await start_cells("dagger", kernel=quiet_kernel())


# The engine goes away


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
async def test_an_engine_that_goes_ends_the_sandbox_and_the_next_start_finds_it_again(
    own_dagger: DaggerHere, own_dagger_engine: Engine, start_cells: StartCells, number: int
) -> None:
    cells = await asyncio.wait_for(start_cells("dagger"), LONG)
    cells.execute("import time\nwhile True: time.sleep(1)")
    await asyncio.to_thread(own_dagger_engine.end, number)
    cause = await cells.ended()
    assert cause.what == "vanished"
    began = time.monotonic()
    with pytest.raises(SandboxError, match=r"no Dagger engine to be reached at unix:"):
        await start_cells("dagger", kernel=quiet_kernel())
    assert time.monotonic() - began < LONG
    await asyncio.to_thread(own_dagger_engine.start)
    again = await asyncio.wait_for(start_cells("dagger"), LONG)
    assert await again.prints("print(1 + 1)") == "2"


async def test_an_engine_that_lost_its_cache_is_given_the_image_again(
    own_dagger: DaggerHere, own_dagger_engine: Engine, start_cells: StartCells
) -> None:
    await asyncio.wait_for(start_cells("dagger", kernel=quiet_kernel()), LONG)
    await asyncio.to_thread(own_dagger_engine.end, signal.SIGKILL)
    own_dagger_engine.forget()
    await asyncio.to_thread(own_dagger_engine.start)
    again = await asyncio.wait_for(start_cells("dagger"), LONG)
    assert await again.prints("print(1 + 1)") == "2"
