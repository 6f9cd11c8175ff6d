"""A skill's folder is read as what it is, and as nothing outside of it; it is written whole."""

import contextlib
import os
import shutil
import socket
import stat
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from reprise.errors import BadSkill, UnavailableError, UsageError
from reprise.skills import folder as folder_module
from reprise.skills.contract import (
    EXECUTABLE,
    MAX_BYTES,
    MAX_DEPTH,
    MAX_FILE_BYTES,
    MAX_FILES,
    PLAIN,
    SkillTree,
)
from reprise.skills.folder import read_folder, tree_of_files, write_folder
from tests.skills.sample import on_disk, skill_md

FILES = {
    "SKILL.md": skill_md(),
    "scripts/count.py": (0o755, "#!/usr/bin/env python3\n"),
    "references/rows.md": "rows\n",
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return on_disk(tmp_path / "sample", FILES)


@contextlib.contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


# the digest ---------------------------------------------------------------------------------------


def test_the_digest_is_that_of_paths_bytes_and_executable_bits(place: Path) -> None:
    tree = read_folder(place)
    assert [(entry.path, entry.mode) for entry in tree.manifest] == [
        ("SKILL.md", PLAIN),
        ("references/rows.md", PLAIN),
        ("scripts/count.py", EXECUTABLE),
    ]
    # Golden: a digest that moves makes strangers of all skills that anybody has approved.
    assert tree.digest == "9b53eaec6733efc76b896da20b86b4401c67cb50462077b45d788ef72cc99886"
    (place / "references/rows.md").write_text("other\n")
    assert read_folder(place).digest != tree.digest


@pytest.mark.parametrize(
    ("mode", "kept"),
    [
        (0o755, EXECUTABLE),
        (0o700, EXECUTABLE),
        (0o744, EXECUTABLE),
        (0o4755, EXECUTABLE),
        (0o644, PLAIN),
        (0o600, PLAIN),
        (0o444, PLAIN),
        (0o655, PLAIN),
    ],
)
def test_only_the_owners_executable_bit_counts(place: Path, mode: int, kept: int) -> None:
    (place / "scripts/count.py").chmod(mode)
    entry = read_folder(place).manifest.get("scripts/count.py")
    assert entry is not None
    assert entry.mode == kept


def test_times_order_place_and_empty_folders_do_not_count(place: Path, tmp_path: Path) -> None:
    digest = read_folder(place).digest
    other = tmp_path / "elsewhere" / "renamed"
    with umask(0o077):
        on_disk(other, dict(reversed(FILES.items())))
    os.utime(other / "SKILL.md", (1, 1))
    (other / "empty" / "folder").mkdir(parents=True)
    assert read_folder(other).digest == digest
    os.link(place / "SKILL.md", tmp_path / "hard")
    assert read_folder(place).digest == digest


def test_what_machines_leave_behind_makes_no_other_skill(place: Path) -> None:
    digest = read_folder(place).digest
    on_disk(
        place,
        {
            ".git/HEAD": "ref: refs/heads/main\n",
            ".git/hooks/post-checkout": (0o755, "#!/bin/sh\n"),
            "scripts/__pycache__/count.cpython-311.pyc": b"\0\1",
            "references/.DS_Store": b"\0",
            "__MACOSX/._SKILL.md": b"\0",
        },
    )
    assert read_folder(place).digest == digest


# links --------------------------------------------------------------------------------------------


def test_a_link_within_stands_as_what_it_leads_to(place: Path, tmp_path: Path) -> None:
    copied = tmp_path / "copied"
    shutil.copytree(place, copied)
    shutil.copy(copied / "references/rows.md", copied / "ROWS.md")
    shutil.copytree(copied / "scripts", copied / "bin")
    shutil.copy(copied / "SKILL.md", copied / "bin" / "help.md")
    shutil.copy(copied / "SKILL.md", copied / "scripts" / "help.md")
    (place / "ROWS.md").symlink_to("references/../references/./rows.md")
    (place / "scripts" / "help.md").symlink_to(place / "SKILL.md")
    (place / "bin").symlink_to("scripts")
    assert read_folder(place).digest == read_folder(copied).digest


def test_a_link_through_a_link_to_a_folder_goes_up_from_where_it_leads(place: Path) -> None:
    on_disk(place, {"a/b/deep.md": "deep\n", "a/up.md": "up\n"})
    (place / "short").symlink_to("a/b")
    # `short/..` is a, not the skill's own folder.
    (place / "up.md").symlink_to("short/../up.md")
    assert read_folder(place).get("up.md") == b"up\n"


def test_the_folder_itself_may_be_a_link(place: Path, tmp_path: Path) -> None:
    (tmp_path / "linked").symlink_to(place)
    (place / "again.md").symlink_to(place / "SKILL.md")
    (place / "through.md").symlink_to(tmp_path / "sample" / "SKILL.md")
    assert read_folder(tmp_path / "linked").digest == read_folder(place).digest


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("/etc/passwd", "leads out of the skill"),
        ("../secret", "leads out of the skill"),
        ("scripts/../../secret", "leads out of the skill"),
        ("../sample/SKILL.md", "leads out of the skill"),
        ("..", "leads out of the skill"),
        ("/", "leads out of the skill"),
        ("nowhere", "leads nowhere"),
        ("scripts/nowhere", "leads nowhere"),
        (".", "around in a circle"),
        ("bad", "around in a circle"),
        ("SKILL.md/x", "cannot be read"),
    ],
)
def test_a_link_elsewhere_is_refused(place: Path, target: str, why: str) -> None:
    (place.parent / "secret").write_text("secret")
    (place / "bad").symlink_to(target)
    with pytest.raises(BadSkill, match=why) as refused:
        read_folder(place)
    assert "bad" in str(refused.value)


