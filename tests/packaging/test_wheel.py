"""The wheel holds what an installed Reprise needs, and nothing of the tests."""

import subprocess
import sys
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(folder), str(ROOT)],
        check=True,
        timeout=240,
    )
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_is_one_distribution_with_both_packages(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.partition("/")[0] for name in archive.namelist()}
    info = next(top for top in tops if top.endswith(".dist-info"))
    assert info.startswith("jupyter_reprise-")
    assert {"reprise", "reprise_server"} <= tops
    assert tops <= {"reprise", "reprise_server", info, info.replace(".dist-info", ".data")}


def test_the_demo_the_migrations_and_the_types_are_inside(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    for needed in ("demo/rentals.ipynb", "demo/rentals.csv", "py.typed", "guest/__main__.py"):
        assert f"reprise/{needed}" in names
    migrations = {path.name for path in (ROOT / "kernel/reprise/log/migrations").glob("*.sql")}
    assert migrations
    assert {f"reprise/log/migrations/{name}" for name in migrations} <= names


def test_jupyter_finds_the_kernel_and_the_server_extension(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        shared = {
            name.partition(".data/data/")[2] for name in archive.namelist() if ".data/data/" in name
        }
    assert "share/jupyter/kernels/reprise/kernel.json" in shared
    assert any(name.startswith("etc/jupyter/jupyter_server_config.d/") for name in shared)


def test_the_metadata_names_licence_script_and_python(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        info = next(n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        metadata = message_from_bytes(archive.read(info))
        scripts = archive.read(info.replace("METADATA", "entry_points.txt")).decode()
    assert metadata["License-Expression"] == "BSD-3-Clause"
    assert metadata["Requires-Python"] == ">=3.11"
    assert "reprise = reprise.cli:main" in scripts
