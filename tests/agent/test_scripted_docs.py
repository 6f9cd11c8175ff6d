"""docs/scripted-model.md says what is so: its script is served, its Python runs, its names exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest

from reprise_server.agent import scripted
from reprise_server.agent.scripted import Break, Hold, ScriptedModel, says
from reprise_server.agent.scripted.reading import _FAILURE, _REPLY, read_script
from tests.agent.toolboxes import all_tools

PAGE = (Path(__file__).parents[2] / "docs" / "scripted-model.md").read_text(encoding="utf-8")


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)


def test_the_script_is_one_and_calls_tools_that_there_are() -> None:
    [script] = blocks("json")
    steps = read_script(script)
    called = {part.tool for step in steps for part in step.parts if isinstance(part, scripted.Call)}  # type: ignore[union-attr]
    assert called
    assert called <= {tool.name for tool in all_tools()}


def test_the_fields_of_the_table_are_all_there_are() -> None:
    table = PAGE.partition("| field | meaning |")[2].partition("\n## ")[0]
    named = set(re.findall(r"`(\w+)`", table))
    assert named >= (_REPLY | _FAILURE)


def test_the_python_runs(capsys: pytest.CaptureFixture[str]) -> None:
    for code in blocks("python"):
        exec(compile(code, "scripted-model.md", "exec"), {})
    assert "http://127.0.0.1:" in capsys.readouterr().out


def test_what_the_table_says_to_write_can_be_written() -> None:
    table = PAGE.partition("| to have | write |")[2].partition("\n\n")[0]
    names: dict[str, Any] = {**vars(scripted), "hold": Hold(), "model": None, "my_clock": float}
    written = [row.split(" | ")[1] for row in table.splitlines() if row.startswith("| ")]
    codes = re.findall(r"`([A-Za-z][^`]*)`", "\n".join(written))
    for code in codes:
        # An ellipsis stands for what a reader has.
        tree = ast.parse(code.replace("(…, ", "("))
        used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        assert used <= names.keys(), code
    assert len(codes) > 8
    for how in ("end", "reset", "error", "hold"):
        assert f'"{how}"' in table
        says("…", broken=Break(3, how))  # type: ignore[arg-type]
    assert {"settle", "exchanges", "next"} <= {*dir(ScriptedModel), "exchanges"}
