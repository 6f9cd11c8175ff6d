"""What git's words about a server mean for whoever asked, and what to do (pure)."""

from __future__ import annotations

import re
from typing import Final

from reprise.errors import UnavailableError, UsageError
from reprise.skills.git_address import Address

#: What git says, and what that means for whoever asked. Checked in order.
_MEANINGS: Final = (
    (
        r"not our ref|unadvertised object",
        UsageError,
        (
            "The server does not give an object that was asked for: it has none of that id, or "
            "gives only what a branch or tag stands at. Name a branch or a tag with --ref."
        ),
    ),
    (
        (
            r"could not read (Username|Password)|Authentication failed|terminal prompts disabled"
            r"|Permission denied|HTTP Basic: Access denied|returned error: 40[13]"
        ),
        UsageError,
        (
            "It is not there, or you may not read it. Reprise asks for no password: set up a "
            "credential helper (https) or a key with an agent (ssh), so that `git ls-remote` works "
            "by itself."
        ),
    ),
    (
        r"Host key verification failed",
        UsageError,
        "Its host is not one that ssh knows. Connect to it once with ssh, and compare the key.",
    ),
    (
        r"dubious ownership",
        UsageError,
        (
            "It belongs to somebody else, whose settings git would follow. Clone it, or say that "
            "you trust it: git config --global --add safe.directory PATH"
        ),
    ),
    (
        (
            r"unable to read|missing (blob|tree|object)|repository corruption|pack-objects died"
            r"|bad object|from promisor remote"
        ),
        UsageError,
        (
            "It lacks objects of its own, as a partial or a damaged clone does. Name the "
            "repository that it was cloned from, or run git fsck there."
        ),
    ),
    (
        (
            r"[Nn]ot found|does not exist|not appear to be a git repository|not a git repository"
            r"|returned error: 404"
        ),
        UsageError,
        "There is no such repository, or you may not see it.",
    ),
    (
        (
            r"Could not resolve|Connection (refused|timed out|reset)|unable to access|unreachable"
            r"|Connection closed|kex_exchange|early EOF|hung up|RPC failed|too slow|SSL"
        ),
        UnavailableError,
        "Its server cannot be reached, or broke off. Try again with a network.",
    ),
)


def refused(address: Address, said: str, name: str = "") -> UsageError | UnavailableError:
    """The error to raise for what git said of `name` at this address."""
    what = f"{name} of {address.shown}" if name and name != "HEAD" else address.shown
    for pattern, error, meaning in _MEANINGS:
        if re.search(pattern, said):
            return error(f"{what} could not be fetched. {meaning} git says:\n{said}")
    return UsageError(f"{what} could not be fetched. Nothing was changed. git says:\n{said}")
