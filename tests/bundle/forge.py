"""Bundles taken apart and put together again: with the manifest and the chain made to fit, or not."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from reprise.bundle import layout
from reprise.bundle.archive import BLOCK, MANIFEST, ArchiveReader, header, manifest_line
from reprise.bundle.lines import event_line, output_line
from reprise.bundle.lock import lock
from reprise.log.model import GENESIS, Json, canonical, extend, outputs_hash
from tests.bundle.sample import BEGAN, ENVIRONMENT, SPEC

Members = list[tuple[str, bytes]]

#: Where a bundle's session stands in these tests.
SESSION = "8a5c0b9e-1111-4222-8333-444455556666"


def members(data: bytes) -> Members:
    """The members of a bundle, the manifest and what comes after it left out."""
    reader = ArchiveReader(io.BytesIO(data), len(data))
    found = []
    while (member := reader.next()) is not None:
        content = reader.whole(len(data))
        if member.name == MANIFEST:
            break
        found.append((member.name, content))
    return found


def put_together(parts: Iterable[tuple[str, bytes]], *, after: Members = []) -> bytes:  # noqa: B006
    """An archive of these members with a manifest that fits."""
    listed = list(parts)
    lines = b"".join(
        manifest_line(hashlib.sha256(content).hexdigest(), name) for name, content in listed
    )
    return archive([*listed, (MANIFEST, lines), *after])


def archive(parts: Iterable[tuple[str, bytes]]) -> bytes:
    """These members as they are, and the end of an archive."""
    return b"".join(member(name, content) for name, content in parts) + bytes(2 * BLOCK)


def member(name: str, content: bytes) -> bytes:
    return header(name, len(content)) + content + bytes(-len(content) % BLOCK)


def patched(block: bytes, at: int, value: bytes) -> bytes:
    """A header with other bytes at a place, its checksum made to fit."""
    new = block[:at] + value + block[at + len(value) :]
    blank = new[:148] + b" " * 8 + new[156:]
    return new[:148] + b"%06o\0 " % sum(blank) + new[156:]


@dataclass
class Forge:
    """Writes histories that never were, each with a chain that fits.

    `body` may change what a step or an outcome says before it is hashed.
    """

    body: Callable[[dict[str, Json]], Json] = lambda body: body
    lines: list[bytes] = field(default_factory=list)
    chain: bytes = GENESIS
    event: int = 0
    seq: int = 0
    blobs: Members = field(default_factory=list)
    #: lines of recorded answers
    recorded: list[Json] = field(default_factory=list)

    def step(self, kind: str, payload: Json, **changes: Json) -> int:
        seq = self.seq
        body = {
            "seq": seq,
            "event": self.event,
            "kind": kind,
            "actor": {"kind": "user"},
            "payload": payload,
            "environment": ENVIRONMENT,
            "at": BEGAN,
            "during": None,
            "blobs": [],
            "key": None,
            **changes,
        }
        self.seq += 1
        self._append("step", canonical(self.body(body)))
        return seq

    def outcome(self, seq: int, /, **changes: Json) -> None:
        body = {
            "seq": seq,
            "event": self.event,
            "status": "ok",
            "outputs": outputs_hash(()),
            "inputs": [],
            "execution_count": None,
            "cause": None,
            "duration_us": 1,
            "at": BEGAN,
            "cut": False,
            **changes,
        }
        self._append("outcome", canonical(self.body(body)))

    def raw(self, type_: str, body: bytes) -> None:
        """An event with any bytes for its body."""
        self._append(type_, body)

    def output(self, type_: str, seq: int, value: Json) -> None:
        self.lines.append(output_line(type_, seq, canonical(value)))

    def _append(self, type_: str, body: bytes) -> None:
        self.chain = extend(self.chain, body)
        self.event += 1
        self.lines.append(event_line(type_, self.chain, body))

    def pages(self) -> list[bytes]:
        """The lines as a writer cuts them."""
        pages = [b""] if self.lines else []
        for line in self.lines:
            if pages[-1] and len(pages[-1]) + len(line) > layout.PAGE_BYTES:
                pages.append(b"")
            pages[-1] += line
        return pages

    def blob(self, data: bytes) -> str:
        name = hashlib.sha256(data).hexdigest()
        self.blobs.append((layout.blob_member(name), data))
        return name

    def members(self, **head: Json) -> Members:
        facts = {
            "format": layout.FORMAT,
            "version": layout.VERSION if self.recorded else layout.FIRST_VERSION,
            "session": SESSION,
            "kernel": "python3",
            "created_at": BEGAN,
            "steps": self.seq,
            "events": self.event,
            "chain": self.chain.hex(),
            **head,
        }
        parts: Members = [(layout.HEAD, canonical(facts))]
        parts += [(layout.events_member(n), page) for n, page in enumerate(self.pages())]
        if self.seq:
            parts.append((layout.environment_member(ENVIRONMENT), canonical(SPEC)))
            parts.append((layout.lock_member(ENVIRONMENT), lock(SPEC)))
        tables = (layout.NOTICES, layout.STATES, layout.ARTIFACTS)
        parts += [(name, b"") for name in tables]
        if self.recorded:
            lines = b"".join(canonical(each) + b"\n" for each in self.recorded)
            parts.append((layout.RECORDED, lines))
        return [*parts, *self.blobs]

    def bundle(self, **head: Json) -> bytes:
        return put_together(self.members(**head))


def cell_payload(code: Json = "1") -> dict[str, Json]:
    header = {"msg_id": "m", "msg_type": "execute_request"}
    return {"header": header, "metadata": {}, "content": {"code": code}}


def one_cell() -> Forge:
    forge = Forge()
    forge.outcome(forge.step("cell", cell_payload()))
    return forge
