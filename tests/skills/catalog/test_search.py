"""A search finds what people mean, in the order they expect, whatever they type."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprise.errors import UsageError
from reprise.skills.catalog import Catalog
from tests.fixtures.catalog import FOLDER, ML, People, skill_of
from tests.skills.catalog.test_rights_sql import Connection, connected


async def names(catalog: Catalog, text: str) -> list[str]:
    return [each.name for each in await catalog.search(text)]


@pytest.fixture
async def shelf(people: People) -> Catalog:
    alice = people["alice"]
    for name, description, body in (
        ("profile-dataset", "Looks at a table before it is used.", "Counts missing values."),
        ("clean-table", "Profiles nothing, but repairs datasets of customers.", "Read the guide."),
        ("draw-chart", "Draws figures.", "First profile the data, then plot the dataset."),
        ("notes", "Écrit des résumés für Größenordnungen.", "数据 summaries"),
    ):
        await alice.add(skill_of(name, body, description), FOLDER)
    return alice


async def test_names_come_before_descriptions_and_descriptions_before_bodies(
    shelf: Catalog,
) -> None:
    assert await names(shelf, "profile") == ["profile-dataset", "clean-table", "draw-chart"]
    assert await names(shelf, "dataset") == ["profile-dataset", "clean-table", "draw-chart"]
    assert await names(shelf, "profile dataset") == ["profile-dataset", "clean-table", "draw-chart"]


async def test_words_are_found_by_their_stems_their_beginnings_and_in_names_with_hyphens(
    shelf: Catalog,
) -> None:
    assert await names(shelf, "drawing") == ["draw-chart"]
    assert await names(shelf, "repairing customer") == ["clean-table"]
    assert await names(shelf, "prof") == ["profile-dataset", "clean-table", "draw-chart"]
    assert await names(shelf, "profile-dataset") == ["profile-dataset", "clean-table", "draw-chart"]
    assert await names(shelf, "profile-data") == ["profile-dataset", "clean-table", "draw-chart"]
    assert await names(shelf, "CLEAN-TABLE") == ["clean-table"]
    assert await names(shelf, "missing values") == ["profile-dataset"]
    assert await names(shelf, "résumés") == ["notes"]
    assert await names(shelf, "Größenordnungen") == ["notes"]
    assert await names(shelf, "数据") == ["notes"]


async def test_the_syntax_of_web_searches_is_understood(shelf: Catalog) -> None:
    assert await names(shelf, '"missing values"') == ["profile-dataset"]
    assert await names(shelf, '"values missing"') == []
    assert await names(shelf, "dataset -customers -plot") == ["profile-dataset"]
    assert set(await names(shelf, "drawing or repairs")) == {"clean-table", "draw-chart"}


async def test_the_frontmatter_is_no_body(shelf: Catalog) -> None:
    assert await names(shelf, "description") == []


async def test_what_asks_for_nothing_finds_nothing(shelf: Catalog) -> None:
    for text in ("", " ", "the of and", "-dataset", "!!!", "'", '"', "\0", "\udc80", "&|!()<->:*"):
        assert await names(shelf, text) == [], text


async def test_only_the_version_that_others_get_is_found(team: People) -> None:
    await team.published(skill_of("count", "old words"))
    await team.published(skill_of("count", "new words"))
    await team["alice"].add(skill_of("count", "draft words"), FOLDER)
    await team["alice"].request_promotion("personal:count", ML)
    dan = team["dan"]
    assert await names(dan, "old") == [] == await names(dan, "draft")
    assert await names(dan, "new") == ["count"]
    assert [str(each.scope) for each in await team["alice"].search("draft")] == ["personal"]


async def test_as_many_as_asked_for_and_no_more(shelf: Catalog) -> None:
    assert [each.name for each in await shelf.search("profile", most=2)] == [
        "profile-dataset",
        "clean-table",
    ]
    for most in (0, -1, 1001):
        with pytest.raises(UsageError, match="1 to 1000"):
            await shelf.search("profile", most=most)


@pytest.fixture(scope="module")
def alice(database: str) -> Iterator[Connection]:
    with closing(connected(database, "alice")) as connection:
        yield connection


@given(st.text(max_size=400) | st.text("ab -\"'&|!():*<>\\", max_size=400))
def test_no_text_is_an_error(alice: Connection, text: str) -> None:
    clean = text.replace("\0", "").encode("utf-8", "replace").decode()
    rows = alice.execute("SELECT FROM reprise.search_skills(%s, 5)", [clean])
    assert rows.rowcount <= 5
