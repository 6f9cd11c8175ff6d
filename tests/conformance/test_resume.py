"""On every backend a session that lost its sandbox, or all of its kernel, stands where it stood."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from tests.conformance.backends import BACKENDS, backend_of
from tests.fixtures.kernel import Client, Kernel, Kernels


@pytest.fixture(params=BACKENDS)
def name(request: pytest.FixtureRequest) -> str:
    return backend_of(request)


def entry(path: str, data: bytes) -> list[Any]:
    return [path, "file", 0o644, len(data), hashlib.sha256(data).hexdigest()]


def build_state(client: Client) -> str:
    """Every kind of step once; where the mounted tree lies."""
    assert (
        client.prints("import os, random; random.seed(7); x = [random.random()]; print(1)") == "1"
    )
    assert client.shell("echo made > made; mkdir -p sub && echo two > sub/two").status == "ok"
    given = client.step("upload", {"entries": [entry("given", b"gift")]}, buffers=[b"gift"])
    assert given.status == "ok", given.reply
    shown = client.step(
        "mount", {"target": "/mnt/data", "entries": [entry("a", b"mounted")]}, buffers=[b"mounted"]
    )
    assert shown.status == "ok", shown.reply
    path = str(shown.reply["result"]["path"])
    assert client.run("1/0").error == "ZeroDivisionError"
    # What a failing cell had done stays.
    assert client.run("x.append(open('given').read()); raise ValueError").error == "ValueError"
    client.prints(f"x.append(open({path + '/a'!r}).read()); x.append(random.random()); print(2)")
    return path


def state(client: Client, path: str) -> str:
    return client.prints(
        "print(x, random.getstate()[1][:3], len(In), open('made').read(), open('sub/two').read(),"
        f" open({path + '/a'!r}).read())"
    )


def whole(kernels: Kernels, kernel: Kernel) -> None:
    recorded = kernels.read(kernel)
    assert recorded.report.ok
    codes = [notice.code for notice in recorded.notices]
    assert "resumed" in codes
    assert not {"divergence", "not-replayed"} & set(codes), recorded.notices


def test_the_sandbox_dies_in_the_middle_of_a_cell(name: str, kernels: Kernels) -> None:
    kernel = kernels(name)
    client = kernel.client()
    path = build_state(client)
    died = client.run("x.append('lost'); open('made', 'w'); os.kill(os.getpid(), 9)")
    assert died.reply["status"] == "error"
    came_back = state(client, path)
    assert "lost" not in came_back
    assert "'gift', 'mounted'" in came_back
    assert "made\n" in came_back
    whole(kernels, kernel)


def test_all_of_it_is_killed_twice(name: str, kernels: Kernels) -> None:
    kernel = kernels(name)
    client = kernel.client()
    path = build_state(client)
    before = state(client, path)
    for lives in (1, 2):
        kernel.kill("router")
        kernel = kernels.again(kernel)
        client = kernel.client()
        after = state(client, path)
        assert without_count(after) == without_count(before)
        # Each look at the state is a cell itself.
        assert count(after) == count(before) + lives
        # Nothing that was replayed is shown again.
        assert [h for h in client.heard if h.type == "error"] == []
    whole(kernels, kernel)


def count(state: str) -> int:
    """How many inputs the history has."""
    return int(state.split(") ")[1].split(maxsplit=1)[0])


def without_count(state: str) -> str:
    return state.replace(f") {count(state)} ", ") ")
