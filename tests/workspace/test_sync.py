"""The folder's changes reach the workspace as upload steps, conflicts are told, a resume goes on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from reprise.log.model import NO_OUTPUTS, SYSTEM, NewOutcome, NewStep
from reprise.log.postgres import Log
from reprise.log.writer import Writer
from reprise.sandbox.connection import Guest
from reprise.workspace.folder import Bounds, HostFolder
from reprise.workspace.sync import FolderChange, FolderSync
from reprise.workspace.transfer import (
    apply_upload,
    clear_workspace,
    read_file,
    send_entries,
    stat_path,
)

from .trees import file

ENVIRONMENT = "e" * 64


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "notebooks"
    path.mkdir()
    return path


@pytest.fixture
async def writer(log: Log) -> AsyncIterator[Writer]:
    held = await log.acquire(await log.begin(kernel="python3"), {"name": "sync"})
    yield held
    await held.close()


async def step(change: FolderChange, guest: Guest, writer: Writer, status: str = "ok") -> None:
    """As the engine does it."""
    await change.store(writer.blobs)
    payload = change.payload
    assert payload is not None
    accepted = await writer.append_step(
        NewStep("upload", payload, ENVIRONMENT, 1, SYSTEM, blobs=change.blobs)
    )
    await change.apply(guest, writer.blobs)
    await writer.record_outcome(accepted.seq, NewOutcome(status, NO_OUTPUTS, 2))  # type: ignore[arg-type]


async def bring_in(sync: FolderSync, guest: Guest, writer: Writer) -> FolderChange:
    change = await sync.changes(guest)
    assert change is not None
    await step(change, guest, writer)
    sync.done(change)
    return change


async def write_inside(guest: Guest, path: str, data: bytes) -> None:
    async def read(_: str) -> bytes:
        return data

    await send_entries(guest, [file(path, data)], read)


async def test_the_folder_comes_in_then_only_its_changes(
    root: Path, guest: Guest, writer: Writer
) -> None:
    (root / "a.py").write_text("1")
    (root / "b.py").write_text("1")
    sync = await FolderSync.begin(HostFolder(root), writer)
    first = await bring_in(sync, guest, writer)
    assert [entry[0] for entry in (first.payload or {})["entries"]] == ["a.py", "b.py"]
    assert await sync.changes(guest) is None
    (root / "a.py").write_text("changed")
    (root / "b.py").unlink()
    second = await bring_in(sync, guest, writer)
    assert not second.notices
    assert [entry[0] for entry in (second.payload or {})["entries"]] == ["a.py"]
    assert (second.payload or {})["removed"] == ["b.py"]
    assert await read_file(guest, "a.py", 100) == b"changed"
    assert await stat_path(guest, "b.py") is None
    assert await sync.changes(guest) is None


async def test_a_conflict_is_told_once_and_the_workspace_stays(
    root: Path, guest: Guest, writer: Writer
) -> None:
    (root / "a").write_text("1")
    sync = await FolderSync.begin(HostFolder(root), writer)
    await bring_in(sync, guest, writer)
    await write_inside(guest, "a", b"the cell's")
    await write_inside(guest, "new", b"the cell's")
    (root / "a").write_text("2")
    (root / "new").write_text("2")
    change = await sync.changes(guest)
    assert change is not None
    assert change.payload is None
    (notice,) = change.notices
    assert notice.code == "folder-conflict"
    assert "a (changed in the workspace too)" in notice.text
    assert "new (created in the workspace too)" in notice.text
    assert await sync.changes(guest) is None
    assert await read_file(guest, "a", 100) == b"the cell's"
    assert await read_file(guest, "new", 100) == b"the cell's"


async def test_a_new_process_goes_on_from_the_logs_uploads(
    root: Path, guest: Guest, writer: Writer
) -> None:
    (root / "a").write_text("1")
    (root / "nb.ipynb").write_text("{}")
    folder = HostFolder(root, notebook=Path("nb.ipynb"))
    await bring_in(await FolderSync.begin(folder, writer), guest, writer)
    (root / "b").write_text("1")
    (root / "nb.ipynb").write_text('{"saved": 1}')
    again = await FolderSync.begin(HostFolder(root, notebook=Path("nb.ipynb")), writer)
    change = await bring_in(again, guest, writer)
    assert [entry[0] for entry in (change.payload or {})["entries"]] == ["b"]
    # A fresh sandbox that plays the uploads again has the same files.
    await clear_workspace(guest)
    async for record in writer.records(outputs=False):
        await apply_upload(guest, record.step.payload, writer.blobs)
    assert await read_file(guest, "a", 100) == b"1"
    assert await read_file(guest, "b", 100) == b"1"


@pytest.mark.parametrize("status", ["lost", "died", "interrupted"])
async def test_an_upload_that_is_not_replayed_is_made_again(
    root: Path, guest: Guest, writer: Writer, status: str
) -> None:
    (root / "a").write_text("1")
    sync = await FolderSync.begin(HostFolder(root), writer)
    change = await sync.changes(guest)
    assert change is not None
    await step(change, guest, writer, status)
    await clear_workspace(guest)
    again = await FolderSync.begin(HostFolder(root), writer)
    await bring_in(again, guest, writer)
    assert await read_file(guest, "a", 100) == b"1"


async def test_an_emptied_workspace_gets_the_folder_again(
    root: Path, guest: Guest, writer: Writer
) -> None:
    (root / "a").write_text("1")
    await bring_in(await FolderSync.begin(HostFolder(root), writer), guest, writer)
    emptied = NewStep("restart", {"tree": None, "emptied": True}, ENVIRONMENT, 3, SYSTEM)
    accepted = await writer.append_step(emptied)
    await writer.record_outcome(accepted.seq, NewOutcome("ok", NO_OUTPUTS, 4))
    await clear_workspace(guest)
    await bring_in(await FolderSync.begin(HostFolder(root), writer), guest, writer)
    assert await read_file(guest, "a", 100) == b"1"


async def test_a_file_that_changes_after_the_scan_is_named_as_it_was_read(
    root: Path, guest: Guest, writer: Writer
) -> None:
    (root / "a").write_text("scanned")
    (root / "gone").write_text("1")
    sync = await FolderSync.begin(HostFolder(root), writer)
    change = await sync.changes(guest)
    assert change is not None
    (root / "a").write_text("changed")
    (root / "gone").unlink()
    await step(change, guest, writer)
    sync.done(change)
    assert await read_file(guest, "a", 100) == b"changed"
    assert await sync.changes(guest) is None
    (root / "a").write_text("and on")
    await bring_in(sync, guest, writer)
    assert await read_file(guest, "a", 100) == b"and on"


async def test_a_folder_too_big_is_told_once(root: Path, guest: Guest, writer: Writer) -> None:
    (root / "big").write_bytes(b"x" * 200)
    (root / "small").write_bytes(b"x")
    sync = await FolderSync.begin(HostFolder(root, Bounds(bytes=100, files=10)), writer)
    change = await bring_in(sync, guest, writer)
    (notice,) = change.notices
    assert notice.code == "folder-too-big"
    assert "big (200 bytes)" in notice.text
    assert "reprise env mount" in notice.text
    (root / "small").write_bytes(b"y")
    assert not (await bring_in(sync, guest, writer)).notices
