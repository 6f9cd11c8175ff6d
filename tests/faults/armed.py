"""A session whose router stops itself, or dies, at a named point when a test asks for it."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import psutil

from tests.faults.history import History, Sent
from tests.fixtures.kernel import PATIENCE, Kernels

#: A cell that runs long enough for its outputs to be stored in the middle of it.
LONG = "print('before', flush=True); time.sleep(0.3); print('after')"


class Armed:
    """A history whose kernel can be armed with one failpoint after the other."""

    def __init__(self, kernels: Kernels, file: Path, backend: str, **env: str) -> None:
        self.file = file
        self.env = {"REPRISE_FAILPOINT": f"@{file}", **env}
        self.history = History.begin(kernels, kernels(backend, **self.env))

    def arm(self, point: str, action: str) -> None:
        if point == "told":
            # It lies behind the idle of the cell before, which its client may have seen already.
            client = self.history.client
            client.reply(client.request("kernel_info_request", channel="control"))
        fresh = self.file.with_suffix(".new")
        fresh.write_text(f"{point}:{action}")
        fresh.rename(self.file)

    def run_to(self, point: str, body: str = "print('at the point')") -> Sent:
        """Send a cell; return when the router has stopped itself at the point."""
        self.arm(point, "pause")
        sent = self.history.send(body)
        self.wait_until_stopped()
        return sent

    def wait_until_stopped(self) -> None:
        router = psutil.Process(self.history.kernel.process.pid)
        deadline = time.monotonic() + PATIENCE
        while router.status() != psutil.STATUS_STOPPED:
            assert time.monotonic() < deadline, self.history.kernel.log()
            time.sleep(0.002)

    def go_on(self) -> None:
        os.kill(self.history.kernel.process.pid, signal.SIGCONT)

    def again(self) -> None:
        self.history.again(**self.env)
