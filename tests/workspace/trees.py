"""Trees for property tests, and an oracle that applies changes to them as a file system would."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import strategies as st

from reprise.log.model import sha256_hex
from reprise.workspace.manifest import Entry, Manifest, parents, path_text

CONTENTS = [b"", b"a", b"b", b"longer"]

names = st.one_of(
    st.sampled_from(["a", "b", "a-b", "a.b", "é", path_text(b"\xff")]),
    st.binary(min_size=1, max_size=4)
    .map(lambda raw: raw.replace(b"/", b"_").replace(b"\0", b"_"))
    .filter(lambda raw: raw not in (b".", b".."))
    .map(path_text),
)
paths = st.lists(names, min_size=1, max_size=3).map("/".join)


def file(path: str, content: bytes = b"", mode: int = 0o644) -> Entry:
    return Entry(path, "file", mode, len(content), sha256_hex(content))


def directory(path: str, mode: int = 0o755) -> Entry:
    return Entry(path, "dir", mode)


def link(path: str, target: str) -> Entry:
    return Entry(path, "link", 0o777, target=target)


entries = st.one_of(
    st.builds(file, paths, st.sampled_from(CONTENTS), st.sampled_from([0o644, 0o755, 0o600])),
    st.builds(directory, paths),
    st.builds(link, paths, st.sampled_from(["a", "../b", "/usr/bin/python"])),
)


def whole(found: Iterable[Entry]) -> Manifest:
    """A tree with every directory named, of those entries that fit; later ones give way."""
    tree: dict[str, Entry] = {}
    for entry in found:
        above = list(parents(entry.path))
        if entry.path in tree or any(p in tree and tree[p].type != "dir" for p in above):
            continue
        for parent in above:
            tree.setdefault(parent, directory(parent))
        tree[entry.path] = entry
    return Manifest.of(tree.values())


manifests = st.lists(entries, max_size=8).map(whole)


def apply(tree: Manifest, put: Iterable[Entry], removed: Iterable[str]) -> Manifest:
    """What a file system holds after removing and putting in this order, refusing nonsense."""
    there = dict(tree.by_path)
    for path in removed:
        beneath = [p for p in there if path in parents(p)]
        assert not beneath, f"{path} is removed while {beneath} lie in it"
        there.pop(path, None)
    for entry in put:
        for parent in parents(entry.path):
            above = there.setdefault(parent, directory(parent))
            assert above.type == "dir", f"{entry.path} is put beneath a {above.type}"
        before = there.get(entry.path)
        if before is not None and before.type == "dir" and entry.type != "dir":
            beneath = [p for p in there if entry.path in parents(p)]
            assert not beneath, f"{entry.path} replaces a directory that holds {beneath}"
        there[entry.path] = entry
    return Manifest.of(there.values())
