"""Three people and more: who may do what with a skill, and what a refusal says."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import replace

import psycopg
import pytest

from reprise.errors import (
    BadSkill,
    NotAllowed,
    RepriseError,
    SkillNotFound,
    SkillRevoked,
    UsageError,
)
from reprise.skills.catalog import Catalog
from reprise.skills.contract import ORGANISATION, PERSONAL, Promotion, Scope
from tests.fixtures.catalog import FOLDER, ML, People, skill_of


async def asked(team: People, body: str = "Do it.") -> Promotion:
    """alice asks that her skill become the team's."""
    await team["alice"].add(skill_of("count", body), FOLDER)
    return await team["alice"].request_promotion("personal:count", ML, "please")


# promotion ----------------------------------------------------------------------------------------


async def test_a_promotion_goes_from_draft_to_what_everybody_gets(team: People) -> None:
    promotion = await asked(team)
    assert (promotion.by, promotion.note, promotion.decided) == ("alice", "please", None)
    draft = promotion.version
    assert (draft.scope, draft.number, draft.state, draft.by) == (ML, 1, "draft", "alice")
    assert draft.origin.where == ""  # a path on alice's machine is nobody's business
    with pytest.raises(SkillNotFound):
        await team["dan"].find("count")  # a member sees no drafts of others
    for reviewer in ("bob", "carol"):
        assert [each.id for each in await team[reviewer].promotions()] == [promotion.id]
        assert await team[reviewer].tree(draft) == skill_of("count").tree
    assert await team["dan"].promotions() == [] == await team["olga"].promotions()

    approved = await team["bob"].decide(promotion.id, True, "it is sound")
    assert (approved.decided, approved.decided_by, approved.reason) == (
        *("approved", "bob"),
        "it is sound",
    )
    assert approved.version.state == "reviewed"
    with pytest.raises(SkillNotFound):
        await team["dan"].find("count")
    assert (await team["dan"].standings([draft.digest]))[draft.digest] == "untrusted"

    released = await team["carol"].release("team/ml:count")
    assert released.state == "published"
    found = await team["dan"].find("count")
    assert (found.standing, found.number) == ("trusted", 1)
    assert await team["dan"].tree(found) == skill_of("count").tree
    with pytest.raises(SkillNotFound):
        await team["eve"].find("count")
    assert (await team["eve"].standings([draft.digest]))[draft.digest] == "untrusted"
    assert [(each.act, each.by) for each in await team["dan"].history("count")] == [
        ("ask", "alice"),
        ("approve", "bob"),
        ("release", "carol"),
    ]


async def test_what_is_promoted_is_what_was_asked_whatever_the_author_does_meanwhile(
    team: People,
) -> None:
    promotion = await asked(team, "good")
    await team["alice"].add(skill_of("count", "evil"), FOLDER)
    done = await team["bob"].decide(promotion.id, True, release=True)
    assert await team["dan"].tree(done.version) == skill_of("count", "good").tree


async def test_a_published_skill_of_a_team_goes_on_to_the_organisation(team: People) -> None:
    await team.published(skill_of("count"))
    promotion = await team["dan"].request_promotion("team/ml:count", ORGANISATION)
    # alice wrote it and dan asked: neither may approve, whatever their roles are.
    for login in ("alice", "dan"):
        await team["op"].appoint(login, ORGANISATION, "reviewer")
        with pytest.raises(NotAllowed, match=rf"You \({login}\) added this content or asked"):
            await team[login].decide(promotion.id, True)
    await team["olga"].decide(promotion.id, True, release=True)
    assert (await team["eve"].find("count")).standing == "trusted"


async def test_only_what_is_ones_own_or_published_is_promoted(team: People) -> None:
    promotion = await asked(team)
    with pytest.raises(SkillNotFound):
        await team["dan"].request_promotion("team/ml:count@1", ORGANISATION)
    with pytest.raises(UsageError, match=r"draft version of team/ml is not promoted"):
        await team["bob"].request_promotion("team/ml:count@1", ORGANISATION)
    await team["bob"].decide(promotion.id, True, release=True)
    with pytest.raises(UsageError, match="no scope to promote to"):
        await team["bob"].request_promotion("team/ml:count", PERSONAL)
    await team["op"].create_team("other")
    await team["op"].appoint("bob", Scope("team", "other"), "member")
    with pytest.raises(UsageError, match="not promoted to team/other"):
        await team["bob"].request_promotion("team/ml:count", Scope("team", "other"))


