"""Writes an OCI bundle: a root folder of empty places to mount at, and config.json (runtime-spec).

https://github.com/opencontainers/runtime-spec/blob/main/config.md
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from reprise.sandbox.oci_runtime import Kind
from reprise.sandbox.seccomp import is_known, oci_profile
from reprise.sandbox.sources import Sources
from reprise.sandbox.view import (
    WORKSPACE,
    Devices,
    Link,
    Masked,
    Memory,
    Proc,
    Shown,
    View,
)

#: The user inside.
USER = 1000

_NAMESPACES = ("pid", "network", "ipc", "uts", "mount", "cgroup")

#: Files of /proc that change something of the machine's, where it is the machine's.
_READ_ONLY = ("/proc/sys", "/proc/irq", "/proc/bus", "/proc/fs")

_CAPABILITY_SETS = ("bounding", "effective", "permitted", "inheritable", "ambient")

#: Size of the memory file system for devices, as runtimes make it by default.
_DEVICES_SIZE = 65536 << 10


class Bundle:
    """A bundle in `folder`, which is there and empty.

    kind: of the runtime.  users: [inside, outside] of its user namespace, as seen by a runtime
    that is root in one of its own (`oci_launch`); none where it makes none.  places: host folders
    to show instead of the memory file systems at some paths.
    """

    def __init__(
        self,
        folder: Path,
        kind: Kind,
        users: Sequence[tuple[int, int]],
        sources: Sources,
        places: Mapping[str, Path],
    ) -> None:
        self.folder = folder
        self.root = folder / "rootfs"
        self._kind = kind
        self._users = users
        self._sources = sources
        self._places = places
        self._mounts: list[dict[str, Any]] = []
        self._masked: list[str] = []
        self._read_only: list[str] = [] if kind.own_kernel else list(_READ_ONLY)
        #: What covers the root folder: nothing below these is made there.
        self._covered: list[str] = []
        self._memory: list[str] = []

    def write(self, view: View, argv: Sequence[str], variables: Mapping[str, str]) -> None:
        """Write it. variables: beside those of the view."""
        self.root.mkdir()
        for each in view.operations:
            self._render(each)
        (self.folder / "config.json").write_text(
            json.dumps(self._configuration(argv, {**view.variables, **variables})),
            encoding="utf-8",
        )

    def _render(self, each: object) -> None:
        match each:
            case Shown(source, path):
                self._show(source, path)
            case Link(target, path):
                self._link(target, path)
            case Memory(path) if path in self._places:
                self._show(str(self._places[path]), path)
            case Memory(path, size, mode, read_only):
                self._memory_at(path, size, mode, read_only=read_only)
            case Masked(path):
                if not self._kind.own_kernel:
                    self._masked.append(path)
            case Proc():
                self._mount("/proc", "proc", "proc", ["nosuid", "noexec", "nodev"])
            case Devices():
                self._devices()

    def _mount(self, path: str, kind: str, source: str, options: list[str]) -> None:
        self._make_place(path, folder=kind != "bind" or Path(source).is_dir())
        self._mounts.append(
            {
                "destination": path,
                "type": kind,
                "source": self._sources.reach(source) if kind == "bind" else source,
                "options": options,
            }
        )
        self._covered.append(path)

    def _show(self, source: str, path: str) -> None:
        # Read-only with all that is mounted below it; gVisor's file server opens nothing there to
        # write anyway, and knows no such word. (Nor does crun for a file.)
        recursive = Path(source).is_dir() and not self._kind.own_kernel
        read_only = "rro" if recursive else "ro"
        self._mount(path, "bind", source, ["rbind", read_only, "nosuid", "nodev"])

    def _link(self, target: str, path: str) -> None:
        if self._is_covered(path):
            # A runtime makes no links in what it mounts: there what a link leads to is shown.
            real = os.path.realpath(path)
            if Path(real).exists() and not any(_lies_in(real, each) for each in self._memory):
                self._show(real, path)
            return
        inside = self._inside(path)
        inside.parent.mkdir(parents=True, exist_ok=True)
        inside.symlink_to(target)

    def _memory_at(self, path: str, size: int, mode: int, *, read_only: bool) -> None:
        options = ["nosuid", "nodev", f"mode={mode:o}", f"size={size}"]
        options += [f"uid={USER}", f"gid={USER}"]
        if read_only and self._kind.own_kernel:
            options.append("ro")
        elif read_only:
            # Afterwards: something may have to be mounted in it first.
            self._read_only.append(path)
        self._memory.append(path)
        self._mount(path, "tmpfs", "tmpfs", options)

    def _devices(self) -> None:
        size = f"size={_DEVICES_SIZE}"
        self._mount("/dev", "tmpfs", "tmpfs", ["nosuid", "strictatime", "mode=755", size])
        options = ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"]
        self._mount("/dev/pts", "devpts", "devpts", options)
        self._read_only.append("/dev")

    def _make_place(self, path: str, *, folder: bool) -> None:
        """Something to mount at. A mount above it has it, or the runtime makes it there.

        But gVisor's file server has no memory file systems: it mounts all else in the root folder.
        """
        below = [each for each in self._covered if _lies_in(path, each)]
        if self._kind.own_kernel:
            below = [each for each in below if each not in self._memory]
        if below:
            return
        inside = self._inside(path)
        inside.parent.mkdir(parents=True, exist_ok=True)
        if folder:
            inside.mkdir(exist_ok=True)
        else:
            inside.touch()

    def _is_covered(self, path: str) -> bool:
        return any(_lies_in(path, above) for above in self._covered)

    def _inside(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    def _configuration(self, argv: Sequence[str], variables: Mapping[str, str]) -> dict[str, Any]:
        mapped = [
            {"containerID": inside, "hostID": outside, "size": 1} for inside, outside in self._users
        ]
        linux: dict[str, Any] = {
            "namespaces": [{"type": each} for each in _NAMESPACES],
            "maskedPaths": self._masked,
            "readonlyPaths": self._read_only,
        }
        if mapped:
            linux["namespaces"].append({"type": "user"})
            linux |= {"uidMappings": mapped, "gidMappings": mapped}
        if not self._kind.own_kernel and is_known():
            linux["seccomp"] = oci_profile()
        return {
            "ociVersion": "1.0.2",
            "hostname": "reprise",
            "root": {"path": "rootfs", "readonly": True},
            "mounts": self._mounts,
            "process": {
                "terminal": False,
                "user": {"uid": USER, "gid": USER},
                "args": list(argv),
                "env": [f"{name}={value}" for name, value in variables.items()],
                "cwd": WORKSPACE,
                "noNewPrivileges": True,
                "capabilities": {each: [] for each in _CAPABILITY_SETS},
            },
            "linux": linux,
        }


def _lies_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")
