"""What a cell does that may come out otherwise, and the edit that stops it; its names."""

from __future__ import annotations

import ast
import re
import warnings
from dataclasses import dataclass, field

_LONGEST = 500_000


@dataclass(frozen=True)
class Source:
    """One call that may come out otherwise. cause: randomness, time, order, network, machine or
    memory.  before, after: the line as it is and as it should be; after is None where no single
    edit does it.  seeds: the generator that a seed would tame.
    """

    cause: str
    call: str
    line: int
    mend: str
    before: str = ""
    after: str | None = None
    seeds: str | None = None


@dataclass
class Reading:
    """sets: names → the line.  uses: names that are read.  calls: bare names of what is called."""

    sources: list[Source] = field(default_factory=list)
    sets: dict[str, int] = field(default_factory=dict)
    uses: set[str] = field(default_factory=set)
    calls: set[str] = field(default_factory=set)
    seeded: set[str] = field(default_factory=set)
    imports: set[str] = field(default_factory=set)
    functions: dict[str, list[Source]] = field(default_factory=dict)
    texts: set[str] = field(default_factory=set)
    parsed: bool = False


_SEED = {
    "random": "random.seed(0)",
    "numpy": "numpy.random.seed(0)",
    "torch": "torch.manual_seed(0)",
    "tensorflow": "tensorflow.random.set_seed(0)",
}
_SEEDING = (
    (re.compile(r"random\.seed"), {"random"}),
    (re.compile(r"numpy\.random\.(?:seed|set_state)"), {"numpy"}),
    (re.compile(r"torch\.(?:cuda\.)?manual_seed(?:_all)?"), {"torch"}),
    (re.compile(r"tensorflow\.random\.set_seed"), {"tensorflow"}),
    (re.compile(r".*\b(?:set_random_seed|seed_everything)"), set(_SEED)),
)
_DRAWS = (
    (
        "random",
        re.compile(
            r"random\.(?:random|randint|randrange|uniform|choices?|sample|shuffle|gauss|getrandbits"
            r"|normalvariate|betavariate|expovariate|triangular|randbytes)"
        ),
    ),
    (
        "numpy",
        re.compile(
            r"numpy\.random\.(?!seed|default_rng|RandomState|Generator|SeedSequence|[gs]et_state)\w+"
        ),
    ),
    (
        "torch",
        re.compile(
            r"torch\.(?:rand|randn|randint|randperm|normal|bernoulli)(?:_like)?|torch\.nn\.\w+"
        ),
    ),
    (
        "tensorflow",
        re.compile(r"tensorflow\.random\.(?!set_seed)\w+|(?:tensorflow\.)?keras\.layers\.\w+"),
    ),
)
_BARE = re.compile(r"numpy\.random\.(?:default_rng|RandomState|SeedSequence)|random\.Random")
_STATE = re.compile(
    r"sklearn\.[\w.]*\b(?:train_test_split|shuffle|resample|make_\w+|KMeans|MiniBatchKMeans|RandomForest\w+"
    r"|ExtraTrees?\w*|GradientBoosting\w+|HistGradientBoosting\w+|Bagging\w+|DecisionTree\w+|MLP\w+|SGD\w+|TSNE"
    r"|NMF|GaussianMixture|IsolationForest|TruncatedSVD|RandomizedSearchCV|permutation_importance|\w*ShuffleSplit"
    r"|LatentDirichletAllocation)|\.sample"
)
_PLAIN = (
    (
        "randomness",
        re.compile(r"uuid\.uuid[14]|secrets\.\w+|os\.urandom"),
        "It cannot be seeded: write the value down once, or derive it (uuid.uuid5, hashlib).",
    ),
    (
        "time",
        re.compile(
            r"time\.(?:time|time_ns|ctime|localtime|gmtime|asctime|strftime)|datetime\.datetime\.(?:now|utcnow|today)"
            r"|datetime\.date\.today|pandas\.Timestamp\.(?:now|today|utcnow)"
        ),
        "Take the moment once, write it down as a constant, and compute with that.",
    ),
    (
        "time",
        re.compile(r"time\.(?:perf_counter|monotonic|process_time)(?:_ns)?|timeit\.\w+"),
        "A measurement differs each time: keep it out of results.",
    ),
    (
        "network",
        re.compile(
            r"requests\.\w+|urllib\.request\.\w+|httpx\.\w+|aiohttp\.\w+|socket\.create_connection|yfinance\.\w+"
            r"|sklearn\.datasets\.fetch_\w+|seaborn\.load_dataset"
        ),
        "Save what it gave as a file of the session and read that, or: reprise env record on.",
    ),
    (
        "machine",
        re.compile(
            r"os\.(?:getpid|getppid|cpu_count|uname|getloadavg)|socket\.gethostname|platform\.\w+|getpass\.\w+|tempfile\.\w+"
            r"|id|psutil\.[\w.]+|os\.path\.get[acm]time"
        ),
        "It belongs to this process or machine: let no result depend on it.",
    ),
)
_LISTS = re.compile(r"os\.(?:listdir|scandir|walk)|glob\.i?glob|\.(?:iterdir|rglob|glob)")
_PARALLEL = re.compile(
    r"threading\.Thread|concurrent\.futures\.[\w.]+|multiprocessing\.(?:pool\.)?\w*Pool|joblib\.Parallel"
    r"|asyncio\.(?:gather|as_completed|wait)|\.imap_unordered|\.as_completed"
)
_EMPTY = re.compile(r"numpy\.(?:empty|empty_like)")
_READS = re.compile(r"pandas\.read_\w+|polars\.(?:read|scan)_\w+")
_CALM = frozenset({"sorted", "len", "sum", "min", "max", "set", "frozenset", "any", "all"})
_SHELL = (
    ("time", re.compile(r"(?<![\w./-])date(?![\w./-])"), "Write the date down."),
    (
        "randomness",
        re.compile(r"\$RANDOM\b|\bshuf\b(?!.*--random-source)|/dev/u?random|\buuidgen\b"),
        "Write the value down once; shuf takes --random-source.",
    ),
    ("order", re.compile(r"\bfind\s(?!.*\|\s*sort\b)"), "Sort it: find … | sort."),
    (
        "machine",
        re.compile(r"\b(?:hostname|nproc|mktemp|ps|free|df|uptime|nvidia-smi)\b"),
        "It shows the machine.",
    ),
    (
        "network",
        re.compile(r"\b(?:curl|wget|git\s+clone|pip3?\s+install)\b"),
        "Pin versions, keep downloads as files of the session.",
    ),
)


