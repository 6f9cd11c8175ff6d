"""Brings a bundle into a log: proves all of it first, then writes it, whole or not at all."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from reprise.bundle import layout
from reprise.bundle.history import OutcomeItem, OutputItem, StepItem
from reprise.bundle.read import Blob, Environment, Part, Seal, read_bundle
from reprise.bundle.signature import PublicKey
from reprise.bundle.source import Spooled
from reprise.errors import BadBundle, SessionNotFound, TooLarge, UsageError
from reprise.log.events import snapshot
from reprise.log.imported import Importing, importing
from reprise.log.postgres import Log

#: Bytes of an uncompressed bundle that are taken unless somebody allows more.
DEFAULT_LIMIT: Final = 4 << 30

_TELL_EVERY: Final = 500

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Checked:
    """A bundle that is whole."""

    head: layout.Head
    seal: Seal


@dataclass(frozen=True)
class Loaded:
    """What became of it. session: its id here; `there`: it had been here already."""

    checked: Checked
    session: uuid.UUID
    outcome: Literal["imported", "there"]


def check_bundle(
    bundle: Spooled,
    limit: int = DEFAULT_LIMIT,
    signers: tuple[PublicKey, ...] = (),
    progress: Progress | None = None,
) -> Checked:
    """Prove every byte of a bundle; nothing is written.

    signers: keys of which one must have signed it, if any are given.
    Raises BadBundle, TooLarge, UnavailableError, all written for the person who gave it.
    """
    head: layout.Head | None = None
    seal: Seal | None = None
    try:
        for part in read_bundle(bundle.from_start(), limit):
            if isinstance(part, layout.Head):
                head = part
            elif isinstance(part, Seal):
                seal = part
            elif isinstance(part, StepItem) and part.seq % _TELL_EVERY == 0 and progress:
                progress(f"checking step {part.seq} …")
    except BadBundle as error:
        raise BadBundle(
            f"This is no bundle that is whole: {error}. Nothing was imported."
        ) from error
    except TooLarge as error:
        raise TooLarge(
            f"This bundle is too large: {error}. Nothing was imported; --max-size allows more."
        ) from error
    if head is None or seal is None:
        raise BadBundle("This is no bundle that is whole: it has no end. Nothing was imported.")
    _require_signer(seal, signers)
    return Checked(head, seal)


def _require_signer(seal: Seal, signers: tuple[PublicKey, ...]) -> None:
    if not signers:
        return
    wanted = " or ".join(f"{key.name} ({key})" for key in signers)
    if seal.signed is None:
        raise BadBundle(f"This bundle is not signed; {wanted} was required. Nothing was imported.")
    if seal.signed.key not in signers:
        raise BadBundle(
            f"This bundle is signed by {seal.signed.key.name} ({seal.signed.key}), not by {wanted}."
            " Nothing was imported."
        )


async def load_bundle(
    log: Log,
    bundle: Spooled,
    checked: Checked,
    *,
    limit: int = DEFAULT_LIMIT,
    as_new: uuid.UUID | None = None,
    progress: Progress | None = None,
) -> Loaded:
    """Write a bundle that `check_bundle` has proven; each byte is proven once more on the way.

    as_new: the id that it gets here, in place of its own.
    Raises UsageError when another history has the id here, BadBundle when the file has changed
    meanwhile, and what the database and the disk may say. Nothing of it is here then.
    """
    head = checked.head
    session = as_new or head.session
    if await _is_there(log, session, head):
        return Loaded(checked, session, "there")
    digest: str | None = None
    try:
        async with importing(
            log, session, kernel=head.kernel, created_at=head.created_at
        ) as filled:
            for part in read_bundle(bundle.from_start(), limit):
                if isinstance(part, Seal):
                    digest = part.digest
                await _write(filled, part, progress)
            if digest != checked.seal.digest:
                raise BadBundle("it is another one")
    except BadBundle as error:
        raise BadBundle(
            f"The bundle was changed while it was imported: {error}. Nothing was imported."
        ) from error
    return Loaded(checked, session, "imported")


async def _is_there(log: Log, session: uuid.UUID, head: layout.Head) -> bool:
    """Whether this very history has the id here. Raises UsageError when another one has it."""
    try:
        found = (await snapshot(await log.reader(session))).head
    except SessionNotFound:
        return False
    if found.chain.hex() == head.chain:
        return True
    raise UsageError(
        f"There is a session {session} here already, and its history is another one: it has"
        f" {found.next_seq:,} steps, the bundle has {head.steps:,}. Nothing was imported; --as-new"
        " imports the bundle under a new id, beside it."
    )


async def _write(filled: Importing, part: Part, progress: Progress | None) -> None:
    if isinstance(part, StepItem):
        await filled.step(part.seq, part.new, part.body, part.digest)
        if progress is not None and part.seq % _TELL_EVERY == 0:
            progress(f"writing step {part.seq} …")
    elif isinstance(part, OutcomeItem):
        await filled.outcome(part.seq, part.new, part.body, part.chain)
    elif isinstance(part, OutputItem):
        if part.late:
            await filled.late(part.seq, part.body)
        else:
            await filled.output(part.seq, part.event, part.body)
    elif isinstance(part, Environment):
        await filled.environment(part.digest, part.spec)
    elif isinstance(part, Blob):
        await filled.blob(part.name, part.size, part.pieces)
        if progress is not None:
            progress(f"writing a blob of {part.size:,} bytes …")
    elif not isinstance(part, layout.Head | Seal):
        await filled.record(part)


def checked_json(checked: Checked) -> dict[str, object]:
    """What a bundle holds, for programs."""
    head, seal = checked.head, checked.seal
    signed = seal.signed
    return {
        "session": str(head.session),
        "kernel": head.kernel,
        "steps": head.steps,
        "events": head.events,
        "chain": head.chain,
        "blobs": seal.blobs,
        "blob_bytes": seal.blob_bytes,
        "digest": seal.digest,
        "signed_by": None if signed is None else str(signed.key),
        "comment": None if signed is None else signed.comment,
    }
