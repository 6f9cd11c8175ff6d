"""Whatever a step_request says, it is a checked request or a clear refusal."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from reprise.errors import RepriseError, UsageError
from reprise.jupyter.steps import KINDS, Parsing
from reprise.log.model import canonical
from reprise.replay.message import Malformed, make
from reprise.workspace.manifest import check_path, parse


class Stored:
    """The blobs of one request (the log's `Blobs`)."""

    def __init__(self) -> None:
        self.data: dict[str, bytes] = {}

    async def put(self, data: bytes) -> str:
        name = hashlib.sha256(data).hexdigest()
        self.data[name] = data
        return name

    async def put_many(self, items: Sequence[bytes]) -> list[str]:
        return [await self.put(data) for data in items]

    async def get(self, sha256: str) -> bytes:
        return self.data[sha256]

    async def missing(self, sha256s: Sequence[str]) -> set[str]:
        return set(sha256s) - self.data.keys()


DATA = b"stored"
NAME = hashlib.sha256(DATA).hexdigest()

texts = st.one_of(
    st.text(max_size=20),
    st.sampled_from(["", "a", "../x", "/etc/passwd", "a/../b", "a\0b", "\udcff", NAME, "0" * 64]),
)
values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(allow_nan=False, allow_infinity=False),
        texts,
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(texts, inner, max_size=4)),
    max_leaves=12,
)
entries = st.lists(
    st.one_of(
        values,
        st.tuples(
            texts,
            st.sampled_from(["file", "dir", "link", "fifo"]),
            st.one_of(st.integers(-1, 0o7777), values),
            st.one_of(st.sampled_from([0, len(DATA)]), st.integers(-1, 2**64)),
            st.one_of(texts, st.none()),
        ).map(list),
    ),
    max_size=5,
)
payloads = st.one_of(
    values,
    st.fixed_dictionaries(
        {},
        optional={
            "shell": values,
            "argv": st.one_of(values, st.lists(texts, max_size=3)),
            "cwd": values,
            "env": values,
            "stdin": st.one_of(
                values, st.just({"sha256": NAME}), values.map(lambda v: {"sha256": v})
            ),
            "timeout_s": values,
            "output_bytes": values,
            "output_lines": values,
            "background": values,
            "stop": values,
        },
    ),
    st.fixed_dictionaries(
        {},
        optional={
            "entries": entries,
            "removed": st.one_of(values, st.lists(texts, max_size=3)),
            "target": st.one_of(texts, texts.map("/skills/{}".format)),
            "tree": st.one_of(texts, values),
        },
    ),
    st.fixed_dictionaries(
        {},
        optional={
            "code": values,
            "cell_id": values,
            "user_expressions": values,
            "msg_type": st.one_of(values, st.just("comm_msg")),
            "content": values,
            "metadata": values,
        },
    ),
)


@given(
    kind=st.one_of(st.sampled_from(KINDS), texts),
    payload=payloads,
    more=st.fixed_dictionaries(
        {}, optional={"key": values, "actor": values, "token": values, "other": values}
    ),
)
@example(kind="upload", payload={"entries": [["a", "file", 0o644, 6, NAME]]}, more={})
@example(kind="command", payload={"argv": ["x"], "stdin": {"sha256": NAME}}, more={"key": "k"})
def test_it_is_a_checked_request_or_refused(kind: Any, payload: Any, more: Any) -> None:
    blobs = Stored()
    message = make("step_request", {"kind": kind, "payload": payload, **more}, buffers=[DATA])
    try:
        asked = asyncio.run(Parsing("token", blobs, 1 << 20).request(message))
    except UsageError:
        return
    except Malformed:
        return
    except RepriseError as error:
        raise AssertionError(f"not told as wrong use: {error!r}") from error
    assert asked.kind in KINDS
    assert asked.actor.kind == "user"
    canonical(dict(asked.payload))  # it can be recorded
    for name in asked.blobs:
        assert name in blobs.data
    if asked.kind == "upload":
        for path, *_ in asked.payload["entries"]:
            check_path(path)
        for path in asked.payload["removed"]:
            check_path(path)
    if asked.kind == "mount":
        assert asked.payload["target"].startswith(("/skills/", "/mnt/"))
        parse(blobs.data[asked.payload["tree"]])


@given(st.one_of(st.text(max_size=64), st.none(), st.integers(), st.binary(max_size=8).map(str)))
def test_no_other_token_makes_an_agent(token: Any) -> None:
    actor = {"kind": "agent", "conversation": "c", "turn": 1}
    content = {"kind": "command", "payload": {"shell": "x"}, "actor": actor, "token": token}
    try:
        asyncio.run(Parsing("right", Stored(), 0).request(make("step_request", content)))
    except UsageError:
        assert token != "right"
    else:
        assert token == "right"
