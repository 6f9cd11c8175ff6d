"""The oci backend leaves nothing behind, and gives runtime and sandbox no right on this machine."""

from __future__ import annotations

import asyncio
import json
import os
import select
import subprocess
import sys
import textwrap
from pathlib import Path

import psutil
import pytest

from reprise.errors import SandboxError, UsageError
from reprise.sandbox import oci, oci_order, oci_runtime, view
from reprise.sandbox.backends import backend
from reprise.sandbox.contract import Limits, Mount, SandboxSpec
from reprise.sandbox.oci_bundle import Bundle
from reprise.sandbox.oci_order import Folder, users_for
from reprise.sandbox.oci_runtime import KINDS, Kind
from reprise.sandbox.sources import Sources
from reprise.sandbox.view import Link, Memory, Shown, View
from reprise.settings import OCI_RUNTIME
from tests.conformance.backends import backend_of
from tests.fixtures.sandbox import AS_ORDINARY_USER, PATIENCE, StartCells, ipykernel, quiet_kernel

CRUN, RUNC, RUNSC = KINDS


@pytest.fixture(params=["oci-crun", "oci-runc", "oci-runsc"])
def name(request: pytest.FixtureRequest) -> str:
    return backend_of(request)


def folders() -> set[Path]:
    """What this process's sandboxes have on the host now."""
    return {
        path
        for prefix in ("reprise-oci-", "reprise-dial-")
        for path in Path("/tmp").glob(f"{prefix}{os.getpid()}-*")
    }


def groups() -> set[str]:
    """Control groups of this process's sandboxes."""
    found = subprocess.run(
        ["find", "/sys/fs/cgroup", "-maxdepth", "6", "-name", f"reprise-{os.getpid()}-*"],
        capture_output=True,
        text=True,
    )
    return set(found.stdout.split())


def mounts() -> int:
    return len(Path("/proc/self/mountinfo").read_text().splitlines())


async def test_a_sandbox_that_has_ended_leaves_nothing(name: str, start_cells: StartCells) -> None:
    before = folders(), groups(), mounts()
    cells = await start_cells(name, kernel=quiet_kernel(), limits=Limits(memory=512 << 20))
    tree = psutil.Process(cells.guest.container.pid).children(recursive=True)
    assert folders() > before[0]
    await cells.guest.kill()
    assert [each for each in tree if each.is_running()] == []
    assert (folders(), groups(), mounts()) == before


@pytest.mark.parametrize("what", ["runtime", "cancelled", "mount"])
async def test_a_start_that_fails_leaves_nothing(
    name: str, what: str, start_cells: StartCells, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    before = folders(), groups(), mounts()
    children = set(psutil.Process().children(recursive=True))
    spec = SandboxSpec(quiet_kernel(), limits=Limits(memory=512 << 20))
    if what == "mount":
        # Nothing can be mounted at a place that is a file.
        spec = SandboxSpec(quiet_kernel(), mounts=(Mount(tmp_path, "/etc/passwd/x"),))
    if what == "runtime":
        monkeypatch.setattr(oci_runtime.Runtime, "command", lambda *_: ["/nonexistent"])
        monkeypatch.setattr(oci, "_options", lambda _: ())
    starting = asyncio.ensure_future(backend(name).start(spec))
    if what == "cancelled":
        while not folders() - before[0]:
            await asyncio.sleep(0)
        starting.cancel()
    try:
        container = await asyncio.wait_for(starting, PATIENCE)
    except (SandboxError, asyncio.CancelledError):
        pass
    else:
        # Where the guest inherits its stream it was told to start: then it has ended by itself.
        if what == "cancelled":
            await container.kill()
        cause = await asyncio.wait_for(container.wait(), PATIENCE)
        container.stream.close()
        assert cause.what in ("exit", "killed")
    assert set(psutil.Process().children(recursive=True)) <= children
    assert (folders(), groups(), mounts()) == before


async def test_a_router_that_is_killed_takes_its_sandbox_with_it(name: str) -> None:
    """And what lay on the host is removed with the next start."""
    script = textwrap.dedent(
        f"""
        import asyncio, glob, os, psutil
        from tests.fixtures.sandbox import Cells, quiet_kernel
        from reprise.sandbox.backends import backend
        from reprise.sandbox.connection import Guest
        from reprise.sandbox.contract import SandboxSpec

        async def main():
            cells = Cells()
            cells.guest = await Guest.start(backend({name!r}), SandboxSpec(quiet_kernel()), cells)
            await cells.guest.ready()
            container = cells.guest.container
            tree = [container.pid, *(p.pid for p in psutil.Process(container.pid).children(recursive=True))]
            print(*tree, flush=True)
            await asyncio.get_running_loop().create_future()

        asyncio.run(main())
        """
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]
    ) as router:
        assert router.stdout is not None
        line = await asyncio.to_thread(router.stdout.readline)
        ends = [os.pidfd_open(int(pid)) for pid in line.split()]
        assert len(ends) >= 3
        router.kill()
    for end in ends:
        gone, _, _ = await asyncio.to_thread(select.select, [end], [], [], PATIENCE)
        os.close(end)
        assert gone
    left = set(Path("/tmp").glob(f"reprise-*-{router.pid}-*"))
    assert left
    Folder(users_for(CRUN)).remove()
    assert {path for path in left if path.exists() and path.name.startswith("reprise-oci")} == set()


