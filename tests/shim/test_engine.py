"""The shim in a real Dagger engine, in place of its runc: the same promises, one exec each."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from reprise.sandbox.dagger_cli import CLI_BIN, RUNNER_HOST
from tests.fixtures.dagger import Engine
from tests.fixtures.sandbox import PATIENCE
from tests.shim.test_bundles import EAT, FORK, LOOK

dagger = pytest.importorskip(
    "dagger", reason="NOT TESTED: the runtime shim in an engine (no dagger-io)"
)

#: One session of the engine for all of them.
pytestmark = pytest.mark.asyncio(loop_scope="module")

PYTHON = "/usr/bin/python3"


@dataclass
class Done:
    """How an exec ended, and what the shim said it did for it."""

    code: int
    out: str
    err: str


@pytest.fixture(scope="session")
def small_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root file system with this machine's own Python and little else."""
    root = tmp_path_factory.mktemp("shim-root")
    program = Path(PYTHON).resolve()
    (root / "usr" / "bin").mkdir(parents=True)
    shutil.copy2(program, root / "usr" / "bin" / "python3")
    library = Path("/usr/lib") / program.name
    ignored = shutil.ignore_patterns("test", "idlelib", "tkinter", "__pycache__", "dist-packages")
    shutil.copytree(library, root / library.relative_to("/"), ignore=ignored, symlinks=True)
    for needed in _libraries(program):
        place = root / needed.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        if not place.exists():
            shutil.copy2(Path(needed).resolve(), place)
    for folder in ("tmp", "proc", "sys", "dev", "etc", "run"):
        (root / folder).mkdir(exist_ok=True)
    return root


def _libraries(program: Path) -> set[str]:
    import subprocess

    said = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=True).stdout
    return {word for word in said.split() if word.startswith("/")}


Execute = Callable[..., Any]


@pytest.fixture(scope="module")
def shimmed_host(request: pytest.FixtureRequest) -> Iterator[str]:
    """An engine that has the shim: the one that is named, or this run's own."""
    if os.environ.get(RUNNER_HOST):
        yield request.getfixturevalue("dagger_host")
        return
    engine: Engine = request.getfixturevalue("own_dagger_engine")
    engine.use_shim()
    yield engine.host
    engine.use(engine.runtime)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def execute(shimmed_host: str, small_root: Path) -> AsyncIterator[Execute]:
    """Runs Python code in an exec on the engine, with variables for the shim."""
    with Path(os.devnull).open("w") as nowhere, pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv(RUNNER_HOST, shimmed_host)
        if CLI_BIN not in os.environ:
            monkeypatch.setenv(CLI_BIN, str(shutil.which("dagger")))
        for name in ("DO_NOT_TRACK", "DAGGER_NO_UPDATE_CHECK"):
            monkeypatch.setenv(name, "1")
        configured = dagger.Config(log_output=nowhere, retry=None)
        async with dagger.connection(configured), asyncio.timeout(PATIENCE * 10):

            async def run(code: str, socket: Path | None = None, **asked: object) -> Done:
                container = dagger.dag.container().with_rootfs(
                    dagger.dag.host().directory(str(small_root))
                )
                for name, value in {"NONCE": uuid.uuid4().hex, **_variables(asked)}.items():
                    container = container.with_env_variable(name, str(value))
                if socket is not None:
                    forwarded = dagger.dag.host().unix_socket(str(socket))
                    container = container.with_unix_socket("/run/dialled", forwarded)
                container = container.with_exec(
                    [PYTHON, "-IS", "-c", code], expect=dagger.ReturnType.ANY
                )
                try:
                    return Done(
                        await container.exit_code(),
                        await container.stdout(),
                        await container.stderr(),
                    )
                except dagger.ExecError as error:
                    return Done(error.exit_code, error.stdout, error.stderr)

            seen = await run(
                "import os; print(os.environ.get('REPRISE_SHIM_APPLIED', ''))", RUNTIME="runc"
            )
            if not seen.out.strip():
                pytest.skip("NOT TESTED: the runtime shim in an engine (this engine has none)")
            yield run


