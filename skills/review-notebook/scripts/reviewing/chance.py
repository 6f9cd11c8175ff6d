"""What comes out otherwise with every run: randomness without a seed, clocks, the network."""

from __future__ import annotations

import ast
import re

from reviewing.calls import Call
from reviewing.findings import Findings
from reviewing.notebook import Cell
from reviewing.python_source import Source

_SEEDS = (
    (re.compile(r"random\.seed"), {"random"}),
    (re.compile(r"numpy\.random\.(?:seed|set_state)"), {"numpy"}),
    (re.compile(r"torch\.(?:cuda\.)?manual_seed(?:_all)?"), {"torch"}),
    (re.compile(r"(?:tensorflow|tf)\.random\.set_seed"), {"tensorflow"}),
    (
        re.compile(r".*\bset_random_seed|.*\bseed_everything"),
        {"random", "numpy", "torch", "tensorflow"},
    ),
)
_DRAWS = (
    (
        re.compile(
            r"random\.(?:random|randint|randrange|uniform|choices?|sample|shuffle|gauss|normalvariate"
            r"|betavariate|expovariate|getrandbits|triangular)"
        ),
        "random",
        "random.seed(0) once in the first cell, or a random.Random(0) of your own",
    ),
    (
        re.compile(
            r"numpy\.random\.(?!seed|default_rng|RandomState|Generator|SeedSequence|get_state|set_state)\w+"
        ),
        "numpy",
        "rng = np.random.default_rng(0), and rng.… instead",
    ),
    (
        re.compile(r"torch\.(?:rand|randn|randint|randperm|normal|bernoulli)(?:_like)?"),
        "torch",
        "torch.manual_seed(0)",
    ),
    (
        re.compile(r"(?:tensorflow|tf)\.random\.(?!set_seed)\w+"),
        "tensorflow",
        "keras.utils.set_random_seed(0)",
    ),
)
_BARE = re.compile(r"numpy\.random\.(?:default_rng|RandomState|SeedSequence)|random\.Random")
_STATE = re.compile(
    r"sklearn\.[\w.]*\b(?:train_test_split|shuffle|resample|KMeans|MiniBatchKMeans|RandomForest\w+|ExtraTrees?\w*"
    r"|GradientBoosting\w+|HistGradientBoosting\w+|Bagging\w+|DecisionTree\w+|MLP\w+|SGD\w+|TSNE|NMF"
    r"|GaussianMixture|IsolationForest|TruncatedSVD|RandomizedSearchCV|permutation_importance"
    r"|LatentDirichletAllocation|ShuffleSplit|StratifiedShuffleSplit|GroupShuffleSplit)"
    r"|(?:xgboost|lightgbm|catboost)\.\w*(?:Classifier|Regressor)|umap\.UMAP|imblearn\.[\w.]+\b\w*(?:SMOTE\w*|Sampler)"
)
_FOLDS = re.compile(r"sklearn\.[\w.]*\b(?:Stratified)?KFold")
_CLOCK = re.compile(
    r"time\.(?:time|time_ns|ctime|localtime|gmtime)|datetime\.datetime\.(?:now|utcnow|today)|datetime\.date\.today"
    r"|pandas\.Timestamp\.(?:now|today|utcnow)"
)
_UNSEEDABLE = re.compile(r"uuid\.uuid[14]|secrets\.\w+|os\.urandom")
_LISTING = re.compile(r"os\.(?:listdir|scandir|walk)|glob\.i?glob|\.(?:iterdir|rglob)")
_NETWORK = re.compile(
    r"requests\.(?:get|post|put|request|Session)|urllib\.request\.\w+|httpx\.\w+|yfinance\.\w+"
    r"|sklearn\.datasets\.fetch_\w+|seaborn\.load_dataset|datasets\.load_dataset"
)
_READS = re.compile(r"pandas\.read_\w+|polars\.(?:read|scan)_\w+|numpy\.(?:loadtxt|genfromtxt)")
_PIP = re.compile(r"(?:pip3?|uv pip|conda|mamba)\s+install\s+(.*)")


def look(cells: list[tuple[Cell, Source]], calls: list[Call], found: Findings) -> None:
    seeded: set[str] = set()
    for call in calls:
        given = [*call.node.args, *(k.value for k in call.node.keywords)]
        bare = all(isinstance(each, ast.Constant) and each.value is None for each in given)
        for pattern, which in _SEEDS:
            if pattern.fullmatch(call.full) and not bare:
                seeded |= which
        _draws(call, bare, seeded, found)
        _outside(call, found)
    for cell, source in cells:
        for text, line in source.shell:
            _shell(cell, text, line, found)
        if source.tree is not None:
            _sets(cell, source.tree, found)


