"""Skills come from Git as they were committed, and nothing of a repository acts on the way."""

import os
import re
import time
from pathlib import Path

import pytest

from reprise.errors import BadSkill, RepriseError, SkillNotFound, UnavailableError, UsageError
from reprise.skills import git as skills_git
from reprise.skills.finding import skill_folders
from reprise.skills.git import opened_repository, tip
from reprise.skills.git_address import Address, address, checked_ref, is_address
from reprise.skills.git_objects import Objects
from reprise.skills.git_run import git_environment, run_git
from reprise.skills.git_tree import GitTree
from reprise.skills.sources import find_skills, look
from tests.fixtures.git_server import GitServer
from tests.fixtures.skill_sources import Git, committed, git, skill, skill_md


@pytest.fixture
def repository(tmp_path: Path, elsewhere: Path) -> Git:
    return Git(tmp_path / "made.git")


def at(repository: Git) -> Address:
    return Address(str(repository.path), str(repository.path))


# addresses ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shown", "secrets"),
    [
        ("https://example.org/a.git", "https://example.org/a.git", ()),
        ("https://example.org:8443/a", "https://example.org:8443/a", ()),
        ("https://me:s3cret@example.org/a", "https://example.org/a", ("me", "s3cret")),
        ("https://t0ken@example.org/a", "https://example.org/a", ("t0ken",)),
        ("https://me:p%40ss@example.org/a", "https://example.org/a", ("me", "p%40ss", "p@ss")),
        ("ssh://git@example.org/a", "ssh://git@example.org/a", ()),
        ("ssh://git:s3cret@example.org:22/a", "ssh://git@example.org:22/a", ("s3cret",)),
        ("git@example.org:me/a.git", "git@example.org:me/a.git", ()),
        ("example.org:a", "example.org:a", ()),
        ("file:///srv/a.git", "file:///srv/a.git", ()),
        ("https://[2001:db8::1]/a", "https://[2001:db8::1]/a", ()),
    ],
)
def test_an_address_is_shown_without_its_password(
    text: str, shown: str, secrets: tuple[str, ...]
) -> None:
    assert is_address(text)
    found = address(text)
    assert (found.url, found.shown, found.secrets) == (text, shown, secrets)
    said = found.without_secrets(f"fatal: unable to access '{text}': no")
    for secret in secrets:
        assert secret not in said


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("ext::sh -c touch% /tmp/evil", "program"),
        ("fd::17/foo", "program"),
        ("ext::https://example.org/a", "program"),
        ("http://example.org/a", "change what comes"),
        ("git://example.org/a", "change what comes"),
        ("ftp://example.org/a", "not taken"),
        ("javascript://example.org/a", "not taken"),
        ("https:///a", "no host"),
        ("https://-oProxyCommand=evil/a", "no host"),
        ("ssh://-oProxyCommand=evil/a", "no host"),
        ("ssh://-l@example.org/a", "no host"),
        ("-oProxyCommand=evil:a", "no address"),
        ("file://example.org/a", "path on this machine"),
        ("https://example.org/a?x=y", "page"),
        ("https://example.org/a#x", "page"),
        ("https://example.org/a\n--upload-pack=evil", "no address"),
        ("https://example.org:port/a", "none"),
        ("https://example.org/" + "a" * 3000, "no address"),
    ],
)
def test_an_address_that_would_act_is_refused(text: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        address(text)
    with pytest.raises(RepriseError):
        find_skills(text)


@pytest.mark.parametrize(
    ("page", "repository", "ref", "folder"),
    [
        ("https://example.org/me/a/tree/main", "https://example.org/me/a", "main", ""),
        ("https://example.org/me/a/tree/v1/b/c", "https://example.org/me/a", "v1", "b/c"),
        ("https://example.org/me/a/-/tree/v1/b/", "https://example.org/me/a", "v1", "b"),
        (
            "https://example.org/me/a/blob/v1/b%20c/SKILL.md",
            "https://example.org/me/a",
            "v1",
            "b c",
        ),
    ],
)
def test_the_page_of_a_folder_names_repository_ref_and_folder(
    page: str, repository: str, ref: str, folder: str
) -> None:
    found = address(page)
    assert (found.url, found.ref, found.subfolder) == (repository, ref, folder)
    assert address(page.replace("https://", "https://me:s3cret@")).url == repository.replace(
        "https://", "https://me:s3cret@"
    )


@pytest.mark.parametrize("ref", ["main", "v1.2", "feature/x", "refs/heads/x", "a" * 40, "ü", "x@y"])
def test_a_ref_may_be_a_branch_a_tag_or_a_commit(ref: str) -> None:
    assert checked_ref(ref) == ref


@pytest.mark.parametrize(
    "ref",
    ["", "-x", "--upload-pack=evil", "a b", "a..b", "a:b", "+a", "a^", "a~1", "*", "a?", "@{1}"],
)
def test_a_ref_is_no_option_range_or_pattern(ref: str) -> None:
    with pytest.raises(UsageError, match="no branch"):
        checked_ref(ref)


@pytest.mark.parametrize(
    "ref", ["a\n", "/a", "a/", "a//b", "a.lock", "a\\b", "x" * 300, ".a", "a/.b", "a@{0}"]
)
def test_a_ref_is_written_as_git_writes_one(ref: str) -> None:
    with pytest.raises(UsageError, match="no branch"):
        checked_ref(ref)


# what comes -----------------------------------------------------------------------------------------


def test_many_skills_come_pinned_to_one_commit(tmp_path: Path, elsewhere: Path) -> None:
    folder = tmp_path / "work"
    trees = {"one": skill("one"), "two": skill("two", ("deep/ü", 0o755, b"\r\n"))}
    first = committed(folder, trees)
    git(folder, "tag", "-a", "v1", "-m", "one")
    git(folder, "branch", "old")
    changed = {"one": skill("one", body="Do it otherwise.\n")}
    second = committed(folder, changed)
    for source in (str(folder), f"file://{folder}"):
        for ref, commit in (("HEAD", second), ("v1", first), ("old", first), (second, second)):
            found = {each.name: each for each in find_skills(source, ref=ref)}
            assert sorted(found) == ["one", "two"]
            for name, each in found.items():
                tree = changed["one"] if (name, commit) == ("one", second) else trees[name]
                assert each.skill is not None
                assert each.skill.digest == tree.digest
                assert each.origin.kind == "git"
                assert each.origin.commit == commit
                assert each.origin.where == source
                assert each.origin.subfolder == f"skills/{name}"
                assert each.origin.ref == ref
    # Without a ref a folder is what stands on the disk.
    (folder / "skills/one/SKILL.md").write_bytes(skill_md("one", body="Not committed.\n"))
    (one,) = find_skills(str(folder), names=["one"])
    assert one.origin.kind == "folder"
    assert one.skill is not None
    assert one.skill.body == "Not committed."
    assert tip(address(f"file://{folder}")) == second


def test_a_repository_with_names_of_sha256_is_read(tmp_path: Path, elsewhere: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=main", "--object-format=sha256")
    commit = committed(folder, {"one": skill("one")})
    assert len(commit) == 64
    (found,) = find_skills(str(folder), ref="main")
    assert found.origin.commit == commit
    assert found.skill is not None
    assert found.skill.digest == skill("one").digest


def test_what_is_not_there_is_said(tmp_path: Path, repository: Git) -> None:
    with pytest.raises(UsageError, match="no commit on its default branch"):
        find_skills(str(repository.path))
    repository.commit(repository.folder({"README": ("100644", b"nothing")}))
    with pytest.raises(SkillNotFound, match="no folder there holds"):
        find_skills(str(repository.path))
    with pytest.raises(UsageError, match="no branch and no tag 'other'"):
        find_skills(str(repository.path), ref="other")
    with pytest.raises(UsageError, match="has none of that id"):
        find_skills(str(repository.path), ref="1" * 40)
    with pytest.raises(UsageError, match="no such repository"):
        find_skills(f"file://{tmp_path}/nowhere")
    with pytest.raises(BadSkill, match="no folder"):
        find_skills(str(repository.path), subfolder="nowhere")
    with pytest.raises(UsageError, match="no folder within"):
        find_skills(str(repository.path), subfolder="../x")
    tag = repository._object("tag", _tag_of(repository.blob(b"x")))
    repository("update-ref", "refs/tags/odd", tag)
    with pytest.raises(UsageError):
        find_skills(str(repository.path), ref="odd")


def _tag_of(blob: str) -> bytes:
    return f"object {blob}\ntype blob\ntag odd\ntagger A <a@b> 1 +0000\n\nodd\n".encode()


def test_only_the_files_of_the_skills_are_fetched_where_a_server_can_give_them_apart(
    repository: Git,
) -> None:
    large = os.urandom(1 << 20)
    files = {
        "data/large.bin": ("100644", large),
        "skills/one/SKILL.md": ("100644", skill_md("one")),
        "skills/two/SKILL.md": ("100644", skill_md("two")),
    }
    repository.commit(repository.folder(files))
    repository("config", "uploadpack.allowFilter", "true")
    with opened_repository(at(repository)) as opened:
        assert skill_folders(opened).folders == ("skills/one", "skills/two")
        opened.fetch_files(["skills/one"])
        assert opened.tree("skills/one").get("SKILL.md") == skill_md("one")
        with pytest.raises(BadSkill, match="lacks the object"):
            opened.tree("skills/two")
        with pytest.raises(BadSkill, match="lacks the object"):
            opened.tree("data")
    (found,) = find_skills(str(repository.path), names=["two"])
    assert found.skill is not None


def test_a_partial_clone_is_a_source_for_what_it_has_and_says_what_it_lacks(
    tmp_path: Path, elsewhere: Path
) -> None:
    folder = tmp_path / "work"
    committed(folder, {"one": skill("one"), "two": skill("two")})
    git(folder, "config", "uploadpack.allowFilter", "true")
    partial = tmp_path / "partial.git"
    git(
        tmp_path,
        "clone",
        "--quiet",
        "--bare",
        "--filter=blob:none",
        f"file://{folder}",
        partial.name,
    )
    held = git(partial, "rev-parse", "HEAD:skills/one").decode().strip()
    git(partial, "ls-tree", "-r", "-l", held)  # asks for sizes, and so fetches what is in there
    (one,) = find_skills(str(partial), names=["one"])
    assert one.skill is not None
    assert one.skill.digest == skill("one").digest
    with pytest.raises(UsageError, match="lacks objects of its own"):
        find_skills(str(partial), names=["two"])


# links, modules, pointers -----------------------------------------------------------------------------


def test_links_within_a_skill_stand_as_what_they_lead_to(repository: Git) -> None:
    files = {
        "skills/one/SKILL.md": ("100644", skill_md("one")),
        "skills/one/scripts/do.py": ("100755", b"#!/usr/bin/env python3\n"),
        "skills/one/run": ("120000", b"scripts/do.py"),
        "skills/one/also": ("120000", b"./scripts/../scripts"),
        "skills/one/deep/up": ("120000", b"../run"),
    }
    repository.commit(repository.folder(files))
    (found,) = find_skills(str(repository.path))
    assert found.skill is not None
    assert [(e.path, e.mode) for e in found.skill.tree.manifest] == [
        ("SKILL.md", 0o644),
        ("also/do.py", 0o755),
        ("deep/up", 0o755),
        ("run", 0o755),
        ("scripts/do.py", 0o755),
    ]


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"x": ("120000", b"/etc/passwd")}, "x is a link that leads out"),
        ({"x": ("120000", b"../two/SKILL.md")}, "x is a link that leads out"),
        ({"x": ("120000", b"sub/../../../../x"), "sub/a": ("100644", b"")}, "leads out"),
        ({"x": ("120000", b"nowhere")}, "leads nowhere"),
        ({"x": ("120000", b"SKILL.md/x")}, "leads nowhere"),
        ({"x": ("120000", b"y"), "y": ("120000", b"x")}, "circle"),
        ({"x": ("120000", b".")}, "circle"),
        ({"sub/x": ("120000", b"..")}, "circle"),
        ({"x": ("120000", b"a\0b")}, "NUL"),
        ({"a/x": ("120000", b"../b"), "b/y": ("120000", b"../a")}, "circle"),
        ({"aux": ("100644", b"")}, "device on Windows"),
        ({"a": ("100644", b""), "A": ("100644", b"")}, "upper and lower case"),
        ({"\udcff": ("100644", b"")}, "UTF-8"),
    ],
)
def test_what_leads_out_of_a_skill_keeps_it_away_and_no_other(
    repository: Git, files: dict[str, tuple[str, bytes]], reason: str
) -> None:
    inner = {f"skills/one/{path}": file for path, file in files.items()}
    both = {f"skills/{name}/SKILL.md": ("100644", skill_md(name)) for name in ("one", "two")}
    repository.commit(_folder(repository, {**both, **inner}))
    one, two = find_skills(str(repository.path))
    assert one.skill is None
    assert reason in one.problem
    assert two.skill is not None


