"""`reprise mcp` as a client starts it: the SDK's own, over stdin and stdout."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters

from reprise.log.conversations import Conversations
from reprise.log.postgres import Log
from tests.agent.mcp.offered import other_agent
from tests.fixtures.kernel import Database

PATIENCE = 60.0
CLI = [sys.executable, "-m", "reprise.cli"]


def variables(database: Database) -> dict[str, str]:
    return {
        "REPRISE_DSN": database.dsn,
        "REPRISE_HOME": str(database.home),
        "REPRISE_BACKEND": "bubblewrap",
        "REPRISE_SESSION": "",
        "REPRISE_ENVIRONMENT": "",
        "JUPYTER_CONFIG_DIR": str(database.home / "none"),
    }


async def test_a_client_starts_it_and_works_in_a_session(database: Database, tmp_path: Path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "rows.csv").write_text("a\n1\n2\n")
    parameters = StdioServerParameters(
        command=CLI[0],
        args=[*CLI[1:], "mcp", "--folder", str(tmp_path / "data")],
        env=variables(database),
        cwd=tmp_path,
    )
    async with Client(parameters) as client:
        answer = await client.call_tool(
            "run_cell", {"code": "print('never on the wire')\nopen('rows.csv').read()"}
        )
        assert not answer.is_error
        assert "'a\\n1\\n2\\n'" in answer.content[0].text
        assert "never on the wire" in answer.content[0].text


async def test_killed_in_a_call_it_leaves_a_whole_record_and_nothing_runs_again(
    database: Database, tmp_path: Path
):
    mark = "import pathlib, time; pathlib.Path('ran').open('a').write('x'); time.sleep(3600)"
    session, process = uuid.uuid4(), None
    log = await Log.connect(database.dsn, home=database.home)
    await log.begin(session=session, kernel="python3")
    command = [*CLI, "mcp", "--session", str(session)]
    environ = {**os.environ, **variables(database)}
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environ, cwd=tmp_path)
    try:
        process.stdin.write(_call("run_cell", code=mark))
        process.stdin.flush()
        reader = await log.reader(session)
        async with asyncio.timeout(PATIENCE):
            while (await reader.info()).steps < 1:
                await asyncio.sleep(0.05)
    finally:
        process.kill()
        process.communicate()
    try:
        async with other_agent(database, tmp_path, named=(session,)) as other:
            known = Conversations(log)
            [info] = await known.list(session=session)
            kinds = [entry.kind for entry in await known.entries(info.id)]
            # It may have run, and its end is not known: neither is claimed.
            assert kinds[-2:] == ["called", "running"]
            assert (await known.check(info.id)).broken is None
            # Not run again by itself. Its kernel may have had the time to interrupt it.
            there = await other.call("run_cell", code="import os; os.path.exists('ran')")
            assert "False" in there.text
            records = [record async for record in reader.records(0, None)]
            assert records[0].outcome.new.status in ("lost", "interrupted")
    finally:
        await log.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_ends_it_though_its_client_stays_and_the_record_says_so(
    number: signal.Signals, database: Database, tmp_path: Path
):
    environ = {**os.environ, **variables(database), "TMPDIR": str(tmp_path)}
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        [*CLI, "mcp"], stdin=pipe, stdout=pipe, stderr=pipe, env=environ, cwd=tmp_path
    )
    try:
        process.stdin.write(_call("run_cell", code="'it ran'"))
        process.stdin.flush()
        assert b"it ran" in process.stdout.readline()
        process.send_signal(number)
        # Not `communicate`, which would close its stdin: that alone ends it.
        assert process.wait(PATIENCE) == 128 + number
    finally:
        process.kill()
        process.communicate()
    assert not list(tmp_path.glob("reprise-mcp-*"))
    log = await Log.connect(database.dsn, home=database.home)
    try:
        known = Conversations(log)
        [info] = await known.list(most=1)
        assert (await known.entries(info.id))[-1].kind == "ended"
    finally:
        await log.close()


def _call(tool: str, **given: str) -> bytes:
    """A call as a client of today's protocol writes it, without a handshake."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": tool, "arguments": given, "_meta": meta}
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return json.dumps(asked).encode() + b"\n"


def told(database: Database, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*CLI, "mcp", *words],
        env={**os.environ, **variables(database), **more},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--token-file", "x"), "belong to --http"),
        (("--folder", "/no/such/folder"), "There is no folder"),
        (("--http", "everywhere"), "no HOST:PORT"),
        (("--http", "127.0.0.1:0"), "bearer token is needed"),
    ],
)
def test_wrong_use_is_said_before_anything_starts(database: Database, words, said):
    found = told(database, *words, REPRISE_MCP_TOKEN="")
    assert (found.returncode, found.stdout) == (2, "")
    assert said in found.stderr


def test_it_ends_with_its_client(database: Database):
    found = told(database)
    assert (found.returncode, found.stdout) == (0, "")
