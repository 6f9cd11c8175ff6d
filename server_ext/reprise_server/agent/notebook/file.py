"""A notebook as a file of this machine, replaced whole: what an agent in a terminal works on."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import stat
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import nbformat

from reprise.errors import RepriseError, TooLarge, UnavailableError
from reprise.log.model import sha256_hex
from reprise_server.agent.contract import Change, Stale
from reprise_server.agent.notebook.cells import MAX_BYTES, BadNotebook, Notebook, apply, normal
from reprise_server.agent.notebook.lock import notebook_lock, whole

#: Times that changes are made anew since somebody wrote the file meanwhile.
ATTEMPTS: Final = 5
#: Times, and seconds between them, that what is no notebook is read again: an editor that writes
#: the file in place leaves half of it for a moment.
_LOOKS: Final = 5
_LOOK_S: Final = 0.1


class FileNotebook:
    """A `Document` (agent.contract). An editor that has the file open is not told of changes.

    Every change is made to what the file holds at that moment, under a lock that all of Reprise's
    processes take, and the file is read once more just before it is replaced. What an editor that
    knows no such lock writes after that last look is lost: docs/agent-notebook.md.
    """

    where: Literal["room", "page", "file"] = "file"

    def __init__(
        self,
        file: Path,
        home: Path,
        *,
        path: str | None = None,
        before_saving: Callable[[], None] = lambda: None,
    ) -> None:
        """path: as people and policies name it; the file's name by default.

        before_saving: called when the new file is written and has not taken its place yet.
        """
        self._given = file
        self._home = home
        self._before_saving = before_saving
        self.path = path if path is not None else file.name

    async def read(self) -> Mapping[str, Any]:
        """Raises BadNotebook, TooLarge, UnavailableError."""
        return (await asyncio.to_thread(self._read))[1]

    async def apply(self, changes: Sequence[Change]) -> None:
        """Raises Stale, UsageError, BadNotebook, UnavailableError; then the file is as it was."""
        real = await asyncio.to_thread(os.path.realpath, self._given)
        async with notebook_lock(self._home, real, self.path):
            for _ in range(ATTEMPTS):
                if await whole(self._replaced, changes):
                    return
        raise Stale(
            f"{self.path} was written by something else {ATTEMPTS} times while the agent changed "
            "it. None of these changes was made."
        )

    async def close(self) -> None:
        """Nothing is kept open."""

    def _read(self) -> tuple[bytes, Notebook]:
        for _ in range(_LOOKS - 1):
            data = self._bytes()
            try:
                return data, parsed(data, self.path)
            except BadNotebook:
                time.sleep(_LOOK_S)
        data = self._bytes()
        return data, parsed(data, self.path)

    def _bytes(self) -> bytes:
        try:
            with self._given.open("rb") as file:
                found = os.fstat(file.fileno())
                if not stat.S_ISREG(found.st_mode):
                    raise BadNotebook(f"{self.path} is no file.")
                data = file.read(MAX_BYTES + 1)
        except OSError as error:
            raise UnavailableError(
                f"The notebook {self._given} cannot be read: {error.strerror}."
            ) from error
        if len(data) > MAX_BYTES:
            raise TooLarge(f"{self.path} is larger than {MAX_BYTES:,} bytes; clear its outputs.")
        return data

    def _replaced(self, changes: Sequence[Change]) -> bool:
        """Whether the file now has these changes. False: it was written meanwhile."""
        data, found = self._read()
        notebook = apply(found, changes).notebook
        written = as_file(notebook, self.path)
        target = Path(os.path.realpath(self._given))  # a link stays one
        try:
            known = target.stat()
            mode = stat.S_IMODE(known.st_mode)
            # Replacing takes a right to the folder alone, so what the file says is asked first.
            if not mode & 0o222 or not os.access(target, os.W_OK):
                raise UnavailableError(f"{target} is read-only. It is as it was.")
            handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
            temporary = Path(name)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(written)
                    file.flush()
                    with contextlib.suppress(PermissionError):
                        os.fchown(file.fileno(), known.st_uid, known.st_gid)
                    os.fchmod(file.fileno(), mode)
                    os.fsync(file.fileno())
                self._before_saving()
                if sha256_hex(self._bytes()) != sha256_hex(data):
                    return False
                temporary.replace(target)
            finally:
                temporary.unlink(missing_ok=True)
        except OSError as error:
            raise UnavailableError(
                f"{target} could not be written: {error.strerror}. It is as it was."
            ) from error
        return True


def parsed(data: bytes, name: str) -> Notebook:
    """The notebook that a file holds, of any format that Jupyter reads. Raises BadNotebook."""
    try:
        given = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise BadNotebook(f"{name} is no notebook: it is not JSON. It is left as it is.") from error
    if isinstance(given, dict) and given.get("nbformat") in (1, 2, 3):
        given = _modern(given, name)
    return normal(given, name)


def _modern(given: Mapping[str, Any], name: str) -> Any:
    """A notebook of IPython's time as format 4."""
    try:
        found = nbformat.from_dict(given)  # type: ignore[no-untyped-call]
        return nbformat.convert(found, 4)  # type: ignore[no-untyped-call]
    except Exception as error:  # nbformat raises whatever an odd notebook leads to
        raise BadNotebook(f"{name} is of an old format and cannot be converted: {error}") from error


def as_file(notebook: Mapping[str, Any], name: str) -> bytes:
    """The bytes that Jupyter itself would write. Raises RepriseError when there is no such."""
    try:
        node = nbformat.from_dict(notebook)  # type: ignore[no-untyped-call]
        text: str = nbformat.v4.writes(node)  # type: ignore[no-untyped-call]
        return (text if text.endswith("\n") else text + "\n").encode("utf-8")
    except (UnicodeEncodeError, RecursionError) as error:
        raise RepriseError(
            f"{name} cannot be written, because it holds text that is not Unicode: {error}. "
            "It is as it was."
        ) from error
