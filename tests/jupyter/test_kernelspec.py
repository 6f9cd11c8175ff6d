"""Our kernelspec starts our kernel, wraps any other, and shows a sandbox no more than it needs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import KernelManager

from reprise.errors import UnavailableError, UsageError
from reprise.jupyter import kernelspec
from reprise.jupyter.kernelspec import language_kernel
from reprise.sandbox.prefixes import installation_prefixes, own_prefixes


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data folder of a user with an empty home; JUPYTER_PATH leads nowhere else."""
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.delenv("JUPYTER_PATH", raising=False)
    return tmp_path / "data"


def installed(data: Path, name: str, **spec: Any) -> Path:
    folder = data / "kernels" / name
    folder.mkdir(parents=True)
    body = {
        "argv": ["bash", "-c", "exit"],
        "display_name": name.upper(),
        "language": "Bash",
        **spec,
    }
    (folder / "kernel.json").write_text(json.dumps(body))
    return folder


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


# our own ------------------------------------------------------------------------------------


def test_jupyter_starts_the_installed_kernelspec_with_this_python(data: Path) -> None:
    folder = kernelspec.install(user=True)
    assert folder == data / "kernels" / "reprise"
    manager = KernelManager(kernel_name="reprise", kernel_spec_manager=KernelSpecManager())
    manager.connection_file = "/x/kernel.json"
    assert manager.format_kernel_cmd() == [
        *(sys.executable, "-m", "reprise.jupyter", "-f", "/x/kernel.json"),
    ]
    spec = manager.kernel_spec
    assert spec is not None
    assert (spec.display_name, spec.language) == ("Python 3 (Reprise)", "python")
    assert spec.interrupt_mode == "message"
    assert spec.metadata == {"debugger": True, "supported_encryption": ["curve"]}
    assert (folder / "logo-svg.svg").is_file()
    kernelspec.install(user=True)  # again, over itself


def test_jupyter_client_encrypts_to_our_kernel(data: Path) -> None:
    """By its own reading of the metadata, not ours."""
    kernelspec.install(user=True)
    manager = KernelManager(kernel_name="reprise", kernel_spec_manager=KernelSpecManager())
    assert manager._kernel_supports_curve_encryption()


def test_the_wheels_kernelspec_lets_jupyter_choose_its_own_python() -> None:
    folder = Path(kernelspec.__file__).parent / "resources"
    spec = KernelSpec.from_resource_dir(str(folder))
    assert spec.argv[0] == "python"  # jupyter_client puts the Python it runs on in its place
    assert spec.interrupt_mode == "message"


def test_installing_where_one_may_not_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "share").write_text("a file")
    with pytest.raises(UnavailableError, match="--user"):
        kernelspec.install(prefix=tmp_path)
    with pytest.raises(UsageError):
        kernelspec.install(user=True, prefix=tmp_path)


# wrapping others ----------------------------------------------------------------------------


def test_a_wrapped_kernel_keeps_its_language_metadata_and_logos(data: Path) -> None:
    folder = installed(
        data, "bash", env={"PYTHONPATH": "/x"}, metadata={"debugger": False, "own": 1}
    )
    (folder / "logo-64x64.png").write_bytes(b"png")
    (folder / "secret.txt").write_text("not a logo")
    made = kernelspec.add("Bash", user=True)
    spec = json.loads((made / "kernel.json").read_bytes())
    assert made == data / "kernels" / "reprise-bash"
    assert spec == {
        "argv": [
            *(sys.executable, "-m", "reprise.jupyter", "-f", "{connection_file}"),
            *("--kernel", "bash"),
        ],
        "display_name": "BASH (Reprise)",
        "language": "Bash",
        "interrupt_mode": "message",
        "metadata": {"debugger": False, "own": 1, "supported_encryption": ["curve"]},
        "kernel_protocol_version": "5.5",
    }
    assert sorted(path.name for path in made.iterdir()) == ["kernel.json", "logo-64x64.png"]
    assert [(each.name, each.wraps, each.there) for each in kernelspec.wrapped()] == [
        ("reprise-bash", "bash", True)
    ]


