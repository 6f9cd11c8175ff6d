"""What an MCP tool answered, as text and images for the model: bounded, looked through (pure)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from reprise.skills.quoted import cut, one_line, seen
from reprise_server.agent.contract import Block
from reprise_server.agent.tools.images import IMAGE_TYPES, Image, chosen, image

_MOST_PARTS: Final = 200


@dataclass(frozen=True)
class Answer:
    """text: all that it says, in the order it came (images named in it).  images: as blocks."""

    text: str
    images: tuple[Block, ...]


def answer(parts: Iterable[Mapping[str, Any]], structured: Any = None) -> Answer:
    """An answer's parts as the protocol has them in JSON (specification, "Tool Result")."""
    said: list[str] = []
    images: list[Image] = []
    for number, part in enumerate(parts):
        if number == _MOST_PARTS:
            said.append("[more parts were left out]")
            break
        kind = part.get("type")
        if kind == "text":
            said.append(seen(_str(part.get("text"))))
        elif kind == "image":
            said.append(_image(part.get("mimeType"), part.get("data"), images))
        elif kind == "resource":
            said.append(_resource(part.get("resource") or {}, images))
        elif kind == "resource_link":
            name = cut(one_line(_str(part.get("name"))), 200)
            said.append(f"[a resource named {name}: {cut(one_line(_str(part.get('uri'))), 500)}]")
        else:
            said.append(f"[{cut(one_line(_str(kind)) or 'something', 40)}: not shown]")
    if structured is not None and not any(said):
        said.append(seen(json.dumps(structured, ensure_ascii=False, indent=1)))
    kept, left = chosen(images)
    if left:
        said.append(f"[of {len(images)} images the first {len(kept)} are shown]")
    return Answer("\n".join(each for each in said if each), tuple(each.block() for each in kept))


def _str(value: object) -> str:
    return value if isinstance(value, str) else ""


def _image(kind: object, data: object, images: list[Image]) -> str:
    if not isinstance(kind, str) or kind not in IMAGE_TYPES:
        return f"[an image of the kind {cut(one_line(_str(kind)), 40) or 'unknown'}: not shown]"
    found = image(kind, _str(data))
    if isinstance(found, str):
        return f"[an image, {found}]"
    images.append(found)
    return f"[image {len(images)}]"


def _resource(resource: Mapping[str, Any], images: list[Image]) -> str:
    uri = cut(one_line(_str(resource.get("uri"))), 500)
    if isinstance(words := resource.get("text"), str):
        return f"[{uri}]\n{seen(words)}"
    if resource.get("mimeType") in IMAGE_TYPES:
        return f"[{uri}] {_image(resource.get('mimeType'), resource.get('blob'), images)}"
    size = len(_str(resource.get("blob"))) * 3 // 4
    return f"[{uri}: {size:,} bytes that are no text: not shown]"
