"""`reprise skills import`, `export`, `sync` and `publish`, on a real catalog."""

import asyncio
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from reprise.cli import main
from reprise.errors import NotAllowed
from reprise.log.postgres import Log
from reprise.skills.arrival import bring_in, newest
from reprise.skills.catalog import Catalog
from reprise.skills.contract import ORGANISATION
from reprise.skills.export import export_archive, export_into
from reprise.skills.folder import read_folder, write_folder
from reprise.skills.sources import find_skills
from reprise.skills.sync import FOLLOWED, Held, Upstream, look_upstream
from tests.fixtures.skill_sources import committed, git, skill, skill_md


@pytest.fixture
def catalog(log: Log) -> Catalog:
    return Catalog(log)


async def upstream(catalog: Catalog, *, added: bool = True) -> dict[str, Upstream]:
    versions = await newest(catalog)
    held = [Held(v, await catalog.tree(v)) for v in versions.values() if v.origin.kind in FOLLOWED]
    found = await asyncio.to_thread(look_upstream, held, added=added, here=versions)
    return {each.name: each for each in found}


async def test_what_came_again_is_no_new_version(catalog: Catalog, tmp_path: Path) -> None:
    write_folder(skill("one"), tmp_path / "a/one")
    (looked,) = await bring_in(catalog, find_skills(str(tmp_path / "a")), only_look=True)
    assert (looked.what, looked.version) == ("new", None)
    assert not await newest(catalog)
    (first,) = await bring_in(catalog, find_skills(str(tmp_path / "a")), note="why")
    assert first.version is not None
    assert (first.what, first.version.number, first.version.standing) == ("new", 1, "untrusted")
    assert (first.version.note, first.version.origin.where) == ("why", str(tmp_path / "a"))
    export_archive(tmp_path / "b.zip", {"one": skill("one")})
    (again,) = await bring_in(catalog, find_skills(str(tmp_path / "b.zip")))
    assert (again.what, again.version) == ("unchanged", first.version)
    shutil.rmtree(tmp_path / "a/one")
    write_folder(skill("one", body="new\n"), tmp_path / "a/one")
    (changed,) = await bring_in(catalog, find_skills(str(tmp_path / "a")))
    assert changed.version is not None
    assert (changed.what, changed.version.number) == ("changed", 2)
    with pytest.raises(NotAllowed):
        write_folder(skill("other"), tmp_path / "c/other")
        await bring_in(catalog, find_skills(str(tmp_path / "c")), scope=ORGANISATION)


async def test_a_sync_says_what_changed_since_the_pinned_commit(
    catalog: Catalog, tmp_path: Path, elsewhere: Path
) -> None:
    folder = tmp_path / "work"
    names = ("changes", "goes", "moves", "stays", "breaks")
    pinned = committed(folder, {name: skill(name) for name in names})
    await bring_in(catalog, find_skills(str(folder), ref="main"))
    assert {each.what for each in (await upstream(catalog)).values()} == {"unchanged"}
    changed = skill("changes", ("new.sh", 0o755, b"#!/bin/sh\n"), body="Do it otherwise.\n")
    shutil.rmtree(folder / "skills/goes")
    (folder / "skills/moves").rename(folder / "moved")
    (folder / "skills/breaks/SKILL.md").write_text("no frontmatter\n")
    now = committed(folder, {"changes": changed, "comes": skill("comes")})
    found = await upstream(catalog)
    assert {name: each.what for name, each in found.items()} == {
        "changes": "changed",
        "goes": "removed",
        "moves": "unchanged",
        "stays": "unchanged",
        "breaks": "broken",
        "comes": "added",
    }
    change = found["changes"]
    assert change.held is not None
    assert change.found is not None
    assert (change.held.version.origin.commit, change.found.origin.commit) == (pinned, now)
    assert [(file.path, file.what, file.mode) for file in change.files] == [
        ("SKILL.md", "changed", ""),
        ("new.sh", "added", "now executable"),
    ]
    assert "-Do it." in change.files[0].diff
    assert "frontmatter" in found["breaks"].reason
    # It is pinned: nothing has come by looking.
    assert (await newest(catalog))["changes"].digest == skill("changes").digest
    (arrival,) = await bring_in(catalog, [change.found], note="sync")
    assert arrival.version is not None
    assert (arrival.version.number, arrival.version.standing) == (2, "untrusted")
    assert (arrival.version.origin.commit, arrival.version.origin.ref) == (now, "main")
    assert (await upstream(catalog, added=False))["changes"].what == "unchanged"


