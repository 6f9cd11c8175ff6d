"""What an environment says of teams and skills is read strictly, and matched by scope and name."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprise.errors import UsageError
from reprise.sandbox.difference import difference
from reprise.sandbox.named import NamedEnvironment, file_of, load, save
from reprise.sandbox.named_skills import check_skills, check_team, lets_in

DIGEST = "a" * 64


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("team", "ml"),
        ("team", "team/"),
        ("team", "team/ML"),
        ("team", 7),
        ("skills", "team/ml:*"),
        ("skills", ["*"]),
        ("skills", ["team/ml"]),
        ("skills", ["team/ml:a/b"]),
        ("skills", ["everyone:*"]),
        ("skills", ["sha256:abc"]),
        ("skills", [7]),
        ("skills", ["shipped:x"] * 201),
    ],
)
def test_what_names_no_team_and_no_skills_is_refused_by_field(
    home: Path, field: str, value: object
) -> None:
    del home
    path = file_of("odd")
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({field: value}))
    with pytest.raises(UsageError, match=r"odd\.json.*team|odd\.json.*skills"):
        load("odd")


def test_what_is_said_comes_back_and_stands_in_the_record(home: Path) -> None:
    del home
    said = NamedEnvironment("ours", team="team/ml", skills=("team/ml:*", f"sha256:{DIGEST}"))
    save(said)
    assert load("ours") == said
    save(NamedEnvironment("none", skills=()))
    assert load("none").skills == ()
    assert "skills" not in NamedEnvironment().to_json()
    changed = difference({}, {"team": "team/ml", "skills": []})
    assert changed == ["team (none) → team/ml", "skills any → none"]


@pytest.mark.parametrize(
    ("patterns", "known", "expected"),
    [
        (None, [], True),
        ((), [("shipped", "x")], False),
        (("team/ml:*",), [("team/ml", "x")], True),
        (("team/ml:*",), [("team/mlx", "x"), ("personal", "x")], False),
        (("shipped:profile-*",), [("shipped", "profile-dataset")], True),
        (("shipped:profile-*",), [("shipped", "my-profile-x")], False),
        ((f"sha256:{DIGEST}",), [], True),
        ((f"sha256:{'b' * 64}",), [("personal", DIGEST)], False),
    ],
)
def test_a_pattern_lets_in_what_it_names(
    patterns: tuple[str, ...] | None, known: list[tuple[str, str]], expected: bool
) -> None:
    assert lets_in(patterns, DIGEST, known) is expected


SCOPES = st.sampled_from(["personal", "organisation", "shipped", "team/ml", "team/other"])
NAMES = st.from_regex(r"[a-z]{1,4}(-[a-z]{1,3})?", fullmatch=True)


@given(st.lists(st.tuples(SCOPES, NAMES), max_size=4), st.lists(st.tuples(SCOPES, NAMES)))
def test_without_a_star_nothing_but_the_very_names_is_let_in(
    allowed: list[tuple[str, str]], known: list[tuple[str, str]]
) -> None:
    patterns = check_skills([f"{scope}:{name}" for scope, name in allowed])
    assert lets_in(patterns, DIGEST, known) is bool(set(allowed) & set(known))


@given(st.text() | st.none() | st.integers() | st.lists(st.text()))
def test_anything_is_read_or_refused(value: object) -> None:
    for check in (check_team, check_skills):
        with contextlib.suppress(UsageError):
            read = check(value)
            assert check(read) == read
