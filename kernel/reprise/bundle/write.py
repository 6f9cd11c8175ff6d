"""Writes a session as a bundle, in one pass: what it writes it has checked as an import would."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from reprise.bundle import layout
from reprise.bundle.archive import MANIFEST, ArchiveWriter, Sink
from reprise.bundle.history import HistoryCheck
from reprise.bundle.lines import MAX_LINE, event_line, output_line, parse_line
from reprise.bundle.lock import checked_spec, lock
from reprise.bundle.shape import files_of_tree
from reprise.bundle.tables import (
    ARTIFACTS,
    NOTICES,
    RECORDED,
    STATES,
    R,
    Table,
    mentions,
    stands_in,
)
from reprise.errors import BadBundle, LogCorrupt
from reprise.log.events import Stored, blob_in_pieces, events, snapshot
from reprise.log.model import canonical, sha256_hex
from reprise.log.reader import Reader
from reprise.log.store import Artifact
from reprise.workspace.manifest import MAX_BYTES as TREE_BYTES

#: Given the first member and the manifest: the public key and the signature, as minisign's files.
Sign = Callable[[layout.Head, bytes], tuple[bytes, bytes]]

#: Steps between two words about the progress.
_TELL_EVERY: Final = 100


@dataclass(frozen=True)
class Exported:
    """What a bundle holds. digest: sha256 (hex) of its manifest, hence of all of it."""

    head: layout.Head
    blobs: int
    blob_bytes: int
    digest: str


async def write_bundle(
    reader: Reader,
    sink: Sink,
    *,
    notices: bool = False,
    artifacts: Sequence[Artifact] = (),
    sign: Sign | None = None,
    progress: Callable[[str], None] | None = None,
) -> Exported:
    """Write the session as it stands now.

    notices: whether they go in; they may name folders of this machine.
    artifacts: those of the session that go in.
    Raises LogCorrupt when what is stored is not whole; what was written by then is no bundle,
    and no reader takes it for one.
    """
    try:
        return await _Export(reader, sink, progress).run(notices, artifacts, sign)
    except BadBundle as error:
        raise LogCorrupt(
            f"Session {reader.session} cannot be exported: {error}. `reprise log --check` tells"
            " which of its steps are whole."
        ) from error


class _Export:
    def __init__(self, reader: Reader, sink: Sink, progress: Callable[[str], None] | None) -> None:
        self._reader = reader
        self._archive = ArchiveWriter(sink)
        self._check = HistoryCheck()
        self._progress = progress
        self._lines: list[bytes] = []
        self._size = 0
        self._pages = 0

    async def run(
        self, notices: bool, artifacts: Sequence[Artifact], sign: Sign | None
    ) -> Exported:
        until = await snapshot(self._reader)
        recorded = [
            each
            async for each in self._reader.all_recorded()
            if stands_in(each, until.head.next_seq)
        ]
        head = layout.Head(
            self._reader.session,
            until.kernel,
            until.created_at,
            until.head.next_seq,
            until.head.next_event,
            until.head.chain.hex(),
            bool(recorded),
        )
        self._archive.add(layout.HEAD, head.to_bytes())
        async for stored in events(self._reader, until):
            self._event(stored)
        self._end_page()
        found = self._check.steps, self._check.events, self._check.chain.hex()
        if found != (head.steps, head.events, head.chain):
            raise BadBundle("its chain does not end where its head says")
        for digest in self._check.environments:
            spec = canonical(await self._reader.environment(digest))
            self._archive.add(layout.environment_member(digest), spec)
            self._archive.add(layout.lock_member(digest), lock(checked_spec(spec, digest)))
        if notices:
            self._table(NOTICES, await self._reader.notices())
        else:
            self._table(NOTICES, ())
        self._table(STATES, await self._reader.states())
        self._table(ARTIFACTS, artifacts)
        if recorded:
            self._table(RECORDED, recorded)
        blobs, size = await self._blobs()
        manifest = self._archive.manifest()
        self._archive.add(MANIFEST, manifest)
        if sign is not None:
            signer, signature = sign(head, manifest)
            self._archive.add(layout.SIGNER, signer)
            self._archive.add(layout.SIGNATURE, signature)
        self._archive.end()
        return Exported(head, blobs, size, sha256_hex(manifest))

    def _event(self, stored: Stored) -> None:
        if stored.type == "step" or stored.type == "outcome":
            self._line(event_line(stored.type, stored.link, stored.body))
            if stored.type == "step" and self._progress and stored.seq % _TELL_EVERY == 0:
                self._progress(f"step {stored.seq} …")
        elif stored.type == "late":
            self._line(output_line("late", stored.seq, stored.body))
        else:
            for entry in json.loads(stored.body):
                self._line(output_line("output", stored.seq, canonical(entry)))

    def _line(self, line: bytes) -> None:
        where = f"line {len(self._lines) + 1} of {layout.events_member(self._pages)}"
        if len(line) > MAX_LINE:
            raise BadBundle(f"{where} would be {len(line):,} bytes")
        if self._lines and self._size + len(line) > layout.PAGE_BYTES:
            self._end_page()
        self._check.take(parse_line(line[:-1], where), where)
        self._lines.append(line)
        self._size += len(line)

    def _end_page(self) -> None:
        if self._lines:
            self._archive.add(layout.events_member(self._pages), b"".join(self._lines))
            self._pages += 1
        self._lines, self._size = [], 0

    def _table(self, table: Table[R], records: Sequence[R]) -> None:
        # What came after the history was read belongs to a later one.
        kept = [each for each in records if stands_in(each, self._check.steps)]
        for record in kept:
            self._check.mention(mentions(record))
        self._archive.add(table.name, table.to_bytes(kept))

    async def _blobs(self) -> tuple[int, int]:
        """Every named blob once, in order of first mention; a tree's files after all others."""
        waiting = list(self._check.blobs)
        seen = set(waiting)
        total = 0
        for name in waiting:
            size, pieces = await blob_in_pieces(self._reader.blobs, name)
            if self._check.blobs.get(name, False):
                if size > TREE_BYTES:
                    raise BadBundle(f"the tree {name} is {size:,} bytes")
                data = b"".join(pieces)
                pieces = iter((data,))
                files = [file for file in files_of_tree(data, name) if file not in seen]
                waiting += files
                seen.update(files)
            if self._archive.add_pieces(layout.blob_member(name), size, pieces) != name:
                raise BadBundle(f"the blob {name} holds other bytes than those it is named for")
            total += size
            if self._progress is not None:
                self._progress(f"blob of {size:,} bytes …")
        return len(waiting), total
