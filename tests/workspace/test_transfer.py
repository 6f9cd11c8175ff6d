"""Files arrive in a real sandbox as they left, come back whole, and a hostile guest gains nothing."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

import pytest

from reprise.errors import (
    GuestCallFailed,
    LogCorrupt,
    ProtocolViolation,
    RepriseError,
    TooLarge,
)
from reprise.log.model import sha256_hex
from reprise.log.postgres import Log
from reprise.log.store import Blobs
from reprise.sandbox.connection import Guest
from reprise.sandbox.contract import Limits
from reprise.workspace.folder import Bounds
from reprise.workspace.manifest import Entry, Manifest, path_text
from reprise.workspace.transfer import (
    BATCH,
    PAGE,
    apply_upload,
    clear_workspace,
    fetch,
    keep_tree,
    put_tree,
    read_file,
    remove_paths,
    send_entries,
    stat_path,
    stat_paths,
    uploaded,
    workspace_manifest,
)
from tests.fixtures.sandbox import StartCells, quiet_kernel
from tests.fixtures.shell import begin, run

from .trees import directory, file, link

LARGE = bytes(range(256)) * (BATCH // 256 * 2) + b"end"


def own(manifest: Manifest) -> Manifest:
    """Without the session's own Python environment, which isolating backends put beside."""
    return Manifest.of(e for e in manifest if not (e.path + "/").startswith(".reprise/"))


async def send(guest: Guest, contents: Mapping[str, bytes], extra: Iterable[Entry] = ()) -> None:
    stored = {sha256_hex(data): data for data in contents.values()}

    async def read(sha256: str) -> bytes:
        return stored[sha256]

    await send_entries(guest, [*(file(p, d) for p, d in contents.items()), *extra], read)


async def test_what_was_sent_is_what_is_there(guest: Guest) -> None:
    odd = path_text(b"caf\xe9/\xff\n.bin")
    contents = {"a.py": b"x = 1\n", "d/empty": b"", odd: b"\0\xff", "large": LARGE}
    extra = [
        directory("d"),
        directory(path_text(b"caf\xe9")),
        directory("hollow", 0o700),
        link("d/link", "../a.py"),
        link("python", "/usr/bin/python3"),
    ]
    await send(guest, contents, extra)
    found = own(await workspace_manifest(guest))
    assert found == Manifest.of([*(file(p, d) for p, d in contents.items()), *extra])
    for path, data in contents.items():
        sink = io.BytesIO()
        assert await fetch(guest, path, sink, limit=len(LARGE)) == len(data)
        assert sink.getvalue() == data


async def test_thousands_of_files_go_in_batches(guest: Guest) -> None:
    contents = {f"d{n % 7}/f{n}": b"%d" % n for n in range(2_500)}
    await send(guest, contents)
    found = own(await workspace_manifest(guest))
    assert {e.path: e.sha256 for e in found if e.type == "file"} == {
        path: sha256_hex(data) for path, data in contents.items()
    }


async def test_a_read_only_directory_is_filled_before_it_is_closed(guest: Guest) -> None:
    await send(guest, {"closed/f": b"1"}, [directory("closed", 0o555)])
    found = own(await workspace_manifest(guest))
    assert found.by_path["closed"].mode == 0o555
    assert found.by_path["closed/f"].size == 1


async def test_a_large_read_only_file_arrives_whole(guest: Guest) -> None:
    async def read(_: str) -> bytes:
        return LARGE

    await send_entries(guest, [file("large", LARGE, 0o444)], read)
    assert (await workspace_manifest(guest)).by_path["large"].sha256 == sha256_hex(LARGE)


async def test_a_listing_without_reprises_own_folder_goes_past_it(guest: Guest) -> None:
    # More than a page of it, and names behind any that it gives itself.
    inside = {f".reprise/many/{number}": b"" for number in range(PAGE + 10)}
    behind = {path_text(b".reprise/\xff\xff/" + b"%d" % number): b"" for number in range(20)}
    await send(guest, {**inside, **behind, ".a": b"1", ".reprise.txt": b"2", "z/b": b"3"})
    found = await workspace_manifest(guest, hashes=False, own=False)
    assert [entry.path for entry in found] == [".a", ".reprise.txt", "z", "z/b"]
    assert own(await workspace_manifest(guest, hashes=False)) == found


