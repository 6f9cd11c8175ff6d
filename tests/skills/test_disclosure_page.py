"""docs/skill-disclosure.md does what it says; docs/skills-security.md names tests that are there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from reprise.skills.choosing import BUDGET, WHOLE, Offer, choose
from reprise.skills.costs import MOST_COUNTED
from reprise.skills.counting import KEYS
from reprise.skills.disclosure import SEARCH_TOKENS
from reprise.skills.loaded import ACTIVE_TOKENS
from reprise.skills.part import MAX_SHOWN
from tests.fixtures.commands import Reprise

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "skill-disclosure.md").read_text()
SECURITY = (ROOT / "docs" / "skills-security.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)


def test_the_page_works_as_it_stands(reprise: Reprise, tmp_path: Path) -> None:
    (tmp_path / "rentals.ipynb").write_text('{"cells": [], "nbformat": 4, "nbformat_minor": 5}')
    environ = {**reprise.environ, **dict.fromkeys(KEYS, "")}
    environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environ['PATH']}"

    def run(*words: str) -> str:
        done = subprocess.run(
            words, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    [commands] = blocks("bash")
    said = run("bash", "-euc", commands)
    assert said.count("<skills>") == 2
    assert "its line in the catalog" in said
    [program] = blocks("python")
    told = run(sys.executable, "-c", program)
    assert "<skills-found>\n- profile-dataset: " in told
    assert '<skill name="profile-dataset"' in told


def test_the_page_shows_the_text_as_it_is() -> None:
    [shown] = blocks("text")
    head = "Skills are folders with instructions, and often scripts, for one kind of task."
    text = choose(
        [Offer("tidy-columns", "r@1", "0" * 64, "Renames columns.", standing="untrusted")]
    ).text
    for said in (head, "- tidy-columns (untrusted: nobody has approved it): "):
        assert said in shown
        assert said in text


def test_the_pages_numbers_are_those_of_the_code() -> None:
    for number in (BUDGET, SEARCH_TOKENS, MAX_SHOWN, ACTIVE_TOKENS, MOST_COUNTED):
        assert f"{number:,}" in PAGE, number
    long = [Offer(f"s-{n:03}", "r@1", "0" * 64, "word " * (WHOLE // 5)) for n in range(500)]
    told = [line for line in choose(long).text.splitlines() if line.startswith("- ")]
    assert max(map(len, told)) <= 140 + len('- s-000: ""')
    assert "at most 140 characters" in PAGE


def test_each_promise_names_a_test_that_is_there() -> None:
    named = set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", SECURITY))
    assert len(named) > 20
    for path, name in named:
        assert re.search(rf"^(async )?def {name}\(", (ROOT / path).read_text(), re.MULTILINE), name
