"""Text as terminals and pages get it in static output: colours stay, other controls go (pure)."""

from __future__ import annotations

import re
from typing import Final

#: What escape sequences do beyond colour and the movements of a progress bar: set the clipboard
#: (OSC 52), links whose text lies (OSC 8), titles, answers typed as if by the user. A page's
#: renderer ignores them, a terminal obeys.
_CONTROLS: Final = re.compile(
    r"\x1b\[[0-9;:]*[mABCDEFGKJ]"  # kept: colours, cursor moves within what was printed, erasing
    r"|(?:\x1b\]|\x9d|\x1b[PX^_]|[\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"
    r"|\x1b[ -/]*[0-Z\\^-~]?"
    r"|[\x80-\x9f]"
)
_KEPT: Final = re.compile(r"\x1b\[[0-9;:]*[mABCDEFGKJ]")
_ANY: Final = re.compile(r"[\x1b\x80-\x9f]")


def plain(text: str) -> str:
    """Without control sequences other than colours, moves and erasing."""
    if not _ANY.search(text):
        return text
    # Once is enough: every escape is taken by one of the alternatives, so none is left over that
    # could begin a new sequence with what came after a removed one.
    return _CONTROLS.sub(lambda found: found[0] if _KEPT.fullmatch(found[0]) else "", text)
