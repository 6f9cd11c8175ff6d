"""The strict check of a skill: what the specification or good sense has against it (pure).

Nothing of the skill is run, fetched or followed.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from itertools import islice
from typing import Final

from reprise.skills.contract import SKILL_FILE, Finding, Skill, SkillTree
from reprise.skills.frontmatter import Frontmatter
from reprise.skills.mentions import missing, places
from reprise.skills.read import examine, skill_file
from reprise.skills.rules import Unusable, found
from reprise.skills.script_check import check_scripts
from reprise.skills.tokens import estimate
from reprise.skills.unseen import secrets_in, unseen
from reprise.workspace.manifest import shown

#: agentskills.io, "Specification", "Progressive disclosure".
MAX_BODY_LINES: Final = 500
MAX_BODY_TOKENS: Final = 5_000

#: Files that are looked into, and bytes of all of them; the rest are data.
_MAX_TEXT: Final = 1 << 20
_MAX_ALL_TEXT: Final = 16 << 20
#: Of one rule in one file; a file of another kind than it seems is told once, not ten thousand
#: times.
_MOST_EACH: Final = 20

#: What is made by programs, or by accident, and grows a skill (other such things are left out of it
#: altogether: `paths.LEFT_OUT`).
_JUNK: Final = re.compile(
    r"(?:^|/)(?:node_modules|\.venv|venv|\.idea|\.vscode|\.cache|[^/]+\.egg-info)/"
    r"|(?:^|/)(?:\._[^/]*|[^/]*\.(?:pyc|pyo|swp|swo|orig|rej|bak|tmp)|[^/]*~|\.env|npm-debug\.log)$"
)
_MARKDOWN: Final = (".md", ".mdx", ".markdown")
#: agentskills.io leaves them free; Anthropic's own upload does not (its "Skill structure").
_RESERVED: Final = ("anthropic", "claude")

_COMMAND: Final = re.compile(r"(?<!\S)!`([^`\n]+)`|^ {0,3}(?:`{3,}|~{3,})!", re.MULTILINE)
_VARIABLE: Final = re.compile(
    r"\$ARGUMENTS\b|\$\{?(?:CLAUDE_SKILL_DIR|CLAUDE_PLUGIN_ROOT|CLAUDE_SESSION_ID)\b"
)


def check(tree: SkillTree, *, folder: str | None = None) -> list[Finding]:
    """All that is found in a skill, by file and line; none means that it keeps to every rule.

    folder: the name of the folder it comes from, which its name must equal; None where that is not
    known. What is found of a folder on disk rather than of its files: `checked_folder`.
    """
    findings: list[Finding] = []
    try:
        skill, put_up_with, front = examine(tree, folder=folder)
    except Unusable as error:
        findings.append(error.finding)
    else:
        findings.extend(put_up_with)
        findings.extend(_skill_file(skill, front))
    findings.extend(_files(tree))
    findings.extend(_texts(tree))
    findings.extend(check_scripts(tree))
    return in_order(findings)


def in_order(findings: list[Finding]) -> list[Finding]:
    """SKILL.md first, then by path and line; of one rule in one file a bounded number."""
    ordered = sorted(
        findings,
        key=lambda each: (each.path.casefold() != SKILL_FILE.casefold(), each.path, each.line or 0),
    )
    counts: dict[tuple[str, str], int] = {}
    kept = []
    for finding in ordered:
        key = (finding.rule, finding.path)
        counts[key] = counts.get(key, 0) + 1
        if counts[key] <= _MOST_EACH:
            kept.append(finding)
    return kept


def usable(findings: list[Finding]) -> bool:
    """Whether a skill with these findings passes: nothing in it is an error."""
    return all(finding.severity != "error" for finding in findings)


def _skill_file(skill: Skill, front: Frontmatter) -> Iterator[Finding]:
    path = skill_file(skill.tree)
    reserved = [word for word in _RESERVED if word in skill.name.split("-")]
    if reserved:
        yield found(
            "name-reserved",
            path,
            front.key_lines.get("name"),
            f"Anthropic's upload of skills takes no name with {reserved[0]!r} in it.",
            "Choose another name, if it is to be uploaded there.",
        )
    if "<" in skill.description or ">" in skill.description:
        yield found(
            "description-markup",
            path,
            front.key_lines.get("description"),
            "The description holds < or >, which clients put between tags of their own; "
            "Anthropic's upload refuses it.",
            "Write it without them.",
        )
    yield from _written_as_escapes(skill, front, path)
    yield from _body(skill, front, path)


def _written_as_escapes(skill: Skill, front: Frontmatter, path: str) -> Iterator[Finding]:
    """What people do not see in values, where the file has it as an escape (`"\\u202e"`)."""
    text = (skill.tree.get(path) or b"").decode(errors="replace")
    values = {
        "description": skill.description,
        "license": skill.license or "",
        "compatibility": skill.compatibility or "",
        "metadata": "\n".join(f"{key}\n{value}" for key, value in skill.metadata.items()),
        "allowed-tools": " ".join(skill.allowed_tools),
    }
    seen = {each.rule for each in unseen(text, controls=True)}
    for field, value in values.items():
        for each in unseen(value, controls=True):
            if each.rule not in seen:
                seen.add(each.rule)
                line = front.key_lines.get(field)
                yield found(each.rule, path, line, each.text, _MENDS[each.rule])


def _body(skill: Skill, front: Frontmatter, path: str) -> Iterator[Finding]:
    if not skill.body:
        yield found(
            "body-empty",
            path,
            front.body_line,
            "Nothing stands below the frontmatter.",
            "Write what to do, step by step, with an example.",
        )
        return
    lines = skill.body.count("\n") + 1
    if lines >= MAX_BODY_LINES:
        yield found(
            "body-lines",
            path,
            front.body_line,
            f"The body has {lines:,} lines; the specification recommends fewer than "
            f"{MAX_BODY_LINES}.",
            "Move what is not always needed into files below references/ and name them.",
        )
    tokens = estimate(skill.body)
    if tokens >= MAX_BODY_TOKENS:
        yield found(
            "body-tokens",
            path,
            front.body_line,
            f"The body takes about {tokens:,} tokens of a conversation; the specification "
            f"recommends fewer than {MAX_BODY_TOKENS:,}.",
            "Move what is not always needed into files below references/ and name them.",
        )
    for command in islice(_COMMAND.finditer(front.body), _MOST_EACH):
        line = front.body_line + front.body.count("\n", 0, command.start())
        shown_command = "" if command[1] is None else f" ({shown(command[1][:60])})"
        yield found(
            "dynamic-command",
            path,
            line,
            f"Claude Code runs this command{shown_command} while it reads the skill; Reprise and "
            "others never do, and show it as it stands.",
            "Tell the reader to run it instead.",
        )
    variable = _VARIABLE.search(front.body)
    if variable:
        line = front.body_line + front.body.count("\n", 0, variable.start())
        yield found(
            "client-variable",
            path,
            line,
            f"Only Claude Code fills in {variable.group().strip('{$')}.",
            "Name files by their path within the skill, and say in words what is asked for.",
        )


def _files(tree: SkillTree) -> Iterator[Finding]:
    junk: list[str] = []
    for entry in tree.manifest:
        path = entry.path
        odd = next((c for c in path if unicodedata.category(c) in ("Cf", "Zl", "Zp", "Co")), None)
        if odd is not None or path.strip() != path:
            yield found(
                "file-name",
                shown(path),
                None,
                "A character in its name is not seen.",
                f"Rename it without {f'U+{ord(odd):04X}' if odd else 'the space at its edge'}.",
            )
        if _JUNK.search(path):
            junk.append(path)
        if path.rpartition("/")[2].casefold() == SKILL_FILE.casefold() and "/" in path:
            yield found(
                "nested-skill",
                path,
                None,
                "It lies within another skill; some clients find it as a skill of its own, others "
                "never.",
                "Move its folder beside this one, or rename the file.",
            )
    if junk:
        more = f", and {len(junk) - 1:,} more such files" if len(junk) > 1 else ""
        yield found(
            "junk",
            junk[0],
            None,
            f"It is no part of what a skill does{more}.",
            "Delete it, and name it in .gitignore.",
        )


def _texts(tree: SkillTree) -> Iterator[Finding]:
    """What the text files hold: names of files that are not there, what is not seen, secrets."""
    left = _MAX_ALL_TEXT
    there = places(tree)
    try:
        main = skill_file(tree)
    except Unusable:
        main = ""
    for entry in sorted(tree.manifest, key=lambda each: each.path != main):
        data = tree.get(entry.path) or b""
        if len(data) > _MAX_TEXT or len(data) > left or b"\0" in data[:8192]:
            continue
        try:
            text = data.decode()
        except UnicodeDecodeError:
            continue
        left -= len(data)
        text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
        markdown = entry.path.casefold().endswith(_MARKDOWN)
        if markdown:
            yield from _named(there, entry.path, text)
        for each in (*unseen(text, controls=markdown), *islice(secrets_in(text), _MOST_EACH)):
            yield found(each.rule, entry.path, each.line, each.text, _MENDS[each.rule])


def _named(there: frozenset[str], path: str, text: str) -> Iterator[Finding]:
    for named in missing(there, path, text):
        where = shown(named.path)
        said, mend = _NAMED[named.how]
        yield found(named.how, path, named.line, said.format(where), mend)


_MENDS: Final = {
    "hidden-text": "Remove it; if it is meant, write it as an escape.",
    "zero-width": "Remove it, unless it is meant.",
    "control-character": "Remove it.",
    "secret": "Revoke it if it is one, and take it from a variable of the environment instead.",
}
_NAMED: Final = {
    "link-missing": (
        "It links to {}, which is not in the skill.",
        "Add the file, or mend the link.",
    ),
    "link-outside": (
        "It links to {}, which is outside the skill and does not come with it.",
        "Copy the file into the skill, or name the other skill in words.",
    ),
    "reference-link": (
        "It links to {}, which is not in the skill.",
        "Add the file, or mend the link; put it in backquotes if it is an example.",
    ),
    "path-missing": (
        "It names {}, which is not in the skill.",
        "Add the file, or correct its path; paths start at the skill's own folder.",
    ),
    "path-backslash": ("It names {} with backslashes.", "Write / between folders."),
}
