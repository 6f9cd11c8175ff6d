"""From which step of a session on output is static, as its log says."""

from __future__ import annotations

from collections.abc import Collection

from reprise.jupyter.static.policy import By, untrusted_by
from reprise.log.store import LogReader


async def first_untrusted(
    reader: LogReader, trusted: Collection[str]
) -> tuple[int | None, By | None]:
    """The first untrusted step, and what made it so where the step itself says.

    trusted: trees (sha256) whose mounts do not count.
    """
    since = await reader.first_untrusted(trusted)
    if since is not None:
        async for record in reader.records(since, since + 1, outputs=False):
            return since, untrusted_by(record.step.new)
    return since, None
