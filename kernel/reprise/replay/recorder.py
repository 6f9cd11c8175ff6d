"""Collects what one step shows, coalesced and bounded, with a visible mark at a cut (pure)."""

from __future__ import annotations

from typing import Final

from reprise.log.model import Json, OutputEntry, OutputsHash, canonical

#: After the cut, what tells how the step ended still passes, up to this size each …
SMALL: Final = 64 << 10
#: … and this many of them, so that a kernel that never stops sending them stays bounded.
SMALL_ENTRIES: Final = 64
#: What still passes after the cut. An input_request has to: the cell waits for its answer.
_REPLIES: Final = frozenset({"execute_reply", "step_reply"})
_KEPT: Final = frozenset({"error", "execute_result", "input_request"}) | _REPLIES

_MARK_START: Final = "\n[Reprise: output cut after "


def is_mark(entry: OutputEntry) -> bool:
    """Whether `entry` is the mark of a cut (trust it only when the outcome says `cut`)."""
    return entry.type == "stream" and str(entry.content.get("text", "")).startswith(_MARK_START)


class OutputRecorder:
    """The outputs of one step on their way to the page and to the log.

    `add` decides what is shown; `take` gives what has to be stored since the last take. What
    is shown is exactly what is recorded. Where the cut falls depends only on what the step
    showed, never on how a kernel's flush timing or the batches divided it.

    limit_bytes: bound on the bytes of all recorded entries (a stream's text in UTF-8; other
      entries by `size`, or by their canonical form).
    limit_entries: bound on their number, a run of one stream counting once.
    """

    def __init__(self, limit_bytes: int, limit_entries: int = 20_000) -> None:
        self._limit_bytes = limit_bytes
        self._limit_entries = limit_entries
        self._used = 0
        self._entries = 0
        self._small = 0
        self._hash = OutputsHash()
        self._batch: list[OutputEntry] = []
        self._batch_bytes = 0
        # The stream at the end of the batch that may still grow.
        self._name: str | None = None
        self._texts: list[str] = []
        self._metadata: dict[str, Json] = {}
        # The last stream recorded, and the last one seen, whatever batches were taken since.
        self._recorded: str | None = None
        self._seen: str | None = None
        #: Outputs seen so far, refused ones too, a run of one stream counting once. This is
        #: what `During.outputs` holds: a count of messages would depend on flush timing.
        self.count = 0
        #: Whether anything was refused; belongs into the outcome.
        self.cut = False

    @property
    def pending_bytes(self) -> int:
        """Bytes that the next `take` gives."""
        return self._batch_bytes

    def add(self, entry: OutputEntry, size: int | None = None) -> tuple[OutputEntry, ...]:
        """Record `entry` as far as the bounds allow, and return what to show, in order.

        `(entry,)`, the very object, is the usual answer: publish the message as it came. At the
        cut it is the part that still fits and the mark; after it nothing, save small messages
        about how the step ended (an oversized error or reply comes back shortened).

        size: bytes of the message as it came (content, metadata, buffers), for all but streams.
        """
        name = stream_name(entry)
        if name is None or name != self._seen:
            self.count += 1
        self._seen = name
        if name is not None:
            return self._add_stream(entry, name)
        if size is None:
            size = len(canonical(entry.to_json()))
        if not self.cut:
            if self._used + size <= self._limit_bytes and self._entries < self._limit_entries:
                self._used += size
                self._record(entry, size)
                return (entry,)
            return (self._mark(), *self._after_cut(entry, size))
        return self._after_cut(entry, size)

    def fits(self, size: int) -> bool:
        """Whether a message of `size` bytes is certainly recorded whole, and may be shown at once.

        What is counted of a stream can be longer than its message where its metadata hold other
        than ASCII, at most three times.
        """
        return (
            not self.cut
            and self._used + 3 * size <= self._limit_bytes
            and self._entries < self._limit_entries
        )

    def take(self) -> list[OutputEntry]:
        """What was recorded since the last take, consecutive streams of one name merged."""
        self._close()
        batch, self._batch, self._batch_bytes = self._batch, [], 0
        return batch

    def hexdigest(self) -> str:
        """The `OutputsHash` of everything recorded so far, taken or not."""
        return self._hash.hexdigest()

    def _add_stream(self, entry: OutputEntry, name: str) -> tuple[OutputEntry, ...]:
        if self.cut:
            return ()
        text = str(entry.content.get("text", ""))
        data = text.encode("utf-8", "surrogatepass")
        new = name != self._recorded
        # Metadata and name come from the kernel and have no bound of their own.
        extra = len(name) if new else 0
        if entry.metadata:
            extra += len(canonical(dict(entry.metadata)))
        room = self._limit_bytes - self._used - extra
        if len(data) <= room and not (new and self._entries >= self._limit_entries):
            self._used += extra + len(data)
            self._record_stream(entry, name, text, extra + len(data))
            return (entry,)
        if room < 0 or (new and self._entries >= self._limit_entries):
            return (self._mark(),)
        end = room
        while end > 0 and data[end] & 0xC0 == 0x80:  # never inside a character
            end -= 1
        part = data[:end].decode("utf-8", "surrogatepass")
        if not part and not new:
            return (self._mark(),)
        shown = OutputEntry("stream", {"name": name, "text": part}, entry.metadata)
        self._used += extra + end
        self._record_stream(shown, name, part, extra + end)
        return (shown, self._mark())

    def _after_cut(self, entry: OutputEntry, size: int) -> tuple[OutputEntry, ...]:
        """What passes over the bound. A reply always does, since clients wait for it."""
        if entry.type not in _KEPT:
            return ()
        if entry.type not in _REPLIES:
            if self._small >= SMALL_ENTRIES:
                return ()
            self._small += 1
        if size > SMALL:
            if entry.type != "error" and entry.type not in _REPLIES:
                return ()
            entry = _shortened(entry)
        self._record(entry, min(size, SMALL))
        return (entry,)

    def _mark(self) -> OutputEntry:
        self.cut = True
        if self._entries >= self._limit_entries:
            bound = f"{self._limit_entries:,} outputs"
        else:
            bound = _size(self._limit_bytes)
        mark = OutputEntry(
            "stream",
            {
                "name": "stderr",
                "text": f"{_MARK_START}{bound}. The cell goes on, but what it shows from here on is"
                " neither displayed nor kept. Write large results to a file, or raise the"
                " environment's limit on output.]\n",
            },
        )
        self._close()  # stays an entry of its own, even behind other stderr text
        self._record_stream(mark, "stderr", mark.content["text"], len(mark.content["text"]))
        self._close()
        return mark

    def _record(self, entry: OutputEntry, size: int) -> None:
        self._close()
        self._recorded = None
        self._entries += 1
        self._batch.append(entry)
        self._batch_bytes += size
        self._hash.add(entry)

    def _record_stream(self, entry: OutputEntry, name: str, text: str, size: int) -> None:
        if name != self._name:
            self._close()
            self._name = name
            self._metadata = dict(entry.metadata)
        if name != self._recorded:
            self._entries += 1
            self._recorded = name
        self._texts.append(text)
        self._batch_bytes += size
        self._hash.add(entry)

    def _close(self) -> None:
        if self._name is not None:
            content = {"name": self._name, "text": "".join(self._texts)}
            self._batch.append(OutputEntry("stream", content, self._metadata))
            self._name, self._texts, self._metadata = None, [], {}


def stream_name(entry: OutputEntry) -> str | None:
    """The stream an entry belongs to, as `OutputsHash` reads it; None for other entries."""
    return str(entry.content.get("name", "stdout")) if entry.type == "stream" else None


def _shortened(entry: OutputEntry) -> OutputEntry:
    """An error or a reply without its long parts: how the step ended, and in few words why."""
    content: dict[str, Json] = {}
    for key, value in entry.content.items():
        if key in ("status", "ename", "evalue"):
            text = str(value)
            content[key] = text if len(text) <= 1000 else text[:1000] + "… [cut by Reprise]"
        elif key == "result" or (key == "execution_count" and isinstance(value, int)):
            content[key] = value  # of a step_reply: numbers and file names of ours
        elif key == "traceback":
            content[key] = ["[Reprise: traceback left out, the output was cut before it]"]
        elif key in ("payload", "user_expressions"):
            content[key] = type(value)()
    return OutputEntry(entry.type, content)


def _size(count: int) -> str:
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= scale:
            return f"{count / scale:.3g} {unit}"
    return f"{count} bytes"
