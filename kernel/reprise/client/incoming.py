"""Brings files of the host into the reach of a kernel: a tree's bytes are there before its step."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from reprise.client import requests, sources
from reprise.client.reach import Reach
from reprise.errors import SessionNotFound, TooLarge, UsageError
from reprise.quantities import amount

#: Up to so many bytes travel with the request; more are stored in the log's blobs before it.
WITH_REQUEST_BYTES = 4 << 20
#: The most that may travel with a request where the log cannot be reached from here: under the
#: default bound on one request (`Limits.request`), with room for the list of files.
REQUEST_BYTES = 24 << 20
#: Bytes stored in the log at once.
BATCH_BYTES = 4 << 20


async def tree_of(
    source: str | Path | bytes,
    to: str | None,
    exclude: Sequence[str],
    mode: int | None,
    bound: sources.Bound | None,
) -> sources.Source:
    if isinstance(source, bytes):
        if not to or not requests.place(to):
            raise UsageError("Say with `to` what the bytes are to be called in the workspace.")
        return sources.of_bytes(source, requests.place(to), mode, bound)
    path = Path(source)
    place = requests.place(to if to is not None else (await asyncio.to_thread(path.resolve)).name)
    return await asyncio.to_thread(
        sources.of_path, path, place, exclude=exclude, mode=mode, bound=bound
    )


async def stored(reach: Reach, tree: sources.Source) -> dict[str, bytes]:
    """See to it that the kernel will have the bytes; returns those to send along."""
    if tree.size <= WITH_REQUEST_BYTES:
        return dict(await asyncio.to_thread(lambda: list(tree.contents())))
    await reach.line()  # so that the session is there
    try:
        blobs = (await (await reach.log()).reader(reach.session)).blobs
    except SessionNotFound:
        # The kernel writes another log than the one that is ours here.
        if tree.size > REQUEST_BYTES:
            raise TooLarge(
                f"{amount(tree.size)} are more than {amount(REQUEST_BYTES)}, which is the most"
                " where the session's log cannot be reached from here. Nothing was brought in."
            ) from None
        return dict(await asyncio.to_thread(lambda: list(tree.contents())))
    missing = await blobs.missing(tree.manifest.blobs())
    contents = tree.contents()
    batch: list[bytes] = []
    while (item := await asyncio.to_thread(next, contents, None)) is not None:
        if item[0] in missing:
            batch.append(item[1])
        if sum(map(len, batch)) >= BATCH_BYTES:
            await blobs.put_many(batch)
            batch = []
    await blobs.put_many(batch)
    return {}
