"""What cells and commands of the model do: as Python, as a shell's text, and to a plain state (pure).

An action stands for one statement. Each says how it is written and what it does to a `State`; a
`Program` is a few of them and an end. tests/model/test_programs.py holds the two to each other.
"""

from __future__ import annotations

import copy
import shlex
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

#: As the sandboxes and the test's own process have it.
UMASK = 0o022

#: What a program that does not end by itself prints when all its actions are done.
BEGUN = "begun"


class Failed(Exception):
    """An action raised; `name` is the exception's."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


# files --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class File:
    data: bytes
    mode: int = 0o666 & ~UMASK


@dataclass(frozen=True)
class Folder:
    mode: int = 0o777 & ~UMASK


@dataclass(frozen=True)
class Link:
    target: str


Node = File | Folder | Link
Files = dict[str, Node]


def above(path: str) -> list[str]:
    """The folders above a path, outermost first."""
    names = path.split("/")
    return ["/".join(names[:count]) for count in range(1, len(names))]


def below(files: Files, path: str) -> list[str]:
    """A path and all that lies beneath it."""
    return [each for each in files if each == path or each.startswith(f"{path}/")]


def look_up(files: Files, path: str) -> Node | None:
    """What stands at a path, as a program finds it: its folders have to be there."""
    for folder in above(path):
        found = files.get(folder)
        if found is None:
            raise Failed("FileNotFoundError")
        if not isinstance(found, Folder):
            raise Failed("NotADirectoryError")
    return files.get(path)


def file_at(files: Files, path: str) -> File | None:
    found = look_up(files, path)
    if isinstance(found, Folder):
        raise Failed("IsADirectoryError")
    assert not isinstance(found, Link), "programs of the model name no links"
    return found


# state --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Widget:
    """A widget on the page. token: names it in the model, in all sessions alike."""

    token: int
    value: int = 0


@dataclass
class State:
    """All that a session's next step can depend on."""

    variables: dict[str, Any] = field(default_factory=dict)
    files: Files = field(default_factory=dict)
    mounts: dict[str, Files] = field(default_factory=dict)
    widgets: dict[str, Widget] = field(default_factory=dict)
    displays: dict[str, int] = field(default_factory=dict)

    def copy(self) -> State:
        return copy.deepcopy(self)

    def end_interpreter(self) -> None:
        self.variables, self.widgets, self.displays = {}, {}, {}


# actions ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Write:
    path: str
    data: bytes

    def python(self) -> str:
        return f"with open({self.path!a}, 'wb') as f: f.write({self.data!r})"

    def shell(self) -> str:
        return f"printf '{octal(self.data)}' > {quoted(self.path)}"

    def apply(self, state: State) -> str:
        found = file_at(state.files, self.path)
        state.files[self.path] = File(self.data) if found is None else File(self.data, found.mode)
        return ""


@dataclass(frozen=True)
class Append:
    path: str
    data: bytes

    def python(self) -> str:
        return f"with open({self.path!a}, 'ab') as f: f.write({self.data!r})"

    def shell(self) -> str:
        return f"printf '{octal(self.data)}' >> {quoted(self.path)}"

    def apply(self, state: State) -> str:
        found = file_at(state.files, self.path) or File(b"")
        state.files[self.path] = File(found.data + self.data, found.mode)
        return ""


@dataclass(frozen=True)
class Remove:
    path: str

    def python(self) -> str:
        return f"os.remove({self.path!a})"

    def shell(self) -> str:
        return f"rm {quoted(self.path)} < /dev/null"

    def apply(self, state: State) -> str:
        if file_at(state.files, self.path) is None:
            raise Failed("FileNotFoundError")
        del state.files[self.path]
        return ""


@dataclass(frozen=True)
class MakeFolder:
    path: str

    def python(self) -> str:
        return f"os.mkdir({self.path!a})"

    def shell(self) -> str:
        return f"mkdir {quoted(self.path)}"

    def apply(self, state: State) -> str:
        if look_up(state.files, self.path) is not None:
            raise Failed("FileExistsError")
        state.files[self.path] = Folder()
        return ""


@dataclass(frozen=True)
class SetMode:
    path: str
    mode: int

    def python(self) -> str:
        return f"assert os.path.isfile({self.path!a}); os.chmod({self.path!a}, {self.mode})"

    def shell(self) -> str:
        return f"test -f {quoted(self.path)}; chmod {self.mode:o} {quoted(self.path)}"

    def apply(self, state: State) -> str:
        state.files[self.path] = File(_regular(state.files, self.path).data, self.mode)
        return ""


