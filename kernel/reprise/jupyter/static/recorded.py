"""What recorded outputs look like as the router published them: static from where they were.

Whoever shows something of the log in a page takes it from here; the record itself has originals.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping

from reprise.jupyter.static.screen import Screen
from reprise.log.model import Json, OutputEntry
from reprise.replay.comms import Comms
from reprise.replay.link import entry_message
from reprise.sandbox.named import OUTPUT_RULES, OutputRule

#: Of what a step showed, what a notebook shows of it.
SHOWN = frozenset(
    {"stream", "display_data", "execute_result", "update_display_data", "error", "clear_output"}
)


def output_rule(spec: Mapping[str, Json]) -> OutputRule:
    """What an environment says of output, by its recorded spec (`EnvironmentSpec.to_json`)."""
    said = spec.get("output", "auto")
    return next((rule for rule in OUTPUT_RULES if rule == said), "static")


def is_static(rule: OutputRule, since: int | None, seq: int, *, late: bool = False) -> bool:
    """Whether what step `seq` showed was static.

    since: the first untrusted step of the history (`LogReader.first_untrusted`). Late output came
    some time after the step's end, so it is static where any output of the session is.
    """
    if rule == "auto":
        return since is not None and (late or since <= seq)
    return rule == "static"


class Recorded:
    """Recorded outputs of one session for pages. Whatever thread asks: one at a time.

    It keeps count of the time that sanitising takes, as the router does, over all that is asked:
    keep one of it for a session. environment: its name, for who reads how to allow live output.
    """

    def __init__(self, environment: str) -> None:
        self._comms = Comms()
        self._screen = Screen("static", environment, lambda: self._comms)
        self._lock = threading.Lock()

    def static(
        self, entries: Iterable[OutputEntry], comms: Iterable[OutputEntry] = ()
    ) -> list[OutputEntry]:
        """Outputs as static output has them. comms: entries before them that open widgets."""
        found = []
        with self._lock:
            self._comms = Comms()
            for entry in comms:
                self._follow(entry)
            for entry in entries:
                self._follow(entry)
                if entry.type in SHOWN:
                    shown = self._screen.output(entry_message(entry, b"{}"))
                    if shown is not None:
                        found.append(OutputEntry(entry.type, shown.content()))
        return found

    def _follow(self, entry: OutputEntry) -> None:
        """Know which widgets there are, as the router does when it passes their messages on."""
        if entry.type == "comm_open":
            self._comms.opened(entry.content)
            self._screen.output(entry_message(entry, b"{}"))  # notes those that no page is told of
        elif entry.type == "comm_close" and isinstance(entry.content.get("comm_id"), str):
            self._comms.closed(entry.content["comm_id"])
