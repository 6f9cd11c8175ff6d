"""The tool `save_artifact`: a file of the workspace taken out, for the person to keep."""

from __future__ import annotations

from collections.abc import Mapping

from reprise.errors import GuestCallFailed
from reprise.log.model import Json
from reprise.quantities import amount
from reprise.settings import ARTIFACT_BYTES
from reprise.workspace.manifest import shown
from reprise_server.agent.contract import Act, BadCall, Call, Result, Situation
from reprise_server.agent.tools.paths import missing, told
from reprise_server.agent.tools.place import Under
from reprise_server.agent.tools.reading import Files
from reprise_server.agent.tools.schemas import fields, texts
from reprise_server.agent.tools.shown import blocks


class SaveArtifact:
    """Stores a file apart from the workspace, where no later step changes it."""

    name = "save_artifact"
    description = (
        "Save a file of the session's workspace as an artifact: it is stored apart, as it is now,"
        " and the person can take it out whatever becomes of the session. Use it for results that"
        " they asked for, such as a report or a model."
    )
    schema = fields({"path": texts("The file, relative to the workspace.")})

    def __init__(self, files: Files) -> None:
        self._files = files

    async def act(self, given: Mapping[str, Json], situation: Situation) -> Act:  # noqa: ARG002
        path = await self._files.clean(given["path"])
        workspace = await self._files.place.files()
        try:
            found = await workspace.about(path) if path else None
        except GuestCallFailed as error:
            raise BadCall(f"{told(path)} cannot be saved: {error}") from error
        if found is None:
            there = await self._files.there()
            raise missing(path, (each.path for each in there if each.type == "file"))
        if found.type == "dir":
            raise BadCall(f"{told(path)} is a folder. Pack it first (tar, zip), or save its files.")
        if found.size > ARTIFACT_BYTES:
            raise BadCall(
                f"{told(path)} holds {amount(found.size)}; {amount(ARTIFACT_BYTES)} are the most"
                " that is kept as an artifact."
            )
        return Act(
            self.name, "keep", dict(given), f"save {shown(path)} as an artifact", paths=(path,)
        )

    async def run(self, call: Call, act: Act) -> Result:
        (path,) = act.paths
        kept = await self._files.place.keep(path, Under.of(call).actor)
        line = f"kept {shown(path)} as artifact {kept.id} ({amount(kept.size)})"
        said = f"Saved {shown(path)} as it is after step {kept.seq}: artifact {kept.id},"
        return Result(
            blocks(f"{said} {kept.size:,} bytes, sha256 {kept.sha256}.\n"), outside=(line,)
        )
