"""The database computes the digest that we compute, and takes exactly the paths that we take."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reprise.errors import BadSkill
from reprise.skills.contract import SkillTree
from reprise.skills.folder import tree_of_files
from reprise.skills.paths import is_left_out
from tests.skills.catalog.test_rights_sql import Connection, connected

_LETTERS = st.sampled_from("abAB09é中😀ß._- ~#'/$²")
_PATHS = st.text(_LETTERS, min_size=1, max_size=12) | st.sampled_from(
    ["con", "a/CON.txt", "lpt1.x", "a\\b", 'a"b', "a:b", "a\tb", "a/./b", "../a", "a//b", "x" * 300]
)


@pytest.fixture(scope="module")
def alice(database: str) -> Iterator[Connection]:
    with closing(connected(database, "alice")) as connection:
        yield connection


@given(
    st.dictionaries(
        _PATHS, st.tuples(st.sampled_from([0o644, 0o755]), st.binary(max_size=20)), max_size=6
    )
)
@example({"a": (0o644, b""), "A": (0o644, b"")})
@example({"a/x": (0o644, b""), "A/y": (0o644, b"")})
@example({"a": (0o644, b""), "a/b": (0o644, b"")})
@example({"a-": (0o644, b"1"), "a/b": (0o644, b"2"), "a0": (0o755, b"3")})
@example({"😀": (0o644, b""), "\uffee": (0o644, b"")})
def test_what_is_a_tree_here_is_one_there_with_the_same_digest(
    alice: Connection, files: dict[str, tuple[int, bytes]]
) -> None:
    files = {path: file for path, file in files.items() if not is_left_out(path)}
    files["SKILL.md"] = (0o644, b"x")
    tree: SkillTree | None
    try:
        tree = tree_of_files([(path, *rest) for path, rest in files.items()])
    except BadSkill:
        tree = None
    said = None
    try:
        alice.execute(
            "SELECT reprise.add_skill('count', 'd', %s, %s::text[], %s::int[], %b::bytea[],"
            " '{\"kind\":\"folder\"}', '')",
            [
                "0" * 64 if tree is None else tree.digest,
                list(files),
                [mode for mode, _ in files.values()],
                [data for _, data in files.values()],
            ],
        )
    except psycopg.Error as error:
        said = error
    if tree is not None:
        assert said is None, said
    else:
        assert said is not None
        assert said.sqlstate == "RP014"
        # Refused for the path, but where only knowledge of all scripts tells that two are one.
        if "digest" in str(said.diag.message_primary):
            assert len({path.casefold() for path in _places(files)}) < len(_places(files))


def _places(files: dict[str, tuple[int, bytes]]) -> set[str]:
    """The paths and those of the folders above them."""
    return {
        "/".join(path.split("/")[: n + 1]) for path in files for n in range(path.count("/") + 1)
    }
