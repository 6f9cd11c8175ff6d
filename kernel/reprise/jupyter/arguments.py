"""What front ends append to the kernel's command line, as far as it means something inside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

#: Options of ipykernel that name a folder of the host. A sandbox does not have it, and IPython
#: ends when it can neither find nor make it.
_HOST_FOLDERS: Final = (
    "--profile-dir",
    "--ipython-dir",
    "--ProfileDir.location",
    "--BaseIPythonApplication.ipython_dir",
)


def split_arguments(
    arguments: Sequence[str], *, isolated: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The arguments for the language kernel, and those left out because they cannot be followed."""
    if not isolated:
        return tuple(arguments), ()
    kept: list[str] = []
    left_out: list[str] = []
    follows = kept
    for argument in arguments:
        name, equals, _ = argument.partition("=")
        if argument.startswith("-"):
            follows = left_out if name in _HOST_FOLDERS else kept
        follows.append(argument)
        if equals or not argument.startswith("-"):
            # A value stands after `=`, or was this one; what comes next is its own argument.
            follows = kept
    return tuple(kept), tuple(left_out)
