"""What `reprise verify --json` and `reprise log --json` wrote, read and checked."""

from __future__ import annotations

import json
import shlex
import tarfile
from dataclasses import dataclass, field
from pathlib import Path

_LARGEST = 256 << 20
#: Of a bundle's pages of events, together.
_LARGEST_HISTORY = 256 << 20


class Unreadable(Exception):
    """A file that is not there, or is not what it should be."""


@dataclass(frozen=True)
class Step:
    """One step. verdict: "" where only its source is known.  chance: whether two replays of it
    differ from each other; None where there was one.
    """

    seq: int
    kind: str
    source: str
    verdict: str = ""
    reason: str = ""
    chance: bool | None = None
    causes: tuple[dict[str, object], ...] = ()
    differences: tuple[dict[str, object], ...] = ()

    @property
    def wrong(self) -> bool:
        return self.verdict in ("different", "could not run")


@dataclass
class Report:
    """A verify report. Steps by their number, in order; earlier ones may come from a history."""

    session: str
    ok: bool
    sentence: str
    replays: int
    steps: dict[int, Step]
    environment: list[str] = field(default_factory=list)
    states: list[dict[str, object]] = field(default_factory=list)
    not_compared: list[str] = field(default_factory=list)

    @property
    def wrong(self) -> list[Step]:
        return [step for step in self.steps.values() if step.wrong]


def read_report(path: Path) -> Report:
    """Raises Unreadable."""
    value = _json(path)
    steps = value.get("steps")
    if not isinstance(steps, list) or "session" not in value or "counts" not in value:
        raise Unreadable(
            f"{path} is no verify report. Make one on the host:"
            " reprise verify SESSION --twice --json > report.json"
        )
    found = Report(
        str(value["session"]),
        value.get("ok") is True,
        _text(value.get("sentence")),
        replays if isinstance(replays := value.get("replays"), int) else 1,
        {},
        [each for each in _list(value.get("environment_changes")) if isinstance(each, str)],
        [each for each in _list(value.get("states")) if isinstance(each, dict)],
        [each for each in _list(value.get("not_compared")) if isinstance(each, str)],
    )
    for each in steps:
        if isinstance(each, dict) and isinstance(each.get("seq"), int):
            step = _step(each)
            found.steps[step.seq] = step
    found.steps = dict(sorted(found.steps.items()))
    return found


def _step(value: dict[str, object]) -> Step:
    chance = value.get("replays_differ")
    seq = value["seq"]
    assert isinstance(seq, int)  # noqa: S101  its caller saw to it
    return Step(
        seq,
        _text(value.get("kind")),
        _text(value.get("source")),
        _text(value.get("verdict")),
        _text(value.get("reason")),
        chance if isinstance(chance, bool) else None,
        tuple(each for each in _list(value.get("causes")) if isinstance(each, dict)),
        tuple(each for each in _list(value.get("differences")) if isinstance(each, dict)),
    )


def add_history(report: Report, path: Path) -> int:
    """Sources of steps that the report does not hold, from `reprise log --json` or a bundle.

    Returns how many were added. Raises Unreadable.
    """
    steps = _bundle(path) if _is_bundle(path) else _list(_json(path).get("steps"))
    added = 0
    for each in steps:
        if not isinstance(each, dict) or not isinstance(each.get("seq"), int):
            continue
        seq, source = each["seq"], _source(each)
        known = report.steps.get(seq)
        if source and (known is None or not known.source):
            kind = _text(each.get("kind"))
            report.steps[seq] = Step(seq, kind, source, known.verdict if known else "")
            added += 1
    if not steps:
        raise Unreadable(f"{path} holds no steps. Make it: reprise log SESSION --json > log.json")
    report.steps = dict(sorted(report.steps.items()))
    return added


def _source(step: dict[str, object]) -> str:
    payload = step.get("payload")
    if not isinstance(payload, dict):
        return ""
    content = payload.get("content")
    if step.get("kind") == "cell" and isinstance(content, dict):
        return _text(content.get("code"))
    if step.get("kind") == "command":
        argv = payload.get("argv")
        if isinstance(argv, list):
            return shlex.join(str(each) for each in argv)
        return _text(payload.get("shell"))
    return ""


def _is_bundle(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            head = file.read(4)
    except OSError as error:
        raise Unreadable(f"{path} cannot be read: {error.strerror}.") from error
    if head == b"\x28\xb5\x2f\xfd":
        raise Unreadable(f"{path} is a compressed bundle. Export it without --compress.")
    return path.suffix == ".reprise" or head == b"bund"


def _bundle(path: Path) -> list[object]:
    """The steps of a bundle (docs/bundle-format.md of Reprise): lines ["step", DIGEST, STEP]."""
    steps: list[object] = []
    total = 0
    try:
        with tarfile.open(path, "r:") as archive:
            for member in archive:
                if not member.name.startswith("events/") or not member.isfile():
                    continue
                total += member.size
                file = archive.extractfile(member)
                if total > _LARGEST_HISTORY or file is None:
                    raise Unreadable(
                        f"{path} holds more than {_LARGEST_HISTORY >> 20} MiB of events."
                    )
                for line in file.read().splitlines():
                    value = json.loads(line)
                    if isinstance(value, list) and len(value) == 3 and value[0] == "step":
                        steps.append(value[2])
    except (tarfile.TarError, OSError, ValueError, RecursionError) as error:
        raise Unreadable(f"{path} is no bundle: {error}.") from error
    return steps


def _json(path: Path) -> dict[str, object]:
    try:
        if path.stat().st_size > _LARGEST:
            raise Unreadable(f"{path} is over {_LARGEST >> 20} MiB.")
        value = json.loads(path.read_bytes())
    except OSError as error:
        raise Unreadable(f"{path} cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"{path} is no JSON: {error}.") from error
    if not isinstance(value, dict):
        raise Unreadable(f"{path} is no JSON object.")
    return value


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
