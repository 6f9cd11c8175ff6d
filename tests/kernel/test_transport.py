"""Connection files, transports, encryption, and the end of a kernel process."""

from __future__ import annotations

import json
import os
import signal
import stat
import time
import uuid
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
import zmq
from jupyter_client.manager import KernelManager

from reprise.jupyter.kernelspec import write_kernelspec
from tests.fixtures.kernel import PATIENCE, Kernels, is_state


def test_a_missing_connection_file_is_written_for_its_owner_only(kernels: Kernels) -> None:
    kernel = kernels("process")
    connection = kernel.connection()
    ports = [connection[f"{name}_port"] for name in ("shell", "iopub", "stdin", "control", "hb")]
    assert len(set(ports)) == 5
    assert all(ports)
    assert len(connection["key"]) >= 32
    assert stat.S_IMODE(kernel.path.stat().st_mode) == 0o600


def test_the_heartbeat_echoes(kernels: Kernels) -> None:
    kernel = kernels("process")
    connection = kernel.connection()
    with kernels.context.socket(zmq.REQ) as socket:
        socket.linger = 0
        socket.connect(f"tcp://{connection['ip']}:{connection['hb_port']}")
        socket.send(b"beat")
        assert socket.poll(PATIENCE * 1000)
        assert socket.recv() == b"beat"


def test_ipc(kernels: Kernels, tmp_path: Path) -> None:
    path = tmp_path / "kernel-ipc.json"
    names = ("shell", "iopub", "stdin", "control", "hb")
    ports = {f"{name}_port": number + 1 for number, name in enumerate(names)}
    body = {"transport": "ipc", "ip": str(tmp_path / "s"), "key": "k" * 32, **ports}
    path.write_text(json.dumps({**body, "signature_scheme": "hmac-sha256"}))
    kernel = kernels("process", path=path)
    client = kernel.client()
    assert client.prints("print('over ipc')") == "over ipc"
    kernel.shutdown()
    assert list(tmp_path.glob("s-*")) == [], "the sockets' files are left behind"


def test_curve_encryption_keeps_others_out(kernels: Kernels, tmp_path: Path) -> None:
    public, secret = zmq.curve_keypair()
    path = tmp_path / "kernel-curve.json"
    names = ("shell", "iopub", "stdin", "control", "hb")
    sockets = [kernels.context.socket(zmq.ROUTER) for _ in names]
    ports = {
        f"{name}_port": socket.bind_to_random_port("tcp://127.0.0.1")
        for name, socket in zip(names, sockets, strict=True)
    }
    for socket in sockets:
        socket.close(linger=0)
    body = {
        "transport": "tcp",
        "ip": "127.0.0.1",
        "key": "k" * 32,
        "signature_scheme": "hmac-sha256",
        "curve_publickey": public.decode(),
        "curve_secretkey": secret.decode(),
        **ports,
    }
    path.write_text(json.dumps(body))
    kernel = kernels("process", path=path)
    client = kernel.client(curve=zmq.curve_keypair())
    assert client.prints("print('encrypted')") == "encrypted"
    with kernels.context.socket(zmq.SUB) as plain:
        plain.linger = 0
        plain.subscribe(b"")
        plain.connect(f"tcp://127.0.0.1:{ports['iopub_port']}")
        assert client.prints("print('secret')") == "secret"
        assert plain.poll(300) == 0, "a client without the key hears what cells show"


def test_jupyter_clients_own_manager_starts_interrupts_restarts_and_encrypts(
    kernels: Kernels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_kernelspec(tmp_path / "kernels" / "reprise")
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    env = {
        **os.environ,
        "REPRISE_DSN": kernels.database.dsn,
        "REPRISE_HOME": str(kernels.database.home),
        "REPRISE_BACKEND": "process",
        "REPRISE_SESSION": str(uuid.uuid4()),
    }
    manager = KernelManager(kernel_name="reprise", transport_encryption="required")
    manager.start_kernel(env=env, cwd=str(tmp_path))
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=PATIENCE)
        reply = client.execute("x = 1", reply=True, timeout=PATIENCE)
        assert reply["content"]["execution_count"] == 1
        manager.interrupt_kernel()
        # The signal may still be on its way when the next cell runs; then it interrupts that one.
        reply = client.execute("x", reply=True, timeout=PATIENCE)
        assert reply["content"].get("ename", "KeyboardInterrupt") == "KeyboardInterrupt"
        assert client.execute("x", reply=True, timeout=PATIENCE)["content"]["status"] == "ok"
        manager.restart_kernel()
        client.wait_for_ready(timeout=PATIENCE)
        reply = client.execute("x", reply=True, timeout=PATIENCE)
        assert reply["content"]["ename"] == "NameError", "a restart gives a clean interpreter"
        assert reply["content"]["execution_count"] == 1
        # A kernel that was killed and is started again by its manager is where it was.
        client.execute("y = 2", reply=True, timeout=PATIENCE)
        os.kill(manager.provisioner.pid, signal.SIGKILL)
        manager.restart_kernel(now=True)
        client.wait_for_ready(timeout=PATIENCE)
        reply = client.execute("y", reply=True, timeout=PATIENCE)
        assert reply["content"]["status"] == "ok"
    finally:
        client.stop_channels()
        manager.shutdown_kernel()
        manager.cleanup_resources()
        manager.context.destroy(linger=0)


