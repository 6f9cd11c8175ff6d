"""Skills checked where they lie: in a folder, many of them, an archive or a repository.

A folder on disk also shows what its tree no longer does: what was left out of it, and its links.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from reprise.errors import BadSkill, UsageError
from reprise.skills.check import check, in_order, usable
from reprise.skills.contract import MAX_FILES, SKILL_FILE, Finding
from reprise.skills.folder import read_folder
from reprise.skills.paths import is_left_out
from reprise.skills.read import read_skill
from reprise.skills.rules import found
from reprise.skills.sources import look
from reprise.workspace.manifest import shown

#: Looked at in one folder, for what its tree does not show.
_MAX_LOOKED_AT = 4 * MAX_FILES
#: Named in one finding.
_MOST_NAMED = 3


@dataclass(frozen=True)
class Checked:
    """One skill after its check.

    where: its folder, or its place in an archive or repository.  name: as it is called here, else
    its folder's.  digest: None when its files could not be read.
    """

    where: str
    name: str
    digest: str | None
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing in it is an error."""
        return usable(list(self.findings))


def checked_source(source: str) -> tuple[list[Checked], tuple[str, ...]]:
    """Every skill of a source, and notes on what was not looked at.

    source: a skill's folder or its SKILL.md, a folder with many, an archive, an address of Git.
    Raises UsageError when it is none or holds no skill, UnavailableError. Blocks.
    """
    path = Path(source)
    if path.name.casefold() == SKILL_FILE.casefold() and path.is_file():
        path = path.parent
    looked = look(str(path) if path.is_dir() else source)
    if not looked.found:
        raise UsageError(
            f"{shown(source)} holds no skill. Name a folder with a {SKILL_FILE}, or one of folders "
            "that have one."
        )
    if path.is_dir():
        return [checked_folder(path / each.folder) for each in looked.found], looked.notes
    checked = []
    for each in looked.found:
        where = f"{source}/{each.folder}" if each.folder else source
        if each.skill is None:
            finding = found("folder", SKILL_FILE, None, each.problem, _FOLDER_MEND)
            checked.append(Checked(where, each.name, None, (finding,)))
            continue
        folder = each.folder.rpartition("/")[2] or None
        tree = each.skill.tree
        checked.append(
            Checked(where, each.skill.name, tree.digest, tuple(check(tree, folder=folder)))
        )
    return checked, looked.notes


_FOLDER_MEND = "Then check it again; the rest of it was not looked at."


def checked_folder(path: Path) -> Checked:
    """The skill in this folder. Never raises for what is in it. Blocks."""
    # Not resolved: a link to a skill's folder is called what the link is called.
    folder = Path(os.path.abspath(path)).name  # noqa: PTH100
    try:
        tree = read_folder(path)
    except BadSkill as error:
        finding = found("folder", SKILL_FILE, None, str(error), _FOLDER_MEND)
        return Checked(str(path), folder, None, (finding,))
    findings = [*check(tree, folder=folder or None), *_beside(path)]
    try:
        name = read_skill(tree, folder=folder or None).name
    except BadSkill:
        name = folder
    return Checked(str(path), name, tree.digest, tuple(in_order(findings)))


def _beside(path: Path) -> Iterator[Finding]:
    """What lies in the folder and is no part of the skill, and what is in it by a link."""
    left_out, links = [], []
    looked_at = 0
    for folder, folders, files in os.walk(path, followlinks=False):
        for name in sorted([*folders, *files]):
            looked_at += 1
            at = Path(folder) / name
            if is_left_out(name):
                # A skill may be a repository of its own.
                if not (name == ".git" and at.parent == path):
                    left_out.append(at.relative_to(path).as_posix())
            elif at.is_symlink():
                links.append(at.relative_to(path).as_posix())
        folders[:] = sorted(name for name in folders if not is_left_out(name))
        if looked_at > _MAX_LOOKED_AT:
            break
    if left_out:
        yield found(
            "left-out",
            shown(left_out[0]),
            None,
            f"{_named(left_out)} {'is' if len(left_out) == 1 else 'are'} no part of the skill, and "
            "left out of it here; other tools may take it along.",
            "Delete it before the folder is copied or archived.",
        )
    if links:
        yield found(
            "symbolic-link",
            shown(links[0]),
            None,
            f"{_named(links)} {'is a link' if len(links) == 1 else 'are links'}; what it leads to "
            "is taken in its place. Archives and checkouts on Windows keep no links.",
            "Put the file itself there, if the skill is to be handed on.",
        )


def _named(paths: list[str]) -> str:
    more = len(paths) - _MOST_NAMED
    first = ", ".join(map(shown, paths[:_MOST_NAMED]))
    return f"{first} and {more:,} more" if more > 0 else first