async def test_what_a_link_leads_to_is_told_as_such(guest: Guest) -> None:
    await send(guest, {"d/a": b"12"}, [link("l", "d/a"), link("folder", "d")])
    told = {
        path: (await guest.call("get", {"path": path, "offset": 0, "length": 9}))
        for path in ("d/a", "l", "folder/a", "folder")
    }
    assert {
        path: (about["type"], about["link"], b"".join(data)) for path, (about, data) in told.items()
    } == {
        "d/a": ("file", False, b"12"),
        "l": ("file", True, b"12"),
        "folder/a": ("file", False, b"12"),
        "folder": ("dir", True, b""),
    }


async def test_removing_takes_children_before_their_directory(guest: Guest) -> None:
    await send(guest, {"d/a": b"1", "d/b": b"2", "e": b"3"})
    await remove_paths(guest, ["d", "d/a", "d/b", "not-there"])
    assert [e.path for e in own(await workspace_manifest(guest))] == ["e"]


async def test_fetching_says_what_is_wrong(guest: Guest) -> None:
    await send(guest, {"f": b"12345"}, [directory("d")])
    with pytest.raises(TooLarge, match="f in the workspace holds 5 bytes"):
        await read_file(guest, "f", 4)
    with pytest.raises(GuestCallFailed, match="a dir, not a file"):
        await read_file(guest, "d", 4)
    with pytest.raises(GuestCallFailed):
        await read_file(guest, "not-there", 4)
    assert await stat_path(guest, "not-there") is None


async def test_a_stat_hashes_only_what_may_be_unchanged(guest: Guest) -> None:
    await send(guest, {"same": b"1", "edited": b"2", "grown": b"33", "other": b"4"})
    base = Manifest.of([file("same", b"1"), file("edited", b"1"), file("grown", b"3")])
    found = await stat_paths(guest, ["same", "edited", "grown"], [base])
    assert found["same"].same(base.get("same"))
    assert found["edited"].sha256 == sha256_hex(b"2")
    assert found["grown"].sha256 is None
    assert "other" not in found


async def test_a_link_that_leads_nowhere_counts_as_something(guest: Guest) -> None:
    await send(guest, {}, [link("l", "not/there")])
    found = await stat_paths(guest, ["l", "free"], [Manifest()])
    assert found["l"].type == "link"
    assert "free" not in found


# on the log's own blobs ----------------------------------------------------------------------


async def upload(blobs: Blobs, contents: Mapping[str, bytes], removed: Sequence[str] = ()) -> Any:
    await blobs.put_many(list(contents.values()))
    entries = [file(path, data).to_json() for path, data in contents.items()]
    return {"root": "", "entries": entries, "removed": list(removed)}


async def test_uploads_played_one_after_another_give_what_the_log_says(
    guest: Guest, log: Log
) -> None:
    blobs = (await log.reader(await log.begin(kernel="python3"))).blobs
    base = Manifest()
    for payload in (
        await upload(blobs, {"a": b"1", "d/b": b"2"}),
        await upload(blobs, {"a": b"3", "d": b"now a file"}, ["d/b", "d"]),
        await upload(blobs, {}, ["a"]),
    ):
        await apply_upload(guest, payload, blobs)
        base = uploaded(base, payload)
        found = own(await workspace_manifest(guest))
        assert [e for e in found if e.type == "file"] == [e for e in base if e.type == "file"]


async def test_an_upload_that_finds_no_room_leaves_all_as_it_was(
    log: Log, start_cells: StartCells
) -> None:
    blobs = (await log.reader(await log.begin(kernel="python3"))).blobs
    limits = Limits(workspace=16 << 20)
    cells = await start_cells("bubblewrap", kernel=quiet_kernel(), limits=limits)
    await apply_upload(cells.guest, await upload(blobs, {"a": b"1", "d/b": b"2"}), blobs)
    before = await workspace_manifest(cells.guest)
    used = (await cells.guest.call("usage"))[0]["workspace"]
    large = {"d/b": b"3", "d/c": b"x" * 9_000_000, "e": b"y" * 9_000_000}
    with pytest.raises(GuestCallFailed) as failed:
        await apply_upload(cells.guest, await upload(blobs, large, ["a"]), blobs)
    assert failed.value.kind == "full"
    assert await workspace_manifest(cells.guest) == before
    assert (await cells.guest.call("usage"))[0]["workspace"] == used
    # There is room for it one by one.
    await apply_upload(cells.guest, await upload(blobs, {"e": b"y" * 9_000_000}, ["a"]), blobs)
    assert [e.path for e in own(await workspace_manifest(cells.guest))] == ["d", "d/b", "e"]