def test_a_folder_whose_path_only_begins_alike_is_outside(place: Path) -> None:
    on_disk(place.parent / "sample-private", {"key": "secret"})
    (place / "bad").symlink_to(place.parent / "sample-private" / "key")
    with pytest.raises(BadSkill, match="leads out"):
        read_folder(place)


def test_links_that_lead_to_each_other_are_refused(place: Path) -> None:
    (place / "a").symlink_to("b")
    (place / "b").symlink_to("a")
    with pytest.raises(BadSkill, match="circle"):
        read_folder(place)


def test_links_that_multiply_a_folder_are_bounded(place: Path) -> None:
    for number in range(16):
        inner = place / f"level{number:02}"
        inner.mkdir()
        (inner / "file").write_text("x")
        if number:
            for side in "ab":
                (inner / side).symlink_to(f"../level{number - 1:02}")
    with pytest.raises(BadSkill, match=r"more than|at most"):
        read_folder(place)


def test_a_link_swapped_while_it_is_read_leads_nowhere_else(place: Path, tmp_path: Path) -> None:
    """An editor of the folder tries to have a file from outside taken in."""
    on_disk(tmp_path / "outside", {"count.py": "SECRET", "deep/count.py": "SECRET"})
    scripts, kept = place / "scripts", tmp_path / "kept"
    scripts.rename(kept)
    shutil.copytree(kept, scripts)
    (place / "run").symlink_to("scripts/count.py")
    done = threading.Event()

    def swap() -> None:
        real, link = place / ".real", place.parent / "link"
        while not done.is_set():
            link.symlink_to(tmp_path / "outside")
            scripts.rename(real)
            link.rename(scripts)
            scripts.unlink()
            real.rename(scripts)

    read = 0
    with ThreadPoolExecutor(1) as pool:
        swapping = pool.submit(swap)
        try:
            while read < 50:
                with contextlib.suppress(BadSkill):
                    tree = read_folder(place)
                    assert b"SECRET" not in tree.contents.values()
                    read += 1
        finally:
            done.set()
    swapping.result()


# what is no skill ---------------------------------------------------------------------------------


def test_what_is_no_file_is_refused(place: Path) -> None:
    os.mkfifo(place / "pipe")
    with pytest.raises(BadSkill, match=r"pipe .*is no file"):
        read_folder(place)
    (place / "pipe").unlink()
    with socket.socket(socket.AF_UNIX) as listening, contextlib.chdir(place):
        listening.bind("sock")
        with pytest.raises(BadSkill, match=r"sock .*is no file"):
            read_folder(place)
        os.unlink("sock")
    (place / "to").symlink_to("pipe")
    os.mkfifo(place / "pipe")
    with pytest.raises(BadSkill, match="is no file"):
        read_folder(place)


