"""Archives of any bytes: each is read, or refused as no skill; none crashes the reader or holds it."""

import gzip
import io
import tarfile
from collections.abc import Callable

import pytest
import zstandard
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from reprise.errors import BadSkill
from reprise.skills.archive import archive_of, packed_skills
from reprise.skills.contract import SkillTree
from reprise.skills.finding import skill_folders
from reprise.skills.paths import checked_path
from tests.fixtures.skill_sources import ZipMember, make_zip, skill, skill_md

BOUNDED = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
SKILLS = {"one": skill("one"), "two": skill("two", ("ü/x", 0o644, b"\0" * 3000))}


def read(data: bytes) -> list[SkillTree]:
    """Every skill that can be read, each of clean paths. BadSkill is an answer, too."""
    found = []
    try:
        with archive_of(io.BytesIO(data)) as archive:
            for folder in skill_folders(archive).folders:
                try:
                    found.append(archive.tree(folder))
                except BadSkill:
                    continue
    except BadSkill:
        return found
    for tree in found:
        for entry in tree.manifest:
            checked_path(entry.path)
            assert entry.mode in (0o644, 0o755)
    return found


def test_the_fuzzer_reads_what_is_whole() -> None:
    for name in ("x.zip", "x.tar.gz"):
        digests = [tree.digest for tree in read(packed_skills(SKILLS, name))]
        assert digests == [tree.digest for tree in SKILLS.values()]


WHOLE = {
    "zip": packed_skills(SKILLS, "x.zip"),
    "tar": gzip.decompress(packed_skills(SKILLS, "x.tar.gz")),
    "tar.gz": packed_skills(SKILLS, "x.tar.gz"),
    "tar.zst": zstandard.compress(gzip.decompress(packed_skills(SKILLS, "x.tar.gz"))),
}


@st.composite
def mutated(draw: st.DrawFn, whole: bytes) -> bytes:
    """A valid archive with some bytes changed, cut out, put in or repeated."""
    data = bytearray(whole)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(len(data) - 1, 0)))
        match draw(st.sampled_from(["flip", "set", "cut", "put", "repeat", "number"])):
            case "flip" if data:
                data[at] ^= 1 << draw(st.integers(0, 7))
            case "set":
                data[at : at + 4] = draw(st.binary(min_size=1, max_size=4))
            case "cut":
                del data[at : at + draw(st.integers(1, 600))]
            case "put":
                data[at:at] = draw(st.binary(max_size=40))
            case "repeat":
                data[at:at] = data[at : at + draw(st.integers(1, 600))]
            case "number":
                data[at : at + 4] = draw(st.sampled_from([b"\xff" * 4, b"\0" * 4, b"\0\0\0\x80"]))
    return bytes(data)


@pytest.mark.parametrize("form", WHOLE)
def test_no_mutated_archive_is_more_than_refused(form: str) -> None:
    @BOUNDED
    @given(mutated(WHOLE[form]))
    def run(data: bytes) -> None:
        read(data)

    run()


@BOUNDED
@given(
    st.lists(
        st.builds(
            ZipMember,
            name=st.one_of(
                st.sampled_from([b"x/SKILL.md", b"x/", b"x", b"SKILL.md", b"../x", b"/x", b"x/a"]),
                st.binary(max_size=30),
            ),
            data=st.one_of(st.just(skill_md("x")), st.binary(max_size=50)),
            method=st.sampled_from([0, 8, 8, 9, 12, 14, 99]),
            mode=st.sampled_from([0o100644, 0o100755, 0o120777, 0o040755, 0, 0o020666, 0xFFFF]),
            flags=st.sampled_from([0, 0, 1, 8, 0x40, 0x800, 0x2000]),
            system=st.sampled_from([0, 3, 19, 255]),
            local_name=st.one_of(st.none(), st.none(), st.binary(max_size=12)),
            crc=st.one_of(st.none(), st.none(), st.integers(0, (1 << 32) - 1)),
            size=st.one_of(st.none(), st.none(), st.integers(0, (1 << 32) - 1)),
            packed=st.one_of(st.none(), st.none(), st.binary(max_size=40)),
            offset=st.one_of(st.none(), st.none(), st.integers(0, 400)),
            extra=st.one_of(st.just(b""), st.binary(max_size=40)),
        ),
        max_size=6,
    ),
    st.one_of(st.none(), st.none(), st.integers(0, 65_535)),
    st.sampled_from([b"", b"", b"PK\x03\x04", b"x"]),
    st.sampled_from([b"", b"", b"x", b"PK\x05\x06" + bytes(18)]),
)
@example(
    [ZipMember(b"x/SKILL.md", skill_md("x"), size=0xFFFFFFFF, extra=b"\1\0\x20\0")], None, b"", b""
)
def test_no_forged_zip_is_more_than_refused(
    members: list[ZipMember], count: int | None, before: bytes, after: bytes
) -> None:
    read(make_zip(members, count=count, before=before, after=after))


@st.composite
def tars(draw: st.DrawFn) -> bytes:
    """Headers with fields of any kind: lying sizes, names of all forms, extensions of extensions."""
    out = bytearray()
    for _ in range(draw(st.integers(1, 5))):
        info = tarfile.TarInfo(
            draw(
                st.sampled_from(["x/SKILL.md", "x/a", "x", "../x", "/x", "x/", "SKILL.md", "é/\\"])
            )
        )
        info.type = draw(
            st.sampled_from([*(bytes([byte]) for byte in b"01234567LKxgSVNMA"), b"\0", b"0", b"0"])
        )
        info.linkname = draw(st.sampled_from(["", "x/SKILL.md", "/etc/passwd", "../.."]))
        info.mode = draw(st.integers(0, 0o7777))
        data = draw(
            st.one_of(
                st.just(skill_md("x")),
                st.binary(max_size=700),
                st.sampled_from(
                    [
                        b"19 size=99999999999\n",
                        b"18 path=../../evil\n",
                        b"22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n",
                        b"0 x=y\n",
                        b"99999 x=y\n",
                        b"12 size=-12\n",
                        b"x/" * 300,
                    ]
                ),
            )
        )
        info.size = draw(st.sampled_from([len(data), len(data), len(data), 0, 1 << 20, 8**11 - 1]))
        head = bytearray(info.tobuf(tarfile.GNU_FORMAT))[-512:]
        if draw(st.booleans()):
            at = draw(st.integers(0, 511))
            head[at : at + 8] = draw(st.binary(min_size=1, max_size=8))
            if draw(st.booleans()):  # a true sum over untrue fields
                head[148:156] = b" " * 8
                head[148:156] = b"%06o\0 " % sum(head)
        out += head[:512] + data + bytes(-len(data) % 512)
    return bytes(out) + bytes(draw(st.sampled_from([1024, 1024, 10240, 512, 0])))


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.compress])
def test_no_forged_tar_is_more_than_refused(pack: Callable[[bytes], bytes]) -> None:
    @BOUNDED
    @given(tars())
    def run(data: bytes) -> None:
        read(pack(data))

    run()


@BOUNDED
@given(
    st.sampled_from([b"", b"PK\x03\x04", b"PK\x05\x06", b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd"]),
    st.binary(max_size=400),
)
def test_no_bytes_are_more_than_refused(begin: bytes, rest: bytes) -> None:
    read(begin + rest)
