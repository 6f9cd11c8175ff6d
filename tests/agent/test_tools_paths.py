"""No path of a model leads out of the workspace; one that is not there is told with what is near."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprise.workspace.manifest import check_path
from reprise_server.agent.contract import BadCall
from reprise_server.agent.tools.paths import clean, missing, near
from reprise_server.agent.tools.reading import fits

PARTS = ("a", "b c", "..", ".", "", "workspace", "skills", "\ud800", "\0", "x" * 300, "é", "~", "*")


@given(
    st.booleans(),
    st.lists(st.sampled_from(PARTS) | st.text(max_size=4), max_size=8),
)
def test_a_path_is_clean_or_refused(absolute: bool, parts: list[str]) -> None:
    path = "/" * absolute + "/".join(parts)
    found, problem = "", ""
    try:
        found = clean(path, "/workspace")
    except BadCall as error:
        problem = str(error)
    assert len(problem) < 1_500
    problem.encode("utf-8")
    assert found == "" or check_path(found) == found
    assert clean(found, "/workspace") == found


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("data/x.csv", "data/x.csv"),
        ("./data//x.csv", "data/x.csv"),
        ("/workspace/data/x.csv", "data/x.csv"),
        ("/workspace", ""),
        ("/workspace/", ""),
        (".", ""),
        ("", ""),
    ],
)
def test_the_spellings_of_a_path_are_one(path: str, found: str) -> None:
    assert clean(path, "/workspace") == found


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/etc/passwd", "outside of the workspace"),
        ("/workspace2/x", "outside of the workspace"),
        ("/skills/clean/SKILL.md", "read_skill_file"),
        ("../x", "without `..`"),
        ("/workspace/../etc", "without `..`"),
        ("a/../../b", "without `..`"),
        ("a\0b", "no path within"),
    ],
)
def test_what_leads_out_is_told_with_a_way(path: str, said: str) -> None:
    with pytest.raises(BadCall, match=said):
        clean(path, "/workspace")


def test_near_names_are_those_likely_meant() -> None:
    there = ["data/rentals.csv", "data/returns.csv", "README.md", "src/clean.py"]
    assert near("rentals.csv", there) == ["data/rentals.csv", "data/returns.csv"]
    assert near("data/rental.csv", there)[0] == "data/rentals.csv"
    assert near("readme.MD", there) == ["README.md"]
    assert near("zzz", there) == []
    assert "Near it: README.md." in str(missing("readme.md", there))
    assert "list_files" in str(missing("zzz", there))


@given(st.text(max_size=30), st.lists(st.text(max_size=12), max_size=20))
def test_near_names_are_a_few_of_those_there(path: str, there: list[str]) -> None:
    found = near(path, there)
    assert len(found) <= 5
    assert set(found) <= set(there)


@pytest.mark.parametrize(
    ("path", "pattern", "expected"),
    [
        ("a/b/x.csv", "*.csv", True),
        ("a/b/x.csv", "a/*.csv", False),
        ("a/b/x.csv", "a/**/*.csv", True),
        ("a/x.csv", "a/**/*.csv", True),
        ("a/b/x.csv", "**", True),
        ("a/b/x.csv", "**/b/*", True),
        ("a/b/x.csv", "b/*", False),
        ("x.csv", "./x.csv", True),
    ],
)
def test_a_pattern_fits_as_in_a_shell(path: str, pattern: str, expected: bool) -> None:
    assert fits(path, pattern) is expected


def test_a_pattern_of_many_stars_is_no_trap() -> None:
    assert not fits("/".join("a" * 200), "/".join(["**", "a"] * 100) + "/b")
