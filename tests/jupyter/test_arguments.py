"""What of the kernel's command line reaches the language kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from reprise.errors import UsageError
from reprise.jupyter.arguments import split_arguments
from reprise.jupyter.begin import Options, parse


@pytest.mark.parametrize(
    ("arguments", "kept", "left_out"),
    [
        ([], (), ()),
        (["--profile-dir", "/h/p", "--debug"], ("--debug",), ("--profile-dir", "/h/p")),
        (["--profile-dir=/h/p", "extra"], ("extra",), ("--profile-dir=/h/p",)),
        (["--ipython-dir", "--quiet"], ("--quiet",), ("--ipython-dir",)),
        (["--x", "1", "--ProfileDir.location=/h"], ("--x", "1"), ("--ProfileDir.location=/h",)),
        (["--profile", "science"], ("--profile", "science"), ()),
        (["--HistoryManager.hist_file=:memory:"], ("--HistoryManager.hist_file=:memory:",), ()),
    ],
)
def test_a_sandbox_is_not_sent_to_a_folder_of_the_host(
    arguments: list[str], kept: tuple[str, ...], left_out: tuple[str, ...]
) -> None:
    assert split_arguments(arguments, isolated=True) == (kept, left_out)


def test_without_isolation_the_kernel_gets_all() -> None:
    assert split_arguments(["--profile-dir", "/h/p"], isolated=False) == (
        ("--profile-dir", "/h/p"),
        (),
    )


def test_our_options_are_taken_out_and_the_rest_goes_inside() -> None:
    options = parse(["--debug", "-f", "k.json", "--kernel=bash", "--x", "1"])
    assert options == Options(Path("k.json"), "bash", ("--debug", "--x", "1"))


@pytest.mark.parametrize("argv", [[], ["-f"], ["--kernel", "bash"], ["-f", "k.json", "--kernel"]])
def test_a_command_line_that_cannot_work_says_how_it_should_be(argv: list[str]) -> None:
    with pytest.raises(UsageError, match="Usage: python -m reprise"):
        parse(argv)
