"""Which CSS may stay in static output: it loads nothing and leaves its place nowhere (pure)."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache
from typing import Final

from reprise.jupyter.static.words import words

#: Properties of HTML. Not among them: what takes an element out of its place (position, z-index,
#: transform), what paints outside it (shadows, outline), what changes clicks (cursor,
#: pointer-events), what names files (list-style-image, content, filter, mask).
HTML_PROPERTIES: Final = words(
    """
    align-content align-items align-self background background-color border border-bottom
    border-bottom-color border-bottom-style border-bottom-width border-collapse border-color
    border-left border-left-color border-left-style border-left-width border-radius border-right
    border-right-color border-right-style border-right-width border-spacing border-style border-top
    border-top-color border-top-style border-top-width border-width box-sizing caption-side clear
    color column-count column-gap columns display flex flex-basis flex-direction flex-flow
    flex-grow flex-shrink flex-wrap float font font-family font-size font-style font-variant
    font-weight gap grid-column grid-row grid-template-columns grid-template-rows height hyphens
    justify-content justify-items justify-self letter-spacing line-height list-style-type margin
    margin-bottom margin-left margin-right margin-top max-height max-width min-height min-width
    opacity order overflow overflow-wrap overflow-x overflow-y padding padding-bottom padding-left
    padding-right padding-top row-gap tab-size table-layout text-align text-decoration
    text-decoration-color text-decoration-line text-indent text-overflow text-transform
    vertical-align visibility white-space width word-break word-spacing word-wrap
    """
)

#: Presentation properties of SVG; those that name another element take `url(#id)`.
SVG_PROPERTIES: Final = words(
    """
    alignment-baseline baseline-shift clip-path clip-rule color color-interpolation
    color-interpolation-filters direction display dominant-baseline fill fill-opacity fill-rule
    filter flood-color flood-opacity font font-family font-size font-stretch font-style
    font-variant font-weight image-rendering isolation letter-spacing line-height marker-end
    marker-mid marker-start mask mask-type mix-blend-mode opacity overflow paint-order
    shape-rendering stop-color stop-opacity stroke stroke-dasharray stroke-dashoffset
    stroke-linecap stroke-linejoin stroke-miterlimit stroke-opacity stroke-width text-align
    text-anchor text-decoration text-rendering transform transform-origin vector-effect visibility
    white-space word-spacing writing-mode
    """
)

#: Only characters that mean the same to every parser of CSS: no quotes, escapes or comments.
_VALUE: Final = re.compile(r"[A-Za-z0-9#%.,()\s+/_-]{1,1000}")
_IMPORTANT: Final = re.compile(r"\s*!\s*important\s*$", re.IGNORECASE)
_FUNCTION: Final = re.compile(r"([A-Za-z_-][A-Za-z0-9_-]*)\s*\(")
_NAME: Final = re.compile(r"[a-z-]{1,40}")
_FUNCTIONS: Final = words(
    "rgb rgba hsl hsla hwb lab lch oklab oklch calc min max clamp var repeat minmax fit-content"
    " linear-gradient radial-gradient conic-gradient repeating-linear-gradient"
    " repeating-radial-gradient"
)
_SVG_FUNCTIONS: Final = _FUNCTIONS | words(
    "translate translatex translatey scale scalex scaley rotate skewx skewy matrix"
)
_LOCAL: Final = re.compile(r"url\(\s*[\"']?#([A-Za-z_][\w.:-]{0,200})[\"']?\s*\)")
#: With a negative value these move content out of its own box.
_NOT_NEGATIVE: Final = re.compile(r"margin|text-indent|letter-spacing|word-spacing")
_NEGATIVE: Final = re.compile(r"(?:^|[\s,(])-\s*[.\d]|calc|-\s*var")

#: Characters of one style attribute; longer ones are dropped whole.
LONGEST: Final = 16 << 10


def safe_value(value: str, functions: Collection[str] = _FUNCTIONS) -> bool:
    """Whether a CSS value loads nothing and is read the same by everyone."""
    if not _VALUE.fullmatch(value) or "//" in value:
        return False
    return all(name.lower() in functions for name in _FUNCTION.findall(value))


@lru_cache(maxsize=4096)
def declarations(style: str) -> str:
    """The declarations of a style attribute of HTML that may stay, one form for each."""
    kept = []
    for name, value in _split(style):
        if name not in HTML_PROPERTIES or not safe_value(value):
            continue
        if _NOT_NEGATIVE.match(name) and _NEGATIVE.search(value):
            continue
        kept.append(f"{name}: {value}")
    return "; ".join(kept)


def svg_declarations(style: str, prefix: str) -> str:
    """The same for SVG; the ids it names get the prefix."""
    kept = []
    for name, value in _split(style):
        if name in SVG_PROPERTIES and (safe := svg_value(value, prefix)) is not None:
            kept.append(f"{name}: {safe}")
    return "; ".join(kept)


def svg_value(value: str, prefix: str) -> str | None:
    """A value of a presentation attribute, its local references with the prefix; None: not safe."""
    rest = _LOCAL.sub("", value)
    if rest.strip() and not safe_value(rest, _SVG_FUNCTIONS):
        return None
    return _LOCAL.sub(lambda found: f"url(#{prefixed(found[1], prefix)})", value).strip()


def prefixed(name: str, prefix: str) -> str:
    """An id that cannot be one of the page's own."""
    return name if name.startswith(prefix) else prefix + name


def _split(style: str) -> list[tuple[str, str]]:
    if len(style) > LONGEST:
        return []
    found = []
    for part in style.split(";"):
        name, colon, value = part.partition(":")
        name = name.strip().lower()
        value = _IMPORTANT.sub("", value).strip()
        if colon and _NAME.fullmatch(name) and value:
            found.append((name, value))
    return found
