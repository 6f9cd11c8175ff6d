"""Renders what a sandbox sees (`view`) as bubblewrap's arguments."""

from __future__ import annotations

from reprise.sandbox.sources import Sources
from reprise.sandbox.view import WORKSPACE, Devices, Link, Masked, Memory, Proc, Shown, View


def namespaces() -> list[str]:
    """Its own namespaces of every kind, one user, no privileges."""
    return [
        *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts"),
        *("--unshare-net", "--unshare-cgroup-try", "--disable-userns"),
        *("--uid", "1000", "--gid", "1000", "--hostname", "reprise", "--cap-drop", "ALL"),
        # The guest as init: the kernel drops every signal from inside the namespace to it, so cells
        # can neither kill nor stop it, and there is no init of bubblewrap's to tamper with.
        *("--die-with-parent", "--new-session", "--clearenv", "--as-pid-1"),
    ]


def arguments(view: View, sources: Sources) -> list[str]:
    """All of bubblewrap's arguments but the command, for one sandbox."""
    found = namespaces()
    for name, value in view.variables.items():
        found += ["--setenv", name, value]
    closed = []
    for each in view.operations:
        match each:
            case Shown(source, path):
                found += ["--ro-bind", sources.reach(source), path]
            case Link(target, path):
                found += ["--symlink", target, path]
            case Memory(path, size, mode, read_only):
                found += ["--perms", f"{mode:04o}", "--size", str(size), "--tmpfs", path]
                if read_only:
                    closed += ["--remount-ro", path]
            case Masked(path):
                found += ["--ro-bind", "/dev/null", path]
            case Proc():
                found += ["--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys"]
            case Devices():
                found += ["--dev", "/dev"]
                closed += ["--remount-ro", "/dev"]
    return [*found, *closed, "--remount-ro", "/", "--chdir", WORKSPACE]
