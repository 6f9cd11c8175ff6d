"""What a step showed, as a model gets it: harmless text within bounds, and images (pure).

Nothing that a terminal or a reader would obey or not see passes: colours go, other escape sequences
become visible, what a carriage return overwrote is left out with a mark.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from reprise.client.results import StepResult
from reprise.skills.quoted import seen
from reprise_server.agent.contract import RESULT_CHARACTERS, Block, CallEnd
from reprise_server.agent.tools.images import IMAGE_TYPES, Image, image

#: Colours and their like, and erasing to a line's end: they say nothing.
_LOOKS: Final = re.compile(r"\x1b\[[0-9;:]*[mK]")
#: Of an error, the lines of a traceback at its beginning and its end; deep recursions are longer.
_TRACE_HEAD, _TRACE_TAIL = 20, 40
#: Characters of one line that are shown in a listing of lines.
LINE: Final = 2_000


def harmless(text: str) -> str:
    """The text without anything that acts on who reads it, or hides from them."""
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text
    text = _LOOKS.sub("", text.replace("\r\n", "\n"))
    if "\r" in text:
        text = "\n".join(_overwritten(line) for line in text.split("\n"))
    return seen(text.replace("\x1b", "␛"))


def _overwritten(line: str) -> str:
    """A line as a terminal leaves it; a progress bar is its last state."""
    if "\r" not in line:
        return line
    states = [state for state in line.split("\r") if state]
    if len(states) < 2:
        return states[0] if states else ""
    return f"[overwritten {several(len(states) - 1, 'time')}] {states[-1]}"


def several(count: int, thing: str) -> str:
    """ "1 line", "2,000 lines"."""
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"


@dataclass(frozen=True)
class Fitted:
    """A text within a bound. left_out: characters between its head and its tail."""

    text: str
    left_out: int


def fitted(text: str, most: int, where: str) -> Fitted:
    """A text's head and tail within `most` characters (at least 1,000), cut at lines if it may.

    where: what is said in the middle of how to see the rest.
    """
    if len(text) <= most:
        return Fitted(text, 0)
    mark = f"\n[… {len(text):,} characters in all, the middle is left out here. {where}]\n"
    room = most - len(mark)
    head, tail = text[: room * 2 // 3], text[len(text) - room // 3 :]
    at = head.rfind("\n")
    if at > len(head) * 3 // 4:
        head = head[:at]
    at = tail.find("\n")
    if 0 <= at < len(tail) // 4:
        tail = tail[at + 1 :]
    return Fitted(f"{head}{mark}{tail}", len(text) - len(head) - len(tail))


def clipped(head: str, tail: str, most: int, mark: str) -> str:
    """A beginning and an end of something longer, within `most` characters, `mark` between."""
    room = most - len(mark) - 2
    return f"{head[: room * 2 // 3]}\n{mark}\n{tail[-(room // 3) :]}"


@dataclass
class Summary:
    """What a cell showed. text: all of it, harmless, of any length.  images: in their order."""

    text: str = ""
    images: list[Image] = field(default_factory=list)


def summary(outputs: Iterable[Mapping[str, Any]]) -> Summary:
    """What a cell shows (outputs of nbformat 4)."""
    found = Summary()
    parts: list[str] = []
    for output in outputs:
        text = _said(output, found)
        if text and parts and not parts[-1].endswith("\n"):
            parts.append("\n")
        parts.append(text)
    found.text = "".join(parts)
    return found


def _said(output: Mapping[str, Any], into: Summary) -> str:
    """The text of one output; its images go into the summary."""
    kind = output.get("output_type")
    if kind == "stream":
        text = harmless(_joined(output.get("text", "")))
        return f"[stderr] {text}" if output.get("name") == "stderr" and text.strip() else text
    if kind == "error":
        return error_text(output)
    data = output.get("data")
    if not isinstance(data, Mapping) or not data:
        return ""
    return _bundle(data, into)


def _bundle(data: Mapping[str, Any], into: Summary) -> str:
    lines: list[str] = []
    for kind in IMAGE_TYPES:
        if kind in data:
            made = image(kind, _joined(data[kind]))
            if isinstance(made, Image):
                into.images.append(made)
                lines.append(f"[image {len(into.images)}: {kind}, {made.width}×{made.height}]")
            else:
                lines.append(f"[{kind}: {made}]")
            break
    plain = _joined(data.get("text/plain", ""))
    if plain:
        lines.append(harmless(plain))
    elif "text/markdown" in data:
        lines.append(harmless(_joined(data["text/markdown"])))
    elif not lines:
        kinds = ", ".join(
            f"{harmless(str(kind))[:80]} ({len(_joined(value)):,} characters)"
            for kind, value in list(data.items())[:10]
        )
        lines.append(f"[shown, but not as text: {kinds}]")
    return "\n".join(lines) + "\n"


def _joined(value: Any) -> str:
    """A part of a bundle as text; nbformat may hold it as a list of lines."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return "".join(value)
    return str(value)


def error_text(content: Mapping[str, Any]) -> str:
    """An error with its traceback; of a long one the beginning and the end."""
    told = content.get("traceback")
    lines = [harmless(str(line)) for line in told] if isinstance(told, list) else []
    lines = "\n".join(lines).split("\n") if lines else []
    if len(lines) > _TRACE_HEAD + _TRACE_TAIL:
        left = len(lines) - _TRACE_HEAD - _TRACE_TAIL
        lines = [*lines[:_TRACE_HEAD], f"[… {left:,} lines …]", *lines[-_TRACE_TAIL:]]
    name, value = harmless(str(content.get("ename", ""))), harmless(str(content.get("evalue", "")))
    last = f"{name}: {value}".strip(": ")
    if last and last not in "\n".join(lines[-3:]):
        lines.append(last)
    return "\n".join(lines) + "\n"


#: Of an end of a step the sentence that a model needs beside the status.
_ENDS: Final[Mapping[str, str]] = {
    "interrupted": "It was interrupted; what it had done until then is there.",
    "timeout": "It took longer than it may, so it was ended.",
    "died": "The sandbox died while it ran, so it is rolled back: state is as before the step.",
    "lost": (
        "The kernel ended before its outcome was recorded. It may have run; state is as before the"
        " step. Do not run it again unless that is safe."
    ),
}


def headline(result: StepResult) -> str:
    """How a step ended, in a line or two."""
    line = f"step {result.seq} · {result.status} · {result.duration_s:.1f} s"
    if result.repeated:
        line += " · answered from the log, nothing ran again"
    end = _ENDS.get(result.status)
    if end is None:
        return f"{line}\n"
    why = harmless(result.error.text).strip() if result.error is not None else ""
    return f"{line}\n{end}{f' ({why[:500]})' if why else ''}\n"


def ended(result: StepResult) -> CallEnd:
    """What a call comes to whose step ended so."""
    if result.status == "ok":
        return "ok"
    return "lost" if result.status == "lost" else "error"


def blocks(text: str, images: Sequence[Image] = ()) -> list[Block]:
    """A result's content; the text is within its bound already."""
    if len(text) > RESULT_CHARACTERS:
        raise ValueError("a result's text was not fitted")
    # The API takes no empty text.
    return [{"type": "text", "text": text or "(nothing)"}, *(each.block() for each in images)]
