"""docs/writing-skills.md does what it says: its example is written, checked and mended as there."""

import os
import re
import subprocess
import sys
from pathlib import Path

from reprise.skills.folder import read_folder
from tests.fixtures.commands import Reprise

PAGE = (Path(__file__).parents[2] / "docs" / "writing-skills.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)


def test_the_page_works_as_it_stands(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    environ = {**Reprise(home).environ, "LC_ALL": "C.UTF-8"}
    environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environ['PATH']}"
    _tree, *shown = blocks("text")
    told = []
    for block in blocks("bash"):
        done = subprocess.run(
            ["bash", "-euc", block],
            cwd=tmp_path,
            env=environ,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        assert not done.stderr
        told.append(done.stdout)
    digest = read_folder(tmp_path / "count-rows").digest
    assert told == [text.replace("DIGEST", digest) for text in shown]
    # Nobody else's: the author's own script, which the page prints.
    table = tmp_path / "orders.csv"
    table.write_text("id,item\n1,a\n2,b\n")
    counted = subprocess.run(
        [tmp_path / "count-rows/scripts/count.py", table.name],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert counted.stdout == '{"orders.csv": 2}'
