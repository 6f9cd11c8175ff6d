"""Containers really started by the shim: limits hold, the network is shut, every verb finds them."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest

from tests.fixtures.sandbox import PATIENCE
from tests.fixtures.shim import Installed, bundle, fresh_id, settings

PYTHON = "/usr/bin/python3"
if not Path(PYTHON).exists():
    pytest.skip(
        f"NOT TESTED: the runtime shim with real runtimes (no {PYTHON})", allow_module_level=True
    )

EAT = """
held = []
for number in range(128):
    held.append(bytearray(8 << 20))
    print((number + 1) * 8, flush=True)
"""
FORK = """
import os, time
made = 0
try:
    while made < 600:
        if os.fork() == 0:
            time.sleep(600)
        made += 1
except OSError as error:
    print(type(error).__name__, end=" ")
print(made, flush=True)
"""


def run(
    shim: Installed, folder: Path, runtime: str, code: str, **asked: object
) -> subprocess.CompletedProcess[str]:
    """Runs Python code in a container of ours, as Dagger's engine runs it."""
    env = settings(RUNTIME=runtime, **{"NETWORK": "none", **asked})
    made = bundle(folder, env, (PYTHON, "-IS", "-c", code))
    id_ = fresh_id()
    shim.made.append((id_,))
    done = shim.call("run", "--bundle", str(made), "--keep", id_)
    deleted = shim.call("delete", id_)
    assert deleted.returncode == 0, deleted.stderr
    assert not list(shim.records.glob(f"*{id_}*"))
    return done


def test_the_memory_limit_ends_what_passes_it(
    real_shim: Installed, tmp_path: Path, oci_runtime: str
) -> None:
    done = run(real_shim, tmp_path, oci_runtime, EAT, MEMORY=128 << 20)
    assert done.returncode in (137, 128 + signal.SIGKILL, 2), done.stderr
    reached = int(done.stdout.split()[-1])
    assert 16 <= reached < 128
    free = run(real_shim, tmp_path / "free", oci_runtime, EAT)
    assert (free.returncode, free.stdout.split()[-1]) == (0, "1024"), free.stderr


def test_the_process_limit_stops_a_fork_bomb(
    real_shim: Installed, tmp_path: Path, oci_runtime: str
) -> None:
    done = run(real_shim, tmp_path, oci_runtime, FORK, PIDS=64, MEMORY=2 << 30)
    if oci_runtime == "runsc":
        # gVisor's own threads are counted with it, and at the limit it ends (docs/dagger.md).
        assert done.returncode != 0
        assert "600" not in done.stdout
    else:
        name, made = done.stdout.split()
        assert name == "BlockingIOError"
        assert 32 <= int(made) <= 64


def test_processor_time_is_a_quota_of_the_control_group(
    real_shim: Installed, tmp_path: Path, oci_runtime: str
) -> None:
    env = settings(RUNTIME=oci_runtime, CPUS="0.25", PIDS=64, NETWORK="none")
    made = bundle(tmp_path, env, (PYTHON, "-IS", "-c", "import time; time.sleep(600)"))
    id_ = fresh_id()
    real_shim.made.append((id_,))
    with subprocess.Popen(
        real_shim.command("run", "--bundle", str(made), "--keep", id_)
    ) as running:
        state = _state(real_shim, id_)
        while state["status"] != "running":
            state = _state(real_shim, id_)
        assert quota(state["pid"]) == (25_000, 100_000)
        assert real_shim.call("kill", id_, "KILL").returncode == 0
        assert running.wait(PATIENCE) != 0
    assert real_shim.call("delete", id_).returncode == 0


def _state(shim: Installed, id_: str) -> dict[str, object]:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        done = shim.call("state", id_)
        if done.returncode == 0:
            return dict(json.loads(done.stdout))
    raise AssertionError(done.stderr)


