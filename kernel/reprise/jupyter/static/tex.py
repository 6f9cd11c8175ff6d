"""TeX in static output: what makes links, styles, classes or loads is no command (pure)."""

from __future__ import annotations

import re
from typing import Final

#: MathJax and KaTeX: links, CSS and DOM names, files, loading of extensions, and the definitions
#: by which those could be spelled otherwise (they also stay for the whole page).
_COMMANDS: Final = re.compile(
    r"\\(?=(?:href|url|class|cssId|style|data|html[A-Za-z]*|bbox|mmlToken|require|includegraphics"
    r"|unicode|def|gdef|edef|xdef|let|futurelet|newcommand|renewcommand|providecommand"
    r"|newenvironment|renewenvironment|DeclareMathOperator|tooltip|texttip|mathtip)(?![A-Za-z]))",
    re.IGNORECASE,
)

#: What begins mathematics; text without it is not touched (a path of Windows, say).
_MATH: Final = re.compile(r"\$|\\[(\[]|\\begin(?![A-Za-z])")

#: A word joiner: invisible, and no letter, so that what follows is no name of a command.
JOINER: Final = "\u2060"


def guarded(text: str) -> str:
    """The same text, in which none of those commands is one."""
    if "\\" not in text or not _MATH.search(text):
        return text
    return _COMMANDS.sub(f"\\\\{JOINER}", text)
