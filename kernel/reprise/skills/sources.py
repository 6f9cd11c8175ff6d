"""Finds and reads the skills of a source: a folder, an archive, a Git repository, another tool.

Each skill is read whole and checked; one that cannot be taken says why and keeps no other from
coming. Nothing is kept here: the catalog does that.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol

from reprise.errors import BadSkill, SkillNotFound, UsageError
from reprise.skills.archive import opened_archive
from reprise.skills.contract import SKILL_FILE, Origin, Skill, SkillTree
from reprise.skills.finding import Folders, Kind, is_skill, skill_folders
from reprise.skills.folder import read_folder
from reprise.skills.git import opened_repository
from reprise.skills.git_address import Address, address, is_address
from reprise.skills.git_tree import clean_subfolder
from reprise.skills.places import Tool, places
from reprise.skills.read import read_skill
from reprise.workspace.manifest import shown

#: Of all skills of one source, which are in memory together.
MAX_BYTES: Final = 512 << 20


@dataclass(frozen=True)
class Found:
    """A folder with a SKILL.md.

    folder: where it lies in its source, "" for the top.  skill: None when it cannot be taken.
    problem: why it cannot be taken, "" when it can.  notes: what a person should know of it.
    """

    folder: str
    origin: Origin
    skill: Skill | None = None
    problem: str = ""
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The skill's; its folder's where it could not be read."""
        if self.skill is not None:
            return self.skill.name
        return (self.folder or self.origin.where).rstrip("/").rpartition("/")[2]


@dataclass(frozen=True)
class Looked:
    """What a source holds. notes: what was not looked at, and why."""

    found: tuple[Found, ...]
    notes: tuple[str, ...] = ()


class _Source(Folders, Protocol):
    def tree(self, folder: str) -> SkillTree:
        """The files of a folder as a skill's. Raises BadSkill."""


def find_skills(
    source: str, *, ref: str = "", subfolder: str = "", names: Sequence[str] = ()
) -> list[Found]:
    """The skills of a source, as `look` finds them."""
    return list(look(source, ref=ref, subfolder=subfolder, names=names).found)


def look(source: str, *, ref: str = "", subfolder: str = "", names: Sequence[str] = ()) -> Looked:
    """The skills of a folder, an archive or a Git repository, in the order found.

    source: a path, or an address (https, ssh, file). A folder is taken as it stands on the disk,
      unless `ref` is given or it is a bare repository.
    ref: a branch, a tag or a commit's full id.  subfolder: look there and below only.
    names: take these only.
    Raises UsageError (no such source), BadSkill (an archive that cannot be taken), SkillNotFound
    (no skill, or none of a name), UnavailableError (no git, no network). Blocks, for minutes.
    """
    top = clean_subfolder(subfolder)
    at = repository_at(source, ref)
    if at is not None:
        wanted = _Wanted(top or at.subfolder, tuple(names))
        return _chosen(_in_repository(at, ref or at.ref, wanted), names, _place(at.shown, wanted))
    wanted = _Wanted(top, tuple(names))
    path = Path(source).expanduser()
    if path.name.casefold() == SKILL_FILE.casefold() and path.is_file():
        path = path.parent
    if path.is_dir():
        looked = _in_folder(path, wanted)
    elif path.exists():
        with opened_archive(path) as archive:
            origin = Origin("archive", str(path.absolute()))
            looked = _read(archive, wanted, origin, None, _Budget())
    else:
        raise UsageError(
            f"There is nothing at {shown(source)}. Name a folder, an archive, or the address of a "
            "Git repository."
        )
    return _chosen(looked, names, _place(source, wanted))


def look_again(origin: Origin, folders: Sequence[str], names: Sequence[str]) -> Looked:
    """Where skills came from, as it is now.

    origin: of a folder or a Git repository, its subfolder aside.  folders: where the skills were;
    they are looked at wherever they lie. names: of those skills, in case their folders moved;
    empty to look at everything there is.
    Raises UsageError, UnavailableError when the source cannot be asked. Blocks, for minutes.
    """
    wanted = _Wanted("", tuple(names), tuple(folders))
    if origin.kind == "git":
        return _in_repository(repository_of(origin), origin.ref, wanted)
    path = Path(origin.where)
    if not path.is_dir():
        raise UsageError(f"There is no folder {shown(origin.where)} any more.")
    return _in_folder(path, wanted)


