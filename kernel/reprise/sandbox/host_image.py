"""What of this machine belongs into the image of a host's own environment, as a list of files.

For engines that run elsewhere and cannot be shown a folder. Not all of /usr: the environment's
prefixes, the interpreters' libraries, a set of programs that notebooks and agents use (PROGRAMS),
certificates, time zones, and our own few files of /etc. No file of a user, no password, no key.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from reprise.sandbox.contract import LanguageKernel
from reprise.sandbox.prefixes import installation_prefixes
from reprise.sandbox.shared_libraries import closure
from reprise.sandbox.view import guest_interpreter

#: Programs that go in where this machine has them (docs/backends.md names them).
_PROGRAMS = """
    sh bash dash env id whoami groups uname hostname date sleep true false test [ expr seq yes
    printf echo pwd ls dir cat head tail tac nl wc sort uniq cut paste join tr tee split csplit
    fold fmt pr comm shuf od xxd hexdump cp mv rm ln link unlink mkdir rmdir mkfifo mktemp touch
    chmod chown chgrp stat du df readlink realpath basename dirname install sync dd truncate
    factor numfmt tsort ptx md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum base32
    base64 cksum sum shred stdbuf nice nohup timeout time stty tty nproc arch logname users grep
    egrep fgrep sed awk mawk gawk find xargs which file diff cmp diff3 sdiff patch less more tar
    gzip gunzip zcat bzip2 bunzip2 bzcat xz unxz xzcat zstd unzstd zstdcat unzip zip lz4 ps
    pgrep pkill pidof kill free uptime top watch pmap vmstat setsid flock renice ionice taskset
    getopt column rev look script logger uuidgen lscpu lsof strace locale iconv getconf git curl
    wget openssl make jq tree bc dc rsync
"""
PROGRAMS = tuple(_PROGRAMS.split())
_WHERE = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"

#: Folders and files that programs above read, whole where they are there.
_DATA = (
    "/usr/lib/git-core",
    "/usr/share/git-core",
    "/usr/share/zoneinfo",
    "/usr/share/ca-certificates",
    "/usr/local/share/ca-certificates",
    "/usr/share/terminfo",
    "/lib/terminfo",
    "/usr/lib/locale/C.utf8",
    "/usr/lib/locale/C.UTF-8",
    "/usr/share/misc/magic.mgc",
    "/usr/lib/file/magic.mgc",
    "/usr/share/fonts",
    "/usr/share/fontconfig",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/ca-certificates",
    "/etc/pki/tls/certs",
    "/etc/pki/ca-trust/extracted",
    "/etc/fonts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/timezone",
    "/etc/mime.types",
    "/etc/services",
    "/etc/protocols",
)

#: Ours instead of this machine's.
_OWN_ETC = ("passwd", "group", "hosts", "nsswitch.conf")

#: Links of the system itself where /usr is merged.
_LINKS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")

#: Folders that everything else is put into or mounted over, with their modes.
_FOLDERS = {
    "/proc": 0o555,
    "/sys": 0o555,
    "/dev": 0o755,
    "/tmp": 0o1777,  # noqa: S108
    "/run": 0o755,
    "/skills": 0o755,
    "/mnt": 0o755,
    "/workspace": 0o755,
    "/usr/bin": 0o755,
}

#: Prefixes that hold a whole system: only what belongs to a Python or Jupyter goes in.
_SYSTEM = (Path("/usr"), Path("/usr/local"))
_OF_SYSTEM = ("lib/python3*", "lib/pypy3*", "bin/python3*", "bin/pypy3*", "share/jupyter")


@dataclass(frozen=True, order=True)
class Item:
    """One entry of the image. path: absolute, inside.  source: the host's file, for a file."""

    path: str
    kind: str  # "dir", "file", "link"
    mode: int = 0o755
    source: str = ""
    target: str = ""


class Contents:
    """Collects entries by path, each once, and the folders and links that lead to them."""

    def __init__(self) -> None:
        self._items: dict[str, Item] = {}

    def items(self) -> list[Item]:
        """All entries, folders before what is in them."""
        return sorted(self._items.values())

    def put(self, item: Item) -> None:
        if item.path not in self._items:
            self._above(item.path)
            self._items[item.path] = item

    def add(self, path: Path) -> None:
        """A file, folder or link of this machine at its own path, with what its links lead to."""
        waiting = [path]
        while waiting:
            real = self._resolved(waiting.pop())
            if real.is_dir():
                waiting += self._folder(real)
            elif real.is_file():
                self._file(real)

    def _folder(self, folder: Path) -> list[Path]:
        """Add all below a folder; links that lead out of it, to be followed."""
        outside: list[Path] = []
        for here, folders, files in os.walk(folder):
            self.put(Item(here, "dir"))
            for name in [*folders, *files]:
                path = f"{here}/{name}"
                if os.path.islink(path):  # noqa: PTH114
                    self.put(Item(path, "link", target=os.readlink(path)))  # noqa: PTH115
                    if not os.path.realpath(path).startswith(f"{folder}/"):
                        outside.append(Path(path))
                elif name in files:
                    self._file(Path(path))
        return [path for path in outside if not Path(os.path.realpath(path)).is_dir()]

    def _file(self, path: Path) -> None:
        try:
            found = path.stat()
        except OSError:
            return
        if stat.S_ISREG(found.st_mode) and os.access(path, os.R_OK):
            # The sandbox's user is not the owner: what that one may read and run, all may.
            mode = (found.st_mode >> 6 & 0o5) * 0o111 | (found.st_mode & 0o200)
            self.put(Item(str(path), "file", mode, source=str(path)))

    def _resolved(self, path: Path) -> Path:
        """Where a path really leads, its links put in."""
        real, rest, followed = Path("/"), list(path.parts[1:]), 0
        while rest:
            part = rest.pop(0)
            if part == "..":
                real = real.parent
                continue
            step = real / part
            if not step.is_symlink() or followed == 40:
                real = step
                continue
            followed += 1
            target = str(step.readlink())
            self.put(Item(str(step), "link", target=target))
            if target.startswith("/"):
                real = Path("/")
            rest = [each for each in target.split("/") if each and each != "."] + rest
        return real

    def _above(self, path: str) -> None:
        parent = os.path.dirname(path)  # noqa: PTH120
        if parent != "/" and parent not in self._items:
            self._above(parent)
            self._items[parent] = Item(parent, "dir")


def prefixes(kernel: LanguageKernel) -> list[Path]:
    """The host folders of an environment: its own, and those of the guest's interpreter."""
    python = guest_interpreter(kernel)
    found = {*kernel.prefixes, *installation_prefixes(Path(python))}
    # A folder that holds another one brings it.
    return sorted(
        path
        for path in found
        if path.is_dir()
        and (path in _SYSTEM or not any(path != o and path.is_relative_to(o) for o in found))
    )


def prefix_items(prefix: Path) -> list[Item]:
    """The entries of one prefix, without its etc/, which may hold a DSN or a token."""
    contents = Contents()
    if prefix in _SYSTEM:
        for pattern in _OF_SYSTEM:
            for path in sorted(prefix.glob(pattern)):
                contents.add(path)
        return contents.items()
    contents.add(prefix)
    masked = f"{os.path.realpath(prefix)}/etc"
    return [item for item in contents.items() if not f"{item.path}/".startswith(f"{masked}/")]


def system_items(kernel: LanguageKernel, environment: Iterable[Item]) -> list[Item]:
    """The entries that are no part of a prefix. environment: those that are."""
    contents = Contents()
    for name in _LINKS:
        if (path := Path(name)).is_symlink():
            contents.put(Item(name, "link", target=str(path.readlink())))
    for folder, mode in _FOLDERS.items():
        contents.put(Item(folder, "dir", mode))
    own = Path(__file__).parent / "etc"
    for name in _OWN_ETC:
        contents.put(Item(f"/etc/{name}", "file", 0o644, source=str(own / name)))
    programs = [Path(found) for name in PROGRAMS if (found := shutil.which(name, path=_WHERE))]
    programs.append(Path(kernel.argv[0]))
    programs.append(Path(guest_interpreter(kernel)))
    for program in programs:
        contents.add(program)
    for name in _DATA:
        if os.path.lexists(name):
            contents.add(Path(name))
    binaries = [Path(item.source) for item in contents.items() if item.kind == "file"]
    there = {item.path for item in environment}
    binaries += [Path(item.source) for item in environment if _may_be_binary(item)]
    for library in closure(binaries):
        if str(library) not in there:
            contents.add(library)
    return [item for item in contents.items() if item.path not in there or item.kind == "dir"]


def system_files() -> Iterator[Path]:
    """The files that stand for the system part: when one of them changed, the image has."""
    for name in PROGRAMS:
        if found := shutil.which(name, path=_WHERE):
            yield Path(found)
    for path in map(Path, _DATA):
        # What is in a folder, not the folder, whose time says little: programs touch it.
        yield from sorted(path.iterdir()) if path.is_dir() else [path]
    yield from (Path(__file__).parent / "etc" / name for name in _OWN_ETC)


def _may_be_binary(item: Item) -> bool:
    name = item.path.rpartition("/")[2]
    return item.kind == "file" and (".so" in name or bool(item.mode & 0o111))
