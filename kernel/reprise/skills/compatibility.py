"""What a skill's `compatibility` asks for, as far as a sentence can be checked (pure).

The field is free text of up to 500 characters (agentskills.io, "Specification"): "Requires git,
docker, jq, and access to the internet". What is understood of it only leads to warnings: a sentence
that says something else than it seems to must not keep a skill from running.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from packaging.specifiers import SpecifierSet
from packaging.version import Version

#: More of it is not read: the field has 500 characters, a careless one a few more.
_MOST: Final = 2_000

#: What is called so in such sentences, and the programs of which one must be there.
_PROGRAMS: Final[dict[str, tuple[str, ...]]] = {
    **{
        name: (name,)
        for name in (
            *("ansible", "aws", "az", "bazel", "black", "brew", "bun", "cargo", "clang", "cmake"),
            *("codex", "composer", "conda", "curl", "deno", "docker", "dot", "dotnet", "duckdb"),
            *("exiftool", "ffmpeg", "ffprobe", "flake8", "gcc", "gcloud", "gemini", "gh", "git"),
            *("gradle", "helm", "java", "jq", "julia", "jupyter", "kubectl", "latexmk", "make"),
            *("mamba", "mypy", "mysql", "node", "npm", "npx", "pandoc", "pdflatex", "pdftotext"),
            *("perl", "php", "pipx", "pnpm", "podman", "poetry", "protoc", "psql", "pytest"),
            *("qpdf", "quarto", "rclone", "redis-cli", "rsync", "ruby", "ruff", "rustc"),
            *("shellcheck", "soffice", "sox", "sqlite3", "ssh", "tectonic", "terraform"),
            *("tesseract", "tmux", "tsx", "typst", "uv", "uvx", "wget", "xelatex", "yarn"),
            *("yq", "yt-dlp", "zip", "unzip"),
        )
    },
    "go": ("go",),
    "golang": ("go",),
    "google-chrome": ("google-chrome", "chromium", "chrome"),
    "chrome": ("google-chrome", "chromium", "chrome"),
    "chromium": ("chromium", "google-chrome"),
    "graphviz": ("dot",),
    "imagemagick": ("magick", "convert"),
    "libreoffice": ("soffice", "libreoffice"),
    "node.js": ("node",),
    "nodejs": ("node",),
    "poppler": ("pdftotext",),
    "poppler-utils": ("pdftotext",),
    "postgresql": ("psql",),
    "r": ("Rscript",),
    "ripgrep": ("rg",),
    "rg": ("rg",),
    "rust": ("cargo", "rustc"),
    "sqlite": ("sqlite3",),
    "tesseract-ocr": ("tesseract",),
}
#: Words that are programs only where the sentence treats them so: other things are called so too.
_AMBIGUOUS: Final = frozenset(
    {"r", "go", "make", "node", "rust", "black", "dot", "convert", "chrome", "gemini", "codex"}
)
_CASED: Final = {"r": "R", "go": "Go", "rust": "Rust", "node": "Node", "chrome": "Chrome"}

_SENTENCE: Final = re.compile(r"[.;!](?=\s|$)|\n")
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[.+_-][A-Za-z0-9]+)*")
#: The clause says that something is not needed, or not at all times.
_NOT_NEEDED: Final = re.compile(
    r"\b(?:no|not|without|never|n't|don't|doesn't|isn't|optional(?:ly)?|recommended|suggested"
    r"|nice to have|if available|when available|where available|designed for|intended for"
    r"|works with|compatible with|tested (?:on|with|in))\b",
    re.IGNORECASE,
)
_NEEDED: Final = re.compile(
    r"\b(?:requires?|required|requiring|needs?|needed|must have|depends on|dependenc(?:y|ies)"
    r"|prerequisites?|relies on|uses?|with)\b",
    re.IGNORECASE,
)
_NETWORK: Final = re.compile(
    r"\b(?:internet|network|online|web access|outbound (?:access|connections?|traffic)"
    r"|(?:API|HTTPS?) (?:access|calls?|requests?)|access to the web)\b",
    re.IGNORECASE,
)
_OFFLINE: Final = re.compile(r"\b(?:offline|air-?gapped)\b", re.IGNORECASE)
_PYTHON: Final = re.compile(
    r"\bpython(?:\s+version)?s?\s*(?P<op>>=|≥|==|=|~=|\^|>)?\s*v?(?P<version>[23](?:\.\d{1,2}){0,2})"
    r"(?P<any>\.x)?\s*(?P<more>\+|(?:or|and)\s+(?:later|newer|higher|above|up|greater))?"
    r"(?:\s*(?:-|–|to|through)\s*(?P<last>3\.\d{1,2})(?!\d|\.\d))?",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Compatibility:
    """What could be understood.

    python: of its version.  programs: what is asked for by the word that stands there, and the
    programs of which one must be there.  network: whether one is needed.
    """

    python: SpecifierSet = field(default_factory=SpecifierSet)
    programs: tuple[tuple[str, tuple[str, ...]], ...] = ()
    network: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """All programs to look for."""
        return tuple(dict.fromkeys(name for _, names in self.programs for name in names))


def understood(text: str | None) -> Compatibility:
    """What a `compatibility` asks for, as far as it can be told."""
    if not text:
        return Compatibility()
    python = SpecifierSet()
    programs: dict[str, tuple[str, ...]] = {}
    network = False
    for sentence in _SENTENCE.split(text[:_MOST]):
        for clause in _clauses(sentence):
            if _NOT_NEEDED.search(clause):
                continue
            python &= _python(clause)
            programs |= dict(_programs(clause, bool(_NEEDED.search(sentence))))
            network = network or bool(_NETWORK.search(clause) and not _OFFLINE.search(clause))
    return Compatibility(python, tuple(programs.items()), network)


def _clauses(sentence: str) -> list[str]:
    """The parts of a sentence that one "not" or "optional" speaks of."""
    found: list[str] = []
    for part in re.split(r"[()]|,?\s+\b(?:but|although|though|while|whereas)\b", sentence):
        lead, *listed = re.split(r",\s*(?:(?:and|or)\s+)?", part)
        found.append(lead)
        for item in listed:
            # "no docker, git or jq": what begins a list holds until another verb comes.
            if _NOT_NEEDED.search(found[-1]) and not _NEEDED.match(item.lstrip()):
                found[-1] += f", {item}"
            else:
                found.append(item)
    return found


def _python(clause: str) -> SpecifierSet:
    found = _PYTHON.search(clause)
    if found is None:
        return SpecifierSet()
    version, last = found["version"], found["last"]
    if last is not None:
        return SpecifierSet(f">={version},<={last}.99")
    if found["op"] in ("==", "=") and not found["more"]:
        return SpecifierSet(f"=={version}.*" if version.count(".") < 2 else f"=={version}")
    if found["op"] == "~=" and "." in version:
        return SpecifierSet(f"~={version}")
    if version.startswith("2"):
        return SpecifierSet(f">={version}" if found["more"] else f"=={version}.*")
    # "Python 3.10" in such a sentence is the oldest one that was tried.
    return SpecifierSet(f">={version}")


def _programs(clause: str, needed: bool) -> list[tuple[str, tuple[str, ...]]]:
    found = []
    for word in _WORD.findall(clause):
        name = word.lower()
        if name not in _PROGRAMS:
            continue
        # "R" and "make" are programs where something is required, and not in "make a plan".
        if name in _AMBIGUOUS and (not needed or word not in (_CASED.get(name), name)):
            continue
        if name == "r" and word != "R":
            continue
        found.append((word, _PROGRAMS[name]))
    return found


def warnings(
    asked: Compatibility,
    *,
    python: Version | None,
    there: Collection[str] | None,
    network: bool | None,
) -> list[str]:
    """What of it is not so in a session, a sentence each.

    python: the session's.  there: those of `asked.names` that are.  network: whether programs may
    reach one. None for what is not known.
    """
    found: list[str] = []
    if python is not None and not asked.python.contains(python, prereleases=True):
        found.append(f"It asks for Python {asked.python}; this session has {python}.")
    if there is not None:
        lacking = [
            word if names == (word,) else f"{word} ({' or '.join(names)})"
            for word, names in asked.programs
            if not any(name in there for name in names)
        ]
        if lacking:
            found.append(f"It asks for {', '.join(lacking)}, which this session does not have.")
    if asked.network and network is False:
        found.append(
            "It asks for a network, and this session's environment has none. "
            "`reprise env allow HOST` lets it reach a host."
        )
    return found
