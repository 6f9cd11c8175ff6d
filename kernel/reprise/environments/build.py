"""Builds the environment of a lock: whole or not at all, once for all who want the same.

It is made in a folder beside the others and gets its name last. Who builds holds two locks: of
the digest, so that a second one waits and then finds it made, and of the folder in the making, so
that what a killed builder left is known to be nobody's. uv inherits both: as long as one that
lost its parent still writes, nobody else begins.

**Nothing of the packages runs here.** They may be what an agent chose, or wheels out of a sandbox.
Only wheels are taken, which run nothing when they are installed; the environment's own interpreter
is not started once they are there (a .pth file would run), and what compiles them is the
interpreter below, without `site`.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Final

from reprise.environments.files import file_digest, list_files
from reprise.environments.interpreter import Interpreter
from reprise.environments.lock import Lock, wheel_of
from reprise.environments.uv import run_uv
from reprise.errors import UnavailableError, UsageError
from reprise.failpoints import failpoint
from reprise.sandbox.built import USE, built_folder, built_home, built_python
from reprise.sandbox.documents import write_json

MAKING: Final = ".making-"
LOCKS: Final = ".locks"
#: The bytecode says nothing of its source's time: it is read-only, and times do not travel.
_COMPILE: Final = ("-I", "-S", "-B", "-m", "compileall", "-q", "-j", "0")
_COMPILE_SECONDS: Final = 1800.0


@dataclass(frozen=True)
class Built:
    """new: whether this call made it; another one may have before."""

    digest: str
    folder: Path
    new: bool


def build(
    lock: Lock,
    interpreter: Interpreter,
    *,
    find_links: Sequence[Path] = (),
    anew: bool = False,
    told: Callable[[str], None] = lambda _: None,
) -> Built:
    """The built environment of a lock, made if it is not here. Blocks: downloads, for minutes.

    find_links: folders with wheels that no index has; those that the lock names are kept with it.
    anew: also when it is here; kernels that run keep what they have.
    Raises UsageError, UnavailableError, HashMismatch; what is there is whole then.
    """
    digest = lock.digest(interpreter.about)
    folder = built_folder(digest)
    try:
        with _locked(digest, told) as held:
            if not anew and folder.is_dir() and built_python(digest).exists():
                # No collection takes it before it has a name.
                with contextlib.suppress(FileNotFoundError):
                    os.utime(folder / USE)
                return Built(digest, folder, new=False)
            remove_left(built_home())
            with _making(built_home()) as (making, busy):
                told(f"building {len(lock.pins)} packages …")
                _fill(making, folder / "prefix", lock, interpreter, find_links, (held, busy), told)
                failpoint("environment-built")
                _finish(making, folder)
    except OSError as error:
        raise UnavailableError(
            f"The environment could not be built in {built_home()}: {error.strerror or error}. "
            "Nothing of it is left."
        ) from error
    return Built(digest, folder, new=True)


def _fill(
    making: Path,
    final: Path,
    lock: Lock,
    interpreter: Interpreter,
    find_links: Sequence[Path],
    held: Sequence[int],
    told: Callable[[str], None],
) -> None:
    prefix = making / "prefix"
    (making / "lock").write_text(lock.text, "ascii")
    (making / USE).touch()
    wheels = keep_wheels(lock, find_links, making / "wheels")
    run_uv(
        ["venv", "--relocatable", "--no-project", "--python", str(interpreter.path), str(prefix)],
        making,
        keep_open=held,
    )
    failpoint("environment-building")
    python = prefix / "bin" / "python"
    run_uv(
        # Copies: a link into uv's cache would let one change the other, and carry its modes.
        [
            *("pip", "install", "--python", str(python), "--link-mode", "copy"),
            *("--require-hashes", "--no-deps", "--only-binary", ":all:"),
            *("--no-compile-bytecode", "-r", str(making / "lock")),
        ],
        making,
        find_links=[making / "wheels"] if wheels else [],
        keep_open=held,
    )
    told("compiling …")
    base = os.path.realpath(python)
    _compile(base, prefix, final)
    about = {
        "interpreter": dict(interpreter.about),
        "python": base,
        "uv": installed_version("uv"),
    }
    write_json(making / "about.json", about, indent=2)
    write_json(making / "files.json", list_files(prefix))


def _compile(base: str, prefix: Path, final: Path) -> None:
    """Compile everything, as if it lay in `final` already. What cannot be compiled (templates,
    tests of errors) stays as it is, as with pip."""
    try:
        subprocess.run(
            [
                *(base, *_COMPILE, "--invalidation-mode", "unchecked-hash"),
                *("-s", str(prefix), "-p", str(final), str(prefix / "lib")),
            ],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=_COMPILE_SECONDS,
            env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
        )
    except subprocess.TimeoutExpired:
        raise UnavailableError(
            f"Compiling had not ended after {_COMPILE_SECONDS / 60:.0f} minutes and was stopped. "
            "Nothing of the environment is left."
        ) from None


def keep_wheels(lock: Lock, folders: Sequence[Path], into: Path) -> int:
    """Copy the wheels that a lock names by their hash out of some folders; how many there were."""
    names = {pin.name for pin in lock.pins}
    hashes = {each for pin in lock.pins for each in pin.hashes}
    kept = 0
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(f"There is no folder {folder} (--find-links). Nothing was made.")
        for path in sorted(folder.glob("*.whl")):
            # Only what may be meant is read: such a folder can hold gigabytes.
            said = wheel_of(path.name)
            if said is None or said[0] not in names or not path.is_file():
                continue
            if file_digest(path) not in hashes:
                continue
            into.mkdir(exist_ok=True)
            shutil.copyfile(path, into / path.name)
            kept += 1
    return kept


def _finish(making: Path, folder: Path) -> None:
    """Close it to writing, and give it its name."""
    for root, _, files in os.walk(making, topdown=False):
        for name in files:
            path = os.path.join(root, name)  # noqa: PTH118
            status = os.lstat(path)
            if not stat.S_ISLNK(status.st_mode):
                # The sandbox's user is nobody here, and reads it all the same.
                os.chmod(path, 0o555 if status.st_mode & stat.S_IXUSR else 0o444)  # noqa: PTH101
        if Path(root) != making:
            os.chmod(root, 0o555)  # noqa: PTH101, S103
    # What a name leads to is on the disk before the name is.
    os.sync()
    making.chmod(0o555)
    aside = folder.with_name(f"{MAKING}{secrets.token_hex(8)}")
    with contextlib.suppress(FileNotFoundError):
        folder.rename(aside)  # damaged, or its interpreter is gone
    making.rename(folder)
    remove(aside)


@contextlib.contextmanager
def _locked(digest: str, told: Callable[[str], None]) -> Iterator[int]:
    """Alone with one digest; waits for whoever builds it now."""
    locks = built_home() / LOCKS
    locks.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = os.open(locks / digest, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            told("another process builds the same; waiting for it …")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield file
    finally:
        os.close(file)


@contextlib.contextmanager
def _making(built: Path) -> Iterator[tuple[Path, int]]:
    """A folder in the making, locked as long as somebody may write into it, and gone afterwards."""
    making = built / f"{MAKING}{secrets.token_hex(8)}"
    making.mkdir(mode=0o700)
    try:
        # On the folder itself: it has no name to lose before it is whole.
        busy = os.open(making, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(busy, fcntl.LOCK_EX)
            yield making, busy
        finally:
            os.close(busy)
    finally:
        remove(making)


def remove_left(built: Path) -> int:
    """Remove what killed builders have left; how many there were. What is in the making stays."""
    removed = 0
    for path in built.glob(f"{MAKING}*"):
        with contextlib.suppress(FileNotFoundError, BlockingIOError):
            busy = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                fcntl.flock(busy, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove(path)
                removed += 1
            finally:
                os.close(busy)
    return removed


def remove(folder: Path) -> None:
    """Remove a folder that is closed to writing; one that is not there is no error."""
    for path, _, _ in os.walk(folder):
        with contextlib.suppress(OSError):
            Path(path).chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)
