"""Equal values have equal digests, other values others; nothing of the user's runs for it."""

import collections
import copy
import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import pathlib
import pickle
import random
import time
import types
import uuid
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from reprise.replay.fingerprint import about, digests
from reprise.replay.variables import Variables, compare, parse


def told(value: Any) -> dict[str, Any]:
    return about(value, time.perf_counter() + 60)


def digest(value: Any) -> str:
    found = told(value)
    assert found["digest"] is not None, found
    assert found["why"] is None, found
    return str(found["digest"])


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.complex_numbers(),
    st.text(),
    st.binary(),
    st.dates(),
    st.datetimes(),
    st.timedeltas(),
    st.decimals(),
    st.fractions(),
    st.uuids(),
)
hashable = st.one_of(st.integers(), st.text(), st.binary(), st.booleans(), st.none())
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner),
        st.lists(inner).map(tuple),
        st.dictionaries(hashable, inner),
        st.sets(hashable),
        st.frozensets(hashable),
        st.lists(inner).map(collections.deque),
    ),
    max_leaves=20,
)


def same(left: Any, right: Any) -> bool:
    """Equality as a program could tell: types too, NaN equal to itself, -0.0 not 0.0."""
    return type(left) is type(right) and pickle_like(left) == pickle_like(right)


def pickle_like(value: Any) -> Any:
    kind = type(value).__qualname__
    if isinstance(value, (list, tuple, collections.deque)):
        return (kind, *(pickle_like(each) for each in value))
    if isinstance(value, dict):
        return (kind, *((pickle_like(k), pickle_like(v)) for k, v in value.items()))
    if isinstance(value, (set, frozenset)):
        return (kind, frozenset(pickle_like(each) for each in value))
    return (kind, repr(value))


@given(values)
def test_a_copy_has_the_same_digest(value: Any) -> None:
    assert digest(copy.deepcopy(value)) == digest(value)
    assert digest(pickle.loads(pickle.dumps(value))) == digest(value)


@given(values, values)
def test_other_values_have_other_digests(left: Any, right: Any) -> None:
    assume(not same(left, right))
    assert digest(left) != digest(right)


@given(st.lists(st.one_of(st.integers(), st.text()), unique=True, min_size=2), st.randoms())
def test_a_set_has_no_order_and_a_dict_has(members: list[Any], dice: random.Random) -> None:
    shuffled = list(members)
    dice.shuffle(shuffled)
    assert digest(set(members)) == digest(set(shuffled))
    if shuffled != members:
        assert digest(dict.fromkeys(members)) != digest(dict.fromkeys(shuffled))
        assert digest(collections.Counter(members)) != digest(collections.Counter(shuffled))


@given(
    st.sampled_from(["u1", "i8", "f4", "f8", "c16", "M8[ns]", "m8[s]", "U5", "S3", "?"]),
    st.lists(st.integers(0, 3), max_size=3),
    st.integers(0, 2**32),
)
def test_arrays_by_type_shape_and_bytes(dtype: str, shape: list[int], seed: int) -> None:
    data = np.random.default_rng(seed).integers(0, 100, shape).astype("i8").astype(dtype)
    assert digest(data.copy()) == digest(data)
    if data.ndim:
        assert digest(np.asfortranarray(data)) == digest(data)  # values count, not their layout
    if data.ndim > 1 and data.shape != data.T.shape:
        assert digest(data.T) != digest(data)
    if data.size:
        other = data.copy()
        flat = other.reshape(-1)
        flat[0] = np.array(101).astype("i8").astype(dtype) if dtype != "?" else not flat[0]
        assert digest(other) != digest(data)
    if dtype == "i8":
        assert digest(data.astype("u8")) != digest(data)


def test_a_view_is_what_it_shows() -> None:
    whole = np.arange(100.0).reshape(10, 10)
    assert digest(whole[::2, 1:5]) == digest(whole[::2, 1:5].copy())


