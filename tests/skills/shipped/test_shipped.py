"""Shipped skills are found, named by what they hold and trusted, and nothing else is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from reprise.errors import BadSkill, UnavailableError
from reprise.skills import shipped as module
from reprise.skills.folder import read_folder
from reprise.skills.shipped import find_shipped, folder, shipped, shipped_digests

NAMES = [
    "compare-runs",
    "explain-divergence",
    "notebook-to-report",
    "profile-dataset",
    "review-notebook",
]


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The shipped skills where an installer puts them: in the package."""
    package = tmp_path / "site-packages" / "reprise"
    shutil.copytree(
        folder(), package / "shipped_skills", ignore=shutil.ignore_patterns("__pycache__")
    )
    monkeypatch.setattr(module, "_PACKAGE", package)
    return package / "shipped_skills"


def test_each_is_there_under_its_folders_name() -> None:
    found = shipped()
    assert [skill.name for skill, _ in found] == NAMES
    assert [path.name for _, path in found] == NAMES
    assert shipped_digests() == {skill.digest for skill, _ in found}
    assert len(shipped_digests()) == len(NAMES)


def test_the_digest_is_the_one_that_a_mount_of_the_folder_has(copied: Path) -> None:
    for skill, path in shipped():
        assert path.parent == copied
        assert read_folder(path).digest == skill.digest


def test_what_running_and_installing_leave_behind_does_not_count(copied: Path) -> None:
    before = shipped_digests()
    left = copied / "profile-dataset" / "scripts" / "__pycache__"
    left.mkdir()
    (left / "profile_dataset.cpython-311.pyc").write_bytes(b"\0")
    (copied / "compare-runs" / ".DS_Store").write_bytes(b"\0")
    assert shipped_digests() == before


def test_an_edit_counts_at_once(copied: Path) -> None:
    before = shipped_digests()
    path = copied / "compare-runs" / "SKILL.md"
    path.write_text(path.read_text() + "\nMore.\n")
    after = shipped_digests()
    assert len(after - before) == len(before - after) == 1
    found = find_shipped("compare-runs")
    assert found is not None
    assert found.digest in after
    os.chmod(path, 0o755)
    assert shipped_digests() not in (before, after)


def test_nothing_is_read_twice(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = shipped_digests()
    monkeypatch.setattr(Path, "read_bytes", lambda self: pytest.fail(f"{self} is read again"))
    assert shipped_digests() == before


def test_a_link_out_of_the_folder_brings_nothing_in(copied: Path, tmp_path: Path) -> None:
    before = shipped_digests()
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("k")
    (copied / "compare-runs" / "key").symlink_to(secret / "key")
    (copied / "compare-runs" / "more").symlink_to(secret)
    assert shipped_digests() == before


@pytest.mark.parametrize(
    "name", ["", ".", "..", "no-such", "README.md", "../skills/compare-runs", "/etc"]
)
def test_a_name_that_none_has_finds_none(name: str) -> None:
    assert find_shipped(name) is None


def test_a_broken_one_is_told_and_the_kernel_goes_on(copied: Path) -> None:
    (copied / "compare-runs" / "SKILL.md").write_text("no frontmatter")
    assert len(shipped_digests()) == len(NAMES)
    with pytest.raises(BadSkill):
        shipped()
    with pytest.raises(BadSkill):
        find_shipped("compare-runs")


def test_an_installation_without_them_says_so_and_trusts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PACKAGE", tmp_path / "lib" / "reprise")
    assert shipped_digests() == frozenset()
    with pytest.raises(UnavailableError, match="not whole"):
        shipped()


def test_the_kernel_needs_no_parser_for_the_digests() -> None:
    script = (
        "import sys; from reprise.skills.shipped import shipped_digests; assert shipped_digests();"
        "print([name for name in ('yaml', 'frontmatter', 'psycopg', 'asyncio') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60
    )
    assert done.stdout.strip() == "[]", done.stderr
