"""Why a request is refused, in one shape: a status, a code for programs, a sentence for people."""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from tornado.web import HTTPError

from reprise import errors
from reprise.errors import RepriseError
from reprise.log.conversations import ConversationNotFound
from reprise_server.agent.conversation import NothingToContinue, TurnRuns
from reprise_server.agent.questions import NotWaiting
from reprise_server.agent.undo import CannotUndo

#: Of each error the status; the most special class decides. What is not named is ours: 500.
_STATUS: Final[Mapping[type[RepriseError], int]] = {
    errors.UsageError: 400,
    errors.BadBundle: 400,
    errors.TooLarge: 413,
    errors.SessionNotFound: 404,
    errors.SkillNotFound: 404,
    ConversationNotFound: 404,
    TurnRuns: 409,
    NothingToContinue: 409,
    NotWaiting: 409,
    CannotUndo: 409,
    errors.NotAllowed: 403,
    errors.UntrustedCode: 403,
    errors.SkillNotTrusted: 403,
    errors.SkillRevoked: 403,
    errors.KeyInUse: 409,
    errors.SessionNeeded: 409,
    errors.LeaseHeld: 409,
    errors.LeaseLost: 409,
    errors.ResumeCancelled: 409,
    errors.GuestCallFailed: 409,
    errors.SandboxDied: 409,
    errors.UnavailableError: 503,
}

#: Seconds after which asking again makes sense, where nothing better is known.
RETRY_AFTER_S: Final = 5

#: What is said in place of the error's own words, which name the database's host.
_DATABASE: Final = (
    "The database of Reprise cannot be reached from this server, or has no resources left. What was"
    " acknowledged is stored. Try again; the server's own log says more."
)
_OURS: Final = (
    "Something went wrong in Reprise itself; what was acknowledged is stored. The server's own log"
    " says what it was."
)

_STATUSES: Final[Mapping[int, str]] = {
    400: "The request is not one that this server understands.",
    403: "This is not allowed.",
    404: "There is nothing here.",
    405: "That cannot be done here; the OpenAPI document lists what can be done.",
    500: _OURS,
}


class Refused(HTTPError):
    """A request that is refused. details: further fields of the error, as JSON."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        retry_after_s: int | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(status)
        self.code = code
        self.message = message
        self.retry_after_s = retry_after_s
        self.details = details or {}

    def to_json(self) -> dict[str, Any]:
        said = {"code": self.code, "message": self.message, **self.details}
        if self.retry_after_s is not None:
            said["retry_after_s"] = self.retry_after_s
        return {"error": said}


def refusal(error: BaseException) -> Refused:
    """What a caller hears of an error. Nothing of ours that he need not know is in it."""
    if isinstance(error, Refused):
        return error
    if isinstance(error, RepriseError):
        return _of_ours(error)
    if isinstance(error, HTTPError):
        return _of_jupyters(error)
    return Refused(500, "internal", _OURS)


def _of_ours(error: RepriseError) -> Refused:
    for kind in type(error).__mro__:
        if kind in _STATUS:
            status = _STATUS[kind]
            break
    else:
        # The digests do not add up: whoever looks must hear which step it is.
        told = str(error) if isinstance(error, errors.LogCorrupt) else _OURS
        return Refused(500, code_of(type(error)), told)
    if isinstance(error, errors.DatabaseUnavailable):
        return Refused(503, "database-unavailable", _DATABASE, retry_after_s=RETRY_AFTER_S)
    again = RETRY_AFTER_S if status == HTTPStatus.SERVICE_UNAVAILABLE else None
    return Refused(status, code_of(type(error)), str(error), retry_after_s=again)


def _of_jupyters(error: HTTPError) -> Refused:
    """Of what Jupyter Server or Tornado refused; their words go into the log only."""
    status = error.status_code
    if status == HTTPStatus.FORBIDDEN and "xsrf" in str(error.log_message).lower():
        return Refused(
            status,
            "xsrf",
            "The request carries no valid _xsrf token. Send the cookie's value as X-XSRFToken, or"
            " authenticate with a token in the Authorization header.",
        )
    try:
        code = HTTPStatus(status).name.lower().replace("_", "-")
    except ValueError:
        code = "refused"
    return Refused(status, code, _STATUSES.get(status, "The request was refused."))


def code_of(kind: type[RepriseError]) -> str:
    """The code of an error: its class's name, such as skill-not-found."""
    return re.sub(r"(?<!^)(?=[A-Z])", "-", kind.__name__).lower().removesuffix("-error")