FRAME = pd.DataFrame(
    {
        "number": [1.5, float("nan"), 3.0],
        "word": ["a", None, "ü"],
        "mixed": [1, "1", None],
        "when": pd.to_datetime(["2020-01-01", "2021-06-01", None]),
        "zone": pd.to_datetime(["2020-01-01", "2021-06-01", None]).tz_localize("UTC"),
        "kind": pd.Categorical(["x", "y", "x"]),
        "count": pd.array([1, None, 3], dtype="Int64"),
        "span": pd.to_timedelta([1, 2, None], unit="s"),
        "period": pd.period_range("2020", periods=3, freq="M"),
    },
    index=pd.Index(["r", "s", "t"], name="row"),
)


def test_tables_by_values_types_index_and_names() -> None:
    assert digest(FRAME.copy(deep=True)) == digest(FRAME)
    assert digest(pickle.loads(pickle.dumps(FRAME))) == digest(FRAME)


@pytest.mark.parametrize("column", list(FRAME.columns))
def test_a_change_in_any_column_shows(column: str) -> None:
    other = FRAME.copy(deep=True)
    other[column] = other[column].iloc[[1, 0, 2]].to_numpy()
    assert digest(other) != digest(FRAME)


@pytest.mark.parametrize(
    "other",
    [
        FRAME.reset_index(drop=True),
        FRAME.rename_axis("line"),
        FRAME.rename(columns={"number": "numbers"}),
        FRAME[FRAME.columns[::-1]],
        FRAME.astype({"number": "float32"}),
        FRAME.iloc[:2],
        FRAME.fillna({"number": 0.0}),
    ],
    ids=["index", "index name", "column name", "column order", "type", "rows", "missing"],
)
def test_another_table_is_another(other: pd.DataFrame) -> None:
    assert digest(other) != digest(FRAME)


def test_indexes() -> None:
    made = [
        pd.Index([1, 2]),
        pd.Index([1, 2], name="n"),
        pd.RangeIndex(2),
        pd.Index(["1", "2"]),
        pd.MultiIndex.from_product([[1, 2], ["a", "b"]]),
        pd.MultiIndex.from_product([[1, 2], ["a", "b"]], names=["x", "y"]),
        pd.interval_range(0, 2),
        pd.Series([1, 2]),
        pd.Series([1, 2], name="n"),
    ]
    assert len({digest(each) for each in made}) == len(made)
    assert [digest(copy.deepcopy(each)) for each in made] == [digest(each) for each in made]


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


@dataclasses.dataclass
class Point:
    x: int
    y: Any = None


Pair = collections.namedtuple("Pair", "a b")


def function(body: str) -> Any:
    space: dict[str, Any] = {}
    exec(body, space)
    return space["f"]


