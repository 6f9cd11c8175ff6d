"""An environment is built whole or not at all, once, of exactly what its lock names."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from reprise.environments.build import build
from reprise.environments.check import check_built, repair
from reprise.environments.collect import collect
from reprise.environments.create import from_lock, from_requirements
from reprise.environments.interpreter import Interpreter, find_interpreter
from reprise.environments.resolve import Wanted, read_lock, resolve
from reprise.environments.uv import HashMismatch
from reprise.errors import UnavailableError, UsageError
from reprise.sandbox.built import built_folder, built_home, built_kernel, built_lock
from reprise.sandbox.named import NamedEnvironment, load, save
from tests.fixtures.wheels import Index, Wheelhouse, series, stand_ins, wheel

#: Longest wait for a process, seconds.
PATIENCE = 60.0


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "home"
    path.mkdir(mode=0o700)
    monkeypatch.setenv("REPRISE_HOME", str(path))
    return path


@pytest.fixture
def interpreter(tmp_path: Path) -> Interpreter:
    return find_interpreter(folder=tmp_path)


@pytest.fixture
def requirements(tmp_path: Path) -> Callable[..., Wanted]:
    def write(*lines: str) -> Wanted:
        path = tmp_path / "requirements.txt"
        path.write_text("".join(f"{line}\n" for line in lines))
        return Wanted((path,))

    return write


def site(digest: str) -> Path:
    return built_folder(digest) / "prefix" / "lib" / series() / "site-packages"


def made(wanted: Wanted, name: str = "stats", **options: object) -> str:
    digest = from_requirements(name, wanted, **options).environment.packages  # type: ignore[arg-type]
    assert digest is not None
    return digest


def left_over() -> list[str]:
    found = built_home()
    return (
        [p.name for p in found.iterdir() if p.name.startswith(".making-")] if found.is_dir() else []
    )


# what is resolved ---------------------------------------------------------------------------------


def test_requirements_are_resolved_with_what_a_kernel_needs(
    wheelhouse: Wheelhouse, interpreter: Interpreter, requirements: Callable[..., Wanted]
) -> None:
    found = resolve(requirements("tiny"), interpreter)
    assert {pin.name: pin.version for pin in found.lock.pins} == {
        "tiny": "2.0",
        "leaf": "1.1",
        "ipykernel": "7.4.0",
        "pyzmq": "27.3.0",
        "pip": "26.3",
    }
    assert found.added == ("ipykernel", "pyzmq", "pip")
    assert all(pin.hashes for pin in found.lock.pins)


def test_what_was_asked_for_is_not_said_to_be_added(
    wheelhouse: Wheelhouse, interpreter: Interpreter, requirements: Callable[..., Wanted]
) -> None:
    wheel(wheelhouse.folder, "notebooks", "1", requires=["pyzmq"])
    found = resolve(requirements("notebooks", "ipykernel==7.4.0"), interpreter)
    assert found.added == ("pip",)


def test_a_project_with_extras_and_groups(
    wheelhouse: Wheelhouse, interpreter: Interpreter, tmp_path: Path
) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_text(
        '[project]\nname = "mine"\nversion = "1"\ndependencies = ["tiny==1.0"]\n'
        '[project.optional-dependencies]\nplots = ["leaf"]\n'
        '[dependency-groups]\ndev = ["grouped"]\n'
    )
    wheel(wheelhouse.folder, "grouped", "3")
    plain = resolve(Wanted(pyproject=path), interpreter).lock
    assert (plain.version("tiny"), plain.version("leaf"), plain.version("mine")) == (
        "1.0",
        None,
        None,
    )
    more = resolve(Wanted(pyproject=path, extras=("plots",), groups=("dev",)), interpreter).lock
    assert (more.version("leaf"), more.version("grouped")) == ("1.1", "3")


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["tiny==99"], "tiny==99"),
        (["no-such-package"], "no-such-package"),
        (["tiny==1.0", "tiny==2.0"], "tiny"),
        (["tiny", "leaf>=2"], "leaf"),
        (["tiny ==== 1"], "tiny"),
        (["-r missing.txt"], "missing.txt"),
    ],
)
def test_requirements_that_cannot_be_had_are_told_and_leave_nothing(
    wheelhouse: Wheelhouse,
    requirements: Callable[..., Wanted],
    home: Path,
    lines: list[str],
    said: str,
) -> None:
    with pytest.raises(UsageError) as refused:
        made(requirements(*lines))
    assert said in str(refused.value)
    assert "Nothing was made" in str(refused.value) or "nothing was made" in str(refused.value)
    assert not (home / "environments").exists()
    assert not (home / "built").exists()


def test_a_requirement_by_path_is_refused(
    wheelhouse: Wheelhouse, requirements: Callable[..., Wanted], tmp_path: Path
) -> None:
    local = wheel(tmp_path, "local", "1")
    with pytest.raises(UsageError, match="local is required by an address or a path"):
        made(requirements(f"local @ {local.as_uri()}"))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no file .*gone\.txt"):
        made(Wanted((tmp_path / "gone.txt",)))


def test_only_wheels_are_taken(
    no_configuration: None,
    tmp_path: Path,
    requirements: Callable[..., Wanted],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path / "sources"
    folder.mkdir()
    stand_ins(folder)
    (folder / "sourced-1.0.tar.gz").write_bytes(b"what it would do is nothing a lock holds")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    with pytest.raises(UsageError, match="Only wheels are taken"):
        made(requirements("sourced"))


# what is built ------------------------------------------------------------------------------------


def test_it_is_read_only_compiled_and_runs_from_where_it_lies(
    wheelhouse: Wheelhouse, requirements: Callable[..., Wanted]
) -> None:
    digest = made(requirements("tiny"))
    folder = built_folder(digest)
    for root, folders, files in os.walk(folder):
        for name in (*folders, *files):
            status = os.lstat(os.path.join(root, name))
            assert stat.S_ISLNK(status.st_mode) or not status.st_mode & 0o222, (root, name)
            assert stat.S_ISLNK(status.st_mode) or status.st_mode & 0o004, (root, name)
    (compiled,) = site(digest).glob("__pycache__/tiny.*.pyc")
    # PEP 552: hash-based, and never compared with the source.
    assert compiled.read_bytes()[4:8] == b"\x01\0\0\0"
    assert b"/.making-" not in compiled.read_bytes()
    program = folder / "prefix" / "bin" / "leaf"
    assert ".making-" not in program.read_text()
    python = folder / "prefix" / "bin" / "python"
    done = subprocess.run(
        [python, "-c", "import tiny, sys; print(tiny.VERSION, tiny.__file__, sys.prefix)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [
        "2.0",
        str(site(digest) / "tiny.py"),
        str(folder / "prefix"),
    ]


def test_nothing_of_a_package_runs_while_it_is_built_or_checked(
    wheelhouse: Wheelhouse, requirements: Callable[..., Wanted], tmp_path: Path
) -> None:
    trace = tmp_path / "it-ran"
    touch = f"import pathlib; pathlib.Path({str(trace)!r}).touch()\n"
    wheel(
        wheelhouse.folder,
        "hostile",
        "1",
        {
            "hostile.pth": touch,
            "hostile.py": touch,
            "sitecustomize.py": touch,
            "usercustomize.py": touch,
            "encodings.py": touch,
            "json.py": touch,
        },
    )
    digest = made(requirements("hostile"))
    built_kernel(digest, "stats")
    assert check_built(digest).problems == ()
    repair(digest)
    assert not trace.exists()
    # It would have: the trap is one.
    subprocess.run([built_folder(digest) / "prefix/bin/python", "-c", "pass"], check=True)
    assert trace.exists()


def test_the_same_is_built_once(
    wheelhouse: Wheelhouse, requirements: Callable[..., Wanted]
) -> None:
    first = from_requirements("one", requirements("tiny"))
    second = from_requirements("two", requirements("tiny"))
    assert first.built is not None
    assert second.built is not None
    assert (first.built.new, second.built.new) == (True, False)
    assert first.environment.packages == second.environment.packages


def test_another_home_comes_to_the_same_environment_from_the_lock(
    wheelhouse: Wheelhouse,
    requirements: Callable[..., Wanted],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = made(requirements("tiny"))
    spec = _spec("stats")
    lock = tmp_path / "stats.lock"
    lock.write_text(built_lock(first) or "")
    other = tmp_path / "other-home"
    other.mkdir(mode=0o700)
    monkeypatch.setenv("REPRISE_HOME", str(other))
    # The index has newer ones by now, which the lock does not name.
    wheel(wheelhouse.folder, "tiny", "3.0")
    built = from_lock("elsewhere", lock)
    assert built.environment.packages == first
    assert built_lock(first) == lock.read_text()
    # The environment of a session is the same too, to its digest.
    assert _spec("elsewhere") == spec


def _spec(name: str) -> str:
    from reprise.jupyter.kernelspec import language_kernel
    from reprise.sandbox.environment import environment_kernel, environment_spec

    named = load(name)
    return environment_spec(named, environment_kernel(named, language_kernel()), {}).digest


def test_wheels_that_no_index_has_are_kept_with_it(
    wheelhouse: Wheelhouse, requirements: Callable[..., Wanted], tmp_path: Path
) -> None:
    own = tmp_path / "own"
    own.mkdir()
    wheel(own, "private_one", "1.0")
    wheel(own, "unused", "1.0")
    digest = made(requirements("private-one"), find_links=[own])
    kept = built_folder(digest) / "wheels"
    assert [path.name for path in kept.iterdir()] == ["private_one-1.0-py3-none-any.whl"]
    shutil.rmtree(own)
    repair(digest)
    assert check_built(digest).problems == ()


# what goes wrong ----------------------------------------------------------------------------------


def test_a_file_that_is_not_the_one_of_the_lock_is_refused(
    wheelhouse: Wheelhouse,
    requirements: Callable[..., Wanted],
    tmp_path: Path,
    interpreter: Interpreter,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lock = resolve(requirements("tiny"), interpreter).lock
    path = tmp_path / "stats.lock"
    path.write_text(lock.text)
    wheel(wheelhouse.folder, "tiny", "2.0", {"tiny.py": "VERSION = 'another'\n"})
    monkeypatch.setenv("UV_NO_CACHE", "1")  # where the right one still is
    with pytest.raises(HashMismatch):
        from_lock("stats", path)
    assert left_over() == []
    assert not built_folder(lock.digest(interpreter.about)).exists()
    with pytest.raises(UsageError, match="no environment"):
        load("stats")


def test_an_index_on_loopback_and_one_that_is_down(
    wheelhouse: Wheelhouse,
    requirements: Callable[..., Wanted],
    serve_index: Callable[[Path], Index],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    index = serve_index(wheelhouse.folder)
    index.password = "hunter2"
    for name in ("PIP_NO_INDEX", "PIP_FIND_LINKS"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_INDEX_URL", index.url.replace("//", "//me:hunter2@"))
    digest = made(requirements("tiny"))
    assert (site(digest) / "tiny.py").is_file()
    assert "/simple/tiny/" in index.asked
    # Without its password, and with nobody there: neither is a lack of packages.
    monkeypatch.setenv("UV_NO_CACHE", "1")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    nowhere = "http://me:hunter2@127.0.0.1:1/simple"
    monkeypatch.setenv("PIP_INDEX_URL", nowhere)
    with pytest.raises(UnavailableError, match="could not be reached") as refused:
        made(requirements("leaf"), "other")
    assert "hunter2" not in str(refused.value)
    assert "127.0.0.1:1" in str(refused.value)


def test_a_lock_that_lacks_what_a_kernel_needs(
    wheelhouse: Wheelhouse, interpreter: Interpreter, tmp_path: Path
) -> None:
    path = tmp_path / "stats.lock"
    path.write_text(f"six==1 --hash=sha256:{'a' * 64}\n")
    with pytest.raises(UsageError, match="ipykernel, pyzmq, pip"):
        read_lock(path, interpreter)
    with pytest.raises(UsageError, match="cannot be read"):
        read_lock(tmp_path / "gone.lock", interpreter)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="no text"):
        read_lock(path, interpreter)


def test_a_lock_of_another_tool_is_looked_through(
    wheelhouse: Wheelhouse,
    requirements: Callable[..., Wanted],
    interpreter: Interpreter,
    tmp_path: Path,
) -> None:
    found = resolve(requirements("tiny"), interpreter).lock
    whole = "".join(line for line in found.text.splitlines(True) if not line.startswith("#"))
    path = tmp_path / "requirements.lock"
    path.write_text(whole)
    assert read_lock(path, interpreter) == found
    path.write_text(whole.replace(whole[whole.index("leaf==") : whole.index("pip==")], ""))
    with pytest.raises(UsageError, match="does not pin leaf"):
        read_lock(path, interpreter)


def test_an_unknown_python_is_told(tmp_path: Path) -> None:
    for named in ("3.99", str(tmp_path / "python"), "/bin/true", "/etc/passwd"):
        with pytest.raises(UsageError, match=r"Python|python"):
            find_interpreter(named, folder=tmp_path)


BUILDER = """
import sys
from pathlib import Path
from reprise.environments.create import from_requirements
from reprise.environments.resolve import Wanted
made = from_requirements(sys.argv[1], Wanted((Path(sys.argv[2]),)))
print(made.built.digest, made.built.new)
"""


def builder(name: str, wanted: Wanted, **variables: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", BUILDER, name, str(wanted.requirements[0])],
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize(
    "point", ["environment-building", "environment-built", "environment-named"]
)
def test_a_builder_killed_at_any_point_leaves_nothing_half(
    wheelhouse: Wheelhouse, requirements: Callable[..., Wanted], point: str
) -> None:
    wanted = requirements("tiny")
    killed = builder("stats", wanted, REPRISE_FAILPOINT=f"{point}:kill")
    killed.communicate(timeout=PATIENCE)
    assert killed.returncode == -signal.SIGKILL
    with pytest.raises(UsageError, match="no environment"):
        load("stats")
    if point != "environment-named":
        assert len(left_over()) == 1
    digest = made(wanted)
    assert left_over() == []
    assert check_built(digest).problems == ()


def test_two_at_once_build_once(
    wheelhouse: Wheelhouse, requirements: Callable[..., Wanted], tmp_path: Path
) -> None:
    wanted = requirements("tiny")
    builders = [builder(f"stats-{number}", wanted) for number in range(3)]
    told = [each.communicate(timeout=PATIENCE) for each in builders]
    assert [each.returncode for each in builders] == [0, 0, 0], told
    digests, news = zip(*(out.split() for out, _ in told), strict=True)
    assert len(set(digests)) == 1
    assert sorted(news) == ["False", "False", "True"]
    assert left_over() == []


def test_who_comes_second_waits_for_a_paused_builder(
    wheelhouse: Wheelhouse, requirements: Callable[..., Wanted], tmp_path: Path
) -> None:
    wanted = requirements("tiny")
    first = builder("one", wanted, REPRISE_FAILPOINT="environment-built:pause")
    try:
        _until(lambda: _state(first.pid) == "T")
        told: list[str] = []
        digests: list[str] = []

        def second() -> None:
            digests.append(made(wanted, "two", told=told.append))

        waiting = threading.Thread(target=second)
        waiting.start()
        _until(lambda: any("waiting" in text for text in told))
        assert digests == []
        first.send_signal(signal.SIGCONT)
        out, err = first.communicate(timeout=PATIENCE)
        waiting.join(PATIENCE)
    finally:
        first.kill()
    assert first.returncode == 0, err
    assert digests == [out.split()[0]]


def test_of_two_with_one_name_the_second_is_refused(
    wheelhouse: Wheelhouse, requirements: Callable[..., Wanted]
) -> None:
    first = builder("stats", requirements("tiny==1.0"), REPRISE_FAILPOINT="environment-named:pause")
    try:
        _until(lambda: _state(first.pid) == "T")
        digest = made(requirements("tiny==2.0"))
        first.send_signal(signal.SIGCONT)
        _, err = first.communicate(timeout=PATIENCE)
    finally:
        first.kill()
    assert first.returncode != 0
    assert "There is an environment 'stats' already" in err
    assert load("stats").packages == digest


def _until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_full_disk_is_told_and_leaves_nothing(
    wheelhouse: Wheelhouse,
    requirements: Callable[..., Wanted],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if os.geteuid() != 0:
        pytest.skip("NOT TESTED: a full disk, since only root can mount a small one")
    small = tmp_path / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m,mode=0700", "none", str(small)]
    if subprocess.run(mount, check=False).returncode != 0:
        pytest.skip("NOT TESTED: a full disk, since nothing can be mounted here")
    try:
        monkeypatch.setenv("REPRISE_HOME", str(small))
        wheel(wheelhouse.folder, "large", "1", {"large.txt": "x" * (6 << 20)})
        with pytest.raises(UnavailableError, match=r"(no|No) (room|space)") as refused:
            made(requirements("large"))
        assert "othing of it is left" in str(refused.value)
        assert left_over() == []
        assert not (small / "environments").exists()
        digest = made(requirements("tiny"))
        assert check_built(digest).problems == ()
    finally:
        subprocess.run(["umount", "-l", str(small)], check=True)


# is it what it says -------------------------------------------------------------------------------


def _writable(path: Path) -> None:
    path.chmod(0o755 if path.is_dir() else 0o644)


def _changed(digest: str) -> None:
    path = site(digest) / "tiny.py"
    _writable(path)
    path.write_text("VERSION = 'changed by hand'\n")


def _removed(digest: str) -> None:
    _writable(site(digest))
    (site(digest) / "tiny.py").unlink()


def _added(digest: str) -> None:
    _writable(site(digest))
    (site(digest) / "added.pth").write_text("import os\n")


def _compiled(digest: str) -> None:
    path = next(site(digest).glob("__pycache__/tiny.*.pyc"))
    _writable(path)
    path.write_bytes(b"other code")


def _lock(digest: str) -> None:
    path = built_folder(digest) / "lock"
    _writable(path)
    path.write_text(path.read_text().replace("tiny==2.0", "tiny==1.0"))


def _listed_as_changed(digest: str) -> None:
    """Who changes a file and the list of files is found out by the package's RECORD."""
    import json

    from reprise.environments.files import list_files

    _changed(digest)
    path = built_folder(digest) / "files.json"
    _writable(path)
    path.write_text(json.dumps(list_files(built_folder(digest) / "prefix")))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (_changed, "tiny.py has changed"),
        (_removed, "tiny.py is missing"),
        (_added, "added.pth was added"),
        (_compiled, ".pyc has changed"),
        (_lock, "lock is not the one"),
        (_listed_as_changed, "tiny.py does not match its package's RECORD"),
    ],
)
def test_a_check_names_what_differs(
    wheelhouse: Wheelhouse,
    requirements: Callable[..., Wanted],
    damage: Callable[[str], None],
    said: str,
) -> None:
    digest = made(requirements("tiny"))
    assert check_built(digest).problems == ()
    damage(digest)
    assert any(said in problem for problem in check_built(digest).problems)
    if damage is _lock:
        with pytest.raises(UsageError, match="cannot be repaired"):
            repair(digest)
        return
    repair(digest)
    assert check_built(digest).problems == ()


