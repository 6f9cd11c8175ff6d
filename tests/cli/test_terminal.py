"""What a command writes cannot drive a terminal, lies under its header, and stays on its stream."""

import io
import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprise.commands.terminal import Terminal, printable

TEXT = st.text(
    alphabet=st.one_of(st.characters(), st.sampled_from("\x1b[];mhlJ0123\x07\x9b\u202e\r\n\t"))
)


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


@given(TEXT)
def test_no_control_character_reaches_a_terminal(text: str) -> None:
    shown = printable(text)
    for colour in ("0", "1", "2", "31", "32", "33"):
        shown = shown.replace(f"\x1b[{colour}m", "")
    bad = [c for c in shown if c not in "\n\t" and unicodedata.category(c) in {"Cc", "Cf", "Cs"}]
    assert bad == []


@pytest.mark.parametrize(
    "attack",
    [
        "\x1b]0;new window title\x07",
        "\x1b[2J\x1b[1;1H",
        "\x1b[8mhidden",
        "\x9b31mC1",
        "\x1b]52;c;cm0gLXJm\x07",
        "\u202etxt.exe",
        "over\rwritten",
    ],
)
def test_escape_sequences_are_shown_as_text(attack: str) -> None:
    out = io.StringIO()
    Terminal(out, io.StringIO()).line(attack)
    assert not set("\x1b\x07\x9b\u202e\r") & set(out.getvalue())


def test_text_that_is_not_unicode_is_shown_not_raised() -> None:
    out = io.StringIO()
    Terminal(out, io.StringIO()).line("name \udcff of a file")
    out.getvalue().encode("utf-8")


@given(st.lists(st.tuples(TEXT, TEXT), max_size=5))
def test_a_cell_of_a_table_stays_in_its_row(rows: list[tuple[str, str]]) -> None:
    out = io.StringIO()
    Terminal(out, io.StringIO()).table(["left", "right"], rows)
    assert len(out.getvalue().splitlines()) == len(rows) + 1


def test_columns_start_under_their_header_with_wide_characters() -> None:
    out = io.StringIO()
    Terminal(out, io.StringIO()).table(
        ["name", "size"], [["データ.csv", "1"], ["e\u0301tude.csv", "2"]]
    )
    header, wide, combined = out.getvalue().splitlines()
    columns = header.index("size")
    assert wide.index("1") + 3 == columns  # three characters of two columns each
    assert combined.index("2") - 1 == columns  # one mark that takes no column


def test_a_pipe_gets_neither_colours_nor_the_live_line() -> None:
    out, err = io.StringIO(), io.StringIO()
    terminal = Terminal(out, err)
    terminal.status("working")
    terminal.line(terminal.paint("fine", "green"))
    terminal.error("bad")
    assert out.getvalue() == "fine\n"
    assert err.getvalue() == "reprise: error: bad\n"


def test_a_terminal_gets_colours_unless_it_asks_for_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    terminal = Terminal(Tty(), Tty())
    assert terminal.paint("x", "red") == "\x1b[31mx\x1b[0m"
    monkeypatch.setenv("NO_COLOR", "")
    assert terminal.paint("x", "red") == "x"


def test_the_live_line_is_gone_before_anything_else_is_written() -> None:
    err = Tty()
    terminal = Terminal(io.StringIO(), err)
    terminal.status("working")
    terminal.progress("done")
    assert err.getvalue().endswith("\r\x1b[Kdone\n")


def test_json_has_no_form_for_nan() -> None:
    out = io.StringIO()
    terminal = Terminal(out, io.StringIO())
    terminal.json({"a": [1, "ü"]})
    assert json.loads(out.getvalue()) == {"a": [1, "ü"]}
    with pytest.raises(ValueError, match="JSON"):
        terminal.json(float("nan"))
