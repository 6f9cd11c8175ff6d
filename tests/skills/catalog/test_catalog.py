"""What is added to the catalog is found as it was, by whom it concerns, for ever."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from reprise.errors import (
    BadSkill,
    LogCorrupt,
    NotAllowed,
    SkillNotFound,
    SkillRevoked,
    UsageError,
)
from reprise.log.postgres import Log
from reprise.skills.catalog import Catalog
from reprise.skills.contract import ORGANISATION, PERSONAL, Origin, Reference, SkillTree
from reprise.skills.rows import nearest
from reprise.skills.shipped import shipped
from reprise.workspace.manifest import Entry, Manifest
from tests.fixtures.catalog import FOLDER, ML, People, skill_of
from tests.log.aging import age_blobs

GIT = Origin("git", "https://example.org/skills.git", "c" * 40, "skills/count", "main")


async def test_a_skill_comes_back_byte_for_byte_with_its_modes(people: People) -> None:
    files = {"scripts/run.py": b"#!/usr/bin/env python3\n", "bin/é😀.bin": bytes(range(256))}
    skill = skill_of("count", files=files)
    added = await people["alice"].add(skill, GIT, note="from the web")
    assert (added.scope, added.name, added.number) == (PERSONAL, "count", 1)
    assert (added.digest, added.origin, added.note) == (skill.digest, GIT, "from the web")
    assert (added.by, added.state, added.standing) == ("alice", "draft", "untrusted")
    found = await people["alice"].find("count")
    assert found == added
    assert await people["alice"].tree(found) == skill.tree
    again = await people["alice"].skill(found)
    assert (again.description, again.body) == (skill.description, skill.body)


async def test_versions_are_numbered_without_a_gap_and_the_same_content_adds_none(
    people: People,
) -> None:
    alice = people["alice"]
    first = await alice.add(skill_of("count", "one"), FOLDER)
    assert await alice.add(skill_of("count", "one"), GIT) == first
    second = await alice.add(skill_of("count", "two"), FOLDER)
    third = await alice.add(skill_of("count", "one"), FOLDER)
    assert [first.number, second.number, third.number] == [1, 2, 3]
    assert third.digest == first.digest
    assert await alice.versions("count") == [third, second, first]
    assert await alice.find("count@2") == second
    assert await alice.find(f"sha256:{first.digest}") == third
    with pytest.raises(SkillNotFound, match="count@4"):
        await alice.find("count@4")


async def test_what_others_add_at_the_same_moment_is_numbered_without_a_gap(
    people: People, home: Path
) -> None:
    logs = [
        await Log.connect(people.dsn.replace("user=postgres", "user=alice"), home=home)
        for _ in range(6)
    ]
    try:
        made = await asyncio.gather(
            *(
                Catalog(log).add(skill_of("count", f"{number} {turn}"), FOLDER)
                for turn in range(5)
                for number, log in enumerate(logs)
            )
        )
    finally:
        for log in logs:
            await log.close()
    assert sorted(version.number for version in made) == list(range(1, 31))


async def test_somebody_elses_skills_are_not_there(team: People) -> None:
    version = await team["alice"].add(skill_of("secret", files={"key": b"a private key"}), FOLDER)
    for login in ("bob", "carol", "dan", "eve", "olga", "op"):
        other = team[login]
        assert await other.list() == [] == await other.list(everything=True)
        assert await other.search("secret") == []
        for named in ("secret", "secret@1", f"sha256:{version.digest}"):
            with pytest.raises(SkillNotFound):
                await other.find(named)
        with pytest.raises(SkillNotFound):
            await other.tree(version)


async def test_whoever_has_the_bytes_adds_them_and_sees_nothing_more_by_that(
    people: People,
) -> None:
    """One stored file, two people: neither learns of the other's skill."""
    shared = {"data.bin": b"the same bytes"}
    await people["alice"].add(skill_of("one", files={**shared, "more": b"alice's"}), FOLDER)
    await people["bob"].add(skill_of("two", files=shared), FOLDER)
    assert [v.name for v in await people["bob"].list(everything=True)] == ["two"]
    assert [v.name for v in await people["alice"].list(everything=True)] == ["one"]


async def test_a_skill_is_added_to_ones_own_scope_only(team: People) -> None:
    for scope in (ML, ORGANISATION):
        with pytest.raises(NotAllowed, match=f"promote count --to {scope}"):
            await team["bob"].add(skill_of("count"), FOLDER, scope=scope)
    assert await team["bob"].list(everything=True) == []