def look_in_tool(tool: Tool, project: Path, *, names: Sequence[str] = ()) -> Looked:
    """The skills that another tool has, of a project and of the user.

    Of two with one name the nearer one is taken, as the tool does. Raises as `look`.
    """
    found: list[Found] = []
    notes: list[str] = []
    budget = _Budget()
    looked_at = places(tool, project)
    for place in looked_at:
        if not place.path.is_dir():
            continue
        source = _Disk(place.path, follows=True)
        origin = Origin("folder", str(place.path.absolute()))
        one = _read(source, _Wanted(), origin, None, budget)
        # Codex installs skills of its own there, anew with each version.
        found += [each for each in one.found if not each.folder.startswith(".system/")]
        notes += [f"{place.path}: {note}" for note in one.notes]
    where = " or ".join(str(place.path) for place in looked_at)
    return _chosen(Looked(tuple(found), tuple(notes)), names, where)


def repository_at(source: str, ref: str = "") -> Address | None:
    """The Git repository that a source is, or None when it is a folder or an archive.

    Raises UsageError for an address that is not taken.
    """
    path = Path(source).expanduser()
    if not path.exists():
        return address(source) if is_address(source) else None
    if path.is_dir() and (ref or _is_bare(path)):
        return Address(str(path.absolute()), str(path.absolute()))
    if ref:
        raise UsageError(f"{shown(source)} is no Git repository, so --ref says nothing of it.")
    return None


def repository_of(origin: Origin) -> Address:
    """The Git repository that an origin names. Raises UsageError."""
    path = Path(origin.where)
    if path.is_absolute():
        return Address(origin.where, origin.where)
    return address(origin.where)


def _is_bare(path: Path) -> bool:
    return (path / "HEAD").is_file() and all((path / each).is_dir() for each in ("objects", "refs"))


@dataclass(frozen=True)
class _Wanted:
    """What to look for: in and below `top`, skills whose folders or names are so; see `_folders`.

    also: folders to look at wherever they lie.
    """

    top: str = ""
    names: tuple[str, ...] = ()
    also: tuple[str, ...] = ()


def _in_repository(at: Address, ref: str, wanted: _Wanted) -> Looked:
    with opened_repository(at, ref) as repository:
        origin = Origin("git", at.shown, repository.commit, "", repository.ref)
        return _read(repository, wanted, origin, None, _Budget(), repository.fetch_files)


def _in_folder(path: Path, wanted: _Wanted) -> Looked:
    origin = Origin("folder", str(path.absolute()))
    name = wanted.top.rpartition("/")[2] or path.resolve().name
    return _read(_Disk(path), wanted, origin, name, _Budget())


def _place(source: str, wanted: _Wanted) -> str:
    return f"{shown(wanted.top)} in {shown(source)}" if wanted.top else shown(source)


# one source ---------------------------------------------------------------------------------------


class _Disk:
    """A folder of this machine.

    follows: links to skills elsewhere count, as they do for the tools that keep them so.
    """

    def __init__(self, path: Path, *, follows: bool = False) -> None:
        self._path = path
        self._real = os.path.realpath(path)
        self._follows = follows
        self.notes: list[str] = []

    def names(self, folder: str) -> Mapping[str, Kind]:
        try:
            with os.scandir(self._path / folder) as listing:
                return {entry.name: self._kind(entry, folder) for entry in listing}
        except OSError as error:
            raise BadSkill(
                f"{shown(folder or str(self._path))} cannot be listed: {error.strerror}."
            ) from error

    def _kind(self, entry: os.DirEntry[str], folder: str) -> Kind:
        if entry.is_symlink():
            return self._link(entry, folder)
        if entry.is_dir(follow_symlinks=False):
            return "folder"
        return "file" if entry.is_file(follow_symlinks=False) else "other"

    def _link(self, entry: os.DirEntry[str], folder: str) -> Kind:
        try:
            if not entry.is_dir():
                return "file" if entry.is_file() else "other"
            skill = is_skill(path.name for path in Path(entry.path).iterdir())
        except OSError:
            return "other"
        if not skill:
            return "other"
        if self._follows:
            return "folder"
        real = os.path.realpath(entry.path)
        if not f"{real}/".startswith(f"{self._real}/"):
            self.notes.append(
                f"{shown(f'{folder}/{entry.name}'.strip('/'))} is a link to a skill in "
                f"{shown(real)}; it was not followed. Import it from there."
            )
        return "other"

    def tree(self, folder: str) -> SkillTree:
        return read_folder(self._path / folder)


class _Budget:
    """How much may still come into memory."""

    def __init__(self) -> None:
        self.left = MAX_BYTES

    def take(self, size: int) -> None:
        self.left -= size
        if self.left < 0:
            raise UsageError(
                f"The skills of this source hold more than {MAX_BYTES >> 20} MiB together. Nothing "
                "was taken; import them part by part, with --subfolder or --name."
            )


