"""What real authors write in a SKILL.md is read as they meant it, and every bend is told."""

import json

import pytest

from reprise.errors import BadSkill
from reprise.skills.contract import MAX_SKILL_FILE_BYTES, Skill
from reprise.skills.frontmatter import MAX_BYTES, parse
from reprise.skills.read import read_skill, split_tools, usable_name
from reprise.skills.rules import Unusable
from reprise.skills.yaml_tree import MAX_LEVELS, MAX_NODES
from tests.skills.sample import FRONT, sample, skill_md, tree

DESCRIPTION = "Counts rows. Use it when a table is new."


def read(content: str | bytes, folder: str | None = "sample") -> Skill:
    return read_skill(tree({"SKILL.md": content}), folder=folder)


def fields(front: str, folder: str | None = "sample") -> Skill:
    return read(skill_md(front), folder)


def rules(skill: Skill) -> list[str]:
    assert all(finding.severity == "warning" for finding in skill.findings)
    # What the tests write in brackets for brevity is told too.
    return [finding.rule for finding in skill.findings if finding.rule != "flow-style"]


def test_every_field_of_the_specification_is_read() -> None:
    skill = fields(
        FRONT + "license: BSD-3-Clause\ncompatibility: Python 3.11 or newer\n"
        'metadata:\n  author: example-org\n  version: "1.0"\n'
        "allowed-tools: Bash(git:*) Bash(jq:*) Read\n"
    )
    assert (skill.name, skill.description) == ("sample", DESCRIPTION)
    assert (skill.license, skill.compatibility) == ("BSD-3-Clause", "Python 3.11 or newer")
    assert skill.metadata == {"author": "example-org", "version": "1.0"}
    assert skill.allowed_tools == ("Bash(git:*)", "Bash(jq:*)", "Read")
    assert skill.body == "# Count\n\nRun the script."
    assert skill.other == {}
    assert skill.findings == ()


def test_nothing_but_a_description_is_needed() -> None:
    skill = read("---\ndescription: d\n---", "my-folder")
    assert (skill.name, skill.body) == ("my-folder", "")
    assert rules(skill) == ["name-missing"]


# the file -----------------------------------------------------------------------------------------


def test_a_byte_order_mark_hides_nothing() -> None:
    skill = read(b"\xef\xbb\xbf" + skill_md().encode())
    assert skill.description == DESCRIPTION
    assert rules(skill) == ["byte-order-mark"]


@pytest.mark.parametrize("end", ["\r\n", "\r"])
def test_line_ends_of_other_systems_are_line_ends(end: str) -> None:
    skill = read(skill_md().replace("\n", end))
    assert skill.description == DESCRIPTION
    assert skill.body == "# Count\n\nRun the script."
    assert rules(skill) == ["line-ends"]


def test_what_is_no_utf8_is_told_with_its_line() -> None:
    skill = read(skill_md().encode().replace(b"Run the", b"R\xfcn the"))
    assert skill.body == "# Count\n\nR\ufffdn the script."
    assert [(each.rule, each.line) for each in skill.findings] == [("encoding", 8)]


