"""A skill that is moved comes back as it was: byte for byte, its scripts executable."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from reprise.errors import BadSkill, SkillNotFound, UsageError
from reprise.skills import finding, sources
from reprise.skills.contract import SkillTree
from reprise.skills.difference import differences
from reprise.skills.export import export_archive, export_into, export_to
from reprise.skills.folder import read_folder, write_folder
from reprise.skills.places import TOOLS, Tool, places, tool_named, written
from reprise.skills.publishing import publish
from reprise.skills.read import read_skill
from reprise.skills.sources import find_skills, look, look_in_tool
from tests.fixtures.skill_sources import committed, git, skill, skills

BOUNDED = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    print_blob=True,
)


def found_in(source: str, **how: str) -> dict[str, SkillTree]:
    """All skills of a source, none of which was refused."""
    found = find_skills(source, **how)
    assert not [each.problem for each in found if each.problem]
    return {each.skill.name: each.skill.tree for each in found if each.skill is not None}


def same(ones: Mapping[str, SkillTree], others: Mapping[str, SkillTree]) -> None:
    assert {name: tree.digest for name, tree in ones.items()} == {
        name: tree.digest for name, tree in others.items()
    }
    for name, tree in ones.items():
        # The digest says it; this is what it means.
        assert [(e.path, e.mode) for e in tree.manifest] == [
            (e.path, e.mode) for e in others[name].manifest
        ]
        assert all(tree.get(e.path) == others[name].get(e.path) for e in tree.manifest)


@BOUNDED
@given(skills())
def test_through_every_tool_and_archive_a_skill_stays_itself(
    elsewhere: Path, trees: dict[str, SkillTree]
) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        now: Mapping[str, SkillTree] = trees
        for tool in ("claude-code", "codex", "gemini", "agents"):
            project = folder / tool
            export_to(tool_named(tool), now, project)
            now = {
                each.name: each.skill.tree
                for each in look_in_tool(tool_named(tool), project).found
                if each.skill is not None
            }
            same(trees, now)
        for name in ("a.zip", "a.skill", "a.tar.gz"):
            export_archive(folder / name, now)
            now = found_in(str(folder / name))
            same(trees, now)


@settings(BOUNDED, max_examples=6)  # each starts git some forty times
@given(skills())
def test_through_git_and_a_marketplace_a_skill_stays_itself(
    elsewhere: Path, trees: dict[str, SkillTree]
) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        now: Mapping[str, SkillTree] = trees
        named = {name: read_skill(tree, folder=name) for name, tree in now.items()}
        for name in ("market", "market.git"):
            publish(folder / name, named, owner="Ada")
            now = found_in(str(folder / name), ref="main")
            same(trees, now)
        # What `git clone` and a checkout make of it, on a machine that converts line ends.
        git(folder, "-c", "core.autocrlf=true", "clone", "--quiet", "market.git", "clone")
        same(*_but_attributes(trees, found_in(str(folder / "clone"))))
        now = found_in(str(folder / "clone"), ref="HEAD")
        same(trees, now)


def _but_attributes(
    ones: Mapping[str, SkillTree], others: Mapping[str, SkillTree]
) -> tuple[Mapping[str, SkillTree], Mapping[str, SkillTree]]:
    """Without skills that themselves tell Git to convert their files: a checkout obeys."""
    plain = {
        name
        for name, tree in ones.items()
        if not any(entry.path.rpartition("/")[2] == ".gitattributes" for entry in tree.manifest)
    }
    return {n: t for n, t in ones.items() if n in plain}, {
        n: t for n, t in others.items() if n in plain
    }


def test_from_claude_code_to_codex_and_back_scripts_can_be_run(
    elsewhere: Path, tmp_path: Path
) -> None:
    """The layouts of the tools, in words: nothing here asks this program where they are."""
    tree = skill("profile", ("scripts/inner/run.sh", 0o755, b"#!/bin/sh\necho ran\n"))
    export_to("claude-code", {"profile": tree}, None)
    here = elsewhere / ".claude/skills/profile"
    assert read_folder(here).digest == tree.digest
    (found,) = look_in_tool("claude-code", tmp_path).found
    assert found.skill is not None
    export_to("codex", {"profile": found.skill.tree}, tmp_path)
    there = tmp_path / ".agents/skills/profile"
    assert read_folder(there).digest == tree.digest
    for place in (here, there):
        done = subprocess.run([place / "scripts/inner/run.sh"], capture_output=True, check=True)
        assert done.stdout == b"ran\n"
    (back,) = look_in_tool("codex", tmp_path).found
    assert back.skill is not None
    assert back.skill.digest == tree.digest
    assert back.origin.where == str(tmp_path / ".agents/skills")


# where tools keep theirs ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "of_project", "of_user"),
    [
        ("claude-code", ".claude/skills", ".claude/skills"),
        ("codex", ".agents/skills", ".agents/skills"),
        ("gemini", ".gemini/skills", ".gemini/skills"),
        ("agents", ".agents/skills", ".agents/skills"),
    ],
)
def test_each_tool_is_written_where_it_reads(
    tool: Tool, of_project: str, of_user: str, tmp_path: Path
) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    assert written(tool, project, home=home, environ={}) == project / of_project
    assert written(tool, None, home=home, environ={}) == home / of_user
    read = [place.path for place in places(tool, project, home=home, environ={})]
    assert project / of_project in read
    assert home / of_user in read
    assert read.index(project / of_project) < read.index(home / of_user)


def test_of_two_folders_gemini_reads_the_shared_one_first(elsewhere: Path, tmp_path: Path) -> None:
    """As `gemini skills list` 0.61 does."""
    for number, folder in enumerate((tmp_path, elsewhere)):
        for tool in (".gemini", ".agents"):
            body = f"{tool} {number}\n"
            write_folder(
                skill(f"skill-{number}", body=body), folder / tool / f"skills/skill-{number}"
            )
    taken = [each.skill.body for each in look_in_tool("gemini", tmp_path).found if each.skill]
    assert taken == [".agents 0", ".agents 1"]


def test_what_codex_read_before_is_read_and_never_written(tmp_path: Path) -> None:
    environ = {"CODEX_HOME": str(tmp_path / "codex"), "CLAUDE_CONFIG_DIR": str(tmp_path / "c")}
    read = [place.path for place in places("codex", tmp_path, home=tmp_path, environ=environ)]
    assert tmp_path / "codex/skills" in read
    assert Path("/etc/codex/skills") in read
    for where in (tmp_path / "project", None):
        there = written("codex", where, home=tmp_path, environ=environ)
        assert there.relative_to(tmp_path).parts[-2:] == (".agents", "skills")
    assert written("claude-code", None, home=tmp_path, environ=environ) == tmp_path / "c/skills"
    with pytest.raises(UsageError, match="no tool"):
        tool_named("emacs")


def test_a_project_s_skills_are_those_up_to_the_top_of_its_repository(
    elsewhere: Path, tmp_path: Path
) -> None:
    top = tmp_path / "above" / "top"
    inner = top / "packages" / "one"
    inner.mkdir(parents=True)
    (top / ".git").mkdir()
    write_folder(skill("far"), tmp_path / "above/.agents/skills/far")
    write_folder(skill("near", body="of the top\n"), top / ".agents/skills/near")
    write_folder(skill("near", body="of the package\n"), inner / ".agents/skills/near")
    write_folder(skill("user"), elsewhere / ".agents/skills/user")
    found = look_in_tool("codex", inner).found
    assert [each.name for each in found if each.skill] == ["near", "user"]
    nearest, clash, _ = found
    assert nearest.skill is not None
    assert nearest.skill.body == "of the package"
    assert "found first" in clash.problem


def test_a_tool_s_links_to_skills_are_followed_and_its_own_ones_are_left(
    elsewhere: Path, tmp_path: Path
) -> None:
    """As installers make them: one real folder, a link in each tool's."""
    write_folder(skill("shared"), elsewhere / ".agents/skills/shared")
    for tool in (".claude", ".codex"):
        (elsewhere / tool / "skills").mkdir(parents=True)
        (elsewhere / tool / "skills/shared").symlink_to("../../.agents/skills/shared")
    write_folder(skill("builtin"), elsewhere / ".codex/skills/.system/builtin")
    for tool in ("claude-code", "codex"):
        (found,) = look_in_tool(tool_named(tool), tmp_path).found
        assert found.skill is not None
        assert found.skill.digest == skill("shared").digest
    with pytest.raises(SkillNotFound, match=r"\.gemini/skills"):
        shutil.rmtree(elsewhere / ".agents")
        look_in_tool("gemini", tmp_path)