async def test_an_upload_whose_bytes_are_missing_leaves_all_as_it_was(
    guest: Guest, log: Log
) -> None:
    blobs = (await log.reader(await log.begin(kernel="python3"))).blobs
    await apply_upload(guest, await upload(blobs, {"a": b"1"}), blobs)
    before = await workspace_manifest(guest)
    missing = [file("a", b"2").to_json(), file("b", b"never stored").to_json()]
    await blobs.put(b"2")
    with pytest.raises(RepriseError):
        await apply_upload(guest, {"root": "", "entries": missing, "removed": ["a"]}, blobs)
    assert await workspace_manifest(guest) == before
    (left, _) = await guest.call("tree", {"hashes": False, "limit": 2000})
    assert not [entry for entry in left["entries"] if "stage-" in entry["path"]]
    ran = await run(guest, "ls -a .reprise | grep stage-")
    assert ran.stdout == b""


async def test_an_upload_that_is_cut_off_leaves_all_as_it_was(guest: Guest, log: Log) -> None:
    blobs = (await log.reader(await log.begin(kernel="python3"))).blobs
    before = await workspace_manifest(guest)
    payload = await upload(blobs, {"a": b"1", "b": b"2"})

    class Stuck:
        """Blobs that never come."""

        async def small(self, wanted: Mapping[str, int]) -> dict[str, bytes]:
            stuck.set()
            return await asyncio.Future[dict[str, bytes]]()

    stuck = asyncio.Event()
    going = asyncio.ensure_future(apply_upload(guest, payload, cast(Blobs, Stuck())))
    await stuck.wait()
    going.cancel()
    with pytest.raises(asyncio.CancelledError):
        await going
    assert await workspace_manifest(guest) == before
    assert (await run(guest, "ls -a .reprise | grep stage-")).stdout == b""


async def test_an_upload_is_seen_by_a_program_all_at_once_or_in_whole_files(
    guest: Guest, log: Log
) -> None:
    """A reader that looks all the time sees old or new contents, never half of one."""
    blobs = (await log.reader(await log.begin(kernel="python3"))).blobs
    old, new = b"o" * 200_000, b"n" * 200_000
    await apply_upload(guest, await upload(blobs, {"f": old}), blobs)
    watching = begin(
        guest,
        "echo on; while [ ! -e stop ]; do md5sum < f; done | sort | uniq -c | wc -l; rm stop",
    )
    await watching.until(b"on")
    for content in (new, old) * 10:
        await apply_upload(guest, await upload(blobs, {"f": content}), blobs)
    await apply_upload(guest, await upload(blobs, {"stop": b""}), blobs)
    ran = await watching.ended()
    assert (int(ran.stdout.split()[1]), ran.stderr) in ((1, b""), (2, b""))


async def test_a_kept_tree_comes_back_exactly(guest: Guest, log: Log) -> None:
    blobs = (await log.reader(await log.begin(kernel="python3"))).blobs
    await send(
        guest,
        {"a": b"1", "d/b": b"2", "large": LARGE},
        [directory("hollow"), link("l", "/usr/bin")],
    )
    before = await workspace_manifest(guest)
    kept = await keep_tree(guest, blobs)
    assert kept == before.sha256
    await remove_paths(guest, ["a", "hollow", "l"])
    await send(guest, {"a/nested": b"3", "extra": b"4", "large": b"small now"})
    await put_tree(guest, blobs, kept)
    assert await workspace_manifest(guest) == before
    await clear_workspace(guest)
    assert len(await workspace_manifest(guest)) == 0


async def test_a_tree_over_its_bounds_is_not_kept(guest: Guest, log: Log) -> None:
    blobs = (await log.reader(await log.begin(kernel="python3"))).blobs
    await send(guest, {"a": b"12", "b": b"34"})
    assert await keep_tree(guest, blobs, Bounds(bytes=3, files=1_000)) is None
    assert await keep_tree(guest, blobs, Bounds(bytes=1_000, files=1)) is None


@pytest.mark.parametrize("data", [b"not json", b'{"entries":[["../x","file",420,0,null]]}'])
async def test_a_forged_tree_is_refused_before_anything_is_touched(log: Log, data: bytes) -> None:
    blobs = (await log.reader(await log.begin(kernel="python3"))).blobs
    name = await blobs.put(data)
    with pytest.raises(LogCorrupt):
        await put_tree(hostile(lambda *_: pytest.fail("the guest was asked")), blobs, name)


# hostile guests: they speak the calls' interface and lie -------------------------------------

Answer = Callable[[str, Mapping[str, Any]], tuple[dict[str, Any], list[bytes]]]


