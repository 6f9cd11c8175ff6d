"""`reprise agent` in a terminal: what is asked is exact, and only a person who is there answers it."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import nbformat
import pytest

from reprise_server.agent.scripted import Call, ScriptedModel, calls, reply, says
from tests.fixtures.commands import Reprise

#: Longest wait for anything that a loaded machine may delay, seconds.
PATIENCE = 90.0

#: Before the command: the terminal is its own, so that Ctrl-C reaches it as a signal.
_OWN_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, "-m", "reprise.cli", *sys.argv[1:]])
"""

ASK = """\
rules:
  - name: ask-first
    decision: ask
    effect: run
"""


class Typing:
    """A command on a terminal of its own, as a person sees it and types into it."""

    def __init__(self, command: Reprise, *words: str, cwd: Path, **env: str) -> None:
        self._master, slave = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-c", _OWN_TERMINAL, *words],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=cwd,
            env={**command.environ, **env, "TERM": "dumb"},
            start_new_session=True,
        )
        os.close(slave)
        self.shown = ""
        self._read = 0

    def until(self, wanted: str) -> str:
        """What is shown up to and with this, after what was waited for before."""
        deadline = time.monotonic() + PATIENCE
        while (at := self.shown.find(wanted, self._read)) < 0:
            assert time.monotonic() < deadline, self.shown
            assert self._more(), self.shown
        before = self._read
        self._read = at + len(wanted)
        return self.shown[before : self._read]

    def _more(self) -> bool:
        """Take in what comes; False at the end."""
        ready, _, _ = select.select([self._master], [], [], 0.5)
        if not ready:
            return True
        try:
            piece = os.read(self._master, 65536)
        except OSError:  # the other end is closed
            return False
        self.shown += piece.decode("utf-8", "replace").replace("\r\n", "\n")
        return bool(piece)

    def type(self, words: str) -> None:
        os.write(self._master, words.encode())

    def end(self) -> int:
        deadline = time.monotonic() + PATIENCE
        while self._more():
            assert time.monotonic() < deadline, self.shown
        return self.process.wait(PATIENCE)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(PATIENCE)
        os.close(self._master)


Type = Callable[..., Typing]


@pytest.fixture
def typing(reprise: Reprise) -> Iterator[Type]:
    opened: list[Typing] = []

    def make(*words: str, **options: Any) -> Typing:
        opened.append(Typing(reprise, *words, **options))
        return opened[-1]

    yield make
    for each in opened:
        each.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("x = 6 * 7\nx", id="first")])
    nbformat.write(made, tmp_path / "a.ipynb")
    return tmp_path


@pytest.fixture
def asks(reprise: Reprise, tmp_path: Path) -> Iterator[None]:
    """A policy that asks before code runs, for as long as a test lasts."""
    file = tmp_path / "policy.yaml"
    file.write_text(ASK)
    assert reprise("policy", "set", "personal", str(file)).returncode == 0
    yield
    file.write_text("rules: []\n")
    assert reprise("policy", "set", "personal", str(file)).returncode == 0


def told(shown: str) -> list[Mapping[str, Any]]:
    return [json.loads(line) for line in shown.splitlines()]


def bodies(lines: list[Mapping[str, Any]], kind: str) -> list[Mapping[str, Any]]:
    return [
        line["entry"]["body"]
        for line in lines
        if line["type"] == "entry" and line["entry"]["kind"] == kind
    ]


def command(text: str) -> Call:
    return Call("run_command", {"command": text})


@pytest.mark.usefixtures("asks")
def test_what_is_asked_is_shown_exactly_and_answered_by_a_key(
    typing: Type, scripted: Callable[..., ScriptedModel], folder: Path
) -> None:
    """Escapes are written out, what was typed ahead answers nothing, a wrong key asks again."""
    sly = "echo sly\x1b[2K\u202e; echo two"
    model = scripted(
        [
            reply(command(sly), command("ls -a ."), command("ls -a .."), command("date; date")),
            says("That was all."),
        ]
    )
    at = typing("agent", "look", "--notebook", "a.ipynb", cwd=folder)
    at.type("a\n")  # before anything was asked
    shown = at.until("[d] deny (d REASON)")
    assert r"| echo sly\x1b[2K\u202e; echo two" in shown
    assert "\x1b[2K" not in shown
    assert "your policy" in shown.lower()
    at.until("> ")
    at.type("yes\n")
    at.until("[d] deny")
    at.until("> ")
    at.type("d it is sly\n")
    at.until("denied: it is sly")
    at.until("[p] for a pattern")
    at.until("> ")
    at.type("p\n")
    assert "decision" in at.until("[y/N] > ")
    at.type("n\n")
    at.until("[p] for a pattern")
    at.until("> ")
    at.type("p\n")
    at.until("[y/N] > ")
    at.type("y\n")
    at.until("allowed for this pattern")
    # The third is within the pattern; the fourth is not.
    at.until("date; date")
    at.until("> ")
    at.type("a\n")
    at.until("That was all.")
    assert at.end() == 0
    results = model.exchanges[-1].asked.results
    assert [result.is_error for result in results] == [True, False, False, False]
    assert "it is sly" in results[0].text