# what is found ----------------------------------------------------------------------------------------


def make(folder: Path, *paths: str) -> None:
    for path in paths:
        write_folder(skill(path.rpartition("/")[2]), folder / path)


def test_skills_are_found_in_one_order_and_not_in_what_others_keep(tmp_path: Path) -> None:
    make(tmp_path, "b", "a", "z/one", "z/.curated/two", ".claude/skills/three")
    make(tmp_path, "node_modules/x", ".git/x", ".venv/x", "env/lib/x", "__pycache__/x", "venv/x")
    (tmp_path / "env/pyvenv.cfg").touch()
    expected = ["a", "b", "z/one", ".claude/skills/three", "z/.curated/two"]
    assert [each.folder for each in find_skills(str(tmp_path))] == expected
    assert [each.folder for each in find_skills(str(tmp_path), subfolder="z")] == [
        "z/one",
        "z/.curated/two",
    ]
    assert [each.name for each in find_skills(str(tmp_path), names=["two", "a"])] == ["a", "two"]
    assert [each.name for each in find_skills(str(tmp_path / "a/SKILL.md"))] == ["a"]


def test_what_is_too_deep_or_too_much_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path, "1/2/3/4/5/six", "1/2/3/4/5/6/seven")
    looked = look(str(tmp_path))
    assert [each.name for each in looked.found] == ["six"]
    assert "below 1/2/3/4/5/6 was not looked through" in looked.notes[0]
    make(tmp_path, *(f"many/{number}" for number in range(20)))
    monkeypatch.setattr(finding, "MAX_FOLDERS", 10)
    assert "Only the first 10 folders" in look(str(tmp_path)).notes[0]
    monkeypatch.setattr(sources, "MAX_BYTES", 1000)
    with pytest.raises(UsageError, match="hold more than"):
        look(str(tmp_path / "many"))


