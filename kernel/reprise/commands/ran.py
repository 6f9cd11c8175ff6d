"""What a command of a session is given by a person, and how its words and its end are told."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from reprise.client import CommandResult, Output
from reprise.commands.terminal import Terminal, printable
from reprise.errors import UsageError

#: What a command may read from its standard input (the kernel's bound).
STDIN_BYTES = 8 << 20


def shown_on(terminal: Terminal, *, quiet: bool = False) -> Callable[[Output], None]:
    """Passes on what a command writes, stream by stream, as it comes."""

    def show(output: Output) -> None:
        if output.stream is not None and not quiet:
            stream = terminal.err if output.stream == "stderr" else terminal.out
            # Code in a sandbox must not drive the terminal; into a pipe goes what it wrote.
            stream.write(printable(output.text) if stream.isatty() else output.text)
            stream.flush()

    return show


def given_variables(pairs: Sequence[str]) -> dict[str, str]:
    """Of `--env NAME=VALUE`. Raises UsageError."""
    found = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise UsageError(f"--env takes NAME=VALUE, not {pair!r}.")
        found[name] = value
    return found


def given_stdin() -> bytes:
    """All that comes on our standard input. Raises UsageError for too much."""
    data = sys.stdin.buffer.read(STDIN_BYTES + 1)
    if len(data) > STDIN_BYTES:
        raise UsageError(
            f"More than {STDIN_BYTES:,} bytes came on stdin. Bring them in with `reprise put`, and"
            " redirect the file in shell text."
        )
    return data


def tell_cuts(result: CommandResult, terminal: Terminal) -> None:
    """Say which of its streams were not shown whole."""
    for name, end in (("stdout", result.stdout_end), ("stderr", result.stderr_end)):
        if end.cut:
            where = f"; all of it is in {end.file} of the workspace" if end.file else ""
            terminal.progress(
                f"{name} was cut: it wrote {end.bytes:,} bytes in {end.lines:,} lines{where}"
            )


def how_it_ended(result: CommandResult) -> str:
    """A clause for people."""
    if result.timed_out:
        return "it ran over its time and was ended"
    if result.status in ("died", "lost", "interrupted"):
        said = "" if result.error is None else f" ({result.error.text})"
        return f"{result.status}{said}"
    if result.exit_code is not None:
        return f"exit code {result.exit_code}"
    if result.signal is not None:
        return f"ended by signal {result.signal}"
    return result.status if result.error is None else str(result.error)
