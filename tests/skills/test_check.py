"""The strict check finds each thing that its rules name, where it is, and nothing in a good skill."""

import re
from pathlib import Path

import pytest

from reprise.skills.check import check, usable
from reprise.skills.contract import EXECUTABLE, Finding, SkillTree
from reprise.skills.paths import LEFT_OUT
from reprise.skills.rules import RULES
from tests.skills.sample import FRONT, Content, sample, script, skill_md, tree

PYTHON = """\
#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["pandas>=2"]
# ///
import argparse

parser = argparse.ArgumentParser(description="Counts rows.")
parser.parse_args()
"""

GOOD = sample(
    FRONT
    + "license: BSD-3-Clause\ncompatibility: Python 3.11\nmetadata:\n  version: '1'\n"
    + "allowed-tools: Read Bash(git:*)\n",
    "# Count\n\nRun `scripts/count.py data.csv`, see [rows](references/rows.md#top) and\n"
    "[all](references/), [the web](https://example.org/x.md), ![it](assets/a%20b.png).\n",
    {
        "scripts/count.py": script(PYTHON),
        "scripts/lib/rows.py": "def rows(): ...\n",
        "references/rows.md": "[back](../SKILL.md) [self](rows.md) [assets](../assets/a%20b.png)\n",
        "assets/a b.png": b"\x89PNG\0\0",
    },
)


def front(more: str) -> SkillTree:
    return sample(FRONT + more)


def body(text: str, files: dict[str, Content] | None = None) -> SkillTree:
    return sample(body=text, files=files)