def _folder(repository: Git, files: dict[str, tuple[str, bytes]]) -> str:
    """As Git.folder, for names that are no UTF-8."""
    below: dict[str, dict[str, tuple[str, bytes]]] = {}
    entries = []
    for path, (mode, data) in files.items():
        first, _, rest = path.partition("/")
        if rest:
            below.setdefault(first, {})[rest] = (mode, data)
        else:
            name = first.encode("utf-8", "surrogateescape")
            entries.append((mode.encode(), name, repository.blob(data)))
    for first, inner in below.items():
        name = first.encode("utf-8", "surrogateescape")
        entries.append((b"40000", name, _folder(repository, inner)))
    return repository.tree(sorted(entries, key=lambda entry: entry[1]))


def test_a_submodule_is_not_fetched(repository: Git) -> None:
    inner = repository.tree(
        [
            (b"100644", b"SKILL.md", repository.blob(skill_md("one"))),
            (b"160000", b"vendored", "1" * 40),
        ]
    )
    beside = repository.blob(b'[submodule "x"]\n\tpath = x\n\turl = ext::sh -c evil\n')
    repository.commit(
        repository.tree(
            [
                (b"100644", b".gitmodules", beside),
                (b"40000", b"one", inner),
                (b"160000", b"x", "2" * 40),
            ]
        )
    )
    (found,) = find_skills(str(repository.path))
    assert "vendored is another repository" in found.problem