def test_a_wrapper_is_removed_by_either_name_and_nothing_else_is(data: Path) -> None:
    installed(data, "bash")
    kernelspec.install(user=True)
    for name in ("bash", "reprise-bash"):
        kernelspec.add("bash", user=True)
        assert kernelspec.remove(name) == data / "kernels" / "reprise-bash"
        assert "bash" in kernelspec.find_all()
    for name in ("bash", "reprise", "nothing", "../bash", ""):
        with pytest.raises(UsageError, match="Nothing was changed"):
            kernelspec.remove(name)
    assert {"bash", "reprise"} <= set(kernelspec.find_all())


def test_a_wrapper_says_when_what_it_wraps_is_gone(data: Path) -> None:
    folder = installed(data, "bash")
    kernelspec.add("bash", user=True)
    (folder / "kernel.json").unlink()
    assert [each.there for each in kernelspec.wrapped()] == [False]
    with pytest.raises(UsageError, match="No kernelspec is named 'bash'"):
        language_kernel("bash")


def test_what_cannot_be_wrapped_is_refused_with_a_reason(data: Path) -> None:
    kernelspec.install(user=True)
    installed(data, "bash")
    installed(data, "gone", argv=["/no/such/program"])
    installed(data, "far", metadata={"kernel_provisioner": {"provisioner_name": "remote"}})
    installed(data, "empty", argv=[])
    (data / "kernels" / "broken").mkdir()
    (data / "kernels" / "broken" / "kernel.json").write_text("{")
    kernelspec.add("bash", user=True)
    for name, reason in (
        ("reprise", "own already"),
        ("reprise-bash", "own already"),
        ("python3", "does already"),
        ("nope", r"Installed: .*bash.*python3"),
        ("far", "not started on this machine"),
        ("empty", "names no program"),
        ("broken", "cannot be read"),
        ("/no/such/folder", "holds no kernel.json"),
    ):
        with pytest.raises(UsageError, match=reason):
            kernelspec.add(name, user=True)
    with pytest.raises(UnavailableError, match="/no/such/program, which is not there"):
        kernelspec.add("gone", user=True)
    with pytest.raises(UsageError, match="Reprise's own"):
        language_kernel("reprise")


