"""The shell is told exactly what was asked for: no word of a person or a skill becomes shell text."""

from __future__ import annotations

import subprocess
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from reprise.skills.command import argument, script_command, without_preparation
from reprise.skills.script import Script

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)
WORDS = st.lists(
    TEXT
    | st.sampled_from(["{workspace}", "{scratch}", "{{workspace}}", "{{scratch}}", "$PWD", "`id`"]),
    max_size=4,
).map("".join)


def plainly(text: str) -> str:
    """What {workspace} and {scratch} mean, by another way than the code's."""
    for name in ("workspace", "scratch"):
        text = text.replace(f"{{{{{name}}}}}", f"\0{name}\0")
    text = text.replace("{workspace}", "/the work").replace("{scratch}", "/a $scratch")
    for name in ("workspace", "scratch"):
        text = text.replace(f"\0{name}\0", f"{{{name}}}")
    return text


def said(shell: str, text: str, **variables: str) -> list[str]:
    done = subprocess.run(
        [shell, "-c", text],
        capture_output=True,
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", **variables},
        check=True,
    )
    return done.stdout.decode().split("\0")[:-1]


@settings(max_examples=40)
@given(st.lists(WORDS, max_size=3))
@example(
    ["", "{workspace}/a b", "--x={workspace}", "-{{workspace}}-", "'\"\\\n", "{{{workspace}}}"]
)
def test_arguments_come_through_every_shell_as_they_are(words: list[str]) -> None:
    text = "printf '%s\\0' x " + " ".join(map(argument, words))
    places = {"REPRISE_WORKSPACE": "/the work", "REPRISE_SCRATCH": "/a $scratch"}
    for shell in ("bash", "dash"):
        assert said(shell, text, **places)[1:] == [plainly(word) for word in words]


def test_names_of_files_come_through_too(tmp_path: Path) -> None:
    skill = tmp_path / "it's a $(skill)"
    skill.mkdir()
    (skill / "-r `x`.sh").write_text('printf \'%s\\0\' "$0" "$PWD" "$REPRISE_WORKSPACE" "$1"\n')
    text = script_command(
        Script("-r `x`.sh", "bash", ("-e",)),
        ["{workspace}"],
        name="a skill",
        path=str(skill),
        program="bash",
        in_place=True,
    )
    work = tmp_path / "work"
    work.mkdir()
    done = subprocess.run(["bash", "-c", text], cwd=work, capture_output=True, check=True)
    assert done.stdout.decode().split("\0")[:-1] == [
        "./-r `x`.sh",
        str(skill),
        str(work),
        str(work),
    ]
    assert (work / ".reprise/scratch/a skill").is_dir()


def test_people_see_what_runs_and_nothing_can_hide() -> None:
    texts = [
        script_command(
            Script("scripts/a.py", "python3"),
            ["{workspace}/x"],
            name="a-skill",
            path="/skills/a-skill",
            program="python3",
            packages=packages,
            in_place=in_place,
        )
        for packages in (None, ".reprise/packages/0123456789abcdef")
        for in_place in (False, True)
    ]
    shown = 'cd /skills/a-skill; python3 scripts/a.py "$REPRISE_WORKSPACE"/x'
    assert {without_preparation(text) for text in texts} == {shown}
    for text in texts:
        for place in range(text.index(" && exec ")):
            changed = f"{text[:place]};rm -rf x;{text[place:]}"
            assert "rm -rf x" in without_preparation(changed)


def test_a_folder_of_packages_comes_first_and_others_stay(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "s/p").write_text('#!/bin/sh\nprintf \'%s\\0\' "$PYTHONPATH" "$TMPDIR"\n')
    (tmp_path / "s/p").chmod(0o755)
    text = script_command(
        Script("p", None),
        [],
        name="s",
        path=str(tmp_path / "s"),
        program=None,
        packages=".reprise/packages/0f",
    )
    for given_path, expected in (("", ""), ("/other", ":/other")):
        done = subprocess.run(
            ["bash", "-c", text],
            cwd=tmp_path,
            capture_output=True,
            check=True,
            env={"PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path), "PYTHONPATH": given_path},
        )
        first, tmp = done.stdout.decode().split("\0")[:-1]
        assert first == f"{tmp_path}/.reprise/packages/0f{expected}"
        assert tmp == str(tmp_path)
    assert (tmp_path / "skills/s").is_dir()
