"""When a session's output is static: from which step on, and what an environment says (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from reprise.log.model import Json, NewStep

#: As an environment says it (`reprise.sandbox.named.OutputRule`).
Rule = Literal["auto", "static", "live"]

#: What made a step untrusted: an agent asked for it; it ran a cell that an agent wrote; it mounted
#: what nobody vouches for.
By = Literal["agent", "edit", "mount"]

#: The key of a cell's metadata that says who wrote it (docs/messages.md).
EDITED_BY = "reprise_edited_by"


_WHY: Mapping[By | None, str] = {
    "agent": "An agent asked for step {seq}.",
    "edit": "Step {seq} ran a cell that an agent wrote.",
    "mount": "Step {seq} mounted what nobody vouches for.",
    None: "Step {seq} ran what is not trusted.",
}


@dataclass(frozen=True)
class Policy:
    """Whether output is static now.

    rule: what the environment says.  since: the first untrusted step of the history, if any. It
    only ever moves to an earlier step, or to that of another session (`opened`).  by: what made it
    untrusted, where that is known.
    """

    rule: Rule = "auto"
    since: int | None = None
    by: By | None = None

    @property
    def static(self) -> bool:
        if self.rule == "auto":
            return self.since is not None
        return self.rule == "static"

    def to_json(self, environment: str) -> dict[str, Json]:
        """Whether output is static, from which step on, and why, for people.

        environment: the name of the one whose rule this is.
        """
        return {
            "static": self.static,
            "since": self.since if self.rule == "auto" else None,
            "rule": self.rule,
            "why": self._why(environment) if self.static else None,
        }

    def _why(self, environment: str) -> str:
        if self.rule == "static":
            return f"The environment {environment} says that output is never live."
        return _WHY[self.by].format(seq=self.since)

    def opened(self, since: int | None, by: By | None = None) -> Policy:
        """For a session whose first untrusted step is `since` (`LogReader.first_untrusted`)."""
        return Policy(self.rule, since, by)

    def accepted(self, seq: int, step: NewStep) -> Policy:
        """After a step was accepted."""
        by = untrusted_by(step)
        if self.since is not None or by is None:
            return self
        return Policy(self.rule, seq, by)


def untrusted_by(step: NewStep) -> By | None:
    """What makes all that comes after a step that was just accepted static; None: it does not.

    An agent asked for it; or an agent wrote the cell that somebody else runs; or it mounts what the
    kernel did not find trusted (`jupyter.admission`). `log/migrations/0006_untrusted.sql` says the
    same of stored steps, but for the trees that are trusted by then.
    """
    if step.actor.kind == "agent":
        return "agent"
    if step.kind == "mount":
        return None if step.payload.get("trusted") is True else "mount"
    return "edit" if step.kind == "cell" and _edited_by_agent(step.payload) else None


def _edited_by_agent(payload: Mapping[str, Json]) -> bool:
    """Whether the cell's own metadata, which pages send along, say that an agent wrote it.

    Anybody may say so, since it only takes rights away.
    """
    metadata = payload.get("metadata")
    return isinstance(metadata, dict) and metadata.get(EDITED_BY) == "agent"
