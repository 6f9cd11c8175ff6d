"""Skills in a Git repository: its last commit fetched, without history, and read as objects.

No work tree is made, so nothing of the repository is run or converted: no hooks, filters, line
ends, submodules or Git LFS. First come the folders' lists alone, then the files of the skills,
where the server can give them apart.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from reprise.errors import BadSkill, UnavailableError, UsageError
from reprise.skills.contract import SkillTree
from reprise.skills.finding import Kind
from reprise.skills.folder import tree_of_files
from reprise.skills.git_address import Address, checked_ref, is_commit
from reprise.skills.git_failures import refused
from reprise.skills.git_objects import Objects
from reprise.skills.git_run import MAX_OBJECTS, GitFailed, run_git, ssh_settings
from reprise.skills.git_tree import GitTree

#: Of no other repository: settings of a remote that many people's have would be read with ours.
_REMOTE: Final = "reprise-source"
#: Asked for in one go; a hundred bytes each on git's stdin.
_MOST_WANTED: Final = 200_000
#: A commit is some lines; signatures and long messages make kilobytes.
_MAX_COMMIT: Final = 1 << 20


class Pinned(NamedTuple):
    """What a branch, a tag or a commit's id stands for now."""

    ref: str
    commit: str


class Repository:
    """One commit of a repository, fetched.

    commit: its full id.  ref: the branch or tag that was asked for, "" for the default branch.
    """

    def __init__(
        self,
        address: Address,
        folder: Path,
        pinned: Pinned,
        tree: GitTree,
        config: Mapping[str, str],
    ) -> None:
        self.address = address
        self.commit = pinned.commit
        self.ref = pinned.ref
        self._folder = folder
        self._tree = tree
        self._config = config
        self._unread: dict[str, BadSkill] = {}

    def names(self, folder: str) -> Mapping[str, Kind]:
        """What lies directly in a folder of it. Raises BadSkill."""
        return self._tree.names(folder)

    def fetch_files(self, folders: Iterable[str]) -> None:
        """Fetch what is in these folders and not here yet, at once.

        A folder that cannot be read is left to `tree`, which says why. Raises as
        `opened_repository`.
        """
        wanted: dict[str, None] = {}
        for folder in folders:
            try:
                wanted |= dict.fromkeys(self._tree.blobs(folder))
            except BadSkill as error:
                self._unread[folder] = error
        missing = self._tree.missing(list(wanted)[:_MOST_WANTED])
        if missing:
            self._fetch("--filter=blob:none", "--stdin", stdin="\n".join([*missing, ""]).encode())
            self._tree.reopen()

    def tree(self, folder: str) -> SkillTree:
        """The files of this folder as a skill's. Raises BadSkill."""
        if folder in self._unread:
            raise self._unread[folder]
        return tree_of_files(self._tree.files(folder))

    def _fetch(self, *arguments: str, stdin: bytes = b"") -> None:
        try:
            run_git(
                [
                    *("-c", "fetch.negotiationAlgorithm=noop", "fetch", "--quiet", "--no-tags"),
                    *("--no-write-fetch-head", "--recurse-submodules=no", *arguments),
                    *("--", _REMOTE),
                ],
                self._folder,
                config=self._config,
                address=self.address,
                stdin=stdin,
                room=MAX_OBJECTS,
            )
        except GitFailed as error:
            raise refused(self.address, error.said) from error


@contextmanager
def opened_repository(address: Address, ref: str = "") -> Iterator[Repository]:
    """The repository at this address, as of a branch, a tag or a commit's full id.

    ref: "" for the default branch.  Raises UsageError (no such repository or ref, no access),
    UnavailableError (no git, no network, too large). Blocks, for minutes.
    """
    with tempfile.TemporaryDirectory(prefix="reprise-git-") as temporary:
        folder = Path(temporary) / "repository"
        folder.mkdir()
        config = _config(address)
        _init(folder, "sha1")
        name, kind = _looked_up(folder, address, ref, config)
        if kind != "sha1":
            _init(folder, kind)
        commit = _fetched(folder, address, name, config)
        with Objects(folder) as objects:
            top = _top(objects, commit)
            yield Repository(address, folder, Pinned(ref, commit), GitTree(objects, top), config)


