"""What a page would do with an output: run it, or ask somebody for something, by a real reader."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from typing import Any

from markdown_it import MarkdownIt

#: Attributes by which an element fetches, whatever it is.
_FETCHING = frozenset(
    [
        "src",
        "srcset",
        "data",
        "poster",
        "background",
        "action",
        "formaction",
        "manifest",
        "ping",
        "xlink:href",
        "lowsrc",
        "dynsrc",
        "code",
        "codebase",
        "classid",
        "profile",
        "imagesrcset",
    ]
)
#: Elements whose `href` is fetched, rather than followed on a click.
_LINKED = frozenset(["link", "base", "use", "image", "feimage", "script", "pattern", "filter"])
#: Elements that act, whatever they say.
_ACTING = frozenset(
    ["script", "iframe", "frame", "object", "embed", "meta", "form", "foreignobject"]
)
_STYLE = re.compile(r"url\s*\(|@import|expression\s*\(", re.IGNORECASE)
_TEX = re.compile(
    r"\\(?:href|url|includegraphics|require|def|class|style|data|html)", re.IGNORECASE
)
#: Types of which a page makes more than a picture, by code that it has or loads.
_LIVE = re.compile(r"application/(?:javascript|ecmascript|vnd\.(?!reprise).*)|text/javascript")


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[str] = []
        self.styles = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.styles += tag == "style"
        if tag in _ACTING:
            self.found.append(f"<{tag}>")
        for name, value in attrs:
            said = (value or "").strip()
            fetched = name in _FETCHING or (name == "href" and tag in _LINKED)
            if fetched and said and not said.startswith(("data:", "#", "attachment:")):
                self.found.append(f"<{tag} {name}={said}>")
            if name.startswith("on") or said.lower().startswith("javascript:"):
                self.found.append(f"<{tag} {name}={said}>")
            if name == "style" and _STYLE.search(said):
                self.found.append(f"<{tag} style={said}>")

    handle_startendtag = handle_starttag

    def handle_endtag(self, tag: str) -> None:
        self.styles -= tag == "style"

    def handle_data(self, data: str) -> None:
        if self.styles and _STYLE.search(data):
            self.found.append(f"<style>{data}")


def acts(output: Mapping[str, Any]) -> Iterator[str]:
    """What showing an output of a notebook would lead to besides being seen."""
    for kind, data in output.get("data", {}).items():
        text = "".join(data) if isinstance(data, list) else str(data)
        if _LIVE.fullmatch(kind) or (kind == "text/latex" and _TEX.search(text)):
            yield f"{kind}: {text}"
        elif kind in ("text/html", "image/svg+xml"):
            yield from _read(text)
        elif kind == "text/markdown":
            yield from _read(MarkdownIt("commonmark", {"html": True}).render(text))


def drawn(source: str) -> Iterator[str]:
    """What drawing a Markdown cell would lead to, links included: a click is soon made."""
    html = MarkdownIt("commonmark", {"html": True, "linkify": False}).render(source)
    yield from _read(html)
    if re.search(r"<a\s[^>]*href|\\href|//", html):
        yield f"a link in {source}"


def _read(html: str) -> list[str]:
    reader = _Reader()
    reader.feed(html)
    reader.close()
    return reader.found
