"""Runs inside the language kernel beside `fingerprint`: feeds arrays and tables to a digest.

Sent there as text, as `fingerprint` is. numpy and pandas are never imported here, only found
where the kernel has loaded them.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

#: Bytes of one buffer (an array, a text) that are hashed at most.
BUFFER = 512 << 20
#: Bytes are hashed so many at a time, the clock being looked at in between.
PIECE = 8 << 20
#: Rows of text or of objects in a table at most: their hashing cannot be stopped in between.
ROWS = 1_000_000

#: Takes the bytes of a value, piece by piece.
Put = Callable[[Any], None]


class TooLarge(Exception):
    """More than can be digested in the time there is."""


def part(put: Put, tag: str, data: bytes) -> None:
    """One tagged, measured piece, so that no two values feed the same bytes."""
    put(b"%s:%d:" % (tag.encode("utf-8", "replace"), len(data)))
    put(data)


def class_name(kind: type) -> str:
    """A class by its name, its module where that is not the notebook or builtins."""
    module = kind.__module__
    named = kind.__qualname__ if type(kind.__qualname__) is str else "?"
    return named if module in ("builtins", "__main__") else f"{module}.{named}"


class Tables:
    """What of a `Walk` knows numpy and pandas."""

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline

    def clock(self) -> None:
        if time.perf_counter() > self.deadline:
            raise TooLarge

    def walk(self, value: Any, put: Put) -> None:
        raise NotImplementedError

    def sequence(self, tag: str, value: Any, put: Put) -> None:
        raise NotImplementedError

    def numpy(self, value: Any, kind: type, put: Put) -> bool:
        np = sys.modules["numpy"]
        if isinstance(value, np.ndarray):
            part(put, "array", class_name(kind).encode())
            if isinstance(value, np.ma.MaskedArray):
                self.array(np, np.ma.getmaskarray(value), put)
            self.array(np, np.asarray(value), put)
        elif isinstance(value, np.generic):
            part(put, "scalar", class_name(kind).encode())
            self.array(np, np.asarray(value), put)
        elif isinstance(value, np.dtype):
            part(put, "dtype", str(value).encode())
        elif isinstance(value, np.random.Generator):
            part(put, "generator", b"")
            self.walk(value.bit_generator.state, put)
        elif isinstance(value, np.random.RandomState):
            part(put, "randomstate", b"")
            self.walk(value.get_state(legacy=False), put)
        elif isinstance(value, np.ufunc):
            part(put, "ufunc", value.__name__.encode())
        else:
            return False
        return True

    def array(self, np: Any, value: Any, put: Put) -> None:
        part(put, "data", f"{value.dtype.str} {value.shape}".encode())
        if value.dtype.names:
            part(put, "fields", str(value.dtype).encode())
        if value.dtype.hasobject:
            self.objects(value, put)
            return
        if value.nbytes > BUFFER:
            raise TooLarge
        if value.flags.c_contiguous and value.size:
            flat = value.reshape(-1).view("u1")
            for at in range(0, flat.size, PIECE):
                self.clock()
                put(memoryview(flat[at : at + PIECE]))
            return
        flags = ["external_loop", "buffered", "zerosize_ok"]
        for piece in np.nditer(value, flags=flags, order="C", buffersize=1 << 16):
            self.clock()
            put(piece.tobytes())

    def objects(self, value: Any, put: Put) -> None:
        if value.size > ROWS:
            raise TooLarge
        self.sequence("objects", value.ravel().tolist(), put)

    def pandas(self, value: Any, kind: type, put: Put) -> bool:
        pd = sys.modules.get("pandas")
        if pd is None or not hasattr(pd, "DataFrame"):
            return False
        if isinstance(value, pd.DataFrame):
            part(put, "frame", class_name(kind).encode())
            self.column(pd, value.index, put)
            self.column(pd, value.columns, put)
            for at in range(value.shape[1]):
                self.column(pd, value.iloc[:, at].array, put)
        elif isinstance(value, pd.Series):
            part(put, "series", class_name(kind).encode())
            self.walk(value.name, put)
            self.column(pd, value.index, put)
            self.column(pd, value.array, put)
        elif isinstance(value, (pd.Index, pd.api.extensions.ExtensionArray)):
            part(put, "values", class_name(kind).encode())
            self.column(pd, value, put)
        elif isinstance(value, (pd.Timestamp, pd.Timedelta, pd.Period, pd.Interval)):
            part(put, "moment", f"{class_name(kind)} {value}".encode())
        elif value is pd.NaT or value is pd.NA:
            part(put, "missing", class_name(kind).encode())
        else:
            return False
        return True

    def column(self, pd: Any, value: Any, put: Put) -> None:
        """An index or a column, by its values; its name too where it has one."""
        self.clock()
        if isinstance(value, pd.MultiIndex):
            part(put, "levels", b"%d" % value.nlevels)
            self.walk(list(value.names), put)
            for level, codes in zip(value.levels, value.codes, strict=True):
                self.column(pd, level, put)
                self.walk(sys.modules["numpy"].asarray(codes), put)
            return
        if isinstance(value, pd.Index):
            self.walk(value.name, put)
            value = value.array
        part(put, "column", f"{value.dtype} {len(value)}".encode())
        np = sys.modules["numpy"]
        if isinstance(value, pd.Categorical):
            self.array(np, np.asarray(value.codes), put)
            self.column(pd, value.categories, put)
            return
        held = getattr(value, "_ndarray", None)  # of a NumpyExtensionArray, of dates
        if isinstance(held, np.ndarray) and not held.dtype.hasobject:
            self.array(np, held, put)
            return
        if len(value) > ROWS:
            raise TooLarge
        if value.dtype.kind == "O" and pd.api.types.infer_dtype(value, skipna=False) != "string":
            self.objects(np.asarray(value, dtype=object), put)
            return
        self.array(np, np.asarray(value.isna(), dtype=bool), put)
        self.array(np, pd.util.hash_array(value, categorize=True), put)

    def buffer(self, data: memoryview, put: Put) -> None:
        if data.nbytes > BUFFER:
            raise TooLarge
        part(put, "bytes", b"%d" % data.nbytes)
        for at in range(0, data.nbytes, PIECE):
            self.clock()
            put(data[at : at + PIECE])
