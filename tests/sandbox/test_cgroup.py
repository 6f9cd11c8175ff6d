"""Control groups: limits are set where possible, and a killed maker's groups do not pile up."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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


def test_what_can_be_done_is_said() -> None:
    said = cgroup.described()
    assert said.startswith("version" if cgroup.possible() else "none")
    # Nobody may take version 2 for tested before it was.
    assert ("untested" in said) == said.startswith("version 2")


SYSTEMD = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/run-u7.scope\n"
HYBRID = "9:name=systemd:/\n4:memory:/a/b\n8:pids:/\n2:cpuacct:/\n1:cpu,cpuacct:/\n0::/\n"


def test_groups_are_made_beside_ours_in_version_2_and_below_ours_in_version_1(
    tmp_path: Path,
) -> None:
    app = "user.slice/user-1000.slice/user@1000.service/app.slice"
    assert cgroup._groups(SYSTEMD, tmp_path) == [(tmp_path / app, 2)]
    # The root of a namespace of its own (a container): there is nothing above.
    assert cgroup._groups("0::/\n", tmp_path) == [(tmp_path, 2)]
    # Outside of what the namespace shows.
    assert cgroup._groups("0::/../../elsewhere\n", tmp_path) == []
    (tmp_path / "unified").mkdir()
    assert cgroup._groups(HYBRID, tmp_path) == [
        (tmp_path / "memory/a/b", 1),
        (tmp_path / "pids", 1),
        (tmp_path / "cpu,cpuacct", 1),
        (tmp_path / "unified", 2),
    ]


def group(folder: Path, controllers: str, down: str, kind: str = "domain") -> Path:
    """Files as in a group of version 2 (no group: nothing moves here)."""
    folder.mkdir()
    (folder / "cgroup.procs").write_text("")
    (folder / "cgroup.type").write_text(f"{kind}\n")
    (folder / "cgroup.controllers").write_text(f"{controllers}\n")
    (folder / "cgroup.subtree_control").write_text(f"{down}\n")
    return folder


LIMITS = {"memory", "processes", "cpus", ""}


def test_which_groups_of_version_2_are_delegated(tmp_path: Path) -> None:
    handed = group(tmp_path / "service", "cpu memory pids", "memory pids")
    assert cgroup._is_delegated(handed, {"memory"})
    assert (handed / "cgroup.subtree_control").read_text() == "memory pids\n"
    assert not cgroup._is_delegated(handed, set())
    # What it has and does not hand down is switched on.
    assert cgroup._is_delegated(handed, {"cpus"})
    assert (handed / "cgroup.subtree_control").read_text() == "+cpu"
    # A slice is systemd's: used as it is, never changed.
    some = group(tmp_path / "app.slice", "cpu memory pids", "pids")
    assert cgroup._is_delegated(some, LIMITS)
    assert not cgroup._is_delegated(some, {"memory"})
    assert (some / "cgroup.subtree_control").read_text() == "pids\n"
    assert not cgroup._is_delegated(group(tmp_path / "bare", "", ""), LIMITS)
    assert not cgroup._is_delegated(
        group(tmp_path / "threads", "cpu pids", "cpu pids", "domain threaded"), LIMITS
    )
    assert not cgroup._is_delegated(tmp_path / "none", LIMITS)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_group_whose_processes_we_may_not_move_is_not_ours(tmp_path: Path) -> None:
    closed = group(tmp_path / "closed", "memory", "memory")
    (closed / "cgroup.procs").chmod(0o444)
    assert not cgroup._is_delegated(closed, LIMITS)


def controllers(tree: Path) -> set[str]:
    """Those of our limits that a tree of version 2 has."""
    return {"memory", "pids", "cpu"} & set((tree / "cgroup.controllers").read_text().split())


def trees_of_version_2() -> list[Path]:
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    return [Path(line.split()[1]) for line in mounts if line.split()[2] == "cgroup2"]


@pytest.mark.skipif(
    os.geteuid() != 0 or not trees_of_version_2(), reason="needs root and a tree of version 2"
)
def test_a_tree_of_version_2_without_controllers_holds_nothing_and_keeps_nothing() -> None:
    """The kernel's own tree, as it is on a machine where version 1 has the controllers."""
    (tree, *_) = trees_of_version_2()
    if controllers(tree):
        pytest.skip("this tree has controllers: the tests of limits run on it")
    before = sorted(path.name for path in tree.iterdir())
    made: list[Path] = []
    enforced: set[str] = set()
    assert not cgroup._is_delegated(tree, LIMITS)
    cgroup._make(tree / "reprise-1-test", cgroup._wanted(Limits(memory=1)), made, enforced)
    assert (made, enforced) == ([], set())
    assert sorted(path.name for path in tree.iterdir()) == before


def test_whether_limits_hold_in_version_2_is_said_when_it_was_not_tested() -> None:
    if not any(map(controllers, trees_of_version_2())):
        pytest.skip("NOT TESTED: limits by cgroup v2 (its tree here has none of their controllers)")
    assert cgroup.possible()
