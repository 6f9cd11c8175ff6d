"""What is trusted and what was revoked, by digest; what was used, and where."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping

from reprise.log.model import Json
from reprise.log.mounted import select_standings
from reprise.log.store import Standing
from reprise.skills.contract import PERSONAL, Scope, Usage, Use
from reprise.skills.refusals import Asking, storable
from reprise.skills.rows import standing_of, usage_of
from reprise.skills.shipped import shipped_digests


class Trust(Asking):
    """Judgements of contents and the record of their use."""

    async def standings(self, digests: Iterable[str]) -> dict[str, Standing]:
        """Of each digest whether it is trusted, untrusted or revoked for whoever asks.

        Revoked: in any scope that he is in; this beats every trust. Trusted: what comes with
        Reprise, what he trusted for himself, what is published in a team of his or in the
        organisation, what a reviewer trusted there.
        """
        wanted = list(dict.fromkeys(digests))
        shipped = shipped_digests()
        said = await select_standings(self._ask, wanted)
        return {digest: standing_of(said[digest], digest, shipped) for digest in wanted}

    async def trust(self, digest: str, *, scope: Scope = PERSONAL, reason: str = "") -> None:
        """Let a content run: for oneself, or as a reviewer for a scope that has it.

        For a scope it takes a second person, as a promotion does. Raises NotAllowed, SkillRevoked,
        UsageError.
        """
        await self._judge(digest, scope, "trust", reason)

    async def distrust(self, digest: str, *, scope: Scope = PERSONAL, reason: str = "") -> None:
        """Take a trust back; what is published in a scope stays trusted there (see `revoke`)."""
        await self._judge(digest, scope, "distrust", reason)

    async def revoke(self, digest: str, *, scope: Scope = PERSONAL, reason: str) -> None:
        """Take a content back: from now on nobody in that scope mounts it, wherever it came from.

        Sessions that mounted it go on and are marked. Raises NotAllowed.
        """
        await self._judge(digest, scope, "revoke", reason)

    async def reinstate(self, digest: str, *, scope: Scope, reason: str) -> None:
        """Undo a revocation in a scope. Raises NotAllowed for who added the content there."""
        await self._judge(digest, scope, "reinstate", reason)

    async def _judge(self, digest: str, scope: Scope, act: str, reason: str) -> None:
        await self._ask(
            "SELECT reprise.judge_skill(%s, %s, %s, %s)",
            [storable(digest), str(scope), act, storable(reason)],
        )

    async def used(
        self,
        digest: str,
        use: Use,
        *,
        session: uuid.UUID | None = None,
        seq: int | None = None,
        detail: Mapping[str, Json] | None = None,
    ) -> None:
        """Record a use. Of one step each use counts once, however often this is called.

        detail: for people, such as {"script": "scripts/profile.py"}; 16 KiB of JSON at most.
        """
        await self._ask(
            "SELECT reprise.use_skill(%s, %s, %s, %s, %s::json)",
            [digest, use, session, seq, None if detail is None else json.dumps(dict(detail))],
        )

    async def usage_of(self, digests: Iterable[str]) -> dict[str, Usage]:
        """Uses by oneself, and in a wider scope that has a version by the people there."""
        rows = await self._ask(
            "SELECT digest, loads, mounts, runs, failures, sessions, last_at"
            " FROM reprise.skill_usage(%s::text[])",
            [list(dict.fromkeys(digests))],
        )
        return {usage.digest: usage for usage in map(usage_of, rows)}

    async def sessions_using(self, digest: str) -> list[uuid.UUID]:
        """The sessions in which whoever asks mounted or ran a content, the last first."""
        rows = await self._ask(
            "SELECT session, max(last_at) FROM reprise.skill_sessions(%s)"
            " WHERE what <> 'load' GROUP BY session ORDER BY 2 DESC, 1",
            [digest],
        )
        return [row[0] for row in rows]
