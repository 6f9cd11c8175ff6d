"""Images as root file systems: fetched by digest with skopeo, unpacked with umoci, once.

REPRISE_HOME/images/DIGEST/rootfs is what an image holds, image.json what it says of itself. It is
made under a lock beside its place and renamed, so that it is there whole or not at all; who comes
meanwhile waits. skopeo and umoci check that every byte is what the digest stands for.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import re
import secrets
import shutil
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from reprise.errors import SandboxError, UsageError
from reprise.sandbox.contract import Said, silent
from reprise.sandbox.documents import read_json, write_json
from reprise.settings import home

#: NAME@sha256:… (the grammar of references, distribution/reference), and a layout on this machine.
_NAME = re.compile(
    r"(?P<host>[A-Za-z0-9.-]+(?::\d{1,5})?/)?[a-z0-9]+(?:[._/-]+[a-z0-9]+)*@sha256:(?P<hex>[0-9a-f]{64})"
)
_LAYOUT = re.compile(r"oci:(?P<path>/[^@\0]*)@sha256:(?P<hex>[0-9a-f]{64})")

#: Registries on this machine speak plain HTTP, as Docker has it.
_PLAIN = re.compile(r"(?:localhost|127\.0\.0\.1|\[::1\])(?::\d+)?/")

#: Longest that fetching, and unpacking, may take, in seconds.
_PATIENCE = 3600.0

#: The end of what a program said that is kept for messages, in bytes.
_TAIL = 4000

_MAKING = ".making-"

#: What signatures are asked for is the machine's policy, where it has one (containers-policy.json
#: (5)); an image named by its digest needs none.
_POLICIES = ("/etc/containers/policy.json", "~/.config/containers/policy.json")

#: Debian's packages of the programs.
_PROGRAMS = ("skopeo", "umoci")

#: What we show in our own way, and what is the kernel's.
_NOT_SHOWN = frozenset({"dev", "proc", "sys", "run", "tmp", "workspace", "skills"})

#: Files of ours that lie upon the image's (`view`), which must be there.
_PLACES = ("passwd", "group", "hosts", "nsswitch.conf")


@dataclass(frozen=True)
class Image:
    """An unpacked image.

    digest: 64 hexadecimal digits.  folder: of ours, holds `rootfs` and what was found out about
    it.  env: the variables that it sets.
    """

    digest: str
    folder: Path
    env: Mapping[str, str]

    @property
    def root(self) -> Path:
        return self.folder / "rootfs"

    def entries(self) -> list[Path]:
        """What of its root a sandbox sees, in the order of names."""
        found = sorted(path for path in self.root.iterdir() if path.name not in _NOT_SHOWN)
        # An empty /mnt, which images have by custom, is a place for trees.
        return [path for path in found if path.name != "mnt" or any(path.iterdir())]


def check_name(image: str) -> str:
    """The digest (64 hexadecimal digits) in an image's name. Raises UsageError."""
    found = _LAYOUT.fullmatch(image) or _NAME.fullmatch(image)
    if found is None:
        raise UsageError(
            f"{image!r} names no image. Write NAME@sha256:… for one in a registry, or "
            "oci:/PATH@sha256:… for one in an OCI layout on this machine. A tag is not enough: it "
            "may stand for another image tomorrow."
        )
    return found["hex"]


def missing_programs() -> list[str]:
    """Which programs that images need are not here."""
    return [name for name in _PROGRAMS if shutil.which(name) is None]


async def unpacked(image: str, said: Said = silent) -> Image:
    """The image, fetched and unpacked if it is not here yet.

    Raises UsageError for what names none, SandboxError when it cannot be had; nothing is left then.
    """
    digest = check_name(image)
    folder = home() / "images" / digest
    if found := _look(digest, folder):
        return found
    if missing := missing_programs():
        raise SandboxError(
            f"The image {image} cannot be fetched: {' and '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} not here. Install what fetches and unpacks "
            f"images (`apt install {' '.join(_PROGRAMS)}`)."
        )
    folder.parent.mkdir(mode=0o700, exist_ok=True)
    lock = await _locked(folder.with_suffix(".lock"), image, said)
    try:
        # Whoever held it before may have fetched it.
        return _look(digest, folder) or await _make(image, digest, folder, said)
    finally:
        os.close(lock)


def _look(digest: str, folder: Path) -> Image | None:
    about = read_json(folder / "image.json")
    env = about.get("env") if isinstance(about, dict) else None
    if not isinstance(env, dict) or not (folder / "rootfs").is_dir():
        return None
    return Image(digest, folder, {str(name): str(value) for name, value in env.items()})


async def _locked(file: Path, image: str, said: Said) -> int:
    """A descriptor that holds the lock. Raises SandboxError."""
    try:
        lock = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _no_room(image, error) from error
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            said(f"Waiting: the image {_short(image)} is being fetched by another kernel.")
            while not _take(lock):  # noqa: ASYNC110
                # flock tells nobody that it has become free.
                await asyncio.sleep(0.2)
    except BaseException:
        os.close(lock)
        raise
    return lock


