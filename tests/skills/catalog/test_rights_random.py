"""Whatever people call in whatever order, nothing happens that the rules do not allow.

The rules are told a second time here, in Python, and the record of what was done is played again
by them: each act must have been allowed at its moment, and what everybody sees afterwards must be
what follows from the acts.
"""

from __future__ import annotations

import random
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fixtures.catalog import login_dsn
from tests.skills.catalog.test_rights_sql import TABLES, Connection, computed

LOGINS = ("alice", "bob", "carol", "olga")
OPERATOR = "postgres"
SCOPES = ("personal", "personal/alice", "team/ml", "team/new", "organisation", "nonsense")
NAMES = ("one", "two")
BODIES = (b"first", b"second", b"third")
ROLES = ("member", "reviewer", "admin")
REFUSALS = {"RP010", "RP011", "RP012", "RP013", "RP014"}

_login = st.sampled_from(LOGINS)
_scope = st.sampled_from(SCOPES)
_wide = st.sampled_from(SCOPES[2:5])
_name = st.sampled_from(NAMES)
_number = st.integers(1, 4)
_body = st.integers(0, len(BODIES) - 1)
_nth = st.integers(0, 4)
_judgement = st.sampled_from(["trust", "distrust", "revoke", "reinstate", "approve"])
_role = st.sampled_from(ROLES)

#: Acts with their arguments. Those that lead on are drawn more often than those that end things.
ACTS = st.one_of(
    st.tuples(st.just("add"), _name, _body),
    st.tuples(st.just("add"), _name, _body),
    st.tuples(st.just("ask"), st.just("personal"), _name, _number, _wide),
    st.tuples(st.just("ask"), _scope, _name, _number, _wide),
    st.tuples(st.just("decide"), _nth, st.booleans(), st.booleans()),
    st.tuples(st.just("decide"), _nth, st.just(True), st.booleans()),
    st.tuples(st.just("withdraw"), _nth),
    st.tuples(st.just("release"), _scope, _name, _number),
    st.tuples(st.just("release"), _wide, _name, _number),
    st.tuples(st.just("deprecate"), _scope, _name, _number, st.booleans()),
    st.tuples(st.just("restore"), _scope, _name, _number),
    st.tuples(st.just("judge"), _body, _scope, _judgement),
    st.tuples(st.just("appoint"), _login, _wide, _role),
    st.tuples(st.just("dismiss"), _login, _wide),
    st.tuples(st.just("team"), st.sampled_from(["new", "ml", "personal/bob"])),
)


