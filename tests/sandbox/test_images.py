"""Sandboxes whose root is an image: fetched by its digest, unpacked once, whole or not at all."""

from __future__ import annotations

import asyncio
import dataclasses
import shutil
import subprocess
from pathlib import Path

import pytest

from reprise.errors import SandboxError, UsageError
from reprise.sandbox import images
from reprise.sandbox.contract import LanguageKernel, Mount
from reprise.sandbox.images import check_name, unpacked
from tests.conformance.backends import backend_of
from tests.fixtures.images import PYTHON, Layout, python_root
from tests.fixtures.mounts import tree_of
from tests.fixtures.sandbox import PATIENCE, StartCells, usable

KERNEL = LanguageKernel(
    "python3", "python", (PYTHON, "-m", "ipykernel_launcher", "-f", "{connection_file}"), ()
)

needs_programs = pytest.mark.skipif(
    bool(images.missing_programs()), reason="apt install skopeo umoci"
)


@pytest.fixture(scope="session")
def shared_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Unpacking takes seconds: tests that only look share it."""
    return tmp_path_factory.mktemp("images-home")


@pytest.fixture
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REPRISE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture(params=["oci-crun", "oci-runc", "oci-runsc"])
def name(request: pytest.FixtureRequest) -> str:
    return backend_of(request)


def small_image(layout: Layout, folder: Path, **files: str) -> str:
    """An image with nothing but these files."""
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    return layout.image(folder, {"A": "b=c", "EMPTY": ""})


def left(home: Path) -> list[str]:
    """What lies where images are kept, locks aside."""
    return sorted(path.name for path in (home / "images").iterdir() if path.suffix != ".lock")


@needs_programs
async def test_a_sandbox_runs_on_an_image(
    name: str,
    python_image: str,
    start_cells: StartCells,
    shared_home: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("REPRISE_HOME", str(shared_home))
    data = tmp_path / "data"
    data.mkdir()
    (data / "rows").write_text("1 2 3")
    tmp_path.chmod(0o755)
    cells = await start_cells(
        name,
        kernel=KERNEL,
        image=python_image,
        variables={"PROJECT": "p"},
        mounts=(Mount(data, "/mnt/data"),),
    )
    code = """
import os, sys, json, pathlib
print(sys.base_prefix, os.environ['FROM_IMAGE'], os.environ['PROJECT'], os.environ['HOME'])
print(open('/etc/in-the-image').read(), 'user' in open('/etc/passwd').read(), os.getuid())
print(open('/mnt/data/rows').read(), os.path.exists('/usr/bin/env'), os.path.exists('/workspace'))
"""
    assert (await cells.prints(code)).splitlines() == [
        "/usr/local yes p /workspace/.reprise/home",
        "yes True 1000",
        "1 2 3 False True",
    ]
    for path in ("/etc/in-the-image", "/usr/local/new", "/new", "/root/new"):
        assert (await cells.run(f"open({path!r}, 'a')")).error in ("OSError", "PermissionError")
    path = await asyncio.wait_for(
        cells.guest.container.mount("/skills/x", tree_of({"f": b"mounted"})), PATIENCE
    )
    assert await cells.prints(f"print(open({path!r} + '/f').read())") == "mounted"
    ran = await cells.run("import subprocess; print(subprocess.run(['sh', '-c', 'echo $0']))")
    assert ran.error == ""


@needs_programs
async def test_an_image_comes_from_a_registry_by_its_digest(
    registry: str, layout: Layout, own_home: Path, tmp_path: Path
) -> None:
    image = small_image(layout, tmp_path / "root", hello="from a registry")
    digest = image.rpartition("@")[2]
    copy = ["skopeo", "--insecure-policy", "copy", "--preserve-digests", "--dest-tls-verify=false"]
    source = images._layout(image, check_name(image), tmp_path)
    subprocess.run([*copy, source, f"docker://{registry}/team/small:1"], check=True)
    said: list[str] = []
    found = await unpacked(f"{registry}/team/small@{digest}", said.append)
    assert (found.root / "hello").read_text() == "from a registry"
    assert found.env["A"] == "b=c"
    assert any("Fetching the image" in text for text in said)
    # And without the registry, once it is here.
    assert await unpacked(f"{registry}/team/small@{digest}") == found
    with pytest.raises(SandboxError, match="skopeo failed"):
        await unpacked(f"{registry}/team/small@sha256:{'0' * 64}")
    assert left(own_home) == [found.digest]


@needs_programs
async def test_starts_at_once_fetch_an_image_once(
    layout: Layout, own_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = small_image(layout, tmp_path / "root", hello="once")
    runs: list[str] = []
    run = images._run

    async def counted(name: str, command: list[str], said: images.Said) -> None:
        runs.append(command[0])
        await run(name, command, said)

    monkeypatch.setattr(images, "_run", counted)
    said: list[str] = []
    found = await asyncio.gather(*(unpacked(image, said.append) for _ in range(5)))
    assert len({each.folder for each in found}) == 1
    assert runs == ["skopeo", "umoci"]
    assert any("Waiting" in text for text in said)


@needs_programs
async def test_what_is_half_made_is_thrown_away(
    layout: Layout, own_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cancelled in the middle, or left by a process that was killed."""
    image = small_image(layout, tmp_path / "root", hello="whole")
    run = images._run
    unpacking = asyncio.Event()

    async def stuck(name: str, command: list[str], said: images.Said) -> None:
        await run(name, command, said)
        if command[0] == "umoci":
            unpacking.set()
            await asyncio.get_running_loop().create_future()

    with monkeypatch.context() as patch:
        patch.setattr(images, "_run", stuck)
        starting = asyncio.ensure_future(unpacked(image))
        await asyncio.wait_for(unpacking.wait(), PATIENCE)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
    assert left(own_home) == []
    old = own_home / "images" / f".making-{check_name(image)}-dead"
    (old / "closed" / "in").mkdir(parents=True)
    (old / "closed").chmod(0)
    found = await unpacked(image)
    assert left(own_home) == [found.digest]
    # One that has lost a part is made anew.
    shutil.rmtree(found.root)
    assert ((await unpacked(image)).root / "hello").read_text() == "whole"


