"""`reprise mcp` as a client starts it: the SDK's own, over stdin and stdout."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters

from tests.fixtures.kernel import Database

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
