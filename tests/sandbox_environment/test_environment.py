"""An environment has one digest, cheap to take, and every difference is said in words."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reprise.errors import UnavailableError
from reprise.sandbox.contract import LanguageKernel
from reprise.sandbox.environment import (
    EnvironmentSpec,
    NamedEnvironment,
    difference,
    environment_spec,
    sandbox_spec,
)

OURS = LanguageKernel(
    "python3",
    "python",
    (sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"),
    (Path(sys.prefix),),
)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "home"
    monkeypatch.setenv("REPRISE_HOME", str(path))
    return path


@pytest.fixture
def prefix(tmp_path: Path) -> LanguageKernel:
    """A prefix of our own that packages can be installed into by hand."""
    root = tmp_path / "prefix"
    series = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    (root / "bin").mkdir(parents=True)
    (root / "bin/python").symlink_to(sys.executable)
    (root / "pyvenv.cfg").write_text(f"home = {Path(sys.base_prefix) / 'bin'}\n")
    (root / "lib" / series / "site-packages").mkdir(parents=True)
    return replace(OURS, argv=(str(root / "bin/python"), *OURS.argv[1:]), prefixes=(root,))


def site(kernel: LanguageKernel) -> Path:
    return next(kernel.prefixes[0].glob("lib/*/site-packages"))


def install(kernel: LanguageKernel, name: str, version: str, record: str = "") -> None:
    folder = site(kernel) / f"{name}-{version}.dist-info"
    folder.mkdir()
    (folder / "RECORD").write_text(record)


def spec(kernel: LanguageKernel = OURS, named: NamedEnvironment | None = None, **env: str) -> Any:
    return environment_spec(named or NamedEnvironment(), kernel, env)


def told(old: EnvironmentSpec, new: EnvironmentSpec) -> list[str]:
    assert (old.digest == new.digest) == (old.to_json() == new.to_json())
    return difference(old.to_json(), new.to_json())


def test_the_digest_is_the_same_each_time() -> None:
    first = spec()
    assert {"ipykernel", "hypothesis"} <= {package.name for package in first.packages}
    for _ in range(5):
        assert spec().digest == first.digest
    assert told(first, spec()) == []


def test_a_broken_cache_is_made_anew(home: Path) -> None:
    first = spec()
    for file in (home / "cache").iterdir():
        for broken in ("", "[1]", '{"' + sys.executable + '": 3}', "[" * 100_000):
            file.write_text(broken)
            assert spec().digest == first.digest


def test_packages_that_come_go_and_change_are_told(prefix: LanguageKernel) -> None:
    install(prefix, "pandas", "2.2.3")
    install(prefix, "old_one", "1")
    install(prefix, "patched", "1", "a.py,sha256=1,1")
    before = spec(prefix)
    shutil.rmtree(site(prefix) / "pandas-2.2.3.dist-info")
    shutil.rmtree(site(prefix) / "old_one-1.dist-info")
    shutil.rmtree(site(prefix) / "patched-1.dist-info")
    install(prefix, "pandas", "3.0.1")
    install(prefix, "new", "0.1")
    install(prefix, "patched", "1", "a.py,sha256=2,1")
    after = spec(prefix)
    assert told(before, after) == [
        "new 0.1 added",
        "old-one 1 removed",
        "pandas 2.2.3 → 3.0.1",
        "patched 1 reinstalled with other files",
    ]
    assert told(after, before)[2] == "pandas 3.0.1 → 2.2.3"


def test_limits_variables_and_mounts_are_told(prefix: LanguageKernel, tmp_path: Path) -> None:
    before = spec(prefix, NamedEnvironment(limits={"memory": 4 << 30}), TZ="UTC")
    after = spec(
        prefix,
        NamedEnvironment(limits={"memory": 8 << 30, "wall": 90.0}),
        TZ="Europe/Berlin",
        LC_ALL="C",
    )
    assert told(before, after) == [
        "limit memory 4 GiB → 8 GiB",
        "limit wall none → 90 s",
        "variable LC_ALL unset → 'C'",
        "variable TZ 'UTC' → 'Europe/Berlin'",
    ]


def test_only_an_allowlist_of_host_variables_goes_in() -> None:
    environ = {
        "LANG": "C.UTF-8",
        "LC_TIME": "C",
        "TERM": "xterm",
        "AWS_SECRET_ACCESS_KEY": "x",
        "JUPYTER_TOKEN": "x",
        "REPRISE_DSN": "postgres://secret",
        "PGPASSWORD": "x",
        "HOME": "/root",
        "PATH": "/bin",
        "PYTHONPATH": "/evil",
        "LD_PRELOAD": "/evil.so",
    }
    inside = sandbox_spec(NamedEnvironment(variables={"MODE": "test"}), OURS, None, environ)
    fixed = {"PYTHONHASHSEED": "0"}
    named = {"LANG": "C.UTF-8", "LC_TIME": "C", "TERM": "xterm", "MODE": "test"}
    assert inside.variables == {**fixed, **named}
    recorded = environment_spec(NamedEnvironment(), OURS, environ)
    # Another terminal is no other environment.
    assert recorded.variables == {**fixed, "LANG": "C.UTF-8", "LC_TIME": "C"}


def test_an_interpreter_that_is_gone_is_said(prefix: LanguageKernel) -> None:
    (prefix.prefixes[0] / "bin/python").unlink()
    with pytest.raises(UnavailableError, match="python3 cannot be read"):
        spec(prefix)


def test_a_kernel_of_another_language_is_named_by_its_program(tmp_path: Path) -> None:
    program = tmp_path / "bin/cat-kernel"
    program.parent.mkdir()
    program.write_text("one")
    meta = tmp_path / "conda-meta"
    meta.mkdir()
    (meta / "r-base-4.4.1-h1_0.json").write_text("{}")
    kernel = LanguageKernel("cat", "text", (str(program), "{connection_file}"), (tmp_path,))
    before = spec(kernel)
    assert [p.name for p in before.packages] == ["conda:r-base"]
    program.write_text("two, another build")
    assert told(before, spec(kernel)) == ["the language kernel's program changed"]


def egress(**rules: Any) -> dict[str, Any]:
    return {"egress": rules or "none"}


@pytest.mark.parametrize(
    ("old", "new", "phrases"),
    [
        (egress(), egress(allow=["example.org"]), ["network: example.org allowed"]),
        (
            egress(allow=["example.org", "package-index"]),
            egress(allow=["package-index"], private=["10.0.0.1:80"]),
            [
                "network: example.org not allowed",
                "network: 10.0.0.1:80 (a private address) allowed",
            ],
        ),
        (
            egress(allow=["a.org"]),
            egress(allow=["a.org"], record=True, bytes=10, rate=5),
            [
                "network: responses recorded",
                "network: connections a minute the usual → 5",
                "network: bytes of a step the usual → 10",
            ],
        ),
        (
            egress(
                allow=["a.org"],
                secrets=[{"host": "a.org", "header": "Key", "prefix": "", "source": "env:A"}],
            ),
            egress(
                allow=["a.org"],
                secrets=[{"host": "a.org", "header": "Key", "prefix": "", "source": "env:B"}],
            ),
            ["network: the credential Key for a.org changed"],
        ),
        ({"base": "/a"}, {"base": "/b"}, ["environment prefix /a → environment prefix /b"]),
        (
            {"base": "/a"},
            {"base": "built:1", "built": "1" * 64},
            ["environment prefix /a → built environment 111111111111"],
        ),
        (
            {"built": "1" * 64, "packages": [["a", "1", "r"]]},
            {"built": "2" * 64, "packages": [["a", "2", "r"]]},
            ["a 1 → 2"],
        ),
        (
            {"built": "1" * 64, "packages": [["a", "1", "r"]]},
            {"built": "2" * 64, "packages": [["a", "1", "r"]]},
            ["built environment 111111111111 → built environment 222222222222"],
        ),
        (
            {"built": "1" * 64},
            {"image": f"example.org/a@sha256:{'2' * 64}"},
            ["built environment 111111111111 → image example.org/a@222222222222"],
        ),
        ({}, {"reuse": "never"}, ["every step gets an interpreter of its own"]),
        ({"output": "live"}, {"output": "static"}, ["scripts in outputs never run"]),
    ],
)
def test_rules_and_what_it_stands_on_are_told(
    old: dict[str, Any], new: dict[str, Any], phrases: list[str]
) -> None:
    assert difference(old, new) == phrases
    assert difference(old, old) == []
