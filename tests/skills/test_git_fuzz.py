"""Git trees of any kind: each is read as its checkout would be, or refused; none holds the reader."""

import hashlib
import os
import shutil
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reprise.errors import BadSkill
from reprise.skills.contract import SkillTree
from reprise.skills.finding import skill_folders
from reprise.skills.folder import read_folder, tree_of_files
from reprise.skills.git_objects import Objects
from reprise.skills.git_tree import GitTree
from reprise.skills.paths import checked_path
from tests.fixtures.skill_sources import Git, skill_md

BOUNDED = settings(
    max_examples=120,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    print_blob=True,
)


@pytest.fixture(scope="module")
def repository() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        Git(Path(folder) / "x.git")
        yield Path(folder) / "x.git"


def stored(repository: Path, kind: str, data: bytes) -> str:
    """A loose object, whatever is in it: what `git hash-object --literally` writes."""
    whole = f"{kind} {len(data)}\0".encode() + data
    name = hashlib.sha1(whole).hexdigest()
    path = repository / "objects" / name[:2] / name[2:]
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(zlib.compress(whole, 1))
    return name


def tree_bytes(entries: list[tuple[bytes, bytes, str]]) -> bytes:
    return b"".join(mode + b" " + name + b"\0" + bytes.fromhex(of) for mode, name, of in entries)


def read(repository: Path, top: str) -> list[SkillTree]:
    """Every skill below a tree that can be read."""
    found = []
    with Objects(repository) as objects:
        tree = GitTree(objects, top)
        try:
            folders = skill_folders(tree).folders
        except BadSkill:
            return []
        for folder in folders:
            try:
                tree.blobs(folder)
                found.append(tree_of_files(tree.files(folder)))
            except BadSkill:
                continue
    for each in found:
        for entry in each.manifest:
            checked_path(entry.path)
    return found


# trees of any bytes -------------------------------------------------------------------------------

_NAMES = st.one_of(
    st.sampled_from(
        [
            *(b"SKILL.md", b"x", b"y", b"..", b".", b"", b".git", b"a/b", b"../../x", b"\xff"),
            *(b"aux", b"x:y", b"skill.MD", "ü".encode(), "u\u0308".encode(), b"con.txt", b"x."),
            b"a" * 300,
        ]
    ),
    st.binary(min_size=1, max_size=6).filter(lambda name: b"\0" not in name),
)
_MODES = st.sampled_from(
    [
        *(b"100644", b"100755", b"40000", b"040000", b"120000", b"160000", b"100664", b"0"),
        *(b"777777", b"010644", b"020666", b"8", b"", b"-1", b"1" * 12),
    ]
)
_TARGETS = st.sampled_from(
    [b"SKILL.md", b"x", b".", b"..", b"../..", b"/etc/passwd", b"x/../y", b"", b"\0", b"y/SKILL.md"]
)


@st.composite
def stores(draw: st.DrawFn) -> list[tuple[str, object]]:
    """Objects in an order in which each may name those before it, or any number."""
    made: list[tuple[str, object]] = [("blob", skill_md("x")), ("blob", b"x")]
    made.append(("blob", draw(_TARGETS)))
    for _ in range(draw(st.integers(1, 6))):
        if draw(st.integers(0, 9)) == 0:
            made.append(("tree", draw(st.binary(max_size=60))))
            continue
        entry = st.tuples(_MODES, _NAMES, st.integers(0, len(made)))
        entries = draw(st.lists(entry, max_size=6))
        if draw(st.booleans()):
            entries.append((b"100644", b"SKILL.md", 0))
        made.append(("tree", entries))
    return made


@BOUNDED
@given(stores())
def test_no_forged_tree_is_more_than_refused(
    repository: Path, made: list[tuple[str, object]]
) -> None:
    names: list[str] = []
    for kind, what in made:
        if isinstance(what, bytes):
            data = what
        else:
            assert isinstance(what, list)
            data = tree_bytes(
                [
                    (mode, name, names[of] if of < len(names) else "7" * 40)
                    for mode, name, of in what
                ]
            )
        names.append(stored(repository, kind, data))
    read(repository, names[-1])
    read(repository, names[0])
    read(repository, "7" * 40)


@BOUNDED
@given(st.binary(max_size=200), st.sampled_from(["tree", "blob", "commit", "tag"]))
def test_no_object_of_any_bytes_is_more_than_refused(
    repository: Path, data: bytes, kind: str
) -> None:
    read(repository, stored(repository, kind, data))


# as a checkout ------------------------------------------------------------------------------------

_PLAIN = st.sampled_from(["a", "b", "c", "SKILL.md", "run.sh"])


@st.composite
def checkouts(draw: st.DrawFn) -> dict[str, object]:
    """Nested folders of files and links, all beneath one skill: {name: bytes | link | folder}."""

    def folder(depth: int) -> dict[str, object]:
        found: dict[str, object] = {}
        for name in draw(st.lists(_PLAIN, max_size=4, unique=True)):
            what = draw(st.sampled_from(["file", "script", "link", "link", "folder", "folder"]))
            if what == "folder" and depth < 3:
                found[name] = folder(depth + 1)
            elif what == "link":
                parts = st.sampled_from(["a", "b", "c", ".", "..", "SKILL.md", ""])
                target = "/".join(draw(st.lists(parts, min_size=1, max_size=4))).lstrip("/")
                found[name] = ("link", target or ".")
            else:
                found[name] = (
                    "script" if what == "script" else "file",
                    draw(st.binary(max_size=4)),
                )
        return found

    return {**folder(0), "SKILL.md": ("file", skill_md("x"))}


def on_disk(folder: Path, made: dict[str, object]) -> None:
    folder.mkdir()
    for name, what in made.items():
        if isinstance(what, dict):
            on_disk(folder / name, what)
            continue
        assert isinstance(what, tuple)
        kind, content = what
        if kind == "link":
            os.symlink(content, folder / name)
        else:
            (folder / name).write_bytes(content)
            (folder / name).chmod(0o755 if kind == "script" else 0o644)


def in_git(repository: Path, made: dict[str, object]) -> str:
    entries = []
    for name, what in made.items():
        if isinstance(what, dict):
            entries.append((b"40000", name.encode(), in_git(repository, what)))
            continue
        assert isinstance(what, tuple)
        kind, content = what
        data = content.encode() if isinstance(content, str) else content
        mode = {"link": b"120000", "script": b"100755", "file": b"100644"}[kind]
        entries.append((mode, name.encode(), stored(repository, "blob", data)))
    return stored(repository, "tree", tree_bytes(sorted(entries, key=lambda entry: entry[1])))


@settings(BOUNDED, max_examples=150)
@given(checkouts())
def test_a_skill_in_git_is_what_its_checkout_is(repository: Path, made: dict[str, object]) -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        on_disk(folder / "x", made)
        try:
            there: SkillTree | None = read_folder(folder / "x")
        except BadSkill:
            there = None
        with Objects(repository) as objects:
            try:
                tree = GitTree(objects, in_git(repository, made))
                here: SkillTree | None = tree_of_files(tree.files(""))
            except BadSkill:
                here = None
        assert (here and here.digest) == (there and there.digest)
    finally:
        shutil.rmtree(folder)
