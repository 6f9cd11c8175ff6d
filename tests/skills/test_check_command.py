"""`reprise skills check` says everything that is wrong, where, and ends as its findings ask for."""

import json
import zipfile
from pathlib import Path

import pytest

from reprise.skills.checked import checked_folder
from reprise.skills.folder import read_folder
from tests.fixtures.commands import Reprise
from tests.skills.sample import FRONT, Content, on_disk, skill_md


@pytest.fixture
def command(tmp_path_factory: pytest.TempPathFactory) -> Reprise:
    """Without a log: a check needs none."""
    return Reprise(tmp_path_factory.mktemp("home"))


def good(folder: Path, **files: Content) -> Path:
    front = FRONT.replace("name: sample", f"name: {folder.name}")
    return on_disk(folder, {"SKILL.md": skill_md(front), **files})


def test_a_good_skill_is_ok_and_named_by_its_digest(command: Reprise, tmp_path: Path) -> None:
    place = good(tmp_path / "one")
    done = command("skills", "check", str(place))
    assert done.returncode == 0
    assert done.stdout == f"{place}: ok (sha256:{read_folder(place).digest})\n"
    assert done.stderr == ""
    # By any way to name it.
    for path, cwd in ((place / "SKILL.md", tmp_path), (Path(), place), (Path("one"), tmp_path)):
        again = command("skills", "check", str(path), cwd=cwd)
        assert again.returncode == 0, again.stdout
        assert read_folder(place).digest in again.stdout


def test_errors_end_with_1_and_warnings_when_asked(command: Reprise, tmp_path: Path) -> None:
    warned = good(tmp_path / "warned")
    (warned / "notes.bak").write_text("")
    wrong = good(tmp_path / "elsewhere")
    wrong = wrong.rename(tmp_path / "wrong")
    assert command("skills", "check", str(warned)).returncode == 0
    assert command("skills", "check", str(warned), "--fail-on", "warning").returncode == 1
    done = command("skills", "check", str(wrong), str(warned))
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        f"{wrong}: 1 error, 0 warnings",
        "  SKILL.md:2: error name-folder",
        "      The name is 'elsewhere', but the folder is called 'wrong'.",
        "      Make both the same.",
        f"{warned}: ok, 1 warning (sha256:{read_folder(warned).digest})",
        "  notes.bak: warning junk",
        "      It is no part of what a skill does.",
        "      Delete it, and name it in .gitignore.",
        "1 of 2 skills keep to the specification.",
    ]
    quiet = command("skills", "check", "--quiet", str(wrong), str(warned))
    assert str(warned) not in quiet.stdout
    assert "name-folder" in quiet.stdout


def test_a_folder_of_many_is_checked_whole(command: Reprise, tmp_path: Path) -> None:
    for name in ("a", "deep/er/b", ".claude/skills/c"):
        good(tmp_path / "all" / name)
    on_disk(tmp_path / "all" / "d", {"SKILL.md": "# no frontmatter"})
    (tmp_path / "all" / "e").mkdir()
    (tmp_path / "all" / "e" / "SKILL.md").symlink_to("/etc/passwd")
    done = command("skills", "check", "--json", str(tmp_path / "all"))
    assert done.returncode == 1
    skills = {each["name"]: each for each in json.loads(done.stdout)["skills"]}
    assert {name: each["ok"] for name, each in skills.items()} == {
        "a": True,
        "b": True,
        "c": True,
        "d": False,
        "e": False,
    }
    assert skills["a"] == {
        "path": str(tmp_path / "all" / "a"),
        "name": "a",
        "digest": read_folder(tmp_path / "all" / "a").digest,
        "ok": True,
        "errors": 0,
        "warnings": 0,
        "findings": [],
    }
    (finding,) = skills["d"]["findings"]
    assert finding["rule"] == "frontmatter"
    assert finding["severity"] == "error"
    assert (finding["path"], finding["line"]) == ("SKILL.md", 1)
    assert skills["e"]["digest"] is None
    (finding,) = skills["e"]["findings"]
    assert finding["rule"] == "folder"
    assert "leads out of the skill" in finding["text"]


def test_an_archive_is_checked_as_its_folder_is(command: Reprise, tmp_path: Path) -> None:
    good(tmp_path / "one")
    with zipfile.ZipFile(tmp_path / "one.zip", "w") as archive:
        archive.write(tmp_path / "one" / "SKILL.md", "one/SKILL.md")
        archive.writestr("other/SKILL.md", skill_md())
    done = command("skills", "check", "--json", str(tmp_path / "one.zip"))
    assert done.returncode == 1
    skills = {each["name"]: each for each in json.loads(done.stdout)["skills"]}
    assert skills["one"]["digest"] == read_folder(tmp_path / "one").digest
    assert [each["rule"] for each in skills["sample"]["findings"]] == ["name-folder"]


def test_what_is_no_skill_ends_with_2_and_the_others_are_checked(
    command: Reprise, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    good(tmp_path / "one")
    done = command(
        "skills", "check", str(tmp_path / "empty"), str(tmp_path / "no"), str(tmp_path / "one")
    )
    assert done.returncode == 2
    assert done.stderr.count("reprise: error:") == 2
    assert f"{tmp_path / 'one'}: ok" in done.stdout


def test_a_name_in_a_skill_cannot_act_on_the_terminal(command: Reprise, tmp_path: Path) -> None:
    on_disk(tmp_path / "one", {"SKILL.md": skill_md('name: "a\\e[2J"\ndescription: d\n')})
    good(tmp_path / "two", **{"\x1b]0;x\x07.md": ""})
    good(tmp_path / "\x1b]0;y\x07")
    done = command("skills", "check", str(tmp_path))
    assert done.returncode == 1
    assert done.stdout.count(": error ") >= 3
    assert "\\x1b" in done.stdout
    assert "\x1b" not in done.stdout + done.stderr


# what a folder shows beside its tree --------------------------------------------------------------


def rules(place: Path) -> dict[str, str]:
    return {each.rule: each.text for each in checked_folder(place).findings}


def test_what_was_left_out_is_told(tmp_path: Path) -> None:
    place = good(tmp_path / "one", **{"scripts/__pycache__/a.pyc": "", "b/.DS_Store": ""})
    found = rules(place)
    assert set(found) == {"left-out"}
    assert found["left-out"].startswith("b/.DS_Store, scripts/__pycache__ are no part of the skill")


def test_a_skill_may_be_a_repository_of_its_own(tmp_path: Path) -> None:
    assert rules(good(tmp_path / "one", **{".git/HEAD": "x"})) == {}
    assert set(rules(good(tmp_path / "two", **{"lib/.git": "gitdir: x"}))) == {"left-out"}


def test_links_are_told(tmp_path: Path) -> None:
    place = good(tmp_path / "one", **{"a.md": "a"})
    for number in range(5):
        (place / f"link{number}.md").symlink_to("a.md")
    found = rules(place)
    assert set(found) == {"symbolic-link"}
    assert found["symbolic-link"].startswith("link0.md, link1.md, link2.md and 2 more are links")


def test_a_link_to_a_skill_is_called_as_the_link_is(tmp_path: Path) -> None:
    good(tmp_path / "one")
    (tmp_path / "two").symlink_to("one")
    assert set(rules(tmp_path / "two")) == {"name-folder"}