@pytest.mark.parametrize(
    ("content", "rule", "why"),
    [
        ("", "frontmatter", "does not begin with a frontmatter"),
        ("# Title\n\nSome words.\n", "frontmatter", "does not begin with a frontmatter"),
        ("----\nname: sample\n----\n", "frontmatter", "does not begin with a frontmatter"),
        ("+++\nname = 'sample'\n+++\n", "frontmatter", "does not begin with a frontmatter"),
        ('{\n"name": "sample"\n}\n', "frontmatter", "does not begin with a frontmatter"),
        ("---\nname: sample\ndescription: d\n", "frontmatter", "never ends"),
        ("---\nname: sample\ndescription: d\n---- \n", "frontmatter", "never ends"),
        ("---\n---\nbody\n", "frontmatter", "is empty"),
        ("---\n# a comment\n---\nbody\n", "frontmatter", "is empty"),
        ("---\n- name\n- description\n---\n", "frontmatter", "holds no fields"),
        ("---\njust words\n---\n", "frontmatter", "holds no fields"),
        ("---\n{name: sample\n---\n", "yaml", "is no YAML"),
        (b"---\nname: a\0b\n---\n", "control-character", "NUL"),
        (skill_md().encode("utf-16"), "encoding", "UTF-16"),
        (skill_md(body="x" * MAX_SKILL_FILE_BYTES), "skill-size", "larger than 1 MiB"),
        (skill_md(FRONT + f"license: {'x' * MAX_BYTES}\n"), "frontmatter", "larger than 64 KiB"),
    ],
)
def test_what_no_client_can_use_is_refused_with_its_reason(
    content: str | bytes, rule: str, why: str
) -> None:
    with pytest.raises(Unusable, match=why) as refused:
        read(content)
    assert isinstance(refused.value, BadSkill)
    assert refused.value.finding.rule == rule
    assert str(refused.value).startswith("SKILL.md")
    assert refused.value.finding.mend in str(refused.value)


def test_blank_lines_before_the_frontmatter_are_passed_over() -> None:
    skill = read("\n\n" + skill_md(FRONT + "licence: x\n"))
    assert skill.description == DESCRIPTION
    assert [(each.rule, each.line) for each in skill.findings] == [
        ("frontmatter", 1),
        ("field-unknown", 6),
    ]


def test_a_rule_in_the_body_is_no_end_of_the_frontmatter() -> None:
    skill = read(skill_md(body="Above\n\n---\n\nname: other\n\n---\nBelow\n"))
    assert skill.body == "Above\n\n---\n\nname: other\n\n---\nBelow"
    assert skill.findings == ()


def test_hyphens_within_a_value_are_no_end_of_the_frontmatter() -> None:
    skill = fields('name: sample\ndescription: "a --- b"\nmetadata:\n  dashes: |\n    ---\n    x\n')
    assert skill.description == "a --- b"
    assert skill.metadata == {"dashes": "---\nx\n"}


def test_spaces_behind_the_hyphens_are_not_seen() -> None:
    skill = read("--- \nname: sample\ndescription: d\n---\t\nbody")
    assert (skill.description, skill.body, skill.findings) == ("d", "body", ())


def test_skill_md_may_be_written_small() -> None:
    skill = read_skill(tree({"skill.md": skill_md()}), folder="sample")
    assert skill.description == DESCRIPTION
    assert rules(skill) == ["skill-file"]
    assert skill.findings[0].path == "skill.md"


def test_a_folder_without_one_is_no_skill() -> None:
    with pytest.raises(Unusable, match="no such file") as refused:
        read_skill(tree({"README.md": "x", "inner/SKILL.md": skill_md()}))
    assert refused.value.finding.rule == "skill-missing"


# YAML ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("Use this when: the user asks", "Use this when: the user asks"),
        ("Deploys: now, to: there", "Deploys: now, to: there"),
        ("Use when:", "Use when:"),
        ("**Bold** words", "**Bold** words"),
        ("[pr-number] [priority]", "[pr-number] [priority]"),
        ("{x} and {y}", "{x} and {y}"),
        ("@someone asks", "@someone asks"),
        ("`code` first", "`code` first"),
        ("%percent", "%percent"),
        ("'quoted' and more", "'quoted' and more"),
        ('"quoted": and more', '"quoted": and more'),
        ('"never closed', '"never closed'),
        ("one: two\n  three: four", "one: two three: four"),
        ("first: line\n\n  second line", "first: line second line"),
        ("C:\\path: x", "C:\\path: x"),
        ("say \"hi\": 'there'", "say \"hi\": 'there'"),
    ],
)
def test_a_value_that_is_no_yaml_is_the_text_that_stands_there(written: str, meant: str) -> None:
    skill = fields(f"name: sample\ndescription: {written}\nlicense: MIT\n")
    assert skill.description == meant
    assert skill.license == "MIT"
    assert [(each.rule, each.line) for each in skill.findings] == [("yaml", 3)]


