"""Looks at sanitised HTML as a parser sees it: what would act, load, or take a name of the page."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Final

from reprise.jupyter.static.words import words

_ACTING: Final = words(
    "script style link meta base iframe frame object embed applet form input button select textarea"
    " template noscript svg math dialog portal canvas"
)
_NAMING: Final = frozenset({"id", "name", "for", "form", "is", "slot"})
_LOADING: Final = words(
    "srcset poster background action formaction data manifest ping cite longdesc code codebase"
    " archive classid dynsrc lowsrc srcdoc xlink:href"
)
_PICTURES: Final = ("data:image/", "data:audio/", "data:video/")


class _Looking(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _ACTING:
            self.found.append(f"<{tag}>")
        for name, given in attrs:
            value = given or ""
            if name.startswith(("on", "data-")) or name in _NAMING | _LOADING:
                self.found.append(f"{name}={value}")
            elif name == "href" and not value.startswith(("http://", "https://", "mailto:")):
                self.found.append(f"href={value}")
            elif name == "src" and not value.startswith(_PICTURES):
                self.found.append(f"src={value}")
            elif name == "class" and value != "dataframe":
                self.found.append(f"class={value}")
            elif name == "style" and any(
                word in value.lower()
                for word in ("url", "image", "position", "expression", "\\", "/*", "@", "binding")
            ):
                self.found.append(f"style={value}")

    def handle_decl(self, decl: str) -> None:
        self.found.append(f"<!{decl}>")

    def handle_pi(self, data: str) -> None:
        self.found.append(f"<?{data}>")

    def handle_comment(self, data: str) -> None:
        self.found.append(f"<!--{data}-->")


def acting(html: str) -> list[str]:
    """What of it would act; [] for static HTML."""
    looking = _Looking()
    looking.feed(html)
    looking.close()
    return looking.found
