"""notebook-to-report keeps what readers need; nothing in a report acts or loads, whatever a notebook holds."""

from __future__ import annotations

import base64
import html
import json
import re
import struct
import tempfile
import zlib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from tests.skills.shipped.scripts import module, notebook, run, saved, shown, stream

NAME = "notebook-to-report"
loading = module(NAME, "reporting.notebook")
words = module(NAME, "reporting.words")
tables = module(NAME, "reporting.tables")
frames = module(NAME, "reporting.frame")
as_page = module(NAME, "reporting.html_report")
as_text = module(NAME, "reporting.markdown_report")


def png(red: int = 255) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    head = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    pixel = zlib.compress(bytes([0, red, 0, 0]))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", pixel) + chunk(b"IEND", b"")


PNG = base64.b64encode(png()).decode()
TABLE = (
    '<style scoped>td {color: red}</style><table border="1"><thead><tr><th></th><th>name</th><th>n</th></tr></thead>'
    "<tbody><tr><th>0</th><td>a|b</td><td>1.5</td></tr><tr><th>1</th><td>*c* &lt;i&gt;</td><td>2</td></tr></tbody></table>"
)
BOOK = notebook(
    {"cell_type": "markdown", "source": "# Rentals by hour\n\nWhat drives them?\n\n- one\n- two\n\n## Data"},
    {
        "source": "df.describe()",
        "outputs": [shown(text__html=TABLE, text__plain="  name  n\n0 a|b 1.5")],
    },
    {"source": "df.plot()", "outputs": [shown(image__png=PNG, text__plain="<Figure size 640x480 with 1 Axes>")]},
    {"source": "print(x)", "outputs": [stream("10%\r50%\r100%\nmean error: 3.25\n\x1b[31mred\x1b[0m\n"), stream("warned\n", "stderr")]},
    {"source": "1 / 0", "outputs": [{"output_type": "error", "ename": "ZeroDivisionError", "evalue": "division by zero", "traceback": ["\x1b[0;31mTrace", "back"]}]},
    {"source": "secret_cell()", "metadata": {"tags": ["remove-cell"]}},
    {"source": "plotly()", "outputs": [shown(**{"application/vnd.plotly.v1+json": {}, "text/html": "<script>1</script>"})]},
)  # fmt: skip


def report(place: Path, book: dict[str, Any], *args: str, suffix: str = "html") -> tuple[str, Any]:
    saved(place, book)
    done = run(NAME, "notebook_to_report.py", "book.ipynb", "--output", f"report.{suffix}", *args, workspace=place, strict=False)  # fmt: skip
    assert done.code == 0, done.err
    return (place / f"report.{suffix}").read_text(), done.json


class Acts(HTMLParser):
    """Whatever in a page could act, load or leave it."""

    LEFT = frozenset(
        [
            "script",
            "iframe",
            "object",
            "embed",
            "form",
            "input",
            "button",
            "base",
            "link",
            "frame",
            "svg",
            "math",
            "template",
            "audio",
            "video",
        ]
    )

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.ids: list[str] = []
        self.styles = 0
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in self.LEFT:
            self.found.append(tag)
        self.styles += tag == "style"
        for name, value in attrs:
            text = "".join((value or "").split()).lower()
            if name == "id":
                self.ids.append(value or "")
            if name.startswith("on") or (
                name in ("srcset", "formaction", "ping", "http-equiv") and tag != "meta"
            ):
                self.found.append(f"{tag} {name}")
            if name in ("src", "poster", "background", "data") and not text.startswith(
                "data:image/"
            ):
                self.found.append(f"{tag} {name}={value}")
            if name == "href" and re.match(r"(?!https?:|mailto:)[a-z][a-z0-9+.-]*:", text):
                self.found.append(f"{tag} {name}={value}")
            if name == "style" and re.search(r"url|expression|position|@import", text):
                self.found.append(f"{tag} style={value}")


# what is kept ---------------------------------------------------------------------------------------


def test_the_page_holds_what_readers_need(tmp_path: Path) -> None:
    page, body = report(tmp_path, BOOK, "--code", "folded")
    assert page.count("<h1") == 1
    assert "<title>Rentals by hour</title>" in page
    assert f'src="data:image/png;base64,{PNG}"' in page
    assert "<td>a|b</td>" in page
    assert "100%\nmean error: 3.25\nred" in page
    assert "50%" not in page
    assert "warned" not in page
    assert "Cell 5 ended with an error: ZeroDivisionError: division by zero" in page
    assert "Trace" not in page
    assert "secret_cell" not in page
    assert "<details><summary>Code</summary>\n<pre><code>df.plot()" in page
    assert "An interactive output" in page
    assert Acts(page).found == []
    assert "default-src 'none'" in page
    frame = body["frame"]
    assert frame["title"] == "Rentals by hour"
    assert [h["text"] for h in frame["headings"]] == ["Rentals by hour", "Data"]
    assert frame["figures"][0] | {"bytes": 0} == {
        "number": 1,
        "cell": 3,
        "under": "Data",
        "media": "image/png",
        "bytes": 0,
    }
    assert frame["tables"][0]["rows"] == 2
    assert frame["tables"][0]["names"] == ["", "name", "n"]
    assert {"cell": 4, "line": "mean error: 3.25"} in frame["numbers"]
    assert body["not_shown"] == {
        "cells tagged remove-cell": 1,
        "interactive outputs": 1,
        "outputs to stderr": 1,
    }
    assert "Figure 1: (" in body["summary_template"]


