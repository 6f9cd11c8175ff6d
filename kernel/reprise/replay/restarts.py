"""Restart steps: the trees that they keep, and the prompt numbers that begin anew after them."""

from __future__ import annotations

from reprise.log.model import USER, NewStep
from reprise.log.postgres import now_us
from reprise.log.store import Blobs, LogReader, StepSummary
from reprise.replay.condition import Kept
from reprise.replay.executor import IN_PLACE
from reprise.workspace.manifest import Manifest


async def reset_step(blobs: Blobs, environment: str) -> NewStep:
    """A restart that also empties the workspace; a resume can start from it."""
    tree = await blobs.put(Manifest().to_bytes())
    return NewStep("restart", {"tree": tree, "emptied": True}, environment, now_us(), USER)


def trees(steps: list[StepSummary], *, isolated: bool) -> set[str]:
    """The restart trees that a sandbox can start from: those of its own kind of workspace."""
    found = {step.tree for step in steps if step.tree is not None}
    return found - {IN_PLACE} if isolated else found & {IN_PLACE}


async def last_kept(reader: LogReader, steps: list[StepSummary], *, isolated: bool) -> Kept | None:
    """The last saved state that a sandbox can start from."""
    kept = trees(steps, isolated=isolated)
    for step in reversed(steps):
        if step.kind == "restart" and step.tree in kept:
            async for record in reader.records(step.seq, step.seq + 1, outputs=False):
                return Kept(step.seq, record.step.new.at, "tree")
    return None


def next_prompt(steps: list[StepSummary]) -> int:
    """The prompt number after the last one a client saw, counted from the last restart."""
    last = 0
    for step in steps:
        if step.kind == "restart":
            last = 0
        elif step.execution_count is not None:
            last = max(last, step.execution_count)
    return last + 1
