"""Rates and governance as they are decided: values in, values out; and what settings may say."""

from __future__ import annotations

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jupyter_server.auth.identity import IdentityProvider, PasswordIdentityProvider, User
from traitlets import TraitError
from traitlets.config import Config

from reprise.errors import NotAllowed, RepriseError
from reprise.log.connect import KERNEL_ROLE
from reprise_server.api import refusals
from reprise_server.api.governance import may_govern, may_personally
from reprise_server.api.limits import Limits
from reprise_server.api.people import Person, person_of
from reprise_server.api.refusals import Refused, refusal
from reprise_server.settings import RATES, RepriseApi
from tests.fixtures.kernel import Database
from tests.fixtures.server import Serve


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


# rates --------------------------------------------------------------------------------------------


def test_who_has_asked_enough_hears_when_to_ask_again() -> None:
    clock = Clock()
    limits = Limits({"read": "6/min", "write": "1/s"}, 2, clock)
    for _ in range(6):
        limits.admit("alice", "read")
    with pytest.raises(Refused) as caught:
        limits.admit("alice", "read")
    assert (caught.value.status_code, caught.value.retry_after_s) == (429, 10)
    # Others, and other actions, are not meant.
    limits.admit("bob", "read")
    limits.admit("alice", "write")
    clock.now += 10
    limits.admit("alice", "read")
    with pytest.raises(Refused):
        limits.admit("alice", "read")


@given(
    st.lists(st.tuples(st.floats(0, 5), st.sampled_from(["a", "b"])), max_size=200),
    st.integers(1, 20),
)
def test_nobody_gets_more_than_a_period_and_a_burst_allow(
    asked: list[tuple[float, str]], most: int
) -> None:
    clock = Clock()
    limits = Limits({"read": f"{most}/min"}, 1, clock)
    let_in: dict[str, list[float]] = {"a": [], "b": []}
    for wait, who in asked:
        clock.now += wait
        try:
            limits.admit(who, "read")
        except Refused as refused:
            # Asking again when told to works.
            clock.now += refused.retry_after_s or 0
            limits.admit(who, "read")
        let_in[who].append(clock.now)
    for times in let_in.values():
        for first, begin in enumerate(times):
            within = [each for each in times[first:] if each - begin < 60]
            assert len(within) <= 2 * most + 1


def test_counts_are_kept_of_so_many_people_only() -> None:
    clock = Clock()
    limits = Limits({"read": "1/h"}, 1, clock)
    for number in range(25_000):
        limits.admit(f"person {number}", "read")
    assert len(limits._left) <= 10_001
    with pytest.raises(Refused):
        limits.admit("person 24999", "read")


def test_what_is_under_way_is_counted_and_given_back() -> None:
    limits = Limits({"read": "100/s"}, 2)
    limits.enter("alice")
    limits.enter("alice")
    limits.enter("bob")
    with pytest.raises(Refused) as caught:
        limits.enter("alice")
    assert caught.value.status_code == 429
    limits.leave("alice")
    limits.enter("alice")
    for who in ("alice", "alice", "bob"):
        limits.leave(who)
    assert limits._under_way == {}


@pytest.mark.parametrize(
    "text", ["", "5", "0/min", "5/day", "-1/s", "1e3/s", "5/min ", "99999999/s"]
)
def test_a_rate_that_is_none_is_refused_by_name(text: str) -> None:
    with pytest.raises(TraitError, match="rate"):
        RepriseApi(config=Config({"RepriseApi": {"rates": {"read": text}}}))


def test_a_rate_that_is_not_set_keeps_its_default() -> None:
    set_one = RepriseApi(config=Config({"RepriseApi": {"rates": {"write": "1/s"}}}))
    assert set_one.rates == {**RATES, "write": "1/s"}
    with pytest.raises(TraitError, match="wriet"):
        RepriseApi(config=Config({"RepriseApi": {"rates": {"wriet": "1/s"}}}))


def test_a_server_counts_each_person_and_action(serve: Serve, database: Database) -> None:
    server = serve(dsn=database.dsn, home=database.home, rates="5/h")
    alice, bob = server.client("alice"), server.client("bob")
    found = [alice.get("openapi.json").status_code for _ in range(6)]
    assert found == [200] * 5 + [429]
    answer = alice.get("openapi.json")
    assert answer.json()["error"]["code"] == "too-many-requests"
    assert int(answer.headers["Retry-After"]) > 600
    assert bob.get("openapi.json").status_code == 200
    assert alice.post("skill-teams", json={"team": "x"}).status_code == 403
    # Whoever may not ask at all is not counted: nobody can use up another's.
    with httpx.Client(trust_env=False) as stranger:
        for _ in range(20):
            stranger.get(f"{server.url}reprise/api/me")
    assert bob.get("openapi.json").status_code == 200


