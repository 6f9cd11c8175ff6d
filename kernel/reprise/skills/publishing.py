"""Writes a marketplace into a Git repository: one commit with what changed, or none.

The commit is made of objects, not of the work tree, so no hook runs, no filter converts a byte,
and nothing of the person's that is not committed gets in. Files of the work tree follow it, unless
they are not as the last commit has them: then nothing is done at all.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from reprise.errors import BadSkill, UnavailableError, UsageError
from reprise.skills.contract import EXECUTABLE, PLAIN, Skill
from reprise.skills.git_objects import Objects
from reprise.skills.git_run import GitFailed, run_git
from reprise.skills.git_tree import GitTree
from reprise.skills.marketplace import (
    MARK,
    MARKETPLACE,
    MAX_FILE,
    File,
    Outcome,
    Plan,
    Shelf,
    State,
    areas,
    checked_name,
    first_files,
    planned,
    plugin_files,
    plugin_folder,
    state_of,
    top_files,
)
from reprise.skills.work_tree import check_work_tree, follow
from reprise.workspace.manifest import shown

_BRANCH: Final = "main"
_SECONDS: Final = 120.0
_MAX_COMMIT: Final = 1 << 20


@dataclass(frozen=True)
class Published:
    """commit: the new one, None when nothing had to change.  name: of the marketplace."""

    commit: str | None
    name: str
    branch: str
    skills: tuple[Outcome, ...]


@dataclass(frozen=True)
class _Repository:
    """git: its git directory.  work: its work tree, None for a bare one.  head: a commit."""

    git: Path
    work: Path | None
    branch: str
    head: str | None


def published_in(folder: Path) -> Mapping[str, Shelf]:
    """What Reprise has published in this repository; nothing when there is none.

    Raises UsageError.
    """
    repository = _opened(folder)
    return {} if repository is None else _state(repository).shelves


def publish(
    folder: Path,
    skills: Mapping[str, Skill],
    *,
    name: str | None = None,
    owner: str | None = None,
    leaving: Collection[str] = (),
    adopt: bool = False,
) -> Published:
    """Put these skills into the marketplace in `folder`, and take those that leave out of it.

    folder: a repository that Reprise made, or nothing: then one is made, a bare one when its name
      ends in ".git".  name, owner: of the marketplace; as it was, else the folder's name and whom
      git commits as.  adopt: also take a repository that Reprise did not make.
    Raises UsageError (a repository of somebody else, uncommitted changes in the way), and
    UnavailableError; nothing was changed then. Blocks.
    """
    repository = _opened(folder)
    state = State() if repository is None else _state(repository)
    if repository is not None and repository.head is not None and not state.ours and not adopt:
        raise UsageError(
            f"{shown(str(folder))} is a repository that Reprise did not make. It was left as it "
            "is; to add a marketplace to it, give --adopt."
        )
    named = checked_name(name or state.name or folder.absolute().name.removesuffix(".git"))
    plan = planned(state, skills, leaving)
    if repository is None:
        repository = _made(folder)
    person = _person(repository.git)
    whose = owner or state.owner or person[0]
    wanted: dict[str, File] = dict(top_files(state, plan, named, whose))
    if repository.head is None:
        wanted |= first_files(named)
    for each, skill in plan.fresh.items():
        wanted |= plugin_files(skill, plan.shelves[each].version, whose)
    there = _there(repository, state, plan, wanted)
    put = {path: file for path, file in wanted.items() if there.get(path) != file}
    gone = [path for path in there if path not in wanted]
    commit = None
    if put or gone:
        work = repository.work
        if work is not None:
            check_work_tree(repository.git, work, repository.head, there, (*put, *gone))
        commit = _commit(repository, put, gone, (person, plan.message(named)))
        if work is not None:
            follow(repository.git, work, put, gone)
    return Published(commit, named, repository.branch, plan.outcomes)


# the repository -----------------------------------------------------------------------------------


def _opened(folder: Path) -> _Repository | None:
    """The repository whose top is `folder`, None when there is nothing. Raises UsageError."""
    if not os.path.lexists(folder) or (folder.is_dir() and not any(folder.iterdir())):
        return None
    git, work = folder / ".git", folder
    if (folder / "HEAD").is_file() and (folder / "objects").is_dir():
        return _at_head(folder.absolute(), None)
    if not git.is_dir():
        raise UsageError(
            f"{shown(str(folder))} is neither empty nor a Git repository of its own (a folder "
            "within one is none). Nothing was changed; name a new folder."
        )
    return _at_head(git.absolute(), work.absolute())


def _at_head(git: Path, work: Path | None) -> _Repository:
    try:
        said = run_git(["symbolic-ref", "--quiet", "HEAD"], git, seconds=_SECONDS)
    except GitFailed as error:
        raise UsageError(
            f"{shown(str(work or git))} has no branch checked out, or is no repository that git "
            f"may read. Nothing was changed. git says: {error.said}"
        ) from error
    ref = said.decode("utf-8", "replace").strip()
    try:
        head = run_git(["rev-parse", "--verify", "--quiet", "HEAD^{commit}"], git).decode().strip()
    except GitFailed:
        head = ""  # a branch without a commit
    return _Repository(git, work, ref.removeprefix("refs/heads/"), head or None)


def _made(folder: Path) -> _Repository:
    bare = folder.name.endswith(".git")
    git = folder.absolute() if bare else folder.absolute() / ".git"
    try:
        git.mkdir(parents=True, exist_ok=True)
        run_git(
            ["init", "--quiet", "--template=", f"--initial-branch={_BRANCH}"], git, seconds=_SECONDS
        )
        run_git(["config", "core.bare", "true" if bare else "false"], git, seconds=_SECONDS)
    except OSError as error:
        raise UnavailableError(
            f"{shown(str(folder))} could not be made: {error.strerror}."
        ) from error
    except GitFailed as error:
        raise UnavailableError(
            f"{shown(str(folder))} could not be made a repository. git says:\n{error.said}"
        ) from error
    return _Repository(git, None if bare else folder.absolute(), _BRANCH, None)


def _tree(objects: Objects, repository: _Repository) -> GitTree | None:
    if repository.head is None:
        return None
    first = objects.read(repository.head, "commit", _MAX_COMMIT).partition(b"\n")[0]
    return GitTree(objects, first.decode("ascii").removeprefix("tree "))


def _state(repository: _Repository) -> State:
    with Objects(repository.git) as objects:
        tree = _tree(objects, repository)
        if tree is None:
            return State()
        try:
            return state_of(tree.get(MARK, MAX_FILE), tree.get(MARKETPLACE, MAX_FILE))
        except BadSkill as error:
            raise UsageError(f"The marketplace cannot be read. {error}") from error


def _there(
    repository: _Repository, state: State, plan: Plan, wanted: Iterable[str]
) -> dict[str, File]:
    """What the last commit has at the paths that may change. Raises UsageError."""
    found: dict[str, File] = {}
    with Objects(repository.git) as objects:
        tree = _tree(objects, repository)
        if tree is None:
            return found
        for name in plan.fresh:
            if name not in state.shelves and _is_folder(tree, plugin_folder(name)):
                raise UsageError(
                    f"{plugin_folder(name)} is there already, and Reprise did not write it. "
                    "Nothing was changed; move it away."
                )
        for name in (*plan.fresh, *plan.leaving):
            described, below = areas(name)
            if (data := tree.get(described, MAX_FILE)) is not None:
                found[described] = (PLAIN, data)
            if _is_folder(tree, below.rstrip("/")):
                for path, mode, data in tree.files(below.rstrip("/")):
                    found[below + path] = (EXECUTABLE if mode & 0o100 else PLAIN, data)
        for path in wanted:
            if path not in found and (data := tree.get(path, MAX_FILE)) is not None:
                found[path] = (PLAIN, data)
    return found


def _is_folder(tree: GitTree, path: str) -> bool:
    try:
        return bool(tree.names(path))
    except BadSkill:
        return False


def _person(git: Path) -> tuple[str, str]:
    """Name and address that commits are made with."""

    def told(key: str) -> str:
        try:
            said = run_git(["config", "--get", key], git, seconds=_SECONDS)
        except GitFailed:
            return ""
        # What would end the line of a commit.
        return "".join(c for c in said.decode("utf-8", "replace").strip() if c not in "<>\n\r\0")

    return told("user.name") or "Reprise", told("user.email") or "reprise@localhost"


# the commit ---------------------------------------------------------------------------------------


def _commit(
    repository: _Repository,
    put: Mapping[str, File],
    gone: Iterable[str],
    told: tuple[tuple[str, str], str],
) -> str:
    """One commit on the branch, by git-fast-import(1): of objects, with nothing converted."""
    (person, address), message = told
    at = int(time.time())
    text = message.encode()
    parts = [
        b"feature done\n",
        f"commit refs/heads/{repository.branch}\n".encode(),
        f"committer {person} <{address}> {at} +0000\n".encode(),
        b"data %d\n%s\n" % (len(text), text),
    ]
    if repository.head is not None:
        parts.append(f"from {repository.head}\n".encode())
    parts += [f"D {path}\n".encode() for path in gone]
    for path, (mode, data) in put.items():
        parts.append(f"M 100{mode:o} inline {path}\n".encode())
        parts.append(b"data %d\n%s\n" % (len(data), data))
    parts.append(b"done\n")
    try:
        run_git(
            ["fast-import", "--quiet", "--date-format=raw"],
            repository.git,
            stdin=b"".join(parts),
            seconds=_SECONDS,
        )
        said = run_git(["rev-parse", "--verify", "HEAD^{commit}"], repository.git)
    except GitFailed as error:
        raise UnavailableError(
            f"The commit could not be made; nothing was changed. git says:\n{error.said}"
        ) from error
    return said.decode("ascii", "replace").strip()
