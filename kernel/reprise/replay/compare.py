"""Compares what a replayed step showed with the record: same, volatile or different (pure)."""

from __future__ import annotations

import base64
import binascii
import difflib
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from reprise.log.model import Json, OutputEntry, canonical
from reprise.replay.difference import Comparison, Difference, Found, excerpts, shortened
from reprise.replay.identity import IdMap
from reprise.replay.recorder import is_mark, stream_name
from reprise.replay.volatile import (
    Verdict,
    compare_pngs,
    compare_texts,
    compare_tracebacks,
)

#: Outputs are aligned by kind when at most so many of them differ; beyond, by position.
ALIGNED: Final = 300
#: JSON nested deeper is compared as a whole.
DEPTH: Final = 60

_BUNDLES: Final = ("display_data", "execute_result", "update_display_data")
_MARKUP: Final = ("text/html", "image/svg+xml", "application/javascript")
_BINARY: Final = ("image/", "application/pdf", "audio/", "video/")


def compare(
    recorded: Sequence[OutputEntry],
    replayed: Sequence[OutputEntry],
    *,
    recorded_cut: bool = False,
    replayed_cut: bool = False,
    moments: tuple[int, int] | None = None,
) -> Comparison:
    """Compare the outputs of a step's first run with those of its replay.

    Not compared: how streams were cut into messages, prompt numbers, ids that a kernel draws
    anew (paired by order of opening), colours, names of cell files, when a request started, how
    long a command took.
    Where either record was cut at its bound, only what came before the cut is compared, and how
    the step ended.

    moments: when the step was first run and when it was replayed, µs since the epoch. Dates
      near its own run are volatile; without moments only clock readings to fractions of seconds.
    """
    ids = IdMap()
    ids.learn(recorded, replayed)
    if ids:
        replayed = [_renamed(entry, ids) for entry in replayed]
    left, right = list(recorded), list(replayed)
    if recorded_cut or replayed_cut:
        left, right = _up_to_cut(left, right, recorded_cut, replayed_cut)
    found = Found(moments)
    _compare_items(_items(left), _items(right), found)
    if found.verdict == "different" and any(e.type.startswith("comm_") for e in (*left, *right)):
        # Comm messages overtake a stream that waits for its flush, and how often a progress bar
        # reports depends on the clock: compare again with them set apart and summed up.
        apart = Found(moments)
        _compare_items(_items(_widgets_apart(left)), _items(_widgets_apart(right)), apart)
        if apart.verdict != "different":
            apart.add(Difference("widgets", "order", "", "", volatile=True))
            found = apart
    return found.comparison()


@dataclass(frozen=True)
class _Item:
    """One thing to compare. `body` of kind "streams": {name: text}, and `order` its pieces."""

    kind: str
    body: Mapping[str, Json]
    order: tuple[tuple[str, str], ...] = ()


def _renamed(entry: OutputEntry, ids: IdMap) -> OutputEntry:
    if entry.type == "stream":
        return entry
    raw = canonical(entry.to_json())
    mapped = ids.to_client(raw)
    return entry if mapped is raw else OutputEntry.from_json(json.loads(mapped))


def _up_to_cut(
    left: list[OutputEntry], right: list[OutputEntry], left_cut: bool, right_cut: bool
) -> tuple[list[OutputEntry], list[OutputEntry]]:
    ends = ("error", "execute_reply", "step_reply")

    def split(entries: list[OutputEntry], cut: bool) -> tuple[list[OutputEntry], list[OutputEntry]]:
        marks = [i for i, entry in enumerate(entries) if cut and is_mark(entry)]
        at = marks[-1] if marks else len(entries)
        before, after = entries[:at], entries[at + 1 :]
        if not marks:  # a whole record: what tells the end is at its end
            after = [entry for entry in before if entry.type in ends]
            before = [entry for entry in before if entry.type not in ends]
        return _merged(before), [_end(entry) for entry in after if entry.type in ends]

    before_left, after_left = split(left, left_cut)
    before_right, after_right = split(right, right_cut)
    length = min(len(before_left), len(before_right))
    before_left, before_right = before_left[:length], before_right[:length]
    if length and before_left[-1].type == before_right[-1].type == "stream":
        a, b = before_left[-1], before_right[-1]
        size = min(len(a.content["text"]), len(b.content["text"]))
        before_left[-1] = OutputEntry("stream", {**a.content, "text": a.content["text"][:size]})
        before_right[-1] = OutputEntry("stream", {**b.content, "text": b.content["text"][:size]})
    return [*before_left, *after_left], [*before_right, *after_right]


def _end(entry: OutputEntry) -> OutputEntry:
    """What even a shortened error or reply still tells."""
    content = {
        key: entry.content[key] for key in ("status", "ename", "result") if key in entry.content
    }
    return OutputEntry(entry.type, content)