class Field:
    """The connections of all people to one database, and what they do by them."""

    def __init__(self, dsn: str, stack: ExitStack) -> None:
        self.superuser: Connection = stack.enter_context(psycopg.connect(dsn, autocommit=True))
        self.people: dict[str, Connection] = {
            login: stack.enter_context(psycopg.connect(login_dsn(dsn, login), autocommit=True))
            for login in LOGINS
        }
        files = [{"paths": ["SKILL.md"], "modes": [420], "contents": [body]} for body in BODIES]
        self.digests = [computed(self.superuser, each) for each in files]
        self.asked: list[tuple[uuid.UUID, str]] = []

    def begin(self) -> None:
        """An empty catalog with a team of alice, who is a member, and bob, who reviews."""
        self.asked.clear()
        self.superuser.execute("SET session_replication_role = replica")
        tables = ", ".join(f"reprise.{table}" for table in TABLES)
        self.superuser.execute(f"TRUNCATE {tables}".encode())
        self.superuser.execute("SET session_replication_role = origin")
        self.superuser.execute("SELECT reprise.create_skill_team('ml')")
        for login, scope, role in (
            ("alice", "team/ml", "member"),
            ("bob", "team/ml", "reviewer"),
            ("olga", "organisation", "admin"),
        ):
            self.superuser.execute(
                "SELECT reprise.appoint_for_skills(%s, %s, %s)", [login, scope, role]
            )

    def act(self, login: str, act: tuple[Any, ...]) -> bool:
        """Whether it was done; it must be done or refused in words."""
        statement, values = self._call(*act)
        try:
            self.people[login].execute(statement.encode(), values)
        except psycopg.Error as error:
            refusal = error
        else:
            return True
        assert refusal.sqlstate in REFUSALS, (login, act, refusal)
        assert refusal.diag.message_hint, (login, act, refusal)
        return False

    def _call(self, what: str, *args: Any) -> tuple[str, list[Any]]:
        if what == "add":
            name, body = args
            call = (
                "SELECT reprise.add_skill(%s, 'Counts.', %s, '{SKILL.md}', '{420}',"
                " ARRAY[%b::bytea], '{\"kind\":\"folder\"}', '')"
            )
            return call, [name, self.digests[body], BODIES[body]]
        if what == "ask":
            identity = uuid.uuid4()
            scope, name, number, to = args
            digest = self._digest(scope, name, number)
            self.asked.append((identity, digest))
            return (
                "SELECT reprise.ask_skill_promotion(%s, %s, %s, %s, %s, '')",
                [identity, scope, name, number, to],
            )
        if what in ("decide", "withdraw"):
            nth, *more = args
            open_ = self.superuser.execute(
                "SELECT p.id, v.digest FROM reprise.skill_promotions p"
                " JOIN reprise.skill_versions v ON (v.scope, v.name, v.number)"
                " = (p.to_scope, p.name, p.to_number) ORDER BY p.at DESC"
            ).fetchall()
            identity, digest = open_[nth % len(open_)] if open_ else (uuid.uuid4(), "0" * 64)
            if what == "withdraw":
                return "SELECT reprise.withdraw_skill_promotion(%s)", [identity]
            return (
                "SELECT reprise.decide_skill_promotion(%s, %s, %s, '', %s)",
                [identity, digest, *more],
            )
        if what == "judge":
            body, scope, judgement = args
            return (
                "SELECT reprise.judge_skill(%s, %s, %s, 'because')",
                [self.digests[body], scope, judgement],
            )
        calls = {
            "release": "release_skill(%s, %s, %s)",
            "deprecate": "deprecate_skill(%s, %s, %s, 'because', %s)",
            "restore": "restore_skill(%s, %s, %s)",
            "appoint": "appoint_for_skills(%s, %s, %s)",
            "dismiss": "dismiss_from_skills(%s, %s)",
            "team": "create_skill_team(%s)",
        }
        return f"SELECT reprise.{calls[what]}", list(args)

    def _digest(self, scope: str, name: str, number: int) -> str:
        rows = self.superuser.execute(
            "SELECT digest FROM reprise.skill_versions"
            " WHERE scope = %s AND name = %s AND number = %s",
            [scope, name, number],
        ).fetchall()
        return str(rows[0][0]) if rows else ""


# the rules, a second time ---------------------------------------------------------------------------


@dataclass
class Was:
    """A version as it stands while the record is played again."""

    digest: str
    by: str
    came: tuple[str, int] | None
    state: str = "draft"
    deprecated: bool = False
    decided: bool = False


