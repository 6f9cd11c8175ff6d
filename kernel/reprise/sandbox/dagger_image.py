"""The image that a sandbox on Dagger stands on: by digest, or made once of the host's own prefix.

What was made is remembered in REPRISE_HOME/images/dagger: one file for each set of prefixes, with
the image's digest, where it was published, and without a registry the archive itself, which a new
session imports. Never an id of the engine's: those end with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISDIR
from typing import Any

import dagger

from reprise.errors import SandboxError, UnavailableError
from reprise.quantities import amount
from reprise.sandbox import host_image, image_archive
from reprise.sandbox.contract import LanguageKernel, Said
from reprise.sandbox.dagger_order import Order
from reprise.sandbox.dagger_session import Session, first_line
from reprise.sandbox.documents import read_json, write_json
from reprise.sandbox.packages import read_prefix
from reprise.sandbox.view import guest_interpreter
from reprise.settings import home

#: Part of each key: raised when images are made in another way.
_RECIPE = 1

#: Bytes after which a person hears how far an image is.
_STEP = 256 << 20

#: The repository below REPRISE_REGISTRY.
_REPOSITORY = "reprise-environment"

#: What registries and engines say of an image that is not there (any more).
_LOST = ("not found", "manifest unknown", "name unknown", "404")


@dataclass(frozen=True)
class Base:
    """An image in a session.

    needed: folders that hold a part of it, and so cannot be mounted over: an environment that was
    made below /tmp. Dagger puts memory file systems above all else that is mounted.
    """

    container: dagger.Container
    needed: tuple[str, ...] = ()


class Images:
    """The images of one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: dict[str, Base] = {}
        self._turns: dict[str, asyncio.Lock] = {}

    async def base(self, order: Order, said: Said) -> Base:
        """The image of an order, made or pulled where it must be. Raises SandboxError."""
        name = json.dumps([order.image_kind, order.image, order.kernel, order.registry])
        key = name
        if order.image_kind == "prefix":
            # The prefix may have changed since: its key says so.
            kernel = _kernel(order.kernel)
            key = name + (image_key := await asyncio.to_thread(prefix_key, kernel))
        async with self._turns.setdefault(name, asyncio.Lock()):
            if key in self._known:
                return self._known[key]
            told = asyncio.get_running_loop().call_later(2.0, said, f"pulling {order.image}")
            if order.image_kind != "registry":
                told.cancel()
            try:
                if order.image_kind == "prefix":
                    base = await self._prefix(kernel, image_key, order, said)
                elif order.image_kind == "layout":
                    base = Base(await self._layout(order.image, said), _needed(order))
                else:
                    base = Base(await self._pulled(order.image), _needed(order))
                await self._unpacked(base)
            finally:
                told.cancel()
            self._known[key] = base
            return base

    async def _unpacked(self, base: Base) -> None:
        """Have the engine unpack it now: what is pulled lazily would else be part of a start."""
        try:
            await base.container.directory("/").entries()
        except dagger.QueryError as error:
            raise SandboxError(
                f"The Dagger engine cannot unpack the environment's image: {first_line(error)}. "
                "Nothing was started."
            ) from error

    async def _pulled(self, name: str) -> dagger.Container:
        try:
            return await self._session.client.container().from_(name).sync()
        except dagger.QueryError as error:
            lost = any(word in str(error) for word in _LOST)
            raise SandboxError(
                f"The image {name} "
                + ("is not in its registry" if lost else "cannot be pulled by the Dagger engine")
                + f": {first_line(error)}. Nothing was started. "
                + (
                    "Push it again, or name another one with `reprise env create`."
                    if lost
                    else "The engine, not this machine, must reach the registry; it uses what "
                    "`docker login` stored here."
                )
            ) from error

    async def _layout(self, image: str, said: Said) -> dagger.Container:
        path, _, digest = image.partition("@")
        folder = Path(path)
        said("bringing the image into the Dagger engine")
        with tempfile.TemporaryDirectory(prefix="reprise-image-") as work:
            archive = Path(work) / "image.tar"
            try:
                await asyncio.to_thread(image_archive.pack_layout, folder, digest, archive)
            except (OSError, ValueError, KeyError) as error:
                raise SandboxError(
                    f"The image {digest} cannot be read from {folder}: {error}. Nothing was "
                    "started. Fetch it again with `reprise env create`."
                ) from error
            return await self._imported(archive)

    async def _imported(self, archive: Path) -> dagger.Container:
        client = self._session.client
        # By its folder: the engine keeps what it has seen of a file that has not changed.
        file = client.host().file(str(archive))
        try:
            return await client.container().import_(file).sync()
        except dagger.QueryError as error:
            raise SandboxError(
                f"The Dagger engine did not take the environment's image: {first_line(error)}. "
                "Nothing was started."
            ) from error

    async def _prefix(self, kernel: LanguageKernel, key: str, order: Order, said: Said) -> Base:
        folders = await asyncio.to_thread(host_image.prefixes, kernel)
        needed = await asyncio.to_thread(_above, order.temporary, folders)
        kept = Kept(folders)
        if order.registry:
            container = await self._published(kept, kernel, key, order.registry, said)
        else:
            archive = await kept.archive(kernel, key, said)
            told = asyncio.get_running_loop().call_later(
                2.0, said, "bringing the environment's image into the Dagger engine"
            )
            try:
                container = await self._imported(archive)
            finally:
                told.cancel()
        return Base(container, needed)

    async def _published(
        self, kept: Kept, kernel: LanguageKernel, key: str, registry: str, said: Said
    ) -> dagger.Container:
        if (name := kept.published(key, registry)) is not None:
            try:
                return await self._session.client.container().from_(name).sync()
            except dagger.QueryError as error:
                if not any(word in str(error) for word in _LOST):
                    raise _unreachable(registry, error) from error
                said("the registry no longer has the environment's image; it is made again")
        archive = await kept.archive(kernel, key, said)
        imported = await self._imported(archive)
        said(f"publishing the environment's image to {registry}")
        try:
            name = await imported.publish(f"{registry}/{_REPOSITORY}:{key[:16]}")
        except dagger.QueryError as error:
            raise _unreachable(registry, error) from error
        await asyncio.to_thread(kept.remember, key, registry, name)
        return await self._pulled(name)


