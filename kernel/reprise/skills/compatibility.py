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
            *("gradle", "helm", "java", "jq", "julia", "kubectl", "latexmk", "make"),
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
#: Words that mean other things as well: programs only where they stand as one in a list, with a
#: version, or as "the … CLI".
_AMBIGUOUS: Final = frozenset(
    {"r", "go", "make", "node", "rust", "black", "dot", "convert", "chrome", "gemini", "codex"}
)
_CASED: Final = {"r": "R", "go": "Go", "rust": "Rust", "node": "Node", "chrome": "Chrome"}
_LISTED: Final = re.compile(
    r"(?:^|\b(?:requires?|needs?|needed|uses?|with|and|or|the|:))\s*$", re.IGNORECASE
)
_ENDED: Final = re.compile(
    r"\s*(?:$|[,/+(]|>=|≥|v?\d|(?:and|or|with|cli|compiler|toolchain|installed|on path)\b)",
    re.IGNORECASE,
)
#: What stands behind a program that only shows how something is installed.
_INSTALLS: Final = re.compile(r"\s+(?:pip\s+|tool\s+)?(?:install|add|i|login)\b", re.IGNORECASE)

_SENTENCE: Final = re.compile(r"[.;!](?=\s|$)|\n|[·•|]|(?<!\d)\s[-–—]\s|\s[-–—]\s(?!\d)")
_INNER: Final = re.compile(r"\(([^()]*)\)")
_WORD: Final = re.compile(r"(?<![\w@:.-])[A-Za-z][A-Za-z0-9]*(?:[.+_-][A-Za-z0-9]+)*")
#: An address, or a package of npm: none of the words in it is a program.
_ADDRESS: Final = re.compile(r"\S*(?:@|://)\S*")

