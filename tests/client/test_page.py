"""The examples of docs/client.md run as they stand, in the order in which a reader meets them."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest

import reprise.client
from reprise.client import Bound, Patience, aconnect, connect

PAGE = Path(__file__).parents[2] / "docs" / "client.md"


def examples() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def is_asynchronous(code: str) -> bool:
    tree = compile(code, "page", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    return any(isinstance(node, ast.AsyncFor | ast.Await) for node in ast.walk(tree))


def test_the_page_names_what_there_is() -> None:
    text = PAGE.read_text()
    for name in ("StepFailed", "KernelGone", "NoAnswer", "Refused", "ClientClosed", "Patience"):
        assert name in text
        assert hasattr(reprise.client, name)
    methods = set(re.findall(r"\bkernel\.(\w+)\(", text))
    assert len(methods) > 12
    assert {m for m in methods if not hasattr(reprise.client.Kernel, m)} == set()


def test_the_examples_run(
    env: dict[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    host = tmp_path / "host"
    (host / "skills" / "plotting").mkdir(parents=True)
    (host / "skills" / "plotting" / "SKILL.md").write_text("# plotting\n")
    (host / "project").mkdir()
    (host / "project" / "Makefile").write_text("test:\n\ttrue\n")
    (host / "out").mkdir()
    (host / "data.csv").write_text("b\na\nb\n")
    (host / "raw.csv").write_text("x\n")
    monkeypatch.chdir(host)
    asked = [code for code in examples() if not is_asynchronous(code)]
    assert len(asked) >= 10
    with connect(folder=folder, patience=Patience(start=120)) as kernel:
        kernel.upload("data.csv", bound=Bound(bytes=1000))
        kernel.upload("project", "project")
        kernel.upload(b"model", "model.bin")
        kernel.run("def load():\n    import pandas\n    return pandas.DataFrame({'a': [1, 1]})")
        while kernel.steps()[-1].step.seq < 8:
            kernel.run("pass")
        told: dict[str, Any] = {}
        for code in asked:
            told["kernel"] = kernel
            if "check=True" in code:
                with pytest.raises(reprise.client.StepFailed):
                    exec(compile(code, str(PAGE), "exec"), told)
            else:
                exec(compile(code, str(PAGE), "exec"), told)
        assert (host / "out" / "counts.txt").read_text().split() == ["1", "a", "2", "b"]
        assert kernel.run("len(df)").value == "2"


async def test_the_asynchronous_examples_run(env: dict[str, str], folder: Path) -> None:
    asked = [code for code in examples() if is_asynchronous(code)]
    assert asked
    async with await aconnect(folder=folder, env=env) as kernel:
        for code in asked:
            told: dict[str, Any] = {"kernel": kernel}
            body = compile(code, str(PAGE), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            await eval(body, told)
            assert told["result"].stdout == "0\n1\n2\n"
