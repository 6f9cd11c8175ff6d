"""Messages over the bound become short ones that say so; status and replies survive."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprise.guest.cut import cut, refuse_reply

LIMIT = 20_000


def message(kind: str, content: object, metadata: object = None) -> list[bytes]:
    header = {"msg_id": "m", "msg_type": kind, "session": "s", "username": "u", "version": "5.4"}
    parent = {"msg_id": "asked"}
    return [json.dumps(part).encode() for part in (header, parent, metadata or {}, content)]


@given(st.text(min_size=1).map(lambda text: text * (40_000 // len(text))))
def test_a_stream_keeps_its_front_and_a_mark(text: str) -> None:
    found = cut(message("stream", {"name": "stdout", "text": text}), LIMIT)
    assert sum(map(len, found)) <= LIMIT
    content = json.loads(found[3])
    kept, mark = content["text"].split("\n[… cut by Reprise", 1)
    assert content["name"] == "stdout"
    assert text.startswith(kept)
    assert "bytes" in mark
    assert json.loads(found[1]) == {"msg_id": "asked"}


def test_anything_else_becomes_a_notice_that_names_it() -> None:
    found = cut(message("display_data", {"data": {"image/png": "x" * 50_000}}), LIMIT)
    assert json.loads(found[0])["msg_type"] == "stream"
    content = json.loads(found[3])
    assert content["name"] == "stderr"
    assert "display_data" in content["text"]
    assert sum(map(len, found)) <= LIMIT


def test_a_status_is_never_lost() -> None:
    found = cut(message("status", {"execution_state": "idle"}, {"x": "y" * 50_000}), LIMIT)
    assert json.loads(found[0])["msg_type"] == "status"
    assert json.loads(found[3]) == {"execution_state": "idle"}


def test_a_reply_becomes_an_error_reply_to_the_same_request() -> None:
    found = refuse_reply(message("execute_reply", {"status": "ok", "x": "y" * 50_000}), LIMIT)
    assert json.loads(found[0])["msg_type"] == "execute_reply"
    assert json.loads(found[1]) == {"msg_id": "asked"}
    assert json.loads(found[3])["ename"] == "ReplyTooLarge"


@pytest.mark.parametrize("broken", [b"", b"\xff", b"[]", b"{}", b'{"msg_type": 3}'])
def test_what_cannot_be_read_is_still_replaced(broken: bytes) -> None:
    found = cut([broken, b"{}", b"{}", bytes(50_000)], LIMIT)
    assert b"left out" in found[3]
