"""What a skill is, as data: its files, what its SKILL.md says, where it came from, its standing.

A skill is named by the digest of its whole folder: the sha256 of the canonical manifest
(`workspace.manifest`) of its files. The manifest holds files only, with mode 0o755 when the owner
may execute them and 0o644 otherwise, which is what Git, zip and tar can all carry; folders are
implied, so empty ones do not count; a symbolic link within the folder stands as what it leads to.
The same digest names the tree that a `mount` step shows, so what was approved is what is mounted.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from reprise.errors import UsageError
from reprise.log.model import Json
from reprise.log.store import Standing
from reprise.workspace.manifest import Manifest

#: The file that makes a folder a skill (agentskills.io, "Specification").
SKILL_FILE = "SKILL.md"

#: Modes of a skill's files.
PLAIN = 0o644
EXECUTABLE = 0o755

#: Bounds of one skill. The largest public ones hold some hundred files and 6 MB of fonts.
MAX_FILES = 5_000
MAX_FILE_BYTES = 16 << 20
MAX_BYTES = 64 << 20
#: Of SKILL.md, which a model reads whole.
MAX_SKILL_FILE_BYTES = 1 << 20
#: Folders within folders, in one skill.
MAX_DEPTH = 20

#: How a name of a skill is written (agentskills.io, "Specification", `name`): 1 to 64 lowercase
#: letters, digits and single inner hyphens.
NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
MAX_NAME = 64


@dataclass(frozen=True)
class SkillTree:
    """A skill's files. contents: the bytes of each file by their sha256 (hex)."""

    manifest: Manifest
    contents: Mapping[str, bytes]

    @property
    def digest(self) -> str:
        """Names the skill: sha256 (hex) of the canonical manifest."""
        return self.manifest.sha256

    def get(self, path: str) -> bytes | None:
        """A file's bytes, None when there is none at `path`."""
        entry = self.manifest.get(path)
        return None if entry is None or entry.sha256 is None else self.contents[entry.sha256]


Severity = Literal["error", "warning"]


@dataclass(frozen=True)
class Finding:
    """One thing that the check found.

    rule: a stable word, such as "name-format" (all are listed in docs/writing-skills.md).
    path: of the file within the skill.  line: counted from 1, None when no line can be named.
    text: what is wrong.  mend: what to do.
    """

    rule: str
    severity: Severity
    path: str
    line: int | None
    text: str
    mend: str


@dataclass(frozen=True)
class Skill:
    """A skill as it was read.

    allowed_tools: what it asks to be pre-approved; a request, which grants nothing.
    other: fields of the frontmatter that the specification does not name.
    body: the Markdown below the frontmatter.
    findings: what a lenient reading put up with.
    """

    name: str
    description: str
    body: str
    tree: SkillTree
    license: str | None = None
    compatibility: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    allowed_tools: tuple[str, ...] = ()
    other: Mapping[str, Json] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()

    @property
    def digest(self) -> str:
        return self.tree.digest


ScopeKind = Literal["personal", "team", "organisation"]

_TEAM = re.compile(r"[a-z0-9]+(?:[-_][a-z0-9]+)*")


@dataclass(frozen=True)
class Scope:
    """Whom a version is for. Written "personal", "team/NAME", "organisation".

    personal: whoever asks (in the database: the login's own scope).
    """

    kind: ScopeKind
    team: str | None = None

    def __str__(self) -> str:
        return f"team/{self.team}" if self.kind == "team" else self.kind

    @classmethod
    def of(cls, text: str) -> Scope:
        """Raises UsageError."""
        if text == "personal":
            return cls("personal")
        if text == "organisation":
            return cls("organisation")
        kind, _, team = text.partition("/")
        if kind == "team" and _TEAM.fullmatch(team) and len(team) <= MAX_NAME:
            return cls("team", team)
        raise UsageError(
            f"{text!r} is no scope. Scopes are personal, team/NAME and organisation; "
            "`reprise skills scopes` lists those you are in."
        )