@needs_programs
async def test_bytes_that_are_not_the_digests_are_refused(tmp_path: Path, own_home: Path) -> None:
    layout = Layout(tmp_path / "layout")
    image = small_image(layout, tmp_path / "root", hello="as it was")
    layer = max(
        (layout.folder / "blobs" / "sha256").iterdir(), key=lambda path: path.stat().st_size
    )
    layer.write_bytes(layer.read_bytes().replace(b"as it was", b"as it is!"))
    with pytest.raises(SandboxError, match="could not be had"):
        await unpacked(image)
    assert left(own_home) == []


@needs_programs
async def test_an_image_that_is_nowhere_says_so(tmp_path: Path, own_home: Path) -> None:
    layout = Layout(tmp_path / "layout")
    with pytest.raises(SandboxError, match="not in that OCI layout"):
        await unpacked(f"oci:{layout.folder}@sha256:{'0' * 64}")
    assert left(own_home) == []


@needs_programs
async def test_an_image_without_what_the_guest_needs_names_it(
    layout: Layout, own_home: Path, tmp_path: Path, start_cells: StartCells
) -> None:
    root = tmp_path / "root"
    python_root(root, packages=False)
    image = layout.image(root, {})
    if why_not := usable("oci"):
        pytest.skip(why_not)
    with pytest.raises(SandboxError, match=r"python3: it has no pyzmq.*pip install ipykernel"):
        await start_cells("oci", kernel=KERNEL, image=image)
    nowhere = dataclasses.replace(KERNEL, argv=("/opt/none/bin/python", *KERNEL.argv[1:]))
    with pytest.raises(SandboxError, match="/opt/none/bin/python: "):
        await start_cells("oci", kernel=nowhere, image=image)


@needs_programs
async def test_a_data_mount_without_a_place_in_the_image_says_so(
    python_image: str,
    start_cells: StartCells,
    shared_home: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("REPRISE_HOME", str(shared_home))
    with pytest.raises(UsageError, match="no such place"):
        await start_cells(
            "oci", kernel=KERNEL, image=python_image, mounts=(Mount(tmp_path, "/data/rows"),)
        )


async def test_missing_programs_are_named_with_what_brings_them(
    own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(SandboxError, match="apt install skopeo umoci"):
        await unpacked(f"registry.example.org/x@sha256:{'0' * 64}")


@pytest.mark.parametrize(
    "image",
    [
        "python:3.12",
        "python",
        "",
        "python@sha256:" + "0" * 63,
        "python@sha256:" + "g" * 64,
        "python@md5:" + "0" * 64,
        "--help@sha256:" + "0" * 64,
        "a b@sha256:" + "0" * 64,
        "x@sha256:" + "0" * 64 + "\n",
        "oci:relative@sha256:" + "0" * 64,
        "docker-daemon:x@sha256:" + "0" * 64,
        "dir:/etc@sha256:" + "0" * 64,
    ],
)
def test_what_names_no_image_is_refused(image: str) -> None:
    with pytest.raises(UsageError, match="names no image"):
        check_name(image)


def test_names_of_images() -> None:
    digest = "@sha256:" + "a" * 64
    for name in (
        "python",
        "team/python",
        "registry.example.org/team/python",
        "registry.example.org:5000/a-b/c_d",
        "localhost:5000/x",
        "oci:/srv/images/a layout",
    ):
        assert check_name(name + digest) == "a" * 64
