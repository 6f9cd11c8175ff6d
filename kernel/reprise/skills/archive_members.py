"""What an archive's reader found out of it: members with clean names, within bounds (pure)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from reprise.errors import BadSkill
from reprise.skills.contract import EXECUTABLE, PLAIN
from reprise.workspace.manifest import MAX_NAME, MAX_PATH, parents, shown

#: A repository of skills with its fonts and pictures, as GitHub packs it, has some tens of MiB.
MAX_ARCHIVE_BYTES: Final = 256 << 20
MAX_UNPACKED_BYTES: Final = 512 << 20
MAX_MEMBERS: Final = 50_000
#: Folders within folders, in one archive.
MAX_DEPTH: Final = 64
#: Text packs to a tenth, spreadsheets full of nothing to a hundredth. The rule is for bombs, so it
#: holds from a size on that hurts.
MAX_RATIO: Final = 200
_RATIO_FROM: Final = 16 << 20

_DRIVE: Final = re.compile(r"[A-Za-z]:")


@dataclass(frozen=True)
class Member:
    """One thing in an archive.

    path: clean, "/" between its parts, none at its end.  size: in bytes, unpacked.
    fault: why it can be no part of a skill, completing "it …"; "" when it can.
    at: where its bytes are, as its reader needs to know.
    """

    path: str
    folder: bool = False
    mode: int = PLAIN
    size: int = 0
    fault: str = ""
    at: tuple[int, ...] = ()


@dataclass(frozen=True)
class Members:
    """All of an archive. read: a member's bytes; raises BadSkill when they are not so."""

    by_path: Mapping[str, Member]
    read: Callable[[Member], bytes]


def refusal(name: str, why: str) -> BadSkill:
    """A member that no honest archive has."""
    return BadSkill(f"the member {shown(name)} {why}. Nothing was taken from this archive.")


def clean_name(name: str) -> str:
    """A member's path as it stands in its archive, checked; "" for the top. Raises BadSkill."""
    if len(name) > MAX_PATH:
        raise refusal(f"{name[:80]}…", f"has a name of {len(name):,} characters")
    if "\0" in name:
        raise refusal(name, "has a NUL in its name, which readers take for its end or not")
    if "\\" in name:
        raise refusal(
            name,
            "has a backslash in its name, which separates folders on Windows and nowhere else "
            "(pack it with a tool that writes /)",
        )
    if name.startswith("/") or _DRIVE.match(name):
        raise refusal(name, "has an absolute path")
    path = name.rstrip("/")
    while path.startswith("./"):
        path = path[2:].lstrip("/")
    if path in ("", "."):
        if name.startswith("."):
            return ""
        raise refusal(name, "has no name")
    parts = path.split("/")
    if ".." in parts:
        raise refusal(name, "leads out of the archive")
    if "" in parts or "." in parts:
        raise refusal(name, "has no clean path")
    if len(parts) > MAX_DEPTH:
        raise refusal(f"{name[:80]}…", f"lies more than {MAX_DEPTH} folders deep")
    for part in parts:
        if len(part.encode("utf-8", "surrogateescape")) > MAX_NAME:
            raise refusal(f"{name[:80]}…", f"has a name of more than {MAX_NAME} bytes")
    return path


def members_of(found: Iterator[Member], packed: int) -> dict[str, Member]:
    """All members by path, in their order. packed: bytes of the archive. Raises BadSkill.

    `found` is not asked for more once a bound is met.
    """
    by_path: dict[str, Member] = {}
    unpacked = 0
    for count, member in enumerate(found, 1):
        if count > MAX_MEMBERS:
            raise BadSkill(
                f"It holds more than {MAX_MEMBERS:,} members. Nothing was taken from it; pack only "
                "the folder that the skills are in."
            )
        unpacked += member.size
        check_unpacked(unpacked, packed)
        before = by_path.get(member.path)
        if before is not None:
            if before.folder and member.folder:
                continue  # some writers name a folder again with each file
            raise refusal(member.path, "stands in it twice")
        if member.path:
            by_path[member.path] = member
    for path in by_path:
        for parent in parents(path):
            above = by_path.get(parent)
            if above is not None and not above.folder:
                raise refusal(path, f"lies in {shown(parent)}, which is no folder")
    return by_path


def check_unpacked(unpacked: int, packed: int) -> None:
    """Raises BadSkill when so much is more than an archive of `packed` bytes may hold."""
    if unpacked > MAX_UNPACKED_BYTES:
        raise BadSkill(
            f"It holds more than {MAX_UNPACKED_BYTES >> 20} MiB unpacked. Nothing was taken from "
            "it; pack only the folder that the skills are in."
        )
    if unpacked > _RATIO_FROM and unpacked > MAX_RATIO * packed:
        raise BadSkill(
            f"It would unpack to more than {MAX_RATIO} times its size, as archives do that are "
            "made to fill a disk. Nothing was taken from it."
        )


def mode_of(permissions: int) -> int:
    """A skill's mode for these permission bits."""
    return EXECUTABLE if permissions & 0o100 else PLAIN
