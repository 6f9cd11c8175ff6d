"""The SDK's own clients, one for each provider, made so that they wait and retry nothing."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from reprise.errors import UnavailableError, UsageError
from reprise_server.agent.model.events import MAX_STREAM, BadStream
from reprise_server.agent.model.failures import Secrets

if TYPE_CHECKING:
    import httpx2

    from reprise_server.agent.settings import RepriseAgent

#: To connect, and for a free connection.
_CONNECT_SECONDS: Final = 15.0
#: An error's body is a few hundred bytes.
_MAX_ERROR: Final = 1 << 20

#: Variables whose values the SDK or a cloud's library sends, or derives what it sends from.
_SECRET_VARIABLES: Final = (
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "AWS_BEARER_TOKEN_BEDROCK",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
)
#: Where the SDK's clients keep theirs.
_SECRET_FIELDS: Final = (
    "api_key",
    "auth_token",
    "access_token",
    "aws_secret_key",
    "aws_session_token",
)
_HEADERS: Final = "ANTHROPIC_CUSTOM_HEADERS"


@dataclass(frozen=True)
class Client:
    """sdk: an AsyncAnthropic, AsyncAnthropicBedrock or AsyncAnthropicVertex.  cloud: "bedrock",
    "vertex" or "".  secrets: asked for anew each time, since tokens are renewed."""

    sdk: Any
    host: str
    cloud: str
    secrets: Callable[[], Secrets]

    def __repr__(self) -> str:
        return f"<client of {self.host}>"

    @property
    def sse(self) -> bool:
        """Whether its streams are server-sent events; Bedrock has frames of its own."""
        return self.cloud != "bedrock"

    @property
    def counts(self) -> bool:
        """Whether it can count tokens."""
        return self.cloud != "bedrock"


def open_client(settings: RepriseAgent) -> Client:
    """Raises UnavailableError (a part or a key is missing), UsageError (settings that cannot be).
    Nothing is sent yet."""
    try:
        # An extra, which takes half a second to import: only whoever asks a model needs it.
        import anthropic  # noqa: PLC0415
        import httpx2  # noqa: PLC0415
    except ImportError as error:
        raise UnavailableError(
            "The Anthropic SDK is not installed, so no model can be asked. "
            "Run: pip install 'jupyter-reprise[agent]'"
        ) from error
    if wrong := _wrong_url(settings.base_url):
        raise UsageError(f"c.RepriseAgent.base_url {wrong}")
    http = anthropic.DefaultAsyncHttpxClient(
        timeout=httpx2.Timeout(settings.silence, connect=_CONNECT_SECONDS, pool=_CONNECT_SECONDS),
        # A redirect would carry the key to another host.
        follow_redirects=False,
        event_hooks={"response": [_bounded]},
    )
    shared: dict[str, Any] = {
        "http_client": http,
        "base_url": settings.base_url or None,
        # Its waits are silent, cannot be cancelled one by one, and hardly capped: ours are not.
        "max_retries": 0,
        # What is asked and answered goes into the log, and nowhere else.
        "open_telemetry": False,
        # What comes packed could be a thousand times larger than its bound.
        "default_headers": {"accept-encoding": "identity"},
    }
    failed: str | None = None
    sdk: Any = None
    try:
        sdk = _MAKE[settings.provider](anthropic, settings, shared)
    except (ValueError, RuntimeError, ImportError, anthropic.AnthropicError) as error:
        failed = _why(error, _secrets(settings, None))
    if failed is not None:
        raise UnavailableError(
            f"The client for {settings.provider} cannot be made: {failed} (docs: bring your own "
            "model endpoint)."
        )
    # It may come from the SDK's own variables, too.
    if wrong := _wrong_url(str(sdk.base_url)):
        raise UsageError(f"The endpoint (c.RepriseAgent.base_url, ANTHROPIC_BASE_URL) {wrong}")
    return Client(
        sdk,
        host=sdk.base_url.host,
        cloud="" if settings.provider == "anthropic" else settings.provider,
        secrets=lambda: _secrets(settings, sdk),
    )


def _anthropic(sdk: Any, settings: RepriseAgent, shared: dict[str, Any]) -> Any:
    client = sdk.AsyncAnthropic(api_key=settings.api_key or None, **shared)
    if client.api_key is None and client.auth_token is None and client.credentials is None:
        raise UnavailableError(
            "No key for the model: set the variable ANTHROPIC_API_KEY, or c.RepriseAgent.api_key. "
            'An endpoint of your own that wants none takes any word, such as "none".'
        )
    return client


def _bedrock(sdk: Any, settings: RepriseAgent, shared: dict[str, Any]) -> Any:
    _needs("boto3", "bedrock")
    return sdk.AsyncAnthropicBedrock(
        api_key=settings.api_key or None, aws_region=settings.region or None, **shared
    )


def _vertex(sdk: Any, settings: RepriseAgent, shared: dict[str, Any]) -> Any:
    given: dict[str, Any] = {}
    if settings.region:
        given["region"] = settings.region
    if settings.project:
        given["project_id"] = settings.project
    if settings.api_key:
        given["access_token"] = settings.api_key
    else:
        _needs("google.auth", "vertex")
    return sdk.AsyncAnthropicVertex(**given, **shared)


_MAKE: Final = {"anthropic": _anthropic, "bedrock": _bedrock, "vertex": _vertex}


def _needs(module: str, extra: str) -> None:
    try:
        there = importlib.util.find_spec(module) is not None
    except (ModuleNotFoundError, ValueError):
        there = False
    if not there:
        raise UnavailableError(
            f"The client for {extra} needs the package {module}. "
            f"Run: pip install 'jupyter-reprise[{extra}]'"
        )


def _wrong_url(url: str) -> str:
    """What is wrong with it, "" when nothing is. What it holds is not repeated."""
    if not url:
        return ""
    try:
        parts = urlsplit(url)
        if parts.username or parts.password:
            return (
                "holds a name or a password, which would stand in logs. "
                "Set c.RepriseAgent.api_key instead."
            )
        if parts.scheme in ("http", "https") and parts.hostname:
            return ""
    except ValueError:
        pass
    return "is no address: it begins with https:// or http://, and names a host."


def _why(error: BaseException, secrets: Secrets) -> str:
    return secrets.quoted(str(error)).rstrip(".") or type(error).__name__


def _secrets(settings: RepriseAgent, sdk: Any) -> Secrets:
    values: list[str | None] = [settings.api_key, *map(os.environ.get, _SECRET_VARIABLES)]
    values += [line.partition(":")[2].strip() for line in os.environ.get(_HEADERS, "").split("\n")]
    values += [_text(getattr(sdk, name, None)) for name in _SECRET_FIELDS]
    values.append(_text(getattr(getattr(sdk, "credentials", None), "token", None)))
    return Secrets(values)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


async def _bounded(response: httpx2.Response) -> None:
    """Hook of every response: nothing packed, nothing endless. Its body has not been read yet."""
    packed = response.headers.get("content-encoding", "identity").strip().lower()
    if packed not in ("", "identity"):
        raise BadStream(f"It came packed ({packed[:20]}), which was not asked for")
    most = _MAX_ERROR if response.status_code >= 400 else MAX_STREAM
    response.stream = _cut(response.stream, most)


def _cut(stream: Any, most: int) -> Any:
    import httpx2  # noqa: PLC0415

    class Cut(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            async for chunk in stream:
                size += len(chunk)
                if size > most:
                    raise BadStream(f"The answer is over {most >> 20} MiB")
                yield chunk

        async def aclose(self) -> None:
            await stream.aclose()

    return Cut()


def headers_of(response: Any) -> Mapping[str, str]:
    """Of a response of the SDK, names in lower case; empty where there is none."""
    headers = getattr(response, "headers", None)
    return {} if headers is None else {name.lower(): value for name, value in headers.items()}
