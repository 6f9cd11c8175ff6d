"""`reprise env create` and its neighbours do what they say, and say what they did."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from tests.fixtures.commands import Reprise
from tests.fixtures.wheels import Wheelhouse, wheel


@pytest.fixture
def env(reprise: Reprise, wheelhouse: Wheelhouse, tmp_path: Path) -> Reprise:
    """The command with a home of its own, on packages of a folder."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    return Reprise(home, {**wheelhouse.variables, "REPRISE_DATABASE_IDLE": "5"})


@pytest.fixture
def stats(env: Reprise, tmp_path: Path) -> str:
    """An environment with `tiny` and `leaf`; its digest."""
    path = tmp_path / "requirements.txt"
    path.write_text("tiny\n")
    made = env("env", "create", "stats", "--requirements", str(path), "--json")
    assert made.returncode == 0, made.stderr
    return str(json.loads(made.stdout)["built"])


def test_create_says_what_was_made_and_what_was_added(env: Reprise, tmp_path: Path) -> None:
    path = tmp_path / "requirements.txt"
    path.write_text("tiny\nipykernel\n")
    made = env("env", "create", "stats", "--requirements", str(path))
    assert made.returncode == 0, made.stderr
    assert "Added, since a kernel needs them: pyzmq, pip." in made.stdout
    assert re.search(r"Built [0-9a-f]{12}: 5 packages", made.stdout)
    assert "REPRISE_ENVIRONMENT=stats" in made.stdout
    again = env("env", "create", "again", "--requirements", str(path))
    assert "Was built before" in again.stdout


def test_a_taken_name_is_refused_and_replaced_only_when_asked(
    env: Reprise, stats: str, tmp_path: Path
) -> None:
    assert env("env", "limit", "memory", "2GiB", "--environment", "stats").returncode == 0
    path = tmp_path / "other.txt"
    path.write_text("leaf\n")
    taken = env("env", "create", "stats", "--requirements", str(path))
    assert taken.returncode == 2
    assert "--replace" in taken.stderr
    assert json.loads(env("env", "show", "stats", "--json").stdout)["built"] == stats
    replaced = env("env", "create", "stats", "--requirements", str(path), "--replace", "--json")
    assert replaced.returncode == 0, replaced.stderr
    shown = json.loads(env("env", "show", "stats", "--json").stdout)
    assert shown["built"] != stats
    assert shown["limits"]["memory"] == 2 << 30


def test_a_lock_makes_the_same_environment_in_another_home(
    env: Reprise, stats: str, tmp_path: Path
) -> None:
    lock = tmp_path / "stats.lock"
    assert env("env", "lock", "stats", "-o", str(lock)).returncode == 0
    assert env("env", "lock", "stats").stdout == lock.read_text()
    other = tmp_path / "other"
    other.mkdir(mode=0o700)
    made = Reprise(other, env.env)("env", "create", "here", "--lock", str(lock), "--json")
    assert made.returncode == 0, made.stderr
    assert json.loads(made.stdout)["built"] == stats


def test_wheels_that_no_index_has_go_along(env: Reprise, tmp_path: Path) -> None:
    own, path = tmp_path / "own", tmp_path / "requirements.txt"
    own.mkdir()
    wheel(own, "private_one", "1.0")
    path.write_text("private-one\n")
    create = ["env", "create", "mine", "--requirements", str(path)]
    assert env(*create).returncode == 2
    made = env(*create, "--find-links", str(own))
    assert made.returncode == 0, made.stderr
    lock, wheels = tmp_path / "mine.lock", tmp_path / "taken"
    told = env("env", "lock", "mine", "-o", str(lock))
    assert "private_one-1.0-py3-none-any.whl" in told.stderr
    assert env("env", "lock", "mine", "-o", str(lock), "--wheels", str(wheels)).returncode == 0
    (tmp_path / "other").mkdir(mode=0o700)
    other = Reprise(tmp_path / "other", env.env)
    assert other("env", "create", "mine", "--lock", str(lock)).returncode != 0
    again = other("env", "create", "mine", "--lock", str(lock), "--find-links", str(wheels))
    assert again.returncode == 0, again.stderr


def test_from_gives_another_name_to_the_same(env: Reprise, stats: str) -> None:
    assert env("env", "reuse", "stats", "never").returncode == 0
    assert env("env", "create", "copy", "--from", "stats").returncode == 0
    shown = json.loads(env("env", "show", "copy", "--json").stdout)
    assert (shown["built"], shown["reuse"]) == (stats, "never")
    assert env("env", "diff", "stats", "copy").returncode == 0
    assert env("env", "create", "other", "--from", "no-such").returncode == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["create", "x"], "required"),
        (["create", "x", "--requirements", "gone.txt"], "gone.txt"),
        (["create", "x", "--lock", "gone.lock"], "gone.lock"),
        (["create", "x", "--requirements", "a", "--lock", "b"], "not allowed"),
        (["create", "../x", "--from", "default"], "no name"),
        (["create", "x", "--from", "default", "--python", "3.12"], "nothing is built"),
        (["create", "x", "--requirements", "a", "--extra", "y"], "--pyproject"),
        (["create", "x", "--image", "python:latest"], "by its digest"),
        (["create", "x", "--requirements", "a", "--python", "3.99"], "3.99"),
        (["lock", "default"], "has no lock"),
        (["remove", "no-such"], "no environment"),
        (["remove", "default"], "stays"),
        (["check", "no-such"], "no environment"),
        (["check", "default", "--repair"], "Only what"),
        (["diff", "default", "no-such"], "neither an environment nor a session"),
        (["reuse", "default", "sometimes"], "sometimes"),
    ],
)
def test_wrong_use_says_what_is_wrong_and_leaves_nothing(
    env: Reprise, words: list[str], said: str
) -> None:
    done = env("env", *words, cwd=env.home)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not (env.home / "environments").exists()
    assert not (env.home / "built").exists()


