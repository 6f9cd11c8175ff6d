"""The README's commands, pages and links are those that exist."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```\w*\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def test_the_first_block_installs_and_runs_the_demo_the_second_runs_the_tests() -> None:
    first, second = BLOCKS
    assert first.strip().splitlines()[-1].endswith("reprise demo")
    assert second.strip().splitlines()[-1].endswith("pytest")
    for block in BLOCKS:
        assert block.startswith("python3 -m venv .venv ")
        assert len(block.strip().splitlines()) == 1


@pytest.mark.parametrize("number", [1, 2])
def test_ci_runs_exactly_what_the_readme_says(number: int) -> None:
    script = (ROOT / ".ci" / "run").read_text()
    function = re.search(r"^readme_block\(\) \{.*?^\}", script, re.MULTILINE | re.DOTALL)
    assert function is not None
    shown = subprocess.run(
        ["bash", "-c", f"{function[0]}\nreadme_block {number}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout == BLOCKS[number - 1]
    assert f"readme_block {number}" in script.replace(function[0], "")


@pytest.mark.parametrize(
    "path",
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))],
    ids=lambda path: path.name,
)
def test_every_link_to_a_file_leads_to_one(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", path.read_text()):
        if "://" not in target:
            assert (path.parent / target).exists(), target
