"""Archives try to bring in what their reader did not see, or more than it can hold."""

import gzip
import io
import os
import re
import struct
import subprocess
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from reprise.errors import BadSkill, UsageError
from reprise.skills import archive_members, archive_zip
from reprise.skills.archive import archive_of, opened_archive, packed_skills
from reprise.skills.finding import skill_folders
from reprise.skills.sources import find_skills
from tests.fixtures.skill_sources import ZipMember, make_zip, skill, skill_md

GOOD = ZipMember(b"good/SKILL.md", skill_md("good"))


def names(data: bytes) -> list[str]:
    """The folders of skills in an archive, each of which can be read."""
    with archive_of(io.BytesIO(data)) as archive:
        folders = list(skill_folders(archive).folders)
        for folder in folders:
            archive.tree(folder)
        return folders


def refused(data: bytes) -> str:
    with pytest.raises(BadSkill) as error:
        names(data)
    return str(error.value)


def make_tar(*members: tuple[tarfile.TarInfo, bytes], end: bool = True) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for info, data in members:
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
        size = tar.offset
    return out.getvalue() if end else out.getvalue()[:size]


def in_tar(
    name: str, data: bytes = b"", type_: bytes = tarfile.REGTYPE, link: str = ""
) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = type_, link, 0o644
    return info, data


GOOD_TAR = in_tar("good/SKILL.md", skill_md("good"))


# what is read -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["skills.zip", "one.skill", "skills.tar.gz", "skills.tgz"])
def test_what_is_packed_comes_back_whole_and_scripts_can_be_run(name: str) -> None:
    trees = {"one": skill("one"), "two": skill("two", ("ü/ß.txt", 0o644, b"\r\n"))}
    data = packed_skills(trees, name)
    assert data == packed_skills(dict(reversed(trees.items())), name)
    with archive_of(io.BytesIO(data)) as archive:
        assert skill_folders(archive).folders == ("one", "two")
        for folder, tree in trees.items():
            assert archive.tree(folder).digest == tree.digest
            entry = archive.tree(folder).manifest.get("scripts/do.py")
            assert entry is not None
            assert entry.mode == 0o755


@pytest.mark.parametrize(
    "command",
    [
        "zip -qr ../x.zip .",
        "tar cf ../x.tar .",
        "tar czf ../x.tar.gz *",
        "tar cf - --format=gnu one | zstd -q > ../x.tar.zst",
        "tar czf ../x.tgz --format=pax --owner=nobody --sort=name one",
    ],
)
def test_what_the_machines_own_programs_pack_is_read(tmp_path: Path, command: str) -> None:
    """Where such a program is."""
    folder = tmp_path / "in"
    tree = skill("one", ("a" * 120 + "/x", 0o644, b"x" * 5000))
    with archive_of(io.BytesIO(packed_skills({"one": tree}, "x.tar.gz"))) as archive:
        assert archive.tree("one").digest == tree.digest
    with tarfile.open(fileobj=io.BytesIO(packed_skills({"one": tree}, "x.tar.gz"))) as tar:
        tar.extractall(folder, filter="data")
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=folder, check=False)
    if done.returncode == 127:
        pytest.skip(f"this machine has no {command.split(maxsplit=1)[0]}")
    assert done.returncode == 0
    (packed,) = tmp_path.glob("x.*")
    (found,) = find_skills(str(packed))
    assert found.skill is not None
    assert found.skill.digest == tree.digest
    assert (found.origin.kind, found.origin.where, found.origin.subfolder) == (
        "archive",
        str(packed),
        "one",
    )


def test_a_skill_may_be_the_whole_archive() -> None:
    assert names(make_zip([ZipMember(b"SKILL.md", skill_md("x")), ZipMember(b"a.txt")])) == [""]


def test_a_mode_of_windows_is_no_executable_one_and_a_mac_s_leftovers_stay_out() -> None:
    data = make_zip(
        [
            ZipMember(b"x/SKILL.md", skill_md("x"), mode=0, system=0),
            ZipMember(b"x/run.sh", b"#!/bin/sh\n", mode=0o100755),
            ZipMember(b"x/.DS_Store", b"junk"),
            ZipMember(b"__MACOSX/x/._SKILL.md", b"junk"),
        ]
    )
    with archive_of(io.BytesIO(data)) as archive:
        assert skill_folders(archive).folders == ("x",)
        assert [(e.path, e.mode) for e in archive.tree("x").manifest] == [
            ("SKILL.md", 0o644),
            ("run.sh", 0o755),
        ]


