"""Takes down what stands in a sandbox after a step: a digest of its files and of its variables."""

from __future__ import annotations

import asyncio
from typing import Final

from reprise.errors import GuestCallFailed, TooLarge
from reprise.log.model import Json
from reprise.log.store import Blobs
from reprise.replay import variables
from reprise.replay.link import KernelLink
from reprise.sandbox.connection import Guest
from reprise.workspace.manifest import Manifest
from reprise.workspace.transfer import workspace_manifest

#: A workspace with more files or bytes is not read through for this: `verify` then says that it
#: has no files to compare with.
FILES: Final = 10_000
BYTES: Final = 256 << 20
#: Seconds that reading it may take, by default.
SECONDS: Final = 2.0

#: Streams of commands that run beside the cells: how far they have come is a matter of time.
_PASSING: Final = ".reprise/commands"


async def take(
    link: KernelLink, blobs: Blobs, isolated: bool, *, seconds: float = SECONDS
) -> tuple[str | None, dict[str, Json] | None]:
    """(sha256 of the stored manifest of the files, fingerprint of the variables): a StateRecord's.

    Either is None where it cannot be had: too much to read in the time there is, another
    language, or files that belong to no sandbox (`isolated` is false: the workspace is the
    notebook's own folder, which changes without us). It changes nothing in the sandbox. Call it
    between steps only. Raises SandboxDied, DatabaseUnavailable.
    """
    held = await variables.ask(link)
    tree = await files(link.guest, seconds=seconds) if isolated else None
    return (
        None if tree is None else await blobs.put(tree.to_bytes()),
        None if held is None else held.to_json(),
    )


async def files(guest: Guest, *, seconds: float = SECONDS) -> Manifest | None:
    """The workspace with the hash of every file, or None when that is too much."""
    try:
        async with asyncio.timeout(seconds):
            # Listing costs little and says what reading would cost.
            listed = await workspace_manifest(guest, hashes=False, limit=FILES)
            if listed.size > BYTES:
                return None
            hashed = await workspace_manifest(guest, limit=FILES)
    except (TimeoutError, TooLarge, GuestCallFailed):
        return None
    kept = compared(hashed)
    if any(entry.type == "file" and entry.sha256 is None for entry in kept):
        return None
    return kept


def compared(tree: Manifest) -> Manifest:
    """What of a tree can be compared between two runs."""
    return Manifest(
        tuple(
            entry
            for entry in tree
            if entry.path != _PASSING and not entry.path.startswith(f"{_PASSING}/")
        )
    )
