"""What is untrusted is known wherever it comes in, and what a page would fetch is found however spelled."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprise_server.agent.contract import SkillNamed, Taint
from reprise_server.agent.policy.page_loads import edits_may_load, may_load
from reprise_server.agent.policy.taint import merged, of_hosts, of_path, of_skill, of_tool, shown
from tests.agent.injection.page import drawn


@pytest.mark.parametrize(
    ("patterns", "path", "untrusted"),
    [
        (["inbox"], "inbox", True),
        (["inbox"], "inbox/a/b.txt", True),
        (["inbox/"], "inbox/a.txt", True),
        (["inbox"], "inbox2/a.txt", False),
        (["inbox"], "data/inbox/a.txt", False),
        (["**/inbox"], "data/inbox/a.txt", True),
        (["*.eml"], "a.eml", True),
        (["*.eml"], "mail/a.eml", False),
        (["**/*.eml"], "mail/a.eml", True),
        (["downloads/**"], "downloads/x/y", True),
        (["downloads/**"], "data/x", False),
        (["inbox"], "data/../inbox/a", True),
        ([], "data/../inbox/a", False),
        ([], "inbox/a", False),
    ],
)
def test_a_file_is_untrusted_with_all_that_lies_below_a_named_place(
    patterns: list[str], path: str, untrusted: bool
) -> None:
    assert of_path(path, patterns) == ((("named", path),) if untrusted else ())


def test_each_way_in_names_its_source() -> None:
    assert of_hosts(["b", "a", "b"]) == (("network", "a"), ("network", "b"))
    assert of_tool("mcp/a/b") == (("mcp", "a/b"),)
    assert of_tool("read_file") == ()
    for standing in ("untrusted", "revoked", "whatever"):
        skill = SkillNamed("x", "team/ml", "0" * 64, standing)
        assert of_skill(skill) == (("skill", "team/ml:x"),)
    assert of_skill(SkillNamed("x", "personal", "0" * 64, "trusted")) == ()


def test_what_came_first_is_kept_and_the_newest_is_shown() -> None:
    found = merged((), [("network", "a"), ("mcp", "t")], 3)
    found = merged(found, [("network", "a"), ("network", "b"), ("network", "c")], 9)
    assert found[0] == Taint("network", "a", 3)
    assert [taint.source for taint in found] == ["a", "t", "b", "c"]
    assert shown(found) == "network c, network b, mcp t and 1 more"


@pytest.mark.parametrize(
    "source",
    [
        "![x](https://a.example/y)",
        "![x](//a.example)",
        "![x](y.png)",
        "![x][y]",
        "[y]: a.example/z",
        "[click](x)",
        "<img src=x>",
        "<IMG/src=//a>",
        "<svg><image href=x></svg>",
        "<style>@import 'x'</style>",
        "see https://a.example",
        "see www.a.example",
        "<https://a.example>",
        "<me@a.example>",
        "$\\href{x}{y}$",
        "$\\unicode{x}$",
        "javascript:alert(1)",
        "data:text/html,x",
        "![x](&#104;ttps&#58;&#47;&#47;a)",
        "<!-- x --><b>",
        "[a][b]",
    ],
)
def test_what_a_page_would_fetch_or_follow_is_found(source: str) -> None:
    assert may_load(source)
    assert edits_may_load([{"do": "insert", "type": "markdown", "source": source}])
    assert edits_may_load([{"do": "replace", "type": "raw", "source": source}])
    assert not edits_may_load([{"do": "insert", "type": "code", "source": source}])
    assert not edits_may_load([{"do": "delete", "cell": "a"}])


@pytest.mark.parametrize(
    "source",
    [
        "# Title\n\nSome *words*, `code`, 12:30, a < b, x > y.\n\n- one\n- two\n",
        "| a | b |\n|---|---|\n| 1 | 2 |\n",
        "$x^2 + \\frac{1}{2}$ and e.g. 3/4",
        "Note: see cell 3. Ratio a/b = 1:2",
    ],
)
def test_plain_markdown_asks_nobody(source: str) -> None:
    assert not may_load(source)


@given(st.text(alphabet="![]()<>ab:/\\&;#x1\"' =\n$`*_", max_size=40))
def test_what_a_reader_would_fetch_is_never_missed(source: str) -> None:
    if list(drawn(source)):
        assert may_load(source)
