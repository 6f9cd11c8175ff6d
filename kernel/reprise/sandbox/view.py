"""What a sandbox sees of the file system and of variables, as data that each backend renders.

Everything is read-only but four size-limited memory file systems: the workspace, /tmp,
/dev/shm and the user's runtime folder. Nothing of the host but system libraries, the
environment's prefixes, data mounts and the guest's own code. Two more memory file systems are
read-only and empty at first: the host shows trees in them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import reprise
from reprise.errors import UsageError
from reprise.sandbox.contract import MOUNT_PLACES, LanguageKernel, Limits, SandboxSpec
from reprise.sandbox.images import Image

WORKSPACE = "/workspace"

#: In the workspace, so that what programs keep there (~/.config, ~/.local, downloaded data)
#: belongs to the session; caches and IPython's history go to /tmp, so that a cell that changes
#: no file changes no file.
HOME = "/workspace/.reprise/home"

LIBRARY = "/run/reprise/lib"
_RUNTIME = "/run/user/1000"
_RUNTIME_SIZE = 16 << 20

#: Size of a writable place without a limit: tmpfs has no word for it but its default, half of
#: the machine's memory.
_UNLIMITED = 1 << 40

#: Folders of the system itself; a symlink on merged-/usr systems stays one.
_SYSTEM = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")

#: What libraries read below /etc. No passwords, keys or host names among them.
_ETC = (
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "alternatives",
    "fonts",
    "ssl/certs",
    "ssl/openssl.cnf",
    "ca-certificates",
    "pki/tls/certs",
    "pki/ca-trust/extracted",
    "crypto-policies",
    "localtime",
    "timezone",
    "mime.types",
    "services",
    "protocols",
    "magic",
    "ImageMagick-6",
    "java-17-openjdk",
)

#: Ours instead of the host's.
_OWN_ETC = ("passwd", "group", "hosts", "nsswitch.conf")
_ETC_OF_OURS = Path(__file__).parent / "etc"

#: Read by numeric libraries to count cores; holds nothing else.
_SYS = ("/sys/devices/system/cpu",)

#: Files of /proc that tell of the host or act on it; most are closed to all but root anyway.
_PROC_MASKED = (
    *("kcore", "keys", "timer_list", "sysrq-trigger", "latency_stats"),
    # Anybody may open these to write, too: the kernel then watches the machine's load for them.
    *("pressure/cpu", "pressure/io", "pressure/irq", "pressure/memory"),
)


@dataclass(frozen=True)
class Shown:
    """A file or folder of the host, read-only, with what is mounted below it."""

    source: str
    path: str


@dataclass(frozen=True)
class Link:
    """A symbolic link in the root or in a folder that is made for it."""

    target: str
    path: str


@dataclass(frozen=True)
class Memory:
    """An empty memory file system of the sandbox's user.

    size: bytes.  read_only: once everything that is shown below it is there.
    """

    path: str
    size: int
    mode: int = 0o755
    read_only: bool = False


@dataclass(frozen=True)
class Masked:
    """A file of the kernel's that cannot be read nor written."""

    path: str


@dataclass(frozen=True)
class Proc:
    """The kernel's files about this PID namespace at /proc, those that set something read-only."""


@dataclass(frozen=True)
class Devices:
    """The devices that every program may expect at /dev (null, zero, random, tty, pts …), and no
    other; nothing can be made there."""


#: What is done one after the other; a later one lies upon an earlier one.
Operation = Shown | Link | Memory | Masked | Proc | Devices


class View:
    """Collects what one sandbox sees.

    operations: in order.  variables: all that it has.  places: those of MOUNT_PLACES where the
    host can show trees.
    """

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.variables: dict[str, str] = {}
        self.places: list[str] = []
        self._shown: list[str] = []
        self._links: set[str] = set()

    def bind(self, path: str | Path, target: str | None = None) -> None:
        """Show a host file or folder read-only, at its own path unless told otherwise."""
        where = target or os.fspath(path)
        if not self.is_shown(where):
            self.bind_over(path, where)

    def taken(self, place: str) -> list[str]:
        """What the environment itself shows at a place or below it."""
        shown = (*self._shown, *self._links)
        return [path for path in shown if path == place or path.startswith(f"{place}/")]

    def is_shown(self, path: str) -> bool:
        return any(path == shown or path.startswith(f"{shown}/") for shown in self._shown)

    def bind_over(self, path: str | Path, target: str) -> None:
        """Show a host folder read-only, whatever was shown there before."""
        self.operations.append(Shown(os.fspath(path), target))
        self._shown.append(target)

    def bind_linked(self, path: str | Path) -> None:
        """Show a folder that may be named through symlinks: those are made inside as well."""
        self.link_chain(path)
        self.bind(os.path.realpath(path))

    def link(self, target: str, path: str) -> None:
        """Make a symlink."""
        self._links.add(path)
        self.operations.append(Link(target, path))

    def link_chain(self, path: str | Path) -> str:
        """Make the symlinks that lie on a path and are not shown yet; where it really leads."""
        real = Path("/")
        rest = [part for part in os.fspath(path).split("/") if part]
        followed = 0
        while rest:
            part = rest.pop(0)
            if part == "..":
                real = real.parent
                continue
            step = real / part
            if not step.is_symlink():
                real = step
                continue
            followed += 1
            if followed > 40:
                break
            target = str(step.readlink())
            if not self.is_shown(str(step)) and str(step) not in self._links:
                self.link(target, str(step))
            if target.startswith("/"):
                real = Path("/")
            rest = [part for part in target.split("/") if part and part != "."] + rest
        return str(real)


