"""The notebook's folder on the host: what of it comes in, and what of that has changed since.

`HostFolder.first()` hashes everything once. Before each later step `moved()` compares stat
signatures only (a fraction of a millisecond for a hundred files), and `changes()` reads what
it has to when something moved. All of them block: call them in a thread, `moved()` on the event
loop where `cheap` is true (a thread costs as much as the walk of a small folder).

Which files come in, when not all may: those of before stay, then the smaller ones first
(size, then path), until the bounds are met. Code and settings are small; what is large is data,
and data is mounted.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from reprise.quantities import amount
from reprise.settings import FOLDER_BYTES, FOLDER_FILES, home_path
from reprise.workspace.manifest import Entry, Manifest, parents, path_text, shown
from reprise.workspace.walk import Found, LeftOut, Signature, Walk, chunks, hash_file, walk
from reprise.workspace.watch import FolderWatch

#: A file changed less than this before it was read may change again without its times moving
#: (Git calls it racily clean). Two seconds is FAT's granularity, the coarsest there is.
RACY_NS = 2_000_000_000
#: A walk that takes less than this does not keep an event loop from its work.
CHEAP_S = 0.002
#: A walk that takes longer than this is not made before every step …
EXPENSIVE_S = 0.020
#: … but so that it takes at most a twentieth of the time, and is at most so long overdue.
REST = 20.0
LONGEST_REST_S = 1.0

#: So many of the files left out are named in a sentence; the rest are counted.
NAMED = 3


@dataclass(frozen=True)
class Bounds:
    """How much of a folder may come in: bytes of all files, and how many entries."""

    bytes: int = FOLDER_BYTES
    files: int = FOLDER_FILES


@dataclass(frozen=True)
class Scan:
    """What of a folder comes in.

    too_big: something was left out only because of the bounds, or everything because the
      folder cannot be a project's.
    reason: one sentence for people when too_big, else "".
    """

    manifest: Manifest
    left_out: tuple[LeftOut, ...] = ()
    too_big: bool = False
    reason: str = ""


@dataclass(frozen=True)
class _Read:
    """What a file was when it was last read, and the time just before that."""

    signature: Signature
    entry: Entry
    at_ns: int

    def still(self, signature: Signature) -> bool:
        """Whether the file certainly is what it was."""
        return self.signature == signature and self.at_ns - signature.ctime_ns > RACY_NS


class HostFolder:
    """A notebook's folder, looked at again before each step.

    notebook: the notebook's own path. It comes in once, with the first upload, and later changes
      of it do not: it is saved after every few cells, with all outputs, so it would make an
      upload of nearly every step, and a cell that reads it back would differ on each replay.
    exclude: directories that never come in (mounted data, say); REPRISE_HOME is always one.
    """

    def __init__(
        self,
        root: Path,
        bounds: Bounds | None = None,
        *,
        notebook: Path | None = None,
        exclude: Iterable[Path] = (),
    ) -> None:
        self.root = Path(root)
        self.bounds = bounds or Bounds()
        #: What came in so far, or stands in its place now: chosen again before anything new.
        self.known = Manifest()
        self.scanned: Scan | None = None
        self._exclude = (*exclude, home_path())
        self._notebook = _beneath(self.root, notebook)
        self._read: dict[str, _Read] = {}
        self._seen: dict[str, object] = {}
        self._walked_at = 0.0
        self._walk_s = 0.0
        self._stopped = False
        self._watch = FolderWatch(os.fsencode(self.root))

    def keep(self, known: Manifest) -> None:
        """Those files came in before, in an earlier process. Call it before `first`."""
        self.known = known

    @property
    def cheap(self) -> bool:
        """Whether the last walk was short enough to be made on the event loop."""
        return self._walk_s < CHEAP_S

    @property
    def due(self) -> bool:
        """Whether it is time to look again: never while the system says that nothing changed.

        A folder whose walk takes more than 20 ms is looked at about once a second only: the
        price is that a file saved less than that before a cell may come in with the next one.
        A folder too large to walk is not looked at again at all.
        """
        if self._stopped or self._watch.quiet():
            return False
        rest = min(REST * self._walk_s, LONGEST_REST_S) if self._walk_s > EXPENSIVE_S else 0.0
        return time.monotonic() - self._walked_at >= rest

    def moved(self) -> bool:
        """Whether anything may have changed since the last scan; reads no file."""
        found = self._walk()
        if found.runaway is not None or self._signatures(found) != self._seen:
            return True
        return any(not read.still(read.signature) for read in self._read.values())

    def first(self) -> Scan:
        """Everything that may come in, hashed."""
        self.scanned = self._scan(self._walk())
        return self.scanned

    def changes(self) -> Scan | None:
        """The folder now, when anything that comes in or is left out has changed; else None."""
        before = self.scanned
        scan = self.first()
        return None if scan == before else scan

    def read(self, entry: Entry) -> Iterator[bytes]:
        """A file's bytes as they are now, at most the entry's size, in bounded pieces.

        They may differ from what was hashed: name what was read. Raises OSError.
        """
        return chunks(self.root, entry.path, entry.size)

    def _walk(self) -> Walk:
        found = walk(self.root, self._exclude)
        self._walk_s = found.seconds
        self._walked_at = time.monotonic()
        self._stopped = found.runaway is not None
        if not self._stopped:
            self._watch.walked(each.path for each in found.found if each.type == "dir")
        return found

    def _signatures(self, found: Walk) -> dict[str, object]:
        """What must be equal for the folder to count as unmoved."""
        seen: dict[str, object] = {each.path: each.reason for each in found.left_out}
        for each in found.found:
            # A directory's times move whenever an editor saves through a temporary file.
            seen[each.path] = each.mode if each.type == "dir" else (each.signature, each.target)
        if self._notebook is not None:
            seen.pop(self._notebook, None)
        return seen

    def _scan(self, found: Walk) -> Scan:
        if found.runaway is not None:
            # Nothing new comes in, and what came in before is not taken for removed.
            return Scan(self.known, (), True, runaway_sentence(self.root, found.runaway))
        self._seen = self._signatures(found)
        chosen, over = self._choose(found.found)
        entries, unread = self._entries(chosen)
        left_out = (*found.left_out, *over, *unread)
        # What came in before and is still there, though out of reach now, was not removed.
        beyond = {each.path for each in left_out}
        for entry in self.known if beyond else ():
            if entry.path not in entries and (
                entry.path in beyond or any(parent in beyond for parent in parents(entry.path))
            ):
                entries[entry.path] = entry
        if entries != self.known.by_path:
            self.known = Manifest.of(entries.values())
        return Scan(
            self.known,
            tuple(sorted(left_out, key=lambda each: (-each.size, each.path))),
            bool(over),
            too_big_sentence(self.root, self.bounds, over) if over else "",
        )

    def _choose(self, found: list[Found]) -> tuple[list[Found], list[LeftOut]]:
        bytes_left, files_left = self.bounds.bytes, self.bounds.files
        if len(found) <= files_left and sum(each.size for each in found) <= bytes_left:
            return found, []
        known = self.known.by_path
        chosen: list[Found] = []
        over: list[LeftOut] = []
        inner = [each for each in found if each.type != "dir"]
        for each in sorted(inner, key=lambda e: (e.path not in known, e.size, e.path)):
            if each.size > bytes_left:
                over.append(LeftOut(each.path, "did not fit any more", each.size))
            elif files_left <= 0:
                over.append(LeftOut(each.path, "was one file too many", each.size))
            else:
                bytes_left -= each.size
                files_left -= 1
                chosen.append(each)
        # Only the directories that something lies in: thousands of empty ones are a bound too.
        needed = {parent for each in chosen for parent in parents(each.path)}
        chosen += [each for each in found if each.type == "dir" and each.path in needed]
        return chosen, over

    def _entries(self, chosen: list[Found]) -> tuple[dict[str, Entry], list[LeftOut]]:
        entries: dict[str, Entry] = {}
        unread: list[LeftOut] = []
        fresh: dict[str, _Read] = {}
        for each in chosen:
            known = self.known.get(each.path)
            if each.type != "file":
                mode = 0o777 if each.type == "link" else each.mode
                entries[each.path] = Entry(each.path, each.type, mode, target=each.target)
                continue
            if each.path == self._notebook and known is not None:
                entries[each.path] = known
                continue
            read = self._read.get(each.path)
            if read is None or not read.still(each.signature):
                try:
                    read = self._hash(each)
                except FileNotFoundError:
                    continue  # gone since the walk
                except OSError as error:
                    reason = f"cannot be read ({error.strerror or error})"
                    unread.append(LeftOut(each.path, reason, each.size))
                    continue
            if each.path != self._notebook:
                fresh[each.path] = read
            entries[each.path] = read.entry
        self._read = fresh
        return entries, unread

    def _hash(self, each: Found) -> _Read:
        at_ns = time.time_ns()
        size, sha256 = hash_file(self.root, each.path, each.size)
        return _Read(each.signature, Entry(each.path, "file", each.mode, size, sha256), at_ns)


def scan(root: Path, bounds: Bounds | None = None) -> Scan:
    """What of a folder comes in, looked at once. Blocks."""
    return HostFolder(root, bounds).first()


def _beneath(root: Path, path: Path | None) -> str | None:
    """The path relative to root as manifests write it, or None when it is not beneath."""
    if path is None:
        return None
    inner = os.fsencode(os.path.relpath(root / path, root))
    return None if inner.startswith(b"..") else path_text(inner)


def too_big_sentence(root: Path, bounds: Bounds, over: list[LeftOut]) -> str:
    """One sentence: what did not come in, the largest by name, and what to do."""
    largest = sorted(over, key=lambda each: (-each.size, each.path))
    names = ", ".join(f"{shown(each.path)} ({amount(each.size)})" for each in largest[:NAMED])
    more = f" and {len(over) - NAMED:,} more" if len(over) > NAMED else ""
    where = os.path.commonpath([Path(each.path).parent for each in largest[:NAMED]])
    return (
        f"The notebook's folder {root} is over {amount(bounds.bytes)} or {bounds.files:,} files, "
        f"so {len(over):,} of its files did not come into the sandbox: {names}{more}. To show "
        f"them to your cells read-only, run: reprise env mount {shown(str(root / where))}"
    )


def runaway_sentence(root: Path, why: str) -> str:
    """One sentence: nothing came in, and what to do."""
    return (
        f"None of the notebook's folder {root} came into the sandbox, because {why}. Move the "
        f"notebook into a folder of its own with what it needs, or run: reprise env mount DIR "
        f"for the directory DIR that holds its data"
    )
