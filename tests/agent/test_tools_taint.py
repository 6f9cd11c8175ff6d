"""What came from outside is told of each result it may be in, and of each act what it can reach."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from reprise.log.postgres import Log
from reprise_server.agent.contract import Situation
from reprise_server.agent.tools.outside import MOST_NAMED, OTHERS, RUNNING, UNWATCHED, named
from reprise_server.agent.tools.toolbox import toolbox
from tests.fixtures.kernel import Database, Kernel, Kernels
from tests.fixtures.place import ToolBench, bench_of, text_of
from tests.fixtures.site import Site


async def tools_on(kernel: Kernel, database: Database, log: Log) -> ToolBench:
    assert kernel.agent_token  # it has its session then
    environ = {"REPRISE_DSN": database.dsn, "REPRISE_HOME": str(database.home)}
    place = bench_of(log, kernel, environ)
    found = await place.surroundings()
    bench = ToolBench(place, toolbox(place), kernel.folder)
    bench.situation = Situation(
        "me", found.environment, isolated=found.isolated, network=found.network
    )
    return bench


@pytest.fixture
async def tests_log(database: Database) -> AsyncIterator[Log]:
    log = await Log.connect(database.dsn, home=database.home)
    yield log
    await log.close()


async def test_what_was_fetched_taints_from_then_on_whoever_fetched_it(
    kernels: Kernels, database: Database, tests_log: Log, site: Site
) -> None:
    folder = database.home / "environments"
    folder.mkdir(exist_ok=True)
    rules = {"network": {"private": [site.place], "allow": ["a.example"]}}
    (folder / "open.json").write_text(json.dumps(rules))
    bench = await tools_on(kernels("bubblewrap", REPRISE_ENVIRONMENT="open"), database, tests_log)
    host = site.place.rpartition(":")[0]
    async with bench.place as place:
        assert bench.situation.network == ("a.example", site.place)
        assert bench.situation.environment == "open"
        for command in ("ls", f"curl http://{site.place}/ | cat"):
            act = await bench.act("run_command", command=command)
            assert act.carries_out
            assert act.hosts == ("a.example", site.place)

        result = await bench.do("write_file", path="own.txt", content="own\n")
        assert (result.taints, result.outside) == ((), ())
        assert (await bench.do("run_command", command="cat own.txt")).taints == ()
        # A refused connection brings nothing in.
        await bench.do("run_command", command="curl -s http://b.example/ || true")
        assert (await bench.do("read_file", path="own.txt")).taints == ()

        # What a step fetches is recorded when it has come, and lies in files before.
        kernel = await place.kernel()
        waits = asyncio.ensure_future(
            kernel.run("open('begun', 'w'); import time\nwhile True: time.sleep(0.1)")
        )
        while await (await place.workspace()).about("begun") is None:
            await asyncio.sleep(0.05)
        assert (await bench.do("read_file", path="own.txt")).taints == (("network", RUNNING),)
        await kernel.interrupt()
        await waits
        assert (await bench.do("read_file", path="own.txt")).taints == ()

        url = f"http://{site.place}/"
        await kernel.run(
            f"import urllib.request as u; open('page', 'wb').write(u.urlopen({url!r}).read())",
            check=True,
        )
        taint = (("network", host),)
        for tool, given in (
            ("run_command", {"command": "cat page"}),
            ("read_file", {"path": "page"}),
            ("search_files", {"pattern": "hello"}),
            ("list_files", {"path": ""}),
        ):
            result = await bench.do(tool, **given)
            assert result.taints == taint, tool
            assert result.outside == ()  # these sent nothing
        result = await bench.do("run_command", command=f"curl -s {url}; curl -s {url}")
        (line,) = result.outside
        assert line.startswith(f"step {result.steps[0]} sent ")
        assert line.endswith(f" bytes to {site.place} in 2 requests")
        assert "hello" in text_of(result)
        # Before it there is nothing of it; the context still knows what it has read.
        told = text_of(await bench.do("rewind_session", at=1))
        assert f"bytes to {site.place} in 3 requests" in told
        assert (await bench.do("run_command", command="ls")).taints == ()


async def test_where_nothing_watches_all_that_ran_may_have_fetched(
    kernels: Kernels, database: Database, tests_log: Log
) -> None:
    bench = await tools_on(kernels("process"), database, tests_log)
    async with bench.place as place:
        found = await place.surroundings()
        assert (found.isolated, found.network, found.workspace) == (
            False,
            ("*",),
            str(bench.folder),
        )
        (bench.folder / "own.txt").write_text("own\n")
        result = await bench.do("read_file", path=f"{bench.folder}/own.txt")
        assert result.taints == ()
        assert text_of(result).endswith("1\town\n")
        assert (await bench.act("run_command", command="ls")).carries_out
        result = await bench.do("run_command", command="pwd", cwd=".")
        assert str(bench.folder) in text_of(result)
        assert result.taints == (("network", UNWATCHED),)
        assert (await bench.do("read_file", path="own.txt")).taints == (("network", UNWATCHED),)


async def test_where_nothing_may_go_out_nothing_carries_out(
    kernels: Kernels, database: Database, tests_log: Log
) -> None:
    bench = await tools_on(kernels("bubblewrap"), database, tests_log)
    async with bench.place:
        assert (bench.situation.isolated, bench.situation.network) == (True, ())
        act = await bench.act("run_command", command="curl http://a.example/")
        assert (act.carries_out, act.hosts) == (False, ())
        # The words of a command prove nothing, so they are not looked at.
        assert act.argv == ("curl", "http://a.example/")


def test_hosts_without_number_stay_bounded() -> None:
    hosts = [f"h{number}.example" for number in range(1_000)]
    assert named(hosts[:3] * 2) == tuple(hosts[:3])
    assert named(hosts) == (*hosts[:MOST_NAMED], OTHERS)
