"""Skills that come in a request: an archive, or files as JSON. They are read, and nothing else."""

from __future__ import annotations

import base64
import binascii
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from reprise.errors import BadSkill, RepriseError
from reprise.skills.contract import EXECUTABLE, PLAIN, Origin, SkillTree
from reprise.skills.folder import tree_of_files
from reprise.skills.read import read_skill
from reprise.skills.sources import Found, Looked, look
from reprise_server.api.base import Asked

#: Of an archive: twice what one skill may hold, for several at once.
UPLOAD_BYTES: Final = 128 << 20

#: What an upload is called where its sender gives it no name.
_UNNAMED: Final = "upload"


def looked_at(asked: Asked) -> Looked:
    """The skills of a request. Raises BadSkill, SkillNotFound. Blocks."""
    if asked.content_type == "application/json":
        return Looked((_of_files(asked.body),))
    return _of_archive(asked.body, asked.query["filename"] or _UNNAMED, asked.query["name"])


def sent_tree(body: Mapping[str, Any]) -> SkillTree | None:
    """Files that were sent as JSON, also where they are no skill yet; None where they could not be
    kept at all. Blocks."""
    try:
        return tree_of_files(_files(body["files"]))
    except BadSkill:
        return None


def _of_archive(body: bytes | bytearray, filename: str, names: Sequence[str]) -> Looked:
    with tempfile.TemporaryDirectory(prefix="reprise-upload-") as folder:
        path = Path(folder) / _UNNAMED
        path.write_bytes(body)
        try:
            looked = look(str(path), names=names)
        except RepriseError as error:
            # Where it lay for a moment says nothing to whoever sent it.
            raise type(error)(str(error).replace(str(path), filename)) from None
    return replace(
        looked,
        found=tuple(
            replace(each, origin=replace(each.origin, where=filename)) for each in looked.found
        ),
    )


def _of_files(body: Mapping[str, Any]) -> Found:
    origin = Origin("written")
    try:
        skill = read_skill(tree_of_files(_files(body["files"])), folder=body.get("folder"))
    except BadSkill as error:
        return Found(body.get("folder") or "", origin, problem=str(error))
    return Found(body.get("folder") or "", origin, skill)


def _files(files: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, int, bytes]]:
    for each in files:
        mode = EXECUTABLE if each.get("executable") else PLAIN
        if "text" in each:
            yield each["path"], mode, each["text"].encode()
            continue
        try:
            yield each["path"], mode, base64.b64decode(each["base64"], validate=True)
        except binascii.Error as error:
            raise BadSkill(f"{each['path']!r} is not base64: {error}.") from error
