"""A verify report as pages ask for it: rows with failures first, one step at a time, as a page.

A report of many steps is hundreds of megabytes. It is written once, when the job ends, into files
without a name; what is held in memory is where each step stands in them.
"""

from __future__ import annotations

import base64
import json
import tempfile
import threading
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from reprise.errors import TooLarge
from reprise.log.model import Json
from reprise.replay.report import VERDICTS, Compared, Report, StateReport, StepReport, Verdict
from reprise.replay.shown import Piece
from reprise.report.page import page
from reprise_server.api.job import RESULT_BYTES

#: Those that somebody has to look at come first.
ORDER: Final[tuple[Verdict, ...]] = ("different", "could not run", "volatile", "skipped", "same")
#: A page of more steps would stop the browser that opens it.
PAGE_STEPS: Final = 5_000
#: Bytes of all images of a report together; what comes after is left out, and said to be.
IMAGE_BYTES: Final = 64 << 20
#: Of a state so many files and variables that differ are listed.
LISTED: Final = 500
#: Characters of a step's title, and causes of it in a row.
_TITLE: Final = 200
_CAUSES: Final = 3
_IN_MEMORY: Final = 256 << 10


class _Place(NamedTuple):
    rank: int
    seq: int
    row: int
    step: int
    end: int


class VerifyReport:
    """Made in a thread, read from any. Holds nothing of what it was made of."""

    def __init__(self, report: Report, *, notebook: str | None, kernel: str) -> None:
        """Raises TooLarge over RESULT_BYTES."""
        self._lock = threading.Lock()
        self.size = 0
        self._file = tempfile.SpooledTemporaryFile(_IN_MEMORY, prefix="reprise-report-")  # noqa: SIM115
        self._page = tempfile.SpooledTemporaryFile(_IN_MEMORY, prefix="reprise-page-")  # noqa: SIM115
        self.page_size = 0
        try:
            self._places = self._written(report.steps)
            self._states = [self._write(_state_json(each)) for each in report.states]
            self.head = {**_head_json(report), "title": notebook}
            if len(report.steps) <= PAGE_STEPS:
                made = page(report, notebook=notebook, kernel=kernel).encode()
                self._page.write(made)
                self.page_size = len(made)
                self.size += len(made)
        except BaseException:
            self.close()
            raise

    # writing ------------------------------------------------------------------------------------

    def _written(self, steps: Sequence[StepReport]) -> list[_Place]:
        room = _Room(IMAGE_BYTES)
        # What differs comes first to whatever room there is.
        order = sorted(steps, key=lambda step: (ORDER.index(step.verdict), step.seq))
        places = []
        for step in order:
            row, _ = self._write(_row_json(step))
            begin, end = self._write(_step_json(step, room))
            places.append(_Place(ORDER.index(step.verdict), step.seq, row, begin, end))
        return places

    def _write(self, value: Json) -> tuple[int, int]:
        data = json.dumps(value, allow_nan=False).encode()
        begin = self.size
        self.size += len(data)
        if self.size > RESULT_BYTES:
            raise TooLarge(f"The report is over the bound of {RESULT_BYTES:,} bytes.")
        self._file.write(data)
        return begin, self.size

    # reading ------------------------------------------------------------------------------------

    @property
    def steps(self) -> int:
        return len(self._places)

    @property
    def states(self) -> int:
        return len(self._states)

    def rows(self, verdicts: Sequence[str], offset: int, limit: int) -> tuple[list[Json], int]:
        """Rows `offset` ≤ … of those with such a verdict (none: all), and how many there are."""
        chosen = (
            [each for each in self._places if ORDER[each.rank] in verdicts]
            if verdicts
            else self._places
        )
        return [self._read(p.row, p.step) for p in chosen[offset : offset + limit]], len(chosen)

    def step(self, seq: int) -> Json | None:
        found = next((each for each in self._places if each.seq == seq), None)
        return None if found is None else self._read(found.step, found.end)

    def state(self, number: int) -> Json:
        return self._read(*self._states[number])

    def page_piece(self, offset: int, size: int) -> bytes:
        with self._lock:
            if self._page.closed:
                return b""
            self._page.seek(offset)
            return self._page.read(size)

    def _read(self, begin: int, end: int) -> Json:
        with self._lock:
            if self._file.closed:
                return None
            self._file.seek(begin)
            value: Json = json.loads(self._file.read(end - begin))
        return value

    def close(self) -> None:
        with self._lock:
            self._file.close()
            self._page.close()


