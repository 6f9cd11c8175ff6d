"""Asks a running kernel for what Jupyter has no message for, from another process."""

from __future__ import annotations

import queue
import time
import uuid
from pathlib import Path

from jupyter_client.blocking.client import BlockingKernelClient

from reprise.errors import UnavailableError
from reprise.log.model import Json


class KernelWorkspace:
    """A running kernel's workspace, asked over its control channel. Use as a context manager."""

    def __init__(self, connection: Path, timeout_s: float = 60.0) -> None:
        self._client = BlockingKernelClient(connection_file=str(connection))
        self._timeout_s = timeout_s

    def __enter__(self) -> KernelWorkspace:
        self._client.load_connection_file()
        self._client.start_channels(shell=False, iopub=False, stdin=False, hb=False)
        return self

    def __exit__(self, *_: object) -> None:
        self._client.stop_channels()

    def ask(self, **content: Json) -> tuple[dict[str, Json], list[bytes]]:
        """A `workspace_request`. Raises UnavailableError when there is no answer, or a refusal."""
        return self.request("workspace_request", content)

    def attach(self, session: uuid.UUID, *, interrupt: bool = False) -> None:
        """Let the kernel go on with another session. Raises UnavailableError as `ask` does."""
        self.request("attach_request", {"session": str(session), "interrupt": interrupt})

    def request(self, kind: str, content: dict[str, Json]) -> tuple[dict[str, Json], list[bytes]]:
        """One request of our own (docs/messages.md) and its answer."""
        message = self._client.session.msg(kind, content)
        self._client.control_channel.send(message)
        deadline = time.monotonic() + self._timeout_s
        while (left := deadline - time.monotonic()) > 0:
            try:
                reply = self._client.get_control_msg(timeout=left)
            except queue.Empty:
                continue
            if reply["parent_header"].get("msg_id") == message["header"]["msg_id"]:
                break
        else:
            raise UnavailableError(f"The kernel did not answer within {self._timeout_s:.0f} s.")
        found: dict[str, Json] = reply["content"]
        if found.get("status") != "ok":
            raise UnavailableError(f"The kernel refused: {found.get('evalue')}")
        return found, [bytes(buffer) for buffer in reply["buffers"]]
