"""An environment on an image: looked into as files, and never through them at this machine."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from reprise.environments.check import check_image
from reprise.environments.image import examined, look_into
from reprise.errors import SandboxError, UnavailableError, UsageError
from reprise.jupyter.kernelspec import language_kernel
from reprise.sandbox.bubblewrap import BubblewrapBackend
from reprise.sandbox.contract import Backend
from reprise.sandbox.environment import environment_kernel, environment_spec, sandbox_spec
from reprise.sandbox.imaged import facts_file
from reprise.sandbox.images import Image, missing_programs
from reprise.sandbox.named import NamedEnvironment
from reprise.sandbox.process import ProcessBackend
from tests.fixtures.images import PYTHON, Layout

NAME = f"example.org/science@sha256:{'a' * 64}"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "home"
    path.mkdir(mode=0o700)
    monkeypatch.setenv("REPRISE_HOME", str(path))
    return path


class Root:
    """The root of an image in the making."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "rootfs").mkdir(parents=True)
        self.env = {"PATH": "/usr/local/bin:/usr/bin"}

    def path(self, inside: str) -> Path:
        path = self.folder / "rootfs" / inside.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def python(self, folder: str = "/usr/local/bin", minor: int = 12) -> None:
        program = self.path(f"{folder}/python3.{minor}")
        program.write_text("no program at all: nothing runs it")
        program.chmod(0o755)
        self.path(f"{folder}/python3").symlink_to(f"python3.{minor}")

    def package(self, name: str, version: str, prefix: str = "/usr/local", minor: int = 12) -> Path:
        info = f"{prefix}/lib/python3.{minor}/site-packages/{name}-{version}.dist-info"
        record = self.path(f"{info}/RECORD")
        record.write_text(f"{name}.py,sha256=x,1\n")
        return record

    @property
    def image(self) -> Image:
        return Image("a" * 64, self.folder, self.env)


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path / "image")


@pytest.fixture
def whole(root: Root) -> Root:
    root.python()
    for name in ("ipykernel", "pyzmq", "Foo.Bar"):
        root.package(name, "1.0")
    return root


def test_the_python_on_path_and_its_packages_are_found(whole: Root) -> None:
    whole.env["PYTHON_VERSION"] = "3.12.4"
    python, prefix = examined(whole.image, NAME)
    assert python == "/usr/local/bin/python3"
    assert [(p.name, p.version) for p in prefix.packages] == [
        ("foo-bar", "1.0"),
        ("ipykernel", "1.0"),
        ("pyzmq", "1.0"),
    ]
    assert prefix.interpreter["version"] == "3.12.4"
    assert prefix.interpreter["cache_tag"] == "cpython-312"
    assert prefix.base == NAME


def test_a_virtual_environment_before_it_is_taken(whole: Root) -> None:
    whole.env["PATH"] = "/opt/venv/bin:/usr/local/bin"
    whole.path("/opt/venv/bin/python").symlink_to("/usr/local/bin/python3")
    whole.path("/opt/venv/bin/python3").symlink_to("python")
    whole.path("/opt/venv/pyvenv.cfg").write_text("home = /usr/local/bin\nversion = 3.12.4\n")
    for name in ("ipykernel", "pyzmq", "mine"):
        whole.package(name, "2.0", "/opt/venv")
    python, prefix = examined(whole.image, NAME)
    assert python == "/opt/venv/bin/python3"
    assert {p.name: p.version for p in prefix.packages} == {
        "ipykernel": "2.0",
        "pyzmq": "2.0",
        "mine": "2.0",
    }


def test_one_without_a_kernel_is_passed_over_for_one_with_it(whole: Root) -> None:
    whole.env["PATH"] = "/opt/conda/bin:/usr/local/bin"
    whole.python("/opt/conda/bin", 13)
    assert examined(whole.image, NAME)[0] == "/usr/local/bin/python3"


def test_what_is_missing_is_named_with_the_recipe(root: Root) -> None:
    with pytest.raises(UsageError, match="There is no Python"):
        examined(root.image, NAME)
    root.python()
    root.package("pyzmq", "1")
    with pytest.raises(UsageError, match=r"python3 lacks ipykernel\.(?s:.)*pip install ipykernel"):
        examined(root.image, NAME)


def test_an_old_python_is_told(root: Root) -> None:
    root.python(minor=9)
    for name in ("ipykernel", "pyzmq"):
        root.package(name, "1", minor=9)
    with pytest.raises(UsageError, match=r"lacks Python 3\.11 or newer \(it is 3\.9\)"):
        examined(root.image, NAME)


