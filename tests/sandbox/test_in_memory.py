"""Which folders of a sandbox count as memory: those whose files lie there, no disk of the host."""

from pathlib import Path

from reprise.sandbox.connection import settings_for
from reprise.sandbox.contract import LanguageKernel, Mount, SandboxSpec

KERNEL = LanguageKernel("python3", "python", ("/usr/bin/python3",), ())


def in_memory(*targets: str, isolated: bool = True) -> list[str]:
    mounts = tuple(Mount(Path("/srv/data"), target) for target in targets)
    spec = SandboxSpec(KERNEL, mounts=mounts)
    found: list[str] = settings_for(spec, "/workspace", isolated)["in_memory"]
    return found


def test_what_is_mounted_as_a_tree_counts() -> None:
    assert in_memory() == ["/workspace", "/tmp", "/dev/shm", "/skills", "/mnt"]


def test_data_of_the_host_does_not_count() -> None:
    assert "/mnt" not in in_memory("/mnt")
    assert "/mnt" in in_memory("/mnt/data")  # a disk below it is a file system of its own


def test_nothing_counts_where_the_files_are_the_hosts() -> None:
    assert in_memory(isolated=False) == []
