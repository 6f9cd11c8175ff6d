"""What a single value is: missing, a number, a date, a code, text (values in, values out)."""

from __future__ import annotations

import math
import re
from datetime import date, datetime, time
from decimal import Decimal
from typing import NamedTuple

MISSING_WORDS = frozenset(
    {"", "na", "n/a", "#n/a", "nan", "null", "none", "nil", "<na>", "nat", "-", "--", "?", "."}
)
#: Words that stand for "we do not know" but which no reader of files takes for missing.
PLACEHOLDERS = frozenset({"unknown", "missing", "tbd", "not available", "undefined", "xxx", "n.a."})

_BOOLEAN = {"true": True, "false": False, "yes": True, "no": False, "t": True, "f": False}
_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
_FORMATTED = re.compile(
    r"[(]?[+-]?\s?(?P<mark>[$€£¥]\s?)?"
    r"(?P<body>[0-9]{1,3}(?:[,.' \u00a0\u202f][0-9]{3})+(?:[.,][0-9]+)?|[0-9]+(?:[.,][0-9]+)?)"
    r"\s?(?P<unit>%|[$€£¥])?[)]?"
)
_ISO = re.compile(
    r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})"
    r"(?P<rest>[T ][0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]{1,9})?)?"
    r"\s?(?P<zone>Z|[+-][0-9]{2}:?[0-9]{2})?)?"
)
_NUMERIC_DATE = re.compile(
    r"([0-9]{1,4})([/.-])([0-9]{1,2})\2([0-9]{1,4})(?P<rest>[T ,]+[0-9:. APMapm]+)?"
)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_NAMED_DATE = re.compile(
    r"(?:([0-9]{1,2})[ -]([A-Za-z]{3,9})[ ,-]+([0-9]{4})"
    r"|([A-Za-z]{3,9})[ .]+([0-9]{1,2}),? +([0-9]{4}))"
)
_TIME = re.compile(r"([01]?[0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:\.[0-9]+)?)?")
#: A whole number that a double does not hold exactly is an identifier, not a quantity.
_EXACT_DIGITS = 15


class Value(NamedTuple):
    """kind: missing, integer, number, formatted, boolean, date, datetime, time, code, text, list
    or object.  number: of what counts as one.  form: how a date or a formatted number is written.
    day: (year, month, day) of a date.
    """

    kind: str
    number: float | None = None
    form: str = ""
    day: tuple[int, int, int] | None = None


MISSING = Value("missing")
TEXT = Value("text")


def classified(value: object) -> Value:
    """What a value is: text as it stands in a CSV, or what a reader of JSON or Parquet gave."""
    if isinstance(value, str):
        return _text(value)
    if value is None:
        return MISSING
    if isinstance(value, bool):
        return Value("boolean", float(value))
    if isinstance(value, int):
        if abs(value) >= 10**_EXACT_DIGITS:
            return Value("code", form="whole number of more than 15 digits")
        return Value("integer", float(value))
    if isinstance(value, float | Decimal):
        return _float(float(value))
    if isinstance(value, datetime):
        zone = "with zone" if value.tzinfo else "without zone"
        return Value("datetime", form=f"typed, {zone}", day=(value.year, value.month, value.day))
    if isinstance(value, date):
        return Value("date", form="typed", day=(value.year, value.month, value.day))
    if isinstance(value, time):
        return Value("time")
    if isinstance(value, list | tuple):
        return Value("list")
    return Value("object") if isinstance(value, dict) else TEXT


def _float(number: float) -> Value:
    if math.isnan(number):
        return MISSING
    if math.isinf(number):
        return Value("number", number, form="infinite")
    return Value("number", number)


def _text(raw: str) -> Value:
    text = raw.strip()
    if len(text) > 64:
        return TEXT
    low = text.casefold()
    if low in MISSING_WORDS:
        return MISSING
    first = text[0]
    if first.isdigit() or first in "+-.($€£¥":
        return _like_a_number(text)
    if low in _BOOLEAN:
        return Value("boolean", float(_BOOLEAN[low]))
    if low in ("inf", "infinity"):
        return Value("number", math.inf, form="infinite")
    return _named_date(text)


