"""The decision frame: a page of its own origin in which acts that widen rights are pressed (pure).

No script of the page around it can read it, fetch it or press in it, and no style of that page
reaches into it. Everything in it is escaped text; its one script and one style are known by hash.
"""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, Literal

from reprise_server.agent.exact import pieces
from reprise_server.api.matter import Choice, Matter

FOLDER: Final = Path(__file__).with_name("frame")

Theme = Literal["light", "dark", "high-contrast"]

#: What a person reads where a browser cannot prove that this is a frame (Fetch Metadata is sent to
#: trustworthy origins only: https://www.w3.org/TR/fetch-metadata/).
NEEDS_HTTPS: Final = (
    "Approving here needs HTTPS or localhost. Nothing ran. Use `reprise agent` in a terminal."
)


@dataclass(frozen=True)
class Shown:
    """A page, ASCII only, and the policy that it is to be sent with."""

    page: bytes
    policy: str


def decision_page(
    identity: str, matter: Matter, nonces: Mapping[str, str], left_s: float, theme: Theme
) -> Shown:
    """A decision that waits. nonces: option → nonce of this showing. left_s: until it ends."""
    choices = sorted(matter.choices, key=lambda each: each.look != "reject")
    buttons = "".join(_button(each, nonces[each.option]) for each in choices)
    parts = "".join(_part(each, nonces[each.option]) for each in choices if _opens(each))
    body = (
        f'<main aria-labelledby="title" data-decision="{_text(identity)}"'
        f' data-left="{max(0, int(left_s * 1000))}"'
        f' data-ending="{_text(matter.ending)}">'
        f'<header><h1 id="title">{_text(matter.title)}</h1>'
        '<p class="left">ends in <span id="left" aria-hidden="true"></span></p></header>'
        f"{_scroll(matter.said, f'Exactly what was asked for: {matter.title}')}"
        f'<p class="why">Why asked: {_text(matter.why)}</p>'
        f'{parts}<footer role="group" aria-labelledby="title">{buttons}</footer>'
        '<p class="told" id="told" role="status"></p></main>'
    )
    return _page(body, theme, script=True)


def message_page(text: str, theme: Theme) -> Shown:
    """A sentence in place of a decision."""
    return _page(f'<main><p class="told" role="status">{_text(text)}</p></main>', theme)


def policy(*, script: bool) -> str:
    """The Content-Security-Policy: nothing but the frame's own script and style, in an origin of
    its own, within pages of this server only."""
    own = [f"style-src 'sha256-{_hash(_style())}'"]
    if script:
        own.append(f"script-src 'sha256-{_hash(_script())}'")
    return "; ".join(
        ["sandbox allow-scripts", "default-src 'none'", "frame-ancestors 'self'", *own]
    )


def _page(body: str, theme: Theme, *, script: bool = False) -> Shown:
    text = (
        f'<!doctype html><html lang="en" data-theme="{theme}"><head><meta charset="utf-8">'
        "<title>Decision</title>"
        f"<style>{_style()}</style></head><body>{body}"
        f"{f'<script>{_script()}</script>' if script else ''}</body></html>"
    )
    return Shown(text.encode("ascii", "xmlcharrefreplace"), policy(script=script))


def _scroll(said: tuple[tuple[str, str], ...], label: str) -> str:
    """Texts, each under its name, in one part that scrolls and that the keyboard reaches."""
    shown = "".join(
        # A parser drops the first line feed of a `pre`: this one, and none of the text's.
        f"<h2>{_text(name)}{_size(text)}</h2><pre>\n{_exactly(text)}</pre>"
        for name, text in said
    )
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{_text(label)}">'
        f"<div>{shown}</div></div>"
    )


def _size(text: str) -> str:
    """Said where a part of it may be out of view."""
    lines = text.count("\n") + 1
    if lines <= 5 and len(text) <= 400:
        return ""
    return f" ({lines:,} lines, {len(text):,} characters)"


def _exactly(text: str) -> str:
    return "".join(
        f"<b>{html.escape(each.shown)}</b>" if each.escaped else html.escape(each.shown)
        for each in pieces(text)
    )


def _opens(choice: Choice) -> bool:
    """Whether more has to be seen before it can be pressed."""
    return bool(choice.shows) or choice.reason


def _button(choice: Choice, nonce: str) -> str:
    if _opens(choice):
        return (
            f'<button type="button" aria-expanded="false" aria-controls="part-{choice.option}">'
            f"{_text(choice.label)}&hellip;</button>"
        )
    return _press(choice, nonce, choice.label)


def _press(choice: Choice, nonce: str, label: str) -> str:
    return (
        f'<button type="button" class="{choice.look}" data-nonce="{_text(nonce)}">'
        f"{_text(label)}</button>"
    )


def _part(choice: Choice, nonce: str) -> str:
    shows = _scroll(choice.shows, f"{choice.label}, exactly") if choice.shows else ""
    reason = (
        '<input type="text" maxlength="2000" aria-label="Reason (the agent is told)"'
        ' placeholder="Reason (the agent is told)">'
        if choice.reason
        else ""
    )
    return (
        f'<section class="more" id="part-{choice.option}" hidden>{shows}{reason}'
        f"<div>{_press(choice, nonce, f'Yes: {choice.label}')}</div></section>"
    )


def _text(text: str) -> str:
    """Within a line or an attribute: nothing unseen there either."""
    return html.escape("".join(each.shown for each in pieces(text)))


@cache
def _style() -> str:
    return (FOLDER / "frame.css").read_text(encoding="utf-8")


@cache
def _script() -> str:
    return (FOLDER / "frame.js").read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """As browsers compute it of the element's text (CSP Level 3, section 6.7.3.3)."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
