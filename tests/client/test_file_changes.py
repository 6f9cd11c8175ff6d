"""What a change of files stores is bounded by what comes, whatever a sandbox lists."""

from __future__ import annotations

import hashlib
from typing import Any, cast

import pytest

from reprise.client import file_changes
from reprise.client.file_changes import FileChanges, as_upload
from reprise.errors import TooLarge
from reprise.log.store import Blobs
from reprise.workspace.listing import FolderPage, Listed


class Stored:
    """Blobs that are counted."""

    def __init__(self) -> None:
        self.size = 0

    async def put(self, data: bytes) -> str:
        self.size += len(data)
        return hashlib.sha256(data).hexdigest()


class Lying:
    """A workspace of one folder whose files are said to be empty."""

    def __init__(self, files: int, size: int) -> None:
        self._files, self._size = files, size

    async def folder(
        self, path: str = "", *, after: str | None = None, limit: int = 0
    ) -> FolderPage:
        found: list[Listed] = []
        if path == "":
            found = [Listed("many", "dir", 0o755, 0, None)]
        elif path == "many":
            found = [Listed(f"{at}", "file", 0o644, 0, None) for at in range(self._files)]
        behind = [each for each in found if after is None or each.name > after]
        return FolderPage(tuple(behind), len(found), None)

    async def read(self, path: str, offset: int = 0, limit: int | None = None) -> bytes:
        return b"x" * self._size


@pytest.mark.parametrize(("files", "fits"), [(4, True), (5, False)])
async def test_what_comes_counts_and_not_what_was_listed(
    monkeypatch: pytest.MonkeyPatch, files: int, fits: bool
) -> None:
    monkeypatch.setattr(file_changes, "TREE_BYTES", 4_000)
    blobs, wanted = Stored(), FileChanges(copy=[("many", "again")])
    upload: Any = as_upload(Lying(files, 1_000), cast(Blobs, blobs), wanted)
    if fits:
        assert len((await upload).entries) == 1 + files
    else:
        with pytest.raises(TooLarge, match="Nothing was changed"):
            await upload
    assert blobs.size == 4_000