@pytest.mark.parametrize("file", ["lock", "about.json", "files.json"])
def test_what_cannot_be_read_is_named(
    wheelhouse: Wheelhouse, requirements: Callable[..., Wanted], file: str
) -> None:
    digest = made(requirements("tiny"))
    _writable(built_folder(digest))
    (built_folder(digest) / file).unlink()
    assert any(file in problem for problem in check_built(digest).problems)


def test_an_interpreter_that_is_gone_is_told_and_built_on_anew(
    wheelhouse: Wheelhouse, requirements: Callable[..., Wanted]
) -> None:
    wanted = requirements("tiny")
    digest = made(wanted)
    binaries = built_folder(digest) / "prefix" / "bin"
    _writable(binaries)
    (binaries / "python").unlink()
    (binaries / "python").symlink_to("/no/such/python")
    assert any("is gone (/no/such/python)" in each for each in check_built(digest).problems)
    with pytest.raises(UnavailableError, match="interpreter that is gone"):
        built_kernel(digest, "stats")
    again = from_requirements("stats", wanted, replaces=True)
    assert again.built is not None
    assert again.built.new
    assert check_built(digest).problems == ()


def test_one_that_is_not_here_says_so(home: Path) -> None:
    with pytest.raises(UnavailableError, match="is not on this machine"):
        built_kernel("a" * 64, "stats")
    assert "not on this machine" in check_built("a" * 64).problems[0]


