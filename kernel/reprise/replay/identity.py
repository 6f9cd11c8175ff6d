"""Maps ids that a kernel draws anew on replay to the recorded ones, in raw messages (pure)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from reprise.log.model import Json, OutputEntry

#: Shorter ids are left alone: they could be ordinary words.
SHORTEST: Final = 8

#: An id starts and ends with a letter or digit, has a digit (words of a language have none)
#: and needs no escape in JSON. uuid4, its hex form and what other kernels draw all look so.
_ID: Final = re.compile(r"(?=[^0-9]*[0-9])[0-9A-Za-z](?:[!#-\[\]-~]*[0-9A-Za-z])?")
_WORD: Final = re.compile(rb"[0-9A-Za-z]+")
_HEXADECIMAL: Final = re.compile(rb"[0-9a-f]+")
_ALNUM: Final = frozenset(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")


#: Message types that open an id: of a comm, or of a display.
OPENING: Final = frozenset({"comm_open", "display_data", "execute_result"})

#: Ids of one group are paired by their order; those of two groups never.
Group = tuple[str, ...]

#: What a message opens: its group and its id.
Opened = tuple[Group, str]


def opening(msg_type: str, content: Mapping[str, Json]) -> Opened | None:
    """The id that a message opens and its group: comms by target and model, displays."""
    group: Group
    if msg_type == "comm_open":
        new = content.get("comm_id")
        data = content.get("data")
        state = data.get("state") if isinstance(data, dict) else None
        model = state.get("_model_name") if isinstance(state, dict) else None
        group = ("comm", str(content.get("target_name")), str(model))
    elif msg_type in OPENING:
        transient = content.get("transient")
        new = transient.get("display_id") if isinstance(transient, dict) else None
        group = ("display",)
    else:
        return None
    return (group, new) if isinstance(new, str) else None


class Pairing:
    """The ids that one step opened at its first run, each waiting for its living partner.

    Falsy when none waits (any more). recorded: the step's outputs, the late ones last: a thread
    may be quicker or slower on the replay, but what it opens belongs to the same step.
    """

    def __init__(self, recorded: Iterable[OutputEntry]) -> None:
        self._waiting: dict[Group, dict[str, None]] = {}
        seen: set[tuple[str, str]] = set()
        for entry in recorded:
            found = opening(entry.type, entry.content)
            if found is None:
                continue
            group, each = found
            if (group[0], each) not in seen:
                seen.add((group[0], each))
                self._waiting.setdefault(group, {})[each] = None

    def __bool__(self) -> bool:
        return any(self._waiting.values())

    def learn(self, ids: IdMap, opened: Opened) -> str | None:
        """Pair what the replay opened, as the kernel called it.

        Returns the recorded id of it, or None when the record does not hold (more of) such.

        The n-th of a group in the record is the n-th of that group on the replay. An id that is
        known already (one that a person chose, or that an earlier step opened) is itself.
        """
        group, new = opened
        waiting = self._waiting.get(group)
        if not waiting:
            return None
        known = ids.recorded(new)
        if known in waiting:
            del waiting[known]
            return known
        if known != new:
            return None  # paired by an earlier step, and not opened again in this record
        for old in waiting:
            if ids.living(old) == old:
                del waiting[old]
                ids.add(old, new)
                return old
        return None


class IdMap:
    """Recorded id ↔ id in this sandbox's kernel. Falsy while empty, so a hot path can skip it.

    Ids are replaced wherever they stand between characters that are neither letter nor digit,
    so inside "IPY_MODEL_<id>" and in keys too, but never inside a longer run of hex digits. Of
    two ids that fit at one place the longer one wins.
    """

    def __init__(self) -> None:
        self._kernel: dict[str, str] = {}
        self._client: dict[str, str] = {}
        self._to_kernel = _Substitution()
        self._to_client = _Substitution()

    def __len__(self) -> int:
        return len(self._kernel)

    def recorded(self, new_id: str) -> str:
        """The recorded id of a living one; the same where they do not differ."""
        return self._client.get(new_id, new_id)

    def living(self, recorded_id: str) -> str:
        """The living id of a recorded one; the same where they do not differ."""
        return self._kernel.get(recorded_id, recorded_id)

    def learn(self, recorded: Iterable[OutputEntry], replayed: Iterable[OutputEntry]) -> None:
        """Pair the ids that one step opened at its first run with those of its replay."""
        pairing = Pairing(recorded)
        if pairing:
            for entry in replayed:
                opened = opening(entry.type, entry.content)
                if opened is not None:
                    pairing.learn(self, opened)

    def add(self, recorded_id: str, new_id: str) -> bool:
        """Map one pair; a later pair replaces an earlier one of either id.

        False (and nothing changes) for ids that are equal, short or look like no drawn id.
        """
        if recorded_id == new_id:
            return False
        for each in (recorded_id, new_id):
            if len(each) < SHORTEST or not _ID.fullmatch(each):
                return False
        old = self._kernel.get(recorded_id)
        if old is not None:
            self._remove(recorded_id, old)
        known = self._client.get(new_id)
        if known is not None:
            self._remove(known, new_id)
        self._kernel[recorded_id] = new_id
        self._client[new_id] = recorded_id
        self._to_kernel.add(recorded_id, new_id)
        self._to_client.add(new_id, recorded_id)
        return True

    def _remove(self, recorded_id: str, new_id: str) -> None:
        del self._kernel[recorded_id], self._client[new_id]
        self._to_kernel.remove(recorded_id)
        self._to_client.remove(new_id)

    def to_kernel(self, data: bytes) -> bytes:
        """`data` (raw JSON) with recorded ids replaced by those of this sandbox's kernel."""
        return self._to_kernel(data) if self._kernel else data

    def to_client(self, data: bytes) -> bytes:
        """`data` (raw JSON) with the kernel's new ids replaced by the recorded ones."""
        return self._to_client(data) if self._client else data


