"""Which runtime is called, and how: others' containers pass untouched, ours are remembered."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprise.sandbox.runtime_shim import Call, Runtime
from tests.fixtures.sandbox import PATIENCE
from tests.fixtures.shim import Installed, configuration, settings

FOREIGN = [
    ["--log", "/tmp/l", "--log-format", "json", "run", "--bundle", "BUNDLE", "--keep", "abc"],
    ["create", "-b", "BUNDLE", "--pid-file=/x", "abc"],
    ["--root=/run/x", "kill", "abc", "KILL"],
    ["delete", "-f", "abc"],
    ["exec", "--cwd", "/", "-e", "A=ü\nb", "abc", "sh", "-c", "--", "x"],
    ["state", "no-such"],
    ["ps", "-f", "json", "abc"],
    ["list"],
    ["--version"],
    ["features"],
    [],
    ["", " ", "--", "-", "*"],
    ["unknown", "--verb", "../../x"],
]


def made(folder: Path, *env: str, **more: Any) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps({**configuration(env), **more}))
    return folder


def identity(path: Path) -> tuple[bytes, int, int, int]:
    status = path.stat()
    return path.read_bytes(), status.st_ino, status.st_mtime_ns, status.st_mode


@pytest.mark.parametrize("words", FOREIGN, ids=lambda words: " ".join(words[:2]) or "nothing")
@pytest.mark.parametrize("policy", [None, "{broken"])
def test_what_is_not_ours_passes_byte_for_byte(
    shim: Installed, tmp_path: Path, words: list[str], policy: str | None
) -> None:
    if policy is not None:
        shim.policy(policy)
    bundle = made(tmp_path / "b", "A=1", "X=REPRISE_SHIM_MEMORY=5", "REPRISE_SHIM_APPLIED={}")
    config = json.loads((bundle / "config.json").read_text())
    config["process"]["args"] = ["/bin/echo", "REPRISE_SHIM=1"]
    (bundle / "config.json").write_text(json.dumps(config))
    before = identity(bundle / "config.json")
    given = [str(bundle) if word == "BUNDLE" else word for word in words]
    done = shim.call(*given)
    # The recorder ends `state` with 1: the container is not there.
    assert (done.returncode, done.stderr) == (int(words[:1] == ["state"]), "")
    assert shim.calls == [("runc", given)]
    assert identity(bundle / "config.json") == before
    assert os.listdir(bundle) == ["config.json"]
    assert not shim.records.exists()


@pytest.mark.parametrize("content", [None, b"", b"{", b"\xff\0", b"[" * 200_000, b" " * (17 << 20)])
def test_a_bundle_that_is_none_is_the_real_runtimes_affair(
    shim: Installed, tmp_path: Path, content: bytes | None
) -> None:
    if content is not None:
        (tmp_path / "config.json").write_bytes(content)
    assert shim.call("run", "abc", cwd=tmp_path).returncode == 0
    assert shim.calls == [("runc", ["run", "abc"])]


@pytest.mark.parametrize(
    "content",
    [
        b'{"process": {"env": ["REPRISE_SHIM=1"',
        b'{"process": {"env": ["REPRISE_SHIM=1"]}, "x": ' + b"[" * 200_000,
        b" " * (17 << 20) + b'{"process": {"env": ["REPRISE_SHIM=1"]}}',
        b" " * ((17 << 20) - 7) + b'{"process": {"env": ["REPRISE_SHIM=1"]}}',
        b'{"process": {"env": ["REPRISE_SHIM=1", "\xff"]}}',
    ],
    ids=["cut", "deep", "huge", "huge, across a piece", "no text"],
)
def test_a_broken_bundle_of_ours_is_refused(
    shim: Installed, tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "config.json").write_bytes(content)
    done = shim.call("run", "abc", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("reprise-shim: ")
    assert "Traceback" not in done.stderr
    assert shim.calls == []
    assert sorted(os.listdir(tmp_path)) == ["config.json", "shim"]
    assert (tmp_path / "config.json").read_bytes() == content


def test_a_refusal_is_said_where_the_engine_looks(shim: Installed, tmp_path: Path) -> None:
    bundle = str(made(tmp_path / "b", *settings(MEMORY="lots")))
    said = tmp_path / "log"
    form: list[str] = ["--log-format", "json"]
    for options in (form, []):
        done = shim.call("--log", str(said), *options, "run", "--bundle", bundle, "abc")
        assert done.returncode == 1
        assert done.stderr.count("\n") == 1
        assert "REPRISE_SHIM_MEMORY='lots'" in done.stderr
    as_json, as_text = said.read_text().splitlines()
    line = json.loads(as_json)
    assert line["level"] == "error"
    assert line["msg"] == done.stderr.strip()
    assert line["time"].endswith("Z")
    assert "level=error" in as_text
    assert shim.calls == []
    assert "REPRISE_SHIM_MEMORY=lots" in (tmp_path / "b" / "config.json").read_text()


@pytest.mark.parametrize(
    "policy", ["", "[]", "{", '{"maxima": {"memory": 1}}', "x" * 70_000, '{"networks": ["none"]}']
)
def test_a_policy_that_is_wrong_or_forbids_it_refuses_ours(
    shim: Installed, tmp_path: Path, policy: str
) -> None:
    shim.policy(policy)
    bundle = str(made(tmp_path / "b", *settings(NETWORK="engine")))
    done = shim.call("run", "--bundle", bundle, "abc")
    assert done.returncode == 1
    assert shim.calls == []


def test_a_policy_that_others_may_write_is_not_trusted(shim: Installed, tmp_path: Path) -> None:
    shim.policy({})
    bundle = str(made(tmp_path / "b", *settings()))
    (shim.folder / "policy.json").chmod(0o666)
    assert "can be written by others" in shim.call("run", "-b", bundle, "abc").stderr
    (shim.folder / "policy.json").chmod(0o644)
    assert shim.call("run", "-b", bundle, "abc").returncode == 0


def test_defaults_of_the_operator_hold_for_what_is_not_asked(
    shim: Installed, tmp_path: Path
) -> None:
    shim.policy(
        {
            "defaults": {"memory": 1 << 26, "network": "none", "runtime": "crun"},
            "maxima": {"pids": 99},
        }
    )
    bundle = made(tmp_path / "b", *settings(CPUS="0.5"))
    assert shim.call("run", "--bundle", str(bundle), "abc").returncode == 0
    assert [name for name, _ in shim.calls] == ["crun"]
    applied = json.loads((bundle / "config.json").read_text())["process"]["env"][-1]
    assert json.loads(applied.partition("=")[2]) == {
        "shim": 1,
        "runtime": "crun",
        "memory": 1 << 26,
        "cpus": 0.5,
        "pids": 99,
        "network": "none",
    }


def test_gvisor_is_called_as_it_knows_it(shim: Installed, tmp_path: Path) -> None:
    shim.policy({"runtimes": {"runc": {}, "runsc": {"arguments": ["--platform=kvm"]}}})
    bundle = str(made(tmp_path / "b", *settings(RUNTIME="runsc", NETWORK="none")))
    first = ["--debug", "--log", "/l", "--log-format", "json", "--root", "/r"]
    rest = ["--bundle", bundle, "--keep", "--no-pivot", "--pid-file", "/p", "abc"]
    assert shim.call(*first, "run", *rest).returncode == 0
    runsc = ["--host-uds=open", "--network=none", "--platform=kvm"]
    words = ["--log", "/l", "--log-format", "json", "--root", "/r-runsc", *runsc, "run"]
    assert shim.calls == [("runsc", [*words, "--bundle", bundle, "--pid-file", "/p", "abc"])]
    shim.call("--root", "/r", "kill", "--all", "abc", "SIGKILL")
    killed = ["--root", "/r-runsc", *runsc, "kill", "--all", "abc", "SIGKILL"]
    assert shim.calls[-1] == ("runsc", killed)


def test_other_verbs_go_to_the_runtime_that_has_the_container(
    shim: Installed, tmp_path: Path
) -> None:
    """`run` with crun has deleted the container at its end: the engine's `delete` succeeds."""
    bundle = str(made(tmp_path / "b", *settings(RUNTIME="crun")))
    assert shim.call("run", "--bundle", bundle, "abc").returncode == 0
    shim.say_exists("abc")
    for words in (["kill", "abc", "9"], ["update", "--memory", "5", "abc"], ["ps", "abc"]):
        shim.call(*words)
        assert shim.calls[-1] == ("crun", words)
    shim.call("kill", "abd", "9")
    assert shim.calls[-1][0] == "runc"
    shim.call("--root", "/elsewhere", "kill", "abc", "9")
    assert shim.calls[-1][0] == "runc"
    (shim.folder / "alive" / "abc").unlink()
    assert len(os.listdir(shim.records)) == 1
    done = shim.call("delete", "abc")
    assert (done.returncode, done.stderr) == (0, "")
    assert os.listdir(shim.records) == []
    shim.call("state", "abc")
    assert shim.calls[-1] == ("runc", ["state", "abc"])


