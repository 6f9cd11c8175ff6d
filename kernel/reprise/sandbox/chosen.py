"""What a person chose for one session: its named environment, further hosts that it may reach.

REPRISE_HOME/chosen/SHA256-OF-A-KEY.json holds {key, environment, allow, private, session}. The
keys are those that lead to a session in the log (`jupyter.attachment`), and `session:ID`: a kernel
has to know before it has opened the log. Names of environments are this machine's, so the choice
is, too. What stands under `session:ID` counts, whichever key led there: what was taken back while
no kernel ran is taken back from the kernel that comes.

A notebook never says in which environment it wants to run: it may be a stranger's. It names a
session, and what was chosen for that session counts. Further hosts count only for the very session,
not for a copy of its notebook, which begins a session of its own.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Protocol

from reprise.errors import UsageError
from reprise.sandbox.documents import write_json
from reprise.sandbox.named import NamedEnvironment, file_of, load
from reprise.sandbox.network import PACKAGE_INDEX, check_place
from reprise.settings import DEFAULT_ENVIRONMENT, home, home_path

MAX_FILE: Final = 64 << 10
#: So many hosts may be allowed for one session.
MOST_PLACES: Final = 200
#: Seconds after which what was chosen for a kernel process is dropped: its notebook names the
#: session by then.
KERNELS_KEPT_S: Final = 30 * 86400.0

_KERNEL: Final = "kernel:"


@dataclass(frozen=True)
class Choice:
    """environment: its name; None where only hosts were allowed.  allow, private: as in
    `NetworkRules`, on top of what the environment allows."""

    environment: str | None = None
    allow: tuple[str, ...] = ()
    private: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "environment": self.environment,
            "allow": list(self.allow),
            "private": list(self.private),
        }


@dataclass(frozen=True)
class Found:
    """A choice as a kernel finds it. exact: it was made for this very session; otherwise a notebook
    names the session that it was made for, which may be a copy's."""

    choice: Choice
    exact: bool


def session_key(session: uuid.UUID) -> str:
    return f"session:{session}"


