"""`python -m reprise_server.api` prints the OpenAPI document, of which front ends make their types.

Beside what the server itself serves, its schemas hold the messages of websockets (`TakesSay`,
`TellsEntry`) and the events (`EventSkill`), for which OpenAPI has no place of their own: tools that
make types of it look at schemas alone.
"""

from __future__ import annotations

import copy
import json
import sys
from pathlib import Path
from typing import Any

import yaml

from reprise_server.api import events
from reprise_server.api.document import SOCKETS
from reprise_server.api.parts import document


def whole() -> dict[str, Any]:
    """The document, and what it says outside of schemas as schemas."""
    value: dict[str, Any] = copy.deepcopy(dict(document().value))
    schemas = value["components"]["schemas"]
    for socket in value[SOCKETS].values():
        for way in ("takes", "tells"):
            for name, schema in socket[way].items():
                _add(schemas, f"{way}-{name}", schema)
    for path in sorted(Path(events.__file__).with_name("events").glob("*.yaml")):
        _add(schemas, f"event-{path.stem}", yaml.safe_load(path.read_text()))
    return value


def _add(schemas: dict[str, Any], words: str, schema: Any) -> None:
    name = "".join(each.capitalize() for each in words.split("-"))
    if name in schemas:
        raise SystemExit(f"two schemas are named {name}")
    schemas[name] = schema


if __name__ == "__main__":
    json.dump(whole(), sys.stdout, indent=1, sort_keys=True)
