"""Builds HTML: whatever was not built here is escaped (pure)."""

from __future__ import annotations

import re
from html import escape
from typing import Final

#: Control characters, directions and lone surrogates: shown as their code, never sent as they are.
_ODD: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
#: Elements without content or end tag.
_VOID: Final = frozenset({"meta", "img", "br", "hr"})


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


Child = str | None


def clean(text: str) -> str:
    """`text` with what could reorder, hide or break it made visible."""
    return _ODD.sub(lambda match: f"\\u{ord(match.group()):04x}", text.replace("\r\n", "\n"))


def text(value: str) -> Html:
    return value if isinstance(value, Html) else Html(escape(clean(value), quote=True))


def short(words: str, most: int = 600) -> str:
    """A sentence of which nobody knows how long it is, cut."""
    return words if len(words) <= most else f"{words[:most]}…"


def tag(name: str, /, *children: Child, **attributes: str | bool | int | None) -> Html:
    """An element. Attributes are escaped; `class_` and `for_` lose their underscore.

    Values None and False leave an attribute out, True gives one without a value.
    """
    said = []
    for key, value in attributes.items():
        named = key.rstrip("_").replace("_", "-")
        if value is True:
            said.append(f" {named}")
        elif value is not None and value is not False:
            said.append(f' {named}="{text(value if isinstance(value, str) else str(value))}"')
    opened = f"<{name}{''.join(said)}>"
    if name in _VOID:
        return Html(opened)
    return Html(f"{opened}{join(*children)}</{name}>")


def join(*children: Child) -> Html:
    return Html("".join(text(child) for child in children if child is not None))
