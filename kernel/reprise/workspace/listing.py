"""One folder of a workspace, page by page: what a file browser shows, whatever else there is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from reprise.errors import ProtocolViolation
from reprise.log.model import Json
from reprise.sandbox.connection import Guest
from reprise.workspace.manifest import BadManifest, EntryType, check_path, checked

#: Entries of one page, at most (`guest.files.MAX_ENTRIES`).
PAGE = 2_000
#: Nanoseconds since the epoch that a time of a file may be at most: the year 9999.
_LATEST = 253_402_300_799 * 10**9


@dataclass(frozen=True)
class Listed:
    """One thing in a folder. modified_ns: since the epoch; None where that is no time.

    leads: what a link leads to within the workspace, None where it leads to nothing there.
    """

    name: str
    type: EntryType
    mode: int
    size: int
    modified_ns: int | None
    target: str | None = None
    leads: Literal["file", "dir"] | None = None

    def to_json(self) -> dict[str, Json]:
        return dict(vars(self))

    @classmethod
    def of(cls, value: Json) -> Listed:
        """Checked, whoever says it. Raises BadManifest."""
        if not isinstance(value, dict):
            raise BadManifest("an entry of a folder is no object")
        name, kind, mode = value.get("name"), value.get("type"), value.get("mode")
        if "/" in check_path(name):
            raise BadManifest("an entry of a folder lies in another one")
        target = value.get("target") if kind == "link" else None
        found = checked(
            name,
            kind,
            mode & 0o777 if type(mode) is int else mode,
            value.get("size") if kind == "file" else 0,
            None,
            "?" if kind == "link" and target is None else target,
        )
        at = value.get("mtime_ns", value.get("modified_ns"))
        leads = value.get("leads")
        return cls(
            found.path,
            found.type,
            found.mode,
            found.size,
            at if type(at) is int and 0 <= at <= _LATEST else None,
            target,
            leads if kind == "link" and leads in ("file", "dir") else None,
        )


@dataclass(frozen=True)
class FolderPage:
    """Names in the order of their bytes. total: how many there are in the folder.
    next: behind which name the next page begins; None for the last one."""

    entries: tuple[Listed, ...]
    total: int
    next: str | None

    def to_json(self) -> dict[str, Json]:
        entries = [each.to_json() for each in self.entries]
        return {"entries": entries, "total": self.total, "next": self.next}

    @classmethod
    def of(cls, value: Json) -> FolderPage:
        """As `to_json` wrote it, checked. Raises BadManifest."""
        entries, total, more = value.get("entries"), value.get("total"), value.get("next")
        if not isinstance(entries, list) or type(total) is not int or total < 0:
            raise BadManifest("a folder has no entries or no count of them")
        if more is not None:
            check_path(more)
        return cls(tuple(Listed.of(each) for each in entries), total, more)


async def list_folder(
    guest: Guest, path: str, after: str | None, limit: int, *, own: bool = True
) -> FolderPage:
    """A page of the folder `path` ("" for the workspace itself). own: with Reprise's own folder.

    Raises GuestCallFailed where there is no such folder, ProtocolViolation.
    """
    most = max(1, min(limit, PAGE))
    asked: dict[str, Json] = {"path": path and check_path(path), "limit": most, "own": own}
    if after is not None:
        asked["after"] = after
    answer, _ = await guest.call("folder", asked)
    try:
        listed, more = answer.get("entries"), answer.get("more")
        if not isinstance(listed, list) or not isinstance(more, bool) or (more and not listed):
            raise BadManifest("it has no entries")
        found = tuple(Listed.of(each) for each in listed)
        total = answer.get("total")
        if type(total) is not int or not len(found) <= total <= 1 << 31:
            raise BadManifest("it does not say how many there are")
    except BadManifest as error:
        raise ProtocolViolation(f"The guest's listing of a folder: {error}") from error
    return FolderPage(found, total, found[-1].name if more else None)