async def test_the_same_is_not_asked_twice(team: People) -> None:
    promotion = await asked(team)
    with pytest.raises(UsageError, match=rf"alice asked for that already \({promotion.id}\)"):
        await team["alice"].request_promotion("personal:count", ML)
    await team["bob"].decide(promotion.id, True, release=True)
    with pytest.raises(UsageError, match=r"has this very content already, as count@1"):
        await team["alice"].request_promotion("personal:count", ML)


async def test_a_refused_or_withdrawn_promotion_stays_a_draft_and_can_be_asked_anew(
    team: People,
) -> None:
    first = await asked(team)
    refused = await team["bob"].decide(first.id, False, "no --help")
    assert (refused.decided, refused.reason, refused.version.state) == (
        *("refused", "no --help"),
        "draft",
    )
    second = await team["alice"].request_promotion("personal:count", ML)
    assert second.version.number == 2
    withdrawn = await team["alice"].withdraw(second.id)
    assert (withdrawn.decided, withdrawn.decided_by) == ("withdrawn", "alice")
    third = await team["alice"].request_promotion("personal:count", ML)
    assert (await team["bob"].decide(third.id, True, release=True)).version.number == 3
    everything = await team["alice"].promotions(everything=True)
    assert [each.decided for each in everything] == ["refused", "withdrawn", "approved"]
    assert await team["bob"].promotions() == []
    # A member sees nothing of what was refused.
    assert [each.number for each in await team["dan"].versions("count")] == [3]
    assert {each.number for each in await team["dan"].history("count")} == {3}


async def test_the_difference_is_taken_from_what_is_published_there(team: People) -> None:
    promotion = await asked(team, "one")
    assert await team["bob"].base(promotion) is None
    await team["bob"].decide(promotion.id, True, release=True)
    second = await asked(team, "two")
    third = await asked(team, "three")
    for each in (second, third):
        base = await team["bob"].base(each)
        assert base is not None
        assert base.number == 1


# refusals -----------------------------------------------------------------------------------------


async def test_nobody_approves_his_own(team: People) -> None:
    await team["bob"].add(skill_of("mine"), FOLDER)
    promotion = await team["bob"].request_promotion("personal:mine", ML)
    with pytest.raises(
        NotAllowed, match=r"You \(bob\) added this content.*Nothing was changed.*bob, carol"
    ):
        await team["bob"].decide(promotion.id, True, release=True)
    await team["carol"].decide(promotion.id, True)
    assert (await team["bob"].release("team/ml:mine")).state == "published"


async def test_who_has_not_the_right_is_told_who_has_and_how_to_get_it(team: People) -> None:
    promotion = await asked(team)
    with pytest.raises(
        NotAllowed,
        match=r"You \(alice\) cannot approve this promotion: in team/ml you are a member\. Nothing"
        r" was changed\. In team/ml reviewers and admins may: bob, carol\. Ask one of them",
    ):
        await team["alice"].decide(promotion.id, True)
    for outsider in ("eve", "olga"):
        with pytest.raises(SkillNotFound):
            await team[outsider].decide(promotion.id, True)
    with pytest.raises(NotAllowed, match=r"You \(eve\) cannot .*you are not in team/ml"):
        await team["eve"].revoke(promotion.version.digest, scope=ML, reason="no")


async def test_a_draft_that_nobody_approved_is_not_released_or_restored(team: People) -> None:
    promotion = await asked(team)
    with pytest.raises(NotAllowed, match="a draft that nobody has approved"):
        await team["bob"].release("team/ml:count@1")
    with pytest.raises(NotAllowed, match="never published there"):
        await team["bob"].restore("team/ml:count@1")
    await team["bob"].decide(promotion.id, False)
    with pytest.raises(NotAllowed):
        await team["bob"].release("team/ml:count@1")
    with pytest.raises(NotAllowed, match="you are a member"):
        await team["alice"].release("team/ml:count@1")


async def test_what_is_decided_stays_decided(team: People) -> None:
    promotion = await asked(team)
    await team["bob"].decide(promotion.id, True)
    await team["bob"].decide(promotion.id, True)  # said again after a lost answer
    for decide in (
        team["carol"].decide(promotion.id, True),
        team["carol"].decide(promotion.id, False),
        team["bob"].decide(promotion.id, False),
        team["alice"].withdraw(promotion.id),
    ):
        with pytest.raises(UsageError, match="decided: bob did approve it"):
            await decide
    second = await asked(team, "other")
    await team["alice"].withdraw(second.id)
    with pytest.raises(UsageError, match="alice did withdraw it"):
        await team["bob"].decide(second.id, True)
    with pytest.raises(SkillNotFound, match="You asked for no promotion"):
        await team["bob"].withdraw(promotion.id)