def test_large_sizes_are_read_where_a_writer_uses_them() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        info = zipfile.ZipInfo("x/SKILL.md")
        with archive.open(info, "w", force_zip64=True) as member:
            member.write(skill_md("x"))
    assert names(out.getvalue()) == ["x"]


def test_sizes_after_the_bytes_are_read_from_the_directory() -> None:
    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

    out = Pipe()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x/SKILL.md", skill_md("x"))
    assert names(out.getvalue()) == ["x"]


# one skill is refused, the others come --------------------------------------------------------------

IN_ONE_SKILL: dict[str, tuple[ZipMember, str]] = {
    "a link": (ZipMember(b"bad/link", b"/etc/passwd", mode=0o120777), "symbolic link"),
    "a device": (ZipMember(b"bad/null", mode=0o020666), "no file"),
    "a pipe": (ZipMember(b"bad/pipe", mode=0o010644), "no file"),
    "an encrypted member": (ZipMember(b"bad/secret", b"x", flags=1), "encrypted"),
    "a method that is not read": (ZipMember(b"bad/x", b"x", method=12, packed=b"x"), "method (12)"),
    "a Windows device": (ZipMember(b"bad/aux.txt"), "device on Windows"),
    "a character that Windows has not": (ZipMember(b"bad/a:b"), "Windows allows no"),
    "a dot that Windows drops": (ZipMember(b"bad/a./x"), "Windows drops"),
    "upper and lower case": (ZipMember(b"bad/A.TXT"), "upper and lower case"),
    "another spelling of ü": (ZipMember("bad/ü".encode()), "one name"),
}


@pytest.mark.parametrize("what", IN_ONE_SKILL)
def test_what_no_skill_may_hold_is_named_and_other_skills_come(what: str, tmp_path: Path) -> None:
    member, reason = IN_ONE_SKILL[what]
    packed = tmp_path / "x.zip"
    packed.write_bytes(
        make_zip(
            [
                GOOD,
                ZipMember(b"bad/SKILL.md", skill_md("bad")),
                ZipMember("bad/u\u0308".encode()),
                ZipMember(b"bad/a.txt"),
                member,
            ]
        )
    )
    bad, good = find_skills(str(packed))
    assert bad.skill is None
    assert reason in bad.problem
    assert member.name.removeprefix(b"bad/").decode() in bad.problem
    assert good.skill is not None
    # Beside all skills it is in nobody's way.
    packed.write_bytes(make_zip([GOOD, ZipMember(b"README"), _beside(member)]))
    (found,) = find_skills(str(packed))
    assert found.skill is not None


def _beside(member: ZipMember) -> ZipMember:
    return ZipMember(
        member.name.replace(b"bad/", b"docs/"),
        member.data,
        member.method,
        member.mode,
        member.flags,
        packed=member.packed,
    )


@pytest.mark.parametrize(
    ("type_", "reason"),
    [
        (tarfile.SYMTYPE, "symbolic link"),
        (tarfile.LNKTYPE, "hard link"),
        (tarfile.CHRTYPE, "device"),
        (tarfile.BLKTYPE, "device"),
        (tarfile.FIFOTYPE, "pipe"),
        (tarfile.GNUTYPE_SPARSE, "sparse"),
        (b"Z", "no file"),
    ],
)
def test_no_skill_comes_with_a_tar_s_links_and_devices(
    type_: bytes, reason: str, tmp_path: Path
) -> None:
    packed = tmp_path / "x.tar"
    bad = in_tar("bad/SKILL.md", skill_md("bad"))
    packed.write_bytes(make_tar(GOOD_TAR, bad, in_tar("bad/x", b"", type_, "../good/SKILL.md")))
    first, second = find_skills(str(packed))
    assert first.skill is None
    assert reason in first.problem
    assert "x " in first.problem
    assert second.skill is not None