@dataclass
class Rules:
    """The state that follows from the acts so far, and whether the next one was allowed."""

    versions: dict[tuple[str, str], list[Was]] = field(default_factory=lambda: defaultdict(list))
    roles: dict[tuple[str, str], str] = field(default_factory=dict)
    said: dict[tuple[str, str, bool], str] = field(default_factory=dict)
    teams: set[str] = field(default_factory=set)

    def role(self, login: str, scope: str) -> str | None:
        if scope == f"personal/{login}":
            return "admin"
        given = self.roles.get((scope, login))
        return "member" if given is None and scope == "organisation" else given

    def reviews(self, login: str, scope: str) -> bool:
        return self.role(login, scope) in ("reviewer", "admin")

    def scopes(self, login: str) -> set[str]:
        return {"organisation", f"personal/{login}"} | {
            scope for scope, who in self.roles if who == login
        }

    def revoked_in(self, scope: str, digest: str) -> bool:
        return self.said.get((scope, digest, False)) == "revoke"

    def revoked(self, login: str, digest: str) -> bool:
        return any(self.revoked_in(scope, digest) for scope in self.scopes(login))

    def standing(self, login: str, digest: str) -> str:
        if self.revoked(login, digest):
            return "revoked"
        for scope in self.scopes(login):
            if self.said.get((scope, digest, True)) == "trust":
                return "trusted"
            if not scope.startswith("personal/") and any(
                was.digest == digest and was.state == "published"
                for (where, _), line in self.versions.items()
                for was in line
                if where == scope
            ):
                return "trusted"
        return "untrusted"

    def authors(self, scope: str, name: str, number: int) -> set[str]:
        was = self.versions[scope, name][number - 1]
        return {was.by} | (
            set() if was.came is None else self.authors(was.came[0], name, was.came[1])
        )

    def authors_of(self, scope: str, digest: str) -> set[str]:
        return {
            author
            for (where, name), line in self.versions.items()
            if where == scope
            for number, was in enumerate(line, 1)
            if was.digest == digest
            for author in self.authors(scope, name, number)
        }

    def seen(self, login: str) -> set[tuple[str, str, int]]:
        return {
            (scope, name, number)
            for (scope, name), line in self.versions.items()
            if scope in self.scopes(login)
            for number, was in enumerate(line, 1)
            if was.state == "published" or was.by == login or self.reviews(login, scope)
        }

    def current(self, login: str) -> set[tuple[str, str, int]]:
        """What each scope offers. In a scope that has nothing for its own people, nobody gets any."""
        found = set()
        for (scope, name), line in self.versions.items():
            if scope not in self.scopes(login):
                continue
            offered = [
                (number, was.digest)
                for number, was in enumerate(line, 1)
                if was.state == "published" or scope.startswith("personal/")
            ]
            for number, digest in reversed(offered):
                if not self.revoked(login, digest):
                    found.add((scope, name, number))
                    break
        return found

    def play(self, event: dict[str, Any]) -> None:
        act, scope, by = event["act"], event["scope"], event["by"]
        getattr(self, f"_{act}", self._judge)(event, scope, by)

    def _next(self, event: dict[str, Any], state: str = "draft") -> None:
        line = self.versions[event["scope"], event["name"]]
        assert event["number"] == len(line) + 1, "a gap in the numbers"
        line.append(Was(event["digest"], event["by"], event["came"], state))

    def _was(self, event: dict[str, Any]) -> Was:
        was: Was = self.versions[event["scope"], event["name"]][event["number"] - 1]
        assert was.digest == event["digest"]
        return was

    def _add(self, event: dict[str, Any], scope: str, by: str) -> None:
        assert scope == f"personal/{by}"
        assert event["came"] is None
        self._next(event)

    def _ask(self, event: dict[str, Any], scope: str, by: str) -> None:
        assert self.role(by, scope) is not None
        source, number = event["came"]
        was = self.versions[source, event["name"]][number - 1]
        assert was.digest == event["digest"]
        assert source == f"personal/{by}" or (
            source in self.scopes(by) and was.state == "published" and scope == "organisation"
        )
        assert not scope.startswith("personal/")
        assert not self.revoked(by, was.digest)
        self._next(event)

    def _approve(self, event: dict[str, Any], scope: str, by: str) -> None:
        self._refuse(event, scope, by)
        assert by not in self.authors(scope, event["name"], event["number"])
        assert not self.revoked(by, event["digest"])
        self._was(event).state = "reviewed"

    def _refuse(self, event: dict[str, Any], scope: str, by: str) -> None:
        assert self.reviews(by, scope)
        self._decide(event)

    def _withdraw(self, event: dict[str, Any], _scope: str, by: str) -> None:
        assert self._was(event).by == by
        self._decide(event)

    def _decide(self, event: dict[str, Any]) -> None:
        was = self._was(event)
        assert not was.decided
        assert was.state == "draft"
        was.decided = True

    def _release(self, event: dict[str, Any], scope: str, by: str) -> None:
        was = self._was(event)
        assert self.reviews(by, scope)
        assert was.state == ("draft" if scope.startswith("personal/") else "reviewed")
        assert not self.revoked(by, was.digest)
        was.state = "published"

    def _deprecate(self, event: dict[str, Any], scope: str, by: str) -> None:
        assert self.reviews(by, scope)
        self._was(event).deprecated = event["act"] == "deprecate"

    _undeprecate = _deprecate

    def _restore(self, event: dict[str, Any], scope: str, by: str) -> None:
        assert self.reviews(by, scope)
        source, number = event["came"]
        was = self.versions[source, event["name"]][number - 1]
        assert source == scope
        assert was.digest == event["digest"]
        assert was.state == "published" or scope.startswith("personal/")
        assert not self.revoked(by, was.digest)
        self._next(event, was.state)

    def _judge(self, event: dict[str, Any], scope: str, by: str) -> None:
        act, digest = event["act"], event["digest"]
        assert act in ("trust", "distrust", "revoke", "reinstate")
        assert self.reviews(by, scope)
        if act in ("trust", "reinstate") and not scope.startswith("personal/"):
            assert by not in self.authors_of(scope, digest)
        if act == "trust":
            assert not self.revoked(by, digest)
            assert scope.startswith("personal/") or self.authors_of(scope, digest)
        self.said[scope, digest, act in ("trust", "distrust")] = act

    def _rules(self, by: str, scope: str) -> bool:
        return (
            by == OPERATOR
            or self.roles.get(("organisation", by)) == "admin"
            or self.roles.get((scope, by)) == "admin"
        )

    def _appoint(self, event: dict[str, Any], scope: str, by: str) -> None:
        assert self._rules(by, scope)
        assert event["login"] != by or by == OPERATOR
        assert scope == "organisation" or scope in self.teams
        self.roles[scope, event["login"]] = event["role"]

    def _dismiss(self, event: dict[str, Any], scope: str, by: str) -> None:
        assert event["login"] == by or self._rules(by, scope)
        del self.roles[scope, event["login"]]

    def _team(self, event: dict[str, Any], scope: str, by: str) -> None:
        assert self._rules(by, "organisation")
        assert scope not in self.teams
        self.teams.add(scope)
        self.roles[scope, by] = "admin"


