"""Which paths a skill's files may have, so that it can be kept on every system (pure).

A skill moves between Linux, macOS and Windows, and through Git, zip and tar. A path that one of
these cannot hold, or that two files would share on one of them, is refused with the reason.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from reprise.errors import BadSkill
from reprise.skills.contract import MAX_DEPTH
from reprise.workspace.manifest import BadManifest, check_path, parents, shown

#: What machines leave behind in folders. It is no part of a skill, wherever it comes from: running
#: or linting a script once must not make another skill of it, Git's own files would give away a
#: history (and hooks in them would run elsewhere), and compiled Python need not be its source.
LEFT_OUT = frozenset(
    {
        *(".git", ".hg", ".svn"),
        *("__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".ipynb_checkpoints"),
        *(".ds_store", "__macosx", "thumbs.db", "desktop.ini"),
    }
)

#: Names of devices on Windows, whatever their suffix ("Naming Files, Paths, and Namespaces").
_DEVICES = frozenset(
    {"con", "prn", "aux", "nul", "conin$", "conout$"}
    | {kind + digit for kind in ("com", "lpt") for digit in "0123456789¹²³"}
)
#: What Windows allows in no name; "/" cannot stand in one anyway.
_NOT_IN_NAMES = re.compile(r'[<>:"\\|?*\x00-\x1f\x7f]')


def is_left_out(path: str) -> bool:
    """Whether what lies at `path` is no part of a skill (`LEFT_OUT`)."""
    return any(part.casefold() in LEFT_OUT for part in path.split("/"))


def checked_path(path: str) -> str:
    """`path` when a file of a skill may have it. Raises BadSkill with the reason."""
    try:
        check_path(path)
    except BadManifest as error:
        raise BadSkill(f"A file cannot be part of a skill. {error}") from error
    where = f"The file {shown(path)} cannot be part of a skill"
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise BadSkill(f"{where}: its name is not UTF-8. Rename it.") from error
    names = path.split("/")
    if len(names) - 1 > MAX_DEPTH:
        raise BadSkill(f"{where}: it lies more than {MAX_DEPTH} folders deep.")
    for name in names:
        bad = _NOT_IN_NAMES.search(name)
        if bad:
            raise BadSkill(
                f"{where}: Windows allows no {shown(bad.group())!r} in a name. Rename it."
            )
        if name[-1] in ". ":
            raise BadSkill(
                f"{where}: Windows drops the {'dot' if name[-1] == '.' else 'space'} at the end of "
                "a name. Rename it."
            )
        if name.partition(".")[0].rstrip(" ").casefold() in _DEVICES:
            raise BadSkill(f"{where}: {shown(name)} is a device on Windows. Rename it.")
    return path


def folded(path: str) -> str:
    """Equal for two paths that are one where case, or how accents are written, does not count."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())


def refuse_collisions(paths: Iterable[str]) -> None:
    """Raises BadSkill when two files or folders would be one on macOS or Windows."""
    known: dict[str, str] = {}
    for path in paths:
        for place in (path, *parents(path)):
            other = known.setdefault(folded(place), place)
            if other != place:
                raise BadSkill(
                    f"{shown(other)} and {shown(place)} are one name where upper and lower case do "
                    "not count (macOS, Windows). Rename one of them."
                )
