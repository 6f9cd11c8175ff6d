"""What the router answers itself while no language kernel stands at the head of the log (pure)."""

from __future__ import annotations

from reprise import __version__
from reprise.log.model import Json
from reprise.replay.message import PROTOCOL, Malformed, Message


def answer_without_kernel(message: Message) -> dict[str, Json]:
    """The content of an honest reply: nothing is known yet, and nothing was changed."""
    kind = message.msg_type
    try:
        content = message.content()
    except Malformed:
        content = {}
    position = content.get("cursor_pos", 0)
    if kind == "complete_request":
        ends = {"cursor_start": position, "cursor_end": position}
        return {"status": "ok", "matches": [], "metadata": {}, **ends}
    if kind == "inspect_request":
        return {"status": "ok", "found": False, "data": {}, "metadata": {}}
    if kind == "is_complete_request":
        return {"status": "unknown"}
    if kind == "history_request":
        return {"status": "ok", "history": []}
    if kind == "comm_info_request":
        return {"status": "ok", "comms": {}}
    if kind == "kernel_info_request":
        return {
            "status": "ok",
            "protocol_version": PROTOCOL,
            "implementation": "reprise",
            "implementation_version": __version__,
            "language_info": {
                "name": "unknown",
                "version": "",
                "mimetype": "text/plain",
                "file_extension": ".txt",
            },
            "banner": "Reprise: the sandbox could not be started; the first cell says why.",
            "help_links": [],
        }
    text = "No language kernel is there to answer; run a cell to start one."
    return {"status": "error", "ename": "SandboxDied", "evalue": text, "traceback": [text]}
