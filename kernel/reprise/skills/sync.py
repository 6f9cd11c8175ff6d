"""What changed at the places that skills came from, compared with the versions that are here."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from reprise.errors import RepriseError
from reprise.skills.contract import Origin, SkillTree, Version
from reprise.skills.difference import FileDifference, differences
from reprise.skills.git import tip
from reprise.skills.git_address import is_commit
from reprise.skills.sources import Found, Looked, look_again, repository_of

What = Literal["unchanged", "changed", "removed", "added", "broken", "unreachable"]

#: Kinds of origins that can be asked again.
FOLLOWED: Final = ("git", "folder")


@dataclass(frozen=True)
class Held:
    """A version that is here, and its files."""

    version: Version
    tree: SkillTree


@dataclass(frozen=True)
class Upstream:
    """What became of one skill at its source.

    held: the version that is here, None for an "added" one.  found: the skill as it is there now,
    None when it is not.  reason: why it is "removed", "broken" or "unreachable".
    """

    name: str
    what: What
    held: Held | None = None
    found: Found | None = None
    reason: str = ""
    files: tuple[FileDifference, ...] = ()


def look_upstream(
    held: Sequence[Held], *, added: bool = True, here: Collection[str] = ()
) -> list[Upstream]:
    """What became of these skills where they came from, in the order of their sources and names.

    held: versions whose origin is of a kind in `FOLLOWED`.  added: also say which skills are there
    and not here.  here: names of other skills, which have come from elsewhere.
    A source that cannot be asked keeps no other from being asked. Blocks.
    """
    names = {*here, *(each.version.name for each in held)} if added else None
    sources: dict[Origin, list[Held]] = {}
    for each in sorted(held, key=lambda each: each.version.name):
        source = replace(each.version.origin, commit=None, subfolder="")
        sources.setdefault(source, []).append(each)
    found: list[Upstream] = []
    for source, members in sources.items():
        try:
            found += _ask(source, members, names)
        except RepriseError as error:
            found += [
                Upstream(each.version.name, "unreachable", each, reason=str(error))
                for each in members
            ]
    return found


def _ask(source: Origin, members: Sequence[Held], here: Collection[str] | None) -> list[Upstream]:
    """here: names that are no new ones; None when nobody asks for new ones."""
    if here is None and _stands_still(source, members):
        return [Upstream(each.version.name, "unchanged", each) for each in members]
    looked = look_again(
        source,
        [each.version.origin.subfolder for each in members],
        [] if here is not None else [each.version.name for each in members],
    )
    found = [_compared(each, looked) for each in members]
    if here is not None:
        folders = {each.found.folder for each in found if each.found is not None}
        found += [
            Upstream(each.name, "added", found=each)
            for each in looked.found
            if each.skill is not None and each.name not in here and each.folder not in folders
        ]
    return found


def _stands_still(source: Origin, members: Iterable[Held]) -> bool:
    """Whether all are of the commit at which their branch still stands: a look, nothing fetched."""
    commits = {each.version.origin.commit for each in members}
    if source.kind != "git" or len(commits) != 1:
        return False
    return is_commit(source.ref) or tip(repository_of(source), source.ref) in commits


def _compared(held: Held, looked: Looked) -> Upstream:
    """One skill: in the folder where it was, else wherever one of its name is now."""
    version = held.version
    there = [each for each in looked.found if each.folder == version.origin.subfolder]
    there += [each for each in looked.found if each.name == version.name and each.skill is not None]
    if not there:
        folder = version.origin.subfolder or "the top"
        reason = f"Its folder, {folder}, is no skill there any more, and no other has its name."
        return Upstream(version.name, "removed", held, reason=reason)
    found = there[0]
    if found.skill is None:
        return Upstream(version.name, "broken", held, found, found.problem)
    if found.skill.digest == version.digest:
        return Upstream(version.name, "unchanged", held, found)
    files = tuple(differences(held.tree, found.skill.tree))
    return Upstream(version.name, "changed", held, found, files=files)
