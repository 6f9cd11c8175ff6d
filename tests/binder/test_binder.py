"""binder/ as repo2docker builds and starts it: by an ordinary user without namespaces.

repo2docker copies the repository into the home of its user and then, as that user, runs
`pip install -r binder/requirements.txt` in it, `binder/postBuild`, and, when somebody comes,
`binder/start` with the command of a Jupyter server. So do these tests, in a venv in place of conda's.
"""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import nbformat
import pytest

from reprise.sandbox.seccomp import is_known, program
from tests.fixtures.untested import NOT_TESTED

PROJECT = Path(__file__).parents[2]
#: The installation downloads packages, those of npm too, and builds the lab extension.
BUILD_S = 1800
PATIENCE = 120.0

#: The first test waits for the build.
pytestmark = pytest.mark.timeout(BUILD_S + 600)
USER = "reprise-test"


@dataclass
class Binder:
    """The built environment: the repository in the user's home, and what runs commands there."""

    home: Path
    repository: Path
    confined: Sequence[str]
    environ: dict[str, str]

    def run(self, *command: str, timeout_s: float = PATIENCE) -> str:
        done = subprocess.run(
            [*self.confined, *command],
            cwd=self.repository,
            env=self.environ,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout_s,
        )
        assert done.returncode == 0, done.stdout[-6000:]
        return done.stdout

    def start(self, *command: str, output: Path) -> subprocess.Popen[bytes]:
        with output.open("wb") as said:
            return subprocess.Popen(
                [*self.confined, "binder/start", *command],
                cwd=self.repository,
                env=self.environ,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )


def _python() -> str | None:
    """A Python that every user may run, of the version that binder/runtime.txt says."""
    wanted = (PROJECT / "binder" / "runtime.txt").read_text().strip().replace("-", "")
    for name in (f"/usr/bin/{wanted}", "/usr/bin/python3", sys.executable):
        asked = [name, "-c", "import ensurepip, sys; print('python%d.%d' % sys.version_info[:2])"]
        with suppress(OSError):
            said = subprocess.run(asked, capture_output=True, text=True).stdout.strip()
            if said == wanted:
                return name
    return None


@pytest.fixture(scope="module")
def binder() -> Iterator[Binder]:
    python = _python()
    if python is None:
        pytest.skip(f"{NOT_TESTED} what Binder builds (no Python as binder/runtime.txt says)")
    if not is_known():
        pytest.skip(f"{NOT_TESTED} what Binder builds (system calls of this machine are unknown)")
    # Not below pytest's own folder, which is the running user's alone.
    home = Path("/var/tmp") / f"reprise-binder-{os.getpid()}"
    home.mkdir(mode=0o755)
    try:
        (home / "filter").write_bytes(program())
        shutil.copy(Path(__file__).with_name("confined.py"), home / "confined.py")
        repository = home / "jovyan"
        repository.mkdir()
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=PROJECT,
            capture_output=True,
            check=True,
        ).stdout
        for name in filter(None, listed.split(b"\0")):
            source = PROJECT / os.fsdecode(name)
            if source.is_file():
                target = repository / os.fsdecode(name)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, target)
        user = "-"
        if os.geteuid() == 0:
            user = USER
            account = pwd.getpwnam(USER)
            for path in [repository, *repository.rglob("*")]:
                os.chown(path, account.pw_uid, account.pw_gid, follow_symlinks=False)
        venv = repository / ".venv"
        kept = {
            name: value
            for name, value in os.environ.items()
            if name.endswith(("_PROXY", "_proxy"))
            or name.startswith(
                ("PIP_", "SSL_CERT", "REQUESTS_CA", "NODE_EXTRA_CA", "npm_", "YARN_")
            )
        }
        environ = {
            **kept,
            "HOME": str(repository),
            "USER": "jovyan",
            "PATH": f"{venv}/bin:/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
        }
        built = Binder(
            home,
            repository,
            [python, str(home / "confined.py"), user, str(home / "filter")],
            environ,
        )
        built.run(python, "-m", "venv", str(venv))
        built.run("pip", "install", "-q", "-r", "binder/requirements.txt", timeout_s=BUILD_S)
        built.run("binder/postBuild")
        yield built
    finally:
        shutil.rmtree(home, ignore_errors=True)