def _needed(order: Order) -> tuple[str, ...]:
    """The places that hold the image's own interpreter."""
    return tuple(place for place in order.temporary if order.argv[0].startswith(f"{place}/"))


def _above(places: Iterable[str], folders: Sequence[Path]) -> tuple[str, ...]:
    """Those of the places that one of the folders lies below."""
    real = [os.path.realpath(folder) for folder in folders]
    return tuple(
        place for place in places if any(folder.startswith(f"{place}/") for folder in real)
    )


def _unreachable(registry: str, error: dagger.QueryError) -> SandboxError:
    return SandboxError(
        f"The registry {registry} (REPRISE_REGISTRY) does not do what it should for the Dagger "
        f"engine: {first_line(error)}. Nothing was started. The engine must reach it, and `docker "
        "login` must have signed in to it; without REPRISE_REGISTRY the image is brought into the "
        "engine from here."
    )


def _kernel(value: Mapping[str, Any]) -> LanguageKernel:
    return LanguageKernel(
        name=value["name"],
        language=value["language"],
        argv=tuple(value["argv"]),
        prefixes=tuple(Path(each) for each in value["prefixes"]),
        resource_dir=value["resource_dir"],
    )


def prefix_key(kernel: LanguageKernel) -> str:
    """What the image of a host's prefix would be made of: equal keys, equal images.

    As `sandbox.packages` sees a prefix: files that somebody edits by hand in it are not noticed.
    Blocks: some milliseconds when cached.
    """
    cache = home() / "cache"
    parts: list[Any] = [_RECIPE, [str(path) for path in host_image.prefixes(kernel)]]
    programs = {kernel.argv[0], guest_interpreter(kernel)}
    for program in sorted(programs):
        prefixes = kernel.prefixes if program == kernel.argv[0] else ()
        try:
            found = read_prefix(LanguageKernel("python3", "python", (program,), prefixes), cache)
        except UnavailableError:
            continue  # it is not there: whoever starts it inside says so
        packages = [[p.name, p.version, p.record] for p in found.packages]
        parts.append([found.base, dict(found.interpreter), packages])
    for path in host_image.system_files():
        with contextlib.suppress(OSError):
            found_file = path.stat()
            if not S_ISDIR(found_file.st_mode):
                parts.append([str(path), found_file.st_size, found_file.st_mtime_ns])
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


class Kept:
    """What is remembered of the image of some prefixes, and the archive of it."""

    def __init__(self, prefixes: Sequence[Path]) -> None:
        named = "\0".join(map(str, prefixes)).encode("utf-8", "surrogateescape")
        self._folder = home() / "images" / "dagger"
        self._file = self._folder / f"{hashlib.sha256(named).hexdigest()[:32]}.json"
        self._archive = self._file.with_suffix(".tar")

    def _read(self, key: str) -> dict[str, Any]:
        found = read_json(self._file)
        return found if isinstance(found, dict) and found.get("key") == key else {"key": key}

    def published(self, key: str, registry: str) -> str | None:
        """Where the image is in a registry, if it was ever published there."""
        published = self._read(key).get("published")
        name = published.get(registry) if isinstance(published, dict) else None
        return name if isinstance(name, str) else None

    def remember(self, key: str, registry: str, name: str) -> None:
        """It is in a registry now: the archive is needed no more."""
        known = self._read(key)
        published = known.get("published")
        known["published"] = {
            **(published if isinstance(published, dict) else {}),
            registry: name,
        }
        write_json(self._file, known)
        self._archive.unlink(missing_ok=True)

    async def archive(self, kernel: LanguageKernel, key: str, said: Said) -> Path:
        """The image as an archive, written where there is none of this key. Raises SandboxError."""
        known = await asyncio.to_thread(self._read, key)
        if known.get("archive") and await asyncio.to_thread(self._archive.is_file):
            return self._archive
        loop = asyncio.get_running_loop()
        said("making an image of the environment, once")

        def told(text: str) -> None:
            loop.call_soon_threadsafe(said, text)

        try:
            digest = await asyncio.to_thread(self._write, kernel, told)
        except (OSError, image_archive.FileChanged, UnavailableError) as error:
            raise SandboxError(
                f"No image could be made of the environment: {error}. Nothing was started. It "
                f"needs some room below {self._folder}, and nobody installing meanwhile."
            ) from error
        known.update(archive=digest, made=int(time.time()))
        await asyncio.to_thread(write_json, self._file, known)
        return self._archive

    def _write(self, kernel: LanguageKernel, told: Said) -> str:
        layers = [host_image.prefix_items(each) for each in host_image.prefixes(kernel)]
        inside = [item for layer in layers for item in layer]
        system = host_image.system_items(kernel, inside)
        total, last = 0, 0

        def written(size: int) -> None:
            nonlocal total, last
            total += size
            if total - last >= _STEP:
                last = total
                told(f"making an image of the environment, once: {amount(total)} read")

        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=".making-", dir=self._folder)
        try:
            with os.fdopen(handle, "wb") as out:
                digest = image_archive.write(out, [system, *layers], written)
            os.replace(temporary, self._archive)  # noqa: PTH105
        except BaseException:
            os.unlink(temporary)  # noqa: PTH108
            raise
        return digest
