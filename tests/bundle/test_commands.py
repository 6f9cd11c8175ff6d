"""`reprise export` and `reprise import` as people use them: files, pipes, keys, and wrong use."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from reprise.bundle.load import check_bundle
from reprise.bundle.source import Spooled
from tests.fixtures.commands import Reprise
from tests.histories.make import bundle_of

GOLDEN = bundle_of("fork")


@pytest.fixture(scope="module")
def session(reprise: Reprise) -> str:
    with GOLDEN.open("rb") as file:
        found = str(check_bundle(Spooled(file)).head.session)
    done = reprise("import", str(GOLDEN))
    assert done.returncode == 0, done.stderr
    assert f"session {found}: 5 steps and" in done.stdout
    assert "unsigned" in done.stdout
    assert "--attached" in done.stdout
    return found


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory) -> Reprise:
    """The same command on another machine: with a home and a server of its own."""
    home = tmp_path_factory.mktemp("second")
    home.chmod(0o700)
    return Reprise(home)


def test_a_session_travels_through_a_pipe(
    reprise: Reprise, second: Reprise, session: str, tmp_path: Path
) -> None:
    line = [sys.executable, "-m", "reprise.cli"]
    with subprocess.Popen(
        [*line, "export", session[:8], "-o", "-", "--compress"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=reprise.environ,
    ) as out:
        done = subprocess.run(
            [*line, "import", "-", "--json"],
            stdin=out.stdout,
            capture_output=True,
            text=True,
            timeout=120,
            env=second.environ,
        )
        assert out.stdout is not None
        out.stdout.close()
        assert out.stderr is not None
        told = out.stderr.read().decode()
    assert out.returncode == 0, told
    assert "uploaded files included" in told
    assert done.returncode == 0, done.stderr
    body = json.loads(done.stdout)
    assert (body["session"], body["imported"], body["signed_by"]) == (session, True, None)
    assert second("log", session, "--check").returncode == 0
    verified = second("verify", session, cwd=tmp_path)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    again = second("import", str(GOLDEN))
    assert again.returncode == 0
    assert "here already, step for step; nothing changed" in again.stdout
    new = json.loads(second("import", str(GOLDEN), "--as-new", "--json").stdout)
    assert new["session"] != session
    assert second("log", new["session"], "--check").returncode == 0


def test_a_reader_that_goes_away_ends_an_export_quietly(reprise: Reprise, session: str) -> None:
    line = [sys.executable, "-m", "reprise.cli", "export", session, "-o", "-"]
    with subprocess.Popen(
        line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=reprise.environ
    ) as out:
        assert out.stdout is not None
        assert out.stderr is not None
        out.stdout.close()
        told = out.stderr.read().decode()
    assert out.returncode == 141
    assert "Traceback" not in told


def test_the_default_name_and_what_is_there_already(
    reprise: Reprise, session: str, tmp_path: Path
) -> None:
    done = reprise("export", session, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    written = tmp_path / f"{session[:8]}.reprise"
    assert written.read_bytes() == GOLDEN.read_bytes()
    written.write_bytes(b"mine")
    refused = reprise("export", session, cwd=tmp_path)
    assert refused.returncode == 2
    assert "--force" in refused.stderr
    assert written.read_bytes() == b"mine"
    assert reprise("export", session, "--force", cwd=tmp_path).returncode == 0
    assert written.read_bytes() == GOLDEN.read_bytes()
    assert [path.name for path in tmp_path.iterdir()] == [written.name]


def test_a_signed_bundle_and_who_may_have_signed_it(
    reprise: Reprise, session: str, tmp_path: Path
) -> None:
    made = json.loads(reprise("export", "--make-key", "mine", "--json", cwd=tmp_path).stdout)
    assert reprise("export", "--make-key", "yours", cwd=tmp_path).returncode == 0
    line = ["export", session, "--sign", "mine", "--comment", "for you"]
    for name in ("a", "b"):
        assert reprise(*line, "-o", name, cwd=tmp_path).returncode == 0
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    unsigned = GOLDEN.read_bytes()
    assert (tmp_path / "a").read_bytes().startswith(unsigned[:-1024])
    told = reprise("import", "a", "--check", cwd=tmp_path).stdout
    assert made["key_id"] in told
    assert made["public_key"] in told
    assert "for you" in told
    for signer, code in (("mine.pub", 0), (made["public_key"], 0), ("yours.pub", 1)):
        done = reprise("import", "a", "--require-signer", signer, cwd=tmp_path)
        assert done.returncode == code, done.stderr
    both = ["--require-signer", "yours.pub", "--require-signer", "mine.pub"]
    assert reprise("import", "a", *both, cwd=tmp_path).returncode == 0
    assert reprise("import", str(GOLDEN), *both, cwd=tmp_path).returncode == 1


def test_a_check_needs_no_database(tmp_path: Path) -> None:
    nowhere = Reprise(tmp_path / "home", {"REPRISE_DSN": "host=/nowhere"})
    done = nowhere("import", str(GOLDEN), "--check", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["whole"]
    assert nowhere("import", str(GOLDEN)).returncode == 3
    assert not (tmp_path / "home" / "postgres").exists()


def test_other_forms_are_written(reprise: Reprise, session: str, tmp_path: Path) -> None:
    done = reprise("export", session, "--to-notebook", "out.ipynb", "--attached", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    notebook = json.loads((tmp_path / "out.ipynb").read_text())
    assert notebook["metadata"]["reprise"]["session"] == session
    done = reprise("export", session, "--to-script", "out.py", "--json", cwd=tmp_path)
    assert json.loads(done.stdout) == {"file": "out.py"}
    run = [sys.executable, "-I", "out.py", "work"]
    shown = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert shown.stdout == "['given', 'shared', 'only in the fork']\n"


@pytest.mark.parametrize(
    ("args", "code", "word"),
    [
        (["export"], 2, "SESSION"),
        (["export", "SESSION", "--comment", "x"], 2, "--sign"),
        (["export", "SESSION", "--to-script", "a", "--to-notebook", "b"], 2, "one at a time"),
        (["export", "SESSION", "-o", "-", "--json"], 2, "stdout"),
        (["export", "SESSION", "--sign", "absent"], 2, "cannot be read"),
        (["export", "SESSION", "-o", "absent/x"], 2, "no folder"),
        (["export", "SESSION", "-o", "."], 2, "is a folder"),
        (["import", "absent"], 2, "cannot be read"),
        (["import", "."], 2, "cannot be read"),
        (["import", "GOLDEN", "--max-size", "10 KiB"], 2, "--max-size"),
        (["import", "GOLDEN", "--max-size", "much"], 2, "no size"),
        (["import", "GOLDEN", "--require-signer", "absent"], 2, "cannot be read"),
        (["import", "broken"], 1, "no bundle that is whole"),
        (["import", "empty"], 1, "no bundle that is whole"),
    ],
    ids=str,
)
def test_wrong_use_is_said(
    reprise: Reprise, session: str, tmp_path: Path, args: list[str], code: int, word: str
) -> None:
    (tmp_path / "broken").write_bytes(GOLDEN.read_bytes()[:-3000])
    (tmp_path / "empty").write_bytes(b"")
    words = {"SESSION": session, "GOLDEN": str(GOLDEN)}
    done = reprise(*(words.get(each, each) for each in args), cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert word in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
