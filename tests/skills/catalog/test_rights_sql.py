"""Who wields SQL himself can do nothing that the catalog would refuse him."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from typing import Any

import psycopg
import pytest
from psycopg import sql

from tests.fixtures.catalog import PEOPLE, login_dsn

TABLES = (
    "skill_teams",
    "skill_members",
    "skill_files",
    "skill_contents",
    "skill_paths",
    "skill_heads",
    "skill_versions",
    "skill_promotions",
    "skill_events",
    "skill_uses",
)
VIEWS = ("skill_seen",)

#: All that the kernel's role may call of the catalog.
FUNCTIONS = {
    "add_skill",
    "appoint_for_skills",
    "ask_skill_promotion",
    "create_skill_team",
    "decide_skill_promotion",
    "deprecate_skill",
    "dismiss_from_skills",
    "find_skills",
    "judge_skill",
    "list_skills",
    "my_skill_scopes",
    "read_skill",
    "release_skill",
    "restore_skill",
    "search_skills",
    "skill_history",
    "skill_members_of",
    "skill_promotions_seen",
    "skill_scopes_read",
    "skill_scopes_reviewed",
    "skill_sessions",
    "skill_standings",
    "skill_usage",
    "use_skill",
    "withdraw_skill_promotion",
}

#: Logins that are members of reprise_kernel, and that role itself.
LOGINS = (*PEOPLE, "reprise_kernel")

Connection = psycopg.Connection[tuple[Any, ...]]

SKILL = b"---\nname: count\ndescription: Counts.\n---\nsecretword\n"
DIGEST = "SELECT digest FROM reprise.find_skills('personal', 'count', NULL, NULL)"


def connected(dsn: str, login: str) -> Connection:
    connection: Connection
    if login == "reprise_kernel":
        connection = psycopg.connect(dsn, autocommit=True)
        connection.execute("SET SESSION AUTHORIZATION reprise_kernel")
        return connection
    return psycopg.connect(login_dsn(dsn, login), autocommit=True)


@pytest.fixture(scope="module")
def alices(database: str) -> tuple[str, uuid.UUID]:
    """The digest of alice's private skill, and her promotion of another one to team/ml."""
    with closing(connected(database, "alice")) as alice:
        digest = add(alice, "count", SKILL)
        add(alice, "asked", b"---\nname: asked\ndescription: Asks.\n---\n")
        promotion = uuid.uuid4()
        alice.execute(
            "SELECT reprise.ask_skill_promotion(%s, 'personal', 'asked', 1, 'team/ml', '')",
            [promotion],
        )
    return digest, promotion


def add(connection: Connection, name: str, data: bytes, **more: Any) -> str:
    """Adds a skill of one file by SQL alone; what a forger changes of it is in `more`."""
    given = {
        "name": name,
        "description": "Counts.",
        "paths": ["SKILL.md"],
        "modes": [420],
        "contents": [data],
        "origin": '{"kind":"folder"}',
        "note": "",
        **more,
    }
    if "digest" not in given:
        given["digest"] = computed(connection, given)
    row = connection.execute(
        "SELECT digest FROM reprise.add_skill(%(name)s, %(description)s, %(digest)s,"
        " %(paths)s::text[], %(modes)s::int[], %(contents)b::bytea[], %(origin)s::json, %(note)s)",
        given,
    ).fetchone()
    assert row is not None
    return str(row[0])


def computed(connection: Connection, given: dict[str, Any]) -> str:
    row = connection.execute(
        "SELECT encode(sha256(convert_to('{\"entries\":[' || string_agg(format("
        '\'["%%s","file",%%s,%%s,"%%s"]\', path, mode, octet_length(data),'
        " encode(sha256(data), 'hex')), ',' ORDER BY path COLLATE \"C\") || ']}', 'UTF8')), 'hex')"
        " FROM unnest(%(paths)s::text[], %(modes)s::int[], %(contents)b::bytea[])"
        " AS f(path, mode, data)",
        given,
    ).fetchone()
    assert row is not None
    return str(row[0])


@pytest.fixture
def everything(database: str) -> Iterator[None]:
    """Fails when a test has changed anything at all in the catalog."""
    before = fingerprint(database)
    yield
    assert fingerprint(database) == before


