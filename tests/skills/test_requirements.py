"""What a script says it needs is read as PEP 723 says, and compared with what a session has."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprise.errors import BadSkill
from reprise.skills.requirements import (
    MAX_BLOCK,
    MAX_DEPENDENCIES,
    Comparison,
    Needs,
    SessionPython,
    compare,
    metadata_blocks,
    needs_of,
    runs_on,
    session_python,
)

#: packaging.python.org, "Inline script metadata", and the reading of it that it gives.
REGEX = r"(?m)^# /// (?P<type>[a-zA-Z0-9-]+)$\s(?P<content>(^#(| .*)$\s)+)^# ///$"


def by_the_specification(text: str) -> list[tuple[str, str]]:
    found = []
    for match in re.finditer(REGEX, text):
        lines = re.split(r"(?<=\n)", match["content"])
        inside = (line[2:] if line.startswith("# ") else line[1:] for line in lines if line)
        found.append((match["type"], "".join(inside)))
    return found


LINES = st.sampled_from(
    [
        *("# /// script", "# ///", "#", "# ", "# a = 1", "#a", "", " # ///", "# /// x-1", "# /// "),
        *("# /// script ", "#\t", "# ///x", "code()", "\x0b", "# \x85 \u2028", "# /// é"),
    ]
)


@given(st.lists(LINES, max_size=14), st.booleans())
def test_blocks_are_those_that_the_specification_finds(lines: list[str], ended: bool) -> None:
    text = "\n".join(lines) + ("\n" if ended else "")
    assert [(kind, inside) for kind, _, inside in metadata_blocks(text)] == by_the_specification(
        text
    )


def test_many_beginnings_without_an_end_take_no_time() -> None:
    # The regular expression takes minutes for this: from each line it looks at all that follow.
    text = "# /// script\n" * 100_000
    assert list(metadata_blocks(text)) == []
    assert needs_of(text.encode(), "a.py") == Needs()


SCRIPT = b"""#!/usr/bin/env -S uv run --script
#
# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "pandas>=2",
#   "rich[jupyter]; python_version >= '3.8'",
# ]
#
# [tool.uv]
# exclude-newer = "2026-01-01T00:00:00Z"
# ///
import pandas
"""


@pytest.mark.parametrize(
    "source",
    [SCRIPT, b"\xef\xbb\xbf" + SCRIPT, SCRIPT.replace(b"\n", b"\r\n"), SCRIPT + b"\xff\xfe"],
    ids=["plain", "byte order mark", "carriage returns", "no UTF-8 below"],
)
def test_what_it_says_is_read_however_it_was_saved(source: bytes) -> None:
    needs = needs_of(source, "a.py")
    assert str(needs.python) == ">=3.11"
    assert [each.name for each in needs.dependencies] == ["pandas", "rich"]


def test_a_script_without_a_block_needs_nothing() -> None:
    assert needs_of(b"print(1)\n", "a.py") == Needs()
    assert needs_of(b"# /// pyproject\n# dependencies = 3\n# ///\n", "a.py") == Needs()
    assert needs_of(b"# /// script\n# ///\n", "a.py") == Needs()


def block(toml: str) -> bytes:
    return "".join(
        ["x = 1\n# /// script\n", *(f"# {t}\n" for t in toml.split("\n")), "# ///\n"]
    ).encode()


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (block("dependencies = 3"), "a list of texts"),
        (block("dependencies = [3]"), "a list of texts"),
        (block("dependencies = ['a b']"), "'a b' is no dependency"),
        (block("dependencies = ['']"), "is no dependency"),
        (block("dependencies = ['a\\u0000b']"), "is no"),
        (block(f"dependencies = ['{'a' * 1001}']"), "1,000 characters"),
        (block(f"dependencies = {['a'] * (MAX_DEPENDENCIES + 1)}"), "201 dependencies"),
        (block("dependencies = ['a; " + "(" * 900 + "']"), "is no dependency"),
        (block("requires-python = 3.11"), "`requires-python` is text"),
        (block("requires-python = '3.11 or so'"), "names no versions"),
        (block("when = 2026-13-45"), "no TOML|Invalid|month"),
        (block("dependencies = ["), "it is no TOML"),
        (block("a = " + "[" * 20_000), "no TOML"),
        (block("a = '" + "x" * MAX_BLOCK + "'"), "longer than"),
        (block("a = 1") + b"\n" + block("a = 1"), "2 blocks .*lines 2 and 7"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_place(source: bytes, said: str) -> None:
    with pytest.raises(BadSkill, match=said) as raised:
        needs_of(source, "scripts/a.py")
    assert "scripts/a.py" in str(raised.value)


@given(st.binary(max_size=400) | st.text(max_size=400).map(str.encode))
def test_no_source_breaks_it(source: bytes) -> None:
    for data in (source, block(source.decode("latin-1"))):
        try:
            needs_of(data, "a.py")
        except BadSkill:
            continue


# what a session has -------------------------------------------------------------------------------

SPEC = {
    "interpreter": {
        "version": "3.12.4 (main, Jun  6 2026) [GCC 14]",
        "cache_tag": "cpython-312",
        "platform": "linux-x86_64",
    },
    "kernel": {"name": "python3", "language": "python", "argv": ["/x/bin/python"]},
    "packages": [
        ["Pandas", "2.2.0", "0" * 64],
        ["pandas", "1.0", "0" * 64],
        ["typing-extensions", "4.12.0", "0" * 64],
        ["odd", "not-a-version", "0" * 64],
        ["conda:numpy", "1.0 py_0", "0" * 64],
    ],
}


def python(**installed: str) -> SessionPython:
    found = session_python(SPEC, installed.items())
    assert found is not None
    return found


def lacking(*dependencies: str, **installed: str) -> Comparison:
    return compare(Needs().plus(dependencies=dependencies), python(**installed))


def test_names_are_compared_as_an_index_compares_them() -> None:
    assert lacking("typing_extensions>=4", "PANDAS>2").lacking == ()
    assert [str(each) for each in lacking("Typing.Extensions", "numpy").missing] == ["numpy"]


def test_what_the_session_installed_counts_before_its_environment() -> None:
    found = lacking("pandas>=3")
    assert [(str(each), have) for each, have in found.unfit] == [("pandas>=3", "2.2.0")]
    assert lacking("pandas>=3", pandas="3.1").lacking == ()
    assert lacking("pandas>=2", pandas="1.5").unfit[0][1] == "1.5"


def test_markers_are_those_of_the_session_not_of_this_process() -> None:
    assert lacking("nowhere; python_version < '3.12'").lacking == ()
    assert lacking("nowhere; sys_platform == 'win32'").lacking == ()
    assert len(lacking("here; python_full_version >= '3.12.4'").missing) == 1
    assert len(lacking("here; platform_machine == 'x86_64' and os_name == 'posix'").missing) == 1
    assert len(lacking("here; implementation_name == 'cpython'").missing) == 1
    # What cannot be told is left to the installer, which says what is wrong with it.
    assert len(lacking("odd-one; platform_version ~= 'x'").missing) == 1


def test_a_prerelease_counts_and_an_odd_version_fits_nothing_in_particular() -> None:
    assert lacking("pandas>=3", pandas="3.0rc1").unfit[0][1] == "3.0rc1"
    assert lacking("pandas>=3.0rc1", pandas="3.0rc1").lacking == ()
    assert lacking("odd").lacking == ()
    assert lacking("odd>=1").unfit[0][1] == "not-a-version"


def test_extras_are_said_to_be_unchecked() -> None:
    found = lacking("pandas[excel]")
    assert found.lacking == ()
    assert [str(each) for each in found.unchecked] == ["pandas[excel]"]


@pytest.mark.parametrize(
    ("asked", "fits"),
    [(">=3.11", True), (">=3.13", False), ("==3.12.*", True), ("<3.12", False), ("", True)],
)
def test_the_version_of_python_is_the_sessions(asked: str, fits: bool) -> None:
    assert runs_on(Needs().plus(python=[asked]), python()) is fits


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {**SPEC, "interpreter": {"executable": "0" * 64}},
        {**SPEC, "kernel": {"name": "ir", "language": "R", "argv": []}},
        {**SPEC, "interpreter": {"version": "PyPy"}},
    ],
)
def test_a_session_without_python_has_none(spec: dict[str, object]) -> None:
    assert session_python(spec) is None


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "interpreter": st.dictionaries(
                st.sampled_from(["version", "cache_tag", "platform"]), st.text(max_size=8)
            ),
            "kernel": st.just({"language": "python"}),
            "packages": st.lists(st.lists(st.text(max_size=5), max_size=4) | st.none(), max_size=4),
        },
    ),
    st.lists(st.tuples(st.text(max_size=6), st.text(max_size=6)), max_size=3),
)
def test_no_word_of_a_sandbox_breaks_it(
    spec: dict[str, object], installed: list[tuple[str, str]]
) -> None:
    found = session_python({**SPEC, **spec}, installed)
    if found is not None:
        compare(Needs().plus(dependencies=["pandas>=2", "a; python_version>'3'"]), found)
