"""docs/moving-skills.md does what it says: its commands and its program, as they stand there."""

import os
import re
import subprocess
import sys
from pathlib import Path

from reprise.skills.folder import read_folder, write_folder
from tests.fixtures.commands import Reprise
from tests.fixtures.skill_sources import committed, git, skill

PAGE = (Path(__file__).parents[2] / "docs" / "moving-skills.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)


def test_the_page_works_as_it_stands(reprise: Reprise, elsewhere: Path, tmp_path: Path) -> None:
    here = tmp_path / "project"
    here.mkdir()
    served = tmp_path / "served" / "team" / "skills.git"
    committed(served, {"count-rows": skill("count-rows", body="Count.\n"), "other": skill("other")})
    git(served, "tag", "v1")
    (elsewhere / ".gitconfig").write_text(
        f'[url "file://{tmp_path}/served/"]\n\tinsteadOf = https://example.org/\n'
    )
    write_folder(skill("count-rows"), elsewhere / ".claude/skills/count-rows")
    environ = {**reprise.environ, "HOME": str(elsewhere), "GIT_CONFIG_NOSYSTEM": "1"}
    environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environ['PATH']}"

    def run(*words: str) -> str:
        done = subprocess.run(
            words, cwd=here, env=environ, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    from_tool, to_tool, from_git, since, market = blocks("bash")
    said = run("bash", "-euc", from_tool)
    assert "new        count-rows" in said
    assert "added      personal:count-rows@1" in said
    run("bash", "-euc", to_tool)
    assert read_folder(here / ".agents/skills/count-rows").digest == skill("count-rows").digest
    said = run("bash", "-euc", from_git)
    assert "changed    count-rows" in said
    assert "added      personal:count-rows@2" in said
    assert "added      personal:other@1" in said
    new = skill("count-rows", body="Count all.\n")
    committed(served, {"count-rows": new})
    # It came at a tag, then by the default branch: what a sync follows is that of the version here.
    run("reprise", "skills", "import", "https://example.org/team/skills.git")
    committed(served, {"count-rows": skill("count-rows", body="Count them all.\n")})
    said = run("bash", "-euc", since)
    assert "+Count them all." in said
    assert "→ personal:count-rows@4" in said
    said = run("bash", "-euc", market)
    assert "added      count-rows 1.0.0" in said
    assert "unchanged  personal:count-rows@4" in said
    (program,) = blocks("python")
    assert run(sys.executable, "-c", program).startswith("count-rows ")
    assert (here / "elsewhere/.agents/skills/count-rows/SKILL.md").is_file()


def test_the_page_names_the_places_that_are_read_and_written() -> None:
    for place in (".claude/skills", ".agents/skills", ".gemini/skills", "/etc/codex/skills"):
        assert place in PAGE