def fingerprint(dsn: str) -> dict[str, Any]:
    with psycopg.connect(dsn, autocommit=True) as superuser:
        return {
            table: superuser.execute(
                sql.SQL("SELECT count(*), md5(coalesce(string_agg(t::text, '|' ORDER BY t::text),"
                        " '')) FROM reprise.{} t").format(sql.Identifier(table))
            ).fetchone()
            for table in TABLES
        }  # fmt: skip


# tables -------------------------------------------------------------------------------------------


def test_the_lists_here_are_all_there_is(database: str) -> None:
    """A table or a function that is added must be thought of here, too."""
    with psycopg.connect(database) as superuser:
        relations = superuser.execute(
            "SELECT relname, relkind::text, relrowsecurity FROM pg_class"
            " WHERE relnamespace = 'reprise'::regnamespace AND relname LIKE 'skill%'"
            " AND relkind IN ('r','v','m','p','f')"
        ).fetchall()
        assert {name for name, kind, _ in relations if kind == "r"} == set(TABLES)
        assert {name for name, kind, _ in relations if kind != "r"} == set(VIEWS)
        assert all(secured for _, kind, secured in relations if kind == "r")
        functions = superuser.execute(
            "SELECT p.proname, has_function_privilege('reprise_kernel', p.oid, 'EXECUTE'),"
            " p.prosecdef, p.proconfig, p.proacl::text, pg_get_userbyid(p.proowner)"
            " FROM pg_proc p WHERE p.pronamespace = 'reprise'::regnamespace"
        ).fetchall()
    ours = [each for each in functions if "skill" in each[0]]
    assert {name for name, may, *_ in ours if may} == FUNCTIONS
    for name, _, _, settings, _, owner in ours:
        # Nothing that somebody created can stand for what a function means.
        assert settings[0] == "search_path=pg_catalog, pg_temp", name
        assert settings[1:] in ([], ["lock_timeout=5s"]), name
        assert owner == "reprise_owner", name
    for name, _, _, _, grants, _ in functions:
        assert grants is not None, f"PUBLIC may execute {name}"
        assert "=" not in {each[:1] for each in grants.strip("{}").split(",")}, name


#: What a person with SQL tries on a table or a view.
ATTEMPTS = (
    "SELECT * FROM {0}",
    "SELECT count(*) FROM {0}",
    "SELECT 1 FROM {0} FOR UPDATE",
    "TABLE {0}",
    "COPY {0} TO STDOUT",
    "INSERT INTO {0} DEFAULT VALUES",
    "INSERT INTO {0} OVERRIDING SYSTEM VALUE SELECT * FROM {0}",
    "UPDATE {0} SET by = 'me'",
    "UPDATE {0} SET scope = 'organisation'",
    "DELETE FROM {0}",
    "TRUNCATE {0} CASCADE",
    "DO $$ BEGIN LOCK TABLE {0} IN ACCESS SHARE MODE; END $$",
    "ALTER TABLE {0} DISABLE ROW LEVEL SECURITY",
    "ALTER TABLE {0} DISABLE TRIGGER ALL",
    "CREATE POLICY mine ON {0} USING (true)",
    "CREATE TRIGGER mine BEFORE INSERT ON {0} EXECUTE FUNCTION reprise.refuse_skill_change()",
    "CREATE INDEX ON {0} (by)",
    "CREATE VIEW pg_temp.mine AS SELECT * FROM {0}; TABLE pg_temp.mine",
    "DROP TABLE {0}",
    "DROP VIEW {0}",
    "GRANT ALL ON {0} TO CURRENT_USER; TABLE {0}",
    "MERGE INTO {0} USING (SELECT 1) AS s ON true WHEN MATCHED THEN DELETE",
)
#: Insufficient privilege; there is no such column, which is public; it is a view, or none.
REFUSED = ("42501", "42703", "42809", "0A000")


@pytest.mark.usefixtures("everything", "alices")
@pytest.mark.parametrize("login", LOGINS)
def test_nobody_reads_or_changes_a_table(database: str, login: str) -> None:
    with closing(connected(database, login)) as connection:
        for role in ("none", "reprise_kernel"):
            connection.execute(f"SET ROLE {role}".encode())
            for table in (*TABLES, *VIEWS):
                for attempt in ATTEMPTS:
                    with pytest.raises(psycopg.Error) as refused:
                        connection.execute(attempt.format(f"reprise.{table}").encode())
                    assert refused.value.sqlstate in REFUSED, (table, attempt, refused.value)


