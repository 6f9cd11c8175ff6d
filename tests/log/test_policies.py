"""Who may set a policy is decided in Postgres, and whatever was set once stays in its history."""

from __future__ import annotations

import asyncio

import psycopg
import pytest

from reprise.errors import NotAllowed, TooLarge, UsageError
from reprise.log.policies import MAX_POLICY, Policies
from reprise.log.postgres import Log
from tests.fixtures.catalog import People

BODY = {"rules": [{"name": "no-run", "decision": "deny", "effect": "run"}]}


async def test_each_sees_what_binds_him(team: People) -> None:
    await Policies(team.logs["olga"]).set("organisation", BODY, "first")
    await Policies(team.logs["op"]).set("team/ml", {"rules": []})
    await Policies(team.logs["alice"]).set("personal", {"rules": [{"name": "mine"}]})
    await Policies(team.logs["eve"]).set("personal", {})
    found = await Policies(team.logs["alice"]).current()
    assert [(each.scope, each.version, each.by) for each in found] == [
        ("organisation", 1, "olga"),
        ("team/ml", 1, "postgres"),
        ("personal", 1, "alice"),
    ]
    assert found[0].body == BODY
    assert found[0].note == "first"
    assert [each.scope for each in await Policies(team.logs["dan"]).current()] == [
        "organisation",
        "team/ml",
    ]
    assert [each.scope for each in await Policies(team.logs["eve"]).current()] == [
        "organisation",
        "personal",
    ]


@pytest.mark.parametrize(
    ("login", "scope"),
    [
        ("alice", "organisation"),
        ("bob", "organisation"),
        ("alice", "team/ml"),
        ("bob", "team/ml"),
        ("eve", "team/ml"),
        ("olga", "team/none"),
        ("alice", "personal/eve"),
    ],
)
async def test_who_is_no_admin_of_a_scope_sets_nothing_there(
    team: People, login: str, scope: str
) -> None:
    with pytest.raises((NotAllowed, UsageError)):
        await Policies(team.logs[login]).set(scope, BODY)
    with team.sql(login) as connection, pytest.raises(psycopg.Error) as refused:
        connection.execute("SELECT * FROM reprise.set_policy(%s, '{}', '', NULL)", [scope])
    assert refused.value.sqlstate in ("RP010", "RP011")


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO reprise.policies VALUES ('organisation', 9, '{}', '', 'eve', 0, '')",
        "UPDATE reprise.policies SET body = '{}'",
        "DELETE FROM reprise.policies",
        "TRUNCATE reprise.policies",
        "SELECT body FROM reprise.policies",
        "SELECT * FROM reprise.policy_history('personal/alice')",
    ],
)
async def test_nobody_gets_around_the_functions(team: People, statement: str) -> None:
    await Policies(team.logs["alice"]).set("personal", BODY)
    for login in ("eve", "alice"):
        if login == "alice" and "history" in statement:
            continue
        with team.sql(login) as connection, pytest.raises(psycopg.Error) as refused:
            connection.execute(statement)
        assert refused.value.sqlstate in ("42501", "RP010")
    with team.sql("op") as connection:
        connection.execute("SET ROLE reprise_owner")
        if statement.startswith(("UPDATE", "DELETE", "TRUNCATE")):
            with pytest.raises(psycopg.Error) as refused:
                connection.execute(statement)
            # Of no row that the owner sees (row-level security) nothing is refused.
            assert refused.value.sqlstate == "RP003"


async def test_a_policy_is_not_set_over_one_that_was_not_seen(team: People) -> None:
    policies = Policies(team.logs["olga"])
    first = await policies.set("organisation", BODY, after=0)
    with pytest.raises(UsageError, match="at version 1 by now, not 0"):
        await policies.set("organisation", {}, after=0)
    await policies.set("organisation", {"rules": []}, "looser", after=first.version)
    assert [each.version for each in await policies.history("organisation")] == [2, 1]
    both = await asyncio.gather(
        *(policies.set("organisation", {"n": n}, after=2) for n in range(4)),
        return_exceptions=True,
    )
    assert sum(isinstance(each, UsageError) for each in both) == 3
    assert (await policies.current())[0].version == 3


async def test_the_embedded_databases_login_has_its_own_policy_only(home: object) -> None:
    del home
    log = await Log.connect()
    policies = Policies(log)
    try:
        assert await policies.current() == []
        assert (await policies.set("personal", BODY)).scope == "personal"
        with pytest.raises(NotAllowed, match="REPRISE_DSN"):
            await policies.set("organisation", BODY)
        with pytest.raises(TooLarge):
            await policies.set("personal", {"x": "y" * MAX_POLICY})
        assert [each.version for each in await policies.history("personal")] == [1]
    finally:
        await log.close()