async def test_trust_does_not_go_over_to_what_a_sync_brings(
    catalog: Catalog, tmp_path: Path, elsewhere: Path
) -> None:
    folder = tmp_path / "work"
    committed(folder, {"one": skill("one")})
    (first,) = await bring_in(catalog, find_skills(str(folder), ref="main"))
    assert first.version is not None
    await catalog.trust(first.version.digest)
    assert (await newest(catalog))["one"].standing == "trusted"
    committed(folder, {"one": skill("one", body="evil\n")})
    found = (await upstream(catalog))["one"].found
    assert found is not None
    await bring_in(catalog, [found])
    assert (await newest(catalog))["one"].standing == "untrusted"


async def test_a_branch_is_followed_and_a_commit_stays(
    catalog: Catalog, tmp_path: Path, elsewhere: Path
) -> None:
    folder = tmp_path / "work"
    pinned = committed(folder, {"one": skill("one"), "two": skill("two")})
    git(folder, "checkout", "--quiet", "-b", "dev")
    await bring_in(catalog, find_skills(str(folder), ref=pinned, names=["one"]))
    await bring_in(catalog, find_skills(str(folder), ref="dev", names=["two"]))
    committed(folder, {"one": skill("one", body="new\n"), "two": skill("two", body="new\n")})
    for added in (False, True):
        found = await upstream(catalog, added=added)
        assert (found["one"].what, found["two"].what) == ("unchanged", "changed")
    git(folder, "checkout", "--quiet", "main")
    git(folder, "branch", "--quiet", "-D", "dev")
    found = await upstream(catalog)
    assert (found["one"].what, found["two"].what) == ("unchanged", "unreachable")
    assert "no branch and no tag 'dev'" in found["two"].reason


async def test_a_folder_is_followed_too_and_one_that_is_gone_keeps_no_other(
    catalog: Catalog, tmp_path: Path
) -> None:
    for name in ("one", "two"):
        write_folder(skill(name), tmp_path / name / "deep/er/and/deep/er/and/deep/er" / name)
        found = find_skills(str(tmp_path / name), subfolder="deep/er/and/deep/er/and/deep/er")
        await bring_in(catalog, found)
    assert {each.what for each in (await upstream(catalog)).values()} == {"unchanged"}
    shutil.rmtree(tmp_path / "one")
    shutil.rmtree(tmp_path / "two/deep/er/and/deep/er/and/deep/er/two")
    write_folder(skill("two", body="new\n"), tmp_path / "two/deep/er/and/deep/er/and/deep/er/two")
    found_now = await upstream(catalog)
    assert (found_now["one"].what, found_now["two"].what) == ("unreachable", "changed")


# the commands -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Result:
    returncode: int
    stdout: str
    stderr: str


class Skills:
    """`reprise skills …` in this process, which need not start Python for each."""

    def __init__(self, capture: pytest.CaptureFixture[str]) -> None:
        self._capture = capture

    def __call__(self, *args: str) -> Result:
        self._capture.readouterr()
        code = main(["skills", *args])
        said = self._capture.readouterr()
        return Result(code, said.out, said.err)

    def json(self, *args: str, code: int = 0) -> Any:
        done = self(*args, "--json")
        assert done.returncode == code, done.stdout + done.stderr
        return json.loads(done.stdout)