class _Substitution:
    """One pass over bytes. Time depends on their length, not on how many ids are known.

    One alternation over all ids would try each of them at each byte; instead the regex finds
    words as long as an id's first word, and a dictionary says which ids may start there. So a
    further id costs the same however many there are: a replay learns them one by one.
    """

    def __init__(self) -> None:
        self._starts: dict[bytes, list[tuple[bytes, bytes]]] = {}
        self._lengths: set[int] = set()
        self._hexadecimal = True
        self._pattern: re.Pattern[bytes] | None = None

    def add(self, old: str, new: str) -> None:
        key = old.encode("ascii")
        word = _first_word(key)
        fitting = self._starts.setdefault(word, [])
        fitting.append((key, new.encode("ascii")))
        fitting.sort(key=lambda pair: -len(pair[0]))
        hexadecimal = self._hexadecimal and _HEXADECIMAL.fullmatch(word) is not None
        if len(word) not in self._lengths or hexadecimal != self._hexadecimal:
            self._lengths.add(len(word))
            self._hexadecimal = hexadecimal
            self._pattern = None

    def remove(self, old: str) -> None:
        key = old.encode("ascii")
        fitting = self._starts[_first_word(key)]
        fitting[:] = [pair for pair in fitting if pair[0] != key]

    def _compiled(self) -> re.Pattern[bytes]:
        kind = b"[0-9a-f]" if self._hexadecimal else b"[0-9A-Za-z]"
        return re.compile(
            # The letters before an id may also be the end of an escape ("…\\n<id>…").
            rb"(?:(?<![0-9A-Za-z])|(?<=\\[bfnrt])|(?<=\\u[0-9A-Fa-f]{4}))%b{%d,%d}(?![0-9A-Za-z])"
            % (kind, min(self._lengths), max(self._lengths))
        )

    def __call__(self, data: bytes) -> bytes:
        if self._pattern is None:
            self._pattern = self._compiled()
        parts: list[bytes] = []
        done = 0
        for match in self._pattern.finditer(data):
            start = match.start()
            if start < done:  # inside an id that was just replaced
                continue
            for old, new in self._starts.get(match.group(), ()):
                end = start + len(old)
                if data.startswith(old, start) and (end == len(data) or data[end] not in _ALNUM):
                    parts += (data[done:start], new)
                    done = end
                    break
        if not parts:
            return data
        parts.append(data[done:])
        return b"".join(parts)


def _first_word(key: bytes) -> bytes:
    return _WORD.match(key).group()  # type: ignore[union-attr]  # an _ID starts with one
