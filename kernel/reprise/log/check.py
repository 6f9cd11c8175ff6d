"""Recomputes a session's digests, chain and hashes from what is stored, and names what is off."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from reprise.errors import LogCorrupt
from reprise.log.blobs import Ask
from reprise.log.lineage import NO_END, Line, Segment
from reprise.log.model import (
    GENESIS,
    Json,
    LateHash,
    OutputsHash,
    canonical,
    extend,
)
from reprise.log.reader import PAGE_BYTES, PAGE_ROWS, Reader, parse_entries


@dataclass(frozen=True)
class Fault:
    """The first place where the record does not add up. seq: the step concerned, if one is."""

    seq: int | None
    event: int
    what: str


@dataclass(frozen=True)
class CheckReport:
    """What was recomputed, and the first fault found (None: everything adds up).

    A chain proves that nothing inside it was changed after the fact, unless everything after
    the change was rewritten as well; who wants to exclude that keeps `chain` somewhere else.
    """

    session: uuid.UUID
    steps: int
    outcomes: int
    outputs: int
    blobs: int
    chain: str
    fault: Fault | None

    @property
    def ok(self) -> bool:
        return self.fault is None


class _Checker:
    """Walks the events of one session in order, through the parts of its history."""

    def __init__(self, ask: Ask, reader: Reader, blobs: bool) -> None:
        self.ask = ask
        self.reader = reader
        self.with_blobs = blobs
        self.chain = GENESIS
        self.event = 0
        self.steps = 0
        self.outcomes = 0
        self.outputs = 0
        self.seen_blobs: set[str] = set()
        self.line: Line = ()
        self.part = Segment(reader.session, 0, NO_END, 0, NO_END)

    async def run(self) -> Fault | None:
        self.line = await self.reader.line()
        for part in self.line:
            self.part = part
            if self.event != self.part.first_event or self.steps != self.part.first_seq:
                return Fault(
                    max(self.steps - 1, 0),
                    self.event,
                    f"session {self.part.session} was forked at event {self.part.first_event}"
                    f" (step {self.part.first_seq - 1}), but what it shares ends at event"
                    f" {self.event} (step {self.steps - 1})",
                )
            fault = await self._part()
            if fault is not None:
                return fault
        return await self._end()

    async def _part(self) -> Fault | None:
        session = self.part.session
        while True:
            stop = await self._page_end()
            page = await self.ask(
                "SELECT true AS is_step, seq, event, owner, kind, environment, key, at,"
                "   body::text, digest FROM reprise.steps"
                " WHERE session = %s AND event >= %s AND event < %s"
                " UNION ALL"
                " SELECT false, seq, event, owner, status, duration_us::text, NULL, at,"
                "   body::text, chain FROM reprise.outcomes"
                " WHERE session = %s AND event >= %s AND event < %s",
                [session, self.event, stop] * 2,
            )
            # Sorted here: Postgres would spill large bodies to its disk to sort them.
            page.sort(key=itemgetter(2))
            for row in page:
                fault = await self._event(*row)
                if fault is not None:
                    return fault
            if not page:
                return None

    async def _page_end(self) -> int:
        """The event before which a page ends that is not too large."""
        rows = await self.ask(
            "SELECT max(event) + 1 FROM ("
            " SELECT event, size, sum(size) OVER (ORDER BY event) AS total FROM ("
            "  SELECT event, size FROM reprise.steps"
            "   WHERE session = %s AND event >= %s AND event < %s"
            "  UNION ALL SELECT event, size FROM reprise.outcomes"
            "   WHERE session = %s AND event >= %s AND event < %s"
            " ) AS events ) AS page WHERE total - size < %s",
            [
                *(
                    self.part.session,
                    self.event,
                    min(self.event + PAGE_ROWS, self.part.end_event),
                )
                * 2,
                PAGE_BYTES,
            ],
        )
        return self.event if rows[0][0] is None else int(rows[0][0])

    async def _event(
        self,
        is_step: bool,
        seq: int,
        event: int,
        owner: str,
        word: str,
        extra: str,
        key: str | None,
        at: int,
        text: str,
        link: bytes,
    ) -> Fault | None:
        if event != self.event:
            return Fault(seq, self.event, f"event {self.event} is missing")
        if is_step and seq != self.steps:
            return Fault(self.steps, event, f"step {self.steps} is missing")
        body_bytes = text.encode("utf-8")
        self.chain = extend(self.chain, body_bytes)
        what = "step" if is_step else "outcome"
        if bytes(link) != self.chain:
            return Fault(seq, event, f"the digest of {what} {seq} does not match its content")
        body = json.loads(text)
        if canonical(body) != body_bytes:
            return Fault(seq, event, f"{what} {seq} is not in canonical form")
        columns: dict[str, Json] = {"seq": seq, "event": event, "at": at}
        if is_step:
            columns |= {"kind": word, "environment": extra, "key": key}
        else:
            columns |= {"status": word, "duration_us": int(extra)}
        for name, value in columns.items():
            if body.get(name) != value:
                return Fault(seq, event, f"{what} {seq}: the column {name} was changed")
        if owner != self.reader.owner:
            return Fault(seq, event, f"{what} {seq} was given to another owner")
        fault = await self._late(seq, event, body)
        if fault is None and not is_step:
            fault = await self._shown(seq, event, body)
        if fault is None and self.with_blobs:
            fault = await self._blobs(seq, event, body.get("blobs", ()))
        self.event += 1
        self.steps += int(is_step)
        self.outcomes += int(not is_step)
        return fault

    async def _late(self, seq: int, event: int, body: Mapping[str, Json]) -> Fault | None:
        total = LateHash()
        after = -1
        while True:
            rows = await self.ask(
                "SELECT number, seq, body::text FROM reprise.outputs WHERE late AND session = %s"
                " AND event = %s AND number > %s ORDER BY number LIMIT 20",
                [self.part.session, event, after],
            )
            for number, of_seq, text in rows:
                total.add(of_seq, text.encode("utf-8"))
                after = number
                fault = await self._entries(of_seq, event, text)
                if fault is not None:
                    return fault
            if len(rows) < 20:
                break
        if total.hexdigest() != body.get("late"):
            return Fault(seq, event, f"late outputs stored before event {event} were changed")
        return None

    async def _shown(self, seq: int, event: int, body: Mapping[str, Json]) -> Fault | None:
        total = OutputsHash()
        for part in self.line[: self.line.index(self.part) + 1]:
            if seq >= part.end_seq:
                continue
            after = -1
            while True:
                rows = await self.ask(
                    "SELECT number, body::text FROM reprise.outputs WHERE session = %s AND seq = %s"
                    " AND NOT late AND event < %s AND number > %s ORDER BY number LIMIT 20",
                    [part.session, seq, part.end_event, after],
                )
                for number, text in rows:
                    after = number
                    for entry in parse_entries(text):
                        total.add(entry)
                    fault = await self._entries(seq, event, text)
                    if fault is not None:
                        return fault
                if len(rows) < 20:
                    break
        if total.hexdigest() != body["outputs"]:
            return Fault(seq, event, f"the outputs of step {seq} do not match their hash")
        return None

    async def _entries(self, seq: int, event: int, text: str) -> Fault | None:
        self.outputs += 1
        if not self.with_blobs:
            return None
        names = [name for entry in parse_entries(text) for name in entry.blobs]
        return await self._blobs(seq, event, names)

    async def _blobs(self, seq: int, event: int, names: Any) -> Fault | None:
        for name in names:
            if name in self.seen_blobs:
                continue
            try:
                await self.reader.blobs.get(name)
            except LogCorrupt as error:
                return Fault(seq, event, str(error))
            self.seen_blobs.add(name)
        return None

    async def _end(self) -> Fault | None:
        rows = await self.ask(
            "SELECT next_event, next_seq, chain,"
            " (SELECT min(o.event) FROM reprise.outcomes o"
            "   WHERE o.session = h.session AND o.event >= %s),"
            " (SELECT min(s.event) FROM reprise.steps s"
            "   WHERE s.session = h.session AND s.event >= %s)"
            " FROM reprise.heads h WHERE h.session = %s",
            [self.event, self.event, self.reader.session],
        )
        next_event, next_seq, chain, *later = rows[0]
        if any(event is not None for event in later):
            return Fault(self.steps, self.event, f"event {self.event} is missing")
        if next_event != self.event or next_seq != self.steps or bytes(chain) != self.chain:
            return Fault(
                max(self.steps - 1, 0),
                self.event,
                f"the log ends at event {self.event} (step {self.steps}), but its head says event"
                f" {next_event} (step {next_seq}): its end is missing or was changed",
            )
        return None


async def check_session(ask: Ask, reader: Reader, *, blobs: bool) -> CheckReport:
    """Check one session that no one writes meanwhile (or whose tail may be in motion)."""
    checker = _Checker(ask, reader, blobs)
    fault = await checker.run()
    return CheckReport(
        session=reader.session,
        steps=checker.steps,
        outcomes=checker.outcomes,
        outputs=checker.outputs,
        blobs=len(checker.seen_blobs),
        chain=checker.chain.hex(),
        fault=fault,
    )