@pytest.fixture
def reprise_skills(
    dsn: str,
    home: Path,
    elsewhere: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Skills:
    monkeypatch.setenv("REPRISE_DSN", dsn)
    return Skills(capsys)


def test_skills_come_from_a_tool_and_go_to_another(
    reprise_skills: Skills, tmp_path: Path, elsewhere: Path
) -> None:
    tree = skill("from-a-tool")
    write_folder(tree, elsewhere / ".claude/skills/from-a-tool")
    (elsewhere / ".claude/skills/broken").mkdir()
    (elsewhere / ".claude/skills/broken/SKILL.md").write_text("no frontmatter\n")
    project = tmp_path / "project"
    here = ("--from", "claude-code", "--project", str(project))
    shown = reprise_skills.json("import", *here, "--dry-run", code=1)
    assert [(each["name"], each["what"]) for each in shown["skills"]] == [
        ("broken", "refused"),
        ("from-a-tool", "new"),
    ]
    done = reprise_skills("import", *here)
    assert done.returncode == 1
    assert "refused    broken" in done.stdout
    assert "frontmatter" in done.stdout
    assert "added      personal:from-a-tool@1" in done.stdout
    assert "reprise skills trust from-a-tool" in done.stdout
    assert (
        reprise_skills.json("import", *here, "--name", "from-a-tool")["skills"][0]["what"]
        == "unchanged"
    )
    done = reprise_skills("export", "from-a-tool", "--to", "codex", "--project", str(project))
    assert done.returncode == 0, done.stderr
    assert "trusted by nobody" in done.stderr
    assert read_folder(project / ".agents/skills/from-a-tool").digest == tree.digest
    (project / ".agents/skills/from-a-tool/SKILL.md").write_bytes(
        skill_md("from-a-tool", body="mine\n")
    )
    done = reprise_skills("export", "from-a-tool", "--to", "codex", "--project", str(project))
    assert done.returncode == 1
    assert "SKILL.md: changed there" in done.stdout
    forced = ("--force", "--to", "codex", "--project", str(project))
    assert reprise_skills.json("export", "from-a-tool", *forced)["skills"][0]["what"] == "replaced"
    for to in ("x.zip", "out/", "--user"):
        where = ["--to", "gemini", "--user"] if to == "--user" else ["--to", str(tmp_path / to)]
        reprise_skills.json("export", "from-a-tool", *where)
    places = (tmp_path / "x.zip", tmp_path / "out", elsewhere / ".gemini/skills")
    for source in places:
        assert found_digest(source) == tree.digest


def found_digest(source: Path) -> str:
    (found,) = find_skills(str(source))
    assert found.skill is not None
    return found.skill.digest


def test_a_sync_is_shown_then_taken(
    reprise_skills: Skills, tmp_path: Path, elsewhere: Path
) -> None:
    folder = tmp_path / "work"
    committed(folder, {"synced": skill("synced")})
    reprise_skills.json("import", f"file://{folder}")
    assert reprise_skills.json("sync", "synced")["skills"][0]["what"] == "unchanged"
    new = skill("synced", body="Do it otherwise.\n")
    committed(folder, {"synced": new, "beside": skill("beside")})
    done = reprise_skills("sync", "synced")
    assert done.returncode == 1
    assert "+Do it otherwise." in done.stdout
    taken = reprise_skills.json("sync", "synced", "--apply")["skills"][0]["taken"]
    assert (taken["number"], taken["digest"], taken["note"]) == (2, new.digest, "sync")
    assert reprise_skills.json("sync", "synced")["skills"][0]["what"] == "unchanged"
    done = reprise_skills("sync")
    assert "Also there, and not here (1): beside" in done.stdout
    found = reprise_skills.json("sync", "--apply", "--new", code=done.returncode)["skills"]
    (beside,) = [each for each in found if each["name"] == "beside"]
    assert beside["taken"]["reference"] == "personal:beside@1"


def test_a_marketplace_is_published_and_comes_back(
    reprise_skills: Skills, tmp_path: Path, elsewhere: Path
) -> None:
    write_folder(skill("to-publish"), tmp_path / "to-publish")
    reprise_skills.json("import", str(tmp_path / "to-publish"))
    market = tmp_path / "market.git"
    done = reprise_skills("publish", str(market))
    assert done.returncode == 2
    assert "released, trusted" in done.stderr
    assert not market.exists()
    first = reprise_skills.json("publish", str(market), "to-publish", "--owner", "Ada")
    assert first["skills"] == [{"name": "to-publish", "what": "added", "version": "1.0.0"}]
    assert reprise_skills.json("publish", str(market), "to-publish")["commit"] is None
    again = reprise_skills.json("import", f"file://{market}")["skills"]
    assert [(each["name"], each["what"]) for each in again] == [("to-publish", "unchanged")]
    left = reprise_skills.json("publish", str(market), "--remove", "to-publish")
    assert [each["what"] for each in left["skills"]] == ["removed"]
    done = reprise_skills("publish", str(market), "--remove", "to-publish")
    assert done.returncode == 2


def test_what_was_revoked_leaves_a_marketplace_and_is_handed_on_by_nothing(
    reprise_skills: Skills, tmp_path: Path, elsewhere: Path
) -> None:
    for name in ("to-revoke", "to-keep"):
        write_folder(skill(name), tmp_path / "skills" / name)
    reprise_skills.json("import", str(tmp_path / "skills"))
    market = tmp_path / "market.git"
    reprise_skills.json("publish", str(market), "to-revoke", "to-keep")

    async def revoke() -> None:
        log = await Log.connect()
        try:
            await Catalog(log).revoke(skill("to-revoke").digest, reason="it leaks")
        finally:
            await log.close()

    asyncio.run(revoke())
    told_now = reprise_skills.json("publish", str(market), "to-keep")
    assert {each["name"]: each["what"] for each in told_now["skills"]} == {
        "to-keep": "unchanged",
        "to-revoke": "removed",
    }
    for args in (
        ["export", "to-revoke", "--to", str(tmp_path / "x.zip")],
        ["publish", str(market), "to-revoke"],
    ):
        done = reprise_skills(*args)
        assert done.returncode != 0
        assert "was revoked" in done.stderr
    assert not (tmp_path / "x.zip").exists()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["import"], "either a SOURCE or a tool"),
        (["import", "x", "--from", "codex"], "either a SOURCE or a tool"),
        (["import", "--from", "emacs"], "no tool"),
        (["import", "--from", "codex", "--ref", "x"], "belong to a SOURCE"),
        (["import", "x", "--project", "."], "belongs to --from"),
        (["import", "/nowhere/at/all"], "nothing at"),
        (["import", "ext::sh -c evil"], "program"),
        (["export", "--to", "codex"], "Name the skills"),
        (["export", "x", "--to", "claud-code"], "./claud-code"),
        (["export", "x", "--to", "x.zip", "--user"], "names no tool"),
        (["export", "x-that-is-not-there", "--to", "codex"], "x-that-is-not-there"),
        (["sync", "--new"], "--apply"),
        (["sync", "x-that-is-not-there"], "no skill"),
        (["publish", "/tmp", "--remove", "x"], "neither empty nor"),
        (["publish", "x", "a", "--scope", "personal"], "SCOPE:NAME"),
    ],
)
def test_wrong_use_is_told_and_changes_nothing(
    reprise_skills: Skills,
    args: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    done = reprise_skills(*args)
    assert done.returncode == 2, done.stdout + done.stderr
    assert said in done.stderr
    assert list((tmp_path / "here").iterdir()) == []


def test_what_the_catalog_has_may_be_replaced_where_it_was_exported(
    reprise_skills: Skills, tmp_path: Path, elsewhere: Path
) -> None:
    """An older version that nobody touched is not somebody's work."""
    old, new = skill("exported"), skill("exported", body="new\n")
    for number, tree in enumerate((old, new)):
        write_folder(tree, tmp_path / str(number) / "exported")
        reprise_skills.json("import", str(tmp_path / str(number)))
    export_into(tmp_path / "there", {"exported": old})
    reprise_skills.json("export", "exported", "--to", str(tmp_path / "there"))
    assert read_folder(tmp_path / "there/exported").digest == new.digest
