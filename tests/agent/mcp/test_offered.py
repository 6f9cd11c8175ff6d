"""What other agents do here is judged and recorded as what ours does, with nobody to ask."""

import asyncio
import base64
import json
import uuid
from pathlib import Path

import pytest
from mcp import Client

from reprise.log.conversations import Conversations
from reprise.log.policies import Policies
from reprise_server.agent.mcp import offering as offering_module
from tests.agent.mcp.offered import other_agent
from tests.fixtures.kernel import Database

PATIENCE = 60.0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "empty"
    found.mkdir()
    return found


async def entries_of(other, session):
    known = Conversations(other.log)
    [info] = await known.list(session=session)
    return info, await known.entries(info.id)


async def test_what_another_agent_does_is_steps_and_a_conversation(
    database: Database, folder: Path
):
    async with other_agent(database, folder) as other:
        first = await other.call("run_cell", code="x = 6 * 7\nx")
        assert "42" in first.text
        assert (first.is_error, first.steps) == (False, [0])
        command = await other.call("run_command", command="echo $((1 + 1)) > two; cat two")
        assert "2" in command.text
        assert command.session == first.session
        await other.call("write_file", path="a.txt", content="hello\n")
        assert "hello" in (await other.call("read_file", path="a.txt")).text
        failed = await other.call("run_cell", code="1 / 0")
        assert failed.is_error
        assert "ZeroDivisionError" in failed.text
        png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
        shown = await other.call(
            "run_cell",
            code=f"import base64\nfrom IPython.display import Image\nImage(base64.b64decode('{png}'))",
        )
        [image] = [block for block in shown.result.content if block.type == "image"]
        assert base64.b64decode(image.data).startswith(b"\x89PNG")

        info, entries = await entries_of(other, first.session)
        kinds = [entry.kind for entry in entries]
        assert kinds[:6] == ["begun", "session", "said", "state", "called", "running"]
        calls = [entry.body for entry in entries if entry.kind == "called"]
        assert [call["tool"] for call in calls[:2]] == ["run_cell", "run_command"]
        assert all(call["verdict"]["decision"] == "allow" for call in calls)
        records = [
            record async for record in (await other.log.reader(first.session)).records(0, None)
        ]
        actors = {record.step.new.actor.conversation for record in records}
        assert actors == {str(info.id)}
        assert {record.step.new.actor.kind for record in records} == {"agent"}
    # The conversation has come to its end with its process.
    log = await type(other.log).connect(database.dsn, home=database.home)
    try:
        assert (await Conversations(log).entries(info.id))[-1].kind == "ended"
    finally:
        await log.close()


async def test_variables_outlive_the_server_and_its_sandbox(database: Database, folder: Path):
    async with other_agent(database, folder) as other:
        session = (await other.call("run_cell", code="x = 'still here'")).session
    async with other_agent(database, folder) as again:
        listed = (await again.call("list_sessions")).text.splitlines()
        assert str(session) in {json.loads(line)["session"] for line in listed}
        assert "still here" in (await again.call("run_cell", code="x", session=str(session))).text


async def test_a_fork_goes_its_own_way_and_verify_says_whether_all_is_the_same(
    database: Database, folder: Path
):
    async with other_agent(database, folder) as other:
        await other.call("run_cell", code="x = 1")
        later = await other.call("run_cell", code="x = 2")
        fork = (await other.call("fork_session", at=0)).text.split()[-1].rstrip(".")
        forked = await other.call("run_cell", code="x", session=fork)
        assert forked.session == uuid.UUID(fork) != later.session
        assert "1" in forked.text.splitlines()
        assert "2" in (await other.call("run_cell", code="x")).text.splitlines()
        verified = await other.call("verify_session")
        assert verified.text.startswith("All 3 steps that ran showed what they had shown")


async def test_only_its_own_sessions_and_named_ones_may_be_used(database: Database, folder: Path):
    log_of = await other_log(database)
    try:
        private = await log_of.begin(kernel="python3")
    finally:
        await log_of.close()
    async with other_agent(database, folder) as other:
        refused = await other.call("run_cell", code="1", session=str(private))
        assert refused.is_error
        assert "not offered here" in refused.text
        unknown = await other.call("run_cell", code="1", session=str(uuid.uuid4()))
        # Whether there is such a session at all is not told.
        assert unknown.text.replace(unknown.text.split()[1], "") == refused.text.replace(
            refused.text.split()[1], ""
        )
        assert str(private) not in (await other.call("list_sessions")).text
    async with other_agent(database, folder, named=(private,)) as other:
        assert (await other.call("run_cell", code="1")).session == private
    async with other_agent(database, folder, every=True, own=False) as other:
        assert str(private) in (await other.call("list_sessions")).text
        unnamed = await other.call("run_cell", code="1")
        assert unnamed.is_error
        assert "Name a `session`" in unnamed.text


async def other_log(database):
    from reprise.log.postgres import Log

    return await Log.connect(database.dsn, home=database.home)


