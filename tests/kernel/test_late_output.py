"""Output that comes after its step's end is in the log, however soon the kernel is shut down."""

from __future__ import annotations

import pytest

from tests.fixtures.kernel import Kernels

BEGIN = """
import threading
go = threading.Event()
def speak():
    go.wait()
    print("late words")
threading.Thread(target=speak).start()
"""


@pytest.mark.parametrize("backend", ["process", "bubblewrap"])
def test_late_output_is_stored_when_the_kernel_is_shut_down_at_once(
    kernels: Kernels, backend: str
) -> None:
    kernel = kernels(backend)
    client = kernel.client()
    begun = client.run(BEGIN)
    client.run("go.set()")
    client.wait(lambda h: h.type == "stream" and "late words\n" in h.content["text"])
    kernel.shutdown()
    records = {r.step.payload["header"]["msg_id"]: r for r in kernels.read(kernel).cells}
    late = records[begun.msg_id].late
    assert [e.content["text"] for e in late] == ["late words\n"], "it belongs to the thread's cell"
