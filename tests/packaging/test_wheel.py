"""The wheel holds what an installed Reprise needs, and nothing of the tests."""

import json
import os
import shutil
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
        # The lab extension is built with it, its requirements fetched.
        timeout=600,
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


def test_the_lab_extension_is_inside_built_and_once(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (lab,) = (
            name.removesuffix("install.json")
            for name in names
            if name.endswith("share/jupyter/labextensions/@jupyter-reprise/lab/install.json")
        )
        there = {name.removeprefix(lab) for name in names if name.startswith(lab)}
        package = json.loads(archive.read(f"{lab}package.json"))
    assert package["jupyterlab"]["_build"]["load"] in there
    assert "schemas/@jupyter-reprise/lab/plugin.json" in there
    # Of what others wrote, it says under which licences.
    assert "static/third-party-licenses.json" in there
    # Prebuilt: sources, their maps and requirements stay in the repository.
    assert not [name for name in names if "node_modules" in name or name.endswith((".ts", ".map"))]
    assert not [name for name in names if name.startswith("reprise_server/labextension/")]


def test_the_metadata_names_licence_script_and_python(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        info = next(n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        metadata = message_from_bytes(archive.read(info))
        scripts = archive.read(info.replace("METADATA", "entry_points.txt")).decode()
    assert metadata["License-Expression"] == "BSD-3-Clause"
    assert metadata["Requires-Python"] == ">=3.11"
    assert "reprise = reprise.cli:main" in scripts


SHIPPED = """
import json, pathlib, reprise
from reprise.skills.shipped import folder, shipped, shipped_digests
print(json.dumps({
    "package": str(pathlib.Path(reprise.__file__).parent),
    "folder": str(folder()),
    "digests": sorted(shipped_digests()),
    "names": [skill.name for skill, _ in shipped()],
}))
"""


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where an installer puts the package, compiled as installers do."""
    target = tmp_path_factory.mktemp("installed") / "packages"
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--compile"]
    subprocess.run([*install, "--target", str(target), str(wheel)], check=True, timeout=240)
    return target


def test_an_installed_reprise_has_the_shipped_skills_of_the_checkout(installed: Path) -> None:
    from reprise.skills.shipped import shipped_digests

    assert list((installed / "reprise" / "shipped_skills").rglob("*.pyc"))  # which do not count
    done = subprocess.run(
        [sys.executable, "-c", SHIPPED],
        env={**os.environ, "PYTHONPATH": str(installed)},
        cwd=installed.parent,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    found = json.loads(done.stdout)
    assert found["package"] == str(installed / "reprise")
    assert found["folder"] == str(installed / "reprise" / "shipped_skills")
    assert found["digests"] == sorted(shipped_digests())
    assert len(found["names"]) >= 5


def test_an_installed_script_runs_for_whoever_may_read_it(installed: Path) -> None:
    """By its own executable bit and shebang; as an ordinary user where the tests are root's."""
    place = Path("/var/tmp") / f"reprise-shipped-{os.getpid()}"
    try:
        shutil.copytree(installed / "reprise" / "shipped_skills", place)
        place.chmod(0o755)
        (place / "data.csv").write_text("a,b\n1,x\n2,y\n")
        skill = place / "profile-dataset"
        ordinary = {"user": 65534, "group": 65534, "extra_groups": []} if os.getuid() == 0 else {}
        done = subprocess.run(
            ["scripts/profile_dataset.py", "data.csv"],
            cwd=skill,
            env={"PATH": "/usr/bin:/bin", "REPRISE_WORKSPACE": str(place)},
            capture_output=True,
            text=True,
            timeout=120,
            **ordinary,
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["rows"] == 2
    finally:
        shutil.rmtree(place, ignore_errors=True)
