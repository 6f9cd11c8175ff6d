"""A marketplace is what Claude Code takes, changes only where skills do, and harms nobody's work."""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from reprise.errors import UsageError
from reprise.skills.contract import Skill
from reprise.skills.folder import read_folder
from reprise.skills.marketplace import checked_name, state_of, written_version
from reprise.skills.publishing import publish, published_in
from reprise.skills.read import read_skill
from reprise.skills.sources import find_skills
from tests.fixtures.skill_sources import git, skill
from tests.fixtures.untested import NOT_TESTED


def named(*names: str, body: str = "Do it.\n") -> dict[str, Skill]:
    return {name: read_skill(skill(name, body=body), folder=name) for name in names}


def what(folder: Path, skills: Mapping[str, Skill], **how: object) -> list[tuple[str, str, str]]:
    done = publish(folder, skills, **how)  # type: ignore[arg-type]
    return [(each.name, each.what, each.version) for each in done.skills]


def plugins(folder: Path) -> dict[str, dict[str, object]]:
    document = json.loads((folder / ".claude-plugin/marketplace.json").read_text())
    return {entry["name"]: entry for entry in document["plugins"]}


def log(folder: Path) -> list[str]:
    return git(folder, "log", "--format=%s", "--reverse").decode().splitlines()


@pytest.fixture
def market(tmp_path: Path, elsewhere: Path) -> Path:
    (elsewhere / ".gitconfig").write_text("[user]\n\tname = Ada\n\temail = ada@example.org\n")
    return tmp_path / "our-skills"


def test_only_what_changed_is_committed(market: Path) -> None:
    assert what(market, named("one", "two")) == [
        ("one", "added", "1.0.0"),
        ("two", "added", "1.0.0"),
    ]
    assert what(market, named("one", "two")) == [
        ("one", "unchanged", "1.0.0"),
        ("two", "unchanged", "1.0.0"),
    ]
    assert publish(market, named("one", "two")).commit is None
    assert what(market, named("two", body="new\n")) == [("two", "changed", "1.0.1")]
    changed = git(market, "show", "--format=", "--name-only", "HEAD").decode().split()
    assert changed == [
        ".claude-plugin/marketplace.json",
        ".reprise/marketplace.json",
        "plugins/two/.claude-plugin/plugin.json",
        "plugins/two/skills/two/SKILL.md",
    ]
    assert what(market, {}, leaving=["one", "never-there"]) == [("one", "removed", "1.0.0")]
    assert log(market) == [
        "Publish one 1.0.0, two 1.0.0",
        "Publish two 1.0.1",
        "Remove one",
    ]
    assert not (market / "plugins/one").exists()
    assert list(plugins(market)) == ["two"]
    assert plugins(market)["two"]["version"] == "1.0.1"
    # Whoever still has the old one gets the new one: its version was never seen.
    assert what(market, named("one")) == [("one", "added", "1.0.1")]
    assert git(market, "status", "--porcelain") == b""
    assert (
        git(market, "log", "-1", "--format=%an <%ae>").decode().strip() == "Ada <ada@example.org>"
    )


def test_the_files_that_lie_there_are_those_of_the_commit(market: Path) -> None:
    publish(market, named("one"))
    tree = skill("one")
    assert read_folder(market / "plugins/one/skills/one").digest == tree.digest
    (found,) = find_skills(str(market), ref="main")
    assert found.skill is not None
    assert found.skill.digest == tree.digest
    assert git(market, "fsck", "--strict").decode() == ""
    assert published_in(market)["one"].digest == tree.digest
    assert plugins(market)["one"]["source"] == "./plugins/one"
    manifest = json.loads((market / "plugins/one/.claude-plugin/plugin.json").read_text())
    assert manifest["name"] == "one"
    assert manifest["author"] == {"name": "Ada"}


