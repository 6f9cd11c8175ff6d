"""The OCI runtimes: which is used, where it is, what is particular about each."""

from __future__ import annotations

import functools
import os
import pwd
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from reprise.errors import SandboxError, UsageError
from reprise.settings import OCI_RUNTIME

#: Beside PATH: where Debian and the projects' own installers put them.
_PLACES = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Kind:
    """What is particular about a runtime.

    own_kernel: system calls are served by a kernel of its own (gVisor), so that nothing of ours
      can be entered and no seccomp profile is needed.
    descriptors: it passes open descriptors on; the guest dials where it does not.
    needs_root_inside: user 0 must be mapped in the sandbox, though nothing runs as it.
    options: before its verb.  hide: folders it must not look into.
    package: what brings it, on Debian.
    """

    name: str
    own_kernel: bool = False
    descriptors: bool = True
    needs_root_inside: bool = False
    options: tuple[str, ...] = ()
    hide: tuple[str, ...] = ()
    package: str = ""

    @property
    def wall(self) -> str:
        """What stands between the sandbox's code and this machine's kernel."""
        if self.own_kernel:
            return "gVisor's own kernel, which asks little of this machine's"
        return "a seccomp filter; it shares this machine's Linux kernel"


#: In the order in which the default is looked for: those with this machine's kernel only, since
#: what gVisor costs in speed is a choice.
KINDS = (
    # Control groups are joined before it starts (`oci_launch`), with whatever rights there are.
    # A hierarchy of version 2 beside those of version 1 it would refuse to start by.
    Kind("crun", options=("--cgroup-manager=disabled",), hide=("/sys/fs/cgroup",), package="crun"),
    Kind("runc", needs_root_inside=True, package="runc"),
    Kind(
        "runsc",
        own_kernel=True,
        descriptors=False,
        options=("--rootless", "--network=none", "--ignore-cgroups", "--host-uds=open"),
        package="runsc",
    ),
)

#: gVisor's ways to catch system calls, best first (gvisor.dev/docs/architecture_guide/platforms).
PLATFORMS = ("systrap", "kvm", "ptrace")


@dataclass(frozen=True)
class Runtime:
    """A runtime that is here."""

    kind: Kind
    path: Path

    def command(self, state: str, bundle: str, name: str, more: Sequence[str] = ()) -> list[str]:
        """The command that runs a bundle to its end."""
        passed = ("--preserve-fds", "1") if self.kind.descriptors else ()
        return [
            *(str(self.path), "--root", state, *self.kind.options, *more),
            *("run", *passed, "--bundle", bundle, name),
        ]


def named(wanted: str | None) -> Runtime:
    """The runtime of that name or path; without one REPRISE_OCI_RUNTIME's, or the first there is.

    Raises UsageError for one that is not known, SandboxError for one that is not here.
    """
    wanted = wanted or os.environ.get(OCI_RUNTIME)
    if not wanted:
        return _first()
    name = Path(wanted).name
    kind = next((kind for kind in KINDS if kind.name == name), None)
    if kind is None:
        raise UsageError(
            f"{wanted!r} is no OCI runtime that Reprise knows; set {OCI_RUNTIME} to "
            f"{', '.join(kind.name for kind in KINDS)}, or to the path of one of them."
        )
    path = _find(wanted)
    if path is None:
        raise SandboxError(
            f"The OCI runtime {wanted} is not here. Install it (`apt install {kind.package}`), or "
            f"name another one with {OCI_RUNTIME}."
        )
    return Runtime(kind, path)


def _first() -> Runtime:
    for kind in KINDS:
        if not kind.own_kernel and (path := _find(kind.name)):
            return Runtime(kind, path)
    raise SandboxError(
        "No OCI runtime is here. Install one (`apt install crun`), or set REPRISE_BACKEND to "
        "another backend."
    )


def _find(wanted: str) -> Path | None:
    if "/" in wanted:
        return Path(wanted) if os.access(wanted, os.X_OK) else None
    found = shutil.which(wanted) or shutil.which(wanted, path=_PLACES)
    return None if found is None else Path(found)


@functools.cache
def second_user() -> int | None:
    """A user of ours beside ourselves that newuidmap(1) may map; None when there is none.

    Each account has a range of them in /etc/subuid (shadow-utils), the same of groups.
    """
    if shutil.which("newuidmap") is None or shutil.which("newgidmap") is None:
        return None
    users, groups = (_first_of_range(Path("/etc", name)) for name in ("subuid", "subgid"))
    return users if users == groups else None


def _first_of_range(file: Path) -> int | None:
    uid = os.geteuid()
    try:
        names = {str(uid), pwd.getpwuid(uid).pw_name}
    except KeyError:
        names = {str(uid)}
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        name, _, numbers = line.partition(":")
        first, _, count = numbers.partition(":")
        if name in names and first.isdigit() and count.isdigit() and int(count):
            return int(first)
    return None
