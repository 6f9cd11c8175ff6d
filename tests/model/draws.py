"""Hypothesis strategies for what a model's history is made of: programs, uploads, trees to mount."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.model.programs import (
    Action,
    Append,
    Assign,
    Display,
    Double,
    Dump,
    End,
    Extend,
    File,
    FileAction,
    Files,
    Folder,
    Forget,
    Link,
    Load,
    MakeFolder,
    Move,
    Program,
    ReadWidget,
    Remove,
    Say,
    SetMode,
    Share,
    Show,
    UpdateDisplay,
    Write,
    above,
)

# Few names, so that steps meet; odd ones, since each has to survive JSON, a shell and a replay.
NAMES = ("a", "b", "c")
FOLDERS = ("d", "ordner ü")
PATHS = ("f", "-x", 'it\'s "q"\n$HOME', "d/f", "d/😀", "ordner ü/\\0")
#: What only an upload makes: links, and names that are no UTF-8.
BYTES_PATHS = ("roh-\udcff", "d/\udce9t\udce9")
LINKS = ("link", "d/link")
WIDGETS = ("v", "w")

names = st.sampled_from(NAMES)
paths = st.sampled_from(PATHS)
widgets = st.sampled_from(WIDGETS)
contents = st.binary(max_size=6)
modes = st.sampled_from((0o644, 0o600, 0o755))
numbers = st.integers(0, 99)

file_actions: st.SearchStrategy[FileAction] = st.one_of(
    st.builds(Write, paths, contents),
    st.builds(Append, paths, contents),
    st.builds(MakeFolder, st.sampled_from(FOLDERS)),
    st.builds(Show, paths),
    st.builds(Remove, paths),
    st.builds(SetMode, paths, modes),
    st.tuples(paths, paths).filter(lambda two: two[0] != two[1]).map(lambda two: Move(*two)),
)

variable_actions: st.SearchStrategy[Action] = st.one_of(
    st.builds(Assign, names, st.one_of(numbers, st.lists(numbers, max_size=3).map(tuple))),
    st.builds(Extend, names, numbers),
    st.builds(Double, names),
    st.builds(Share, names, names),
    st.builds(Forget, names),
    st.builds(Load, names, paths),
    st.builds(Dump, paths, names),
    st.builds(Say, names),
)

page_actions: st.SearchStrategy[Action] = st.one_of(
    st.builds(ReadWidget, names, widgets), st.builds(UpdateDisplay, widgets)
)

cell_actions: st.SearchStrategy[Action] = st.one_of(
    variable_actions, variable_actions, file_actions, page_actions
)


def programs(
    *, command: bool, ends: tuple[End, ...] = ("ok", "ok", "ok", "raise"), least: int = 1
) -> st.SearchStrategy[Program]:
    actions = file_actions if command else cell_actions
    several = st.lists(actions, min_size=least, max_size=4).map(tuple)
    return st.builds(Program, several, st.sampled_from(ends))


def displays(token: int) -> st.SearchStrategy[Display]:
    return st.builds(Display, widgets, st.just(token))


files = st.builds(File, contents, modes)


@st.composite
def trees(draw: st.DrawFn, least: int = 1) -> Files:
    """A tree to upload or mount: files, folders with their modes or merely implied, links."""
    places = draw(
        st.lists(
            st.sampled_from((*PATHS, *BYTES_PATHS, *LINKS, *FOLDERS)),
            min_size=least,
            max_size=4,
            unique=True,
        )
    )
    tree: Files = {}
    for place in sorted(places):
        if place in LINKS:
            tree[place] = Link(draw(st.sampled_from(("f", "../f", "nowhere"))))
        elif place in FOLDERS:
            mode = draw(st.sampled_from((0o755, 0o700, 0o775)))
            tree[place] = Folder(mode) if draw(st.booleans()) else draw(files)
        else:
            tree[place] = draw(files)
    # Nothing lies beneath a file.
    return {
        path: node
        for path, node in tree.items()
        if all(isinstance(tree.get(folder, Folder()), Folder) for folder in above(path))
    }


removals = st.lists(st.sampled_from((*PATHS, *BYTES_PATHS, *LINKS)), max_size=2, unique=True)

targets = st.sampled_from(("/skills/one", "/skills/zwei", "/mnt/data"))
