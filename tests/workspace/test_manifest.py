"""A tree has one form and one digest, and no hostile one is taken for a tree."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprise.workspace.manifest import (
    MAX_ENTRIES,
    BadManifest,
    Entry,
    Manifest,
    asked,
    checked,
    difference,
    merge,
    parse,
    path_bytes,
    path_text,
    shown,
)

from .trees import apply, directory, file, link, manifests

SHA = "0" * 64


@given(manifests)
def test_parse_gives_back_what_was_written(tree: Manifest) -> None:
    data = tree.to_bytes()
    assert data.isascii()
    assert parse(data) == tree
    assert tree.sha256 == hashlib.sha256(data).hexdigest()


@given(manifests, st.randoms())
def test_the_digest_does_not_depend_on_order(tree: Manifest, random: Any) -> None:
    shuffled = list(tree)
    random.shuffle(shuffled)
    assert Manifest.of(shuffled).sha256 == tree.sha256


@given(manifests, manifests)
def test_two_trees_share_a_digest_only_when_they_are_equal(a: Manifest, b: Manifest) -> None:
    assert (a.sha256 == b.sha256) == (a == b)


@given(st.binary(min_size=1, max_size=40))
def test_every_name_survives_as_its_very_bytes(raw: bytes) -> None:
    path = path_text(raw)
    assert path_bytes(path) == raw
    assert shown(path).isprintable()
    assert json.loads(json.dumps(path)) == path


@pytest.mark.parametrize(
    "path",
    [
        "", "/", "/etc/passwd", "..", "../x", "a/../b", "a/..", ".", "./a", "a/./b", "a//b", "a/",
        "a\0b", "x" * 256, "a/" * 2048 + "a", "\ud800", "\udcc3\udca9", 7, None, ["a"],
    ],
)  # fmt: skip
def test_no_path_that_could_leave_the_tree_or_has_two_spellings(path: object) -> None:
    with pytest.raises(BadManifest):
        checked(path, "file", 0o644, 0, SHA, None)
    with pytest.raises(BadManifest):
        Entry.from_json([path, "file", 0o644, 0, SHA])


@pytest.mark.parametrize(
    "entry",
    [
        ["a", "fifo", 0o644, 0, None],
        ["a", "file", 0o4755, 0, SHA],
        ["a", "file", -1, 0, SHA],
        ["a", "file", True, 0, SHA],
        ["a", "file", 0o644, -1, SHA],
        ["a", "file", 0o644, 1 << 60, SHA],
        ["a", "file", 0o644, 1.0, SHA],
        ["a", "file", 0o644, 0, SHA.upper().replace("0", "G")],
        ["a", "file", 0o644, 0, SHA + "\n"],
        ["a", "dir", 0o755, 5, None],
        ["a", "dir", 0o755, 0, SHA],
        ["a", "link", 0o777, 0, None],
        ["a", "link", 0o777, 0, ""],
        ["a", "link", 0o777, 0, "x\0y"],
        ["a", "link", 0o777, 0, "x" * 5000],
        ["a", "file", 0o644, 0],
        ["a", "file", 0o644, 0, SHA, None],
        {"path": "a"},
        "a",
        None,
    ],
)
def test_malformed_entries_are_refused(entry: Any) -> None:
    with pytest.raises(BadManifest):
        parse(json.dumps({"entries": [entry]}).encode())


@pytest.mark.parametrize(
    "entries",
    [
        [file("a"), file("a", b"x")],
        [file("a"), directory("a")],
        [file("a"), file("a/b")],
        [link("a", "/etc"), file("a/passwd")],
        [link("a", "b"), directory("a/b/c")],
    ],
)
def test_no_two_things_at_one_place(entries: list[Entry]) -> None:
    with pytest.raises(BadManifest):
        Manifest.of(entries)


@pytest.mark.parametrize(
    "data",
    [
        b"", b"[]", b"{}", b"null", b'{"entries":{}}', b'{"entries":[],"more":1}', b"\xff",
        b'{"entries": []}', b'{"entries":[]}\n', b"[" * 100_000, b'{"entries":[],"entries":[]}',
        b'{"entries":[["b","dir",493,0,null],["a","dir",493,0,null]]}',
        b'{"entries":[["a","file",420,' + b"9" * 5000 + b',null]]}',
    ],
)  # fmt: skip
def test_only_the_canonical_bytes_are_a_manifest(data: bytes) -> None:
    with pytest.raises(BadManifest):
        parse(data)


def test_the_number_of_entries_is_bounded() -> None:
    many = [Entry(f"{n:06}", "dir", 0o755) for n in range(MAX_ENTRIES + 1)]
    with pytest.raises(BadManifest, match="over"):
        Manifest.of(many)


def test_a_tree_that_was_not_hashed_has_no_digest() -> None:
    with pytest.raises(BadManifest, match="not hashed"):
        _ = Manifest.of([Entry("a", "file", 0o644, 3)]).sha256


@given(manifests, manifests)
def test_a_difference_leads_from_one_tree_to_the_other(old: Manifest, new: Manifest) -> None:
    change = difference(old, new)
    assert apply(old, change.put, change.removed) == new
    assert old.but(change.put, change.removed) == new
    assert bool(change) == (old != new)


# merge: the host's changes come in, the workspace's stay -------------------------------------


def merged(base: Manifest, host: Manifest, workspace: Manifest) -> tuple[Manifest, set[str]]:
    """The workspace afterwards and the conflicts, asking only for what `asked` says."""
    paths, whole = asked(base, host)
    known = (
        workspace.by_path if whole else {p: e for p, e in workspace.by_path.items() if p in paths}
    )
    result = merge(base, host, known)
    after = apply(workspace, result.change.put, result.change.removed)
    return after, {conflict.path for conflict in result.conflicts}


@given(manifests, manifests)
def test_an_unchanged_workspace_becomes_the_host(base: Manifest, host: Manifest) -> None:
    after, conflicts = merged(base, host, base)
    assert not conflicts
    assert {e.path for e in after} == {e.path for e in host}
    assert all(entry.same(host.get(entry.path)) for entry in after)


@given(manifests, manifests)
def test_an_unchanged_host_changes_nothing(base: Manifest, workspace: Manifest) -> None:
    assert merged(base, base, workspace) == (workspace, set())


@given(manifests, manifests, manifests)
def test_nothing_of_the_workspaces_own_is_ever_lost(
    base: Manifest, host: Manifest, workspace: Manifest
) -> None:
    after, conflicts = merged(base, host, workspace)
    for entry in workspace:
        if entry.type != "dir" and not entry.same(base.get(entry.path)):
            assert entry.same(after.get(entry.path)), f"{entry.path} was overwritten"
    # And the user is told of each change of the host that did not come in.
    for entry in host:
        came_in = entry.same(after.get(entry.path))
        if entry.type != "dir" and not entry.same(base.get(entry.path)):
            assert came_in or entry.path in conflicts, f"{entry.path} was left out untold"


@pytest.mark.parametrize(
    ("base", "host", "workspace", "after", "conflicts"),
    [
        # host edits, workspace did not
        ([file("a", b"1")], [file("a", b"2")], [file("a", b"1")], [file("a", b"2")], []),
        # both edit
        ([file("a", b"1")], [file("a", b"2")], [file("a", b"3")], [file("a", b"3")], ["a"]),
        # both edit alike
        ([file("a", b"1")], [file("a", b"2")], [file("a", b"2")], [file("a", b"2")], []),
        # both create
        ([], [file("a", b"1")], [file("a", b"2")], [file("a", b"2")], ["a"]),
        # host removes what the workspace changed
        ([file("a", b"1")], [], [file("a", b"2")], [file("a", b"2")], ["a"]),
        # host edits what the workspace removed
        ([file("a", b"1")], [file("a", b"2")], [], [], ["a"]),
        # both remove
        ([file("a", b"1")], [], [], [], []),
        # the host's directory goes, but not what the workspace made in it
        (
            [directory("d"), file("d/a", b"1")],
            [],
            [directory("d"), file("d/a", b"1"), file("d/new", b"2")],
            [directory("d"), file("d/new", b"2")],
            [],
        ),
        # a directory became a file on the host, and holds other things in the workspace
        (
            [directory("d")],
            [file("d", b"1")],
            [directory("d"), file("d/new", b"2")],
            [directory("d"), file("d/new", b"2")],
            ["d"],
        ),
        # the host puts a file where the workspace has a file for a directory
        ([], [directory("d"), file("d/a", b"1")], [file("d", b"2")], [file("d", b"2")], ["d", "d/a"]),
        # only the mode moved, by another umask
        ([file("a", b"1")], [file("a", b"1", 0o600)], [file("a", b"1")], [file("a", b"1")], []),
        # the executable bit counts
        (
            [file("a", b"1")],
            [file("a", b"1", 0o755)],
            [file("a", b"1")],
            [file("a", b"1", 0o755)],
            [],
        ),
    ],
)  # fmt: skip
def test_merge_by_example(
    base: list[Entry],
    host: list[Entry],
    workspace: list[Entry],
    after: list[Entry],
    conflicts: list[str],
) -> None:
    got = merged(Manifest.of(base), Manifest.of(host), Manifest.of(workspace))
    assert got == (Manifest.of(after), set(conflicts))


def test_a_conflict_is_told_once() -> None:
    base, host = Manifest.of([file("a", b"1")]), Manifest.of([file("a", b"2")])
    first = merge(base, host, {"a": file("a", b"3")})
    assert first.conflicts
    assert not difference(first.base, host)
