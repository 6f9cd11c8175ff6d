"""One sandbox in a Dagger session: its container, the long exec in it, and what stands on that."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import dagger

from reprise.errors import SandboxError
from reprise.sandbox.contract import Said
from reprise.sandbox.dagger_image import Base, Images
from reprise.sandbox.dagger_order import Order
from reprise.sandbox.dagger_session import Session, first_line
from reprise.sandbox.view import LIBRARY, WORKSPACE

#: Where the guest finds the host's socket.
SOCKET = "/run/reprise/host"

#: Characters of a guest's complaints that are passed on.
_SAID = 2000

#: Each exec is a layer. Overlay file systems take some 500, and the engine's own copies fewer;
#: long before that the workspace is copied onto the image anew.
FLATTEN_AFTER = 200


class Sandbox:
    """A sandbox in a session; `run` again after it has ended goes on with its files."""

    def __init__(self, session: Session, images: Images, order: Order) -> None:
        self._session = session
        self._images = images
        self._order = order
        self._base: Base | None = None
        self._next: dagger.Container | None = None
        self._layers = 0

    async def prepare(self, said: Said) -> None:
        """Have all that the exec stands on. Raises SandboxError."""
        self._base = await self._images.base(self._order, said)
        self._next = await self._furnished(self._base)

    async def _furnished(self, base: Base) -> dagger.Container:
        """The image with what a sandbox needs in it, but for what differs in each exec."""
        order, client = self._order, self._session.client
        container = base.container.with_user("0").with_workdir("/")
        for name, value in order.variables.items():
            container = container.with_env_variable(name, value)
        for folder, size in order.temporary.items():
            if folder not in base.needed:
                container = container.with_mounted_temp(folder, size=size)
        for source, target in order.data:
            container = container.with_mounted_directory(target, client.host().directory(source))
        library = await self._session.library()
        return container.with_mounted_directory(LIBRARY, library)

    async def run(self, variables: Mapping[str, str], socket: str) -> str:
        """Run the guest to its end; the last of what it complained of. Cancelled: it is gone.

        variables: what is to be set anew, a nonce among it: an exec that was seen before is
        answered from the cache.
        Its files are kept for the next `run` where it ended with exit code 0, which it always
        does unless it was killed. Raises dagger.DaggerError, SandboxError.
        """
        if self._next is None:
            raise SandboxError("The sandbox ended in a way that left no files to go on with.")
        container, self._next = self._next, None
        for name, value in variables.items():
            container = container.with_env_variable(name, value)
        forwarded = self._session.client.host().unix_socket(socket)
        container = container.with_unix_socket(SOCKET, forwarded)
        done = await container.with_exec(
            list(self._order.argv), expect=dagger.ReturnType.ANY, no_init=True
        ).sync()
        if self._order.renewable and await done.exit_code() == 0:
            self._layers += 1
            self._next = done
            if self._layers >= FLATTEN_AFTER:
                await self._flatten(done)
        return (await done.stderr())[-_SAID:].strip()

    async def _flatten(self, done: dagger.Container) -> None:
        """Stand on the image again, with a copy of the workspace: one layer instead of many."""
        assert self._base is not None  # noqa: S101  what has run stood on it
        fresh = await self._furnished(self._base)
        self._next = await fresh.with_directory(WORKSPACE, done.directory(WORKSPACE)).sync()
        self._layers = 1


def failure(session: Session, error: BaseException) -> str:
    """What a failed exec means, for a person."""
    text = first_line(error)
    if not session.alive or isinstance(error, dagger.TransportError):
        return f"the Dagger engine went away ({text})"
    return f"the Dagger engine ended it: {text}"


async def cancelled(task: asyncio.Task[None]) -> None:
    """Cancel and wait for it; how it ended is of no interest."""
    task.cancel()
    await asyncio.wait({task})
