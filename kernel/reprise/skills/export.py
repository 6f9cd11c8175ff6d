"""Writes skills where other tools read them, as folders, and as archives; never over other work.

A folder that is there already is replaced only when nothing would be lost: when it is a skill
whose very content the catalog has. Anything else stays unless the person says `force`.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Container, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from reprise.errors import BadSkill, UnavailableError, UsageError
from reprise.skills.archive import WRITTEN, packed_skills
from reprise.skills.contract import SkillTree
from reprise.skills.difference import differences
from reprise.skills.folder import read_folder, write_folder
from reprise.skills.places import Tool, written
from reprise.workspace.manifest import shown

What = Literal["written", "replaced", "unchanged", "differs"]


@dataclass(frozen=True)
class Exported:
    """What became of one skill. differs: how what is there differs, where it was left alone."""

    name: str
    path: Path
    what: What
    differs: tuple[str, ...] = ()


def export_to(
    tool: Tool,
    trees: Mapping[str, SkillTree],
    root: Path | None,
    *,
    known: Container[str] = (),
    force: bool = False,
) -> list[Exported]:
    """Write skills, by name, where `tool` reads them: of the project `root`, of the user for None.

    As `export_into`.
    """
    return export_into(written(tool, root), trees, known=known, force=force)


def export_into(
    folder: Path,
    trees: Mapping[str, SkillTree],
    *,
    known: Container[str] = (),
    force: bool = False,
) -> list[Exported]:
    """Write each skill as the folder `folder`/NAME, whole or not at all.

    known: digests that the catalog has: a folder of such content may be replaced.
    force: replace what differs, too (a Git repository or something that is no skill stays).
    Raises UsageError, UnavailableError (a full disk); what was written before that stays. Blocks.
    """
    return [
        _export(folder / name, name, tree, known, force) for name, tree in sorted(trees.items())
    ]


def _export(path: Path, name: str, tree: SkillTree, known: Container[str], force: bool) -> Exported:
    if not os.path.lexists(path) or (path.is_dir() and not any(path.iterdir())):
        write_folder(tree, path)
        return Exported(name, path, "written")
    try:
        there = read_folder(path)
    except BadSkill as error:
        if not force:
            return Exported(name, path, "differs", (str(error),))
    else:
        if there.digest == tree.digest:
            return Exported(name, path, "unchanged")
        if not force and there.digest not in known:
            return Exported(name, path, "differs", _told(there, tree))
    write_folder(tree, path)
    return Exported(name, path, "replaced")


def _told(there: SkillTree, tree: SkillTree) -> tuple[str, ...]:
    """How what is there differs from what was to be written, file by file."""
    words = {"added": "only there", "removed": "not there", "changed": "changed there"}
    return tuple(
        f"{shown(each.path)}: {words[each.what]}" + (f", {each.mode}" if each.mode else "")
        for each in differences(tree, there)
    )


def is_archive(name: str) -> bool:
    """Whether a file of this name is written as an archive."""
    return name.endswith(WRITTEN)


def export_archive(
    path: Path, trees: Mapping[str, SkillTree], *, force: bool = False
) -> Literal["written", "unchanged"]:
    """Write an archive with each skill in a folder of its name; equal skills, equal bytes.

    Raises UsageError when another file is there and not `force`, UnavailableError. Blocks.
    """
    data = packed_skills(trees, path.name)
    try:
        if path.is_file():
            if path.stat().st_size == len(data) and path.read_bytes() == data:
                return "unchanged"
            if not force:
                raise UsageError(
                    f"{shown(str(path))} is there already, with other content. It was left as it "
                    "is; name another file, or give --force."
                )
        elif os.path.lexists(path):
            raise UsageError(f"{shown(str(path))} is no file. Nothing was written.")
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f".{path.name[:200]}.{secrets.token_hex(8)}")
        try:
            new.write_bytes(data)
            new.replace(path)
        finally:
            with suppress(OSError):
                new.unlink()
    except OSError as error:
        raise UnavailableError(
            f"{shown(str(path))} could not be written: {error.strerror}. What was there before is "
            "unchanged."
        ) from error
    return "written"
