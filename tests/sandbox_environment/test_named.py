"""Named environments are checked field by field; mounts never show more than data."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from reprise.errors import UnavailableError, UsageError
from reprise.quantities import amount, parse_seconds, parse_size
from reprise.sandbox.environment import sandbox_spec
from reprise.sandbox.mounts import content_hashes, current, record
from reprise.sandbox.named import (
    default_memory,
    environments,
    file_of,
    limit_set,
    load,
    mount_add,
    mount_remove,
)
from reprise.settings import home as made_home
from reprise.settings import home_path

from .test_environment import OURS


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "home"
    monkeypatch.setenv("REPRISE_HOME", str(path))
    monkeypatch.delenv("REPRISE_ENVIRONMENT", raising=False)
    return path


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "rain"
    path.mkdir()
    (path / "2024.csv").write_text("1,2\n")
    return path


def test_without_a_file_the_default_environment_has_defaults() -> None:
    environment = load()
    limits = environment.sandbox_limits()
    assert environments() == ["default"]
    assert limits.memory == default_memory() > 0
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert limits.memory <= total * 3 / 4
    assert limits.processes == 512


def test_limits_are_set_in_words_and_taken_back() -> None:
    limit_set("default", "memory", "2GiB")
    limit_set("default", "wall", "5min")
    limit_set("big", "processes", "none")
    assert load().sandbox_limits().memory == 2 << 30
    assert load().sandbox_limits().wall == 300.0
    assert load("big").sandbox_limits().processes == 0
    assert load(environ={"REPRISE_ENVIRONMENT": "big"}).name == "big"
    assert environments() == ["default", "big"]
    limit_set("default", "memory", "default")
    assert load().sandbox_limits().memory == default_memory()


@pytest.mark.parametrize(
    ("limit", "text"),
    [
        ("memory", "1MiB"), ("memory", "lots"), ("memory", "-1"), ("processes", "2.5"),
        ("processes", "3"), ("cpus", "many"), ("cpus", "nan"), ("message", "none"),
        ("message", "1GiB"), ("wall", "0.1s"), ("colour", "1"),
    ],
)  # fmt: skip
def test_a_limit_that_makes_no_sense_changes_nothing(limit: str, text: str) -> None:
    limit_set("default", "wall", "60")
    before = file_of("default").read_text()
    with pytest.raises(UsageError):
        limit_set("default", limit, text)
    assert file_of("default").read_text() == before


@pytest.mark.parametrize(
    ("content", "field"),
    [
        ("{", "not JSON"),
        ("[]", "no object"),
        ("[" * 100_000, "not JSON"),
        ({"limit": {}}, "'limit'"),
        ({"limits": []}, "limits"),
        ({"limits": {"memory": "2GiB"}}, "limits.memory"),
        ({"limits": {"memory": True}}, "limits.memory"),
        ({"limits": {"memory": 5}}, "limits.memory"),
        ({"limits": {"speed": 5}}, "limits.speed"),
        ({"variables": {"a b": "c"}}, "variables.a b"),
        ({"variables": {"A": 1}}, "variables.A"),
        ({"variables": {"API_TOKEN": "x"}}, "getpass"),
        ({"mounts": {}}, "mounts"),
        ({"mounts": ["/data"]}, r"mounts\[0\]"),
        ({"mounts": [{"source": "/", "target": "/data/x", "manifest": ""}]}, r"mounts\[0\]"),
        ({"mounts": [{"source": "/etc", "target": "/data/x", "manifest": ""}]}, r"mounts\[0\]"),
        ({"mounts": [{"source": "/opt/x", "target": "/usr", "manifest": ""}]}, r"mounts\[0\]"),
    ],
)
def test_a_broken_file_is_named_with_its_field(content: Any, field: str) -> None:
    path = file_of("default")
    path.parent.mkdir()
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(UsageError, match=field) as caught:
        load()
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("name", ["../x", "", "a/b", ".hidden", "x" * 100])
def test_a_name_leads_to_no_other_file(name: str) -> None:
    with pytest.raises(UsageError):
        file_of(name)


def test_an_unknown_environment_says_which_there_are() -> None:
    limit_set("big", "wall", "60")
    with pytest.raises(UsageError, match="There are: default, big"):
        load("small")


def test_a_mount_is_shown_recorded_and_taken_away(data: Path) -> None:
    mount = mount_add("default", data)
    assert (mount.source, mount.target) == (data, "/data/rain")
    assert mount.manifest == record(data).sha256 == current(mount)
    (shown,) = sandbox_spec(load(), OURS, None, {}).mounts
    assert (shown.source, shown.target) == (data, "/data/rain")
    assert mount_add("default", data, "/mnt/other").target == "/mnt/other"
    assert len(load().mounts) == 1
    assert mount_remove("default", "/mnt/other").source == data
    assert load().mounts == ()
    with pytest.raises(UsageError, match="Mounts: none"):
        mount_remove("default", str(data))


def test_changed_data_has_another_manifest_and_gone_data_none(data: Path, home: Path) -> None:
    mount = mount_add("default", data)
    assert content_hashes(mount, home / "cache").keys() == {"2024.csv"}
    (data / "2024.csv").write_text("1,2\n3,4\n")
    assert current(mount) not in (None, mount.manifest)
    before = content_hashes(mount, home / "cache")
    (data / "2024.csv").write_text("1,2\n3,5\n")
    assert content_hashes(mount, home / "cache") != before
    (data / "2024.csv").unlink()
    data.rmdir()
    assert current(mount) is None
    assert sandbox_spec(load(), OURS, None, {}).mounts == ()


def test_a_directory_too_large_to_look_at_counts_as_it_was_recorded(data: Path) -> None:
    for n in range(50):
        (data / f"{n}").touch()
    assert not record(data, max_entries=10).complete
    assert record(data).files == 51


def test_what_holds_more_than_data_is_not_mounted(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "someone"
    (own / ".ssh/sub").mkdir(parents=True)
    (own / ".config/gcloud").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(own))
    made_home()
    sneaky = tmp_path / "sneaky"
    sneaky.symlink_to("/etc")
    for path, why in (
        (Path("/"), "lies in it|whole home|state"), (Path("/proc"), "system"), (Path("/proc/self"), "system"),
        (Path("/sys"), "system"), (Path("/dev"), "system"), (Path("/etc"), "system"),
        (sneaky, "system"), (Path("/var"), "lies in it"), (own, "whole home"), (tmp_path, "state|home"),
        (own / ".ssh", "keys"), (own / ".ssh/sub", "keys"), (own / ".config/gcloud", "keys"),
        (home, "Reprise's own state"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=why):
            mount_add("default", path)
    with pytest.raises(UsageError, match="not there"):
        mount_add("default", tmp_path / "nothing")
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="no directory"):
        mount_add("default", tmp_path / "file")
    assert load().mounts == ()


@pytest.mark.parametrize(
    "target", ["/usr/lib", "/workspace", "/data/../usr", "data", "/data", "/data//x", "/data/x/"]
)
def test_a_mount_covers_nothing_of_the_sandbox(data: Path, target: str) -> None:
    with pytest.raises(UsageError, match="no place for a mount"):
        mount_add("default", data, target)


def test_two_mounts_never_share_a_place(data: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    mount_add("default", data)
    for target in ("/data/rain", "/data/rain/inner"):
        with pytest.raises(UsageError, match="--target"):
            mount_add("default", other, target)
    assert mount_add("default", other, str(other)).target == str(other)


def test_the_home_is_private_and_ones_own(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert made_home() == home
    assert home.stat().st_mode & 0o777 == 0o700
    home.chmod(0o777)
    with pytest.raises(UnavailableError, match="chmod go-w"):
        made_home()
    home.chmod(0o700)
    monkeypatch.setattr("os.geteuid", lambda: home.stat().st_uid + 1)
    with pytest.raises(UnavailableError, match="belongs to user"):
        made_home()
    with pytest.raises(UsageError, match="absolute"):
        home_path({"REPRISE_HOME": "state"})
    assert home_path({}).name == "reprise"


def test_a_home_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UnavailableError, match="REPRISE_HOME"):
        made_home({"REPRISE_HOME": str(tmp_path / "file/inner")})


def test_sizes_and_times_are_read_as_people_write_them() -> None:
    assert parse_size("2GiB") == parse_size("2 gb") == parse_size("2g") == 2 << 30
    assert parse_size("1.5 MiB") == 3 << 19
    assert parse_size("4096") == parse_size("4096 bytes") == 4096
    assert parse_seconds("90") == parse_seconds("90s") == parse_seconds("1.5min") == 90.0
    assert [amount(n) for n in (0, 1023, 1024, 64 << 20, 3 << 29)] == [
        "0 bytes", "1023 bytes", "1 KiB", "64 MiB", "1.5 GiB",
    ]  # fmt: skip
    for text in ("", "2 GiBs", "GiB", "-1", "1e9", "٣"):
        with pytest.raises(UsageError):
            parse_size(text)