async def test_a_description_that_the_files_do_not_say_is_not_approved(
    team: People,
) -> None:
    """What lists and models show is the catalog's own column: it must be what was reviewed."""
    skill = replace(skill_of("count"), description="Something harmless.")
    await team["alice"].add(skill, FOLDER)
    promotion = await team["alice"].request_promotion("personal:count", ML)
    with pytest.raises(BadSkill, match=r"Something harmless\..*its SKILL\.md says"):
        await team["bob"].decide(promotion.id, True)
    assert (await team["bob"].decide(promotion.id, False)).decided == "refused"


async def test_a_content_that_is_revoked_meanwhile_is_neither_approved_nor_released(
    team: People,
) -> None:
    first = await asked(team)
    await team["olga"].revoke(first.version.digest, scope=ORGANISATION, reason="it is bad")
    with pytest.raises(SkillRevoked, match="revoked in organisation by olga"):
        await team["bob"].decide(first.id, True)
    second = await asked(team, "other")
    await team["bob"].decide(second.id, True)
    await team["carol"].revoke(second.version.digest, scope=ML, reason="worse")
    with pytest.raises(SkillRevoked):
        await team["bob"].release("team/ml:count@2")
    with pytest.raises(SkillRevoked):
        await team["alice"].request_promotion("personal:count", ORGANISATION)


# trust --------------------------------------------------------------------------------------------


async def standing(catalog: Catalog, digest: str) -> str:
    return (await catalog.standings([digest]))[digest]


async def test_trust_for_oneself_is_for_nobody_else_and_of_exactly_one_content(
    team: People,
) -> None:
    one = await team["dan"].add(skill_of("count", "one"), FOLDER)
    await team["dan"].trust(one.digest)
    assert await standing(team["dan"], one.digest) == "trusted"
    assert await standing(team["alice"], one.digest) == "untrusted"
    two = await team["dan"].add(skill_of("count", "two"), FOLDER)
    assert two.standing == "untrusted"
    await team["dan"].distrust(one.digest)
    assert await standing(team["dan"], one.digest) == "untrusted"
    with pytest.raises(UsageError, match="nothing to take back"):
        await team["alice"].distrust(one.digest)


async def test_trust_for_a_scope_takes_a_second_person(team: People) -> None:
    promotion = await asked(team)
    digest = promotion.version.digest
    with pytest.raises(NotAllowed, match="you are a member"):
        await team["alice"].trust(digest, scope=ML)
    await team["op"].appoint("alice", ML, "reviewer")
    with pytest.raises(NotAllowed, match=r"You \(alice\) added this content"):
        await team["alice"].trust(digest, scope=ML)
    other = await team["bob"].add(skill_of("bobs"), FOLDER)
    with pytest.raises(UsageError, match="team/ml has no version with this content"):
        await team["bob"].trust(other.digest, scope=ML)
    await team["bob"].trust(digest, scope=ML, reason="tried it")
    assert await standing(team["dan"], digest) == "trusted"
    assert await standing(team["eve"], digest) == "untrusted"
    await team["carol"].distrust(digest, scope=ML)
    assert await standing(team["dan"], digest) == "untrusted"


@pytest.mark.parametrize("scope", [PERSONAL, ML, ORGANISATION], ids=str)
async def test_a_revocation_beats_every_trust_below_and_above_it(
    team: People, scope: Scope
) -> None:
    version = await team.published(skill_of("count"))
    await team.published(skill_of("count"), by="carol", to=ORGANISATION)
    digest = version.digest
    await team["bob"].trust(digest)
    assert await standing(team["bob"], digest) == "trusted"
    who = "olga" if scope == ORGANISATION else "bob"
    await team[who].revoke(digest, scope=scope, reason="it is bad")
    assert await standing(team["bob"], digest) == "revoked"
    with pytest.raises(SkillRevoked):
        await team["bob"].trust(digest)
    found = await team["bob"].find("count")
    assert found.standing == "revoked"  # it is read, and not mounted
    assert await team["bob"].tree(found) == skill_of("count").tree
    elsewhere = {PERSONAL: "dan", ML: "eve", ORGANISATION: None}[scope]
    if elsewhere is not None:
        assert await standing(team[elsewhere], digest) == "trusted"


