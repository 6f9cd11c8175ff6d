"""Which program runs a script follows from its first line or its suffix, and stays in the skill."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprise.errors import BadSkill, UsageError
from reprise.skills.script import PYTHON, Script, find_script, first_line, scripts
from tests.skills.sample import sample, script


def found(text: str | bytes, path: str = "scripts/run") -> Script:
    return find_script(sample(files={path: text}), path)


@pytest.mark.parametrize(
    ("line", "program", "options"),
    [
        ("#!/usr/bin/env python3", PYTHON, ()),
        ("#!/usr/bin/python3 -u", PYTHON, ("-u",)),
        ("#! /usr/bin/env python", PYTHON, ()),
        ("#!/opt/conda/bin/python", PYTHON, ()),
        ("#!/usr/bin/env -S python3 -X utf8 -u", PYTHON, ("-X", "utf8", "-u")),
        ("#!/usr/bin/env --split-string=python3 -u", PYTHON, ("-u",)),
        ("#!/usr/bin/env -vS python3", PYTHON, ()),
        ("#!/usr/bin/env python3 -u", PYTHON, ("-u",)),
        ("\ufeff#!/usr/bin/env python3", PYTHON, ()),
        ("#!/usr/bin/env python3\r", PYTHON, ()),
        ("#!/usr/bin/env -S uv run --script", PYTHON, ()),
        (
            "#!/usr/bin/env -S uv run -q --no-project --script --index-url https://x python -u",
            PYTHON,
            ("-u",),
        ),
        ("#!/usr/bin/env -S pipx run", PYTHON, ()),
        ("#!/usr/bin/env pypy3", "pypy3", ()),
        ("#!/usr/bin/env python2", "python2", ()),
        ("#!/bin/bash", "bash", ()),
        ("#!/bin/bash -eu", "bash", ("-eu",)),
        ("#!/bin/sh -e -u", "sh", ("-e", "-u")),
        ("#!/usr/local/bin/node", "node", ()),
        ("#!/usr/bin/env -S node --no-warnings", "node", ("--no-warnings",)),
        ("#!/usr/bin/env -S deno run --allow-read", "deno", ("run", "--allow-read")),
        ("#!/usr/bin/env Rscript", "Rscript", ()),
        ("#!/opt/tool/bin/interpreter -x", "/opt/tool/bin/interpreter", ("-x",)),
        ("#!/usr/bin/env -i sh", "env", ("-i", "sh")),
        ("#!/usr/bin/env -u HOME python3", "env", ("-u", "HOME", "python3")),
        ("#!/usr/bin/env -S 'a program' '-x y' # said", "a program", ("-x y",)),
        ("#!/usr/bin/awk -f", "awk", ("-f",)),
        ("#!/usr/bin/env python3 # noqa: EXE", PYTHON, ()),
        ("#!/data/termux/usr/bin/bash", "/data/termux/usr/bin/bash", ()),
        ("#!/home/me/project/.venv/bin/python", PYTHON, ()),
    ],
)
def test_the_first_line_says_what_runs_it(
    line: str, program: str, options: tuple[str, ...]
) -> None:
    # No suffix, and one that says something else: the line counts.
    for path in ("scripts/run", "scripts/run.rb"):
        ran = found(f"{line}\nwhatever\n", path)
        assert (ran.program, ran.options) == (program, options)


@pytest.mark.parametrize(
    ("name", "program"),
    [
        *(
            ("a.py", PYTHON),
            ("a.PY", PYTHON),
            ("a.sh", "bash"),
            ("a.js", "node"),
            ("a.mjs", "node"),
        ),
        *(
            ("a.rb", "ruby"),
            ("a.R", "Rscript"),
            ("a.pl", "perl"),
            ("a.php", "php"),
            ("a.jl", "julia"),
        ),
        *(
            ("a.lua", "lua"),
            ("a.b.ts", "node"),
            ("a.zsh", "zsh"),
            ("a.awk", "awk"),
            ("a.ps1", "pwsh"),
        ),
    ],
)
def test_else_the_suffix_does(name: str, program: str) -> None:
    assert found("x\n", name).program == program


@pytest.mark.parametrize("name", ["notes.md", "data.csv", "run", ".py", "a.zig", "Makefile"])
def test_what_nothing_says_how_to_run_is_refused_with_what_can_be(name: str) -> None:
    tree = sample(files={name: "x\n", "scripts/good.py": "x\n"})
    with pytest.raises(UsageError, match=r"cannot be run(?s:.)*Its scripts: scripts/good\.py\."):
        find_script(tree, name)


def test_variables_that_env_sets_are_set() -> None:
    ran = found("#!/usr/bin/env -S A=1 B='x y' python3\n")
    assert (ran.program, dict(ran.variables)) == (PYTHON, {"A": "1", "B": "x y"})


def test_what_a_runner_was_asked_for_is_needed() -> None:
    line = "#!/usr/bin/env -S uv run --with rich>=13,jinja2 --with=pandas -p 3.12 --script\n"
    needs = found(line + "# /// script\n# dependencies = ['attrs']\n# ///\n").needs
    assert sorted(each.name for each in needs.dependencies) == ["attrs", "jinja2", "pandas", "rich"]
    assert str(needs.python) == "==3.12.*"


@pytest.mark.parametrize(
    ("word", "asked"),
    [
        ("3", "==3.*"),
        ("3.12", "==3.12.*"),
        ("3.12.1", "==3.12.1"),
        (">=3.11", ">=3.11"),
        ("pypy", ""),
    ],
)
def test_a_version_that_a_runner_was_asked_for_is_needed(word: str, asked: str) -> None:
    assert str(found(f"#!/usr/bin/env -S uv run --python {word}\n").needs.python) == asked


def test_a_version_in_the_name_of_python_is_needed() -> None:
    assert str(found("#!/usr/bin/env python3.12\n").needs.python) == "==3.12.*"


def test_a_runner_of_something_else_is_refused() -> None:
    with pytest.raises(UsageError, match="uv run … pytest"):
        found("#!/usr/bin/env -S uv run --with pytest pytest\n")


def test_a_first_line_that_cannot_be_read_is_said() -> None:
    with pytest.raises(UsageError, match="cannot be read: No closing quotation"):
        found("#!/usr/bin/env -S 'python3\n")
    with pytest.raises(BadSkill, match="is no dependency"):
        found("#!/usr/bin/env -S uv run --with a!b --script\n")


def test_only_python_scripts_say_what_they_need_that_way() -> None:
    assert found("#!/bin/sh\n# /// script\n# dependencies = 3\n# ///\n").needs.dependencies == ()


def test_a_program_is_run_itself_when_it_is_executable() -> None:
    binary = b"\x7fELF" + bytes(60)
    tree = sample(files={"bin/tool": (0o755, binary), "bin/other": (0o644, binary)})
    assert find_script(tree, "bin/tool") == Script("bin/tool", None)
    with pytest.raises(UsageError, match="not executable"):
        find_script(tree, "bin/other")
    assert scripts(tree) == ["bin/tool"]


def test_the_folder_scripts_may_be_left_out() -> None:
    tree = sample(files={"scripts/a.py": "1", "a.sh": "1", "scripts/a.sh": "2"})
    assert find_script(tree, "a.py").path == "scripts/a.py"
    assert find_script(tree, "./scripts//a.py").path == "scripts/a.py"
    assert find_script(tree, "a.sh").path == "a.sh"


@pytest.mark.parametrize(
    "name",
    [
        "../x.py",
        "scripts/../../x.py",
        "/etc/passwd",
        "",
        ".",
        "..",
        "a\0b",
        "scripts",
        "nope.py",
        "\ud800",
    ],
)
def test_nothing_outside_of_the_skill_is_run(name: str) -> None:
    with pytest.raises(UsageError, match=r"Its scripts: scripts/a\.py\."):
        find_script(sample(files={"scripts/a.py": "1"}), name)


def test_a_skill_without_scripts_says_so() -> None:
    with pytest.raises(UsageError, match="It has no scripts"):
        find_script(sample(), "a.py")


def test_names_are_said_without_what_could_drive_a_terminal() -> None:
    with pytest.raises(UsageError) as raised:
        find_script(sample(files={"scripts/a.py": "1"}), "\x1b]0;title\x07.py")
    assert str(raised.value).isprintable()


@given(st.binary(max_size=300), st.sampled_from(["a", "a.py", "a.sh"]))
def test_no_content_breaks_it(data: bytes, name: str) -> None:
    for content in (data, b"#!" + data, b"#!/usr/bin/env -S " + data, b"#!/bin/uv run " + data):
        tree = sample(files={name: content, "scripts/good.sh": script("x")})
        first_line(content)
        scripts(tree)
        try:
            ran = find_script(tree, name)
        except (UsageError, BadSkill):
            continue
        assert ran.path == name
