"""Whatever a folder holds is a skill, or is refused with a reason; nothing crashes, hangs or changes."""

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reprise.errors import BadSkill
from reprise.skills.check import check
from reprise.skills.contract import EXECUTABLE, MAX_NAME, NAME, PLAIN, SkillTree
from reprise.skills.folder import read_folder, tree_of_files, write_folder
from reprise.skills.read import read_skill
from reprise.skills.rules import RULES
from tests.skills.sample import on_disk, skill_md, tree

LIGHT = settings(deadline=None, max_examples=200, suppress_health_check=list(HealthCheck))

#: What SKILL.md files are made of, and what breaks readers of them.
PIECES = st.sampled_from(
    [
        *(
            "---",
            "---\n",
            "\n",
            "\r\n",
            "\r",
            "...\n",
            "\ufeff",
            "\0",
            "\t",
            " ",
            "  ",
            ": ",
            ":",
            "#",
        ),
        *("name: ", "name: x\n", "description: ", "description: d\n", "metadata:\n", "license: "),
        *(
            "allowed-tools: ",
            "compatibility: ",
            "version: 1.0\n",
            "hooks:\n",
            "x",
            "ü",
            "日本",
            "🙂",
        ),
        *(
            "&a ",
            "*a",
            "*",
            "!!python/name:os.system ",
            "!",
            "!!str ",
            "<<: ",
            "? ",
            "- ",
            "| ",
            "> ",
        ),
        *(
            "[",
            "]",
            "{",
            "}",
            ",",
            "'",
            '"',
            "\\",
            '"\\ud83d\\ude00"',
            '"\\0"',
            "\\x00",
            "%YAML 1.2",
        ),
        *(
            "[a](b.md)",
            "](",
            "scripts/a.py",
            "scripts\\a.py",
            "!`date`",
            "```",
            "~~~",
            "`",
            "$ARGUMENTS",
        ),
        *(
            "\u202e",
            "\u200b",
            "\u200d",
            "\U000e0041",
            "\ufe0f\ufe0f",
            "\x1b",
            "\x85",
            "\u2028",
            "\ud7ff",
        ),
        *("1e999", "0x1F", "1:30", "2026-01-01", "~", "null", "true", "on", ".inf", "1_000", "007"),
        *('{"a": 1}', '{"a": {"b": ["c"]}}', "ghp_q8Zt3mVx1LrK7bYw5NcD2fGhJ4sPaE9uT6oR"),
    ]
)
TEXTS = st.one_of(
    st.lists(PIECES, max_size=60).map("".join),
    st.lists(PIECES, max_size=40).map(lambda pieces: f"---\n{''.join(pieces)}\n---\nbody"),
    st.lists(st.one_of(PIECES, st.text(max_size=5)), max_size=40).map(
        lambda pieces: skill_md("name: sample\ndescription: " + "".join(pieces) + "\n")
    ),
)
SKILL_FILES = st.one_of(
    TEXTS.map(lambda text: text.encode("utf-8", "surrogatepass")),
    TEXTS.map(lambda text: text.encode("utf-16")),
    st.binary(max_size=400),
    st.binary(max_size=60).map(
        lambda data: b"---\nname: a\ndescription: " + data + b"\n---\n" + data
    ),
)
#: Scripts, with what their readers look for.
SCRIPTS = st.lists(
    st.sampled_from(
        [
            *(
                "#!",
                "#!/usr/bin/env ",
                "python3",
                "bash",
                "-S ",
                "uv run --script",
                "\r\n",
                "\n",
                "\0",
            ),
            *(
                "# /// script\n",
                "# ///\n",
                "# dependencies = [",
                '"pandas"',
                "]\n",
                "# ",
                "=",
                "'",
                '"',
            ),
            *(
                "requires-python = ",
                "sys.argv",
                "input(",
                "read -p x",
                "--help",
                "$1",
                "\ufeff",
                "é",
            ),
        ]
    ),
    max_size=25,
).map(lambda pieces: "".join(pieces).encode())