@pytest.mark.usefixtures("alices")
def test_a_login_that_may_read_the_tables_sees_what_the_catalog_shows_him(
    database: str,
) -> None:
    """The second wall: an operator lets people read the tables, for a report."""
    with psycopg.connect(database, autocommit=True) as operator:
        if not operator.execute("SELECT FROM pg_roles WHERE rolname = 'readers'").rowcount:
            operator.execute("CREATE ROLE readers")
        operator.execute("GRANT SELECT ON ALL TABLES IN SCHEMA reprise TO readers")
        for login in PEOPLE:
            operator.execute(f"GRANT readers TO {login}")
        try:
            for login in PEOPLE:
                with closing(connected(database, login)) as connection:
                    rows = connection.execute(
                        "SELECT scope, name, number FROM reprise.skill_versions ORDER BY 1, 2, 3"
                    ).fetchall()
                    shown = connection.execute(
                        "SELECT scope, name, number FROM reprise.find_skills(NULL, NULL, NULL,"
                        " NULL) ORDER BY 1, 2, 3"
                    ).fetchall()
                    assert rows == shown
                    for table in ("skill_files", "skill_contents", "skill_paths", "skill_heads"):
                        [(count,)] = connection.execute(
                            f"SELECT count(*) FROM reprise.{table}".encode()
                        ).fetchall()
                        assert count == 0
                    said: list[str] = []
                    connection.add_notice_handler(partial(_keep, said))
                    # A function of one's own that is cheap enough to be tried first.
                    connection.execute(
                        "CREATE FUNCTION pg_temp.tell(text) RETURNS bool LANGUAGE plpgsql"
                        " COST 0.0000001 AS $$ BEGIN RAISE NOTICE '%', $1; RETURN true; END $$"
                    )
                    connection.execute(
                        "SELECT FROM reprise.skill_versions WHERE pg_temp.tell(scope || name)"
                    )
                    assert set(said) == {scope + name for scope, name, _ in shown}
                    if login == "eve":
                        assert rows == []
        finally:
            for login in PEOPLE:
                operator.execute(f"REVOKE readers FROM {login}")
            operator.execute("REVOKE ALL ON ALL TABLES IN SCHEMA reprise FROM readers")


def _keep(said: list[str], notice: psycopg.errors.Diagnostic) -> None:
    said.append(str(notice.message_primary))


# functions with forged arguments --------------------------------------------------------------------


@pytest.mark.usefixtures("everything")
@pytest.mark.parametrize("login", ["eve", "dan", "bob", "olga", "reprise_kernel"])
def test_somebody_elses_files_are_not_to_be_had(
    database: str, alices: tuple[str, uuid.UUID], login: str
) -> None:
    digest, _ = alices
    with closing(connected(database, login)) as connection:
        for statement in (
            "SELECT * FROM reprise.read_skill(%(d)s, NULL)",
            "SELECT * FROM reprise.read_skill(%(d)s, 'SKILL.md')",
            "SELECT * FROM reprise.find_skills(NULL, NULL, NULL, %(d)s)",
            "SELECT * FROM reprise.find_skills('personal/alice', NULL, NULL, NULL)",
            "SELECT * FROM reprise.find_skills('personal/alice', 'count', 1, NULL)",
            "SELECT * FROM reprise.find_skills(NULL, 'count', NULL, NULL)",
            "SELECT * FROM reprise.list_skills('personal/alice')",
            "SELECT * FROM reprise.skill_history('personal/alice', 'count')",
            "SELECT * FROM reprise.search_skills('secretword', 10)",
            "SELECT * FROM reprise.search_skills('count', 10)",
            "SELECT * FROM reprise.skill_sessions(%(d)s)",
        ):
            found = connection.execute(statement, {"d": digest}).fetchall()
            assert not found, statement
        # What is not there looks the same as what is not one's own.
        known, unknown = (
            connection.execute(
                "SELECT s.standing, u.loads, u.last_at FROM reprise.skill_standings(%(d)s) s,"
                " reprise.skill_usage(%(d)s) u",
                {"d": [each]},
            ).fetchall()
            for each in (digest, "0" * 64)
        )
        assert known == unknown == [("untrusted", 0, None)]


