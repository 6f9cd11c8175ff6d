"""Sessions read over REST: bounded pages of what the log has, of nobody else, and never a page."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import uuid
from typing import Any

import httpx
import psycopg
import pytest

from reprise.log.model import Actor, NewOutcome, NewStep, OutputEntry, outputs_hash
from reprise.log.postgres import Log
from reprise.log.store import NetworkRow, Notice
from tests.fixtures.histories import (
    AT,
    ENVIRONMENT,
    SPEC,
    Part,
    begun,
    cell,
    done,
    ended,
    text,
    with_log,
    written,
)
from tests.fixtures.kernel import Database
from tests.fixtures.server import JupyterServer

HTML = "<script>parent.document.title = 'mine'</script>"
BUFFER = bytes(range(256)) * 40


@pytest.fixture(scope="module")
def client(api: JupyterServer) -> httpx.Client:
    return api.client("alice")


@pytest.fixture(scope="module")
def history(database: Database) -> str:
    """One of everything, with network rows, notices and an artifact."""

    async def write(log: Log) -> uuid.UUID:
        names = []
        session = await log.begin(kernel="python3", notebook="/home/ada/work/analysis.ipynb")
        held = await log.acquire(session, {"pid": 1, "host": "elsewhere"})
        names.append(await held.blobs.put(BUFFER))
        await held.record_environment(ENVIRONMENT, SPEC)
        parts = [
            Part(cell("import pandas as pd")),
            Part(
                cell("widget"),
                (OutputEntry("display_data", {"data": {"text/html": HTML}}, {}, tuple(names)),),
            ),
            Part(
                NewStep(
                    "command",
                    {"argv": ["grep", "-r", "x y", "."]},
                    ENVIRONMENT,
                    AT,
                    Actor("agent", "talk", 2),
                ),
                (text("out"), text("err", "stderr")),
                "error",
            ),
            Part(
                NewStep(
                    "upload",
                    {
                        "root": "",
                        "entries": [
                            [f"data/{n}.csv", "file", 0o644, 1, "a" * 64] for n in range(1000)
                        ],
                        "removed": [],
                    },
                    ENVIRONMENT,
                    AT,
                    Actor("system"),
                )
            ),
            Part(cell("a\x00b \ud800"), status="died"),
            Part(cell("x = input()"), status=None),
        ]
        for part in parts:
            step = await held.append_step(part.new)
            if part.outputs:
                await held.append_outputs(step.seq, part.outputs)
            await held.append_network(
                [
                    NetworkRow(
                        step.seq,
                        AT,
                        "pypi.example.org",
                        443,
                        None,
                        "connect",
                        "refused",
                        "no",
                        0,
                        0,
                        5,
                    )
                ]
            )
            if part.status is not None:
                await held.record_outcome(
                    step.seq, NewOutcome(part.status, outputs_hash(part.outputs), AT, 7)
                )
        for number in range(3):
            await held.note(Notice(0, AT, "folder-too-big", f"notice {number}", {"n": number}))
        await log.add_artifact(
            session, 2, 'out/résult "1".html', names[0], len(BUFFER), 0o644, Actor("user")
        )
        await held.close()
        return session

    return str(with_log(database, write))


def test_a_step_is_told_as_the_command_line_tells_it(
    client: httpx.Client, database: Database, history: str
) -> None:
    said = subprocess.run(
        [sys.executable, "-m", "reprise.cli", "log", history, "--json"],
        capture_output=True,
        check=True,
        timeout=120,
        env={
            "PATH": "/usr/bin:/bin",
            "REPRISE_DSN": database.dsn,
            "REPRISE_HOME": str(database.home),
        },
    )
    told = json.loads(said.stdout)
    page = client.get(f"sessions/{history}/steps").json()
    sizes = [step.pop("payload_bytes") for step in page["steps"]]
    assert (page["session"], page["total"], page["next"]) == (history, 6, None)
    assert sizes[3] > 4000
    assert page["steps"] == told["steps"]
    assert client.get(f"sessions/{history}/notices").json()["notices"] == told["notices"]
    one = client.get(f"sessions/{history}").json()
    spec = one.pop("environment_spec")
    assert spec == SPEC
    (listed,) = client.get("sessions", params={"q": history}).json()["sessions"]
    assert one == listed
    assert {one[name] for name in ("id", "notebook")} == {history, "/home/ada/work/analysis.ipynb"}


@pytest.mark.parametrize(
    ("asked", "seqs"),
    [
        ({"kind": "cell"}, [0, 1, 4, 5]),
        ({"kind": ["upload", "command"]}, [2, 3]),
        ({"actor": "agent"}, [2]),
        ({"outcome": ["died", "running"]}, [4, 5]),
        ({"outcome": "ok", "kind": "cell"}, [0, 1]),
        ({"q": "PANDAS"}, [0]),
        ({"q": "999.csv"}, [3]),
        ({"q": '"; DROP TABLE reprise.steps; --'}, []),
        ({"newest": "true", "limit": 2}, [5, 4]),
        ({"newest": "true", "after": 2}, [1, 0]),
        ({"after": 4}, [5]),
        ({"after": 10**14}, []),
    ],
)
def test_steps_are_chosen_on_the_server(
    client: httpx.Client, history: str, asked: dict[str, Any], seqs: list[int]
) -> None:
    page = client.get(f"sessions/{history}/steps", params=asked).json()
    assert [step["seq"] for step in page["steps"]] == seqs


@pytest.mark.parametrize(
    "asked",
    [
        {"kind": "sell"},
        {"limit": 0},
        {"limit": 1001},
        {"after": "1; SELECT 1"},
        {"after": -2},
        {"after": 10**17},
        {"after": [1, 2]},
        {"q": "x" * 201},
        {"q": "a b c d e f g h i"},
        {"newest": "yes"},
        {"page": 1},
    ],
)
def test_what_cannot_be_asked_of_steps_is_refused(
    client: httpx.Client, history: str, asked: dict[str, Any]
) -> None:
    answer = client.get(f"sessions/{history}/steps", params=asked)
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["message"]


def test_rows_hold_a_line_of_each_step(client: httpx.Client, history: str) -> None:
    told = client.get(f"sessions/{history}/rows").json()
    assert [(row["kind"], row["text"], row["outcome"], row["shown"]) for row in told["rows"]] == [
        ("cell", "import pandas as pd", "ok", None),
        ("cell", "widget", "ok", "text/html"),
        ("command", "grep -r x y .", "error", "out"),
        ("upload", "data/0.csv, …", "ok", None),
        ("cell", "a\x00b \ud800", "died", None),
        ("cell", "x = input()", None, None),
    ]
    assert told["rows"][2]["actor"] == {"kind": "agent", "conversation": "talk", "turn": 2}
    failed = client.get(
        f"sessions/{history}/rows", params={"outcome": ["error", "died"], "offset": 1}
    ).json()
    assert [(row["row"], row["seq"]) for row in failed["rows"]] == [(1, 4)]
    assert (failed["total"], failed["found"]) == (6, 2)
    for asked in ({"limit": 0}, {"offset": -1}, {"cell": ""}, {"q": "a b c d e f g h i"}):
        answer = client.get(f"sessions/{history}/rows", params=asked)
        assert answer.status_code == 400, answer.text


@pytest.mark.parametrize(
    ("path", "cursor"),
    [
        ("sessions", "1"),
        ("sessions", "1.zz"),
        ("sessions", "1." + "0" * 31),
        ("sessions", "-1." + "0" * 32),
        ("sessions", "9" * 19 + "." + "0" * 32),
        ("sessions", "1." + "0" * 32 + "'"),
        ("sessions/{}/network", "1"),
        ("sessions/{}/network", "0.-1"),
        ("sessions/{}/network", "0.1.2"),
        ("sessions/{}/network", "x"),
        ("sessions/{}/notices", "x"),
    ],
)
def test_a_forged_cursor_is_refused(
    client: httpx.Client, history: str, path: str, cursor: str
) -> None:
    answer = client.get(path.format(history), params={"after": cursor})
    assert answer.status_code == 400, answer.text


def test_a_cursor_of_another_page_finds_nothing_that_is_not_this_sessions(
    client: httpx.Client, history: str
) -> None:
    for cursor in ("0.999999999999999999", "999999.0"):
        assert (
            client.get(f"sessions/{history}/network", params={"after": cursor}).json()["network"]
            == []
        )
    found = client.get("sessions", params={"after": f"{10**17}.{'0' * 32}"}).json()["sessions"]
    assert found == client.get("sessions").json()["sessions"]


def test_notices_and_network_rows_come_in_pages(client: httpx.Client, history: str) -> None:
    for what, expected in (("network", 6), ("notices", 3)):
        found: list[Any] = []
        after = None
        while True:
            asked = {"limit": 2} | ({} if after is None else {"after": after})
            page = client.get(f"sessions/{history}/{what}", params=asked).json()
            assert len(page[what]) <= 2
            found += page[what]
            after = page["next"]
            if after is None:
                break
        assert len(found) == expected
        assert found == client.get(f"sessions/{history}/{what}").json()[what]
    rows = client.get(f"sessions/{history}/network", params={"from": 2, "to": 3}).json()["network"]
    assert [row["seq"] for row in rows] == [2, 3]


def test_what_a_step_showed_is_data_and_never_a_page(client: httpx.Client, history: str) -> None:
    answer = client.get(f"sessions/{history}/steps/1")
    said = answer.json()
    (output,) = said["outputs"]
    assert output[1]["data"]["text/html"] == HTML  # the original, whatever a page was shown
    assert (said["outputs_next"], said["late_outputs"]) == (None, [])
    digest = output[3][0]
    blob = client.get(f"sessions/{history}/steps/1/blobs/{digest}")
    assert blob.content == BUFFER
    (artifact,) = client.get(f"sessions/{history}/artifacts").json()["artifacts"]
    saved = client.get(f"sessions/{history}/artifacts/{artifact['artifact']}")
    assert saved.content == BUFFER
    assert "filename*=utf-8''r%C3%A9sult" in saved.headers["Content-Disposition"]
    for each in (answer, blob, saved, client.get(f"sessions/{history}/steps/1/outputs/0")):
        assert each.headers["Content-Type"] in ("application/json", "application/octet-stream")
        assert each.headers["X-Content-Type-Options"] == "nosniff"
        assert each.headers["Content-Security-Policy"].endswith("sandbox")
        assert "default-src 'none'" in each.headers["Content-Security-Policy"]
    for each in (blob, saved):
        assert each.headers["Content-Disposition"].startswith("attachment")


def test_bytes_that_the_step_does_not_name_are_not_there(
    client: httpx.Client, history: str
) -> None:
    digest = hashlib.sha256(BUFFER).hexdigest()
    assert client.get(f"sessions/{history}/steps/0/blobs/{digest}").status_code == 404
    assert client.get(f"sessions/{history}/steps/1/blobs/{'0' * 64}").status_code == 404
    assert client.get(f"sessions/{history}/steps/1/blobs/..%2F..%2Fetc%2Fpasswd").status_code == 404


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/steps",
        "/steps/0",
        "/steps/0/outputs",
        "/steps/0/outputs/0",
        "/rows",
        "/rows?q=secret",
        "/forks",
        "/network",
        "/notices",
        "/skills",
        "/dependents",
        "/files",
        "/files/content?path=x",
        "/artifacts",
        "/bundle",
    ],
)
def test_a_session_of_another_owner_is_not_there(
    client: httpx.Client, database: Database, path: str
) -> None:
    async def write(log: Log) -> uuid.UUID:
        return await written(log, [Part(cell("secret = 42"), (text("42"),))])

    stranger = str(with_log(database, write, owner="stranger"))
    answer = client.get(f"sessions/{stranger}{path}")
    assert answer.status_code == 404, answer.text
    assert answer.json()["error"]["code"] == "session-not-found"
    assert "secret" not in answer.text
    ids = [info["id"] for info in client.get("sessions").json()["sessions"]]
    assert stranger not in ids


def test_acts_on_a_session_of_another_owner_do_nothing(
    client: httpx.Client, database: Database
) -> None:
    async def write(log: Log) -> uuid.UUID:
        return await written(log, [Part(cell("secret = 42"))])

    stranger = str(with_log(database, write, owner="stranger"))
    acts: list[tuple[str, Any]] = [
        ("forks", {}),
        ("rewind", {"at": 0}),
        ("verify", {}),
        ("check", None),
        ("workspaces", {"at": 0}),
        ("changes", {"since": 0}),
        ("run", {"kind": "cell", "code": "1"}),
        ("artifacts", {"path": "x"}),
    ]
    for act, body in acts:
        answer = (
            client.post(f"sessions/{stranger}/{act}", json=body)
            if body is not None
            else client.post(f"sessions/{stranger}/{act}")
        )
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "session-not-found"), (
            act
        )
    assert client.delete(f"sessions/{stranger}").status_code == 404
    assert client.get("jobs", params={"session": stranger}).json() == {"jobs": []}

    async def steps(log: Log) -> int:
        return (await (await log.reader(uuid.UUID(stranger))).info()).steps

    assert with_log(database, steps, owner="stranger") == 1


@pytest.mark.parametrize(
    "named",
    ["x", "..%2F..", "0" * 36, "{" + "0" * 34 + "}", "713CE990-4969-4B70-9B67-D24381E47D56", "%00"],
)
def test_what_is_no_id_leads_nowhere(client: httpx.Client, named: str) -> None:
    for path in (f"sessions/{named}", f"sessions/{named}/steps", f"jobs/{named}"):
        answer = client.get(path)
        assert answer.status_code in (400, 404), (path, answer.text)
        assert answer.json()["error"]["message"]


def test_large_outputs_come_in_pages_and_one_by_one(
    client: httpx.Client, database: Database
) -> None:
    large = "x" * (10 << 20)
    outputs = (
        *(
            OutputEntry("display_data", {"data": {"text/plain": "y" * 900_000}, "n": n})
            for n in range(4)
        ),
        OutputEntry("display_data", {"data": {"text/html": large}}),
        text("the end"),
    )

    async def write(log: Log) -> uuid.UUID:
        payload = {
            "root": "",
            "entries": [[f"{'d' * 200}/{n}", "file", 0o644, 1, "a" * 64] for n in range(2000)],
            "removed": [],
        }
        return await written(
            log, [Part(cell("big()"), outputs), Part(NewStep("upload", payload, ENVIRONMENT, AT))]
        )

    session = str(with_log(database, write))
    step = client.get(f"sessions/{session}/steps/0")
    assert len(step.content) < 3 << 20
    assert step.json()["outputs_next"] == 1
    found, after = [], -1
    left_out = []
    while after is not None:
        page = client.get(f"sessions/{session}/steps/0/outputs", params={"after": after})
        assert len(page.content) < 3 << 20
        found += page.json()["outputs"]
        left_out += page.json()["outputs_left_out"]
        after = page.json()["outputs_next"]
    assert [each if each is None else each[0] for each in found] == [
        *["display_data"] * 4,
        None,
        "stream",
    ]
    (alone,) = left_out
    assert alone["number"] == 4
    whole = client.get(f"sessions/{session}/steps/0/outputs/4")
    assert len(whole.content) == alone["bytes"]
    assert whole.json()[1]["data"]["text/html"] == large
    assert client.get(f"sessions/{session}/steps/0/outputs/6").status_code == 404
    assert (
        client.get(f"sessions/{session}/steps/0/outputs/0", params={"late": True}).status_code
        == 404
    )

    listed = client.get(f"sessions/{session}/steps").json()["steps"][1]
    assert listed["payload"] is None
    assert listed["payload_bytes"] > 400_000
    assert len(client.get(f"sessions/{session}/steps/1").json()["payload"]["entries"]) == 2000


def test_a_huge_session_is_paged_from_anywhere(client: httpx.Client, database: Database) -> None:
    count = 8_000

    async def write(log: Log) -> uuid.UUID:
        return await written(
            log, [Part(cell(f"step_{n} = {'needle' if n == 7_990 else n}")) for n in range(count)]
        )

    session = str(with_log(database, write))
    middle = client.get(f"sessions/{session}/steps", params={"after": 4_344, "limit": 3}).json()
    assert [step["seq"] for step in middle["steps"]] == [4_345, 4_346, 4_347]
    assert (middle["total"], middle["next"]) == (count, 4_347)
    last = client.get(f"sessions/{session}/steps", params={"newest": True}).json()
    assert [step["seq"] for step in last["steps"]] == list(range(count - 1, count - 201, -1))
    needle = client.get(f"sessions/{session}/steps", params={"q": "needle"}).json()
    assert [step["seq"] for step in needle["steps"]] == [7_990]
    rows = client.get(f"sessions/{session}/rows", params={"offset": 4_345, "limit": 3}).json()
    assert [row["row"] for row in rows["rows"]] == [4_345, 4_346, 4_347]
    assert (rows["total"], rows["found"], rows["found_exact"]) == (count, count, True)
    found = client.get(
        f"sessions/{session}/rows", params={"q": "step_79", "offset": 100, "limit": 2}
    ).json()
    assert [(row["row"], row["seq"]) for row in found["rows"]] == [(100, 7_989), (101, 7_990)]
    assert (found["found"], found["found_exact"]) == (111, True)


def test_a_changed_record_is_found_by_a_check(client: httpx.Client, database: Database) -> None:
    async def write(log: Log) -> uuid.UUID:
        return await written(log, [Part(cell(f"x = {n}")) for n in range(4)])

    session = with_log(database, write)
    job = done(client, client.post(f"sessions/{session}/check"))
    assert (job["summary"]["whole"], job["summary"]["steps"]) == (True, 4)
    with psycopg.connect(database.dsn, autocommit=True) as superuser:
        superuser.execute("ALTER TABLE reprise.steps DISABLE TRIGGER append_only")
        superuser.execute(
            "UPDATE reprise.steps SET body = replace(body::text, 'x = 2', 'x = 3')::json WHERE session = %s AND seq = 2",
            [session],
        )
        superuser.execute("ALTER TABLE reprise.steps ENABLE TRIGGER append_only")
    job = done(client, client.post(f"sessions/{session}/check"))
    assert not job["summary"]["whole"]
    assert job["summary"]["fault"]["seq"] == 2
    # What does not add up is no bundle, and no half of one is taken for a whole.
    answer = client.get(f"sessions/{session}/bundle")
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "log-corrupt")


def test_a_session_is_deleted_as_the_command_line_would(
    client: httpx.Client, database: Database
) -> None:
    async def write(log: Log) -> tuple[uuid.UUID, uuid.UUID]:
        session = await written(log, [Part(cell("x = 1"))])
        return session, await log.fork(session)

    session, fork = with_log(database, write)
    told = client.get(f"sessions/{session}/dependents").json()
    assert (told["forks"], told["deleted"]) == ([str(fork)], [])
    answer = client.delete(f"sessions/{session}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "session-needed")
    assert client.get(f"sessions/{session}").status_code == 200

    async def hold(log: Log) -> None:
        held = await log.acquire(session, {"pid": 7, "host": "elsewhere"})
        answer = client.delete(f"sessions/{session}", params={"with_forks": True})
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "lease-held")
        await held.close()

    with_log(database, hold)
    said = client.delete(f"sessions/{session}", params={"with_forks": True}).json()
    assert said["deleted"] == [str(fork), str(session)]
    assert client.get(f"sessions/{session}").status_code == 404
    assert client.get(f"sessions/{fork}").status_code == 404


def test_each_act_has_its_own_resource_and_action(
    api: JupyterServer, client: httpx.Client, history: str
) -> None:
    api.asked()
    client.get(f"sessions/{history}/steps")
    client.post(f"sessions/{history}/forks", json={})
    client.post(f"sessions/{history}/check")
    client.get("jobs")
    assert api.asked() == [
        ["alice", "read", "reprise-sessions"],
        ["alice", "write", "reprise-sessions"],
        ["alice", "execute", "reprise-sessions"],
        ["alice", "read", "reprise-jobs"],
    ]
    api.deny(("alice", "execute", "reprise-session-steps"))
    try:
        assert (
            client.post(f"sessions/{history}/run", json={"kind": "cell", "code": "1"}).status_code
            == 403
        )
        assert client.get(f"sessions/{history}").status_code == 200
    finally:
        api.deny()


def test_a_fork_that_is_asked_for_twice_is_made_once(
    client: httpx.Client, database: Database, history: str
) -> None:
    named = str(uuid.uuid4())
    for _ in range(2):
        answer = client.post(f"sessions/{history}/forks", json={"at": 1, "fork": named})
        assert answer.status_code == 201
        said = answer.json()
        assert (said["session"], said["parent"], said["fork_seq"], said["steps"]) == (
            named,
            history,
            1,
            2,
        )
    told = client.get(f"sessions/{history}/forks").json()["forks"]
    assert [(fork["fork_seq"], fork["steps"]) for fork in told if fork["id"] == named] == [(1, 2)]
    for at in (99, -2):
        assert client.post(f"sessions/{history}/forks", json={"at": at}).status_code == 400
    assert client.post(f"sessions/{history}/forks", json={"att": 1}).status_code == 400


def test_jobs_are_listed_waited_for_and_forgotten(
    client: httpx.Client, api: JupyterServer, history: str
) -> None:
    job = done(client, client.post(f"sessions/{history}/check"))
    listed = client.get("jobs", params={"session": history, "kind": "check", "state": "done"})
    assert job in listed.json()["jobs"]
    assert api.client("bob").get(f"jobs/{job['id']}").json() == job
    for asked in ({"kind": "verify"}, {"state": "queued"}, {"session": str(uuid.uuid4())}):
        assert job not in client.get("jobs", params=asked).json()["jobs"]
    # One that has ended keeps nobody waiting, and neither does a version that is behind.
    assert client.get(f"jobs/{job['id']}", params={"version": 0, "wait": 30}).json() == job
    waited = client.get(f"jobs/{job['id']}", params={"version": job["version"], "wait": 30})
    assert waited.json() == job
    heard = client.get(f"jobs/{job['id']}/outputs", params={"wait": 30}).json()
    assert heard == {"outputs": [], "next": -1, "skipped": False, "state": "done", "ended": True}
    assert client.get(f"jobs/{job['id']}/result").status_code == 404
    assert client.delete(f"jobs/{job['id']}").status_code == 204
    for method, path in (
        ("GET", ""),
        ("GET", "/outputs"),
        ("GET", "/result"),
        ("POST", "/cancel"),
        ("DELETE", ""),
    ):
        answer = client.request(method, f"jobs/{job['id']}{path}")
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "job-not-found")
    for asked in ({"wait": 31}, {"wait": -1}, {"version": "x"}, {"after": 1}):
        assert client.get(f"jobs/{job['id']}", params=asked).status_code == 400, asked


def test_a_session_is_begun_once(client: httpx.Client, database: Database) -> None:
    named = str(uuid.uuid4())
    for _ in range(2):
        answer = client.post("sessions", json={"session": named})
        assert answer.status_code == 201
        said = answer.json()
        assert (said["id"], said["steps"], said["kernel"]) == (named, 0, "python3")
    assert client.post("sessions").status_code == 201
    for asked in ({"kernel": "no-such-kernel"}, {"kernel": "../../x"}, {"notebook": "x.ipynb"}):
        assert client.post("sessions", json=asked).status_code == 400, asked

    async def write(log: Log) -> uuid.UUID:
        return await log.begin(kernel="python3")

    taken = str(with_log(database, write, owner="stranger"))
    answer = client.post("sessions", json={"session": taken})
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "id-taken")
    assert client.get(f"sessions/{taken}").status_code == 404


def test_a_bundle_goes_out_and_comes_in(
    client: httpx.Client, database: Database, history: str
) -> None:
    async def write(log: Log) -> uuid.UUID:
        return await written(
            log, [Part(cell(f"x = {n}"), (text("y" * 20_000),)) for n in range(300)]
        )

    session = str(with_log(database, write))
    for compress in (False, True):
        answer = client.get(f"sessions/{session}/bundle", params={"compress": compress})
        assert answer.headers["Content-Type"] == "application/octet-stream"
        assert answer.headers["Content-Disposition"].startswith("attachment")
        sent = {"content": answer.content, "headers": {"Content-Type": "application/octet-stream"}}
        job = done(client, client.post("bundles", **sent))
        assert not job["summary"]["imported"]  # it is here already
        job = done(client, client.post("bundles", params={"as_new": True}, **sent))
        assert job["summary"]["imported"]
        copy = job["summary"]["session"]
        assert copy != session
        assert (
            client.get(f"sessions/{copy}/steps/299").json()
            == client.get(f"sessions/{session}/steps/299").json()
        )
    for broken in (b"no bundle", answer.content[:-100], answer.content + b"x"):
        job = ended(
            client,
            begun(
                client.post(
                    "bundles", content=broken, headers={"Content-Type": "application/octet-stream"}
                )
            ),
        )
        assert (job["state"], job["error"]["code"]) == ("failed", "bad-bundle")
        assert "Nothing was imported" in job["error"]["message"]
    assert client.post("bundles", json={"x": 1}).status_code == 415


def test_a_session_is_named_and_a_fork_with_it(client: httpx.Client, database: Database) -> None:
    async def write(log: Log) -> uuid.UUID:
        session = await log.begin(kernel="python3", notebook="/home/ada/churn.ipynb")
        held = await log.acquire(session, {"pid": 1, "host": "elsewhere"})
        await held.record_environment(ENVIRONMENT, SPEC)
        for code in ("x = 1", "x = 2"):
            step = await held.append_step(cell(code))
            await held.record_outcome(step.seq, NewOutcome("ok", outputs_hash([]), AT, 1000))
        await held.close()
        return session

    session = str(with_log(database, write))
    assert client.get(f"sessions/{session}").json()["name"] is None
    named = client.patch(f"sessions/{session}", json={"name": " churn \n b "}).json()
    assert named["name"] == "churn b"
    assert client.get(f"sessions/{session}").json()["name"] == "churn b"
    fork = client.post(f"sessions/{session}/forks", json={"at": 0, "name": "other way"}).json()
    assert client.get(f"sessions/{fork['session']}").json()["name"] == "other way"
    # What a rewind leaves gets a name where it has none, and another one than others have.
    for expected in ("churn (before rewind)", "churn (before rewind) 2"):
        left = client.post(f"sessions/{session}/forks", json={}).json()["session"]
        assert client.get(f"sessions/{left}").json()["name"] is None
        went = client.post(f"sessions/{left}/rewind", json={"at": 0, "name": "on"})
        assert went.status_code == 201, went.text
        assert client.get(f"sessions/{left}").json()["name"] == expected
        assert client.get(f"sessions/{went.json()['session']}").json()["name"] == "on"
    assert client.post(f"sessions/{session}/rewind", json={"at": 0}).status_code == 201
    assert client.get(f"sessions/{session}").json()["name"] == "churn b"
    assert client.patch(f"sessions/{session}", json={"name": ""}).json()["name"] is None
    wrong = client.patch(f"sessions/{session}", json={"name": "x" * 201})
    assert wrong.status_code == 400
    none = client.patch(f"sessions/{uuid.uuid4()}", json={"name": "x"})
    assert none.status_code == 404