@pytest.mark.parametrize("name", ["SKILL.md", "nothing-here"])
def test_what_is_no_folder_is_refused(place: Path, name: str) -> None:
    with pytest.raises(BadSkill, match="Name the folder"):
        read_folder(place / name)


def test_a_folder_without_a_skill_md_is_refused_before_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"")
    os.truncate(tmp_path / "large", MAX_FILE_BYTES + 1)
    with pytest.raises(BadSkill, match=r"holds no SKILL\.md"):
        read_folder(tmp_path)


def test_a_large_file_is_refused_before_it_is_read(place: Path) -> None:
    (place / "large").write_bytes(b"")
    os.truncate(place / "large", 1 << 40)
    with pytest.raises(BadSkill, match="large is larger than the 16 MiB"):
        read_folder(place)


def test_many_large_files_are_refused(place: Path) -> None:
    for number in range(MAX_BYTES // MAX_FILE_BYTES):
        (place / f"{number}").write_bytes(b"")
        os.truncate(place / f"{number}", MAX_FILE_BYTES)
    with pytest.raises(BadSkill, match="at most 64 MiB"):
        read_folder(place)


def test_files_are_counted_while_they_come() -> None:
    taken = 0

    def endless() -> Iterator[tuple[str, int, bytes]]:
        nonlocal taken
        while True:
            taken += 1
            yield f"{taken}", PLAIN, b""

    with pytest.raises(BadSkill, match=r"at most 5,000 files"):
        tree_of_files(endless())
    assert taken == MAX_FILES + 1


def test_a_folder_that_cannot_be_entered_says_so(place: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may enter every folder")
    (place / "scripts").chmod(0)
    try:
        with pytest.raises(BadSkill, match=r"scripts .*Permission denied"):
            read_folder(place)
    finally:
        (place / "scripts").chmod(0o755)


# paths --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/etc/passwd",
        "../up",
        "a/../../up",
        "a//b",
        "./a",
        "a/.",
        "nul\0byte",
        "line\nbreak",
        "CON",
        "con.txt",
        "a/Aux.md",
        "COM1",
        "lpt9.log",
        "com¹",
        "nul .txt",
        "dot.",
        "space ",
        "folder./file",
        "back\\slash",
        "c:drive",
        "stream:ads",
        "star*",
        "what?",
        "<in>",
        'quo"te',
        "pipe|",
        "del\x7f",
        "x" * 256,
        "/".join("d" * (MAX_DEPTH + 2)),
        "\udcff",
    ],
)
def test_a_path_that_not_every_system_can_hold_is_refused(path: str) -> None:
    with pytest.raises(BadSkill):
        tree_of_files([(path, PLAIN, b"")])


@pytest.mark.parametrize(
    "path",
    [
        "a b.md",
        ".hidden",
        "..dots",
        "a..b",
        "console.md",
        "com.md",
        "auxiliary",
        "naïve.md",
        "表.md",
    ],
)
def test_other_paths_are_taken(path: str) -> None:
    assert tree_of_files([(path, PLAIN, b"x")]).get(path) == b"x"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("README.md", "readme.MD"),
        ("Scripts/a.py", "scripts/b.py"),
        ("caf\u00e9.md", "cafe\u0301.md"),
        ("CAF\u00c9.md", "cafe\u0301.md"),
        ("stra\u00dfe", "STRASSE"),
        ("a", "A/b"),
    ],
)
def test_two_paths_that_are_one_elsewhere_are_refused(one: str, other: str) -> None:
    with pytest.raises(BadSkill, match="are one name"):
        tree_of_files([(one, PLAIN, b"1"), (other, PLAIN, b"2")])


def test_two_files_at_one_place_are_refused() -> None:
    with pytest.raises(BadSkill, match="stands twice"):
        tree_of_files([("a", PLAIN, b"1"), ("a", PLAIN, b"1")])
    with pytest.raises(BadSkill, match="stands beneath"):
        tree_of_files([("a", PLAIN, b"1"), ("a/b", PLAIN, b"1")])


# writing ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002, 0o777])
def test_what_is_written_is_read_again_as_the_same(place: Path, tmp_path: Path, mask: int) -> None:
    tree = read_folder(place)
    target = tmp_path / "far" / "away" / "sample"
    target.parent.mkdir(parents=True)
    with umask(mask):
        write_folder(tree, target)
    assert read_folder(target).digest == tree.digest
    found = stat.S_IMODE((target / "scripts/count.py").stat().st_mode)
    assert found == 0o777 & ~mask | 0o700


