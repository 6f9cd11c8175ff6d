"""A save through a real Jupyter Server names the session of the running kernel, and never fails."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from reprise.jupyter.attachment import read_identity
from reprise.jupyter.sidecar import sidecar_path, write_sidecar
from reprise_server.identity import write_session

SOURCE = Path(__file__).parents[2] / "server_ext"
TOKEN = "test-token"

OWN_HOOK = """
def own_hook(model, path, contents_manager, **kwargs):
    if model["type"] == "notebook":
        model["content"]["metadata"]["own"] = path
c.FileContentsManager.pre_save_hook = own_hook
"""


@dataclass
class Server:
    url: str
    root: Path
    runtime: Path
    said: Path

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        request = urllib.request.Request(
            self.url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"token {TOKEN}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            data = answer.read()
        return json.loads(data) if data else None

    def save(self, path: str, metadata: dict[str, Any] | None = None) -> dict[str, Any]:
        """Save through the contents API; the metadata that then stand in the file."""
        content = {
            "cells": [],
            "metadata": metadata or {},
            "nbformat": 4,
            "nbformat_minor": 5,
        }
        model = {"type": "notebook", "format": "json", "content": content}
        self.ask("PUT", f"api/contents/{path}", model)
        found: dict[str, Any] = json.loads((self.root / path).read_bytes())["metadata"]
        return found

    def start(self, path: str) -> Path:
        """Start an ipykernel for a notebook as JupyterLab does; its connection file."""
        session = self.ask(
            "POST",
            "api/sessions",
            {"path": path, "name": path, "type": "notebook", "kernel": {"name": "python3"}},
        )
        return self.runtime / f"kernel-{session['kernel']['id']}.json"


@pytest.fixture(
    scope="module",
    params=["AsyncLargeFileManager", "LargeFileManager"],
)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    base = tmp_path_factory.mktemp("server")
    for folder in ("root", "runtime", "config", "data"):
        (base / folder).mkdir()
    config = base / "config"
    (config / "jupyter_server_config.py").write_text(OWN_HOOK)
    enabled = config / "jupyter_server_config.d" / "reprise.json"
    enabled.parent.mkdir()
    # The very file that the wheel installs.
    enabled.write_bytes((SOURCE / "jupyter_server_config.d" / "reprise.json").read_bytes())
    environ = {
        **os.environ,
        "JUPYTER_CONFIG_DIR": str(config),
        "JUPYTER_RUNTIME_DIR": str(base / "runtime"),
        "JUPYTER_DATA_DIR": str(base / "data"),
        "JUPYTER_NO_CONFIG": "",
        "JUPYTER_TOKEN": TOKEN,
    }
    manager = f"jupyter_server.services.contents.largefilemanager.{request.param}"
    said = base / "said.txt"
    with said.open("wb") as output:
        process = subprocess.Popen(
            [
                sys.executable,
                *("-m", "jupyter_server", "--no-browser", "--allow-root", "--port=0"),
                f"--ServerApp.root_dir={base / 'root'}",
                f"--ServerApp.contents_manager_class={manager}",
            ],
            env=environ,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        info = base / "runtime" / f"jpserver-{process.pid}.json"
        deadline = time.monotonic() + 60
        while not _answers(info):
            assert process.poll() is None, said.read_text()
            assert time.monotonic() < deadline, said.read_text()
            time.sleep(0.05)
        yield Server(json.loads(info.read_bytes())["url"], base / "root", base / "runtime", said)
    finally:
        process.terminate()
        process.wait(30)


def _answers(info: Path) -> bool:
    try:
        url = json.loads(info.read_bytes())["url"]
        with urllib.request.urlopen(f"{url}api?token={TOKEN}", timeout=5) as answer:
            return bool(answer.status == 200)
    except (OSError, ValueError):
        return False


def test_a_save_names_the_session_of_the_running_kernel(server: Server) -> None:
    assert server.save("one.ipynb") == {"own": "one.ipynb"}  # no kernel yet
    connection = server.start("one.ipynb")
    assert "reprise" not in server.save("one.ipynb")  # a kernel that is not ours
    session = uuid.uuid4()
    write_sidecar(connection, session)
    assert server.save("one.ipynb") == {
        "own": "one.ipynb",
        "reprise": {"session": str(session)},
    }
    assert read_identity(server.root / "one.ipynb") == session

    # What a person copied in is replaced by the truth, and other keys of ours stay.
    metadata = {"reprise": {"session": str(uuid.uuid4()), "kept": 1}}
    assert server.save("one.ipynb", metadata)["reprise"] == {"session": str(session), "kept": 1}

    # Another notebook gets nothing.
    assert "reprise" not in server.save("two.ipynb")


def test_a_renamed_notebook_keeps_its_session(server: Server) -> None:
    server.save("before.ipynb")
    connection = server.start("before.ipynb")
    session = uuid.uuid4()
    write_sidecar(connection, session)
    (found,) = [
        each for each in server.ask("GET", "api/sessions") if each["path"] == "before.ipynb"
    ]
    server.ask("PATCH", "api/contents/before.ipynb", {"path": "after.ipynb"})
    server.ask("PATCH", f"api/sessions/{found['id']}", {"path": "after.ipynb"})
    assert server.save("after.ipynb")["reprise"] == {"session": str(session)}


@pytest.mark.parametrize(
    "sidecar", [b"", b"{", b"[]", b'{"session": 3}', b'{"session": "../../x"}', b"[" * 60_000]
)
def test_a_broken_sidecar_changes_nothing(server: Server, sidecar: bytes) -> None:
    server.save("broken.ipynb")
    connection = server.start("broken.ipynb")
    sidecar_path(connection).write_bytes(sidecar)
    assert server.save("broken.ipynb", {"x": 1}) == {"x": 1, "own": "broken.ipynb"}


def test_a_hook_that_fails_is_logged_and_the_save_goes_through(server: Server) -> None:
    server.save("odd.ipynb")
    connection = server.start("odd.ipynb")
    sidecar_path(connection).mkdir()  # reading a folder fails
    assert server.save("odd.ipynb", {"x": 2})["x"] == 2
    other = server.start("mad.ipynb")
    write_sidecar(other, uuid.uuid4())
    model = {"type": "notebook", "format": "json", "content": {"cells": [], "metadata": []}}
    with pytest.raises(urllib.error.HTTPError) as caught:  # the server's own complaint, not ours
        server.ask("PUT", "api/contents/mad.ipynb", model)
    assert caught.value.code in (400, 500)
    caught.value.close()
    assert server.save("mad.ipynb")["reprise"]


def test_files_and_folders_are_not_touched() -> None:
    for model in (
        {"type": "file", "content": "text"},
        {"type": "directory"},
        {"type": "notebook", "content": None},
    ):
        before = json.dumps(model)
        write_session(model, str(uuid.uuid4()))
        assert json.dumps(model) == before
    odd: dict[str, Any] = {"type": "notebook", "content": {"metadata": {"reprise": "a word"}}}
    write_session(odd, "s")
    assert odd["content"]["metadata"]["reprise"] == {"session": "s"}


def test_up_to_where_a_page_showed_one_session_says_nothing_of_another() -> None:
    def saved(reprise: Any, session: str | None) -> Any:
        model = {"type": "notebook", "content": {"metadata": {"reprise": reprise}}}
        write_session(model, session)
        return model["content"]["metadata"]["reprise"]  # type: ignore[index]

    shown = {"session": "one", "step": 4, "outputs": 9, "kept": True}
    assert saved(dict(shown), "one") == shown
    assert saved(dict(shown), None) == shown
    assert saved(dict(shown), "two") == {"session": "two", "kept": True}
    assert saved({"step": 4}, "one") == {"session": "one", "step": 4}
    assert saved("nonsense", "one") == {"session": "one"}
