"""The tools themselves see what is exported for them, where this machine has them."""

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from reprise.skills.export import export_to
from reprise.skills.sources import look_in_tool
from tests.fixtures.skill_sources import git, skill
from tests.fixtures.untested import NOT_TESTED

PATIENCE = 120


def program(name: str, package: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{NOT_TESTED} no {name} (`npm install -g {package}`)")
    return found


@pytest.fixture
def project(tmp_path: Path, elsewhere: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    git(folder, "init", "--quiet")
    return folder


def test_gemini_cli_finds_what_was_written_for_it(project: Path, elsewhere: Path) -> None:
    gemini = program("gemini", "@google/gemini-cli")
    export_to("gemini", {"of-user": skill("of-user")}, None)
    export_to("gemini", {"of-project": skill("of-project")}, project)
    done = subprocess.run(
        [gemini, "skills", "list"],
        cwd=project,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env={**os.environ, "GEMINI_CLI_TRUST_WORKSPACE": "true"},
    )
    said = done.stdout + done.stderr
    assert str(elsewhere / ".gemini/skills/of-user/SKILL.md") in said
    assert str(project / ".gemini/skills/of-project/SKILL.md") in said


def skills_of_codex(codex: str, project: Path) -> dict[str, Any]:
    """What Codex's own server says when it is asked for its skills in a project."""
    asked = [
        {"id": 1, "method": "initialize", "params": {"clientInfo": {"name": "t", "version": "1"}}},
        {"method": "initialized"},
        {"id": 2, "method": "skills/list", "params": {"cwds": [str(project)], "forceReload": True}},
    ]
    with subprocess.Popen(
        [codex, "app-server"],
        cwd=project,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            for message in asked:
                process.stdin.write(json.dumps(message) + "\n")
            process.stdin.flush()
            for line in process.stdout:
                said = json.loads(line)
                if said.get("id") == 2:
                    (here,) = said["result"]["data"]
                    return dict(here)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
    raise AssertionError("Codex ended without an answer")


def test_codex_finds_what_was_written_for_it_and_its_own_ones_are_left(
    project: Path, elsewhere: Path
) -> None:
    codex = program("codex", "@openai/codex")
    export_to("codex", {"of-user": skill("of-user")}, None)
    export_to("codex", {"of-project": skill("of-project")}, project)
    here = skills_of_codex(codex, project)
    found = {each["name"]: each["path"] for each in here["skills"]}
    assert here["errors"] == []
    assert found["of-user"] == str(elsewhere / ".agents/skills/of-user/SKILL.md")
    assert found["of-project"] == str(project / ".agents/skills/of-project/SKILL.md")
    taken = [each.name for each in look_in_tool("codex", project).found]
    assert taken == ["of-project", "of-user"]
