"""Reads a table once and says what it holds and what is odd, the gravest first."""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from dataclasses import dataclass
from itertools import combinations

from profiling import associations
from profiling.columns import Column, key_of, rounded, shown
from profiling.reading import Table
from profiling.values import PLACEHOLDERS, Value, classified

#: Rows kept for what looks at two columns at once.
_SAMPLE = 3_000
#: Distinct values told apart, over all columns together.
_DISTINCT = 3_000_000
_SEVERITIES = ("error", "warning", "info")
_SENTINELS = (-1.0, -9.0, -99.0, -999.0, -9999.0, 99.0, 999.0, 9999.0, 99999.0, 999999.0)
_LATER = re.compile(
    r"(^|_)(outcome|result|label|target|final|actual|resolved|closed|paid|refund\w*|cancel\w*"
    r"|churn\w*|discharge\w*|approved|default(ed)?|prediction|predicted|score[ds]?)(_|$)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Options:
    """columns: profiled at most.  top: values shown of each.  findings: shown at most."""

    target: str | None = None
    columns: int = 200
    top: int = 5
    findings: int = 60


def profile(table: Table, options: Options) -> dict[str, object]:
    """The profile, as JSON. Raises KeyError when the target is no column."""
    names = table.names[: options.columns]
    if options.target is not None and options.target not in names:
        if options.target not in table.names:
            raise KeyError(options.target)
        names[-1] = options.target
    places = [table.names.index(name) for name in names]
    # Names that stand twice are columns of their own.
    if len(table.names) <= options.columns:
        places = list(range(len(table.names)))
        names = list(table.names)
    columns = [Column(name, max(1_000, _DISTINCT // max(len(names), 1))) for name in names]
    rows = repeated = empty = 0
    seen: set[int] = set()
    sample: list[list[object]] = []
    chance = random.Random(0)
    for row in table.rows:
        rows += 1
        cells = [row[place] for place in places]
        missing = 0
        for column, cell in zip(columns, cells, strict=True):
            missing += column.take(cell, rows).kind == "missing"
        empty += missing == len(cells)
        mark = hash(tuple(each if isinstance(each, str) else key_of(each) for each in row))
        if mark in seen:
            repeated += 1
        elif len(seen) < _DISTINCT:
            seen.add(mark)
        if len(sample) < _SAMPLE:
            sample.append(cells)
        else:
            at = chance.randrange(rows)
            if at < _SAMPLE:
                sample[at] = cells
    seen.clear()
    found = _Findings()
    _of_the_file(table, rows, repeated, empty, found)
    for column in columns:
        _of_a_column(column, found)
    _of_columns(columns, found)
    keys = _keys(columns, sample)
    related = _with_target(columns, sample, options.target, found) if options.target else None
    if related is None:
        _pairs(columns, sample, found)
    listed, left = found.ranked(options.findings)
    body: dict[str, object] = {
        "file": table.facts,
        "rows": rows,
        "read": "all rows" if table.whole else _how(table, rows),
        "columns": len(table.names),
        "duplicate_rows": repeated,
        "key_candidates": keys,
        "findings": listed,
        "findings_left_out": left,
        "profile": [column.described(options.top) for column in columns],
        "columns_left_out": len(table.names) - len(columns),
    }
    if related is not None:
        body["target"] = related
    return body


def _how(table: Table, rows: int) -> str:
    if table.spread:
        return (
            f"a sample: {rows} of about {table.estimated} rows, half from the beginning and half"
            " from evenly spaced places; counts are of the sample"
        )
    total = f" of {table.estimated}" if table.estimated else ""
    return f"the first {rows} rows{total}; counts are of these"


class _Findings:
    """What is odd: each of a rule, with what it was seen by and what to do about it."""

    def __init__(self) -> None:
        self._found: list[dict[str, object]] = []

    def add(
        self, severity: str, rule: str, column: str | None, what: str, do: str, rows: int = 0
    ) -> None:
        self._found.append(
            {
                "severity": severity,
                "rule": rule,
                "column": None if column is None else shown(column),
                "what": what,
                "do": do,
                "rows": rows,
            }
        )

    def ranked(self, most: int) -> tuple[list[dict[str, object]], int]:
        ordered = sorted(
            self._found,
            key=lambda each: (_SEVERITIES.index(str(each["severity"])), -int(str(each["rows"]))),
        )
        return ordered[:most], max(len(ordered) - most, 0)


def _of_the_file(table: Table, rows: int, repeated: int, empty: int, found: _Findings) -> None:
    odd, examples = table.odd, table.examples
    if odd["unreadable rest"]:
        found.add(
            *("error", "unreadable-rest", None),
            f"Reading stopped {examples.get('unreadable rest', '')}",
            "Look for a quote that is never closed, or a download that was cut off.",
        )
    for name, rule, do in (
        (
            "ragged rows",
            "ragged-rows",
            "Look at these lines; a delimiter may stand unquoted in a text.",
        ),
        ("lines that are no JSON", "broken-lines", "Mend or drop these lines before use."),
        ("undecodable characters", "undecodable-bytes", "Name the encoding: --encoding."),
    ):
        if odd[name]:
            example = f": {examples[name]}" if name in examples else ""
            found.add("error", rule, None, f"{odd[name]} {name}{example}.", do, odd[name])
    if table.facts.get("encoding") == "cp1252":
        found.add(
            *("warning", "encoding-guessed", None),
            "The file is not UTF-8; it was read as Windows-1252, which fits any bytes.",
            "Check letters beyond ASCII; when you read it, pass encoding='cp1252'.",
        )
    if table.facts.get("header") is False:
        found.add(
            *("warning", "no-header", None),
            "The first line looks like data, so columns are numbered.",
            "Read it with header=None and give names, or pass --header if it is one.",
        )
    if repeated:
        found.add(
            *("warning", "duplicate-rows", None),
            f"{repeated} of {rows} rows repeat an earlier one.",
            "Find out whether they are events or copies; drop copies before splitting.",
            repeated,
        )
    if empty:
        found.add("warning", "empty-rows", None, f"{empty} rows hold nothing.", "Drop them.", empty)
    if not rows:
        found.add("error", "no-rows", None, "There is a header and no row.", "Look at its source.")
    twice = [name for name, n in Counter(table.names).items() if n > 1]
    for name in twice[:10]:
        found.add(
            *("error", "duplicate-name", name),
            "Several columns have this name.",
            "Rename them; pandas appends .1, a dict keeps the last only.",
        )


def _of_a_column(column: Column, found: _Findings) -> None:
    name, rows, present = column.name, column.rows, column.present
    if not rows:
        return
    if name != name.strip() or "\ufeff" in name:
        found.add("warning", "padded-name", name, "Its name has blanks around it.", "Rename it.")
    if not present:
        found.add("warning", "empty-column", name, "It holds nothing.", "Drop it.", rows)
        return
    missing = column.kinds["missing"]
    if missing:
        share = missing / rows
        severity = "warning" if share >= 0.2 else "info"
        found.add(
            *(severity, "missing", name),
            f"{missing} of {rows} values are missing ({share:.0%}).",
            "Ask why: not asked, not known, or not applicable need different handling.",
            missing,
        )
        words = [word for word in column.missing_words if word]
        unusual = [w for w in words if w.casefold() in ("-", "--", "?", ".", "nil")]
        if unusual:
            found.add(
                *("warning", "unusual-missing", name),
                f"Missing values are written {', '.join(map(repr, unusual[:4]))}.",
                f"Pass na_values={unusual[:4]!r} when reading, or they stay text.",
                sum(column.missing_words[w] for w in unusual),
            )
    kind = column.type
    if column.distinct == 1 and not column.overflow and present > 1:
        found.add(
            *("info", "constant", name),
            f"Every value is {shown(next(iter(column.counts)))!r}.",
            "It tells nothing; drop it, or find out why it never varies.",
        )
    if kind == "mixed":
        kinds = {k: n for k, n in column.kinds.most_common() if k != "missing"}
        rare = min(kinds, key=lambda each: kinds[each])
        row, example = column.first[rare]
        found.add(
            *("error", "mixed-types", name),
            f"It mixes {', '.join(f'{n} {k}' for k, n in kinds.items())};"
            f" the first {rare} is {example!r} in row {row}.",
            "Decide on one type; convert, and treat what does not convert as missing.",
            present - max(kinds.values()),
        )
    elif kind not in ("text", "empty"):
        _strays(column, kind, found)
    if kind == "formatted number" or column.kinds["formatted"] * 2 > present:
        forms = ", ".join(form for form, _ in column.forms.most_common(3))
        found.add(
            *("error", "numbers-as-text", name),
            f"Numbers are written with {forms}; a reader takes them for text.",
            "Convert them when reading (thousands=, decimal=, or strip the signs).",
            column.kinds["formatted"],
        )
    if kind == "code":
        found.add(
            *("warning", "code", name),
            f"Digits that are a code ({column.forms.most_common(1)[0][0]}).",
            "Read it as text (dtype=str), or zeros and last digits are lost.",
            column.kinds["code"],
        )
    if column.infinite:
        found.add(
            *("error", "infinite", name),
            f"{column.infinite} values are infinite.",
            "Find the division by zero they come from; most models refuse them.",
            column.infinite,
        )
    _of_numbers(column, kind, found)
    _of_dates(column, kind, found)
    _of_texts(column, kind, found)


def _strays(column: Column, kind: str, found: _Findings) -> None:
    """A few values of another kind in a column that is otherwise of one."""
    near = {
        "number": {"integer", "number"},
        "integer": {"integer"},
        "date": {"date", "datetime"},
        "datetime": {"date", "datetime"},
        "code": {"integer", "code"},
        "formatted number": {"integer", "number", "formatted"},
    }.get(kind, {kind})
    strays = {k: n for k, n in column.kinds.items() if n and k != "missing" and k not in near}
    for stray, count in strays.items():
        row, example = column.first[stray]
        found.add(
            *("error", "stray-values", column.name),
            f"{count} values of {column.present} are {stray}, not {kind}:"
            f" {example!r} in row {row}.",
            "They make the whole column text in pandas. Mend them, or read them as missing.",
            count,
        )


def _of_numbers(column: Column, kind: str, found: _Findings) -> None:
    if kind not in ("integer", "number", "formatted number") or column.numeric < 12:
        return
    outliers = column.outliers()
    sentinel = _sentinel(column)
    if sentinel is not None:
        value, count = sentinel
        found.add(
            *("warning", "sentinel", column.name),
            f"{rounded(value)} stands {count} times, apart from all other values.",
            "It most likely means missing: replace it before any statistic.",
            count,
        )
    if outliers is not None and int(str(outliers["far"])):
        found.add(
            *("warning" if sentinel is None else "info", "far-outliers", column.name),
            f"{outliers['far']} of {outliers['of']} values lie far out, down to"
            f" {outliers['lowest']} and up to {outliers['highest']}."
            if outliers["lowest"] != outliers["highest"]
            else f"{outliers['far']} of {outliers['of']} lie far out: {outliers['highest']}.",
            "Look at these rows: another unit, a typing error, or the interesting ones.",
            int(str(outliers["far"])),
        )
    if column.unique and kind == "integer" and column.ascending and column.rows > 20:
        step = (column.high - column.low) / max(column.rows - 1, 1)
        if step == 1:
            found.add(
                *("info", "row-number", column.name),
                f"It counts the rows from {rounded(column.low)} on.",
                "It is no feature; keep it as an index or drop it.",
            )
    if kind == "integer" and 2 < column.distinct <= 12 and not column.overflow:
        found.add(
            *("info", "codes-as-numbers", column.name),
            f"Only {column.distinct} different whole numbers.",
            "If they are categories, do not treat them as amounts.",
        )


def _sentinel(column: Column) -> tuple[float, int] | None:
    """A number such as -999 that stands often and far from everything else."""
    counts: Counter[float] = Counter(column.numbers)
    others = sorted(v for v in column.numbers if v not in _SENTINELS)
    if len(others) < 10:
        return None
    low, high = others[0], others[-1]
    width = max(high - low, 1e-9)
    for value in _SENTINELS:
        count = counts[value]
        if count < max(2, len(column.numbers) // 1000):
            continue
        gap = low - value if value < low else value - high
        if gap > 0 and (gap > width * 0.5 or (value < 0 <= low)):
            return value, count
    return None


def _of_dates(column: Column, kind: str, found: _Findings) -> None:
    if kind not in ("date", "datetime"):
        return
    forms = [form for form, _ in column.forms.most_common()]
    unclear = [form for form in forms if form.startswith("?")]
    clear = [form for form in forms if not form.startswith("?")]
    if unclear and not any(form.startswith(("DD", "MM")) for form in clear):
        found.add(
            *("warning", "ambiguous-dates", column.name),
            f"{column.forms[unclear[0]]} dates could be day first or month first.",
            "Find out which, and pass dayfirst= or format=.",
            column.forms[unclear[0]],
        )
    orders = {form[:2] for form in clear if form[:2] in ("DD", "MM") and "Month" not in form}
    if len(orders) > 1:
        found.add(
            *("error", "mixed-date-order", column.name),
            "Some dates are day first and others month first: " + ", ".join(clear[:4]) + ".",
            "No single format reads them all; go back to where they come from.",
            sum(column.forms[form] for form in clear),
        )
    elif len({form.lstrip("?DMY") for form in forms}) > 1:
        found.add(
            *("warning", "several-date-formats", column.name),
            f"Dates are written in {len(forms)} ways: {', '.join(forms[:4])}.",
            "Convert each with its own format, and compare the counts.",
            column.present,
        )
    zones = {form for form in forms if "zone" in form}
    if len(zones) > 1:
        found.add(
            *("error", "mixed-zones", column.name),
            "Some times have a zone and others none.",
            "Settle the zone of those without; differences are wrong by hours otherwise.",
            column.present,
        )
    early, late = column.earliest, column.latest
    if early is not None and late is not None and (early[0] < 1900 or late[0] > 2100):
        year = early[0] if early[0] < 1900 else late[0]
        found.add(
            *("warning", "odd-date", column.name),
            f"A date lies in the year {year}.",
            "It may stand for missing (1900-01-01, 9999-12-31).",
        )


def _of_texts(column: Column, kind: str, found: _Findings) -> None:
    name = column.name
    if column.padded:
        found.add(
            *("warning", "padded-values", name),
            f"{column.padded} values have blanks around them.",
            "Strip them before comparing, grouping or joining.",
            column.padded,
        )
    if column.mojibake:
        found.add(
            *("error", "wrong-encoding", name),
            f"{column.mojibake} values look as if they were decoded wrongly (such as Ã¼).",
            "Read the file in its real encoding, or mend it at its source.",
            column.mojibake,
        )
    if column.control:
        found.add(
            *("warning", "control-characters", name),
            f"{column.control} values hold characters that nobody sees.",
            "Remove them; they make equal values differ.",
            column.control,
        )
    if kind not in ("text", "boolean", "mixed"):
        return
    placeholders = [v for v in column.counts if v.strip().casefold() in PLACEHOLDERS]
    if placeholders:
        count = sum(column.counts[v] for v in placeholders)
        found.add(
            *("warning", "placeholder", name),
            f"{count} values say {', '.join(map(repr, placeholders[:3]))}.",
            "Treat them as missing, or as a category on purpose.",
            count,
        )
    spelled: dict[str, list[str]] = {}
    for value in column.counts:
        spelled.setdefault(" ".join(value.split()).casefold(), []).append(value)
    several = [each for each in spelled.values() if len(each) > 1]
    if several:
        example = ", ".join(repr(shown(value)) for value in several[0][:3])
        found.add(
            *("warning", "spelling-variants", name),
            f"{len(several)} values stand in several spellings, such as {example}.",
            "Bring them to one spelling before grouping.",
            sum(column.counts[value] for each in several for value in each),
        )
    if kind == "text" and column.present > 50 and not column.overflow:
        rare = sum(n == 1 for n in column.counts.values())
        if 1 < column.distinct <= column.present * 0.3 and rare > 5:
            found.add(
                *("info", "rare-categories", name),
                f"{rare} of {column.distinct} categories stand once only.",
                "They may be typing errors; an encoder meets them in one fold only.",
                rare,
            )


def _of_columns(columns: list[Column], found: _Findings) -> None:
    by_content: dict[int, list[str]] = {}
    for column in columns:
        if column.present:
            by_content.setdefault(column.chain, []).append(column.name)
    for names in by_content.values():
        if len(names) > 1:
            found.add(
                *("warning", "duplicate-column", names[1]),
                f"It holds the same as {shown(names[0])!r}.",
                "Drop one of them.",
            )


def _keys(columns: list[Column], sample: list[list[object]]) -> list[dict[str, object]]:
    """Columns, or pairs of columns, that name each row."""
    single: list[dict[str, object]] = [
        {"columns": [shown(column.name)], "checked": "every row that was read"}
        for column in columns
        if column.unique
        and column.type in ("integer", "code", "text", "datetime")
        and column.rows > 1
    ]
    if single or len(sample) < 20:
        return single[:10]
    likely = [
        at
        for at, column in enumerate(columns)
        if not column.kinds["missing"]
        and column.distinct > 1
        and column.type in ("integer", "code", "text", "date", "datetime", "boolean")
    ]
    likely = sorted(likely, key=lambda at: -columns[at].distinct)[:12]
    pairs: list[dict[str, object]] = []
    for a, b in combinations(likely, 2):
        rows = len(columns[a].counts) * len(columns[b].counts)
        if rows < columns[a].rows:
            continue
        if len({(key_of(row[a]), key_of(row[b])) for row in sample}) == len(sample):
            checked = (
                "every row that was read"
                if columns[a].rows == len(sample)
                else f"a sample of {len(sample)} rows"
            )
            names = [shown(columns[a].name), shown(columns[b].name)]
            pairs.append({"columns": names, "checked": checked})
    return pairs[:5]


# with a target, and between features --------------------------------------------------------------


def _with_target(
    columns: list[Column], sample: list[list[object]], name: str, found: _Findings
) -> dict[str, object]:
    at = next(place for place, column in enumerate(columns) if column.name == name)
    target = columns[at]
    values = [(row, classified(row[at])) for row in sample]
    known = [(row, value) for row, value in values if value.kind != "missing"]
    numeric = target.type in ("integer", "number", "formatted number") and target.distinct > 20
    if len(known) < 20:
        return {"name": shown(name), "why_not": "fewer than 20 rows have a target"}
    labels = [key_of(row[at]) for row, _ in known]
    related = []
    for place, column in enumerate(columns):
        if place == at or not column.present:
            continue
        pairs = [
            (row[place], classified(row[place]), y, v)
            for (row, v), y in zip(known, labels, strict=True)
        ]
        _by_absence(column, pairs, numeric, found)
        strength, how = _strength(
            column, [each for each in pairs if each[1].kind != "missing"], numeric
        )
        if strength > 0:
            related.append({"column": shown(column.name), "strength": rounded(strength), "by": how})
        limit = 0.98 if numeric else 0.95
        if strength >= limit:
            found.add(
                *("error", "leakage", column.name),
                f"It tells the target nearly always ({how} {strength:.3f}).",
                "Ask whether it is known before the target is; if not, it must not be a feature.",
            )
        elif _LATER.search(column.name) and strength > 0.3:
            found.add(
                *("warning", "leakage-by-name", column.name),
                f"By its name it may be known only after the target ({how} {strength:.2f}).",
                "Find out when it is written down.",
            )
    related.sort(key=lambda each: -float(str(each["strength"])))
    body: dict[str, object] = {
        "name": shown(name),
        "task": "regression" if numeric else "classification",
        "missing": target.kinds["missing"],
        "strongest": related[:15],
        "sample": len(known),
    }
    if target.kinds["missing"]:
        found.add(
            *("error", "target-missing", name),
            f"{target.kinds['missing']} rows have no target.",
            "Leave them out of training; never fill a target in.",
            target.kinds["missing"],
        )
    if not numeric:
        classes = target.top(10)
        body["classes"] = [{"value": shown(value), "count": n} for value, n in classes]
        share = classes[0][1] / max(target.present, 1)
        if share >= 0.8 and target.distinct > 1:
            found.add(
                *("warning", "imbalance", name),
                f"{share:.1%} of the rows are of one class.",
                "Accuracy says little here: stratify the split, judge by recall and precision.",
            )
    return body


_Four = tuple[object, Value, str, Value]


def _strength(column: Column, pairs: list[_Four], numeric: bool) -> tuple[float, str]:
    """How strongly a feature tells the target, and by which measure."""
    if len(pairs) < 20 or column.distinct < 2:
        return 0.0, ""
    quantity = column.type in ("integer", "number", "formatted number")
    if quantity:
        pairs = [
            each for each in pairs if each[1].number is not None and math.isfinite(each[1].number)
        ]
    if numeric:
        pairs = [
            each for each in pairs if each[3].number is not None and math.isfinite(each[3].number)
        ]
    if len(pairs) < 20:
        return 0.0, ""
    if numeric:
        y = [float(each[3].number or 0) for each in pairs]
        if quantity:
            return abs(
                associations.spearman([float(p[1].number or 0) for p in pairs], y)
            ), "rank correlation"
        return associations.explained([key_of(each[0]) for each in pairs], y), "variance explained"
    labels = [each[2] for each in pairs]
    if quantity and column.distinct > 20:
        bins = associations.binned([float(each[1].number or 0) for each in pairs], 20)
        return associations.told(bins, labels), "guessing gain"
    return associations.told([key_of(each[0]) for each in pairs], labels), "guessing gain"


def _by_absence(column: Column, pairs: list[_Four], numeric: bool, found: _Findings) -> None:
    """Whether the mere absence of a value tells the target."""
    absent = [each for each in pairs if each[1].kind == "missing"]
    if not 10 <= len(absent) <= len(pairs) - 10:
        return
    marks = [each[1].kind == "missing" for each in pairs]
    if numeric:
        gain = associations.explained(marks, [float(each[3].number or 0) for each in pairs])
    else:
        gain = associations.told(marks, [each[2] for each in pairs])
    if gain >= 0.3:
        found.add(
            *("error" if gain >= 0.9 else "warning", "absence-tells-target", column.name),
            f"Whether it is missing tells the target ({gain:.2f} of 1).",
            "It is probably filled in after the outcome: a leak. Leave it out until that is clear.",
            len(absent),
        )


def _pairs(columns: list[Column], sample: list[list[object]], found: _Findings) -> None:
    """Numeric columns that say the same in other units."""
    quantities = [
        at
        for at, column in enumerate(columns)
        if column.type in ("integer", "number") and column.distinct > 10 and not column.unique
    ][:40]
    rows = sample[:1_000]
    numbers = {at: [classified(row[at]).number for row in rows] for at in quantities}
    for a, b in combinations(quantities, 2):
        both = [
            (x, y)
            for x, y in zip(numbers[a], numbers[b], strict=True)
            if x is not None and y is not None and math.isfinite(x) and math.isfinite(y)
        ]
        if len(both) < 30 or columns[a].chain == columns[b].chain:
            continue
        strength = associations.pearson([x for x, _ in both], [y for _, y in both])
        if abs(strength) >= 0.999:
            found.add(
                *("info", "same-in-other-units", columns[b].name),
                f"It goes with {shown(columns[a].name)!r} ({strength:.4f}).",
                "Keep one of them.",
            )
