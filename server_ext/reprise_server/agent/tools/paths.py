"""Paths of the workspace as a model writes them: made clean, or refused with a way out (pure)."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Final

from reprise.client.requests import place
from reprise.errors import UsageError
from reprise.log.model import SKILLS
from reprise.workspace.manifest import shown
from reprise_server.agent.contract import BadCall

#: Reprise's own folder in a workspace.
OWN: Final = ".reprise"
#: Where large results lie.
RESULTS: Final = f"{OWN}/results"

#: Names that are told when one is not there, and among how many they are looked for.
_NEAR: Final = 5
_AMONG: Final = 5_000
#: Characters of a model's word that are told back to it.
_TOLD: Final = 200


def told(text: str) -> str:
    """A word of the model's as it is told back: one line, bounded."""
    said = shown(text[:_TOLD].encode("utf-8", "replace").decode("utf-8"))
    return repr(said if len(text) <= _TOLD else f"{said}…")


def clean(path: str, workspace: str) -> str:
    """The path beneath the workspace, "" for its root.

    workspace: where that lies as code sees it; a path below it is understood. Raises BadCall.
    """
    if any("\ud800" <= char <= "\udfff" for char in path):
        raise BadCall(f"{told(path)} holds half a character (a lone surrogate), so it is no path.")
    inner = path
    if path.startswith("/"):
        root = workspace.rstrip("/")
        if path.rstrip("/") == root:
            return ""
        if path.startswith(SKILLS):
            raise BadCall(
                f"{told(path)} is a skill's file. Use read_skill_file with the skill's name and the"
                " path within it."
            )
        if not path.startswith(f"{root}/"):
            raise BadCall(
                f"{told(path)} is outside of the workspace, which is all that this tool sees. Paths"
                f" are relative to the workspace ({root}), such as data/x.csv; list_files shows"
                " what is there."
            )
        inner = path[len(root) + 1 :]
    try:
        return place(inner)
    except UsageError:
        raise BadCall(
            f"{told(path)} is no path within the workspace. Write it relative to the workspace,"
            " without `..`, such as data/x.csv; list_files shows what is there."
        ) from None


def near(path: str, there: Iterable[str]) -> Sequence[str]:
    """Those of the paths that were likely meant, the likeliest first."""
    name = path.rpartition("/")[2].casefold()
    among = [each for each, _ in zip(there, range(_AMONG), strict=False)]
    same = [each for each in among if each.rpartition("/")[2].casefold() == name]
    close = difflib.get_close_matches(path[:_TOLD], among, n=_NEAR, cutoff=0.6)
    by_name = {each.rpartition("/")[2]: each for each in among}
    names = difflib.get_close_matches(name[:_TOLD], list(by_name), n=_NEAR, cutoff=0.7)
    return list(dict.fromkeys([*same, *close, *(by_name[each] for each in names)]))[:_NEAR]


def missing(path: str, there: Iterable[str], what: str = "file") -> BadCall:
    """That there is no such file, with those that were likely meant."""
    found = near(path, there)
    if found:
        listed = ", ".join(shown(each) for each in found)
        return BadCall(f"There is no {what} {told(path)} in the workspace. Near it: {listed}.")
    return BadCall(
        f"There is no {what} {told(path)} in the workspace. list_files shows what is there."
    )