def test_the_text_has_its_figures_beside_it(tmp_path: Path) -> None:
    text, body = report(tmp_path, BOOK, suffix="md")
    (name,) = body["pictures"]
    assert f"![Figure 1](<report_files/{name}>)" in text
    assert (tmp_path / "report_files" / name).read_bytes() == png()
    assert "|  | name | n |" in text
    assert r"| 0 | a\|b | 1.5 |" in text
    assert r"\*c\* &lt;i\>" in text
    assert "**Cell 5 ended with an error:**" in text
    again = notebook(
        {"source": "p()", "outputs": [shown(image__png=base64.b64encode(png(7)).decode())]}
    )
    (tmp_path / "report_files" / "mine.png").write_bytes(b"x")
    _, body = report(tmp_path, again, suffix="md")
    left = sorted(path.name for path in (tmp_path / "report_files").iterdir())
    assert left == sorted([*body["pictures"], "mine.png"])


@pytest.mark.parametrize("suffix", ["html", "md"])
def test_summary_captions_and_choices(tmp_path: Path, suffix: str) -> None:
    (tmp_path / "s.md").write_text(
        "**Answer.** 68 % <script>alert(1)</script> [x](javascript:alert(1))"
    )
    (tmp_path / "c.json").write_text(json.dumps({"1": "Rentals <b>|", "table-1": "Counts"}))
    choices = ("--summary", "s.md", "--captions", "c.json", "--code", "hidden", "--warnings", "--tracebacks", "--title", "T <i>")  # fmt: skip
    text, body = report(tmp_path, BOOK, *choices, suffix=suffix)
    assert "df.plot()" not in text
    assert "warned" in text
    assert "Traceback" not in text
    assert "Trace\nback" in text
    assert "Counts" in text
    assert "<b>|" not in text
    assert "T <i>" not in text
    assert "<script" not in text
    assert "68 %" in text
    assert body["summary_template"] == ""
    if suffix == "html":
        assert Acts(text).found == []


def test_the_same_notebook_gives_the_same_bytes(tmp_path: Path) -> None:
    first, one = report(tmp_path, BOOK)
    second, two = report(tmp_path, BOOK)
    assert (first, one) == (second, two)


def test_a_frame_writes_nothing(tmp_path: Path) -> None:
    saved(tmp_path, BOOK)
    done = run(
        NAME,
        "notebook_to_report.py",
        "book.ipynb",
        "--frame-only",
        "--check",
        workspace=tmp_path,
        strict=False,
    )
    assert done.code == 1
    assert done.json["written"] == []
    assert [path.name for path in tmp_path.iterdir()] == ["book.ipynb"]


def test_pictures_of_cells_come_in_and_others_stay_out(tmp_path: Path) -> None:
    (tmp_path / "beside.png").write_bytes(png())
    outside = tmp_path.parent / "outside.png"
    outside.write_bytes(png())
    (tmp_path / "link.png").symlink_to(outside)
    (tmp_path / "false.png").write_text("<svg onload=alert(1)>")
    source = (
        "![a](attachment:in.png) ![b](beside.png) ![c](../outside.png) ![d](link.png) ![e](false.png) "
        "![f](https://example.org/x.png) ![g](/etc/passwd) ![h](attachment:none.png) "
        '<img src="https://example.org/y.png"> <img src="beside.png">'
    )
    cell = {
        "cell_type": "markdown",
        "source": source,
        "attachments": {"in.png": {"image/png": PNG}},
    }
    page, body = report(tmp_path, notebook(cell))
    assert page.count(f"data:image/png;base64,{PNG}") == 2
    assert body["not_shown"] == {"pictures from elsewhere": 6}
    assert 'href="https://example.org/x.png"' in page
    assert Acts(page).found == []


# hostile notebooks ------------------------------------------------------------------------------------

HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg><script>alert(1)</script></svg>",
    "<svg/onload=alert(1)>",
    '<a href="javascript:alert(1)">x</a>',
    '<a href="data:text/html,<script>1</script>">x</a>',
    "<iframe src=https://example.org></iframe>",
    "<form action=https://example.org><input></form>",
    "<style>@import url(https://example.org/x.css)</style>",
    '<div style="background: url(https://example.org/x); position: fixed">x</div>',
    "<base href=https://example.org/>",
    '<meta http-equiv="refresh" content="0; url=https://example.org">',
    "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)>",
    "<noscript><p title='</noscript><img src=x onerror=alert(1)>'>",
    "</pre></code></details><script>alert(1)</script>",
    "[x](javascript:alert(1))",
    "[x](java&#115;cript:alert(1))",
    "<javascript:alert(1)>",
    "[x][y]\n\n[y]: javascript:alert(1)",
    "![x](https://example.org/x.png)",
    "![x](javascript:alert(1))",
    "<!-- <script>alert(1)</script> -->",
    "```\n</code></pre><script>alert(1)</script>\n```",
    "# <script>alert(1)</script>",
    '[x](<https://example.org/" onmouseover="alert(1)>)',
    "- <img\n  src=x\n  onerror=alert(1)>",
    "| a |\n|---|\n| <img src=x onerror=alert(1)> |",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "`` ` ``<script>alert(1)</script>",
]  # fmt: skip

JUDGE = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
JUDGE.validateLink = lambda _: True  # type: ignore[method-assign, assignment]
OURS = re.compile(r"</?details>|</?summary>|<br ?/?>")


def acts_in_markdown(text: str) -> list[str]:
    """What a reader of Markdown that lets everything through would let act."""
    found = []
    waiting = JUDGE.parse(text)
    while waiting:
        token = waiting.pop()
        waiting += token.children or []
        if token.type == "html_inline" and not words._PLAIN_TAG.fullmatch(token.content):
            found.append(token.content)
        if token.type == "html_block":
            found += [
                tag for tag in re.findall(r"<[^>]*>?", token.content) if not OURS.fullmatch(tag)
            ]
        if token.type == "link_open" and not words._SAFE_LINK.match(str(token.attrGet("href"))):
            found.append(str(token.attrGet("href")))
        if token.type == "image" and not str(token.attrGet("src")).startswith(
            ("report_files/", "data:image/")
        ):
            found.append(str(token.attrGet("src")))
    return found


def whole(book: dict[str, Any], kind: str) -> str:
    with tempfile.TemporaryDirectory() as place:
        loaded = loading.load(
            saved(Path(place), book), loading.Wanted(tracebacks=True, warnings=True)
        )
        about = {"title": "T", "summary": "", "captions": {}, "code": "shown"}
        if kind == "html":
            return str(as_page.html_report(loaded, frames.Frame(), **about))
        return str(
            as_text.markdown_report(loaded, frames.Frame(), **about, folder="report_files")[0]
        )


def everywhere(text: str) -> dict[str, Any]:
    return notebook(
        {"cell_type": "markdown", "source": text},
        {"source": text, "outputs": [stream(text), shown(text__html=text, text__plain=text), shown(text__markdown=text),
                                      shown(text__latex=text), shown(text__plain=text), shown(application__json={text: text}),
                                      {"output_type": "error", "ename": text, "evalue": text, "traceback": [text]}]},
        {"source": "t", "outputs": [shown(text__html=f"<table><tr><th>{text}</th></tr><tr><td>{text}</td></tr></table>")]},
        language_info={"name": text},
    )  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_hostile_acts_wherever_it_stands(text: str) -> None:
    page = Acts(whole(everywhere(text), "html"))
    assert page.found == []
    assert page.styles == 1
    assert len(page.ids) == len(set(page.ids))
    assert acts_in_markdown(whole(everywhere(text), "md")) == []


PIECES = st.lists(
    st.sampled_from([*HOSTILE, "\n\n", "\n", "    ", "> ", "- ", "`", "```", "~~~", "\\", "[", "](", ")", "<", ">", "&", "*", "|", "<b>", "</b>", "x"])
    | st.text(max_size=6),
    max_size=8,
).map("".join)  # fmt: skip


@given(PIECES)
@settings(max_examples=250, deadline=None)
def test_no_markdown_of_a_cell_acts(text: str) -> None:
    assert acts_in_markdown(words.as_markdown(text).text) == []


@given(PIECES)
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_nothing_acts_in_any_report(text: str) -> None:
    assert Acts(whole(everywhere(text), "html")).found == []
    assert acts_in_markdown(whole(everywhere(text), "md")) == []


