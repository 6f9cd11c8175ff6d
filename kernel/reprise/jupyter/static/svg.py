"""SVG without anything that acts, written anew from an allowlist of elements and attributes (pure).

SVG is XML to a page that shows it as a picture, and HTML to one that puts it into its own tree;
nh3 writes HTML. So it is parsed as XML here, and what is written means the same to both: escaped
text, no CDATA, comments or entities, quoted attributes, elements of SVG only.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, field
from typing import Final
from xml.parsers import expat

from reprise.jupyter.static import styles
from reprise.jupyter.static.sanitise import Clean, NotShown
from reprise.jupyter.static.words import words

CHARACTERS: Final = 4 << 20
ELEMENTS: Final = 100_000
DEPTH: Final = 100

_SVG: Final = "http://www.w3.org/2000/svg"
_XLINK: Final = "http://www.w3.org/1999/xlink"

_ELEMENTS: Final = words(
    """
    circle clipPath defs desc ellipse feBlend feColorMatrix feComponentTransfer feComposite
    feConvolveMatrix feDropShadow feFlood feFuncA feFuncB feFuncG feFuncR feGaussianBlur feMerge
    feMergeNode feMorphology feOffset filter g image line linearGradient marker mask path pattern
    polygon polyline radialGradient rect stop svg switch symbol text textPath title tspan use
    """
)
#: Links: what they hold stays, as no link.
_TRANSPARENT: Final = frozenset({"a"})

_GEOMETRY: Final = words(
    """
    baseProfile clipPathUnits cx cy d dx dy filterUnits fr fx fy gradientTransform gradientUnits
    height k1 k2 k3 k4 lengthAdjust markerHeight markerUnits markerWidth maskContentUnits maskUnits
    offset orient pathLength patternContentUnits patternTransform patternUnits points
    preserveAspectRatio primitiveUnits r refX refY rotate rx ry spreadMethod startOffset textLength
    transform version viewBox width x x1 x2 y y1 y2 amplitude exponent in in2 intercept
    kernelMatrix mode operator radius result slope stdDeviation tableValues type values
    """
)
#: One value of these: no markup, no functions but transforms, no names of anything.
_PLAIN: Final = re.compile(r"[A-Za-z0-9%.,()\s+_:;|-]*")
_ID: Final = re.compile(r"[A-Za-z_][\w.:-]{0,200}")
_REFERENCE: Final = re.compile(r"\s*#([A-Za-z_][\w.:-]{0,200})\s*")
_REFERRING: Final = frozenset(
    {"use", "textPath", "linearGradient", "radialGradient", "pattern", "filter"}
)
_PICTURE: Final = re.compile(
    r"\s*data:image/(?:png|jpe?g|gif|webp);base64,[A-Za-z0-9+/=\s]+", re.IGNORECASE
)
#: What matplotlib writes: a rule for everything, which its drawing inherits as well.
_EVERYTHING: Final = re.compile(r"\s*\*\s*\{([^{}]*)\}\s*")

#: Ids of ours, so that a drawing put into a page has none of the page's own.
PREFIX: Final = "reprise-"


@dataclass
class _Writer:
    """Takes expat's events and writes what may stay."""

    parts: list[str] = field(default_factory=list)
    missed: dict[str, None] = field(default_factory=dict)
    open: list[str | None] = field(default_factory=list)
    names: list[str | None] = field(default_factory=list)
    dropping: int = 0
    sheet: list[str] | None = None
    elements: int = 0
    inherited: str = ""
    used: set[str] = field(default_factory=set)
    using: set[str] = field(default_factory=set)

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self.elements += 1
        if self.elements > ELEMENTS:
            raise NotShown(f"a drawing of more than {ELEMENTS:,} elements")
        if len(self.open) >= DEPTH:
            raise NotShown(f"a drawing nested more than {DEPTH} deep")
        local = _local(name)
        if not self.open and local != "svg":
            raise NotShown("no SVG")
        self.names.append(None)
        if self.dropping or (local not in _ELEMENTS and local not in _TRANSPARENT):
            if not self.dropping:
                self._miss(local)
                self.sheet = [] if local == "style" else None
            self.dropping += 1
            self.open.append(None)
            return
        if local in _TRANSPARENT:
            self.open.append("")
            return
        self.open.append(local)
        self.parts.append(self._tag(str(local), attributes))

    def end(self, _name: str) -> None:
        self.names.pop()
        local = self.open.pop()
        if local is None:
            self.dropping -= 1
            if not self.dropping and self.sheet is not None:
                found = _EVERYTHING.fullmatch("".join(self.sheet))
                if found is not None:
                    self.inherited = styles.svg_declarations(found[1], PREFIX)
                    self.missed.pop("style sheets", None)
                self.sheet = None
        elif local:
            self.parts.append(f"</{local}>")

    def text(self, data: str) -> None:
        if not self.dropping:
            self.parts.append(html.escape(data, quote=False))
        elif self.sheet is not None:
            self.sheet.append(data)

    def _tag(self, local: str, attributes: dict[str, str]) -> str:
        kept: dict[str, str] = {}
        if local == "svg" and len(self.open) == 1:
            kept = {"xmlns": _SVG, "xmlns:xlink": _XLINK}
        for name, value in attributes.items():
            found = self._attribute(local, name, value)
            if found is not None:
                kept[found[0]] = found[1]
        return f"<{local}{''.join(f' {name}={_quoted(value)}' for name, value in kept.items())}>"

    def _attribute(self, local: str, name: str, value: str) -> tuple[str, str] | None:
        space, _, bare = name.rpartition(" ")
        if bare == "href" and space in ("", _XLINK):
            target = self._target(local, value)
            return None if target is None else ("xlink:href", target)
        if bare == "space" and value == "preserve":
            return "xml:space", value
        if space:
            return None
        if bare == "id" and _ID.fullmatch(value):
            own = styles.prefixed(value, PREFIX)
            self.names[-1] = own
            return "id", own
        if bare == "style":
            return "style", styles.svg_declarations(value, PREFIX)
        if bare in styles.SVG_PROPERTIES:
            safe = styles.svg_value(value, PREFIX)
            return None if safe is None else (bare, safe)
        if bare in _GEOMETRY and _PLAIN.fullmatch(value):
            return bare, value
        if bare.startswith("on"):
            self.missed["scripts"] = None
        return None

    def _target(self, local: str, value: str) -> str | None:
        found = _REFERENCE.fullmatch(value)
        if found is not None and local in _REFERRING:
            name = styles.prefixed(found[1], PREFIX)
            if local == "use":
                self.used.add(name)
                self.using.update(each for each in self.names if each is not None)
            return f"#{name}"
        if local == "image" and _PICTURE.fullmatch(value):
            return value.strip()
        if local not in ("a", "use"):
            self.missed["what is loaded from elsewhere"] = None
        return None

    def _miss(self, local: str | None) -> None:
        if local == "script":
            self.missed["scripts"] = None
        elif local == "foreignObject":
            self.missed["HTML in the drawing"] = None
        elif local == "style":
            self.missed["style sheets"] = None