@pytest.mark.parametrize(
    "id_",
    [
        "..",
        "../../etc/passwd",
        "/etc/passwd",
        "a/b",
        "a@b",
        "@",
        "a.b",
        "a\nb",
        "ü%2e",
        "x" * 60,
        "%",
    ],
)
def test_a_strange_id_names_one_record_and_no_other_place(
    shim: Installed, tmp_path: Path, id_: str
) -> None:
    bundle = str(made(tmp_path / "b", *settings(RUNTIME="crun")))
    assert shim.call("run", "--bundle", bundle, "--", id_).returncode == 0
    (record,) = os.listdir(shim.records)
    assert (shim.records / record).is_file()
    shim.call("kill", "--", id_, "9")
    assert shim.calls[-1] == ("crun", ["kill", "--", id_, "9"])
    shim.call("delete", "--", id_)
    assert os.listdir(shim.records) == []
    assert sorted(os.listdir(shim.folder)) == sorted(
        {*os.listdir(shim.folder), "records", "runc", "said"}
    )


def test_an_id_without_end_is_refused(shim: Installed, tmp_path: Path) -> None:
    bundle = str(made(tmp_path / "b", *settings(RUNTIME="crun")))
    assert "too long" in shim.call("run", "--bundle", bundle, "x" * 5000).stderr
    assert shim.call("kill", "x" * 5000, "9").returncode == 0
    assert shim.calls == [("runc", ["kill", "x" * 5000, "9"])]


