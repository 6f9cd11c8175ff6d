"""docs/agent.md: its program runs as it stands there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from reprise_server.agent.scripted import Call, ScriptedModel, reply, says

PAGE = Path(__file__).parents[2] / "docs" / "agent.md"


def test_the_program_of_the_page_runs(
    talks_dsn: str, scripted: Callable[..., ScriptedModel], tmp_path: Path
) -> None:
    [program] = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    model = scripted([reply(Call("list_files", {"path": "."})), says("Two files.")])
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("a")
    environ = {**os.environ, "REPRISE_DSN": talks_dsn, "REPRISE_HOME": str(tmp_path / "home")}
    subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path / "work",
        env=environ,
        check=True,
        timeout=120,
    )
    [result] = model.exchanges[-1].asked.results
    assert "a.txt" in result.text
