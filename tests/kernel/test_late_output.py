"""Output that comes after its step's end is in the log, however soon the kernel is shut down."""

from __future__ import annotations

import pytest

from tests.fixtures.kernel import Kernels

LATER = "import asyncio; asyncio.get_event_loop().call_later(0.5, print, 'late words')"


@pytest.mark.parametrize("backend", ["process", "bubblewrap"])
def test_late_output_is_stored_when_the_kernel_is_shut_down_at_once(
    kernels: Kernels, backend: str
) -> None:
    kernel = kernels(backend)
    client = kernel.client()
    client.run(LATER)
    client.wait(lambda h: h.type == "stream" and h.content["text"] == "late words\n")
    kernel.shutdown()
    (record,) = kernels.read(kernel).cells
    assert [entry.content["text"] for entry in record.late] == ["late words\n"]


@pytest.mark.parametrize("backend", ["process", "bubblewrap"])
def test_what_an_interpreter_says_when_a_reset_starts_it_is_no_output_of_a_step(
    kernels: Kernels, backend: str
) -> None:
    kernel = kernels(backend)
    client = kernel.client()
    client.run("x = 1")
    reply = client.ask("workspace_request", {"op": "reset"}, channel="control")
    assert reply["status"] == "ok"
    client.prints("print('after')")
    kernel.shutdown()
    assert [h.content["text"] for h in client.heard if h.type == "stream"] == ["after\n"]
    assert "not stored" not in kernel.log()
    recorded = kernels.read(kernel)
    assert [list(record.late) for record in recorded.steps] == [[], [], []]
