"""Whatever a bundle was made into, it is refused in words, quickly and in little memory."""

from __future__ import annotations

import asyncio
import hashlib
import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from reprise.bundle import layout
from reprise.bundle.archive import BLOCK, MANIFEST, header
from reprise.bundle.load import Checked, check_bundle
from reprise.bundle.lock import lock
from reprise.bundle.source import Spooled
from reprise.errors import BadBundle, TooLarge, UnavailableError
from reprise.log.model import canonical, outputs_hash
from reprise.log.postgres import Log
from reprise.workspace.manifest import Entry, Manifest
from tests.bundle.conftest import exported
from tests.bundle.forge import (
    Forge,
    Members,
    archive,
    cell_payload,
    member,
    members,
    one_cell,
    patched,
    put_together,
)
from tests.bundle.sample import ENVIRONMENT, SPEC, text, write_sample
from tests.fixtures.postgres import TestServer

MIB = 1 << 20


@pytest.fixture(scope="session")
def whole(kernel_server: TestServer, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bundle of a session with something of everything."""

    async def make() -> bytes:
        home = tmp_path_factory.mktemp("hostile")
        log = await Log.connect(kernel_server.create_database(), home=home)
        try:
            session = await write_sample(log)
            artifacts = await log.artifacts(session)
            return await exported(log, session, notices=True, artifacts=artifacts)
        finally:
            await log.close()

    return asyncio.run(make())


def check(data: bytes, limit: int = 64 * MIB) -> Checked:
    return check_bundle(Spooled(io.BytesIO(data)), limit)


def refused(data: bytes, match: str | None = None, limit: int = 64 * MIB) -> str:
    with pytest.raises((BadBundle, TooLarge, UnavailableError), match=match) as caught:
        check(data, limit)
    assert "Nothing was imported" in str(caught.value)
    return str(caught.value)


def test_what_is_mutated_here_was_whole(whole: bytes) -> None:
    assert check(whole).seal.steps == 10
    assert put_together(members(whole)) == whole
    assert check(one_cell().bundle()).seal.steps == 1


# bytes -------------------------------------------------------------------------------------------


@settings(max_examples=300)
@given(place=st.integers(0, 1 << 40), bit=st.integers(0, 7), small=st.booleans())
def test_no_bit_can_be_another(whole: bytes, place: int, bit: int, small: bool) -> None:
    # The one large blob of the other would take nearly all of the flips.
    bundle = bytearray(one_cell().bundle() if small else whole)
    bundle[place % len(bundle)] ^= 1 << bit
    refused(bytes(bundle))


def test_it_cannot_end_early_or_late(whole: bytes) -> None:
    at, ends = 0, [0, 1, BLOCK - 1, BLOCK, len(whole) - 1]
    for name, content in members(whole):
        at += len(member(name, content))
        ends += [at - 1, at, at + 1]
    for end in ends:
        refused(whole[:end])
    refused(whole + b"\0", "after its end")
    refused(whole + whole)
    refused(b"")
    refused(bytes(BLOCK * 20))


@settings(max_examples=150)
@given(noise=st.binary(max_size=3000), packed=st.booleans())
def test_noise_is_no_bundle(noise: bytes, packed: bool) -> None:
    refused(zstandard.compress(noise) if packed else noise)
    refused(b"\x28\xb5\x2f\xfd" + noise)


# members -----------------------------------------------------------------------------------------


@settings(max_examples=200)
@given(
    one=st.integers(0, 1000),
    two=st.integers(0, 1000),
    act=st.sampled_from(["drop", "twice", "swap", "move"]),
)
def test_members_stand_where_they_are_due(whole: bytes, one: int, two: int, act: str) -> None:
    parts = members(whole)
    one, two = one % len(parts), two % len(parts)
    changed = list(parts)
    if act == "drop":
        del changed[one]
    elif act == "twice":
        changed.insert(two, parts[one])
    elif act == "swap":
        changed[one], changed[two] = parts[two], parts[one]
    else:
        changed.insert(two, changed.pop(one))
    if changed != parts:
        refused(put_together(changed))


@pytest.mark.parametrize(
    "name",
    [
        *("../x", "/etc/passwd", "blobs/../../x", "events/../x", "./bundle.json", "bundle.json/"),
        *("events/000001.jsonl", "events/0.jsonl", "blobs/x", "BUNDLE.JSON", "a" * 100, "x\0y"),
    ],
)
def test_a_member_of_another_name_is_refused(name: str) -> None:
    parts = one_cell().members()
    for at in range(len(parts) + 1):
        refused(put_together([*parts[:at], (name, b"x"), *parts[at:]]))
    for at in range(len(parts)):
        refused(put_together([*parts[:at], (name, parts[at][1]), *parts[at + 1 :]]))


@pytest.mark.parametrize(
    ("at", "value"),
    [
        *((156, kind) for kind in (b"1", b"2", b"3", b"5", b"6", b"L", b"x", b"g", b"\0", b"S")),
        (100, b"0000755\0"),
        (108, b"0000001\0"),
        (136, b"00000000001\0"),
        (157, b"/etc/passwd"),
        (257, b"ustar  \0"),
        (265, b"root"),
        (345, b"/"),
        (124, b"-0000000001\0"),
        (124, b"          1\0"),
        (124, b"\x80\0\0\0\0\0\0\0\0\0\1\0"),
    ],
)
def test_a_header_says_nothing_but_name_and_size(at: int, value: bytes) -> None:
    bundle = one_cell().bundle()
    refused(patched(bundle[:BLOCK], at, value) + bundle[BLOCK:])


def test_padding_holds_nothing() -> None:
    parts = one_cell().members()
    name, content = parts[0]
    first = member(name, content)
    whole = put_together(parts)
    assert first[-1:] == b"\0"
    refused(first[:-1] + b"x" + whole[len(first) :], "belong to nothing")


def test_what_follows_the_manifest_is_a_signature_or_nothing() -> None:
    parts = one_cell().members()
    refused(put_together(parts, after=[("more", b"")]))
    refused(
        put_together(parts, after=[(layout.SIGNER, b"x"), (layout.SIGNATURE, b"y")]), "signature"
    )
    refused(put_together(parts, after=[(layout.SIGNATURE, b"y")]))
    refused(archive([*parts, (MANIFEST, b"")]), MANIFEST)
    refused(archive(parts), "manifest")


# sizes -------------------------------------------------------------------------------------------


def test_declared_sizes_are_looked_at_before_anything_is_read() -> None:
    parts = one_cell().members()
    for at, (name, _) in enumerate(parts):
        before = b"".join(member(*part) for part in parts[:at])
        refused(before + header(name, 8**11 - 1), "too large")


def test_a_bundle_over_the_limit_is_refused(whole: bytes) -> None:
    refused(whole, "too large.*--max-size", limit=len(whole) - 1)
    check(whole, limit=len(whole))


#: Checks a bundle in a process that may use so much memory and processor time.
_BOUNDED = """
import resource, sys
from pathlib import Path
from reprise.bundle.load import check_bundle
from reprise.bundle.source import opened
from reprise.errors import RepriseError
resource.setrlimit(resource.RLIMIT_DATA, (int(sys.argv[2]), int(sys.argv[2])))
resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
try:
    with opened(Path(sys.argv[1]), sys.stdin.buffer, int(sys.argv[3])) as bundle:
        check_bundle(bundle, int(sys.argv[3]))
except RepriseError as error:
    sys.exit(f"{type(error).__name__}: {error}")
"""


def refused_within(path: Path, memory: int, limit: int) -> str:
    done = subprocess.run(
        [sys.executable, "-c", _BOUNDED, str(path), str(memory), str(limit)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1, done.stderr
    assert done.stderr.startswith(("BadBundle", "TooLarge")), done.stderr[-2000:]
    return done.stderr


def test_a_bomb_goes_off_in_little_memory(tmp_path: Path) -> None:
    bomb = tmp_path / "bomb"
    zeros = bytes(MIB)
    with bomb.open("wb") as file, zstandard.ZstdCompressor(level=1).stream_writer(file) as out:
        for _ in range(6000):
            out.write(zeros)
    assert bomb.stat().st_size < 2 * MIB
    refused_within(bomb, 600 * MIB, 1 << 40)
    # A blob of zeros under its true name: only the limit keeps it out.
    forge = Forge()
    forge.outcome(forge.step("cell", cell_payload(), blobs=["0" * 64]))
    start = b"".join(member(*part) for part in forge.members())
    with bomb.open("wb") as file, zstandard.ZstdCompressor(level=1).stream_writer(file) as out:
        out.write(start + header(layout.blob_member("0" * 64), 6000 * MIB))
        for _ in range(6000):
            out.write(zeros)
    assert "too large" in refused_within(bomb, 600 * MIB, 1 << 30)
    assert "the blob 000000" in refused_within(bomb, 600 * MIB, 1 << 40)


def test_a_window_larger_than_memory_is_refused() -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=30, enable_ldm=1)
    data = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    refused(data.compress(one_cell().bundle()) + data.flush(), "decompressed")


def test_a_line_that_would_fill_memory_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "wide"
    for value in (b"[" + b"[]," * (20 * MIB) + b"[]]", b"[" + b"{}," * (20 * MIB) + b"1]"):
        forge = Forge()
        forge.raw("step", value)
        path.write_bytes(forge.bundle())
        assert "values" in refused_within(path, 900 * MIB, 1 << 30)


# JSON --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000 + b"]" * 100_000,
        b'{"a":' * 300 + b"1" + b"}" * 300,
        b'{"at":NaN}',
        b'{"at":Infinity}',
        b'{"at":1,"at":1}',
        b'{"b":1,"a":2}',
        b'{"at": 1}',
        b'{"at":1e5}',
        b'{"at":01}',
        b'{"at":' + b"9" * 5000 + b"}",
        b'{"at":"\\u00E9"}',
        b'{"at":"\xc3\xa9"}',
        b'{"at":"\xff"}',
        b'{"at":1',
        b"null",
        b'"step"',
        b"",
    ],
)
def test_json_of_another_form_is_refused(body: bytes) -> None:
    for type_ in ("step", "outcome"):
        forge = Forge()
        forge.raw(type_, body)
        refused(forge.bundle())


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"[]",
        b'["step"]',
        b'["step","x",{}]',
        b'["output",-1,["stream",{},{},[]]]',
        b'["output",true,["stream",{},{},[]]]',
        b'["output",0.0,["stream",{},{},[]]]',
        b'["late",0,[]]',
        b'["else",0,{}]',
        b'[["step"],0,{}]',
        b'{"step":1}',
    ],
)
def test_a_line_of_another_form_is_refused(line: bytes) -> None:
    forge = one_cell()
    forge.lines.append(line + b"\n")
    refused(forge.bundle())


# history -----------------------------------------------------------------------------------------


def with_lines(change: Callable[[list[bytes]], list[bytes]]) -> bytes:
    forge = Forge()
    for code in ("a", "b", "c"):
        shown = text(code)
        seq = forge.step("cell", cell_payload(code))
        for entry in shown:
            forge.output("output", seq, entry.to_json())
        forge.outcome(seq, outputs=outputs_hash(shown))
    assert check(forge.bundle()).seal.steps == 3
    forge.lines = change(forge.lines)
    return forge.bundle()


@pytest.mark.parametrize("at", range(9))
def test_no_line_can_be_missing_twice_or_elsewhere(at: int) -> None:
    refused(with_lines(lambda lines: [*lines[:at], *lines[at + 1 :]]))
    refused(with_lines(lambda lines: [*lines[: at + 1], *lines[at:]]))
    if at:
        refused(
            with_lines(lambda lines: [*lines[: at - 1], lines[at], lines[at - 1], *lines[at + 1 :]])
        )
    other = with_lines(lambda lines: [line.replace(b'"b"', b'"x"') for line in lines])
    refused(other, "digest of line 4")


def test_pages_end_where_they_should_and_nowhere_else() -> None:
    forge = Forge()
    for number in range(5):
        forge.outcome(forge.step("cell", cell_payload(f"{number}" * (3 * MIB))))
    parts = forge.members()
    check(put_together(parts))
    pages = [content for name, content in parts if name.startswith("events/")]
    assert len(pages) == 5
    rest = parts[1 + len(pages) :]

    def cut(*changed: bytes) -> bytes:
        listed = [(layout.events_member(n), page) for n, page in enumerate(changed)]
        return put_together([parts[0], *listed, *rest])

    lines = b"".join(pages).splitlines(keepends=True)
    assert cut(*pages) == put_together(parts)
    refused(cut(b"".join(pages)), "does not end where")
    refused(cut(*lines), "does not begin where")
    refused(cut(*pages[:-1], pages[-1][:-1]), "does not end where")
    refused(cut(*pages, b""), "does not begin where")
    refused(cut(pages[0][:-1], b"\n" + pages[1], *pages[2:]))


@pytest.mark.parametrize(
    "head",
    [
        {"steps": 2},
        {"events": 3},
        {"chain": "0" * 64},
        {"chain": "x"},
        {"session": "x"},
        {"session": 5},
        {"kernel": ""},
        {"kernel": "a\nb"},
        {"kernel": ["python3"]},
        {"created_at": -1},
        {"created_at": True},
        {"created_at": 1 << 63},
        {"format": "tar"},
        {"version": 0},
        {"version": "1"},
        {"more": 1},
    ],
    ids=str,
)
def test_a_head_that_does_not_fit_is_refused(head: dict[str, object]) -> None:
    refused(one_cell().bundle(**head))


def test_a_later_version_says_so() -> None:
    assert "format 3" in refused(one_cell().bundle(version=3))


BAD_STEPS: dict[str, dict[str, object]] = {
    "kind": {"kind": "spell"},
    "actor": {"actor": {"kind": "root"}},
    "actor's turn": {"actor": {"kind": "agent", "conversation": "x", "turn": "y"}},
    "payload": {"payload": []},
    "no code": {"payload": {**cell_payload(), "content": {}}},
    "code": {"payload": cell_payload(["1"])},
    "no header": {"payload": {"metadata": {}, "content": {"code": ""}}},
    "msg_id": {"payload": {**cell_payload(), "header": {"msg_id": 5, "msg_type": "x"}}},
    "environment": {"environment": "../x"},
    "time": {"at": "now"},
    "float time": {"at": 1.5},
    "large time": {"at": 1 << 63},
    "during itself": {"during": [0, 0]},
    "during nothing": {"during": []},
    "blobs": {"blobs": ["../x"]},
    "upper case": {"blobs": ["A" * 64]},
    "key": {"key": 5},
    "late": {"late": "0" * 64},
    "more": {"more": 1},
    "other seq": {"seq": 1},
    "true seq": {"seq": False},
    "other event": {"event": 7},
    "upload": {"kind": "upload", "payload": {"entries": [["../x", "file", 420, 0, "0" * 64]], "removed": []}},
    "upload through a link": {
        "kind": "upload",
        "payload": {
            "entries": [["a", "link", 511, 0, "/etc"], ["a/b", "file", 420, 0, "0" * 64]],
            "removed": [],
        },
    },
    "upload without content": {
        "kind": "upload",
        "payload": {"entries": [["x", "file", 420, 0, None]], "removed": []},
    },
    "removed": {"kind": "upload", "payload": {"entries": [], "removed": ["/etc"]}},
    "mount target": {"kind": "mount", "payload": {"target": "/etc", "tree": "0" * 64}},
    "mount out": {"kind": "mount", "payload": {"target": "/mnt/../etc", "tree": "0" * 64}},
    "restart": {"kind": "restart", "payload": {"tree": "x"}},
    "no command": {"kind": "command", "payload": {"shell": None, "argv": None}},
    "argv": {"kind": "command", "payload": {"argv": [1], "output_bytes": 1, "output_lines": 1}},
    "caps": {"kind": "command", "payload": {"shell": "true", "output_bytes": -1, "output_lines": 1}},
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_STEPS)
def test_a_step_that_the_engine_could_stumble_over_is_refused(case: str) -> None:
    changes = dict(BAD_STEPS[case])
    forge = Forge(lambda body: {**body, **changes} if "kind" in body else body)
    forge.outcome(forge.step("cell", cell_payload()))
    refused(forge.bundle())


@pytest.mark.parametrize(
    "changes",
    [
        {"status": "great"},
        {"outputs": "0" * 64},
        {"outputs": None},
        {"inputs": [5]},
        {"execution_count": "1"},
        {"cause": []},
        {"duration_us": -1},
        {"duration_us": 1 << 63},
        {"cut": 0},
        {"seq": 1},
        {"seq": -1},
        {"late": "0" * 64},
        {"more": 1},
    ],
    ids=str,
)
def test_an_outcome_that_does_not_fit_is_refused(changes: dict[str, object]) -> None:
    forge = Forge()
    forge.outcome(forge.step("cell", cell_payload()), **changes)
    refused(forge.bundle())


def test_a_step_ends_once() -> None:
    forge = one_cell()
    forge.outcome(0)
    refused(forge.bundle(), "not running")


def test_a_key_names_one_step() -> None:
    forge = Forge()
    for _ in range(2):
        forge.outcome(forge.step("cell", cell_payload(), key="once"))
    refused(forge.bundle(), "key")


@pytest.mark.parametrize("late", [False, True])
def test_output_belongs_to_a_step_that_can_show_it(late: bool) -> None:
    entry = text("x")[0].to_json()
    forge = Forge()
    forge.step("cell", cell_payload())
    forge.output("late" if late else "output", 0 if late else 1, [entry] if late else entry)
    refused(forge.bundle(), "shows nothing")


@pytest.mark.parametrize(
    "entry",
    [
        ["stream", {}, {}, []],
        ["stream", {"name": "stdout", "text": 5}, {}, []],
        ["display_data", [], {}, []],
        ["display_data", {}, {}, ["x"]],
        ["display_data", {}, {}],
        [5, {}, {}, []],
        {},
        "x",
    ],
    ids=str,
)
def test_an_output_of_another_form_is_refused(entry: object) -> None:
    forge = Forge()
    forge.step("cell", cell_payload())
    forge.output("output", 0, entry)
    refused(forge.bundle(), "no output")


# environments, tables, blobs ---------------------------------------------------------------------


def replaced(parts: Members, name: str, content: bytes) -> bytes:
    assert name in dict(parts)
    return put_together([(each, content if each == name else old) for each, old in parts])


@pytest.mark.parametrize(
    "changes",
    [
        {"packages": [["a", "b"]]},
        {"packages": {"a": "b"}},
        {"limits": []},
        {"limits": {"memory": "all"}},
        {"variables": {"A": 1}},
        {"mounts": [{}]},
        {"base": 5},
        {"kernel": "python3"},
    ],
    ids=str,
)
def test_an_environment_that_cannot_be_is_refused(changes: dict[str, object]) -> None:
    spec = {**SPEC, **changes}
    body = canonical(spec)
    digest = hashlib.sha256(body).hexdigest()
    forge = Forge(lambda step: {**step, "environment": digest} if "kind" in step else step)
    forge.outcome(forge.step("cell", cell_payload()))
    parts = []
    for name, content in forge.members():
        if name == layout.environment_member(ENVIRONMENT):
            parts.append((layout.environment_member(digest), body))
        elif name == layout.lock_member(ENVIRONMENT):
            parts.append((layout.lock_member(digest), content))
        else:
            parts.append((name, content))
    refused(put_together(parts), "what no environment can")


def test_an_environment_is_what_its_digest_says() -> None:
    parts = one_cell().members()
    other = canonical({**SPEC, "base": "/opt"})
    refused(replaced(parts, layout.environment_member(ENVIRONMENT), other), "its name")
    refused(replaced(parts, layout.lock_member(ENVIRONMENT), b"evil==1\n"), "packages")
    assert b"evil" not in lock({"packages": [["a\nevil", "1", "r"], ["ok", "1 # x", "r"]]})


@pytest.mark.parametrize(
    ("table", "row"),
    [
        (layout.NOTICES, [5, 1, "code", "text", {}]),
        (layout.NOTICES, [0, "now", "code", "text", {}]),
        (layout.NOTICES, [0, 1, "code", 5, {}]),
        (layout.NOTICES, [0, 1, "co\0de", "text", {}]),
        (layout.NOTICES, [0, 1]),
        (layout.STATES, [1, 1, None, None]),
        (layout.STATES, [0, 1, "x", None]),
        (layout.STATES, [0, 1, None, []]),
        (layout.ARTIFACTS, [0, "../x", "0" * 64, 1, 420, {"kind": "user"}, 1]),
        (layout.ARTIFACTS, [0, "x", "0" * 64, -1, 420, {"kind": "user"}, 1]),
        (layout.ARTIFACTS, [0, "x", "0" * 64, 1, 0o7777, {"kind": "user"}, 1]),
        (layout.ARTIFACTS, [0, "x", "0" * 64, 1, 420, {"kind": "user", "more": 1}, 1]),
        (layout.ARTIFACTS, {}),
    ],
    ids=str,
)
def test_what_stands_beside_the_history_has_its_form(table: str, row: object) -> None:
    refused(replaced(one_cell().members(), table, canonical(row) + b"\n"), "does not record")


def test_every_named_blob_is_there_and_no_other() -> None:
    forge = Forge()
    first, second = forge.blob(b"one"), forge.blob(b"two")
    forge.outcome(forge.step("cell", cell_payload(), blobs=[first, second]))
    parts = forge.members()
    check(put_together(parts))
    refused(put_together(parts[:-1]), second)
    refused(put_together([*parts[:-2], parts[-1], parts[-2]]), "is due")
    refused(put_together([*parts, (layout.blob_member("0" * 64), b"")]))
    refused(put_together([*parts[:-1], (parts[-1][0], b"six")]), "other bytes")


@pytest.mark.parametrize(
    "tree",
    [
        b"no tree",
        canonical({"entries": [["../x", "file", 420, 0, "0" * 64]]}),
        canonical({"entries": [["b", "dir", 493, 0, None], ["a", "dir", 493, 0, None]]}),
        b'{"entries":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
)
def test_a_tree_that_is_none_is_refused(tree: bytes) -> None:
    forge = Forge()
    name = forge.blob(tree)
    forge.outcome(forge.step("restart", {"tree": name}))
    refused(forge.bundle(), "malformed")


def test_the_files_of_a_tree_must_be_there() -> None:
    forge = Forge()
    tree = Manifest.of([Entry("x", "file", 0o644, 3, "ab" * 32)])
    forge.outcome(forge.step("restart", {"tree": forge.blob(tree.to_bytes())}))
    refused(forge.bundle(), "ab" * 32)
