"""A bundle of MIME types as static output shows it, and what was held back of it (pure)."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from reprise.jupyter.static import tex, widgets
from reprise.jupyter.static.sanitise import Clean, NotShown, sanitise_html, sanitise_markdown
from reprise.jupyter.static.svg import sanitise_svg
from reprise.jupyter.static.terminal import plain
from reprise.log.model import Json, canonical
from reprise.replay.comms import Comms

#: What the sandbox showed, where that is not what is shown: for a front end that has a frame
#: without scripts for it (docs/messages.md). Front ends that do not know it ignore it.
ORIGINAL: Final = "application/vnd.reprise.original+json"
ORIGINAL_BYTES: Final = 2 << 20

WIDGET_VIEW: Final = "application/vnd.jupyter.widget-view+json"

#: Raster pictures: base64 of a format that draws and does nothing else.
_PICTURES: Final = frozenset(
    {"image/png", "image/jpeg", "image/gif", "image/webp", "image/bmp", "image/avif"}
)
_BASE64: Final = re.compile(r"[A-Za-z0-9+/=\s]*")
#: Shown as a tree of values, or as text.
_VALUES: Final = frozenset({"application/json"})

#: Types whose renderers run code of the output's, or load what it names: said in plain words.
_NAMES: Final[Mapping[str, str]] = {
    "application/javascript": "JavaScript",
    "text/javascript": "JavaScript",
    "application/vnd.plotly.v1+json": "a plotly chart",
    "application/vnd.bokehjs_exec.v0+json": "a bokeh chart",
    "application/vnd.bokehjs_load.v0+json": "the bokeh library",
    "application/geo+json": "a map",
    "application/pdf": "a PDF",
}
_VEGA: Final = re.compile(r"application/vnd\.vega(?:lite)?\.v\d+(?:\.\d+)*\+json")

_METADATA_NUMBERS: Final = ("width", "height")


@dataclass(frozen=True)
class Shown:
    """`data` and `metadata` to publish, and what was held back, in words."""

    data: dict[str, Json]
    metadata: dict[str, Json]
    held: tuple[str, ...] = ()


def static_bundle(
    data: Json, metadata: Json, comms: Comms, *, rich: bool = True, hint: str = ""
) -> Shown:
    """What may be shown of a bundle.

    rich: whether the parts that cannot be sanitised now are tried at all (`Screen`: a session
      whose outputs took too long gets text and pictures only).
    hint: how to allow what was held back; with it a line in the output says so, and the original
      is kept beside. Without it (what an inspector shows) neither.
    """
    bundle = data if isinstance(data, dict) else {}
    shown: dict[str, Json] = {}
    changed: dict[str, Json] = {}
    held: dict[str, None] = {}
    for mime, value in bundle.items():
        if not isinstance(mime, str) or mime == ORIGINAL:
            continue
        part, missed = _part(mime, value, comms, rich, "text/html" in bundle)
        held |= dict.fromkeys(missed)
        if part is not None:
            shown[part[0]] = part[1]
        if part is None or part[1] is not value:
            changed[mime] = value
    if hint:
        if held:
            _say(shown, held, hint)
        # Text that lost a control sequence is no original that anybody could look at.
        if changed.keys() - {"text/plain", "text/latex"}:
            shown[ORIGINAL] = _original(changed, metadata)
    return Shown(shown, _metadata(metadata, shown), tuple(held))


def _part(
    mime: str, value: Json, comms: Comms, rich: bool, has_html: bool
) -> tuple[tuple[str, Json] | None, tuple[str, ...]]:
    """What is shown of one MIME type, under which, and what is missing in it."""
    if mime in _VALUES:
        return (mime, value), ()
    if mime == WIDGET_VIEW:
        return _view(value, comms)
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        value = "".join(value)  # as notebooks store it
    if isinstance(value, str):
        if mime == "text/plain":
            return (mime, plain(value)), ()
        if mime == "text/latex":
            return (mime, tex.guarded(plain(value))), ()
        if mime in _PICTURES and _BASE64.fullmatch(value):
            return (mime, value), ()
        if mime == "text/html":
            return _cleaned(mime, value, sanitise_html, rich)
        if mime == "text/markdown":
            # Where there is HTML as well, that is what front ends would choose.
            return (None, ()) if has_html else _cleaned("text/html", value, sanitise_markdown, rich)
        if mime == "image/svg+xml":
            return _cleaned(mime, value, sanitise_svg, rich)
    if _VEGA.fullmatch(mime):
        return None, ("a Vega chart",)
    return None, (_NAMES.get(mime) or plain(mime[:100]),)


def _cleaned(
    mime: str, value: str, clean: Callable[[str], Clean], rich: bool
) -> tuple[tuple[str, Json] | None, tuple[str, ...]]:
    if not rich:
        return None, (f"{mime}: showing this session's outputs took too long",)
    try:
        found = clean(value)
    except NotShown as error:
        return None, (str(error),)
    return (mime, value if found.html == value else found.html), found.missed


def _view(value: Json, comms: Comms) -> tuple[tuple[str, Json] | None, tuple[str, ...]]:
    model_id = value.get("model_id") if isinstance(value, dict) else None
    if isinstance(model_id, str) and widgets.on_page(comms, model_id):
        known = {"version_major": 2, "version_minor": 0, "model_id": model_id}
        return (WIDGET_VIEW, known), ()
    model = comms.models.get(model_id) if isinstance(model_id, str) else None
    return None, ("a widget" if model is None else f"a widget of {plain(model.module)}",)


def _say(shown: dict[str, Json], held: Mapping[str, None], hint: str) -> None:
    """A line in the output that says what is missing in it, and how to get it."""
    line = held_line(tuple(held), hint)
    if "text/html" not in shown:
        # Pages prefer HTML, so it has to show what they would have shown without it.
        text = shown.get("text/plain")
        shown["text/html"] = _as_html_alone(shown)
        shown["text/plain"] = f"{text}\n{line}" if isinstance(text, str) else line
    shown["text/html"] += f'\n<p style="font-size: 85%; opacity: 0.8">{_as_html(line)}</p>'


def _as_html_alone(shown: Mapping[str, Json]) -> str:
    """The best of a bundle without HTML, as HTML."""
    drawing = shown.get("image/svg+xml")
    if isinstance(drawing, str):
        data = base64.b64encode(drawing.encode()).decode()
        return f'<img src="data:image/svg+xml;base64,{data}">'
    for mime in _PICTURES & shown.keys():
        return f'<img src="data:{mime};base64,{shown[mime]}">'
    for mime, tag in (("text/latex", "div"), ("text/plain", "pre")):
        if mime in shown:
            return f"<{tag}>{html.escape(shown[mime])}</{tag}>"
    return ""


def held_line(held: tuple[str, ...], hint: str) -> str:
    """What was held back, in one line."""
    return f"[Reprise: static output; held back: {', '.join(held[:8])}. {hint}]"


def _as_html(line: str) -> str:
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", html.escape(line, quote=False))


def _original(changed: Mapping[str, Json], metadata: Json) -> dict[str, Json]:
    kept: dict[str, Json] = {"version": 1, "data": dict(changed), "metadata": {}}
    if isinstance(metadata, dict):
        kept["metadata"] = {mime: metadata[mime] for mime in changed if mime in metadata}
    sizes = {mime: _size(value) for mime, value in changed.items()}
    if sum(sizes.values()) > ORIGINAL_BYTES or _size(kept["metadata"]) > ORIGINAL_BYTES:
        return {"version": 1, "omitted": sizes}
    return kept


def _size(value: Json) -> int:
    """Characters of a text, or of another value's canonical form."""
    return len(value) if isinstance(value, str) else len(canonical(value))


def _metadata(metadata: Json, shown: Mapping[str, Json]) -> dict[str, Json]:
    """Sizes of pictures and how a tree of values opens; `isolated`, which is a frame, is not."""
    kept: dict[str, Json] = {}
    if not isinstance(metadata, dict):
        return kept
    for mime, about in metadata.items():
        if mime not in shown or not isinstance(about, dict):
            continue
        own = {name: about[name] for name in _METADATA_NUMBERS if _is_number(about.get(name))}
        if about.get("needs_background") in ("light", "dark"):
            own["needs_background"] = about["needs_background"]
        for name in ("unconfined", "expanded"):
            if isinstance(about.get(name), bool):
                own[name] = about[name]
        if own:
            kept[mime] = own
    return kept


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