@pytest.mark.usefixtures("alices")
def test_a_digest_that_lies_is_not_added(database: str) -> None:
    """Nobody can claim files that he does not have, or a digest that was approved for others."""
    with closing(connected(database, "alice")) as alice:
        [(known,)] = alice.execute(DIGEST).fetchall()
        evil = SKILL.replace(b"Counts", b"Steals")
        two = {"paths": ["SKILL.md", "b"], "modes": [420, 420], "contents": [SKILL, b"b"]}
        for forged in (
            {"digest": known},
            {"digest": known, "contents": [None]},
            {"digest": known, "contents": []},
            {"digest": known, "paths": [], "contents": [], "modes": []},
            {"digest": known, "paths": None},
            {"digest": known, "paths": None, "contents": None, "modes": None},
            {"digest": None},
            {"digest": ""},
            {"digest": known.upper()},
            {"modes": [0o777]},
            {"modes": [None]},
            {"modes": [420, 420]},
            {"paths": [None]},
            {"paths": ["../SKILL.md"]},
            {"paths": ["README.md"]},
            {"name": "Not A Name"},
            {"name": "a" * 65},
            {"name": None},
            {"description": ""},
            {"description": None},
            {"description": "x" * 20_000},
            {"origin": "[]"},
            {"origin": '{"kind":"heaven"}'},
            {"origin": '{"kind":"git","where":' + "[" * 5000 + "]" * 5000 + "}"},
            {"origin": '{"kind":"git","where":"\\u0000"}'},
            {"origin": None},
            {"contents": [b"x" * (17 << 20)]},
            {**two, "paths": ["SKILL.md", "SKILL.md"]},
            {**two, "paths": ["SKILL.md", "skill.MD"]},
            {**two, "paths": ["SKILL.md", "SKILL.md/x"]},
            {**two, "paths": ["SKILL.md", "a\nb"]},
            {**two, "paths": ["SKILL.md", 'a","file",420,1,"']},
            {**two, "paths": ["SKILL.md", "a\\b"]},
            {**two, "contents": [SKILL, b"x" * (16 << 20), b"y"]},
        ):
            with pytest.raises(psycopg.Error) as refused:
                add(alice, **{"name": "count", "data": evil, **forged})
            assert refused.value.sqlstate == "RP014", (forged, refused.value)
        # Arrays that begin elsewhere, in which a path would name another's bytes.
        for shift in ("'[0:0]={SKILL.md}'", "'[2:2]={SKILL.md}'", "'{{SKILL.md}}'"):
            with pytest.raises(psycopg.Error) as refused:
                alice.execute(
                    f"SELECT reprise.add_skill('count', 'd', %s, {shift}::text[], '{{420}}',"
                    " ARRAY['x'::bytea], '{\"kind\":\"folder\"}', '')",
                    [known],
                )
            assert refused.value.sqlstate == "RP014"
        assert alice.execute(DIGEST).fetchall() == [(known,)]


