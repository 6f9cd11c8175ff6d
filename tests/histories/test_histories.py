"""Every history that a Reprise ever wrote comes in, is whole, replays, and goes out as it came."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from reprise.bundle.load import check_bundle
from reprise.bundle.source import Spooled
from reprise.errors import UnavailableError
from reprise.log.binaries import find_binaries
from tests.fixtures.kernel import Kernels
from tests.fixtures.postgres import run_server
from tests.histories.make import FOLDER, HISTORIES, bundle_of

BUNDLES = sorted(FOLDER.glob("*.reprise"))
NAMES = [path.stem for path in BUNDLES]

#: Of these a replay on the process backend, whose workspace is the notebook's own folder, has
#: not the files: they came into a sandbox's workspace.
FILES_OF_A_SANDBOX = {"uploads", "fork", "mounts", "restart"}


@dataclass(frozen=True)
class Here:
    """Where the histories are brought: a database and a home of its own."""

    dsn: str
    home: Path

    def __call__(
        self, *args: str, cwd: Path | None = None, backend: str = "bubblewrap"
    ) -> subprocess.CompletedProcess[str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("REPRISE_", "JPY_"))}
        own = {"REPRISE_DSN": self.dsn, "REPRISE_HOME": str(self.home), "REPRISE_BACKEND": backend}
        return subprocess.run(
            [sys.executable, "-m", "reprise.cli", *args],
            capture_output=True,
            text=True,
            timeout=300,
            cwd=cwd,
            env={**kept, **own},
        )

    def json(self, *args: str, **more: object) -> dict[str, object]:
        done = self(*args, "--json", **more)  # type: ignore[arg-type]
        assert done.returncode in (0, 1), done.stderr
        found: dict[str, object] = json.loads(done.stdout)
        return found


def brought_to(major: int, home: Path) -> Iterator[Here]:
    """A server of that version with all histories in it."""
    try:
        find_binaries(major)
    except UnavailableError as error:
        pytest.skip(str(error))
    home.chmod(0o700)
    for server in run_server(major):
        here = Here(server.create_database(), home)
        for path in BUNDLES:
            done = here("import", str(path))
            assert done.returncode == 0, done.stderr
        yield here


@pytest.fixture(scope="module", params=[18, 15])
def each(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Here]:
    yield from brought_to(request.param, tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Here]:
    yield from brought_to(18, tmp_path_factory.mktemp("home"))


def session_of(path: Path) -> uuid.UUID:
    with path.open("rb") as file:
        return check_bundle(Spooled(file)).head.session


def test_every_way_to_make_a_history_has_its_bundle() -> None:
    assert set(HISTORIES) <= set(NAMES)
    assert all(bundle_of(name).exists() for name in HISTORIES)


@pytest.mark.parametrize("path", BUNDLES, ids=NAMES)
def test_it_came_in_and_goes_out_byte_for_byte(each: Here, path: Path, tmp_path: Path) -> None:
    session = str(session_of(path))
    assert each("log", session, "--check").returncode == 0
    out = tmp_path / "again.reprise"
    assert each("export", session, "-o", str(out)).returncode == 0
    assert out.read_bytes() == path.read_bytes()


@pytest.mark.parametrize("backend", ["bubblewrap", "process"])
@pytest.mark.parametrize("path", BUNDLES, ids=NAMES)
def test_it_replays_and_verifies(here: Here, path: Path, backend: str, tmp_path: Path) -> None:
    if backend == "process" and path.stem in FILES_OF_A_SANDBOX:
        pytest.skip("its files came into a sandbox's workspace")
    session = str(session_of(path))
    report = here.json("verify", session, backend=backend, cwd=tmp_path)
    steps = report["steps"]
    assert isinstance(steps, list)
    assert steps
    assert [step for step in steps if step["verdict"] in ("different", "could not run")] == []


@pytest.mark.parametrize("path", BUNDLES, ids=NAMES)
def test_a_kernel_goes_on_with_it(kernels: Kernels, path: Path) -> None:
    here = Here(kernels.database.dsn, kernels.database.home)
    done = here("import", str(path))
    assert done.returncode == 0, done.stderr
    kernel = kernels("bubblewrap", session=session_of(path))
    client = kernel.client()
    assert client.prints("print('here too')") == "here too"
    recorded = kernels.read(kernel)
    assert recorded.report.ok, recorded.report.fault
    assert recorded.codes()[-1] == "print('here too')"