def read(source: str, aliases: dict[str, str], *, shell: bool = False) -> Reading:
    """aliases: full names by the names of the session's imports so far; kept up."""
    found = Reading()
    if len(source) > _LONGEST:
        return found
    if shell:
        _shell(source, 1, found)
        return found
    text = plain(source, found)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the cell's odd escapes
            tree = compile(
                text, "<cell>", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
            )
            if isinstance(tree, ast.Module):
                _Reader(found, aliases, text.split("\n")).module(tree)
                found.parsed = True
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
        pass  # what does not parse, or is nested absurdly deep, is not explained by its code
    return found


def plain(source: str, found: Reading | None = None) -> str:
    """A cell as Python with as many lines, magics and shell lines taken out."""
    lines = source.replace("\r\n", "\n").split("\n")
    first = next((at for at, line in enumerate(lines) if line.strip()), None)
    if first is None:
        return ""
    head = lines[first]
    if head.startswith("%%"):
        name = head[2:].split()[0] if head[2:].split() else ""
        if name in ("bash", "sh", "script", "!"):
            if found is not None:
                _shell("\n".join(lines[first + 1 :]), first + 2, found)
            return ""
        if name not in ("time", "timeit", "capture", "prun"):
            return ""
        lines[first] = ""
    kept = []
    for number, line in enumerate(lines, 1):
        bare = line.lstrip()
        indent = line[: len(line) - len(bare)]
        if bare.startswith("!"):
            if found is not None:
                _shell(bare[1:], number, found)
            kept.append(f"{indent}pass")
        elif bare.startswith("%time ") and bare[6:].strip():
            kept.append(indent + bare[6:].strip())
        elif bare.startswith(("%", "?")) or (
            bare.endswith("?") and re.fullmatch(r"[\w.]+\?{1,2}", bare)
        ):
            kept.append(f"{indent}pass")
        elif (assigned := re.match(r"(\s*[\w, ]+=\s*)[!%](?!=)(.*)", line)) is not None:
            if found is not None and "!" in line:
                _shell(assigned[2], number, found)
            kept.append(f"{assigned[1]}None")
        else:
            kept.append(line)
    return "\n".join(kept)


