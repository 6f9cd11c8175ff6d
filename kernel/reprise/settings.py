"""Where Reprise keeps its state, what its environment variables are called, and its default bounds.

Imported at every kernel start: nothing here may import more than `os`, `stat` and `pathlib`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from reprise.errors import UnavailableError, UsageError

#: Another Postgres server than the embedded one (a libpq connection string).
DSN = "REPRISE_DSN"
#: bubblewrap, oci, oci:runsc, dagger, process, …: which backend starts sandboxes.
BACKEND = "REPRISE_BACKEND"
#: Which OCI runtime the oci backend starts: crun, runc, runsc, or the path of one of them.
OCI_RUNTIME = "REPRISE_OCI_RUNTIME"
#: The named environment (a file of REPRISE_HOME/environments).
ENVIRONMENT = "REPRISE_ENVIRONMENT"
#: The session to take, or to begin under that id.
SESSION = "REPRISE_SESSION"
#: `no`: nothing of the notebook's folder comes into the sandbox.
FOLDER = "REPRISE_FOLDER"
#: `yes`: the backend `process` also takes skills that nobody vouches for. Long on purpose.
RUN_UNTRUSTED = "REPRISE_RUN_UNTRUSTED_SKILL_CODE_WITHOUT_ISOLATION"
#: Where the state of the embedded parts lies.
HOME = "REPRISE_HOME"

DEFAULT_BACKEND = "bubblewrap"
DEFAULT_ENVIRONMENT = "default"

#: What of the notebook's folder comes in by itself. Bigger folders are data, and data is mounted:
#: an upload is copied into the log, into Postgres' backups and into every fresh sandbox.
FOLDER_BYTES = 64 << 20
FOLDER_FILES = 5_000

#: A walk that meets more entries or takes longer is in no project's folder but in somebody's
#: home directory; it stops and takes nothing.
WALK_ENTRIES = 50_000
WALK_SECONDS = 2.0

#: What a `restart` step keeps of the workspace. Larger trees are replayed instead.
TREE_BYTES = 256 << 20
TREE_FILES = 20_000
TREE_SECONDS = 10.0

#: The largest file that is kept as an artifact: it passes through this process' memory.
ARTIFACT_BYTES = 512 << 20

#: The largest body of a response that is recorded for replays; larger ones pass unrecorded.
RECORDED_BYTES = 256 << 20

#: Share of the machine's (or the control group's) memory that one sandbox may use by default.
MEMORY_SHARE = 0.75


def home_path(environ: Mapping[str, str] = os.environ) -> Path:
    """REPRISE_HOME as an absolute path, without looking at the disk.

    Raises UsageError when the variable holds a relative path (it would name another
    directory in each process).
    """
    named = environ.get(HOME)
    if named:
        path = Path(named).expanduser()
        if not path.is_absolute():
            raise UsageError(
                f"{HOME}={named} is not an absolute path. Set it to one, such as "
                f"{Path.cwd() / named}."
            )
        return path
    # Only here, since most processes inherit the variable and the import costs milliseconds.
    from platformdirs import user_data_path  # noqa: PLC0415

    return user_data_path("reprise", appauthor=False)


def home(environ: Mapping[str, str] = os.environ) -> Path:
    """REPRISE_HOME, made (0700) when it is not there.

    Raises UnavailableError when it cannot be made or used: it belongs to another user, others
    may write in it (they could put a server's settings there), or it is not a directory.
    """
    path = home_path(environ)
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = path.stat()
    except OSError as error:
        raise UnavailableError(
            f"Reprise cannot keep its state in {path}: {error.strerror}. "
            f"Name a directory you can write in with {HOME}."
        ) from error
    if found.st_uid != os.geteuid():
        raise UnavailableError(
            f"{path} belongs to user {found.st_uid}, not to you ({os.geteuid()}); nothing was "
            f"written there. Name a directory of your own with {HOME}."
        )
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise UnavailableError(
            f"Other users may write in {path} (mode {stat.S_IMODE(found.st_mode):04o}), so "
            f"Reprise does not keep its state there. Run: chmod go-w {path}"
        )
    return path
