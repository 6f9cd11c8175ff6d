"""A command line taken apart into its words, or refused: nothing of a shell is understood (pure).

Only what every shell reads as the same words passes: words of letters that no shell gives a
meaning, and quoted ones. All else (variables, globs, pipes, redirections, substitutions, several
lines, assignments, `~`, history) makes a compound, of which no policy's argv says anything.
"""

from __future__ import annotations

import re
from typing import Final

from reprise_server.agent.policy.patterns import MAX_WORDS

#: Letters that mean themselves, unquoted, in sh, bash, dash and zsh.
_PLAIN: Final = r"[A-Za-z0-9_./:@%,+=-]"
#: Single quotes: all within stands for itself. A line feed does not pass: people approve one line.
_SINGLE: Final = r"'[^'\n\r\0]*'"
#: Double quotes: without what a shell looks for in them.
_DOUBLE: Final = r'"[^"$`\\!\n\r\0]*"'
_WORD: Final = re.compile(f"(?:{_PLAIN}|{_SINGLE}|{_DOUBLE})+")
_QUOTED: Final = re.compile(f"{_SINGLE}|{_DOUBLE}")
_ASSIGNED: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
#: First words that a shell does not run as a program.
_RESERVED: Final = frozenset(
    """if then else elif fi case esac for select while until do done in function time coproc eval
    exec source command builtin alias unalias trap set export declare local readonly typeset .
    enable hash exit return shift cd pushd popd""".split()  # noqa: SIM905 - a list of words
)


def words_of(line: str) -> tuple[str, ...] | None:
    """The words of a command line; None when it is a compound, or no plain command."""
    words: list[str] = []
    for piece in _split(line.strip(" ")):
        if piece is None or len(words) >= MAX_WORDS:
            return None
        words.append(piece)
    if not words:
        return None
    first = line.strip(" ")
    if _ASSIGNED.match(first) or words[0] in _RESERVED or words[0].startswith("="):
        return None
    return tuple(words)


def _split(line: str) -> list[str | None]:
    """The words, the last one None where it cannot be one."""
    found: list[str | None] = []
    at = 0
    while at < len(line):
        word = _WORD.match(line, at)
        if word is None or (word.end() < len(line) and line[word.end()] != " "):
            return [*found, None]
        text = word.group()
        # zsh reads an unquoted word that begins with "=" as the path of a program.
        if text.startswith("=") and found:
            return [*found, None]
        found.append(_QUOTED.sub(lambda quoted: quoted.group()[1:-1], text))
        at = word.end()
        while at < len(line) and line[at] == " ":
            at += 1
    return found