def any_made(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether anything was ever chosen for a session here."""
    return _folder(environ).is_dir()


class Started(Protocol):
    """What a kernel process was started with (`jupyter.attachment`). session: of REPRISE_SESSION.
    keys: what leads to its session, the strongest first.  identity: what the notebook names."""

    @property
    def session(self) -> uuid.UUID | None: ...
    @property
    def keys(self) -> Sequence[str]: ...
    @property
    def identity(self) -> uuid.UUID | None: ...


def find(started: Started, environ: Mapping[str, str] = os.environ) -> Found | None:
    """What was chosen for the session that a kernel process will take, if anything was.

    Raises UsageError for a file that cannot be read: nothing wider may stand in for it.
    """
    session, identity = started.session, started.identity
    exact = list(started.keys) if session is None else [session_key(session)]
    for key in exact:
        if (choice := _led(key, environ)) is not None:
            return Found(choice, exact=True)
    if session is None and identity is not None:
        choice = read(session_key(identity), environ)
        if choice is not None:
            return Found(choice, exact=False)
    return None


def _led(key: str, environ: Mapping[str, str]) -> Choice | None:
    """What was chosen for the session that a key leads to, as it is now."""
    found = _stored(key, environ)
    if found is None:
        return None
    choice, session = found
    if session is None:
        return choice
    # It is gone where the session was deleted; its hosts were allowed for no other.
    return of_session(session, environ) or replace(choice, allow=(), private=())


def of_session(session: uuid.UUID, environ: Mapping[str, str] = os.environ) -> Choice | None:
    """What was chosen for a session. Raises UsageError."""
    return read(session_key(session), environ)


def environment(
    found: Found | None, environ: Mapping[str, str] = os.environ
) -> tuple[NamedEnvironment, str | None]:
    """The environment that a kernel runs in; a sentence where the one that was chosen is gone.

    What was chosen for a session comes before REPRISE_ENVIRONMENT, which is for all. Raises
    UsageError.
    """
    if found is None:
        return load(environ=environ), None
    return applied(
        found.choice if found.exact else replace(found.choice, allow=(), private=()), environ
    )


def applied(
    choice: Choice, environ: Mapping[str, str] = os.environ
) -> tuple[NamedEnvironment, str | None]:
    """The environment that a choice means now; see `environment`."""
    name, gone = choice.environment, None
    if name is not None and name != DEFAULT_ENVIRONMENT and not file_of(name).exists():
        usual = load(environ=environ)
        gone = (
            f"The environment {name!r} that was chosen for this session is not on this machine any"
            f" more. It goes on in {usual.name!r}. Choose another one, or make it again (`reprise"
            " env create`)."
        )
        name = usual.name
    return with_hosts(load(name, environ), choice), gone


def with_hosts(named: NamedEnvironment, choice: Choice) -> NamedEnvironment:
    """An environment that also allows the hosts of a choice."""
    rules = named.network
    private = _union(rules.private, choice.private)
    allow = tuple(each for each in _union(rules.allow, choice.allow) if each not in private)
    return replace(named, network=replace(rules, allow=allow, private=private))


def choose(
    session: uuid.UUID,
    choice: Choice,
    keys: Iterable[str] = (),
    environ: Mapping[str, str] = os.environ,
) -> None:
    """Write what was chosen for a session, and that these keys lead to it; it counts from the next
    start of a kernel on. Raises UnavailableError."""
    home(environ)
    for key in dict.fromkeys((session_key(session), *keys)):
        if _stored_or_none(key, environ) != (choice, session):
            said = {"key": key, **choice.to_json(), "session": str(session)}
            write_json(_file(key, environ), said, indent=2)
    _prune(environ)


def keep(found: Found, session: uuid.UUID, keys: Sequence[str]) -> None:
    """What a kernel found is the session's that it took, also when that is another one (a copy's, a
    fork's); and its keys lead to the same. Raises UsageError, UnavailableError."""
    own = of_session(session)
    if own is None:
        own = found.choice if found.exact else replace(found.choice, allow=(), private=())
    # Kernels come and go; their own keys are for what is chosen while one runs.
    led = [k for k in keys if not k.startswith(_KERNEL) or _file(k, os.environ).exists()]
    choose(session, own, led)


def inherit(parent: uuid.UUID, fork: uuid.UUID) -> None:
    """A fork has what was chosen for the session that it came from. Raises UsageError,
    UnavailableError."""
    choice = of_session(parent)
    if choice is not None:
        choose(fork, choice)


def forget(session: uuid.UUID) -> None:
    """Of a session that was deleted."""
    _file(session_key(session), os.environ).unlink(missing_ok=True)


def more_hosts(choice: Choice, places: Iterable[str], *, private: bool) -> Choice:
    """A choice with further hosts. Raises UsageError."""
    added = [check_place(each, (PACKAGE_INDEX,)) for each in places]
    # Where the index is counts as named by whoever configured it, so it is never private.
    if private and PACKAGE_INDEX not in added:
        kept = [each for each in choice.allow if each not in added]
        made = replace(choice, allow=tuple(kept), private=_union(choice.private, added))
    else:
        added = [each for each in added if each not in choice.private]
        made = replace(choice, allow=_union(choice.allow, added))
    if len(made.allow) + len(made.private) > MOST_PLACES:
        raise UsageError(
            f"At most {MOST_PLACES} places can be allowed for one session. Nothing was changed."
            " Take some back, or allow them in its environment (`reprise env allow`)."
        )
    return made


def fewer_hosts(choice: Choice, places: Iterable[str]) -> Choice:
    """A choice without these hosts. Raises UsageError for one that it does not name."""
    gone = [each.lower() for each in places]
    there = (*choice.allow, *choice.private)
    for each in gone:
        if each not in there:
            raise UsageError(
                f"{each!r} is no place that was allowed for this session, so nothing was changed."
                f" Allowed: {', '.join(there) or 'none'}."
            )
    return replace(
        choice,
        allow=tuple(each for each in choice.allow if each not in gone),
        private=tuple(each for each in choice.private if each not in gone),
    )


def read(key: str, environ: Mapping[str, str] = os.environ) -> Choice | None:
    """What stands under a key. Raises UsageError for a file that holds something else."""
    found = _stored(key, environ)
    return None if found is None else found[0]


def _stored(key: str, environ: Mapping[str, str]) -> tuple[Choice, uuid.UUID | None] | None:
    """As `read`, with the session that the key leads to; None in files of before."""
    path = _file(key, environ)
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from error
    try:
        value = json.loads(data)
        if not isinstance(value, dict) or value.get("key") != key:
            raise ValueError("it holds something else than was chosen under its key")
        session = value.get("session")
        return _choice(value), None if session is None else uuid.UUID(str(session))
    except (ValueError, RecursionError, UsageError) as error:
        raise UsageError(
            f"{path} does not say what was chosen for this session: {error}. Remove it, and choose"
            " again."
        ) from error


def _stored_or_none(key: str, environ: Mapping[str, str]) -> tuple[Choice, uuid.UUID | None] | None:
    """As `_stored`; None also for a file that cannot be read, and is about to be replaced."""
    try:
        return _stored(key, environ)
    except UsageError:
        return None


def _choice(value: Mapping[str, Any]) -> Choice:
    name = value.get("environment")
    if name is not None:
        if not isinstance(name, str):
            raise UsageError("environment is no text")
        file_of(name)
    places = {}
    for field, named in (("allow", (PACKAGE_INDEX,)), ("private", ())):
        listed = value.get(field, [])
        if not isinstance(listed, list):
            raise UsageError(f"{field} is no list")
        places[field] = tuple(check_place(each, named) for each in listed)
    return Choice(name, **places)


def _union(old: Iterable[str], new: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*old, *new)))


def _folder(environ: Mapping[str, str]) -> Path:
    return home_path(environ) / "chosen"


def _file(key: str, environ: Mapping[str, str]) -> Path:
    return _folder(environ) / f"{hashlib.sha256(key.encode()).hexdigest()}.json"


def _prune(environ: Mapping[str, str]) -> None:
    """Drop what was chosen for kernel processes of long ago."""
    before = time.time() - KERNELS_KEPT_S
    for path in _folder(environ).glob("*.json"):
        with contextlib.suppress(OSError, ValueError, RecursionError):
            if path.stat().st_mtime < before:
                value = json.loads(path.read_bytes())
                if str(value.get("key", "")).startswith(_KERNEL):
                    path.unlink()