@dataclass(frozen=True)
class Move:
    source: str
    target: str

    def python(self) -> str:
        source, target = ascii(self.source), ascii(self.target)
        return f"assert os.path.isfile({source}); os.replace({source}, {target})"

    def shell(self) -> str:
        source, target = quoted(self.source), quoted(self.target)
        return f"test -f {source}; mv -fT {source} {target}"

    def apply(self, state: State) -> str:
        moved = _regular(state.files, self.source)
        file_at(state.files, self.target)
        del state.files[self.source]
        state.files[self.target] = moved
        return ""


@dataclass(frozen=True)
class Show:
    """Print a file's bytes, one a line."""

    path: str

    def python(self) -> str:
        return f"with open({self.path!a}, 'rb') as f: print(*f.read(), sep='\\n')"

    def shell(self) -> str:
        path = quoted(self.path)
        shown = f"od -An -v -tu1 -w1 {path} | tr -d ' '"
        return f"cat {path} > /dev/null; {shown}; test -s {path} || echo"

    def apply(self, state: State) -> str:
        found = file_at(state.files, self.path)
        if found is None:
            raise Failed("FileNotFoundError")
        return "\n".join(map(str, found.data)) + "\n"


def _regular(files: Files, path: str) -> File:
    """The file at a path, for an action that asserts that there is one."""
    try:
        found = look_up(files, path)
    except Failed:
        found = None
    if not isinstance(found, File):
        raise Failed("AssertionError")
    return found


# Those that only a cell can do.


@dataclass(frozen=True)
class Assign:
    name: str
    value: int | tuple[int, ...]

    def python(self) -> str:
        value = list(self.value) if isinstance(self.value, tuple) else self.value
        return f"{self.name} = {value!r}"

    def apply(self, state: State) -> str:
        value = list(self.value) if isinstance(self.value, tuple) else self.value
        state.variables[self.name] = value
        return ""


@dataclass(frozen=True)
class Extend:
    """Change a list in place: other names of it see that."""

    name: str
    value: int

    def python(self) -> str:
        return f"{self.name}.append({self.value})"

    def apply(self, state: State) -> str:
        found = _variable(state, self.name)
        if not isinstance(found, list):
            raise Failed("AttributeError")
        found.append(self.value)
        return ""


@dataclass(frozen=True)
class Double:
    """A new value from the old one, for numbers and lists alike."""

    name: str

    def python(self) -> str:
        return f"{self.name} = ({self.name} * 2) if isinstance({self.name}, int) else {self.name}[-3:] * 2"

    def apply(self, state: State) -> str:
        found = _variable(state, self.name)
        state.variables[self.name] = found * 2 if isinstance(found, int) else found[-3:] * 2
        return ""


@dataclass(frozen=True)
class Share:
    """A second name for the same object."""

    name: str
    of: str

    def python(self) -> str:
        return f"{self.name} = {self.of}"

    def apply(self, state: State) -> str:
        state.variables[self.name] = _variable(state, self.of)
        return ""


@dataclass(frozen=True)
class Forget:
    name: str

    def python(self) -> str:
        return f"del {self.name}"

    def apply(self, state: State) -> str:
        _variable(state, self.name)
        del state.variables[self.name]
        return ""


@dataclass(frozen=True)
class Load:
    """A variable from a file: what is played again has to find the file as it was."""

    name: str
    path: str

    def python(self) -> str:
        return f"with open({self.path!a}, 'rb') as f: {self.name} = list(f.read())"

    def apply(self, state: State) -> str:
        found = file_at(state.files, self.path)
        if found is None:
            raise Failed("FileNotFoundError")
        state.variables[self.name] = list(found.data)
        return ""


@dataclass(frozen=True)
class Dump:
    """A file from a variable."""

    path: str
    name: str

    def python(self) -> str:
        return f"with open({self.path!a}, 'w') as f: f.write(repr({self.name}))"

    def apply(self, state: State) -> str:
        found = file_at(state.files, self.path)
        mode = File(b"").mode if found is None else found.mode
        # Opened before the name is looked up.
        state.files[self.path] = File(b"", mode)
        state.files[self.path] = File(repr(_variable(state, self.name)).encode(), mode)
        return ""


@dataclass(frozen=True)
class Say:
    name: str

    def python(self) -> str:
        return f"print({self.name})"

    def apply(self, state: State) -> str:
        return f"{_variable(state, self.name)}\n"