def _read(
    source: _Source,
    wanted: _Wanted,
    origin: Origin,
    root_name: str | None,
    budget: _Budget,
    fetch: Callable[[Iterable[str]], None] | None = None,
) -> Looked:
    """root_name: what the top is called, where it has a name."""
    places = skill_folders(source, wanted.top)
    folders = _folders(source, places.folders, wanted)
    if fetch is not None:
        fetch(folders)
    found = []
    for folder in folders:
        named = root_name if folder == wanted.top else folder.rpartition("/")[2]
        found.append(_found(source, folder, replace(origin, subfolder=folder), named, budget))
    notes = [*places.notes, *(source.notes if isinstance(source, _Disk) else ())]
    return Looked(tuple(found), tuple(notes))


def _folders(source: _Source, there: tuple[str, ...], wanted: _Wanted) -> list[str]:
    """The folders to read: those that are called as wanted, when there is one for each name."""
    also = [folder for folder in wanted.also if _is_there(source, folder)]
    likely = [folder for folder in there if folder.rpartition("/")[2] in wanted.names]
    names = {folder.rpartition("/")[2] for folder in (*likely, *also)}
    enough = bool(wanted.names) and names.issuperset(wanted.names)
    return list(dict.fromkeys((*also, *(likely if enough else there))))


def _is_there(source: _Source, folder: str) -> bool:
    try:
        return is_skill(source.names(folder))
    except BadSkill:
        return False


def _found(
    source: _Source, folder: str, origin: Origin, named: str | None, budget: _Budget
) -> Found:
    try:
        tree = source.tree(folder)
        budget.take(tree.manifest.size)
        skill = read_skill(tree, folder=named)
    except BadSkill as error:
        return Found(folder, origin, problem=str(error))
    return Found(folder, origin, skill, notes=tuple(_notes(tree)))


def _notes(tree: SkillTree) -> Iterator[str]:
    inner = [
        entry.path
        for entry in tree.manifest
        if entry.path.rpartition("/")[2] == SKILL_FILE and entry.path != SKILL_FILE
    ]
    if inner:
        yield (
            f"It holds other skills ({', '.join(map(shown, inner[:5]))}{', …' if inner[5:] else ''}"
            "), which came as files of it. Import them on their own with --subfolder."
        )
    for path in lfs_pointers(tree)[:5]:
        yield (
            f"{shown(path)} is kept in Git LFS, which is not fetched: what came is the pointer to "
            "it. Import the skill from a folder where `git lfs pull` has run."
        )


def lfs_pointers(tree: SkillTree) -> list[str]:
    """Files that only point to where their content is (git-lfs' docs/spec.md, "The Pointer")."""
    return [
        entry.path
        for entry in tree.manifest
        if entry.size < 1024
        and (tree.get(entry.path) or b"").startswith(b"version https://git-lfs.github.com/spec/")
    ]


def _chosen(looked: Looked, names: Sequence[str], where: str) -> Looked:
    """What was asked for, each name once. Raises SkillNotFound."""
    found = [each for each in looked.found if not names or _is_called(each, names)]
    if not looked.found:
        notes = "".join(f" {note}" for note in looked.notes)
        raise SkillNotFound(
            f"No skill was found in {where}: no folder there holds a {SKILL_FILE}.{notes}"
        )
    for name in names:
        if not any(_is_called(each, (name,)) for each in found):
            there = ", ".join(sorted({each.name for each in looked.found})[:20])
            raise SkillNotFound(f"There is no skill {name!r} in {where}. There are: {there}.")
    return replace(looked, found=tuple(_without_clashes(found)))


def _is_called(found: Found, names: Sequence[str]) -> bool:
    return found.name in names or found.folder.rpartition("/")[2] in names


def _without_clashes(found: Iterable[Found]) -> Iterator[Found]:
    """The first of each name; another one with other files says so, the same again is left out."""
    first: dict[str, Found] = {}
    for each in found:
        if each.skill is None:
            yield each
            continue
        before = first.setdefault(each.skill.name, each)
        if before is each:
            yield each
        elif before.skill is None or before.skill.digest != each.skill.digest:
            place = before.folder or before.origin.where
            yield replace(
                each,
                skill=None,
                problem=f"Its name, {each.skill.name}, is also that of the skill in "
                f"{shown(place)}, which was found first. Import this one on its own, or rename one "
                "of them.",
            )
