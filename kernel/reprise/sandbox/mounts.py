"""Host data shown read-only in sandboxes: which directories may be, and what they held.

What a mounted directory holds is recorded as a listing of sizes and times; its hash is part of
the environment, so that a resume on changed data can say so. Contents are hashed only when
somebody asks (`content_hashes`): large data is why mounts exist.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from reprise.errors import UsageError
from reprise.log.model import canonical
from reprise.sandbox.documents import read_json, write_json
from reprise.settings import home_path

#: What `reprise env mount` lists, once.
RECORD_ENTRIES = 1_000_000
RECORD_SECONDS = 120.0
#: What each start of a kernel looks at again; larger directories count as unchanged.
CHECK_ENTRIES = 20_000
CHECK_SECONDS = 0.5

#: Never mounted, nor what lies in them: the machine's own, with its keys.
_SYSTEM = ("/proc", "/sys", "/dev", "/run", "/boot", "/etc", "/root/.ssh", "/var/run")
#: Directories of a home that hold keys.
_KEYS = (".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".config/gcloud", ".netrc")
#: Where mounts may stand inside, besides the very path they have outside.
_PLACES = ("/data", "/mnt", "/media", "/srv")


@dataclass(frozen=True)
class DataMount:
    """A mount as it is set. manifest: sha256 (hex) of the listing taken when it was set."""

    source: Path
    target: str
    manifest: str

    def to_json(self) -> dict[str, Any]:
        return {"source": str(self.source), "target": self.target, "manifest": self.manifest}

    @classmethod
    def from_json(cls, value: Any) -> DataMount:
        """Raises UsageError."""
        if not isinstance(value, dict) or set(value) != {"source", "target", "manifest"}:
            raise UsageError("a mount is an object of source, target and manifest.")
        source, target, manifest = value["source"], value["target"], value["manifest"]
        if not (isinstance(source, str) and isinstance(target, str) and isinstance(manifest, str)):
            raise UsageError("source, target and manifest of a mount are texts.")
        if not source.startswith("/"):
            raise UsageError(f"the source {source!r} is not an absolute path.")
        checked = check_allowed(Path(source))
        return cls(checked, check_target(target, checked), manifest)


@dataclass(frozen=True)
class Listing:
    """What a directory holds. complete: whether all of it was seen within the bounds."""

    sha256: str
    files: int
    size: int
    complete: bool


def check_source(directory: Path) -> Path:
    """The directory's real path when it may be mounted. Raises UsageError with the reason."""
    path = Path(os.path.realpath(Path(directory).expanduser()))
    if not path.exists():
        raise UsageError(f"{path} is not there, so it cannot be mounted.")
    if not path.is_dir():
        raise UsageError(f"{path} is no directory. Mount the directory it lies in.")
    if not os.access(path, os.R_OK | os.X_OK):
        raise UsageError(f"You may not read {path}, so a sandbox of yours cannot either.")
    return check_allowed(path)


def check_allowed(path: Path) -> Path:
    """`path` when no rule forbids to mount it, there or not. Raises UsageError."""
    own = Path.home()
    refused: list[tuple[Path, str]] = [
        (Path(os.path.realpath(home_path())), "it holds Reprise's own state and database"),
        (own, "it is a whole home directory, with its keys and tokens"),
    ]
    for inside, why in refused:
        if path == inside or path in inside.parents:
            raise UsageError(f"{path} is not mounted: {why}. Mount a directory with data alone.")
    state = refused[0][0]
    inner = [
        (state, "it holds Reprise's own state and database"),
        *((Path(each), "it belongs to the system") for each in _SYSTEM),
        *((own / each, "it holds keys") for each in _KEYS),
    ]
    for above, why in inner:
        if path == above or above in path.parents:
            raise UsageError(f"{path} is not mounted: {why}.")
        if path in above.parents and path in (Path("/"), Path("/var"), Path("/root")):
            raise UsageError(f"{path} is not mounted: {above} lies in it.")
    return path


def check_target(target: str, source: Path) -> str:
    """Where a mount stands inside, when it may. Raises UsageError."""
    path = PurePosixPath(target)
    if (
        str(path) != target
        or ".." in path.parts
        or "\0" in target
        or not (target == str(source) or any(target.startswith(f"{place}/") for place in _PLACES))
    ):
        raise UsageError(
            f"{target!r} is no place for a mount: it must lie in {', '.join(_PLACES)}, or be "
            f"{source} itself."
        )
    return target


def record(
    source: Path, *, max_entries: int = RECORD_ENTRIES, max_seconds: float = RECORD_SECONDS
) -> Listing:
    """List a directory by sizes and times. Blocks, within the bounds.

    The hash of a listing that is not complete stands for the part seen, and is of no use.
    """
    total = hashlib.sha256(b"mount-1")
    files = size = 0
    deadline = time.monotonic() + max_seconds
    for seen, (path, found) in enumerate(_walk(os.fsencode(source), b""), 1):
        if seen > max_entries or (seen % 256 == 0 and time.monotonic() > deadline):
            return Listing(total.hexdigest(), files, size, False)
        kind = stat.S_IFMT(found.st_mode)
        line = [path.decode("utf-8", "surrogateescape"), kind]
        if stat.S_ISREG(kind):
            files += 1
            size += found.st_size
            line += [found.st_size, found.st_mtime_ns]
        total.update(canonical(line) + b"\n")
    return Listing(total.hexdigest(), files, size, True)


def current(mount: DataMount) -> str | None:
    """sha256 of what the directory holds now; the recorded one when it is too large to look.

    None when the directory is gone.
    """
    if not mount.source.is_dir():
        return None
    now = record(mount.source, max_entries=CHECK_ENTRIES, max_seconds=CHECK_SECONDS)
    return now.sha256 if now.complete else mount.manifest


def content_hashes(mount: DataMount, cache: Path) -> dict[str, str]:
    """sha256 of every file by path, computed where size and time differ from the cached ones.

    Blocks for as long as reading all of the data takes, the first time.
    """
    name = hashlib.sha256(os.fsencode(mount.source)).hexdigest()[:16]
    file = cache / f"mount-{name}.json"
    known = read_json(file)
    known = known if isinstance(known, dict) else {}
    fresh: dict[str, list[Any]] = {}
    for raw, found in _walk(os.fsencode(mount.source), b""):
        if not stat.S_ISREG(found.st_mode):
            continue
        path = raw.decode("utf-8", "surrogateescape")
        signature = [found.st_size, found.st_mtime_ns, found.st_ctime_ns]
        old = known.get(path)
        if isinstance(old, list) and old[:-1] == signature:
            fresh[path] = old
            continue
        try:
            with open(os.path.join(os.fsencode(mount.source), raw), "rb") as data:  # noqa: PTH118, PTH123
                digest = hashlib.file_digest(data, "sha256").hexdigest()
        except OSError:
            continue  # gone or unreadable: a sandbox cannot read it either
        fresh[path] = [*signature, digest]
    if fresh != known:
        write_json(file, fresh)
    return {path: str(value[-1]) for path, value in fresh.items()}


def _walk(root: bytes, prefix: bytes) -> Iterator[tuple[bytes, os.stat_result]]:
    """Everything beneath, in byte order, links not followed; what cannot be read is passed over."""
    try:
        with os.scandir(root) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        try:
            found = entry.stat(follow_symlinks=False)
        except OSError:
            continue
        path = prefix + entry.name
        yield path, found
        if stat.S_ISDIR(found.st_mode):
            yield from _walk(entry.path, path + b"/")