def quota(pid: object) -> tuple[int, int]:
    """(quota, period) of a process's control group, of either version."""
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        if "cpu" in names.split(","):
            folder = Path("/sys/fs/cgroup/cpu") / path.lstrip("/")
            read = [(folder / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period")]
            return int(read[0]), int(read[1])
    folder = Path("/sys/fs/cgroup") / path.lstrip("/")
    first, second = (folder / "cpu.max").read_text().split()
    return int(first), int(second)


LOOK = """
import json, os, socket
told = dict(line.split(":", 1) for line in open("/proc/self/status"))
def reaches(address):
    try:
        socket.create_connection(address, 5).close()
        return True
    except OSError:
        return False
server = socket.create_server(("127.0.0.1", 0))
try:
    os.mknod("/dev/x", 0o20600, os.makedev(1, 1))
    os.close(os.open("/dev/x", os.O_RDONLY))  # the machine's memory
    device = True
except OSError:
    device = False
print(json.dumps({
    "interfaces": [line.split(":")[0].strip() for line in open("/proc/net/dev") if ":" in line],
    "itself": reaches(server.getsockname()),
    "host": reaches(("127.0.0.1", PORT)),
    "held": [told[name].strip() for name in ("CapPrm", "CapEff", "CapBnd", "CapInh")],
    "gains": told.get("NoNewPrivs", "1").strip(),
    "env": {k: v for k, v in os.environ.items() if k.startswith("REPRISE")},
    "device": device,
}))
"""


def test_nothing_but_loopback_and_six_capabilities_is_left(
    real_shim: Installed, tmp_path: Path, oci_runtime: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        code = LOOK.replace("PORT", str(server.getsockname()[1]))
        done = run(real_shim, tmp_path, oci_runtime, code, NETWORK="none", MEMORY=1 << 29)
    assert done.returncode == 0, done.stderr
    saw = json.loads(done.stdout)
    assert saw["interfaces"] == ["lo"]
    assert (saw["itself"], saw["host"], saw["device"]) == (True, False, False)
    held = sum(1 << number for number in (0, 1, 3, 5, 6, 7))
    assert [int(each, 16) for each in saw["held"]] == [held, held, held, 0]
    assert saw["gains"] == "1"
    assert list(saw["env"]) == ["REPRISE_SHIM_APPLIED"]
    applied = json.loads(saw["env"]["REPRISE_SHIM_APPLIED"])
    assert applied["network"] == "none"
    assert applied["runtime"] == oci_runtime
    assert applied["memory"] == 1 << 29


def test_with_the_engines_network_its_namespace_is_kept(
    real_shim: Installed, tmp_path: Path
) -> None:
    """The other way round, so that the test before can fail: loopback is the engine's."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        code = LOOK.replace("PORT", str(server.getsockname()[1]))
        done = run(real_shim, tmp_path, "runc", code, NETWORK="engine")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["host"] is True


DROP = """
import os, signal
os.makedirs("/tmp/workspace")
os.chown("/tmp/workspace", 1000, 1000)
reader, writer = os.pipe()
child = os.fork()
if child == 0:
    os.setgroups([])
    os.setresgid(1000, 1000, 1000)
    os.setresuid(1000, 1000, 1000)
    open("/tmp/workspace/a", "w").close()
    os.write(writer, next(line for line in open("/proc/self/status") if "CapEff" in line).encode())
    signal.pause()
print(int(os.read(reader, 99).split()[1], 16), os.stat("/tmp/workspace/a").st_uid)
os.kill(child, signal.SIGKILL)
print(os.WTERMSIG(os.waitpid(child, 0)[1]))
os.remove("/tmp/workspace/a")
"""


def test_a_rooted_parent_can_do_its_work(
    real_shim: Installed, tmp_path: Path, oci_runtime: str
) -> None:
    """Give files away, become an ordinary user, end what that user runs: no_new_privs or not."""
    done = run(real_shim, tmp_path, oci_runtime, DROP, NETWORK="none", PIDS=64, MEMORY=1 << 29)
    assert (done.returncode, done.stdout.split()) == (0, ["0", "1000", "9"]), done.stderr


def test_a_killed_run_is_cleaned_up_by_delete(
    real_shim: Installed, tmp_path: Path, oci_runtime: str
) -> None:
    """An engine that crashes leaves the container; the next one deletes it by its id."""
    env = settings(RUNTIME=oci_runtime, PIDS=64, NETWORK="none")
    made = bundle(tmp_path, env, (PYTHON, "-IS", "-c", "import time; time.sleep(600)"))
    id_ = fresh_id()
    real_shim.made.append((id_,))
    with subprocess.Popen(
        real_shim.command("run", "--bundle", str(made), "--keep", id_), start_new_session=True
    ) as running:
        while _state(real_shim, id_)["status"] != "running":
            pass
        pid = _state(real_shim, id_)["pid"]
        os.killpg(running.pid, signal.SIGKILL)
        running.wait(PATIENCE)
    done = real_shim.call("delete", "--force", id_)
    assert done.returncode == 0, done.stderr
    assert not Path(f"/proc/{pid}").exists() or "zombie" in Path(f"/proc/{pid}/status").read_text()
    assert real_shim.call("state", id_).returncode != 0
    assert not list(real_shim.records.glob(f"*{id_}*"))


def test_many_containers_start_at_once(real_shim: Installed, tmp_path: Path) -> None:
    def one(number: int) -> None:
        done = run(
            real_shim,
            tmp_path / str(number),
            names[number % len(names)],
            f"print({number})",
            NETWORK="none",
            PIDS=64,
        )
        said[number] = done.stdout.strip() or done.stderr

    there = real_shim.call("--reprise-check").stdout
    names = [name for name in ("runc", "crun") if f"runtime {name}: /" in there]
    said: dict[int, str] = {}
    threads = [threading.Thread(target=one, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert said == {number: str(number) for number in range(8)}


def test_gvisor_runs_with_a_socket_of_the_host_that_is_shown_inside(
    real_shim: Installed, tmp_path: Path, oci_runtime: str
) -> None:
    """Every runtime: the one way out is the forwarded socket, and it works without a network."""
    path = tmp_path / "dialled"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        server.settimeout(PATIENCE)
        code = (
            "import socket; s = socket.socket(socket.AF_UNIX); s.connect('/dialled');"
            "s.sendall(b'hello'); print(s.recv(9).decode())"
        )
        made = bundle(
            tmp_path / "b",
            settings(RUNTIME=oci_runtime, NETWORK="none"),
            (PYTHON, "-IS", "-c", code),
        )
        config = json.loads((made / "config.json").read_text())
        config["mounts"].append(
            {"destination": "/dialled", "type": "bind", "source": str(path), "options": ["rbind"]}
        )
        (made / "config.json").write_text(json.dumps(config))
        id_ = fresh_id()
        real_shim.made.append((id_,))
        command = real_shim.command("run", "--bundle", str(made), id_)
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
            connection, _ = server.accept()
            with connection:
                assert connection.recv(9) == b"hello"
                connection.sendall(b"back")
                out, err = running.communicate(timeout=PATIENCE)
            assert (out.strip(), running.returncode) == (b"back", 0), err


def test_a_foreign_container_is_what_it_would_be_without_the_shim(
    real_shim: Installed, tmp_path: Path
) -> None:
    code = "print(open('/proc/self/status').read())"
    made = bundle(tmp_path, [], (PYTHON, "-IS", "-c", code))
    before = (made / "config.json").read_bytes()
    id_ = fresh_id()
    real_shim.made.append((id_,))
    done = real_shim.call("run", "--bundle", str(made), "--keep", id_)
    assert done.returncode == 0, done.stderr
    told = dict(line.split(":", 1) for line in done.stdout.splitlines() if ":" in line)
    assert told["CapEff"].strip() == "00000000a80425fb"
    assert (made / "config.json").read_bytes() == before
    assert json.loads(real_shim.call("state", id_).stdout)["status"] == "stopped"
    assert real_shim.call("delete", id_).returncode == 0
