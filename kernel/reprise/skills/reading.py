"""Reads the catalog: which versions there are, their files, their history, the search."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from typing import Any

from reprise.errors import LogCorrupt, SkillNotFound, UsageError
from reprise.skills.contract import Reference, Skill, SkillTree, Usage, Version
from reprise.skills.paths import checked_path, refuse_collisions
from reprise.skills.read import read_skill
from reprise.skills.refusals import storable
from reprise.skills.rows import (
    Event,
    chosen,
    event_of,
    is_current,
    version_of,
)
from reprise.skills.shipped import shipped_digests
from reprise.skills.trust import Trust
from reprise.workspace.manifest import BadManifest, Entry, Manifest

#: So much of a description is kept for lists and the search; what it says whole is in the file.
MAX_DESCRIPTION = 16_384
#: So many skills a search gives at most.
MAX_FOUND = 1_000

_COLUMNS = (
    "scope, name, number, digest, description, state, standing, deprecated, by, at, origin, note"
)


class Reading(Trust):
    """Everything here shows what whoever asks may see, and nothing else."""

    async def search(self, text: str, *, most: int = 20) -> list[Version]:
        """The current versions that `text` fits, best first: by names, descriptions, bodies.

        text: words, all of which fit; beginnings of words fit too, until it holds "quoted words",
        -excluded ones or `or`. Only the first 200 characters count. most: at most MAX_FOUND.
        """
        if not 1 <= most <= MAX_FOUND:
            raise UsageError(f"A search gives 1 to {MAX_FOUND} skills, not {most}.")
        return await self._versions("search_skills(%s, %s)", [storable(text), most])

    async def find(self, ref: Reference | str) -> Version:
        """The version that a reference means; see `rows.chosen`. Raises SkillNotFound.

        A revoked one is found, too: its standing says so, and it is shown but not mounted.
        """
        found = await self._candidates(ref)
        version = chosen(found, _reference(ref))
        if version is None:
            raise SkillNotFound(
                f"No skill that you may see is {_written(ref)}. `reprise skills list` and "
                "`reprise skills search WORDS` show those that are."
            )
        return version

    async def clashes(self, version: Version) -> list[Version]:
        """The current versions of other scopes with the same name, nearest first."""
        found = await self._found(None, version.name, None, None)
        current = [each for each in found if is_current(each) and each.scope != version.scope]
        return list({each.scope: each for each in reversed(current)}.values())[::-1]

    async def versions(self, ref: Reference | str) -> list[Version]:
        """All versions of a skill in the nearest scope that has it, newest first.

        Raises SkillNotFound.
        """
        version = await self.find(ref)
        return await self._found(str(version.scope), version.name, None, None)

    async def history(self, ref: Reference | str) -> list[Event]:
        """Who did what with a skill in one scope, and with its contents, oldest first."""
        version = await self.find(ref)
        rows = await self._ask(
            "SELECT act, scope, name, number, digest, promotion, by, at, reason"
            " FROM reprise.skill_history(%s, %s)",
            [str(version.scope), version.name],
        )
        return [event_of(row) for row in rows]

    async def usage(self, ref: Reference | str) -> list[tuple[Version, Usage]]:
        """How often each version of a skill was used; one that another repeats has the same."""
        versions = await self.versions(ref)
        usage = await self.usage_of(version.digest for version in versions)
        return [(version, usage[version.digest]) for version in versions]

    # -- files ------------------------------------------------------------------------------------

    async def tree(self, version: Version) -> SkillTree:
        """The files of a version, whose digest was computed anew.

        Raises SkillNotFound when none of its versions may be seen any more, LogCorrupt when what is
        stored is not what the digest names, BadSkill when it is none that Reprise would take.
        """
        rows = await self._ask(
            "SELECT path, mode, data FROM reprise.read_skill(%s, NULL)", [version.digest]
        )
        if not rows:
            raise SkillNotFound(f"You see no version with the content sha256:{version.digest}.")
        return await asyncio.to_thread(_tree, rows, version.digest)

    async def skill(self, version: Version) -> Skill:
        """The skill as its files say. Raises as `tree`."""
        return read_skill(await self.tree(version), folder=version.name)

    # -- rows -------------------------------------------------------------------------------------

    async def _candidates(self, ref: Reference | str) -> list[Version]:
        named = _reference(ref)
        scope = None if named.scope is None else str(named.scope)
        return await self._found(scope, named.name, named.number, named.digest)

    async def _found(
        self, scope: str | None, name: str | None, number: int | None, digest: str | None
    ) -> list[Version]:
        return await self._versions(
            "find_skills(%s, %s, %s::bigint, %s)", [scope, name, number, digest]
        )

    async def _versions(self, call: str, values: Sequence[Any]) -> list[Version]:
        rows = await self._ask(
            f"SELECT {_COLUMNS} FROM reprise.{call}",  # noqa: S608 - `call` is ours
            values,
        )
        shipped = shipped_digests()
        return [version_of(row, shipped) for row in rows]


def listed(description: str) -> str:
    """A description as the catalog keeps it beside the files."""
    return storable(description)[:MAX_DESCRIPTION]


def _reference(ref: Reference | str) -> Reference:
    return Reference.of(ref) if isinstance(ref, str) else ref


def _written(ref: Reference | str) -> str:
    if isinstance(ref, str):
        return ref
    if ref.digest is not None:
        return f"sha256:{ref.digest}"
    scope = "" if ref.scope is None else f"{ref.scope}:"
    return f"{scope}{ref.name}" + ("" if ref.number is None else f"@{ref.number}")


def _tree(rows: Sequence[tuple[str, int, bytes]], digest: str) -> SkillTree:
    contents: dict[str, bytes] = {}
    entries = []
    for path, mode, data in rows:
        checked_path(path)
        sha256 = hashlib.sha256(data).hexdigest()
        contents[sha256] = bytes(data)
        entries.append(Entry(path, "file", mode, len(data), sha256))
    refuse_collisions(entry.path for entry in entries)
    try:
        tree = SkillTree(Manifest.of(entries), contents)
    except BadManifest as error:
        raise LogCorrupt(f"The files of the skill sha256:{digest} are no tree. {error}") from error
    if tree.digest != digest:
        raise LogCorrupt(
            f"The files that are stored for the skill sha256:{digest} have the digest "
            f"sha256:{tree.digest}. They are not mounted. Restore the database from a backup, or "
            "add the skill again from where it came from."
        )
    return tree