# names --------------------------------------------------------------------------------------------


async def test_the_nearest_scope_wins_and_the_others_are_named(team: People) -> None:
    await team.published(skill_of("count", "of the organisation"), to=ORGANISATION)
    dan = team["dan"]
    assert (await dan.find("count")).scope == ORGANISATION
    await team.published(skill_of("count", "of the team"))
    assert (await dan.find("count")).scope == ML
    own = await dan.add(skill_of("count", "dan's"), FOLDER)
    assert await dan.find("count") == own
    assert [each.scope for each in await dan.clashes(own)] == [ML, ORGANISATION]
    assert (await dan.find("organisation:count")).scope == ORGANISATION
    listed = await dan.list()
    assert [each.scope for each in listed] == [PERSONAL, ML, ORGANISATION]
    assert nearest(listed) == [own]
    assert [each.scope for each in await dan.list(ML)] == [ML]


async def test_a_nearer_scope_that_has_nothing_to_offer_does_not_hide_a_wider_one(
    team: People,
) -> None:
    wide = await team.published(skill_of("count", "of the organisation"), to=ORGANISATION)
    await team["alice"].add(skill_of("count", "a draft"), FOLDER)
    await team["alice"].request_promotion("personal:count", ML)
    for reviewer in ("bob", "carol"):  # who do see the draft
        assert (await team[reviewer].find("count")).digest == wide.digest
    own = await team["dan"].add(skill_of("count", "bad"), FOLDER)
    await team["dan"].revoke(own.digest, reason="it was a mistake")
    assert (await team["dan"].find("count")).digest == wide.digest
    assert (await team["dan"].find("personal:count")).standing == "revoked"


# what is stored -----------------------------------------------------------------------------------


async def test_a_tree_whose_bytes_were_changed_behind_our_back_is_not_given_out(
    people: People, dsn: str
) -> None:
    version = await people["alice"].add(skill_of("count", files={"a": b"good"}), FOLDER)
    with psycopg.connect(dsn, autocommit=True) as superuser:
        superuser.execute("SET session_replication_role = replica")
        superuser.execute("ALTER TABLE reprise.skill_files DROP CONSTRAINT skill_files_check")
        superuser.execute("UPDATE reprise.skill_files SET data = 'evil' WHERE data = 'good'")
    with pytest.raises(LogCorrupt, match=version.digest):
        await people["alice"].tree(version)


async def test_a_stored_file_cannot_be_changed_even_by_a_superuser_in_passing(
    people: People, dsn: str
) -> None:
    await people["alice"].add(skill_of("count", files={"a": b"good"}), FOLDER)
    with psycopg.connect(dsn, autocommit=True) as superuser:
        with pytest.raises(psycopg.Error) as refused:
            superuser.execute("UPDATE reprise.skill_files SET data = 'evil'")
        assert refused.value.sqlstate == "RP003"
        superuser.execute("SET session_replication_role = replica")
        with pytest.raises(psycopg.errors.CheckViolation):
            superuser.execute("UPDATE reprise.skill_files SET data = 'evil'")


async def test_texts_that_postgres_cannot_hold_are_kept_as_near_as_can_be(
    people: People,
) -> None:
    skill = replace(skill_of("count"), description="a\0b\udc80" + "x" * 20_000)
    version = await people["alice"].add(skill, FOLDER, note="\0")
    assert version.description.startswith("a\N{REPLACEMENT CHARACTER}b?x")
    assert version.note == "\N{REPLACEMENT CHARACTER}"
    with pytest.raises(BadSkill, match="origin"):
        await people["alice"].add(skill_of("other"), Origin("folder", "/a\0b"))


async def test_a_tree_that_no_folder_could_be_is_refused(people: People) -> None:
    skill = skill_of("count")
    entry = skill.tree.manifest.entries[0]
    data = skill.tree.get("SKILL.md") or b""
    for paths in (
        ["../up"],
        ["/etc/passwd"],
        ["a//b"],
        ["a", "A"],
        ["a/x", "A/y"],
        ["con.txt"],
        ["dot."],
        ["a:b"],
        ["a\x07"],
        ["/".join("d" * 22)],
    ):
        tree = _tree([entry, *(replace(entry, path=path) for path in paths)], data)
        with pytest.raises(BadSkill):
            await people["alice"].add(replace(skill, tree=tree), FOLDER)
    for mode in (0o777, 0o4755, 0o600):
        tree = _tree([entry, replace(entry, path="x", mode=mode)], data)
        with pytest.raises(BadSkill, match="mode"):
            await people["alice"].add(replace(skill, tree=tree), FOLDER)
    with pytest.raises(BadSkill, match=r"SKILL\.md"):
        await people["alice"].add(
            replace(skill, tree=_tree([replace(entry, path="README.md")], data)), FOLDER
        )
    assert await people["alice"].list(everything=True) == []