def _draws(call: Call, bare: bool, seeded: set[str], found: Findings) -> None:
    for pattern, which, mend in _DRAWS:
        if pattern.fullmatch(call.full) and which not in seeded:
            found.add(
                *("warning", "unseeded", call.cell, call.line),
                f"`{call.full}` draws random values, and nothing above seeds them.",
                f"Seed it: {mend}.",
            )
    if _BARE.fullmatch(call.full) and bare:
        found.add(
            *("warning", "unseeded", call.cell, call.line),
            f"`{call.full}()` without a seed starts elsewhere each time.",
            "Give it a seed.",
        )
    if _UNSEEDABLE.fullmatch(call.full):
        found.add(
            *("info", "unseedable", call.cell, call.line),
            f"`{call.full}` cannot be seeded.",
            "Keep it out of results, or derive it from the data (hashlib, uuid.uuid5).",
        )
    folds = _FOLDS.fullmatch(call.full) is not None
    shuffled = call.keyword("shuffle")
    if folds and not (isinstance(shuffled, ast.Constant) and shuffled.value is True):
        return
    unshuffled = isinstance(shuffled, ast.Constant) and shuffled.value is False
    state = call.keyword("random_state") or call.keyword("seed")
    none = isinstance(state, ast.Constant) and state.value is None
    starred = any(each.arg is None for each in call.node.keywords)
    chosen = folds or _STATE.fullmatch(call.full) is not None
    fixed = "numpy" in seeded or unshuffled or starred
    if chosen and not fixed and (state is None or none):
        found.add(
            *("warning", "no-random-state", call.cell, call.line),
            f"`{call.method}` has no random_state: it splits or starts otherwise each time.",
            "Pass random_state=0.",
        )


def _outside(call: Call, found: Findings) -> None:
    if _CLOCK.fullmatch(call.full):
        found.add(
            *("info", "clock", call.cell, call.line),
            f"`{call.full}` reads the clock.",
            "If results depend on it, take the moment once and write it down as a constant.",
        )
    if _LISTING.fullmatch(call.full) and not call.ordered:
        found.add(
            *("warning", "unsorted-listing", call.cell, call.line),
            f"`{call.full.lstrip('.')}` lists files in the order in which the disk gives them.",
            "Sort it: sorted(…).",
        )
    first = call.node.args[0] if call.node.args else None
    remote = (
        _READS.fullmatch(call.full) is not None
        and isinstance(first, ast.Constant)
        and isinstance(first.value, str)
        and first.value.lower().startswith(("http://", "https://", "ftp://", "s3://", "gs://"))
    )
    if remote or _NETWORK.fullmatch(call.full):
        found.add(
            *("warning", "network", call.cell, call.line),
            f"`{call.full}` reads from the network, which may give something else tomorrow.",
            "Save what it gave as a file with the notebook, and read that.",
        )


def _shell(cell: Cell, text: str, line: int, found: Findings) -> None:
    for number, each in enumerate(text.split("\n")):
        installed = _PIP.search(each[:2_000])
        if installed is not None:
            names = [
                word
                for word in installed[1].split()
                if not word.startswith("-") and not re.search(r"==|@|\.txt$|\.whl$|^\.", word)
            ]
            if names and " -r " not in f" {installed[1]} ":
                found.add(
                    *("warning", "unpinned-install", cell, line + number),
                    f"It installs {', '.join(names[:5])[:100]} as new as they are that day.",
                    "Pin versions (name==1.2.3), in the environment rather than in the notebook.",
                )
        elif re.search(r"(?<![\w./-])(?:curl|wget|git\s+clone|gsutil|aws\s+s3)\s", each[:2_000]):
            found.add(
                *("warning", "network", cell, line + number),
                "A shell command reads from the network.",
                "Keep what it gave with the notebook, or check its sha256 after the download.",
            )


def _sets(cell: Cell, tree: ast.Module, found: Findings) -> None:
    for node in ast.walk(tree):
        if not isinstance(node, ast.For):
            continue
        each = node.iter
        named = each.func if isinstance(each, ast.Call) else None
        is_set = isinstance(each, ast.Set | ast.SetComp) or (
            isinstance(named, ast.Name) and named.id in ("set", "frozenset")
        )
        if is_set:
            found.add(
                *("info", "set-order", cell, each.lineno),
                "It goes through a set; texts in a set have another order in every process.",
                "for each in sorted(…)",
            )
