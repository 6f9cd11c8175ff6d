"""What a session says it installed is believed where it can be proven, and named where it cannot."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprise.environments.promotion import (
    Installed,
    host_pins,
    installed,
    is_wheel_of,
    origin,
    wheels_of,
)
from tests.fixtures.wheels import wheel

SITE = ".reprise/venv/lib/python3.11/site-packages"


def test_distributions_are_found_by_their_metadata() -> None:
    found, other = installed(
        [
            f"{SITE}/Foo_Bar-1.0.dist-info/METADATA",
            f"{SITE}/Foo_Bar-1.0.dist-info/RECORD",
            f"{SITE}/local-1.0+cpu.dist-info/METADATA",
            f"{SITE}/half-1.0.dist-info/RECORD",
            f"{SITE}/old-2.egg-info/PKG-INFO",
            f"{SITE}/linked.egg-link",
            f"{SITE}/..-1.dist-info/METADATA",
            f"{SITE}/a b-1.dist-info/METADATA",
            f"{SITE}/opt-1;x.dist-info/METADATA",
            "other/site-packages/no-1.dist-info/METADATA",
        ]
    )
    assert [each.pin for each in found] == ["foo-bar==1.0", "local==1.0+cpu"]
    assert other == ["linked.egg-link", "old-2.egg-info"]


@given(st.lists(st.text(max_size=60)), st.binary(max_size=200))
def test_whatever_stands_there_names_only_names_and_versions(names: list[str], said: bytes) -> None:
    found, _ = installed(f"{SITE}/{name}.dist-info/METADATA" for name in names)
    for each in found:
        assert not set(each.pin) - set(
            "abcdefghijklmnopqrstuvwxyz0123456789-=.!+_ABCDEFGHIJKLMNOPQRSTUVWXYZ"
        )
    came = origin(said)
    assert came.wheel is None or "/" not in came.wheel


def direct(**said: object) -> bytes:
    return json.dumps(said).encode()


@pytest.mark.parametrize(
    ("said", "wheel_name", "problem"),
    [
        (None, None, ""),
        (
            direct(url="file:///workspace/a%20b/tiny-1.0-py3-none-any.whl", archive_info={}),
            "tiny-1.0-py3-none-any.whl",
            "",
        ),
        (direct(url="file:///workspace/x", dir_info={"editable": True}), None, "an editable"),
        (direct(url="file:///workspace/x", dir_info={}), None, "from a folder"),
        (direct(url="https://example.org/x.git", vcs_info={"vcs": "git"}), None, "repository"),
        (direct(url="https://example.org/x-1-py3-none-any.whl"), None, "an address"),
        (direct(url="file:///workspace/x-1.tar.gz", archive_info={}), None, "source archive"),
        (b"{", None, "cannot be read"),
        (b"[]", None, "cannot be read"),
        (b"[" * 100_000, None, "cannot be read"),
    ],
)
def test_where_a_package_came_from(
    said: bytes | None, wheel_name: str | None, problem: str
) -> None:
    came = origin(said)
    assert came.wheel == wheel_name
    assert problem in came.problem
    assert bool(came.problem) == bool(problem)


def record_of(path: Path) -> bytes:
    with zipfile.ZipFile(path) as archive:
        return next(archive.read(n) for n in archive.namelist() if n.endswith("/RECORD"))


def test_a_wheel_is_the_one_that_was_installed_or_it_is_not(tmp_path: Path) -> None:
    path = wheel(tmp_path, "tiny", "1.0", {"tiny.py": "x", "tiny-1.0.data/scripts/t": "#!python"})
    # An installer writes scripts anew, and adds files of its own.
    lines = [
        line
        for line in record_of(path).decode().splitlines()
        if not line.startswith("tiny-1.0.data")
    ]
    record = "\n".join([*lines, "../../../bin/t,sha256=other,9", "tiny-1.0.dist-info/INSTALLER,,"])
    assert is_wheel_of(path, record.encode())
    other = wheel(tmp_path, "tiny", "1.0", {"tiny.py": "y"})
    assert not is_wheel_of(other, record.encode())


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"no zip at all" * 100])
def test_what_is_no_wheel_is_none(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "tiny-1.0-py3-none-any.whl"
    path.write_bytes(content)
    assert not is_wheel_of(path, b"tiny.py,sha256=x,1\n")


def test_a_wheel_without_a_record_or_with_two_is_none(tmp_path: Path) -> None:
    for names in ([], ["a-1.dist-info/RECORD", "b-1.dist-info/RECORD"]):
        path = tmp_path / "a-1-py3-none-any.whl"
        with zipfile.ZipFile(path, "w") as archive:
            for name in ["a.py", *names]:
                archive.writestr(name, "")
        assert not is_wheel_of(path, b"")


def test_the_wheels_of_a_package_are_found_by_name_and_version() -> None:
    package = Installed("foo-bar", "1.0", "")
    paths = [
        "Foo_Bar-1.0-py3-none-any.whl",
        "deep/foo_bar-1.0-2-cp311-cp311-linux_x86_64.whl",
        "foo_bar-1.1-py3-none-any.whl",
        "foo_bar-1.0.tar.gz",
    ]
    assert list(wheels_of(paths, package)) == paths[:2]


def test_of_a_hosts_prefix_goes_along_what_an_index_can_have() -> None:
    spec = {"packages": [["six", "1", "r"], ["mine", "2", "r"], ["conda:r-base", "4 h", "r"]]}
    assert host_pins(spec, ["Mine"]) == (["six==1"], ["mine", "conda:r-base"])
