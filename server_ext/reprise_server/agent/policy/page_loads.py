"""Whether a page that shows a text may fetch something for it, or lead a reader there (pure).

Markdown in a notebook is drawn by whatever front end opens it, and an image in it is fetched as
soon as it is seen: its address can carry out whatever was put into it. No two readers of Markdown
and HTML agree on what is an image or a link, so what is looked for is what each of them needs for
one, however it is spelled. What is found too much costs a question, and only once something
untrusted is in the context.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

#: An image, a link, a reference, a tag, an address, and what TeX has of these.
_NEEDED: Final = re.compile(
    r"!\[|\]\(|\]\[|\]:|<[A-Za-z/!?]|//|www\.|\\\\|@|&(?:#|[A-Za-z]+;)"
    r"|[A-Za-z][A-Za-z0-9+.-]*:[^\s]"
    r"|\\(?:href|url|include|input|style|class|cssId|data|require|unicode|html)",
    re.IGNORECASE,
)


def may_load(text: str) -> bool:
    """Whether showing `text` as Markdown may fetch or link to anything."""
    return _NEEDED.search(text) is not None


def edits_may_load(edits: Iterable[Mapping[str, Any]]) -> bool:
    """Whether edits of a notebook (exact ones) put such a text where it is drawn as Markdown.

    The source of a code cell is drawn as code; of a kind that is not known, nothing is assumed.
    """
    return any(
        edit.get("do") in ("insert", "replace")
        and edit.get("type") != "code"
        and may_load(str(edit.get("source") or ""))
        for edit in edits
    )