def _merged(entries: Iterable[OutputEntry]) -> list[OutputEntry]:
    merged: list[OutputEntry] = []
    for name, run in itertools.groupby(entries, key=stream_name):
        if name is None:
            merged += run
        else:
            text = "".join(str(entry.content.get("text", "")) for entry in run)
            merged.append(OutputEntry("stream", {"name": name, "text": text}))
    return merged


def _widgets_apart(entries: Sequence[OutputEntry]) -> list[OutputEntry]:
    """Comm messages after all else, the state updates of each widget summed up as one."""
    rest = [entry for entry in entries if not entry.type.startswith("comm_")]
    comms: list[OutputEntry] = []
    states: dict[str, dict[str, Json]] = {}
    for entry in entries:
        if not entry.type.startswith("comm_"):
            continue
        data = entry.content.get("data")
        if (
            entry.type == "comm_msg"
            and isinstance(data, dict)
            and data.get("method") == "update"
            and isinstance(data.get("state"), dict)
            and not entry.blobs
        ):
            states.setdefault(str(entry.content.get("comm_id")), {}).update(data["state"])
        else:
            comms.append(entry)
    summed = [
        OutputEntry("comm_msg", {"comm_id": comm, "data": {"method": "update", "state": state}})
        for comm, state in sorted(states.items())
    ]
    return [*rest, *comms, *summed]


def _items(entries: Sequence[OutputEntry]) -> list[_Item]:
    items: list[_Item] = []
    for streams, run in itertools.groupby(_merged(entries), key=lambda e: e.type == "stream"):
        if streams:
            # stdout and stderr flush on timers of their own: each is compared as one text.
            order = tuple((each.content["name"], each.content["text"]) for each in run)
            texts: dict[str, str] = {}
            for name, text in order:
                texts[name] = texts.get(name, "") + text
            items.append(_Item("streams", texts, order))
        else:
            items += (_Item(entry.type, _body(entry)) for entry in run)
    return items


def _body(entry: OutputEntry) -> dict[str, Json]:
    content = dict(entry.content)
    if entry.type == "execute_reply":
        kept = ("status", "ename", "evalue", "user_expressions", "payload")
        return {key: content[key] for key in kept if key in content}
    if entry.type == "step_reply":
        return {"status": content.get("status"), **_result(content.get("result"))}
    if entry.type == "execute_result":
        content.pop("execution_count", None)
    if entry.type in ("execute_result", "display_data"):
        content.pop("transient", None)
    if entry.type == "error":
        lines = content.get("traceback")
        if isinstance(lines, list):
            content["traceback"] = "\n".join(map(str, lines))
    if entry.blobs:
        content["buffers"] = list(entry.blobs)
    return content


def _result(result: Json) -> dict[str, Json]:
    """Of a command's end what counts: never how long it took nor where its streams are kept.

    How much it wrote is said by its streams themselves, and only where they were cut by a number.
    """
    if not isinstance(result, Mapping):
        return {}
    kept = {key: value for key, value in result.items() if not key.startswith("duration")}
    for name in ("stdout", "stderr"):
        stream = kept.pop(name, None)
        if isinstance(stream, Mapping) and stream.get("cut"):
            kept[name] = {key: stream.get(key) for key in ("bytes", "lines", "cut")}
    return kept


def _compare_items(left: Sequence[_Item], right: Sequence[_Item], found: Found) -> None:
    start, shorter = 0, min(len(left), len(right))
    while start < shorter and left[start] == right[start]:
        start += 1
    end = 0
    while end < shorter - start and left[-1 - end] == right[-1 - end]:
        end += 1
    for a, b in _aligned(left[start : len(left) - end], right[start : len(right) - end]):
        if found.full:
            found.omitted += a != b
        elif a is None:
            if b is not None:
                found.add(Difference(_title(b), "extra", "", _shown(b)))
        elif b is None:
            found.add(Difference(_title(a), "missing", _shown(a), ""))
        elif a.kind == "streams":
            _compare_streams(a, b, found)
        else:
            _compare_bodies(a, b, found)


def _aligned(
    left: Sequence[_Item], right: Sequence[_Item]
) -> Iterator[tuple[_Item | None, _Item | None]]:
    """Pairs of one kind, in order, and what has no partner."""
    if max(len(left), len(right)) <= ALIGNED:
        kinds = [item.kind for item in left], [item.kind for item in right]
        blocks = difflib.SequenceMatcher(None, *kinds, autojunk=False).get_matching_blocks()
    else:
        same = itertools.takewhile(
            lambda ab: ab[0].kind == ab[1].kind, zip(left, right, strict=False)
        )
        size = sum(1 for _ in same)
        blocks = [difflib.Match(0, 0, size), difflib.Match(len(left), len(right), 0)]
    i = j = 0
    for block in blocks:
        for a in left[i : block.a]:
            yield a, None
        for b in right[j : block.b]:
            yield None, b
        i, j = block.a + block.size, block.b + block.size
        yield from zip(left[block.a : i], right[block.b : j], strict=True)


