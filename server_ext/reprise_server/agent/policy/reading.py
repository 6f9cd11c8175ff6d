"""Policies read from YAML or JSON; what is wrong with one is told with its line and mend (pure).

Nothing is guessed: an unknown word is an error, since a condition that is not understood would make
a rule wider than whoever wrote it meant.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, cast

import yaml

from reprise.errors import UsageError
from reprise.log.model import Json
from reprise.skills import yaml_tree
from reprise.skills.yaml_tree import (
    Node,
    Refused,
    Scalar,
    line_of,
    problem_of,
    tree_of,
    tree_of_json,
)
from reprise_server.agent.contract import Decision
from reprise_server.agent.policy.patterns import REST, clean, pieces
from reprise_server.agent.policy.rules import (
    CONDITIONS,
    DECISIONS,
    EFFECTS,
    STANDINGS,
    TAINTS,
    Policy,
    Rule,
)

#: Of a policy, however it is written.
MAX_BYTES: Final = 256 << 10
MAX_RULES: Final = 200
#: Of one condition.
MAX_PATTERNS: Final = 50
MAX_PATTERN: Final = 300
MAX_WHY: Final = 300
#: So many are told at once.
MAX_PROBLEMS: Final = 20

_NAME: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
MAX_NAME: Final = 64
_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "effect": EFFECTS,
    "standing": STANDINGS,
    "decision": DECISIONS,
}
_FIELDS: Final = ("name", "decision", "why", *CONDITIONS, "argv", "tainted")


@dataclass(frozen=True)
class Problem:
    """What is wrong in a policy. line: from 1, 0 where there is none.  mend: what to do."""

    line: int
    text: str
    mend: str


class BadPolicy(UsageError):
    """A policy that cannot be taken; nothing of it counts. problems: at most MAX_PROBLEMS."""

    def __init__(self, name: str, problems: tuple[Problem, ...]) -> None:
        lines = [
            f"{name}{f':{each.line}' if each.line else ''}: {each.text} {each.mend}"
            for each in problems
        ]
        super().__init__("\n".join(lines))
        self.problems = problems


def parse_policy(data: bytes | str, name: str = "policy") -> Policy:
    """A policy as YAML or JSON text. name: of the file, for the errors.  Raises BadPolicy."""
    reading = _Reading(name)
    return reading.whole(reading.tree(data))


def policy_of(value: Mapping[str, Json], name: str = "policy") -> Policy:
    """A policy from its JSON form, such as it is stored. Raises BadPolicy."""
    return parse_policy(_dumped(value, name), name)


def rule_of(value: Mapping[str, Json]) -> Rule:
    """One rule from its JSON form, such as a grant holds. Raises BadPolicy."""
    return policy_of({"rules": [cast(Json, dict(value))]}, "rule").rules[0]


def granted(value: Mapping[str, Json]) -> Rule | None:
    """The rule of a grant; None when it is none, or does not allow: then it grants nothing."""
    try:
        return _granted(json.dumps(value))
    except (TypeError, ValueError, RecursionError):
        return None


@lru_cache(maxsize=512)
def _granted(text: str) -> Rule | None:
    try:
        rule = rule_of(json.loads(text))
    except BadPolicy:
        return None
    return rule if rule.decision == "allow" else None


def _dumped(value: Any, name: str) -> str:
    try:
        return json.dumps(value, allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        raise BadPolicy(
            name, (Problem(0, "It is no JSON.", "Write an object with rules."),)
        ) from None


class _Stop(Exception):
    """Enough problems were found."""


class _Reading:
    """One policy being read; problems are gathered, so that a person mends all of them at once."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.problems: list[Problem] = []

    def refuse(self, line: int, text: str, mend: str) -> BadPolicy:
        return BadPolicy(self.name, (*self.problems, Problem(line, text, mend)))

    def wrong(self, line: int, text: str, mend: str) -> None:
        self.problems.append(Problem(line, text, mend))
        if len(self.problems) >= MAX_PROBLEMS:
            raise _Stop

    def tree(self, data: bytes | str) -> Node | None:
        if len(data) > MAX_BYTES:
            raise self.refuse(
                0, f"It is larger than {MAX_BYTES >> 10} KiB.", "Keep fewer rules, with patterns."
            )
        try:
            text = data if isinstance(data, str) else data.decode("utf-8-sig")
            text.encode()
        except UnicodeError:
            raise self.refuse(0, "It is not UTF-8.", "Save it as UTF-8.") from None
        if "\0" in text:
            raise self.refuse(0, "It holds a NUL, so it is no text.", "Remove it.")
        text = text.replace("\r\n", "\n")
        try:
            return tree_of(text, 1)
        except yaml.YAMLError as error:
            # JSON that YAML cannot read, such as one indented with tabs; without lines.
            try:
                found = tree_of_json(text, 0)
            except Refused as refused:
                raise self.refuse(refused.line, refused.text, refused.mend) from None
            if found is not None:
                return found
            raise self.refuse(
                line_of(error) + 1,
                f"It is no YAML: {problem_of(error)}.",
                "Write rules: and a list below it.",
            ) from None
        except Refused as refused:
            raise self.refuse(refused.line, refused.text, refused.mend) from None

    def whole(self, root: Node | None) -> Policy:
        rules: list[Rule] = []
        with suppress(_Stop):
            rules = self.rules(root)
        if self.problems:
            raise BadPolicy(self.name, tuple(sorted(self.problems, key=lambda each: each.line)))
        return Policy(tuple(rules))

    def rules(self, root: Node | None) -> list[Rule]:
        if not isinstance(root, yaml_tree.Mapping):
            line = root.line if root is not None else 0
            self.wrong(line, "It is no policy.", "Write rules: and a list of rules below it.")
            return []
        fields = self.fields(root, ("rules",), "A policy")
        if not root.pairs:
            return []
        listed = fields.get("rules")
        if not isinstance(listed, yaml_tree.Sequence):
            line = listed.line if listed is not None else root.line
            self.wrong(line, "rules is no list.", "Write one rule for each -, or rules: [].")
            return []
        if len(listed.items) > MAX_RULES:
            self.wrong(
                listed.line,
                f"It has {len(listed.items):,} rules, more than {MAX_RULES}.",
                "Join some: a condition may be a list.",
            )
            return []
        rules: list[Rule] = []
        seen: dict[str, int] = {}
        for node in listed.items:
            rule = self.rule(node)
            if rule is None:
                continue
            if rule.name in seen:
                self.wrong(
                    rule.line,
                    f"A rule {rule.name} stands in line {seen[rule.name]} already.",
                    "Give each rule a name of its own: it is what people are told.",
                )
            seen.setdefault(rule.name, rule.line)
            rules.append(rule)
        return rules

    def fields(self, node: yaml_tree.Mapping, known: tuple[str, ...], what: str) -> dict[str, Node]:
        found: dict[str, Node] = {}
        for key, value in node.pairs:
            if key.text not in known:
                self.wrong(
                    key.line,
                    f"{what} has no field {_quoted(key.text)}.",
                    f"It may have {', '.join(known)}.",
                )
            elif key.text in found:
                self.wrong(key.line, f"{key.text} stands twice.", "Keep one.")
            else:
                found[key.text] = value
        return found

    def rule(self, node: Node) -> Rule | None:
        """The rule in a node; None when it cannot be one (problems say why)."""
        if not isinstance(node, yaml_tree.Mapping):
            self.wrong(node.line, "It is no rule.", "Write name: and decision: of it.")
            return None
        before = len(self.problems)
        fields = self.fields(node, _FIELDS, "A rule")
        for name in ("name", "decision"):
            if name not in fields:
                self.wrong(node.line, f"A rule has no {name}.", f"Write {name}: …")
        said: dict[str, Any] = {"line": node.line}
        for name, value in fields.items():
            said[name] = self.field(name, value)
        if len(self.problems) > before:
            return None
        rule = Rule(**said)
        self.sound(rule, fields)
        return rule

    def field(self, name: str, node: Node) -> Any:
        if name == "name":
            return self.name_of(node)
        if name == "decision":
            return cast(Decision, self.word(node, name))
        if name == "why":
            return self.why(node)
        if name == "argv":
            return self.argv(node)
        if name == "tainted":
            return self.tainted(node)
        one: Callable[[Node], str] = (
            (lambda each: self.word(each, name))
            if name in _WORDS
            else (lambda each: self.pattern(each, name))
        )
        return self.several(node, name, one)

    def sound(self, rule: Rule, fields: Mapping[str, Node]) -> None:
        """Wrong in a rule as a whole: conditions that would not do what they seem to."""
        if rule.argv and rule.decision != "allow":
            self.wrong(
                fields["argv"].line,
                f"A rule that says {rule.decision} has argv, which only an allow can have.",
                "A program can be started in too many ways to name them all: deny tools, effects or"
                " environments instead, or close the environment's network.",
            )
        if rule.decision == "allow" and rule.tainted not in (None, False):
            self.wrong(
                fields["tainted"].line,
                "A rule that allows asks for untrusted content.",
                "Write tainted: false, or leave it out: content that nobody vouches for must not"
                " widen what is allowed.",
            )
        if rule.decision == "allow" and "revoked" in rule.standing:
            self.wrong(
                fields["standing"].line,
                "A rule allows revoked skills, which are always denied.",
                "Leave revoked out.",
            )

    # Fields ---------------------------------------------------------------------------------------

    def text(self, node: Node, name: str, most: int) -> str:
        """The text in a node, "" when there is none (problems say why)."""
        if not isinstance(node, Scalar) or not isinstance(node.to_json(), str):
            self.wrong(node.line, f"{name} is no text.", "Write it in quotes.")
            return ""
        if not node.text or len(node.text) > most:
            self.wrong(
                node.line,
                f"{name} has {len(node.text):,} characters.",
                f"Write between 1 and {most}.",
            )
            return ""
        if not node.text.isprintable():
            self.wrong(
                node.line,
                f"{name} holds characters that nobody sees, or more than one line.",
                "Write one line of visible characters.",
            )
            return ""
        return node.text

    def name_of(self, node: Node) -> str:
        text = self.text(node, "name", MAX_NAME)
        if text and not _NAME.fullmatch(text):
            self.wrong(
                node.line,
                f"{_quoted(text)} is no name of a rule.",
                "Write lower-case letters, digits and single hyphens, such as no-publishing.",
            )
        return text

    def why(self, node: Node) -> str:
        return self.text(node, "why", MAX_WHY)

    def word(self, node: Node, name: str) -> str:
        text = self.text(node, name, MAX_PATTERN)
        known = _WORDS[name]
        if text and text not in known:
            self.wrong(
                node.line, f"{_quoted(text)} is no {name}.", f"It is one of {', '.join(known)}."
            )
        return text

    def pattern(self, node: Node, name: str) -> str:
        text = self.text(node, name, MAX_PATTERN)
        if name == "path" and text and not clean(text):
            self.wrong(
                node.line,
                f"{_quoted(text)} is no path of a workspace.",
                'Write it relative, without "..", "//" or an end in "/", such as data/**.',
            )
        return text

    def several(self, node: Node, name: str, one: Callable[[Node], str]) -> tuple[str, ...]:
        """One text, or a list of them."""
        items = node.items if isinstance(node, yaml_tree.Sequence) else [node]
        if not items:
            self.wrong(
                node.line,
                f"{name} is an empty list, so that the rule would never hold.",
                f"Name one, or leave {name} out.",
            )
        if len(items) > MAX_PATTERNS:
            self.wrong(node.line, f"{name} has more than {MAX_PATTERNS}.", "Use two rules.")
            return ()
        return tuple(one(item) for item in items)

    def argv(self, node: Node) -> tuple[tuple[str, ...], ...]:
        """A command line as a list of words, or a list of such lists."""
        mend = 'Write a list of words, such as [git, log, "**"], or a list of such lists.'
        if not isinstance(node, yaml_tree.Sequence) or not node.items:
            self.wrong(node.line, "argv is no list of words.", mend)
            return ()
        lines = node.items if isinstance(node.items[0], yaml_tree.Sequence) else [node]
        if len(lines) > MAX_PATTERNS:
            self.wrong(node.line, f"argv has more than {MAX_PATTERNS}.", "Use two rules.")
            return ()
        return tuple(self.command_line(line, mend) for line in lines)

    def command_line(self, node: Node, mend: str) -> tuple[str, ...]:
        if not isinstance(node, yaml_tree.Sequence) or not node.items:
            self.wrong(node.line, "argv is no list of words.", mend)
            return ()
        if len(node.items) > MAX_PATTERNS:
            self.wrong(node.line, f"argv has more than {MAX_PATTERNS} words.", "Write fewer.")
            return ()
        words = tuple(self.argument(item) for item in node.items)
        if len(pieces(words[0])) > 1:
            self.wrong(
                node.line, "argv begins with a pattern.", "Name one program as its first word."
            )
        if REST in words[:-1]:
            self.wrong(
                node.line, f"{REST} stands in the middle of argv.", "It stands at the end only."
            )
        return words

    def argument(self, node: Node) -> str:
        """A word of a command line as it is written: -5 and true are words, too."""
        if isinstance(node, Scalar) and node.plain:
            node = Scalar(node.text, False, node.line)
        return self.text(node, "a word of argv", MAX_PATTERN)

    def tainted(self, node: Node) -> bool | tuple[str, ...]:
        value = node.to_json()
        if isinstance(value, bool):
            return value
        items = node.items if isinstance(node, yaml_tree.Sequence) else [node]
        kinds = tuple(item.text if isinstance(item, Scalar) else "" for item in items)
        if not kinds or any(kind not in TAINTS for kind in kinds):
            self.wrong(
                node.line,
                "tainted is neither true nor false, nor a list of kinds.",
                f"The kinds are {', '.join(TAINTS)}.",
            )
        return kinds


def _quoted(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:59] + "…")