def of_host(spec: SandboxSpec, guest_python: str) -> View:
    """What a sandbox sees whose environment is made of the host's own prefixes."""
    view = View()
    view.variables = environment(spec)
    _system(view)
    _writable(view, spec.limits)
    before_binds = len(view.operations)
    prefixes = [*spec.kernel.prefixes, *interpreter_prefixes(guest_python, spec.kernel)]
    for prefix in sorted(set(prefixes), key=lambda path: (len(path.parts), str(path))):
        _prefix(view, prefix)
    for program in (spec.kernel.argv[0], guest_python):
        view.link_chain(program)
        home = pyvenv_home(Path(program).parent.parent)
        if home:
            view.link_chain(f"{home}/python3")
    if spec.kernel.resource_dir and Path(spec.kernel.resource_dir).is_dir():
        view.bind_linked(spec.kernel.resource_dir)
    _rest(view, spec, before_binds)
    return view


def of_image(spec: SandboxSpec, image: Image) -> View:
    """What a sandbox sees whose root is an image's. Raises UsageError for a data mount that has no
    place in it."""
    view = View()
    view.variables = environment(spec, image.env)
    for entry in image.entries():
        if entry.is_symlink():
            view.link(str(entry.readlink()), f"/{entry.name}")
        elif entry.is_dir() or entry.is_file():
            view.bind(entry, f"/{entry.name}")
    for name in _OWN_ETC:
        if (image.root / "etc" / name).is_file() and not (image.root / "etc" / name).is_symlink():
            view.bind_over(_ETC_OF_OURS / name, f"/etc/{name}")
    _kernels(view)
    _writable(view, spec.limits)
    for mount in spec.mounts:
        if view.is_shown(mount.target) and not (image.root / mount.target.lstrip("/")).exists():
            raise UsageError(
                f"{mount.source} cannot be mounted at {mount.target}: the folder above is the "
                "image's, which has no such place. Mount it at /mnt/NAME or /data/NAME."
            )
    _rest(view, spec, len(view.operations))
    return view


def trial() -> View:
    """Enough to run the machine's own `true`."""
    view = View()
    view.variables = {"PATH": "/usr/bin:/bin"}
    _system_folders(view)
    _kernels(view)
    view.operations.append(Memory(WORKSPACE, 1 << 20))
    return view


def _rest(view: View, spec: SandboxSpec, before_binds: int) -> None:
    for mount in spec.mounts:
        view.bind_over(mount.source, mount.target)
    _guest_code(view)
    _places(view, spec.limits, before_binds)


def environment(spec: SandboxSpec, image: Mapping[str, str] | None = None) -> dict[str, str]:
    """The sandbox's variables: an image's, then the allowlisted ones of the host, then its own
    places."""
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        **(image or {}),
        **spec.variables,
        "HOME": HOME,
        "USER": "user",
        "LOGNAME": "user",
        "SHELL": "/bin/bash",
        "TMPDIR": "/tmp",  # noqa: S108
        "XDG_RUNTIME_DIR": _RUNTIME,
        "REPRISE_RUNTIME": _RUNTIME,
        "XDG_CACHE_HOME": "/tmp/.cache",  # noqa: S108
        "IPYTHONDIR": "/tmp/.ipython",  # noqa: S108
        "JUPYTER_RUNTIME_DIR": f"{_RUNTIME}/jupyter",
    }


def _system_folders(view: View) -> None:
    view.bind("/usr")
    for folder in map(Path, _SYSTEM):
        if folder.is_symlink():
            view.link(str(folder.readlink()), str(folder))
        elif folder.is_dir():
            view.bind(folder)


