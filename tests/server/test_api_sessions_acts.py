"""What is done with sessions over REST, in real sandboxes: steps, files, forks, verify; once, in order."""

from __future__ import annotations

import asyncio
import os
import signal
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import httpx
import psutil
import pytest

from reprise.errors import SessionNotFound
from reprise.log.postgres import Log
from reprise.log.store import SessionInfo, StepRecord
from tests.fixtures.histories import Part, begun, cell, done, ended, with_log, written
from tests.fixtures.kernel import Database, Kernel, Kernels
from tests.fixtures.server import PATIENCE, JupyterServer, Serve
from tests.fixtures.skill_runs import SkillBench


@pytest.fixture(scope="module")
def server(serve: Serve, database: Database) -> JupyterServer:
    return serve(dsn=database.dsn, home=database.home, env={"REPRISE_BACKEND": "bubblewrap"})


@pytest.fixture(scope="module")
def client(server: JupyterServer) -> httpx.Client:
    return server.client("alice")


@pytest.fixture
def session(database: Database) -> str:
    """A new session that nobody holds."""
    return str(with_log(database, lambda log: log.begin(kernel="python3")))


def info(database: Database, session: str) -> SessionInfo:
    async def look(log: Log) -> SessionInfo:
        return await (await log.reader(uuid.UUID(session))).info()

    found: SessionInfo = with_log(database, look)
    return found


def steps(database: Database, session: str) -> list[StepRecord]:
    return database.read(uuid.UUID(session)).steps


