"""The tool `write_file`: a file of the workspace, whole or by exact pieces, never a stale one."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from reprise.errors import GuestCallFailed, RepriseError
from reprise.log.model import Json
from reprise.workspace.manifest import parents, shown
from reprise_server.agent.contract import Act, BadCall, Call, Result, Situation
from reprise_server.agent.tools.paths import OWN, missing, told
from reprise_server.agent.tools.place import Under
from reprise_server.agent.tools.reading import Files, decoded
from reprise_server.agent.tools.schemas import fields, texts
from reprise_server.agent.tools.shown import blocks, fitted, harmless, several

#: Characters of a file that is written.
MOST: Final = 1 << 20
#: Replacements in one call.
MOST_EDITS: Final = 100
#: Characters of the difference that is shown.
_DIFFERENCE: Final = 4_000
#: Times that a file is looked at again because a step came between.
_LOOKS: Final = 3


@dataclass(frozen=True)
class Written:
    """What a file is to hold. before: what it holds now, None where it is not there."""

    before: bytes | None
    after: bytes


class WriteFile:
    """Writes a file when it is as the conversation has seen it."""

    name = "write_file"
    description = (
        "Write a file of the session's workspace: give `content` for a new file or to replace all"
        " of one, or `edits` to replace exact pieces of its text. A file that is there must have"
        " been read with read_file before, and must not have changed since. Folders are made as"
        " needed. It is one step of the session's history. Cells of the notebook are changed with"
        " edit_notebook instead."
    )
    schema = fields(
        {"path": texts("The file, relative to the workspace, such as src/clean.py.")},
        {
            "content": texts("All that the file is to hold."),
            "edits": {
                "type": "array",
                "description": "Replacements, made one after the other, all or none.",
                "items": fields(
                    {
                        "old": texts(
                            "The text to replace, exactly as it stands in the file, without line"
                            " numbers. It must stand there once, unless `all` is true."
                        ),
                        "new": texts("What stands there instead."),
                    },
                    {
                        "all": {
                            "type": "boolean",
                            "description": "Replace it wherever it stands. Default false.",
                        }
                    },
                ),
            },
        },
    )

    def __init__(self, files: Files) -> None:
        self._files = files

    async def act(self, given: Mapping[str, Json], situation: Situation) -> Act:
        path = await self._files.clean(given["path"])
        _check_place(path, situation)
        _check_input(given)
        # Before anybody is asked whether it may be written.
        await self._written(path, given)
        return Act(self.name, "write", dict(given), f"write {shown(path)}", paths=(path,))

    async def run(self, call: Call, act: Act) -> Result:
        (path,) = act.paths
        place = self._files.place
        for _ in range(_LOOKS):
            # Whatever runs now may write the file before our step's turn comes.
            steps = await place.quiet(lambda seq: call.show(f"Waiting for step {seq} to end.\n"))
            written = await self._written(path, call.input)
            if await place.quiet() == steps:
                break
        mode = None
        if written.before is not None:
            mode = await (await place.workspace()).mode(path)
        done = await place.upload(written.after, path, Under.of(call), mode=mode)
        if done.repeated or done.seq == steps:
            between = ""
        else:
            between = (
                f"Steps {steps} to {done.seq - 1} of somebody else came just before; if they"
                " changed this file too, their change was replaced.\n"
            )
        self._files.remember(path, written.after, whole=True)
        text = f"step {done.seq} · wrote {shown(path)}\n{between}{_difference(path, written)}"
        return Result(blocks(text), steps=(done.seq,))

    async def _written(self, path: str, given: Mapping[str, Json]) -> Written:
        """What the file holds and is to hold. Raises BadCall when it may not be written so."""
        before = await self._there(path)
        content, edits = given.get("content"), given.get("edits")
        if before is None:
            if content is None:
                raise await self._missing(path)
            return Written(None, encoded(content))
        seen = self._files.seen(path)
        if seen is None:
            raise BadCall(
                f"{told(path)} is there already and this conversation has not read it (or the"
                " server has started again since). Read it with read_file first."
            )
        if seen.sha256 != hashlib.sha256(before).hexdigest():
            raise BadCall(
                f"{told(path)} has changed since it was read: a step or the person changed it. Read"
                " it again with read_file, then write what fits it now."
            )
        if content is not None:
            if not seen.whole:
                raise BadCall(
                    f"Only a part of {told(path)} has been read, so replacing all of it could lose"
                    " the rest. Read the rest with read_file, or use `edits`."
                )
            return Written(before, encoded(content))
        text = decoded(before)
        if text is None:
            raise BadCall(f"{told(path)} is no text, so nothing can be replaced in it.")
        return Written(before, encoded(edited(path, text, edits or ())))

    async def _there(self, path: str) -> bytes | None:
        """What the file holds; None where none is. Raises BadCall where none can be."""
        workspace = await self._files.place.files()
        try:
            found = await workspace.about(path)
            if found is None:
                for above in parents(path):
                    other = await workspace.about(above)
                    if other is not None and (other.link or other.type != "dir"):
                        what = "a link" if other.link else f"a {other.type}"
                        raise BadCall(f"{told(above)} is {what}, so nothing is written below it.")
                return None
        except GuestCallFailed as error:
            raise BadCall(f"{told(path)} cannot be written: {error}") from error
        if found.type == "dir":
            raise BadCall(f"{told(path)} is a folder, so no file can be written there.")
        if found.link:
            raise BadCall(f"{told(path)} is a link. Write the file that it leads to.")
        return await self._files.read(path)

    async def _missing(self, path: str) -> RepriseError:
        entries = await self._files.there()
        return missing(path, (entry.path for entry in entries if entry.type == "file"))


def _check_place(path: str, situation: Situation) -> None:
    """Raises BadCall for what is no file of the agent's."""
    if not path:
        raise BadCall("The path is the workspace itself; name a file in it.")
    if path == OWN or path.startswith(f"{OWN}/"):
        raise BadCall(f"{told(path)} lies in Reprise's own folder. Write somewhere else.")
    notebook = situation.notebook
    if notebook is not None and path.rpartition("/")[2] == notebook.rpartition("/")[2]:
        raise BadCall(
            f"{told(path)} is the notebook itself. Change its cells with edit_notebook, which the"
            " person sees at once; a file written behind the editor would be lost."
        )


