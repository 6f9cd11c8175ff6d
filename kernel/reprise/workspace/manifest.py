"""What a tree of files is: entries, their canonical form, difference and merge (pure).

The canonical bytes of a manifest are `canonical({"entries": [[path, type, mode, size,
sha256-or-target], …]})`, entries sorted by the bytes of their paths; their sha256 is the
tree's digest. Paths are relative, separated by "/", and stand for bytes: UTF-8 decoded with
surrogateescape, which `canonical` keeps exact.

Everything that comes from a guest or a blob goes through `parse` or `Manifest.of`, which refuse
whatever could name a place outside the tree or two things at one place.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from reprise.errors import RepriseError
from reprise.log.model import Json, canonical

EntryType = Literal["file", "dir", "link"]

#: More entries than any workspace that can be kept: 20,000 files with their directories, and room.
MAX_ENTRIES = 200_000
#: Linux' own bounds (PATH_MAX without its NUL, NAME_MAX); a longer path cannot be made anyway.
MAX_PATH = 4095
MAX_NAME = 255
#: 200,000 entries of about 320 bytes each.
MAX_BYTES = 64 << 20
#: Files above 2**53 bytes would lose their size in JSON readers other than ours.
MAX_SIZE = 1 << 53

_SHA256 = re.compile(r"[0-9a-f]{64}\Z")


class BadManifest(RepriseError):
    """A manifest, or an entry of one, that no honest writer makes; says which and why."""


def path_bytes(path: str) -> bytes:
    """The bytes a path stands for. Raises BadManifest when it stands for none, or not uniquely."""
    try:
        raw = path.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise BadManifest(f"The path {path!r} stands for no bytes.") from error
    # "\udcc3\udca9" and "é" are the same two bytes; only the second spelling is the decoded one.
    if raw.decode("utf-8", "surrogateescape") != path:
        raise BadManifest(f"The path {path!r} is not how its bytes are written.")
    return raw


def path_text(raw: bytes) -> str:
    """The path that stands for these bytes."""
    return raw.decode("utf-8", "surrogateescape")


def shown(path: str) -> str:
    """A path for people: printable, whatever bytes it holds."""
    text = path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def check_path(path: object) -> str:
    """`path` when it is a clean relative path beneath the root. Raises BadManifest."""
    if not isinstance(path, str):
        raise BadManifest(f"A path is {type(path).__name__}, not text.")
    if len(path) > MAX_PATH:
        raise BadManifest(f"A path of {len(path)} characters is longer than {MAX_PATH}.")
    raw = path_bytes(path)
    if not raw:
        raise BadManifest("A path is empty.")
    if len(raw) > MAX_PATH:
        raise BadManifest(f"A path of {len(raw)} bytes is longer than {MAX_PATH}.")
    if b"\0" in raw:
        raise BadManifest(f"The path {path!r} holds a NUL.")
    for name in raw.split(b"/"):
        if name in (b"", b".", b".."):
            raise BadManifest(f"The path {path!r} is not a clean path beneath the root.")
        if len(name) > MAX_NAME:
            raise BadManifest(f"A name in {path[:40]!r}… is longer than {MAX_NAME} bytes.")
    return path


@dataclass(frozen=True)
class Entry:
    """One thing in a tree.

    mode: permission bits, 0 to 0o777.  size: bytes of a file, else 0.
    sha256: of a file's bytes, hex; None when nobody has hashed it (such a manifest has no digest).
    target: of a link, as its bytes decoded; may point anywhere, since only the sandbox follows it.
    """

    path: str
    type: EntryType
    mode: int
    size: int = 0
    sha256: str | None = None
    target: str | None = None

    def to_json(self) -> list[Json]:
        content = self.target if self.type == "link" else self.sha256
        return [self.path, self.type, self.mode, self.size, content]

    @classmethod
    def from_json(cls, value: Json) -> Entry:
        """The entry, checked. Raises BadManifest."""
        if not isinstance(value, list) or len(value) != 5:
            raise BadManifest("An entry is not [path, type, mode, size, sha256-or-target].")
        path, type_, mode, size, content = value
        link = type_ == "link"
        return checked(
            path, type_, mode, size, None if link else content, content if link else None
        )

    def containing(self, data: bytes) -> Entry:
        """The file with this content: an entry that follows the bytes that were really read."""
        return replace(self, size=len(data), sha256=hashlib.sha256(data).hexdigest())

    def same(self, other: Entry | None) -> bool:
        """Whether both are the same content to a program (the executable bit counts, others don't).

        Modes beyond it differ by umask between machines without anybody having changed a file.
        """
        return (
            other is not None
            and (self.type, self.size, self.sha256, self.target)
            == (other.type, other.size, other.sha256, other.target)
            and (self.type != "file" or (self.mode ^ other.mode) & 0o100 == 0)
        )


def checked(
    path: object, type_: object, mode: object, size: object, sha256: object, target: object
) -> Entry:
    """An entry from values nobody has looked at yet. Raises BadManifest."""
    name = check_path(path)
    where = f"The entry {name!r}"
    if type_ not in ("file", "dir", "link"):
        raise BadManifest(f"{where} has an unknown type.")
    if type(mode) is not int or not 0 <= mode <= 0o777:
        raise BadManifest(f"{where} has a mode outside 0 to 0o777.")
    if type(size) is not int or not 0 <= size <= MAX_SIZE:
        raise BadManifest(f"{where} has a size outside 0 to {MAX_SIZE}.")
    if type_ == "file":
        if sha256 is not None and not (isinstance(sha256, str) and _SHA256.match(sha256)):
            raise BadManifest(f"{where} has a hash that is not a sha256.")
    elif size or sha256 is not None:
        raise BadManifest(f"{where} is a {type_} with a size or a hash.")
    if type_ == "link":
        if not isinstance(target, str) or not target or len(target) > MAX_PATH:
            raise BadManifest(f"{where} is a link with no target, or too long a one.")
        if b"\0" in path_bytes(target):
            raise BadManifest(f"{where} is a link whose target holds a NUL.")
    elif target is not None:
        raise BadManifest(f"{where} is a {type_} with a target.")
    return Entry(name, type_, mode, size, sha256, target)


@dataclass(frozen=True)
class Manifest:
    """A tree: entries sorted by the bytes of their paths, one a path, none beneath a file or link.

    Directories between may be missing from it; they are implied.
    """

    entries: tuple[Entry, ...] = ()

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> Manifest:
        """A tree of these entries, in any order. Raises BadManifest on duplicates and conflicts."""
        ordered = sorted(entries, key=lambda entry: path_bytes(entry.path))
        if len(ordered) > MAX_ENTRIES:
            raise BadManifest(f"A manifest of {len(ordered)} entries is over {MAX_ENTRIES}.")
        by_path: dict[str, Entry] = {}
        for entry in ordered:
            if entry.path in by_path:
                raise BadManifest(f"The path {entry.path!r} stands twice in a manifest.")
            by_path[entry.path] = entry
        for entry in ordered:
            for parent in parents(entry.path):
                above = by_path.get(parent)
                if above is not None and above.type != "dir":
                    raise BadManifest(
                        f"{entry.path!r} stands beneath {parent!r}, which is a {above.type}."
                    )
        return cls(tuple(ordered))

    @cached_property
    def by_path(self) -> Mapping[str, Entry]:
        return {entry.path: entry for entry in self.entries}

    def get(self, path: str) -> Entry | None:
        return self.by_path.get(path)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(entry.size for entry in self.entries)

    def blobs(self) -> list[str]:
        """sha256 of every file, each once, in order of first use."""
        return list(dict.fromkeys(e.sha256 for e in self.entries if e.sha256 is not None))

    def to_bytes(self) -> bytes:
        return canonical({"entries": [entry.to_json() for entry in self.entries]})

    @cached_property
    def sha256(self) -> str:
        """The tree's digest. Raises BadManifest when a file of it was never hashed."""
        for entry in self.entries:
            if entry.type == "file" and entry.sha256 is None:
                raise BadManifest(f"{entry.path!r} was not hashed, so its tree has no digest.")
        return hashlib.sha256(self.to_bytes()).hexdigest()

    def but(self, put: Iterable[Entry], removed: Iterable[str]) -> Manifest:
        """The tree after removing `removed` (with what lies beneath) and then putting `put`."""
        gone = set(removed)
        left = {
            path: entry
            for path, entry in self.by_path.items()
            if path not in gone and not any(parent in gone for parent in parents(path))
        }
        left.update((entry.path, entry) for entry in put)
        return Manifest.of(left.values())


def parse(data: bytes) -> Manifest:
    """The manifest with exactly these canonical bytes. Raises BadManifest on anything else."""
    if len(data) > MAX_BYTES:
        raise BadManifest(f"A manifest of {len(data)} bytes is over {MAX_BYTES}.")
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BadManifest("A manifest is not JSON.") from error
    if not isinstance(value, dict) or set(value) != {"entries"}:
        raise BadManifest("A manifest is not an object with entries.")
    entries = value["entries"]
    if not isinstance(entries, list) or len(entries) > MAX_ENTRIES:
        raise BadManifest(f"A manifest's entries are no list of at most {MAX_ENTRIES}.")
    manifest = Manifest.of(Entry.from_json(entry) for entry in entries)
    # One tree, one digest: another spelling of the same tree is not a manifest.
    if manifest.to_bytes() != data:
        raise BadManifest("A manifest is not in canonical form.")
    return manifest


def parents(path: str) -> Iterator[str]:
    """The directories above a path, nearest first, without the root."""
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


@dataclass(frozen=True)
class Change:
    """What leads from one tree to another: first remove `removed`, then put `added` and `changed`.

    removed: children before their directories. A path whose type changed stands in both
      `removed` and `changed`.
    """

    added: tuple[Entry, ...] = ()
    changed: tuple[Entry, ...] = ()
    removed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed)

    @property
    def put(self) -> tuple[Entry, ...]:
        """Everything to put, in path order (so directories before what lies in them)."""
        return by_path_order((*self.added, *self.changed))


