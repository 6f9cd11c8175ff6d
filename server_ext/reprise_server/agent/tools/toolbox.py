"""All tools of one conversation, in the order that every request has them."""

from __future__ import annotations

from collections.abc import Sequence

from reprise.skills.disclosure import Disclosure
from reprise_server.agent.contract import Tool
from reprise_server.agent.tools.asking import AskUser
from reprise_server.agent.tools.commands import RunCommand
from reprise_server.agent.tools.history import ForkSession, RewindSession
from reprise_server.agent.tools.keeping import SaveArtifact
from reprise_server.agent.tools.place import Place
from reprise_server.agent.tools.reading import Files, ListFiles, ReadFile
from reprise_server.agent.tools.search import SearchFiles
from reprise_server.agent.tools.skills import (
    LoadSkill,
    ReadSkillFile,
    RunSkill,
    SearchSkills,
    Skills,
)
from reprise_server.agent.tools.writing import WriteFile


def toolbox(
    place: Place,
    disclosure: Disclosure | None = None,
    *,
    notebook: Sequence[Tool] = (),
    more: Sequence[Tool] = (),
) -> list[Tool]:
    """The tools, names unique.

    disclosure: the conversation's view of the catalog; without one there are no skills.
    notebook: the tools of the notebook, where there is one.  more: those of MCP servers, sorted.
    """
    files = Files(place)
    skills: list[Tool] = []
    if disclosure is not None:
        view = Skills(place, disclosure)
        skills = [SearchSkills(view), LoadSkill(view), ReadSkillFile(view), RunSkill(view)]
    return [
        *notebook,
        RunCommand(place),
        ReadFile(files),
        WriteFile(files),
        ListFiles(files),
        SearchFiles(files),
        *skills,
        SaveArtifact(files),
        AskUser(),
        ForkSession(place),
        RewindSession(place),
        *more,
    ]