def eventually(holds: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + PATIENCE
    while not (found := holds()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


def free(database: Database, session: str) -> None:
    """Return when no kernel holds the session any more."""
    eventually(lambda: info(database, session).holder is None)


def run(client: httpx.Client, session: str, **asked: Any) -> dict[str, Any]:
    """A step that has been run; the job."""
    return done(client, client.post(f"sessions/{session}/run", json=asked))


def below(server: JupyterServer) -> list[psutil.Process]:
    """All processes that come from the server."""
    return psutil.Process(server.process.pid).children(recursive=True)


def sandboxes(server: JupyterServer) -> list[psutil.Process]:
    found = []
    for each in below(server):
        with suppress(psutil.NoSuchProcess):  # it ended while this looked
            if each.name() == "bwrap":
                found.append(each)
    return found


@contextmanager
def live(kernels: Kernels, database: Database) -> Iterator[Kernel]:
    """A kernel that somebody else has started, and that holds its session."""
    kernel = kernels("bubblewrap")
    eventually(lambda: _holds(database, kernel))
    yield kernel


def _holds(database: Database, kernel: Kernel) -> bool:
    try:
        return info(database, str(kernel.session)).holder is not None
    except SessionNotFound:
        return False


@pytest.fixture(scope="module")
def kernel(module_kernels: Kernels, database: Database) -> Iterator[Kernel]:
    with live(module_kernels, database) as found:
        yield found


# steps -------------------------------------------------------------------------------------------


def test_steps_run_one_after_the_other_in_a_kernel_of_their_own(
    client: httpx.Client, server: JupyterServer, database: Database, session: str
) -> None:
    asked = [
        {"kind": "cell", "code": "x = 6\nprint('hello')\nx * 7", "cell_id": "c1"},
        {"kind": "command", "shell": "echo out; echo err >&2; echo data > file.txt; exit 3"},
        {"kind": "cell", "code": "raise ValueError('no')"},
        {"kind": "cell", "code": "input('?')"},
        {"kind": "command", "argv": ["cat", "file.txt"], "env": {"A": "b"}},
        {"kind": "cell", "code": "x", "user_expressions": {"y": "x + 1"}, "store_history": False},
    ]
    jobs = [begun(client.post(f"sessions/{session}/run", json=each)) for each in asked]
    jobs = [ended(client, job) for job in jobs]
    assert [job["state"] for job in jobs] == ["done"] * 6
    said = [job["summary"] for job in jobs]
    assert [each["outcome"] for each in said] == ["ok", "error", "error", "error", "ok", "ok"]
    assert [each["seq"] for each in said] == sorted(each["seq"] for each in said)
    assert (said[0]["value"], said[0]["execution_count"]) == ("42", 1)
    assert said[1]["exit_code"] == 3
    assert said[2]["error"] == {"name": "ValueError", "text": "no"}
    assert said[3]["error"]["name"] == "StdinNotImplementedError"

    outputs = client.get(f"jobs/{jobs[0]['id']}/outputs").json()
    assert outputs["outputs"][0] == ["stream", {"name": "stdout", "text": "hello\n"}, {}, []]
    assert outputs["ended"]
    result = client.get(f"jobs/{jobs[4]['id']}/result").json()
    assert (result["session"], result["stdout"]) == (session, "data\n")
    assert client.get(f"jobs/{jobs[1]['id']}/result").json()["stderr"] == "err\n"
    expressions = client.get(f"jobs/{jobs[5]['id']}/result").json()["user_expressions"]
    assert expressions["y"]["data"]["text/plain"] == "7"

    # It is the log's truth, and what was started for it ends by itself.
    recorded = [record for record in steps(database, session) if record.step.new.kind != "upload"]
    assert [record.step.seq for record in recorded] == [each["seq"] for each in said]
    assert {record.step.new.actor.kind for record in recorded} == {"user"}
    assert recorded[0].step.payload["content"]["code"] == asked[0]["code"]
    free(database, session)
    eventually(lambda: not sandboxes(server))


def test_a_kernel_that_only_waits_for_the_next_step_keeps_no_session_from_its_deletion(
    client: httpx.Client, database: Database, session: str
) -> None:
    run(client, session, kind="command", shell="true")
    assert client.delete(f"sessions/{session}").status_code == 200
    assert client.get(f"sessions/{session}").status_code == 404


def test_nothing_of_the_servers_own_folder_comes_in(
    client: httpx.Client, database: Database, session: str
) -> None:
    job = run(client, session, kind="command", shell="ls")
    assert client.get(f"jobs/{job['id']}/result").json()["stdout"] == ""
    assert [record.step.new.kind for record in steps(database, session)] == ["command"]


def test_output_is_heard_while_a_step_runs_and_cancelling_interrupts_it(
    client: httpx.Client, database: Database, session: str
) -> None:
    run(client, session, kind="cell", code="kept = 1")
    job = begun(
        client.post(
            f"sessions/{session}/run", json={"kind": "command", "shell": "echo first; sleep 900"}
        )
    )
    path, after, heard = f"jobs/{job['id']}/outputs", -1, ""
    while "first" not in heard:
        page = client.get(path, params={"after": after, "wait": 20}).json()
        assert not page["ended"], heard
        heard += "".join(each[1]["text"] for each in page["outputs"])
        after = page["next"]
    # A later step waits; it is taken back before it has begun.
    later = begun(
        client.post(
            f"sessions/{session}/run", json={"kind": "cell", "code": "never = 1", "key": "later"}
        )
    )
    assert client.post(f"jobs/{later['id']}/cancel").status_code == 202
    later = ended(client, later)
    assert (later["state"], later["summary"], later["started_at"]) == ("cancelled", None, None)

    assert client.post(f"jobs/{job['id']}/cancel").status_code == 202
    job = ended(client, job)
    assert (job["state"], job["summary"]["outcome"]) == ("cancelled", "interrupted")
    assert job["error"]["code"] == "cancelled"
    # The kernel and what it holds live on, and cancelling what has ended changes nothing.
    assert run(client, session, kind="cell", code="kept")["summary"]["value"] == "1"
    assert client.post(f"jobs/{job['id']}/cancel").json()["state"] == "cancelled"
    keys = [record.step.new.key for record in steps(database, session)]
    assert "later" not in keys


def test_what_shows_much_is_kept_in_bounds_and_recorded_whole(
    client: httpx.Client, session: str
) -> None:
    lines = [str(n % 10) * (1 << 19) for n in range(20)]
    code = "for n in range(20):\n    print(str(n % 10) * (1 << 19), flush=True)"
    job = run(client, session, kind="cell", code=code)
    page = client.get(f"jobs/{job['id']}/outputs")
    assert len(page.content) < 5 << 20
    assert page.json()["skipped"]
    assert page.json()["outputs"][-1][1]["text"] == f"{lines[-1]}\n"
    said, after = "", -1
    path = f"sessions/{session}/steps/{job['summary']['seq']}/outputs"
    while after is not None:
        recorded = client.get(path, params={"after": after})
        assert len(recorded.content) < 3 << 20
        left_out = {each["number"] for each in recorded.json()["outputs_left_out"]}
        for number, output in enumerate(recorded.json()["outputs"], after + 1):
            whole = client.get(f"{path}/{number}").json() if number in left_out else output
            said += whole[1]["text"]
        after = recorded.json()["outputs_next"]
    assert said.split() == lines


def test_a_cell_that_computes_is_interrupted(client: httpx.Client, session: str) -> None:
    job = begun(
        client.post(
            f"sessions/{session}/run",
            json={"kind": "cell", "code": "print('on')\nwhile True: pass"},
        )
    )
    while not client.get(f"jobs/{job['id']}/outputs", params={"wait": 20}).json()["outputs"]:
        pass
    client.post(f"jobs/{job['id']}/cancel")
    job = ended(client, job)
    assert (job["state"], job["summary"]["outcome"]) == ("cancelled", "interrupted")
    assert job["summary"]["error"]["name"] == "KeyboardInterrupt"


def test_a_step_is_cancelled_while_its_kernel_starts(
    client: httpx.Client, server: JupyterServer, database: Database, session: str
) -> None:
    job = begun(
        client.post(f"sessions/{session}/run", json={"kind": "cell", "code": "1", "key": "early"})
    )
    client.post(f"jobs/{job['id']}/cancel")
    assert ended(client, job)["state"] == "cancelled"
    free(database, session)
    eventually(lambda: not sandboxes(server))


def test_a_step_behind_anothers_is_interrupted_when_its_turn_comes_and_no_sooner(
    client: httpx.Client, database: Database, kernel: Kernel
) -> None:
    session = str(kernel.session)
    other = kernel.client()
    theirs = other.execute("theirs = input('?')\nprint('got', theirs)", allow_stdin=True)
    other.wait(lambda heard: heard.type == "input_request")
    asked = {"kind": "cell", "code": "while True: pass", "key": "behind"}
    job = begun(client.post(f"sessions/{session}/run", json=asked))
    eventually(lambda: "waiting" in client.get(f"jobs/{job['id']}").json()["progress"]["text"])
    client.post(f"jobs/{job['id']}/cancel")
    job = eventually(lambda: _cancelling(client, job))
    other.answer("all of it")
    ran = other.finish(theirs)
    assert (ran.status, ran.text()) == ("ok", "got all of it\n")
    job = ended(client, job)
    assert (job["state"], job["summary"]["outcome"]) == ("cancelled", "interrupted")
    assert other.prints("print(theirs)") == "all of it"


def _cancelling(client: httpx.Client, job: dict[str, Any]) -> dict[str, Any] | None:
    found: dict[str, Any] = client.get(f"jobs/{job['id']}").json()
    return found if found["cancelling"] else None


def test_a_kernel_that_is_killed_in_a_step_never_runs_it_twice(
    client: httpx.Client, database: Database, session: str
) -> None:
    asked = {
        "kind": "command",
        "shell": "echo ran; sleep 900",
        "key": "once",
    }
    job = begun(client.post(f"sessions/{session}/run", json=asked))
    while not client.get(f"jobs/{job['id']}/outputs", params={"wait": 20}).json()["outputs"]:
        pass
    holder = info(database, session).holder
    assert holder is not None
    os.kill(int(holder["pid"]), signal.SIGKILL)
    # The client goes to the next kernel and asks again under that key; the record answers.
    job = ended(client, job)
    assert (job["state"], job["summary"]["outcome"]) == ("done", "lost")
    assert job["summary"]["repeated"]

    def with_key() -> list[StepRecord]:
        return [each for each in steps(database, session) if each.step.new.key == "once"]

    assert len(with_key()) == 1
    again = begun(client.post(f"sessions/{session}/run", json=asked), 200)
    assert again["id"] == job["id"]
    # Also when the job is forgotten, the log knows.
    assert client.delete(f"jobs/{job['id']}").status_code == 204
    assert client.get(f"jobs/{job['id']}").status_code == 404
    third = run(client, session, **asked)
    assert third["id"] != job["id"]
    assert (third["summary"]["outcome"], third["summary"]["repeated"]) == ("lost", True)
    assert len(with_key()) == 1

    other = client.post(f"sessions/{session}/run", json={**asked, "shell": "echo other"})
    assert (other.status_code, other.json()["error"]["code"]) == (409, "key-in-use")
    client.delete(f"jobs/{third['id']}")
    failed = ended(
        client, begun(client.post(f"sessions/{session}/run", json={**asked, "shell": "echo other"}))
    )
    assert (failed["state"], failed["error"]["code"]) == ("failed", "usage")
    assert "asked for something else" in failed["error"]["message"]


def test_a_session_that_cannot_be_had_is_said_so(
    client: httpx.Client, database: Database, session: str
) -> None:
    asked = {"kind": "cell", "code": "1"}
    answer = client.post(f"sessions/{session}/run", json={**asked, "start": False})
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "no-kernel")

    async def hold(log: Log) -> None:
        held = await log.acquire(uuid.UUID(session), {"pid": 7, "host": "elsewhere.example.org"})
        for act, body in (("run", asked), ("rewind", {}), ("workspaces", {})):
            answer = client.post(f"sessions/{session}/{act}", json=body)
            assert (answer.status_code, answer.json()["error"]["code"]) == (409, "lease-held"), act
            assert "elsewhere.example.org" in answer.json()["error"]["message"]
        assert client.get(f"sessions/{session}/files").status_code == 409
        await held.close()

    with_log(database, hold)


@pytest.mark.parametrize(
    "asked",
    [
        {"kind": "cell"},
        {"kind": "cell", "code": "1", "actor": {"kind": "agent"}},
        {"kind": "restart"},
        {"kind": "command", "shell": "ls", "argv": ["ls"]},
        {"kind": "command"},
        {"kind": "command", "argv": []},
        {"kind": "command", "shell": "ls", "timeout_s": 0},
        {"kind": "command", "shell": "ls", "timeout_s": -1},
        {"kind": "command", "shell": "ls", "env": {"A": 1}},
        {"kind": "cell", "code": "1", "key": ""},
        {"kind": "cell", "code": "1", "key": "k" * 201},
        {"kind": "cell", "code": "a\0b"},
        {"kind": "cell", "code": 1},
        {"kind": "skill", "skill": "x"},
        [],
    ],
)
def test_what_no_step_is_is_refused_and_nothing_begins(
    client: httpx.Client, session: str, asked: Any
) -> None:
    answer = client.post(f"sessions/{session}/run", json=asked)
    assert answer.status_code == 400, answer.text
    assert client.get("jobs", params={"session": session}).json() == {"jobs": []}


async def test_a_skills_script_runs_where_the_users_cells_do(
    client: httpx.Client, database: Database, session: str, skill_bench: SkillBench
) -> None:
    script = (
        "#!/usr/bin/env python3\nimport json, sys\nprint(json.dumps({'said': sys.argv[1:]}))\n"
        "open(sys.argv[1] + '/made.txt', 'w').write('by a skill')\n"
    )
    version = await skill_bench.add({"scripts/say.py": (0o755, script)})
    # What nobody has approved runs where there is no network, as on the command line.
    untrusted = await skill_bench.add(
        {"scripts/say.py": (0o755, script + "# other\n")}, trust=False
    )
    asked = {
        "kind": "skill",
        "skill": version.name,
        "script": "scripts/say.py",
        "arguments": ["{workspace}", "two words"],
        "key": "said",
    }

    def work() -> None:
        job = run(client, session, **asked)
        said = job["summary"]
        assert (said["outcome"], said["exit_code"], said["repeated"]) == ("ok", 0, False)
        assert (said["skill"]["name"], said["script"]) == (version.name, "scripts/say.py")
        assert isinstance(said["mounted"], int)
        result = client.get(f"jobs/{job['id']}/result").json()
        assert result["stdout"].endswith('"two words"]}\n')
        assert run(client, session, kind="cell", code="open('made.txt').read()")["summary"][
            "value"
        ] == repr("by a skill")
        assert (
            run(client, session, **{**asked, "skill": untrusted.name, "key": "u"})["summary"][
                "outcome"
            ]
            == "ok"
        )
        skills = client.get(f"sessions/{session}/skills").json()["skills"]
        assert [(each["standing"], each["skill"]["name"]) for each in skills] == [
            ("trusted", version.name),
            ("untrusted", untrusted.name),
        ]
        assert client.get(f"sessions/{session}").json()["revoked_skills"] == []

    await asyncio.to_thread(work)
    await skill_bench.catalog.revoke(version.digest, reason="it lied")

    def afterwards() -> None:
        said = client.get(f"sessions/{session}").json()["revoked_skills"]
        assert [each["tree"] for each in said] == [version.digest]
        again = ended(
            client,
            begun(client.post(f"sessions/{session}/run", json={**asked, "key": "after"})),
        )
        assert (again["state"], again["error"]["code"]) == ("failed", "skill-revoked")

    await asyncio.to_thread(afterwards)
    assert (await skill_bench.used(version)).runs == 1


def test_a_skill_that_is_not_there_is_said_so(client: httpx.Client, session: str) -> None:
    asked = {"kind": "skill", "skill": "no-such-skill", "script": "run.py"}
    job = ended(client, begun(client.post(f"sessions/{session}/run", json=asked)))
    assert (job["state"], job["error"]["code"]) == ("failed", "skill-not-found")


# files -------------------------------------------------------------------------------------------


def test_files_of_a_running_kernel_are_listed_and_read(
    client: httpx.Client, kernel: Kernel
) -> None:
    session = str(kernel.session)
    code = (
        "import os\nos.makedirs('d', exist_ok=True)\nopen('d/numbers.bin', 'wb').write(bytes(range(256)) * 20000)\n"
        "open('d/page.html', 'w').write('<script>1</script>')\nos.symlink('/etc/passwd', 'd/out')"
    )
    assert kernel.client().run(code).status == "ok"
    listed = client.get(f"sessions/{session}/files", params={"hashes": True, "limit": 2}).json()
    assert (listed["workspace"], listed["at"]) == ("of the running kernel", None)
    assert [each["path"] for each in listed["files"]] == ["d", "d/numbers.bin"]
    assert len(listed["files"][1]["sha256"]) == 64
    rest = client.get(f"sessions/{session}/files", params={"after": listed["next"]}).json()
    assert [each["path"] for each in rest["files"]] == ["d/out", "d/page.html"]
    assert rest["next"] is None

    def read(path: str, wanted: str | None = None) -> httpx.Response:
        headers = {} if wanted is None else {"Range": wanted}
        return client.get(
            f"sessions/{session}/files/content", params={"path": path}, headers=headers
        )

    whole = read("d/numbers.bin")
    assert whole.content == bytes(range(256)) * 20000
    assert whole.headers["Accept-Ranges"] == "bytes"
    page = read("d/page.html")
    assert page.headers["Content-Type"] == "application/octet-stream"
    assert page.headers["Content-Disposition"].startswith("attachment")
    assert page.headers["Content-Security-Policy"].endswith("sandbox")
    for wanted, status, start, stop in (
        ("bytes=0-0", 206, 0, 1),
        ("bytes=5000000-", 206, 5_000_000, 5_120_000),
        ("bytes=-3", 206, 5_119_997, 5_120_000),
        ("bytes=1048570-1048590", 206, 1_048_570, 1_048_591),
        ("bytes=0-1,5-6", 200, 0, 5_120_000),
        ("bytes=9-1", 200, 0, 5_120_000),
        ("lines=1-2", 200, 0, 5_120_000),
    ):
        part = read("d/numbers.bin", wanted)
        assert (part.status_code, part.content) == (status, whole.content[start:stop]), wanted
        if status == 206:
            assert part.headers["Content-Range"] == f"bytes {start}-{stop - 1}/5120000"
    assert read("d/numbers.bin", "bytes=5120000-").status_code == 416
    assert read("./d//page.html").content == b"<script>1</script>"

    # What is not in the workspace is nobody's to read, by whatever way.
    for path in ("d", "d/none", "d/out", "none"):
        assert read(path).status_code == 404, path
    for path in ("../etc/passwd", "/etc/passwd", "d/../../x", "d/..", ".", "a\0b", "x" * 4097):
        assert read(path).status_code == 400, path
    assert client.get(f"sessions/{session}/files/content").status_code == 400

    kept = client.post(f"sessions/{session}/artifacts", json={"path": "d/page.html"})
    assert kept.status_code == 201
    saved = client.get(f"sessions/{session}/artifacts/{kept.json()['artifact']}")
    assert saved.content == b"<script>1</script>"
    missing = client.post(f"sessions/{session}/artifacts", json={"path": "d/none"})
    assert missing.status_code == 404


def test_a_past_workspace_stands_for_a_while_and_no_kernel_is_started(
    client: httpx.Client, server: JupyterServer, database: Database, session: str
) -> None:
    for number in range(3):
        run(
            client,
            session,
            kind="command",
            shell=f"echo {number} >> n.txt; echo {number} > f{number}",
        )
    free(database, session)
    count = info(database, session).steps
    answer = client.get(f"sessions/{session}/files")
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "not-built")
    assert answer.json()["error"]["at"] == count - 1
    for at in (count, 10**12):
        assert client.get(f"sessions/{session}/files", params={"at": at}).status_code == 404
        assert client.post(f"sessions/{session}/workspaces", json={"at": at}).status_code == 404

    first = begun(client.post(f"sessions/{session}/workspaces", json={"at": 0}))
    twin = begun(server.client("bob").post(f"sessions/{session}/workspaces", json={"at": 0}), 200)
    assert twin["id"] == first["id"]
    assert ended(client, first)["state"] == "done"
    past = client.get(f"sessions/{session}/files", params={"at": 0, "hashes": True}).json()
    assert [each["path"] for each in past["files"]] == ["f0", "n.txt"]
    content = {"path": "n.txt", "at": 0}
    assert client.get(f"sessions/{session}/files/content", params=content).content == b"0\n"
    kept = client.post(f"sessions/{session}/artifacts", json={"path": "n.txt", "at": 0}).json()
    assert kept["size"] == 2

    done(client, client.post(f"sessions/{session}/workspaces"))
    now = client.get(f"sessions/{session}/files").json()
    assert [each["path"] for each in now["files"]] == ["f0", "f1", "f2", "n.txt"]
    # A third one takes the place of the one that was used longest ago.
    done(client, client.post(f"sessions/{session}/workspaces", json={"at": 1}))
    assert client.get(f"sessions/{session}/files", params={"at": 0}).status_code == 409
    assert client.get(f"sessions/{session}/files").status_code == 200
    assert len(sandboxes(server)) > 0

    job = done(client, client.post(f"sessions/{session}/changes", json={"since": 0, "until": 2}))
    assert job["summary"] == {"differences": 3, "added": 2, "changed": 1}
    said = client.get(f"jobs/{job['id']}/result").json()
    assert [(each["path"], each["kind"]) for each in said["changes"]] == [
        ("f1", "added"),
        ("f2", "added"),
        ("n.txt", "changed"),
    ]
    assert "+2" in said["changes"][2]["diff"]
    assert said["files"] == 4

    # Nobody held the session in all this, and it is as it was; with it go its workspaces.
    assert info(database, session).holder is None
    assert info(database, session).steps == count
    assert client.delete(f"sessions/{session}").status_code == 200
    eventually(lambda: not sandboxes(server))
    assert client.get(f"sessions/{session}/files", params={"at": 1}).status_code == 404


