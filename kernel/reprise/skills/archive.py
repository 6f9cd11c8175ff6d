"""Skills in archives: a zip or tar looked through and read without believing a word it says.

Nothing is unpacked to the disk. What only a forged archive says (a path that leads out of it, two
members at one place, sizes that are not so, more than the bounds) refuses the whole archive; what
an honest one may hold beside a skill (a link, an encrypted member) refuses the skill that it lies
in. Every refusal names the member.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO, Final, Literal

from reprise.errors import BadSkill, UsageError
from reprise.skills.archive_members import MAX_ARCHIVE_BYTES, Members
from reprise.skills.archive_tar import tar_members, unpacked, write_tar_gz
from reprise.skills.archive_zip import write_zip, zip_members
from reprise.skills.contract import MAX_FILE_BYTES, SkillTree
from reprise.skills.finding import Kind
from reprise.skills.folder import tree_of_files
from reprise.skills.paths import is_left_out
from reprise.workspace.manifest import shown

#: Of archives that are written, by the end of their names.
WRITTEN: Final = (".zip", ".skill", ".tar.gz", ".tgz")

_MAGIC: Final[tuple[tuple[bytes, Literal["zip", "gz", "zst"]], ...]] = (
    (b"PK\x03\x04", "zip"),
    (b"PK\x05\x06", "zip"),
    (b"\x1f\x8b", "gz"),
    (b"\x28\xb5\x2f\xfd", "zst"),
)
_UNREAD: Final = (
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"7z\xbc\xaf\x27\x1c", "7z"),
    (b"Rar!\x1a\x07", "rar"),
    (b"PK\x07\x08", "a zip in several parts"),
)


class Archive:
    """An archive that was looked through: folders, and skills read from them."""

    def __init__(self, members: Members) -> None:
        self._members = members
        self._folders: dict[str, dict[str, Kind]] = {"": {}}
        for path, member in members.by_path.items():
            kind: Kind = "folder" if member.folder else "other" if member.fault else "file"
            self._add(path, kind)

    def _add(self, path: str, kind: Kind) -> None:
        above, _, name = path.rpartition("/")
        if above not in self._folders:
            self._add(above, "folder")
        self._folders[above][name] = kind
        if kind == "folder":
            self._folders.setdefault(path, {})

    def names(self, folder: str) -> Mapping[str, Kind]:
        """What lies directly in a folder of it. Raises BadSkill when there is no such folder."""
        found = self._folders.get(folder)
        if found is None:
            raise BadSkill(f"The archive has no folder {shown(folder)}.")
        return found

    def tree(self, folder: str) -> SkillTree:
        """The files of this folder as a skill's. Raises BadSkill, naming the member."""
        self.names(folder)
        return tree_of_files(self._files(folder, f"{folder}/" if folder else ""))

    def _files(self, folder: str, prefix: str) -> Iterator[tuple[str, int, bytes]]:
        """Files in and below `folder`, named without `prefix`, in no order that matters."""
        for name, kind in self._folders[folder].items():
            path = f"{folder}/{name}" if folder else name
            if is_left_out(name):
                continue
            if kind == "folder":
                yield from self._files(path, prefix)
                continue
            member, inner = self._members.by_path[path], path.removeprefix(prefix)
            if member.fault:
                raise BadSkill(f"{shown(inner)} cannot be part of a skill: it {member.fault}.")
            if member.size > MAX_FILE_BYTES:
                raise BadSkill(
                    f"{shown(inner)} is larger than the {MAX_FILE_BYTES >> 20} MiB that a file of "
                    "a skill may have."
                )
            yield inner, member.mode, self._members.read(member)


@contextmanager
def opened_archive(path: Path) -> Iterator[Archive]:
    """The archive in this file: zip (also named .skill), tar, tar.gz, tar.zst.

    Its content tells which of them it is, not its name. Raises BadSkill. Blocks.
    """
    try:
        if not path.is_file():
            raise BadSkill(f"{shown(str(path))} is no file.")
        with path.open("rb") as file, archive_of(file, path.name) as archive:
            yield archive
    except OSError as error:
        raise BadSkill(f"{shown(str(path))} cannot be read: {error.strerror}.") from error


@contextmanager
def archive_of(file: BinaryIO, name: str = "the archive") -> Iterator[Archive]:
    """The archive in this file, which can be sought in; it stays the caller's to close.

    name: for people.  Raises BadSkill. Blocks.
    """
    with ExitStack() as stack:
        try:
            members = _members(file, stack)
        except BadSkill as error:
            raise BadSkill(f"{shown(name)} cannot be taken. {error}") from error
        yield Archive(members)


def _members(file: BinaryIO, stack: ExitStack) -> Members:
    size = file.seek(0, 2)
    if size > MAX_ARCHIVE_BYTES:
        raise BadSkill(
            f"It is larger than the {MAX_ARCHIVE_BYTES >> 20} MiB that an archive of skills may "
            "have; pack only the folder that the skills are in."
        )
    file.seek(0)
    kind = _kind(file.read(8))
    file.seek(0)
    if kind == "zip":
        return zip_members(file, size)
    return tar_members(stack.enter_context(unpacked(file, size, kind)))


def _kind(begin: bytes) -> Literal["zip", "tar", "gz", "zst"]:
    for magic, kind in _MAGIC:
        if begin.startswith(magic):
            return kind
    for magic, unread in _UNREAD:
        if begin.startswith(magic):
            raise BadSkill(f"It is {unread}, which is not read here. Pack it as .zip or .tar.gz.")
    return "tar"  # whose first bytes are a name; its reader says when it is none


def packed_skills(skills: Mapping[str, SkillTree], name: str) -> bytes:
    """An archive with each skill in a folder of its name; the same bytes for the same skills.

    name: of the archive; its end says which form (`WRITTEN`). Raises UsageError for another.
    """
    files = [
        (f"{folder}/{entry.path}", entry.mode, tree.get(entry.path) or b"")
        for folder, tree in sorted(skills.items())
        for entry in tree.manifest
    ]
    if name.endswith((".zip", ".skill")):
        return write_zip(files)
    if name.endswith((".tar.gz", ".tgz")):
        return write_tar_gz(files)
    raise UsageError(f"{name!r} does not end in one of {', '.join(WRITTEN)}.")
