"""The model itself: its programs do to a real interpreter and a real folder what it says they do."""

from __future__ import annotations

import contextlib
import io
import os
import stat
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.model.draws import NAMES, file_actions, programs, variable_actions
from tests.model.programs import (
    UMASK,
    Did,
    File,
    Files,
    Folder,
    Link,
    Program,
    Remove,
    Say,
    State,
    Write,
)

alone = st.lists(st.one_of(variable_actions, file_actions), min_size=1, max_size=4).map(tuple)
cells = st.builds(Program, alone, st.sampled_from(("ok", "raise")))


def standing(folder: Path) -> Files:
    found: Files = {}
    for path in folder.rglob("*"):
        name, mode = str(path.relative_to(folder)), stat.S_IMODE(path.lstat().st_mode)
        if path.is_symlink():
            found[name] = Link(os.readlink(path))
        elif path.is_dir():
            found[name] = Folder(mode)
        else:
            found[name] = File(path.read_bytes(), mode)
    return found


def done_in_python(program: Program, namespace: dict[str, Any]) -> tuple[str | None, str]:
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        try:
            exec(program.cell(), namespace)
        except Exception as error:  # noqa: BLE001 - whatever it is, the model has to name it
            return type(error).__name__, said.getvalue()
    return None, said.getvalue()


def done_in_a_shell(program: Program) -> tuple[str | None, str]:
    ran = subprocess.run(["bash", "-c", program.command()], capture_output=True, timeout=60)
    return ("exit" if ran.returncode else None), ran.stdout.decode()


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])  # it starts shells
@given(st.lists(st.one_of(cells, programs(command=True).map(lambda p: ("shell", p))), max_size=8))
def test_programs_do_what_the_model_says(drawn: list[Program | tuple[str, Program]]) -> None:
    before, mask = Path.cwd(), os.umask(UMASK)
    state, namespace = State(), dict[str, Any]()
    try:
        with tempfile.TemporaryDirectory() as name:
            os.chdir(name)
            for each in drawn:
                if isinstance(each, tuple):
                    program, (error, text) = each[1], done_in_a_shell(each[1])
                else:
                    program, (error, text) = each, done_in_python(each, namespace)
                did = program.run(state)
                wanted = "exit" if did.error and isinstance(each, tuple) else did.error
                assert (wanted, did.text) == (error, text), program
                assert standing(Path(name)) == state.files
                there = {n: namespace[n] for n in NAMES if n in namespace}
                assert there == state.variables
                shared = {(a, b) for a in there for b in there if there[a] is there[b]}
                variables = state.variables
                assert {(a, b) for a, b in shared if isinstance(there[a], list)} == {
                    (a, b)
                    for a in variables
                    for b in variables
                    if variables[a] is variables[b] and isinstance(variables[a], list)
                }
            os.chdir(before)
    finally:
        os.chdir(before)
        os.umask(mask)


def test_a_copy_of_a_state_keeps_what_is_shared_and_shares_nothing_with_it() -> None:
    state = State()
    state.variables["a"] = state.variables["b"] = [1]
    copied = state.copy()
    copied.variables["a"].append(2)
    assert copied.variables["b"] == [1, 2]
    assert state.variables["b"] == [1]


def test_what_a_program_did_is_told_with_where_it_failed() -> None:
    program = Program((Write("f", b""), Remove("f"), Remove("f"), Say("a")), "raise")
    assert program.run(State()) == Did("FileNotFoundError", "", 2)
    assert Program((), "raise").run(State()) == Did("ValueError", "", 0)