def test_another_bundle_behind_the_id_is_not_smuggled_in(shim: Installed, tmp_path: Path) -> None:
    """crun takes options behind the id: it would start a bundle that nobody has edited."""
    bundle = str(made(tmp_path / "b", *settings(RUNTIME="crun")))
    other = str(made(tmp_path / "other"))
    done = shim.call("run", "--bundle", bundle, "abc", "--bundle", other)
    assert done.returncode == 1
    assert shim.calls == []


def test_the_last_bundle_counts_as_for_the_runtimes(shim: Installed, tmp_path: Path) -> None:
    first, last = (made(tmp_path / name, *settings(PIDS=32)) for name in ("a", "b"))
    shim.call("run", "--bundle", str(first), "-b", str(last), "abc")
    assert "REPRISE_SHIM_PIDS" in (first / "config.json").read_text()
    assert "REPRISE_SHIM_PIDS" not in (last / "config.json").read_text()


@pytest.mark.parametrize("env", [settings(), settings(RUNTIME="runsc"), ["A=1"]])
def test_an_id_is_never_in_two_runtimes(shim: Installed, tmp_path: Path, env: list[str]) -> None:
    shim.call("run", "-b", str(made(tmp_path / "a", *settings(RUNTIME="crun"))), "abc")
    shim.say_exists("abc")
    done = shim.call("run", "-b", str(made(tmp_path / "b", *env)), "abc")
    assert done.returncode == 1
    assert "'abc' exists" in done.stderr
    # An engine that died has left it: the runtime does not know it any more.
    (shim.folder / "alive" / "abc").unlink()
    assert shim.call("run", "-b", str(tmp_path / "b"), "abc").returncode == 0
    shim.call("state", "abc")
    assert shim.calls[-1][0] == ("runsc" if "REPRISE_SHIM_RUNTIME=runsc" in env else "runc")


def test_records_of_a_dead_engine_are_swept(shim: Installed, tmp_path: Path) -> None:
    shim.say_exists("dead0")
    for number in range(6):
        bundle = made(tmp_path / f"b{number}", *settings(RUNTIME="crun"))
        shim.call("--root", "/r.x", "run", "-b", str(bundle), f"dead{number}")
        (bundle / "config.json").unlink()
    bundle = str(made(tmp_path / "b", *settings(RUNTIME="crun")))
    for number in range(3):
        shim.call("run", "-b", bundle, f"live{number}")
        made(tmp_path / "b", *settings(RUNTIME="crun"))
    left = sorted(os.listdir(shim.records))
    assert left == ["%2fr%2ex@dead0", "@live0", "@live1", "@live2"]


