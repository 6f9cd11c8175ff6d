"""Events of the API, through Jupyter's event system: their schemas, and how one is told."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from jsonschema import ValidationError
from jupyter_events import EventLogger

FOLDER: Final = Path(__file__).with_name("events")


def schema_id(event: str) -> str:
    """Names an event's schema, as listeners give it."""
    return f"urn:jupyter-reprise:{event}:1"


def register(logger: EventLogger) -> None:
    """Make our events known to a server's event system."""
    for path in sorted(FOLDER.glob("*.yaml")):
        logger.register_event_schema(path)


def emit(logger: EventLogger, event: str, said: Mapping[str, Any], log: logging.Logger) -> None:
    """Tell listeners. The act itself has happened, so nothing here stops it."""
    try:
        logger.emit(schema_id=schema_id(event), data=dict(said))
    except ValidationError:
        log.exception("Reprise: the event %s does not fit its schema, and was not told.", event)
