"""docs/time-travel.md does what it says: its script and its commands, as they stand there."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.fixtures.commands import Reprise

PAGE = (Path(__file__).parents[2] / "docs" / "time-travel.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)


def test_the_page_works_as_it_stands(tmp_path: Path) -> None:
    (script,) = blocks("python")
    # A home of its own: the page shows all sessions that there are.
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    reprise = Reprise(home)
    folder = tmp_path / "lab"
    folder.mkdir()
    (folder / "trip.py").write_text(script)
    told = {}
    # One shell for all of the page: a later block uses what an earlier one has set.
    text = "set -euo pipefail\n"
    for number, block in enumerate(blocks("bash")):
        text += f"exec > block-{number}\n{block}"
    environ = {**reprise.environ, "REPRISE_BACKEND": "bubblewrap"}
    environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", text],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    for number in range(len(blocks("bash"))):
        told[number] = (folder / f"block-{number}").read_text()
    shown, past, back, forked, taken, proven, handed, gone = told.values()
    assert "prices.clear()" in shown
    assert "+TOTAL 16" in past
    assert past.endswith("total 16\n")
    assert "goes on after step 3" in back
    assert "total 16\nand a line\n" in forked
    assert len(re.findall("after step 3", forked)) == 2
    assert (folder / "out.txt").read_text() == "total 16\nand a line\n"
    assert "report.txt" in taken
    assert "5 same" in proven
    assert "Content-Security-Policy" in (folder / "report.html").read_text()
    assert "match their digests" in handed
    assert "2 forks are deleted" in gone