# what nothing names -------------------------------------------------------------------------------


USER = """
import sys
from reprise.sandbox.built import built_kernel
built_kernel(sys.argv[1], "stats")
print("used", flush=True)
sys.stdin.read()
"""


def test_what_is_named_or_used_or_young_is_not_collected(
    wheelhouse: Wheelhouse, requirements: Callable[..., Wanted]
) -> None:
    digest = made(requirements("tiny"))
    everything = {"grace_s": -10.0, "dry_run": False}
    assert collect(built_home(), {digest}, **everything).built == 0
    assert collect(built_home(), set(), grace_s=3600.0, dry_run=False).built == 0
    assert collect(built_home(), set(), grace_s=-10.0, dry_run=True).built == 1
    user = subprocess.Popen(
        [
            sys.executable,
            "-c",
            USER,
            digest,
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert user.stdout is not None
    assert user.stdout.readline() == "used\n"
    try:
        assert collect(built_home(), set(), **everything).built == 0
        assert built_folder(digest).is_dir()
    finally:
        user.kill()
        user.communicate(timeout=PATIENCE)
    gone = collect(built_home(), set(), **everything)
    assert gone.built == 1
    assert gone.bytes > 0
    assert not built_folder(digest).exists()
    assert left_over() == []


def test_what_a_killed_builder_left_is_collected(home: Path) -> None:
    left = built_home() / ".making-0123456789abcdef"
    (left / "prefix").mkdir(parents=True)
    (left / "prefix").chmod(0o500)
    assert collect(built_home(), set(), grace_s=3600.0, dry_run=False).left == 1
    assert not left.exists()


def test_what_a_replaced_name_says_stays(
    wheelhouse: Wheelhouse, requirements: Callable[..., Wanted]
) -> None:
    save(NamedEnvironment("stats", limits={"memory": 1 << 30}, reuse="never"))
    with pytest.raises(UsageError, match="--replace"):
        made(requirements("tiny"))
    digest = made(requirements("tiny"), replaces=True)
    assert load("stats") == NamedEnvironment(
        "stats", limits={"memory": 1 << 30}, reuse="never", packages=digest
    )


def test_build_refuses_a_folder_of_wheels_that_is_not_there(
    wheelhouse: Wheelhouse,
    requirements: Callable[..., Wanted],
    interpreter: Interpreter,
    tmp_path: Path,
) -> None:
    lock = resolve(requirements("tiny"), interpreter).lock
    with pytest.raises(UsageError, match="There is no folder"):
        build(lock, interpreter, find_links=[tmp_path / "gone"])
    assert left_over() == []
