"""What counts as plain words is exactly what a shell would make of it, and nothing that it acts on."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reprise_server.agent.tools.words import words

#: What shells act on, quote with or split at, beside letters.
PIECES = (
    *"abZ09_-./,:@%+^=~#!*?[]{}()<>|&;$`\\\"' \t\n\r\v\f\0",
    *("--x=", "$(a)", "${a}", "$'a'", "<<E", "2>&1", "a=b", "{a,b}", "~/x", "é", "日", "\u00a0"),
    *("\u200b", "\u2028", "\x1b", "\x7f", "if", "time", "eval"),
)
SHELLS = [shell for shell in ("bash", "dash") if shutil.which(shell)]


def by_shell(shell: str, text: str) -> tuple[str, ...]:
    """The words that a shell makes of a text, as a program would get them."""
    ran = subprocess.run(
        [shell, "-c", f"printf '%s\\0' {text}"], capture_output=True, check=True, timeout=60
    )
    assert ran.stderr == b""
    return tuple(ran.stdout.decode("utf-8", "surrogateescape").split("\0")[:-1])


@pytest.mark.parametrize("shell", SHELLS)
@settings(max_examples=60)
@given(
    st.lists(st.lists(st.sampled_from(PIECES), min_size=1, max_size=6).map("".join), max_size=30)
)
def test_a_shell_makes_the_same_words_of_it(shell: str, texts: list[str]) -> None:
    # One shell for many: the words of each between marks that no text holds.
    plain = {text: found for text in texts if (found := words(text)) is not None}
    if not plain:
        return
    marked = " '|mark|' ".join(text.strip(" \t\n") for text in plain)
    expected: list[str] = []
    for at, found in enumerate(plain.values()):
        expected += ["|mark|"] * (at > 0) + list(found)
    assert by_shell(shell, marked) == tuple(expected)


@pytest.mark.parametrize(
    "text",
    [
        "a | b",
        "a && b",
        "a; b",
        "a\nb",
        "a & ",
        "a > f",
        "a 2>&1",
        "a $(b)",
        "a `b`",
        'a "$(b)"',
        'a "`b`"',
        "a $HOME",
        "a ~",
        "a *.csv",
        "a ?",
        "a [x]",
        "a {b,c}",
        "a \\b",
        "A=1 b",
        "a # b",
        "! a",
        "(a)",
        "a 'b",
        'a "b',
        "cd /tmp",
        "source x",
        ". x",
        "eval a",
        "exec a",
        "if true",
        "time a",
        "export A",
        "'' a",
        "",
        "   ",
        "a \0",
        "a\rb",
        "a \u00a0b",
        "a b\u200b",
    ],
)
def test_what_a_shell_acts_on_is_no_plain_words(text: str) -> None:
    found = words(text)
    # Characters that no shell splits at are part of a word; they hide nothing from a rule.
    assert found is None or found == tuple(text.split(" "))
    if text.isascii():
        assert found is None


def test_plain_words_are_found() -> None:
    assert words("git log --format='%h %s' -n 5") == ("git", "log", "--format=%h %s", "-n", "5")
    assert words(' python3 "a b.py" x@y.example:/z ') == ("python3", "a b.py", "x@y.example:/z")
    assert words("'cd' x") == ("cd", "x")
    assert words("ls ''") == ("ls", "")
    assert words("echo " + "a " * 2_000) is None