# forks -------------------------------------------------------------------------------------------


def test_a_running_kernel_goes_over_to_a_rewound_history(
    client: httpx.Client, kernels: Kernels, database: Database
) -> None:
    with live(kernels, database) as kernel:
        other = kernel.client()
        session = str(kernel.session)
        assert other.run("x = 1").status == "ok"
        at = info(database, session).steps - 1
        assert other.run("x = 2").status == "ok"
        said = client.post(f"sessions/{session}/rewind", json={"at": at})
        assert said.status_code == 201, said.text
        fork = said.json()
        assert (fork["parent"], fork["fork_seq"]) == (session, at)
        assert other.prints("print(x)") == "1"
        assert info(database, fork["session"]).holder is not None
        assert info(database, session).holder is None
        # What is asked of the old session now is run there, not in the kernel that went.
        assert run(client, session, kind="cell", code="x")["summary"]["value"] == "2"
        assert other.prints("print(x)") == "1"


# verify ------------------------------------------------------------------------------------------


def test_two_clients_see_one_verify_and_its_report(
    client: httpx.Client, server: JupyterServer, database: Database, session: str
) -> None:
    run(client, session, kind="cell", code="x = 1\nx")
    run(client, session, kind="cell", code="import secrets; secrets.token_hex(20)")
    run(client, session, kind="command", shell="echo same")
    free(database, session)
    job = begun(client.post(f"sessions/{session}/verify", json={"replays": "once"}))
    other = server.client("bob")
    same = begun(other.post(f"sessions/{session}/verify", json={"replays": "once"}), 200)
    assert (same["id"], same["by"]) == (job["id"], "alice")
    assert ended(other, same) == ended(client, job)
    job = ended(client, job)
    assert job["state"] == "done"
    assert (job["progress"]["done"], job["progress"]["total"]) == (3, 3)
    assert not job["summary"]["ok"]
    assert job["summary"]["counts"]["different"] == 1
    report = other.get(f"jobs/{job['id']}/result").json()
    assert [step["verdict"] for step in report["steps"]] == ["same", "different", "same"]
    assert report["sentence"] == job["summary"]["sentence"]
    # One that has ended is no answer for what may have changed since.
    again = begun(client.post(f"sessions/{session}/verify", json={"replays": "once", "from": 2}))
    assert again["id"] != job["id"]
    assert ended(client, again)["summary"]["ok"]
    for asked in ({"from": 3}, {"from": 2, "to": 1}, {"replays": "never"}, {"from": -1}):
        assert client.post(f"sessions/{session}/verify", json=asked).status_code == 400, asked
    assert client.post(f"sessions/{session}/verify", json={"to": 3}).status_code == 404


