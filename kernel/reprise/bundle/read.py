"""Reads a bundle in one pass and proves every byte of it before it hands anything on."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass

from reprise.bundle import layout
from reprise.bundle.archive import MANIFEST, ArchiveReader, Member, Source, Sums
from reprise.bundle.history import HistoryCheck, Item
from reprise.bundle.lines import MAX_LINE, parse_line
from reprise.bundle.lock import checked_spec, lock
from reprise.bundle.shape import files_of_tree
from reprise.bundle.signature import Signed, check_signature
from reprise.bundle.tables import (
    ARTIFACTS,
    NOTICES,
    RECORDED,
    STATES,
    R,
    Record,
    Table,
    mentions,
)
from reprise.errors import BadBundle
from reprise.log.model import Json
from reprise.log.store import RecordedResponse
from reprise.workspace.manifest import MAX_BYTES as TREE_BYTES


@dataclass(frozen=True)
class Environment:
    """The spec of an environment that a step names."""

    digest: str
    spec: dict[str, Json]


@dataclass(frozen=True)
class Blob:
    """Bytes under their name. `pieces` must be read to their end, and are proven only then."""

    name: str
    size: int
    pieces: Iterator[bytes]


@dataclass(frozen=True)
class Seal:
    """The end of a bundle that is whole. digest: sha256 (hex) of its manifest."""

    digest: str
    signed: Signed | None
    steps: int
    outputs: int
    blobs: int
    blob_bytes: int


Part = layout.Head | Item | Environment | Record | Blob | Seal


def read_bundle(source: Source, limit: int) -> Iterator[Part]:
    """The parts of a bundle in order; the last one is its Seal, without which nothing counts.

    limit: bytes of the whole, uncompressed.
    Raises BadBundle, TooLarge, UnavailableError (a later version).
    """
    return _Reading(source, limit).parts()


class _Reading:
    def __init__(self, source: Source, limit: int) -> None:
        self._archive = ArchiveReader(source, limit)
        self._check = HistoryCheck()
        self._member: Member | None = None

    def parts(self) -> Iterator[Part]:
        self._next()
        head = layout.parse_head(self._expect(layout.HEAD, layout.HEAD_BYTES))
        yield head
        yield from self._events()
        found = self._check.steps, self._check.events, self._check.chain.hex()
        if found != (head.steps, head.events, head.chain):
            raise BadBundle("its history does not end where its head says")
        for digest in self._check.environments:
            yield self._environment(digest)
        yield from self._table(NOTICES)
        yield from self._table(STATES)
        yield from self._table(ARTIFACTS)
        if head.recorded:
            yield from self._recorded()
        blobs, size = yield from self._blobs()
        sums = self._archive.sums()
        manifest = self._member
        if manifest is None or manifest.name != MANIFEST:
            raise BadBundle(f"{self._here()} stands where {MANIFEST} is due")
        self._skip()
        if (manifest.size, self._archive.sha256()) != (sums.size, sums.sha256):
            raise BadBundle(f"{MANIFEST} does not list what stands before it")
        self._next()
        signed = self._signature(sums)
        if self._member is not None:
            raise BadBundle(f"{self._here()} stands after the last member of a bundle")
        check = self._check
        yield Seal(sums.sha256, signed, check.steps, check.outputs, blobs, size)

    # members -------------------------------------------------------------------------------------

    def _next(self) -> None:
        self._member = self._archive.next()

    def _here(self) -> str:
        return "its end" if self._member is None else f"the member {self._member.name!r}"

    def _expect(self, name: str, bound: int) -> bytes:
        """The bytes of the member that is due, and the next one begun."""
        if self._member is None or self._member.name != name:
            raise BadBundle(f"{self._here()} stands where {name} is due")
        data = self._archive.whole(bound)
        self._next()
        return data

    def _skip(self) -> None:
        for _ in self._archive.pieces():
            pass

    # history -------------------------------------------------------------------------------------

    def _events(self) -> Iterator[Item]:
        number, before = 0, 0
        while self._member is not None and self._member.name == layout.events_member(number):
            where = self._member.name
            data = self._archive.whole(max(layout.PAGE_BYTES, MAX_LINE))
            first = data.find(b"\n") + 1
            # One history has one form: a page ends only before what does not fit.
            if not first or (number and before + first <= layout.PAGE_BYTES):
                raise BadBundle(f"{where} does not begin where it should")
            if data[-1:] != b"\n" or (len(data) > layout.PAGE_BYTES and first != len(data)):
                raise BadBundle(f"{where} does not end where it should")
            at, line = 0, 1
            while at < len(data):
                end = data.index(b"\n", at)
                place = f"line {line} of {where}"
                yield self._check.take(parse_line(data[at:end], place), place)
                at, line = end + 1, line + 1
            number, before = number + 1, len(data)
            self._next()

    def _environment(self, digest: str) -> Environment:
        spec = checked_spec(
            self._expect(layout.environment_member(digest), layout.SPEC_BYTES), digest
        )
        name = layout.lock_member(digest)
        if self._expect(name, layout.SPEC_BYTES) != lock(spec):
            raise BadBundle(f"{name} does not list the packages of its environment")
        return Environment(digest, spec)

    def _table(self, table: Table[R]) -> Iterator[R]:
        data = self._expect(table.name, layout.TABLE_BYTES)
        if data and data[-1:] != b"\n":
            raise BadBundle(f"{table.name} does not end where it should")
        at, number = 0, 1
        while at < len(data):
            end = data.index(b"\n", at)
            record = table.parse(data[at:end], number, self._check.steps)
            self._check.mention(mentions(record))
            yield record
            at, number = end + 1, number + 1

    def _recorded(self) -> Iterator[RecordedResponse]:
        """Answers of hosts: some, each once, in their order, since one history has one form."""
        before: tuple[int, str, int] | None = None
        for record in self._table(RECORDED):
            place = record.seq, record.key, record.nth
            if before is not None and place <= before:
                raise BadBundle(f"{RECORDED.name} is not in its order")
            before = place
            yield record
        if before is None:
            raise BadBundle(f"{RECORDED.name} is empty")

    # blobs ---------------------------------------------------------------------------------------

    def _blobs(self) -> Generator[Blob, None, tuple[int, int]]:
        waiting = list(self._check.blobs)
        seen = set(waiting)
        total = 0
        for name in waiting:
            member = self._member
            if member is None or member.name != layout.blob_member(name):
                raise BadBundle(f"{self._here()} stands where the blob {name} is due")
            if self._check.blobs.get(name, False):
                data = self._archive.whole(TREE_BYTES)
                files = [file for file in files_of_tree(data, name) if file not in seen]
                waiting += files
                seen.update(files)
                pieces = iter((data,))
            else:
                pieces = self._archive.pieces()
            yield Blob(name, member.size, pieces)
            self._skip()
            if self._archive.sha256() != name:
                raise BadBundle(f"the blob {name} holds other bytes than those it is named for")
            total += member.size
            self._next()
        return len(waiting), total

    def _signature(self, sums: Sums) -> Signed | None:
        if self._member is None:
            return None
        signer = self._expect(layout.SIGNER, layout.SIGNATURE_BYTES)
        signature = self._expect(layout.SIGNATURE, layout.SIGNATURE_BYTES)
        return check_signature(signer, signature, sums.blake2b)
