"""Folders of a Git commit: listed and read from its objects, links followed within a skill.

Trees are what whoever made the repository wrote: a name may hold a "/", stand twice or be "..".
Such a tree makes no skill, and does not keep others from being found.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from reprise.errors import BadSkill, UsageError
from reprise.skills.contract import MAX_DEPTH, MAX_FILE_BYTES, MAX_FILES
from reprise.skills.finding import Kind
from reprise.skills.git_objects import Objects
from reprise.skills.paths import is_left_out
from reprise.workspace.manifest import BadManifest, check_path, shown

#: Of one folder's list: 100,000 names.
_MAX_TREE: Final = 4 << 20
_MAX_TARGET: Final = 4_096
#: As in folder.py: looked at in one skill, and links on the way to one file.
_MAX_LOOKED_AT: Final = 4 * MAX_FILES
_MAX_LINKS: Final = 40
#: Lists kept; a tree of trees of trees shows the same ones again and again.
_KEPT: Final = 4_096


@dataclass(frozen=True)
class _Entry:
    """mode: as Git writes it, with the type.  name: of its object."""

    mode: int
    name: str

    @property
    def kind(self) -> int:
        return stat.S_IFMT(self.mode)


@dataclass(frozen=True)
class _List:
    """A folder. fault: why it is none that Git makes, "" for those that it makes."""

    entries: Mapping[str, _Entry]
    fault: str = ""


def clean_subfolder(text: str) -> str:
    """A folder within a repository as a person wrote it; "" for the top. Raises UsageError."""
    path = text.removeprefix("./").strip("/")
    if path in ("", "."):
        return ""
    try:
        return check_path(path)
    except BadManifest as error:
        raise UsageError(f"{shown(text)} is no folder within a repository. {error}") from error


class GitTree:
    """The folders and files of one commit, by paths from its top."""

    def __init__(self, objects: Objects, top: str) -> None:
        self._objects = objects
        self._top = top
        self._lists: dict[str, _List] = {}

    def names(self, folder: str) -> Mapping[str, Kind]:
        """What lies directly in a folder. Raises BadSkill when there is no such folder."""
        return {
            name: _kind(entry) for name, entry in self._list(self._folder(folder)).entries.items()
        }

    def get(self, path: str, most: int) -> bytes | None:
        """A file's bytes, None when there is none at `path`. Raises BadSkill when over `most`."""
        above, _, name = path.rpartition("/")
        try:
            entry = self._list(self._folder(above)).entries.get(name)
        except BadSkill:
            return None
        if entry is None or entry.kind != stat.S_IFREG:
            return None
        return self._objects.read(entry.name, "blob", most)

    def _folder(self, path: str) -> str:
        """The name of a folder's tree."""
        name = self._top
        for part in path.split("/") if path else ():
            entry = self._list(name).entries.get(part)
            if entry is None or entry.kind != stat.S_IFDIR:
                raise BadSkill(f"The repository has no folder {shown(path)}.")
            name = entry.name
        return name

    def _list(self, name: str) -> _List:
        found = self._lists.get(name)
        if found is None:
            found = _parsed(self._objects.read(name, "tree", _MAX_TREE), len(name) // 2)
            if len(self._lists) >= _KEPT:
                self._lists.clear()
            self._lists[name] = found
        return found

    def blobs(self, folder: str) -> list[str]:
        """Names of all files and links in and below a folder. Raises BadSkill."""
        found: list[str] = []
        waiting = [(self._folder(folder), 0)]
        looked_at = 0
        while waiting:
            name, depth = waiting.pop()
            for entry in self._list(name).entries.values():
                looked_at += 1
                if looked_at > _MAX_LOOKED_AT:
                    raise _too_many(folder)
                if entry.kind == stat.S_IFDIR:
                    if depth < MAX_DEPTH:
                        waiting.append((entry.name, depth + 1))
                elif entry.kind in (stat.S_IFREG, stat.S_IFLNK):
                    found.append(entry.name)
        return found

    def missing(self, names: list[str]) -> list[str]:
        """Those of these objects that were not fetched."""
        return self._objects.missing(names)

    def reopen(self) -> None:
        """See what was fetched meanwhile."""
        self._objects.close()

    def files(self, folder: str) -> Iterator[tuple[str, int, bytes]]:
        """(path within the folder, mode, bytes) of a skill's files. Raises BadSkill."""
        return _Reading(self._objects, self._list, folder, self._folder(folder)).files()


class _Reading:
    """One reading of a skill."""

    def __init__(
        self, objects: Objects, list_: Callable[[str], _List], folder: str, root: str
    ) -> None:
        self._objects = objects
        self._list = list_
        self._shown = folder
        self._root = root
        self._looked_at = 0

    def files(self) -> Iterator[tuple[str, int, bytes]]:
        return self._folder(self._root, "", (), ((),))

    def _folder(
        self, tree: str, at: str, really_at: tuple[str, ...], around: tuple[tuple[str, ...], ...]
    ) -> Iterator[tuple[str, int, bytes]]:
        """Files below the folder that is `really_at` beneath the skill and shown `at` it."""
        listed = self._list(tree)
        if listed.fault:
            raise BadSkill(f"The folder {shown(at) or '.'} of the repository {listed.fault}.")
        for name in sorted(listed.entries):
            if is_left_out(name):
                continue
            self._looked_at += 1
            if self._looked_at > _MAX_LOOKED_AT:
                raise _too_many(self._shown)
            path, place, entry = at + name, (*really_at, name), listed.entries[name]
            if entry.kind == stat.S_IFLNK:
                entry, place = self._follow(path, really_at, name)
            if entry.kind == stat.S_IFREG:
                yield path, entry.mode, self._objects.read(entry.name, "blob", MAX_FILE_BYTES)
            elif entry.kind == stat.S_IFDIR:
                if place in around:
                    raise _refusal(path, "is a link that leads around in a circle")
                if len(around) > MAX_DEPTH:
                    raise _refusal(path, f"lies more than {MAX_DEPTH} folders deep")
                yield from self._folder(entry.name, f"{path}/", place, (*around, place))
            else:
                raise _refusal(path, "is another repository (a submodule), which is not fetched")

    def _follow(
        self, path: str, really_at: tuple[str, ...], name: str
    ) -> tuple[_Entry, tuple[str, ...]]:
        """What the link `name` leads to, and where that really is."""
        ahead = [name, *reversed(really_at)]
        behind: list[str] = []
        folders = [_Entry(stat.S_IFDIR, self._root)]
        links = 0
        while ahead:
            part = ahead.pop()
            if part in ("", "."):
                continue
            if part == "..":
                if not behind:
                    raise _refusal(path, "is a link that leads out of the skill")
                behind.pop()
                folders.pop()
                continue
            entry = self._list(folders[-1].name).entries.get(part)
            if entry is None:
                raise _refusal(path, "is a link that leads nowhere")
            if entry.kind == stat.S_IFLNK:
                links += 1
                if links > _MAX_LINKS:
                    raise _refusal(path, "is a link that leads around in a circle")
                target = self._target(path, entry)
                if target.startswith("/"):
                    raise _refusal(path, "is a link that leads out of the skill")
                ahead.extend(reversed(target.split("/")))
            elif entry.kind == stat.S_IFDIR:
                if len(folders) > MAX_DEPTH:
                    raise _refusal(path, f"leads more than {MAX_DEPTH} folders deep")
                folders.append(entry)
                behind.append(part)
            elif ahead:
                raise _refusal(path, "is a link that leads nowhere")
            else:
                return entry, (*behind, part)
        return folders[-1], tuple(behind)

    def _target(self, path: str, entry: _Entry) -> str:
        raw = self._objects.read(entry.name, "blob", _MAX_TARGET)
        if b"\0" in raw:
            raise _refusal(path, "is a link whose target holds a NUL")
        return raw.decode("utf-8", "surrogateescape")


def _kind(entry: _Entry) -> Kind:
    if entry.kind == stat.S_IFDIR:
        return "folder"
    return "file" if entry.kind == stat.S_IFREG else "other"


def _parsed(raw: bytes, width: int) -> _List:
    """A tree object: for each entry its mode in octal, a space, its name, a NUL, an object's name.

    width: bytes of an object's name.  What no honest git writes is left out and named as a fault.
    """
    entries: dict[str, _Entry] = {}
    fault = ""
    at = 0
    while at < len(raw):
        space = raw.find(b" ", at, at + 8)
        end = raw.find(b"\0", at)
        if space < 0 or end < space or len(raw) - end - 1 < width:
            return _List(entries, "is no folder that Git makes")
        digits, name = raw[at:space], raw[space + 1 : end].decode("utf-8", "surrogateescape")
        pointed = raw[end + 1 : end + 1 + width].hex()
        at = end + 1 + width
        if not digits.isdigit() or set(digits) & set(b"89"):
            fault = "is no folder that Git makes"
        elif name in ("", ".", "..") or "/" in name:
            fault = f"holds something named {shown(name)!r}, which leads elsewhere"
        elif name in entries:
            fault = f"holds two things named {shown(name)}"
        else:
            entries[name] = _Entry(int(digits, 8), pointed)
    return _List(entries, fault)


def _refusal(path: str, why: str) -> BadSkill:
    return BadSkill(f"{shown(path)} {why}. A skill is made of files that lie in its own folder.")


def _too_many(folder: str) -> BadSkill:
    return BadSkill(
        f"{shown(folder) or 'The repository'} holds more than {_MAX_LOOKED_AT:,} files and folders "
        "(links counted by what they lead to), so it is no skill."
    )
