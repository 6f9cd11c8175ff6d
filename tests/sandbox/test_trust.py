"""Without a wall no skill runs that nobody vouches for: refused live, on a resume and by verify."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from reprise.errors import UntrustedCode
from reprise.sandbox.backends import backend
from reprise.sandbox.contract import SandboxSpec
from reprise.sandbox.process import ProcessBackend
from reprise.sandbox.trust import check_trust
from reprise.settings import RUN_UNTRUSTED
from tests.fixtures.kernel import Kernels
from tests.fixtures.mounts import sha256, tree_of
from tests.fixtures.sandbox import StartCells, quiet_kernel

FILES = {"SKILL.md": b"# A skill\n", "go": (b"#!/bin/sh\necho ran\n", 0o755)}

#: The request of a kernel's client for the same.
PAYLOAD = {
    "target": "/skills/tried",
    "entries": [
        ["SKILL.md", "file", 0o644, len(b"# A skill\n"), sha256(b"# A skill\n")],
        ["go", "file", 0o755, len(FILES["go"][0]), sha256(FILES["go"][0])],  # type: ignore[arg-type]
    ],
}
BUFFERS = [b"# A skill\n", FILES["go"][0]]


@pytest.mark.parametrize("said", [{}, {RUN_UNTRUSTED: ""}, {RUN_UNTRUSTED: "1"}, {"X": "yes"}])
def test_only_the_word_yes_under_its_long_name_lets_a_skill_in(said: dict[str, str]) -> None:
    with pytest.raises(UntrustedCode) as refused:
        check_trust("/skills/a", trusted=False, environ=said)
    # What happened, why, how to get a wall, and the name of the setting.
    for words in ("/skills/a", "has no wall", "unset REPRISE_BACKEND", f"{RUN_UNTRUSTED}=yes"):
        assert words in str(refused.value)
    check_trust("/skills/a", trusted=False, environ={**said, RUN_UNTRUSTED: "yes"})
    check_trust("/skills/a", trusted=True, environ=said)


async def test_a_skill_that_somebody_vouches_for_by_its_digest_comes_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPRISE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv(RUN_UNTRUSTED, raising=False)
    known = replace(tree_of(FILES), trusted=True)
    other = tree_of({**FILES, "SKILL.md": b"# Another\n"})
    container = await ProcessBackend().start(SandboxSpec(kernel=quiet_kernel(), workspace=tmp_path))
    try:
        with pytest.raises(UntrustedCode):
            await container.mount("/skills/a", other)
        assert not (tmp_path / "home" / "mounts" / other.digest).exists()
        path = Path(await container.mount("/skills/a", known))
        assert (path / "go").read_bytes() == FILES["go"][0]
        # Data is no code that anything runs by itself.
        assert Path(await container.mount("/mnt/a", other), "SKILL.md").exists()
    finally:
        await container.kill()
        container.stream.close()


async def test_behind_a_wall_a_skill_needs_nobodys_word(
    start_cells: StartCells, monkeypatch: pytest.MonkeyPatch
) -> None:
    if backend("bubblewrap").check():
        pytest.skip("NOT TESTED: bubblewrap (no sandbox can be made here)")
    monkeypatch.delenv(RUN_UNTRUSTED, raising=False)
    cells = await start_cells("bubblewrap")
    await cells.guest.container.mount("/skills/a", tree_of(FILES))
    assert await cells.prints("import os; print(os.popen('/skills/a/go').read())") == "ran"


def test_a_refused_skill_is_no_step_and_the_session_goes_on(kernels: Kernels) -> None:
    kernel = kernels("process", **{RUN_UNTRUSTED: ""})
    client = kernel.client()
    ran = client.step("mount", PAYLOAD, buffers=BUFFERS)
    assert (ran.status, ran.reply["ename"]) == ("error", "UntrustedCode")
    assert RUN_UNTRUSTED in ran.reply["evalue"]
    assert "`reprise skills trust`" in ran.reply["evalue"]
    assert client.prints("print(1 + 1)") == "2"
    recorded = kernels.read(kernel)
    assert recorded.statuses("mount") == []
    assert recorded.report.ok
    assert not (kernels.database.home / "mounts").exists()


def test_a_history_with_a_skill_says_what_it_lacks_where_no_wall_is(kernels: Kernels) -> None:
    """It was recorded in a sandbox; resumed and verified without one, nothing of the skill runs."""
    kernel = kernels("bubblewrap")
    client = kernel.client()
    assert client.step("mount", PAYLOAD, buffers=BUFFERS).status == "ok"
    assert client.shell("/skills/tried/go").text() == "ran\n"
    assert client.prints("x = 41; print(x)") == "41"
    kernel.shutdown()
    verified = subprocess.run(
        [sys.executable, "-m", "reprise.cli", "verify", str(kernel.session), "--json"],
        capture_output=True,
        text=True,
        timeout=300,
        env={
            "PATH": os.environ["PATH"],
            "REPRISE_DSN": kernels.database.dsn,
            "REPRISE_HOME": str(kernels.database.home),
            "REPRISE_BACKEND": "process",
        },
    )
    assert verified.returncode == 1, verified.stderr
    steps = json.loads(verified.stdout)["steps"]
    (mount,) = [step for step in steps if step["kind"] == "mount"]
    assert mount["verdict"] == "could not run"
    assert RUN_UNTRUSTED in mount["reason"]
    assert [step["verdict"] for step in steps if step["kind"] == "cell"] == ["same"]
    resumed = kernels(
        "process", session=kernel.session, folder=kernel.folder, **{RUN_UNTRUSTED: ""}
    )
    again = resumed.client()
    assert again.prints("print(x + 1)") == "42"
    told = again.notice("not-replayed")["text"]
    assert "/skills/tried" in told
    assert RUN_UNTRUSTED in told
