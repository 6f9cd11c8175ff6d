"""Who may act on what others rely on: the one gate through which acts of governance go.

Jupyter says who asks, Postgres says what a login may do. A server does everything as one login, its
owner's; so a guest of that server must not act with the owner's rights. `admit` compares the two.
Postgres decides after it, and its refusal stands whatever was found here.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from reprise.errors import NotAllowed
from reprise.log.connect import KERNEL_ROLE
from reprise_server.api.bodies import parse_json
from reprise_server.api.document import JUPYTERS
from reprise_server.api.matter import Choice, Matter
from reprise_server.api.people import Person
from reprise_server.api.questions import leaves
from reprise_server.api.refusals import Refused

if TYPE_CHECKING:
    from reprise_server.api.base import Endpoint
    from reprise_server.settings import RepriseApi

Verb = Literal[
    # of a version or a digest
    "add",
    "ask for promotion",
    "approve",
    "refuse",
    "withdraw",
    "release",
    "deprecate",
    "restore",
    "trust",
    "distrust",
    "revoke",
    "reinstate",
    # of a scope
    "appoint",
    "dismiss",
    "create team",
    # of an environment
    "allow hosts",
    "deny hosts",
    "create environment",
    "remove environment",
    # of a session: to another one; to one where more can be reached, with its files
    "change environment",
    "use environment",
    # of a scope's policy: one that allows less cannot be told apart from one that allows more
    "set policy",
]

#: After these somebody or something may do more than before.
WIDENING: Final[frozenset[Verb]] = frozenset(
    {
        "approve",
        "release",
        "restore",
        "trust",
        "reinstate",
        "appoint",
        "create team",
        "allow hosts",
        "create environment",
        "use environment",
        "set policy",
    }
)


#: The header in which a request names the decision that was pressed for it.
DECISION: Final = "X-Reprise-Decision"
#: Seconds until such a decision ends by itself.
PATIENCE_S: Final = 300.0
ALLOW: Final = Choice("allow", "Allow", "accept")
REFUSE: Final = Choice("refuse", "Do not", "reject")


@dataclass(frozen=True)
class Act:
    """What is to be done. scope: "personal", "team/NAME", "organisation", or "machine" for what
    belongs to whoever runs the server. what: exactly: a digest, a login, hosts.  shown: what else
    a person should see of it before pressing, by name; it is said by `what` already."""

    verb: Verb
    scope: str
    what: str
    shown: tuple[tuple[str, str], ...] = ()

    @property
    def widens(self) -> bool:
        return self.verb in WIDENING


@dataclass(frozen=True)
class May:
    """Whether somebody may, and why."""

    may: bool
    why: str

    def to_json(self) -> dict[str, object]:
        return {"may": self.may, "why": self.why}


async def admit(endpoint: Endpoint, act: Act) -> None:
    """Let an act of governance through, or raise NotAllowed with who may and why.

    Every act that widens rights comes through here before anything is changed. One that a browser
    asks for is pressed in a decision frame first: a script in the page may be what asks. Raises
    Refused (428) with the decision until it was.
    """
    login = await endpoint.service.login()
    settings = endpoint.service.settings
    own = act.scope in ("personal", "machine")
    judge = may_personally if own else may_govern
    found = judge(endpoint.person, login, settings)
    if not found.may:
        raise NotAllowed(f"{found.why} Nothing was changed.")
    if act.widens and endpoint.from_browser:
        must_be_pressed(endpoint, act)


def must_be_pressed(endpoint: Endpoint, act: Act) -> None:
    """Let through what a person has pressed for just now: this very request, once.

    Raises Refused (428) that names the decision to show.
    """
    decisions, person = endpoint.service.decisions, endpoint.person
    key = _key(endpoint, act)
    with suppress(ValueError):
        named = uuid.UUID(endpoint.request.headers.get(DECISION, ""))
        if decisions.take(named, key, person, ALLOW.option):
            return
    decision, new = decisions.open(_matter(endpoint, act), person, key, PATIENCE_S)
    if new:
        said = {"action": "asked", "decision": str(decision.id), "title": decision.matter.title}
        endpoint.emit("decision", said)
    raise Refused(
        428,
        "decision-needed",
        "This widens what somebody or something may do, so a person presses it in a frame of its"
        f" own. Nothing was changed. Show the frame, then ask again with {DECISION}.",
        details={
            "decision": str(decision.id),
            "frame": f"{endpoint.base_url}reprise/api/decisions/{decision.id}/frame",
        },
    )


def _key(endpoint: Endpoint, act: Act) -> str:
    """Of this very request of this person: a press allows no other."""
    query = {
        name: [value.hex() for value in values]
        for name, values in sorted(endpoint.request.query_arguments.items())
        if name not in JUPYTERS
    }
    said = [
        endpoint.person.key,
        str(endpoint.request.method),
        str(endpoint.request.path),
        query,
        [act.verb, act.scope, act.what],
        hashlib.sha256(endpoint.body_sent).hexdigest(),
    ]
    return f"act:{hashlib.sha256(json.dumps(said).encode()).hexdigest()}"


def _matter(endpoint: Endpoint, act: Act) -> Matter:
    said = [*act.shown, ("What", act.what), ("In the scope", act.scope)]
    query = endpoint.request.query
    body = endpoint.body_sent
    said.append(("The request", f"{endpoint.request.method} {endpoint.request.path}"))
    if query:
        said.append(("Its query", query))
    if body:
        said += _body(body)
    return Matter(
        f"{endpoint.person} wants to: {act.verb}",
        tuple(said),
        "it widens what somebody or something may do",
        (REFUSE, ALLOW),
        "Nobody pressed in time, so nothing was changed.",
    )


def _body(sent: bytes) -> list[tuple[str, str]]:
    """Of JSON what it holds: JSON can spell a text so that nobody reads it."""
    try:
        value = parse_json(sent)
    except Refused:
        return [("Its body", sent.decode("utf-8", "backslashreplace"))]
    return list(leaves("Its body:", value))


def may_personally(person: Person, login: str, settings: RepriseApi) -> May:
    """Whether this person may act for the one whose server this is."""
    owner = settings.owner
    if person.name is None:
        if owner:
            return May(
                False,
                f"This server is {owner}'s, and Jupyter does not tell who you are; only {owner} may"
                " do this here.",
            )
        return May(
            True, "This server knows no people: whoever has its token acts as the one who runs it."
        )
    if login != KERNEL_ROLE or person.name in settings.logins:
        return _same_person(person.name, login, settings)
    # The embedded database has one login for everybody, so the server's owner stands for it.
    if owner and person.name != owner:
        return May(False, f"This server is {owner}'s; only {owner} may do this here, not {person}.")
    return May(True, "This server and its database are yours alone.")


def may_govern(person: Person, login: str, settings: RepriseApi) -> May:
    """Whether this person may act for a team or the organisation, as far as the server goes."""
    if login == KERNEL_ROLE:
        return May(
            False,
            "The database of this server has one login for everybody, so it has the personal scope"
            " only. Teams and an organisation need a Postgres server (REPRISE_DSN) with a login for"
            " each person.",
        )
    if person.name is None:
        return May(
            False,
            f"Jupyter does not tell who you are, so you may not act for others as {login}. People"
            " need a name here: an identity provider that knows them, such as JupyterHub's. With"
            f" your own login, `reprise skills` on a command line does it.",
        )
    return _same_person(person.name, login, settings)


def _same_person(name: str, login: str, settings: RepriseApi) -> May:
    expected = settings.logins.get(name, name)
    if expected == login:
        return May(True, f"You are {name}, and this server uses the database as {login}, you.")
    return May(
        False,
        f"You are {name}, and this server uses the database as {login}, which is not yours; only"
        f" the person of that login may do this here. Do it on a server of your own, or on a"
        " command line with your own login. If the two are one person, whoever runs the server can"
        f" say so: c.RepriseApi.logins = {{{name!r}: {login!r}}}.",
    )
