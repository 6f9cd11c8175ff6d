"""Every command explains itself, refuses wrong use with exit code 2, and ends without tracebacks."""

import os
import signal
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from reprise import cli
from reprise.cli import COMMANDS
from reprise.commands.terminal import Terminal
from reprise.errors import LogCorrupt, RepriseError, UnavailableError, UsageError

REPRISE = [sys.executable, "-m", "reprise.cli"]


def reprise(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*REPRISE, *args], capture_output=True, text=True, env={**os.environ, **env}, timeout=60
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_help_with_examples_of_itself(name: str) -> None:
    shown = reprise(name, "--help")
    assert shown.returncode == 0, shown.stderr
    assert f"usage: reprise {name}" in shown.stdout
    examples = shown.stdout.partition("examples:\n")[2]
    assert f"reprise {name}" in examples


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_refuses_an_unknown_option_as_wrong_use(name: str) -> None:
    shown = reprise(name, "--no-such-option")
    assert shown.returncode == 2
    assert "Traceback" not in shown.stderr
    assert shown.stdout == ""


def test_each_command_is_told_by_the_top_help() -> None:
    shown = reprise("--help")
    assert shown.returncode == 0
    for name, text in COMMANDS.items():
        assert f"  {name} " in shown.stdout
        assert text in shown.stdout


def test_no_module_of_a_command_is_left_out() -> None:
    folder = Path(cli.__file__).parent / "commands"
    offered = {
        path.stem.removesuffix("_")
        for path in folder.glob("[!_]*.py")
        if hasattr(import_module(f"reprise.commands.{path.stem}"), "arguments")
    }
    above = {name for name in COMMANDS if name in cli.ABOVE}
    assert offered == set(COMMANDS) - above
    # Those that stand on the engine are found where they say.
    assert above == cli.ABOVE - {"demo-agent"}
    assert all(hasattr(cli.command(name), "run") for name in cli.ABOVE)


def test_no_command_at_all_shows_the_help_as_wrong_use() -> None:
    shown = reprise()
    assert shown.returncode == 2
    assert "doctor" in shown.stdout


def test_an_unknown_command_is_one_clear_line() -> None:
    shown = reprise("explode")
    assert shown.returncode == 2
    assert len(shown.stderr.splitlines()) == 1
    assert "explode" in shown.stderr
    assert "reprise --help" in shown.stderr


def test_the_version_is_the_installed_one() -> None:
    assert reprise("--version").stdout == "reprise 0.1.0\n"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (LogCorrupt("a"), 1),
        (UsageError("b"), 2),
        (UnavailableError("c"), 3),
        (RepriseError("d"), 1),
    ],
)
def test_an_error_is_one_message_and_its_exit_code(
    error: RepriseError,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(argv: list[str], terminal: Terminal) -> int:
        raise error

    monkeypatch.setattr(cli, "_dispatch", fail)
    monkeypatch.delenv("REPRISE_DEBUG", raising=False)
    assert cli.main([]) == code
    assert capsys.readouterr().err == f"reprise: error: {error}\n"


def test_debug_shows_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = reprise("explode", REPRISE_DEBUG="1")
    assert "Traceback" in shown.stderr


def test_a_reader_that_went_away_is_no_error() -> None:
    """The pipe is closed before the first byte is written."""
    read, write = os.pipe()
    os.close(read)
    shown = subprocess.run(
        [*REPRISE, "--help"], stdout=write, stderr=subprocess.PIPE, text=True, timeout=60
    )
    os.close(write)
    assert shown.stderr == ""


def test_control_c_is_told_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(argv: list[str], terminal: Terminal) -> int:
        signal.raise_signal(signal.SIGINT)
        return 0

    monkeypatch.setattr(cli, "_dispatch", interrupt)
    assert cli.main([]) == 130
    assert "Traceback" not in capsys.readouterr().err
