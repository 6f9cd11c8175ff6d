"""The card of one step on a verify page: its code, likely causes, and what it showed (pure)."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import BashLexer, PythonLexer

from reprise.replay.causes import Cause
from reprise.replay.difference import Difference
from reprise.replay.report import StepReport, Verdict
from reprise.replay.shown import Piece
from reprise.report.differences import side_by_side, unified
from reprise.report.markup import Html, clean, join, short, tag

#: How each verdict is marked: shape and word, so that no colour has to be seen.
MARKS: Final[dict[Verdict, str]] = {
    "same": "✓",
    "volatile": "≈",
    "different": "≠",
    "could not run": "✕",
    "skipped": "–",
}
#: Characters of a source that are shown.
SOURCE: Final = 12_000

_LABELS: Final = {
    "stdout": "output",
    "stderr": "errors and warnings (stderr)",
    "error": "error",
    "result": "result",
    "markup": "HTML, its source",
    "image": "image",
    "question": "asked for input",
    "end": "end",
    "note": "note",
}

_FORMAT: Final = HtmlFormatter(nowrap=True, classprefix="c-")


@dataclass
class Room:
    """What may still go on the page, so that no session makes it too large for a browser."""

    characters: int = 12_000_000
    image_bytes: int = 12 << 20

    def text(self, value: str) -> str | None:
        if len(value) > self.characters:
            return None
        self.characters -= len(value)
        return value


def css_class(verdict: str) -> str:
    return verdict.replace(" ", "-")


def card(step: StepReport, room: Room, *, python: bool) -> Html:
    """The step as a disclosure, open where there is something to see."""
    is_open = step.verdict in ("different", "could not run")
    summary = tag(
        "summary",
        tag("span", str(step.seq), class_="seq"),
        badge(step.verdict),
        tag("span", short(step.kind, 40), class_="kind"),
        tag("code", _first_line(step.source), class_="first"),
        tag("span", _timing(step), class_="timing"),
    )
    return tag(
        "details",
        summary,
        tag("div", *_body(step, room, python=python), class_="body"),
        class_=f"step {css_class(step.verdict)}",
        id=f"step-{step.seq}",
        open=is_open,
        data_verdict=css_class(step.verdict),
    )


def badge(verdict: Verdict) -> Html:
    return tag(
        "span",
        tag("span", MARKS[verdict], class_="mark", aria_hidden="true"),
        verdict,
        class_=f"badge {css_class(verdict)}",
    )


def _body(step: StepReport, room: Room, *, python: bool) -> Iterable[Html]:
    if step.source:
        yield _source(step, room, python=python)
    if step.reason:
        yield tag("p", _sentence(step.reason), class_="reason")
    if step.causes:
        yield causes(step.causes)
    if step.chance is not None and step.verdict != "same":
        agree = (
            "Two replays differ from each other, too."
            if step.chance
            else "Two replays agree with each other; only the record differs."
        )
        yield tag("p", agree, class_="reason")
    yield from _outputs(step, room)
    differences = () if step.comparison is None else step.comparison.differences
    if differences:
        yield _listed(differences, 0 if step.comparison is None else step.comparison.omitted, room)
    yield _facts(step)


def _sentence(words: str) -> str:
    cut = short(words)
    return f"{cut[:1].upper()}{cut[1:]}."


def _source(step: StepReport, room: Room, *, python: bool) -> Html:
    source = room.text(step.source[:SOURCE])
    if source is None:
        return tag("p", "The code is left out to keep this page small.", class_="reason")
    cut = len(step.source) - len(source)
    more = tag("p", f"{cut:,} more characters are not shown.", class_="reason") if cut else None
    if step.kind in ("cell", "command") and (python or step.kind == "command"):
        lexer = BashLexer() if step.kind == "command" else PythonLexer()
        # The formatter escapes what it wraps; what it is given has no odd characters left.
        shown: str = Html(highlight(clean(source), lexer, _FORMAT))
    else:
        shown = source
    return join(tag("pre", tag("code", shown), class_="source", tabindex="0"), more)


def causes(found: Iterable[Cause]) -> Html:
    """Guesses at why, each with its mend."""
    items = [
        tag(
            "li",
            tag("span", _with_code(cause.text)),
            tag("span", _with_code(cause.mend), class_="mend") if cause.mend else None,
        )
        for cause in found
    ]
    return tag("div", tag("h4", "Where this may come from"), tag("ul", *items), class_="causes")


def _with_code(words: str) -> Html:
    """What stands between backticks as code."""
    return join(
        *(tag("code", part) if at % 2 else part for at, part in enumerate(short(words).split("`")))
    )


def _outputs(step: StepReport, room: Room) -> Iterable[Html]:
    if not step.replayed or step.verdict not in ("different", "volatile"):
        shown = [_one(piece, room) for piece in step.recorded]
        if shown:
            yield tag("h4", "What it showed")
            yield from shown
        return
    yield tag("h4", "What it showed")
    left, right = list(step.recorded), list(step.replayed)
    while left or right:
        a = left.pop(0) if left else None
        b = right.pop(0) if right else None
        if a is not None and b is not None and a.kind != b.kind:
            # One side has something that the other lacks: the side that meets its like goes on.
            if any(each.kind == b.kind for each in left):
                right.insert(0, b)
                b = None
            else:
                left.insert(0, a)
                a = None
        yield _pair(a, b, room)


def _pair(a: Piece | None, b: Piece | None, room: Room) -> Html:
    if a == b and a is not None:
        return _one(a, room, remark="the same in both")
    kind = a.kind if a is not None else b.kind if b is not None else "note"
    if kind == "image":
        both = _figure(a, "recorded", room), _figure(b, "replayed", room)
        return _shown(kind, tag("div", *both, class_="images"))
    old, new = (None if each is None else room.text(each.text) for each in (a, b))
    if (a is not None and old is None) or (b is not None and new is None):
        return _shown(kind, tag("p", "Left out to keep this page small.", class_="reason"))
    if a is None:
        return _shown(kind, _text(new or ""), "on the replay only")
    if b is None:
        return _shown(kind, _text(old or ""), "in the record only")
    return _shown(kind, side_by_side(old or "", new or ""), _cut_remark(max(a.cut, b.cut)))


def _one(piece: Piece, room: Room, remark: str = "") -> Html:
    if piece.kind == "image":
        return _shown("image", tag("div", _figure(piece, "", room), class_="images"), remark)
    text = room.text(piece.text)
    if text is None:
        return _shown(piece.kind, tag("p", "Left out to keep this page small.", class_="reason"))
    return _shown(piece.kind, _text(text), remark or _cut_remark(piece.cut))


def _cut_remark(cut: int) -> str:
    return f"{cut:,} more characters are not shown" if cut else ""


def _shown(kind: str, content: Html, remark: str = "") -> Html:
    label = tag("span", _LABELS.get(kind, kind), class_="label")
    note = tag("span", remark, class_="remark") if remark else None
    return tag("div", tag("p", label, note), content, class_=f"output {kind}")


def _text(text: str) -> Html:
    return tag("pre", text, tabindex="0")


def _figure(piece: Piece | None, caption: str, room: Room) -> Html:
    named = tag("figcaption", caption) if caption else None
    if piece is None or piece.image is None:
        return tag("figure", named, tag("p", "no image here", class_="reason"))
    size = len(piece.image.data)
    if size > room.image_bytes:
        return tag("figure", named, tag("p", "left out to keep this page small", class_="reason"))
    room.image_bytes -= size
    data = base64.b64encode(piece.image.data).decode("ascii")
    described = f"{caption or 'shown'} image; its text: {piece.text[:200] or 'none'}"
    return tag(
        "figure",
        named,
        # Base64 holds nothing to escape, and there is much of it.
        tag("img", src=Html(f"data:{piece.image.mime};base64,{data}"), alt=described),
    )


def _listed(differences: Iterable[Difference], omitted: int, room: Room) -> Html:
    """All differences as the comparison found them, for those who want them exactly."""
    items = []
    for each in differences:
        shown = each.diff or f"-{each.recorded}\n+{each.replayed}"
        if room.text(shown) is None:
            break
        named = short(f"{each.where}: {each.kind}" + (" (volatile)" if each.volatile else ""))
        items.append(tag("li", tag("p", named), unified(shown)))
    more = tag("p", f"{omitted} more are not listed.", class_="reason") if omitted else None
    title = tag("summary", f"As compared: {len(items)} difference(s)")
    return tag("details", title, tag("ol", *items), more, class_="listed")


def _facts(step: StepReport) -> Html:
    facts = [f"asked by {short(step.actor, 40)}", f"accepted {moment(step.at)}"]
    if step.status is not None:
        facts.append(f"outcome {step.status}")
    if step.again is not None:
        facts.append(f"second replay: {step.again}")
    return tag("p", " · ".join(facts), class_="facts")


def _timing(step: StepReport) -> str:
    if step.verdict in ("skipped", "could not run"):
        return duration(step.recorded_s)
    return f"{duration(step.recorded_s)} → {duration(step.took_s)}"


def duration(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s"


def moment(at_us: int) -> str:
    return f"{datetime.fromtimestamp(at_us / 1e6, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _first_line(source: str) -> str:
    lines = [line.strip() for line in source[:4000].splitlines() if line.strip()]
    return lines[0][:160] if lines else "(empty)"
