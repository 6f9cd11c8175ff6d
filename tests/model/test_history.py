"""The model itself: what it says of ends, restarts, forks and folders, on histories written by hand."""

from __future__ import annotations

import uuid

from tests.model.history import History, Mount, Restart, Slide, Upload, play, rebuilt
from tests.model.programs import (
    Append,
    Assign,
    Did,
    Extend,
    File,
    Folder,
    Link,
    Load,
    OpenWidget,
    Program,
    State,
    Widget,
    Write,
)

WENT_WELL = Did(None, "", 1)


def session() -> History:
    return History(uuid.uuid4())


def test_what_was_cut_short_is_left_out_of_a_replay() -> None:
    history = session()
    history.add("cell", Program((Assign("a", (1,)),)), "ok", WENT_WELL)
    for status in ("interrupted", "timeout", "died", "lost"):
        history.add("cell", Program((Extend("a", 2),)), status)  # type: ignore[arg-type]
    failed = Did("ValueError", "", 1)
    history.add("cell", Program((Extend("a", 3),), "raise"), "error", failed)
    came = rebuilt(history.marks)
    assert came.state.variables == {"a": [1, 3]}
    assert came.differs == frozenset()


def test_a_step_that_needs_what_was_left_out_differs() -> None:
    history = session()
    history.add("cell", Program((Write("f", b"1"),), "hang"), "interrupted")
    history.add("cell", Program((Load("a", "f"),)), "ok", WENT_WELL)
    came = rebuilt(history.marks)
    assert came.state.variables == {}
    assert came.differs == frozenset({1})


def test_a_replay_starts_from_the_files_that_a_restart_kept() -> None:
    history = session()
    history.add("cell", Program((Write("f", b"cut"),), "hang"), "interrupted")
    tree = (("g", File(b"")),)
    history.add("mount", Mount("/mnt/data", tree), "ok")
    history.add("restart", Restart(kept=(("f", File(b"cut")),)), "ok")
    history.add("command", Program((Append("f", b"!"),)), "ok", WENT_WELL)
    state = rebuilt(history.marks).state
    assert state.files == {"f": File(b"cut!")}
    assert state.mounts == {"/mnt/data": dict(tree)}


def test_in_a_folder_of_the_notebook_files_are_those_that_are_there() -> None:
    history = session()
    history.add("command", Program((Append("f", b"x"),)), "ok", WENT_WELL)
    history.add("upload", Upload((("g", File(b"up")),), ()), "ok")
    assert rebuilt(history.marks, {"f": File(b"x")}).state.files == {"f": File(b"xx")}
    history.add("restart", Restart(in_place=True), "ok")
    assert rebuilt(history.marks, {"f": File(b"x")}).state.files == {"f": File(b"x")}


def test_an_upload_brings_folders_and_takes_away_what_is_in_the_way() -> None:
    files = {"d": File(b"a file"), "l": Link("d"), "e": Folder(), "e/f": File(b"")}
    Upload((("d/x", File(b"1")), ("e", File(b"2"))), ("l", "nothing")).apply(files)
    assert files == {"d": Folder(), "d/x": File(b"1"), "e": File(b"2")}
    Upload((("d", Folder(0o700)),), ()).apply(files)
    assert files["d"] == Folder(0o700)
    assert files["d/x"] == File(b"1")


def test_a_fork_is_a_prefix_and_names_who_owns_its_last_step() -> None:
    first = session()
    first.add("cell", Program((Assign("a", 1),)), "ok", WENT_WELL)
    first.add("cell", Program((Assign("a", 2),)), "ok", WENT_WELL)
    second = first.fork(1, uuid.uuid4())
    second.add("cell", Program((Assign("a", 3),)), "ok", WENT_WELL)
    third = second.fork(0, uuid.uuid4())
    assert (third.parent, third.fork_seq) == (first.id, 0)
    assert [rebuilt(each.marks).state.variables["a"] for each in (first, second, third)] == [
        2,
        3,
        1,
    ]
    assert second.fork(2, uuid.uuid4()).parent == second.id


def test_prompt_numbers_go_on_and_begin_anew_after_a_restart() -> None:
    history = session()
    assert history.next_prompt == 1
    history.add("cell", Program(()), "ok").count = 7
    history.add("command", Program(()), "ok")
    assert history.next_prompt == 8
    history.add("restart", Restart(), "ok")
    assert history.next_prompt == 1


def test_only_the_widget_that_is_there_hears_the_page() -> None:
    state = State()
    history = session()
    play(history.add("cell", Program((OpenWidget("w", 1),)), "ok", WENT_WELL), state)
    play(history.add("comm", Slide("w", 1, 5), "ok"), state)
    play(history.add("comm", Slide("w", 0, 9), "ok"), state)
    assert state.widgets == {"w": Widget(1, 5)}
    play(history.add("restart", Restart(), "ok"), state)
    assert state.widgets == {}
