"""The same model behind other clients; what an endpoint sends too much of ends in a failure."""

from __future__ import annotations

import asyncio
import gzip
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from traitlets import TraitError

from reprise.errors import UnavailableError, UsageError
from reprise_server.agent.contract import ModelFailed
from reprise_server.agent.model import clients, open_model
from reprise_server.agent.scripted import (
    Break,
    Call,
    Hold,
    ScriptedModel,
    Thought,
    reply,
    says,
)
from tests.agent.model.odd_endpoint import STREAM, Came, head, odd_endpoint
from tests.agent.model.speaking import PATIENCE, Heard, at_once, prompt, settings, speaking, until
from tests.agent.model.stream import WHOLE, wire

BEDROCK = {
    "provider": "bedrock",
    "model": "anthropic.claude-sonnet-5-5-v1:0",
    "region": "eu-west-1",
    "context_management": "own",
}
VERTEX = {
    "provider": "vertex",
    "region": "europe-west1",
    "project": "p",
    "context_management": "own",
}
CLOUDS = pytest.mark.parametrize("cloud", [BEDROCK, VERTEX], ids=["bedrock", "vertex"])


@CLOUDS
async def test_an_answer_is_the_same_behind_a_cloud(cloud: dict[str, Any]) -> None:
    heard = Heard()
    async with ScriptedModel(
        [reply(Thought("Hm."), "So: ü😀", Call("run_cells", {"cells": ["a"]})), says("Done.")]
    ) as scripted:
        async with speaking(scripted, **cloud) as model:
            answered = await model.respond(prompt(), heard.listener())
            results = [{"type": "tool_result", "tool_use_id": answered.content[2]["id"]}]
            done = await model.respond(
                prompt("Run it", answered.content, results), Heard().listener()
            )
            assert await model.count(prompt()) > 0
        path = scripted.requests[0].path
    assert answered.stop_reason == "tool_use"
    assert answered.content[1] == {"type": "text", "text": "So: ü😀"}
    assert answered.content[2]["input"] == {"cells": ["a"]}
    assert answered.usage["input_tokens"] > 0
    assert done.content == [{"type": "text", "text": "Done."}]
    assert "".join(d["text"] for d in heard.deltas if d["type"] == "text") == "So: ü😀"
    assert "invoke-with-response-stream" in path or "streamRawPredict" in path


@CLOUDS
@pytest.mark.parametrize("how", ["end", "reset", "error"])
async def test_what_breaks_off_behind_a_cloud_is_tried_again(
    cloud: dict[str, Any], how: Any
) -> None:
    heard = Heard()
    broken = says("word " * 30, broken=Break(5, how))
    async with ScriptedModel([broken, says("Done.")]) as scripted, speaking(scripted, **cloud) as m:
        answered = await m.respond(prompt(), heard.listener())
    assert answered.content == [{"type": "text", "text": "Done."}]
    assert answered.usage["lost"]
    assert heard.asked == [1, 2]


@CLOUDS
async def test_a_cut_input_runs_nothing_behind_a_cloud(cloud: dict[str, Any]) -> None:
    cut = reply("So:", Call("run_cells", {}, json='{"cells": ["a"'))
    async with ScriptedModel([cut] * 3) as scripted, speaking(scripted, **cloud) as model:
        with pytest.raises(ModelFailed, match="cannot be read"):
            await model.respond(prompt(), Heard().listener())


@CLOUDS
async def test_cancelling_closes_the_connection_to_a_cloud(cloud: dict[str, Any]) -> None:
    hold = Hold()
    heard = Heard()
    held = says("word " * 40, broken=Break(6, "hold", hold=hold))
    async with ScriptedModel([held]) as scripted, speaking(scripted, **cloud) as model:
        asking = asyncio.create_task(model.respond(prompt(), heard.listener()))
        await until(hold.reached.is_set)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await until(lambda: scripted.exchanges[0].ended == "gone")
    assert heard.cut


@pytest.mark.parametrize(
    "body",
    [b"\x00" * 64, b"not a frame at all, but words", wire(WHOLE)],
    ids=["nul", "text", "sse"],
)
async def test_frames_that_are_none_are_a_failure(body: bytes) -> None:
    async def answer(came: Came) -> None:
        kind = "content-type: application/vnd.amazon.eventstream"
        await came.write(head(200, kind, "connection: close") + body)

    async with odd_endpoint(answer) as odd:
        wanted = settings(**BEDROCK, base_url=odd.url, api_key="made-up", attempts=2)
        model = open_model(wanted)
        model._sleep = at_once
        with pytest.raises(ModelFailed, match=r"cannot be read|ended before"):
            await model.respond(prompt(), Heard().listener())
        await model.close()
    assert len(odd.requests) == 2