@dataclass(frozen=True)
class OpenWidget:
    """A comm that keeps what the page sets and says it back."""

    name: str
    token: int

    def python(self) -> str:
        name = self.name
        return (
            f"import comm; _c_{name} = comm.create_comm(target_name='model', data={{'token': {self.token}}});"
            f" _w_{name} = [0]; _c_{name}.on_msg(lambda m, w=_w_{name}, c=_c_{name}:"
            " (w.__setitem__(0, m['content']['data']['state']['value']), c.send({'echo': w[0]})))"
        )

    def apply(self, state: State) -> str:
        state.widgets[self.name] = Widget(self.token)
        return ""


@dataclass(frozen=True)
class ReadWidget:
    name: str
    widget: str

    def python(self) -> str:
        return f"{self.name} = _w_{self.widget}[0]"

    def apply(self, state: State) -> str:
        if self.widget not in state.widgets:
            raise Failed("NameError")
        state.variables[self.name] = state.widgets[self.widget].value
        return ""


@dataclass(frozen=True)
class Display:
    """Something shown that a later cell can change on the page."""

    name: str
    token: int

    def python(self) -> str:
        return f"_d_{self.name} = display('token {self.token}', display_id=True)"

    def apply(self, state: State) -> str:
        state.displays[self.name] = self.token
        return ""


@dataclass(frozen=True)
class UpdateDisplay:
    name: str

    def python(self) -> str:
        return f"_d_{self.name}.update('updated')"

    def apply(self, state: State) -> str:
        if self.name not in state.displays:
            raise Failed("NameError")
        return ""


def _variable(state: State, name: str) -> Any:
    if name not in state.variables:
        raise Failed("NameError")
    return state.variables[name]


FileAction = Write | Append | Remove | MakeFolder | SetMode | Move | Show


class Action(Protocol):
    """One statement. `apply` returns what it prints and raises Failed; it may have begun by then."""

    def python(self) -> str: ...

    def apply(self, state: State) -> str: ...


def quoted(path: str) -> str:
    """A path as a shell's word that is no option."""
    return shlex.quote(f"./{path}")


def octal(data: bytes) -> str:
    return "".join(f"\\{byte:03o}" for byte in data)


# programs -----------------------------------------------------------------------------------------

#: By itself, by an error of its own, never, or by taking the interpreter with it.
End = Literal["ok", "raise", "hang", "die"]


@dataclass(frozen=True)
class Did:
    """What a program did, as its client can see it.

    error: the exception's name, also where a command only says it by an exit code; None if it went
    well. done: how many of its actions ended well.
    """

    error: str | None
    text: str
    done: int


@dataclass(frozen=True)
class Program:
    actions: tuple[Action, ...]
    end: End = "ok"

    def cell(self) -> str:
        ends = {
            "ok": "",
            "raise": "raise ValueError('on purpose')",
            "hang": f"print({BEGUN!r}, flush=True)\nimport time; time.sleep(1000)",
            "die": "os.kill(os.getpid(), 9)",
        }
        lines = ["import os", *(action.python() for action in self.actions), ends[self.end]]
        return "\n".join(lines)

    def command(self) -> str:
        ends = {"ok": "true", "raise": "exit 3", "hang": f"echo {BEGUN}\nsleep 1000"}
        lines = ["set -e"]
        for action in self.actions:
            assert isinstance(action, FileAction)
            lines.append(action.shell())
        return "\n".join([*lines, ends[self.end]])

    def run(self, state: State) -> Did:
        """Change the state as the program does, up to its end or to where it fails."""
        text = ""
        for done, action in enumerate(self.actions):
            try:
                text += action.apply(state)
            except Failed as failed:
                return Did(failed.name, text, done)
        return Did("ValueError" if self.end == "raise" else None, text, len(self.actions))

    def seen(self, did: Did, *, command: bool) -> tuple[object, ...]:
        """What its client can tell apart: a traceback has a line, a shell's words only sometimes."""
        if not command or did.error is None:
            return (did.error, did.text, did.done)
        if did.error in ("AssertionError", "ValueError"):
            return (did.error, did.text)  # an exit code alone
        failed = self.actions[did.done]
        assert isinstance(failed, FileAction)
        line = did.done if isinstance(failed, Write | Append) else None  # bash says it, not rm
        return (did.error, did.text, failed.shell(), line)