def _check_input(given: Mapping[str, Json]) -> None:
    """Raises BadCall unless it is either a content or edits, within bounds."""
    content, edits = given.get("content"), given.get("edits")
    if (content is None) == (edits is None):
        raise BadCall("Give either `content` (all of the file) or `edits`, not both, not neither.")
    if content is not None:
        _check_text("content", content)
        return
    edits = edits or []
    if not 1 <= len(edits) <= MOST_EDITS:
        raise BadCall(f"`edits` has {len(edits)} replacements; 1 to {MOST_EDITS} can be made.")
    for at, edit in enumerate(edits):
        _check_text(f"edits[{at}].old", edit["old"])
        _check_text(f"edits[{at}].new", edit["new"])
        if not edit["old"]:
            raise BadCall(f"`edits[{at}].old` is empty. Name the text that is to be replaced.")
        if edit["old"] == edit["new"]:
            raise BadCall(f"`edits[{at}]` replaces a text by itself.")


def _check_text(what: str, text: str) -> None:
    if len(text) > MOST:
        raise BadCall(
            f"`{what}` has {len(text):,} characters; {MOST:,} are the most. Let a program write"
            " larger files."
        )
    if "\0" in text:
        raise BadCall(f"`{what}` holds a NUL character; this tool writes text.")


def encoded(text: str) -> bytes:
    """Raises BadCall for what no file can hold as UTF-8."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        raise BadCall("The text holds half a character (a lone surrogate).") from None


def edited(path: str, text: str, edits: Sequence[Mapping[str, Json]]) -> str:
    """The text after all replacements, in order. Raises BadCall naming the one that does not fit.

    A file whose lines all end in CRLF keeps them so; the model writes plain line breaks.
    """
    lines = text.count("\n")
    crlf = lines > 0 and text.count("\r\n") == lines
    now = text.replace("\r\n", "\n") if crlf else text
    for at, edit in enumerate(edits):
        old, new = edit["old"], edit["new"]
        count = now.count(old)
        if count == 0:
            raise BadCall(
                f"`edits[{at}].old` does not stand in {told(path)}"
                f"{'' if at == 0 else ' after the edits before it'}. Nothing was changed."
                f" {_nearest(now, old)}"
            )
        if count > 1 and not edit.get("all"):
            where = ", ".join(map(str, _lines_of(now, old)))
            raise BadCall(
                f"`edits[{at}].old` stands {count:,} times in {told(path)} (lines {where}). Give"
                " more of the text around the one that is meant, or `all`: true. Nothing was"
                " changed."
            )
        if len(now) + count * (len(new) - len(old)) > MOST * 8:
            raise BadCall(f"With `edits[{at}]` {told(path)} would be too large.")
        now = now.replace(old, new)
    return now.replace("\n", "\r\n") if crlf else now


def _lines_of(text: str, piece: str, most: int = 8) -> list[int]:
    found: list[int] = []
    at = text.find(piece)
    while at >= 0 and len(found) < most:
        found.append(text.count("\n", 0, at) + 1)
        at = text.find(piece, at + len(piece))
    return found


def _nearest(text: str, old: str) -> str:
    """Where something like it stands, so that the model sees what differs."""
    lines = text.removesuffix("\n").split("\n")[:5_000]
    wanted = next((line for line in old.split("\n") if line.strip()), "").strip()[:200]
    stripped = [line.strip()[:200] for line in lines]
    near = difflib.get_close_matches(wanted, [each for each in stripped if each], n=1, cutoff=0.6)
    if not near:
        return "Nothing like it does; read the file again."
    at = stripped.index(near[0])
    piece = "\n".join(
        f"{number + 1}\t{harmless(lines[number])[:200]}"
        for number in range(max(0, at - 1), min(len(lines), at + 4))
    )
    return f"Something like it stands here (line numbers before a tab):\n{piece}\n"


def _difference(path: str, written: Written) -> str:
    """What the write changed, bounded."""
    after = decoded(written.after)
    if written.before is None or after is None:
        lines = 0 if after is None else after.count("\n") + (not after.endswith("\n"))
        return f"A new file of {several(lines, 'line')}, {len(written.after):,} bytes.\n"
    if written.before == written.after:
        return "It held just that already.\n"
    before = decoded(written.before)
    if before is None or len(before) + len(after) > MOST:
        return f"{len(written.before):,} bytes became {len(written.after):,}.\n"
    changed = difflib.unified_diff(
        before.split("\n"), after.split("\n"), "before", "after", "", "", 2
    )
    text = harmless("\n".join(line.rstrip("\n") for line in changed))
    return fitted(text, _DIFFERENCE, f"read_file shows all of {shown(path)[:200]}.").text + "\n"
