"""A notebook file has one writer at a time, is replaced whole, and no edit of anybody's is lost."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest

from reprise.errors import RepriseError, TooLarge, UnavailableError
from reprise_server.agent.contract import Change, Stale
from reprise_server.agent.notebook import file as file_module
from reprise_server.agent.notebook.cells import BadNotebook, by_id, cell_hash, hash_of, normal
from reprise_server.agent.notebook.file import FileNotebook, as_file
from reprise_server.agent.notebook.lock import notebook_lock
from tests.agent.notebooks import code, markdown, of


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "n.ipynb"
    found.write_bytes(as_file(normal(of(code("a", "1"), markdown("m", "# häß"))), "n"))
    return found


@pytest.fixture
def notebook(path: Path, tmp_path: Path) -> FileNotebook:
    return FileNotebook(path, tmp_path / "home")


async def sources(notebook: FileNotebook) -> dict[str, str]:
    return {name: cell["source"] for name, cell in by_id(await notebook.read()).items()}


def insert(name: str, source: str = "x") -> Change:
    return Change("insert", name, after="a", cell_type="code", source=source)


async def test_a_change_keeps_all_else_of_the_file(path: Path, notebook: FileNotebook) -> None:
    path.chmod(0o640)
    link = path.with_name("link.ipynb")
    link.symlink_to(path)
    await FileNotebook(link, notebook._home).apply([insert("n")])
    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o640
    assert await sources(notebook) == {"a": "1", "n": "x", "m": "# häß"}
    # As Jupyter writes it: a diff shows what changed and nothing else.
    text = path.read_text()
    assert nbformat.writes(nbformat.reads(text, as_version=4)) + "\n" == text
    assert "häß" in text
    assert sorted(each.name for each in path.parent.iterdir()) == ["home", "link.ipynb", "n.ipynb"]


async def test_what_somebody_typed_meanwhile_is_never_written_over(notebook: FileNotebook) -> None:
    was = cell_hash(by_id(await notebook.read())["a"])
    typed = [Change("replace", "a", was=was, source="typed")]
    await notebook.apply(typed)
    before = notebook._given.read_bytes()
    for change in (
        Change("replace", "a", was=was, source="agent"),
        Change("delete", "a", was=was),
        Change("move", "a", was=was, after="m"),
    ):
        with pytest.raises(Stale):
            await notebook.apply([insert("n"), change])
    assert notebook._given.read_bytes() == before


async def test_an_editors_save_in_mid_change_is_seen(path: Path, tmp_path: Path) -> None:
    """An editor takes no lock; it writes between our reading and our writing."""
    saves = iter([code("a", "1"), code("b", "saved by the editor")])
    cells: list[dict[str, Any]] = []

    def editor() -> None:
        if (cell := next(saves, None)) is not None:
            cells.append(cell)
            path.write_bytes(as_file(normal(of(*cells)), "n"))

    notebook = FileNotebook(path, tmp_path / "home", before_saving=editor)
    await notebook.apply([insert("n")])
    assert await sources(notebook) == {"a": "1", "n": "x", "b": "saved by the editor"}


async def test_an_editor_that_changes_the_very_cell_wins(path: Path, tmp_path: Path) -> None:
    def editor() -> None:
        path.write_bytes(as_file(normal(of(code("a", "typed"))), "n"))

    notebook = FileNotebook(path, tmp_path / "home", before_saving=editor)
    with pytest.raises(Stale, match="a changed"):
        await notebook.apply([Change("replace", "a", was=hash_of("code", "1"), source="agent")])
    assert await sources(notebook) == {"a": "typed"}


async def test_an_editor_that_never_stops_saving_is_given_way(path: Path, tmp_path: Path) -> None:
    count = 0

    def editor() -> None:
        nonlocal count
        count += 1
        path.write_bytes(as_file(normal(of(code("a", "1"), code("b", str(count)))), "n"))

    notebook = FileNotebook(path, tmp_path / "home", before_saving=editor)
    with pytest.raises(Stale, match="5 times"):
        await notebook.apply([insert("n")])
    assert await sources(notebook) == {"a": "1", "b": "5"}


WRITER = """
import asyncio, sys
from pathlib import Path
from reprise_server.agent.contract import Change
from reprise_server.agent.notebook.file import FileNotebook

async def main(path, home, name, count):
    notebook = FileNotebook(Path(path), Path(home))
    for number in range(int(count)):
        change = Change("insert", f"{name}-{number}", after="a", cell_type="code", source=name)
        await notebook.apply([change])