def _compare_streams(a: _Item, b: _Item, found: Found) -> None:
    differs = False
    for name in dict.fromkeys([*a.body, *b.body]):
        old, new = a.body.get(name, ""), b.body.get(name, "")
        differs |= _texts(name, old, new, found, *compare_texts(old, new, moments=found.moments))
    if not differs and a.body == b.body:  # equal texts in other pieces
        names = [" → ".join(name for name, _ in each.order[:20]) for each in (a, b)]
        found.add(Difference("streams", "order", names[0], names[1], volatile=True))


def _compare_bodies(a: _Item, b: _Item, found: Found) -> None:
    for key in dict.fromkeys([*a.body, *b.body]):
        where = f"{a.kind} {key}"
        if key not in a.body or key not in b.body:
            _one_sided(where, key in a.body, a.body.get(key), b.body.get(key), found)
            continue
        old, new = a.body[key], b.body[key]
        if old == new:
            continue
        if key == "data" and a.kind in _BUNDLES and isinstance(old, dict) and isinstance(new, dict):
            _compare_bundles(a.kind, old, new, found)
            continue
        if key == "traceback" and isinstance(old, str) and isinstance(new, str):
            _texts(where, old, new, found, *compare_tracebacks(old, new, found.moments))
            continue
        _compare_json(where, old, new, found, DEPTH)


def _compare_bundles(kind: str, old: Json, new: Json, found: Found) -> None:
    for mime in dict.fromkeys([*old, *new]):
        where = f"{kind} {mime}"
        if mime not in old or mime not in new:
            _one_sided(where, mime in old, old.get(mime), new.get(mime), found)
            continue
        a, b = _joined(old[mime]), _joined(new[mime])
        if not isinstance(a, str) or not isinstance(b, str):
            _compare_json(where, a, b, found, DEPTH)
        elif mime.startswith(_BINARY) and mime != "image/svg+xml":
            _compare_binary(where, mime, a, b, found)
        else:
            markup = mime in _MARKUP
            verdict = compare_texts(a, b, markup=markup, moments=found.moments)
            _texts(where, a, b, found, *verdict)


def _joined(value: Json) -> Json:
    """nbformat allows a list of lines for a text."""
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return "".join(value)
    return value


def _compare_binary(where: str, mime: str, a: str, b: str, found: Found) -> None:
    old, new = _decoded(a), _decoded(b)
    if old is None or new is None:
        _texts(where, a, b, found, *compare_texts(a, b))
        return
    if old == new:
        return
    verdict, kind = compare_pngs(old, new) if mime == "image/png" else ("different", "")
    found.add(
        Difference(
            where,
            kind or "image",
            f"{len(old):,} bytes",
            f"{len(new):,} bytes",
            volatile=verdict == "volatile",
        )
    )


def _decoded(text: str) -> bytes | None:
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        return None


def _compare_json(where: str, old: Json, new: Json, found: Found, depth: int) -> None:
    if isinstance(old, str) and isinstance(new, str):
        verdict = compare_texts(old, new, markup="<" in old, moments=found.moments)
        _texts(where, old, new, found, *verdict)
    elif depth and isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys([*old, *new]):
            path = f"{where}.{key}" if len(where) < 300 else where
            if key not in old or key not in new:
                _one_sided(path, key in old, old.get(key), new.get(key), found)
            else:
                _compare_json(path, old[key], new[key], found, depth - 1)
    elif depth and isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (a, b) in enumerate(zip(old, new, strict=True)):
            path = f"{where}[{index}]" if len(where) < 300 else where
            _compare_json(path, a, b, found, depth - 1)
    elif old != new and _json(old) != _json(new):  # NaN differs from itself, its text does not
        found.add(Difference(where, "value", shortened(_json(old)), shortened(_json(new))))


def _one_sided(where: str, missing: bool, old: Json, new: Json, found: Found) -> None:
    if missing:
        found.add(Difference(where, "missing", shortened(_json(old)), ""))
    else:
        found.add(Difference(where, "extra", "", shortened(_json(new))))


def _texts(where: str, old: str, new: str, found: Found, verdict: Verdict, kind: str) -> bool:
    """Note a verdict on two texts; whether there was anything to note."""
    if verdict == "same":
        return False
    left, right, diff = excerpts(old, new)
    found.add(Difference(where, kind or "text", left, right, diff, verdict == "volatile"))
    return True


def _title(item: _Item) -> str:
    return " and ".join(sorted(item.body)) if item.kind == "streams" else item.kind


def _shown(item: _Item) -> str:
    if item.kind == "streams":
        return shortened("".join(text for _, text in item.order))
    return shortened(_json(item.body))


def _json(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