@pytest.mark.parametrize(
    ("one", "again", "other"),
    [
        (Colour.RED, Colour.RED, Colour.BLUE),
        (Point(1), Point(1), Point(2)),
        (Point(1, [Point(2)]), Point(1, [Point(2)]), Point(1, [Point(3)])),
        (Pair(1, 2), Pair(1, 2), Pair(2, 1)),
        (ValueError("a"), ValueError("a"), ValueError("b")),
        (pathlib.Path("a"), pathlib.Path("a"), pathlib.PurePosixPath("a")),
        (decimal.Decimal("1.0"), decimal.Decimal("1.0"), decimal.Decimal("1.00")),
        (fractions.Fraction(1, 2), fractions.Fraction(2, 4), fractions.Fraction(1, 3)),
        (dt.date(2020, 1, 1), dt.date(2020, 1, 1), dt.datetime(2020, 1, 1, tzinfo=dt.UTC)),
        (random.Random(1), random.Random(1), random.Random(2)),
        (np.random.default_rng(1), np.random.default_rng(1), np.random.default_rng(2)),
        (np.random.RandomState(1), np.random.RandomState(1), np.random.RandomState(2)),
        (np.float64(1), np.float64(1), np.float32(1)),
        (np.ma.array([1, 2], mask=[0, 1]), np.ma.array([1, 2], mask=[0, 1]), np.ma.array([1, 2])),
        (slice(1, 2), slice(1, 2), slice(2, 1)),
        (range(3), range(3), range(4)),
        (bytearray(b"a"), bytearray(b"a"), b"a"),
        (collections.OrderedDict(a=1), collections.OrderedDict(a=1), {"a": 1}),
        (collections.defaultdict(list, a=1), collections.defaultdict(list, a=1), {"a": 1}),
        (collections.deque([1], 3), collections.deque([1], 3), collections.deque([1], 4)),
        (types.SimpleNamespace(a=1), types.SimpleNamespace(a=1), types.SimpleNamespace(a=2)),
        (1, 1, True),
        (0.0, 0.0, -0.0),
        ([1, 2], [1, 2], (1, 2)),
        ([1, [2]], [1, [2]], [[1], 2]),
        ({1: {2: 3}}, {1: {2: 3}}, {1: {2: 4}}),
        (int, int, float),
        (pd.Timestamp(0), pd.Timestamp(0), pd.Timestamp(1)),
        (10**5000, 10**5000, 10**5000 + 1),
        ([10**5000, 1], [10**5000, 1], [10**5000, 2]),
        (uuid.UUID(int=1), uuid.UUID(int=1), uuid.UUID(int=2)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_of_every_kind(one: Any, again: Any, other: Any) -> None:
    assert digest(one) == digest(again) != digest(other)


def test_functions_by_what_they_do() -> None:
    plain = function("def f(a):\n    return a + 1")
    assert digest(plain) == digest(function("\n\n\n# elsewhere\ndef f(a):\n    return a + 1"))
    others = [
        "def f(a):\n    return a + 2",
        "def f(b):\n    return b + 1",
        "def f(a=3):\n    return a + 1",
        "def f(*, a=3):\n    return a + 1",
        "def g(a):\n    return a + 1\nf = g",
        "def f(a):\n    return {1, a}\n",
    ]
    made = [digest(function(body)) for body in others]
    assert len({digest(plain), *made}) == len(others) + 1
    nested = "def f(a):\n    return (lambda b: b * {n})(a)"
    assert digest(function(nested.format(n=2))) != digest(function(nested.format(n=3)))

    def counter(start: int) -> Any:
        return lambda: start

    assert digest(counter(1)) == digest(counter(1)) != digest(counter(2))


def test_frozen_constants_of_code_have_no_order() -> None:
    one = function("def f(a):\n    return a in {'alpha', 'beta', 'gamma', 'delta'}")
    two = function("def f(a):\n    return a in {'delta', 'gamma', 'beta', 'alpha'}")
    assert digest(one) == digest(two)


def test_cycles_end_and_count() -> None:
    def ring(more: list[Any]) -> list[Any]:
        made: list[Any] = [1, *more]
        made.append(made)
        return made

    assert digest(ring([])) == digest(ring([])) != digest(ring([2]))
    inside: dict[str, Any] = {}
    inside["self"] = [inside]
    outside: dict[str, Any] = {}
    outside["self"] = [[outside]]
    assert digest(inside) != digest(outside)


def test_what_cannot_be_compared_says_its_type() -> None:
    found = told(iter([]))
    assert (found["digest"], found["type"]) == (None, "list_iterator")
    assert "cannot be compared" in found["why"]


def test_a_value_that_holds_such_a_thing_is_compared_without_it() -> None:
    one, other = told([1, iter([])]), told([2, iter([])])
    assert one["digest"] == told([1, iter([])])["digest"] != other["digest"]
    assert "list_iterator" in one["why"]


class Trap:
    """Everything that could run says so."""

    ran: ClassVar[list[str]] = []

    def __init__(self) -> None:
        self.value = 1

    def _caught(self, *_: Any) -> Any:
        Trap.ran.append("something of the user's")
        raise RuntimeError

    __repr__ = __str__ = __eq__ = __hash__ = __iter__ = __len__ = __getattr__ = _caught  # type: ignore[assignment]
    __getattribute__ = _caught
    __reduce_ex__ = __getstate__ = __bool__ = __format__ = _caught  # type: ignore[assignment]


class TrapList(list[Any]):
    __iter__ = __len__ = __getitem__ = __repr__ = Trap._caught  # type: ignore[assignment]


class TrapDict(dict[Any, Any]):
    items = __iter__ = __len__ = __getitem__ = __repr__ = Trap._caught  # type: ignore[assignment]


class TrapText(str):
    __slots__ = ()
    __len__ = __getitem__ = encode = __repr__ = __str__ = Trap._caught  # type: ignore[assignment]


def test_nothing_of_the_users_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in (Trap, TrapList, TrapDict, TrapText):
        monkeypatch.setattr(kind, "__module__", "__main__")
    Trap.ran.clear()
    for value in (Trap(), TrapList([1]), TrapDict({1: 2}), TrapText("a"), [Trap()], {1: Trap()}):
        found = told(value)
        assert found["digest"] is not None, found
    assert Trap.ran == []
    assert told(TrapList([1]))["digest"] != told(TrapList([2]))["digest"]
    assert told(TrapDict({1: 2}))["digest"] != told(TrapDict({1: 3}))["digest"]
    assert told(TrapText("a"))["digest"] != told(TrapText("b"))["digest"]


def test_instances_of_the_notebooks_classes_by_their_attributes() -> None:
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(
        "class Model:\n"
        "    def __init__(self, a): self.a = a; self.me = self\n"
        "class Slim:\n"
        "    __slots__ = ('a', 'b')\n"
        "    def __init__(self, a): self.a = a\n",
        space,
    )
    for kind in (space["Model"], space["Slim"]):
        assert digest(kind(1)) == digest(kind(1)) != digest(kind(2))


def test_time_is_bounded_and_small_things_come_first() -> None:
    deep: list[Any] = []
    for _ in range(60):
        deep = [deep, deep]  # 2**60 ways through it
    space = {"huge": deep, "small": 1, "words": ["x"] * 3_000_000}
    began = time.perf_counter()
    found = digests(space, list(space), 0.3)["variables"]
    assert time.perf_counter() - began < 3
    assert found["small"]["digest"] is not None
    assert (found["huge"]["digest"], found["huge"]["why"]) == (None, "too large")


def test_nesting_beyond_any_bound_is_no_error() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert "nested deeper" in told(deep)["why"]


def variables(**space: Any) -> Variables:
    found = parse(digests(space, list(space), 30))
    assert found is not None
    return found


def test_two_interpreters_are_compared_name_by_name() -> None:
    found = compare(
        variables(a=1, b=1, c=1, d=iter([]), gone=1),
        variables(a=1, b=2, c="1", d=iter([]), new=1),
    )
    assert found.same == ("a",)
    assert {each.name: each.kind for each in found.different} == {
        "b": "value",
        "c": "type",
        "gone": "missing",
        "new": "extra",
    }
    assert list(found.unknown) == ["d"]


GOOD = {"type": "int", "digest": "a" * 24, "shape": None, "preview": "1", "why": None}


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        "text",
        {},
        {"python": "x", "omitted": 0},
        {"python": 1, "omitted": 0, "variables": {}},
        {"python": "x", "omitted": True, "variables": {}},
        {"python": "x", "omitted": -1, "variables": {}},
        {"python": "x", "omitted": 0, "variables": []},
        {"python": "x", "omitted": 0, "variables": {"a": None}},
        {"python": "x", "omitted": 0, "variables": {"a" * 999: GOOD}},
        {"python": "x", "omitted": 0, "variables": {"a": {**GOOD, "type": None}}},
        {"python": "x", "omitted": 0, "variables": {"a": {**GOOD, "digest": "zz"}}},
        {"python": "x", "omitted": 0, "variables": {"a": {**GOOD, "digest": 5}}},
        {"python": "x", "omitted": 0, "variables": {"a": {**GOOD, "preview": "x" * 9999}}},
        {"python": "x", "omitted": 0, "variables": {f"n{at}": GOOD for at in range(5000)}},
    ],
)
def test_an_answer_that_is_none_is_refused(value: Any) -> None:
    assert parse(value) is None


def test_an_answer_survives_the_log() -> None:
    made = variables(a=1, f=test_cycles_end_and_count, text="x" * 500)
    assert parse(made.to_json()) == made
