"""HTML that acts on nothing and loads nothing, by an allowlist (nh3)."""

from __future__ import annotations

import re

import nh3

_TAGS = {
    *("a", "abbr", "b", "blockquote", "br", "caption", "center", "code", "col", "colgroup", "dd"),
    *("del", "details", "div", "dl", "dt", "em", "figcaption", "figure", "h1", "h2", "h3", "h4"),
    *("h5", "h6", "hr", "i", "img", "ins", "kbd", "li", "mark", "ol", "p", "pre", "q", "s", "samp"),
    *("small", "span", "strong", "sub", "summary", "sup", "table", "tbody", "td", "tfoot", "th"),
    *("thead", "tr", "tt", "u", "ul", "var"),
}
_ATTRIBUTES = {
    "a": {"href", "title"},
    "col": {"span"},
    "colgroup": {"span"},
    "img": {"src", "alt", "width", "height"},
    "ol": {"start"},
    "td": {"colspan", "rowspan", "style", "align"},
    "th": {"colspan", "rowspan", "style", "align", "scope"},
    "tr": {"style"},
    "span": {"style"},
    "div": {"style"},
    "p": {"style"},
}
#: None of them loads anything or leaves its place.
_STYLES = {"background-color", "color", "font-style", "font-weight", "text-align", "white-space"}
_DATA = re.compile(r"data:image/(?:png|jpeg|gif|webp|svg\+xml);base64,[A-Za-z0-9+/=]*\Z")
_NUMBER = re.compile(r"[0-9]{1,4}(?:px|%)?\Z")


def _kept(tag: str, attribute: str, value: str) -> str | None:
    if tag == "img" and attribute == "src":
        return value if _DATA.match(value) else None
    if attribute == "href" and value.lower().lstrip().startswith("data:"):
        return None
    if attribute in ("width", "height", "colspan", "rowspan", "span", "start"):
        return value if _NUMBER.match(value) else None
    return value


def clean(html: str) -> str:
    return nh3.clean(
        html,
        tags=_TAGS,
        clean_content_tags={"script", "style", "template", "noscript", "iframe", "object", "svg"},
        attributes=_ATTRIBUTES,
        attribute_filter=_kept,
        url_schemes={"http", "https", "mailto", "data"},
        filter_style_properties=_STYLES,
        strip_comments=True,
        link_rel="noopener noreferrer",
    )


def says_something(html: str) -> bool:
    """Whether cleaned HTML shows anything at all."""
    return "<img" in html or bool(re.sub(r"<[^>]*>|&nbsp;|\s", "", html))
