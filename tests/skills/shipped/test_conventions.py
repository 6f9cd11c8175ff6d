"""Every shipped skill keeps the rules that skills/README.md states, and those of the format."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

from reprise.skills.check import check
from reprise.skills.contract import Skill
from reprise.skills.requirements import needs_of
from reprise.skills.shipped import folder, shipped, shipped_digests
from reprise.skills.tokens import estimate
from tests.skills.shipped.scripts import run

SKILLS = {skill.name: skill for skill, _ in shipped()}
SCRIPTS = [
    (name, path.removeprefix("scripts/"))
    for name, skill in SKILLS.items()
    for path in sorted(skill.tree.manifest.by_path)
    if re.fullmatch(r"scripts/[^/]+", path)
]
#: What a script must not reach for: it works without a network.
NETWORK = {"socket", "urllib.request", "http", "requests", "httpx", "aiohttp", "ftplib", "smtplib"}
#: Starts programs: interpreters of its own, which is what it is for.
STARTS_PROGRAMS = {("explain-divergence", "probe_causes.py")}
MODULES = {"markdown-it-py": "markdown_it"}


@pytest.fixture(params=sorted(SKILLS))
def skill(request: pytest.FixtureRequest) -> Skill:
    return SKILLS[request.param]


@pytest.fixture(params=SCRIPTS, ids="/".join)
def script(request: pytest.FixtureRequest) -> tuple[str, str]:
    found: tuple[str, str] = request.param
    return found


def test_there_are_at_least_five() -> None:
    assert len(SKILLS) >= 5
    assert {name for name, _ in SCRIPTS} == set(SKILLS)


def test_the_strict_check_finds_nothing(skill: Skill) -> None:
    assert check(skill.tree, folder=skill.name) == []
    assert skill.findings == ()


def test_a_model_can_bear_it(skill: Skill) -> None:
    assert len(skill.body.splitlines()) < 500
    assert estimate(skill.body) < 2_500
    assert estimate(f"{skill.name} {skill.description}") < 160
    assert skill.compatibility is not None


def test_what_the_body_names_is_there_and_all_scripts_are_named(skill: Skill) -> None:
    named = set(re.findall(r"(?<![\w/.])((?:scripts|references)/[\w./-]+\w)", skill.body))
    assert {path for path in named if skill.tree.get(path) is None} == set()
    for name, path in SCRIPTS:
        if name == skill.name:
            assert f"scripts/{path}" in named, path


def test_only_scripts_are_executable(skill: Skill) -> None:
    executable = {entry.path for entry in skill.tree.manifest if entry.mode & 0o100}
    assert executable == {f"scripts/{path}" for name, path in SCRIPTS if name == skill.name}


def test_a_script_says_what_it_needs_and_imports_nothing_else(script: tuple[str, str]) -> None:
    name, path = script
    root = folder() / name / "scripts"
    source = (root / path).read_bytes()
    assert source.startswith(b"#!/usr/bin/env python3\n")
    needs = needs_of(source, path)
    assert str(needs.python) == ">=3.11"
    declared = {MODULES.get(each.name, each.name) for each in needs.dependencies}
    imported, seen = set(), {root / path}
    waiting = [root / path]
    while waiting:
        for dotted in imports(waiting.pop()):
            top = dotted.partition(".")[0]
            own = [root.joinpath(*dotted.split(".")).with_suffix(".py"), root / f"{top}.py"]
            found = [each for each in own if each.exists()]
            waiting += [each for each in found if each not in seen]
            seen |= set(found)
            if not found and not (root / top).is_dir() and top not in sys.stdlib_module_names:
                imported.add(top)
    assert imported - {"numpy"} == declared  # the probe seeds numpy where a notebook has it


def test_a_script_reaches_for_no_network_and_starts_nothing(script: tuple[str, str]) -> None:
    name, path = script
    found = {
        dotted
        for each in (folder() / name / "scripts").rglob("*.py")
        for dotted in imports(each)
        if each.name == path or each.parent.name != "scripts"
    }
    assert {each for each in found if each in NETWORK or each.partition(".")[0] in NETWORK} == set()
    if script not in STARTS_PROGRAMS:
        assert "subprocess" not in found


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    found.discard("__future__")
    return {each for each in found if not each.startswith("__future__")}


def test_a_script_explains_itself(script: tuple[str, str]) -> None:
    done = run(*script, "--help")
    assert done.code == 0
    assert done.err == ""
    assert "examples:" in done.out
    assert re.search(r"exit codes:\n  0  .+\n  .*2  ", done.out, re.DOTALL)


def test_a_script_that_is_used_wrongly_says_so_in_words(script: tuple[str, str]) -> None:
    for args in ((), ("--no-such-option",), ("no/such/file.json", "no/such/file.json")):
        done = run(*script, *args)
        assert done.code == 2, args
        assert done.out == ""
        assert done.err.strip()


def test_the_scripts_change_nothing_of_the_skill() -> None:
    before = shipped_digests()
    for script in SCRIPTS:
        run(*script, "--help")
    assert shipped_digests() == before
    assert not [path for path in folder().rglob("*") if path.suffix == ".part"]


def test_the_page_and_the_readme_name_each_skill_and_script() -> None:
    root = Path(__file__).parents[3]
    page = (root / "docs" / "shipped-skills.md").read_text()
    for name, path in SCRIPTS:
        assert f"## `{name}`" in page, name
        assert path in page, path
    assert all(name in (root / "skills" / "README.md").read_text() for name in SKILLS)
