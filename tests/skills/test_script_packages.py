"""How packages are to come into a session, and what is said when they cannot."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from reprise.client import DependenciesMissing, ProgramMissing
from reprise.client.skill_packages import (
    Installation,
    Lacking,
    Ways,
    conflicts,
    filled,
    fitting_wheels,
    folder_apart,
    interpreter,
    into_folder,
    into_own,
    local_packages,
)
from reprise.skills.requirements import Comparison, Needs, SessionPython, compare
from tests.fixtures.skill_runs import SkillBench
from tests.fixtures.wheels import wheel

PYTHON = SessionPython(Version("3.12.1"), {"numpy": "2.0", "odd": "no version"}, {"extra": ""})


def ways(**more: object) -> Ways:
    usual = {"python": "python3", "pip": True, "uv": True, "network": True, "local": False}
    return Ways(**{**usual, **more})  # type: ignore[arg-type]


def needs(*dependencies: str) -> Needs:
    return Needs().plus(dependencies=dependencies)


def words(installation: Installation) -> list[str]:
    command = installation.command
    return shlex.split(command) if isinstance(command, str) else list(command)


def test_what_is_there_is_held_and_nothing_else_is_said_of_it() -> None:
    done = into_own([Requirement("tiny>=1")], PYTHON, ways())
    assert words(done)[:4] == ["python3", "-m", "pip", "install"]
    assert words(done)[-3:] == ["--constraint", "/dev/stdin", "tiny>=1"]
    assert (done.stdin, done.what, done.folder) == ("numpy==2.0\n", ("tiny>=1",), None)


def test_uv_does_it_where_there_is_no_pip() -> None:
    own = into_own([Requirement("tiny")], PYTHON, ways(pip=False))
    assert words(own)[:3] == ["uv", "pip", "install"]
    # Without an environment of its own it must be told for which Python.
    asked = needs("tiny")
    apart = into_folder("f", asked, compare(asked, PYTHON), ways(pip=False, own=False, python="/p"))
    assert words(apart)[words(apart).index("--python") :][:2] == ["--python", "/p"]


def test_without_a_network_only_what_is_here_is_asked_for() -> None:
    asked = needs("numpy>=1", "tiny")
    comparison = compare(asked, PYTHON)
    there = ways(
        network=False, wheels=("a b/tiny-1.0-py3-none-any.whl", "tiny-2.0-py3-none-any.whl")
    )
    said = words(into_folder("f", asked, comparison, there))
    assert said.count("--find-links") == 2
    assert "a b" in said
    assert "--no-index" in said
    assert "numpy>=1" not in said
    assert "numpy>=1" in words(into_folder("f", asked, comparison, ways()))


def test_a_folder_apart_is_named_by_what_it_is_for() -> None:
    names = {
        folder_apart(needs(*each), SessionPython(Version(version), {}, {}))
        for each in (("a", "b>=1"), ("b>=1", "a"), ("a", "b>=2"))
        for version in ("3.12.1", "3.12.9", "3.13.0")
    }
    assert len(names) == 4  # two sets of packages for two series
    assert all(name.startswith(".reprise/packages/") for name in names)


def test_a_folder_apart_counts_only_when_all_is_in_it_or_beside_it() -> None:
    asked = needs("tiny>=2", "numpy>=2")
    has = ["f/tiny-2.1.dist-info/METADATA", "f/tiny/__init__.py"]
    assert filled("f", has, asked, PYTHON)
    assert not filled("f", [], needs("numpy>=2"), PYTHON)
    assert not filled("f", ["f/tiny-1.0.dist-info/METADATA"], asked, PYTHON)
    assert not filled("f", ["g/tiny-2.1.dist-info/METADATA"], asked, PYTHON)
    assert not filled("f", ["f/x/tiny-2.1.dist-info/METADATA"], asked, PYTHON)
    # What lies in the folder is found first.
    assert not filled("f", [*has, "f/numpy-1.0.dist-info/METADATA"], asked, PYTHON)


def test_wheels_count_by_name_and_version() -> None:
    paths = [
        *("w/tiny-1.0-py3-none-any.whl", "w/Tiny-2.0-py3-none-any.whl", "tiny-3.0.tar.gz"),
        *("other-9.0-py3-none-any.whl", "tiny.whl", "tiny-x-py3-none-any.whl"),
    ]
    assert fitting_wheels(paths, [Requirement("tiny>=2")]) == ("w/Tiny-2.0-py3-none-any.whl",)


@pytest.mark.parametrize(
    ("more", "error", "said"),
    [
        ({"network": False}, DependenciesMissing, "lets nothing through to get it from"),
        ({"network": False, "shut": "it was shut"}, DependenciesMissing, "it was shut"),
        ({"pip": False, "uv": False}, ProgramMissing, "neither pip nor uv"),
        ({"network": False, "local": True}, None, ""),
        ({"network": False, "wheels": ("tiny-1.0-py3-none-any.whl",)}, None, ""),
        ({}, None, ""),
    ],
)
def test_ways_that_are_there_are_tried_and_no_other(
    more: dict[str, object], error: type[Exception] | None, said: str
) -> None:
    found = Comparison(missing=(Requirement("tiny"),))
    lacking = Lacking("scripts/a.py", found, ways(**more), "lab")
    if error is None:
        lacking.check_ways()
        return
    with pytest.raises(error, match=said) as raised:
        lacking.check_ways()
    assert "scripts/a.py needs tiny" in str(raised.value)
    assert "reprise env create NAME --requirements FILE" in str(raised.value)


def test_an_installers_last_words_are_repeated_and_no_more() -> None:
    found = Comparison(missing=(Requirement("tiny"),), unfit=((Requirement("numpy<2"), "2.0"),))
    error = Lacking("a.py", found, ways(), "lab").failed("\n".join(f"line {n}" for n in range(99)))
    assert "a.py needs tiny and numpy<2 (2.0 is there)" in str(error)
    assert "  line 98\n" in str(error)
    assert "line 60" not in str(error)
    assert error.requirements == ("tiny", "numpy<2")


def test_conflicts_are_told_from_other_failures() -> None:
    for said in (
        "ERROR: ResolutionImpossible: for help visit",
        "ERROR: Cannot install a and b because these package versions have conflicting dependencies.",
        "error: No solution found when resolving dependencies",
        "your requirements are unsatisfiable.",
    ):
        assert conflicts(said)
    assert not conflicts("ERROR: No matching distribution found for tiny")


def test_the_sessions_python_is_found_on_every_backend() -> None:
    kernel = {"name": "python3", "language": "python", "argv": ["/v/bin/python", "-m", "x"]}
    assert interpreter({"kernel": kernel}, isolated=True) == "python3"
    assert interpreter({"kernel": kernel}, isolated=False) == "/v/bin/python"
    built = interpreter({"kernel": kernel, "built": "0" * 64}, isolated=False)
    assert built.endswith("prefix/bin/python")
    for other in (None, {}, {**kernel, "language": "R"}, {**kernel, "argv": []}):
        assert interpreter({"kernel": other}, isolated=False) == "python3"


def test_an_environment_may_name_a_folder_of_packages() -> None:
    assert local_packages({"variables": {"PIP_FIND_LINKS": "/data/wheels"}})
    assert not local_packages({"variables": {"PIP_FIND_LINKS": ""}})
    assert not local_packages({})


async def test_uv_understands_what_it_is_told(skill_bench: SkillBench, tmp_path: Path) -> None:
    wheel(skill_bench.folder, "tiny", "1.5")
    wheel(skill_bench.folder, "tiny", "2.5")
    kernel = await skill_bench.client()
    if "uv" not in await kernel.workspace.programs(["uv"]):
        pytest.skip("no uv stands beside the Python that runs the tests")
    with_uv = ways(pip=False, network=False, wheels=("tiny-2.5-py3-none-any.whl",))
    held = SessionPython(Version("3.12"), {"other": "1.0"}, {})
    for installation in (
        into_own([Requirement("tiny>=1,<3")], held, with_uv),
        into_folder(
            ".reprise/packages/x",
            needs("tiny<2"),
            Comparison(missing=(Requirement("tiny<2"),)),
            with_uv,
        ),
    ):
        await kernel.command(installation.command, stdin=installation.stdin, check=True)
    paths = {entry.path for entry in await kernel.files()}
    assert any(path.endswith("site-packages/tiny-2.5.dist-info/METADATA") for path in paths)
    assert ".reprise/packages/x/tiny-1.5.dist-info/METADATA" in paths
    held = SessionPython(Version("3.12"), {"tiny": "1.5"}, {})
    refused = into_own([Requirement("tiny>=2")], held, with_uv)
    done = await kernel.command(refused.command, stdin="tiny==1.5\n")
    assert not done.ok
    assert conflicts(done.text)
