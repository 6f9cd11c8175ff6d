"""The notebook through the server's contents manager, when no page has it open."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from tornado.web import HTTPError

from reprise.errors import UnavailableError
from reprise.log.model import sha256_hex
from reprise_server.agent.contract import Change, Stale
from reprise_server.agent.notebook.cells import Notebook, apply, normal, snapshot
from reprise_server.agent.notebook.lock import finished, notebook_lock
from reprise_server.agent.notebook.on_loop import on_loop

if TYPE_CHECKING:
    from jupyter_server.services.contents.manager import ContentsManager

#: Times that changes are made anew since somebody saved the notebook meanwhile.
ATTEMPTS: Final = 5
#: Times, and seconds between them, that what is no notebook is read again: a save of somebody else
#: leaves half a file for a moment.
_LOOKS: Final = 5
_LOOK_S: Final = 0.1


class _Unreadable(UnavailableError):
    """What is stored is no notebook, at this moment at least."""


async def _nothing() -> None:
    pass


class ContentsNotebook:
    """A `Document` (agent.contract). Hooks, checkpoints and signatures are the manager's.

    Changes are made to what is stored at that moment, under a lock that all of Reprise's processes
    take where the manager keeps files, and the stored notebook's hash is compared once more just
    before it is saved. A save of somebody else between that look and ours is lost: the contents API
    has no precondition (docs/agent-notebook.md).
    """

    where: Literal["room", "page", "file"] = "file"

    def __init__(
        self,
        path: str,
        contents: ContentsManager,
        loop: asyncio.AbstractEventLoop,
        home: Path,
        before_saving: Callable[[], Awaitable[None]] = _nothing,
    ) -> None:
        """path: as the contents API has it.  loop: the server's.  home: where locks lie.

        before_saving: awaited just before the last look; may raise Elsewhere.
        """
        self.path = path
        self._contents = contents
        self._loop = loop
        self._home = home
        self._before_saving = before_saving
        self._hashes = "require_hash" in inspect.signature(contents.get).parameters

    async def read(self) -> Mapping[str, Any]:
        """Raises BadNotebook, TooLarge, UnavailableError."""
        return (await on_loop(self._loop, self._read))[0]

    async def apply(self, changes: Sequence[Change]) -> None:
        """Raises Stale, UsageError, BadNotebook, UnavailableError; then nothing was saved.

        Raises Elsewhere when `before_saving` does.
        """
        await on_loop(self._loop, lambda: self._apply(changes))

    async def close(self) -> None:
        """Nothing is kept open."""

    async def _apply(self, changes: Sequence[Change]) -> None:
        key = await asyncio.to_thread(self._key)
        async with notebook_lock(self._home, key, self.path):
            for _ in range(ATTEMPTS):
                if await finished(self._replaced(changes)):
                    return
        raise Stale(
            f"{self.path} was saved by something else {ATTEMPTS} times while the agent changed it. "
            "None of these changes was made."
        )

    def _key(self) -> str:
        """A file's own, which terminals lock as well; else the manager's name for it."""
        root = getattr(self._contents, "root_dir", None)
        if isinstance(root, str) and root:
            file = Path(root) / self.path.strip("/")
            if file.is_file():
                return os.path.realpath(file)
        return f"{type(self._contents).__qualname__}:{self.path}"

    async def _replaced(self, changes: Sequence[Change]) -> bool:
        notebook, known = await self._read()
        content = apply(notebook, changes).notebook
        await self._before_saving()
        if await self._digest() != known:
            return False
        model = {"type": "notebook", "format": "json", "content": content}
        await self._ask(lambda: self._contents.save(model, self.path), "saved")  # type: ignore[no-untyped-call]
        return True

    async def _read(self) -> tuple[Notebook, str]:
        model = await self._model(content=True)
        notebook = normal(model.get("content"), self.path)
        return notebook, str(model.get("hash") or sha256_hex(snapshot(notebook)))

    async def _digest(self) -> str:
        """Of what is stored now."""
        if not self._hashes:
            return (await self._read())[1]
        model = await self._model(content=False)
        return str(model["hash"]) if model.get("hash") else (await self._read())[1]

    async def _model(self, *, content: bool) -> Mapping[str, Any]:
        asked: dict[str, Any] = {"content": content, "type": "notebook"}
        if self._hashes:
            asked["require_hash"] = True

        async def get() -> Mapping[str, Any]:
            found = await self._ask(lambda: self._contents.get(self.path, **asked), "read")  # type: ignore[no-untyped-call]
            return found if isinstance(found, Mapping) else {}

        for _ in range(_LOOKS - 1):
            with contextlib.suppress(_Unreadable):
                return await get()
            await asyncio.sleep(_LOOK_S)
        return await get()

    async def _ask(self, work: Callable[[], Any], what: str) -> Any:
        """What the manager gives; some of its kinds answer at once, some later."""
        try:
            found = work()
            return await found if inspect.isawaitable(found) else found
        except (HTTPError, OSError) as error:
            why = getattr(error, "log_message", None) or str(error)
            kind = _Unreadable if getattr(error, "status_code", 0) == 400 else UnavailableError
            raise kind(
                f"The notebook {self.path} could not be {what} on the server: {why}. It is as it "
                "was."
            ) from error