def _like_a_number(text: str) -> Value:
    if _INTEGER.fullmatch(text):
        digits = text.lstrip("+-")
        if len(digits) > 1 and digits[0] == "0":
            return Value("code", form="digits with leading zeros")
        if len(digits) > _EXACT_DIGITS:
            return Value("code", form="whole number of more than 15 digits")
        return Value("integer", float(text))
    if _NUMBER.fullmatch(text):
        number = float(text)
        return Value("number", number, form="infinite" if math.isinf(number) else "")
    if text.lower() in ("-inf", "+inf", "-infinity", "+infinity"):
        return Value("number", -math.inf if text[0] == "-" else math.inf, form="infinite")
    if _TIME.fullmatch(text):
        return Value("time")
    found = _date(text)
    if found is not None:
        return found
    formatted = _FORMATTED.fullmatch(text)
    if formatted is not None:
        return _formatted(text, formatted)
    return _named_date(text)


def _formatted(text: str, found: re.Match[str]) -> Value:
    body = found["body"]
    marks = [c for c in body if not c.isdigit()]
    forms = []
    if found["mark"] or found["unit"] in tuple("$€£¥"):
        forms.append("currency sign")
    if found["unit"] == "%":
        forms.append("percent sign")
    decimal = ""
    if marks:
        last, tail = marks[-1], len(body) - body.rindex(marks[-1]) - 1
        alone = marks.count(last) == 1
        if last in ",." and alone and (len(set(marks)) > 1 or tail != 3):
            decimal = last
            if last == ",":
                forms.append("decimal comma")
        if len(marks) > 1 or not decimal:
            forms.append("thousands separator")
    plain = "".join(c for c in body if c.isdigit() or c == decimal).replace(",", ".")
    if text.startswith("(") != text.endswith(")"):
        return TEXT
    if text.startswith("("):
        forms.append("parentheses for minus")
    sign = -1 if text.startswith(("(", "-")) else 1
    return Value("formatted", sign * float(plain), ", ".join(forms) or "sign apart")


def _date(text: str) -> Value | None:
    iso = _ISO.fullmatch(text)
    if iso is not None:
        day = _day(int(iso[1]), int(iso[2]), int(iso[3]))
        if day is None:
            return None
        if iso["rest"] is None:
            return Value("date", form="YYYY-MM-DD", day=day)
        zone = "with zone" if iso["zone"] else "without zone"
        return Value("datetime", form=f"ISO, {zone}", day=day)
    other = _NUMERIC_DATE.fullmatch(text)
    if other is None:
        return None
    a, b, c = int(other[1]), int(other[3]), int(other[4])
    mark, kind = other[2], "datetime" if other["rest"] else "date"
    if len(other[1]) == 4:
        day, form = _day(a, b, c), f"YYYY{mark}MM{mark}DD"
    elif len(other[1]) > 2 or len(other[4]) not in (2, 4):
        return None
    else:
        year = c if len(other[4]) == 4 else 2000 + c
        years = "YYYY" if len(other[4]) == 4 else "YY"
        if a > 12:
            day, form = _day(year, b, a), f"DD{mark}MM{mark}{years}"
        elif b > 12:
            day, form = _day(year, a, b), f"MM{mark}DD{mark}{years}"
        else:
            day, form = _day(year, a, b), f"?{mark}?{mark}{years}"
    return None if day is None else Value(kind, form=form, day=day)


def _named_date(text: str) -> Value:
    found = _NAMED_DATE.fullmatch(text)
    if found is None:
        return TEXT
    day, name, year = (found[1], found[2], found[3]) if found[1] else (found[5], found[4], found[6])
    short = name[:3].lower()
    if short not in _MONTHS:
        return TEXT
    known = _day(int(year), _MONTHS.index(short) + 1, int(day))
    form = "DD Month YYYY" if found[1] else "Month DD, YYYY"
    return TEXT if known is None else Value("date", form=form, day=known)


def _day(year: int, month: int, day: int) -> tuple[int, int, int] | None:
    try:
        date(year, month, day)
    except ValueError:
        return None
    return year, month, day
