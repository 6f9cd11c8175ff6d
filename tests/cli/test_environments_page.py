"""docs/environments.md does what it says: its script and its commands, as they stand there."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.fixtures.commands import Reprise
from tests.fixtures.wheels import Wheelhouse, configured, wheel

PAGE = (Path(__file__).parents[2] / "docs" / "environments.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)


def test_the_page_works_as_it_stands(real_wheelhouse: Wheelhouse, tmp_path: Path) -> None:
    house = tmp_path / "house"
    house.mkdir()
    for path in real_wheelhouse.folder.iterdir():
        os.link(path, house / path.name)
    # What the page asks of an index, as far as its script goes.
    wheel(house, "humanize", "4.9", {"humanize.py": "def intcomma(n): return f'{n:,}'\n"})
    folder, home, other = (tmp_path / name for name in ("notebooks", "home", "other"))
    folder.mkdir()
    home.mkdir(mode=0o700)
    other.mkdir(mode=0o700)
    wheel(folder, "extra", "1.0")
    (script,) = blocks("python")
    (folder / "count.py").write_text(script)
    # One shell for all of the page: a later block uses what an earlier one has set.
    text = "set -euo pipefail\n"
    for number, block in enumerate(blocks("bash")):
        text += f"exec > block-{number}\n{block}"
    cache = Path(real_wheelhouse.variables["UV_CACHE_DIR"])
    reprise = Reprise(home, configured(house, cache).variables)
    environ = {**reprise.environ, "REPRISE_BACKEND": "bubblewrap", "OTHER_HOME": str(other)}
    environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", text], cwd=folder, env=environ, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    told = [(folder / f"block-{number}").read_text() for number in range(len(blocks("bash")))]
    made, said, verified, elsewhere, promoted, looked = told
    assert "Added, since a kernel needs them: ipykernel, pyzmq, pip." in made
    assert said.splitlines()[0] == "'1,000,000'"
    assert "1 same" in verified or "2 same" in verified
    digest = re.search(r"Built ([0-9a-f]{12})", made)
    assert digest is not None
    assert digest[1] in elsewhere
    assert promoted.endswith("extra 1.0 added\n")
    assert "better" in looked
    assert "files are as they were" in looked
