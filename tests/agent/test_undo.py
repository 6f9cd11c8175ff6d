"""An undo takes back one turn: session and notebook, over nobody else's step or edit, cut or not."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import nbformat
import pytest

from reprise.log.model import SYSTEM, USER, Actor, NewOutcome, NewStep, outputs_hash
from reprise_server.agent.contract import Call as Made
from reprise_server.agent.contract import Change, Document, Edit, Result, text
from reprise_server.agent.notebook.cells import cell_hash
from reprise_server.agent.notebook.file import FileNotebook
from reprise_server.agent.scripted import says
from reprise_server.agent.undo import CannotUndo, Undone, undo
from tests.agent import notebooks
from tests.agent.test_turn import notes
from tests.fixtures.conversations import Doing, MakeTalk, Talk


class Bench:
    """A conversation in a session that has steps of a person, of turns, and of the system."""

    def __init__(self, talk: Talk, session: uuid.UUID) -> None:
        self.talk = talk
        self.log = talk.log
        self.session = session
        self.document: Document | None = None

    async def step(self, actor: Actor = USER, session: uuid.UUID | None = None) -> int:
        writer = await self.log.acquire(session or self.session, {"pid": 1})
        try:
            new = NewStep("command", {"shell": "true"}, "0" * 64, 1, actor)
            step = await writer.append_step(new)
            await writer.record_outcome(step.seq, NewOutcome("ok", outputs_hash([]), 2))
            return step.seq
        finally:
            await writer.close()

    async def act(self, call: Made) -> Result:
        """What the tool of these tests does: a step of the turn's, or what its input names."""
        match call.input["text"]:
            case "nothing":
                return Result([text("nothing")])
            case "outside":
                return Result([text("sent")], outside=("it sent 3 bytes to a.example",))
            case "edit":
                assert self.document is not None
                source = "y = 2"
                change = Change("insert", "two", after="one", cell_type="code", source=source)
                await self.document.apply([change])
                after = cell_hash(notebooks.code("two", source))
                return Result([text("edited")], edits=(Edit("two", None, after),))
            case _:
                seq = await self.step(Actor("agent", call.conversation, call.turn))
                return Result([text("ran")], steps=(seq,))

    async def undo(self, *, fork: bool = False) -> Undone:
        async def opened(path: str) -> Document:
            assert self.document is not None
            return self.document

        return await undo(self.talk.here, self.log, opened, fork=fork, by="tester")

    async def steps(self, session: uuid.UUID) -> int:
        return (await (await self.log.reader(session)).info()).steps


@pytest.fixture
def bench(talk: MakeTalk, tmp_path: Path) -> Any:
    async def make(*turns: str, notebook: bool = False) -> Bench:
        document = None
        if notebook:
            file = tmp_path / "a.ipynb"
            nbformat.write(nbformat.from_dict(notebooks.of(notebooks.code("one", "x = 1"))), file)
            document = FileNotebook(file, tmp_path / "home")
        tool = Doing()
        script = [step for each in turns for step in (notes(*each.split()), says("Done."))]
        begun = {"notebook": "a.ipynb"} if notebook else {}
        made = await talk(script, [tool], document=document, begun=begun)
        found = Bench(made, await made.session())
        found.document = document
        tool.do = found.act
        return found

    return make


async def test_it_goes_back_to_before_the_turn_and_the_one_before(bench: Any) -> None:
    made = await bench("run run", "run")
    await made.step()
    await made.step()
    await made.talk.turn("One.")
    await made.talk.turn("Two.")
    second = await made.undo()
    assert (second.turn, second.at) == (2, 3)
    assert await made.steps(second.session) == 4
    assert await made.steps(made.session) == 5
    first = await made.undo()
    assert (first.turn, first.at) == (1, 1)
    assert await made.steps(first.session) == 2
    with pytest.raises(CannotUndo):
        await made.undo()


async def test_steps_of_others_are_in_the_way_and_stay_when_it_is_forked(bench: Any) -> None:
    made = await bench("run")
    await made.step()
    await made.talk.turn()
    await made.step(SYSTEM)
    theirs = await made.step()
    another = await made.step(Actor("agent", str(uuid.uuid4()), 1))
    with pytest.raises(CannotUndo) as refused:
        await made.undo()
    assert refused.value.steps == (theirs, another)
    assert "undone" not in await made.talk.kinds()
    done = await made.undo(fork=True)
    assert await made.steps(done.session) == 1
    assert await made.steps(made.session) == 5


async def test_what_the_system_brought_in_is_nobodys_work(bench: Any) -> None:
    made = await bench("run")
    await made.talk.turn()
    await made.step(SYSTEM)
    assert (await made.undo()).at == -1


async def test_steps_after_a_later_turns_undo_are_kept_too(bench: Any) -> None:
    """They stand in the fork that the undo of the later turn went on in."""
    made = await bench("run", "run")
    await made.talk.turn("One.")
    await made.talk.turn("Two.")
    second = await made.undo()
    theirs = await made.step(session=second.session)
    with pytest.raises(CannotUndo) as refused:
        await made.undo()
    assert refused.value.steps == (theirs,)


async def test_a_turn_without_steps_leaves_the_session(bench: Any) -> None:
    made = await bench("nothing outside")
    await made.step()
    await made.talk.turn()
    await made.step()
    done = await made.undo()
    assert done.session == made.session
    assert done.outside == ("it sent 3 bytes to a.example",)


async def test_the_notebook_is_put_back_and_edits_since_are_kept(bench: Any) -> None:
    made = await bench("edit", "edit", notebook=True)
    before = await made.document.read()
    await made.talk.turn("One.")
    assert len((await made.document.read())["cells"]) == 2
    done = await made.undo()
    assert done.cells == ("two",)
    assert await made.document.read() == before
    await made.talk.turn("Two.")
    [_, cell] = (await made.document.read())["cells"]
    change = Change("replace", "two", was=cell_hash(cell), cell_type="code", source="y = 3  # mine")
    await made.document.apply([change])
    done = await made.undo()
    assert (done.cells, done.kept) == ((), ("two",))
    assert len((await made.document.read())["cells"]) == 2


async def test_the_model_is_told_that_it_was_undone(bench: Any) -> None:
    made = await bench("run", "nothing")
    await made.talk.turn("One.")
    done = await made.undo()
    made.session = done.session
    await made.talk.turn("Two.")
    said = str(made.talk.model.exchanges[-2].asked.messages[-1])
    assert "undid turn 1" in said


@pytest.mark.parametrize("kind", ["session", "undone"])
async def test_cut_at_any_point_it_is_asked_for_again(bench: Any, kind: str) -> None:
    made = await bench("run")
    await made.step()
    await made.talk.turn()

    class Cut(Exception):
        pass

    def listen(told: Any) -> None:
        if told["type"] == "entry" and told["entry"]["kind"] == kind:
            raise Cut

    made.talk.listen = listen
    with pytest.raises(Cut):
        await made.undo()
    made.talk.again()
    if kind == "undone":
        with pytest.raises(CannotUndo):
            await made.undo()
    else:
        done = await made.undo()
        assert (done.turn, done.at) == (1, 0)
    [undone] = await made.talk.bodies("undone")
    went = [body["session"] for body in await made.talk.bodies("session")]
    assert went == [str(made.session), undone["session"]]
    assert await made.steps(uuid.UUID(undone["session"])) == 1
