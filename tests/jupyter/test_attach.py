"""A kernel takes the session that is its own: by setting, kernel id, or notebook and identity."""

from __future__ import annotations

import glob
import json
import os
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprise.errors import UsageError
from reprise.jupyter.attach import resolve
from reprise.jupyter.attachment import NOTEBOOK_BYTES, Attachment, attachment, read_identity
from reprise.jupyter.sidecar import (
    read_sidecar,
    remove_sidecar,
    sidecar_path,
    sidecars,
    write_sidecar,
)
from reprise.log.postgres import Log

KERNEL = str(uuid.uuid4())
CONNECTION = Path(f"/run/kernel-{KERNEL}.json")


def notebook(path: Path, identity: uuid.UUID | None = None, *, pad: int = 0) -> Path:
    metadata: dict[str, Any] = {"kernelspec": {"name": "reprise"}}
    if identity is not None:
        metadata["reprise"] = {"session": str(identity)}
    cells = [{"cell_type": "raw", "source": "x" * pad, "metadata": {}}]
    value = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    path.write_text(json.dumps(value, indent=1, sort_keys=True))
    return path


def of(path: Path, **environ: str) -> Attachment:
    return attachment(CONNECTION, {"JPY_SESSION_NAME": str(path), **environ}, {})


# what a process was started with ------------------------------------------------------------


def test_a_setting_names_the_session() -> None:
    session = uuid.uuid4()
    assert attachment(CONNECTION, {"REPRISE_SESSION": str(session)}, {}).session == session
    assert attachment(CONNECTION, {"REPRISE_SESSION": ""}, {}).session is None
    with pytest.raises(UsageError, match="REPRISE_SESSION='mine' is not a session id"):
        attachment(CONNECTION, {"REPRISE_SESSION": "mine"}, {})


def test_the_kernel_id_counts_only_when_it_is_one() -> None:
    assert attachment(CONNECTION, {}, {}).keys == (f"kernel:{KERNEL}",)
    for name in ("kernel-12345.json", "other.json", f"kernel-{KERNEL}.json.bak"):
        assert attachment(Path("/run") / name, {}, {}).keys == ()


def test_a_notebook_needs_path_and_identity(tmp_path: Path) -> None:
    identity = uuid.uuid4()
    fresh = of(notebook(tmp_path / "a.ipynb"))
    assert (fresh.notebook, fresh.identity) == (str(tmp_path / "a.ipynb"), None)
    assert fresh.keys == (f"kernel:{KERNEL}",)
    known = of(notebook(tmp_path / "a.ipynb", identity))
    assert known.identity == identity
    assert known.keys == (f"kernel:{KERNEL}", f"notebook:{identity}:{tmp_path}/a.ipynb")


def test_names_that_are_no_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert of(Path("console-1-abc")).notebook is None
    assert of(Path("script.py")).notebook is None
    # A path relative to the server's root: the kernel runs in the notebook's folder.
    assert of(Path("deep/folder/n.ipynb")).notebook == str(tmp_path / "n.ipynb")
    remote = f"n-jvsc-{uuid.uuid4()}.ipynb"
    assert of(Path(remote)).notebook == str(tmp_path / "n.ipynb")
    assert of(Path(f"n.ipynb-jvsc-{uuid.uuid4()}")).notebook == str(tmp_path / "n.ipynb")


def test_a_notebook_reached_by_a_link_is_the_same(tmp_path: Path) -> None:
    real = notebook(tmp_path / "real.ipynb", uuid.uuid4())
    (tmp_path / "link.ipynb").symlink_to(real)
    assert of(tmp_path / "link.ipynb").keys == of(real).keys


def test_a_notebook_name_inherited_from_another_kernel_is_not_ours(tmp_path: Path) -> None:
    path = str(notebook(tmp_path / "outer.ipynb", uuid.uuid4()))
    inherited = {"JPY_SESSION_NAME": path}
    assert attachment(CONNECTION, inherited, inherited).notebook is None
    other = {"JPY_SESSION_NAME": "/elsewhere.ipynb"}
    assert attachment(CONNECTION, inherited, other).notebook == path
    # As it is found: a process whose parent has the name too, and one whose parent has not.
    code = (
        "import os, pathlib, reprise.jupyter.attachment as a;"
        "print(a.attachment(pathlib.Path('x'), os.environ).notebook)"
    )
    nested = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {code!r}], check=True)"
    for program, expected in ((code, path), (nested, "None")):
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "JPY_SESSION_NAME": path},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        assert done.stdout.strip() == expected


