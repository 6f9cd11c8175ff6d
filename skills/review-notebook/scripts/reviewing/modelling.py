"""Leaks that make a model look better than it is: from test rows, and from the target."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field

from reviewing.calls import Aliases, Call
from reviewing.findings import Findings
from reviewing.notebook import Cell
from reviewing.python_source import Source

_SPLIT = re.compile(
    r"sklearn\.model_selection\.\w*(?:train_test_split|Split|KFold|LeaveOneOut|cross_val_\w+|cross_validate)"
)
_LEARNS = re.compile(
    r"(?:Standard|MinMax|MaxAbs|Robust)Scaler|PowerTransformer|QuantileTransformer|KBinsDiscretizer"
    r"|(?:Simple|KNN|Iterative)Imputer|\w*PCA|TruncatedSVD|NMF|FastICA|SelectKBest|SelectPercentile|SelectFromModel"
    r"|RFE(?:CV)?|SequentialFeatureSelector|TfidfVectorizer|TargetEncoder|CatBoostEncoder|LeaveOneOutEncoder|WOEEncoder"
    r"|LinearDiscriminantAnalysis|UMAP"
)
_TEST = re.compile(r"(?:^|_)(?:test|val|valid|validation|holdout|eval)(?:_|$|\d)", re.IGNORECASE)
_TRAIN = re.compile(r"(?:^|_)(?:train|tr|fit)(?:_|$|\d)|train", re.IGNORECASE)
_SCORES = re.compile(r"sklearn\.metrics\.\w*(?:score|error|loss|report|matrix|accuracy\w*|curve)")


@dataclass
class _Known:
    """made: name → class that it was made of.  targets: name → (table, column) it was taken from.
    features: name → (table, columns taken or None for all, columns dropped, where).
    popped: columns taken out of their table.  results: names that a call's value goes to.
    """

    made: dict[str, str] = field(default_factory=dict)
    targets: dict[str, tuple[str, str]] = field(default_factory=dict)
    features: dict[str, tuple[str, set[str] | None, set[str], Cell, int]] = field(
        default_factory=dict
    )
    popped: set[tuple[str, str]] = field(default_factory=set)
    derived: list[tuple[str, str, set[str], Cell, int]] = field(default_factory=list)
    results: dict[int, set[str]] = field(default_factory=dict)


def look(
    cells: list[tuple[Cell, Source]], calls: list[Call], aliases: Aliases, found: Findings
) -> None:
    known = _Known()
    for cell, source in cells:
        if source.tree is not None:
            for node in ast.walk(source.tree):
                if isinstance(node, ast.Assign):
                    _named(node, known)
                    if len(node.targets) == 1:
                        _assigned(node, cell, aliases, known)
    splits = [call for call in calls if _SPLIT.fullmatch(call.full)]
    first = min((call.order for call in splits), default=None)
    for call in calls:
        _fitted(call, aliases, known, splits, found)
    _target_in_features(calls, known, found)
    _evaluated(calls, found)
    _statistics(calls, first, found)
    _time(splits, calls, found)


def _named(node: ast.Assign, known: _Known) -> None:
    names = {
        each.id
        for target in node.targets
        for each in ast.walk(target)
        if isinstance(each, ast.Name)
    }
    for each in ast.walk(node.value):
        if isinstance(each, ast.Call):
            known.results.setdefault(id(each), set()).update(names)


def _assigned(node: ast.Assign, cell: Cell, aliases: Aliases, known: _Known) -> None:
    target, value = node.targets[0], node.value
    if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
        column = _text(target.slice)
        if column is not None:
            of = target.value.id
            known.derived.append((of, column, _columns_read(value, of), cell, node.lineno))
        return
    if not isinstance(target, ast.Name):
        return
    name = target.id
    if isinstance(value, ast.Call):
        made = aliases.full(value.func).rpartition(".")[2]
        if _LEARNS.fullmatch(made):
            known.made[name] = made
    table, columns, dropped, popped = _taken(value)
    if table in known.features and columns is None and not dropped:
        known.features[name] = known.features[table]
        return
    if table is None:
        if isinstance(value, ast.Call):
            # What a transformer makes of features are those features still.
            given = [each.id for each in value.args if isinstance(each, ast.Name)]
            if given and given[0] in known.features:
                known.features[name] = known.features[given[0]]
        return
    if (
        columns is not None
        and len(columns) == 1
        and isinstance(value, ast.Subscript | ast.Attribute | ast.Call)
    ):
        single = next(iter(columns))
        if not _is_list(value):
            known.targets[name] = (table, single)
            if popped:
                known.popped.add((table, single))
            return
    known.features[name] = (table, columns, dropped, cell, node.lineno)


def _is_list(node: ast.expr) -> bool:
    while isinstance(node, ast.Attribute | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return isinstance(node, ast.Subscript) and isinstance(node.slice, ast.List | ast.Tuple)


def _taken(node: ast.expr) -> tuple[str | None, set[str] | None, set[str], bool]:
    """What a value takes of a table: its name, the columns (None: all), those dropped, popped."""
    dropped: set[str] = set()
    while True:
        if isinstance(node, ast.Name):
            return node.id, None, dropped, False
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
            column = _text(node.slice)
            if column is not None:
                return node.value.id, {column}, dropped, False
            if isinstance(node.slice, ast.List):
                named = [_text(each) for each in node.slice.elts]
                if None not in named:
                    return (
                        node.value.id,
                        {each for each in named if each is not None},
                        dropped,
                        False,
                    )
            return None, None, dropped, False
        if isinstance(node, ast.Attribute):
            if node.attr in ("values", "T", "loc"):
                node = node.value
                continue
            return None, None, dropped, False
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            method = node.func.attr
            if method == "drop":
                texts = _texts_of(node)
                if texts is None:
                    return None, None, dropped, False
                dropped |= texts
            elif method == "pop" and node.args and isinstance(node.func.value, ast.Name):
                column = _text(node.args[0])
                if column is not None:
                    return node.func.value.id, {column}, dropped, True
            elif method not in ("copy", "to_numpy", "astype", "fillna", "reset_index"):
                return None, None, dropped, False
            node = node.func.value
            continue
        return None, None, dropped, False


def _texts_of(call: ast.Call) -> set[str] | None:
    """The columns that `drop` names; None when they cannot be read."""
    for each in (
        *call.args[:1],
        *(k.value for k in call.keywords if k.arg in ("columns", "labels")),
    ):
        if isinstance(each, ast.List | ast.Tuple):
            named = [_text(item) for item in each.elts]
            return None if None in named else {text for text in named if text is not None}
        text = _text(each)
        return None if text is None else {text}
    return None


def _columns_read(node: ast.expr, table: str) -> set[str]:
    return {
        column
        for each in ast.walk(node)
        if isinstance(each, ast.Subscript)
        and isinstance(each.value, ast.Name)
        and each.value.id == table
        and (column := _text(each.slice)) is not None
    }


def _text(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _first_name(call: Call) -> str:
    """The name of what is given first: `X_train` of `X_train[cols]` too."""
    node: ast.expr | None = call.node.args[0] if call.node.args else call.keyword("X")
    while isinstance(node, ast.Subscript | ast.Attribute | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _fitted(
    call: Call, aliases: Aliases, known: _Known, splits: list[Call], found: Findings
) -> None:
    if call.method not in ("fit", "fit_transform", "fit_resample") or "." not in call.full:
        return
    name = _first_name(call)
    if _TEST.search(name) and not _TRAIN.search(name):
        severity = "error" if "test" in name.lower() else "warning"  # blending fits on validation
        found.add(
            *(severity, "fit-on-test", call.cell, call.line),
            f"`{call.method}` learns from `{name}`, which is there to judge.",
            "Only transform or predict it, with what was fitted on the training part.",
        )
        return
    later = [split for split in splits if split.order > call.order]
    if _TRAIN.search(name) or not _leads_to(call, name, known, later):
        return
    if call.method == "fit_resample":
        found.add(
            *("error", "resampled-before-split", call.cell, call.line),
            "Rows are resampled before the split, so copies of one row stand on both sides.",
            "Split first, resample the training part only (imblearn's Pipeline does).",
        )
        return
    receiver = call.node.func.value if isinstance(call.node.func, ast.Attribute) else None
    made = ""
    if isinstance(receiver, ast.Name):
        made = known.made.get(receiver.id, "")
    elif isinstance(receiver, ast.Call):
        name = aliases.full(receiver.func).rpartition(".")[2]
        made = name if _LEARNS.fullmatch(name) else ""
    if made:
        found.add(
            *("error", "fit-before-split", call.cell, call.line),
            f"`{made}` is fitted on all rows, before they are split: it has seen the test rows.",
            "Split first; or put it into a Pipeline, which is fitted on the training part only.",
        )


def _leads_to(call: Call, name: str, known: _Known, splits: list[Call]) -> bool:
    """Whether what is fitted, or what comes of it, is split (or cross-validated) later."""
    names = {name, *known.results.get(id(call.node), ())} - {""}
    return any(
        isinstance(node, ast.Name) and node.id in names
        for split in splits
        for argument in (*split.node.args, *(k.value for k in split.node.keywords))
        for node in ast.walk(argument)
    )


def _target_in_features(calls: list[Call], known: _Known, found: Findings) -> None:
    """Features that hold the target, where both go into a split or a fit."""
    told: set[str] = set()
    for call in calls:
        if call.method not in (
            "fit",
            "train_test_split",
            "cross_val_score",
            "cross_validate",
            "fit_transform",
        ):
            continue
        names = [node for node in call.node.args if isinstance(node, ast.Name)]
        pairs = [
            (x.id, y.id)
            for x in names
            for y in names
            if x.id in known.features and y.id in known.targets and x.id not in told
        ]
        for x, y in pairs:
            table, columns, dropped, cell, line = known.features[x]
            source, column = known.targets[y]
            if table != source or (table, column) in known.popped or column in dropped:
                continue
            if columns is not None and column not in columns:
                continue
            told.add(x)
            found.add(
                *("error", "target-in-features", cell, line),
                f"`{x}` still holds the column {column!r}, which is the target `{y}`.",
                f"{x} = {table}.drop(columns=[{column!r}])",
            )
    used = {known.targets[n] for n in known.targets if any(_uses(call, n) for call in calls)}
    for table, column, reads, cell, line in known.derived:
        for source, target in used:
            if table == source and target in reads and column != target:
                found.add(
                    *("warning", "feature-from-target", cell, line),
                    f"The column {column!r} is computed from {target!r}, which is the target.",
                    "Leave it out of the features, or compute it out of fold, from training rows.",
                )


def _uses(call: Call, name: str) -> bool:
    return call.method in ("fit", "train_test_split", "cross_val_score", "cross_validate") and any(
        isinstance(node, ast.Name) and node.id == name
        for node in (*call.node.args, *(k.value for k in call.node.keywords))
    )


def _evaluated(calls: list[Call], found: Findings) -> None:
    """Judged on training rows only."""
    judged: list[tuple[Call, bool]] = []
    for call in calls:
        if call.method == "score" or _SCORES.fullmatch(call.full):
            names = [
                node.id
                for argument in call.node.args
                for node in ast.walk(argument)
                if isinstance(node, ast.Name)
            ]
            if any(_TRAIN.search(n) or _TEST.search(n) for n in names):
                judged.append((call, any(_TEST.search(n) for n in names)))
        elif re.search(r"cross_val|cross_validate|SearchCV", call.full):
            return
    if judged and not any(test for _, test in judged):
        call = judged[0][0]
        found.add(
            *("warning", "judged-on-training", call.cell, call.line),
            "The model is judged on rows that it was trained on, and nowhere on others.",
            "Judge it on the test part, or by cross-validation.",
        )


def _statistics(calls: list[Call], split: int | None, found: Findings) -> None:
    """`fillna(df.mean())` before the split: a statistic of all rows."""
    if split is None:
        return
    for call in calls:
        if call.order > split or call.method not in ("fillna", "clip", "where", "mask"):
            continue
        inner = [
            node.func.attr
            for argument in (*call.node.args, *(k.value for k in call.node.keywords))
            for node in ast.walk(argument)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        ]
        named = [each for each in inner if each in ("mean", "median", "std", "quantile", "mode")]
        if named:
            found.add(
                *("warning", "statistics-before-split", call.cell, call.line),
                f"`{call.method}` uses the {named[0]} of all rows, before they are split.",
                "Compute it from the training part (SimpleImputer in a Pipeline).",
            )


def _time(splits: list[Call], calls: list[Call], found: Findings) -> None:
    """A random split of rows that are ordered in time."""
    dated = any(
        call.full.startswith("pandas.to_datetime")
        or call.method in ("shift", "rolling", "resample")
        or call.keyword("parse_dates") is not None
        for call in calls
    )
    for call in splits:
        shuffle = call.keyword("shuffle")
        off = isinstance(shuffle, ast.Constant) and shuffle.value is False
        if dated and call.method == "train_test_split" and not off:
            found.add(
                *("info", "random-split-of-time", call.cell, call.line),
                "The data have a time, and rows are split at random: the model may see the future.",
                "To predict what comes, split by time (TimeSeriesSplit, or shuffle=False).",
            )
