"""What is no tree, or no place for one, is refused before anything is written."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from typing import Any

import pytest

from reprise.errors import RepriseError, TooLarge, UsageError
from reprise.log.model import canonical
from reprise.sandbox.contract import Limits, Tree
from reprise.sandbox.trees import MAX_DEPTH, MAX_ENTRIES, MAX_NAMES, Mounted, check_tree
from reprise.sandbox.view import mounts_room
from reprise.workspace.manifest import Entry
from tests.fixtures.mounts import sha256, tree_of

EMPTY = sha256(b"")


async def nothing(digest: str) -> bytes:
    raise AssertionError("a tree that is refused is not read")


def tree(entries: Sequence[Entry]) -> Tree:
    """A tree that adds up to its digest, whatever its entries are."""
    ordered = sorted(entries, key=lambda each: str(each.path).encode("utf-8", "surrogatepass"))
    named = [
        [e.path, e.type, e.mode, e.size, e.target if e.type == "link" else e.sha256]
        for e in ordered
    ]
    try:
        data = canonical({"entries": named})
    except (ValueError, TypeError, RepriseError):
        data = repr(named).encode()
    return Tree(hashlib.sha256(data).hexdigest(), ordered, nothing)


def file(path: Any = "f", **changes: Any) -> Entry:
    return dataclasses.replace(Entry(path, "file", 0o644, 0, EMPTY), **changes)


def test_what_a_manifest_holds_passes_as_it_is() -> None:
    given = tree_of({"b/c": b"1", "a": (b"22", 0o755), "b": 0o700, "l": "a", "x/y/z": b""})
    checked = check_tree(given)
    assert [(p.path, p.type, p.mode) for p in checked.pieces] == [
        ("a", "file", 0o755),
        ("b", "dir", 0o700),
        ("b/c", "file", 0o644),
        ("l", "link", 0o777),
        ("x", "dir", 0o755),
        ("x/y", "dir", 0o755),
        ("x/y/z", "file", 0o644),
    ]
    assert checked.footprint == 4096 * (7 + 2)


@pytest.mark.parametrize(
    "entries",
    [
        [file("")],
        [file("/etc/passwd")],
        [file("../x")],
        [file("a/../../x")],
        [file("a/./b")],
        [file("a//b")],
        [file("a/")],
        [file(".")],
        [file("a\0b")],
        [file("\ud800")],
        [file("\udcc3\udca9")],
        [file("n" * 256)],
        [file("é" * 128)],
        [file("/".join("n" * 200 for _ in range(21)))],
        [file("/".join("d" * (MAX_DEPTH + 1)))],
        [file(7)],
        [file("a"), file("a")],
        [file("a"), file("a/b")],
        [Entry("a", "link", 0o777, target="/etc"), file("a/passwd")],
        [file(mode=0o4755)],
        [file(mode=-1)],
        [file(mode=True)],
        [file(mode=0o100644)],
        [file(size=-1)],
        [file(size=1.0)],
        [file(sha256=None)],
        [file(sha256="../../etc/passwd")],
        [file(sha256=EMPTY + "\n")],
        [file(target="x")],
        [file(type="socket")],
        [Entry("d", "dir", 0o755, size=1)],
        [Entry("d", "dir", 0o755, sha256=EMPTY)],
        [Entry("d", "dir", 0o755, target="x")],
        [Entry("l", "link", 0o777)],
        [Entry("l", "link", 0o777, target="")],
        [Entry("l", "link", 0o777, target="a\0b")],
        [Entry("l", "link", 0o777, target="x" * 4096)],
        [Entry("l", "link", 0o777, size=3, target="abc")],
    ],
)
def test_what_no_tree_holds_is_refused(entries: list[Entry]) -> None:
    with pytest.raises(UsageError):
        check_tree(tree(entries))


def test_too_much_of_everything_is_refused() -> None:
    with pytest.raises(TooLarge, match="entries"):
        check_tree(tree([file(f"{i:06}") for i in range(MAX_ENTRIES + 1)]))
    long = "/".join("n" * 200 for _ in range(20))
    with pytest.raises(TooLarge, match="names"):
        check_tree(tree([file(f"{i}{long}") for i in range(MAX_NAMES // 4000)]))


def test_what_the_environment_has_there_stays() -> None:
    mounted = Mounted(0, ("/skills", "/mnt"), ["/mnt/data/set", "/mnt/python"])
    for target in ("/mnt/data", "/mnt/data/set", "/mnt/data/set/x", "/mnt/python/lib"):
        with pytest.raises(UsageError, match="environment"):
            mounted.check_target(target)
    assert mounted.check_target("/mnt/data/other") == ("/mnt", ["data", "other"])
    with pytest.raises(UsageError, match="/mnt is itself"):
        Mounted(0, ("/skills",), []).check_target("/mnt/x")


def test_mounts_take_at_most_a_quarter_of_the_memory() -> None:
    assert mounts_room(Limits(memory=0, mounts=0)) == 0
    assert mounts_room(Limits(memory=0, mounts=5 << 20)) == 5 << 20
    assert mounts_room(Limits(memory=1 << 30, mounts=0)) == 256 << 20
    assert mounts_room(Limits(memory=256 << 20, mounts=256 << 20)) == 64 << 20
