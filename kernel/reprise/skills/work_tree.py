"""Brings the files of a work tree up to a new commit, without a filter's hand in it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

from reprise.errors import UnavailableError, UsageError
from reprise.skills.contract import EXECUTABLE, MAX_FILE_BYTES, PLAIN
from reprise.skills.git_run import GitFailed, run_git
from reprise.skills.marketplace import File
from reprise.workspace.manifest import shown

_SECONDS: Final = 120.0


def check_work_tree(
    git: Path, work: Path, head: str | None, there: Mapping[str, File], paths: Iterable[str]
) -> None:
    """Raises UsageError unless these paths are as the last commit has them, `there`, or removed."""
    if head is not None:
        try:
            # Names of objects only: no file is read, so no filter runs.
            run_git(["diff-index", "--cached", "--quiet", head, "--"], git, seconds=_SECONDS)
        except GitFailed as error:
            raise UsageError(
                f"{shown(str(work))} has changes that are staged and not committed. Nothing was "
                "changed; commit them, or take them back."
            ) from error
    for path in paths:
        for above in list(Path(path).parents)[:-1]:
            if (work / above).is_symlink():
                raise UsageError(
                    f"{shown(str(work / above))} is a link. Nothing was changed; remove it."
                )
        if _on_disk(work / path) not in (None, there.get(path)):
            raise UsageError(
                f"{shown(str(work / path))} is not as the last commit has it. Nothing was changed; "
                "commit the change, or take it back."
            )


def _on_disk(path: Path) -> File | Literal["no file"] | None:
    if path.is_symlink() or (path.exists() and not path.is_file()):
        return "no file"
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
            mode = os.fstat(file.fileno()).st_mode
            return (EXECUTABLE if mode & 0o100 else PLAIN, data)
    except FileNotFoundError:
        return None
    except OSError:
        return "no file"


def follow(git: Path, work: Path, put: Mapping[str, File], gone: Iterable[str]) -> None:
    """The work tree and the index as the commit that was just made has them.

    Raises UnavailableError.
    """
    try:
        for path in gone:
            (work / path).unlink(missing_ok=True)
            _remove_empty(work, Path(path))
        for path, (mode, data) in put.items():
            target = work / path
            target.parent.mkdir(parents=True, exist_ok=True)
            new = target.with_name(f".{target.name[:200]}.reprise-new")
            new.write_bytes(data)
            new.chmod(mode)
            new.replace(target)
        run_git(["read-tree", "HEAD"], git, seconds=_SECONDS)
    except (OSError, GitFailed) as error:
        raise UnavailableError(
            f"The commit was made, but the files in {shown(str(work))} could not follow it "
            f"({error}). `git reset --hard` there brings them up to it."
        ) from error


def _remove_empty(work: Path, path: Path) -> None:
    for above in list(path.parents)[:-1]:
        with suppress(OSError):  # something else is in it
            (work / above).rmdir()
