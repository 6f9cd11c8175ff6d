"""An environment is one team's, and lets in the skills that it names: the kernel is the wall."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import psycopg
import pytest

from reprise.log.postgres import Log
from reprise.skills.catalog import Catalog
from reprise.skills.contract import Origin
from reprise.skills.folder import tree_of_files
from reprise.skills.read import read_skill
from tests.fixtures.catalog import make_logins
from tests.fixtures.kernel import Kernels
from tests.kernel.test_skill_mounts import FILES, mounted


def environment(kernels: Kernels, name: str, **said: object) -> str:
    folder = kernels.database.home / "environments"
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(said))
    return name


async def add(kernels: Kernels, name: str) -> None:
    """The content that `mounted` mounts, under some name of a skill."""
    tree = tree_of_files([(path, mode, data) for path, (data, mode) in FILES.items()])
    log = await Log.connect(kernels.database.dsn, home=kernels.database.home)
    try:
        skill = replace(read_skill(tree), name=name)
        await Catalog(log).add(skill, Origin("folder", "/x"))
    finally:
        await log.close()


def test_only_skills_that_the_environment_names_are_mounted_whatever_a_request_says(
    kernels: Kernels,
) -> None:
    """By content, as the catalog knows it: neither the target nor the request's word counts."""
    named = environment(kernels, "few", skills=["personal:allowed-*", "shipped:profile-dataset"])
    kernel = kernels("bubblewrap", REPRISE_ENVIRONMENT=named)
    client = kernel.client()
    said = {"name": "allowed-one", "scope": "personal", "version": "1"}
    refused = mounted(client, skill=said)
    assert refused.status == "error"
    assert refused.error == "NotAllowed"
    assert "nowhere in a catalog" in refused.reply["evalue"]
    assert "reprise env skills few" in refused.reply["evalue"]
    for name, expected in (("other", "error"), ("allowed-one", "ok")):
        asyncio.run(add(kernels, name))
        found = mounted(client)
        assert found.status == expected, found.reply
    assert kernels.read(kernel).statuses("mount") == ["ok"]


def sessions(dsn: str) -> object:
    with psycopg.connect(dsn) as connection:
        return connection.execute("SELECT count(*) FROM reprise.sessions").fetchone()


@pytest.mark.parametrize("member", [True, False])
def test_a_teams_environment_runs_nothing_for_who_is_not_in_the_team(
    kernels: Kernels, member: bool
) -> None:
    dsn = kernels.database.dsn
    make_logins(dsn)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            "SELECT reprise.create_skill_team('ml') WHERE NOT EXISTS"
            " (SELECT FROM reprise.skill_teams WHERE scope = 'team/ml')"
        )
        connection.execute("SELECT reprise.appoint_for_skills('alice', 'team/ml', 'member')")
    login = "alice" if member else "eve"
    named = environment(kernels, "ours", team="team/ml")
    kernel = kernels(
        "bubblewrap",
        REPRISE_ENVIRONMENT=named,
        REPRISE_DSN=dsn.replace("user=postgres", f"user={login}"),
    )
    before = sessions(dsn)
    ran = kernel.client().run("print('ran')")
    if member:
        assert ran.status == "ok"
    else:
        assert ran.status == "error"
        assert "is for members of team/ml" in str(ran.reply["evalue"])
        assert sessions(dsn) == before