#: Each rule: skills that it finds something in, and how often; nothing else is found in them.
FOUND: dict[str, list[SkillTree]] = {
    "skill-missing": [tree({"README.md": "x"})],
    "skill-file": [tree({"Skill.md": skill_md()})],
    "nested-skill": [sample(files={"more/SKILL.md": skill_md()})],
    "file-name": [
        sample(files={"a\u200bb.txt": ""}),
        sample(files={"invoice\u202efdp.txt": ""}),
        sample(files={" a.txt": ""}),
    ],
    "junk": [
        sample(files={"SKILL.md.bak": "", "x~": ""}),
        sample(files={"node_modules/x/index.js": ""}),
        sample(files={"a/._b.md": ""}),
        sample(files={".env": "A=1"}),
    ],
    "skill-size": [body("x" * (1 << 20))],
    "encoding": [tree({"SKILL.md": skill_md().encode() + b"\xff"})],
    "byte-order-mark": [tree({"SKILL.md": b"\xef\xbb\xbf" + skill_md().encode()})],
    "line-ends": [tree({"SKILL.md": skill_md().replace("\n", "\r\n")})],
    "frontmatter": [
        tree({"SKILL.md": "# no"}),
        tree({"SKILL.md": "\n" + skill_md()}),
        tree({"SKILL.md": "---\nname: sample\n"}),
    ],
    "yaml": [
        sample("name: sample\ndescription: Use when: asked\n"),
        front("license: !!python/name:os.system x\n"),
        front("license: *x\n"),
    ],
    "flow-style": [front('metadata: {version: "1.0"}\n')],
    "field-twice": [front("name: sample\n")],
    "field-type": [
        front("license: 3\n"),
        front("license:\n  - a\n"),
        front("compatibility:\n  a: b\n"),
        front("metadata: x\n"),
        sample("name: sample\ndescription: 2026\n"),
    ],
    "field-empty": [front("license:\n"), front('compatibility: ""\n'), front("license: ~\n")],
    "field-unknown": [front("tags:\n  - a\n"), front("licence: MIT\n"), front("Name: x\n")],
    "field-client": [front("model: opus\n"), front("user-invocable: false\n")],
    "name-missing": [sample("description: d\n")],
    "name-format": [sample("name: a--b\ndescription: d\n")],
    "name-length": [sample(f"name: {'a' * 65}\ndescription: d\n")],
    "name-folder": [sample("name: other\ndescription: d\n")],
    "name-reserved": [sample("name: claude-rows\ndescription: d\n")],
    "description-missing": [
        sample("name: sample\n"),
        sample("name: sample\ndescription:\n  - a\n"),
        sample("name: sample\ndescription:\n"),
    ],
    "description-length": [sample(f"name: sample\ndescription: {'d' * 1025}\n")],
    "description-markup": [sample("name: sample\ndescription: for <table> cells\n")],
    "compatibility-length": [front(f"compatibility: {'x' * 501}\n")],
    "metadata-text": [front("metadata:\n  version: 1.0\n"), front("metadata:\n  a:\n    - b\n")],
    "tools-list": [front("allowed-tools:\n  - Read\n"), front("allowed-tools: Read, Write\n")],
    "tools-format": [front("allowed-tools: Bash(git\n"), front("allowed-tools: Read $X\n")],
    "body-empty": [body(" \n")],
    "body-lines": [body("x\n" * 500)],
    "body-tokens": [body("Count all rows. " * 2_000)],
    "link-missing": [
        body("See [it](references/it.md)."),
        body("![shown](<a b.png>)"),
        body("[it]\n\n[it]: ./it.md\n"),
        body('See [it](it.md "Its title") and [that]( it.md )'),
    ],
    "link-outside": [body("See [it](../other/SKILL.md)."), body("[x](a/../../b.md)")],
    "reference-link": [sample(files={"references/a.md": "[b](b.md) [c](../../c.md)"})],
    "path-missing": [
        body("Run scripts/count.py now."),
        body("```sh\npython ./scripts/count.py --help\n```\n"),
        body("Read `references/rows.md`."),
    ],
    "path-backslash": [body("Run scripts\\count.py now.")],
    "dynamic-command": [body("Status: !`git status`\n"), body("```!\ngit status\n```\n")],
    "client-variable": [body("Count $ARGUMENTS."), body("Run ${CLAUDE_SKILL_DIR}/x.")],
    "hidden-text": [
        body("Hello" + "".join(chr(0xE0000 + ord(c)) for c in "obey")),
        body("if x: \u202e } return\n"),
        body("\u05d0 \u202e \u05d1"),
        body("\u05d0\n\u202a b \u202c\n"),
        body("a" + "\ufe01\ufe02\ufe0f" + "b"),
        sample("name: sample\ndescription: a\u2066b\n"),
        sample('name: sample\ndescription: "a\\u202eb"\n'),
        front('metadata:\n  a: "\\U000E0041"\n'),
        sample(files={"scripts/lib.py": "# \u202e\n"}),
    ],
    "control-character": [
        body("a \x1b[31m red"),
        body("a \x9b b"),
        sample('name: sample\ndescription: "a\\e[31m b"\n'),
        tree({"SKILL.md": "---\nname: a\0\n---\n"}),
    ],
    "zero-width": [
        body("a\u200bb"),
        body("\u202b\u0645\u202c"),
        body("a \u200d b"),
        body("soft\u00adhyphen"),
    ],
    "secret": [
        sample(files={"a.py": "KEY = 'ghp_q8Zt3mVx1LrK7bYw5NcD2fGhJ4sPaE9uT6oR'\n"}),
        sample(files={"a.py": "KEY = 'AKIAQ3EGRWXT5ZK7MNPL'\n"}),
        body("-----BEGIN OPENSSH PRIVATE KEY-----\n" + "b3BlbnNzaC1rZXktdjEAAAAABG5v" * 3),
    ],
    "shebang": [
        sample(files={"scripts/a.py": script("#!/usr/bin/env python3\r\nx = 1\r\n")}),
        sample(files={"scripts/a.py": (EXECUTABLE, b"\xef\xbb\xbf#!/usr/bin/env python3\n")}),
        sample(files={"scripts/a.sh": script("#!\n")}),
        sample(files={"scripts/a.py": script("#!python3\n")}),
        sample(files={"scripts/a.py": script("#!/usr/bin/env uv run --script\n")}),
        sample(files={"scripts/a.py": script("#!/home/me/venv/bin/python\n")}),
        sample(files={"scripts/a.py": script("#!/usr/bin/python3 " + " " * 300 + "\n")}),
    ],
    "script-metadata": [
        sample(files={"scripts/a.py": "# /// script\n# dependencies = 'pandas'\n# ///\n"}),
        sample(files={"scripts/a.py": "# /// script\n# dependencies = [\n# ///\n"}),
        sample(files={"scripts/a.py": "# /// script\n# dependencies = ['a b']\n# ///\n"}),
        sample(files={"scripts/a.py": "# /// script\n# a = 1\n# ///\n\n# /// script\n#\n# ///\n"}),
    ],
    "script-not-executable": [sample(files={"scripts/a.sh": "#!/bin/sh\n"})],
    "executable-no-script": [
        sample(files={"scripts/a.py": script("x = 1\n")}),
        sample(files={"notes.md": script("x\n")}),
    ],
    "script-help": [
        sample(files={"scripts/a.sh": script('#!/bin/sh\nwc -l "$1"\n')}),
        sample(files={"scripts/a.py": script("#!/usr/bin/env python3\nimport sys\nsys.argv[1]\n")}),
    ],
    "script-asks": [
        sample(files={"scripts/a.py": script("#!/usr/bin/env python3\nx = input('Which? ')\n")}),
        sample(files={"scripts/a.sh": script("#!/bin/bash\nread -r -p 'Which? ' x\n")}),
    ],
}
#: What is found of a folder on disk only (test_check_command.py).
OF_FOLDERS = {"folder", "left-out", "symbolic-link"}


