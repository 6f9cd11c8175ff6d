"""Control groups: limits are set where possible, and a killed maker's groups do not pile up."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from reprise.sandbox import cgroup
from reprise.sandbox.contract import Limits

possible = pytest.mark.skipif(
    not cgroup.possible(), reason="this process may make no control group here"
)


def test_nothing_is_made_for_no_limit() -> None:
    assert cgroup.create(Limits(memory=0, processes=0, cpus=0)) is None


@possible
async def test_a_group_is_gone_after_its_removal() -> None:
    group = cgroup.create(Limits(processes=10))
    assert group is not None
    assert group.memory_exceeded() is None
    await group.remove()
    assert not any(folder.exists() for folder in group.folders)


@possible
def test_a_killed_makers_groups_are_swept_by_the_next() -> None:
    code = (
        "import os, signal\nfrom reprise.sandbox import cgroup\n"
        "from reprise.sandbox.contract import Limits\n"
        "print(*cgroup.create(Limits(processes=10)).folders, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    left = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True
    ).stdout.split()
    assert left
    assert all(map(os.path.exists, left))
    cgroup.possible()
    assert not any(map(os.path.exists, left))