def sanitise_svg(source: str) -> Clean:
    """A drawing as static output shows it. Raises NotShown, also for what is no SVG."""
    if len(source) > CHARACTERS:
        raise NotShown(f"a drawing of more than {CHARACTERS:,} characters")
    writer = _Writer()
    parser = expat.ParserCreate("utf-8", " ")
    parser.buffer_text = True
    parser.StartElementHandler = writer.start
    parser.EndElementHandler = writer.end
    parser.CharacterDataHandler = writer.text
    parser.EntityDeclHandler = _refuse_entity
    parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
    try:
        parser.Parse(_DECLARATION.sub("", source, count=1).encode(), True)
    except (expat.ExpatError, UnicodeEncodeError) as error:
        raise NotShown(f"no SVG ({error})") from None
    if writer.used & writer.using:
        # Ten elements, each of them twice the one before, are a thousand on the page.
        raise NotShown("a drawing whose parts use parts that use parts")
    drawn = "".join(writer.parts)
    if writer.inherited and not drawn[: drawn.index(">")].count(" style="):
        drawn = drawn.replace("<svg", f"<svg style={_quoted(writer.inherited)}", 1)
    return Clean(drawn, tuple(writer.missed))


#: An encoding that is declared is none any more: this is text.
_DECLARATION: Final = re.compile(r"^\s*<\?xml[^>]{0,200}\?>")


def _refuse_entity(*_: object) -> None:
    raise NotShown("a drawing that declares entities")


def _local(name: str) -> str | None:
    """The name of an element of SVG; None for others."""
    space, _, local = name.rpartition(" ")
    return local if space in ("", _SVG) else None


def _quoted(value: str) -> str:
    return f'"{html.escape(_SPACE.sub(" ", value))}"'


_SPACE: Final = re.compile(r"[\n\t\r]")
