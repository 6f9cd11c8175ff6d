"""Whether an environment is still what it says: every file, the interpreter, the lock."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from reprise.environments.build import build
from reprise.environments.files import Differences, against_records, compared, list_files
from reprise.environments.image import look_into
from reprise.environments.interpreter import find_interpreter
from reprise.environments.lock import Lock, parse_lock
from reprise.errors import RepriseError, UnavailableError, UsageError
from reprise.sandbox.built import SHOWN, built_folder, built_lock, built_python
from reprise.sandbox.contract import LanguageKernel
from reprise.sandbox.documents import read_json
from reprise.sandbox.imaged import image_prefix
from reprise.sandbox.packages import probe, site_packages

#: Files of one kind that are named; more are counted.
NAMED: Final = 10


@dataclass(frozen=True)
class Checked:
    """problems: what is not so, in sentences; none when all is as it should be.

    files: how many were compared by their hashes.  notes: what is worth knowing and no problem.
    """

    problems: tuple[str, ...]
    files: int = 0
    notes: tuple[str, ...] = field(default=())


def check_built(digest: str, told: Callable[[str], None] = lambda _: None) -> Checked:
    """Compare a built environment with what its digest says. Blocks: reads all of it."""
    folder = built_folder(digest)
    if not folder.is_dir():
        return Checked((f"It is not on this machine: {folder} is missing.",))
    about = read_json(folder / "about.json")
    told("looking at the interpreter …")
    problems = [*_interpreter(digest, about), *_lock(digest, about)]
    listed = read_json(folder / "files.json")
    prefix = folder / "prefix"
    if not isinstance(listed, dict):
        problems.append(f"Its list of files cannot be read ({folder / 'files.json'}).")
        return Checked(tuple(problems))
    told(f"comparing {len(listed):,} files …")
    found = list_files(prefix)
    problems += sentences(compared(listed, found))
    recorded, _ = against_records(sorted(prefix.glob("lib/python3*/site-packages")))
    # A file list that was changed with its file is found out by the RECORD of the wheel.
    known = {str(prefix / name) for name in compared(listed, found).changed}
    others = tuple(path for path in recorded.changed if path not in known)
    problems += sentences(Differences(others), "does not match its package's RECORD")
    return Checked(tuple(problems), len(found))


def repair(digest: str, told: Callable[[str], None] = lambda _: None) -> None:
    """Build a damaged environment anew of its own lock. Blocks, for minutes.

    Raises UsageError when the lock is not the one that the digest names, or the interpreter is
    another build; what `build` raises. What was there stays then.
    """
    folder = built_folder(digest)
    about = read_json(folder / "about.json")
    lock = built_of(digest, about)
    if lock is None or _lock(digest, about):
        raise UsageError(
            f"It cannot be repaired here: what {folder} says of its lock is not what the digest "
            f"{digest[:SHOWN]} names. Build it from a copy of its lock: `reprise env create NAME "
            "--replace --lock FILE` (a session that ran in it has one: `reprise export`)."
        )
    interpreter = find_interpreter(str(about["python"]), folder=folder)
    if lock.digest(interpreter.about) != digest:
        raise UsageError(
            f"It cannot be repaired here: {about['python']} is not the build of Python that it was "
            "built on any more. `reprise env create NAME --replace --lock FILE` builds it on the "
            "one that is here now, under a digest of its own."
        )
    wheels = [folder / "wheels"] if (folder / "wheels").is_dir() else []
    build(lock, interpreter, find_links=wheels, anew=True, told=told)


def check_host(kernel: LanguageKernel, told: Callable[[str], None] = lambda _: None) -> Checked:
    """Compare what is installed in the host's own prefix with its RECORDs. Blocks: reads all of it.

    What the digest of such an environment cannot see: files that were changed by hand.
    """
    executable = Path(kernel.argv[0])
    try:
        about = probe(str(executable))
    except OSError as error:
        return Checked((f"Its interpreter does not run: {error}.",))
    told("comparing installed files with their RECORDs …")
    found, files = against_records(list(site_packages(executable, about)))
    return Checked(tuple(sentences(found)), files)


def check_image(image: str, told: Callable[[str], None] = lambda _: None) -> Checked:
    """Look into an image again, and compare with what was found before. Blocks: may fetch it.

    What it holds was compared with its digest when it was unpacked.
    """
    try:
        before = image_prefix(image, "")
    except UnavailableError:
        before = None
    try:
        now = look_into(image, told)
    except RepriseError as error:
        return Checked((str(error),))
    if before is None or before == now:
        return Checked((), len(now.packages))
    was, has = ({p.name: p for p in each.packages} for each in (before, now))
    names = sorted(n for n in was.keys() | has.keys() if was.get(n) != has.get(n))
    what = ", ".join(names[:NAMED]) or "its interpreter"
    return Checked((f"What was unpacked of it is not what it was: {what}.",), len(now.packages))


def built_of(digest: str, about: Any) -> Lock | None:
    """The lock of a built environment, if it can be read."""
    text = built_lock(digest)
    if text is None or not isinstance(about, Mapping):
        return None
    interpreter = about.get("interpreter", {})
    try:
        return parse_lock(text, "lock", interpreter["cache_tag"], interpreter["platform"])
    except (UsageError, KeyError, TypeError):
        return None


def _lock(digest: str, about: Any) -> list[str]:
    lock = built_of(digest, about)
    if lock is None:
        return [f"Its lock cannot be read ({built_folder(digest) / 'lock'})."]
    try:
        same = lock.digest(about["interpreter"]) == digest
    except (KeyError, TypeError):
        same = False
    return [] if same else [f"Its lock is not the one that the digest {digest[:SHOWN]} names."]


def _interpreter(digest: str, about: Any) -> list[str]:
    python = built_python(digest)
    if not isinstance(about, Mapping) or not isinstance(about.get("interpreter"), Mapping):
        return [f"What it was built with cannot be read ({built_folder(digest) / 'about.json'})."]
    real = os.path.realpath(python)
    if not os.path.exists(real):  # noqa: PTH110
        return [f"The interpreter that it stands on is gone ({real})."]
    try:
        now = probe(str(python))
    except OSError as error:
        return [f"Its interpreter does not run: {error}."]
    was = about["interpreter"]
    return [
        f"The interpreter is another build: {key} was {was.get(key)!r}, is {now[key]!r} ({real})."
        for key in ("version", "cache_tag", "platform")
        if was.get(key) != now[key]
    ]


def sentences(found: Differences, changed: str = "has changed") -> list[str]:
    """Differences for people, so many of each kind by name."""
    said: list[str] = []
    for paths, what in (
        (found.changed, changed),
        (found.missing, "is missing"),
        (found.added, "was added"),
    ):
        said += [f"{path} {what}." for path in paths[:NAMED]]
        if len(paths) > NAMED:
            said.append(f"… and {len(paths) - NAMED:,} more like it.")
    return said
