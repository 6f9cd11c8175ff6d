"""A started sandbox whose processes all live in one PID namespace: watched, mounted in, ended.

When that namespace's init is gone, all of them are (pid_namespaces(7)). Whoever starts it tells the
host's pid of that init over a pipe, as a JSON object, as bubblewrap does with --info-fd.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
from collections.abc import Callable
from typing import Protocol

from reprise.errors import SandboxDied
from reprise.sandbox import cgroup
from reprise.sandbox.child import Child
from reprise.sandbox.contract import DeathCause, Tree
from reprise.sandbox.entering import SandboxGone
from reprise.sandbox.process import cause_of
from reprise.sandbox.trees import CheckedTree, check_tree
from reprise.sandbox.view import WORKSPACE

#: Seconds that the init's parent has to see its end; then it is ended as well.
_PATIENCE = 5.0


class Mounts(Protocol):
    """How trees are shown in one sandbox."""

    async def show(self, target: str, tree: CheckedTree, pid: int, alive: int) -> None:
        """Show a tree, whole or not at all. pid, alive: of the sandbox's init, and a pidfd of it.

        One call at a time. Raises as `Container.mount`, and SandboxGone.
        """

    async def end(self) -> None:
        """The sandbox has ended: let go of everything."""


class NamespacedContainer:
    """A `contract.Container` below `child`, which ends when the namespace's init has.

    stream: None where the guest is still to dial; whoever waits for that sets it before the
    container is anybody else's.  info: where the init's pid is told.  group: its control group.
    memory: the limit that this group stands for, bytes.  forget: removes what the start has left
    on the host.
    """

    stream: socket.socket

    def __init__(
        self,
        child: Child,
        stream: socket.socket | None,
        info: int,
        group: cgroup.Cgroup | None,
        mounts: Mounts,
        *,
        memory: int,
        forget: Callable[[], None] = lambda: None,
    ) -> None:
        if stream is not None:
            self.stream = stream
        self.pid = child.pid
        self.workspace = WORKSPACE
        self.init_pid: int | None = None
        self._child = child
        self._group = group
        self._memory = memory
        self._mounts = mounts
        self._forget = forget
        self._turn = asyncio.Lock()
        self._info = info
        self._told = b""
        #: A pidfd of the init, once its pid has been told.
        self._init = -1
        self._last_resort: asyncio.TimerHandle | None = None
        self._killed = False
        self._exceeded: int | None = None
        self._loop = asyncio.get_running_loop()
        self._known: asyncio.Future[None] = self._loop.create_future()
        self._oom = -1 if group is None else group.oom_event()
        if self._oom >= 0:
            self._loop.add_reader(self._oom, self._on_oom)
        os.set_blocking(info, False)
        self._loop.add_reader(info, self._on_info)
        self._cleaning: asyncio.Task[DeathCause] = self._loop.create_task(self._finish())

    def _on_oom(self) -> None:
        """The kernel is about to kill one process of the sandbox; all of it goes.

        What is left when it picks a child is a state that no replay can come to again.
        """
        self._exceeded = self._memory
        self._close_oom()
        self._end()

    def _close_oom(self) -> None:
        if self._oom >= 0:
            self._loop.remove_reader(self._oom)
            os.close(self._oom)
            self._oom = -1

    def _on_info(self) -> None:
        with contextlib.suppress(BlockingIOError):
            data = os.read(self._info, 4096)
            self._told += data
            if not data:
                self._close_info()

    def _close_info(self) -> None:
        """All is told: a JSON object with the host pid of the init."""
        if self._info < 0:
            return
        self._loop.remove_reader(self._info)
        os.close(self._info)
        self._info = -1
        with contextlib.suppress(ValueError, KeyError, ProcessLookupError):
            self.init_pid = int(json.loads(self._told)["child-pid"])
            self._init = os.pidfd_open(self.init_pid)
            if self._killed:
                self._kill_init()
        self._known.set_result(None)

    def _kill_init(self) -> None:
        if self._init >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._init, signal.SIGKILL)

    def _end(self) -> None:
        """End all of it: the init, so that its parent reaps it and goes, too."""
        if self._init < 0:
            self._child.kill()
            return
        self._kill_init()
        if self._last_resort is None:
            self._last_resort = self._loop.call_later(_PATIENCE, self._child.kill)

    async def _finish(self) -> DeathCause:
        code = await self._child.wait()
        if self._last_resort is not None:
            self._last_resort.cancel()
        self._on_info_rest()
        if self._init >= 0:
            self._kill_init()
            done = self._loop.create_future()
            self._loop.add_reader(self._init, done.set_result, None)
            await done
            self._loop.remove_reader(self._init)
            os.close(self._init)
            self._init = -1
        await self._mounts.end()
        self._close_oom()
        if self._group is not None:
            self._look_at_group()
            await self._group.remove()
        await asyncio.to_thread(self._forget)
        return cause_of(code, self._killed, self._child.said())

    def _on_info_rest(self) -> None:
        while self._info >= 0:
            try:
                data = os.read(self._info, 4096)
            except BlockingIOError:
                data = b""
            self._told += data
            if not data:
                self._close_info()

    def _look_at_group(self) -> None:
        if self._group is not None and self._group.memory_exceeded() is not None:
            self._exceeded = self._memory

    async def wait(self) -> DeathCause:
        return await asyncio.shield(self._cleaning)

    def memory_exceeded(self) -> int | None:
        if self._exceeded is None and not self._cleaning.done():
            self._look_at_group()
        return self._exceeded

    async def mount(self, target: str, tree: Tree) -> str:
        checked = await asyncio.to_thread(check_tree, tree)
        await self._known
        try:
            async with self._turn:
                if self._init < 0 or self.init_pid is None:
                    raise SandboxGone
                await self._mounts.show(target, checked, self.init_pid, self._init)
        except SandboxGone:
            # Whoever ended the program inside (the kernel, for memory) left a state of its own.
            self._end()
            cause = await self.wait()
            raise SandboxDied(
                f"The sandbox ended before {target!a} was mounted in it. The next one will "
                "have what the log names.",
                cause,
            ) from None
        return target

    async def kill(self) -> None:
        self._killed = True
        self._end()
        await self.wait()