def by_path_order(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    return tuple(sorted(entries, key=lambda entry: path_bytes(entry.path)))


def children_first(paths: Iterable[str]) -> tuple[str, ...]:
    """In an order in which each directory comes after all that lies in it."""
    return tuple(sorted(set(paths), key=path_bytes, reverse=True))


def difference(old: Manifest, new: Manifest) -> Change:
    """What leads from `old` to `new`, exactly (modes too)."""
    added = [entry for entry in new if entry.path not in old.by_path]
    changed = []
    removed = [entry.path for entry in old if entry.path not in new.by_path]
    for entry in new:
        before = old.get(entry.path)
        if before is None or before == entry:
            continue
        changed.append(entry)
        if before.type != entry.type:
            removed.append(entry.path)
    return Change(tuple(added), tuple(changed), children_first(removed))


@dataclass(frozen=True)
class Conflict:
    """A path changed on the host and in the workspace too; the workspace's stays."""

    path: str
    reason: str


@dataclass(frozen=True)
class Merge:
    """What to upload of the host's changes.

    base: what both sides count as agreed on afterwards (the host's side of a conflict too, so
      that a conflict is told once).
    """

    change: Change
    conflicts: tuple[Conflict, ...]
    base: Manifest


def merge(base: Manifest, host: Manifest, workspace: Mapping[str, Entry] | Manifest) -> Merge:
    """Bring the host's changes since `base` in, except where the workspace has changed too.

    base: what was last brought in.  host: the folder now.  workspace: what stands in the
    workspace at the paths of `asked(base, host)`; a path not in it is not there.
    """
    there = workspace.by_path if isinstance(workspace, Manifest) else workspace
    wanted = difference(base, host)
    put: dict[str, Entry] = {}
    removed: set[str] = set()
    conflicts: dict[str, str] = {}

    for entry in wanted.put:
        now, before = there.get(entry.path), base.get(entry.path)
        if entry.same(now) and now is not None:
            continue  # the workspace has it already
        if now is not None and not now.same(before):
            conflicts[entry.path] = (
                "created in the workspace too" if before is None else "changed in the workspace too"
            )
        elif now is None and before is not None and before.type != "dir":
            conflicts[entry.path] = "removed in the workspace"
        else:
            put[entry.path] = entry
    for path in wanted.removed:
        now, before = there.get(path), base.get(path)
        if now is None or path in conflicts:
            continue  # gone already, or its replacement was refused
        if path not in put and path in host.by_path:
            continue  # replaced in the workspace by the very same thing
        if not now.same(before):
            conflicts[path] = "changed in the workspace too"
        else:
            removed.add(path)

    # A directory goes only with all that lies in it; what the workspace made there stays.
    staying = [path for path in there if path not in removed]
    holding = {parent for path in staying for parent in parents(path)}
    for path in sorted(removed & holding, key=path_bytes):
        removed.discard(path)
        if path in put:
            del put[path]
            conflicts[path] = "a directory with other files in the workspace"
    # Nothing can be put beneath what stays a file or a link.
    for path in list(put):
        for parent in parents(path):
            above = there.get(parent)
            if above is not None and above.type != "dir" and parent not in removed:
                del put[path]
                conflicts[path] = f"{shown(parent)} is no directory in the workspace"
                break

    change = Change(
        tuple(entry for path, entry in put.items() if path not in base.by_path),
        tuple(entry for path, entry in put.items() if path in base.by_path),
        children_first(removed),
    )
    told = tuple(Conflict(path, conflicts[path]) for path in sorted(conflicts, key=path_bytes))
    return Merge(change, told, host)


def asked(base: Manifest, host: Manifest) -> tuple[tuple[str, ...], bool]:
    """The paths whose state in the workspace `merge` needs, and whether it needs all others too.

    The second is true when the host removed or replaced a directory (what else the workspace
    holds in there must be known), or a link (only a listing tells where a link leads).
    """
    change = difference(base, host)
    paths = {entry.path for entry in change.put} | set(change.removed)
    paths.update(parent for entry in change.put for parent in parents(entry.path))
    touched = [base.by_path[path] for path in paths if path in base.by_path]
    removed = set(change.removed)
    whole = any(e.type == "link" or (e.type == "dir" and e.path in removed) for e in touched)
    return tuple(sorted(paths, key=path_bytes)), whole