@given(st.lists(PIECES, min_size=2, max_size=5))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_cell_makes_another_act(texts: list[str]) -> None:
    book = notebook(*({"cell_type": "markdown", "source": text} for text in texts))
    book["cells"].insert(
        1, {"cell_type": "code", "source": "<script>alert(1)</script>", "outputs": []}
    )
    assert acts_in_markdown(whole(book, "md")) == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("[y]: javascript:alert(1)", "[x][y]"),
        ("[y]: https://example.org/x.png", "![x][y]"),
        ("```", "<script>alert(1)</script>"),
        ("~~~~\nx", "<script>alert(1)</script>"),
        ("<!--", "--><script>alert(1)</script>"),
        ("<pre>", "<script>alert(1)</script>"),
        ("- a\n\n  ```\n  x", "<script>alert(1)</script>"),
        ("<details>", "x"),
    ],
)
def test_what_a_cell_leaves_open_is_closed(one: str, other: str) -> None:
    cells = [{"cell_type": "markdown", "source": text} for text in (one, other)]
    for pair in (cells, cells[::-1]):
        text = whole(notebook(*pair, "code()"), "md")
        assert acts_in_markdown(text) == []
        assert [t.content for t in JUDGE.parse(text) if t.type == "fence"][-1] == "code()\n"


@given(st.text(st.characters(exclude_characters="\0"), max_size=40))
@settings(max_examples=200, deadline=None)
def test_a_text_stands_as_it_is(text: str) -> None:
    rendered = MarkdownIt("commonmark").enable("table").render(f"x {as_text.plain(text)} y")
    said = html.unescape(re.sub(r"<[^>]*>", "", rendered))
    assert said.split() == f"x {text} y".split()


@given(st.text(alphabet="ab\r\n\b\x1b[0m;31K", max_size=60))
@settings(max_examples=200, deadline=None)
def test_a_terminal_leaves_printable_lines(text: str) -> None:
    left = loading.terminal(text)
    assert not set(left) & set("\r\b\x1b")


def test_a_terminal_shows_what_was_written_last() -> None:
    assert loading.terminal("0%\r100%") == "100%"
    assert loading.terminal("abcdef\rxy") == "xycdef"
    assert loading.terminal("ab\bc") == "ac"
    assert loading.terminal("\x1b[1;31mred\x1b[0m \x1b]0;title\x07ok") == "red ok"
    assert loading.terminal("a\r\nb\r\n") == "a\nb\n"


# bad files -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"cells": 1}', '{"worksheets": []}', "{" * 90_000, "\0"]
)
def test_what_is_no_notebook_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.ipynb").write_text(text)
    done = run(
        NAME,
        "notebook_to_report.py",
        "x.ipynb",
        "--output",
        "r.html",
        workspace=tmp_path,
        strict=False,
    )
    assert done.code == 2
    assert not (tmp_path / "r.html").exists()


def test_a_report_never_takes_the_notebooks_place(tmp_path: Path) -> None:
    path = saved(tmp_path, BOOK)
    (tmp_path / "same.html").symlink_to(path)
    done = run(
        NAME,
        "notebook_to_report.py",
        "book.ipynb",
        "--output",
        "same.html",
        workspace=tmp_path,
        strict=False,
    )
    assert done.code == 2
    assert json.loads(path.read_text()) == BOOK
    assert run(NAME, "notebook_to_report.py", path, "--output", "r.ipynb", strict=False).code == 2
    gone = run(NAME, "notebook_to_report.py", path, "--output", str(path / "r.html"), strict=False)
    assert gone.code == 2


def test_outputs_that_are_wrong_are_left_out(tmp_path: Path) -> None:
    outputs = [
        None, 3, {}, {"output_type": "display_data"}, {"output_type": "display_data", "data": 3}, shown(image__png="@@@"),
        shown(image__png=base64.b64encode(b"<script>").decode()), shown(image__png=3), shown(text__html=["a", 3]),
        {"output_type": "stream", "text": {"a": 1}}, {"output_type": "error", "ename": 3, "traceback": 3},
        shown(image__jpeg=PNG, text__plain="kept"),
    ]  # fmt: skip
    book = notebook({"source": 3, "outputs": outputs}, {"source": ["a", 3]}, {"cell_type": "markdown", "source": None, "attachments": [1]})  # fmt: skip
    book["cells"] += [None, 3, {"cell_type": "raw", "source": "<script>"}]
    book["metadata"] = []
    page, body = report(tmp_path, book)
    assert "kept" in page
    assert Acts(page).found == []
    assert body["not_shown"]["broken outputs"] == 2


def test_long_outputs_and_large_tables_are_cut(tmp_path: Path) -> None:
    rows = "".join(f"<tr><td>{at}</td></tr>" for at in range(5_000))
    book = notebook({"source": "x", "outputs": [stream("".join(f"line {at}\n" for at in range(9_000))), shown(text__html=f"<table>{rows}</table>")]})  # fmt: skip
    text, body = report(tmp_path, book, suffix="md")
    assert "line 8999" in text
    assert "… 8800 lines left out …" in text
    assert "line 4500" not in text
    assert body["not_shown"]["rows of long tables"] == 4_800
    assert len(body["frame"]["numbers"]) <= 60
