"""What a text holds that people do not see but a model reads, and what looks like a secret (pure).

A skill is reviewed by people and obeyed by models. Characters without a shape can carry whole
sentences to the one and not to the other ("ASCII smuggling"), and marks of direction can show code
in another order than it runs in ("Trojan Source", CVE-2021-42574).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Final, NamedTuple

#: Letters as tags, and selectors in a row, each of which can stand for a byte; marks of direction
#: that last; characters that annotate. Tags behind a black flag are the flags of regions.
_HIDDEN: Final = re.compile(
    "\U0001f3f4[\U000e0020-\U000e007e]{1,8}\U000e007f"
    "|(?P<tags>[\U000e0000-\U000e007f]+)"
    "|(?P<selectors>[\ufe00-\ufe0f\U000e0100-\U000e01ef]{2,}|[\U000e0100-\U000e01ef])"
    "|(?P<direction>[\u202a-\u202e\u2066-\u2069\u206a-\u206f])"
    "|(?P<annotation>[\ufff9-\ufffb])"
)
_WHAT: Final = {
    "tags": "letters that are not shown (Unicode tags)",
    "selectors": "variation selectors that select nothing, which can carry text",
    "direction": "a mark that shows what follows in another order than it has",
    "annotation": "a mark of an annotation that is not shown",
}
#: Without width or shape: spaces, joiners, fillers, marks.
_NO_WIDTH: Final = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u180e\u200b-\u200f\u2060-\u2065\u3164\ufeff\uffa0]"
)
_JOINERS: Final = "\u200c\u200d"
_MARKS: Final = "\u061c\u200e\u200f"
#: Marks of direction that turn around what has a direction of its own.
_OVERRIDES: Final = "\u202d\u202e"
#: Hebrew, Arabic and their neighbours.
_FROM_THE_RIGHT: Final = re.compile(
    "[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff]"
)
_NEAR: Final = 200
_CONTROL: Final = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f-\x84\x86-\x9f]")

#: Tokens that say themselves what they are. Each begins with a fixed text, so that a long file is
#: looked through once.
_SECRETS: Final = re.compile(
    r"(?P<key_of_Anthropic>sk-ant-[A-Za-z0-9_-]{20,})"
    r"|(?P<key_of_OpenAI>sk-(?:proj|svcacct|admin)-[A-Za-z0-9_-]{20,}|sk-[A-Za-z0-9]{40,})"
    r"|(?P<token_of_GitHub>gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{40,})"
    r"|(?P<token_of_GitLab>glpat-[A-Za-z0-9_-]{20,})"
    r"|(?P<key_of_AWS>\b(?:AKIA|ASIA)[A-Z0-9]{16}\b)"
    r"|(?P<key_of_Google>\bAIza[A-Za-z0-9_-]{35}\b)"
    r"|(?P<token_of_Slack>xox[abeoprs]-[A-Za-z0-9-]{20,})"
    r"|(?P<token_of_Hugging_Face>\bhf_[A-Za-z0-9]{30,}\b)"
    r"|(?P<token_of_npm>\bnpm_[A-Za-z0-9]{36}\b)"
    r"|(?P<token_of_PyPI>\bpypi-AgE[A-Za-z0-9_-]{50,})"
    r"|(?P<key_of_Stripe>\b[rs]k_live_[A-Za-z0-9]{20,})"
    r"|(?P<private_key>-----BEGIN (?:[A-Z]{2,10} )?PRIVATE KEY-----\s+[A-Za-z0-9+/=]{60,})"
)
#: What examples have in place of the token.
_EXAMPLE: Final = re.compile(
    r"example|placeholder|your|secret|token|x{4}|\*{3}|1234|abcd", re.IGNORECASE
)


class Unseen(NamedTuple):
    """rule: of `rules.RULES`.  line: of the first one.  text: what it is, as a sentence."""

    rule: str
    line: int
    text: str


def unseen(text: str, *, controls: bool) -> Iterator[Unseen]:
    """What people do not see in a text, once for each kind, where it first stands.

    controls: whether control characters count too, which in some source files are meant.
    """
    kinds: dict[str, list[int]] = {}
    bare: list[int] = []
    for hidden in _HIDDEN.finditer(text):
        if hidden.lastgroup == "direction" and _of_its_line(text, hidden.start()):
            bare.append(hidden.start())
        elif hidden.lastgroup:
            kinds.setdefault(hidden.lastgroup, []).append(hidden.start())
    for kind, places in kinds.items():
        yield Unseen("hidden-text", _line(text, places[0]), _sentence(_WHAT[kind], len(places)))
    bare += [each.start() for each in _NO_WIDTH.finditer(text) if not _joins(text, each.start())]
    if bare:
        bare.sort()
        what = f"a character without width ({_name(text[bare[0]])})"
        yield Unseen("zero-width", _line(text, bare[0]), _sentence(what, len(bare)))
    if controls:
        marks = [each.start() for each in _CONTROL.finditer(text)]
        if marks:
            what = f"a control character ({_name(text[marks[0]])})"
            yield Unseen("control-character", _line(text, marks[0]), _sentence(what, len(marks)))


def secrets_in(text: str) -> Iterator[Unseen]:
    """What looks like a credential, without the credential."""
    for secret in _SECRETS.finditer(text):
        shown = secret.group()
        body = shown[7:]
        if _EXAMPLE.search(shown) or len(set(body)) < 8:
            continue
        what = (secret.lastgroup or "").replace("_", " ")
        beginning = "" if what == "private key" else f" ({shown[:7]}…)"
        line = _line(text, secret.start())
        yield Unseen("secret", line, f"This looks like a {what}{beginning}.")


def _of_its_line(text: str, at: int) -> bool:
    """Whether a mark of direction is one that text from right to left has, and stands in such.

    Overrides are never needed. The others are looked for letters of such scripts near them, within
    their line.
    """
    if text[at] in _OVERRIDES:
        return False
    before, after = text[max(at - _NEAR, 0) : at], text[at : at + _NEAR]
    near = before.rpartition("\n")[2] + after.partition("\n")[0]
    return _FROM_THE_RIGHT.search(near) is not None


def _joins(text: str, at: int) -> bool:
    """Whether a joiner does what it is for (between letters that join, within an emoji), or a mark
    of direction stands beside text that has one.
    """
    if text[at] in _MARKS and _of_its_line(text, at):
        return True
    if text[at] not in _JOINERS or at == 0:
        return False
    return ord(text[at - 1]) > 0x2FF and unicodedata.category(text[at - 1]) != "Cf"


def _sentence(what: str, times: int) -> str:
    return f"Here stands {what}" + (f", and {times - 1:,} more below." if times > 1 else ".")


def _name(char: str) -> str:
    return f"U+{ord(char):04X}" + (
        f" {unicodedata.name(char).lower()}" if unicodedata.name(char, "") else ""
    )


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1