PERSONAL = Scope("personal")
ORGANISATION = Scope("organisation")

#: Where a skill came from: a folder, an archive, a Git commit, a tool's folder, Reprise itself.
OriginKind = Literal["folder", "archive", "git", "shipped", "written"]


@dataclass(frozen=True)
class Origin:
    """Where a version came from, for people and for a later sync.

    where: the path, or the repository's URL without credentials.  commit: full id, for "git".
    subfolder: of the skill within the repository, the archive or the folder, "" for its root.
    ref: the branch or tag that was asked for and that a sync follows, "" for the default branch.
    """

    kind: OriginKind
    where: str = ""
    commit: str | None = None
    subfolder: str = ""
    ref: str = ""

    def to_json(self) -> dict[str, Json]:
        return {
            "kind": self.kind,
            "where": self.where,
            "commit": self.commit,
            "subfolder": self.subfolder,
            "ref": self.ref,
        }


#: Of a version in its scope. A scope's newest published version is what others get.
State = Literal["draft", "reviewed", "published"]


@dataclass(frozen=True)
class Version:
    """One version of a skill in one scope; versions are numbered from 1 and never change.

    by: the database login that added it.  at: microseconds since the epoch, UTC.
    """

    scope: Scope
    name: str
    number: int
    digest: str
    description: str
    state: State
    standing: Standing
    deprecated: bool
    by: str
    at: int
    origin: Origin
    note: str = ""

    @property
    def reference(self) -> str:
        """How this very version is named: SCOPE:NAME@NUMBER."""
        return f"{self.scope}:{self.name}@{self.number}"


@dataclass(frozen=True)
class Reference:
    """How a person names a skill: [SCOPE:]NAME[@NUMBER], or sha256:DIGEST.

    Without a scope: the nearest that has it, personal before teams before organisation. Without a
    number: the newest published version, in the personal scope the newest.
    """

    name: str | None = None
    scope: Scope | None = None
    number: int | None = None
    digest: str | None = None

    @classmethod
    def of(cls, text: str) -> Reference:
        """Raises UsageError."""
        if text.startswith("sha256:"):
            digest = text.removeprefix("sha256:")
            if re.fullmatch(r"[0-9a-f]{64}", digest):
                return cls(digest=digest)
            raise UsageError(f"{text!r} is no digest: sha256: and 64 hexadecimal digits.")
        rest, at, number = text.partition("@")
        scope, colon, name = rest.rpartition(":")
        if (
            not NAME.fullmatch(name)
            or len(name) > MAX_NAME
            or (at and not re.fullmatch(r"[1-9][0-9]{0,8}", number))
        ):
            raise UsageError(
                f"{text!r} names no skill. Write [SCOPE:]NAME[@NUMBER], such as profile-dataset, "
                "team/ml:profile-dataset@3, or sha256:DIGEST."
            )
        return cls(name, Scope.of(scope) if colon else None, int(number) if at else None)


#: What was done with a skill: its body given to a model or a person, its tree mounted, a script of
#: it run to a good end, a script that failed.
Use = Literal["load", "mount", "run", "failure"]


@dataclass(frozen=True)
class Usage:
    """How often one content (a digest) was used, by everyone who may be counted.

    last_at: microseconds since the epoch, UTC; None when it never was.
    """

    digest: str
    loads: int
    mounts: int
    runs: int
    failures: int
    sessions: int
    last_at: int | None


@dataclass(frozen=True)
class Promotion:
    """A request that a version become part of a wider scope.

    version: as it stands in `to`, a draft until it is decided.  number: of that version.
    decided: None while it is open.
    """

    id: uuid.UUID
    version: Version
    to: Scope
    by: str
    at: int
    note: str
    decided: Literal["approved", "refused", "withdrawn"] | None = None
    decided_by: str | None = None
    decided_at: int | None = None
    reason: str = ""
    number: int | None = None
