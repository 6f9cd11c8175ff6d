"""One question to a running kernel over its control channel alone, answered at once or not at all.

It waits for no sandbox and no step, so whoever shows how a session stands can ask as often as he
likes; the library's own connection (`line`) waits until the language kernel is there.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import zmq
import zmq.asyncio
from jupyter_client.asynchronous.client import AsyncKernelClient

from reprise.client.failures import NoAnswer, refusal
from reprise.client.line import CONNECTION_BYTES
from reprise.errors import UnavailableError
from reprise.log.model import Json, canonical


async def glance(
    connection: Path, kind: str, content: Mapping[str, Json], timeout_s: float
) -> dict[str, Json]:
    """The content of the reply, without its status.

    Raises UnavailableError when there is no such kernel, NoAnswer, and what it refuses with.
    """
    context = zmq.asyncio.Context()
    try:
        client = AsyncKernelClient(context=context)
        try:
            with connection.open("rb") as file:
                client.load_connection_info(json.loads(file.read(CONNECTION_BYTES)))
        except (OSError, ValueError, AttributeError, TypeError) as error:
            raise UnavailableError(f"The kernel of {connection} has ended: {error}.") from error
        socket = cast(zmq.asyncio.Socket, client.connect_control(identity=client.session.bsession))
        header = client.session.msg_header(kind)
        message = {"header": header, "parent_header": {}, "metadata": {}}
        try:
            async with asyncio.timeout(timeout_s):
                frames = client.session.serialize({**message, "content": canonical(content)})
                await socket.send_multipart(frames)
                while True:
                    _, frames = client.session.feed_identities(await socket.recv_multipart())
                    reply = client.session.deserialize(frames)
                    if reply["parent_header"].get("msg_id") == header["msg_id"]:
                        break
        except TimeoutError:
            raise NoAnswer(f"The kernel did not answer a {kind} within {timeout_s:g} s.") from None
    finally:
        context.destroy(linger=0)
    found: dict[str, Json] = dict(reply["content"])
    if found.pop("status", None) != "ok":
        raise refusal(found)
    return found
