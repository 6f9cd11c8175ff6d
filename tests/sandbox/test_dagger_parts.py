"""What is missing or does not match for Dagger is said so that a person can act; no engine needed."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import socket
import stat
import subprocess
import sys
from importlib import metadata, util
from pathlib import Path
from typing import Any

import pytest

from reprise.errors import SandboxError
from reprise.sandbox import dagger_cli, dagger_client, dagger_shim, seccomp
from reprise.sandbox.backends import backend
from reprise.sandbox.contract import GuestNetwork, Limits, SandboxSpec
from reprise.sandbox.dagger_order import Order, decode
from reprise.sandbox.dagger_shim import Report
from tests.fixtures.dagger import DaggerHere
from tests.fixtures.sandbox import PATIENCE, quiet_kernel


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    monkeypatch.setenv("REPRISE_HOME", str(home))
    return home


@pytest.fixture
def no_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(dagger_cli.CLI_BIN, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))


def problem() -> str:
    (found,) = backend("dagger").check()
    return found


async def refused() -> str:
    with pytest.raises(SandboxError) as error:
        await backend("dagger").start(SandboxSpec(kernel=quiet_kernel()))
    return str(error.value)


async def test_without_the_program_nothing_is_downloaded(no_program: None, own_home: Path) -> None:
    said = await refused()
    assert "does not download one" in said
    assert dagger_cli.CLI_BIN in said
    assert problem() == said
    assert not (own_home / "dagger").exists()  # no broker was started


async def test_a_program_that_cannot_be_run_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "dagger"
    file.write_text("no program")
    monkeypatch.setenv(dagger_cli.CLI_BIN, str(file))
    assert f"names {file}, which is no program" in await refused()


async def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(util, "find_spec", lambda _name: None)
    assert "pip install 'jupyter-reprise[dagger]'" in await refused()


@pytest.mark.parametrize("version", ["0.19.9", "0.22.0", "1.0.0"])
async def test_a_library_that_is_not_known_is_refused(
    monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    monkeypatch.setattr(metadata, "version", lambda _name: version)
    said = await refused()
    assert f"dagger-io {version}" in said
    assert "0.20 and 0.21" in said


@pytest.mark.parametrize(
    ("engine", "sdk", "mend"),
    [
        ("v0.21.3", "0.20.1", "pip install 'dagger-io==0.21.*'"),
        ("v0.20.1", "0.21.11", "pip install 'dagger-io==0.20.*'"),
        ("v0.19.0", "0.20.1", "Use an engine of version 0.20"),
        ("v0.0.0+unknown", "0.20.1", "Use an engine of version 0.20"),
        ("", "0.20.1", "Use an engine of version 0.20"),
    ],
)
def test_engine_and_library_must_be_of_one_minor_version(engine: str, sdk: str, mend: str) -> None:
    with pytest.raises(SandboxError, match="one minor version") as error:
        dagger_cli.check_engine(engine, sdk)
    assert mend in str(error.value)


@pytest.mark.parametrize(
    ("engine", "sdk"), [("v0.20.1", "0.20.3"), ("0.20.9", "0.20.1"), ("v0.21.8", "0.21.11")]
)
def test_patch_versions_may_differ(engine: str, sdk: str) -> None:
    dagger_cli.check_engine(engine, sdk)


#: A program that ends as Dagger's client does when it meets what `said` is about.
CLIENT = """#!/bin/sh
echo 'Error: connect: {said}' >&2
exit 1
"""


async def test_why_there_is_no_session_is_passed_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # The client's own words are whatever it says; here a program that says them and ends.
    file = tmp_path / "dagger"
    file.write_text(CLIENT.format(said="the engine would not have us"))
    file.chmod(0o755)
    monkeypatch.setenv(dagger_cli.CLI_BIN, str(file))
    with socket.socket(socket.AF_UNIX) as engine:
        # Somebody listens there; what becomes of it is the client's to say.
        engine.bind(str(tmp_path / "engine.sock"))
        engine.listen()
        host = f"unix://{tmp_path}/engine.sock"
        monkeypatch.setenv(dagger_cli.RUNNER_HOST, host)
        said = await asyncio.wait_for(refused(), PATIENCE)
    assert f"no Dagger engine to be reached at {host}" in said
    assert "the engine would not have us" in said


@pytest.mark.parametrize("host", ["unix:///no/engine.sock", "tcp://localhost:1", "tcp://nothing"])
async def test_where_nobody_listens_is_said_at_once(
    monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    # No program is asked: Dagger's own would try again for minutes.
    monkeypatch.setenv(dagger_cli.CLI_BIN, "/bin/true")
    monkeypatch.setenv(dagger_cli.RUNNER_HOST, host)
    said = await asyncio.wait_for(refused(), PATIENCE)
    assert f"no Dagger engine to be reached at {host}" in said
    assert dagger_cli.RUNNER_HOST in said


def test_dagger_is_kept_from_calling_out_and_from_sessions_of_others() -> None:
    found = dagger_cli.client_environment(
        {
            "PATH": "/bin",
            "DAGGER_SESSION_PORT": "1",
            "DAGGER_SESSION_TOKEN": "t",
            "_EXPERIMENTAL_DAGGER_RUNNER_HOST": "unix:///x",
            "REPRISE_DSN": "secret",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "DOCKER_CONFIG": "/c",
            "https_proxy": "http://p",
        }
    )
    assert found == {
        "DO_NOT_TRACK": "1",
        "DAGGER_NO_UPDATE_CHECK": "1",
        "PATH": "/bin",
        "_EXPERIMENTAL_DAGGER_RUNNER_HOST": "unix:///x",
        "DOCKER_CONFIG": "/c",
        "https_proxy": "http://p",
    }
    assert dagger_cli.client_environment({"DO_NOT_TRACK": "0"})["DO_NOT_TRACK"] == "0"


# The broker


def test_other_engines_have_other_brokers() -> None:
    folders = {
        dagger_client.broker_folder({dagger_cli.RUNNER_HOST: host}) for host in ("", "unix:///a")
    }
    assert len(folders) == 2
    assert dagger_client.broker_folder({}) == dagger_client.broker_folder({"LANG": "C"})
    for folder in folders:
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_socket_below_a_long_path_can_be_bound_and_reached(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 40)
    folder.mkdir()
    with dagger_client.bound_socket(folder) as listening:
        listening.listen()
        sock = dagger_client.connected_socket(folder)
        assert sock is not None
        sock.close()
        assert stat.S_IMODE((folder / "socket").stat().st_mode) == 0o600
    assert dagger_client.connected_socket(folder) is None


def test_a_broker_that_cannot_start_names_its_log(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\necho no such module >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setattr(dagger_cli, "find_cli", lambda _environ=None: "dagger")
    with pytest.raises(SandboxError, match="ended as soon as it was started") as error:
        dagger_client.reach()
    log = Path(str(error.value).rsplit(": ", 1)[1])
    assert log.read_text() == "no such module\n"


async def test_a_broker_is_asked_in_lines_and_refuses_what_it_does_not_know(
    own_home: Path,
) -> None:
    folder = dagger_client.broker_folder()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "reprise.sandbox.dagger_broker", str(folder)),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "REPRISE_DAGGER_IDLE": "20"},
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"ready\n"
    sock = dagger_client.connected_socket(folder)
    assert sock is not None
    answers = []
    first: socket.socket | None = sock
    for said in (b"\xff\n", b"[]\n", b'{"protocol": 0}\n', b'{"protocol": 1, "ask": "sandbox"}\n'):
        asked = first or dagger_client.connected_socket(folder)
        first = None
        assert asked is not None
        asked.setblocking(False)
        reader, writer = await asyncio.open_unix_connection(sock=asked)
        writer.write(said)
        answers.append(decode(await asyncio.wait_for(reader.readline(), PATIENCE))["failed"])
        writer.close()
        await writer.wait_closed()
    assert all("Dagger broker" in answer for answer in answers), answers
    assert "another version" in answers[2]
    # A second one leaves at once: there is one.
    second = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "reprise.sandbox.dagger_broker", str(folder)],
        capture_output=True,
        timeout=PATIENCE,
    )
    assert second.returncode == 0
    for broker in DaggerHere(own_home).brokers():
        broker.terminate()


def test_an_order_survives_its_line() -> None:
    order = Order(
        image_kind="registry",
        image="registry.example.org/x@sha256:" + "0" * 64,
        argv=("/bin/python", "-S"),
        variables={"A": "é\n"},
        temporary={"/tmp": 1 << 30},
        socket="/tmp/s",
        data=(("/data", "/mnt/data"),),
        renewable=True,
    )
    assert Order.of(decode(order.line())["order"]) == order


# The shim


def test_the_shim_is_asked_for_the_limits_and_for_no_network() -> None:
    limits = Limits(memory=1 << 30, cpus=1.5, processes=100)
    found = dagger_shim.variables(SandboxSpec(kernel=quiet_kernel(), limits=limits), {})
    assert without_filters(found) == {
        "REPRISE_SHIM": "1",
        "REPRISE_SHIM_NETWORK": "none",
        "REPRISE_SHIM_MEMORY": str(1 << 30),
        "REPRISE_SHIM_CPUS": "1.500",
        "REPRISE_SHIM_PIDS": "116",
    }
    nothing = dagger_shim.variables(
        SandboxSpec(kernel=quiet_kernel(), limits=Limits(processes=0)),
        {"REPRISE_DAGGER_RUNTIME": "x"},
    )
    assert without_filters(nothing) == {
        "REPRISE_SHIM": "1",
        "REPRISE_SHIM_NETWORK": "none",
        "REPRISE_SHIM_RUNTIME": "x",
    }
    gvisor = dagger_shim.variables(
        SandboxSpec(kernel=quiet_kernel()), {"REPRISE_DAGGER_RUNTIME": "runsc"}
    )
    assert without_filters(gvisor) == gvisor


def without_filters(variables: dict[str, str]) -> dict[str, str]:
    """The rest; those of system calls are the list that every isolating backend has."""
    filters = {k: v for k, v in variables.items() if k.startswith("REPRISE_FILTER_")}
    assert not filters or {
        name.removeprefix("REPRISE_FILTER_"): base64.b64decode(each)
        for name, each in filters.items()
    } == {machine: seccomp.program(machine) for machine in seccomp.MACHINES}
    return {k: v for k, v in variables.items() if k not in filters}


async def heard(data: bytes) -> Report:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.sendall(data)
        theirs.shutdown(socket.SHUT_WR)
        return await dagger_shim.hear_report(ours)


def told(applied: Any) -> bytes:
    body = json.dumps({"applied": applied}).encode()
    return len(body).to_bytes(2, "big") + body


async def test_what_the_shim_did_is_heard() -> None:
    applied = {
        "shim": 1,
        "runtime": "runc",
        "memory": 5,
        "cpus": 2,
        "pids": None,
        "network": "none",
    }
    report = await heard(told(json.dumps(applied)))
    assert report == Report(True, "runc", 5, 2.0, None, "none")
    assert await heard(told(None)) == Report()


@pytest.mark.parametrize(
    "lie",
    [
        b"",
        b"\x00",
        b"\xff\xff" + b"x" * 100,
        told("{"),
        told(3),
        told("[]"),
        b"\x00\x02[]",
        told("1"),
    ],
)
async def test_a_report_that_is_none_ends_the_start(lie: bytes) -> None:
    with pytest.raises(SandboxError, match="did not say what its engine does"):
        await heard(lie)


def test_what_only_the_shim_can_do_is_refused_without_it() -> None:
    spec = SandboxSpec(kernel=quiet_kernel(), network=GuestNetwork())
    with pytest.raises(SandboxError, match="no runtime shim"):
        dagger_shim.check_report(spec, Report(), {})
    with pytest.raises(SandboxError, match="no runtime shim"):
        # A shim that left the engine's network is as good as none.
        dagger_shim.check_report(spec, Report(applied=True, network="engine"), {})
    dagger_shim.check_report(spec, Report(applied=True, network="none"), {})
    dagger_shim.check_report(SandboxSpec(kernel=quiet_kernel()), Report(), {})


def test_doctor_is_told_what_was_seen_last() -> None:
    assert "known once a sandbox was started" in dagger_shim.enforcement()["cpus"]
    dagger_shim.remember(Report())
    assert dagger_shim.enforcement()["cpus"].startswith("not enforced: this Dagger engine has no")
    dagger_shim.remember(Report(applied=True, network="none"))
    assert dagger_shim.enforcement()["cpus"].startswith("by a control group")
