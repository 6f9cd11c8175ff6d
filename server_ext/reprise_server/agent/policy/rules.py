"""A policy as data: levels of rules, each a decision with its conditions (pure).

A policy is written as YAML or JSON:

    rules:
      - name: no-publishing          # letters, digits, hyphens; once in a file
        decision: deny               # allow, ask or deny
        why: Results leave through the data office.
        tool: mcp/*                  # a condition: one pattern, or a list of which one must fit

All conditions of a rule must hold; the first rule of a level that holds decides for that level.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, get_args

from reprise.log.model import Json, canonical
from reprise_server.agent.contract import Decision, Effect, TaintKind

DECISIONS: Final = get_args(Decision)
EFFECTS: Final = get_args(Effect)
TAINTS: Final = get_args(TaintKind)
STANDINGS: Final = ("trusted", "untrusted", "revoked")

#: Levels from the top; teams stand as team/NAME between organisation and personal.
SERVER: Final = "server"
ORGANISATION: Final = "organisation"
PERSONAL: Final = "personal"
DEFAULT: Final = "default"

#: How strict each decision is; of an unknown one nothing is allowed.
STRICTNESS: Final[Mapping[str, int]] = {"allow": 0, "ask": 1, "deny": 2}


@dataclass(frozen=True)
class Rule:
    """One rule. Each condition: of these, one must fit; empty: it says nothing of that.

    tool, environment, who: patterns.  skill: NAME, SCOPE:NAME or sha256:DIGEST, as patterns.
    scope: of the skill.  standing: of the skill.  path: patterns of workspace paths.  host: HOST,
    *.HOST or *.  argv: command lines (an allow only).  tainted: False: nothing untrusted is in the
    context; True: something is; kinds: something of these kinds.
    line: where it begins in its file, 0 where there is none.
    """

    name: str
    decision: Decision
    why: str = ""
    tool: tuple[str, ...] = ()
    effect: tuple[str, ...] = ()
    skill: tuple[str, ...] = ()
    scope: tuple[str, ...] = ()
    standing: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    host: tuple[str, ...] = ()
    who: tuple[str, ...] = ()
    argv: tuple[tuple[str, ...], ...] = ()
    tainted: bool | tuple[str, ...] | None = None
    line: int = 0

    def to_json(self) -> dict[str, Json]:
        """As policies are written, lists as lists; what it does not say is left out."""
        said: dict[str, Json] = {"name": self.name, "decision": self.decision}
        if self.why:
            said["why"] = self.why
        for name in CONDITIONS:
            if values := getattr(self, name):
                said[name] = list(values)
        if self.argv:
            said["argv"] = [list(words) for words in self.argv]
        if self.tainted is not None:
            said["tainted"] = self.tainted if isinstance(self.tainted, bool) else list(self.tainted)
        return said


#: Those that are texts or lists of texts.
CONDITIONS: Final = (
    "tool",
    "effect",
    "skill",
    "scope",
    "standing",
    "environment",
    "path",
    "host",
    "who",
)


@dataclass(frozen=True)
class Policy:
    """Rules in their order."""

    rules: tuple[Rule, ...] = ()

    def to_json(self) -> dict[str, Json]:
        return {"rules": [rule.to_json() for rule in self.rules]}

    @property
    def digest(self) -> str:
        """sha256 (hex) of what it says, however it was written."""
        return hashlib.sha256(canonical(self.to_json())).hexdigest()


@dataclass(frozen=True)
class Level:
    """A policy where it stands. name: server, organisation, team/NAME or personal."""

    name: str
    policy: Policy

    def to_json(self) -> dict[str, Json]:
        return {"level": self.name, "digest": self.policy.digest}