def test_a_file_of_git_lfs_is_told_not_fetched(repository: Git) -> None:
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"1" * 64 + b"\nsize 9\n"
    files = {
        "SKILL.md": ("100644", skill_md("one")),
        ".gitattributes": ("100644", b"*.png filter=lfs diff=lfs merge=lfs -text\n"),
        "picture.png": ("100644", pointer),
    }
    repository.commit(repository.folder(files))
    (found,) = find_skills(str(repository.path))
    assert found.skill is not None
    assert found.skill.tree.get("picture.png") == pointer
    assert "picture.png is kept in Git LFS" in found.notes[0]


@pytest.mark.parametrize("name", [b"..", b".", b"a/b", b"../x", b"SKILL.md"])
def test_a_tree_that_git_would_not_make_is_no_skill_and_hides_none(
    repository: Git, name: bytes
) -> None:
    file = repository.blob(skill_md("bad"))
    bad = repository.tree([(b"100644", b"SKILL.md", file), (b"100644", name, file)])
    good = repository.folder({"SKILL.md": ("100644", skill_md("good"))})
    beside = [(b"40000", b"bad", bad), (b"40000", b"good", good)]
    if name != b"SKILL.md":  # which would make the top a skill
        beside.append((b"40000", name, bad))
    repository.commit(repository.tree(beside))
    found = {each.folder: each for each in find_skills(str(repository.path))}
    assert found["good"].skill is not None
    assert found["bad"].skill is None
    assert re.search("leads elsewhere|two things named|clean path", found["bad"].problem)


