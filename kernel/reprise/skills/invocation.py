"""Who may call a skill up, as its frontmatter says in Claude Code's words.

`disable-model-invocation: true`: a model is not told of it and does not load it; a person may.
`user-invocable: false`: it is not among what a person is offered to call up; a model may load it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from reprise.errors import BadSkill
from reprise.log.model import Json
from reprise.skills.contract import SKILL_FILE
from reprise.skills.frontmatter import parse
from reprise.skills.refusals import Asking

#: How the file's name is written in public skills; whatever else is found when it is loaded.
_SPELLINGS = (SKILL_FILE, "skill.md", "Skill.md")


@dataclass(frozen=True)
class Invocation:
    """Who may call a skill up."""

    by_model: bool = True
    by_person: bool = True


def invocation(other: Mapping[str, Json]) -> Invocation:
    """By the fields of a frontmatter that the specification does not name (`Skill.other`)."""
    return Invocation(
        by_model=not _is(other.get("disable-model-invocation"), "true"),
        by_person=not _is(other.get("user-invocable"), "false"),
    )


class Invocations(Asking):
    """Reads of many contents who may call them up, without reading the rest of their files."""

    async def of(self, digests: Iterable[str]) -> dict[str, Invocation]:
        """By digest; one whose SKILL.md cannot be read is anybody's, and does not load anyway."""
        wanted = list(dict.fromkeys(digests))
        rows = await self._ask(
            "SELECT d.digest, f.data FROM unnest(%s::text[]) AS d(digest),"
            " unnest(%s::text[]) AS p(path), LATERAL reprise.read_skill(d.digest, p.path) AS f",
            [wanted, list(_SPELLINGS)],
        )
        said = await asyncio.to_thread(lambda: {digest: _said(data) for digest, data in rows})
        return {digest: said.get(digest, Invocation()) for digest in wanted}


def _said(data: bytes) -> Invocation:
    try:
        fields = parse(bytes(data)).fields
    except BadSkill:
        return Invocation()
    return invocation({name: node.to_json() for name, node in fields.items()})


def _is(value: Json, word: str) -> bool:
    """Whether a field is this truth, also where somebody wrote it as text."""
    if isinstance(value, bool):
        return str(value).lower() == word
    return isinstance(value, str) and value.strip().lower() == word
