"""Blobs are stored once, whole, under the hash of their bytes, and checked when read."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from reprise.errors import LogCorrupt, RepriseError, UnavailableError
from reprise.log.ahead import HELD, HELD_BYTES, ReadAhead
from reprise.log.blobs import IN_POSTGRES_BYTES, BlobFiles
from reprise.log.postgres import Log

SIZES = [0, 1, IN_POSTGRES_BYTES, IN_POSTGRES_BYTES + 1, 9 << 20]


@pytest.mark.parametrize("size", SIZES)
async def test_what_was_put_is_got_back(log: Log, size: int) -> None:
    blobs = (await log.reader(await log.begin(kernel="python3"))).blobs
    data = os.urandom(size)
    name = await blobs.put(data)
    assert name == hashlib.sha256(data).hexdigest()
    assert await blobs.put(data) == name
    assert await blobs.get(name) == data
    other = "0" * 64
    assert await blobs.missing([name, other]) == {other}
    files = [path for path in (log.home / "blobs").rglob("*") if path.is_file()]
    assert len(files) == (1 if size > IN_POSTGRES_BYTES else 0)


async def test_many_are_put_at_once_in_order_with_repetitions(log: Log) -> None:
    blobs = (await log.reader(await log.begin(kernel="python3"))).blobs
    items = [b"%d" % (number % 700) for number in range(1500)] + [b"x" * (2 << 20)] * 2
    names = await blobs.put_many(items)
    assert names == [hashlib.sha256(item).hexdigest() for item in items]
    assert await blobs.missing(names) == set()


async def test_blobs_of_one_owner_are_not_another_owners(log: Log, dsn: str) -> None:
    blobs = (await log.reader(await log.begin(kernel="python3"))).blobs
    name = await blobs.put(b"secret")
    stranger = await Log.connect(dsn, owner="stranger", home=log.home)
    theirs = (await stranger.reader(await stranger.begin(kernel="python3"))).blobs
    assert await theirs.missing([name]) == {name}
    with pytest.raises(LogCorrupt):
        await theirs.get(name)
    await stranger.close()


@pytest.mark.parametrize("damage", ["cut", "changed", "gone"])
async def test_a_damaged_file_is_refused_and_healed_by_the_next_put(log: Log, damage: str) -> None:
    blobs = (await log.reader(await log.begin(kernel="python3"))).blobs
    data = os.urandom(2 << 20)
    name = await blobs.put(data)
    path = next(log.home.rglob(name))
    if damage == "cut":
        path.write_bytes(data[:-1])
    elif damage == "changed":
        path.write_bytes(b"\0" + data[1:])
    else:
        path.unlink()
    with pytest.raises(LogCorrupt):
        await blobs.get(name)
    await blobs.put(data)
    assert await blobs.get(name) == data


async def test_files_are_private(log: Log) -> None:
    blobs = (await log.reader(await log.begin(kernel="python3"))).blobs
    name = await blobs.put(b"x" * (2 << 20))
    path = next(log.home.rglob(name))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    while path != log.home:
        path = path.parent
        assert stat.S_IMODE(path.stat().st_mode) == 0o700


async def test_no_row_names_a_file_that_could_not_be_written(log: Log) -> None:
    blobs = (await log.reader(await log.begin(kernel="python3"))).blobs
    log.home.mkdir(exist_ok=True)
    (log.home / "blobs").write_text("in the way")
    data = b"x" * (2 << 20)
    with pytest.raises(UnavailableError, match="Nothing refers to it"):
        await blobs.put(data)
    name = hashlib.sha256(data).hexdigest()
    assert await blobs.missing([name]) == {name}


@pytest.mark.parametrize("name", ["", "../../../etc/passwd", "a" * 63, "A" * 64, "g" * 64])
async def test_a_name_that_is_no_hash_reaches_no_file(log: Log, name: str) -> None:
    blobs = (await log.reader(await log.begin(kernel="python3"))).blobs
    with pytest.raises(RepriseError):
        await blobs.get(name)


def test_a_half_written_file_never_has_the_name(tmp_path: Path) -> None:
    files = BlobFiles(tmp_path, "me")
    data = b"y" * 100
    name = hashlib.sha256(data).hexdigest()
    files.path(name).parent.mkdir(parents=True)
    files.path(name).write_bytes(data[:50])
    assert files.read(name, 100) is None
    files.write(name, data)
    assert files.read(name, 100) == data
    assert [path.name for path in files.path(name).parent.iterdir()] == [name]


async def test_blobs_that_are_read_ahead_are_those_that_were_asked_for(log: Log) -> None:
    """In any order, with repetitions, large ones among them, and sizes that are lies."""
    blobs = (await log.reader(await log.begin(kernel="python3"))).blobs
    items = [os.urandom(50_000 + number) for number in range(150)] + [os.urandom(2 << 20)]
    names = await blobs.put_many(items)
    order = [*range(151), 3, 150, *reversed(range(151))]
    asked = 0

    class Counting:
        async def small(self, wanted: Mapping[str, int]) -> dict[str, bytes]:
            nonlocal asked
            asked += 1
            assert len(wanted) <= HELD
            found = await blobs.small(wanted)
            assert sum(map(len, found.values())) <= HELD_BYTES
            return found

        def __getattr__(self, name: str) -> Any:
            return getattr(blobs, name)

    for sizes in ([len(item) for item in items], [0] * 151, [50_000] * 151):
        asked = 0
        read = ReadAhead(Counting(), zip(names, sizes, strict=True))  # type: ignore[arg-type]
        for number in order[:151]:
            assert await read(names[number]) == items[number]
        assert asked <= 2
        for number in order[151:]:
            assert await read(names[number]) == items[number]
        with pytest.raises(LogCorrupt):
            await read("0" * 64)


async def test_a_damaged_blob_is_refused_when_it_is_read_ahead(log: Log) -> None:
    blobs = (await log.reader(await log.begin(kernel="python3"))).blobs
    names = await blobs.put_many([b"one", b"two"])
    read = ReadAhead(blobs, [(names[0], 3), ("1" * 64, 3), (names[1], 3)])
    assert await read(names[0]) == b"one"
    with pytest.raises(LogCorrupt):
        await read("1" * 64)
    assert await read(names[1]) == b"two"