@pytest.fixture
def endless(database: Database) -> str:
    """A session whose second step never ends when it is replayed."""

    async def write(log: Log) -> uuid.UUID:
        return await written(log, [Part(cell("x = 1")), Part(cell("import time\ntime.sleep(900)"))])

    return str(with_log(database, write))


def playing(client: httpx.Client, answer: httpx.Response) -> dict[str, Any]:
    """A verify that has played the first step and is at the second."""
    job = begun(answer)
    while not job["progress"]["done"]:
        assert job["state"] in ("queued", "running"), job
        job = client.get(f"jobs/{job['id']}", params={"version": job["version"], "wait": 20}).json()
    return job


def test_a_verify_is_cancelled_and_its_sandbox_is_gone(
    client: httpx.Client, server: JupyterServer, endless: str
) -> None:
    eventually(lambda: not sandboxes(server))  # of tests before
    job = playing(client, client.post(f"sessions/{endless}/verify"))
    assert (job["progress"]["total"], job["progress"]["counts"]) == (2, {"same": 1})
    left = sandboxes(server)
    assert left
    client.post(f"jobs/{job['id']}/cancel")
    job = ended(client, job)
    assert (job["state"], job["error"]["code"]) == ("cancelled", "cancelled")
    assert not [each for each in left if each.is_running()]
    assert client.get(f"jobs/{job['id']}/result").status_code == 404


