"""Calls of the host about files, and how an error of any call is told."""

# pathlib is not loaded in here: the language kernel waits for us.

from __future__ import annotations

import errno
from typing import Any

from reprise.guest.files import Files
from reprise.guest.install import HalfInstalled


class CallError(Exception):
    """A call that cannot be answered as asked; `kind` is for programs (see sandbox.contract)."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


_KINDS = {
    errno.ENOENT: "not-found",
    errno.ENOTDIR: "not-found",
    errno.EISDIR: "not-a-file",
    errno.ENXIO: "not-a-file",
    errno.EXDEV: "outside",
    errno.ELOOP: "outside",
    errno.EACCES: "denied",
    errno.EPERM: "denied",
    errno.ENOSPC: "full",
    errno.EDQUOT: "full",
}

#: What a call with wrong arguments, or with right ones for a strange tree, can raise.
EXPECTED = (CallError, HalfInstalled, OSError, RecursionError)
WRONG = (KeyError, TypeError, ValueError, IndexError, AttributeError)


def kind_and_message(error: Exception) -> tuple[str, str]:
    """How an error is told to the host."""
    match error:
        case CallError():
            return error.kind, str(error)
        case HalfInstalled():
            return "half-installed", str(error)
        case RecursionError():
            return "deep", "the folders of the workspace lie too deep in each other"
        case OSError():
            named = f": {error.filename}" if error.filename else ""
            return _KINDS.get(error.errno or 0, "os"), f"{error.strerror or error}{named}"
        case _:
            return "arguments", f"{type(error).__name__}: {error}"


def perform(
    files: Files, name: str, arguments: dict[str, Any], data: list[bytes]
) -> tuple[dict[str, Any], list[bytes]]:
    """Answer a call about files. Raises what Files raises, CallError for a name that is none."""
    match name:
        case "put":
            files.put(arguments["entries"], data)
            return {}, []
        case "remove":
            files.remove(arguments["paths"])
            return {}, []
        case "install":
            files.install(arguments["stage"], arguments["removed"])
            return {}, []
        case "get":
            about, piece = files.get(
                arguments["path"], int(arguments["offset"]), int(arguments["length"])
            )
            return about, [piece]
        case "folder":
            listed, total, more = files.folder(
                str(arguments["path"]),
                int(arguments.get("limit", 1000)),
                arguments.get("after"),
                bool(arguments.get("own", True)),
            )
            return {"entries": listed, "total": total, "more": more}, []
        case "tree":
            entries, more = files.tree(
                bool(arguments.get("hashes")),
                int(arguments.get("limit", 1000)),
                arguments.get("after"),
            )
            return {"entries": entries, "more": more}, []
        case _:
            raise CallError("name", f"there is no call named {name!r}")
