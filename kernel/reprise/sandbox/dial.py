"""Waits for a guest to dial: a unix socket in a private folder, and one connection for each token.

For backends that cannot hand a descriptor in. What is sent first on a connection is the token and
a line feed (`guest.dial`); after that the connection is the stream, as if it had been inherited.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import secrets
import shutil
import socket
from collections.abc import Sequence
from pathlib import Path

from reprise.errors import SandboxError

#: Who dials: the guest; the parent of the guest that is root inside (`guest.rooted`).
GUEST = "guest"
ROOTED = "rooted"

#: The variables in which the tokens go in (`guest.dial` takes them out of its environment).
VARIABLES = {GUEST: "REPRISE_TOKEN", ROOTED: "REPRISE_ROOT_TOKEN"}

#: Seconds that a start may take until everybody has dialled. A loaded machine needs some.
DIAL_PATIENCE = 60.0

#: Seconds in which a connection must have presented its token. Ours is sent at once.
_PRESENT = 10.0

#: Connections that may be presenting at once; with more, the oldest is dropped. So whoever reached
#: the socket without a token can neither fill it nor make us keep anything.
_AT_ONCE = 32

#: Hexadecimal digits of a token, and with the line feed what is read of a connection.
_DIGITS = 64
_PRESENTED = _DIGITS + 1

#: What is bound below it has a short path: sockets' paths have at most 107 bytes.
_ABOVE = Path("/tmp")  # noqa: S108
_PREFIX = "reprise-dial-"


class Listener:
    """A socket that hands out one connection for each role, to whoever has its token.

    path: of the socket.  folder: holds nothing but it, and may be shown in a sandbox: whoever is in
    there can reach it, under whatever number, but on the host it lies in a folder that only `uid`
    may enter.  tokens: role → what is to be presented;
    each is good for one connection.  uid: the host user who will dial, where it is not our own.
    Made in the event loop. `close` it in any case; `accept` does when it has succeeded.
    """

    def __init__(self, roles: Sequence[str] = (GUEST,), uid: int | None = None) -> None:
        """Raises SandboxError when there can be no socket."""
        self.tokens = {role: secrets.token_hex(_DIGITS // 2) for role in roles}
        self._loop = asyncio.get_running_loop()
        self._taken: dict[str, socket.socket] = {}
        self._presenting: dict[asyncio.Task[None], socket.socket] = {}
        self._complete = asyncio.Event()
        self._accepting = False
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._closed_folder = _ABOVE / f"{_PREFIX}{os.getpid()}-{secrets.token_hex(8)}"
        self.folder = self._closed_folder / "host"
        self.path = self.folder / "guest"
        try:
            _sweep()
            self._closed_folder.mkdir(mode=0o700)
            self.folder.mkdir()
            self.folder.chmod(0o755)
            self._socket.bind(str(self.path))
            self.path.chmod(0o666)
            if uid is not None:
                os.chown(self._closed_folder, uid, uid)
            self._socket.setblocking(False)
            self._socket.listen(_AT_ONCE)
        except OSError as error:
            self.close()
            raise SandboxError(
                f"There can be no socket for the sandbox to dial below {_ABOVE}: {error}. "
                "Nothing was started."
            ) from error

    def variables(self) -> dict[str, str]:
        """The variables that whoever dials needs in its environment."""
        return {VARIABLES[role]: token for role, token in self.tokens.items()}

    async def accept(self, patience: float = DIAL_PATIENCE) -> dict[str, socket.socket]:
        """The connected, non-blocking sockets of all roles; the socket's file is gone then.

        Raises SandboxError when somebody has not dialled in time. Then, and when cancelled,
        every connection is closed.
        """
        try:
            self._loop.add_reader(self._socket, self._on_dial)
            self._accepting = True
            async with asyncio.timeout(patience):
                await self._complete.wait()
            taken, self._taken = self._taken, {}
        except TimeoutError:
            missing = " and ".join(role for role in self.tokens if role not in self._taken)
            raise SandboxError(
                f"The sandbox was started, but its {missing} did not dial back within "
                f"{patience:.0f} s. The sandbox is ended."
            ) from None
        finally:
            self.close()
        return taken

    def _on_dial(self) -> None:
        try:
            dialled, _ = self._socket.accept()
        except OSError:
            return  # it left again, or there are no descriptors: the next one may come through
        dialled.setblocking(False)
        heard = [task for task in self._presenting if not task.cancelling()]
        if len(heard) >= _AT_ONCE:
            heard[0].cancel()
        task = self._loop.create_task(self._hear(dialled))
        self._presenting[task] = dialled
        task.add_done_callback(self._on_heard)

    def _on_heard(self, task: asyncio.Task[None]) -> None:
        """What was not kept is closed, also when it was dropped before anybody listened to it."""
        if dropped := self._presenting.pop(task, None):
            dropped.close()

    async def _hear(self, dialled: socket.socket) -> None:
        """Keep the connection if it presents a token that nobody has presented yet."""
        said = b""
        try:
            async with asyncio.timeout(_PRESENT):
                # Never a byte more than that: the rest is the stream's.
                while len(said) < _PRESENTED:
                    data = await self._loop.sock_recv(dialled, _PRESENTED - len(said))
                    if not data:
                        return
                    said += data
        except (TimeoutError, OSError):
            return
        role = self._role(said)
        if role is None or role in self._taken:
            return
        for task in [task for task, each in self._presenting.items() if each is dialled]:
            del self._presenting[task]
        self._taken[role] = dialled
        if len(self._taken) == len(self.tokens):
            self._complete.set()

    def _role(self, said: bytes) -> str | None:
        # All are compared, each in the same time: how long it takes tells nothing.
        found = None
        for role, token in self.tokens.items():
            if hmac.compare_digest(said, f"{token}\n".encode()):
                found = role
        return found

    def close(self) -> None:
        """Stop listening, remove socket and folder, close what was not handed out. Idempotent."""
        if self._accepting:
            self._loop.remove_reader(self._socket)
            self._accepting = False
        self._socket.close()
        for task in list(self._presenting):
            task.cancel()
        for taken in self._taken.values():
            taken.close()
        self._taken = {}
        shutil.rmtree(self._closed_folder, ignore_errors=True)


def _sweep() -> None:
    """Remove what listeners of ours have left whose process was killed."""
    for folder in _ABOVE.glob(f"{_PREFIX}*"):
        maker = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if maker.isdigit() and not Path("/proc", maker).exists():
            shutil.rmtree(folder, ignore_errors=True)
