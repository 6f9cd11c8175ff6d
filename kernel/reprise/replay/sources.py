"""The calls that may come out otherwise when they run again, each with what mends it (pure)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

What = Literal[
    "time",
    "randomness",
    "file order",
    "set order",
    "thread order",
    "identity",
    "process",
    "network",
    "memory",
    "measurement",
]


@dataclass(frozen=True)
class Rule:
    """A call by its full name; `unless` names the seed that tames it, or a keyword that does."""

    pattern: re.Pattern[str]
    what: What
    mend: str
    seed: str | None = None
    keyword: str | None = None
    bare: bool = False  # only when called without an argument (or with None)


def _rule(
    names: str,
    what: What,
    mend: str,
    *,
    seed: str | None = None,
    keyword: str | None = None,
    bare: bool = False,
) -> Rule:
    return Rule(re.compile(rf"(?:{names})\Z"), what, mend, seed, keyword, bare)


_FIX_CLOCK: Final = "Take the moment once, write it down as a constant, and compute with that."
_SORT: Final = "Sort it: sorted({call}(…))."
_NUMPY_SEED: Final = "Seed it: rng = np.random.default_rng(0), or np.random.seed(0) once before."
_STATE: Final = "Pass random_state=0."

RULES: Final = (
    _rule(
        r"time\.(?:time|time_ns|localtime|gmtime|ctime|asctime|strftime)"
        r"|datetime\.datetime\.(?:now|utcnow|today)|datetime\.date\.today"
        r"|pandas\.Timestamp\.(?:now|today|utcnow)",
        "time",
        _FIX_CLOCK,
    ),
    _rule(
        r"time\.(?:perf_counter|monotonic|process_time|thread_time)(?:_ns)?|os\.times"
        r"|timeit\.\w+|resource\.getrusage|psutil\.[\w.]+|os\.getloadavg",
        "measurement",
        "A measurement differs each time; show it apart from results.",
    ),
    _rule(
        r"random\.(?:random|randint|randrange|uniform|choice|choices|sample|shuffle|gauss"
        r"|normalvariate|betavariate|expovariate|gammavariate|triangular|getrandbits|randbytes"
        r"|lognormvariate|vonmisesvariate|paretovariate|weibullvariate)",
        "randomness",
        "Seed it: random.seed(0) once before.",
        seed="random",
    ),
    _rule(r"random\.(?:Random|seed)", "randomness", "Give it a seed: random.Random(0).", bare=True),
    _rule(
        r"numpy\.random\.(?!seed|default_rng|RandomState|Generator|SeedSequence|get_state|set_state"
        r"|PCG64|MT19937|Philox|SFC64)\w+",
        "randomness",
        _NUMPY_SEED,
        seed="numpy",
    ),
    _rule(
        r"numpy\.random\.(?:default_rng|RandomState|SeedSequence|PCG64|MT19937|Philox|SFC64|seed)",
        "randomness",
        "Give it a seed: np.random.default_rng(0).",
        bare=True,
    ),
    _rule(
        r"torch\.(?:rand|randn|randint|randperm|normal|bernoulli|multinomial)(?:_like)?"
        r"|torch\.nn\.[\w.]+",
        "randomness",
        "Seed it: torch.manual_seed(0) once before.",
        seed="torch",
    ),
    _rule(
        r"tensorflow\.random\.(?!set_seed)\w+|tensorflow\.keras\.[\w.]+|keras\.layers\.\w+",
        "randomness",
        "Seed it: keras.utils.set_random_seed(0) once before.",
        seed="tensorflow",
    ),
    _rule(
        r"sklearn\.[\w.]*\b(?:train_test_split|shuffle|resample|make_\w+|KMeans|MiniBatchKMeans"
        r"|RandomForest\w+|ExtraTrees?\w*|GradientBoosting\w+|HistGradientBoosting\w+|Bagging\w+"
        r"|DecisionTree\w+|MLP\w+|SGD\w+|TSNE|NMF|GaussianMixture|IsolationForest|Perceptron"
        r"|TruncatedSVD|RandomizedSearchCV|permutation_importance|LatentDirichletAllocation)",
        "randomness",
        _STATE,
        seed="numpy",
        keyword="random_state",
    ),
    _rule(r"\.sample", "randomness", _STATE, seed="numpy", keyword="random_state"),
    _rule(
        r"secrets\.\w+|os\.(?:urandom|getrandom)|uuid\.uuid[14]|random\.SystemRandom",
        "randomness",
        "It cannot be seeded. Write the value down once, or derive it: uuid.uuid5, hashlib.",
    ),
    _rule(r"os\.(?:listdir|scandir|walk|fwalk)|glob\.i?glob", "file order", _SORT),
    _rule(r"\.(?:iterdir|rglob|glob)", "file order", "Sort it: sorted(path.iterdir())."),
    _rule(
        r"threading\.Thread|concurrent\.futures\.[\w.]+|multiprocessing\.(?:pool\.)?\w*Pool"
        r"|multiprocessing\.Process|multiprocessing\.dummy\.Pool|joblib\.Parallel"
        r"|asyncio\.(?:gather|create_task|as_completed|wait|to_thread|TaskGroup)"
        r"|\.(?:imap_unordered|as_completed)",
        "thread order",
        "Collect results in the order in which you asked (executor.map, gather's list), then show"
        " them.",
    ),
    _rule(
        r"id|object\.__repr__|object\.__hash__",
        "identity",
        "An address differs each time; give things a number or a name of their own.",
    ),
    _rule(
        r"os\.(?:getpid|getppid|getpgid|getsid|cpu_count|uname|stat|lstat)|os\.path\.get[acm]time"
        r"|threading\.(?:get_ident|get_native_id)|socket\.gethostname|platform\.\w+|getpass\.\w+"
        r"|tempfile\.\w+|\.stat",
        "process",
        "It belongs to this process, machine or moment; do not let results depend on it.",
    ),
    _rule(
        r"requests\.\w+|urllib\.request\.\w+|urllib3\.\w+|httpx\.\w+|aiohttp\.\w+"
        r"|socket\.create_connection|http\.client\.\w+|ftplib\.\w+|yfinance\.\w+"
        r"|sklearn\.datasets\.fetch_\w+|seaborn\.load_dataset",
        "network",
        "What is out there changes: save the answer as a file of the session, and read that.",
    ),
    _rule(
        r"numpy\.(?:empty|empty_like|ndarray)",
        "memory",
        "Memory that nothing has written yet: use np.zeros.",
    ),
)

SEEDS: Final = (
    (re.compile(r"random\.seed\Z"), "random"),
    (re.compile(r"numpy\.random\.(?:seed|set_state)\Z"), "numpy"),
    (re.compile(r"torch\.(?:cuda\.)?manual_seed(?:_all)?\Z"), "torch"),
    (re.compile(r"(?:tensorflow|tf)\.random\.set_seed\Z"), "tensorflow"),
    (re.compile(r"(?:tensorflow\.)?keras\.utils\.set_random_seed\Z"), "tensorflow"),
    (re.compile(r".*\bseed_everything\Z"), "torch"),
)
#: keras.utils.set_random_seed and seed_everything seed all of these.
SEED_ALL: Final = re.compile(r".*\b(?:set_random_seed|seed_everything)\Z")

ORDERED: Final = frozenset({"sorted", "len", "sum", "min", "max", "set", "frozenset", "any", "all"})

SHELL: Final[tuple[tuple[re.Pattern[str], What, str], ...]] = (
    (re.compile(r"(?<![\w./-])(?:date|uptime|hwclock)(?![\w./-])"), "time", _FIX_CLOCK),
    (
        re.compile(r"\$RANDOM\b|\bshuf\b(?!.*--random-source)|/dev/u?random\b|\buuidgen\b"),
        "randomness",
        "Write the value down once; shuf takes --random-source.",
    ),
    (
        re.compile(r"\bmktemp\b|\$\$|\$PPID\b|\bhostname\b|\bnproc\b"),
        "process",
        "Name it yourself.",
    ),
    (
        re.compile(r"\b(?:ps|top|free|df|du|vmstat|nvidia-smi|w|who|stat|ls\s+-\w*[ltc]\w*)\b"),
        "process",
        "It shows the machine as it is at that moment.",
    ),
    (re.compile(r"\bfind\s(?!.*\|\s*sort\b)"), "file order", "Sort it: find … | sort."),
    (re.compile(r"(?<!\S)time\s"), "measurement", "A measurement differs each time."),
    (
        re.compile(r"\b(?:curl|wget|git\s+(?:clone|pull|fetch)|apt(?:-get)?|pip\s+install)\b"),
        "network",
        "What is out there changes: upload the files, pin versions.",
    ),
)
