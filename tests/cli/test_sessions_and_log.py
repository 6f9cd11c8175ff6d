"""What the log holds is what `reprise sessions` and `reprise log` show, in any form asked for."""

import asyncio
import json
import subprocess
import sys
import uuid
from collections.abc import Callable

import psycopg
import pytest

from reprise.log.embedded import Server
from tests.fixtures.commands import Reprise

Sample = Callable[[str | None], uuid.UUID]


def test_a_new_home_has_no_sessions_and_says_how_to_get_one(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    home = tmp_path_factory.mktemp("empty")
    home.chmod(0o700)
    reprise = Reprise(home, {"REPRISE_DATABASE_IDLE": "1"})
    shown = reprise("sessions")
    assert shown.returncode == 0, shown.stderr
    assert "reprise demo" in shown.stdout
    assert json.loads(reprise("sessions", "--json").stdout) == {"sessions": []}


def test_sessions_lists_the_one_used_last_first(reprise: Reprise, sample_session: Sample) -> None:
    older, newer = sample_session("/n/older.ipynb"), sample_session("/n/newer.ipynb")
    listed = json.loads(reprise("sessions", "--json").stdout)["sessions"]
    ids = [each["id"] for each in listed]
    assert {str(older), str(newer)} <= set(ids)
    found = listed[ids.index(str(newer))]
    assert found["steps"] == 4
    assert found["notebook"] == "/n/newer.ipynb"
    assert found["kernel"] == "python3"
    assert found["holder"] is None
    times = [each["last_at"] for each in listed]
    assert times == sorted(times, reverse=True)
    table = reprise("sessions", "--last", "1").stdout.splitlines()
    assert table[0].split() == ["session", "last", "used", "steps", "kernel", "state", "notebook"]
    assert len(table) == 2


def test_log_as_json_has_every_field_that_others_rely_on(
    reprise: Reprise, sample_session: Sample
) -> None:
    session = sample_session(None)
    shown = json.loads(reprise("log", str(session), "--json").stdout)
    assert shown["session"] == str(session)
    assert shown["environment"] == "e" * 64
    assert [step["seq"] for step in shown["steps"]] == [0, 1, 2, 3]
    assert [step["outcome"] for step in shown["steps"]] == ["ok", "error", "died", "ok"]
    first, _, died, upload = shown["steps"]
    assert first["kind"] == "cell"
    assert first["actor"] == {"kind": "user"}
    assert first["payload"]["content"]["code"] == "print('hello')\n\n# more\n"
    assert first["payload"]["metadata"] == {"cellId": "c1"}
    assert first["duration_s"] == 1.5
    assert first["execution_count"] == 1
    assert len(bytes.fromhex(first["digest"])) == 32
    assert "outputs" not in first
    assert died["cause"] == {"what": "signal", "signal": 9}
    assert upload["kind"] == "upload"
    assert [(each["seq"], each["code"]) for each in shown["notices"]] == [(2, "rolled-back")]


def test_log_shows_outputs_when_asked(reprise: Reprise, sample_session: Sample) -> None:
    session = sample_session(None)
    shown = json.loads(reprise("log", str(session), "--json", "--outputs", "--last", "4").stdout)
    assert shown["steps"][0]["outputs"] == [
        ["stream", {"name": "stdout", "text": "hello\n"}, {}, []]
    ]
    assert shown["steps"][0]["late_outputs"] == []


def test_log_for_people_has_a_line_a_step_and_no_escape_sequence(
    reprise: Reprise, sample_session: Sample
) -> None:
    session = sample_session("/n/a.ipynb")
    lines = reprise("log", str(session)).stdout.splitlines()
    assert str(session) in lines[0]
    assert "print('hello')  (+1 lines)" in lines[2]
    assert "1/0" in lines[3]
    assert "\\x1b]0;title\\x07import os" in lines[4]
    assert "The sandbox was killed." in lines[5]
    assert "2 removed" in lines[6]
    assert len(lines) == 7


def test_log_last_shows_the_end_only(reprise: Reprise, sample_session: Sample) -> None:
    session = sample_session(None)
    shown = json.loads(reprise("log", str(session), "--json", "--last", "2").stdout)
    assert [step["seq"] for step in shown["steps"]] == [2, 3]


def test_a_session_is_found_by_the_beginning_of_its_id_and_by_its_notebook(
    reprise: Reprise, sample_session: Sample
) -> None:
    session = sample_session(f"/n/{uuid.uuid4()}.ipynb")
    notebook = json.loads(reprise("log", str(session), "--json").stdout)["notebook"]
    for name in (str(session)[:13], notebook, notebook.rpartition("/")[2]):
        assert json.loads(reprise("log", name, "--json").stdout)["session"] == str(session)


def test_a_name_that_fits_two_sessions_lists_both(reprise: Reprise, sample_session: Sample) -> None:
    both = sample_session("/n/twice.ipynb"), sample_session("/n/twice.ipynb")
    shown = reprise("log", "twice.ipynb")
    assert shown.returncode == 2
    assert all(str(session) in shown.stderr for session in both)


@pytest.mark.parametrize(
    "name", ["nothing.ipynb", "12", "e7bb9d2a-b9b7-471b-aabc-6b3490685f35", "{not-a-uuid}", ""]
)
def test_a_session_that_is_not_there_is_wrong_use(reprise: Reprise, name: str) -> None:
    shown = reprise("log", name)
    assert shown.returncode == 2
    assert len(shown.stderr.splitlines()) == 1
    assert shown.stdout == ""


def test_check_says_whole_and_then_names_the_step_that_was_changed(
    reprise: Reprise, sample_session: Sample
) -> None:
    session = sample_session(None)
    shown = reprise("log", str(session), "--check", "--json")
    assert shown.returncode == 0, shown.stderr
    whole = json.loads(shown.stdout)
    assert (whole["whole"], whole["steps"], whole["fault"]) == (True, 4, None)

    async def forge() -> None:
        server = Server(reprise.home)
        await server.ensure_running(None)
        async with await psycopg.AsyncConnection.connect(server.owner_dsn) as connection:
            await connection.execute("SET session_replication_role = replica")
            changed = await connection.execute(
                "UPDATE reprise.steps SET body = replace(body::text, '1/0', '2/0')::json"
                " WHERE session = %s AND seq = 1",
                [session],
            )
            assert changed.rowcount == 1
        server.release()

    asyncio.run(forge())
    shown = reprise("log", str(session), "--check", "--json")
    assert shown.returncode == 1
    assert json.loads(shown.stdout)["fault"]["seq"] == 1
    told = reprise("log", str(session), "--check")
    assert told.returncode == 1
    assert "step 1" in told.stdout


def test_a_reader_that_wants_one_line_gets_it_without_a_complaint(
    reprise: Reprise, sample_session: Sample
) -> None:
    session = sample_session(None)
    shown = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m reprise.cli log {session} --json | head -1"],
        capture_output=True,
        text=True,
        env=reprise.environ,
        timeout=60,
    )
    assert shown.stdout == "{\n"
    assert shown.stderr == ""


def test_an_unreachable_database_is_told_as_unavailable(reprise: Reprise) -> None:
    shown = reprise("sessions", REPRISE_DSN="host=127.0.0.1 port=9 dbname=x password=hush")
    assert shown.returncode == 3
    assert "127.0.0.1" in shown.stderr
    assert "hush" not in shown.stderr
    assert "Traceback" not in shown.stderr