def test_the_files_are_such_as_repo2docker_reads() -> None:
    folder = PROJECT / "binder"
    assert not (PROJECT / ".binder").exists(), "with both, repo2docker builds nothing"
    assert re.fullmatch(r"python-3\.\d+\n", (folder / "runtime.txt").read_text())
    # A line that begins so makes repo2docker install after it has copied the repository.
    lines = (folder / "requirements.txt").read_text().splitlines()
    named = [line for line in lines if line and not line.startswith("#")]
    assert [line for line in named if line.startswith(".")] == [".[agent,lab]"]
    assert all("==" in line for line in named[1:])
    for name in ("postBuild", "start"):
        assert os.access(folder / name, os.X_OK)
        assert (folder / name).read_text().startswith("#!/bin/bash\n")
    assert (folder / "start").read_text().rstrip().endswith('exec "$@"')
    assert not {each.name for each in folder.iterdir()} - {
        *("README.md", "answers.json", "demo.ipynb", "postBuild"),
        *("requirements.txt", "runtime.txt", "start"),
    }


def test_nobody_there_makes_a_namespace(binder: Binder) -> None:
    asked = ("unshare", "--user", "true")
    done = subprocess.run([*binder.confined, *asked], capture_output=True, text=True)
    assert done.returncode != 0
    assert "Operation not permitted" in done.stderr
    code = "import os; print(os.getuid(), open('/proc/self/status').read())"
    said = binder.run("python", "-c", code)
    assert "NoNewPrivs:\t1" in said
    assert os.geteuid() != 0 or not said.startswith("0 ")


def test_the_demo_runs_from_top_to_bottom(binder: Binder) -> None:
    target = binder.repository / "ran.ipynb"
    execute = f"jupyter execute --output={target} binder/demo.ipynb"
    binder.run(
        "binder/start",
        "bash",
        "-c",
        f"{execute} && reprise doctor --json > doctor.json",
        timeout_s=BUILD_S,
    )
    notebook = nbformat.read(target, as_version=4)
    cells = {cell["id"]: cell for cell in notebook["cells"] if cell["cell_type"] == "code"}

    def shown(name: str) -> str:
        return "".join(
            output.get("text") or output.get("evalue") or output["data"]["text/plain"]
            for output in cells[name]["outputs"]
        )

    assert "rain" in shown("table")
    before = re.search(r"a random number: ([0-9.]+)", shown("draw"))
    assert before is not None
    assert "Rolled back" in shown("kill") or "rolled back" in shown("kill")
    assert f"still 1,344 rides, and the random number was {before[1]}" in shown("back")
    assert "second 19" in shown("slow")


def test_the_lab_says_that_nothing_is_isolated(binder: Binder) -> None:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip(f"{NOT_TESTED} what Binder shows (no Chromium on PATH)")
    sync_api = pytest.importorskip("playwright.sync_api")
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    said = binder.home / "said.txt"
    # As mybinder.org starts it: `jupyter notebook`, the lab by its address.
    server = binder.start(
        *("jupyter", "notebook", "--ip=127.0.0.1", f"--port={port}", "--no-browser"),
        *("--ServerApp.token=t", "--ServerApp.port_retries=0", "--LabApp.news_url=None"),
        output=said,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        _answers(f"{url}/api/status?token=t", server, said)
        with sync_api.sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=chromium,
                args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
            )
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            page.set_default_timeout(PATIENCE * 1000)
            page.goto(f"{url}/lab/tree/binder/demo.ipynb?token=t&reset")
            sync_api.expect(page.locator(".jp-NotebookPanel-toolbar")).to_contain_text(
                "Not isolated", timeout=PATIENCE * 1000
            )
            sync_api.expect(page.locator(".jp-Notebook")).to_contain_text("Not isolated")
            browser.close()
        request = urllib.request.Request(
            f"{url}/reprise/api/me", headers={"Authorization": "token t"}
        )
        assert json.load(urllib.request.urlopen(request, timeout=PATIENCE))["login"]
    finally:
        server.terminate()
        server.wait(PATIENCE)


def _answers(address: str, server: subprocess.Popen[bytes], said: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            urllib.request.urlopen(address, timeout=10).close()
        except OSError:
            assert server.poll() is None, said.read_text()[-4000:]
            assert time.monotonic() < deadline, said.read_text()[-4000:]
            time.sleep(0.1)
        else:
            return