def hostile(answer: Answer) -> Guest:
    class Liar:
        async def call(
            self, name: str, arguments: Mapping[str, Any], data: Sequence[bytes] = ()
        ) -> tuple[dict[str, Any], list[bytes]]:
            return answer(name, arguments)

    return cast(Guest, Liar())


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"entries": None, "more": False},
        {"entries": [], "more": True},
        {"entries": [], "more": "no"},
        {"entries": ["a"], "more": False},
        {"entries": [{"path": "../x", "type": "file", "mode": 0o644, "size": 0}], "more": False},
        {"entries": [{"path": "/x", "type": "dir", "mode": 0o755, "size": 0}], "more": False},
        {"entries": [{"path": "x", "type": "socket", "mode": 0o644, "size": 0}], "more": False},
        {"entries": [{"path": "x", "type": "file", "mode": 0o644, "size": -1}], "more": False},
        {"entries": [{"path": "x", "type": "file", "mode": 0o644, "size": 0}], "more": False},
        {"entries": [{"path": "x", "type": "file", "mode": "rw", "size": 0}], "more": False},
        {"entries": [{"path": "x", "type": "link", "mode": 0o777}], "more": False},
    ],
)
async def test_a_malformed_listing_is_a_violation(answer: dict[str, Any]) -> None:
    with pytest.raises(ProtocolViolation):
        await workspace_manifest(hostile(lambda *_: (answer, [])))


async def test_a_listing_without_end_stops_at_its_bound() -> None:
    count = 0

    def answer(_: str, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
        nonlocal count
        count += 1
        entry = {"path": f"d{count}", "type": "link", "mode": 0o777, "error": "gone"}
        return {"entries": [entry], "more": True}, []

    with pytest.raises(TooLarge):
        await workspace_manifest(hostile(answer), limit=50)
    assert count == 51


async def test_a_listing_that_contradicts_itself_is_no_tree() -> None:
    entry = {"path": "x", "type": "dir", "mode": 0o755, "size": 0}
    with pytest.raises(GuestCallFailed, match="stands twice"):
        await workspace_manifest(hostile(lambda *_: ({"entries": [entry] * 2, "more": False}, [])))


@pytest.mark.parametrize(
    ("about", "data", "error"),
    [
        ({"type": "file", "mode": 0o644, "size": 4}, [b"x" * 5_000_000], ProtocolViolation),
        ({"type": "file", "mode": 0o644, "size": 4}, [b"a", b"b"], ProtocolViolation),
        ({"type": "file", "mode": 0o644, "size": 4}, [], GuestCallFailed),
        ({"type": "file", "mode": 0o644, "size": 1 << 60}, [b"x"], TooLarge),
        ({"type": "file", "mode": 0o644, "size": -1}, [b"x"], ProtocolViolation),
        ({"type": "file", "mode": 0o644, "size": "4"}, [b"x"], ProtocolViolation),
        ({"type": ["file"], "mode": 0o644, "size": 4}, [b"x"], ProtocolViolation),
        ({}, [b"x"], ProtocolViolation),
    ],
)
async def test_a_lying_get_is_seen(
    about: dict[str, Any], data: list[bytes], error: type[Exception]
) -> None:
    sink = io.BytesIO()
    with pytest.raises(error):
        await fetch(hostile(lambda *_: (about, data)), "f", sink, 1 << 20)
    assert len(sink.getvalue()) <= 1 << 20


async def test_a_file_that_grows_for_ever_is_fetched_as_long_as_it_was_said_to_be() -> None:
    def answer(_: str, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
        size = arguments["offset"] + 3
        return {"type": "file", "mode": 0o644, "size": size}, [b"abc"]

    sink = io.BytesIO()
    assert await fetch(hostile(answer), "f", sink, 100) == 3
    assert sink.getvalue() == b"abc"


async def test_a_tree_is_named_by_what_was_read_not_by_what_was_claimed(log: Log) -> None:
    blobs = (await log.reader(await log.begin(kernel="python3"))).blobs

    def answer(name: str, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
        if name == "tree":
            entry = {"path": "f", "type": "file", "mode": 0o644, "size": 5, "sha256": "0" * 64}
            return {"entries": [entry], "more": False}, []
        return {"type": "file", "mode": 0o644, "size": 3}, [b"abc"[arguments["offset"] :]]

    kept = await keep_tree(hostile(answer), blobs)
    assert kept == Manifest.of([file("f", b"abc")]).sha256
    assert await blobs.get(sha256_hex(b"abc")) == b"abc"
