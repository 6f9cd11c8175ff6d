"""Keeps a session's workspace in step with the notebook's folder: one upload step at a time.

What was brought in so far (`base`) follows from the log's upload steps alone, so a new process
begins where the last one stopped.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

from reprise.log.model import Json
from reprise.log.store import Blobs, LogReader
from reprise.sandbox.connection import Guest
from reprise.workspace.folder import HostFolder, Scan
from reprise.workspace.manifest import Change, Conflict, Entry, Manifest, asked, merge, shown
from reprise.workspace.transfer import apply_upload, stat_paths, uploaded

#: So many conflicting or unreadable files are named in a notice; the rest are counted.
NAMED = 5


@dataclass(frozen=True)
class FolderNotice:
    """Something about the folder that the user should know; `code` as in `log.store.Notice`."""

    code: str
    text: str
    detail: Mapping[str, Json]


class FolderChange:
    """What the folder brings to the next step.

    notices: to tell, also when there is nothing to upload.
    payload: of the upload step, or None when nothing is to upload; what it names follows the
      bytes that `contents` read, so it is final only when that has been exhausted.
    """

    def __init__(
        self,
        folder: HostFolder,
        change: Change,
        host: Manifest,
        notices: tuple[FolderNotice, ...],
    ) -> None:
        self.notices = notices
        self.host = host
        self._folder = folder
        self._change = change
        self._entries = {entry.path: entry for entry in change.put}

    @property
    def payload(self) -> dict[str, Json] | None:
        if not self._change:
            return None
        return {
            "root": "",
            "entries": [entry.to_json() for entry in self._entries.values()],
            "removed": list(self._change.removed),
        }

    @property
    def blobs(self) -> tuple[str, ...]:
        """sha256 of each file's content, each once."""
        hashes = [e.sha256 for e in self._entries.values() if e.sha256 is not None]
        return tuple(dict.fromkeys(hashes))

    async def contents(self) -> AsyncIterator[bytes]:
        """The bytes of each file as it is now; store each under its sha256.

        A file that changed since it was looked at is named by what was read here, one that
        vanished is left out; the next look at the folder sees it either way.
        """
        for path, entry in list(self._entries.items()):
            if entry.type != "file":
                continue
            try:
                data = await asyncio.to_thread(_read, self._folder, entry)
            except OSError:
                del self._entries[path]
                continue
            self._entries[path] = entry.containing(data)
            yield data

    async def store(self, blobs: Blobs) -> None:
        """Store the contents, several small ones at a time."""
        batch: list[bytes] = []
        async for data in self.contents():
            batch.append(data)
            if sum(map(len, batch)) > 4 << 20:
                await blobs.put_many(batch)
                batch = []
        if batch:
            await blobs.put_many(batch)

    async def apply(self, guest: Guest, blobs: Blobs) -> None:
        """Bring it into the workspace. Raises GuestCallFailed."""
        payload = self.payload
        if payload is not None:
            await apply_upload(guest, payload, blobs)

    @property
    def settled(self) -> Manifest:
        """What both sides agree on afterwards: the host's side, as far as it was really read."""
        lost = {entry.path for entry in self._change.put} - set(self._entries)
        current = {**self.host.by_path, **self._entries}
        return Manifest.of(entry for path, entry in current.items() if path not in lost)


class FolderSync:
    """The notebook's folder as one live session brings it in."""

    def __init__(self, folder: HostFolder, base: Manifest) -> None:
        self._folder = folder
        self._base = base
        self._told: set[str] = set()
        if base:
            folder.keep(base)

    @classmethod
    async def begin(cls, folder: HostFolder, log: LogReader) -> FolderSync:
        """Begin from what the session's upload steps have brought in so far."""
        base = Manifest()
        for summary in await log.summaries():
            # An upload that failed changed nothing.
            if summary.kind not in ("upload", "restart") or summary.status != "ok":
                continue
            async for record in log.records(summary.seq, summary.seq + 1, outputs=False):
                payload = record.step.payload
                if summary.kind == "upload":
                    # Only our own: what somebody uploads is not in the folder, and must not look
                    # as if it had been removed from it.
                    if record.step.new.actor.kind == "system":
                        base = uploaded(base, payload)
                elif payload.get("emptied"):
                    base = Manifest()
        return cls(folder, base)

    async def changes(self, guest: Guest) -> FolderChange | None:
        """What to tell and to upload before the next step; None when there is neither.

        Costs one walk of the folder when nothing changed. Raises GuestCallFailed, SandboxDied.
        """
        folder = self._folder
        if folder.scanned is None:
            scan: Scan | None = await asyncio.to_thread(folder.first)
        else:
            if not folder.due:
                return None
            moved = folder.moved() if folder.cheap else await asyncio.to_thread(folder.moved)
            scan = await asyncio.to_thread(folder.changes) if moved else None
            if scan is None and self._base is folder.known:
                return None
            scan = scan or folder.scanned
        if scan is None:
            return None
        notices = self._scan_notices(scan)
        if scan.manifest == self._base:
            return FolderChange(folder, Change(), scan.manifest, notices) if notices else None
        paths, whole = asked(self._base, scan.manifest)
        there = await stat_paths(guest, paths, (self._base, scan.manifest), whole=whole)
        merged = merge(self._base, scan.manifest, there)
        notices += _conflict_notices(merged.conflicts)
        change = FolderChange(folder, merged.change, scan.manifest, notices)
        if change.payload is None:
            self.done(change)
            return change if notices else None
        return change

    def done(self, change: FolderChange) -> None:
        """The change is recorded as an upload step, whether or not all of it could be applied."""
        settled = change.settled
        self._base = self._folder.known if settled == self._folder.known else settled

    def _scan_notices(self, scan: Scan) -> tuple[FolderNotice, ...]:
        """What was not told yet: each sentence and each left-out file once a process."""
        notices: list[FolderNotice] = []
        if scan.reason and scan.reason not in self._told:
            self._told.add(scan.reason)
            over = [[each.path, each.size] for each in scan.left_out[:100]]
            notices.append(FolderNotice("folder-too-big", scan.reason, {"left_out": over}))
        new = [
            each
            for each in scan.left_out
            if each.path not in self._told and not each.reason.startswith(("did not", "was one"))
        ]
        if new:
            self._told.update(each.path for each in new)
            names = "; ".join(f"{shown(each.path) or '.'} {each.reason}" for each in new[:NAMED])
            more = f"; and {len(new) - NAMED:,} more" if len(new) > NAMED else ""
            notices.append(
                FolderNotice(
                    "files-left-out",
                    f"Not everything in {self._folder.root} came into the sandbox: {names}{more}.",
                    {"left_out": [[each.path, each.reason] for each in new[:100]]},
                )
            )
        return tuple(notices)


def _conflict_notices(conflicts: tuple[Conflict, ...]) -> tuple[FolderNotice, ...]:
    if not conflicts:
        return ()
    names = "; ".join(f"{shown(each.path)} ({each.reason})" for each in conflicts[:NAMED])
    more = f"; and {len(conflicts) - NAMED:,} more" if len(conflicts) > NAMED else ""
    return (
        FolderNotice(
            "folder-conflict",
            "Changed in the notebook's folder, but the workspace's own stays: "
            f"{names}{more}. To take the folder's, remove or rename the file in a cell, then "
            "save it in the folder again.",
            {"paths": [[each.path, each.reason] for each in conflicts[:100]]},
        ),
    )


def _read(folder: HostFolder, entry: Entry) -> bytes:
    return b"".join(folder.read(entry))
