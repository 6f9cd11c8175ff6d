"""What one sandbox of the oci backend is started with: its folder on the host, its users, the order
to the launcher."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from reprise.errors import SandboxError
from reprise.sandbox.host_users import private_user
from reprise.sandbox.oci_bundle import USER, Bundle
from reprise.sandbox.oci_runtime import Kind, Runtime, second_user
from reprise.sandbox.sources import Sources
from reprise.sandbox.view import View

#: Covered by a tmpfs in the launcher's own mount namespace, when root starts it.
_STAGE = "/tmp"  # noqa: S108

_ABOVE = Path("/tmp")  # noqa: S108
_PREFIX = "reprise-oci-"


@dataclass(frozen=True)
class Users:
    """Who runs what.

    host: the user that the launcher becomes; None when it stays who it is.  outer: [inside,
    outside] of the namespace in which the runtime is root.  inner: of the sandbox's, which lies in
    that one; none where the runtime makes none.  inside: the user who owns what is mounted, where
    it is not the host's user anyway.
    """

    host: int | None
    outer: tuple[tuple[int, int], ...]
    inner: tuple[tuple[int, int], ...]
    inside: int | None = None


def users_for(kind: Kind) -> Users:
    """The users of a new sandbox. Raises SandboxError where there are too few."""
    as_root = os.geteuid() == 0
    host = private_user() if as_root else os.geteuid()
    changed = host if as_root else None
    if kind.own_kernel:
        return Users(changed, ((0, host),), ())
    if not kind.needs_root_inside:
        return Users(changed, ((0, host),), ((USER, 0),))
    second = host + 1 if as_root else second_user()
    if second is None:
        raise SandboxError(
            f"{kind.name} needs two users, and an ordinary user is only one without newuidmap: "
            "install it (`apt install uidmap`) and see that /etc/subuid and /etc/subgid give you "
            "the same range; or take crun, which needs one (REPRISE_OCI_RUNTIME=crun)."
        )
    return Users(changed, ((0, host), (USER, second)), ((0, 0), (USER, USER)), inside=USER)


class Folder:
    """The folder of one sandbox on the host: its bundle, the runtime's state, places for trees.

    Nobody but us and the sandbox's host user may enter it.
    """

    def __init__(self, users: Users) -> None:
        """Raises OSError."""
        _sweep()
        self.path = _ABOVE / f"{_PREFIX}{os.getpid()}-{secrets.token_hex(8)}"
        self.bundle = self.path / "bundle"
        self.state = self.path / "state"
        for folder in (self.path, self.bundle, self.state):
            folder.mkdir(mode=0o700)
            if users.host is not None:
                os.chown(folder, users.host, users.host)

    def place(self, name: str) -> Path:
        """A folder of ours that the sandbox shows, read-only."""
        place = self.path / f"place-{name}"
        place.mkdir(mode=0o755)
        return place

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


def _sweep() -> None:
    """Remove the folders that processes of ours have left which were killed."""
    for folder in _ABOVE.glob(f"{_PREFIX}*"):
        maker = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if maker.isdigit() and not Path("/proc", maker).exists():
            shutil.rmtree(folder, ignore_errors=True)


def launcher(
    runtime: Runtime,
    folder: Folder,
    users: Users,
    view: View,
    argv: Sequence[str],
    *,
    variables: Mapping[str, str] | None = None,
    places: Mapping[str, Path] | None = None,
    options: Sequence[str] = (),
    procs: Sequence[str] = (),
    stream: int | None = None,
    info: int | None = None,
) -> list[str]:
    """Write the bundle; the command that runs `argv` in it.

    places: host folders to show in place of memory file systems.  options: the runtime's, of this
    machine.  procs: files of a control group.  stream: the descriptor to pass on.  info: where the
    pid is told.
    """
    sources = Sources(None if users.host is None else _STAGE)
    bundle = Bundle(folder.bundle, runtime.kind, users.inner, sources, places or {})
    bundle.write(view, argv, variables or {})
    if users.host is not None:
        # All of it is the runtime's: it may even write there, as root of its namespace.
        for file in (bundle.root, folder.bundle / "config.json"):
            os.chown(file, users.host, users.host)
    inside = sources.reach(folder.path, "sandbox")
    program = runtime.path
    if users.host is not None and not program.is_relative_to("/usr"):
        program = Path(sources.reach(program, "runtime"))
    reached = Runtime(runtime.kind, program)
    order = {
        "parent": os.getpid(),
        "procs": list(procs),
        "stage": None if users.host is None else _STAGE,
        "sources": sources.staged,
        "uid": users.host,
        "users": users.outer,
        "info": info,
        "stream": stream,
        "hide": [each for each in runtime.kind.hide if Path(each).is_dir()],
        # The sandbox's own, and nobody in it makes another.
        "namespaces": 1 if users.inner else None,
        "argv": reached.command(f"{inside}/state", f"{inside}/bundle", folder.path.name, options),
        "env": {"PATH": "/usr/bin:/bin", "HOME": "/", "XDG_RUNTIME_DIR": f"{inside}/state"},
    }
    program_file = str(Path(__file__).with_name("oci_launch.py"))
    return [sys.executable, "-I", "-S", program_file, json.dumps(order)]
