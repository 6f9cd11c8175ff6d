"""What is long is left out on purpose: it is there, and something short of each promise stays."""

from pathlib import Path

import pytest

from tests.fixtures.long import CASES, COSTLY, FILES, POSTGRES, TESTS, long_ones

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", [*FILES, *COSTLY, *POSTGRES])
def test_every_file_that_is_named_is_there(name: str) -> None:
    assert (ROOT / name).exists()


@pytest.mark.parametrize("name", TESTS)
def test_every_test_that_is_named_is_there(name: str) -> None:
    file, _, test = name.partition("::")
    assert f"def {test.partition('[')[0]}" in (ROOT / file).read_text()


def test_of_many_cases_a_few_are_short_the_first_and_the_last_among_them() -> None:
    names = [f"tests/faults/test_points.py::test_it_dies[{number}]" for number in range(42)]
    short = sorted(set(names) - long_ones(names), key=names.index)
    assert len(short) == CASES
    assert (short[0], short[-1]) == (names[0], names[-1])
    assert long_ones(names[:CASES]) == set()


def test_what_repeats_on_another_backend_or_postgres_is_long_and_nothing_alone_is() -> None:
    both = [
        "tests/kernel/test_a.py::test_b[process-x]",
        "tests/kernel/test_a.py::test_b[bubblewrap-x]",
    ]
    assert long_ones(both) == {both[0]}
    assert long_ones(both[:1]) == set()
    pair = ["tests/bundle/test_a.py::test_b[15]", "tests/bundle/test_a.py::test_b[18]"]
    assert long_ones(pair) == {pair[0]}
    for file in ("tests/conformance/test_a.py", "tests/sandbox/test_a.py"):
        assert long_ones([f"{file}::test_b[process]", f"{file}::test_b[bubblewrap]"]) == set()
    assert long_ones([f"{POSTGRES[0]}::test_b[15]", f"{POSTGRES[0]}::test_b[18]"]) == set()
