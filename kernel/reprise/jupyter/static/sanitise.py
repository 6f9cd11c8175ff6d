"""HTML and Markdown without anything that acts: sanitised by nh3, within bounds (pure).

nh3 is ammonia: an HTML5 parser and an allowlist over its tree. What stays draws tables, text and
pictures that are in the output itself. Nothing that stays runs, loads from elsewhere, has a name
in the page's DOM, or leaves its place on the page.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

import nh3

from reprise.jupyter.static import styles, tex
from reprise.jupyter.static.words import words

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

#: Bounds of what is parsed, since an HTML5 parser takes time with the square of the depth (200,000
#: nested <div> took it 203 s, measured). 10,000 tags nested in the worst way take 0.3 s.
HTML_CHARACTERS: Final = 4 << 20
TAGS: Final = 100_000
TAGS_OF_ANY_DEPTH: Final = 10_000
DEPTH: Final = 200

#: markdown-it reads about 0.5 MB/s, hostile text at a tenth of that.
MARKDOWN_CHARACTERS: Final = 64 << 10

_TAGS: Final = words(
    """
    a abbr article aside audio b bdi bdo blockquote br caption center cite code col colgroup dd del
    details dfn div dl dt em figcaption figure footer h1 h2 h3 h4 h5 h6 header hr i img ins kbd li
    mark meter ol p pre progress q rp rt ruby s samp section small source span strong sub summary
    sup table tbody td tfoot th thead time tr u ul var video
    """
)
#: Dropped with all they hold; of other tags that are not allowed the text stays.
_WHOLLY_DROPPED: Final = words(
    """
    applet canvas embed frame frameset iframe math noembed noframes noscript object plaintext
    script select style svg template textarea title xmp
    """
)
_ATTRIBUTES: Final[Mapping[str, frozenset[str]]] = {
    "*": frozenset({"title", "dir", "lang", "align", "valign", "style", "hidden"}),
    "a": frozenset({"href"}),
    "img": frozenset({"src", "alt", "width", "height"}),
    "audio": frozenset({"src", "controls", "loop"}),
    "video": frozenset({"src", "controls", "loop", "width", "height"}),
    "source": frozenset({"src", "type"}),
    "table": frozenset({"border", "cellpadding", "cellspacing", "width"}),
    "td": frozenset({"colspan", "rowspan", "width", "height"}),
    "th": frozenset({"colspan", "rowspan", "width", "height", "scope", "abbr"}),
    "col": frozenset({"span", "width"}),
    "colgroup": frozenset({"span", "width"}),
    "ol": frozenset({"start", "type", "reversed"}),
    "ul": frozenset({"type"}),
    "li": frozenset({"value"}),
    "details": frozenset({"open"}),
    "time": frozenset({"datetime"}),
    "del": frozenset({"datetime"}),
    "ins": frozenset({"datetime"}),
    "meter": frozenset({"value", "min", "max", "low", "high", "optimum"}),
    "progress": frozenset({"value", "max"}),
}

#: HTML5's formatting elements. Where they are left open the parser repeats all of them in each
#: block that follows: 90 kB become 176 MB (measured). While it is parsed they have other names,
#: of elements that mean nothing to a parser.
_FORMATTING: Final = words("a b big code em font i nobr s small strike strong tt u")
_STAND_IN: Final = "r-"
_TO_STAND_IN: Final = re.compile(rf"<(/?)({'|'.join(_FORMATTING)})(?=[\s/>])", re.IGNORECASE)
_FROM_STAND_IN: Final = re.compile(rf"<(/?){_STAND_IN}({'|'.join(_FORMATTING)})(?=[\s>])")

_OPENING: Final = re.compile(r"<(/?)([A-Za-z][^\s/>]*)")
_EMPTY: Final = words(
    """
    area base br col dd dt embed hr img input li link meta option p param source tbody td tfoot th
    thead tr track wbr
    """
)

_LINK: Final = re.compile(
    r"(?:https?://[A-Za-z0-9\[]|mailto:[^\s:/])[^\s\x00-\x1f\x7f\\<>\"]{0,4000}"
)
_PICTURE: Final = re.compile(
    r"data:image/(?:png|jpe?g|gif|webp|bmp|avif);base64,[A-Za-z0-9+/=\s]+", re.IGNORECASE
)
_SOUND: Final = re.compile(
    r"data:(?:audio|video)/[A-Za-z0-9.+-]{1,40};base64,[A-Za-z0-9+/=\s]+", re.IGNORECASE
)
_NUMBER: Final = re.compile(r"\s*\d{1,4}(?:\.\d{1,4})?%?\s*")
_SIZES: Final = frozenset({"width", "height", "border", "cellpadding", "cellspacing", "span"})

#: What a person would miss, and how it shows in the source. For what is said, not for safety.
_MISSED: Final = (
    (
        "scripts",
        re.compile(
            r"<script|<[^>]{1,400}(?:\son[a-z]{3,30}\s*=|=[\s\"']*javascript:)", re.IGNORECASE
        ),
    ),
    ("frames", re.compile(r"<(?:iframe|object|embed|frame)\b", re.IGNORECASE)),
    ("forms", re.compile(r"<(?:form|input|button|select|textarea)\b", re.IGNORECASE)),
    ("drawings", re.compile(r"<(?:svg|math|canvas)\b", re.IGNORECASE)),
    # Not the plain rules that pandas puts before every table (`<style scoped>`).
    ("style sheets", re.compile(r"<style(?!\s+scoped)|<link\b", re.IGNORECASE)),
    (
        "what is loaded from elsewhere",
        re.compile(r"<(?:img|audio|video|source)\b[^>]{0,200}?\ssrc(?:set)?\s*=\s*(?![\"']?data:)",
                   re.IGNORECASE),
    ),
)  # fmt: skip


class NotShown(ValueError):
    """It is too large, too deep, or not what it is said to be; the text says which."""


@dataclass(frozen=True)
class Clean:
    """Sanitised HTML, and what a person would miss in it."""

    html: str
    missed: tuple[str, ...] = ()


def sanitise_html(source: str) -> Clean:
    """HTML as static output shows it. Raises NotShown."""
    source = source.encode("utf-8", "replace").decode()  # no lone surrogates: nh3 speaks UTF-8
    _check(source)
    missed = tuple(what for what, sign in _MISSED if sign.search(source))
    parsed = nh3.clean(
        _TO_STAND_IN.sub(rf"<\1{_STAND_IN}\2", source),
        tags=_ALLOWED,
        clean_content_tags=set(_WHOLLY_DROPPED),
        attributes=_BY_TAG,
        attribute_filter=_attribute,
        strip_comments=True,
        link_rel=None,
        url_schemes={"http", "https", "mailto", "data"},
        url_relative="deny",
        allowed_classes={"table": {"dataframe"}},
    )
    return Clean(tex.guarded(_FROM_STAND_IN.sub(_tag, parsed)), missed)


def sanitise_markdown(source: str) -> Clean:
    """Markdown as sanitised HTML, its mathematics as they were. Raises NotShown.

    As HTML, because what two Markdown parsers take for code, a link or a tag differs.
    """
    if len(source) > MARKDOWN_CHARACTERS:
        raise NotShown(f"Markdown of more than {MARKDOWN_CHARACTERS:,} characters")
    formulas: list[str] = []

    def keep(found: re.Match[str]) -> str:
        formulas.append(found[0])
        return f"{_FORMULA[0]}{len(formulas) - 1}{_FORMULA[1]}"

    text = _MATHEMATICS.sub(keep, source.replace(_FORMULA[0], "").replace(_FORMULA[1], ""))
    rendered = _markdown().render(text)
    return sanitise_html(
        _KEPT_FORMULA.sub(lambda found: html.escape(formulas[int(found[1])]), rendered)
    )


#: Marks of a formula that Markdown is not to read: characters of private use.
_FORMULA: Final = "\ue010\ue011"
_KEPT_FORMULA: Final = re.compile(f"{_FORMULA[0]}([0-9]{{1,9}}){_FORMULA[1]}")
_MATHEMATICS: Final = re.compile(
    r"\$\$(?:[^$\\]|\\[\s\S]){1,4000}?\$\$|\$(?:[^$\\\n]|\\.){1,1000}?\$"
    r"|\\\\?\((?:[^\\]|\\(?!\\?\))){1,1000}?\\\\?\)|\\\\?\[(?:[^\\]|\\(?!\\?\])){1,4000}?\\\\?\]"
    r"|\\begin\{([A-Za-z]{1,20}\*?)\}[\s\S]{0,4000}?\\end\{\1\}"
)


@cache
def _markdown() -> MarkdownIt:
    # Not with the module: most kernels never need it, and importing it takes 80 ms of their start.
    from markdown_it import MarkdownIt  # noqa: PLC0415

    known = MarkdownIt("commonmark", {"html": True, "maxNesting": 40})
    return known.enable(["table", "strikethrough"])


def _check(source: str) -> None:
    if len(source) > HTML_CHARACTERS:
        raise NotShown(f"HTML of more than {HTML_CHARACTERS:,} characters")
    tags = source.count("<")
    if tags > TAGS:
        raise NotShown(f"HTML of more than {TAGS:,} tags")
    if tags > TAGS_OF_ANY_DEPTH and _depth(source) > DEPTH:
        raise NotShown(f"HTML nested more than {DEPTH} deep")


def _depth(source: str) -> int:
    """How many elements stay open at once, roughly: a bound on honest HTML, a hint for others."""
    depth = deepest = 0
    still_open: Counter[str] = Counter()
    for slash, written in _OPENING.findall(source):
        name = written.lower()
        if name in _EMPTY:
            continue
        if not slash:
            still_open[name] += 1
            depth += 1
            deepest = max(deepest, depth)
        elif still_open[name]:
            still_open[name] -= 1
            depth -= 1
    return deepest


def _tag(found: re.Match[str]) -> str:
    """The name that a formatting element has; a link opens without a way back to the page."""
    slash, name = found.groups()
    opens = ' rel="noopener noreferrer" target="_blank"' if name == "a" and not slash else ""
    return f"<{slash}{name}{opens}"


def _attribute(tag: str, name: str, value: str) -> str | None:
    if name == "style":
        return styles.declarations(value) or None
    if name == "href":
        value = value.strip()
        return value if _LINK.fullmatch(value) else None
    if name == "src":
        kind = _PICTURE if tag == "img" else _SOUND
        return value if kind.fullmatch(value) else None
    if name in _SIZES:
        return value.strip() if _NUMBER.fullmatch(value) else None
    return value


def _named(tag: str) -> str:
    return f"{_STAND_IN}{tag}" if tag in _FORMATTING else tag


_ALLOWED: Final = {_named(tag) for tag in _TAGS}
_BY_TAG: Final = {_named(tag): set(names) for tag, names in _ATTRIBUTES.items()}