def test_a_broken_record_is_named_not_guessed(shim: Installed, tmp_path: Path) -> None:
    bundle = str(made(tmp_path / "b", *settings(RUNTIME="crun")))
    shim.call("run", "-b", bundle, "abc")
    (record,) = shim.records.iterdir()
    record.write_bytes(b"crun")
    done = shim.call("kill", "abc", "9")
    assert done.returncode == 1
    assert f"{record} is broken" in done.stderr
    bundle = str(made(tmp_path / "b", *settings(RUNTIME="crun")))
    assert shim.call("run", "-b", bundle, "next").returncode == 0


def test_a_records_folder_that_others_write_is_not_used(shim: Installed, tmp_path: Path) -> None:
    bundle = str(made(tmp_path / "b", *settings(RUNTIME="crun")))
    shim.records.mkdir()
    shim.records.chmod(0o777)
    assert "only root writes" in shim.call("run", "-b", bundle, "abc").stderr
    shim.records.rmdir()
    shim.records.symlink_to(tmp_path)
    assert "only root writes" in shim.call("run", "-b", bundle, "abc").stderr
    assert shim.calls == []


def test_many_starts_at_once_do_not_mix_up(shim: Installed, tmp_path: Path) -> None:
    def start(number: int) -> None:
        runtime = ("crun", "runsc", "runc")[number % 3]
        bundle = made(tmp_path / f"b{number}", *settings(RUNTIME=runtime, PIDS=16 + number))
        codes[number] = shim.call("run", "-b", str(bundle), f"id{number}").returncode

    codes: dict[int, int] = {}
    threads = [threading.Thread(target=start, args=(number,)) for number in range(18)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(codes.values()) == {0}
    for number in range(18):
        shim.call("kill", f"id{number}", "9")
        assert shim.calls[-1][0] == ("crun", "runsc", "runc")[number % 3]
        config = json.loads((tmp_path / f"b{number}" / "config.json").read_text())
        limit = config["linux"]["resources"]["pids"]["limit"]
        assert limit == ((16 + number) * 6 + 64 if number % 3 == 1 else 16 + number)


def test_without_a_real_runtime_it_says_so_and_never_calls_itself(shim: Installed) -> None:
    (shim.folder / "runc.real").unlink()
    os.link(shim.program, shim.folder / "runc.real")
    done = shim.call("state", "abc")
    assert done.returncode == 1
    assert "the real runc is not there" in done.stderr


def test_check_says_what_is_there(shim: Installed) -> None:
    (shim.folder / "crun.real").unlink()
    done = shim.call("--reprise-check")
    assert done.returncode == 0
    assert f"runtime runsc: {shim.folder}/runsc.real" in done.stdout
    assert "runtime crun: the runtime crun is not there" in done.stdout
    shim.policy({"defaults": {"runtime": "crun"}})
    assert shim.call("--reprise-check").returncode == 1
    shim.policy({"default": {}})
    done = shim.call("--reprise-check")
    assert done.returncode == 1
    assert "unknown key 'default'" in done.stdout


words = st.lists(
    st.sampled_from([*"abc", "-f", "--root", "--root=x", "--keep", "--", "-", "", "run"])
)


@given(words=words)
def test_any_command_line_for_a_plain_runtime_stays_the_same(words: list[str]) -> None:
    call = Call(words)
    if call.verb and not any(name == "root" for name, _, _ in call.before):
        assert call.for_runtime(Runtime("runc", "/runc")) == words


def test_the_file_runs_by_itself_on_the_oldest_python_that_engines_have() -> None:
    """It may use the standard library only, and nothing that came after Python 3.9."""
    import ast

    from reprise.sandbox import runtime_shim

    source = Path(runtime_shim.__file__).read_text()
    tree = ast.parse(source, feature_version=(3, 9))
    imported = {
        name.name if isinstance(node, ast.Import) else str(node.module)
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in node.names
    }
    assert imported <= {"__future__", "os", "sys", "json", "time", "collections.abc", "typing"}
    assert source.startswith("#!/usr/bin/python3 -IS\n")
    assert os.access(runtime_shim.__file__, os.X_OK)


def test_the_command_says_where_it_lies() -> None:
    import sys

    from reprise.sandbox import runtime_shim

    said = subprocess.run(
        [sys.executable, "-m", "reprise.cli", "shim"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert said.stdout.strip() == runtime_shim.__file__
