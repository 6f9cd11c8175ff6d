"""docs/commands.md names every command and every option, and none that does not exist."""

import argparse
import re
from pathlib import Path

import pytest

from reprise.cli import COMMANDS, command

PAGE = (Path(__file__).parents[2] / "docs" / "commands.md").read_text()


def options(parser: argparse.ArgumentParser) -> set[str]:
    """All option strings and names of subcommands, at any depth."""
    found: set[str] = set()
    for action in parser._actions:
        found.update(action.option_strings)
        if isinstance(action, argparse._SubParsersAction):
            for name, inner in action.choices.items():
                found |= {name} | options(inner)
    return found - {"-h", "--help"}


def section(name: str) -> str:
    return re.split(
        r"^##+ ", PAGE.partition(f"### `reprise {name}`")[2], maxsplit=1, flags=re.MULTILINE
    )[0]


@pytest.mark.parametrize("name", COMMANDS)
def test_the_page_has_every_option_and_no_other(name: str) -> None:
    parser = argparse.ArgumentParser()
    command(name).arguments(parser)
    real = options(parser)
    text = section(name)
    assert text, f"no section for {name}"
    named = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", text))
    assert {option for option in real if option.startswith("-")} == named
    for word in real:
        assert re.search(rf"(?<![\w-]){re.escape(word)}\b", text), word