def _system(view: View) -> None:
    _system_folders(view)
    for name in _ETC:
        path = Path("/etc") / name
        if path.exists():
            # A link (localtime) is shown as what it leads to.
            view.bind(os.path.realpath(path), str(path))
    for name in _OWN_ETC:
        view.bind(_ETC_OF_OURS / name, f"/etc/{name}")
    _kernels(view)


def _kernels(view: View) -> None:
    """What the kernel itself shows."""
    view.operations.append(Proc())
    view.operations += [
        Masked(f"/proc/{name}") for name in _PROC_MASKED if Path("/proc", name).exists()
    ]
    for folder in map(Path, _SYS):
        if folder.is_dir():
            view.bind(folder)
    view.operations.append(Devices())


def _writable(view: View, limits: Limits) -> None:
    """The writable places. They lie in memory, so together they stay within its limit."""
    workspace, tmp = limits.workspace or _UNLIMITED, limits.tmp or _UNLIMITED
    if limits.memory:
        workspace = min(workspace, limits.memory // 2)
        tmp = min(tmp, limits.memory // 4)
    view.operations += [
        Memory(WORKSPACE, workspace),
        Memory("/tmp", tmp),  # noqa: S108
        Memory("/dev/shm", tmp),  # noqa: S108
        Memory(_RUNTIME, _RUNTIME_SIZE, 0o700),
    ]


def mounts_room(limits: Limits) -> int:
    """Bytes that all mounted trees may take; 0 for no limit. They lie in memory."""
    sizes = [limits.mounts, limits.memory // 4]
    return min([size for size in sizes if size], default=0)


def _places(view: View, limits: Limits, position: int) -> None:
    """The places for trees, beneath what the environment shows below them."""
    # While one tree replaces another both are there, and files of the old one may stay open.
    size = 2 * mounts_room(limits) or _UNLIMITED
    for place in MOUNT_PLACES:
        # An environment may have a folder or a link of its own there, or the place lies in one.
        if place in view.taken(place) or view.is_shown(place):
            continue
        view.operations.insert(position, Memory(place, size, read_only=True))
        view.places.append(place)


def _prefix(view: View, prefix: Path) -> None:
    if not prefix.is_dir():
        return
    view.bind_linked(prefix)
    masked = Path(os.path.realpath(prefix)) / "etc"
    # It may hold a DSN or a token (jupyter's configuration of the prefix).
    if masked.is_dir() and str(masked) != "/usr/etc":
        view.operations.append(Memory(str(masked), 4096, read_only=True))


def _guest_code(view: View) -> None:
    package = Path(reprise.__file__).parent
    for part in ("__init__.py", "guest", "sandbox/__init__.py", "sandbox/frames.py"):
        view.bind(package / part, f"{LIBRARY}/reprise/{part}")
    compiled = package / "sandbox" / "__pycache__"
    if compiled.is_dir():
        view.bind(compiled, f"{LIBRARY}/reprise/sandbox/__pycache__")


def guest_interpreter(kernel: LanguageKernel) -> str:
    """The Python that runs the guest: the language kernel's own where it has pyzmq, else ours.

    With the kernel's own nothing of this process's environment need be shown inside.
    """
    if kernel.language == "python" and _has_pyzmq(Path(kernel.argv[0])):
        return kernel.argv[0]
    return sys.executable


def _has_pyzmq(python: Path) -> bool:
    found = python.parent.parent.glob("lib/python3.*/*-packages/zmq/__init__.py")
    versions = [path.parts[-4].removeprefix("python3.") for path in found]
    # The guest is written for the Pythons that Reprise itself runs on.
    return any(version.isdigit() and int(version) >= 11 for version in versions)


def interpreter_prefixes(python: str, kernel: LanguageKernel) -> Iterable[Path]:
    """Folders an interpreter needs: its prefix, and the one a virtual environment is made from."""
    if python != kernel.argv[0]:
        yield Path(sys.prefix)
        yield Path(sys.base_prefix)
    if kernel.language == "python" or python != kernel.argv[0]:
        for program in {python, kernel.argv[0]}:
            home = pyvenv_home(Path(program).parent.parent)
            if home:
                yield Path(os.path.realpath(f"{home}/..")) if home != "/usr/bin" else Path("/usr")


def pyvenv_home(prefix: Path) -> str | None:
    """The bin folder of the interpreter that a virtual environment is made from."""
    try:
        text = (prefix / "pyvenv.cfg").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        if equals and key.strip().lower() == "home":
            return value.strip()
    return None
