"""The rules that a skill is checked by, and what a finding of each is made of (pure).

"error": the specification (agentskills.io) says otherwise, or it does not work, or it deceives
whoever reads it. "warning": it works here, or in one client, or now, but somebody is worse off.
docs/writing-skills.md has a row for each.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from reprise.errors import BadSkill
from reprise.skills.contract import Finding, Severity

RULES: Final[Mapping[str, Severity]] = {
    # The folder.
    "folder": "error",
    "skill-missing": "error",
    "skill-file": "error",
    "nested-skill": "warning",
    "file-name": "error",
    "left-out": "warning",
    "junk": "warning",
    "symbolic-link": "warning",
    # SKILL.md as a file, and its frontmatter.
    "skill-size": "error",
    "encoding": "error",
    "byte-order-mark": "error",
    "line-ends": "warning",
    "frontmatter": "error",
    "yaml": "error",
    "flow-style": "warning",
    "field-twice": "error",
    "field-type": "error",
    "field-empty": "error",
    "field-unknown": "error",
    "field-client": "warning",
    "name-missing": "error",
    "name-format": "error",
    "name-length": "error",
    "name-folder": "error",
    "name-reserved": "warning",
    "description-missing": "error",
    "description-length": "error",
    "description-markup": "warning",
    "compatibility-length": "error",
    "metadata-text": "error",
    "tools-list": "warning",
    "tools-format": "error",
    # The body, and what it names.
    "body-empty": "warning",
    "body-lines": "warning",
    "body-tokens": "warning",
    "link-missing": "error",
    "link-outside": "error",
    "reference-link": "warning",
    "path-missing": "warning",
    "path-backslash": "warning",
    "dynamic-command": "warning",
    "client-variable": "warning",
    # What people do not see.
    "hidden-text": "error",
    "control-character": "error",
    "zero-width": "warning",
    "secret": "warning",
    # Scripts.
    "shebang": "error",
    "script-metadata": "error",
    "script-not-executable": "warning",
    "executable-no-script": "warning",
    "script-help": "warning",
    "script-asks": "warning",
}


def found(rule: str, path: str, line: int | None, text: str, mend: str) -> Finding:
    """A finding of that rule, with its severity."""
    return Finding(rule, RULES[rule], path, line, text, mend)


class Unusable(BadSkill):
    """What makes a skill one that nobody can use; the message is the finding in words."""

    def __init__(self, rule: str, path: str, line: int | None, text: str, mend: str) -> None:
        where = path if line is None else f"{path}, line {line}"
        super().__init__(f"{where}: {text} {mend}")
        self.finding = found(rule, path, line, text, mend)