async def test_a_revoked_version_gives_way_to_the_one_before_it(team: People) -> None:
    first = await team.published(skill_of("count", "first words"))
    second = await team.published(skill_of("count", "second words"))
    await team["bob"].revoke(second.digest, scope=ML, reason="it is bad")
    assert (await team["dan"].find("count")).digest == first.digest
    assert [each.digest for each in await team["dan"].list()] == [first.digest]
    assert [each.digest for each in await team["dan"].search("first")] == [first.digest]
    assert await team["dan"].search("second") == []
    await team["carol"].reinstate(second.digest, scope=ML, reason="it is not")
    assert (await team["dan"].find("count")).digest == second.digest
    assert [each.digest for each in await team["dan"].search("second")] == [second.digest]


async def test_what_one_scope_revokes_is_gone_from_another_for_its_people_only(
    team: People,
) -> None:
    first = await team.published(skill_of("count", "first"), to=ORGANISATION)
    second = await team.published(skill_of("count", "second"), to=ORGANISATION)
    await team["bob"].revoke(second.digest, scope=ML, reason="not with our data")
    assert [each.digest for each in await team["dan"].list()] == [first.digest]
    assert await team["dan"].search("second") == []
    assert [each.digest for each in await team["eve"].list()] == [second.digest]


async def test_who_added_a_content_does_not_undo_its_revocation(team: People) -> None:
    version = await team.published(skill_of("count"))
    await team["op"].appoint("alice", ML, "reviewer")
    await team["bob"].revoke(version.digest, scope=ML, reason="it is bad")
    with pytest.raises(NotAllowed, match=r"another person has to reinstate it"):
        await team["alice"].reinstate(version.digest, scope=ML, reason="it is mine")
    with pytest.raises(NotAllowed, match="you are a member"):
        await team["dan"].reinstate(version.digest, scope=ML, reason="I want it")
    with pytest.raises(UsageError, match="nothing to take back"):
        await team["olga"].reinstate(version.digest, scope=ORGANISATION, reason="hm")
    await team["bob"].reinstate(version.digest, scope=ML, reason="a mistake")
    assert await standing(team["dan"], version.digest) == "trusted"


async def test_a_revocation_has_a_reason(team: People) -> None:
    with pytest.raises(UsageError, match="reason"):
        await team["bob"].revoke("0" * 64, scope=ML, reason="  ")


# members ------------------------------------------------------------------------------------------


async def test_an_operator_begins_and_admins_go_on(people: People) -> None:
    with pytest.raises(NotAllowed, match="nobody yet; a member of reprise_owner appoints"):
        await people["olga"].create_team("ml")
    await people["op"].appoint("olga", ORGANISATION, "admin")
    assert await people["olga"].create_team("ml") == ML
    assert [(m.login, m.role) for m in await people["olga"].members(ML)] == [("olga", "admin")]
    await people["olga"].appoint("bob", ML, "admin")
    await people["bob"].appoint("alice", ML, "member")
    assert [(m.login, m.role) for m in await people["alice"].members(ML)] == [
        ("bob", "admin"),
        ("olga", "admin"),
        ("alice", "member"),
    ]
    assert [(str(s.scope), s.role) for s in await people["bob"].scopes()] == [
        ("personal", "admin"),
        ("team/ml", "admin"),
        ("organisation", "member"),
    ]
    with pytest.raises(UsageError, match="there already"):
        await people["olga"].create_team("ml")


async def test_nobody_appoints_himself_or_beyond_his_scope(team: People) -> None:
    await team["op"].appoint("bob", ML, "admin")
    for act in (
        team["alice"].appoint("alice", ML, "reviewer"),
        team["eve"].appoint("eve", ML, "member"),
        team["eve"].appoint("eve", ORGANISATION, "admin"),
        team["carol"].appoint("eve", ML, "member"),  # a reviewer
        team["bob"].appoint("bob", ML, "member"),  # even if it were less
        team["bob"].appoint("eve", ORGANISATION, "reviewer"),
        team["olga"].appoint("olga", ML, "admin"),
        team["bob"].create_team("mine"),
        team["alice"].dismiss("bob", ML),
        team["eve"].dismiss("bob", ML),
    ):
        with pytest.raises(NotAllowed):
            await act
    with pytest.raises(NotAllowed):
        await team["eve"].members(ML)
    assert {m.login for m in await team["bob"].members(ML)} == {"alice", "bob", "carol", "dan"}


