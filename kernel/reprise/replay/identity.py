"""Maps ids that a kernel draws anew on replay to the recorded ones, in raw messages (pure)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from reprise.log.model import OutputEntry

#: Shorter ids are left alone: they could be ordinary words.
SHORTEST: Final = 8

#: An id starts and ends with a letter or digit, has a digit (words of a language have none)
#: and needs no escape in JSON. uuid4, its hex form and what other kernels draw all look so.
_ID: Final = re.compile(r"(?=[^0-9]*[0-9])[0-9A-Za-z](?:[!#-\[\]-~]*[0-9A-Za-z])?")
_WORD: Final = re.compile(rb"[0-9A-Za-z]+")
_ALNUM: Final = frozenset(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")


def opened(entries: Iterable[OutputEntry]) -> dict[tuple[str, ...], list[str]]:
    """The ids that a step opened, in order: of comms by target and model, of displays."""
    found: dict[tuple[str, ...], list[str]] = {}
    seen: set[tuple[str, str]] = set()
    group: tuple[str, ...]
    for entry in entries:
        content = entry.content
        if entry.type == "comm_open":
            new = content.get("comm_id")
            data = content.get("data")
            state = data.get("state") if isinstance(data, dict) else None
            model = state.get("_model_name") if isinstance(state, dict) else None
            group = ("comm", str(content.get("target_name")), str(model))
        elif entry.type in ("display_data", "execute_result"):
            transient = content.get("transient")
            new = transient.get("display_id") if isinstance(transient, dict) else None
            group = ("display",)
        else:
            continue
        if isinstance(new, str) and (group[0], new) not in seen:
            seen.add((group[0], new))
            found.setdefault(group, []).append(new)
    return found


class IdMap:
    """Recorded id ↔ id in this sandbox's kernel. Falsy while empty, so a hot path can skip it.

    Ids are replaced wherever they stand between characters that are neither letter nor digit,
    so inside "IPY_MODEL_<id>" and in keys too, but never inside a longer run of hex digits. Of
    two ids that fit at one place the longer one wins.
    """

    def __init__(self) -> None:
        self._kernel: dict[str, str] = {}
        self._client: dict[str, str] = {}
        self._to_kernel: _Substitution | None = None
        self._to_client: _Substitution | None = None

    def __len__(self) -> int:
        return len(self._kernel)

    def learn(self, recorded: Sequence[OutputEntry], replayed: Sequence[OutputEntry]) -> None:
        """Pair the ids that one step opened at its first run with those of its replay, by order."""
        after = opened(replayed)
        for group, ids in opened(recorded).items():
            for old, new in zip(ids, after.get(group, ()), strict=False):
                self.add(old, new)

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
            del self._client[old]
        known = self._client.get(new_id)
        if known is not None:
            del self._kernel[known]
        self._kernel[recorded_id] = new_id
        self._client[new_id] = recorded_id
        self._to_kernel = self._to_client = None
        return True

    def to_kernel(self, data: bytes) -> bytes:
        """`data` (raw JSON) with recorded ids replaced by those of this sandbox's kernel."""
        if not self._kernel:
            return data
        if self._to_kernel is None:
            self._to_kernel = _Substitution(self._kernel)
        return self._to_kernel(data)

    def to_client(self, data: bytes) -> bytes:
        """`data` (raw JSON) with the kernel's new ids replaced by the recorded ones."""
        if not self._client:
            return data
        if self._to_client is None:
            self._to_client = _Substitution(self._client)
        return self._to_client(data)


class _Substitution:
    """One pass over bytes. Time depends on their length, not on how many ids are known.

    One alternation over all ids would try each of them at each byte; instead the regex finds
    words as long as an id's first word, and a dictionary says which ids may start there.
    """

    def __init__(self, pairs: dict[str, str]) -> None:
        self._starts: dict[bytes, list[tuple[bytes, bytes]]] = {}
        for old, new in pairs.items():
            key = old.encode("ascii")
            word = _WORD.findall(key)[0]  # an _ID starts with one
            self._starts.setdefault(word, []).append((key, new.encode("ascii")))
        for fitting in self._starts.values():
            fitting.sort(key=lambda pair: -len(pair[0]))
        lengths = sorted({len(word) for word in self._starts})
        hexadecimal = all(re.fullmatch(rb"[0-9a-f]+", word) for word in self._starts)
        kind = b"[0-9a-f]" if hexadecimal else b"[0-9A-Za-z]"
        self._pattern = re.compile(
            # The letters before an id may also be the end of an escape ("…\\n<id>…").
            rb"(?:(?<![0-9A-Za-z])|(?<=\\[bfnrt])|(?<=\\u[0-9A-Fa-f]{4}))%b{%d,%d}(?![0-9A-Za-z])"
            % (kind, lengths[0], lengths[-1])
        )

    def __call__(self, data: bytes) -> bytes:
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
