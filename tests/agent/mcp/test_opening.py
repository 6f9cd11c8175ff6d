"""What is not needed is not loaded; what cannot be started is said."""

import os
import subprocess
import sys

PATIENCE = 60.0
UNUSED = """
import sys
from reprise_server.agent.mcp.opening import open_servers
from reprise_server.agent.settings import RepriseAgent
assert open_servers(RepriseAgent()) is None
assert 'mcp' not in sys.modules and 'anyio' not in sys.modules
"""


def test_nothing_is_imported_where_none_are_configured():
    found = subprocess.run(
        [sys.executable, "-c", UNUSED], capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr


def test_the_keeper_says_what_could_not_be_started():
    from reprise_server.agent.mcp import keeper

    watched, lifeline = os.pipe()
    try:
        found = subprocess.run(
            [sys.executable, "-I", "-S", keeper.__file__, str(watched), "/nowhere/at/all"],
            pass_fds=(watched,),
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
    finally:
        os.close(watched)
        os.close(lifeline)
    assert (found.returncode, found.stderr) == (127, "/nowhere/at/all: No such file or directory\n")


ABSENT = """
import sys
sys.modules['mcp'] = None
from reprise.cli import main
from reprise.errors import UnavailableError
from reprise_server.agent.mcp.opening import open_servers
from reprise_server.agent.settings import RepriseAgent
settings = RepriseAgent(mcp_servers={'a': {'command': ['a']}})
try:
    open_servers(settings)
except UnavailableError as error:
    print(error)
print(main(['mcp']))
"""


def test_without_the_sdk_it_is_said_how_to_get_it():
    found = subprocess.run(
        [sys.executable, "-c", ABSENT],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    wanted = "pip install 'jupyter-reprise[agent]'"
    first, second = found.stdout.splitlines()
    assert wanted in first
    assert (second, wanted in found.stderr) == ("3", True)
