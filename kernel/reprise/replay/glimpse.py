"""Runs inside the language kernel beside `fingerprint`: what a person is shown of a variable.

Sent there as text, as `fingerprint` is. Nothing of the user's own code runs: the classes looked
into are Python's, numpy's and pandas'.
"""

from __future__ import annotations

import types
from typing import Any

#: What one variable may show of itself, characters.
PREVIEW = 100

SIZED = {str, bytes, bytearray, list, tuple, dict, set, frozenset}

#: Types whose repr is short and harmless.
BRIEF = {type(None), bool, float, complex, range, type(...), type(NotImplemented)}

#: Classes whose text is short and harmless.
SHORT = {
    "datetime.date", "datetime.time", "datetime.datetime", "datetime.timedelta",
    "datetime.timezone", "decimal.Decimal", "fractions.Fraction", "pathlib.PosixPath",
    "pathlib._local.PosixPath", "uuid.UUID", "zoneinfo.ZoneInfo",
}  # fmt: skip


def shape(value: Any, kind: type) -> str | None:
    """Its length or dimensions."""
    top = (kind.__module__ or "").partition(".")[0]
    sizes = getattr(value, "shape", None) if top in ("numpy", "pandas") else None
    if type(sizes) is tuple and sizes and all(type(each) is int for each in sizes):
        return " × ".join(format(each, ",") for each in sizes[:8])
    if kind in SIZED:
        return format(len(value), ",")
    return None


def preview(value: Any, depth: int = 0) -> str:
    """A few words of a value whose class we know; nothing of the user's own runs."""
    kind = type(value)
    if kind is str or kind is bytes:
        return repr(value[:PREVIEW])
    if kind is int:
        return repr(value) if value.bit_length() < 256 else f"int of {value.bit_length()} bits"
    if kind is float and depth:
        return f"{value:.6g}"
    if kind in BRIEF:
        return repr(value)
    if depth < 2 and kind in (list, tuple, set, frozenset, dict):
        return _preview_of_many(value, kind, depth)
    top = (kind.__module__ or "").partition(".")[0]
    if f"{kind.__module__}.{kind.__qualname__}" in SHORT:
        return str(value)[:PREVIEW]
    if top == "numpy" and hasattr(value, "dtype") and not value.dtype.hasobject:
        if not getattr(value, "ndim", 0):
            return str(value)[:PREVIEW]
        first = ", ".join(str(each) for each in value.flat[:6].tolist())
        more = ", …" if value.size > 6 else ""
        return f"{value.dtype} [{first}{more}]"
    if top == "pandas" and kind.__name__ == "Series":
        return _preview_of_column(value)
    if top == "pandas" and kind.__name__ == "DataFrame":
        shown = (_preview_of_column(value.iloc[:, at]) for at in range(min(4, value.shape[1])))
        return "; ".join(shown)
    if kind is types.FunctionType:
        code = value.__code__
        return f"{value.__name__}({', '.join(code.co_varnames[: code.co_argcount][:8])})"
    if kind is types.ModuleType:
        return str(value.__name__)
    return ""


def _preview_of_column(column: Any) -> str:
    named = column.name if type(column.name) is str else preview(column.name, 2)
    first = [preview(each, 2) or type(each).__name__ for each in column.iloc[:3].tolist()]
    return f"{named}: {', '.join(first)}{', …' if len(column) > 3 else ''}"


def _preview_of_many(value: Any, kind: type, depth: int) -> str:
    shown: list[str] = []
    length = 0
    for each in value:
        text = preview(each, depth + 1) or type(each).__name__
        if kind is dict:
            text += ": " + (preview(value[each], depth + 1) or type(value[each]).__name__)
        shown.append(text)
        length += len(text)
        if length > PREVIEW or len(shown) >= 8:
            break
    if kind in (set, frozenset):
        shown.sort()
    text = ", ".join(shown) + (", …" if len(shown) < len(value) else "")
    first, last = "[]" if kind is list else "()" if kind is tuple else "{}"
    return f"{first}{text}{last}"


def weight(value: Any) -> int:
    """About how much there is to digest, so that a large variable does not cost the small ones."""
    kind = type(value)
    top = (kind.__module__ or "").partition(".")[0]
    if top == "numpy":
        size = getattr(value, "nbytes", 0)
        return size if type(size) is int else 0
    if top == "pandas":
        size = getattr(value, "size", 0)
        return 8 * size if type(size) is int else 0
    if kind in SIZED:
        return len(value)
    return 0
