"""The scripted model's wire is the real one's: Anthropic's own client reads it, whole and broken."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Any, get_args

import anthropic
import httpx2
import pytest
from anthropic.types import StopReason

from reprise_server.agent.scripted import (
    HANG_UP,
    Break,
    Call,
    Hold,
    Raw,
    Reply,
    ScriptedModel,
    Send,
    Step,
    Thought,
    by_answers,
    calls,
    error,
    overloaded,
    rate_limited,
    reply,
    says,
)
from reprise_server.agent.scripted.prompt_cache import Counted
from reprise_server.agent.scripted.wire import composed, events, signed
from tests.agent.asking import LONG, TOOL, assistant, client, marked, request, result, user

Make = Callable[..., ScriptedModel]

WHOLE = reply(
    Thought("Let me think about this for a while, then act."),
    "Grüße — I call two tools:",
    Call("run", {"code": "print('ü')\n" * 5, "deep": {"a": [1, None, 2.5]}}),
    Call("run", {}),
    pings=1,
    ragged=7,
)


async def streamed(server: ScriptedModel, **body: Any) -> list[Any]:
    """All events of one answer; the client leaves pings out."""
    async with client(server) as asking:
        stream = await asking.messages.create(stream=True, **(body or request(tools=[TOOL])))
        return [event async for event in stream]


async def test_the_clients_own_accumulator_and_no_stream_give_the_same(scripted: Make) -> None:
    model = scripted([WHOLE, WHOLE])
    body = request(tools=[TOOL], thinking={"type": "adaptive"})
    async with client(model) as asking:
        async with asking.messages.stream(**body) as stream:
            accumulated = await stream.get_final_message()
        whole = await asking.messages.create(**body)
    await asyncio.to_thread(model.settle)
    for answer, exchange in zip((accumulated, whole), model.exchanges, strict=True):
        assert exchange.answer is not None
        assert answer.stop_reason == "tool_use"
        told = [block.to_dict() for block in answer.content]
        assert [{**block, "citations": None} for block in told] == [
            {**block, "citations": None} for block in exchange.answer["content"]
        ]
        assert answer.usage.to_dict() == exchange.answer["usage"] | dict.fromkeys(
            answer.usage.to_dict().keys() - exchange.answer["usage"].keys()
        )
        assert exchange.ended == "whole"
    assert accumulated.id != whole.id
    ids = {
        block.id for m in (accumulated, whole) for block in m.content if block.type == "tool_use"
    }
    assert len(ids) == 4


async def test_events_come_in_the_documented_order(scripted: Make) -> None:
    kinds = [event.type for event in await streamed(scripted([reply("hi", Call("run", {}))]))]
    assert kinds == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]


async def test_pings_are_on_the_wire(scripted: Make) -> None:
    model = scripted([WHOLE])
    asking = client(model)
    async with asking.messages.with_streaming_response.create(
        stream=True, **request(tools=[TOOL])
    ) as response:
        body = await response.read()
        assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert response.headers["request-id"].startswith("req_")
    await asking.close()
    assert body.count(b'event: ping\ndata: {"type":"ping"}\n\n') > 5
    assert b"\r" not in body


@pytest.mark.parametrize("reason", [*get_args(StopReason), "compaction"])
async def test_every_stop_reason_is_said_at_the_end_only(scripted: Make, reason: Any) -> None:
    found = await streamed(
        scripted([says("x", stop=reason, stop_sequence="x", refusal="cyber", output_tokens=42)])
    )
    assert found[0].message.stop_reason is None
    assert found[-2].delta.stop_reason == reason
    assert found[-2].usage.output_tokens == 42
    assert (found[-2].delta.stop_details is not None) is (reason == "refusal")


async def test_a_tool_input_may_be_what_no_input_should_be(scripted: Make) -> None:
    odd = '{"code": "a", "code": '
    found = await streamed(scripted([reply(Call("run", {}, json=odd))]))
    pieces = [e.delta.partial_json for e in found if e.type == "content_block_delta"]
    assert "".join(pieces) == odd
    assert pieces[0] == ""


async def test_a_thought_comes_back_as_it_was_or_is_refused(scripted: Make) -> None:
    model = scripted([reply(Thought("hm"), Call("run", {})), says("done")])
    async with client(model) as asking:
        first = await asking.messages.create(**request(tools=[TOOL]))
        content = [block.to_dict() for block in first.content]
        call = content[1]["id"]
        forged = [{**content[0], "thinking": "hm!"}, content[1]]
        with pytest.raises(anthropic.BadRequestError, match="Invalid `signature`"):
            await asking.messages.create(
                **request(user("a"), assistant(*forged), user(result(call)), tools=[TOOL])
            )
        taken = await asking.messages.create(
            **request(user("a"), assistant(*content), user(result(call)), tools=[TOOL])
        )
    assert taken.stop_reason == "end_turn"
    assert [exchange.asked.results for exchange in model.exchanges][1][0].text == "ok"


@pytest.mark.parametrize("after", range(7))
async def test_a_silent_end_comes_after_just_so_many_events(scripted: Make, after: int) -> None:
    model = scripted([reply("abc", broken=Break(after, "end"))])
    assert len(await streamed(model)) == min(after, 6)
    await asyncio.to_thread(model.settle)
    assert model.exchanges[0].ended == ("broken" if after < 6 else "whole")


async def test_a_torn_connection_is_an_error_to_the_client(scripted: Make) -> None:
    model = scripted([says("abc", broken=Break(3, "reset"))])
    with pytest.raises((httpx2.ReadError, httpx2.RemoteProtocolError)):
        await streamed(model)


async def test_an_error_in_mid_stream_has_its_kind(scripted: Make) -> None:
    broken = Break(3, "error", kind="api_error", message="Internal server error")
    with pytest.raises(anthropic.APIStatusError, match="Internal server error") as raised:
        await streamed(scripted([says("abc", broken=broken)]))
    assert raised.value.status_code == 200


@pytest.mark.parametrize(
    ("step", "kind"),
    [
        (overloaded("7"), anthropic.InternalServerError),
        (rate_limited("7"), anthropic.RateLimitError),
        (error(500, "api_error", "no"), anthropic.InternalServerError),
        (error(413, "request_too_large", "no"), anthropic.APIStatusError),
        (HANG_UP, anthropic.APIConnectionError),
    ],
    ids=["529", "429", "500", "413", "hang_up"],
)
async def test_failures_are_the_clients_own_errors(
    scripted: Make, step: Step, kind: type[anthropic.APIError]
) -> None:
    with pytest.raises(kind) as raised:
        await streamed(scripted([step]))
    if isinstance(raised.value, anthropic.RateLimitError):
        assert raised.value.response.headers["retry-after"] == "7"
        assert raised.value.request_id.startswith("req_")  # type: ignore[union-attr]


async def test_bytes_of_any_kind_can_be_sent(scripted: Make) -> None:
    [event] = await streamed(scripted([Raw(b'event: message_stop\ndata: {"type":"odd"}\n\n')]))
    assert event.type == "odd"


async def test_it_knows_when_a_client_has_gone(scripted: Make) -> None:
    hold = Hold()
    model = scripted([says("a long text " * 20, broken=Break(4, "hold", hold=hold))])
    async with client(model) as asking:
        stream = await asking.messages.create(stream=True, **request())
        await anext(aiter(stream))
        assert await asyncio.to_thread(hold.reached.wait, 60)
        await stream.close()
    await asyncio.to_thread(model.settle)
    assert model.exchanges[0].ended == "gone"


async def test_a_held_stream_goes_on(scripted: Make) -> None:
    hold = Hold()
    model = scripted([says("abc", broken=Break(2, "hold", hold=hold))])
    task = asyncio.create_task(streamed(model))
    assert await asyncio.to_thread(hold.reached.wait, 60)
    assert not task.done()
    hold.go.set()
    assert (await task)[-1].type == "message_stop"


def test_closing_lets_a_held_stream_go() -> None:
    hold = Hold()
    with ScriptedModel([says("abc", broken=Break(2, "hold", hold=hold))]) as model:
        asking = anthropic.Anthropic(base_url=model.url, api_key=model.key, max_retries=0)
        stream = asking.messages.create(stream=True, **request())
        hold.reached.wait(60)
        model.close()
    with pytest.raises(httpx2.RemoteProtocolError):
        list(stream)
    asking.close()


async def test_what_is_refused_is_no_step_of_the_script(scripted: Make) -> None:
    model = scripted([says("one")])
    async with client(model) as asking:
        with pytest.raises(anthropic.BadRequestError, match="top_k"):
            await asking.messages.create(**request(), extra_body={"top_k": 1})
        with pytest.raises(anthropic.NotFoundError, match="claude-none"):
            await asking.messages.create(**{**request(), "model": "claude-none"})
        with pytest.raises(anthropic.BadRequestError, match="prompt is too long"):
            await asking.messages.create(
                **request(user("word " * 200_001), model="claude-haiku-5-5")
            )
        assert (model.left, model.exchanges) == (1, [])
        await asking.messages.create(**request())
        with pytest.raises(anthropic.BadRequestError, match="script is at its end"):
            await asking.messages.create(**request())
    wrong = anthropic.AsyncAnthropic(base_url=model.url, api_key="other", max_retries=0)
    async with wrong:
        with pytest.raises(anthropic.AuthenticationError) as raised:
            await wrong.messages.create(**request())
    assert model.key not in str(raised.value)
    assert not any(model.key in str(request.headers) for request in model.requests)


async def test_many_conversations_are_each_answered_by_their_own_turn(scripted: Make) -> None:
    model = scripted(by_answers([says("zero"), says("one"), says("two")]))
    asking = client(model)

    async def conversation() -> list[str]:
        messages = [user("go")]
        texts = []
        for _ in range(3):
            answer = await asking.messages.create(**request(*messages))
            texts.append(answer.content[0].text)  # type: ignore[union-attr]
            messages += [assistant(texts[-1]), user("on")]
        return texts

    found = await asyncio.gather(*(conversation() for _ in range(8)))
    await asking.close()
    assert found == [["zero", "one", "two"]] * 8


async def test_usage_counts_what_the_cache_had(scripted: Make) -> None:
    model = scripted(lambda asked: says(f"{len(asked.messages)}"))
    body = request(user("a"), system=[marked(LONG)])
    found = [(await streamed(model, **body))[0].message.usage for _ in range(2)]
    assert found[0].cache_creation_input_tokens == found[1].cache_read_input_tokens > 1024
    assert found[0].cache_read_input_tokens == found[1].cache_creation_input_tokens == 0
    assert found[0].input_tokens == found[1].input_tokens > 0


async def test_a_request_to_compact_is_answered_by_a_signed_summary(scripted: Make) -> None:
    model = scripted([says("on")], compact=lambda asked: f"{len(asked.messages)} messages")
    async with client(model) as asking:
        answer = await asking.beta.messages.create(
            **request(user("a"), assistant("b"), user("c")),
            compaction={"type": "summarize"},
            betas=["compact-2026-09-04"],
        )
        assert answer.stop_reason == "compaction"
        [block] = [block.to_dict() for block in answer.content]
        assert block["content"] == "3 messages"
        body = request({"role": "assistant", "content": [block]}, user("go on"))
        found = await asking.beta.messages.create(**body, betas=["compact-2026-09-04"])
        assert found.content[0].to_dict()["text"] == "on"
        block["content"] = "2 messages"
        with pytest.raises(anthropic.BadRequestError, match="Invalid `signature`"):
            await asking.beta.messages.create(**body, betas=["compact-2026-09-04"])


async def test_vertex_asks_under_its_own_paths(scripted: Make) -> None:
    model = scripted([calls("run", {"a": 1}), says("whole")])
    vertex = anthropic.AsyncAnthropicVertex(
        region="us-east5", project_id="p", access_token="t", base_url=f"{model.url}/v1"
    )
    async with vertex:
        stream = await vertex.messages.create(stream=True, **request(tools=[TOOL]))
        assert [event.type async for event in stream][-1] == "message_stop"
        whole = await vertex.messages.create(**request())
        counted = await vertex.messages.count_tokens(
            model="claude-sonnet-5-5", messages=[{"role": "user", "content": "hi"}]
        )
    assert whole.content[0].to_dict()["text"] == "whole"
    assert counted.input_tokens > 0
    assert model.exchanges[0].asked.body["model"] == "claude-sonnet-5-5"
    assert model.requests[0].path.endswith(":streamRawPredict")


def test_bedrock_gets_the_same_events_in_amazons_frames() -> None:
    """Read by the format's own rules: lengths, checksums, headers, a chunk of base64 each."""
    path = "/model/anthropic.claude-sonnet-5-5-v1%3A0/invoke-with-response-stream"
    body = {**request(tools=[TOOL]), "anthropic_version": "2026-10-21"}
    del body["model"]
    with ScriptedModel([WHOLE, says("abc", broken=Break(2, "error", message="busy"))]) as model:
        answer = httpx2.post(model.url + path, json=body)
        assert answer.headers["content-type"] == "application/vnd.amazon.eventstream"
        kinds = [json.loads(payload)["type"] for _, payload in frames(answer.content)]
        broken = httpx2.post(model.url + path, json=body)
        headers, last = list(frames(broken.content))[-1]
    assert kinds[0] == "message_start"
    assert kinds[-1] == "message_stop"
    assert headers[":message-type"] == "exception"
    assert json.loads(last) == {"message": "busy"}
    assert model.exchanges[0].asked.body["model"] == "anthropic.claude-sonnet-5-5-v1:0"


