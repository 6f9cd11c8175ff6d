"""The command that runs a script of a skill in a session, as shell text (pure).

The script runs in the skill's own folder, which is read-only. What it is given besides, and how
a person names files of the workspace in its arguments, is in docs/running-skills.md.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Final

from reprise.skills.script import Script

#: Where the notebook's files are, and where a script may write what nobody needs later.
WORKSPACE: Final = "REPRISE_WORKSPACE"
SCRATCH: Final = "REPRISE_SCRATCH"
#: Which skill runs: its name, and the digest of its folder.
SKILL: Final = "REPRISE_SKILL"
DIGEST: Final = "REPRISE_SKILL_DIGEST"

#: Of an argument: the two places by name, and each written twice in braces for the text itself.
_PLACES: Final = re.compile(r"\{(\{(?:workspace|scratch)\})\}|\{(workspace|scratch)\}")
_VARIABLES: Final = {"workspace": WORKSPACE, "scratch": SCRATCH}

#: Where a skill that needs other packages than the session's has them, in the workspace.
PACKAGES: Final = ".reprise/packages"


def script_command(
    script: Script,
    arguments: Sequence[str],
    *,
    name: str,
    path: str,
    program: str | None,
    packages: str | None = None,
    in_place: bool = False,
) -> str:
    """What the shell is told, in the notebook's folder.

    name: the skill's.  path: where its folder lies inside.  program: what runs the script, as it
    is found there; None for the script itself.  packages: a folder of the workspace whose packages
    are found first.  in_place: the sandbox has no /tmp of its own; the scratch lies in the
    workspace then.
    """
    scratch = '"$PWD"/.reprise/scratch' if in_place else '"${TMPDIR:-/tmp}"/skills'
    said = [f'export {WORKSPACE}="$PWD" {SCRATCH}={scratch}/{shlex.quote(name)}']
    if packages is not None:
        found = f'"$PWD"/{shlex.quote(packages)}'
        said.append(f'export PYTHONPATH={found}"${{PYTHONPATH:+:$PYTHONPATH}}"')
    file = script.path
    if program is None or file.startswith("-"):
        file = f"./{file}"
    words = [*([] if program is None else [program]), *script.options, file]
    told = " ".join([*map(shlex.quote, words), *map(argument, arguments)])
    said.append(f'mkdir -p "${SCRATCH}" && cd {shlex.quote(path)} && exec {told}')
    return "; ".join(said)


#: All that `script_command` writes before the program, to the letter.
_BEFORE: Final = re.compile(
    rf'export {WORKSPACE}="\$PWD" '
    rf'{SCRATCH}=(?:"\$PWD"/\.reprise/scratch|"\$\{{TMPDIR:-/tmp\}}"/skills)/[a-z0-9-]+; '
    rf'(?:export PYTHONPATH="\$PWD"/{re.escape(PACKAGES)}/[0-9a-f]+'
    rf'"\$\{{PYTHONPATH:\+:\$PYTHONPATH\}}"; )?'
    rf'mkdir -p "\${SCRATCH}" && cd ([A-Za-z0-9_./-]+) && exec '
)


def without_preparation(text: str) -> str:
    """A command for people: where it runs a script of a skill, folder and program first.

    Only what is always the same is left out, so that nothing can hide in there.
    """
    found = _BEFORE.match(text)
    return text if found is None else f"cd {found[1]}; {text[found.end() :]}"


def in_a_line(text: str) -> str:
    """A command as a list tells it: what runs a script of a skill as program and skill."""
    short = without_preparation(text)
    if short == text:
        return text
    folder, _, program = short.partition("; ")
    return f"{program} · {folder.rpartition('/')[2]}"


def argument(text: str) -> str:
    """An argument as the shell reads it: {workspace} and {scratch} are those folders' paths."""
    told: list[str] = []
    at = 0
    for found in _PLACES.finditer(text):
        told.append(_quoted(text[at : found.start()]))
        at = found.end()
        told.append(_quoted(found[1]) if found[1] else f'"${_VARIABLES[found[2]]}"')
    told.append(_quoted(text[at:]))
    return "".join(told) or "''"


def _quoted(text: str) -> str:
    return shlex.quote(text) if text else ""


def variables(
    script: Script, name: str, digest: str, given: Mapping[str, str] | None
) -> dict[str, str]:
    """The variables that are set for a script, besides those that its shell text sets."""
    return {
        # The folder is read-only; Python would try for each module.
        "PYTHONDONTWRITEBYTECODE": "1",
        **script.variables,
        **(given or {}),
        SKILL: name,
        DIGEST: digest,
    }
