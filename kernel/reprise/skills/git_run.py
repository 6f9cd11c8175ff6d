"""Runs git for what strangers offer: no hooks, filters or questions, within time and room.

What a person set up for reaching servers holds as in their other work: credential helpers, keys
and the agent of ssh, proxies, certificates, `insteadOf`. Nothing else of their settings can make
git run a program here: hooks, file system monitors, filters, submodules, maintenance and helpers
for other protocols are off, the repository is a new, bare one, and no work tree is ever made of it.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Final

from reprise.errors import UnavailableError
from reprise.skills.git_address import PROTOCOLS, Address

#: The first that takes settings in variables (GIT_CONFIG_COUNT), where a password can stand.
OLDEST: Final = (2, 31)
#: For one fetch. A large repository over a slow line takes minutes.
SECONDS: Final = 600.0
#: Of the objects of one fetch: a branch's last commit, without files that no skill may have.
MAX_OBJECTS: Final = 2 << 30
#: Of what git says.
_SAID: Final = 8_000
#: How often the room that a fetch takes is looked at.
_LOOK_SECONDS: Final = 0.2

#: Variables of git that say how servers are reached; all others name repositories or change what
#: git does.
_KEPT: Final = frozenset(
    {
        "GIT_CONFIG_GLOBAL",
        "GIT_CONFIG_SYSTEM",
        "GIT_CONFIG_NOSYSTEM",
        "GIT_EXEC_PATH",
        "GIT_PROXY_COMMAND",
        "GIT_PROXY_SSL_CAINFO",
        "GIT_SSH",
        "GIT_SSH_COMMAND",
        "GIT_SSH_VARIANT",
        "GIT_SSL_CAINFO",
        "GIT_SSL_CAPATH",
        "GIT_SSL_CERT",
        "GIT_SSL_KEY",
    }
)
#: gitattributes(5) of the one place that beats every .gitattributes of a skill.
PLAIN_ATTRIBUTES: Final = (
    "* -text -eol -filter -ident -working-tree-encoding -merge -diff -export-ignore -export-subst\n"
)
_OFF: Final = {
    "core.askPass": "",
    "core.bigFileThreshold": "16m",
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "core.attributesFile": os.devnull,
    "core.autocrlf": "false",
    "core.symlinks": "false",
    "credential.interactive": "false",
    "fetch.recurseSubmodules": "false",
    "fetch.writeCommitGraph": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "submodule.recurse": "false",
    "protocol.version": "2",
    # A line that stands still: less than a kB a second for a minute.
    "http.lowSpeedLimit": "1000",
    "http.lowSpeedTime": "60",
}


def git_program() -> str:
    """The path of git. Raises UnavailableError where there is none, or too old a one."""
    found = shutil.which("git")
    if found is None:
        raise UnavailableError(
            "git, which reads and writes repositories, is not installed. Nothing was changed. "
            "Install it with the machine's packages."
        )
    version = _version(found)
    if version < OLDEST:
        raise UnavailableError(
            f"git {'.'.join(map(str, version))} is too old; {'.'.join(map(str, OLDEST))} or newer "
            "is needed. Nothing was changed. Update it, or import a folder or an archive."
        )
    return found


@lru_cache(maxsize=8)
def _version(program: str) -> tuple[int, ...]:
    done = subprocess.run(
        [program, "version"],
        cwd="/",
        capture_output=True,
        check=False,
        text=True,
        errors="replace",
        timeout=60,
        stdin=subprocess.DEVNULL,
    )
    found = re.search(r"\d+(?:\.\d+)+", done.stdout)
    return tuple(int(part) for part in found.group().split(".")[:3]) if found else ()


def git_environment(
    config: Mapping[str, str] | None = None, environ: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """The variables of a git that asks nobody and runs nothing of a repository's.

    config: settings for this run; as variables, since an address may hold a password and `ps`
      shows arguments.
    """
    kept = {
        name: value
        for name, value in environ.items()
        if not name.startswith("GIT_") or name in _KEPT
    }
    settings = [*_given(environ), *_OFF.items(), *(config or {}).items()]
    for number, (key, value) in enumerate(settings):
        kept[f"GIT_CONFIG_KEY_{number}"] = key
        kept[f"GIT_CONFIG_VALUE_{number}"] = value
    return kept | {
        "GIT_CONFIG_COUNT": str(len(settings)),
        "GIT_ALLOW_PROTOCOL": ":".join(PROTOCOLS),
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_ADVICE": "0",
        "SSH_ASKPASS_REQUIRE": "never",
        "LC_ALL": "C",
        "LANGUAGE": "",
    }


def _given(environ: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    """Settings that whoever called us gave to git in variables, as CI services do."""
    count = environ.get("GIT_CONFIG_COUNT", "")
    for number in range(int(count) if count.isdigit() and len(count) < 4 else 0):
        key = environ.get(f"GIT_CONFIG_KEY_{number}")
        if key:
            yield key, environ.get(f"GIT_CONFIG_VALUE_{number}", "")


def ssh_settings(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """How ssh is run so that it asks nothing, unless the person said how it is run."""
    if environ.get("GIT_SSH_COMMAND") or environ.get("GIT_SSH"):
        return {}
    done = subprocess.run(
        [git_program(), "config", "--get", "core.sshCommand"],
        env=git_environment(environ=environ),
        cwd="/",
        capture_output=True,
        check=False,
        timeout=60,
        stdin=subprocess.DEVNULL,
    )
    return {} if done.stdout.strip() else {"core.sshCommand": "ssh -oBatchMode=yes"}


class GitFailed(Exception):
    """git ended with an error. said: its words, without a password."""

    def __init__(self, said: str) -> None:
        super().__init__(said)
        self.said = said


def run_git(
    arguments: Sequence[str],
    repository: Path,
    *,
    config: Mapping[str, str] | None = None,
    address: Address | None = None,
    stdin: bytes = b"",
    room: int | None = None,
    seconds: float = SECONDS,
    variables: Mapping[str, str] | None = None,
) -> bytes:
    """What git says on stdout. Blocks.

    repository: a git directory, which is the only one it looks at.  address: whose password is
      taken out of what git says.  room: bytes that the repository may grow to meanwhile.
    Raises GitFailed, UnavailableError (no git, too long, too large, a full disk).
    """
    command = [git_program(), f"--git-dir={repository}", *arguments]
    environment = git_environment(config) | dict(variables or {})
    with (
        tempfile.TemporaryFile() as given,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
    ):
        given.write(stdin)
        given.seek(0)
        try:
            process = subprocess.Popen(
                command,
                cwd=repository,
                env=environment,
                stdin=given,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        except OSError as error:
            raise UnavailableError(f"git could not be run: {error}. Nothing was changed.") from None
        try:
            _wait(process, repository, room, seconds)
        finally:
            end_group(process)
        err.seek(0)
        said = err.read(_SAID).decode("utf-8", "replace").strip()
        if address is not None:
            said = address.without_secrets(said)
        if process.returncode:
            if "No space left on device" in said or "Disk quota exceeded" in said:
                raise UnavailableError(f"There is no room for the repository (git says: {said}).")
            raise GitFailed(said or f"git ended with status {process.returncode}")
        out.seek(0)
        return out.read()


def _wait(
    process: subprocess.Popen[bytes], repository: Path, room: int | None, seconds: float
) -> None:
    until = time.monotonic() + seconds
    while True:
        with suppress(subprocess.TimeoutExpired):
            process.wait(_LOOK_SECONDS if room is not None else seconds)
        if room is not None and _size(repository) > room:
            raise UnavailableError(
                f"The repository takes more than {room >> 20:,} MiB, even without its history, so "
                "it was not fetched. Fetch it with git, and import the folder."
            )
        if process.returncode is not None:
            return
        if time.monotonic() > until:
            raise UnavailableError(
                f"git had not ended after {seconds:.0f} s and was stopped. Nothing was changed. "
                "Fetch the repository with git, and import the folder."
            )


def _size(folder: Path) -> int:
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += (Path(place) / name).lstat().st_size
    return total


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End a program that was started in a session of its own, and what it started."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
