"""A question put at the terminal: the exact input, its rule, and an answer typed for it alone."""

from __future__ import annotations

import json
import os
import select
import sys
import termios
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from reprise.commands.terminal import Terminal
from reprise_server.agent.exact import escaped

#: What is denied where nobody sits, and why.
NOBODY: Final = "No person is at this terminal who could be asked, so it was denied."

_KEYS: Final = {"a": "once", "s": "session", "p": "pattern", "d": "deny"}


@dataclass(frozen=True)
class Answer:
    """decision: an option of the question, or words; None: nobody answered in time."""

    decision: str | None
    reason: str | None = None


class Prompt:
    """Asks on a terminal. What was typed before a question was shown answers nothing."""

    def __init__(
        self,
        terminal: Terminal,
        *,
        stdin: int | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._terminal = terminal
        self._stdin = sys.stdin.fileno() if stdin is None else stdin
        self._now = now
        self._typed = b""

    def ask(self, question: Mapping[str, Any]) -> Answer:
        """Show a question (body of its entry) and wait until its time runs out."""
        until = question["until_us"] / 1e6
        self._forget()
        if question.get("act") is None:
            return self._own(question, until)
        self._show(question)
        while True:
            words = self._line(self._choices(question, until), until)
            if words is None:
                return Answer(None)
            key, _, rest = words.strip().partition(" ")
            decision = _KEYS.get(key.lower())
            if decision not in question["options"]:
                continue
            if decision == "deny":
                return self._denied(rest, until)
            if decision == "pattern" and not self._sure(question["pattern"], until):
                continue
            return Answer(decision)

    def _show(self, question: Mapping[str, Any]) -> None:
        line, act = self._terminal.line, question["act"]
        line()
        line(self._terminal.paint(f"The agent wants to {act['title']}.", "bold"))
        for each in exact_lines(act["input"]):
            line(each)
        _, _, why = str(question["text"]).partition(": ")
        line(f"Why asked: {escaped(why)}")
        if "session" in question["options"] and question.get("session_rule"):
            rule = json.dumps(question["session_rule"], ensure_ascii=False)
            line(f"[s] would allow all that this rule matches: {escaped(rule)}")

    def _choices(self, question: Mapping[str, Any], until: float) -> str:
        options = question["options"]
        named = ["[a] allow once"] if "once" in options else []
        if "session" in options:
            named.append("[s] in this conversation")
        if "pattern" in options:
            named.append("[p] for a pattern …")
        named.append("[d] deny (d REASON)")
        left = max(0, round(until - self._now()))
        return f"{'  '.join(named)}  (denied in {left // 60}:{left % 60:02}) > "

    def _denied(self, reason: str, until: float) -> Answer:
        if not reason.strip():
            reason = self._line("Reason for the agent (may be empty) > ", until) or ""
        return Answer("deny", reason.strip() or None)

    def _sure(self, rule: Mapping[str, Any], until: float) -> bool:
        """Show the whole rule, which lasts, and have it said again."""
        for each in exact_lines(rule):
            self._terminal.line(each)
        words = self._line(
            "Allow all that this rule matches, in this conversation? [y/N] > ", until
        )
        return words is not None and words.strip().lower() in ("y", "yes")

    def _own(self, question: Mapping[str, Any], until: float) -> Answer:
        line = self._terminal.line
        line()
        line(self._terminal.paint("The agent asks:", "bold"))
        for each in str(question["text"]).splitlines():
            line(f"  | {escaped(each)}")
        options = list(question["options"])
        for number, option in enumerate(options, 1):
            line(f"  {number}. {escaped(option)}")
        words = self._line("> ", until)
        if words is None:
            return Answer(None)
        said = words.strip()
        if said.isdecimal() and 1 <= int(said) <= len(options):
            said = options[int(said) - 1]
        return Answer(said)

    # typing -------------------------------------------------------------------------------------

    def _forget(self) -> None:
        """What was typed for something else is no answer to this."""
        self._typed = b""
        if os.isatty(self._stdin):
            termios.tcflush(self._stdin, termios.TCIFLUSH)

    def _line(self, words: str, until: float) -> str | None:
        """A line that is typed; None when the time runs out, or the terminal is closed, first."""
        self._terminal.piece(words)
        self._terminal.out.flush()
        while b"\n" not in self._typed:
            left = until - self._now()
            ready, _, _ = select.select([self._stdin], [], [], max(0.0, left))
            piece = os.read(self._stdin, 4096) if ready else b""
            if not piece:
                self._terminal.piece("\n")
                return None
            self._typed += piece
        line, _, self._typed = self._typed.partition(b"\n")
        return line.decode("utf-8", "replace")


def exact_lines(given: Mapping[str, Any]) -> list[str]:
    """An input or a rule, field by field and to the last byte."""
    found: list[str] = []
    for name, value in given.items():
        whole = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
        lines = escaped(whole).split("\n")
        found.append(f"  {escaped(str(name))}:")
        found += [f"  | {line}" for line in lines]
    return found or ["  (no input)"]