def test_a_skill_is_replaced_by_another_and_nothing_is_left_behind(
    place: Path, tmp_path: Path
) -> None:
    target = on_disk(tmp_path / "target", {**FILES, "old.md": "old\n"})
    tree = read_folder(place)
    write_folder(tree, target)
    assert read_folder(target).digest == tree.digest
    assert sorted(os.listdir(tmp_path)) == ["sample", "target"]


def test_whoever_reads_meanwhile_sees_one_or_the_other(place: Path, tmp_path: Path) -> None:
    old = read_folder(place)
    (place / "scripts/more.py").write_text("more")
    new = read_folder(place)
    target = tmp_path / "target"
    write_folder(old, target)
    done = threading.Event()

    def write() -> None:
        while not done.is_set():
            write_folder(new, target)
            write_folder(old, target)

    seen = set()
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        try:
            for _ in range(300):
                # It gives up when each of its attempts met a replacement; none sees half a one.
                with contextlib.suppress(BadSkill):
                    seen.add(read_folder(target).digest)
        finally:
            done.set()
    writing.result()
    assert seen
    assert seen <= {old.digest, new.digest}


def test_a_folder_that_is_replaced_while_it_is_read_is_read_again(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = read_folder(place)
    new = tree_of_files([("SKILL.md", PLAIN, b"new")])
    read, readings = folder_module._read, 0

    def replaced(path: Path, root: int) -> SkillTree:
        nonlocal readings
        readings += 1
        if readings < 3:
            write_folder(new if readings == 1 else old, place)
        return read(path, root)

    monkeypatch.setattr(folder_module, "_read", replaced)
    assert read_folder(place).digest == old.digest
    assert readings == 3


def test_without_an_exchange_of_names_it_is_replaced_too(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on file systems that cannot exchange two names."""
    monkeypatch.setattr(folder_module, "_exchange", lambda one, other: False)
    target = on_disk(tmp_path / "target", {**FILES, "old.md": "old\n"})
    write_folder(read_folder(place), target)
    assert read_folder(target).digest == read_folder(place).digest
    assert sorted(os.listdir(tmp_path)) == ["sample", "target"]


def test_what_cannot_be_written_leaves_what_was_there(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = on_disk(tmp_path / "target", {**FILES, "old.md": "old\n"})
    before, tree = read_folder(target).digest, read_folder(place)
    write = folder_module._write_file

    def full(path: Path, mode: int, data: bytes) -> None:
        if path.name == "count.py":
            raise OSError(28, os.strerror(28))
        write(path, mode, data)

    monkeypatch.setattr(folder_module, "_write_file", full)
    with pytest.raises(UnavailableError, match=r"No space left.*unchanged"):
        write_folder(tree, target)
    with pytest.raises(UnavailableError, match="No space left"):
        write_folder(tree, tmp_path / "new")
    assert read_folder(target).digest == before
    assert sorted(os.listdir(tmp_path)) == ["sample", "target"]


@pytest.mark.parametrize(
    ("made", "why"),
    [
        ({"notes.txt": "mine"}, r"without a SKILL\.md"),
        ({**FILES, ".git/HEAD": "x"}, "Git repository"),
    ],
)
def test_a_folder_that_is_no_skill_is_never_replaced(
    place: Path, tmp_path: Path, made: dict[str, str], why: str
) -> None:
    target = on_disk(tmp_path / "target", made)
    with pytest.raises(UsageError, match=why):
        write_folder(read_folder(place), target)
    for path in made:
        assert (target / path).exists()


def test_a_file_or_a_link_is_never_replaced(place: Path, tmp_path: Path) -> None:
    tree = read_folder(place)
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to(place)
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    for name, why in (("file", "is a file"), ("link", "is a link"), ("dangling", "is a link")):
        with pytest.raises(UsageError, match=why):
            write_folder(tree, tmp_path / name)
    assert (tmp_path / "file").read_text() == "mine"
    assert not (tmp_path / "nowhere").exists()


def test_an_empty_folder_is_filled(place: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    write_folder(read_folder(place), tmp_path / "empty")
    assert read_folder(tmp_path / "empty").digest == read_folder(place).digest
