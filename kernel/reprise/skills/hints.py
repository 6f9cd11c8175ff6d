"""What a notebook is about, as weighted words: its imports, headings, files and code (pure).

A notebook comes from anywhere, so nothing of it is trusted to have a form, and each part is read
to a bound only.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

#: Of a notebook: cells, characters of each, and of all of them, that are looked at.
MAX_CELLS = 1_000
MAX_CELL = 20_000
MAX_TEXT = 400_000
#: Words kept of a notebook: its weightiest.
MAX_WORDS = 200

#: How much a word says by where it stands.
IMPORT, HEADING, FILE_TYPE, FILE_NAME, TEXT, CODE = 6.0, 4.0, 5.0, 3.0, 1.0, 1.0
#: However often a word stands at one kind of place, it counts so often.
_MOST_TIMES = 3

_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+([A-Za-z_][\w.]*)[ \t]+import|import[ \t]+([^#\n]+))", re.MULTILINE
)
_R_LIBRARY = re.compile(r"\b(?:library|require)\s*\(\s*[\"']?([A-Za-z][\w.]*)")
_HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]+(.+)$", re.MULTILINE)
_FILE = re.compile(r"[\"'`(\s]([\w./ -]{1,80}?\.([A-Za-z][A-Za-z0-9]{0,9}))(?=[\"'`)\s:,?])")
_CODE_STRING = re.compile(r"#[^\n]*|\"\"\"[\s\S]*?\"\"\"|'''[\s\S]*?'''")
#: A word of more letters is none; what is remembered of them stays small.
_PART = re.compile(
    r"[A-Z]{1,40}(?=[A-Z][a-z])|[A-Z]?[a-z]{1,40}|[A-Z]{1,40}|[^\W\d_a-zA-Z]{1,40}|[0-9]{1,40}"
)

#: Types of files and what one does with them; a skill may be written for either word.
FILE_TYPES: Mapping[str, tuple[str, ...]] = {
    "csv": ("csv", "table", "dataset"),
    "tsv": ("tsv", "csv", "table", "dataset"),
    "parquet": ("parquet", "table", "dataset"),
    "feather": ("feather", "table", "dataset"),
    "arrow": ("arrow", "table", "dataset"),
    "xlsx": ("xlsx", "excel", "spreadsheet"),
    "xls": ("xlsx", "excel", "spreadsheet"),
    "ods": ("spreadsheet",),
    "docx": ("docx", "word", "document"),
    "doc": ("docx", "word", "document"),
    "pdf": ("pdf", "document"),
    "pptx": ("pptx", "powerpoint", "presentation", "slide"),
    "tex": ("latex", "paper"),
    "bib": ("latex", "citation"),
    "md": ("markdown",),
    "html": ("html", "web"),
    "ipynb": ("notebook", "jupyter"),
    "json": ("json",),
    "jsonl": ("json", "dataset"),
    "xml": ("xml",),
    "yaml": ("yaml",),
    "yml": ("yaml",),
    "sql": ("sql", "database", "query"),
    "db": ("sqlite", "database"),
    "sqlite": ("sqlite", "database"),
    "png": ("image",),
    "jpg": ("image",),
    "jpeg": ("image",),
    "tif": ("image", "tiff"),
    "tiff": ("image", "tiff"),
    "svg": ("svg", "diagram"),
    "dcm": ("dicom", "image"),
    "wav": ("audio",),
    "mp3": ("audio",),
    "mp4": ("video",),
    "nc": ("netcdf", "climate"),
    "h5": ("hdf5",),
    "hdf5": ("hdf5",),
    "h5ad": ("anndata", "scanpy"),
    "npy": ("numpy", "array"),
    "npz": ("numpy", "array"),
    "mat": ("matlab",),
    "pkl": ("pickle",),
    "pt": ("pytorch", "model"),
    "onnx": ("onnx", "model"),
    "fasta": ("fasta", "sequence"),
    "fa": ("fasta", "sequence"),
    "fastq": ("fastq", "sequencing"),
    "vcf": ("vcf", "variant"),
    "bam": ("bam", "sequencing"),
    "pdb": ("pdb", "protein"),
    "sdf": ("sdf", "molecule", "chemistry"),
    "geojson": ("geojson", "map", "geospatial"),
    "shp": ("shapefile", "map", "geospatial"),
}

#: Modules whose name is not the word that people use for what they do.
MODULES: Mapping[str, tuple[str, ...]] = {
    "pandas": ("pandas", "dataframe", "dataset"),
    "polars": ("polars", "dataframe", "dataset"),
    "pyarrow": ("arrow", "parquet"),
    "sklearn": ("scikit", "sklearn", "model"),
    "statsmodels": ("statsmodels", "statistics", "regression"),
    "scipy": ("scipy", "statistics"),
    "matplotlib": ("matplotlib", "plot", "chart", "figure"),
    "seaborn": ("seaborn", "plot", "chart"),
    "plotly": ("plotly", "plot", "chart"),
    "altair": ("altair", "chart"),
    "bokeh": ("bokeh", "plot", "chart"),
    "torch": ("pytorch", "torch", "training"),
    "tensorflow": ("tensorflow", "training"),
    "keras": ("keras", "training"),
    "transformers": ("transformers", "huggingface"),
    "xgboost": ("xgboost", "model"),
    "lightgbm": ("lightgbm", "model"),
    "cv2": ("opencv", "image"),
    "PIL": ("image",),
    "skimage": ("image",),
    "nltk": ("nltk", "text", "language"),
    "spacy": ("spacy", "text", "language"),
    "bs4": ("html", "scraping", "web"),
    "requests": ("api", "web"),
    "httpx": ("api", "web"),
    "sqlalchemy": ("sql", "database"),
    "psycopg": ("postgres", "database"),
    "sqlite3": ("sqlite", "database"),
    "duckdb": ("duckdb", "sql"),
    "openpyxl": ("xlsx", "excel", "spreadsheet"),
    "docx": ("docx", "word", "document"),
    "pypdf": ("pdf",),
    "pdfplumber": ("pdf",),
    "fitz": ("pdf",),
    "pptx": ("pptx", "presentation", "slide"),
    "Bio": ("biopython", "sequence"),
    "rdkit": ("rdkit", "molecule", "chemistry"),
    "scanpy": ("scanpy", "cell"),
    "anndata": ("anndata", "cell"),
    "geopandas": ("geopandas", "geospatial", "map"),
    "networkx": ("networkx", "graph", "network"),
    "xarray": ("xarray", "netcdf"),
    "astropy": ("astropy", "astronomy"),
    "qiskit": ("qiskit", "quantum"),
    "dask": ("dask", "parallel"),
    "pyspark": ("spark", "dataframe"),
    "pytest": ("pytest", "test"),
}

#: Words that stand in most descriptions or most notebooks and tell none from another.
_COMMON = (
    "a about after all also an and any are as at be been before best both but by can could do "
    "does each either else file first for from get give given has have help how i if in into "
    "is it its just like made make may more most must need needed new no not of on one only "
    "or other our out over own per print provide put read return run see self set should show "
    "skill so some step such support system task than that the their them then there these "
    "they this those to tool up use used user using value via want was way we well what when "
    "where whether which while who will with without work would write you your true false "
    "none null def class import lambda len range int str float list dict tuple object type "
    "name data"
)
COMMON = frozenset(_COMMON.split())


def words(text: str) -> Iterator[str]:
    """The words of a text in lower case, camelCase and snake_case in parts, plurals as one."""
    for part in _PART.findall(text):
        word = _word(part)
        if word:
            yield word


@lru_cache(maxsize=1 << 15)
def _word(part: str) -> str:
    """The word that a part stands for, "" when it tells nothing."""
    word = _stem(part.lower())
    return "" if len(word) < 2 or word.isdigit() or word in COMMON else word


def _stem(word: str) -> str:
    """Without the ending of an English plural, so that datasets and dataset are one word."""
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is", "as", "os")):
        return word[:-1]
    return word


def hints(notebook: Mapping[str, Any] | None, path: str = "", more: str = "") -> dict[str, float]:
    """What a notebook (nbformat 4, as JSON) is about: its weightiest words and their weights.

    path: where the notebook lies; its name tells too.  more: what the person asked for.
    The same notebook gives the same words in the same order; outputs are not looked at.
    """
    counts: Counter[tuple[str, float]] = Counter()
    for word in words(path.rpartition("/")[2].removesuffix(".ipynb")):
        counts[word, FILE_NAME] += 1
    for word in words(more[:MAX_CELL]):
        counts[word, HEADING] += 1
    for kind, source in _cells(notebook):
        if kind == "code":
            _code(source, counts)
        elif kind == "markdown":
            _markdown(source, counts)
    weights: Counter[str] = Counter()
    for (word, weight), times in counts.items():
        weights[word] += weight * min(times, _MOST_TIMES)  # type: ignore[assignment]
    ordered = sorted(weights.items(), key=lambda item: (-item[1], item[0]))
    return dict(ordered[:MAX_WORDS])


def _cells(notebook: Mapping[str, Any] | None) -> Iterator[tuple[str, str]]:
    cells = notebook.get("cells") if isinstance(notebook, Mapping) else None
    if not isinstance(cells, list):
        return
    room = MAX_TEXT
    for cell in cells[:MAX_CELLS]:
        if not isinstance(cell, Mapping) or room <= 0:
            continue
        source = cell.get("source")
        if isinstance(source, list):
            source = "".join(line for line in source if isinstance(line, str))
        if isinstance(source, str):
            source = source[: min(MAX_CELL, room)]
            room -= len(source)
            yield str(cell.get("cell_type")), source


def _code(source: str, counts: Counter[tuple[str, float]]) -> None:
    modules: set[str] = set()
    for dotted, listed in _IMPORT.findall(source):
        names = [dotted] if dotted else listed.split(",")
        modules.update(name.split(" as ")[0].strip().partition(".")[0] for name in names)
    modules.update(_R_LIBRARY.findall(source))
    for module in sorted(modules):
        for word in MODULES.get(module, (module.lower(),)):
            counts[word, IMPORT] += 1
    _files(source, counts)
    for comment in _CODE_STRING.findall(source):
        for word in words(comment):
            counts[word, TEXT] += 1
    for word in words(_CODE_STRING.sub(" ", source)):
        counts[word, CODE] += 1


def _markdown(source: str, counts: Counter[tuple[str, float]]) -> None:
    for heading in _HEADING.findall(source):
        for word in words(heading):
            counts[word, HEADING] += 1
    _files(source, counts)
    for word in words(source):
        counts[word, TEXT] += 1


def _files(source: str, counts: Counter[tuple[str, float]]) -> None:
    for path, suffix in _FILE.findall(source):
        kinds = FILE_TYPES.get(suffix.lower())
        if kinds is None:
            continue
        for word in kinds:
            counts[word, FILE_TYPE] += 1
        for word in words(path.rpartition("/")[2].rpartition(".")[0]):
            counts[word, FILE_NAME] += 1