def test_one_name_twice_is_told_and_the_same_again_is_one(tmp_path: Path) -> None:
    write_folder(skill("same"), tmp_path / "a/same")
    write_folder(skill("same"), tmp_path / "b/same")
    assert [each.folder for each in find_skills(str(tmp_path))] == ["a/same"]
    write_folder(skill("same", body="other\n"), tmp_path / "c/same")
    first, second = find_skills(str(tmp_path))
    assert first.skill is not None
    assert second.skill is None
    assert "the skill in a/same, which was found first" in second.problem


def test_a_bad_skill_keeps_no_other_from_coming(tmp_path: Path) -> None:
    make(tmp_path, "good")
    for name, text in {
        "none": b"",
        "list": b"---\n- x\n---\n",
        "bare": b"---\nname: x\n---\n",
    }.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "SKILL.md").write_bytes(text)
    os.mkfifo(tmp_path / "none" / "pipe")
    found = {each.folder: each for each in find_skills(str(tmp_path))}
    assert found["good"].skill is not None
    assert [name for name, each in found.items() if each.skill is None] == ["bare", "list", "none"]
    assert all(each.problem for name, each in found.items() if name != "good")


def test_a_link_to_a_skill_elsewhere_is_not_followed_and_told(tmp_path: Path) -> None:
    make(tmp_path, "elsewhere/secret", "source/one")
    (tmp_path / "source/link").symlink_to("../elsewhere/secret")
    (tmp_path / "source/inner").symlink_to("one")
    (tmp_path / "source/loop").symlink_to(".")
    looked = look(str(tmp_path / "source"))
    assert [each.name for each in looked.found] == ["one"]
    assert "link is a link to a skill in" in looked.notes[0]


def test_skills_within_a_skill_are_its_files_and_that_is_said(tmp_path: Path) -> None:
    make(tmp_path, "outer")
    write_folder(skill("inner"), tmp_path / "outer/skills/inner")
    (found,) = find_skills(str(tmp_path))
    assert found.name == "outer"
    assert "skills/inner/SKILL.md" in found.notes[0]
    (inner,) = find_skills(str(tmp_path), subfolder="outer/skills")
    assert inner.name == "inner"


def test_a_source_that_is_none_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing at"):
        find_skills(str(tmp_path / "nowhere"))
    with pytest.raises(SkillNotFound, match="no folder there holds"):
        find_skills(str(tmp_path))
    make(tmp_path, "one")
    with pytest.raises(SkillNotFound, match="There are: one"):
        find_skills(str(tmp_path), names=["two"])
    (tmp_path / "file.txt").write_text("text")
    with pytest.raises(BadSkill, match=r"file\.txt cannot be taken"):
        find_skills(str(tmp_path / "file.txt"))
    with pytest.raises(UsageError, match="no Git repository"):
        find_skills(str(tmp_path / "file.txt"), ref="main")
    with pytest.raises(UsageError, match=r"not a git repository|no such repository"):
        find_skills(str(tmp_path), ref="main")


# export -----------------------------------------------------------------------------------------------