def _variables(asked: dict[str, object]) -> dict[str, object]:
    if not asked:
        return {}
    return {"REPRISE_SHIM": 1, **{f"REPRISE_SHIM_{name}": value for name, value in asked.items()}}


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["runc", "crun", "runsc"])
async def runtime(request: pytest.FixtureRequest, execute: Execute) -> str:
    done = await execute("pass", RUNTIME=request.param, NETWORK="none")
    if "is not there" in done.err:
        pytest.skip(f"NOT TESTED: the runtime shim in an engine with {request.param} (not there)")
    assert done.code == 0, done.err
    return str(request.param)


async def test_nothing_but_loopback_and_six_capabilities_is_left(
    execute: Execute, runtime: str
) -> None:
    look = LOOK.replace("PORT", "80")
    done = await execute(look, RUNTIME=runtime, NETWORK="none", MEMORY=1 << 29, PIDS=64, CPUS=0.5)
    assert done.code == 0, done.err
    saw = json.loads(done.out)
    assert saw["interfaces"] == ["lo"]
    assert (saw["itself"], saw["device"]) == (True, False)
    held = sum(1 << number for number in (0, 1, 3, 5, 6, 7))
    assert [int(each, 16) for each in saw["held"]] == [held, held, held, 0]
    assert list(saw["env"]) == ["REPRISE_SHIM_APPLIED"]
    assert json.loads(saw["env"]["REPRISE_SHIM_APPLIED"]) == {
        "shim": 1,
        "runtime": runtime,
        "memory": 1 << 29,
        "cpus": 0.5,
        "pids": 64,
        "network": "none",
    }


async def test_an_exec_that_is_not_ours_keeps_the_engines_network(execute: Execute) -> None:
    done = await execute(LOOK.replace("PORT", "80"))
    assert done.code == 0, done.err
    saw = json.loads(done.out)
    assert len(saw["interfaces"]) > 1
    assert saw["env"] == {}
    assert int(saw["held"][0], 16) & (1 << 13)  # CAP_NET_RAW, which ours lose


async def test_the_memory_limit_ends_what_passes_it(execute: Execute, runtime: str) -> None:
    done = await execute(EAT, RUNTIME=runtime, NETWORK="none", MEMORY=128 << 20)
    assert done.code == 137
    assert int(done.out.split()[-1]) < 128


async def test_the_process_limit_stops_a_fork_bomb(execute: Execute, runtime: str) -> None:
    done = await execute(FORK, RUNTIME=runtime, NETWORK="none", PIDS=64, MEMORY=2 << 30)
    if runtime == "runsc":
        assert done.code != 0
        assert "600" not in done.out
    else:
        name, made = done.out.split()
        assert name == "BlockingIOError"
        assert 32 <= int(made) <= 64


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"MEMROY": 5}, "REPRISE_SHIM_MEMROY is no setting of this shim"),
        ({"MEMORY": 5}, "REPRISE_SHIM_MEMORY is not a number from"),
        ({"RUNTIME": "youki"}, "the runtime 'youki' is not allowed here"),
    ],
)
async def test_what_is_refused_reaches_whoever_asked(
    execute: Execute, asked: dict[str, object], says: str
) -> None:
    done = await execute("print('started')", **asked)
    assert done.code != 0
    assert says in done.err
    assert "started" not in done.out


async def test_the_forwarded_socket_is_the_one_way_out(
    execute: Execute, runtime: str, tmp_path: Path
) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"back" if await reader.readexactly(5) == b"hello" else b"what")
        await writer.drain()
        writer.close()

    place = Path(f"/tmp/reprise-shim-{uuid.uuid4().hex[:8]}")
    code = (
        "import socket; s = socket.socket(socket.AF_UNIX); s.connect('/run/dialled');"
        "s.sendall(b'hello'); print(s.recv(9).decode())"
    )
    try:
        async with await asyncio.start_unix_server(answer, place):
            done = await execute(code, socket=place, RUNTIME=runtime, NETWORK="none")
    finally:
        with contextlib.suppress(FileNotFoundError):
            place.unlink()
    assert (done.code, done.out.strip()) == (0, "back"), done.err


async def test_many_execs_at_once_keep_their_own_limits(execute: Execute) -> None:
    code = "import os; print(os.environ['REPRISE_SHIM_APPLIED'])"
    runtimes = ("runc", "crun")
    found = await asyncio.gather(
        *(execute(code, RUNTIME=runtimes[each % 2], PIDS=32 + each) for each in range(8))
    )
    assert [json.loads(done.out)["pids"] for done in found] == [32 + each for each in range(8)]