def test_a_subscriber_is_welcomed_with_its_topic(kernels: Kernels) -> None:
    kernel = kernels("process")
    client = kernel.client()
    client.sockets["iopub"].subscribe(b"some.topic")
    heard = client.wait(
        lambda h: h.type == "iopub_welcome" and h.content["subscription"] == "some.topic"
    )
    assert heard.parent is None


@pytest.mark.parametrize("backend", ["process", "bubblewrap"])
def test_a_shutdown_leaves_nothing_behind(kernels: Kernels, backend: str) -> None:
    kernel = kernels(backend)
    client = kernel.client()
    client.run("import subprocess; p = subprocess.Popen(['sleep', '600'], start_new_session=True)")
    family = kernel.descendants()
    assert len(family) >= 3
    msg_id = client.request("shutdown_request", {"restart": False}, channel="control")
    assert client.reply(msg_id)["status"] == "ok"
    client.wait(lambda h: h.type == "shutdown_reply" and h.channel == "iopub")
    client.wait(lambda h: h.parent == msg_id and is_state(h, "idle"))
    assert kernel.wait() == 0
    assert [each for each in family if each.is_running() and each.status() != "zombie"] == []
    assert not list(kernel.path.parent.glob(f".{kernel.path.stem}*")), "the sidecar file is left"


def test_a_shutdown_ends_what_runs(kernels: Kernels) -> None:
    kernel = kernels("process")
    client = kernel.client()
    running = client.execute("import time; print('running', flush=True); time.sleep(600)")
    client.shows(running, "running")
    began = time.monotonic()
    kernel.shutdown()
    assert time.monotonic() - began < 20
    assert kernels.read(kernel).statuses() == ["interrupted"]


def test_a_shutdown_ends_what_will_not_be_interrupted(kernels: Kernels) -> None:
    kernel = kernels("process")
    client = kernel.client()
    running = client.execute(
        "import signal, time; _ = signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "print('running', flush=True); time.sleep(600)"
    )
    client.shows(running, "running")
    client.ask("shutdown_request", {"restart": False}, channel="control")
    assert kernel.wait() == 0
    recorded = kernels.read(kernel)
    assert recorded.statuses() == ["died"]
    assert recorded.cells[0].outcome is not None
    assert recorded.cells[0].outcome.new.cause == {"what": "shutdown"}


def test_a_router_ends_with_its_parent(kernels: Kernels) -> None:
    script = "{python} -m reprise.jupyter -f {file} & echo $! > {file}.pid; exec sleep 600"
    shell = kernels("process", command=["sh", "-c", script])
    client = shell.client()
    assert client.prints("print(1)") == "1"
    router = psutil.Process(int(Path(f"{shell.path}.pid").read_text()))
    family = [router, *router.children(recursive=True)]
    shell.process.kill()
    shell.process.wait()
    deadline = time.monotonic() + 30
    while any(_runs(each) for each in family):
        assert time.monotonic() < deadline, "the router outlives its parent"
        time.sleep(0.05)


def _runs(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_cleanly(kernels: Kernels, number: signal.Signals) -> None:
    kernel = kernels("process")
    assert kernel.client().prints("print(1)") == "1"
    os.kill(kernel.process.pid, number)
    assert kernel.wait() == 0
    assert kernels.read(kernel).statuses() == ["ok"]


@pytest.mark.parametrize(
    "body", ["{", "[]", '{"transport": "carrier pigeon"}', '{"ip": 3, "hb_port": "x"}']
)
def test_a_malformed_connection_file_is_named(kernels: Kernels, tmp_path: Path, body: str) -> None:
    path = tmp_path / "kernel-bad.json"
    path.write_text(body)
    kernel = kernels("process", path=path)
    assert kernel.wait() == 2
    assert "connection file" in kernel.log()
    assert "Traceback" not in kernel.log()
