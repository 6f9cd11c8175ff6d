"""What a person chose for one session is found by it, by its notebook and kernel, by no stranger."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from reprise.errors import UsageError
from reprise.sandbox import chosen
from reprise.sandbox.chosen import Choice, Found, choose, find, session_key
from reprise.sandbox.named import NamedEnvironment, save
from reprise.sandbox.network import NetworkRules


@dataclass(frozen=True)
class Started:
    session: uuid.UUID | None = None
    keys: Sequence[str] = ()
    identity: uuid.UUID | None = None


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REPRISE_HOME", str(tmp_path))
    monkeypatch.delenv("REPRISE_ENVIRONMENT", raising=False)
    return tmp_path


def kept(home: Path) -> list[Path]:
    return sorted((home / "chosen").glob("*.json"))


def test_nothing_was_chosen_at_first() -> None:
    assert not chosen.any_made()
    assert find(Started(keys=("kernel:x",), identity=uuid.uuid4())) is None
    assert chosen.environment(None)[0].name == "default"


def test_a_session_is_found_by_its_setting_its_notebook_and_its_kernel() -> None:
    session = uuid.uuid4()
    keys = ["kernel:1", f"notebook:{session}:/a/b.ipynb"]
    choose(session, Choice("stats"), keys)
    for started in (
        Started(session=session),
        Started(keys=("kernel:1",)),
        Started(keys=("kernel:2", f"notebook:{session}:/a/b.ipynb"), identity=session),
    ):
        assert find(started) == Found(Choice("stats"), exact=True)
    # REPRISE_SESSION says whose kernel it is, whatever its id and its notebook lead to.
    assert find(Started(session=uuid.uuid4(), keys=keys, identity=session)) is None


def test_what_is_taken_back_while_no_kernel_runs_is_taken_back() -> None:
    session = uuid.uuid4()
    kernel = Started(keys=("kernel:1", f"notebook:{session}:/a.ipynb"), identity=session)
    choose(session, Choice("stats", ("a.example",)), kernel.keys)
    choose(session, Choice("stats"))  # its kernel has ended: nobody knows what leads to it
    assert find(kernel) == Found(Choice("stats"), exact=True)
    # What was allowed for a session that was deleted counts for none after it.
    choose(session, Choice("stats", ("a.example",)))
    chosen.forget(session)
    assert find(kernel) == Found(Choice("stats"), exact=True)


def test_a_kernel_that_goes_over_to_a_fork_is_led_to_what_is_chosen_for_that() -> None:
    session, fork = uuid.uuid4(), uuid.uuid4()
    choose(session, Choice("stats", ("a.example",)), ["kernel:1"])
    chosen.inherit(session, fork)
    found = find(Started(keys=("kernel:1",)))
    assert found is not None
    chosen.keep(found, fork, ["kernel:1"])
    choose(fork, Choice("stats"))
    assert find(Started(keys=("kernel:1",))) == Found(Choice("stats"), exact=True)


def test_a_copy_of_a_notebook_has_its_environment_and_none_of_its_hosts() -> None:
    save(NamedEnvironment("stats"))
    session = uuid.uuid4()
    choose(session, Choice("stats", ("a.example",), ("10.0.0.1:80",)))
    copy = Started(keys=("kernel:2", f"notebook:{session}:/a/copy.ipynb"), identity=session)
    found = find(copy)
    assert found is not None
    named, gone = chosen.environment(found)
    assert (named.name, named.network.open, gone) == ("stats", False, None)
    # The session that the copy begins has the same, so that it keeps it; and no more.
    begun = uuid.uuid4()
    chosen.keep(found, begun, copy.keys)
    assert chosen.of_session(begun) == Choice("stats")
    assert chosen.of_session(session) == Choice("stats", ("a.example",), ("10.0.0.1:80",))


def test_a_notebook_that_was_moved_has_its_hosts_from_its_second_start_on() -> None:
    session = uuid.uuid4()
    choose(session, Choice(None, ("a.example",)))
    moved = Started(keys=(f"notebook:{session}:/new.ipynb",), identity=session)
    found = find(moved)
    assert found is not None
    assert not chosen.environment(found)[0].network.open
    chosen.keep(found, session, moved.keys)
    assert find(moved) == Found(Choice(None, ("a.example",)), exact=True)


def test_hosts_come_on_top_of_what_the_environment_allows_today() -> None:
    rules = NetworkRules(allow=("a.example",), record=True)
    save(NamedEnvironment("stats", network=rules))
    choice = Choice("stats", ("a.example", "b.example", "c.example"), ("c.example",))
    network = chosen.applied(choice)[0].network
    assert (network.allow, network.private) == (("a.example", "b.example"), ("c.example",))
    assert network.record


def test_what_was_chosen_comes_before_the_setting_for_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("stats", "usual"):
        save(NamedEnvironment(name))
    monkeypatch.setenv("REPRISE_ENVIRONMENT", "usual")
    assert chosen.environment(Found(Choice("stats"), exact=True))[0].name == "stats"
    assert chosen.environment(Found(Choice("default"), exact=True))[0].name == "default"
    assert chosen.environment(Found(Choice(None, ("a.example",)), exact=True))[0].name == "usual"
    assert chosen.environment(None)[0].name == "usual"


def test_an_environment_that_is_gone_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    save(NamedEnvironment("usual"))
    monkeypatch.setenv("REPRISE_ENVIRONMENT", "usual")
    named, gone = chosen.applied(Choice("stats", ("a.example",)))
    assert named.name == "usual"
    assert gone is not None
    assert "'stats'" in gone
    assert "'usual'" in gone
    assert named.network.allow == ("a.example",)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "{}",
        '{"key": "other", "environment": null}',
        '{"key": "KEY", "environment": "../x"}',
        '{"key": "KEY", "environment": 3}',
        '{"key": "KEY", "environment": null, "allow": "a"}',
        '{"key": "KEY", "environment": null, "allow": ["http://a/"]}',
        '{"key": "KEY", "environment": null, "private": [3]}',
        '{"key": "KEY", "environment": null, "session": "x"}',
        "[" * 100_000,
    ],
    ids=range(11),
)
def test_what_cannot_be_read_is_refused_and_nothing_wider_stands_in(home: Path, text: str) -> None:
    session = uuid.uuid4()
    choose(session, Choice("stats"))
    (path,) = kept(home)
    path.write_text(text.replace("KEY", session_key(session)))
    with pytest.raises(UsageError, match="choose again"):
        find(Started(session=session))
    choose(session, Choice("stats"))  # what is chosen anew replaces it
    assert find(Started(session=session)) == Found(Choice("stats"), exact=True)


def test_forks_have_what_was_chosen_and_deleted_sessions_leave_nothing(home: Path) -> None:
    parent, fork, other = uuid.uuid4(), uuid.uuid4(), uuid.uuid4()
    chosen.inherit(other, fork)
    assert chosen.of_session(fork) is None
    choose(parent, Choice("stats", ("a.example",)))
    chosen.inherit(parent, fork)
    assert chosen.of_session(fork) == Choice("stats", ("a.example",))
    for each in (parent, fork, other):
        chosen.forget(each)
    assert kept(home) == []


def test_hosts_are_added_once_taken_back_and_bounded() -> None:
    choice = chosen.more_hosts(Choice("stats"), ["A.example", "a.example"], private=False)
    assert choice.allow == ("a.example",)
    choice = chosen.more_hosts(choice, ["a.example"], private=True)
    assert (choice.allow, choice.private) == ((), ("a.example",))
    assert chosen.more_hosts(choice, ["a.example"], private=False) == choice
    index = chosen.more_hosts(Choice(), ["package-index"], private=True)
    assert (index.allow, index.private) == (("package-index",), ())
    with pytest.raises(UsageError, match=r"no HOST"):
        chosen.more_hosts(choice, ["http://a.example/"], private=False)
    with pytest.raises(UsageError, match=r"Allowed: a\.example"):
        chosen.fewer_hosts(choice, ["b.example"])
    assert chosen.fewer_hosts(choice, ["A.example"]) == Choice("stats")
    many = [f"h{number}.example" for number in range(chosen.MOST_PLACES + 1)]
    with pytest.raises(UsageError, match="At most"):
        chosen.more_hosts(Choice(), many, private=False)


def test_what_was_chosen_for_kernels_of_long_ago_is_dropped(home: Path) -> None:
    session = uuid.uuid4()
    choose(session, Choice("stats"), ["kernel:1"])
    before = time.time() - chosen.KERNELS_KEPT_S - 60
    for path in kept(home):
        os.utime(path, (before, before))
    choose(uuid.uuid4(), Choice("stats"))
    keys = [json.loads(path.read_text())["key"] for path in kept(home)]
    assert "kernel:1" not in keys
    assert session_key(session) in keys


def test_files_are_this_users_alone(home: Path) -> None:
    choose(uuid.uuid4(), Choice("stats"))
    (path,) = kept(home)
    assert path.stat().st_mode & 0o077 == 0