# played again ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def field_(database: str) -> Iterator[Field]:
    with ExitStack() as stack:
        yield Field(database, stack)


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(acts=st.lists(st.tuples(_login, ACTS), min_size=10, max_size=60))
def test_nothing_happens_that_the_rules_do_not_allow(
    field_: Field, acts: list[tuple[str, tuple[Any, ...]]]
) -> None:
    field_.begin()
    for login, act in acts:
        field_.act(login, act)
    _compare(field_)


def test_a_long_life_of_a_catalog(field_: Field) -> None:
    """Long enough that everything happens, and that everybody tries what is not his to do."""
    field_.begin()
    drawn = random.Random(7)
    tally: Counter[tuple[str, bool]] = Counter()
    for _ in range(60):
        name, body, to = drawn.choice(NAMES), drawn.randrange(3), drawn.choice(SCOPES[2:5])
        asker, number = drawn.choice(LOGINS), drawn.randint(1, 5)
        turn: list[tuple[str, tuple[Any, ...]]] = [
            (asker, ("add", name, body)),
            (asker, ("ask", "personal", name, number, to)),
            # Who asked comes first, whatever he is there.
            *((who, ("decide", 0, True, drawn.random() < 0.5)) for who in (asker, *LOGINS)),
            ("olga", ("team", "new")),
        ]
        for who in drawn.sample(LOGINS, 2):
            turn += [
                (who, ("release", to, name, number)),
                (who, ("restore", to, name, number)),
                (who, ("ask", "team/ml", name, number, "organisation")),
                (who, ("ask", "personal/alice", name, number, to)),
                (who, ("decide", 0, drawn.random() < 0.5, False)),
                (who, ("deprecate", to, name, number, drawn.random() < 0.5)),
                (who, ("appoint", drawn.choice(LOGINS), to, drawn.choice(ROLES))),
                (who, ("appoint", who, to, "admin")),
                (who, ("judge", body, to, "trust")),
                (who, ("judge", body, to, "reinstate")),
            ]
        if drawn.random() < 0.3:
            act = drawn.choice(["distrust", "revoke"])
            where = drawn.choice(["personal", to])
            turn += [(who, ("judge", body, where, act)) for who in drawn.sample(LOGINS, 2)]
            turn += [(who, ("judge", body, where, "reinstate")) for who in LOGINS]
        if drawn.random() < 0.2:
            turn += [
                (asker, ("withdraw", 0)),
                (drawn.choice(LOGINS), ("withdraw", 1)),
                (drawn.choice(LOGINS), ("dismiss", drawn.choice(LOGINS), to)),
                ("olga", ("appoint", drawn.choice(LOGINS), to, drawn.choice(ROLES))),
            ]
        drawn.shuffle(turn)
        turn += [(asker, ("ask", "personal", name, n, to)) for n in (1, 2, 3)]
        turn += [(asker, ("withdraw", 0))]
        for who, act_ in turn:
            tally[act_[0], field_.act(who, act_)] += 1
    _compare(field_)
    # Of each kind some was done, and some was refused.
    kinds = {kind for kind, _ in tally}
    assert len(kinds) == 11
    assert set(tally) == {*((kind, True) for kind in kinds), *((kind, False) for kind in kinds)} - {
        ("add", False)
    }