def _tree(entries: list[Entry], data: bytes) -> SkillTree:
    """A tree as somebody makes it who keeps to no rule: not `Manifest.of`, which would refuse."""
    ordered = tuple(sorted(entries, key=lambda entry: entry.path))
    return SkillTree(Manifest(ordered), {entries[0].sha256 or "": data})


async def test_a_skill_whose_file_is_called_skill_md_is_kept(people: People) -> None:
    skill = skill_of("count", "unusual words")
    entry = skill.tree.manifest.entries[0]
    tree = _tree([replace(entry, path="skill.md")], skill.tree.get("SKILL.md") or b"")
    await people["alice"].add(replace(skill, tree=tree), FOLDER)
    assert [each.name for each in await people["alice"].search("unusual")] == ["count"]


# restore, deprecate -------------------------------------------------------------------------------


async def test_restoring_makes_a_new_version_of_an_old_content(team: People) -> None:
    old = await team.published(skill_of("count", "good"))
    new = await team.published(skill_of("count", "worse"))
    assert (await team["dan"].find("team/ml:count")).digest == new.digest
    back = await team["bob"].restore("team/ml:count@1")
    assert (back.number, back.digest, back.state, back.by) == (3, old.digest, "published", "bob")
    assert await team["dan"].find("count") == back
    assert await team["bob"].restore("team/ml:count@1") == back
    events = await team["dan"].history("count")
    assert [each.act for each in events] == [
        *("ask", "approve", "release", "ask", "approve", "release", "restore")
    ]


async def test_a_revoked_content_is_not_restored_and_the_refusal_says_what_to_do(
    team: People,
) -> None:
    old = await team.published(skill_of("count", "bad"))
    await team.published(skill_of("count", "good"))
    await team["bob"].revoke(old.digest, scope=ML, reason="it sends data away")
    with pytest.raises(
        SkillRevoked, match=r"revoked in team/ml by bob \(it sends data away\).*reinstate"
    ):
        await team["bob"].restore("team/ml:count@1")
    await team["carol"].reinstate(old.digest, scope=ML, reason="it did not")
    assert (await team["bob"].restore("team/ml:count@1")).digest == old.digest


async def test_a_deprecated_version_is_marked_until_another_takes_its_place(team: People) -> None:
    await team.published(skill_of("count"))
    with pytest.raises(UsageError, match="reason"):
        await team["bob"].deprecate("team/ml:count")
    marked = await team["bob"].deprecate("team/ml:count", "use the other one")
    assert marked.deprecated
    assert (await team["dan"].find("count")).deprecated
    assert [e.reason for e in await team["dan"].history("count") if e.act == "deprecate"] == [
        "use the other one"
    ]
    assert not (await team["bob"].deprecate("team/ml:count", undo=True)).deprecated


# use ----------------------------------------------------------------------------------------------


async def test_use_is_counted_by_version_and_once_a_step(team: People) -> None:
    version = await team.published(skill_of("count"))
    session, other = uuid.uuid4(), uuid.uuid4()
    for _ in range(3):  # a lost answer is asked for again
        await team["dan"].used(version.digest, "mount", session=session, seq=4)
        await team["dan"].used(
            version.digest, "run", session=session, seq=5, detail={"script": "a.py\0"}
        )
    await team["dan"].used(version.digest, "failure", session=other, seq=0)
    await team["bob"].used(version.digest, "load")
    await team["eve"].used(version.digest, "load")  # not of the team: hers is her own affair
    [(counted, usage)] = await team["carol"].usage("count")
    assert counted.digest == usage.digest == version.digest
    assert (usage.loads, usage.mounts, usage.runs, usage.failures, usage.sessions) == (
        1,
        1,
        1,
        1,
        2,
    )
    own = (await team["eve"].usage_of([version.digest]))[version.digest]
    assert (own.loads, own.mounts, own.sessions) == (1, 0, 0)
    assert own.last_at is not None
    never = (await team["eve"].usage_of(["0" * 64]))["0" * 64]
    assert (never.loads, never.last_at) == (0, None)


