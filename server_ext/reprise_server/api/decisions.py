"""`/decisions…`: what waits for a press, the frame that it is pressed in, and the press itself."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator
from typing import Any, Final

from reprise_server.api.base import Asked, Endpoint, operation
from reprise_server.api.deciding import Decision, Decisions
from reprise_server.api.decision_frame import NEEDS_HTTPS, decision_page, message_page
from reprise_server.api.people import Person
from reprise_server.api.refusals import Refused
from reprise_server.api.sending import Sending

_RESOURCE: Final = "reprise-decisions"


def decision_json(decisions: Decisions, decision: Decision, person: Person) -> dict[str, Any]:
    """A decision as JSON, for whoever may look; nobody's nonce is in it."""
    ended = decision.ended
    return {
        "id": str(decision.id),
        "title": decision.matter.title,
        "yours": decision.person == person,
        "left_s": 0.0 if ended is not None else round(decisions.left_s(decision), 1),
        "parts": [_part_json(decision, part) for part in decision.parts.each]
        if decision.parts is not None
        else [],
        "ended": None
        if ended is None
        else {"how": ended.how, "option": ended.option, "told": ended.told},
    }


def _part_json(decision: Decision, part: str) -> dict[str, Any]:
    answer = decision.answers.get(part)
    accepted = None if answer is None else answer.accepted
    return {"part": part, "accepted": accepted, "reason": answer.reason if answer else None}


class DecisionsEndpoint(Endpoint):
    path = "/decisions"
    auth_resource = _RESOURCE

    @operation("read")
    async def get(self, _: Asked) -> Any:
        decisions = self.service.decisions
        found = decisions.waiting(self.person)
        return {"decisions": [decision_json(decisions, each, self.person) for each in found]}


class DecisionEndpoint(Endpoint):
    path = "/decisions/{decision}"
    auth_resource = _RESOURCE

    @operation("read")
    async def get(self, asked: Asked) -> Any:
        decisions = self.service.decisions
        return decision_json(decisions, decisions.find(_identity(asked)), self.person)

    @operation("execute")
    async def post(self, asked: Asked) -> Any:
        decisions, body = self.service.decisions, asked.body
        decision = await decisions.press(
            _identity(asked), body["nonce"], body.get("reason"), self.person
        )
        option = decision.ended.option if decision.ended is not None else None
        self.emit("decision", {"action": "pressed", "decision": str(decision.id), "option": option})
        return decision_json(decisions, decision, self.person)


class FrameEndpoint(Endpoint):
    path = "/decisions/{decision}/frame"
    auth_resource = _RESOURCE

    @operation("read")
    async def get(self, asked: Asked) -> Any:
        """The frame, for a browser that says that it shows it as one.

        No script can set these headers (https://fetch.spec.whatwg.org/#forbidden-request-header),
        and none can read what an iframe of another origin shows. A service worker could fetch it on
        the frame's behalf; one that is registered for this path has to be served from above it,
        where nothing of a user's is served as a script.
        """
        decisions, theme = self.service.decisions, asked.query["theme"]
        part: str | None = asked.query["part"]
        decision = decisions.find(_identity(asked))
        headers = self.request.headers
        destination = headers.get("Sec-Fetch-Dest")
        if destination is None:
            shown = message_page(NEEDS_HTTPS, theme)
        elif (
            destination != "iframe"
            or headers.get("Sec-Fetch-Mode") != "navigate"
            or headers.get("Sec-Fetch-Site") != "same-origin"
            # A service worker reads what it has the browser preload.
            or "Service-Worker-Navigation-Preload" in headers
        ):
            raise Refused(
                403,
                "not-a-frame",
                "A decision is shown within an iframe of a page of this server, and nowhere else.",
            )
        elif decision.ended is not None:
            shown = message_page(decision.ended.told, theme)
        elif decision.person != self.person:
            shown = message_page(f"Waiting for the owner, {decision.person}.", theme)
        elif part is not None and part in decision.answers:
            told = "Accepted." if decision.answers[part].accepted else "Rejected."
            shown = message_page(f"{told} It counts when all are answered.", theme)
        else:
            left_s = decisions.left_s(decision)
            matter = decision.matter if part is None else decision.part(part)
            nonces = decisions.show(decision, part)
            shown = decision_page(str(decision.id), matter, nonces, left_s, theme)
        policy = {"Content-Security-Policy": shown.policy, "Referrer-Policy": "no-referrer"}
        return Sending(_once(shown.page), len(shown.page), None, "text/html", headers=policy)


def _identity(asked: Asked) -> uuid.UUID:
    return uuid.UUID(asked.path["decision"])


async def _once(page: bytes) -> AsyncGenerator[bytes, None]:
    yield page


ENDPOINTS: Final = (DecisionsEndpoint, DecisionEndpoint, FrameEndpoint)
