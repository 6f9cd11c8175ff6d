"""As root the embedded server runs under another account, wherever its binaries lie."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from reprise.log import accounts
from reprise.log.binaries import Binaries, find_binaries


@pytest.mark.skipif(os.geteuid() != 0, reason="only root changes accounts")
def test_binaries_in_a_private_folder_run_under_the_servers_account(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an environment below root's home: the wheel's libraries lie beside its package."""
    found = find_binaries()
    package = found.folder.parents[1]
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    for source in (package, package.with_name(f"{package.name}.libs")):
        if source.is_dir():
            shutil.copytree(source, private / source.name, symlinks=True)
    cache = Path("/var/tmp") / f"reprise-test-cache-{os.getpid()}"
    monkeypatch.setattr(accounts, "_CACHE", cache)
    inside = private / found.folder.relative_to(package.parent)
    try:
        copied = accounts._reachable_binaries(Binaries(inside, found.major))
        assert copied.folder.is_relative_to(cache)
        for program in (copied.postgres, copied.initdb):
            said = subprocess.run(
                [program, "--version"], capture_output=True, text=True, user=65534, group=65534
            )
            assert f"(PostgreSQL) {found.major}" in said.stdout, said.stderr
    finally:
        shutil.rmtree(cache, ignore_errors=True)
