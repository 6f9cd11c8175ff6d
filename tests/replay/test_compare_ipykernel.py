"""Two runs of real cells on stock ipykernels compare as a person would say."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import start_new_kernel

from reprise.log.model import OutputEntry
from reprise.replay.compare import compare

CELLS = {
    "prints": ("import sys\nprint(1); print(2, file=sys.stderr); print(3)", "same or volatile"),
    "result": ("{'a': [1, 2.5], 'b': 'text'}", "same"),
    "object": ("class A: pass\n[A(), object()]", "volatile"),
    "error": ("def f(x):\n    return 1 / x\nf(0)", "same"),
    "error in a library": ("import json; json.loads('{')", "same"),
    "error with an address": ("raise ValueError(repr(object()))", "volatile"),
    "syntax error": ("def (", "same"),
    "warning": ("import warnings; warnings.warn('old')", "same"),
    "timeit": ("%timeit -n 10 -r 2 sum(range(100))", "volatile"),
    "time": ("%time sum(range(10**5))", "volatile"),
    "temporary": ("import tempfile; tempfile.mkdtemp()", "volatile"),
    "uuid": ("import uuid; uuid.uuid4()", "volatile"),
    "logging": (
        (
            "import logging\nlogging.basicConfig(format='%(asctime)s %(message)s', force=True)\n"
            "logging.warning('hm')"
        ),
        "volatile",
    ),
    "thread": ("import threading; threading.current_thread().name, threading.Thread()", "same"),
    "display handle": (
        "from IPython.display import display\nh = display('one', display_id=True)\nh.update('two')",
        "same",
    ),
    "frame": ("import pandas as pd; pd.DataFrame({'x': [1, 2], 'y': ['a', 'b']})", "same"),
    "widget": (
        "import ipywidgets as w\nw.VBox([w.IntSlider(value=3), w.Button(description='go')])",
        "same",
    ),
    "moving widget": (
        (
            "bar = w.IntProgress(max=5); display(bar)\nfor i in range(6):\n    bar.value = i\n"
            "    print(i)"
        ),
        "same or volatile",
    ),
    "random": ("import random; random.random()", "different"),
    "process id": ("import os; os.getpid()", "different"),
}


@pytest.fixture(scope="module")
def kernels() -> Iterator[list[BlockingKernelClient]]:
    started = [start_new_kernel(kernel_name="python3") for _ in range(2)]
    try:
        yield [client for _, client in started]
    finally:
        for manager, client in started:
            client.stop_channels()
            manager.shutdown_kernel(now=True)


def run(client: BlockingKernelClient, code: str) -> list[OutputEntry]:
    entries: list[OutputEntry] = []

    def hear(message: dict[str, object]) -> None:
        kind = str(message["header"]["msg_type"])  # type: ignore[index]
        if kind not in ("status", "execute_input"):
            entries.append(OutputEntry(kind, message["content"], message["metadata"]))  # type: ignore[arg-type]

    reply = client.execute_interactive(code, output_hook=hear, timeout=60)
    return [*entries, OutputEntry("execute_reply", reply["content"], reply["metadata"])]


def test_cells_of_every_kind(kernels: list[BlockingKernelClient]) -> None:
    for client in kernels:
        run(client, "from IPython.display import display")
    run(kernels[0], "1")  # another prompt number
    found = {}
    for name, (code, _) in CELLS.items():
        comparison = compare(run(kernels[0], code), run(kernels[1], code))
        found[name] = (comparison.verdict, comparison.differences)
    wrong = {
        name: found[name]
        for name, (_, expected) in CELLS.items()
        if found[name][0] not in expected.split(" or ")
    }
    assert not wrong
