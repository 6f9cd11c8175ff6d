"""What is asked for becomes a lock, a built environment, and a name for it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from reprise.environments.build import Built, build
from reprise.environments.interpreter import find_interpreter
from reprise.environments.lock import Lock, made, normalised, parse_lock
from reprise.environments.resolve import Resolved, Wanted, read_lock, resolve
from reprise.failpoints import failpoint
from reprise.sandbox.built import built_folder
from reprise.sandbox.documents import read_json
from reprise.sandbox.named import (
    NamedEnvironment,
    create,
    file_of,
    load,
    load_or_new,
    name_taken,
    save,
)

Told = Callable[[str], None]


@dataclass(frozen=True)
class Created:
    """lock, built: None for what is not built (an image).  added: see `Resolved`."""

    environment: NamedEnvironment
    lock: Lock | None = None
    built: Built | None = None
    added: tuple[str, ...] = ()


def check_free(name: str, *, replaces: bool) -> None:
    """Raises UsageError for what is no name, and for a taken one unless it is to be replaced."""
    if file_of(name).exists() and not replaces:
        raise name_taken(name)


def from_requirements(
    name: str,
    wanted: Wanted,
    *,
    python: str | None = None,
    find_links: Sequence[Path] = (),
    settings_of: NamedEnvironment | None = None,
    replaces: bool = False,
    told: Told = lambda _: None,
) -> Created:
    """Resolve, lock, build, and name. Blocks, for minutes.

    settings_of: whose limits, mounts and so on a new one gets. Raises what each part raises;
    then nothing has that name that had not before.
    """
    check_free(name, replaces=replaces)
    with tempfile.TemporaryDirectory(prefix="reprise-env-") as scratch:
        interpreter = find_interpreter(python, folder=Path(scratch))
    told(f"resolving for Python {interpreter.about['series']} …")
    resolved = resolve(wanted, interpreter, find_links=_folders(find_links))
    built = build(resolved.lock, interpreter, find_links=_folders(find_links), told=told)
    return _named(name, resolved, built, settings_of, replaces=replaces)


def from_lock(
    name: str,
    path: Path,
    *,
    python: str | None = None,
    find_links: Sequence[Path] = (),
    replaces: bool = False,
    told: Told = lambda _: None,
) -> Created:
    """Build a lock, and name it. Blocks, for minutes. Raises as `from_requirements`."""
    check_free(name, replaces=replaces)
    with tempfile.TemporaryDirectory(prefix="reprise-env-") as scratch:
        interpreter = find_interpreter(python, folder=Path(scratch))
    lock = read_lock(path, interpreter, find_links=_folders(find_links))
    built = build(lock, interpreter, find_links=_folders(find_links), told=told)
    return _named(name, Resolved(lock, ()), built, None, replaces=replaces)


def promoted(
    name: str,
    base_lock: str | None,
    base: Sequence[str],
    pins: Sequence[str],
    *,
    python: str | None = None,
    without: Sequence[str] = (),
    wheels: Path | None = None,
    find_links: Sequence[Path] = (),
    settings_of: NamedEnvironment | None = None,
    replaces: bool = False,
    told: Told = lambda _: None,
) -> Created:
    """An environment of what another one holds and some packages on top. Blocks, for minutes.

    base_lock: of the other one, where it was built: its packages keep the very files they had.
    base: else its packages, NAME==VERSION.  pins: those on top; they win.  wheels: a folder with
      the very files of some of them.  without: names that are left out of all.
    Nothing is added but what a kernel needs: the two together did run.
    """
    check_free(name, replaces=replaces)
    with tempfile.TemporaryDirectory(prefix="reprise-env-") as scratch:
        interpreter = find_interpreter(python, folder=Path(scratch))
    on_top = {normalised(pin.partition("==")[0]): pin for pin in pins}
    out = {normalised(each) for each in without}
    below = {normalised(pin.partition("==")[0]): pin for pin in base}
    lines = [pin for key, pin in {**below, **on_top}.items() if key not in out]
    told("looking up the files of each package …")
    links = _folders(find_links)
    wanted = Wanted(lines=tuple(lines), exactly=True, wheels=wheels)
    resolved = resolve(wanted, interpreter, find_links=links)
    lock = resolved.lock
    if base_lock is not None:
        kept = parse_lock(base_lock, "its lock", interpreter.tag, interpreter.platform).pins
        kept = tuple(pin for pin in kept if pin.name not in {*on_top, *out})
        names = {pin.name for pin in kept}
        new = tuple(pin for pin in lock.pins if pin.name not in names)
        lock = made((*kept, *new), "the two together", interpreter.tag, interpreter.platform)
    added = tuple(each for each in resolved.added if base_lock is None and each not in below)
    links = [*([wheels] if wheels else []), *links]
    built = build(lock, interpreter, find_links=links, told=told)
    return _named(name, Resolved(lock, added), built, settings_of, replaces=replaces)


def interpreter_of(digest: str) -> str | None:
    """The path of the Python that an environment was built on; None when it is not here."""
    about = read_json(built_folder(digest) / "about.json")
    return str(about["python"]) if isinstance(about, dict) and "python" in about else None


def from_environment(name: str, other: str, *, replaces: bool = False) -> Created:
    """Another name for what an environment stands on and says."""
    check_free(name, replaces=replaces)
    return Created(_kept(replace(load(other), name=name), replaces=replaces))


def on_image(name: str, image: str, *, replaces: bool = False) -> Created:
    """Name an image that has been looked into (`environments.image`)."""
    environment = replace(_settings(name, None), packages=None, image=image)
    return Created(_kept(environment, replaces=replaces))


def kept_wheels(environment: NamedEnvironment) -> list[Path]:
    """The folder of wheels that an environment was built of and no index has."""
    if environment.packages is None:
        return []
    folder = built_folder(environment.packages) / "wheels"
    return [folder] if folder.is_dir() else []


def _named(
    name: str,
    resolved: Resolved,
    built: Built,
    settings_of: NamedEnvironment | None,
    *,
    replaces: bool,
) -> Created:
    failpoint("environment-named")
    environment = replace(_settings(name, settings_of), packages=built.digest, image=None)
    return Created(_kept(environment, replaces=replaces), resolved.lock, built, resolved.added)


def _settings(name: str, other: NamedEnvironment | None) -> NamedEnvironment:
    """What a name that is replaced says of limits and the like; else what another one says."""
    if other is not None and not file_of(name).exists():
        return replace(other, name=name)
    return load_or_new(name)


def _kept(environment: NamedEnvironment, *, replaces: bool) -> NamedEnvironment:
    if replaces:
        save(environment)
    else:
        create(environment)
    return environment


def _folders(find_links: Sequence[Path]) -> list[Path]:
    return [path.absolute() for path in find_links]