@pytest.mark.skipif(AS_ORDINARY_USER, reason="it has one user only")
async def test_nothing_of_it_is_root_on_this_machine(name: str, start_cells: StartCells) -> None:
    """The runtime neither: it is root of a namespace that no user of this machine is in."""
    cells = await start_cells(name, kernel=quiet_kernel())
    container = cells.guest.container
    own = os.readlink("/proc/self/ns/user")
    for process in psutil.Process(container.pid).children(recursive=True):
        uids = set(process.uids())
        assert uids.isdisjoint(range(65536)), (process, uids)
        assert os.readlink(f"/proc/{process.pid}/ns/user") != own
        assert "0 0 4294967295" not in " ".join(
            Path(f"/proc/{process.pid}/uid_map").read_text().split()
        )
        for namespace in ("mnt", "net", "ipc", "uts", "pid"):
            theirs = os.readlink(f"/proc/{process.pid}/ns/{namespace}")
            assert theirs != os.readlink(f"/proc/self/ns/{namespace}"), namespace
        status = Path(f"/proc/{process.pid}/status").read_text()
        assert "NoNewPrivs:\t1" in status
    # Two sandboxes are two users.
    other = await start_cells(name, kernel=quiet_kernel())
    users = [
        {uid for each in psutil.Process(pid).children(recursive=True) for uid in each.uids()}
        for pid in (container.pid, other.guest.container.pid)
    ]
    assert users[0].isdisjoint(users[1])


async def test_no_cell_makes_a_namespace_of_its_own(name: str, start_cells: StartCells) -> None:
    if name == "oci:runsc":
        pytest.skip("gVisor's namespaces are its own kernel's")
    cells = await start_cells(name)
    code = (
        "import ctypes, errno, os\nlibc = ctypes.CDLL(None, use_errno=True)\n"
        "found = [libc.unshare(flag) for flag in (0x10000000, 0x20000, 0x40000000)]\n"
        "found += [libc.syscall(56, 0x10000000 | 17, 0, 0, 0, 0)] if os.uname().machine == 'x86_64' else []\n"
        "print(set(found), open('/proc/sys/user/max_user_namespaces').read())"
    )
    assert (await cells.prints(code)).split()[0] == "{-1}"


# Which runtime


def test_the_runtime_is_that_of_the_variable_or_the_first_there_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for each in ("crun", "runc", "runsc"):
        (tmp_path / each).write_text("#!/bin/sh\n")
        (tmp_path / each).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(oci_runtime, "_PLACES", "")
    monkeypatch.delenv(OCI_RUNTIME, raising=False)
    assert oci_runtime.named(None).kind.name == "crun"
    assert oci_runtime.named("runsc").path == tmp_path / "runsc"
    monkeypatch.setenv(OCI_RUNTIME, str(tmp_path / "runsc"))
    assert oci_runtime.named(None).kind is RUNSC
    monkeypatch.delenv(OCI_RUNTIME)
    (tmp_path / "crun").unlink()
    assert oci_runtime.named(None).kind is RUNC
    # gVisor is a choice, and no runtime is an error with the mend.
    (tmp_path / "runc").unlink()
    with pytest.raises(SandboxError, match="apt install crun"):
        oci_runtime.named(None)
    with pytest.raises(SandboxError, match="apt install runc"):
        oci_runtime.named("runc")
    assert "apt install crun" in backend("oci").check()[0]
    with pytest.raises(UsageError, match=OCI_RUNTIME):
        backend("oci:docker")


