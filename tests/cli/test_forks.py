"""`reprise fork` and `rewind`: an earlier state again, in a new session, with or without a kernel."""

import asyncio
import json
import re
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reprise.client.specs import kernel_specs
from reprise.demo.kernel import DemoKernel
from reprise.log.postgres import Log
from tests.fixtures.commands import Reprise, write_sample

Sample = Callable[[str | None], uuid.UUID]


def forked(reprise: Reprise, *args: str) -> str:
    shown = reprise("fork", *args)
    assert shown.returncode == 0, shown.stderr
    [line] = shown.stdout.splitlines()
    return str(uuid.UUID(line))


def listed(reprise: Reprise) -> dict[str, dict[str, object]]:
    found = json.loads(reprise("sessions", "--json").stdout)["sessions"]
    return {each["id"]: each for each in found}


def codes(reprise: Reprise, session: str) -> list[int]:
    steps = json.loads(reprise("log", session, "--json").stdout)["steps"]
    return [step["seq"] for step in steps]


def branch(row: str) -> str:
    """The first column of a drawn tree."""
    found = re.match(r"[^0-9a-f]*[0-9a-f]{8}", row)
    assert found is not None, row
    return found[0]


def test_a_fork_is_printed_listed_and_whole(reprise: Reprise, sample_session: Sample) -> None:
    session = str(sample_session(None))
    fork = forked(reprise, session, "--at", "1")
    assert codes(reprise, fork) == [0, 1]
    assert codes(reprise, session) == [0, 1, 2, 3]
    found = listed(reprise)
    assert (found[fork]["parent"], found[fork]["fork_seq"]) == (session, 1)
    assert (found[session]["parent"], found[session]["fork_seq"]) == (None, None)
    top = reprise("log", fork).stdout.splitlines()
    assert top[1] == f"forked after step 1 of session {session}"
    head = json.loads(reprise("log", fork, "--json").stdout)
    assert (head["parent"], head["fork_seq"]) == (session, 1)
    assert reprise("log", fork, "--check").returncode == 0
    whole = json.loads(reprise("fork", session, "--json").stdout)
    assert (whole["fork_seq"], whole["steps"], whole["attached"]) == (3, 4, [])
    empty = forked(reprise, session, "--at", "-1")
    assert reprise("log", empty).stdout.splitlines()[1] == f"an empty fork of session {session}"


@pytest.mark.parametrize("at", ["4", "-2", "1000000000000"])
def test_a_step_that_is_not_there_is_wrong_use(
    reprise: Reprise, sample_session: Sample, at: str
) -> None:
    shown = reprise("fork", str(sample_session(None)), f"--at={at}")
    assert shown.returncode == 2
    assert "steps 0 to 3" in shown.stderr
    assert shown.stdout == ""


def test_the_tree_draws_each_fork_below_its_parent(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    home = tmp_path_factory.mktemp("tree")
    home.chmod(0o700)
    reprise = Reprise(home, {"REPRISE_DATABASE_IDLE": "5"})
    root = str(asyncio.run(write_sample(home, "/n/a.ipynb")))
    late = forked(reprise, root, "--at", "3")
    early = forked(reprise, root, "--at", "0")
    under = forked(reprise, late, "--at", "-1")
    alone = str(asyncio.run(write_sample(home, None)))
    shown = reprise("sessions", "--tree")
    assert shown.returncode == 0, shown.stderr
    rows = [line for line in shown.stdout.splitlines() if root[:8] in line or "─" in line]
    assert [branch(row) for row in rows] == [
        root[:8],
        f"├─ {early[:8]}",
        f"└─ {late[:8]}",
        f"   └─ {under[:8]}",
    ]
    assert "after step 0" in rows[1]
    assert "after step 3" in rows[2]
    assert "empty" in rows[3]
    assert alone[:8] in shown.stdout
    # Of the forks the last was used last (those of the sample were used in a fixed past).
    last = reprise("sessions", "--tree", "--last", "1").stdout.splitlines()[1:]
    assert [branch(row).strip("└─ ") for row in last] == [root[:8], late[:8], under[:8]]
    assert len(json.loads(reprise("sessions", "--tree", "--json").stdout)["sessions"]) == 5


def test_without_a_kernel_what_led_to_the_session_leads_to_the_rewound_one(
    reprise: Reprise, sample_session: Sample
) -> None:
    notebook = f"/n/{uuid.uuid4()}.ipynb"
    session = str(sample_session(notebook))
    key = f"notebook:{session}:{notebook}"

    async def bind() -> None:
        log = await Log.connect(home=reprise.home)
        writer = await log.acquire(uuid.UUID(session), {})
        await writer.bind(key)
        await writer.close()
        await log.close()

    async def leads_to() -> str:
        log = await Log.connect(home=reprise.home)
        found = await log.find(key)
        await log.close()
        return str(found)

    asyncio.run(bind())
    plain = forked(reprise, notebook, "--at", "0")
    assert asyncio.run(leads_to()) == session
    # The notebook still names the session, not the fork that carries its name.
    assert codes(reprise, notebook) == [0, 1, 2, 3]
    shown = reprise("rewind", notebook, "--at", "1")
    assert shown.returncode == 0, shown.stderr
    assert f"after step 1 of session {session}, which stays as it is" in shown.stdout
    rewound = asyncio.run(leads_to())
    assert rewound in shown.stdout
    assert rewound not in {session, plain}
    assert codes(reprise, notebook) == [0, 1]
    again = json.loads(reprise("fork", notebook, "--at", "0", "--attach", "--json").stdout)
    assert again["attached"] == [key]
    assert asyncio.run(leads_to()) == again["session"]


# -- with a kernel -----------------------------------------------------------------------------------


@pytest.fixture
def session() -> str:
    return str(uuid.uuid4())


@pytest.fixture
def kernel(reprise: Reprise, session: str, tmp_path: Path) -> Iterator[DemoKernel]:
    folder = tmp_path / "folder"
    folder.mkdir()
    env = {**reprise.environ, "REPRISE_SESSION": session}
    with kernel_specs() as specs, DemoKernel("reprise", specs, folder, env) as running:
        yield running


def cells(reprise: Reprise, session: str) -> list[int]:
    steps = json.loads(reprise("log", session, "--json").stdout)["steps"]
    return [step["seq"] for step in steps if step["kind"] == "cell"]


def test_a_running_kernel_goes_back_and_the_old_session_stays(
    reprise: Reprise, kernel: DemoKernel, session: str
) -> None:
    for code in ("x = 1", "x = 2", "x = 3"):
        assert kernel.run(code, code).status == "ok"
    first, second, _ = cells(reprise, session)
    beside = forked(reprise, session, "--at", str(first))
    shown = reprise("rewind", session, "--at", str(second), "--json")
    assert shown.returncode == 0, shown.stderr
    rewound = json.loads(shown.stdout)
    assert rewound["parent"] == session
    assert kernel.run("print(x)", "d").shown == [["stream", "stdout", "2\n"]]
    assert len(cells(reprise, session)) == 3
    assert len(cells(reprise, rewound["session"])) == 3
    assert len(cells(reprise, beside)) == 1
    found = listed(reprise)
    assert found[session]["holder"] is None
    assert found[rewound["session"]]["holder"] is not None
    for each in (session, rewound["session"], beside):
        assert reprise("log", each, "--check").returncode == 0
    # A deletion of what runs is refused and says who runs it.
    refused = reprise("delete", rewound["session"], "--yes")
    assert refused.returncode == 3
    assert "pid" in refused.stderr
