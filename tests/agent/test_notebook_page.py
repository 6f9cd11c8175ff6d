"""A page is asked so that it can do right, believed in nothing, and one of two holds the lease."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reprise.errors import RepriseError, UsageError
from reprise_server.agent.contract import Change, Stale
from reprise_server.agent.notebook.cells import apply, cell_hash, hash_of, normal
from reprise_server.agent.notebook.page import PageNotebook, PageRefused
from reprise_server.agent.notebook.pages import PageGone, Pages
from reprise_server.agent.notebook.undoing import put_back
from tests.agent.notebooks import changes, code, notebooks, of
from tests.agent.page import ReferencePage
from tests.agent.test_notebook_cells import JSON

SETTINGS = settings(max_examples=100, deadline=None)


def opened(page: Any, patience: float = 60) -> PageNotebook:
    return PageNotebook("n.ipynb", page, Pages(asyncio.get_running_loop()), patience)


@SETTINGS
@given(st.data())
def test_what_a_page_is_asked_makes_exactly_the_changes(data: st.DataObject) -> None:
    before = data.draw(notebooks())
    made = data.draw(changes(before, "new"))
    page = ReferencePage(before)
    asyncio.run(_apply(page, made))
    after = apply(before, made)
    assert page.notebook == after.notebook
    # And an undo of them through the page, too.
    back = put_back(before, after.notebook, after.edits)
    asyncio.run(_apply(page, back.changes))
    assert page.notebook == before


async def _apply(page: ReferencePage, made: Any) -> None:
    await opened(page).apply(made)


@SETTINGS
@given(st.data())
def test_what_is_typed_while_the_request_is_on_its_way_stays(data: st.DataObject) -> None:
    before = data.draw(notebooks())
    made = data.draw(changes(before, "new"))
    typed = data.draw(changes(before, "typed"))
    page = ReferencePage(before)

    async def ask(request: Any) -> Any:
        if request["do"] == "apply":
            page.notebook = apply(page.notebook, typed).notebook
        return await ReferencePage.ask(page, request)

    page.ask = ask  # type: ignore[method-assign]
    theirs = apply(before, typed)
    try:
        asyncio.run(_apply(page, made))
    except Stale:
        assert page.notebook == theirs.notebook
        return
    old, there, now = (
        {cell["id"]: cell_hash(cell) for cell in notebook["cells"]}
        for notebook in (before, theirs.notebook, page.notebook)
    )
    typed_in = {name for name in there if there[name] != old.get(name)}
    assert {name: now.get(name) for name in typed_in} == {name: there[name] for name in typed_in}


async def test_a_stale_answer_of_the_page_names_its_cells() -> None:
    notebook = normal(of(code("a", "1")))
    page = ReferencePage(notebook)
    page.answer = {"stale": ["a", 7, "x" * 500]}
    with pytest.raises(Stale) as told:
        await opened(page).apply([Change("delete", "a", was=hash_of("code", "1"))])
    assert told.value.cells == ("a",)  # no more than were asked about
    assert page.notebook == notebook


@settings(max_examples=50, deadline=None)
@given(read=JSON, answer=JSON)
def test_no_answer_of_a_page_crashes_the_agent(read: Any, answer: Any) -> None:
    class Odd:
        def told(self, holds: bool) -> None: ...

        async def ask(self, request: Any) -> Any:
            if request["do"] == "read":
                return read if not isinstance(read, dict) else {"notebook": read, **read}
            return answer

    async def work() -> None:
        with pytest.raises(RepriseError):
            await opened(Odd()).apply([Change("delete", "a", was="0" * 64)])

    asyncio.run(work())
    sound = ReferencePage(normal(of(code("a", "1"))))
    sound.answer = answer if answer is not None else {}

    async def more() -> None:
        try:
            await opened(sound).apply([Change("delete", "a", was=hash_of("code", "1"))])
        except (Stale, PageRefused):
            return
        assert isinstance(answer, dict)
        assert answer["applied"] is True

    asyncio.run(more())


async def test_a_page_that_does_not_answer_is_told_with_what_is_not_known() -> None:
    class Silent(ReferencePage):
        async def ask(self, request: Any) -> Any:
            if request["do"] == "read" and self.notebook["cells"]:
                return await super().ask(request)
            return await asyncio.Future()

    change = Change("delete", "a", was=hash_of("code", "1"))
    with pytest.raises(PageGone, match=r"did not answer in 0 s\. Nothing was changed"):
        await opened(Silent(normal(of())), 0.05).apply([change])
    silent = Silent(normal(of(code("a", "1"))))
    with pytest.raises(PageGone, match="Whether it made these changes is not known"):
        await opened(silent, 0.05).apply([change])

    class Closing(ReferencePage):
        async def ask(self, request: Any) -> Any:
            raise PageGone("The page was closed.")

    with pytest.raises(PageGone, match=r"The page was closed\. Nothing was changed"):
        await opened(Closing(normal(of()))).read()


async def test_changes_that_could_not_be_made_are_not_sent() -> None:
    page = ReferencePage(normal(of(code("a", "1"))))
    for change, error in (
        (Change("delete", "a", was=hash_of("code", "2")), Stale),
        (Change("insert", "a", after="", source="x"), UsageError),
    ):
        with pytest.raises(error):
            await opened(page).apply([change])
    assert {each["do"] for each in page.asked} == {"read"}


async def test_one_of_two_pages_holds_the_lease() -> None:
    pages = Pages(asyncio.get_running_loop())
    first, second, third = (ReferencePage(normal(of())) for _ in range(3))
    pages.join("n", first)
    pages.join("n", second)
    pages.join("other", third)
    assert (first.holds, second.holds, third.holds) == ([True], [False], [True])
    assert pages.holder("n") is first
    pages.take("n", second)
    assert (first.holds, second.holds) == ([True, False], [False, True])
    pages.take("n", second)
    pages.take("n", third)  # which has not joined
    assert pages.holder("n") is second
    pages.join("n", first)  # once more, as after a reconnect
    assert first.holds == [True, False, False]
    pages.leave("n", second)
    assert first.holds == [True, False, False, True]
    pages.leave("n", second)
    assert pages.holder("n") is first
    pages.leave("n", first)
    assert (pages.holder("n"), pages.holder("other")) == (None, third)


STEPS = st.lists(
    st.tuples(st.sampled_from(["join", "leave", "take"]), st.sampled_from("nm"), st.integers(0, 3)),
    max_size=30,
)


@SETTINGS
@given(STEPS)
def test_exactly_one_open_page_knows_that_it_holds_the_lease(steps: Any) -> None:
    pages = Pages(None)  # type: ignore[arg-type]
    all_pages = {path: [ReferencePage(normal(of())) for _ in range(4)] for path in "nm"}
    there: dict[str, list[ReferencePage]] = {"n": [], "m": []}
    for what, path, number in steps:
        page = all_pages[path][number]
        getattr(pages, what)(path, page)
        if what == "join" and page not in there[path]:
            there[path].append(page)
        elif what == "leave" and page in there[path]:
            there[path].remove(page)
        for each in "nm":
            knowing = [page for page in there[each] if page.holds[-1]]
            assert len(knowing) == (1 if there[each] else 0)
            assert pages.holder(each) is (knowing[0] if knowing else None)
