"""Why the model gave no answer, in words for a person that hold no key (pure).

An endpoint's own words help to mend a request, but may repeat what was sent to it. They are shown
only where they share nothing with a secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from reprise_server.agent.contract import ModelFailed

#: So many characters of a secret in a row give it away in part; no word of ours is that unlucky.
_PART: Final = 6
#: Of an endpoint's own words.
_MOST: Final = 400

_UNSEEN: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]+")

#: Errors of the API by status: https://platform.claude.com/docs/en/api/errors
_WORDS: Final = {
    400: "does not take this request",
    401: "does not take this key",
    402: "says that the account cannot pay for this",
    403: "says that this key may not do that",
    404: "knows no such model or path",
    408: "waited too long for the request",
    413: "says that the request is too large",
    429: "gets too many requests",
    500: "failed",
    502: "cannot be reached behind its gateway",
    503: "is not available",
    504: "took too long behind its gateway",
    529: "is overloaded",
}
#: What an `error` event in mid-stream stands for.
STATUS_OF: Final = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
_TODO: Final = {
    401: "Set a key that fits: ANTHROPIC_API_KEY, or c.RepriseAgent.api_key.",
    403: "Ask whoever gave out the key.",
    404: "Check c.RepriseAgent.model and c.RepriseAgent.base_url.",
}


class ContextFull(ModelFailed):
    """The conversation is larger than the model's context; compacted, it can go on."""


@dataclass(frozen=True)
class Failure:
    """How one attempt failed. why: a sentence without its end.  again: whether another attempt may
    help.  retry_after: seconds that the endpoint asks for.  malformed: it answered, but nothing
    that can be read.  full: the context is.  said: the endpoint's own words, where it refused."""

    why: str
    again: bool
    status: int | None = None
    retry_after: float | None = None
    malformed: bool = False
    full: bool = False
    todo: str = ""
    said: str = ""


class Secrets:
    """What must stand in no text. Its own repr shows none."""

    def __init__(self, values: Iterable[str | None]) -> None:
        self._values = frozenset(value for value in values if value and len(value) >= _PART)

    def __repr__(self) -> str:
        return f"<{len(self._values)} secrets>"

    def plus(self, values: Iterable[str | None]) -> Secrets:
        return Secrets([*self._values, *values])

    def stand_in(self, text: str) -> bool:
        """Whether the text holds a part of one, by _PART characters in a row."""
        lowered = text.lower()
        for value in self._values:
            whole = value.lower()
            if any(whole[at : at + _PART] in lowered for at in range(len(whole) - _PART + 1)):
                return True
        return False

    def quoted(self, text: str) -> str:
        """An endpoint's own words, short and in one line; "" where they hold part of a secret."""
        shown = " ".join(_UNSEEN.sub(" ", text).split())
        if not shown or self.stand_in(shown) or self.stand_in(shown.replace(" ", "")):
            return ""
        return shown if len(shown) <= _MOST else f"{shown[:_MOST]} …"


def refused(
    status: int, *, said: str, model: str, host: str, secrets: Secrets, retry_after: float | None
) -> Failure:
    """What an error status, or an `error` event of its kind, means."""
    words = _WORDS.get(status)
    if words is None:
        words = "sent us elsewhere, where no key is sent" if 300 <= status < 400 else "failed"
    why = f"The endpoint at {host} {words} ({model}, status {status})"
    # What a refused key was is exactly what such an answer may repeat.
    quoted = "" if status in (401, 403) else secrets.quoted(said)
    if quoted:
        why += f": {quoted.rstrip('.')}"
    return Failure(
        why,
        again=status in (408, 409, 429) or status >= 500,
        status=status,
        retry_after=retry_after,
        full=status == 413 or (status == 400 and _too_long(said)),
        todo=_TODO.get(status, ""),
        said=quoted,
    )


def unreachable(host: str, *, why: str = "cannot be reached") -> Failure:
    return Failure(f"The endpoint at {host} {why}", again=True)


def cut_off(host: str) -> Failure:
    return Failure(f"The answer from {host} ended before its end", again=True)


def malformed(host: str, why: str) -> Failure:
    return Failure(f"The answer from {host} cannot be read: {why}", again=True, malformed=True)


def not_signed_in(cloud: str, error: BaseException) -> Failure:
    """A cloud's library found no credentials, or could not renew them; its words may hold some."""
    return Failure(
        f"No credentials for {cloud} could be had ({type(error).__name__})",
        again=False,
        todo="Sign in as the cloud's own tools have it (docs: bring your own model endpoint).",
    )


def unexpected(host: str, error: BaseException) -> Failure:
    """A failure that nobody foresaw: its kind is told; its words, which may hold anything, not."""
    return Failure(
        f"Asking the endpoint at {host} failed in a way that is not known ({type(error).__name__})",
        again=False,
    )


def _too_long(said: str) -> bool:
    """The API's words for it; it has no code of its own (November 2026)."""
    lowered = said.lower()
    return "prompt is too long" in lowered or "exceed context limit" in lowered