asyncio.run(main(*sys.argv[1:]))
"""


async def test_writers_in_several_processes_lose_no_edit(
    path: Path, notebook: FileNotebook, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    others = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(path), str(home), name, "15"])
        for name in ("p", "q")
    ]
    here = [
        asyncio.create_task(FileNotebook(path, home).apply([insert(f"t-{number}")]))
        for number in range(15)
    ]
    await asyncio.gather(*here)
    for other in others:
        assert await asyncio.to_thread(other.wait, 120) == 0
    found = await sources(notebook)
    wanted = {f"{name}-{number}" for name in ("p", "q", "t") for number in range(15)}
    assert found.keys() == {"a", "m", *wanted}


async def test_a_cancelled_change_is_whole_and_lets_go_of_the_lock(
    path: Path, notebook: FileNotebook, tmp_path: Path
) -> None:
    reached, go_on = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def hold() -> None:
        loop.call_soon_threadsafe(reached.set)
        asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result(60)

    slow = FileNotebook(path, tmp_path / "home", before_saving=hold)
    running = asyncio.create_task(slow.apply([insert("cut")]))
    await reached.wait()
    waiting = asyncio.create_task(notebook.apply([insert("next")]))
    running.cancel()
    await asyncio.sleep(0)
    running.cancel()
    # It has not let go: what it began may still be written.
    done, _ = await asyncio.wait([running, waiting], timeout=0.2)
    assert not done
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await running
    await waiting
    assert (await sources(notebook)).keys() == {"a", "m", "cut", "next"}


async def test_a_lock_that_is_held_too_long_is_told(tmp_path: Path) -> None:
    async with notebook_lock(tmp_path, "key", "n.ipynb"):
        with pytest.raises(UnavailableError, match=r"n\.ipynb is being changed by another agent"):
            async with notebook_lock(tmp_path, "key", "n.ipynb", patience=0.05):
                raise AssertionError("two hold it")
        async with notebook_lock(tmp_path, "another", "o.ipynb", patience=0):
            pass
    async with notebook_lock(tmp_path, "key", "n.ipynb", patience=0):
        pass


async def test_what_cannot_be_written_leaves_the_file(
    path: Path, notebook: FileNotebook, tmp_path: Path
) -> None:
    broken = {**of(code("a", "1")), "metadata": {"bad": "\ud800"}}
    path.write_text(json.dumps(broken))
    before = path.read_bytes()
    with pytest.raises(RepriseError, match="not Unicode"):
        await notebook.apply([insert("n")])
    assert path.read_bytes() == before
    for given, error in (
        (tmp_path / "none.ipynb", UnavailableError),
        (tmp_path, UnavailableError),
        (Path("/dev/null"), BadNotebook),
    ):
        with pytest.raises(error):
            await FileNotebook(given, tmp_path / "home").apply([insert("n")])


async def test_a_file_that_is_half_written_is_read_again(
    path: Path, notebook: FileNotebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Jupyter itself does it: the file is emptied, and then filled."""
    whole = path.read_bytes()
    states = [b"", whole[:100]]
    read = notebook._bytes

    def half() -> bytes:
        return states.pop(0) if states else read()

    monkeypatch.setattr(notebook, "_bytes", half)
    await notebook.apply([insert("n")])
    assert await sources(notebook) == {"a": "1", "n": "x", "m": "# häß"}
    path.write_bytes(whole[:100])
    with pytest.raises(BadNotebook, match="not JSON"):
        await notebook.apply([insert("o")])
    assert path.read_bytes() == whole[:100]


async def test_a_read_only_notebook_is_not_replaced(path: Path, notebook: FileNotebook) -> None:
    before = path.read_bytes()
    path.chmod(0o444)
    with pytest.raises(UnavailableError, match="read-only"):
        await notebook.apply([insert("n")])
    assert path.read_bytes() == before
    assert path.stat().st_mode & 0o777 == 0o444


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a file away")
async def test_a_notebook_stays_its_owners(path: Path, notebook: FileNotebook) -> None:
    os.chown(path, 1234, 1234)
    await notebook.apply([insert("n")])
    assert (path.stat().st_uid, path.stat().st_gid) == (1234, 1234)


async def test_a_notebook_has_a_bound(
    path: Path, notebook: FileNotebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_module, "MAX_BYTES", path.stat().st_size)
    await notebook.read()
    monkeypatch.setattr(file_module, "MAX_BYTES", path.stat().st_size - 1)
    with pytest.raises(TooLarge):
        await notebook.read()


async def test_a_notebook_of_another_user_cannot_be_taken_by_its_lock(tmp_path: Path) -> None:
    """A lock file that somebody put there as a link leads nowhere."""
    home = tmp_path / "home"
    async with notebook_lock(home, "key", "n"):
        (lock,) = (home / "locks").iterdir()
    victim = tmp_path / "victim"
    lock.unlink()
    lock.symlink_to(victim)
    with pytest.raises(UnavailableError, match="Locks of notebooks"):
        async with notebook_lock(home, "key", "n"):
            raise AssertionError("a link was followed")
    assert not victim.exists()
    assert os.stat(home / "locks").st_mode & 0o077 == 0