def tip(address: Address, ref: str = "") -> str:
    """The object that a branch or tag stands for at the server now: a look, nothing is fetched.

    Raises as `opened_repository`. Blocks.
    """
    with tempfile.TemporaryDirectory(prefix="reprise-git-") as temporary:
        folder = Path(temporary) / "repository"
        folder.mkdir()
        _init(folder, "sha1")
        return _listed(folder, address, ref, _config(address))[1]


#: On this machine the other end is ours to start: it sends what is asked for and no more, which
#: also lets a partial clone be a source.
_SENDS_PARTS: Final = (
    "git -c uploadpack.allowFilter=true -c uploadpack.allowAnySHA1InWant=true upload-pack"
)


def _config(address: Address) -> dict[str, str]:
    local = address.url.startswith(("/", "file://"))
    return {
        f"remote.{_REMOTE}.url": address.url,
        f"remote.{_REMOTE}.promisor": "true",
        f"remote.{_REMOTE}.partialclonefilter": "blob:none",
        **({f"remote.{_REMOTE}.uploadpack": _SENDS_PARTS} if local else {}),
        **ssh_settings(),
    }


def _init(folder: Path, kind: str) -> None:
    shutil.rmtree(folder)
    folder.mkdir()
    try:
        run_git(["init", "--quiet", "--bare", "--template=", f"--object-format={kind}"], folder)
    except GitFailed as error:
        raise UnavailableError(f"git cannot make a repository. It says:\n{error.said}") from error


def _looked_up(
    folder: Path, address: Address, ref: str, config: Mapping[str, str]
) -> tuple[str, str]:
    """What to ask the server for, and how it names objects."""
    if ref and is_commit(checked_ref(ref)):
        return ref, "sha1" if len(ref) == 40 else "sha256"
    name, pointed = _listed(folder, address, ref, config)
    return name, "sha1" if len(pointed) == 40 else "sha256"


def _listed(folder: Path, address: Address, ref: str, config: Mapping[str, str]) -> tuple[str, str]:
    """The full name of a ref, and the object that it stands for."""
    if ref and is_commit(checked_ref(ref)):
        return ref, ref
    # In the order in which git itself understands a short name (gitrevisions(7)).
    names = [ref, f"refs/tags/{ref}", f"refs/heads/{ref}"] if ref else ["HEAD"]
    try:
        said = run_git(
            ["ls-remote", "--quiet", "--", _REMOTE, *names], folder, config=config, address=address
        )
    except GitFailed as error:
        raise refused(address, error.said) from error
    found = {}
    for line in said.decode("utf-8", "replace").splitlines():
        pointed, _, name = line.partition("\t")
        if is_commit(pointed):
            found[name] = pointed
    for name in names:
        if name in found:
            return name, found[name]
    if ref:
        raise UsageError(f"{address.shown} has no branch and no tag {ref!r}. Nothing was changed.")
    raise UsageError(
        f"{address.shown} has no commit on its default branch. Name a branch with --ref."
    )


def _fetched(folder: Path, address: Address, name: str, config: Mapping[str, str]) -> str:
    """Fetch a commit without its history; the files of it, too, where the server must send them."""
    try:
        run_git(
            [
                *("fetch", "--quiet", "--no-tags", "--depth=1", "--filter=blob:none"),
                *("--recurse-submodules=no", "--", _REMOTE, name),
            ],
            folder,
            config=config,
            address=address,
            room=MAX_OBJECTS,
        )
        said = run_git(["rev-parse", "--verify", "--quiet", "FETCH_HEAD^{commit}"], folder)
    except GitFailed as error:
        raise refused(address, error.said, name) from error
    commit = said.decode("ascii", "replace").strip()
    if not is_commit(commit):
        raise UsageError(f"{name} of {address.shown} is no commit. Nothing was changed.")
    return commit


def _top(objects: Objects, commit: str) -> str:
    """The tree of a commit, which its first line names."""
    first = objects.read(commit, "commit", _MAX_COMMIT).partition(b"\n")[0]
    word, _, name = first.decode("ascii", "replace").partition(" ")
    if word != "tree" or not is_commit(name):
        raise BadSkill(f"The commit {commit} is none that Git makes.")
    return name