def _sabotage(promotion: uuid.UUID, digest: str) -> list[tuple[str, str, str]]:
    """(login, statement, SQLSTATE): what nobody of these may do."""
    decide = f"SELECT reprise.decide_skill_promotion('{promotion}', '{digest}', %s, '', true)"
    yes, no = decide % "true", decide % "false"
    ask = "SELECT reprise.ask_skill_promotion(gen_random_uuid(), {}, '')"
    return [
        # alice asked: she decides nothing, whatever she says
        ("alice", yes, "RP010"),
        ("alice", no, "RP010"),
        ("dan", yes, "RP010"),
        ("eve", yes, "RP011"),
        ("olga", yes, "RP011"),
        ("reprise_kernel", yes, "RP011"),
        # of another content than is asked for, of nothing, of nobody's promotion
        ("bob", yes.replace(digest, "0" * 64), "RP012"),
        ("bob", yes.replace(f"'{digest}'", "NULL"), "RP012"),
        ("bob", yes.replace(str(promotion), str(uuid.UUID(int=0))), "RP011"),
        ("bob", yes.replace(f"'{promotion}'", "NULL"), "RP011"),
        ("bob", f"SELECT reprise.withdraw_skill_promotion('{promotion}')", "RP011"),
        # what was not reviewed is not released or restored
        ("bob", "SELECT reprise.release_skill('team/ml', 'asked', 1)", "RP010"),
        ("alice", "SELECT reprise.release_skill('team/ml', 'asked', 1)", "RP010"),
        ("bob", "SELECT reprise.restore_skill('team/ml', 'asked', 1)", "RP010"),
        ("bob", "SELECT reprise.release_skill('team/ml', 'asked', NULL)", "RP011"),
        ("bob", "SELECT reprise.release_skill('team/ml', 'asked', 2)", "RP011"),
        ("bob", "SELECT reprise.release_skill(NULL, 'asked', 1)", "RP010"),
        # in scopes that are not one's own
        ("bob", "SELECT reprise.release_skill('personal/alice', 'count', 1)", "RP010"),
        ("bob", "SELECT reprise.restore_skill('personal/alice', 'count', 1)", "RP010"),
        ("bob", "SELECT reprise.deprecate_skill('personal/alice', 'count', 1, 'x', false)", "RP010"),
        ("bob", "SELECT reprise.release_skill('organisation', 'asked', 1)", "RP010"),
        ("dan", "SELECT reprise.deprecate_skill('team/ml', 'asked', 1, 'x', false)", "RP010"),
        ("bob", ask.format("'personal/alice', 'count', 1, 'team/ml'"), "RP011"),
        ("bob", ask.format("'team/ml', 'asked', 1, 'organisation'"), "RP012"),
        ("alice", ask.format("'personal', 'count', 1, 'personal/bob'"), "RP012"),
        ("alice", ask.format("'personal', 'count', 1, NULL"), "RP012"),
        ("eve", ask.format("'personal', 'count', 1, 'team/ml'"), "RP010"),
        ("reprise_kernel", ask.format("'personal', 'count', 1, 'organisation'"), "RP010"),
        # trust and revocation
        ("alice", f"SELECT reprise.judge_skill('{digest}', 'team/ml', 'trust', '')", "RP010"),
        ("dan", f"SELECT reprise.judge_skill('{digest}', 'team/ml', 'revoke', 'x')", "RP010"),
        ("dan", f"SELECT reprise.judge_skill('{digest}', 'personal/bob', 'trust', '')", "RP010"),
        ("bob", f"SELECT reprise.judge_skill('{digest}', 'organisation', 'trust', '')", "RP010"),
        ("bob", f"SELECT reprise.judge_skill('{digest}', NULL, 'trust', '')", "RP010"),
        ("bob", f"SELECT reprise.judge_skill('{digest}', 'team/ml', 'add', '')", "RP012"),
        ("bob", f"SELECT reprise.judge_skill('{digest}', 'team/ml', NULL, '')", "RP012"),
        ("bob", "SELECT reprise.judge_skill(NULL, 'team/ml', 'trust', '')", "RP012"),
        ("bob", f"SELECT reprise.judge_skill('{'0' * 64}', 'team/ml', 'trust', '')", "RP012"),
        ("bob", f"SELECT reprise.judge_skill('{digest}', 'team/ml', 'reinstate', 'x')", "RP012"),
        ("bob", f"SELECT reprise.judge_skill('{digest}', 'team/ml', 'revoke', NULL)", "RP012"),
        # roles
        ("alice", "SELECT reprise.appoint_for_skills('alice', 'team/ml', 'reviewer')", "RP010"),
        ("bob", "SELECT reprise.appoint_for_skills('bob', 'team/ml', 'admin')", "RP010"),
        ("olga", "SELECT reprise.appoint_for_skills('olga', 'team/ml', 'reviewer')", "RP010"),
        ("eve", "SELECT reprise.appoint_for_skills('eve', 'organisation', 'admin')", "RP010"),
        ("olga", "SELECT reprise.appoint_for_skills('eve', 'personal/bob', 'admin')", "RP012"),
        ("olga", "SELECT reprise.appoint_for_skills('eve', NULL, 'admin')", "RP012"),
        ("olga", "SELECT reprise.appoint_for_skills('eve', 'team/ml', 'owner')", "RP012"),
        ("olga", "SELECT reprise.appoint_for_skills('eve', 'team/ml', NULL)", "RP012"),
        ("olga", "SELECT reprise.appoint_for_skills(NULL, 'team/ml', 'member')", "RP012"),
        ("olga", "SELECT reprise.appoint_for_skills('reprise_kernel', 'team/ml', 'member')", "RP012"),
        ("olga", "SELECT reprise.appoint_for_skills('reprise_owner', 'team/ml', 'member')", "RP012"),
        ("dan", "SELECT reprise.dismiss_from_skills('bob', 'team/ml')", "RP010"),
        ("olga", "SELECT reprise.dismiss_from_skills(NULL, 'team/ml')", "RP012"),
        ("bob", "SELECT reprise.create_skill_team('mine')", "RP010"),
        ("olga", "SELECT reprise.create_skill_team('personal/bob')", "RP012"),
        ("olga", "SELECT reprise.create_skill_team(NULL)", "RP012"),
        ("eve", "SELECT reprise.skill_members_of('team/ml')", "RP010"),
    ]  # fmt: skip