def test_a_bare_repository_is_made_where_its_name_says_so(tmp_path: Path, elsewhere: Path) -> None:
    folder = tmp_path / "skills.git"
    done = publish(folder, named("one"), owner="Ada")
    assert done.name == "skills"
    assert not (folder / "plugins").exists()
    (found,) = find_skills(str(folder))
    assert (found.name, found.origin.commit) == ("one", done.commit)


def test_a_repository_of_somebody_else_is_left_alone_unless_told(
    market: Path, tmp_path: Path
) -> None:
    market.mkdir()
    git(market, "init", "--quiet", "--initial-branch=trunk")
    (market / "README.md").write_text("mine\n")
    (market / ".claude-plugin").mkdir()
    theirs = {
        "name": "theirs",
        "owner": {"name": "Grace", "email": "grace@example.org"},
        "metadata": {"pluginRoot": "."},
        "plugins": [{"name": "other", "source": "./other"}],
    }
    (market / ".claude-plugin/marketplace.json").write_text(json.dumps(theirs))
    git(market, "add", "--all")
    git(market, "commit", "--quiet", "-m", "mine")
    with pytest.raises(UsageError, match="--adopt"):
        publish(market, named("one"))
    assert log(market) == ["mine"]
    done = publish(market, named("one"), adopt=True)
    assert (done.name, done.branch) == ("theirs", "trunk")
    document = json.loads((market / ".claude-plugin/marketplace.json").read_text())
    assert document["owner"] == theirs["owner"]
    assert document["metadata"] == theirs["metadata"]
    assert list(plugins(market)) == ["other", "one"]
    assert (market / "README.md").read_text() == "mine\n"
    # From then on it is one of ours, and theirs is still theirs.
    publish(market, {}, leaving=["one", "other"])
    assert list(plugins(market)) == ["other"]


@pytest.mark.parametrize("where", ["folder", "within", "file"])
def test_what_is_no_repository_is_not_made_one(market: Path, where: str) -> None:
    if where == "file":
        market.write_text("mine")
    else:
        market.mkdir()
        (market / "thesis.txt").write_text("mine")
    target = market
    if where == "within":
        git(market, "init", "--quiet")
        target = market / "inner"
        target.mkdir()
        (target / "x").touch()
    with pytest.raises((UsageError, NotADirectoryError)):
        publish(target, named("one"), adopt=True)
    assert not (target / "plugins").exists() if target.is_dir() else target.read_text() == "mine"


def test_changes_that_are_not_committed_are_in_the_way(market: Path) -> None:
    publish(market, named("one"))
    before = log(market)
    file = market / "plugins/one/skills/one/SKILL.md"
    kept = file.read_bytes()
    file.write_text("mine\n")
    with pytest.raises(UsageError, match="not as the last commit has it"):
        publish(market, named("one", body="new\n"))
    assert file.read_text() == "mine\n"
    file.write_bytes(kept)
    (market / "notes.txt").write_text("mine\n")
    git(market, "add", "notes.txt")
    with pytest.raises(UsageError, match="staged and not committed"):
        publish(market, named("one", body="new\n"))
    git(market, "reset", "--quiet")
    assert log(market) == before
    # What is in nobody's way stays: an untracked file, a file removed by hand.
    file.unlink()
    publish(market, named("one", body="new\n"))
    assert (market / "notes.txt").read_text() == "mine\n"
    assert b"new" in file.read_bytes()


def test_no_link_in_the_work_tree_leads_the_writer_elsewhere(market: Path, tmp_path: Path) -> None:
    publish(market, named("one"))
    shutil.rmtree(market / "plugins")
    (tmp_path / "home").mkdir()
    (market / "plugins").symlink_to(tmp_path / "home")
    with pytest.raises(UsageError, match="is a link"):
        publish(market, named("one", body="new\n"))
    assert not any((tmp_path / "home").iterdir())