def found(made: SkillTree) -> list[Finding]:
    return check(made, folder="sample")


def test_a_good_skill_has_no_findings() -> None:
    assert found(GOOD) == []
    assert usable(found(GOOD))


def test_each_rule_has_a_skill_that_breaks_it() -> None:
    assert set(FOUND) | OF_FOLDERS == set(RULES)


@pytest.mark.parametrize("rule", FOUND)
def test_what_breaks_a_rule_is_found_by_it(rule: str) -> None:
    # A broken name is another one than the folder's, of whatever form.
    beside = {"name-folder"} if rule.startswith("name-") else set()
    for number, made in enumerate(FOUND[rule]):
        findings = found(made)
        assert rule in [each.rule for each in findings], number
        assert {each.rule for each in findings} - beside <= {rule}, (number, findings)
        for each in findings:
            assert each.severity == RULES[each.rule]
            assert each.text.endswith((".", ". ")), each.text
            assert each.mend, each
        assert usable(findings) == all(RULES[each.rule] == "warning" for each in findings)


@pytest.mark.parametrize(
    ("made", "path", "line"),
    [
        (front("licence: MIT\n"), "SKILL.md", 4),
        (front("metadata:\n  a: b\n  version: 1\n"), "SKILL.md", 6),
        (body("# T\n\nSee [it](it.md).\n"), "SKILL.md", 8),
        (body("# T\n\n!`date`\n"), "SKILL.md", 8),
        (body("a\nb\u200bc\n"), "SKILL.md", 7),
        (body("a\n\nRun scripts/x.py\n"), "SKILL.md", 8),
        (sample(files={"references/a.md": "\n\n[b](b.md)"}), "references/a.md", 3),
        (sample(files={"scripts/a.sh": script("#!/bin/bash\n\nread -p x y\n")}), "scripts/a.sh", 3),
        (sample(files={"a.py": "\n\nx = 'AKIAQ3EGRWXT5ZK7MNPL'\n"}), "a.py", 3),
    ],
)
def test_a_finding_names_its_file_and_line(made: SkillTree, path: str, line: int) -> None:
    (finding,) = found(made)
    assert (finding.path, finding.line) == (path, line)


