"""Shows trees in a sandbox that cannot be entered: the guest's parent inside writes them.

The parent (`guest.rooted`, which has the protocol) is root inside and dialled a connection for
this. It is the sandbox's and is not trusted: what it answers is bounded, and all that it can lie
about is what its own sandbox sees.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Coroutine
from typing import Any, TypeVar

from reprise.errors import SandboxError, TooLarge
from reprise.sandbox.entering import SandboxGone, head
from reprise.sandbox.trees import CheckedTree, Mounted

#: These stand in `guest.rooted` too.
_PIECE = 1 << 20
_SHOW = (0).to_bytes(4, "big")
_GIVE_UP = _END = (0xFFFFFFFF).to_bytes(4, "big")
_SHOWN, _FAILED, _FULL, _GIVEN_UP = range(4)
_MAX_TEXT = 4000

#: Seconds in which a piece is taken, and in which an answer comes; after that the parent is gone.
_PATIENCE = 60.0

Answer = TypeVar("Answer")


class RootedMount:
    """Mounts in one sandbox over the connection of the guest's parent; one at a time.

    stream: that connection, non-blocking (`dial.Listener.accept`).
    """

    def __init__(self, stream: socket.socket, mounted: Mounted) -> None:
        self._stream = stream
        self._mounted = mounted
        self._turn = asyncio.Lock()
        self._closed = False

    async def show(self, target: str, tree: CheckedTree) -> None:
        """Show a tree, whole or not at all, cancelled or not.

        Raises as `Container.mount`, and SandboxGone where the sandbox, or the parent, has ended.
        """
        async with self._turn:
            place, names = self._mounted.check_target(target)
            self._mounted.check_room(target, tree)
            try:
                await self._whole(self._say(head(place, names, tree)))
                for piece in tree.pieces:
                    if piece.type == "file":
                        data = await tree.content(piece)
                        for start in range(0, len(data), _PIECE):
                            part = data[start : start + _PIECE]
                            await self._whole(self._say(len(part).to_bytes(4, "big"), part))
            except SandboxGone:
                raise
            except BaseException:
                await self._whole(self._end(_GIVE_UP))
                raise
            how, text = await self._whole(self._end(_SHOW, target, tree))
        _raise_for(how, text, target)

    def end(self) -> bool:
        """Ask the parent to end every process; False where it could not be asked just now."""
        if self._closed or self._turn.locked():
            return False
        try:
            return self._stream.send(_END) == len(_END)
        except OSError:
            return False

    def close(self) -> None:
        """Forget the connection: the container has ended."""
        if not self._closed:
            self._closed = True
            self._stream.close()

    async def _whole(self, saying: Coroutine[Any, Any, Answer]) -> Answer:
        """Say it, and hear its answer, whole, cancelled or not: the next tree comes behind it."""
        task = asyncio.ensure_future(saying)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait({task})
            raise
        finally:
            if not task.done():
                # Cancelled once more: where the parent stands is not known.
                task.cancel()
                self.close()

    async def _say(self, *parts: bytes) -> None:
        if self._closed:
            raise SandboxGone
        try:
            async with asyncio.timeout(_PATIENCE):
                for part in parts:
                    await asyncio.get_running_loop().sock_sendall(self._stream, part)
        except (OSError, TimeoutError):
            self.close()
            raise SandboxGone from None

    async def _end(
        self, word: bytes, target: str = "", tree: CheckedTree | None = None
    ) -> tuple[int, str]:
        """Say the last word; what comes of the tree, and why."""
        await self._say(word)
        try:
            async with asyncio.timeout(_PATIENCE):
                how, length = (first := await self._hear(3))[0], int.from_bytes(first[1:], "big")
                if how > _GIVEN_UP or length > _MAX_TEXT:
                    raise ConnectionError("an answer that is none")
                text = (await self._hear(length)).decode("utf-8", "replace")
        except (OSError, TimeoutError):
            self.close()
            raise SandboxGone from None
        if how == _SHOWN and tree is not None:
            self._mounted.shows(target, tree)
        return how, text

    async def _hear(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = await asyncio.get_running_loop().sock_recv(self._stream, size - len(data))
            if not part:
                raise ConnectionError("the guest's parent left")
            data += part
        return data


def _raise_for(how: int, text: str, target: str) -> None:
    if how == _SHOWN:
        return
    if how == _FULL:
        raise TooLarge(
            f"{target!a} was not mounted: the sandbox has no room for it ({text!a}). What was "
            "there before stays."
        )
    raise SandboxError(
        f"{target!a} was not mounted, and what was there before stays: it could not be written "
        f"inside ({text!a})."
    )
