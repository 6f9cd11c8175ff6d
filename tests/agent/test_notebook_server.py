"""On a real Jupyter server the agent's edits meet the person's: in a room, in a page, in the file."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any

import pytest
from jupyter_server.services.contents.manager import ContentsManager
from tornado.web import HTTPError

from reprise.errors import UnavailableError
from reprise.jupyter.static.policy import EDITED_BY
from reprise_server.agent.contract import Change, Stale
from reprise_server.agent.notebook.cells import apply, by_id, cell_hash, hash_of, normal, snapshot
from reprise_server.agent.notebook.contents import ContentsNotebook
from reprise_server.agent.notebook.file import FileNotebook, as_file
from reprise_server.agent.notebook.live import LiveNotebook, bare
from reprise_server.agent.notebook.pages import Pages
from reprise_server.agent.notebook.restoring import put_back_in
from tests.agent.notebooks import code, markdown, of
from tests.agent.page import ReferencePage
from tests.fixtures.collaboration import InsideServer, OpenRoom


def write(server: InsideServer, *cells: dict[str, Any], **more: Any) -> Path:
    path = server.root / "n.ipynb"
    content = of(*cells, **more)
    path.write_bytes(
        as_file(normal(content), "n")
        if "nbformat_minor" not in more
        else json.dumps(content).encode()
    )
    return path


def live(server: InsideServer, pages: Pages | None = None) -> LiveNotebook:
    return LiveNotebook(
        "n.ipynb",
        server.app,
        pages or Pages(asyncio.get_running_loop()),
        server.root.parent / "home",
    )


async def sources(notebook: Any) -> list[str]:
    return [cell["source"] for cell in (await notebook.read())["cells"]]


def insert(name: str, source: str = "x", after: str = "a") -> Change:
    return Change("insert", name, after=after, cell_type="code", source=source)


def replace(name: str, was: str, source: str) -> Change:
    return Change("replace", name, was=hash_of("code", was), source=source)


SHOWN = {"output_type": "stream", "name": "stdout", "text": "shown\n"}


# Nobody has it open -------------------------------------------------------------------------------


async def test_without_a_page_the_contents_manager_saves(plain_server: InsideServer) -> None:
    path = write(plain_server, code("a", "1"), markdown("m", "# häß"))
    notebook = live(plain_server)
    assert await sources(notebook) == ["1", "# häß"]
    assert notebook.where == "file"
    await notebook.apply([insert("n"), replace("a", "1", "2")])
    stored = await plain_server.ask("GET", "api/contents/n.ipynb")
    assert [cell["source"] for cell in stored["content"]["cells"]] == ["2", "x", "# häß"]
    assert json.loads(path.read_bytes())["cells"][0]["metadata"] == {EDITED_BY: "agent"}
    with pytest.raises(Stale):
        await notebook.apply([insert("o"), replace("a", "1", "3")])
    assert await sources(notebook) == ["2", "x", "# häß"]


async def test_painted_outputs_are_not_signed_as_the_persons(plain_server: InsideServer) -> None:
    write(plain_server, code("a", "1"), code("b", "2", outputs=[SHOWN]))
    await plain_server.ask("POST", "api/contents/n.ipynb/trust")  # the person trusts the notebook
    notebook = live(plain_server)
    cell = by_id(await notebook.read())["b"]
    assert cell["metadata"]["trusted"] is True
    script = {
        "output_type": "display_data",
        "data": {"text/html": "<script>steal()</script>", "text/plain": ""},
        "metadata": {},
    }
    await notebook.apply([Change("outputs", "a", outputs=[script], execution_count=1)])
    stored = await plain_server.ask("GET", "api/contents/n.ipynb")
    by = {each["id"]: each["metadata"]["trusted"] for each in stored["content"]["cells"]}
    assert by == {"a": False, "b": False}
    assert "trusted" not in (plain_server.root / "n.ipynb").read_text()


async def test_a_save_of_the_persons_in_mid_change_is_kept(plain_server: InsideServer) -> None:
    write(plain_server, code("a", "1"))
    saved = 0

    async def save() -> None:
        nonlocal saved
        if saved == 0:
            content = normal(of(code("a", "1"), code("b", "saved in a page")))
            body = {"type": "notebook", "format": "json", "content": content}
            await plain_server.ask("PUT", "api/contents/n.ipynb", body)
        saved += 1

    manager = plain_server.app.contents_manager
    home = plain_server.root.parent / "home"
    notebook = ContentsNotebook("n.ipynb", manager, asyncio.get_running_loop(), home, save)
    await notebook.apply([insert("n")])
    assert saved == 2
    assert await sources(notebook) == ["1", "x", "saved in a page"]


async def test_agents_on_the_server_and_in_a_terminal_lose_no_edit(
    plain_server: InsideServer,
) -> None:
    path = write(plain_server, code("a", "1"))
    home = plain_server.root.parent / "home"
    pages = Pages(asyncio.get_running_loop())
    here = [live(plain_server, pages).apply([insert(f"s-{n}")]) for n in range(12)]
    there = [FileNotebook(path, home).apply([insert(f"t-{n}")]) for n in range(12)]
    await asyncio.gather(*here, *there)
    found = by_id(await live(plain_server).read()).keys()
    assert found == {"a", *(f"{k}-{n}" for k in "st" for n in range(12))}


async def test_a_manager_that_keeps_no_files_and_knows_no_hashes(
    plain_server: InsideServer, tmp_path: Path
) -> None:
    class Memory(ContentsManager):
        content: Any = normal(of(code("a", "1")))
        saves = 0

        def get(self, path: str, content: bool = True, **_: Any) -> Any:
            if path != "n.ipynb":
                raise HTTPError(404, "No such notebook")
            return {"type": "notebook", "content": json.loads(json.dumps(self.content))}

        def save(self, model: Any, path: str) -> Any:
            self.content = model["content"]
            return {}

    memory = Memory(root_dir="")

    async def meddle() -> None:
        memory.saves += 1
        if memory.saves == 1:
            memory.content = normal(of(code("a", "1"), code("b", "2")))

    loop = asyncio.get_running_loop()
    notebook = ContentsNotebook("n.ipynb", memory, loop, tmp_path, meddle)
    await notebook.apply([insert("n")])
    assert await sources(notebook) == ["1", "x", "2"]
    with pytest.raises(UnavailableError, match="No such notebook"):
        await ContentsNotebook("o.ipynb", memory, loop, tmp_path).read()


async def test_what_is_half_saved_is_read_again(plain_server: InsideServer, tmp_path: Path) -> None:
    write(plain_server, code("a", "1"))
    manager = plain_server.app.contents_manager
    times = 0

    class Halves:
        def get(self, *args: Any, require_hash: bool = False, **given: Any) -> Any:
            nonlocal times
            times += 1
            if times % 3:
                raise HTTPError(400, "Unreadable Notebook")
            return manager.get(*args, require_hash=require_hash, **given)

        def save(self, *args: Any) -> Any:
            return manager.save(*args)

    loop = asyncio.get_running_loop()
    notebook = ContentsNotebook("n.ipynb", Halves(), loop, tmp_path)  # type: ignore[arg-type]
    await notebook.apply([insert("n")])
    assert await sources(notebook) == ["1", "x"]
    (plain_server.root / "n.ipynb").write_text("{")
    with pytest.raises(UnavailableError, match="could not be read on the server"):
        await ContentsNotebook("n.ipynb", manager, loop, tmp_path).read()


async def elsewhere(work: Coroutine[Any, Any, Any]) -> Any:
    """What `work` gives on a loop in a thread of its own, as conversations run."""
    told: list[Any] = []
    thread = threading.Thread(target=lambda: told.append(asyncio.run(work)))
    thread.start()
    await asyncio.to_thread(thread.join, 60)
    return told[0]


async def test_what_is_stored_is_changed_from_another_loop(plain_server: InsideServer) -> None:
    write(plain_server, code("a", "1"))
    notebook = live(plain_server)
    await elsewhere(notebook.apply([insert("n")]))
    assert await elsewhere(sources(notebook)) == ["1", "x"]


async def test_a_server_that_ends_is_told(plain_server: InsideServer) -> None:
    write(plain_server, code("a", "1"))
    loop = asyncio.new_event_loop()
    loop.close()
    with pytest.raises(UnavailableError, match="server is ending"):
        await live(plain_server, Pages(loop)).read()


# A page has it open -------------------------------------------------------------------------------


async def test_a_connected_page_is_changed_and_its_file_is_not(plain_server: InsideServer) -> None:
    path = write(plain_server, code("a", "1"))
    before = path.read_bytes()
    pages = Pages(asyncio.get_running_loop())
    page = ReferencePage(normal(of(code("a", "1"), code("u", "not saved"))))
    pages.join("n.ipynb", page)
    notebook = live(plain_server, pages)
    assert await sources(notebook) == ["1", "not saved"]
    assert notebook.where == "page"
    await notebook.apply([insert("n"), replace("a", "1", "2")])
    assert page.sources() == ["2", "x", "not saved"]
    page.answer = {"error": "read-only"}
    with pytest.raises(Exception, match="none of the changes: read-only"):
        await notebook.apply([insert("o")])
    assert path.read_bytes() == before
    pages.leave("n.ipynb", page)
    await notebook.apply([insert("o")])
    assert notebook.where == "file"
    assert await sources(notebook) == ["1", "x"]


async def test_a_page_that_opens_just_before_the_save_gets_the_change(
    plain_server: InsideServer,
) -> None:
    path = write(plain_server, code("a", "1"))
    before = path.read_bytes()
    pages = Pages(asyncio.get_running_loop())
    page = ReferencePage(normal(of(code("a", "1"))))

    class Opening(LiveNotebook):
        async def _still_closed(self) -> None:
            pages.join("n.ipynb", page)
            await super()._still_closed()

    home = plain_server.root.parent / "home"
    await Opening("n.ipynb", plain_server.app, pages, home).apply([insert("n")])
    assert page.sources() == ["1", "x"]
    assert path.read_bytes() == before


# A room is open -----------------------------------------------------------------------------------


async def test_in_a_room_everybody_sees_the_agents_edits(
    collaborating_server: InsideServer, open_room: OpenRoom
) -> None:
    path = write(
        collaborating_server,
        code("a", "x = 1\ny = 2"),
        code("b", "2", outputs=[SHOWN]),
        markdown("m", "# m"),
    )
    notebook = live(collaborating_server)
    assert await sources(notebook) == ["x = 1\ny = 2", "2", "# m"]
    assert notebook.where == "file"
    one = await open_room(collaborating_server, "n.ipynb")
    two = await open_room(collaborating_server, "n.ipynb")
    await notebook.apply(
        [
            replace("a", "x = 1\ny = 2", "x = 1\nz = häß\ny = 2"),
            Change("delete", "m", was=hash_of("markdown", "# m")),
            Change("move", "b", was=hash_of("code", "2"), after=""),
            insert("n", "new"),
            Change("outputs", "n", outputs=[SHOWN], execution_count=7),
        ]
    )
    assert notebook.where == "room"
    for page in (one, two):
        wanted = ["2", "x = 1\nz = häß\ny = 2", "new"]
        await page.until(lambda page=page, wanted=wanted: page.sources() == wanted)
    assert one.notebook.get() == two.notebook.get()
    cell = one.notebook.get()["cells"][2]
    assert (cell["outputs"], cell["execution_count"]) == ([SHOWN], 7)
    assert cell["metadata"] == {EDITED_BY: "agent", "trusted": False}
    # What the person types then is read, and is not written over.
    with one.doc.transaction():
        source = one.notebook.ycells[2]["source"]
        source += " typed"
    await two.until(lambda: two.sources()[2] == "new typed")
    assert (await sources(notebook))[2] == "new typed"
    with pytest.raises(Stale):
        await notebook.apply([replace("n", "new", "agent"), insert("o")])
    assert (await sources(notebook)) == ["2", "x = 1\nz = häß\ny = 2", "new typed"]
    # The room saves itself.
    async with asyncio.timeout(60):
        while "new typed" not in path.read_text():
            await asyncio.sleep(0.05)


async def test_text_that_is_typed_at_the_same_time_is_merged(
    collaborating_server: InsideServer, open_room: OpenRoom
) -> None:
    """The person types in a page whose update is on its way while the agent edits the room."""
    write(collaborating_server, code("a", "one\ntwo\nthree"), code("b", "b"))
    page = await open_room(collaborating_server, "n.ipynb")
    notebook = live(collaborating_server)
    with page.doc.transaction():
        page.notebook.ycells[0]["source"].insert(0, "typed ")
        page.notebook.ycells[1]["source"].insert(1, "!")
    await notebook.apply([replace("a", "one\ntwo\nthree", "one\ntwo\nTHREE")])
    await page.until(lambda: page.sources()[0].endswith("THREE"))
    assert page.sources() == ["typed one\ntwo\nTHREE", "b!"]
    while await sources(notebook) != page.sources():
        await asyncio.sleep(0.01)


async def test_a_room_of_an_old_format_keeps_ids(
    collaborating_server: InsideServer, open_room: OpenRoom
) -> None:
    old = {
        "cell_type": "code",
        "metadata": {},
        "source": "1",
        "outputs": [],
        "execution_count": None,
    }
    path = write(collaborating_server, old, {**old, "source": "2"}, nbformat_minor=4)
    page = await open_room(collaborating_server, "n.ipynb")
    notebook = live(collaborating_server)
    (first, second) = by_id(await notebook.read())
    await notebook.apply([replace(second, "2", "3")])
    await page.until(lambda: page.sources() == ["1", "3"])
    assert list(by_id(await notebook.read())) == [first, second]
    async with asyncio.timeout(60):
        # Jupyter empties the file before it fills it.
        while '"nbformat_minor": 5\n}' not in path.read_text():
            await asyncio.sleep(0.05)
    stored = json.loads(path.read_bytes())["cells"]
    assert [cell["id"] for cell in stored] == [first, second]


async def test_types_and_attachments_change_in_a_room(
    collaborating_server: InsideServer, open_room: OpenRoom
) -> None:
    picture = {"a.png": {"image/png": "AAAA"}}
    write(
        collaborating_server,
        code("a", "1", outputs=[SHOWN], execution_count=3),
        {**markdown("m", "![](attachment:a.png)"), "attachments": picture},
    )
    page = await open_room(collaborating_server, "n.ipynb")
    notebook = live(collaborating_server)
    before = by_id(await notebook.read())
    await notebook.apply(
        [
            Change("replace", "a", was=cell_hash(before["a"]), cell_type="markdown", source="# 1"),
            Change("replace", "m", was=cell_hash(before["m"]), source="text"),
        ]
    )
    await page.until(lambda: page.sources() == ["# 1", "text"])
    now = by_id(await notebook.read())
    assert "outputs" not in now["a"]
    assert now["m"]["attachments"] == picture
    await notebook.apply(
        [
            Change("replace", name, was=cell_hash(now[name]), restored=before[name])
            for name in ("a", "m")
        ]
    )
    await page.until(lambda: page.sources() == ["1", "![](attachment:a.png)"])
    assert by_id(await notebook.read()) == before


async def test_a_room_that_closes_in_mid_change_loses_nothing(
    collaborating_server: InsideServer, open_room: OpenRoom
) -> None:
    """The room goes between finding it and changing it; what it held would go with it."""
    write(collaborating_server, code("a", "1"))
    await open_room(collaborating_server, "n.ipynb")

    async def gone(path: str) -> None: ...

    class Closing(LiveNotebook):
        async def _opened(self) -> Any:
            found = await super()._opened()
            self._rooms.document = gone  # type: ignore[method-assign]
            return found

    home = collaborating_server.root.parent / "home"
    pages = Pages(asyncio.get_running_loop())
    notebook = Closing("n.ipynb", collaborating_server.app, pages, home)
    await notebook.apply([insert("n")])
    assert notebook.where == "file"
    stored = await collaborating_server.ask("GET", "api/contents/n.ipynb")
    assert [cell["source"] for cell in stored["content"]["cells"]] == ["1", "x"]


async def test_a_turn_is_put_back_in_a_room_from_another_loop(
    collaborating_server: InsideServer, open_room: OpenRoom
) -> None:
    write(collaborating_server, code("a", "1", outputs=[SHOWN]), code("b", "2"), markdown("m", "m"))
    page = await open_room(collaborating_server, "n.ipynb")
    notebook = live(collaborating_server)
    then = await elsewhere(notebook.read())
    made = [
        replace("a", "1", "agent"),
        Change("outputs", "a", outputs=[], execution_count=2),
        insert("n", "new", after="b"),
        Change("delete", "m", was=hash_of("markdown", "m")),
        Change("move", "b", was=hash_of("code", "2"), after=""),
    ]
    await elsewhere(notebook.apply(made))
    await page.until(lambda: page.sources() == ["2", "agent", "new"])
    page.notebook.ycells[0]["source"].insert(1, " typed")
    page.notebook.ycells.append(page.notebook.create_ycell(code("u", "mine")))
    while await sources(notebook) != page.sources():
        await asyncio.sleep(0.01)
    found = await elsewhere(put_back_in(notebook, snapshot(then), apply(then, made).edits))
    assert found.kept == ("b",)
    # What was deleted comes back behind the cell that it followed, wherever that is by now.
    await page.until(lambda: page.sources() == ["2 typed", "m", "1", "mine"])
    now = by_id(await notebook.read())
    old = by_id(then)
    assert {name: now[name] for name in ("a", "m")} == {name: old[name] for name in ("a", "m")}


async def test_two_agents_and_a_person_in_one_room_lose_nothing(
    collaborating_server: InsideServer, open_room: OpenRoom
) -> None:
    write(collaborating_server, code("a", "1"))
    page = await open_room(collaborating_server, "n.ipynb")
    one, two = live(collaborating_server), live(collaborating_server)

    async def work(notebook: LiveNotebook, name: str) -> None:
        for number in range(10):
            await notebook.apply([insert(f"{name}-{number}")])

    async def person() -> None:
        for number in range(10):
            cell = page.notebook.create_ycell(code(f"p-{number}", "person"))
            page.notebook.ycells.append(cell)
            await asyncio.sleep(0)

    await asyncio.gather(work(one, "one"), work(two, "two"), person())
    wanted = {"a", *(f"{k}-{n}" for k in ("one", "two", "p") for n in range(10))}
    await page.until(lambda: {cell["id"] for cell in page.notebook.ycells} == wanted)
    async with asyncio.timeout(60):
        while by_id(await one.read()).keys() != wanted:
            await asyncio.sleep(0.01)


def test_a_collaborative_path_is_the_notebooks_own() -> None:
    told: Mapping[str, str] = {"RTC:a/b.ipynb": "a/b.ipynb", "/a.ipynb": "a.ipynb", "x:y": "x:y"}
    assert {path: bare(path) for path in told} == told