async def test_only_logins_that_use_reprise_are_appointed(team: People, dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as superuser:
        if not superuser.execute("SELECT FROM pg_roles WHERE rolname = 'stranger'").rowcount:
            superuser.execute("CREATE ROLE stranger LOGIN")
    for login in ("stranger", "nobody at all", "reprise_kernel", "reprise_owner", ""):
        with pytest.raises(UsageError, match="no login that may use Reprise"):
            await team["olga"].appoint(login, ML, "member")
    with pytest.raises(SkillNotFound, match="no team/none"):
        await team["olga"].appoint("alice", Scope("team", "none"), "member")


async def test_who_is_dismissed_sees_and_decides_nothing_any_more(team: People) -> None:
    promotion = await asked(team)
    await team.published(skill_of("other"))
    await team["olga"].dismiss("bob", ML)
    with pytest.raises(SkillNotFound):
        await team["bob"].decide(promotion.id, True)
    assert await team["bob"].list(everything=True) == []
    await team["dan"].dismiss("dan", ML)  # anybody may leave
    assert await team["dan"].list() == []
    assert (await team["dan"].standings([promotion.version.digest])) == {
        promotion.version.digest: "untrusted"
    }
    await team["olga"].dismiss("alice", ML)
    assert await team["alice"].promotions(everything=True) == []
    assert [each.scope for each in await team["alice"].list(everything=True)] == [PERSONAL] * 2


async def test_a_scope_that_one_is_not_in_is_refused_as_one_that_is_not_there(
    team: People,
) -> None:
    async def said(act: Callable[[Scope], Awaitable[object]], scope: Scope) -> str:
        with pytest.raises(RepriseError) as refused:
            await act(scope)
        return str(refused.value).replace(str(scope), "SCOPE")

    await team["eve"].add(skill_of("count"), FOLDER)
    for act in (
        team["eve"].members,
        lambda scope: team["eve"].request_promotion("count", scope),
        lambda scope: team["eve"].revoke("0" * 64, scope=scope, reason="x"),
        lambda scope: team["eve"].dismiss("bob", scope),
        lambda scope: team["eve"].appoint("bob", scope, "member"),
    ):
        assert await said(act, ML) == await said(act, Scope("team", "none"))


# at once ------------------------------------------------------------------------------------------


async def test_of_two_who_decide_at_once_one_does(team: People) -> None:
    for turn in range(8):
        promotion = await asked(team, f"turn {turn}")
        said = await asyncio.gather(
            team["bob"].decide(promotion.id, True, release=True),
            team["carol"].decide(promotion.id, False),
            team["alice"].withdraw(promotion.id),
            return_exceptions=True,
        )
        done = [each for each in said if isinstance(each, Promotion)]
        lost = [each for each in said if not isinstance(each, Promotion)]
        assert len(done) == 1
        assert all(isinstance(each, UsageError) for each in lost), lost
        after = await team["alice"].promotion(promotion.id)
        assert after.decided == done[0].decided
        assert (after.version.state == "published") == (after.decided == "approved")


async def test_what_is_asked_by_many_at_once_is_numbered_without_a_gap(team: People) -> None:
    people = ("alice", "bob", "carol", "dan")
    for login in people:
        for turn in range(3):
            await team[login].add(skill_of("count", f"{login} {turn}"), FOLDER)
    made = await asyncio.gather(
        *(
            team[login].request_promotion(f"personal:count@{turn + 1}", ML)
            for turn in range(3)
            for login in people
        )
    )
    assert sorted(each.version.number for each in made) == list(range(1, 13))


async def test_a_revocation_and_a_release_at_once_leave_nothing_revoked_current(
    team: People,
) -> None:
    for turn in range(6):
        promotion = await asked(team, f"turn {turn}")
        await team["bob"].decide(promotion.id, True)
        said = await asyncio.gather(
            team["bob"].release(promotion.version.reference),
            team["carol"].revoke(promotion.version.digest, scope=ML, reason="it is bad"),
            return_exceptions=True,
        )
        assert not isinstance(said[1], BaseException), said[1]
        assert isinstance(said[0], SkillRevoked) or not isinstance(said[0], BaseException)
        assert await team["dan"].list() == []
        assert await team["dan"].search("turn") == []


async def test_unknown_promotions_are_told_in_words(team: People) -> None:
    for act in (
        team["bob"].promotion(uuid.uuid4()),
        team["bob"].decide(uuid.uuid4(), True),
        team["bob"].withdraw(uuid.uuid4()),
    ):
        with pytest.raises(SkillNotFound, match="promotion"):
            await act