class _Room:
    """Bytes that images may still take."""

    def __init__(self, left: int) -> None:
        self._left = left

    def take(self, size: int) -> bool:
        if size > self._left:
            return False
        self._left -= size
        return True


def _head_json(report: Report) -> dict[str, Json]:
    return {
        "session": str(report.session),
        "ok": report.ok,
        "sentence": report.sentence,
        "took_s": round(report.took_s, 3),
        "from": report.start,
        "brought_back": report.brought_back,
        "replays": report.replays,
        "backend": report.backend,
        "environment_changes": list(report.outside),
        "not_compared": list(report.unsaid),
        "counts": {verdict: report.count(verdict) for verdict in VERDICTS},
        "steps": len(report.steps),
        "states": [
            {
                "number": number,
                "seq": each.seq,
                "against": each.against,
                "verdict": each.verdict,
                "at": each.at,
                "files": _amounts(each.files),
                "variables": _amounts(each.variables),
            }
            for number, each in enumerate(report.states)
        ],
    }


def _amounts(found: Compared[Any]) -> dict[str, Json]:
    return {
        "same": found.same,
        "volatile": found.count(volatile=True),
        "different": found.count(volatile=False),
        "not_compared": len(found.unknown),
        "why_not": found.why or None,
    }


def _row_json(step: StepReport) -> dict[str, Json]:
    lines = [line.strip() for line in step.source[:4000].splitlines() if line.strip()]
    return {
        "seq": step.seq,
        "kind": step.kind,
        "outcome": step.status,
        "verdict": step.verdict,
        "reason": step.reason or None,
        "title": lines[0][:_TITLE] if lines else "",
        "recorded_s": round(step.recorded_s, 6),
        "took_s": round(step.took_s, 6),
        "second_replay": step.again,
        "replays_differ": step.chance,
        "causes": [each.to_json() for each in step.causes[:_CAUSES]],
    }


def _step_json(step: StepReport, room: _Room) -> dict[str, Json]:
    """All of a step; what it showed on the replay only where that is not the same."""
    omitted = 0 if step.comparison is None else step.comparison.omitted
    return {
        **step.to_json(),
        "actor": step.actor,
        "at": step.at,
        "omitted": omitted,
        "recorded": [_piece_json(each, room) for each in step.recorded],
        "replayed": [_piece_json(each, room) for each in step.replayed],
    }


def _piece_json(piece: Piece, room: _Room) -> dict[str, Json]:
    image: dict[str, Json] | None = None
    if piece.image is not None:
        data = piece.image.data
        there = room.take(len(data))
        image = {
            "mime": piece.image.mime,
            "data": base64.b64encode(data).decode("ascii") if there else None,
            "bytes": len(data),
        }
    return {"kind": piece.kind, "text": piece.text, "cut": piece.cut, "image": image}


def _state_json(state: StateReport) -> dict[str, Json]:
    said = state.to_json()
    for name, found in (("files", state.files), ("variables", state.variables)):
        part = found.to_json()
        # What is not merely volatile is what somebody looks for.
        order = sorted(part["different"], key=lambda each: bool(each["volatile"]))
        unknown = list(part["not_compared"].items())
        said[name] = {
            **part,
            "different": order[:LISTED],
            "different_total": len(order),
            "not_compared": dict(unknown[:LISTED]),
            "not_compared_total": len(unknown),
        }
    return said