def test_what_a_runtime_says_comes_with_what_it_means() -> None:
    runtime = oci_runtime.Runtime(CRUN, Path("/usr/bin/crun"))
    assert "max_user_namespaces" in oci.explain(runtime, (), "user namespace: no space left")
    assert "unmasked /proc" in oci.explain(runtime, (), "mount /proc: Operation not permitted")
    assert "--platform=kvm" in oci.explain(runtime, ("--platform=kvm",), "")


@pytest.mark.skipif(not AS_ORDINARY_USER, reason="root has users enough")
def test_runc_says_what_it_needs_of_an_ordinary_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oci_order, "second_user", lambda: None)
    with pytest.raises(SandboxError, match="apt install uidmap"):
        users_for(RUNC)
    assert users_for(CRUN).inner == ((1000, 0),)


# The bundle


def written(folder: Path, kind: Kind, seen: View, **places: Path) -> dict[str, object]:
    folder.mkdir()
    shown = {f"/{name}": path for name, path in places.items()}
    Bundle(folder, kind, ((1000, 0),), Sources(None), shown).write(seen, ["/bin/true"], {"A": "b"})
    found: dict[str, object] = json.loads((folder / "config.json").read_text())
    return found


def test_a_bundle_has_no_privilege_and_a_place_for_each_mount(tmp_path: Path) -> None:
    spec = SandboxSpec(ipykernel(), mounts=(Mount(tmp_path, "/mnt/data"),))
    seen = view.of_host(spec, view.guest_interpreter(spec.kernel))
    for kind in (CRUN, RUNC):
        config = written(tmp_path / kind.name, kind, seen)
        process, linux = config["process"], config["linux"]
        assert isinstance(process, dict)
        assert isinstance(linux, dict)
        assert process["noNewPrivileges"] is True
        assert set(map(tuple, process["capabilities"].values())) == {()}
        assert (process["user"], process["terminal"]) == ({"uid": 1000, "gid": 1000}, False)
        assert config["root"] == {"path": "rootfs", "readonly": True}
        kinds = {each["type"] for each in linux["namespaces"]}
        assert kinds == {"pid", "network", "ipc", "uts", "mount", "cgroup", "user"}
        assert all("path" not in each for each in linux["namespaces"])
        assert {"/proc/sys", "/dev", "/skills", "/mnt"} <= set(linux["readonlyPaths"])
        assert linux["seccomp"]["syscalls"]
        assert "A=b" in process["env"]
        binds = [each for each in config["mounts"] if each["type"] == "bind"]  # type: ignore[attr-defined]
        assert all({"nosuid", "nodev"} <= set(each["options"]) for each in binds)
        assert all({"ro", "rro"} & set(each["options"]) for each in binds)
        assert all(("rro" in each["options"]) == Path(each["source"]).is_dir() for each in binds)


def test_what_lies_beneath_a_memory_file_system_is_shown_in_it(tmp_path: Path) -> None:
    """A link there cannot be made: no runtime makes links."""
    target = tmp_path / "target"
    target.mkdir()
    (tmp_path / "link").symlink_to(target)
    seen = View()
    seen.operations = [
        Link("usr/bin", "/bin"),
        Memory(str(tmp_path.parent), 4096),
        Link(str(target), str(tmp_path / "link")),
        Shown("/etc/hosts", "/etc/hosts"),
    ]
    config = written(tmp_path / "bundle", CRUN, seen)
    shown = {each["destination"] for each in config["mounts"]}  # type: ignore[attr-defined]
    assert str(tmp_path / "link") not in shown  # what it leads to is in memory, and empty
    root = tmp_path / "bundle" / "rootfs"
    assert os.readlink(root / "bin") == "usr/bin"
    assert (root / "etc" / "hosts").is_file()
