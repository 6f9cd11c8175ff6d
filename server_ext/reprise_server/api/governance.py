"""Who may act on what others rely on: the one gate through which acts of governance go.

Jupyter says who asks, Postgres says what a login may do. A server does everything as one login, its
owner's; so a guest of that server must not act with the owner's rights. `admit` compares the two.
Postgres decides after it, and its refusal stands whatever was found here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from reprise.errors import NotAllowed
from reprise.log.connect import KERNEL_ROLE
from reprise_server.api.people import Person

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
    }
)


@dataclass(frozen=True)
class Act:
    """What is to be done. scope: "personal", "team/NAME", "organisation", or "machine" for what
    belongs to whoever runs the server. what: exactly: a digest, a login, hosts."""

    verb: Verb
    scope: str
    what: str

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

    Every act that widens rights comes through here before anything is changed. This is where a
    decision that was pressed in a frame of its own will be asked for.
    """
    login = await endpoint.service.login()
    settings = endpoint.service.settings
    own = act.scope in ("personal", "machine")
    judge = may_personally if own else may_govern
    found = judge(endpoint.person, login, settings)
    if not found.may:
        raise NotAllowed(f"{found.why} Nothing was changed.")


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