# the whole archive is refused -----------------------------------------------------------------------

FORGED: dict[str, tuple[bytes, str]] = {
    "up": (make_zip([GOOD, ZipMember(b"../evil")]), "leads out"),
    "up within": (make_zip([GOOD, ZipMember(b"good/../../evil")]), "leads out"),
    "absolute": (make_zip([GOOD, ZipMember(b"/etc/evil")]), "absolute"),
    "drive": (make_zip([GOOD, ZipMember(b"C:/evil")]), "absolute"),
    "backslash": (make_zip([GOOD, ZipMember(b"good\\evil")]), "backslash"),
    "NUL": (make_zip([GOOD, ZipMember(b"good/SKILL.md\0.txt")]), "NUL"),
    "empty part": (make_zip([GOOD, ZipMember(b"good//evil")]), "clean"),
    "dot part": (make_zip([GOOD, ZipMember(b"good/./evil")]), "clean"),
    "no name": (make_zip([GOOD, ZipMember(b"", b"evil")]), "no name"),
    "not UTF-8": (make_zip([GOOD, ZipMember(b"good/\xff\xfe")]), "UTF-8"),
    "says it is UTF-8": (make_zip([GOOD, ZipMember(b"good/\xff", flags=0x800)]), "says it is"),
    "twice": (make_zip([GOOD, ZipMember(b"good/SKILL.md", b"evil")]), "twice"),
    "twice, once with ./": (make_zip([GOOD, ZipMember(b"./good/SKILL.md", b"evil")]), "twice"),
    "file and folder": (make_zip([GOOD, ZipMember(b"good/SKILL.md/x")]), "no folder"),
    "folder with bytes": (make_zip([GOOD, ZipMember(b"good/sub/", b"evil")]), "folder with bytes"),
    "long name": (make_zip([GOOD, ZipMember(b"a" * 300)]), "255 bytes"),
    "deep": (make_zip([GOOD, ZipMember(b"a/" * 200 + b"x")]), "64 folders deep"),
    "another name beside the bytes": (
        make_zip([GOOD, ZipMember(b"good/nice", local_name=b"good/evil")]),
        "another name",
    ),
    "another name for some readers": (
        make_zip([GOOD, ZipMember(b"good/nice", extra=b"\x75\x70\x0e\0\1\0\0\0\0good/evil")]),
        "another name among",
    ),
    "another size beside the bytes": (
        make_zip([GOOD, ZipMember(b"good/x", b"xxxx", local_size=2)]),
        "other sizes",
    ),
    "a smaller size than it has": (
        make_zip([GOOD, ZipMember(b"good/x", b"x" * 99, size=9, local_size=9)]),
        "does not hold the bytes",
    ),
    "a larger size than it has": (
        make_zip([GOOD, ZipMember(b"good/x", b"x" * 9, size=99, local_size=99)]),
        "does not hold the bytes",
    ),
    "another checksum": (make_zip([GOOD, ZipMember(b"good/x", b"x", crc=7)]), "does not hold"),
    "two sizes and not packed": (
        make_zip([GOOD, ZipMember(b"good/x", b"x" * 9, method=0, packed=b"x", size=9)]),
        "two sizes",
    ),
    "bytes after what was packed": (
        make_zip([GOOD, ZipMember(b"good/x", b"", packed=b"\x03\x00evil")]),
        "does not hold",
    ),
    "not packed as it says": (
        make_zip([GOOD, ZipMember(b"good/x", b"x", packed=b"\xff" * 9)]),
        "cannot be unpacked",
    ),
    "one place under two sizes": (
        make_zip([GOOD, ZipMember(b"good/SKILL.md", b"", offset=0)]),
        "other sizes",
    ),
    "shared bytes": (
        make_zip([ZipMember(b"a/x", b"same"), ZipMember(b"a/x", b"same", offset=0)]),
        "twice",
    ),
    "outside": (make_zip([GOOD, ZipMember(b"good/x", offset=1 << 20)]), "outside"),
    "within another one": (
        make_zip([GOOD, ZipMember(b"good/x", offset=7)]),
        "not where the directory says",
    ),
    "a script before": (make_zip([GOOD], before=b"#!/bin/sh\nexec evil\n"), "no archive"),
    "before": (make_zip([GOOD], before=b"PK\x03\x04evil"), "Before its first member"),
    "after": (make_zip([GOOD], after=b"evil"), "After the end|no end"),
    "a zip in the comment": (make_zip([GOOD], comment=make_zip([GOOD]) + b"xx"), "end|directory"),
    "too few": (make_zip([GOOD, ZipMember(b"x")], count=1), "more members than it says"),
    "too many": (make_zip([GOOD], count=2), "ends before"),
    "cut off": (make_zip([GOOD])[:-30], "no end"),
    "nothing but its first bytes": (b"PK\x03\x04", "no end"),
    "7z": (b"7z\xbc\xaf\x27\x1c" + bytes(64), "7z"),
    "xz": (b"\xfd7zXZ\x00" + bytes(64), "xz"),
    "text": (b"once upon a time\n" * 99, "no archive"),
    "nothing": (b"", "no archive"),
    "tar: up": (make_tar(GOOD_TAR, in_tar("../evil")), "leads out"),
    "tar: absolute": (make_tar(GOOD_TAR, in_tar("/etc/evil")), "absolute"),
    "tar: backslash": (make_tar(GOOD_TAR, in_tar("good\\evil")), "backslash"),
    "tar: twice": (make_tar(GOOD_TAR, in_tar("./good/SKILL.md", b"evil")), "twice"),
    "tar: file and folder": (make_tar(GOOD_TAR, in_tar("good/SKILL.md/x")), "no folder"),
    "tar: not UTF-8": (make_tar(GOOD_TAR, in_tar("good/\udcff")), "UTF-8"),
    "tar: after": (make_tar(GOOD_TAR) + b"evil".ljust(512, b"\0"), "no member"),
    "tar: without its end": (make_tar(GOOD_TAR, end=False), "cut off"),
    "tar: cut off": (make_tar(GOOD_TAR)[:600], "cut off|no member"),
    "gzip: cut off": (gzip.compress(make_tar(GOOD_TAR))[:-9], "cut off"),
    "gzip: after": (gzip.compress(make_tar(GOOD_TAR)) + b"evil", "something more"),
    "gzip: two": (gzip.compress(make_tar(GOOD_TAR)) * 2, "something more"),
    "gzip: wrong sum": (gzip.compress(make_tar(GOOD_TAR))[:-8] + bytes(8), "cannot be unpacked"),
    "gzip: of text": (gzip.compress(b"once upon a time\n" * 99), "no archive"),
    "zstd: cut off": (zstandard.compress(make_tar(GOOD_TAR))[:-9], "cut off"),
    "zstd: after": (zstandard.compress(make_tar(GOOD_TAR)) + b"evil", "something more"),
    "zstd: two": (zstandard.compress(make_tar(GOOD_TAR)) * 2, "something more"),
    "zstd: broken": (b"\x28\xb5\x2f\xfd" + bytes(range(99)), "cannot be unpacked|cut off"),
}