def test_an_index_that_is_out_of_reach_is_exit_3(
    env: Reprise, wheelhouse: Wheelhouse, tmp_path: Path
) -> None:
    path = tmp_path / "requirements.txt"
    path.write_text("tiny\n")
    done = env(
        "env", "create", "x", "--requirements", str(path),
        PIP_NO_INDEX="0", PIP_INDEX_URL="http://127.0.0.1:1/simple", UV_HTTP_RETRIES="0",
        UV_NO_CACHE="1",
    )  # fmt: skip
    assert done.returncode == 3
    assert "could not be reached" in done.stderr
    assert "127.0.0.1:1" in done.stderr


def test_show_list_and_diff(env: Reprise, stats: str) -> None:
    shown = env("env", "show", "stats", "--packages").stdout
    assert f"stands on   {stats} (built" in shown
    assert re.search(r"^tiny +2\.0$", shown, re.MULTILINE)
    assert "network     none" in shown
    assert json.loads(env("env", "show", "stats", "--json").stdout)["packages"]["leaf"] == "1.1"
    listed = env("env", "list").stdout.splitlines()
    assert listed[1].split()[0] == "default"
    assert re.match(rf"stats +built {stats[:12]} +[\d.]+ (KiB|MiB) +none$", listed[2])
    told = json.loads(env("env", "list", "--json").stdout)
    (mine,) = [each for each in told["details"] if each["environment"] == "stats"]
    assert mine["built"] == stats
    assert mine["bytes"] > 0
    assert mine["sessions"] == []
    for word, value in (("reuse", "never"), ("output", "live")):
        assert env("env", "create", word, "--from", "stats").returncode == 0
        assert env("env", word, word, value).returncode == 0
    differs = env("env", "diff", "stats", "reuse")
    assert (differs.returncode, differs.stdout) == (
        1,
        "every step gets an interpreter of its own\n",
    )
    differs = env("env", "diff", "output", "stats", "--json")
    assert json.loads(differs.stdout)["differences"] == [
        "scripts in outputs are held back once something untrusted ran"
    ]


def test_a_broken_environment_is_named_and_the_others_are_listed(env: Reprise, stats: str) -> None:
    (env.home / "environments" / "broken.json").write_text("{")
    listed = env("env", "list")
    assert listed.returncode == 0
    assert "stats" in listed.stdout
    assert "broken.json is not JSON" in listed.stderr
    # Nobody knows what it names, so nothing is collected.
    assert env("gc", "--grace", "1h").returncode == 2


def test_check_repairs_what_it_finds(env: Reprise, stats: str) -> None:
    assert "as they were" in env("env", "check", "stats").stdout
    path = next((env.home / "built" / stats / "prefix").glob("lib/*/site-packages/tiny.py"))
    path.chmod(0o644)
    path.write_text("VERSION = 'by hand'\n")
    done = env("env", "check", "stats")
    assert done.returncode == 1
    assert "tiny.py has changed" in done.stdout
    assert "--repair" in done.stdout
    told = json.loads(env("env", "check", "stats", "--json").stdout)
    assert (told["ok"], len(told["problems"])) == (False, 1)
    repaired = env("env", "check", "stats", "--repair")
    assert repaired.returncode == 0, repaired.stdout
    assert path.read_text() == "VERSION = '2.0'\n"


def test_the_hosts_own_prefix_is_checked_too(env: Reprise) -> None:
    done = env("env", "check", "default", "--json")
    told = json.loads(done.stdout)
    assert told["files"] > 1000
    assert done.returncode == (0 if told["ok"] else 1)


def test_what_is_removed_is_freed_once_nothing_names_it(env: Reprise, stats: str) -> None:
    assert env("env", "create", "copy", "--from", "stats").returncode == 0
    removed = env("env", "remove", "stats")
    assert removed.returncode == 0
    assert "reprise gc" in removed.stdout
    folder = env.home / "built" / stats
    os.utime(folder / ".use", (0, 0))
    assert json.loads(env("gc", "--json").stdout)["environments"]["built"] == 0
    assert env("env", "remove", "copy").returncode == 0
    dry = json.loads(env("gc", "--dry-run", "--json").stdout)["environments"]
    assert dry["built"] == 1
    assert folder.is_dir()
    assert "1 built environments" in env("gc").stdout
    assert not folder.exists()