def test_a_session_is_deleted_while_it_is_verified(
    client: httpx.Client, server: JupyterServer, endless: str
) -> None:
    eventually(lambda: not sandboxes(server))  # of tests before
    job = playing(client, client.post(f"sessions/{endless}/verify"))
    left = sandboxes(server)
    assert client.delete(f"sessions/{endless}").status_code == 200
    assert ended(client, job)["state"] == "cancelled"
    assert not [each for each in left if each.is_running()]
    assert client.get(f"sessions/{endless}").status_code == 404


# the server's end --------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_nothing_outlives_a_server_that_ends_in_the_middle_of_jobs(
    serve: Serve, database: Database, session: str, endless: str, end: str
) -> None:
    server = serve(
        dsn=database.dsn,
        home=database.home,
        env={"REPRISE_BACKEND": "bubblewrap"},
        options=["--RepriseApi.jobs_running=1"],
    )
    client = server.client("alice")
    step = begun(
        client.post(
            f"sessions/{session}/run", json={"kind": "command", "shell": "echo on; sleep 900"}
        )
    )
    while not client.get(f"jobs/{step['id']}/outputs", params={"wait": 20}).json()["outputs"]:
        pass
    done(client, client.post(f"sessions/{endless}/workspaces", json={"at": 0}))
    playing(client, client.post(f"sessions/{endless}/verify"))
    waiting = begun(client.post(f"sessions/{endless}/check"))
    assert waiting["state"] == "queued"
    left = below(server)
    assert len([each for each in left if each.name() == "bwrap"]) >= 3
    if end == "stop":
        assert server.stop() == 0
        assert not [each for each in left if each.is_running()]
    else:
        server.process.kill()
        server.process.wait(PATIENCE)
        eventually(lambda: not [each for each in left if each.is_running()])
    # The session is free, and says that its step was cut off.
    free(database, session)
    found = database.read(uuid.UUID(session))
    assert found.report.ok
    assert [record.step.new.kind for record in found.steps] == ["command"]


def test_variables_of_two_steps_are_compared(client: httpx.Client, session: str) -> None:
    run(client, session, kind="cell", code="a = 1; b = [1, 2]; gone = 'x'")
    run(
        client,
        session,
        kind="cell",
        code="a = 2; del gone; new = {'k': 'v'}; f = open('/dev/null')",
    )
    asked = {"since": 0, "until": 1, "variables": True}
    job = done(client, client.post(f"sessions/{session}/changes", json=asked))
    said = client.get(f"jobs/{job['id']}/result").json()
    found = {each["name"]: each for each in said["variables"]}
    assert {name: each["change"] for name, each in found.items()} == {
        "a": "changed",
        "gone": "removed",
        "new": "added",
        "f": "added",
    }
    assert (found["a"]["before"]["text"], found["a"]["after"]["text"]) == ("1", "2")
    assert (found["gone"]["after"], found["new"]["before"]) == (None, None)
    assert found["new"]["after"]["type"] == "dict"
    assert said["variables_same"] == 1
    # Asked without them they are not there, and it is another job.
    job = done(client, client.post(f"sessions/{session}/changes", json={"since": 0, "until": 1}))
    assert "variables" not in client.get(f"jobs/{job['id']}/result").json()
