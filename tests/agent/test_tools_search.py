"""A search finds what a line-by-line look finds, runs nothing and never takes long."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprise_server.agent.contract import BadCall
from reprise_server.agent.tools.search import (
    ANY,
    MOST_COUNTED,
    MOST_NAMED,
    MOST_SHOWN,
    PIECE,
    Found,
    compiled,
    search,
)
from tests.fixtures.place import ToolBench, text_of

NEVER = float("inf")


def looked(pattern: str, data: bytes, deadline: float = NEVER) -> Found:
    found = Found()
    search(compiled(pattern), "f", data, found, deadline)
    return found


PATTERNS = (
    "a",
    "^a",
    "a$",
    "^$",
    "a.b",
    "a*",
    "[^a]",
    "b+",
    "(ab|ba)",
    "a\\s",
    "\\bb",
    "^a*$",
    "x?",
)


@given(st.sampled_from(PATTERNS), st.text("ab \nx", max_size=60))
def test_lines_are_found_as_one_by_one(pattern: str, text: str) -> None:
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    expected = [(number, line) for number, line in enumerate(lines, 1) if re.search(pattern, line)]
    found = looked(pattern, text.encode())
    assert [(number, line) for _, number, line in found.lines] == expected
    assert found.count == len(expected)


def test_lines_over_many_pieces_keep_their_numbers() -> None:
    lines = [f"line {number} {'x' * 90}" for number in range(1_000)]
    found = looked("line 9[0-9]7 ", "\n".join(lines).encode())
    assert [number for _, number, _ in found.lines] == [n + 1 for n in range(907, 1_000, 10)]
    # One line that is longer than a piece is still looked through.
    assert looked("needle", b"x" * (3 * PIECE) + b"needle\n").count == 1


def test_what_is_counted_and_shown_is_bounded() -> None:
    found = looked("a", b"a\n" * (MOST_COUNTED + 500))
    assert found.full
    assert (found.count, len(found.lines)) == (MOST_COUNTED, MOST_SHOWN)


@pytest.mark.parametrize(
    "pattern", ["(a+)+$", "(a|a)*$", "(a*)*b", "(x+x+)+y", "^(([a-z])+.)+[A-Z]([a-z])+$"]
)
def test_a_pattern_that_hangs_others_is_linear_here(pattern: str) -> None:
    assert looked(pattern, (b"a" * 5_000 + b"!\n") * 40).count in (0, 40)


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("", "is empty"),
        ("(", "missing )"),
        ("(?=a)", "Look-around"),
        (r"(a)\1", "back-references"),
        ("x" * 1_001, "1,000 are the most"),
        ("((a{1,100}){1,100}){1,100}", "no regular expression"),
        (".{1000}", "too large: its repetitions unfold to"),
        (r"\p{L}{900}", "`pattern` is"),
    ],
)
def test_a_pattern_that_cannot_be_used_is_told(pattern: str, said: str) -> None:
    with pytest.raises(BadCall, match=re.escape(said)):
        compiled(pattern)


def test_no_search_goes_on_after_its_deadline() -> None:
    found = looked("a", b"a\n" * 10, deadline=time.monotonic() - 1)
    assert found.count == 0
    assert list(found.left_out) == ["15 s were over"]


@given(st.text(max_size=30), st.binary(max_size=200))
def test_any_pattern_on_any_bytes_finds_or_is_refused(pattern: str, data: bytes) -> None:
    try:
        found = looked(pattern, data)
    except BadCall:
        return
    assert found.count <= data.count(b"\n") + 1


async def test_files_of_the_session_are_searched_without_a_step(bench: ToolBench) -> None:
    await bench.do(
        "run_command",
        command="mkdir -p src .reprise/x; printf 'def a():\\r\\n    pass\\r\\n' > src/a.py;"
        " printf 'def b\\n' > src/b.txt; printf 'a\\0def' > bin.dat; echo 'def' > .reprise/x/own",
    )
    before = await bench.place.quiet()
    text = text_of(await bench.do("search_files", pattern="def .*[a:]$"))
    assert "src/a.py:1: def a():\n" in text
    assert "b.txt:1" not in text
    assert "[1 file not searched: no text]" in text
    assert "own" not in text
    text = text_of(await bench.do("search_files", pattern="(?i)DEF", files="src/**"))
    assert "Lines that fit: 2, in 2 files" in text
    text = text_of(await bench.do("search_files", pattern="def", files="/workspace/src/*.txt"))
    assert "src/b.txt:1: def b\n" in text
    assert await bench.place.quiet() == before
    act = await bench.act("search_files", pattern="def", files="src/*")
    assert (act.effect, act.paths) == ("read", ("src/a.py", "src/b.txt"))
    with pytest.raises(BadCall, match="No file fits"):
        await bench.act("search_files", pattern="def", files="nothing/*")
    with pytest.raises(BadCall, match="outside of the workspace"):
        await bench.act("search_files", pattern="def", files="/etc/*")


async def test_a_search_of_many_files_is_one_of_any(bench: ToolBench) -> None:
    await bench.do(
        "run_command",
        command=f"mkdir -p many; for n in $(seq {MOST_NAMED}); do echo x > many/$n; done",
    )
    few = await bench.act("search_files", pattern="x", files="many/*")
    assert len(few.paths) == MOST_NAMED
    await bench.do("run_command", command="echo x > many/more")
    many = await bench.act("search_files", pattern="x", files="many/*")
    assert many.paths == (ANY,)
    # What came since it was allowed is not looked at.
    result = await bench.tool("search_files").run(
        bench.call({"pattern": "x", "files": "many/*"}), few
    )
    assert f"Lines that fit: {MOST_NAMED}, in" in text_of(result)