async def test_sessions_that_used_a_content_are_ones_own(team: People) -> None:
    version = await team.published(skill_of("count"))
    first, second = uuid.uuid4(), uuid.uuid4()
    await team["dan"].used(version.digest, "mount", session=first, seq=1)
    await team["dan"].used(version.digest, "mount", session=second, seq=1)
    await team["dan"].used(version.digest, "load", session=uuid.uuid4())
    assert await team["dan"].sessions_using(version.digest) == [second, first]
    assert await team["bob"].sessions_using(version.digest) == []


# with the rest of the log -------------------------------------------------------------------------


async def test_deleting_a_session_keeps_the_count_and_nothing_of_the_session(
    people: People,
) -> None:
    log, catalog = people.logs["op"], people["op"]
    version = await catalog.add(skill_of("count"), FOLDER)
    session = await log.begin(kernel="python3")
    await catalog.used(version.digest, "run", session=session, seq=0, detail={"script": "x"})
    await log.delete(session)
    assert await catalog.sessions_using(version.digest) == []
    usage = (await catalog.usage_of([version.digest]))[version.digest]
    assert (usage.runs, usage.sessions) == (1, 0)
    with psycopg.connect(people.dsn) as superuser:
        rows = superuser.execute("SELECT session, seq, detail FROM reprise.skill_uses").fetchall()
    assert rows == [(None, None, None)]


async def test_a_collection_leaves_skills_alone(people: People, home: Path) -> None:
    log, catalog = people.logs["op"], people["op"]
    skill = skill_of("count", files={"a": b"1" * 2_000_000})
    version = await catalog.add(skill, FOLDER)
    await log._blobs.put(b"nothing names this")
    age_blobs(people.dsn, home)
    assert (await log.collect()).blobs == 1
    assert await catalog.tree(version) == skill.tree


async def test_what_comes_with_reprise_is_trusted_until_it_is_revoked(people: People) -> None:
    skill, _ = shipped()[0]
    version = await people["alice"].add(skill, Origin("shipped"))
    assert version.standing == "trusted"
    assert await people["alice"].standings([skill.digest]) == {skill.digest: "trusted"}
    await people["alice"].revoke(skill.digest, reason="not for me")
    assert await people["alice"].standings([skill.digest]) == {skill.digest: "revoked"}
    assert await people["bob"].standings([skill.digest]) == {skill.digest: "trusted"}


async def test_the_embedded_database_has_a_personal_scope_only_and_says_why(home: Path) -> None:
    log = await Log.connect(home=home)
    try:
        catalog = Catalog(log)
        version = await catalog.add(skill_of("count"), FOLDER)
        assert await catalog.find("count") == version
        await catalog.trust(version.digest)
        assert (await catalog.find("count")).standing == "trusted"
        assert (await catalog.release("count")).state == "published"
        assert [str(each.scope) for each in await catalog.scopes()] == ["personal"]
        await catalog.revoke(version.digest, reason="it is bad")
        assert (await catalog.find("count")).standing == "revoked"
        await catalog.reinstate(version.digest, scope=PERSONAL, reason="it is not")
        for refused in (
            catalog.request_promotion("count", ML),
            catalog.request_promotion("count", ORGANISATION),
            catalog.trust(version.digest, scope=ORGANISATION),
            catalog.revoke(version.digest, scope=ML, reason="no"),
            catalog.create_team("ml"),
            catalog.appoint("reprise_kernel", ORGANISATION, "admin"),
            catalog.dismiss("reprise_kernel", ORGANISATION),
        ):
            with pytest.raises(NotAllowed, match=r"embedded.*REPRISE_DSN.*login for each person"):
                await refused
        with pytest.raises(NotAllowed):
            await catalog.members(ORGANISATION)
    finally:
        await log.close()


async def test_references_that_name_nothing_are_told_in_words(people: People) -> None:
    for named in ("nothing", "personal:nothing@3", "organisation:nothing", f"sha256:{'0' * 64}"):
        with pytest.raises(SkillNotFound, match=named):
            await people["alice"].find(named)
    with pytest.raises(SkillNotFound, match="team/ml:x"):
        await people["alice"].find(Reference("x", ML))
    for named in ("No Name", "a@0", "a@x", "sha256:1", "team/:a"):
        with pytest.raises(UsageError):
            await people["alice"].find(named)
