"""How a policy's patterns match words, paths, hosts and command lines (pure, never slow).

In all of them `*` stands for any characters and a backslash takes its meaning from the one behind.
Nothing here goes back: a pattern takes time in the length of what it is held against, however it is
written.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from reprise.egress.policy import NoHost, normal_host
from reprise.sandbox.network import split_place

#: Of a command line; a longer one is matched by nothing.
MAX_WORDS: Final = 1_000
#: Components of a path that is matched; a deeper one counts as one that cannot be judged.
MAX_COMPONENTS: Final = 200

#: In an argv pattern, at its end: any number of words, none of which is an option.
REST: Final = "**"


def pieces(pattern: str) -> list[str]:
    """What stands between the stars of a pattern, backslashes resolved; one piece: no star."""
    found = [""]
    escaped = False
    for char in pattern:
        if escaped or char not in "\\*":
            found[-1] += char
            escaped = False
        elif char == "\\":
            escaped = True
        else:
            found.append("")
    if escaped:
        found[-1] += "\\"
    return found


def literal(text: str) -> str:
    """The pattern that matches exactly `text`."""
    return re.sub(r"([\\*])", r"\\\1", text)


def matches(pattern: str, text: str) -> bool:
    """Whether all of `text` is what `pattern` says; upper and lower case differ."""
    first, *middle = pieces(pattern)
    if not middle:
        return text == first
    last = middle.pop()
    if len(text) < len(first) + len(last) or not text.startswith(first):
        return False
    if not text.endswith(last):
        return False
    at, end = len(first), len(text) - len(last)
    # The leftmost place of each piece leaves the most room for those behind it.
    for piece in middle:
        found = text.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True


# Paths --------------------------------------------------------------------------------------------


def clean(path: str) -> bool:
    """Whether a path is one that patterns can judge: relative, without ".." or empty parts.

    "" is the workspace itself.
    """
    if path == "":
        return True
    parts = path.split("/")
    return (
        len(parts) <= MAX_COMPONENTS
        and "\0" not in path
        and "\\" not in path
        and all(part not in ("", ".", "..") for part in parts)
    )


def path_matches(pattern: str, path: str) -> bool:
    """`*` stands for anything within one part, a part `**` for any number of parts, none too.

    The path is clean.
    """
    return _reach(pattern, path)[1]


def path_holds(pattern: str, folder: str) -> bool:
    """Whether something below `folder` (clean, "" for the workspace) may match, or the folder."""
    return any(_reach(pattern, folder))


def _reach(pattern: str, path: str) -> tuple[bool, bool]:
    """Whether something below may match the rest of the pattern; whether the path matches whole."""
    wanted = pattern.split("/")
    # How much of the pattern the parts so far may have used up.
    places = _past_stars(wanted, {0})
    for part in path.split("/") if path else ():
        after = {at for at in places if at < len(wanted) and wanted[at] == REST}
        after |= {
            at + 1
            for at in places
            if at < len(wanted) and wanted[at] != REST and matches(wanted[at], part)
        }
        places = _past_stars(wanted, after)
    below = any(at < len(wanted) for at in places)
    return below, len(wanted) in places


def _past_stars(wanted: Sequence[str], places: set[int]) -> set[int]:
    found = set(places)
    for at in sorted(places):
        end = at
        while end < len(wanted) and wanted[end] == REST:
            end += 1
            found.add(end)
    return found


# Hosts --------------------------------------------------------------------------------------------


def host_of(place: str) -> str:
    """The one name of a host, its port taken off; `*.HOST` and "package-index" stay as they are.

    A text that names no host is given in lower case, so that a pattern can still say it.
    """
    # An IPv6 address without brackets has no port.
    host = place if place.count(":") > 1 and "[" not in place else split_place(place)[0]
    star = host.startswith("*.")
    try:
        name = normal_host(host.removeprefix("*."))
    except NoHost:
        return place.lower()
    return f"*.{name}" if star else name


def host_within(pattern: str, place: str) -> bool:
    """Whether every host that `place` stands for is one that `pattern` names.

    Both are written HOST or *.HOST; the pattern `*` is any host.
    """
    if pattern == "*":
        return True
    named, host = host_of(pattern), host_of(place)
    if named.startswith("*."):
        suffix = named[1:]
        return host == named or host.endswith(suffix)
    return host == named


def host_meets(pattern: str, place: str) -> bool:
    """Whether some host that `place` stands for is one that `pattern` names."""
    if place == "*" or host_within(pattern, place):
        return True
    return place.startswith("*.") and host_within(place, pattern)


# Command lines ------------------------------------------------------------------------------------


def argv_matches(pattern: Sequence[str], argv: Sequence[str]) -> bool:
    """Whether a command line is what a pattern says, word by word.

    `*` in a word stands for any characters, but a word that begins with a star matches no option (a
    word that begins with "-"): an option can change all that a program does. `**` at the end is any
    number of words, none of them an option.
    """
    if not pattern or not argv or len(argv) > MAX_WORDS:
        return False
    exact = pattern[:-1] if pattern[-1] == REST else pattern
    if len(argv) < len(exact) or (len(argv) > len(exact) and exact is pattern):
        return False
    if not all(map(_word_matches, exact, argv)):
        return False
    return not any(word.startswith("-") for word in argv[len(exact) :])


def _word_matches(pattern: str, word: str) -> bool:
    if pattern.startswith("*") and word.startswith("-"):
        return False
    return matches(pattern, word)