# the identity in a notebook -----------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"reprise"',
        b'{"metadata": []}',
        b'{"metadata": {"reprise": null}}',
        b'{"metadata": {"reprise": []}}',
        b'{"metadata": {"reprise": {"session": 5}}}',
        b'{"metadata": {"reprise": {"session": "x"}}}',
        b'\xff\xfe{"reprise"',
        b'{"reprise": ' + b"[" * 200_000,
    ],
)
def test_no_content_of_a_notebook_breaks_reading_it(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "n.ipynb"
    path.write_bytes(content)
    assert read_identity(path) is None


@given(st.binary(max_size=100))
def test_no_bytes_break_reading_a_notebook(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "bytes.ipynb"
    path.write_bytes(b'{"reprise"' + content)
    assert read_identity(path) is None


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.ipynb")
    (tmp_path / "folder.ipynb").mkdir()
    assert read_identity(tmp_path / "pipe.ipynb") is None
    assert read_identity(tmp_path / "folder.ipynb") is None
    assert read_identity(tmp_path / "missing.ipynb") is None


def test_a_huge_notebook_is_read_at_its_end_only(tmp_path: Path) -> None:
    identity = uuid.uuid4()
    huge = notebook(tmp_path / "huge.ipynb", identity, pad=NOTEBOOK_BYTES)
    assert huge.stat().st_size > NOTEBOOK_BYTES
    assert read_identity(huge) == identity
    assert read_identity(notebook(huge, None, pad=NOTEBOOK_BYTES)) is None


# which session ------------------------------------------------------------------------------


class Told(list[str]):
    """Collects what the user is told."""

    def __call__(self, text: str) -> None:
        self.append(text)


async def start(log: Log, attached: Attachment, told: Told | None = None) -> tuple[uuid.UUID, bool]:
    """What the router does: resolve, then bind all keys under the lease."""
    session, new = await resolve(
        log, attached, kernel="python3", tell=Told() if told is None else told
    )
    writer = await log.acquire(session, {"pid": os.getpid()}, wait=1)
    for key in attached.keys:
        await writer.bind(key)
    await writer.close()
    return session, new


def kernel_of(path: Path | None = None, **environ: str) -> Attachment:
    """Another kernel process."""
    if path is not None:
        environ["JPY_SESSION_NAME"] = str(path)
    return attachment(Path(f"kernel-{uuid.uuid4()}.json"), environ, {})


async def test_a_set_session_is_taken_or_begun_under_that_id(log: Log) -> None:
    wanted = uuid.uuid4()
    assert await start(log, kernel_of(REPRISE_SESSION=str(wanted))) == (wanted, True)
    assert await start(log, kernel_of(REPRISE_SESSION=str(wanted))) == (wanted, False)


async def test_a_set_session_of_another_owner_is_refused(log: Log, dsn: str, home: Path) -> None:
    other = await Log.connect(dsn, owner="somebody", home=home)
    try:
        taken = await other.begin(kernel="python3")
    finally:
        await other.close()
    with pytest.raises(UsageError, match="another owner"):
        await start(log, kernel_of(REPRISE_SESSION=str(taken)))


async def test_an_automatic_restart_finds_its_session_and_a_new_run_does_not(log: Log) -> None:
    one = kernel_of()
    session, new = await start(log, one)
    assert new
    assert await start(log, one) == (session, False)
    assert (await start(log, kernel_of()))[1]


async def test_a_notebook_finds_its_session_again(log: Log, tmp_path: Path) -> None:
    path = notebook(tmp_path / "a.ipynb")
    session, new = await start(log, kernel_of(path))
    assert new
    notebook(path, session)  # saved
    assert await start(log, kernel_of(path)) == (session, False)
    assert await start(log, kernel_of(path)) == (session, False)


async def test_a_new_notebook_at_an_old_path_inherits_nothing(log: Log, tmp_path: Path) -> None:
    path = notebook(tmp_path / "Untitled.ipynb")
    session, _ = await start(log, kernel_of(path))
    notebook(path, session)
    await start(log, kernel_of(path))
    path.unlink()
    notebook(path)
    other, new = await start(log, kernel_of(path))
    assert new
    assert other != session


async def test_a_renamed_notebook_keeps_its_session_every_time(log: Log, tmp_path: Path) -> None:
    path = notebook(tmp_path / "Untitled.ipynb")
    session, _ = await start(log, kernel_of(path))
    notebook(path, session)
    (tmp_path / "sub").mkdir()
    told = Told()
    for name in ("analysis.ipynb", "sub/final.ipynb", "sub/final2.ipynb"):
        path = path.rename(tmp_path / name)
        notebook(tmp_path / "Untitled.ipynb")  # a new one took its old place
        assert await start(log, kernel_of(path), told) == (session, False)
    assert told == []


@pytest.mark.parametrize("renamed_first", [False, True])
async def test_a_copy_begins_a_session_of_its_own_and_says_so(
    log: Log, tmp_path: Path, renamed_first: bool
) -> None:
    path = notebook(tmp_path / "a.ipynb")
    session, _ = await start(log, kernel_of(path))
    notebook(path, session)
    if renamed_first:
        path = path.rename(tmp_path / "b.ipynb")
        await start(log, kernel_of(path))
    copy = notebook(tmp_path / "a-Copy1.ipynb", session)
    told = Told()
    other, new = await start(log, kernel_of(copy), told)
    assert new
    assert other != session
    assert len(told) == 1
    assert f"looks like a copy of {path}" in told[0]
    assert f"REPRISE_SESSION={session}" in told[0]
    # Started again before it was saved, and after: its own session; the original keeps the first.
    assert await start(log, kernel_of(copy), told) == (other, False)
    notebook(copy, other)
    assert await start(log, kernel_of(copy), told) == (other, False)
    assert await start(log, kernel_of(path), told) == (session, False)
    assert len(told) == 1


async def test_a_strangers_notebook_begins_a_new_session_and_says_so(
    log: Log, dsn: str, home: Path, tmp_path: Path
) -> None:
    other = await Log.connect(dsn, owner="somebody", home=home)
    try:
        theirs = await other.begin(kernel="python3")
    finally:
        await other.close()
    for identity in (theirs, uuid.uuid4()):
        told = Told()
        path = notebook(tmp_path / "shared.ipynb", identity)
        session, new = await start(log, kernel_of(path), told)
        assert new
        assert session != identity
        assert len(told) == 1
        assert "not among yours" in told[0]


async def test_a_restarted_kernel_stays_in_a_session_it_was_moved_to(
    log: Log, tmp_path: Path
) -> None:
    path = notebook(tmp_path / "a.ipynb")
    first, _ = await start(log, kernel_of(path))
    notebook(path, first)
    running = kernel_of(path)
    await start(log, running)
    second = await log.begin(kernel="python3")
    writer = await log.acquire(second, {"pid": os.getpid()}, wait=1)
    await writer.bind(running.keys[0])  # an attach_request
    await writer.close()
    assert await resolve(log, running, kernel="python3") == (second, False)


# the sidecar --------------------------------------------------------------------------------


def test_a_sidecar_is_found_by_its_connection_file_only(tmp_path: Path) -> None:
    connection = tmp_path / CONNECTION.name
    connection.write_text("{}")
    session = uuid.uuid4()
    assert read_sidecar(connection) is None
    write_sidecar(connection, uuid.uuid4())
    around = {"environment": "default", "network": []}
    write_sidecar(connection, session, sandbox_pid=7, agent_token="secret", surroundings=around)
    expected = {
        "session": str(session),
        "pid": os.getpid(),
        "sandbox_pid": 7,
        "agent_token": "secret",
        "surroundings": around,
    }
    assert read_sidecar(connection) == expected
    assert list(sidecars(tmp_path)) == [(connection, expected)]
    assert sidecar_path(connection).stat().st_mode & 0o777 == 0o600
    # Jupyter takes for a connection file what matches these there.
    for pattern in ("kernel*.json", f"*{KERNEL}*"):
        # As jupyter_client looks: glob.glob, unlike Path.glob, leaves dot files out.
        assert glob.glob(str(tmp_path / pattern)) == [str(connection)]
    assert len(list(tmp_path.iterdir())) == 2
    remove_sidecar(connection)
    remove_sidecar(connection)
    assert read_sidecar(connection) is None
    assert list(sidecars(tmp_path)) == []