async def test_without_credentials_of_a_cloud_it_is_said_how_to_sign_in(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    model = open_model(settings(**BEDROCK | {"region": "eu-west-2"}))
    with pytest.raises(ModelFailed, match=r"No credentials for bedrock .*Sign in") as failed:
        await model.respond(prompt(), Heard().listener())
    assert not failed.value.again
    await model.close()


# What comes too much ------------------------------------------------------------------------------


async def asked(answer: Any, **given: Any) -> str:
    async with odd_endpoint(answer) as odd:
        model = open_model(settings(base_url=odd.url, api_key="made-up", attempts=1, **given))
        with pytest.raises(ModelFailed) as failed:
            async with asyncio.timeout(PATIENCE):
                await model.respond(prompt(), Heard().listener())
        await model.close()
    return str(failed.value)


async def test_what_comes_packed_is_not_unpacked() -> None:
    async def answer(came: Came) -> None:
        body = gzip.compress(b"data: " + b"x" * (32 << 20))
        await came.write(head(200, *STREAM, "content-encoding: gzip") + body)

    assert "came packed" in await asked(answer)


async def test_a_stream_that_cannot_be_read_is_closed_at_once() -> None:
    gone = asyncio.Event()

    async def answer(came: Came) -> None:
        await came.write(head(200, *STREAM) + wire([WHOLE[0], WHOLE[0]]))
        await came.reader.read()
        gone.set()

    async with odd_endpoint(answer) as odd:
        model = open_model(settings(base_url=odd.url, api_key="made-up", attempts=1))
        with pytest.raises(ModelFailed, match="came twice"):
            await model.respond(prompt(), Heard().listener())
        async with asyncio.timeout(PATIENCE):
            await gone.wait()
        await model.close()


@pytest.mark.parametrize("status", [200, 500])
async def test_a_body_without_end_is_cut(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "MAX_STREAM", 300_000)
    monkeypatch.setattr(clients, "_MAX_ERROR", 300_000)

    async def answer(came: Came) -> None:
        await came.write(head(status, *STREAM))
        while True:
            await came.write(b": ping\n\n" * 1000)

    assert "over" in await asked(answer)


async def test_a_long_silence_is_a_failure() -> None:
    async def answer(came: Came) -> None:
        await came.write(head(200, *STREAM) + wire(WHOLE[:4]))
        await asyncio.Event().wait()

    assert "said nothing for too long" in await asked(answer, silence=1.0)


# Settings -----------------------------------------------------------------------------------------


def test_without_the_sdk_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "anthropic", None)
    with pytest.raises(UnavailableError, match=r"jupyter-reprise\[agent\]"):
        open_model(settings(api_key="none"))


@pytest.mark.parametrize(
    ("given", "module", "extra"),
    [(BEDROCK, "boto3", "bedrock"), (VERTEX, "google.auth", "vertex")],
    ids=["bedrock", "vertex"],
)
def test_without_a_clouds_library_too(
    given: dict[str, Any], module: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UnavailableError, match=rf"jupyter-reprise\[{extra}\]"):
        open_model(settings(**given))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"base_url": "host.example/v1"}, "base_url"),
        ({"base_url": "file:///etc/passwd"}, "base_url"),
        ({"base_url": "https://a:b@host.example"}, "password"),
        ({"base_url": "https://["}, "base_url"),
        ({"model": "  "}, "model"),
        ({"model": "x\ny"}, "model"),
        ({"money": "2 USD"}, "claude-sonnet-5-5"),
        ({"money": "2 USD", "prices": {"claude-sonnet-5-5": {}}}, "lacks input"),
    ],
    ids=str,
)
def test_settings_that_cannot_be_are_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        open_model(settings(**{"api_key": "none", **given}))


@pytest.mark.parametrize("url", ["host.example/v1", "https://a:b@host.example"])
def test_an_address_of_the_environment_is_looked_at_too(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
    with pytest.raises(UsageError, match="ANTHROPIC_BASE_URL") as raised:
        open_model(settings(api_key="none"))
    assert "a:b" not in str(raised.value)


def test_wrong_servers_are_not_repeated() -> None:
    from reprise_server.agent.settings import RepriseAgent

    with pytest.raises(TraitError) as raised:
        RepriseAgent(mcp_servers=[{"headers": {"Authorization": "Bearer s3cr3t"}}])
    assert "s3cr3t" not in str(raised.value)


def test_who_keeps_the_context_depends_on_the_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    from reprise_server.agent.settings import RepriseAgent

    monkeypatch.delenv("ANTHROPIC_BASE_URL", raising=False)
    assert RepriseAgent().context_management == "api"
    assert RepriseAgent(base_url="https://x.example").context_management == "own"
    assert RepriseAgent(provider="vertex").context_management == "own"
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "https://x.example")
    assert RepriseAgent().context_management == "own"


def test_a_cloud_without_a_region_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CLOUD_ML_REGION", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UnavailableError, match="region"):
        open_model(settings(provider="vertex", api_key="made-up"))