def test_trees_within_trees_do_not_hold_the_reader(repository: Git) -> None:
    """Ten trees deep, ten names each: ten thousand million files of one object."""
    bomb = repository.blob(b"boom")
    tree = repository.tree([(b"100644", b"f%d" % n, bomb) for n in range(10)])
    for _ in range(9):
        tree = repository.tree([(b"40000", b"d%d" % n, tree) for n in range(10)])
    evil = repository.tree(
        [(b"100644", b"SKILL.md", repository.blob(skill_md("evil"))), (b"40000", b"z", tree)]
    )
    repository.commit(repository.tree([(b"40000", b"bomb", tree), (b"40000", b"evil", evil)]))
    looked = look(str(repository.path), names=["evil"])
    assert looked.found[0].skill is None
    assert re.search("more than 20,000|folders deep|5,000 files", looked.found[0].problem)
    (unread,) = find_skills(str(repository.path))
    assert unread.skill is None
    with pytest.raises(SkillNotFound, match="2,000 folders were looked through"):
        find_skills(str(repository.path), subfolder="bomb")


def test_a_file_above_the_bound_is_not_read(
    repository: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.commit(
        repository.folder(
            {
                "one/SKILL.md": ("100644", skill_md("one")),
                "one/zeros": ("100644", bytes(17 << 20)),
                "two/SKILL.md": ("100644", skill_md("two")),
            }
        )
    )
    one, two = find_skills(str(repository.path))
    assert "is larger than" in one.problem
    assert two.skill is not None
    monkeypatch.setattr(skills_git, "MAX_OBJECTS", 10_000)
    with pytest.raises(UnavailableError, match="takes more than"):
        find_skills(str(repository.path))


# nothing acts -----------------------------------------------------------------------------------------


def test_no_hook_filter_or_helper_of_a_repository_or_of_the_person_runs(
    tmp_path: Path, elsewhere: Path
) -> None:
    mark = tmp_path / "ran"
    evil = tmp_path / "evil"
    evil.write_text(f'#!/bin/sh\necho "$0 $*" >> {mark}\nexec cat\n')
    evil.chmod(0o755)
    hooks = elsewhere / "hooks"
    for where in (hooks, tmp_path / "work" / ".git" / "hooks"):
        where.mkdir(parents=True)
    folder = tmp_path / "work"
    git(folder, "init", "--quiet", "--initial-branch=main")
    attributes = b"* filter=evil diff=evil merge=evil text eol=crlf ident\n"
    trees = {
        "one": skill("one", (".gitattributes", 0o644, attributes), ("a.txt", 0o644, b"$Id$\n"))
    }
    committed(folder, trees)
    names = ("post-checkout", "reference-transaction", "post-merge", "fsmonitor-watchman")
    for hook in [place / name for place in (hooks, folder / ".git/hooks") for name in names]:
        hook.write_text(evil.read_text())
        hook.chmod(0o755)
    settings = (
        f"[core]\n\thooksPath = {hooks}\n\tfsmonitor = {evil}\n\taskPass = {evil}\n\tpager = {evil}\n"
        f'\tautocrlf = true\n[filter "evil"]\n\tsmudge = {evil}\n\tclean = {evil}\n\trequired = true\n'
        f'[diff "evil"]\n\ttextconv = {evil}\n[protocol "ext"]\n\tallow = always\n'
        f"[submodule]\n\trecurse = true\n[init]\n\ttemplateDir = {hooks.parent}\n[alias]\n\tfetch = !{evil}\n"
    )
    (elsewhere / ".gitconfig").write_text(settings)
    with (folder / ".git/config").open("a") as file:
        file.write(settings)
    (found,) = find_skills(str(folder), ref="main")
    assert found.skill is not None
    assert found.skill.digest == trees["one"].digest
    assert found.skill.tree.get("a.txt") == b"$Id$\n"
    assert not mark.exists(), mark.read_text()


def test_variables_that_name_another_repository_have_no_say(
    tmp_path: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "work"
    committed(folder, {"one": skill("one")})
    other = tmp_path / "other"
    committed(other, {"two": skill("two")})
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    monkeypatch.setenv("GIT_OBJECT_DIRECTORY", str(other / ".git/objects"))
    monkeypatch.setenv("GIT_ASKPASS", "/bin/false")
    assert [each.name for each in find_skills(f"file://{folder}")] == ["one"]
    kept = git_environment(
        environ={
            "GIT_DIR": "x",
            "GIT_SSH": "ssh",
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "http.proxy",
            "GIT_CONFIG_VALUE_0": "p",
        }
    )
    assert "GIT_DIR" not in kept
    assert kept["GIT_SSH"] == "ssh"
    assert (kept["GIT_CONFIG_KEY_0"], kept["GIT_CONFIG_VALUE_0"]) == ("http.proxy", "p")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a repository to somebody else")
def test_a_repository_of_somebody_else_is_not_entered(tmp_path: Path, elsewhere: Path) -> None:
    folder = tmp_path / "work"
    committed(folder, {"one": skill("one")})
    for place, folders, files in os.walk(folder):
        for name in (".", *folders, *files):
            os.chown(Path(place) / name, 12345, 12345)
    with pytest.raises(UsageError, match=r"safe\.directory"):
        find_skills(str(folder), ref="main")


# servers ------------------------------------------------------------------------------------------


@pytest.fixture
def served(git_server: GitServer, elsewhere: Path) -> GitServer:
    repository = Git(git_server.root / "skills.git")
    repository.commit(repository.folder({"one/SKILL.md": ("100644", skill_md("one"))}))
    return git_server


def test_a_password_in_an_address_is_used_and_neither_kept_nor_shown(served: GitServer) -> None:
    served.password = "me:s3cret"
    (found,) = find_skills(served.url("skills.git", served.password))
    assert found.skill is not None
    assert found.origin.where == served.url("skills.git")
    assert "s3cret" not in str(found)
    for wrong in ("me:wr0ng", "wr0ng", ""):
        with pytest.raises(UsageError, match="credential helper") as error:
            find_skills(served.url("skills.git", wrong))
        assert "wr0ng" not in str(error.value)
    with pytest.raises(UsageError, match="no such repository") as error:
        find_skills(served.url("other.git", served.password))
    assert "s3cret" not in str(error.value)


def test_the_persons_credential_helper_is_asked(served: GitServer, elsewhere: Path) -> None:
    served.password = "me:fromhelper"
    helper = "!f() { echo username=me; echo password=fromhelper; }; f"
    (elsewhere / ".gitconfig").write_text(f'[credential]\n\thelper = "{helper}"\n')
    (found,) = find_skills(served.url("skills.git"))
    assert found.skill is not None
    assert found.origin.where == served.url("skills.git")


def test_a_server_that_leads_on_to_a_program_is_not_followed(
    served: GitServer, tmp_path: Path, elsewhere: Path
) -> None:
    """insteadOf is the person's own, and yet no protocol comes in by it that is not taken."""
    mark = tmp_path / "ran"
    (elsewhere / ".gitconfig").write_text(
        f'[url "ext::touch {mark} "]\n\tinsteadOf = {served.url("")}\n'
        "[protocol]\n\tallow = always\n"
    )
    with pytest.raises(UsageError, match="not allowed"):
        find_skills(served.url("skills.git"))
    assert not mark.exists()


def test_ssh_asks_nothing_and_gets_no_option_from_an_address(
    ssh_here: Path, tmp_path: Path, elsewhere: Path
) -> None:
    folder = tmp_path / "work"
    committed(folder, {"one": skill("one")})
    for source in (f"git@example.org:{folder}", f"ssh://git@example.org:2222{folder}"):
        (found,) = find_skills(source)
        assert found.skill is not None
        assert found.origin.where == source
    arguments = ssh_here.read_text().splitlines()
    assert "-oBatchMode=yes" in arguments
    assert "git@example.org" in arguments


def test_how_the_person_runs_ssh_is_kept(ssh_here: Path, tmp_path: Path, elsewhere: Path) -> None:
    folder = tmp_path / "work"
    committed(folder, {"one": skill("one")})
    (elsewhere / ".gitconfig").write_text("[core]\n\tsshCommand = ssh -oIdentityFile=mine\n")
    find_skills(f"git@example.org:{folder}")
    arguments = ssh_here.read_text().splitlines()
    assert "-oIdentityFile=mine" in arguments
    assert "-oBatchMode=yes" not in arguments


def test_a_server_that_says_nothing_is_given_up_with_all_that_was_started(
    ssh_here: Path, tmp_path: Path, elsewhere: Path
) -> None:
    pids = tmp_path / "pids"
    (ssh_here.parent / "bin/ssh").write_text(f"#!/bin/sh\necho $$ >> {pids}\nexec sleep 1000\n")
    repository = Git(tmp_path / "made.git")
    with pytest.raises(UnavailableError, match="had not ended after 2 s"):
        run_git(["ls-remote", "ssh://example.org/x"], repository.path, seconds=2)
    (pid,) = pids.read_text().split()
    until = time.monotonic() + 60
    while not _ended(int(pid)) and time.monotonic() < until:
        time.sleep(0.01)
    assert _ended(int(pid))


def _ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_a_reader_of_objects_goes_on_after_a_refusal(repository: Git) -> None:
    small, large = repository.blob(b"small"), repository.blob(bytes(100_000))
    tree = repository.tree([(b"100644", b"small", small)])
    with Objects(repository.path) as objects:
        for _ in range(3):
            assert objects.read(small, "blob", 100) == b"small"
            with pytest.raises(BadSkill, match="larger"):
                objects.read(large, "blob", 100)
            with pytest.raises(BadSkill, match="no tree"):
                objects.read(small, "tree", 100)
            with pytest.raises(BadSkill, match="lacks"):
                objects.read("1" * 40, "blob", 100)
        assert GitTree(objects, tree).get("small", 10) == b"small"
        assert GitTree(objects, tree).get("other", 10) is None
        assert objects.missing([small, "1" * 40, large]) == ["1" * 40]


def test_a_git_that_is_too_old_is_said(
    ssh_here: Path, tmp_path: Path, repository: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An old one would not hear where a repository is, nor that no hook may run."""
    old = ssh_here.parent / "bin" / "git"
    old.write_text("#!/bin/sh\necho git version 2.30.2\n")
    old.chmod(0o755)
    with pytest.raises(UnavailableError, match=r"git 2\.30\.2 is too old"):
        find_skills(str(repository.path))
    old.unlink()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnavailableError, match="not installed"):
        find_skills(str(repository.path))