def _take(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


async def _make(image: str, digest: str, folder: Path, said: Said) -> Image:
    making = folder.with_name(f"{_MAKING}{digest}-{secrets.token_hex(4)}")
    try:
        for left in folder.parent.glob(f"{_MAKING}{digest}-*"):
            await asyncio.to_thread(_remove, left)  # of one that died: we hold the lock
        making.mkdir(mode=0o700)
        said(f"Fetching the image {_short(image)}.")
        source = _layout(image, digest, making) if image.startswith("oci:") else f"docker://{image}"
        await _run(image, _skopeo(image, source, making), said)
        said(f"Unpacking the image {_short(image)}.")
        unpack = ["umoci", "unpack", "--rootless", "--image", f"{making}/layout:image"]
        await _run(image, [*unpack, f"{making}/bundle"], said)
        await asyncio.to_thread(_finish, making, folder)
    except OSError as error:
        raise _no_room(image, error) from error
    finally:
        if making.exists():
            await asyncio.shield(asyncio.to_thread(_remove, making))
    found = _look(digest, folder)
    if found is None:
        raise SandboxError(f"The image {image} was unpacked into {folder}, and is gone again.")
    return found


def _skopeo(image: str, source: str, making: Path) -> list[str]:
    policy = any(Path(each).expanduser().exists() for each in _POLICIES)
    plain = not image.startswith("oci:") and _PLAIN.match(image) is not None
    return [
        "skopeo",
        *([] if policy else ["--insecure-policy"]),
        "copy",
        *(["--src-tls-verify=false"] if plain else []),
        source,
        f"oci:{making}/layout:image",
    ]


def _layout(image: str, digest: str, making: Path) -> str:
    """A layout whose only image is that one, with the other's blobs; skopeo finds none by digest.

    Raises SandboxError when it is not there, OSError.
    """
    found = _LAYOUT.fullmatch(image)
    layout = Path(found["path"] if found else "/")
    manifest = layout / "blobs" / "sha256" / digest
    try:
        data = manifest.read_bytes()[: 8 << 20]
        kind = json.loads(data).get("mediaType")
    except (OSError, ValueError, AttributeError) as error:
        raise SandboxError(
            f"The image {image} is not in that OCI layout ({error}). Its folder holds "
            "`oci-layout`, `index.json` and `blobs`; `skopeo inspect oci:PATH:TAG` shows a digest."
        ) from error
    alone = making / "source"
    (alone / "blobs").mkdir(parents=True)
    (alone / "blobs" / "sha256").symlink_to(manifest.parent)
    (alone / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    manifests = [
        {
            "mediaType": kind or "application/vnd.oci.image.manifest.v1+json",
            "digest": f"sha256:{digest}",
            "size": len(data),
            "annotations": {"org.opencontainers.image.ref.name": "image"},
        }
    ]
    (alone / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": manifests}))
    return f"oci:{alone}:image"


async def _run(image: str, command: Sequence[str], said: Said) -> None:
    """Run a program that fetches or unpacks. Raises SandboxError with what it said, OSError."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    heard = b""
    layers = 0
    output = process.stdout
    try:
        async with asyncio.timeout(_PATIENCE):
            while output is not None and (data := await output.read(1 << 16)):
                heard = (heard + data)[-_TAIL:]
                if copied := data.count(b"Copying blob"):
                    layers += copied
                    said(f"Fetching the image {_short(image)}: layer {layers}.")
            code = await process.wait()
    except TimeoutError:
        raise SandboxError(
            f"The image {image} could not be had: {command[0]} took more than {_PATIENCE:.0f} s. "
            "Nothing of it was kept."
        ) from None
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    if code != 0:
        text = heard.decode("utf-8", "replace").strip()
        raise SandboxError(
            f"The image {image} could not be had: {command[0]} failed ({text or f'code {code}'}). "
            "Nothing of it was kept. For a registry that asks who you are: `skopeo login HOST`."
        )


def _finish(making: Path, folder: Path) -> None:
    bundle = making / "bundle"
    etc = bundle / "rootfs" / "etc"
    if not etc.is_symlink():
        etc.mkdir(exist_ok=True)
        for name in _PLACES:
            if not os.path.lexists(etc / name):
                (etc / name).touch(mode=0o644)
    env = json.loads((bundle / "config.json").read_bytes())["process"].get("env") or []
    pairs = (str(each).partition("=") for each in env)
    about = {"env": {name: value for name, equals, value in pairs if name and equals}}
    whole = making / "whole"
    whole.mkdir(mode=0o755)
    (bundle / "rootfs").rename(whole / "rootfs")
    (whole / "rootfs").chmod(0o755)
    write_json(whole / "image.json", about)
    if folder.exists():
        _remove(folder)  # one that has lost a part
    whole.rename(folder)


def _remove(folder: Path) -> None:
    """Remove what an image held, folders included that it has closed to their owner."""
    for path in _folders(folder):
        with contextlib.suppress(OSError):
            path.chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)


def _folders(folder: Path) -> Iterator[Path]:
    """All folders in one, each before what lies in it, links not followed."""
    yield folder
    try:
        with os.scandir(folder) as found:
            below = [Path(each.path) for each in found if each.is_dir(follow_symlinks=False)]
    except OSError:
        return
    for each in below:
        yield from _folders(each)


def _no_room(image: str, error: OSError) -> SandboxError:
    return SandboxError(
        f"The image {image} could not be kept in {home() / 'images'}: {error}. Nothing of it is "
        "there."
    )


def _short(image: str) -> str:
    """An image's name as people read it."""
    name, _, digest = image.partition("@sha256:")
    return f"{name}@{digest[:12]}"