def _compare(field_: Field) -> None:
    rows = field_.superuser.execute(
        "SELECT e.act, e.scope, e.name, e.number, e.digest, e.login, e.role, e.by,"
        " v.from_scope, v.from_number FROM reprise.skill_events e"
        " LEFT JOIN reprise.skill_versions v ON (v.scope, v.name, v.number)"
        " = (e.scope, e.name, e.number) ORDER BY e.event"
    ).fetchall()
    rules = Rules()
    keys = ("act", "scope", "name", "number", "digest", "login", "role", "by")
    for *said, from_scope, from_number in rows:
        event = dict(zip(keys, said, strict=True))
        event["came"] = None if from_scope is None else (from_scope, from_number)
        try:
            rules.play(event)
        except AssertionError as error:
            raise AssertionError(f"{event} was not allowed") from error

    stored = field_.superuser.execute(
        "SELECT scope, name, number, state, deprecated FROM reprise.skill_versions"
    ).fetchall()
    assert {tuple(row) for row in stored} == {
        (*key, number, was.state, was.deprecated)
        for key, line in rules.versions.items()
        for number, was in enumerate(line, 1)
    }
    members = field_.superuser.execute(
        "SELECT scope, login, role FROM reprise.skill_members"
    ).fetchall()
    assert {tuple(row) for row in members} == {(*key, role) for key, role in rules.roles.items()}
    for login, connection in field_.people.items():
        _compare_view(field_, rules, login, connection)


def _compare_view(field_: Field, rules: Rules, login: str, connection: Connection) -> None:
    found = connection.execute(
        "SELECT scope, name, number, digest, standing"
        " FROM reprise.find_skills(NULL, NULL, NULL, NULL)"
    ).fetchall()
    assert {tuple(row[:3]) for row in found} == rules.seen(login), login
    for *_, digest, standing in found:
        assert standing == rules.standing(login, digest), (login, digest)
    listed = connection.execute(
        "SELECT scope, name, number FROM reprise.list_skills(NULL)"
    ).fetchall()
    assert {tuple(row) for row in listed} == rules.current(login), login
    digests = {row[3] for row in found}
    for digest in field_.digests:
        rows = connection.execute("SELECT FROM reprise.read_skill(%s, NULL)", [digest])
        assert bool(rows.rowcount) == (digest in digests), (login, digest)
    [(standings,)] = connection.execute(
        "SELECT array_agg(standing ORDER BY digest) FROM reprise.skill_standings(%s)",
        [field_.digests],
    ).fetchall()
    assert standings == [rules.standing(login, digest) for digest in sorted(field_.digests)], login
