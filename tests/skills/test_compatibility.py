"""Sentences about what a skill needs are understood as far as they can be, and never more."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from reprise.skills.compatibility import understood, warnings


@pytest.mark.parametrize(
    ("text", "python", "programs", "network"),
    [
        # From the specification and its guides.
        ("Requires Python 3.14+ and uv", ">=3.14", ["uv"], False),
        ("Designed for Claude Code (or similar products)", "", [], False),
        ("Requires git, docker, jq, and access to the internet", "", ["git", "docker", "jq"], True),
        # As authors write them.
        ("Python 3.10+, pandas, no network access needed", ">=3.10", [], False),
        ("Requires Node.js 18 or later and npm. Internet optional.", "", ["node", "npm"], False),
        ("Works offline; no Docker, git or jq required", "", [], False),
        ("Needs R with tidyverse", "", ["Rscript"], False),
        ("Python >=3.9", ">=3.9", [], False),
        ("Python ≥ 3.11, network access", ">=3.11", [], True),
        ("Python 3.9-3.12 with network access", "<=3.12.99,>=3.9", [], True),
        ("Python == 3.11", "==3.11.*", [], False),
        ("Python 3.11.x or newer", ">=3.11", [], False),
        ("Requires Python 3", ">=3", [], False),
        ("Python 2.7 only", "==2.7.*", [], False),
        ("Requires ffmpeg (optional: imagemagick)", "", ["ffmpeg"], False),
        ("Requires git but not docker", "", ["git"], False),
        ("Does not require network access, but needs curl", "", ["curl"], False),
        ("No dependencies. Requires network access to api.example.org", "", [], True),
        ("Requires LibreOffice and poppler-utils", "", ["soffice", "libreoffice", "pdftotext"], False),
        ("Tested with Claude Code and Codex; works with git", "", [], False),
        ("Requires make, go and a network", "", ["make", "go"], True),
        ("Helps to make a plan and go on", "", [], False),
        ("Requires outbound HTTPS access", "", [], True),
        ("Needs ripgrep (rg) on PATH", "", ["rg"], False),
        ("No network, requires git", "", ["git"], False),
        # Kinds of phrases that thousands of public skills have.
        ("Requires npx (Node.js 18+) or Docker", "", ["npx", "docker", "node"], False),
        ("Requires curl or any HTTP client", "", [], False),
        ("Requires Python 3.10+ or Node.js 18+", ">=3.10", [], False),
        ("Requires Python 3.10+, uv (or pip), and network access", ">=3.10", [], True),
        ("Requires Node.js 18+ and npm/bun/yarn", "", ["node", "npm", "bun", "yarn"], False),
        ("Requires HTTPS access plus Python 3.9+ or curl", ">=3.9", [], True),
        ("Python 3.9+ · no dependencies · network access to a server", ">=3.9", [], True),
        ("Python 3.9+ - stdlib only - network access to RSS feeds", ">=3.9", [], True),
        ("Python 3.10+ (stdlib only — no dependencies)", ">=3.10", [], False),
        ("Requires Python >=3.10,<3.13. Uses AWS and SSH access", "<3.13,>=3.10", [], False),
        ("Requires AWS CLI", "", ["aws"], False),
        ("Install with uv pip install x or npm install -g y", "", [], False),
        ("Requires the yutu CLI (brew install yutu)", "", [], False),
        ("Uses the @transloadit/node CLI; paths are s3://a or az://b", "", [], False),
        ("Chrome must be running. It helps agents make calls", "", [], False),
        ("Requires Go 1.25+, CGO_ENABLED=1, and gcc or clang", "", ["go", "gcc", "clang"], False),
        ("Optional LibreOffice (Office formats). Bundled Tesseract", "", [], False),
        ("", "", [], False),
        (None, "", [], False),
    ],
)  # fmt: skip
def test_real_phrases(text: str | None, python: str, programs: list[str], network: bool) -> None:
    asked = understood(text)
    assert ",".join(sorted(str(asked.python).split(","))) == python
    assert sorted(asked.names) == sorted(programs)
    assert asked.network is network


def test_what_is_not_so_is_a_sentence_each() -> None:
    asked = understood("Requires Python 3.14+, git, LibreOffice and access to the internet")
    said = warnings(asked, python=Version("3.11.7"), there={"git"}, network=False)
    assert said == [
        "It asks for Python >=3.14; this session has 3.11.7.",
        "It asks for LibreOffice (soffice or libreoffice), which this session does not have.",
        "It asks for a network, and this session's environment has none. `reprise env allow HOST` lets it reach a host.",
    ]


@pytest.mark.parametrize(
    ("text", "system"),
    [
        ("Requires macOS with Notes.app", "macOS"),
        ("darwin", "darwin"),
        ("Windows 11, PowerShell 7", "Windows"),
        ("Requires macOS or Linux", None),
        ("Works on macOS, Linux, and Windows", None),
        ("Windows (WSL is fine)", None),
        ("Requires Node.js. Does not need macOS", None),
        ("Opens windows on the screen", None),
    ],
)
def test_a_system_that_no_sandbox_is(text: str, system: str | None) -> None:
    asked = understood(text)
    assert asked.system == system
    said = warnings(asked, python=None, there=None, network=None)
    assert said == ([] if system is None else [f"It asks for {system}; sandboxes are Linux."])


def test_one_of_several_programs_is_enough() -> None:
    asked = understood("Requires gcc or clang, and LibreOffice")
    assert warnings(asked, python=None, there={"clang", "soffice"}, network=None) == []
    (said,) = warnings(asked, python=None, there=(), network=None)
    assert "gcc or clang, LibreOffice (soffice or libreoffice), which" in said


def test_what_is_so_or_not_known_is_not_warned_of() -> None:
    asked = understood("Requires Python 3.14+, git, LibreOffice and access to the internet")
    there = {"git", "libreoffice"}
    assert warnings(asked, python=Version("3.14.0rc1"), there=there, network=True) == [
        "It asks for Python >=3.14; this session has 3.14.0rc1."
    ]
    assert warnings(asked, python=Version("3.15"), there=there, network=True) == []
    assert warnings(asked, python=None, there=None, network=None) == []


@given(st.text(max_size=600))
def test_no_sentence_breaks_it(text: str) -> None:
    for said in (text, f"Requires Python {text}", f"python 3.{text} git, {text}"):
        warnings(understood(said), python=Version("3.11"), there=(), network=False)


def test_a_long_one_takes_no_time() -> None:
    for piece in ("python 3.11 ", "no , ", "requires (", "git, and ", "- ", "a.a"):
        understood(piece * 100_000)
