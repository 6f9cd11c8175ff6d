"""The catalog of skills in Postgres: versions in scopes, who may do what, what is trusted.

All rights are in the database (migration 0007): each act is a function that looks up who asks
(`session_user`, the login) and refuses in words. What is here makes values of rows, reads trees
and checks what the database cannot, such as what a SKILL.md says.

  reading.py     what there is, the search, the files
  promotion.py   asking, deciding, releasing, deprecating, restoring
  trust.py       judging by digest, use
  members.py     scopes, teams, roles
"""

from __future__ import annotations

import json

from reprise.errors import NotAllowed
from reprise.skills.contract import PERSONAL, Origin, Scope, Skill, Version
from reprise.skills.members import Members
from reprise.skills.promotion import Promotions
from reprise.skills.reading import listed
from reprise.skills.refusals import storable
from reprise.skills.rows import version_of
from reprise.skills.shipped import shipped_digests


class Catalog(Promotions, Members):
    """The catalog as whoever opened the log sees it.

    `scope=PERSONAL` always means his own. In the embedded database, where everybody is one login,
    there is no other scope; what needs one raises NotAllowed, which says how to get a server.
    """

    async def add(
        self, skill: Skill, origin: Origin, *, scope: Scope = PERSONAL, note: str = ""
    ) -> Version:
        """Add a version to one's own scope; the newest one when it has this content already.

        The database computes the digest from the files that are sent, whoever has them already.
        Raises NotAllowed for another scope, BadSkill for what the catalog cannot keep.
        """
        if scope != PERSONAL:
            raise NotAllowed(
                f"Nothing is added to {scope} at once: another person looks at it first. Nothing "
                f"was changed. Add it to your own scope, then `reprise skills promote {skill.name} "
                f"--to {scope}`."
            )
        entries = skill.tree.manifest.entries
        rows = await self._ask(
            "SELECT scope, name, number, digest, description, state, standing, deprecated, by, at,"
            " origin, note FROM reprise.add_skill(%s, %s, %s, %s::text[], %s::integer[],"
            " %b::bytea[], %s::json, %s)",
            [
                skill.name,
                listed(skill.description),
                skill.digest,
                [entry.path for entry in entries],
                [entry.mode for entry in entries],
                [skill.tree.contents[entry.sha256 or ""] for entry in entries],
                json.dumps(origin.to_json()),
                storable(note),
            ],
        )
        return version_of(rows[0], shipped_digests())

    # Last, since below it `list` would mean this in the types.
    async def list(self, scope: Scope | None = None, *, everything: bool = False) -> list[Version]:
        """The current version of each skill, nearest scope first, in it by name.

        everything: all versions, also drafts that may be seen and what was revoked. A name that
        several scopes have stands once for each; `rows.nearest` keeps the one that counts.
        """
        if everything:
            return await self._found(None if scope is None else str(scope), None, None, None)
        return await self._versions("list_skills(%s)", [None if scope is None else str(scope)])
