"""Output without measure: cut with a visible mark, the router's memory bounded, the log whole."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from tests.fixtures.kernel import Client, Kernel, Kernels, shown_text

MARK = "[Reprise: output cut after"


def peak_memory(pid: int) -> int:
    """Bytes that a process had resident at most (VmHWM, proc(5))."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found.group(1)) << 10


def test_a_million_prints_are_cut_with_a_mark_and_the_cell_goes_on(
    kernels: Kernels, limited: Callable[..., str]
) -> None:
    kernel = kernels("bubblewrap", REPRISE_ENVIRONMENT=limited("quiet", output=1 << 20))
    client = kernel.client()
    ran = client.run("for i in range(1_000_000): print(i)\ndone = 'yes'; done")
    assert ran.status == "ok"
    assert ran.value == "'yes'", "the result comes after the cut all the same"
    text = ran.text()
    assert len(text) <= 1 << 20
    assert text.startswith("0\n1\n2\n")
    assert MARK in ran.text("stderr")
    assert client.run("print('the next is whole')").text() == "the next is whole\n"
    recorded = kernels.read(kernel)
    assert recorded.report.ok
    assert recorded.cells[0].outcome is not None
    assert recorded.cells[0].outcome.new.cut
    assert shown_text(recorded.cells[0]) == text + ran.text("stderr")


def test_a_line_of_100_mb_and_binary_garbage_leave_the_router_small(kernels: Kernels) -> None:
    kernel = kernels("bubblewrap")
    client = kernel.client()
    client.run("1")
    before = peak_memory(kernel.process.pid)
    ran = client.run("print('x' * 100_000_000)")
    assert ran.status == "ok"
    assert "cut by Reprise: 100,000," in ran.text()
    ran = client.run("import os, sys; r = os.urandom(3_000_000); print(r.decode('latin-1'))")
    assert ran.status == "ok"
    ran = client.run("_ = os.write(1, r); _ = os.write(2, bytes(range(256)) * 1000); print('end')")
    assert ran.status == "ok"
    assert "end" in ran.text()
    assert client.run("'still here'").value == "'still here'"
    grown = peak_memory(kernel.process.pid) - before
    assert grown < 256 << 20, f"the router grew by {grown >> 20} MiB"
    assert kernels.read(kernel).report.ok


def test_a_cell_of_200_mb_is_refused_and_named(kernels: Kernels) -> None:
    kernel = kernels("process")
    client = kernel.client()
    ran = client.run(f"x = '{'y' * 200_000_000}'")
    assert ran.error == "TooLarge"
    assert "was not run" in ran.reply["evalue"]
    assert "33,554,432" in ran.reply["evalue"], "the bound is named"
    assert client.run("'x' in globals()").value == "False"
    assert kernels.read(kernel).codes() == ["'x' in globals()"]


def test_a_large_result_and_a_large_error_are_bounded(
    client: Client, kernel: Kernel, module_kernels: Kernels
) -> None:
    ran = client.run("from IPython.display import HTML; HTML('z' * 50_000_000)")
    assert ran.status == "ok"
    ran = client.run("raise ValueError('e' * 50_000_000)")
    assert ran.status == "error"
    assert client.run("1").value == "1"
    recorded = module_kernels.read(kernel)
    assert recorded.report.ok
    size = sum(len(str(e.content)) for record in recorded.cells for e in record.outputs)
    assert size < 40 << 20


def test_text_that_no_encoding_likes_is_kept_as_it_came(
    client: Client, kernel: Kernel, module_kernels: Kernels
) -> None:
    ran = client.run("print('nul \\x00 esc \\x1b[0m bell \\x07 astral \\U0001f600 line\\u2028end')")
    assert ran.text() == "nul \x00 esc \x1b[0m bell \x07 astral \U0001f600 line\u2028end\n"
    assert shown_text(module_kernels.read(kernel).cells[-1]) == ran.text()


LATE = (
    "import threading\n"
    "gate = threading.Event()\n"
    "def late():\n    gate.wait()\n    print('from the thread', flush=True)\n    heard.set()\n"
    "heard = threading.Event()\n"
    "threading.Thread(target=late).start()\n"
    "print('from the cell')"
)


def test_late_output_is_shown_recorded_and_not_shown_again(kernels: Kernels) -> None:
    kernel = kernels("process")
    client = kernel.client()
    first = client.run(LATE)
    assert first.text() == "from the cell\n"
    client.run("gate.set(); _ = heard.wait()")
    client.wait(lambda h: h.type == "stream" and "from the thread" in h.content["text"])
    client.run("import time; time.sleep(0.6)")  # longer than late output waits for company
    kernel.kill("router")
    kernel = kernels.again(kernel)
    client = kernel.client()
    assert client.run("heard.is_set()").value == "True", "the replay ran the thread again"
    assert [h for h in client.heard if h.type == "stream"] == []
    recorded = kernels.read(kernel)
    assert recorded.report.ok
    late = [e for record in recorded.cells for e in record.late if e.type == "stream"]
    seen = "".join(e.content["text"] for e in late) + "".join(map(shown_text, recorded.cells))
    assert seen.count("from the thread") == 1


def test_numbers_that_no_float_holds_are_recorded_as_they_are_spelled(
    client: Client, kernel: Kernel, module_kernels: Kernels
) -> None:
    code = (
        "session = get_ipython().kernel.session\n"
        "packer = session.pack\n"
        "session.pack = lambda value: packer(value).replace(b'\"@\"', b'1e999')\n"
        "try:\n"
        "    display({'application/json': {'huge': '@'}}, raw=True)\n"
        "finally:\n"
        "    session.pack = packer\n"
        "'told'"
    )
    assert client.run(code).value == "'told'"
    recorded = module_kernels.read(kernel)
    shown = [e for e in recorded.cells[-1].outputs if e.type == "display_data"]
    assert shown[0].content["data"]["application/json"] == {"huge": "1e999"}