@pytest.mark.parametrize("what", FORGED)
def test_nothing_of_a_forged_archive_is_taken(what: str) -> None:
    data, reason = FORGED[what]
    assert re.search(reason, refused(data)), refused(data)


def test_two_members_cannot_share_their_bytes() -> None:
    """A bomb of few bytes: many members whose data is one."""
    one = ZipMember(b"a/SKILL.md", skill_md("a"))
    inner = make_zip([one])
    data = make_zip([one, ZipMember(b"a/x", skill_md("a"), local_name=b"a/SKILL.md", offset=0)])
    assert "another name" in refused(data)
    assert names(inner) == ["a"]
    # The second begins within the first one's bytes, where a header of its own stands.
    header = make_zip([ZipMember(b"a/y", b"yy", method=0)])[: 30 + 3 + 2]
    outer = ZipMember(b"a/SKILL.md", header + b"more", method=0)
    data = make_zip([outer, ZipMember(b"a/y", b"yy", method=0, offset=30 + len(b"a/SKILL.md"))])
    assert "shares bytes" in refused(data)


def test_two_ends_that_say_different_things_are_refused() -> None:
    data = bytearray(make_zip([GOOD]))
    end = data.rfind(b"PK\x05\x06")
    count, length, offset = struct.unpack_from("<HLL", data, end + 10)
    large = struct.pack(
        "<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, count + 1, count + 1, length, offset
    )
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, end, 1)
    data[end:end] = large + locator
    assert "different things" in refused(bytes(data))


