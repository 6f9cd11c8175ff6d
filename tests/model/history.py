"""A session of the model: what was asked, how it ended, and the state that follows (pure).

The rules are those of docs/guarantees.md ("State comes back"), said a second time and plainly: no
planner, no database, no sandbox. `rebuilt` says what a fresh sandbox stands on after a replay.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field

from reprise.log.model import REPLAYED, Status, StepKind
from tests.model.programs import Did, Files, Folder, Node, Program, State, Widget, above, below

#: A tree of files, as something that never changes.
Listed = tuple[tuple[str, Node], ...]


@dataclass(frozen=True)
class Upload:
    """What an upload brings; folders above an entry that it does not name are implied."""

    entries: Listed
    removed: tuple[str, ...]

    def apply(self, files: Files) -> None:
        for path in self.removed:
            _take_away(files, path)
        for path, node in sorted(self.entries):
            for folder in above(path):
                if not isinstance(files.get(folder), Folder):
                    _take_away(files, folder)
                    files[folder] = Folder()
            if not (isinstance(node, Folder) and isinstance(files.get(path), Folder)):
                _take_away(files, path)
            files[path] = node


def _take_away(files: Files, path: str) -> None:
    for each in below(files, path):
        del files[each]


@dataclass(frozen=True)
class Mount:
    target: str
    tree: Listed


@dataclass(frozen=True)
class Slide:
    """The page sets a widget."""

    name: str
    token: int
    value: int

    def apply(self, state: State) -> None:
        found = state.widgets.get(self.name)
        if found is not None and found.token == self.token:
            state.widgets[self.name] = Widget(self.token, self.value)


@dataclass(frozen=True)
class Restart:
    """kept: the workspace's files as a resume can put them back; None where it cannot start there.

    in_place: the files are the notebook's own folder, and a resume can start there as it is.
    """

    kept: Listed | None = None
    in_place: bool = False
    emptied: bool = False

    @property
    def is_start(self) -> bool:
        return self.in_place or self.kept is not None


Deed = Program | Upload | Mount | Slide | Restart


@dataclass
class Mark:
    """A step as it has to stand in the log. did: what its client saw of it, if it ended."""

    kind: StepKind
    deed: Deed
    status: Status
    owner: uuid.UUID
    did: Did | None = None
    count: int | None = None
    key: str | None = None


@dataclass(frozen=True)
class Rebuilt:
    """differs: positions of the steps that show other output on a replay than at their first run."""

    state: State
    differs: frozenset[int]


@dataclass
class History:
    """One session. parent: the session that owns the last shared step; fork_seq: that step."""

    id: uuid.UUID
    marks: list[Mark] = field(default_factory=list)
    parent: uuid.UUID | None = None
    fork_seq: int | None = None

    def add(self, kind: StepKind, deed: Deed, status: Status, did: Did | None = None) -> Mark:
        mark = Mark(kind, deed, status, self.id, did)
        self.marks.append(mark)
        return mark

    def by_key(self, key: str) -> int | None:
        """The step that was accepted under a key."""
        return next((n for n, mark in enumerate(self.marks) if mark.key == key), None)

    def fork(self, at: int, name: uuid.UUID) -> History:
        """What a fork after step `at` begins with."""
        shared = list(self.marks[: at + 1])
        parent = shared[-1].owner if shared else self.id
        return History(name, shared, parent, at)

    @property
    def next_prompt(self) -> int:
        last = 0
        for mark in self.marks:
            if mark.kind == "restart":
                last = 0
            elif mark.count is not None:
                last = max(last, mark.count)
        return last + 1


def rebuilt(marks: Sequence[Mark], folder: Files | None = None) -> Rebuilt:
    """The state that a replay of these steps gives.

    folder: of a backend without a workspace of its own, the notebook's folder as it is now: a
      replay starts from that, and leaves uploads out.
    """
    state = State()
    if folder is not None:
        state.files = dict(folder)
    starts = [n for n, m in enumerate(marks) if isinstance(m.deed, Restart) and m.deed.is_start]
    if folder is not None:
        starts = [n for n in starts if _restart(marks[n]).in_place]
    else:
        starts = [n for n in starts if _restart(marks[n]).kept is not None]
    begin = starts[-1] + 1 if starts else 0
    for mark in marks[:begin]:
        if isinstance(mark.deed, Mount) and mark.status == "ok":
            state.mounts[mark.deed.target] = dict(mark.deed.tree)
    if starts and folder is None:
        state.files = dict(_restart(marks[begin - 1]).kept or ())
    differs = set()
    for number, mark in enumerate(marks[begin:], begin):
        if mark.status in REPLAYED:
            did = play(mark, state, in_place=folder is not None)
            if _differs(mark, did):
                differs.add(number)
    return Rebuilt(state, frozenset(differs))


def _differs(mark: Mark, did: Did | None) -> bool:
    if not isinstance(mark.deed, Program) or mark.did is None or did is None:
        return False
    command = mark.kind == "command"
    first, again = (mark.deed.seen(each, command=command) for each in (mark.did, did))
    return first != again


def _restart(mark: Mark) -> Restart:
    assert isinstance(mark.deed, Restart)
    return mark.deed


def play(mark: Mark, state: State, *, in_place: bool = False) -> Did | None:
    """What a replay of one step does to a state, and shows."""
    deed = mark.deed
    match deed:
        case Program():
            return deed.run(state)
        case Upload():
            if mark.status == "ok" and not in_place:
                deed.apply(state.files)
        case Mount():
            if mark.status == "ok":
                state.mounts[deed.target] = dict(deed.tree)
        case Slide():
            deed.apply(state)
        case Restart():
            state.end_interpreter()
            if deed.emptied and not in_place:
                state.files.clear()
    return mark.did
