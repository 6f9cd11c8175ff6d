"""What of the kernel's command line reaches the language kernel."""

from __future__ import annotations

import pytest

from reprise.jupyter.arguments import split_arguments


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