@pytest.mark.usefixtures("asks")
def test_where_nobody_sits_nothing_is_approved(
    reprise: Reprise, scripted: Callable[..., ScriptedModel], folder: Path
) -> None:
    model = scripted(
        [reply(command("ls"), Call("ask_user", {"question": "Which?"})), says("Well.")]
    )
    ran = reprise("agent", "look", "--notebook", "a.ipynb", "--json", cwd=folder)
    assert ran.returncode == 0, ran.stderr
    lines = told(ran.stdout)
    [denied, own] = bodies(lines, "decided")
    assert (denied["decision"], denied["by"]) == ("deny", None)
    assert own["how"] == "cancelled"
    assert bodies(lines, "ended")[-1]["status"] == "done"
    assert len({line["conversation"] for line in lines}) == 1
    assert "No person is at this terminal" in model.exchanges[-1].asked.results[0].text


@pytest.mark.usefixtures("asks")
@pytest.mark.parametrize("sits", [True, False], ids=["somebody", "nobody"])
def test_what_was_asked_when_everything_stopped_is_asked_again(
    reprise: Reprise,
    typing: Type,
    scripted: Callable[..., ScriptedModel],
    folder: Path,
    sits: bool,
) -> None:
    model = scripted([reply(command("echo still here")), says("Done.")])
    at = typing("agent", "look", "--notebook", "a.ipynb", cwd=folder)
    at.until("[d] deny (d REASON)")
    at.process.kill()
    at.process.wait(PATIENCE)
    on = ("agent", "--notebook", "a.ipynb", "--continue")
    if sits:
        again = typing(*on, cwd=folder)
        assert "| echo still here" in again.until("[d] deny (d REASON)")
        again.until("> ")
        again.type("a\n")
        again.until("Done.")
        assert again.end() == 0
    else:
        ran = reprise(*on, "--json", cwd=folder)
        assert ran.returncode == 0, ran.stderr
    [result] = model.exchanges[-1].asked.results
    words = "still here" if sits else "No person is at this terminal"
    assert (words in result.text, result.is_error) == (True, not sits)


def test_ctrl_c_ends_what_runs_and_the_turn_goes_on_later(
    reprise: Reprise, typing: Type, scripted: Callable[..., ScriptedModel], folder: Path
) -> None:
    model = scripted([calls("run_command", {"command": "echo begun; sleep 600"}), says("Done.")])
    at = typing("agent", "wait", "--notebook", "a.ipynb", cwd=folder)
    at.until("| begun")
    at.type("\x03")
    at.until("Stopped.")
    assert at.end() == 130
    [step] = [
        step
        for step in json.loads(reprise("log", str(folder / "a.ipynb"), "--json").stdout)["steps"]
        if step["kind"] == "command"
    ]
    assert step["outcome"] == "interrupted"
    ran = reprise("agent", "--notebook", "a.ipynb", "--continue", "--json", cwd=folder)
    assert ran.returncode == 0, ran.stderr
    [message] = [m for m in model.exchanges[-1].asked.messages if "had stopped" in str(m)]
    assert "stopped the turn while this call ran" in str(message)


def test_a_turn_is_undone_unless_somebody_went_on(
    reprise: Reprise, scripted: Callable[..., ScriptedModel], folder: Path
) -> None:
    edit = {"do": "insert", "after": "first", "type": "code", "source": "y = x + 1"}

    def script(asked: Any) -> Any:
        if asked.answers == 0:
            return calls("read_notebook", {})
        if asked.answers == 1:
            return reply(Call("edit_notebook", {"edits": [edit]}), command("echo 1 > made.txt"))
        return says("Done.")

    scripted(script)
    before = (folder / "a.ipynb").read_bytes()
    ran = reprise("agent", "add y", "--notebook", "a.ipynb", "--json", cwd=folder)
    assert ran.returncode == 0, ran.stderr
    assert [body["status"] for body in bodies(told(ran.stdout), "result")] == ["ok"] * 3, ran.stdout
    assert "y = x + 1" in (folder / "a.ipynb").read_text()
    assert reprise("exec", str(folder / "a.ipynb"), "--", "cat made.txt").stdout == "1\n"
    refused = reprise("agent", "--notebook", "a.ipynb", "--undo", cwd=folder)
    assert refused.returncode == 1
    assert "--undo --fork" in refused.stderr
    assert "y = x + 1" in (folder / "a.ipynb").read_text()
    undone = reprise("agent", "--notebook", "a.ipynb", "--undo", "--fork", "--json", cwd=folder)
    assert undone.returncode == 0, undone.stderr
    told_of = json.loads(undone.stdout)
    assert len(told_of["cells"]) == 1
    assert told_of["kept"] == []
    cells = json.loads((folder / "a.ipynb").read_text())["cells"]
    assert cells == json.loads(before)["cells"]
    gone = reprise("exec", str(folder / "a.ipynb"), "--", "cat made.txt")
    assert "No such file" in gone.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--notebook", "absent.ipynb"], "no notebook"),
        (["task", "--fork"], "--fork belongs to --undo"),
        ([], "Say what is to be done"),
        (["--undo"], "Name where it was"),
    ],
)
def test_wrong_use_is_told(reprise: Reprise, tmp_path: Path, words: list[str], said: str) -> None:
    ran = reprise("agent", *words, cwd=tmp_path, ANTHROPIC_API_KEY="x")
    assert ran.returncode == 2, ran.stderr
    assert said in ran.stderr


def test_without_a_key_nothing_is_begun(reprise: Reprise, folder: Path) -> None:
    ran = reprise("agent", "look", "--notebook", "a.ipynb", cwd=folder, ANTHROPIC_API_KEY="")
    assert ran.returncode == 3
    assert "ANTHROPIC_API_KEY" in ran.stderr