@pytest.mark.usefixtures("everything")
def test_forged_calls_are_refused_and_change_nothing(
    database: str, alices: tuple[str, uuid.UUID]
) -> None:
    _, promotion = alices
    with psycopg.connect(database) as superuser:
        [(digest,)] = superuser.execute(
            "SELECT digest FROM reprise.skill_versions WHERE scope = 'team/ml'"
        ).fetchall()
    for login, statement, state in _sabotage(promotion, str(digest)):
        with closing(connected(database, login)) as connection:
            for role in ("none", "reprise_kernel"):
                connection.execute(f"SET ROLE {role}".encode())
                with pytest.raises(psycopg.Error) as refused:
                    connection.execute(statement.encode())
                assert refused.value.sqlstate == state, (login, statement, refused.value)
                assert refused.value.diag.message_hint, statement


# tricks ---------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("everything")
@pytest.mark.parametrize(
    "prepare",
    [
        "SET search_path = pg_temp, public, reprise",
        "SET ROLE reprise_kernel",
        "SET SESSION AUTHORIZATION DEFAULT",
        "SET row_security = off",
        "SET application_name = 'bob'",
        "SELECT set_config('reprise.login', 'bob', false)",
        "SELECT set_config('session_user', 'bob', false)",
        (
            "CREATE TEMP TABLE skill_members (scope text, login text, role text);"
            " INSERT INTO skill_members VALUES ('team/ml', 'alice', 'admin');"
            " SET search_path = pg_temp, reprise"
        ),
        (
            "CREATE FUNCTION pg_temp.session_user() RETURNS name LANGUAGE sql AS $$ SELECT 'bob'::name"
            " $$; SET search_path = pg_temp, pg_catalog"
        ),
        (
            "CREATE FUNCTION pg_temp.skill_role(text) RETURNS text LANGUAGE sql AS $$ SELECT 'admin'"
            " $$; SET search_path = pg_temp, reprise, pg_catalog"
        ),
        (
            "CREATE FUNCTION pg_temp.yes(text, text) RETURNS bool LANGUAGE sql AS $$ SELECT true $$;"
            " CREATE OPERATOR pg_temp.= (LEFTARG = text, RIGHTARG = text, FUNCTION = pg_temp.yes);"
            " CREATE OPERATOR pg_temp.<> (LEFTARG = text, RIGHTARG = text, FUNCTION = pg_temp.yes);"
            " SET search_path = pg_temp, pg_catalog"
        ),
        (
            "CREATE FUNCTION pg_temp.sha256(bytea) RETURNS bytea LANGUAGE sql AS $$ SELECT ''::bytea $$;"
            " SET search_path = pg_temp, pg_catalog"
        ),
        "SET check_function_bodies = off",
        "SET plan_cache_mode = force_generic_plan",
        "SET enable_indexscan = off; SET enable_bitmapscan = off",
        "SET constraint_exclusion = on; SET debug_parallel_query = on",
        "SET default_transaction_read_only = off; SET lc_messages = 'C'",
        "SET plpgsql.variable_conflict = use_column",
        "SET standard_conforming_strings = off; SET backslash_quote = on",
        "SET DateStyle = 'German'; SET IntervalStyle = 'sql_standard'; SET TimeZone = 'Asia/Tokyo'",
        "SET xmloption = content; SET bytea_output = 'escape'; SET extra_float_digits = -15",
        "SET client_encoding = 'LATIN1'",
        "SET default_text_search_config = 'pg_catalog.simple'",
        "SET transform_null_equals = on; SET array_nulls = off",
    ],
)
def test_no_setting_or_object_of_ones_own_gives_a_right(
    database: str, alices: tuple[str, uuid.UUID], prepare: str
) -> None:
    _, promotion = alices
    with psycopg.connect(database) as superuser:
        [(digest,)] = superuser.execute(
            "SELECT digest FROM reprise.skill_versions WHERE scope = 'team/ml'"
        ).fetchall()
    attacks = [each for each in _sabotage(promotion, str(digest)) if each[0] in ("alice", "dan")]
    for login in ("alice", "dan"):
        with closing(connected(database, login)) as connection:
            try:
                connection.execute(prepare.encode())
            except psycopg.errors.UndefinedObject:
                pass  # a setting that this major version does not have
            except psycopg.errors.InsufficientPrivilege:
                continue  # refused already
            for whose, statement, state in attacks:
                if whose != login:
                    continue
                with pytest.raises(psycopg.Error) as refused:
                    connection.execute(statement.encode())
                assert refused.value.sqlstate == state, (statement, refused.value)
            if login == "dan":
                for read in (
                    "SELECT FROM reprise.find_skills(NULL, NULL, NULL, NULL)",
                    "SELECT FROM reprise.skill_promotions_seen(NULL, true)",
                ):
                    assert connection.execute(read.encode()).rowcount == 0