def look_at(made: SkillTree) -> None:
    """Reads and checks it as all parts of Reprise do; raises when one of them would fail."""
    findings = check(made, folder="sample")
    for each in findings:
        assert each.severity == RULES[each.rule]
        assert each.line is None or each.line >= 1
        (each.text + each.mend + each.path).encode()
    try:
        skill = read_skill(made, folder="sample")
    except BadSkill as error:
        str(error).encode()
        # Who checks it learns of it too.
        assert any(each.severity == "error" for each in findings)
        return
    assert NAME.fullmatch(skill.name)
    assert len(skill.name) <= MAX_NAME
    assert skill.description.strip()
    kept = [skill.name, skill.description, skill.body, skill.license, skill.compatibility]
    said = json.dumps([kept, dict(skill.metadata), skill.allowed_tools, dict(skill.other)])
    # What databases and JSON cannot hold is in none of it.
    assert "\\u0000" not in said
    json.dumps(json.loads(said), ensure_ascii=False, allow_nan=False).encode()
    assert all(isinstance(value, str) for value in skill.metadata.values())
    assert {each.rule for each in skill.findings} <= {each.rule for each in findings}


@LIGHT
@given(SKILL_FILES)
def test_any_skill_md_is_read_or_refused(data: bytes) -> None:
    look_at(tree({"SKILL.md": data}))


@LIGHT
@given(SKILL_FILES, SCRIPTS, st.sampled_from(["scripts/a.py", "scripts/a.sh", "a", "b.md"]))
def test_any_other_file_is_looked_at(data: bytes, other: bytes, path: str) -> None:
    look_at(tree({"SKILL.md": skill_md(), path: (EXECUTABLE, other), "references/x.md": data}))


#: Bytes. Where its length counts squared, such a text takes hours.
LARGE = 300_000


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("begin", "piece"),
    [
        ("", "]("),
        ("", "["),
        ("", "[a]("),
        ("", "[a](b("),
        ("", "](<"),
        ("", "](\n"),
        ("](", "  "),
        ("", "](  "),
        ("", "[a]: b\n"),
        ("", "[a"),
        ("", "`"),
        ("", "``a"),
        ("", "`a\n"),
        ("", "!`a`\n"),
        ("", "!`"),
        ("", " !`"),
        ("", "```\n"),
        ("", "~~~!\n"),
        ("", "scripts/"),
        ("", "scripts/a.b "),
        ("scripts/", "a."),
        ("scripts/", "-"),
        ("", "scripts\\a"),
        ("", "\u202e"),
        ("", "\u202a\u0645"),
        ("", "\u202a"),
        ("", "\u200b"),
        ("", "a\u200d"),
        ("", "\ufe0f"),
        ("", "\U0001f3f4\U000e0041"),
        ("", "AKIAQ3EGRWXT5ZK7MNPL "),
        ("", "-----BEGIN A PRIVATE KEY-----"),
        ("-----BEGIN RSA PRIVATE KEY-----", " "),
        ("", "sk-"),
        ("", "xoxb-"),
        ("", "\n"),
        ("x", " "),
    ],
)
def test_a_text_made_to_take_long_does_not(begin: str, piece: str) -> None:
    body = begin + piece * (LARGE // len(piece.encode()))
    look_at(tree({"SKILL.md": skill_md(body="x\n" + body), "references/x.md": body}))


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "front",
    [
        "x: " + "[" * 60_000,
        "x: " + "{a: " * 15_000,
        "- " * 30_000,
        "? " * 30_000,
        "x: " + "&a " * 20_000,
        "x: " + "!a " * 20_000,
        "x: " + '{"a":' * 10_000,
        "x: " + "'" * 60_000,
        'x: "' + "\\" * 60_000,
        "a: b: c\n" * 7_000,
        "a\n" * 30_000,
        "x:\n" + "  a: b: c\n" * 6_000,
        "x: |\n" + "\t\n" * 20_000,
        "#" * 60_000,
        "a: *b\n" * 9_000,
        "%TAG ! x\n" * 6_000,
        "allowed-tools: " + "(" * 60_000,
        "allowed-tools: " + "a(b " * 15_000,
        "allowed-tools: " + "a," * 30_000,
        "name: " + "-" * 60_000,
        "name: " + "é" * 30_000,
    ],
    ids=range(21),
)
def test_a_frontmatter_made_to_take_long_does_not(front: str) -> None:
    look_at(tree({"SKILL.md": f"---\nname: sample\ndescription: d\n{front}\n---\n"}))


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "data",
    [
        b"# /// script\n" * 50_000,
        b"# /// script\n# ///\n" * 30_000,
        b"# /// script\n" + b"#\n" * 400_000,
        b"# /// script\n# x = " + b"[" * 60_000 + b"\n# ///\n",
        b"#!" + b" " * 1_000_000,
        b"#!/usr/bin/env -S " + b"'" * 1_000_000,
        b"#!/bin/sh\n" + b"read " * 200_000,
        b"#!/bin/sh\nread " + b"-a " * 300_000,
        b"#!/usr/bin/env python3\n" + b"input" * 200_000,
        b"#!/usr/bin/env python3\n" + b"x." * 500_000,
    ],
    ids=range(10),
)
def test_a_script_made_to_take_long_does_not(data: bytes) -> None:
    look_at(tree({"SKILL.md": skill_md(), "scripts/a.py": (EXECUTABLE, data)}))


