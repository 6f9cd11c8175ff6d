"""Cuts iopub messages that are longer than the host takes, with a mark that people see (pure)."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence


def cut(parts: Sequence[bytes], limit: int) -> list[bytes]:
    """Header, parent, metadata, content that say as much as fits into `limit` bytes.

    A stream keeps the front of its text; a status keeps its content alone; anything else
    becomes a stderr stream message that says what was left out.
    """
    size = sum(map(len, parts))
    try:
        header = json.loads(parts[0])
        msg_type = str(header["msg_type"])
    except (ValueError, KeyError, TypeError):
        header, msg_type = {}, "unknown"
    parent = parts[1] if len(parts[1]) * 4 <= limit else b"{}"
    if msg_type == "status" and len(parts[3]) * 2 <= limit:
        return [_header(header, msg_type), parent, b"{}", parts[3]]
    if msg_type == "stream":
        try:
            content = json.loads(parts[3])
            name, text = str(content["name"]), str(content["text"])
        except (ValueError, KeyError, TypeError):
            name, text = "stderr", ""
        mark = f"\n[… cut by Reprise: {size:,} bytes at once, {limit:,} are let through]\n"
        # JSON escapes make a character up to twelve bytes long.
        room = max(0, limit // 2 - 4096)
        kept = text[:room]
        while len(json.dumps(kept)) > room:
            kept = kept[: len(kept) // 2]
        body = {"name": name, "text": kept + mark}
    else:
        body = {
            "name": "stderr",
            "text": f"[Reprise left out a {msg_type} message of {size:,} bytes: "
            f"one message may have {limit:,}]\n",
        }
    return [_header(header, "stream"), parent, b"{}", json.dumps(body).encode()]


def refuse_reply(parts: Sequence[bytes], limit: int) -> list[bytes]:
    """The error reply that stands for a reply longer than `limit`: a reply is never dropped."""
    size = sum(map(len, parts))
    try:
        header = json.loads(parts[0])
        msg_type = str(header["msg_type"])
    except (ValueError, KeyError, TypeError):
        header, msg_type = {}, "unknown"
    text = f"the {msg_type} has {size:,} bytes; one message may have {limit:,}"
    body = {
        "status": "error",
        "ename": "ReplyTooLarge",
        "evalue": text,
        "traceback": [f"ReplyTooLarge: {text}"],
    }
    parent = parts[1] if len(parts[1]) * 4 <= limit else b"{}"
    return [_header(header, msg_type), parent, b"{}", json.dumps(body).encode()]


def _header(header: dict[str, object], msg_type: str) -> bytes:
    kept = {
        key: value
        for key, value in header.items()
        if key in ("session", "username", "date", "version") and len(str(value)) < 1000
    }
    return json.dumps({**kept, "msg_id": os.urandom(16).hex(), "msg_type": msg_type}).encode()
