"""Forks and rewinds keep what they leave; artifacts and questions are what they say."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator

import pytest

from reprise.errors import RepriseError
from reprise.log.postgres import Log
from reprise_server.agent.bound import LoggedSession
from reprise_server.agent.contract import BadCall, Decided
from reprise_server.agent.tools.history import fork_id
from reprise_server.agent.tools.place import Place
from reprise_server.agent.tools.toolbox import toolbox
from tests.fixtures.kernel import Database, Kernels
from tests.fixtures.place import ToolBench, bench_of, text_of


@pytest.fixture
async def own(kernels: Kernels, database: Database) -> AsyncIterator[ToolBench]:
    """Tools on a session of the test's own."""
    kernel = kernels("bubblewrap")
    assert kernel.agent_token  # it has its session then
    log = await Log.connect(database.dsn, home=database.home)
    try:
        environ = {"REPRISE_DSN": database.dsn, "REPRISE_HOME": str(database.home)}
        async with bench_of(log, kernel, environ) as place:
            await place.kernel()
            yield ToolBench(place, toolbox(place), kernel.folder)
    finally:
        await log.close()


async def test_a_session_goes_back_and_forks_and_loses_nothing(
    own: ToolBench, database: Database
) -> None:
    place = own.place
    with pytest.raises(BadCall, match="no steps yet"):
        await own.act("rewind_session", at=0)
    await own.do("write_file", path="a.txt", content="before\n")
    kernel = await place.kernel()
    begin = (await kernel.run("x = 1", check=True)).seq
    await kernel.run("x = 2", check=True)
    await own.do("write_file", path="a.txt", content="after\n")
    left = place.session
    steps = (await place.info()).steps

    for tool, at in (("rewind_session", steps), ("fork_session", steps), ("fork_session", -2)):
        with pytest.raises(BadCall, match=f"There is no step {at}"):
            await own.act(tool, at=at)
    with pytest.raises(BadCall, match="nothing to go back from"):
        await own.act("rewind_session", at=steps - 1)

    given = {"at": begin}
    act = await own.act("fork_session", **given)
    call = own.call(given)
    forked = await own.tool("fork_session").run(call, act)
    again = await own.tool("fork_session").run(call, act)  # as after a crash
    assert forked.outside == again.outside == (f"made session {fork_id(call)}, a fork",)
    assert (await (await place.log.reader(fork_id(call))).info()).steps == begin + 1
    assert place.session == left

    act = await own.act("rewind_session", at=begin)
    assert act.title == f"go back to step {begin} and leave 2 later steps, 1 of them the person's"
    assert act.effect == "history"
    rewind = own.call({"at": begin})
    result = await own.tool("rewind_session").run(rewind, act)
    assert result.session == str(place.session)
    # Whoever knows only where it was, since the result was lost, goes there too.
    environ = {"REPRISE_DSN": database.dsn, "REPRISE_HOME": str(database.home)}
    async with Place(place.log, left, environ=environ, start=False) as other:
        assert await LoggedSession(other).went_over(rewind.key) == result.session
        assert str(other.session) == result.session
        assert (await other.info()).id == place.session
        assert (await other.kernel()).session == place.session
    assert place.session != left
    assert f"The later steps stay in session {left}" in text_of(result)
    assert (await kernel.run("x", check=True)).value == "1"
    assert text_of(await own.do("read_file", path="a.txt")).endswith("1\tbefore\n")
    # The session that was left is whole, and what was seen of its file counts no more.
    assert (await (await place.log.reader(left)).info()).steps == steps
    with pytest.raises(BadCall, match="no step"):
        await own.act("rewind_session", at=steps)


async def test_a_running_step_is_not_torn_by_a_rewind(own: ToolBench) -> None:
    kernel = await own.place.kernel()
    await kernel.run("1", check=True)
    running = kernel.stream("import time; print('on', flush=True); time.sleep(600)")
    async for output in running:
        if "on" in output.text:
            break
    left = own.place.session
    act = await own.act("rewind_session", at=0)
    with pytest.raises(RepriseError, match="step"):
        await own.tool("rewind_session").run(own.call({"at": 0}), act)
    assert own.place.session == left
    await kernel.interrupt()
    assert (await running).status == "interrupted"


async def test_a_file_is_kept_as_the_agents(bench: ToolBench) -> None:
    await bench.do("write_file", path="out/report.md", content="# all\n")
    act = await bench.act("save_artifact", path="out/report.md")
    assert (act.effect, act.paths) == ("keep", ("out/report.md",))
    result = await bench.do("save_artifact", path="out/report.md")
    kernel = await bench.place.kernel()
    kept = [each for each in await kernel.artifacts() if each.path == "out/report.md"]
    assert [str(each.id) in text_of(result) for each in kept] == [True]
    (artifact,) = kept
    assert artifact.actor is not None
    assert artifact.actor.conversation == bench.conversation
    assert await kernel.artifact_bytes(artifact) == b"# all\n"
    assert result.outside == (f"kept out/report.md as artifact {artifact.id} (6 bytes)",)
    for path, said in (("out", "is a folder"), ("report.md", "Near it: out/report.md")):
        with pytest.raises(BadCall, match=said):
            await bench.act("save_artifact", path=path)


async def test_a_question_is_put_as_it_is_and_answered_in_words(bench: ToolBench) -> None:
    bench.answers = [
        Decided("the second \x1b[2J", "terminal", by="me"),
        Decided("deny", "timeout"),
        Decided("deny", "cancelled"),
        Decided("x" * 100_000, "frame", by="me", reason="why"),
    ]
    given = {"question": " Which \u202eone? ", "options": ["the first", "the second"]}
    result = await bench.do("ask_user", **given)
    assert bench.asked == [("Which �one?", ("the first", "the second"))]
    assert text_of(result) == "The person answered: the second ␛[2J\n"
    assert "Nobody answered in time" in text_of(await bench.do("ask_user", question="?"))
    assert "dismissed" in text_of(await bench.do("ask_user", question="?"))
    assert len(text_of(await bench.do("ask_user", question="?"))) < 13_000
    for more, said in (
        ({"question": " "}, "0 characters"),
        ({"question": "x" * 5_000}, "5,000 characters"),
        ({"question": "?", "options": ["a"] * 7}, "at most 6"),
        ({"question": "?", "options": ["a", "a"]}, "twice"),
        ({"question": "?", "options": [""]}, "at most 6"),
    ):
        with pytest.raises(BadCall, match=said):
            await bench.act("ask_user", **more)


def test_the_fork_of_a_call_is_always_the_same() -> None:
    one = ToolBench(None, [], None, conversation=str(uuid.UUID(int=1)))  # type: ignore[arg-type]
    assert fork_id(one.call({}, id_="a")) == fork_id(one.call({}, id_="a"))
    assert fork_id(one.call({}, id_="a")) != fork_id(one.call({}, id_="b"))
