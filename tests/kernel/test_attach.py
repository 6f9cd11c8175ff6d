"""Which session a kernel process takes, and what it says when things have changed meanwhile."""

from __future__ import annotations

import uuid
from collections.abc import Callable

from tests.fixtures.kernel import Kernels


def test_a_named_session_is_begun_under_its_id_and_taken_again(kernels: Kernels) -> None:
    session = uuid.uuid4()
    kernel = kernels("process", session=session)
    assert kernel.client().prints("x = 1; print(x)") == "1"
    kernel.shutdown()
    following = kernels("process", session=session)  # another connection file, another folder
    assert following.client().prints("print(x)") == "1"
    assert kernels.database.read(session).statuses() == ["ok", "ok"]


def test_a_name_that_is_no_session_id_is_refused_at_the_start(kernels: Kernels) -> None:
    kernel = kernels("process", named=False, REPRISE_SESSION="my session")
    assert kernel.wait() == 2
    assert "REPRISE_SESSION" in kernel.log()
    assert "Traceback" not in kernel.log()


def test_a_kernel_that_is_started_again_by_its_server_finds_its_session(kernels: Kernels) -> None:
    kernel = kernels("process", named=False)
    assert kernel.client().prints("x = 'mine'; print(x)") == "mine"
    kernel.kill("router")
    kernel.close_clients()
    following = kernels("process", named=False, path=kernel.path, folder=kernel.folder)
    assert following.client().prints("print(x)") == "mine"


def test_kernels_without_a_name_share_nothing(kernels: Kernels) -> None:
    one = kernels("process", named=False)
    other = kernels("process", named=False)
    one.client().run("x = 1")
    assert other.client().run("x").error == "NameError"


def test_another_environment_is_told_and_recorded(
    kernels: Kernels, limited: Callable[..., str]
) -> None:
    kernel = kernels("process", REPRISE_ENVIRONMENT=limited("before", wall=100.0))
    kernel.client().run("x = 1")
    kernel.shutdown()
    kernel = kernels.again(kernel, REPRISE_ENVIRONMENT=limited("after", wall=200.0))
    client = kernel.client()
    assert client.run("x").value == "1"
    recorded = kernels.read(kernel)
    told = next(n for n in recorded.notices if n.code == "environment-changed")
    assert "wall" in told.text
    first, last = recorded.steps[0].step.new, recorded.steps[-1].step.new
    assert first.environment != last.environment
    assert recorded.report.ok
