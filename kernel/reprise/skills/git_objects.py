"""Objects of a Git repository, read one by one through one git, bounded in size and time."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path
from typing import Final, Self

from reprise.errors import BadSkill, UnavailableError
from reprise.skills.git_run import GitFailed, end_group, git_environment, git_program, run_git

#: For one object. Reading one from the disk takes milliseconds.
_SECONDS: Final = 120.0
_HEADER: Final = 200


class Objects:
    """A git directory's objects. Close it: it holds a process while it is in use."""

    def __init__(self, repository: Path) -> None:
        self._repository = repository
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process; the next read starts another, which sees what was fetched meanwhile."""
        process, self._process = self._process, None
        if process is None:
            return
        end_group(process)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()

    def read(self, name: str, kind: str, most: int) -> bytes:
        """The bytes of an object: of this kind ("blob", "tree", "commit"), at most so many.

        Raises BadSkill when it is not there, of another kind, or larger.
        """
        process = self._process or self._start()
        ended = threading.Timer(_SECONDS, process.kill)
        ended.daemon = True
        ended.start()
        try:
            return self._read(process, name, kind, most)
        except OSError as error:
            self.close()
            raise UnavailableError(f"git could not read the repository: {error}.") from error
        except BaseException:
            self.close()  # what is left of the answer must not be taken for the next one
            raise
        finally:
            ended.cancel()

    def _start(self) -> subprocess.Popen[bytes]:
        self._process = subprocess.Popen(
            [git_program(), f"--git-dir={self._repository}", "cat-file", "--batch"],
            cwd=self._repository,
            env=git_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        return self._process

    def _read(self, process: subprocess.Popen[bytes], name: str, kind: str, most: int) -> bytes:
        asked, answers = process.stdin, process.stdout
        if asked is None or answers is None:  # never, with both as pipes
            raise UnavailableError("git could not be asked.")
        asked.write(name.encode("ascii") + b"\n")
        asked.flush()
        words = answers.readline(_HEADER).split()
        if len(words) != 3 or words[0] != name.encode("ascii") or not words[2].isdigit():
            raise BadSkill(f"The repository lacks the object {name}.")
        size = int(words[2])
        if words[1] != kind.encode("ascii"):
            raise BadSkill(f"The object {name} is no {kind}, as the repository says.")
        if size > most:
            raise BadSkill(f"The object {name} is larger than {most:,} bytes.")
        data = answers.read(size)
        if len(data) != size or answers.read(1) != b"\n":
            raise BadSkill(f"The object {name} cannot be read.")
        return data

    def missing(self, names: list[str]) -> list[str]:
        """Those of these objects that are not here."""
        if not names:
            return []
        try:
            said = run_git(
                ["cat-file", "--batch-check"],
                self._repository,
                stdin="\n".join([*names, ""]).encode("ascii"),
            )
        except GitFailed as error:
            raise BadSkill(f"The repository cannot be read. git says:\n{error.said}") from error
        return [
            words[0].decode("ascii")
            for line in said.splitlines()
            if len(words := line.split()) == 2 and words[1] == b"missing"
        ]