def _shell(text: str, first: int, found: Reading) -> None:
    for number, line in enumerate(text.split("\n"), first):
        for cause, pattern, mend in _SHELL:
            match = pattern.search(line[:2_000])
            if match is not None:
                found.sources.append(
                    Source(cause, match[0].strip(), number, mend, line.strip()[:200])
                )


class _Reader:
    """Reads one cell. Sources inside functions count for those who call them."""

    def __init__(self, found: Reading, aliases: dict[str, str], lines: list[str]) -> None:
        self._found = found
        self._aliases = aliases
        self._lines = lines
        self._calm: set[int] = set()

    def module(self, tree: ast.Module) -> None:
        for statement in tree.body:
            self._imports(statement)
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                self._found.sets[statement.name] = statement.lineno
                into: list[Source] = []
                self._walk(statement, into)
                self._found.functions[statement.name] = into
            else:
                self._walk(statement, self._found.sources)

    def _imports(self, node: ast.stmt) -> None:
        for each in ast.walk(node):
            if isinstance(each, ast.Import):
                for alias in each.names:
                    name = alias.asname or alias.name.partition(".")[0]
                    self._aliases[name] = alias.name if alias.asname else name
                    self._found.imports.add(alias.name.partition(".")[0])
            elif isinstance(each, ast.ImportFrom) and each.module:
                self._found.imports.add(each.module.partition(".")[0])
                for alias in each.names:
                    self._aliases[alias.asname or alias.name] = f"{each.module}.{alias.name}"

    def _walk(self, root: ast.AST, into: list[Source]) -> None:
        nodes = sorted(
            ast.walk(root), key=lambda n: (getattr(n, "lineno", 0), getattr(n, "col_offset", 0))
        )
        for node in nodes:
            if isinstance(node, ast.Call) and self._full(node.func) in _CALM:
                for argument in node.args:
                    self._calm |= {id(each) for each in ast.walk(argument)}
        for node in nodes:
            if isinstance(node, ast.Name):
                if isinstance(node.ctx, ast.Load):
                    self._found.uses.add(node.id)
                elif into is self._found.sources:  # what a function sets is its own
                    self._found.sets.setdefault(node.id, node.lineno)
            elif (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and len(node.value) < 300
            ):
                self._found.texts.add(node.value)
            elif isinstance(node, ast.Call):
                self._call(node, into)
            elif isinstance(node, ast.For | ast.comprehension):
                self._loop(node.iter, into)

    def _loop(self, node: ast.expr, into: list[Source]) -> None:
        named = self._full(node.func) if isinstance(node, ast.Call) else ""
        if (isinstance(node, ast.Set | ast.SetComp) or named in ("set", "frozenset")) and id(
            node
        ) not in self._calm:
            into.append(
                self._source(
                    "order", "a set", node, "Sort it: for each in sorted(…).", self._wrapped(node)
                )
            )

    def _call(self, node: ast.Call, into: list[Source]) -> None:
        full = self._full(node.func)
        if not full:
            return
        self._found.calls.add(full.rpartition(".")[2])
        given = [*node.args, *(each.value for each in node.keywords)]
        bare = all(isinstance(each, ast.Constant) and each.value is None for each in given)
        for pattern, which in _SEEDING:
            if pattern.fullmatch(full) and not bare:
                self._found.seeded |= which
        found = self._found_in(node, full, bare)
        if found is not None:
            into.append(found)

    def _found_in(self, node: ast.Call, full: str, bare: bool) -> Source | None:
        for seeds, pattern in _DRAWS:
            if pattern.fullmatch(full):
                seed = self._seed(seeds)
                mend = f"Put `{seed}` once before it, in the first cell."
                return self._source("randomness", full, node, mend, seeds=seeds)
        if _BARE.fullmatch(full) and bare:
            return self._source("randomness", full, node, "Give it a seed.", self._given(node, "0"))
        if _STATE.fullmatch(full):
            if any(each.arg in ("random_state", None) for each in node.keywords):
                return None
            return self._source(
                *("randomness", full, node, "Pass random_state=0."),
                self._given(node, "random_state=0"),
                "numpy",
            )
        if _LISTS.fullmatch(full):
            if id(node) in self._calm:
                return None
            after = None if full == "os.walk" else self._wrapped(node)
            return self._source("order", full, node, "Sort it: sorted(…).", after)
        if full in ("list", "tuple", "enumerate", "next", "iter") and node.args:
            inner = node.args[0]
            called = self._full(inner.func) if isinstance(inner, ast.Call) else ""
            if isinstance(inner, ast.Set | ast.SetComp) or called in ("set", "frozenset"):
                return self._source(
                    "order", f"{full}(a set)", node, "Sort it: sorted(…).", self._wrapped(inner)
                )
        if _PARALLEL.fullmatch(full):
            return self._source(
                *("order", full, node),
                "Collect results in the order in which they were asked for, then use them.",
            )
        if _EMPTY.fullmatch(full):
            after = self._edited(node.func, lambda text: text.replace("empty", "zeros"))
            return self._source(
                "memory", full, node, "Use zeros: empty holds what lay there before.", after
            )
        first = node.args[0] if node.args else None
        remote = isinstance(first, ast.Constant) and str(first.value).startswith(
            ("http://", "https://")
        )
        if _READS.fullmatch(full) and remote:
            return self._source("network", full, node, _PLAIN[3][2])
        for cause, pattern, mend in _PLAIN:
            if pattern.fullmatch(full):
                return self._source(cause, full, node, mend)
        return None

    # edits ----------------------------------------------------------------------------------------

    def _source(
        self,
        cause: str,
        call: str,
        node: ast.expr,
        mend: str,
        after: str | None = None,
        seeds: str | None = None,
    ) -> Source:
        before = self._lines[node.lineno - 1].strip() if node.lineno <= len(self._lines) else ""
        return Source(cause, call, node.lineno, mend, before[:300], after, seeds)

    def _edited(self, node: ast.expr, change: object) -> str | None:
        """The line with one expression replaced; None when it spans several lines."""
        if node.lineno != node.end_lineno or not callable(change):
            return None
        line = self._lines[node.lineno - 1].encode()
        start, end = node.col_offset, node.end_col_offset or 0
        text = line[start:end].decode()
        return (line[:start].decode() + str(change(text)) + line[end:].decode()).strip()[:300]

    def _wrapped(self, node: ast.expr) -> str | None:
        return self._edited(node, lambda text: f"sorted({text})")

    def _given(self, node: ast.Call, argument: str) -> str | None:
        between = ", " if node.args or node.keywords else ""
        none = (
            all(isinstance(e, ast.Constant) for e in node.args)
            and not node.keywords
            and argument == "0"
        )
        if none and node.args:
            return self._edited(node.args[0], lambda _: argument)
        return self._edited(
            node, lambda text: f"{text[:-1].rstrip().rstrip(',')}{between}{argument})"
        )

    def _seed(self, which: str) -> str:
        """The seeding statement in the words of the notebook's own imports."""
        text = _SEED[which]
        for name, full in self._aliases.items():
            if which == "numpy" and full == "numpy":
                return f"{name}.random.seed(0)"
            if full == which:
                return f"{name}.{text.partition('.')[2]}"
        return f"import {which}; {text}"

    def _full(self, node: ast.expr) -> str:
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return f".{parts[0]}" if parts else ""
        known = self._aliases.get(node.id)
        if known is None and parts:
            return f".{parts[0]}"
        return ".".join([known or node.id, *reversed(parts)])
