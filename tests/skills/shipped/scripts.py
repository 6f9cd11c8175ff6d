"""Runs the scripts of shipped skills as a session does, and imports their modules to be attacked."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from reprise.skills.shipped import folder

#: Of one script, on a machine that is busy.
PATIENCE = 120


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def run(
    skill: str, script: str, *args: str | Path, workspace: Path | None = None, strict: bool = True
) -> Done:
    """cwd is the skill's root, as in a session. strict: a warning of Python is an error."""
    root = folder() / skill
    environ = {name: value for name, value in os.environ.items() if not name.startswith("REPRISE_")}
    environ["PYTHONDONTWRITEBYTECODE"] = "1"
    if workspace is not None:
        environ["REPRISE_WORKSPACE"] = str(workspace)
    done = subprocess.run(
        [
            *(sys.executable, *(("-W", "error") if strict else ())),
            *(f"scripts/{script}", *map(str, args)),
        ],
        cwd=root,
        env=environ,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        stdin=subprocess.DEVNULL,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return Done(done.returncode, done.stdout, done.stderr)


def module(skill: str, name: str) -> ModuleType:
    """A module of a skill's scripts; their names are different in every skill."""
    place = str(folder() / skill / "scripts")
    keep, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    sys.path.insert(0, place)
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(place)
        sys.dont_write_bytecode = keep


def notebook(*cells: str | dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """A notebook of format 4; a text is a code cell that ran in its turn."""
    made = []
    for number, cell in enumerate(cells, 1):
        given = {"source": cell} if isinstance(cell, str) else cell
        kind = given.get("cell_type", "code")
        whole = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}, "source": "", **given}
        if kind == "code":
            whole = {"execution_count": number, "outputs": [], **whole}
        made.append(whole)
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": made}


def saved(place: Path, book: dict[str, Any], name: str = "book.ipynb") -> Path:
    path = place / name
    path.write_text(json.dumps(book))
    return path


def stream(text: str, name: str = "stdout") -> dict[str, Any]:
    return {"output_type": "stream", "name": name, "text": text}


def shown(**data: Any) -> dict[str, Any]:
    """A rich output; a type is given with its slash as two underscores: text__html."""
    bundle = {key.replace("__", "/"): value for key, value in data.items()}
    return {"output_type": "display_data", "metadata": {}, "data": bundle}
