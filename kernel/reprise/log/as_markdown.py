"""A conversation as a Markdown document, for people who keep it elsewhere (pure).

What the agent wrote is Markdown and stands as it was written, in a quote of its own, so that no
heading or list of it is taken for one of ours. Everything else is text in fences.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from reprise.log.as_json import iso
from reprise.log.conversation import ConversationInfo, Entry
from reprise.log.transcript import Line, transcript

_WHO = {"you": "You", "agent": "Agent", "call": "Call", "question": "Question"}


def conversation_markdown(info: ConversationInfo, entries: Iterable[Entry]) -> Iterator[str]:
    """The document, piece by piece."""
    title = info.title or "Conversation with the agent"
    yield f"# {_plain(title)}\n\n"
    about = [f"Began {iso(info.began_us)}", f"session `{info.session}`"]
    if info.notebook:
        about.append(f"notebook {_code(info.notebook)}")
    yield f"{', '.join(about)}.\n"
    turn = 0
    for line in transcript(entries):
        if line.turn != turn:
            turn = line.turn
            yield f"\n## Turn {turn}\n"
        yield f"\n{_line(line)}"


def _line(line: Line) -> str:
    if line.who == "told":
        detail = f" ({_plain(line.detail)})" if line.detail else ""
        return f"*{_plain(line.text)}*{detail}\n"
    head = f"**{_WHO[line.who]}**" + (f" · {_plain(line.detail)}" if line.detail else "")
    if not line.text:
        return f"{head}\n"
    if line.who == "agent":
        return f"{head}\n\n" + "".join(f"> {each}\n" for each in line.text.splitlines())
    return f"{head}\n\n{_fenced(line.text)}"


def _fenced(text: str) -> str:
    """Text that means nothing to Markdown, whatever it holds."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text.rstrip()}\n{fence}\n"


def _code(text: str) -> str:
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    mark = "`" * (longest + 1)
    return f"{mark} {_one_line(text)} {mark}"


def _plain(text: str) -> str:
    """One line in which no character means something to Markdown or HTML."""
    return re.sub(r"([\\`*_{}\[\]()<>#+.!|~&-])", r"\\\1", _one_line(text))


def _one_line(text: str) -> str:
    return " ".join(text.split())