def frames(data: bytes) -> Iterator[tuple[dict[str, str], bytes]]:
    """Headers and content of each frame of an Amazon event stream."""
    while data:
        total, head, checked = struct.unpack(">III", data[:12])
        assert checked == zlib.crc32(data[:8])
        frame, data = data[:total], data[total:]
        assert struct.unpack(">I", frame[-4:]) == (zlib.crc32(frame[:-4]),)
        packed, payload = frame[12 : 12 + head], frame[12 + head : -4]
        headers = {}
        while packed:
            length = packed[0]
            name = packed[1 : 1 + length].decode()
            kind, size = struct.unpack(">BH", packed[1 + length : 4 + length])
            assert kind == 7
            headers[name] = packed[4 + length : 4 + length + size].decode()
            packed = packed[4 + length + size :]
        inner = json.loads(payload)
        yield headers, base64.b64decode(inner["bytes"]) if "bytes" in inner else payload


@pytest.mark.parametrize(
    ("length", "body", "status"),
    [("-5", b"", 400), ("x", b"", 400), ("9" * 30, b"", 400), (str(33 << 20), b"", 413)],
    ids=["negative", "no_number", "endless", "too_large"],
)
def test_a_length_that_is_none_is_refused(length: str, body: bytes, status: int) -> None:
    with (
        ScriptedModel() as model,
        socket.create_connection(
            ("127.0.0.1", int(model.url.rpartition(":")[2])), timeout=60
        ) as line,
    ):
        head = f"POST /v1/messages HTTP/1.1\r\nhost: a\r\ncontent-length: {length}\r\n\r\n"
        line.sendall(head.encode() + body)
        assert f" {status} ".encode() in line.recv(4096).partition(b"\r\n")[0]


def test_events_of_any_block_end_with_what_was_scripted() -> None:
    block = {"type": "compaction", "content": "so far", "signature": signed("so far")}
    found = list(events(composed(Reply((Send(block),)), "m", Counted(0, 0, 0, 5))))
    assert found[2]["delta"] == {"type": "compaction_delta", "content": "so far"}
    assert found[0]["message"]["usage"]["input_tokens"] == 5