@pytest.mark.parametrize("offset", [0, 1 << 40, 3])
def test_a_place_for_large_sizes_that_is_not_there_is_refused(offset: int) -> None:
    data = bytearray(make_zip([GOOD]))
    end = data.rfind(b"PK\x05\x06")
    data[end:end] = struct.pack("<4sLQL", b"PK\x06\x07", 0, offset, 1)
    assert "not there" in refused(bytes(data))


def test_large_sizes_that_stand_nowhere_are_refused() -> None:
    data = make_zip([GOOD, ZipMember(b"good/x", size=0xFFFFFFFF, local_size=0xFFFFFFFF)])
    assert "stand elsewhere" in refused(data)


# bombs --------------------------------------------------------------------------------------------

BOMB = 64 << 20


def zip_bomb() -> bytes:
    return make_zip([GOOD, ZipMember(b"good/zeros", bytes(BOMB))])


def tar_bomb(pack: Callable[[bytes], bytes]) -> bytes:
    return pack(make_tar(GOOD_TAR, in_tar("good/zeros", bytes(BOMB))))


@pytest.mark.parametrize(
    "make",
    [zip_bomb, lambda: tar_bomb(gzip.compress), lambda: tar_bomb(zstandard.compress)],
    ids=["zip", "tar.gz", "tar.zst"],
)
def test_what_unpacks_to_many_times_its_size_is_refused(
    make: Callable[[], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = make()
    assert "times its size" in refused(data)
    monkeypatch.setattr(archive_members, "MAX_RATIO", 1 << 30)
    monkeypatch.setattr(archive_members, "MAX_UNPACKED_BYTES", BOMB // 2)
    assert "MiB unpacked" in refused(data)


def test_a_bomb_of_zstd_does_not_unpack_at_once() -> None:
    """A few bytes of zstd may stand for gigabytes; the bound holds while they are unpacked."""
    packing = zstandard.ZstdCompressor(level=1).compressobj()
    data = b"".join(packing.compress(bytes(1 << 20)) for _ in range(1 << 10)) + packing.flush()
    tracemalloc.start()
    try:
        assert "times its size" in refused(data)
        assert tracemalloc.get_traced_memory()[1] < 128 << 20
    finally:
        tracemalloc.stop()


def test_more_members_than_can_be_are_refused_before_they_are_listed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(archive_members, "MAX_MEMBERS", 20)
    monkeypatch.setattr(archive_zip, "MAX_MEMBERS", 20)
    many = [ZipMember(b"good/%d" % number) for number in range(40)]
    assert "are the most" in refused(make_zip([GOOD, *many]))
    tar = [in_tar(f"good/{number}") for number in range(40)]
    assert "more than 20 members" in refused(make_tar(GOOD_TAR, *tar))


def test_a_file_over_the_bound_of_one_is_not_read(tmp_path: Path) -> None:
    packed = tmp_path / "x.zip"
    large = ZipMember(b"bad/x", os.urandom(17 << 20), method=0)
    packed.write_bytes(make_zip([GOOD, ZipMember(b"bad/SKILL.md", skill_md("bad")), large]))
    bad, good = find_skills(str(packed))
    assert "16 MiB" in bad.problem
    assert good.skill is not None


def test_an_archive_within_an_archive_is_a_file() -> None:
    inner = make_zip([ZipMember(b"inner/SKILL.md", skill_md("inner"))])
    assert names(make_zip([GOOD, ZipMember(b"inner.zip", inner)])) == ["good"]


def test_what_is_no_file_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.zip")
    with pytest.raises(BadSkill, match="no file"), opened_archive(tmp_path / "x.zip"):
        pass
    with pytest.raises(UsageError, match="does not end in"):
        packed_skills({"x": skill("x")}, "x.rar")