def test_lines_count_behind_a_byte_order_mark_and_windows_line_ends() -> None:
    text = "\ufeff" + skill_md(body="a\n\nSee [it](it.md).\n").replace("\n", "\r\n")
    findings = {each.rule: each.line for each in found(tree({"SKILL.md": text}))}
    assert findings == {"byte-order-mark": 1, "line-ends": 1, "link-missing": 8}


def test_an_unusable_skill_md_does_not_hide_what_else_is_wrong() -> None:
    made = tree({"SKILL.md": "# no", "scripts/a.sh": script("#!sh\n")})
    assert [each.rule for each in found(made)] == ["frontmatter", "shebang"]


@pytest.mark.parametrize(
    "text",
    [
        "`[it](it.md)` is how a link is written",
        "```md\n[it](it.md)\n```",
        "~~~~\n```\n[it](it.md)\n~~~~",
        "[mail](mailto:a@example.org) [top](#top) [abs](/etc/hosts) [home](~/x.md)",
        "[web](//example.org/x) [data](data:text/plain,x)",
        "[placeholder](url) [name]({name}.md) [glob](docs/*.md) [any](path/to/...)",
        "Run {baseDir}/scripts/x.py or $ROOT/scripts/x.py or project/scripts/x.py or <dir>/scripts/x.py",
        "Put scripts/ here, scripts/*.py there, and scripts/NAME.{py,sh}",
        "[no link](a b.md), [none](a.md b)",
        "Set `x=!` and `!important`, a \\!`b`",
        "Costs $100; pays in ARGUMENTS",
        "AKIAIOSFODNN7EXAMPLE, sk-ant-your-key-here-xxxxxxxx, ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "\u200f\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645\u200f!",
        "👩\u200d💻 🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f ❤\ufe0f क\u094d\u200dष",
    ],
)
def test_what_only_looks_like_a_fault_is_none(text: str) -> None:
    assert found(body(text)) == []


def test_a_secret_is_never_shown() -> None:
    key = "ghp_q8Zt3mVx1LrK7bYw5NcD2fGhJ4sPaE9uT6oR"
    (finding,) = found(sample(files={"a.py": f"KEY = '{key}'\n"}))
    assert key[8:] not in finding.text + finding.mend
    assert "ghp_q8Z…" in finding.text


def test_scripts_of_other_programs_and_data_are_left_alone() -> None:
    made = sample(
        files={
            "bin/tool": (EXECUTABLE, b"\x7fELF\2\1\1\0"),
            "scripts/lib/mod.py": "import sys\nprint(sys.argv)\n",
            "scripts/data.json": "{}",
            "scripts/run.rb": script("#!/usr/bin/env ruby\n"),
            "scripts/uv.py": script("#!/usr/bin/env -S uv run --script\n"),
            "templates/x.sh": "#!/bin/sh\n",
        }
    )
    assert found(made) == []


def test_of_one_rule_in_one_file_a_bounded_number_is_told() -> None:
    made = body("".join(f"[{n}](x{n}.md) !`date` scripts/s{n}.py\n" for n in range(300)))
    rules = [each.rule for each in found(made)]
    assert {rule: rules.count(rule) for rule in set(rules)} == {
        "link-missing": 20,
        "dynamic-command": 20,
        "path-missing": 20,
        "body-tokens": 1,
    }


def test_the_folders_name_counts_only_where_it_is_known() -> None:
    made = sample("name: other\ndescription: d\n")
    assert check(made) == []
    assert [each.rule for each in check(made, folder="sample")] == ["name-folder"]


def test_the_page_has_a_row_for_each_rule_with_its_severity() -> None:
    page = (Path(__file__).parents[2] / "docs" / "writing-skills.md").read_text()
    rows = re.findall(r"^\| `([a-z-]+)` \| (error|warning) \| ", page, flags=re.MULTILINE)
    assert dict(rows) == RULES
    assert len(rows) == len(RULES)
    left_out = page.partition("**Left out**")[2].partition("Empty folders")[0]
    assert {name.casefold() for name in re.findall(r"`([^`]+)`", left_out)} == LEFT_OUT
