"""`reprise kernelspec` and `reprise env` do what they say, and say what they did."""

import json
import sys
from pathlib import Path

import pytest

from tests.fixtures.commands import Reprise


@pytest.fixture
def jupyter(tmp_path: Path) -> dict[str, str]:
    """A person's Jupyter folders, empty."""
    return {
        "JUPYTER_DATA_DIR": str(tmp_path / "data"),
        "HOME": str(tmp_path),
        "JUPYTER_PREFER_ENV_PATH": "0",
    }


def test_install_add_list_remove(reprise: Reprise, jupyter: dict[str, str], tmp_path: Path) -> None:
    shown = reprise("kernelspec", "install", "--user", "--json", **jupyter)
    assert shown.returncode == 0, shown.stderr
    path = Path(json.loads(shown.stdout)["path"])
    assert path == tmp_path / "data" / "kernels" / "reprise"
    assert json.loads((path / "kernel.json").read_text())["argv"][0] == sys.executable

    other = tmp_path / "data" / "kernels" / "mine"
    other.mkdir()
    spec = {"argv": ["sh", "-c", "x"], "display_name": "Mine", "language": "sh"}
    (other / "kernel.json").write_text(json.dumps(spec))
    assert reprise("kernelspec", "add", "mine", "--user", **jupyter).returncode == 0
    listed = json.loads(reprise("kernelspec", "list", "--json", **jupyter).stdout)
    assert listed["installed"] == str(path)
    assert [(each["name"], each["wraps"]) for each in listed["wrapped"]] == [
        ("reprise-mine", "mine")
    ]
    assert "reprise-mine  wraps mine" in reprise("kernelspec", "list", **jupyter).stdout
    assert reprise("kernelspec", "remove", "mine", **jupyter).returncode == 0
    assert json.loads(reprise("kernelspec", "list", "--json", **jupyter).stdout)["wrapped"] == []
    assert reprise("kernelspec", "remove", "mine", **jupyter).returncode == 2


def test_an_unknown_kernel_cannot_be_wrapped(reprise: Reprise, jupyter: dict[str, str]) -> None:
    shown = reprise("kernelspec", "add", "klingon", **jupyter)
    assert shown.returncode == 2
    assert "klingon" in shown.stderr


def test_limits_are_set_shown_and_taken_back(reprise: Reprise) -> None:
    name = ["--environment", "limits-test"]
    assert reprise("env", "limit", "memory", "2GiB", *name).returncode == 0
    shown = json.loads(reprise("env", "show", *name, "--json").stdout)
    assert shown["limits"]["memory"] == 2 << 30
    assert shown["set"] == ["memory"]
    assert "2 GiB" in reprise("env", "show", *name).stdout
    assert "limits-test" in json.loads(reprise("env", "list", "--json").stdout)["environments"]
    assert reprise("env", "limit", "memory", "default", *name).returncode == 0
    assert json.loads(reprise("env", "show", *name, "--json").stdout)["set"] == []


@pytest.mark.parametrize(
    ("limit", "value"), [("memory", "lots"), ("memory", "1KiB"), ("beauty", "1"), ("wall", "-5")]
)
def test_a_limit_that_makes_no_sense_is_wrong_use(reprise: Reprise, limit: str, value: str) -> None:
    shown = reprise("env", "limit", "--", limit, value)
    assert shown.returncode == 2
    assert "Traceback" not in shown.stderr


def test_data_is_mounted_seen_by_a_cell_and_unmounted(reprise: Reprise, tmp_path: Path) -> None:
    import nbformat
    from nbformat.v4 import new_code_cell, new_notebook

    if reprise.environ.get("REPRISE_BACKEND") == "process":
        pytest.skip("SKIPPED: without a sandbox there is nothing to mount into")
    data = tmp_path / "measured"
    data.mkdir()
    (data / "a.txt").write_text("42")
    name = ["--environment", "mounts-test"]
    shown = reprise("env", "mount", str(data), *name, "--json")
    assert shown.returncode == 0, shown.stderr
    assert json.loads(shown.stdout)["target"] == "/data/measured"
    (tmp_path / "n").mkdir()
    path = tmp_path / "n" / "n.ipynb"
    nbformat.write(
        new_notebook(cells=[new_code_cell("print(open('/data/measured/a.txt').read())")]), path
    )
    ran = reprise("run", str(path), REPRISE_ENVIRONMENT="mounts-test")
    assert ran.returncode == 0, ran.stderr
    executed = nbformat.read(path.with_name("n.executed.ipynb"), as_version=4)
    assert executed.cells[0].outputs[0].text == "42\n"
    assert reprise("env", "unmount", str(data), *name).returncode == 0
    assert json.loads(reprise("env", "show", *name, "--json").stdout)["mounts"] == []


@pytest.mark.parametrize("place", ["/etc", "/", "/no/such/folder"])
def test_what_may_not_be_mounted_is_wrong_use(reprise: Reprise, place: str) -> None:
    shown = reprise("env", "mount", place, "--environment", "refused-test")
    assert shown.returncode == 2
    assert place.rstrip("/") in shown.stderr
