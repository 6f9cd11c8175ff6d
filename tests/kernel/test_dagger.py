"""Sessions whose sandbox is on a Dagger engine: they outlive it, its cache and its broker."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator

import pytest

from reprise.sandbox.dagger import REGISTRY
from reprise.sandbox.dagger_broker import IDLE_VARIABLE
from reprise.sandbox.dagger_cli import CLI_BIN, RUNNER_HOST
from tests.fixtures.dagger import DaggerHere, Engine, dagger_home
from tests.fixtures.kernel import Database, Kernels


@pytest.fixture
def brokers(
    own_dagger: DaggerHere, database: Database, monkeypatch: pytest.MonkeyPatch
) -> Iterator[DaggerHere]:
    """The brokers of the kernels' REPRISE_HOME, with an engine that may end."""
    here = dagger_home(database.home, (own_dagger.home / "images" / "dagger").resolve())
    yield here
    here.end_brokers()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_an_engine_that_goes_in_mid_cell_is_a_recorded_death_and_a_resume(
    brokers: DaggerHere, own_dagger_engine: Engine, kernels: Kernels, number: int
) -> None:
    kernel = kernels("dagger")
    client = kernel.client()
    assert client.run("import random; random.seed(7); x = [random.random()]").status == "ok"
    assert client.shell("echo made > made").status == "ok"
    waiting = client.execute("import time; x.append('lost'); print('in'); time.sleep(600)")
    client.wait(lambda h: h.type == "stream" and h.content["text"].startswith("in"))
    own_dagger_engine.end(number)
    assert client.finish(waiting).reply["status"] == "error"
    # Without an engine the kernel lives, and says what is missing.
    failed = client.run("x")
    assert failed.reply["status"] == "error"
    assert "Dagger engine" in json.dumps(failed.reply)
    own_dagger_engine.start()
    assert client.prints("print('lost' in x, len(x), open('made').read())") == "False 1 made"
    recorded = kernels.read(kernel)
    assert recorded.report.ok
    assert recorded.statuses()[:2] == ["ok", "died"]


def test_an_engine_without_its_cache_and_another_one_are_as_good(
    brokers: DaggerHere, own_dagger_engine: Engine, kernels: Kernels
) -> None:
    kernel = kernels("dagger")
    client = kernel.client()
    before = client.run("import random; random.seed(7); x = [random.random() for _ in range(3)]; x")
    client.shell("echo made > made")
    kernel.kill("router")
    brokers.end_brokers()
    own_dagger_engine.end(signal.SIGKILL)
    own_dagger_engine.forget()
    own_dagger_engine.start()
    kernel = kernels.again(kernel)
    client = kernel.client()
    assert client.run("x").value == before.value
    assert client.prints("print(open('made').read())") == "made"
    recorded = kernels.read(kernel)
    assert recorded.report.ok
    assert not [n for n in recorded.notices if n.code == "divergence"]


def test_kernels_share_a_broker_that_none_of_them_takes_along(
    brokers: DaggerHere, kernels: Kernels
) -> None:
    first = kernels("dagger")
    assert first.client().run("1").status == "ok"
    second = kernels("dagger")
    client = second.client()
    assert client.run("x = 2").status == "ok"
    (broker,) = brokers.brokers()
    first.kill("router")
    assert client.run("x").value == "2"
    assert brokers.brokers() == [broker]


@pytest.mark.parametrize("registry", [False, True])
def test_each_step_may_have_a_container_of_its_own(
    brokers: DaggerHere, kernels: Kernels, database: Database, registry: bool
) -> None:
    folder = database.home / "environments"
    folder.mkdir(exist_ok=True)
    (folder / "never.json").write_text(json.dumps({"reuse": "never"}))
    more = {REGISTRY: "localhost:5000"} if registry else {}
    kernel = kernels("dagger", REPRISE_ENVIRONMENT="never", **more)
    client = kernel.client()
    first = client.run("x = 1; open('kept.txt', 'w').write('a')")
    assert first.status == "ok"
    gone = client.run("x")
    assert gone.reply["ename"] == "NameError"
    assert gone.reply["execution_count"] == first.reply["execution_count"] + 1
    client.shell("printf b >> kept.txt; sleep 600 & true")
    assert client.shell("cat kept.txt; pgrep -x sleep || true").text() == "ab"
    kernel.kill("router")
    kernel = kernels.again(kernel, REPRISE_ENVIRONMENT="never", **more)
    client = kernel.client()
    assert client.prints("print(open('kept.txt').read())") == "ab"
    assert not [n for n in kernels.read(kernel).notices if n.code == "divergence"]


def test_a_start_without_dagger_says_what_to_do_and_the_kernel_lives(kernels: Kernels) -> None:
    kernel = kernels(
        "dagger",
        **{CLI_BIN: "/no/dagger", RUNNER_HOST: "unix:///no/engine.sock", IDLE_VARIABLE: "1"},
    )
    client = kernel.client()
    failed = client.run("1 + 1")
    assert failed.reply["status"] == "error"
    assert f"{CLI_BIN} names /no/dagger" in json.dumps(failed.reply)
    assert client.ask("kernel_info_request")["status"] == "ok"