def test_neither_hook_nor_filter_takes_part(market: Path, tmp_path: Path, elsewhere: Path) -> None:
    mark, evil = tmp_path / "ran", tmp_path / "evil"
    evil.write_text(f"#!/bin/sh\necho $0 >> {mark}\nexec cat\n")
    evil.chmod(0o755)
    publish(market, named("zero"))
    for hook in ("pre-commit", "commit-msg", "post-commit", "reference-transaction"):
        (market / ".git/hooks").mkdir(exist_ok=True)
        shutil.copy(evil, market / ".git/hooks" / hook)
    with (elsewhere / ".gitconfig").open("a") as file:
        file.write(
            f"[core]\n\tautocrlf = true\n\tfsmonitor = {evil}\n[commit]\n\tgpgSign = true\n"
            f'[filter "evil"]\n\tclean = {evil}\n\tsmudge = {evil}\n\trequired = true\n'
        )
    tree = skill(
        "one",
        (".gitattributes", 0o644, b"* filter=evil text eol=crlf ident\n"),
        ("a.txt", 0o755, b"$Id$\r\n"),
    )
    publish(market, {"one": read_skill(tree, folder="one")})
    found = {each.name: each.skill for each in find_skills(str(market), ref="main")}
    assert found["one"] is not None
    assert found["one"].digest == tree.digest
    assert read_folder(market / "plugins/one/skills/one").digest == tree.digest
    assert not mark.exists()


@pytest.mark.parametrize("name", ["Upper", "a b", "-x", "a--b", "x" * 65, "../x", "agent-skills"])
def test_a_name_that_claude_code_would_not_take_is_refused(name: str, market: Path) -> None:
    with pytest.raises(UsageError, match="--name"):
        checked_name(name)
    with pytest.raises(UsageError):
        publish(market, named("one"), name=name)
    assert not market.exists()


@pytest.mark.parametrize(
    ("mark", "marketplace"),
    [
        (b"{}", None),
        (b'{"format": 2}', None),
        (b"[]", None),
        (b"no JSON", None),
        (None, b"no JSON"),
        (None, b"[" * 100_000),
    ],
)
def test_files_that_are_not_what_they_should_be_are_not_written_over(
    mark: bytes | None, marketplace: bytes | None
) -> None:
    with pytest.raises(UsageError, match="Nothing was changed"):
        state_of(mark, marketplace)


def test_what_a_forged_mark_says_of_skills_is_not_believed() -> None:
    skills: dict[str, object] = {
        "../x": {"digest": "1" * 64, "version": 1},
        "a": {"digest": "1" * 63, "version": 1},
        "b": {"digest": "1" * 64, "version": -1},
        "c": {"digest": "1" * 64, "version": True},
        "d": 7,
        "e": {"digest": "1" * 64, "version": 3},
    }
    state = state_of(json.dumps({"format": 1, "skills": skills}).encode(), None)
    assert list(state.shelves) == ["e"]
    assert state.last == {"a": 1, "e": 3}
    assert written_version(3) == "1.0.2"


def test_claude_code_takes_it(market: Path, elsewhere: Path) -> None:
    """The real one: it checks the files, adds the marketplace, and installs and updates a skill."""
    claude = shutil.which("claude")
    if claude is None:
        pytest.skip(f"{NOT_TESTED} no Claude Code (`npm install -g @anthropic-ai/claude-code`)")

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [claude, "plugin", *arguments],
            capture_output=True,
            text=True,
            timeout=300,
            env={**os.environ, "DISABLE_AUTOUPDATER": "1"},
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    publish(market, named("one", "two"))
    run("validate", "--strict", str(market))
    run("validate", "--strict", str(market / "plugins/one"))
    run("marketplace", "add", str(market))
    run("install", "one@our-skills")
    (cached,) = (elsewhere / ".claude/plugins/cache").glob("our-skills/one/1.0.0/skills/one")
    assert read_folder(cached).digest == skill("one").digest
    publish(market, named("one", body="new\n"))
    run("marketplace", "update", "our-skills")
    run("update", "one@our-skills")
    (cached,) = (elsewhere / ".claude/plugins/cache").glob("our-skills/one/1.0.1/skills/one")
    assert read_folder(cached).digest == skill("one", body="new\n").digest
