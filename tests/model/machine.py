"""The state machine: random acts on one kernel and its model, in an order that hypothesis draws."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.fixtures.kernel import Kernels
from tests.model.draws import (
    PATHS,
    contents,
    displays,
    numbers,
    programs,
    removals,
    targets,
    trees,
    widgets,
)
from tests.model.driven import Driven
from tests.model.history import History
from tests.model.programs import (
    Append,
    Assign,
    Display,
    Files,
    OpenWidget,
    Program,
    Write,
)

#: A position in what there is, whatever its length turns out to be.
places = st.integers(0, 99)
parts = st.sampled_from(("sandbox", "guest", "language", "router"))
#: What can be killed of a sandbox.
inner = st.sampled_from(("sandbox", "guest", "language"))


class Sessions(RuleBasedStateMachine):
    """Acts on a kernel. `begin` makes it: a subclass says on which backend."""

    begin: Callable[[], Driven]

    def __init__(self) -> None:
        super().__init__()
        self.driven = type(self).begin()
        self.tokens = 0
        self.keys = 0
        self.failed = False

    @contextmanager
    def act(self) -> Iterator[Driven]:
        """Do something; what the kernel wrote is told with a failure."""
        try:
            yield self.driven
        except BaseException as error:
            self.failed = True
            error.add_note(f"The kernel's log ends so:\n{self.driven.kernel.log()[-3000:]}")
            raise

    def teardown(self) -> None:
        """From nothing, the kernel comes back to what the model says; then all is judged."""
        try:
            if not self.failed:
                with self.act() as driven:
                    driven.judge()
                    driven.kill("sandbox")
                    driven.judge()
        finally:
            self.driven.kernel.end()

    def key(self, wanted: bool) -> str | None:
        self.keys += wanted
        return f"key-{self.keys}" if wanted else None

    def token(self) -> int:
        self.tokens += 1
        return self.tokens

    # steps --------------------------------------------------------------------------------------

    @initialize(value=numbers, path=st.sampled_from(PATHS[:3]), data=contents)
    def something_to_lose(self, value: int, path: str, data: bytes) -> None:
        with self.act() as driven:
            driven.run(Program((Assign("a", (value,)), Write(path, data))))

    @rule(program=programs(command=False), requested=st.booleans(), keyed=st.booleans())
    def cell(self, program: Program, requested: bool, keyed: bool) -> None:
        with self.act() as driven:
            driven.run(program, requested=requested, key=self.key(keyed))

    @rule(program=programs(command=True), keyed=st.booleans())
    def command(self, program: Program, keyed: bool) -> None:
        with self.act() as driven:
            driven.run(program, command=True, key=self.key(keyed))

    @rule(
        several=st.lists(
            st.one_of(
                programs(command=False).map(lambda program: (program, False)),
                programs(command=True).map(lambda program: (program, True)),
            ),
            min_size=2,
            max_size=4,
        )
    )
    def several_at_once(self, several: list[tuple[Program, bool]]) -> None:
        with self.act() as driven:
            driven.burst(several)

    @rule(tree=trees(), removed=removals, keyed=st.booleans())
    def upload(self, tree: Files, removed: list[str], keyed: bool) -> None:
        with self.act() as driven:
            driven.upload(tree, removed, self.key(keyed))

    @rule(removed=removals)
    def remove(self, removed: list[str]) -> None:
        with self.act() as driven:
            driven.upload({}, removed)

    @rule(place=targets, tree=trees(), keyed=st.booleans())
    def mount(self, place: str, tree: Files, keyed: bool) -> None:
        with self.act() as driven:
            driven.mount(place, tree, self.key(keyed))

    # the page -----------------------------------------------------------------------------------

    @rule(name=widgets)
    def widget(self, name: str) -> None:
        with self.act() as driven:
            driven.run(Program((OpenWidget(name, self.token()),)))

    @rule(drawn=widgets.flatmap(lambda name: displays(0)))
    def display(self, drawn: Display) -> None:
        with self.act() as driven:
            driven.run(Program((replace(drawn, token=self.token()),)))

    @precondition(lambda self: self.driven.now.widgets)
    @rule(place=places, values=st.lists(numbers, min_size=1, max_size=4))
    def slide(self, place: int, values: list[int]) -> None:
        with self.act() as driven:
            there = sorted(driven.now.widgets)
            driven.slide(there[place % len(there)], *values)

    # Under several names, so that they are drawn as often: they take milliseconds, and what follows
    # takes a second, since it ends with a fresh sandbox.
    cell_2 = cell_3 = cell
    command_2 = command_3 = command
    upload_2, mount_2, slide_2, several_2 = upload, mount, slide, several_at_once

    # ends ---------------------------------------------------------------------------------------

    @rule(program=programs(command=False, ends=("hang",)), requested=st.booleans())
    def interrupted_cell(self, program: Program, requested: bool) -> None:
        with self.act() as driven:
            driven.interrupt(program, requested=requested)

    @rule(program=programs(command=True, ends=("hang",)), keyed=st.booleans())
    def interrupted_command(self, program: Program, keyed: bool) -> None:
        with self.act() as driven:
            driven.interrupt(program, command=True, key=self.key(keyed))

    @rule(program=programs(command=False, ends=("die",)), keyed=st.booleans())
    def dying_cell(self, program: Program, keyed: bool) -> None:
        with self.act() as driven:
            driven.die(program, key=self.key(keyed))

    @rule(program=programs(command=False, ends=("hang",)), part=parts)
    def killed_in_a_cell(self, program: Program, part: str) -> None:
        with self.act() as driven:
            driven.kill_in(part, program)

    @rule(program=programs(command=True, ends=("hang",)), part=parts, keyed=st.booleans())
    def killed_in_a_command(self, program: Program, part: str, keyed: bool) -> None:
        with self.act() as driven:
            driven.kill_in(part, program, command=True, key=self.key(keyed))

    @rule(part=parts)
    def killed_at_rest(self, part: str) -> None:
        with self.act() as driven:
            driven.kill(part)

    @precondition(lambda self: self.driven.isolated)
    @rule(first=inner, second=parts)
    def killed_on_the_way_back(self, first: str, second: str) -> None:
        with self.act() as driven:
            driven.kill(first)
            driven.kill(second)

    @rule()
    def restart(self) -> None:
        with self.act() as driven:
            driven.restart()

    @rule()
    def reset(self) -> None:
        with self.act() as driven:
            driven.reset()

    # sessions -----------------------------------------------------------------------------------

    def go(self, session: History, attach: bool) -> None:
        if attach:
            self.driven.attach(session)
        else:
            self.driven.change_process(session)

    @rule(place=places, attach=st.booleans(), value=numbers)
    def rewind(self, place: int, attach: bool, value: int) -> None:
        """Fork at any step, -1 (empty) included, and go on there."""
        with self.act() as driven:
            fork = driven.fork(place % (len(driven.here.marks) + 1) - 1)
            self.go(fork, attach)
            driven.run(Program((Append("f", b"fork"), Assign("c", value))))

    @rule(place=places)
    def fork_aside(self, place: int) -> None:
        with self.act() as driven:
            driven.fork(place % (len(driven.here.marks) + 1) - 1)

    @rule(program=programs(command=False, ends=("hang",)), leave=st.booleans())
    def fork_in_a_cell(self, program: Program, leave: bool) -> None:
        with self.act() as driven:
            driven.fork_while_it_runs(program, leave=leave)

    @rule(program=programs(command=True, ends=("hang",)), leave=st.booleans())
    def fork_in_a_command(self, program: Program, leave: bool) -> None:
        with self.act() as driven:
            driven.fork_while_it_runs(program, leave=leave, command=True)

    @precondition(lambda self: len(self.driven.sessions) > 1)
    @rule(place=places, attach=st.booleans())
    def other_session(self, place: int, attach: bool) -> None:
        with self.act() as driven:
            there = list(driven.sessions.values())
            self.go(there[place % len(there)], attach)

    @rule(attach=st.booleans())
    def export_and_import(self, attach: bool) -> None:
        with self.act() as driven:
            self.go(driven.export_and_import(), attach)

    # keys, looks --------------------------------------------------------------------------------

    @precondition(lambda self: self.keys)
    @rule(place=places)
    def repeated(self, place: int) -> None:
        with self.act() as driven:
            keyed = [m for s in driven.sessions.values() for m in s.marks if m.key is not None]
            if keyed:
                driven.repeat(keyed[place % len(keyed)])

    @rule()
    def look(self) -> None:
        with self.act() as driven:
            driven.look()

    @rule()
    def judge(self) -> None:
        with self.act() as driven:
            driven.judge()


def sessions(kernels: Kernels, backend: str) -> type[Sessions]:
    """The machine on one backend."""

    class OnBackend(Sessions):
        begin = staticmethod(lambda: Driven(kernels, backend))

    OnBackend.__name__ = OnBackend.__qualname__ = f"On{backend.title()}"
    return OnBackend