def test_many_files_that_name_files_are_looked_at_in_time() -> None:
    files = {f"references/{n}.md": f"[a]({n + 1}.md) [b](../x/{n}.md)\n" * 20 for n in range(500)}
    look_at(tree({"SKILL.md": skill_md(), **files}))


# trees --------------------------------------------------------------------------------------------

NAMES = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters='/<>:"\\|?*\0'),
    min_size=1,
    max_size=12,
)
FILES = st.dictionaries(
    st.lists(NAMES, min_size=1, max_size=4).map("/".join),
    st.tuples(st.sampled_from([PLAIN, EXECUTABLE, 0o600, 0o700, 0o777, 0]), st.binary(max_size=50)),
    max_size=8,
)


@LIGHT
@given(FILES, st.randoms(use_true_random=False))
def test_a_tree_is_its_files_in_any_order_written_and_read_again(files, random) -> None:
    listed = [("SKILL.md", PLAIN, skill_md().encode())]
    listed += [(path, mode, data) for path, (mode, data) in files.items()]
    try:
        made = tree_of_files(listed)
    except BadSkill:
        return
    random.shuffle(listed)
    assert tree_of_files(listed).digest == made.digest
    look_at(made)
    with tempfile.TemporaryDirectory() as place:
        target = Path(place) / "sample"
        write_folder(made, target)
        assert read_folder(target).digest == made.digest
        write_folder(made, target)
        again = read_folder(target)
        assert again.manifest == made.manifest
        assert again.contents == made.contents


LINKED = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "d/a", "d/e/a", "d/e/b", "f"]),
        st.sampled_from(
            [
                *("a", "b", ".", "..", "../a", "d", "d/e", "../..", "/", "../../a", "f/../a", "e"),
                *("./a", "a/", "../d/e", "../../d", "SKILL.md", "nothing", "d/e/../../a"),
                *("ROOT/d", "ROOT/../x"),
            ]
        ),
    ),
    min_size=1,
    max_size=6,
)


@LIGHT
@given(LINKED)
def test_links_of_any_kind_show_what_is_within_or_are_refused(links) -> None:
    with tempfile.TemporaryDirectory() as outside:
        place = on_disk(Path(outside) / "s", {"SKILL.md": skill_md(), "d/e/x": "x", "d/y": "y"})
        (Path(outside) / "x").write_text("SECRET")
        (Path(outside) / "a").write_text("SECRET")
        for name, target in links:
            at = place / name
            if not at.is_symlink() and not at.exists():
                at.symlink_to(target.replace("ROOT", str(place)))
        try:
            made = read_folder(place)
        except BadSkill:
            return
        assert b"SECRET" not in made.contents.values()
        # The system, which follows links anywhere, finds the same files in the same places.
        for entry in made.manifest:
            assert (place / entry.path).read_bytes() == made.get(entry.path)
        look_at(made)
