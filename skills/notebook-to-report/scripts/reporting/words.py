"""Markdown of cells: its headings, its pictures brought in, nothing in it that acts or loads."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from urllib.parse import unquote

from markdown_it import MarkdownIt
from markdown_it.token import Token

from reporting.notebook import picture_file
from reporting.sanitising import clean

_PARSER = MarkdownIt("commonmark", {"html": True, "linkify": False}).enable(
    ["table", "strikethrough"]
)
#: Judges no link, so that what another reader would take for one is seen as one.
_CREDULOUS = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
_CREDULOUS.validateLink = lambda _: True  # type: ignore[method-assign, assignment]
_SAFE_LINK = re.compile(r"(?:https?://|mailto:|#|(?![a-z][a-z0-9+.-]*:)(?!//))", re.IGNORECASE)
_PLAIN_TAG = re.compile(
    r"</?(?:b|i|em|strong|sub|sup|br|u|s|kbd|code|small|mark|del|ins)\s*/?>", re.IGNORECASE
)


@dataclass
class Written:
    """html or Markdown; headings as (level, text, anchor)."""

    text: str
    headings: list[tuple[int, str, str]] = field(default_factory=list)
    pictures_left_out: int = 0


def as_html(
    text: str, attachments: dict[str, str], folder: Path, taken: set[str], shift: int = 0
) -> Written:
    """taken: anchors that stand in the report already; kept up.  shift: of heading levels."""
    tokens = _PARSER.parse(text)
    found = Written("")
    for at, token in enumerate(tokens):
        if token.type == "heading_open":
            level = min(int(token.tag[1]) + shift, 6)
            title = _title(tokens[at + 1])
            anchor = _anchor(title, taken)
            token.tag = tokens[at + 2].tag = f"h{level}"
            found.headings.append((level, title, anchor))
        if token.children:
            token.children = _inline(token.children, attachments, folder, found)
    rendered = _PARSER.renderer.render(tokens, _PARSER.options, {})
    body = clean(rendered)
    # Anchors of ours are set after cleaning, which takes all others away.
    for level, _, anchor in found.headings:
        body = re.sub(rf"<h{level}>", f'<h{level} id="{anchor}">', body, count=1)
    found.text = body
    return found


def _inline(
    children: list[Token], attachments: dict[str, str], folder: Path, found: Written
) -> list[Token]:
    """Pictures as data; one that lies elsewhere becomes a link, since nothing is loaded."""
    kept: list[Token] = []
    for child in children:
        if child.type != "image":
            kept.append(child)
            continue
        source = str(child.attrGet("src") or "")
        name = unquote(source)
        data = (
            attachments.get(name.removeprefix("attachment:"))
            if name.startswith("attachment:")
            else picture_file(folder, name)
        )
        if data is None and source.startswith("data:image/"):
            data = source
        if data is not None:
            child.attrSet("src", data)
            kept.append(child)
            continue
        found.pictures_left_out += 1
        words = Token("text", "", 0, content=f"[picture: {child.content or name[:100]}]")
        if source.startswith(("http://", "https://")):
            opened = Token("link_open", "a", 1)
            opened.attrSet("href", source)
            kept += [opened, words, Token("link_close", "a", -1)]
        else:
            kept.append(words)
    return kept


def _title(token: Token) -> str:
    parts = [
        child.content
        for child in token.children or []
        if child.type in ("text", "code_inline", "image")
    ]
    return " ".join("".join(parts).split())[:200]


def _anchor(title: str, taken: set[str]) -> str:
    base = re.sub(r"[^\w]+", "-", title.lower()).strip("-")[:60] or "section"
    base = base if base.isascii() else escape(base)
    name, number = base, 2
    while name in taken:
        name, number = f"{base}-{number}", number + 1
    taken.add(name)
    return name


def as_markdown(text: str) -> Written:
    """The same Markdown with what could act, or load from elsewhere, made plain text.

    It stands among other parts of a report: nothing in it is left open, and nothing that another
    part refers to leads anywhere it should not.
    """
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    found = Written("")
    # What was made plain may read otherwise than before: looked at again until nothing acts.
    for attempt in range(4):
        said: dict[str, object] = {}
        tokens = _CREDULOUS.parse("\n".join(lines), said)
        if not attempt:
            for at, token in enumerate(tokens):
                if token.type == "heading_open":
                    found.headings.append((int(token.tag[1]), _title(tokens[at + 1]), ""))
        acting, pictures = _acting(tokens)
        acting |= _defined(said)
        if not attempt:
            found.pictures_left_out = pictures
        if not acting:
            break
        lines = [_harmless(line) if at in acting else line for at, line in enumerate(lines)]
    else:
        lines = [_harmless(line) for line in lines]
    # Blanks before the first line mean something, empty lines do not.
    found.text = _closed(re.sub(r"\A(?:[ \t]*\n)+", "", "\n".join(lines)).rstrip())
    return found


def _closed(text: str) -> str:
    """The text, ended so that what follows it is no part of it."""
    if _ends(text):
        return text
    fences = [token for token in _CREDULOUS.parse(text) if token.type == "fence"]
    if fences and _ends(f"{text}\n{fences[-1].markup}"):
        return f"{text}\n{fences[-1].markup}"
    return "\n".join(_harmless(line) for line in text.split("\n"))


def _ends(text: str) -> bool:
    last = _CREDULOUS.parse(f"{text}\n\nafterwards")[-2:]
    return [token.type for token in last] == ["inline", "paragraph_close"] and (
        last[0].content == "afterwards" and last[1].level == 0
    )


def _defined(said: dict[str, object]) -> set[int]:
    """Lines that define what links may name, and that lead where no link may lead."""
    lines: set[int] = set()
    references = said.get("references")
    for each in references.values() if isinstance(references, dict) else ():
        if not _SAFE_LINK.match(str(each.get("href", ""))):
            lines |= set(range(*each["map"]))
    return lines


def _acting(tokens: list[Token]) -> tuple[set[int], int]:
    """The lines that hold a link, picture or HTML that is not let through; how many pictures."""
    lines: set[int] = set()
    pictures = 0
    for token in tokens:
        acts = token.type == "html_block"
        if token.type == "inline" and token.children:
            found, count = _acts(token.children)
            acts, pictures = acts or found, pictures + count
        if acts and token.map is not None:
            lines |= set(range(*token.map))
    return lines, pictures


def _acts(children: list[Token]) -> tuple[bool, int]:
    """Whether a piece of text holds a link, a picture or HTML that is not let through."""
    # A picture whose address another part of the report defines is none here, and one there.
    acts = "![" in "".join(child.content for child in children if child.type == "text")
    pictures = 0
    for child in children:
        if child.type == "image":
            acts, pictures = True, pictures + 1
        elif child.type == "link_open":
            acts = acts or not _SAFE_LINK.match(str(child.attrGet("href") or ""))
        elif child.type == "html_inline":
            acts = acts or not _PLAIN_TAG.fullmatch(child.content)
    return acts, pictures


def _harmless(line: str) -> str:
    """Shown as it is written: no tag, no link, no picture. Entities of it are shown, too."""
    line = line.replace("&", "&amp;").replace("<", "&lt;")
    return re.sub(r"([\[\]!`~])", r"\\\1", line)