@pytest.mark.parametrize("login", LOGINS)
def test_nobody_becomes_somebody_else(database: str, login: str) -> None:
    with (
        closing(psycopg.connect(login_dsn(database, login), autocommit=True))
        if (login != "reprise_kernel")
        else closing(connected(database, login)) as connection
    ):
        others = [other for other in (*PEOPLE, "postgres", "reprise_owner") if other != login]
        for other in others:
            for statement in (f"SET ROLE {other}", f"SET SESSION AUTHORIZATION {other}"):
                if login == "reprise_kernel" and statement.startswith("SET SESSION"):
                    continue  # this test's own connection is a superuser's behind it
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute(statement.encode())
            with pytest.raises(psycopg.Error):
                connection.execute(f"GRANT reprise_kernel TO {other}".encode())
            with pytest.raises(psycopg.Error):
                connection.execute(f"GRANT {other} TO {login}".encode())
        for statement in (
            "CREATE TABLE reprise.mine ()",
            "CREATE FUNCTION reprise.mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
            "ALTER FUNCTION reprise.judge_skill(text, text, text, text) SECURITY INVOKER",
            "ALTER FUNCTION reprise.judge_skill(text, text, text, text) RESET ALL",
            "ALTER SCHEMA reprise OWNER TO CURRENT_USER",
            "CREATE EVENT TRIGGER mine ON ddl_command_end EXECUTE FUNCTION pg_temp.x()",
        ):
            with pytest.raises(psycopg.Error):
                connection.execute(statement.encode())


@pytest.mark.usefixtures("everything")
@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_a_snapshot_of_yesterdays_rights_gives_none_today(
    database: str, alices: tuple[str, uuid.UUID], level: str
) -> None:
    _, promotion = alices
    with closing(connected(database, "bob")) as bob:
        bob.execute(f"BEGIN ISOLATION LEVEL {level}".encode())
        bob.execute("SELECT FROM reprise.my_skill_scopes()")
        with pytest.raises(psycopg.Error, match="READ COMMITTED") as refused:
            bob.execute(
                "SELECT reprise.decide_skill_promotion(%s, NULL, true, '', true)", [promotion]
            )
        assert refused.value.sqlstate == "RP012"
        bob.execute("ROLLBACK")


def test_a_reviewer_who_is_dismissed_while_he_decides_decides_nothing(
    database: str, alices: tuple[str, uuid.UUID]
) -> None:
    """The dismissal comes first: bob's call waits for it, and is refused then."""
    _, promotion = alices
    with (
        closing(connected(database, "olga")) as olga,
        closing(connected(database, "bob")) as bob,
        psycopg.connect(database, autocommit=True) as superuser,
    ):
        olga.execute("BEGIN")
        olga.execute("SELECT reprise.dismiss_from_skills('bob', 'team/ml')")
        said: list[psycopg.Error] = []

        def decide() -> None:
            try:
                bob.execute(
                    "SELECT reprise.decide_skill_promotion(%s, '', false, '', false)", [promotion]
                )
            except psycopg.Error as error:
                said.append(error)

        deciding = threading.Thread(target=decide)
        deciding.start()
        while not superuser.execute(
            "SELECT FROM pg_stat_activity WHERE pid = %s AND wait_event_type = 'Lock'",
            [bob.info.backend_pid],
        ).rowcount:
            assert deciding.is_alive()
        olga.execute("COMMIT")
        deciding.join(60)
        assert [error.sqlstate for error in said] == ["RP010"]
        olga.execute("SELECT reprise.appoint_for_skills('bob', 'team/ml', 'reviewer')")


