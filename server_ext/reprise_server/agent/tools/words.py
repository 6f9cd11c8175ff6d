"""Which commands are words without any shell syntax: what runs is what was looked at (pure).

Only such a command has an argv in its act, and it runs as that: no shell is between, so a rule that
matched the words matched what runs. Whatever a shell would treat specially, or might, is not words.
"""

from __future__ import annotations

import re
from typing import Final

#: Characters that stand for themselves in every shell, wherever they are in a word. Of ASCII that
#: leaves out what quotes, expands, redirects, separates, negates, comments or groups.
_PLAIN: Final = re.compile(r"[A-Za-z0-9_@%+:,./^-]+|[\u00a1-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd]+")
#: In double quotes, `$`, backtick, backslash and (at a prompt) `!` mean something.
_DOUBLE: Final = re.compile(r'"([^"$`\\!\n\r\0]*)"')
_SINGLE: Final = re.compile(r"'([^'\n\r\0]*)'")
#: Between words. A line break separates commands.
_BLANK: Final = re.compile(r"[ \t]+")

#: What a shell does itself: as a program it is not there, or is another.
_OWN: Final = frozenset(
    {
        *(".", ":", "alias", "bg", "bind", "break", "builtin", "caller", "case", "cd", "command"),
        *("compgen", "complete", "compopt", "continue", "coproc", "declare", "dirs", "disown"),
        *("do", "done", "elif", "else", "enable", "esac", "eval", "exec", "exit", "export", "fc"),
        *("fg", "fi", "for", "function", "getopts", "hash", "help", "history", "if", "in", "jobs"),
        *("let", "local", "logout", "mapfile", "popd", "pushd", "read", "readarray", "readonly"),
        *("return", "select", "set", "shift", "shopt", "source", "suspend", "then", "time"),
        *("times", "trap", "type", "typeset", "ulimit", "umask", "unalias", "unset", "until"),
        *("wait", "while"),
    }
)

#: Words of one command; a longer one is run by the shell all the same.
_MOST: Final = 1_000


def words(command: str) -> tuple[str, ...] | None:
    """The words of a command that is nothing but words; None for any other."""
    found: list[str] = []
    at = 0
    text = command.strip(" \t\n")
    while at < len(text):
        word, bare, at = _word(text, at, first=not found)
        if word is None or len(found) == _MOST:
            return None
        if not found and bare and word in _OWN:
            return None
        found.append(word)
        blank = _BLANK.match(text, at)
        if blank is None:
            break
        at = blank.end()
    if at < len(text) or not found or not found[0]:
        return None
    return tuple(found)


def _word(text: str, start: int, *, first: bool) -> tuple[str | None, bool, int]:
    """A word, whether no part of it was quoted, and where it ends; None where it is more."""
    parts: list[str] = []
    bare = True
    at = start
    while at < len(text):
        if plain := _PLAIN.match(text, at):
            parts.append(plain[0])
            at = plain.end()
        elif text[at] == "=" and parts and not first:
            # In the first word it is an assignment.
            parts.append("=")
            at += 1
        elif quoted := _DOUBLE.match(text, at) or _SINGLE.match(text, at):
            parts.append(quoted[1])
            at, bare = quoted.end(), False
        else:
            break
    return ("".join(parts) if at > start else None), bare, at