# people -------------------------------------------------------------------------------------------


class Own(IdentityProvider):
    """An identity provider that knows people."""


def test_jupyters_random_names_are_nobodys() -> None:
    made = User("0123456789abcdef0123456789abcdef", "Anonymous Io", "Anonymous Io")
    named = User("alice")
    assert person_of(IdentityProvider(), made) == Person(None)
    assert person_of(PasswordIdentityProvider(), made) == Person(None)
    # Whatever name somebody gave himself there (PATCH /api/me): it is not looked at.
    assert person_of(PasswordIdentityProvider(), User("x", name="alice")) == Person(None)
    assert person_of(Own(), named) == Person("alice")
    assert person_of(Own(), made) == Person(None)  # it fell back to a token


def settings(**given: object) -> RepriseApi:
    return RepriseApi(config=Config({"RepriseApi": {"owner": "", **given}}))


ALICE, BOB, NOBODY = Person("alice"), Person("bob"), Person(None)


@pytest.mark.parametrize(
    ("person", "login", "given", "personally", "governs"),
    [
        # A server of one's own by its token: the personal scope, and nothing that is others'.
        (NOBODY, KERNEL_ROLE, {}, True, False),
        (NOBODY, "alice", {}, True, False),
        # A server that is somebody's: not for whoever has a token.
        (NOBODY, "alice", {"owner": "alice"}, False, False),
        # The person of the login.
        (ALICE, "alice", {}, True, True),
        (ALICE, "alice", {"owner": "alice"}, True, True),
        (ALICE, "db_alice", {"logins": {"alice": "db_alice"}}, True, True),
        # A guest.
        (BOB, "alice", {}, False, False),
        (BOB, "alice", {"owner": "alice"}, False, False),
        (BOB, "alice", {"owner": "bob"}, False, False),
        (BOB, "db_alice", {"logins": {"alice": "db_alice"}}, False, False),
        # A name that is a login's, but is mapped to another one.
        (ALICE, "alice", {"logins": {"alice": "other"}}, False, False),
        # The embedded database is its owner's.
        (ALICE, KERNEL_ROLE, {"owner": "alice"}, True, False),
        (BOB, KERNEL_ROLE, {"owner": "alice"}, False, False),
        (ALICE, KERNEL_ROLE, {}, True, False),
        # No name of Jupyter's is the role that kernels act as.
        (Person(KERNEL_ROLE), KERNEL_ROLE, {"owner": "alice"}, False, False),
        (BOB, KERNEL_ROLE, {"logins": {"bob": "db_bob"}}, False, False),
    ],
)
def test_who_may_act_here(
    person: Person, login: str, given: dict[str, object], personally: bool, governs: bool
) -> None:
    found = may_personally(person, login, settings(**given))
    assert (found.may, bool(found.why)) == (personally, True)
    found = may_govern(person, login, settings(**given))
    assert (found.may, bool(found.why)) == (governs, True)


def test_a_hub_says_whose_server_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTERHUB_USER", "alice")
    assert RepriseApi(config=Config()).owner == "alice"
    assert not may_personally(BOB, KERNEL_ROLE, RepriseApi(config=Config())).may


# refusals -----------------------------------------------------------------------------------------


def every_error() -> list[type[RepriseError]]:
    found: list[type[RepriseError]] = []
    left: list[type[RepriseError]] = [RepriseError]
    while left:
        kind = left.pop()
        found.append(kind)
        left.extend(kind.__subclasses__())
    return [kind for kind in found if kind.__module__ == "reprise.errors"]


@pytest.mark.parametrize("kind", every_error(), ids=lambda kind: kind.__name__)
def test_every_error_of_reprise_has_a_status_and_a_code(kind: type[RepriseError]) -> None:
    found = refusal(kind("what happened"))
    assert found.status_code in (400, 403, 404, 409, 413, 500, 503)
    said = found.to_json()["error"]
    assert said["code"] == said["code"].lower().strip("-")
    if kind is RepriseError:
        assert "what happened" not in said["message"]
    if found.status_code == 503:
        assert found.retry_after_s


def test_what_is_ours_stays_ours() -> None:
    secret = "Postgres at db.example.org port 5432, database reprise refused: password=hunter2"
    for error in (
        RepriseError(secret),
        refusals.errors.DatabaseUnavailable(secret),
        ValueError(secret),
        OSError(secret),
    ):
        assert "example.org" not in str(refusal(error).to_json())
    assert refusal(NotAllowed("Only bob may.")).message == "Only bob may."