def test_who_keeps_a_transaction_open_holds_up_no_revocation(
    database: str, alices: tuple[str, uuid.UUID]
) -> None:
    """alice asks for another promotion of that skill and never ends; it is revoked all the same."""
    _, promotion = alices
    with (
        closing(connected(database, "alice")) as alice,
        closing(connected(database, "bob")) as bob,
    ):
        [(digest,)] = bob.execute(
            "SELECT digest FROM reprise.find_skills('team/ml', 'asked', 1, NULL)"
        ).fetchall()
        add(alice, "asked", b"---\nname: asked\ndescription: Asks again.\n---\n")
        alice.execute("BEGIN")
        alice.execute(
            "SELECT reprise.ask_skill_promotion(gen_random_uuid(), 'personal', 'asked', 2,"
            " 'team/ml', '')"
        )
        alice.execute("SELECT pg_advisory_lock(n) FROM generate_series(1, 100) AS n")
        bob.execute("SELECT reprise.judge_skill(%s, 'team/ml', 'revoke', 'bad')", [digest])
        [(standing,)] = bob.execute(
            "SELECT standing FROM reprise.skill_standings(%s)", [[digest]]
        ).fetchall()
        assert standing == "revoked"
        # Whoever must wait is told after a while, and nothing was changed.
        with pytest.raises(psycopg.errors.LockNotAvailable):
            bob.execute(
                "SELECT reprise.decide_skill_promotion(%s, %s, false, '', false)",
                [promotion, digest],
            )
        alice.execute("ROLLBACK")
        bob.execute("SELECT reprise.judge_skill(%s, 'team/ml', 'reinstate', 'good')", [digest])


def test_nothing_tells_a_digest_or_a_name_from_one_that_is_not_there(
    database: str, alices: tuple[str, uuid.UUID]
) -> None:
    """EXPLAIN shows a call and how many rows it gave, not what it looked at."""
    digest, _ = alices
    with closing(connected(database, "eve")) as eve:
        plans = []
        for each in (digest, "0" * 64):
            rows = eve.execute(
                "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF)"
                f" SELECT * FROM reprise.find_skills(NULL, NULL, NULL, '{each}')".encode()
            ).fetchall()
            plans.append("\n".join(str(row[0]) for row in rows).replace(each, "DIGEST"))
        assert plans[0] == plans[1]
        assert "Rows Removed" not in plans[0]
        for view in ("pg_stats", "pg_policies"):
            names = eve.execute(
                f"SELECT * FROM pg_catalog.{view} WHERE schemaname = 'reprise'"
                " AND tablename LIKE 'skill%'".encode()
            ).fetchall()
            assert view == "pg_policies" or names == []


#: What nobody changes, and a change of it.
FROZEN = {
    "skill_teams": "by = 'me'",
    "skill_files": "data = ''",
    "skill_contents": "size = 0",
    "skill_paths": "mode = 493",
    "skill_versions": "digest = repeat('0', 64)",
    "skill_promotions": "by = 'me'",
    "skill_events": "by = 'me'",
    "skill_uses": "by = 'me'",
}


@pytest.mark.parametrize("role", ["reprise_owner", "postgres"])
def test_what_is_append_only_is_so_for_its_owner_and_a_superuser(
    database: str, alices: tuple[str, uuid.UUID], role: str
) -> None:
    digest, _ = alices
    with psycopg.connect(database, autocommit=True) as connection:
        # So that there is a row of each to be changed.
        connection.execute("SELECT reprise.use_skill(%s, 'load', NULL, NULL, NULL)", [digest])
        before = fingerprint(database)
        connection.execute(f"SET ROLE {role}".encode())
        for table, change in FROZEN.items():
            for statement in (
                "DELETE FROM reprise.{}",
                "TRUNCATE reprise.{} CASCADE",
                f"UPDATE reprise.{{}} SET {change}",
            ):
                with pytest.raises(psycopg.Error) as refused:
                    connection.execute(statement.format(table).encode())
                assert refused.value.sqlstate == "RP003", (table, statement, refused.value)
        for backwards in (
            "state = 'draft'",
            "number = number + 1",
            "by = 'me'",
            "description = 'x'",
            "origin = '{}'",
            "from_scope = 'personal/eve', from_number = 1",
        ):
            with pytest.raises(psycopg.Error) as refused:
                connection.execute(
                    f"UPDATE reprise.skill_versions SET state = 'published', {backwards}"
                    if "state" not in backwards
                    else "UPDATE reprise.skill_versions SET state = CASE state WHEN 'draft' THEN"
                    " 'reviewed' ELSE 'draft' END; UPDATE reprise.skill_versions SET state = 'draft'"
                )
            assert refused.value.sqlstate == "RP003", backwards
    assert fingerprint(database) == before
