"""The notebook's folder comes in, changes follow, conflicts and sizes are told; packages stay."""

from __future__ import annotations

import base64
import hashlib
import os
import zipfile
from pathlib import Path

import pytest

from tests.fixtures.kernel import Client, Kernel, Kernels


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "notebook"
    (made / "data").mkdir(parents=True)
    (made / "data" / "a.csv").write_text("x\n1\n")
    (made / "module.py").write_text("value = 1\n")
    return made


@pytest.fixture
def kernel(kernels: Kernels, folder: Path) -> Kernel:
    return kernels("bubblewrap", folder=folder)


@pytest.fixture
def client(kernel: Kernel) -> Client:
    return kernel.client()


def test_the_folder_is_there_at_the_first_step_and_is_one(
    client: Client, kernel: Kernel, kernels: Kernels
) -> None:
    assert (
        client.prints("import module; print(module.value, open('data/a.csv').read())") == "1 x\n1"
    )
    recorded = kernels.read(kernel)
    assert [record.step.kind for record in recorded.steps] == ["upload", "cell"]
    paths = [entry[0] for entry in recorded.steps[0].step.payload["entries"]]
    assert {"data/a.csv", "module.py"} <= set(paths)


def test_changes_on_the_host_arrive_before_the_next_step_and_again_on_a_resume(
    client: Client, kernel: Kernel, kernels: Kernels, folder: Path
) -> None:
    client.run("1")
    (folder / "data" / "a.csv").write_text("x\n2\n")
    (folder / "new.txt").write_text("new")
    assert client.prints("print(open('data/a.csv').read(), open('new.txt').read())") == "x\n2\n new"
    (folder / "new.txt").unlink()
    assert client.run("import os; os.path.exists('new.txt')").value == "False"
    client.run("seen = open('data/a.csv').read()")
    (folder / "data" / "a.csv").write_text("x\n3\n")  # while no kernel runs
    kernel.kill("router")
    client = kernels.again(kernel).client()
    assert client.prints("print(seen, open('data/a.csv').read())") == "x\n2\n x\n3"
    assert kernels.read(kernel).report.ok


def test_a_file_that_a_cell_changed_is_not_overwritten_and_the_user_is_told(
    client: Client, folder: Path
) -> None:
    client.run("open('data/a.csv', 'w').write('by the cell')")
    (folder / "data" / "a.csv").write_text("by the person")
    assert client.prints("print(open('data/a.csv').read())") == "by the cell"
    assert "data/a.csv" in client.notice("folder-conflict")["text"]


def test_nothing_goes_back_to_the_host(client: Client, folder: Path) -> None:
    client.run("open('made.txt', 'w').write('x')")
    client.run("1")
    assert not (folder / "made.txt").exists()


def test_a_folder_too_big_is_told_and_the_cell_runs(kernels: Kernels, tmp_path: Path) -> None:
    folder = tmp_path / "big"
    folder.mkdir()
    with (folder / "big.bin").open("wb") as file:
        file.truncate(100 << 20)
    client = kernels("bubblewrap", folder=folder).client()
    assert client.run("1 + 1").value == "2"
    told = client.notice("folder-too-big")
    assert "reprise env mount" in told["text"]


def test_a_sandbox_that_dies_while_files_come_in_costs_one_cell(
    client: Client, kernel: Kernel, kernels: Kernels, folder: Path
) -> None:
    client.run("x = 1")
    (folder / "more.bin").write_bytes(os.urandom(20 << 20))
    waiting = client.execute("(x, len(open('more.bin', 'rb').read()))")
    kernel.kill("sandbox")
    ran = client.finish(waiting)
    if ran.error:
        assert ran.error == "SandboxDied"
        ran = client.run("(x, len(open('more.bin', 'rb').read()))")
    assert ran.value == f"(1, {20 << 20})"
    recorded = kernels.read(kernel)
    assert recorded.report.ok
    assert None not in [r.outcome for r in recorded.steps]


def wheel(folder: Path, name: str = "tiny") -> Path:
    """A wheel of one module (the binary distribution format, PEP 427)."""
    info = f"{name}-1.0.dist-info"
    files = {
        f"{name}.py": b"answer = 42\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = ""
    for path, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{path},sha256={digest},{len(data)}\n"
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    made = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(made, "w") as archive:
        for path, data in files.items():
            archive.writestr(path, data)
    return made


def test_an_installed_wheel_belongs_to_the_session_and_survives_restart_and_death(
    kernel: Kernel, client: Client, kernels: Kernels, folder: Path
) -> None:
    wheel(folder)
    ran = client.run("%pip install --no-index ./tiny-1.0-py3-none-any.whl")
    assert ran.status == "ok", ran.reply
    assert "Successfully installed tiny-1.0" in ran.text()
    assert client.prints("import tiny; print(tiny.answer)") == "42"
    kernel.shutdown(restart=True)
    kernel = kernels.again(kernel)
    client = kernel.client()
    assert client.prints("import tiny; print(tiny.answer)") == "42"
    kernel.kill("router")
    kernel = kernels.again(kernel)
    client = kernel.client()
    assert client.prints("print(tiny.answer)") == "42"
    # The environment itself was not touched: another session does not have it.
    other = kernels("bubblewrap").client()
    assert other.run("import tiny").error == "ModuleNotFoundError"
