"""docs/running-skills.md does what it says: its commands and its scripts, as they stand there."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from reprise.client import connect
from tests.fixtures.commands import Reprise
from tests.fixtures.skill_runs import SkillBench

PAGE = (Path(__file__).parents[2] / "docs" / "running-skills.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)


async def test_the_page_works_as_it_stands(skill_bench: SkillBench, tmp_path: Path) -> None:
    (skill_bench.folder / "rentals.csv").write_text("day,rented\n1,20\n2,30\n")
    kernel = await skill_bench.client()
    environ = {
        **Reprise(tmp_path / "home", skill_bench.environ).environ,
        "SESSION": str(kernel.session),
    }
    environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environ['PATH']}"

    async def run(*words: str) -> str:
        done = await asyncio.to_thread(
            subprocess.run,
            words,
            cwd=skill_bench.folder,
            env=environ,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    profiled, counted = [await run("bash", "-euc", block) for block in blocks("bash")]
    assert '"rows": 2' in profiled
    assert "cd /skills/profile-dataset; python3 scripts/profile_dataset.py" in profiled
    assert counted.splitlines()[-1] == "3"

    script, metadata, client = blocks("python")
    said = await run(sys.executable, "-c", script)
    assert said.startswith("0 usage: profile_dataset.py")
    assert said.splitlines()[-1] == "personal:profile-dataset@1"
    assert metadata.startswith("# /// script\n")

    def ask() -> dict[str, Any]:
        with connect(folder=skill_bench.folder, env=skill_bench.environ) as plain:
            told: dict[str, Any] = {"kernel": plain}
            exec(compile(client, "page", "exec"), told)
        return told

    told = await asyncio.to_thread(ask)
    assert told["result"].stdout == "3\n"
    assert told["mounted"].path == "/skills/count-rows"