def test_no_link_of_an_image_leads_to_this_machine(whole: Root, tmp_path: Path) -> None:
    """Neither a file that never ends nor a folder of this machine is looked at."""
    outside = tmp_path / "outside"
    (outside / "secret-9.dist-info").mkdir(parents=True)
    (outside / "secret-9.dist-info" / "RECORD").write_text("secret")
    site = whole.path("/usr/local/lib/python3.12/site-packages/x").parent
    (site / "linked-1.dist-info").symlink_to(outside / "secret-9.dist-info")
    record = whole.package("endless", "1")
    record.unlink()
    record.symlink_to("/dev/zero")
    pipe = whole.package("pipe", "1")
    pipe.unlink()
    os.mkfifo(pipe)
    whole.path("/usr/lib/python3").mkdir(parents=True)
    whole.path("/usr/lib/python3/dist-packages").symlink_to(outside)
    whole.path("/loop").symlink_to("/loop")
    whole.path("/usr/bin/python3").symlink_to("/loop/python3")
    whole.env["PATH"] = f"/loop:relative:{outside}:/usr/bin:/usr/local/bin"
    _, prefix = examined(whole.image, NAME)
    found = {p.name: p.record for p in prefix.packages}
    assert "secret" not in found
    assert found["endless"] == found["pipe"] == found["linked"] == ""


@pytest.mark.skipif(bool(missing_programs()), reason="NOT TESTED: images (no skopeo, umoci)")
def test_an_image_gives_a_kernel_and_a_spec(python_image: str, home: Path) -> None:
    named = NamedEnvironment("old", image=python_image)
    with pytest.raises(UnavailableError, match="reprise env check old"):
        environment_kernel(named, language_kernel())
    look_into(python_image)
    kernel = environment_kernel(named, language_kernel())
    assert kernel.argv[0] == PYTHON
    assert kernel.prefixes == ()
    spec = environment_spec(named, kernel, {})
    assert {"ipykernel", "pyzmq"} <= {package.name for package in spec.packages}
    assert spec.to_json()["base"] == spec.to_json()["image"] == python_image
    assert environment_spec(named, kernel, {}).digest == spec.digest
    assert sandbox_spec(named, kernel).image == python_image
    assert check_image(python_image).problems == ()
    # Somebody changed what was unpacked.
    info = next(home.glob("images/*/rootfs/usr/local/lib/python3*/site-packages/pyzmq-*.dist-info"))
    shutil.rmtree(info)
    assert "lacks pyzmq" in check_image(python_image).problems[0]


@pytest.mark.skipif(bool(missing_programs()), reason="NOT TESTED: images (no skopeo, umoci)")
def test_an_image_that_is_not_there(layout: Layout) -> None:
    with pytest.raises(SandboxError, match="not in that OCI layout"):
        look_into(f"oci:{layout.folder}@sha256:{'b' * 64}")


@pytest.mark.parametrize("facts", ["", "[]", "{}", '{"python": 3}', "[" * 100_000])
def test_facts_that_are_damaged_are_asked_for_again(facts: str) -> None:
    path = facts_file(NAME)
    path.parent.mkdir(parents=True)
    path.write_text(facts)
    with pytest.raises(UnavailableError, match="reprise env check old"):
        environment_kernel(NamedEnvironment("old", image=NAME), language_kernel())


@pytest.mark.parametrize("backend", [BubblewrapBackend(), ProcessBackend()])
async def test_a_backend_without_images_refuses_them(backend: Backend, tmp_path: Path) -> None:
    from reprise.sandbox.contract import LanguageKernel, SandboxSpec

    kernel = LanguageKernel("python3", "python", (PYTHON, "-m", "ipykernel_launcher"), ())
    with pytest.raises(SandboxError, match="REPRISE_BACKEND=oci or dagger"):
        await backend.start(SandboxSpec(kernel, image=NAME, workspace=tmp_path))


def test_other_kernels_are_refused() -> None:
    from dataclasses import replace

    other = replace(language_kernel(), name="bash", language="bash")
    for named, what in (
        (NamedEnvironment("old", image=NAME), "an image"),
        (NamedEnvironment("old", packages="a" * 64), "packages of its own"),
    ):
        with pytest.raises(UsageError, match=f"has {what}.*'bash'"):
            environment_kernel(named, other)
    assert environment_kernel(NamedEnvironment("usual"), other) is other


def test_what_is_kept_of_an_image_is_read_back(whole: Root) -> None:
    from reprise.sandbox.imaged import image_prefix, keep_facts

    python, prefix = examined(whole.image, NAME)
    keep_facts(NAME, python, prefix)
    assert image_prefix(NAME, "old") == prefix
    assert json.loads(facts_file(NAME).read_text())["python"] == python