#: The clause says that something is not needed, or not at all times.
_NOT_NEEDED: Final = re.compile(
    r"\b(?:no|not|without|never|n't|don't|doesn't|isn't|optional(?:ly)?|recommended|suggested"
    r"|nice to have|bundled|if available|when available|where available|designed for|intended for"
    r"|works with|compatible with|tested (?:on|with|in))\b",
    re.IGNORECASE,
)
_NEEDED: Final = re.compile(
    r"\b(?:requires?|required|requiring|needs?|needed|must have|depends on|dependenc(?:y|ies)"
    r"|prerequisites?|relies on|uses?|with)\b",
    re.IGNORECASE,
)
_NETWORK: Final = re.compile(
    r"\b(?:internet|network(?! fees)|online|web access|outbound (?:access|connections?|traffic)"
    r"|(?:API|HTTPS?) (?:access|calls?|requests?)|access to the web)\b",
    re.IGNORECASE,
)
_OFFLINE: Final = re.compile(r"\b(?:offline|air-?gapped)\b", re.IGNORECASE)
_PYTHON: Final = re.compile(
    r"\bpython(?:\s+version)?s?\s*(?P<op>>=|≥|==|=|~=|\^|>)?\s*v?(?P<version>[23](?:\.\d{1,2}){0,2})"
    r"(?P<any>\.x)?\s*(?P<more>\+|(?:or|and)\s+(?:later|newer|higher|above|up|greater))?"
    r"(?:\s*(?:-|–|to|through)\s*(?P<last>3\.\d{1,2})(?!\d|\.\d))?"
    r"(?:\s*(?:,|and)?\s*(?P<below><=?)\s*(?P<bound>3\.\d{1,2}))?",
    re.IGNORECASE,
)
#: Systems that no sandbox is, unless one that it may be is named as well.
_SYSTEM: Final = re.compile(r"\b(?:macOS|Mac OS X|OS X|darwin|Windows)\b", re.IGNORECASE)
_OURS: Final = re.compile(
    r"linux|ubuntu|debian|posix|unix|\bwsl\b|cross-platform|all platforms|any platform",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Compatibility:
    """What could be understood.

    python: of its version.  programs: what is asked for by the word that stands there, and the
    programs of which one must be there.  network: whether one is needed.  system: another
    operating system than Linux, if it is for that one.
    """

    python: SpecifierSet = field(default_factory=SpecifierSet)
    programs: tuple[tuple[str, tuple[str, ...]], ...] = ()
    network: bool = False
    system: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """All programs to look for."""
        return tuple(dict.fromkeys(name for _, names in self.programs for name in names))


def understood(text: str | None) -> Compatibility:
    """What a `compatibility` asks for, as far as it can be told."""
    if not text:
        return Compatibility()
    text = text[:_MOST]
    python = SpecifierSet()
    programs: dict[str, tuple[str, ...]] = {}
    network = False
    system: str | None = None
    for sentence in _SENTENCE.split(text):
        needed = bool(_NEEDED.search(sentence))
        for clause in _clauses(sentence):
            if _NOT_NEEDED.search(clause):
                continue
            found, several = _programs(clause, needed)
            # "Python 3.9 or curl": neither of them must be there.
            if not str(python) and not (several and len(found) == 1 and _PYTHON.search(clause)):
                python = _python(clause)
            programs |= dict(found)
            network = network or bool(_NETWORK.search(clause) and not _OFFLINE.search(clause))
            named = _SYSTEM.search(clause)
            if named is not None and (needed or not clause[: named.start()].strip()):
                system = named[0]
    if system is not None and _OURS.search(text):
        system = None
    return Compatibility(python, tuple(programs.items()), network, system)


def _clauses(sentence: str) -> list[str]:
    """The parts of a sentence that one "not" or "optional" speaks of."""
    found: list[str] = []
    # "uv (or pip)" is "uv or pip"; what else stands in parentheses is said beside the rest.
    sentence = re.sub(r"\((or\b[^()]*)\)", r" \1 ", sentence)
    inner = _INNER.findall(sentence)
    for part in re.split(
        r",?\s+\b(?:but|although|though|while|whereas)\b", _INNER.sub(" ", sentence)
    ):
        lead, *listed = re.split(r",\s*(?!<)(?:(?:and|or)\s+)?", part)
        found.append(lead)
        for item in listed:
            # "no docker, git or jq": what begins a list holds until another verb comes.
            if _NOT_NEEDED.search(found[-1]) and not _NEEDED.match(item.lstrip()):
                found[-1] += f", {item}"
            else:
                found.append(item)
    if not any(map(_NOT_NEEDED.search, found)):
        found += [piece for text in inner for piece in text.split(",")]
    return found


def _python(clause: str) -> SpecifierSet:
    found = _PYTHON.search(clause)
    if found is None:
        return SpecifierSet()
    version, last = found["version"], found["last"]
    if last is not None:
        return SpecifierSet(f">={version},<={last}.99")
    if found["bound"] is not None:
        return SpecifierSet(f">={version},{found['below']}{found['bound']}")
    if found["op"] in ("==", "=") and not found["more"]:
        return SpecifierSet(f"=={version}.*" if version.count(".") < 2 else f"=={version}")
    if found["op"] == "~=" and "." in version:
        return SpecifierSet(f"~={version}")
    if version.startswith("2"):
        return SpecifierSet(f">={version}" if found["more"] else f"=={version}.*")
    # "Python 3.10" in such a sentence is the oldest one that was tried.
    return SpecifierSet(f">={version}")


def _programs(clause: str, needed: bool) -> tuple[list[tuple[str, tuple[str, ...]]], bool]:
    """The programs that a clause asks for, and whether it names several of which one will do."""
    clause = _ADDRESS.sub(" ", clause)
    parts = re.split(r"/|\bor\b(?!\s+(?:later|newer|higher|above|up|greater))", clause)
    found = [_words(part, needed) for part in parts]
    if len(parts) == 1:
        return found[0], False
    together = [each for words in found for each in words]
    # "curl or any HTTP client": that one of those is there cannot be told.
    if not all(words or _PYTHON.search(part) for words, part in zip(found, parts, strict=True)):
        return [], True
    if any(map(_PYTHON.search, parts)):
        return [], True
    names = tuple(name for _, each in together for name in each)
    return [(" or ".join(word for word, _ in together), names)], True


def _words(part: str, needed: bool) -> list[tuple[str, tuple[str, ...]]]:
    found = []
    for match in _WORD.finditer(part):
        word, before, after = match[0], part[: match.start()], part[match.end() :]
        name = word.lower()
        if name not in _PROGRAMS or _INSTALLS.match(after):
            continue
        if name in _AMBIGUOUS:
            cased = word in (_CASED.get(name), name) and (name != "r" or word == "R")
            if not (needed and cased and _LISTED.search(before) and _ENDED.match(after)):
                continue
        elif word.isupper() and not re.match(r"\s+CLI\b", after):
            continue  # AWS and SSH are more than programs
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
    if asked.system is not None:
        found.append(f"It asks for {asked.system}; sandboxes are Linux.")
    if there is not None:
        lacking = [
            word if " or ".join(names) == word.lower() else f"{word} ({' or '.join(names)})"
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