@pytest.mark.parametrize("between", ["", "\n  ", "  "])
def test_json_that_is_no_yaml_is_json(between: str) -> None:
    """One emoji as two escapes: what writers of JSON in metadata make of it."""
    written = '{"client": {"emoji": "\\ud83d\\udce7", "bins": ["node", 20, 1.10, true, null]}}'
    skill = fields(FRONT + f"metadata:{between}{' ' if not between else ''}{written}\n")
    assert json.loads(skill.metadata["client"]) == {
        "emoji": "📧",
        "bins": ["node", 20, 1.1, True, None],
    }
    assert rules(skill) == ["yaml", "metadata-text"]


@pytest.mark.parametrize(
    "value",
    ['{"a": "\\ud83d"}', "[" * 20 + '"\\ud83d\\udce7"' + "]" * 20],
)
def test_json_keeps_to_the_same_bounds(value: str) -> None:
    with pytest.raises(Unusable) as refused:
        fields(FRONT + f"tags: {value}\n")
    assert refused.value.finding.rule == "yaml"
    assert refused.value.finding.line == 4


def test_a_nested_value_that_is_no_yaml_is_text_too() -> None:
    skill = fields(FRONT + "metadata:\n  note: a: b\n  other: it's\n  third: 'x'\n")
    assert skill.metadata == {"note": "a: b", "other": "it's", "third": "x"}
    assert rules(skill) == ["yaml"]


def test_a_tab_behind_a_colon_is_a_space() -> None:
    skill = fields("name:\tsample\ndescription:\td: e\n")
    assert (skill.name, skill.description) == ("sample", "d: e")


def test_lines_that_go_on_are_one_text() -> None:
    folded = fields("name: sample\ndescription: >-\n  Counts rows.\n  Use it.\n")
    plain = fields("name: sample\ndescription: Counts rows.\n  Use it.\n")
    kept = fields("name: sample\ndescription: |\n  Counts rows.\n  Use it.\n")
    assert folded.description == plain.description == "Counts rows. Use it."
    assert kept.description == "Counts rows.\nUse it."
    assert folded.findings == plain.findings == kept.findings == ()


@pytest.mark.parametrize(
    ("front", "why"),
    [
        ("a: &x [1]\nb: *x\n", "stands for what another place says"),
        ("a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\nd: [*c,*c]\n", "stands for what another"),
        ("<<: *defaults\n", "stands for what another place says"),
        ("x: !!python/object/apply:os.system ['true']\n", "asks for a type"),
        ("x: !custom y\n", "asks for a type"),
        ("x: !!binary aGk=\n", "asks for a type"),
        ("x: " + "[" * (MAX_LEVELS + 1) + "]" * (MAX_LEVELS + 1) + "\n", "levels deep"),
        ("x:\n" + "".join(" " * i + f"k{i}:\n" for i in range(1, 200)), "levels deep"),
        ("x: [" + "1," * MAX_NODES + "1]\n", "more than 4,000 values"),
        ("x: 1\n...\n--- x\n", "second YAML document"),
        ("? [a, b]\n: c\n", "where a name is expected"),
        ('x: "\\0"\n', "no character that text can hold"),
    ],
)
def test_yaml_that_grows_or_acts_is_refused_with_its_line(front: str, why: str) -> None:
    with pytest.raises(Unusable, match=why) as refused:
        fields(FRONT + front)
    assert refused.value.finding.rule == "yaml"
    assert refused.value.finding.line is not None
    assert refused.value.finding.line >= 4


def test_many_fields_that_are_no_yaml_are_bounded() -> None:
    with pytest.raises(Unusable, match="more than 4,000"):
        fields("".join(f"a{i}: b: c\n" for i in range(MAX_NODES + 1)))


