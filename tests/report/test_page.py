"""The page of a verify: nothing of a session runs, loads or breaks out of its place on it."""

import base64
import dataclasses
import re
import time
import uuid
from collections.abc import Sequence
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprise.log.model import OutputEntry
from reprise.replay.causes import Cause
from reprise.replay.compare import compare
from reprise.replay.report import (
    VERDICTS,
    Compared,
    FileDifference,
    NameDifference,
    Report,
    StateReport,
    StepReport,
)
from reprise.replay.shown import IMAGE, Piece, image_of, pieces
from reprise.replay.variables import Variable, VariableDifference
from reprise.report.differences import side_by_side
from reprise.report.markup import Html, tag, text
from reprise.report.page import page
from reprise.workspace.manifest import Entry

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


class Seen(HTMLParser):
    """What a browser would find: elements with their attributes, and text outside of script and style."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names))
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta", "img", "br", "hr"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] not in (["script"], ["style"]):
            self.text += data


ELEMENTS = {
    "html", "head", "meta", "title", "style", "body", "script", "a", "header", "main", "footer",
    "nav", "section", "div", "span", "p", "h1", "h2", "h3", "h4", "dl", "dt", "dd", "ul", "ol",
    "li", "table", "thead", "tbody", "tr", "th", "td", "pre", "code", "kbd", "b", "button",
    "details", "summary", "del", "ins", "figure", "figcaption", "img",
}  # fmt: skip
ATTRIBUTES = {
    "charset", "http-equiv", "content", "name", "lang", "href", "class", "id", "title", "open",
    "type", "role", "src", "alt", "decoding", "tabindex", "scope", "colspan", "aria-label",
    "aria-hidden", "aria-pressed", "data-verdict", "data-show", "data-side",
}  # fmt: skip


def seen(html: str) -> Seen:
    """The page, after everything that must hold of any page."""
    html.encode()  # no lone surrogates
    found = Seen(html)
    assert found.open == []
    assert {name for name, _ in found.elements} <= ELEMENTS
    assert {key for _, attributes in found.elements for key in attributes} <= ATTRIBUTES
    scripts = [name for name, _ in found.elements if name == "script"]
    assert len(scripts) == 1
    for name, attributes in found.elements:
        if "href" in attributes:
            assert re.fullmatch(r"#(step-\d+|steps|left|notes)", attributes["href"] or "")
        if name == "img":
            assert re.match(
                r"data:image/(png|jpeg|svg\+xml);base64,[\w+/=]*$", attributes["src"] or ""
            )
    policy = next(a["content"] for n, a in found.elements if "http-equiv" in a) or ""
    assert policy.startswith("default-src 'none'; img-src data:;")
    assert "unsafe" not in policy
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", html)
    return found


def report(steps: Sequence[StepReport], states: Sequence[StateReport] = (), **more: Any) -> Report:
    return Report(uuid.UUID(int=7), tuple(steps), 1.5, tuple(states), **more)


def made(
    seq: int,
    verdict: Any,
    old: Sequence[OutputEntry] = (),
    new: Sequence[OutputEntry] = (),
    **more: Any,
) -> StepReport:
    return StepReport(
        seq,
        more.pop("kind", "cell"),
        "ok",
        verdict,
        comparison=compare(old, new),
        recorded=pieces(old),
        replayed=pieces(new),
        **more,
    )


def stream(value: str, name: str = "stdout") -> OutputEntry:
    return OutputEntry("stream", {"name": name, "text": value})


def display(**data: Any) -> OutputEntry:
    named = {key.replace("__", "+").replace("_", "/"): value for key, value in data.items()}
    return OutputEntry("display_data", {"data": named, "metadata": {}})


HOSTILE = [
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "</style><style>*{display:none}</style>",
    "</pre></code></details><h1>not a heading of ours",
    "<img src=x onerror=alert(1)>",
    "\"><svg onload=alert(1)>",
    "' onmouseover='alert(1)",
    "<!-- ", "-->", "<![CDATA[", "]]>", "&lt;script&gt;", "&#x3c;script>",
    "javascript:alert(1)",
    "<meta http-equiv=refresh content='0;url=https://example.org'>",
    "<base href=https://example.org>",
    "\x1b]0;title\x07\x1b[31mred\x1b[0m\x00\x08\r\n",
    "\u202eevil\u2066", "\ud800lone", "\ufffe\uffff", "`code` `", "x" * 300_000,
    "\n" * 50_000,
]  # fmt: skip


@pytest.mark.parametrize("value", HOSTILE, ids=range(len(HOSTILE)))
def test_whatever_a_session_says_stays_text(value: str) -> None:
    path = value.replace("\ud800", "\udcff")  # a manifest holds none but escaped bytes
    entry = Entry("a", "file", 0o644, 5, "a" * 64)
    variable = Variable(value[:100], "a" * 24, value[:50], value[:100])
    states = [
        StateReport(
            1,
            "second replay",
            Compared(
                3,
                (
                    FileDifference(path, "content", entry, entry, value, since=1),
                    FileDifference(
                        "link",
                        "link",
                        Entry("l", "link", 0o777, target=path),
                        None,
                        causes=(Cause("time", value, value),),
                    ),
                ),
                {value: value},
            ),
            Compared(
                1,
                (NameDifference(VariableDifference(value, variable, None, "missing")),),
                why=value,
            ),
        )
    ]
    outputs = [
        stream(value),
        stream(value, "stderr"),
        display(text_plain=value),
        display(text_html=value),
        display(image_svg__xml=f"<svg>{value}</svg>"),
        display(image_png=value),
        display(application_javascript=value),
        display(**{f"x{value[:20]}": value}),
        OutputEntry("error", {"ename": value, "evalue": value, "traceback": [value]}),
        OutputEntry("input_request", {"prompt": value}),
        OutputEntry("step_reply", {"status": "error", "result": {"exit_code": value}}),
        OutputEntry("comm_open", {"comm_id": value}),
        OutputEntry(value, {"data": value}),
    ]
    steps = [
        made(
            seq,
            verdict,
            outputs,
            [*outputs[::-1], stream("more")],
            source=value,
            reason=value,
            causes=(Cause("time", value, value, 0, 1),),
            kind=kind,
            actor=value,
            chance=True,
            again="same",
        )
        for seq, (verdict, kind) in enumerate(
            zip(VERDICTS, ("cell", "command", "cell", "upload", value), strict=True)
        )
    ]
    whole = page(
        report(steps, states, outside=(value,), unsaid=(value,), backend=value),
        notebook=value,
        kernel="python3",
    )
    found = seen(whole)
    assert len(whole) < 6_000_000
    assert {a["id"] for n, a in found.elements if a.get("class", "").startswith("step ")} == {  # type: ignore[union-attr]
        f"step-{seq}" for seq in range(5)
    }


@given(st.text(), st.text())
def test_two_texts_side_by_side_are_both_there(old: str, new: str) -> None:
    found = Seen(side_by_side(old, new))
    assert found.open == []
    assert {name for name, _ in found.elements} <= ELEMENTS
    for line in (old.split("\n"), new.split("\n")):
        if len(line) < 8:
            for part in line:
                assert text(part) == "" or Seen(text(part)).text in found.text


@given(st.text(), st.text())
def test_text_becomes_no_element_and_no_attribute(value: str, other: str) -> None:
    found = Seen(tag("p", value, title=other))
    assert [name for name, _ in found.elements] == ["p"]
    (_, attributes) = found.elements[0]
    assert list(attributes) == ["title"]
    assert tag("p", value) == tag("p", Html(text(value)))


def test_the_verdict_stands_first_and_every_step_is_there() -> None:
    steps = [
        made(0, "same", [stream("a")], [stream("a")], source="print('a')"),
        made(
            1,
            "different",
            [stream("one apple\nend")],
            [stream("two apples\nend")],
            source="print(x)",
            causes=(Cause("time", "Likely because line 1 reads the clock: `time.time`.", "Mend."),),
        ),
        made(2, "volatile", [stream("<A at 0x7f1234567890>")], [stream("<A at 0x7f1234567999>")]),
    ]
    found = seen(page(report(steps), notebook="/home/me/work.ipynb", kernel="reprise"))
    assert "1 of 3 steps came out otherwise; the first is step 1." in found.text
    assert "work.ipynb" in found.text
    assert "/home/me" not in found.text
    assert "time.time" in found.text
    assert "Mend." in found.text
    opened = [a["id"] for n, a in found.elements if n == "details" and "open" in a]
    assert opened == ["step-1"]
    strip = [a["aria-label"] for n, a in found.elements if a.get("aria-label", "") and n == "a"]
    assert strip == ["step 0: same", "step 1: different", "step 2: volatile"]
    assert [n for n, _ in found.elements].count(
        "del"
    ) == 3  # "one", "apple", an address: no whole line
    assert "reprise verify 00000000-0000-0000-0000-000000000007 --to 2" in found.text


def test_images_stand_side_by_side() -> None:
    data = base64.b64encode(PNG).decode()
    svg = "<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"
    steps = [
        made(0, "different", [display(image_png=data)], [display(image_svg__xml=svg)], source="x")
    ]
    found = seen(page(report(steps), notebook=None, kernel="python3"))
    kinds = [str(a["src"]).partition(";")[0] for n, a in found.elements if n == "img"]
    assert kinds == ["data:image/png", "data:image/svg+xml"]


@pytest.mark.parametrize(
    ("mime", "data"),
    [
        ("image/png", b"no picture"),
        ("image/png", PNG[:20]),
        ("image/png", PNG[:16] + b"\xff\xff\xff\xff\xff\xff\xff\xff" + PNG[24:]),  # 2**64 pixels
        ("image/png", PNG[:16] + b"\0\0\0\0\0\0\0\0" + PNG[24:]),
        ("image/png", PNG + b"\0" * IMAGE),
        ("image/jpeg", b"\xff\xd8"),
        ("image/jpeg", b"\xff\xd8\xff\xe0\0\0" * 99),
        ("image/gif", b"GIF89a"),
        ("image/svg+xml", b"<html>"),
        ("image/svg+xml", b"<!DOCTYPE s [<!ENTITY a 'aa'>]><svg>&a;</svg>"),
        ("text/html", b"<svg></svg>"),
    ],
)
def test_what_is_no_harmless_picture_is_not_shown(mime: str, data: bytes) -> None:
    value = (
        data.decode() if mime in ("image/svg+xml", "text/html") else base64.b64encode(data).decode()
    )
    assert image_of(mime, value) is None


def test_a_jpeg_is_a_picture() -> None:
    frame = b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc0\x00\x11\x08\x00\x10\x00\x20\x03" + b"\0" * 9
    assert image_of("image/jpeg", base64.b64encode(frame).decode()) is not None


def test_a_long_session_is_a_page_of_few_megabytes_quickly() -> None:
    source = "for number in range(10):\n    print('number', number, 'of ten')\n" * 5
    shown = [stream("a line of output\n" * 20)]
    other = [stream("a line of output\n" * 10 + "another\n" + "a line of output\n" * 9)]
    steps = [
        made(seq, "same", shown, shown, source=source)
        if seq % 10
        else made(seq, "different", shown, other, source=source)
        for seq in range(1000)
    ]
    began = time.perf_counter()
    whole = page(report(steps), notebook="long.ipynb", kernel="python3")
    assert time.perf_counter() - began < 30
    assert len(whole) < 8_000_000
    seen(whole)


def test_no_session_makes_the_page_too_large() -> None:
    data = base64.b64encode(PNG + b"\0" * (IMAGE - 1000)).decode()
    shown = [stream("x" * 60_000), display(image_png=data)]
    steps = [
        dataclasses.replace(
            made(seq, "same", shown, shown), verdict="different", source="y" * 50_000
        )
        for seq in range(150)
    ]
    whole = page(report(steps), notebook=None, kernel="python3")
    assert len(whole) < 40_000_000
    assert "left out to keep this page small" in seen(whole).text.lower()


def test_without_steps_there_is_a_page_too() -> None:
    found = seen(page(report([]), notebook=None, kernel="ir"))
    assert "There was no step to compare." in found.text


def test_pieces_are_bounded_and_in_order() -> None:
    shown = pieces([stream("a"), stream("b"), stream("c", "stderr"), stream("d" * 100)], 50)
    assert [(each.kind, len(each.text), each.cut) for each in shown] == [
        ("stdout", 2, 0),
        ("stderr", 1, 0),
        ("stdout", 47, 53),
    ]
    many = pieces([display(text_plain=str(n)) for n in range(500)])
    assert len(many) < 100
    assert many[-1] == Piece("note", "More outputs are not shown here.")