async def test_policies_bind_and_nobody_can_be_asked(database: Database, folder: Path):
    async with other_agent(database, folder) as other:
        policies = Policies(other.log)
        await policies.set(
            "personal",
            {
                "rules": [
                    {"name": "no-secrets", "decision": "deny", "path": "secret/**"},
                    {"name": "ask-commands", "decision": "ask", "tool": "run_command"},
                    {"name": "one-only", "decision": "deny", "tool": "*_session*"},
                ]
            },
        )
        try:
            denied = await other.call("write_file", path="secret/a", content="x")
            assert denied.is_error
            assert "personal/no-secrets" in denied.text
            assert denied.status == "denied"
            asked = await other.call("run_command", command="touch done")
            assert "personal/ask-commands" in asked.text
            assert "nobody can be" in asked.text
            assert asked.steps == []
            assert "done" not in (await other.call("list_files", path="")).text
            for name in ("begin_session", "list_sessions", "fork_session", "verify_session"):
                assert "personal/one-only" in (await other.call(name)).text
            assert len(other.offering._open) == 1
        finally:
            await policies.set("personal", {"rules": []})
        # The change binds at once.
        assert not (await other.call("run_command", command="true")).is_error


async def test_what_it_read_elsewhere_counts_as_untrusted_unless_vouched_for(
    database: Database, folder: Path
):
    log = await other_log(database)
    allow = {"rules": [{"name": "runs", "decision": "allow", "effect": ["run"]}]}
    try:
        await Policies(log).set("personal", allow)
        async with other_agent(database, folder, backend="process") as other:
            refused = await other.call("run_cell", code="open('x', 'w')")
            assert refused.status == "denied"
            assert "the rule taint" in refused.text
            assert "--vouch" in refused.text
            assert not (folder / "x").exists()
        async with other_agent(database, folder, backend="process", vouched=True) as other:
            assert not (await other.call("run_cell", code="x = 1")).is_error
    finally:
        await Policies(log).set("personal", {"rules": []})
        await log.close()


async def test_skills_are_found_loaded_and_run(database: Database, folder: Path):
    (folder / "data.csv").write_text("a,b\n1,2\n3,4\n")
    async with other_agent(database, folder) as other:
        assert "profile-dataset" in (other.client.instructions or "")
        assert (
            "profile-dataset" in (await other.call("search_skills", query="profile a table")).text
        )
        loaded = await other.call("load_skill", skill="profile-dataset")
        assert "# Profile a dataset" in loaded.text
        ran = await other.call(
            "run_skill",
            skill="profile-dataset",
            script="profile_dataset.py",
            args=["{workspace}/data.csv"],
        )
        assert not ran.is_error, ran.text
        assert "rows" in ran.text


async def test_a_cancelled_call_ends_its_step_and_the_record_says_so(
    database: Database, folder: Path
):
    async with other_agent(database, folder) as other:
        session = (await other.call("run_cell", code="import time")).session
        task = asyncio.create_task(other.call("run_cell", code="time.sleep(3600)"))
        reader = await other.log.reader(session)
        async with asyncio.timeout(PATIENCE):
            while (await reader.info()).steps < 2:
                await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert "7" in (await other.call("run_cell", code="3 + 4")).text
        _, entries = await entries_of(other, session)
        ends = [entry.body["status"] for entry in entries if entry.kind == "result"]
        assert ends == ["ok", "cancelled", "ok"]


async def test_wrong_calls_get_answers_to_act_on(database: Database, folder: Path):
    async with other_agent(database, folder) as other:
        for name, given, said in (
            ("run_cells", {}, "There is no tool"),
            ("run_cell", {}, "lacks `code`"),
            ("run_cell", {"code": 1}, "must be a text"),
            ("run_cell", {"code": "1", "cell": "x"}, "has no field"),
            ("run_cell", {"code": " "}, "`code` is empty"),
            ("run_cell", {"code": "1", "timeout_s": 10**9}, "timeout_s"),
            ("run_cell", {"code": "1", "session": "mine"}, "is not a session's whole id"),
            ("fork_session", {"at": 10**6}, "step"),
        ):
            answer = await other.call(name, **given)
            assert answer.is_error, (name, given)
            assert said in answer.text, (name, given)
            assert answer.steps == []


async def test_more_sessions_than_kernels_take_turns(
    database: Database, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(offering_module, "MOST_OPEN", 1)
    async with other_agent(database, folder) as other:
        first = (await other.call("run_cell", code="x = 'kept'")).session
        begun = await other.call("begin_session")
        assert "isolated\nnetwork: none" in begun.text
        assert begun.session != first
        # Its kernel had to go; its state is brought back.
        assert "kept" in (await other.call("run_cell", code="x", session=str(first))).text


async def test_calls_of_one_session_wait_for_each_other(database: Database, folder: Path):
    async with other_agent(database, folder) as other:
        await other.call("run_cell", code="seen = []")
        await asyncio.gather(*(other.call("run_cell", code=f"seen.append({n})") for n in range(4)))
        answer = await other.call("run_cell", code="sorted(seen)")
        assert "[0, 1, 2, 3]" in answer.text


async def test_tools_say_which_only_read(database: Database, folder: Path):
    async with other_agent(database, folder) as other:
        assert isinstance(other.client, Client)
        listed = {tool.name: tool for tool in (await other.client.list_tools()).tools}
        assert "ask_user" not in listed
        assert "rewind_session" not in listed
        assert "run_cells" not in listed
        reads = {name for name, tool in listed.items() if tool.annotations.read_only_hint}
        assert {"read_file", "list_sessions", "load_skill"} <= reads
        assert not {"run_cell", "run_command", "write_file", "fork_session"} & reads
        for tool in listed.values():
            assert tool.input_schema["additionalProperties"] is False
