"""Which files a skill's Markdown names, and which of them are not in the skill (pure).

Links are found line by line and from their middle (`](`), not with a parser of Markdown: a file
made to take a parser long must not hold up a check. What stands in code is no link.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple
from urllib.parse import unquote

from reprise.skills.contract import SKILL_FILE, SkillTree
from reprise.workspace.manifest import parents

_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")
_CODE: Final = re.compile(r"``[^\n]*?``|`[^`\n]*`")
_LINK: Final = re.compile(
    r"\]\(\s*(?:<([^<>\n]*)>|([^\s()<>]+(?:\([^\s()]*\)[^\s()<>]*)?))(?=\s*\)|\s+[\"'(])"
)
_DEFINITION: Final = re.compile(r" {0,3}\[[^\]\n]{1,200}\]:\s+<?([^\s<>]+)>?\s*$")
#: Of the folders that the specification names; behind other folders or a variable it is a path of
#: something else.
_MENTION: Final = re.compile(
    r"(?<![\w./\\${}<>~*-])(?:\./)?((?:scripts|references|assets)/[\w./-]*?\w\.[A-Za-z]\w{0,7})\b"
    r"(?![\w/*{<$-])"
)
_BACKSLASHES: Final = re.compile(r"(?<![\w\\])(?:scripts|references|assets)\\\w[\w\\.-]*")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
#: In place of a name, in examples.
_STANDS_FOR: Final = re.compile(r"[{}<>$*|…]|\.\.\.|^(?:url|link|path|href)$", re.IGNORECASE)


#: The rules of `rules.RULES` that this finds something for.
How = Literal["link-missing", "link-outside", "reference-link", "path-missing", "path-backslash"]


class Named(NamedTuple):
    """A file that a text names and that is not there.  path: within the skill, or out of it."""

    line: int
    path: str
    how: How


def places(tree: SkillTree) -> frozenset[str]:
    """The paths of all files of a skill, and of the folders that they are in."""
    return frozenset(
        place for entry in tree.manifest for place in (entry.path, *parents(entry.path))
    )


def missing(there: frozenset[str], path: str, text: str) -> Iterator[Named]:
    """What the Markdown file at `path` names that is not in the skill, each once.

    In SKILL.md every link must lead to a file, and what it says in words is looked at too. In other
    files many links are those of templates and examples, so they only get a word.
    there: `places` of the skill.  text: the whole file.
    """
    main = path.casefold() == SKILL_FILE.casefold()
    told: set[str] = set()
    folder = path.split("/")[:-1]
    for line, target in _links(text):
        where = _place(folder, target)
        if where is None or where in told:
            continue
        told.add(where)
        if where.startswith("../") or where == "..":
            yield Named(line, where, "link-outside" if main else "reference-link")
        # Either way is found in the wild: from the file, and from the skill's own folder.
        elif where not in there and (_place([], target) or "") not in there:
            yield Named(line, where, "link-missing" if main else "reference-link")
    if not main:
        return
    for number, content in enumerate(text.split("\n"), 1):
        for mention in _MENTION.finditer(content):
            named = mention[1]
            if named not in told and named not in there and ".." not in named:
                told.add(named)
                yield Named(number, named, "path-missing")
        for mention in _BACKSLASHES.finditer(content):
            if mention.group() not in told:
                told.add(mention.group())
                yield Named(number, mention.group(), "path-backslash")


def _links(text: str) -> Iterator[tuple[int, str]]:
    """(line, target) of each link and image that stands in no code."""
    fence = ""
    for number, content in enumerate(text.split("\n"), 1):
        mark = _FENCE.match(content)
        if mark and not fence:
            fence = mark[1]
            continue
        if fence:
            ends = mark and mark[1].startswith(fence) and not content[mark.end() :].strip()
            fence = "" if ends else fence
            continue
        prose = _CODE.sub("", content)
        for link in _LINK.finditer(prose):
            yield number, link[1] or link[2] or ""
        definition = _DEFINITION.match(prose)
        if definition:
            yield number, definition[1]


def _place(folder: list[str], target: str) -> str | None:
    """Where a link in a file of that folder leads, as a path in the skill.

    None when it leads to no file of a skill.
    """
    if _SCHEME.match(target) or target.startswith(("/", "#", "?", "~")):
        return None
    target = unquote(target.partition("#")[0].partition("?")[0])
    if not target or "\0" in target or _STANDS_FOR.search(target):
        return None
    # A word without a dot or a slash is more often what an example has there than a file.
    if "/" not in target and "." not in target:
        return None
    parts: list[str] = []
    for part in (*folder, *target.split("/")):
        if part == ".." and parts and parts[-1] != "..":
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts) or None