def test_a_field_that_stands_twice_is_the_last_one() -> None:
    skill = fields(FRONT + "license: A\nlicense: B\n")
    assert skill.license == "B"
    assert [(each.rule, each.line) for each in skill.findings] == [("field-twice", 5)]


def test_comments_and_quotes_are_yaml() -> None:
    skill = fields("# first\nname: 'sample' # why\ndescription: \"a # b\"\n")
    assert (skill.name, skill.description, skill.findings) == ("sample", "a # b", ())


# types --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", ["1.10", "1.0", "0x1F", "1e3", "007", "2026-01-01", "1:30"])
def test_metadata_is_what_was_written(number: str) -> None:
    skill = fields(FRONT + f"metadata:\n  version: {number}\n")
    assert skill.metadata == {"version": number}


def test_metadata_that_is_no_text_is_told_by_its_line() -> None:
    skill = fields(
        FRONT + "metadata:\n  number: 1.10\n  text: a\n  empty:\n  truth: true\n"
        "  list: [a, b]\n  deep:\n    x: [1]\n"
    )
    assert skill.metadata == {
        "number": "1.10",
        "text": "a",
        "empty": "",
        "truth": "true",
        "list": "a, b",
        "deep": '{"x": [1]}',
    }
    assert [each.line for each in skill.findings if each.rule == "metadata-text"] == [
        5,
        7,
        8,
        9,
        10,
    ]
    assert set(rules(skill)) == {"metadata-text"}


@pytest.mark.parametrize("value", ["a", "[a, b]", "3"])
def test_metadata_that_is_no_mapping_is_passed_over(value: str) -> None:
    skill = fields(FRONT + f"metadata: {value}\n")
    assert skill.metadata == {}
    assert rules(skill) == ["field-type"]


def test_a_name_may_be_a_number() -> None:
    skill = fields("name: 123\ndescription: d\n", "123")
    assert skill.name == "123"
    assert rules(skill) == ["field-type"]


@pytest.mark.parametrize(
    ("written", "read_as"), [("1.5", "1.5"), ("true", "true"), ("2026-01-01", "2026-01-01")]
)
def test_a_description_that_yaml_takes_for_something_else_is_text(
    written: str, read_as: str
) -> None:
    assert fields(f"name: sample\ndescription: {written}\n").description == read_as


@pytest.mark.parametrize("value", ["", " ~", " null", " ''", ' "  "', " [a]", " {a: b}", " |\n"])
def test_without_a_description_a_skill_is_none(value: str) -> None:
    with pytest.raises(Unusable, match="no description that is text") as refused:
        fields(f"name: sample\ndescription:{value}\n")
    assert refused.value.finding.rule == "description-missing"


def test_fields_of_clients_are_kept_as_data_and_told_whose_they_are() -> None:
    skill = fields(
        FRONT + "disable-model-invocation: true\nuser-invocable: no\nmodel: opus\ncontext: fork\n"
        "version: 1.10\nhooks:\n  PreToolUse:\n    - matcher: Bash\n      hooks:\n"
        "        - {type: command, command: ./x.sh, timeout: 30}\n"
    )
    assert skill.other == {
        "disable-model-invocation": True,
        "user-invocable": "no",  # YAML 1.2, which clients read: text
        "model": "opus",
        "context": "fork",
        "version": 1.1,
        "hooks": {
            "PreToolUse": [
                {
                    "matcher": "Bash",
                    "hooks": [{"type": "command", "command": "./x.sh", "timeout": 30}],
                }
            ]
        },
    }
    assert rules(skill) == ["field-client"] * 6
    assert all("Claude Code" in each.text for each in skill.findings if "client" in each.rule)


def test_unknown_fields_are_kept_as_data() -> None:
    skill = fields(FRONT + "tags: [a, 1, 1.5, ~, 12345678901234567890, .inf, 0o7]\n")
    assert skill.other == {"tags": ["a", 1, 1.5, None, "12345678901234567890", ".inf", "0o7"]}
    assert json.loads(json.dumps(skill.other, allow_nan=False)) == skill.other
    assert rules(skill) == ["field-unknown"]