def test_a_python3_of_another_environment_is_wrapped_by_its_folder(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_PATH", str(data))  # before this Python's own
    other = program(data.parent / "env" / "bin" / "python")
    folder = installed(data, "python3", argv=[str(other), "-m", "ipykernel_launcher"])
    made = kernelspec.add("python3", user=True)
    spec = json.loads((made / "kernel.json").read_bytes())
    assert spec["argv"][-2:] == ["--kernel", str(folder)]
    assert language_kernel(str(folder)).argv[0] == str(other)
    assert [each.there for each in kernelspec.wrapped()] == [True]


# what runs inside ---------------------------------------------------------------------------


def test_the_default_is_this_pythons_ipykernel_as_jupyter_would_start_it(data: Path) -> None:
    kernel = language_kernel()
    native = KernelSpecManager().get_kernel_spec("python3")
    ours = KernelManager(kernel_name="python3", kernel_spec_manager=KernelSpecManager())
    ours.connection_file = "/x/F"
    assert list(kernel.argv) == [
        "{connection_file}" if part == "/x/F" else part for part in ours.format_kernel_cmd()
    ]
    assert kernel.interrupt_mode == native.interrupt_mode
    assert kernel.prefixes == own_prefixes()


def test_the_default_ignores_a_foreign_kernelspec_of_that_name(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_PATH", str(data))
    installed(data, "python3", argv=["/elsewhere/python", "-m", "x"])
    assert language_kernel("python3").argv[0] == sys.executable


def test_a_kernelspec_is_made_absolute(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = program(data.parent / "opt" / "tool" / "bin" / "kern")
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
    folder = installed(
        data,
        "Kern",
        argv=["kern", "{resource_dir}/start", "{connection_file}"],
        interrupt_mode="message",
        env={"HERE": "${WHERE}/x", "KEPT": "${UNKNOWN}", "N": 3},
    )
    kernel = language_kernel("kern", {"WHERE": "/there"})
    assert kernel.argv == (str(tool), "{resource_dir}/start", "{connection_file}")
    assert kernel.prefixes == (tool.parent.parent, folder)
    assert kernel.env == {"HERE": "/there/x", "KEPT": "${UNKNOWN}", "N": "3"}
    assert (kernel.name, kernel.language) == ("kern", "bash")
    assert kernel.interrupt_mode == "message"
    assert kernel.resource_dir == str(folder)


def test_a_bare_python_is_the_one_jupyter_runs_on(data: Path) -> None:
    installed(data, "mine", argv=["python3", "-m", "metakernel", "-f", "{connection_file}"])
    assert language_kernel("mine").argv[0] == sys.executable
    assert language_kernel("mine").prefixes[: len(own_prefixes())] == own_prefixes()


# prefixes -----------------------------------------------------------------------------------


def test_this_pythons_prefixes_are_enough_to_run_ipykernel() -> None:
    """Everything that starting ipykernel opens lies in a prefix, or is the system's."""
    code = "import sys, ipykernel.kernelapp; print(*{getattr(m, '__file__', None) for m in [*sys.modules.values()]}, sep='\\n')"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    files = [Path(line) for line in done.stdout.splitlines() if line.startswith("/")]
    assert len(files) > 100
    for file in (*files, Path(os.path.realpath(sys.executable))):
        assert any(file.is_relative_to(prefix) for prefix in own_prefixes()), file
    assert Path(sys.prefix) == own_prefixes()[0]


def test_a_virtual_environment_brings_its_base(tmp_path: Path) -> None:
    venv.create(tmp_path / "env", with_pip=False, symlinks=True)
    found = installation_prefixes(tmp_path / "env" / "bin" / "python")
    assert found[0] == tmp_path / "env"
    assert any(Path(os.path.realpath(sys.executable)).is_relative_to(each) for each in found)


def test_links_on_the_way_to_a_program_are_kept(tmp_path: Path) -> None:
    real = program(tmp_path / "store" / "tool-1.2" / "bin" / "tool")
    (tmp_path / "store" / "tool").symlink_to("tool-1.2")
    link = tmp_path / "app" / "bin" / "tool"
    link.parent.mkdir(parents=True)
    link.symlink_to("../../store/tool/bin/tool")
    assert installation_prefixes(link) == (
        tmp_path / "app",
        tmp_path / "store" / "tool",
        tmp_path / "store" / "tool-1.2",
    )
    assert real.is_file()
    loop = tmp_path / "app" / "bin" / "loop"
    loop.symlink_to("loop")
    assert installation_prefixes(loop) == (tmp_path / "app",)


@pytest.mark.parametrize("folder", ["", ".local", ".cargo"])
def test_a_home_and_its_dot_folders_are_never_shown_whole(data: Path, folder: str) -> None:
    home = data.parent / "home"
    prefix = home / folder
    tool = program(prefix / "bin" / "tool")
    (prefix / "lib").mkdir()
    (prefix / "share" / "secret").mkdir(parents=True)
    assert installation_prefixes(tool) == (prefix / "bin", prefix / "lib")
    for part in installation_prefixes(tool):
        assert not home.is_relative_to(part)


def test_an_environment_in_a_dot_folder_is_shown_whole_but_never_the_home(data: Path) -> None:
    home = data.parent / "home"
    tool = program(home / ".venv" / "bin" / "tool")
    (home / ".venv" / "pyvenv.cfg").write_text("home = /usr/bin\n")
    assert home / ".venv" in installation_prefixes(tool)
    (home / "pyvenv.cfg").write_text("home = /usr/bin\n")
    assert home not in installation_prefixes(program(home / "bin" / "tool"))


def test_system_programs_need_usr_and_never_the_root_or_etc() -> None:
    found = installation_prefixes(Path("/bin/sh"))
    assert Path("/usr") in found
    assert Path("/") not in found
    for folder in installation_prefixes(Path("/etc/passwd")):
        assert not folder.is_relative_to("/etc")