def test_nothing_of_the_person_s_is_written_over(tmp_path: Path) -> None:
    old, new = skill("one"), skill("one", body="new\n")
    assert [each.what for each in export_into(tmp_path, {"one": old})] == ["written"]
    assert [each.what for each in export_into(tmp_path, {"one": old})] == ["unchanged"]
    script = tmp_path / "one/scripts/do.py"
    script.write_text("mine\n")
    script.chmod(0o644)
    (tmp_path / "one/notes.txt").write_text("mine\n")
    (left,) = export_into(tmp_path, {"one": new}, known={old.digest, new.digest})
    assert left.what == "differs"
    assert left.differs == (
        "SKILL.md: changed there",
        "notes.txt: only there",
        "scripts/do.py: changed there, no longer executable",
    )
    assert script.read_text() == "mine\n"
    (forced,) = export_into(tmp_path, {"one": new}, force=True)
    assert forced.what == "replaced"
    assert read_folder(tmp_path / "one").digest == new.digest


def test_what_the_catalog_has_may_be_replaced(tmp_path: Path) -> None:
    old, new = skill("one"), skill("one", body="new\n")
    export_into(tmp_path, {"one": old})
    assert [each.what for each in export_into(tmp_path, {"one": new})] == ["differs"]
    assert [each.what for each in export_into(tmp_path, {"one": new}, known={old.digest})] == [
        "replaced"
    ]


def test_what_is_no_skill_is_never_replaced(tmp_path: Path) -> None:
    tree = skill("one")
    (tmp_path / "one").mkdir()
    (tmp_path / "one/thesis.txt").write_text("mine")
    (left,) = export_into(tmp_path, {"one": tree})
    assert left.what == "differs"
    with pytest.raises(UsageError, match="not replaced"):
        export_into(tmp_path, {"one": tree}, force=True)
    assert (tmp_path / "one/thesis.txt").read_text() == "mine"
    (tmp_path / "two").symlink_to("one")
    with pytest.raises(UsageError, match="link"):
        export_into(tmp_path, {"two": tree}, force=True)


def test_an_archive_is_written_over_only_when_told(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "a.zip"
    assert export_archive(path, {"one": skill("one")}) == "written"
    assert export_archive(path, {"one": skill("one")}) == "unchanged"
    with pytest.raises(UsageError, match="--force"):
        export_archive(path, {"two": skill("two")})
    assert list(found_in(str(path))) == ["one"]
    assert export_archive(path, {"two": skill("two")}, force=True) == "written"
    assert list(found_in(str(path))) == ["two"]
    (tmp_path / "b.zip").mkdir()
    with pytest.raises(UsageError, match="no file"):
        export_archive(tmp_path / "b.zip", {"one": skill("one")}, force=True)


# differences ------------------------------------------------------------------------------------------


def test_a_difference_names_each_file_its_mode_and_its_lines() -> None:
    old = skill("one", ("a.txt", 0o644, b"1\n2\n"), ("b", 0o644, b"\0"), ("m", 0o644, b""))
    new = skill("one", ("a.txt", 0o644, b"1\n3\r\n"), ("c\x7f"[:1], 0o755, b"x"), ("m", 0o755, b""))
    found = {each.path: each for each in differences(old, new)}
    assert {path: each.what for path, each in found.items()} == {
        "a.txt": "changed",
        "b": "removed",
        "c": "added",
        "m": "changed",
    }
    assert found["a.txt"].diff.splitlines()[-2:] == ["-2", "+3␍"]
    assert "not text" in found["b"].note
    assert found["c"].mode == found["m"].mode == "now executable"
    assert found["c"].diff.endswith("+x\n+\\ no line feed at the end of the file")
    assert differences(old, old) == []
    assert {each.what for each in differences(None, old)} == {"added"}
    assert {each.what for each in differences(old, None)} == {"removed"}


def test_a_difference_stays_readable_whatever_is_compared() -> None:
    old = skill("one", ("big", 0o644, b"a\n" * 200_000), ("many", 0o644, b"a\n" * 6000))
    new = skill(
        "one", ("big", 0o644, b"b\n" * 200_000), ("many", 0o644, b"b\n" * 6000), body="x" * 90_000
    )
    found = {each.path: each for each in differences(old, new)}
    assert "too large" in found["big"].note
    assert "too many lines" in found["many"].note
    assert all(len(line) < 500 for line in found["SKILL.md"].diff.splitlines())
    longer = skill("one", body="".join(f"{number}\n" for number in range(3000)))
    (only,) = differences(skill("one"), longer)
    assert "more lines of difference" in only.note
    assert len(only.diff.splitlines()) == 200


def test_a_skill_that_git_itself_committed_is_the_folder_s(elsewhere: Path, tmp_path: Path) -> None:
    trees = {"one": skill("one", ("sub/ü b.txt", 0o644, b"x\r\n"))}
    committed(tmp_path / "work", trees)
    same(trees, found_in(str(tmp_path / "work"), ref="main"))
    same(trees, found_in(str(tmp_path / "work")))
    assert set(TOOLS) == {"claude-code", "codex", "gemini", "agents"}