# names --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "name", "rule"),
    [
        ("My Skill", "my-skill", "name-format"),
        ("PDF_Tools", "pdf-tools", "name-format"),
        ("-pdf-", "pdf", "name-format"),
        ("a--b", "a-b", "name-format"),
        ("Café Crème", "cafe-creme", "name-format"),
        ("../../etc", "etc", "name-format"),
        ("a/b", "a-b", "name-format"),
        ("x" * 65, "x" * 64, "name-length"),
        ("x" * 63 + "-" + "y" * 9, "x" * 63, "name-length"),
    ],
)
def test_a_name_of_another_form_is_the_nearest_one(written: str, name: str, rule: str) -> None:
    skill = fields(f'name: "{written}"\ndescription: d\n', None)
    assert skill.name == name
    assert rules(skill) == [rule]


@pytest.mark.parametrize("written", ["日本語", "…", "---", "🙂"])
def test_a_name_that_cannot_be_one_is_the_folders(written: str) -> None:
    skill = fields(f'name: "{written}"\ndescription: d\n', "my-folder")
    assert skill.name == "my-folder"
    assert set(rules(skill)) == {"name-format", "name-folder"}
    with pytest.raises(Unusable, match="no name that can be used"):
        fields(f'name: "{written}"\ndescription: d\n', None)


def test_without_any_name_a_skill_is_none() -> None:
    with pytest.raises(Unusable) as refused:
        fields("description: d\n", None)
    assert refused.value.finding.rule == "name-missing"
    with pytest.raises(Unusable):
        fields("description: d\n", "日本語")


def test_a_name_other_than_the_folders_stays() -> None:
    skill = fields(FRONT, "elsewhere")
    assert skill.name == "sample"
    assert rules(skill) == ["name-folder"]
    assert fields(FRONT, None).findings == ()


def test_a_long_description_is_kept_whole() -> None:
    skill = fields(f"name: sample\ndescription: {'x' * 1025}\n")
    assert len(skill.description) == 1025
    assert rules(skill) == ["description-length"]
    assert fields(f"name: sample\ndescription: {'é' * 1024}\n").findings == ()


def test_usable_names_are_names() -> None:
    assert usable_name("a" * 63 + "-b") == "a" * 63
    assert usable_name("") is None


# tools --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "tools"),
    [
        ("Read Write", ("Read", "Write")),
        ("Read, Write", ("Read", "Write")),
        ("Bash(git add *) Read", ("Bash(git add *)", "Read")),
        ("Bash(git add:*, git commit:*), Read", ("Bash(git add:*, git commit:*)", "Read")),
        ("mcp__a__b WebFetch(domain:example.org)", ("mcp__a__b", "WebFetch(domain:example.org)")),
        ("", ()),
        ("  ", ()),
        ("*", ("*",)),
    ],
)
def test_tools_stand_between_spaces_outside_of_parentheses(
    written: str, tools: tuple[str, ...]
) -> None:
    assert split_tools(written) == tools


@pytest.mark.parametrize(
    "written",
    ["Read, Bash(git:*)", "[Read, 'Bash(git:*)']", "\n  - Read\n  - Bash(git:*)"],
)
def test_tools_as_claude_code_takes_them_are_read(written: str) -> None:
    skill = fields(FRONT + f"allowed-tools: {written}\n")
    assert skill.allowed_tools == ("Read", "Bash(git:*)")
    assert rules(skill) == ["tools-list"]
    assert skill.findings[0].mend == "Write allowed-tools: Read Bash(git:*)"


def test_lines_are_those_of_the_file() -> None:
    front = parse(skill_md("# c\nname: a\n\ndescription: >\n  x\n  y\nlicense: b\n").encode())
    assert front.key_lines == {"name": 3, "description": 5, "license": 8}
    assert front.body_line == 10
    assert sample().get("SKILL.md") == skill_md().encode()
