"""The action that tells everything: what a real state holds, as one line of JSON.

It is an action like any other, so that a look is a step, replayed and compared as every step is.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from tests.model.programs import File, Files, Folder, Link, State, above

#: The kernel's own folder in a workspace (files of long commands).
OWN = ".reprise"

_CODE = """\
def _look(names, widgets, mounts):
    import json, stat
    def tree(root):
        found = {}
        for at, folders, files in os.walk(root):
            if at == root and OWN in folders:
                folders.remove(OWN)
            for name in folders + files:
                path = os.path.join(at, name)
                seen, rel = os.lstat(path), os.path.relpath(path, root)
                if stat.S_ISLNK(seen.st_mode):
                    found[rel] = ["link", os.readlink(path)]
                elif stat.S_ISDIR(seen.st_mode):
                    found[rel] = ["folder", stat.S_IMODE(seen.st_mode)]
                else:
                    with open(path, "rb") as file:
                        found[rel] = ["file", stat.S_IMODE(seen.st_mode), file.read().hex()]
        return found
    there = {name: globals()[name] for name in names if name in globals()}
    return json.dumps({
        "variables": there,
        "shared": [[a, b] for a in there for b in there
                   if a < b and isinstance(there[a], list) and there[a] is there[b]],
        "widgets": {w: globals()["_w_" + w][0] for w in widgets if "_w_" + w in globals()},
        "displays": [w for w in widgets if "_d_" + w in globals()],
        "files": tree("."),
        "mounts": {target: tree(path) for target, path in mounts.items()},
    }, sort_keys=True)
"""


@dataclass(frozen=True)
class Look:
    """mounts: target → where it lies as seen from inside.

    kept: mounted trees are folders that nothing but their modes protects (nobody may write there).
    """

    names: tuple[str, ...]
    widgets: tuple[str, ...]
    mounts: tuple[tuple[str, str], ...] = ()
    kept: bool = False

    def python(self) -> str:
        asked = f"{list(self.names)}, {list(self.widgets)}, {dict(self.mounts)!a}"
        return f"OWN = {OWN!r}\n{_CODE}\nprint(_look({asked}))"

    def apply(self, state: State) -> str:
        return json.dumps(told(state, self), sort_keys=True) + "\n"


def told(state: State, look: Look) -> dict[str, Any]:
    """What a look says of a state."""
    there = {name: state.variables[name] for name in look.names if name in state.variables}
    shared = [
        [a, b]
        for a in there
        for b in there
        if a < b and isinstance(there[a], list) and there[a] is there[b]
    ]
    return {
        "variables": there,
        "shared": shared,
        "widgets": {w: state.widgets[w].value for w in look.widgets if w in state.widgets},
        "displays": [w for w in look.widgets if w in state.displays],
        "files": _tree(state.files),
        "mounts": {
            target: _tree(whole(state.mounts[target]), kept=look.kept) for target, _ in look.mounts
        },
    }


def whole(tree: Files) -> Files:
    """A tree with the folders that it only implies."""
    implied = {folder: Folder() for path in tree for folder in above(path)}
    return {**implied, **tree}


def _tree(files: Files, *, kept: bool = False) -> dict[str, list[Any]]:
    mask = 0o555 if kept else 0o777
    found: dict[str, list[Any]] = {}
    for path, node in files.items():
        match node:
            case File():
                found[path] = ["file", node.mode & mask, node.data.hex()]
            case Folder():
                found[path] = ["folder", node.mode & mask]
            case Link():
                found[path] = ["link", node.target]
    return found
