"""The key is sent to the endpoint and stands nowhere else: no error, traceback, wait, log or repr."""

from __future__ import annotations

import base64
import json
import logging
import traceback
from pathlib import Path
from typing import Any

import pytest

from reprise.errors import RepriseError, UnavailableError
from reprise_server.agent.contract import Listener, ModelFailed
from reprise_server.agent.model import open_model
from reprise_server.agent.scripted import Failure, ScriptedModel
from tests.agent.model.odd_endpoint import STREAM, Came, head, odd_endpoint
from tests.agent.model.speaking import Heard, at_once, prompt, settings, speaking
from tests.agent.model.stream import WHOLE, wire

KEY = "sk-ant-api03-" + "Zq9fK2vX7mB4nR8tW1yL5pJ3"
GATEWAY = "gw-9f8e7d6c5b4a39281706"


def key_in(text: str) -> bool:
    """Whether any eight characters of a secret stand in it."""
    return any(
        secret[at : at + 8].lower() in text.lower()
        for secret in (KEY, GATEWAY)
        for at in range(len(secret) - 7)
    )


def shown(error: BaseException) -> str:
    """All that a reporter of errors could show: chained errors, and what stands in each frame."""
    told = traceback.TracebackException.from_exception(error, capture_locals=True)
    return "\n".join([str(error), repr(error), repr(vars(error)), *told.format()])


async def failing(model: Any, listener: Listener) -> BaseException:
    try:
        await model.respond(prompt(), listener)
    except ModelFailed as failed:
        return failed
    raise AssertionError("it did not fail")


def repeated(came: Came) -> str:
    """The request's own head, as a careless gateway repeats it."""
    return came.head


def encoded(came: Came) -> str:
    return "Sent: " + base64.b64encode(came.head.encode()).decode()


async def as_error(came: Came, status: int, said: str) -> None:
    body = json.dumps({"type": "error", "error": {"type": "x", "message": said}}).encode()
    await came.write(
        head(status, "content-type: application/json", f"content-length: {len(body)}") + body
    )


async def refused(came: Came) -> None:
    await as_error(came, 400, repeated(came))


async def key_refused(came: Came) -> None:
    await as_error(came, 401, encoded(came))


async def failed(came: Came) -> None:
    await as_error(came, 500, repeated(came))


async def no_json(came: Came) -> None:
    await came.write(head(502, "content-type: text/html", "connection: close"))
    await came.write(came.head.encode())


async def in_mid_stream(came: Came) -> None:
    error = {"type": "error", "error": {"type": "api_error", "message": repeated(came)}}
    await came.write(head(200, *STREAM) + wire([*WHOLE[:6], error]))


async def in_no_event(came: Came) -> None:
    await came.write(head(200, *STREAM) + b"data: {" + came.head.encode() + b"\n\n")


async def in_a_tool(came: Came) -> None:
    begun = {"type": "tool_use", "id": "a", "name": came.head, "input": {}}
    start = {"type": "content_block_start", "index": 0, "content_block": begun}
    await came.write(head(200, *STREAM) + wire([WHOLE[0], start]))


async def torn(came: Came) -> None:
    await came.write(head(200, *STREAM, "content-length: 9999") + wire(WHOLE[:4]))


async def gone(came: Came) -> None:
    came.writer.close()


async def no_http(came: Came) -> None:
    await came.write(came.head.encode())


@pytest.mark.parametrize(
    "answer",
    [
        refused,
        key_refused,
        failed,
        no_json,
        in_mid_stream,
        in_no_event,
        in_a_tool,
        torn,
        gone,
        no_http,
    ],
)
async def test_an_endpoint_that_repeats_what_it_got_puts_it_into_no_error(
    answer: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", f"X-Gateway-Key: {GATEWAY}")
    caplog.set_level(logging.DEBUG)
    heard = Heard()
    async with odd_endpoint(answer) as odd:
        wanted = settings(base_url=odd.url, api_key=KEY, attempts=2)
        model = open_model(wanted)
        model._sleep = at_once
        error = await failing(model, heard.listener())
        assert not key_in(shown(error))
        assert not key_in(f"{model!r} {vars(model)!r} {model._client!r} {wanted!r}")
        assert not any(key_in(wait.why) for wait in heard.waits)
        await model.close()
    assert KEY in odd.requests[0], "it was sent where it belongs"
    assert GATEWAY in odd.requests[0]
    assert error.__cause__ is None
    assert error.__context__ is None
    assert not key_in(caplog.text)


async def test_a_redirect_takes_the_key_nowhere() -> None:
    async def elsewhere(came: Came) -> None:
        raise AssertionError("it was asked")

    async with odd_endpoint(elsewhere) as other, ScriptedModel(key=KEY) as scripted:
        for status in (301, 302, 307, 308):
            scripted.next(Failure(status, {}, {"location": f"{other.url}/v1/messages"}))
            async with speaking(scripted) as model:
                with pytest.raises(ModelFailed, match="sent us elsewhere"):
                    await model.respond(prompt(), Heard().listener())
        assert other.requests == []


async def test_the_key_of_one_provider_is_not_sent_to_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "made-up-credential")
    for provider, more in (
        ("bedrock", {}),
        ("vertex", {"project": "p", "api_key": "ya29.made-up"}),
    ):

        async def answer(came: Came) -> None:
            await as_error(came, 403, "")

        async with odd_endpoint(answer) as odd:
            wanted = settings(provider=provider, base_url=odd.url, region="eu-west-1", **more)
            model = open_model(wanted)
            await failing(model, Heard().listener())
            await model.close()
        assert len(odd.requests) == 1
        assert not key_in(odd.requests[0])


def test_a_client_that_cannot_be_made_tells_no_key() -> None:
    for given in (
        {"provider": "bedrock", "api_key": KEY},
        {"provider": "vertex", "api_key": KEY},
        {"base_url": "ftp://x", "api_key": KEY},
        {"base_url": f"https://me:{KEY}@host.example", "api_key": "none"},
        {"money": "1 USD", "api_key": KEY},
    ):
        error = not_opened(settings(**given))
        assert not key_in(shown(error)), given["provider" if "provider" in given else "base_url"]


def not_opened(wanted: Any) -> BaseException:
    try:
        open_model(wanted)
    except RepriseError as error:
        return error
    raise AssertionError("it was opened")


def test_a_key_of_the_wrong_type_is_not_repeated() -> None:
    from traitlets import TraitError

    with pytest.raises(TraitError) as refused_key:
        settings(api_key=[KEY])
    assert not key_in(str(refused_key.value))


def test_without_a_key_it_is_said_where_one_goes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    # Where the SDK looks for who signed in.
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with pytest.raises(UnavailableError, match="ANTHROPIC_API_KEY"):
        open_model(settings())
