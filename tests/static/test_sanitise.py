"""Nothing that stays of HTML, Markdown or SVG acts, loads, or takes a name of the page."""

from __future__ import annotations

import html
import re
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprise.jupyter.static import styles, tex
from reprise.jupyter.static.sanitise import (
    HTML_CHARACTERS,
    MARKDOWN_CHARACTERS,
    Clean,
    NotShown,
    sanitise_html,
    sanitise_markdown,
)
from reprise.jupyter.static.svg import PREFIX, sanitise_svg
from reprise.jupyter.static.words import words
from tests.static.looking import acting
from tests.static.vectors import HTML, MARKDOWN, SVG

SVG_NAMESPACE = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("source", HTML)
def test_known_html_does_nothing(source: str) -> None:
    found = sanitise_html(source).html
    assert acting(found) == []
    # What names a host stays as the text of a link, or of a formula that is none any more.
    assert "remote.example" not in found or 'href="http' in found or tex.JOINER in found
    assert sanitise_html(found).html == found


@pytest.mark.parametrize("source", MARKDOWN)
def test_known_markdown_does_nothing(source: str) -> None:
    found = sanitise_markdown(source).html
    assert acting(found) == []
    assert sanitise_html(found).html == found


@pytest.mark.parametrize("source", SVG)
def test_known_svg_does_nothing(source: str) -> None:
    try:
        found = sanitise_svg(source).html
    except NotShown:
        return
    assert _harmless_svg(found)
    assert sanitise_svg(found).html == found


def _harmless_svg(text: str) -> bool:
    """What an XML parser finds; that names are SVG's own keeps an HTML parser from others."""
    assert "remote.example" not in text
    assert "javascript:" not in text
    for element in ET.fromstring(text).iter():
        assert element.tag.startswith(SVG_NAMESPACE)
        assert element.tag.removeprefix(SVG_NAMESPACE).lower() not in (
            "script",
            "foreignobject",
            "style",
            "animate",
            "set",
            "handler",
            "feimage",
            "a",
            "iframe",
            "img",
        )
        for name, value in element.attrib.items():
            bare = name.rpartition("}")[2]
            assert not bare.startswith("on")
            assert bare != "class"
            if bare == "id":
                assert value.startswith(PREFIX)
            if bare == "href":
                assert value.startswith(("#", "data:image/png"))
            assert "url(" not in re.sub(rf"url\(#{PREFIX}[\w.:-]+\)", "", value)
    return True


_PIECES = sorted(
    words(
        """<p> </p> <b> </b> <i> <a/href=https://a.example> </a> <table> <tr> <td> </td> </table>
        <svg> </svg> <math> <style> </style> <!-- --> <title> <desc> <template> <select> <mglyph>
        <mtext> <form> </form> <noscript> &lt; &amp; " ' ` = > < / \\ $"""
    )
)

_FRAGMENTS = st.lists(
    st.one_of(
        st.sampled_from(HTML),
        st.sampled_from(_PIECES),
        st.text(max_size=20),
    ),
    max_size=12,
).map("".join)


@given(_FRAGMENTS)
def test_whatever_is_put_together_does_nothing_and_stays_what_it_is(source: str) -> None:
    found = sanitise_html(source).html
    assert acting(found) == []
    assert sanitise_html(found).html == found


@given(
    st.lists(st.one_of(st.sampled_from(MARKDOWN), st.text(max_size=30)), max_size=8).map("\n".join)
)
def test_whatever_markdown_says_it_does_nothing(source: str) -> None:
    assert acting(sanitise_markdown(source).html) == []


@given(st.text(max_size=200))
def test_a_text_without_markup_stays_as_it_is(text: str) -> None:
    plain = re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]", "", text).replace("\r", "")
    if "\\" in plain or "\xa0" in plain:
        return
    assert html.unescape(sanitise_html(html.escape(plain)).html) == plain


def test_what_draws_stays() -> None:
    table = (
        '<table border="1" class="dataframe"><thead><tr style="text-align: right"><th></th><th>a</th>'
        '</tr></thead><tbody><tr><th>0</th><td style="color: #ff0000; background-color: rgb(1, 2, 3)">'
        "1</td></tr></tbody></table>"
    )
    assert sanitise_html(table) == Clean(table)
    picture = '<img src="data:image/png;base64,iVBORw0KGgo=" width="10">'
    assert sanitise_html(picture) == Clean(picture)
    bar = '<td style="background: linear-gradient(90deg, red 50.0%, transparent 50.0%)">1</td>'
    assert bar in sanitise_html(f"<table><tr>{bar}</tr></table>").html
    sound = (
        '<audio controls=""><source src="data:audio/wav;base64,UklGRg==" type="audio/wav"></audio>'
    )
    assert sanitise_html(sound) == Clean(sound)


def test_links_open_without_a_way_back() -> None:
    found = sanitise_html('<a href="https://a.example/?q=1&amp;r=2#s">x</a>').html
    assert found == (
        '<a rel="noopener noreferrer" target="_blank" href="https://a.example/?q=1&amp;r=2#s">x</a>'
    )


def test_what_a_person_would_miss_is_named_and_nothing_else() -> None:
    assert sanitise_html("<script>1</script><form><input></form>").missed == ("scripts", "forms")
    assert sanitise_html("<p>x onclick = y, javascript: no</p>").missed == ()
    # What pandas puts before every table.
    assert sanitise_html("<style scoped>\n .dataframe tbody tr th {}</style><p>x").missed == ()
    assert sanitise_html("<style>#T_1 {color: red}</style>").missed == ("style sheets",)


def test_markdown_is_rendered_with_its_mathematics_as_they_were() -> None:
    found = sanitise_markdown(
        "# Title\n\n*a* $x_1 + y_1 < z$ and `$code$`\n\n$$\\frac_a_b$$\n\n|a|\n|-|\n|1|\n"
    ).html
    assert "<h1>Title</h1>" in found
    assert "<em>a</em> $x_1 + y_1 &lt; z$ and <code>$code$</code>" in found
    assert "$$\\frac_a_b$$" in found
    assert "<td>1</td>" in found


def test_a_drawing_of_matplotlib_keeps_what_it_draws() -> None:
    source = """<?xml version="1.0" encoding="utf-8" standalone="no"?>
<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd">
<svg xmlns:xlink="http://www.w3.org/1999/xlink" width="9pt" viewBox="0 0 9 9"
 xmlns="http://www.w3.org/2000/svg" version="1.1">
 <metadata><rdf xmlns="http://www.w3.org/1999/02/22-rdf-syntax-ns#"/></metadata>
 <defs><style type="text/css">*{stroke-linejoin: round; stroke-linecap: butt}</style></defs>
 <g id="axes_1"><path d="M 1 2 L 3 4 z" clip-path="url(#p1)" style="fill: #1f77b4"/>
 <use xlink:href="#m1" x="1" y="2" style="stroke: #000000"/><text>a &lt; b</text></g>
 <image xlink:href="data:image/png;base64,iVBORw0KGgo=" width="3" height="3"/>
 <defs><path id="m1" d="M 0 0 L 0 3"/><clipPath id="p1"><rect width="9" height="9"/></clipPath></defs>
</svg>"""
    found = sanitise_svg(source)
    assert found.missed == ()
    for kept in (
        'style="stroke-linejoin: round; stroke-linecap: butt"',
        'd="M 1 2 L 3 4 z" clip-path="url(#reprise-p1)" style="fill: #1f77b4"',
        'xlink:href="#reprise-m1"',
        'id="reprise-m1"',
        "a &lt; b",
        "data:image/png;base64,iVBORw0KGgo=",
    ):
        assert kept in found.html
    assert _harmless_svg(found.html)


@pytest.mark.parametrize(
    ("clean", "source"),
    [
        (sanitise_html, "x" * (HTML_CHARACTERS + 1)),
        (sanitise_html, "<p>" * 100_001),
        (sanitise_html, "<div>" * 20_000),
        (sanitise_markdown, "x" * (MARKDOWN_CHARACTERS + 1)),
        (sanitise_svg, "<svg>" + "<g>" * 200 + "</g>" * 200 + "</svg>"),
        (sanitise_svg, "<svg>" + "<g/>" * 100_001 + "</svg>"),
    ],
)
def test_what_is_too_much_is_refused(clean: Callable[[str], Clean], source: str) -> None:
    with pytest.raises(NotShown):
        clean(source)


@pytest.mark.parametrize(
    "source",
    [
        "<p>" + "".join(f"<b title={i}>" for i in range(4000)) + "<p>x" * 4000,
        "<p>" + "".join(f"<font size={i}><p>" for i in range(4000)),
        "<div>" + "".join(f"<B/title={i}>" for i in range(4000)) + "</div><div>x" * 1900,
        "<table>" + "<b>x<tr>" * 3000,
    ],
)
def test_open_elements_do_not_multiply(source: str) -> None:
    """An HTML parser repeats open formatting elements in each block: 90 kB become 176 MB."""
    assert len(sanitise_html(source).html) < 20 * len(source)


@pytest.mark.parametrize(
    "source",
    [
        "[" * MARKDOWN_CHARACTERS,
        ("![[" * MARKDOWN_CHARACTERS)[:MARKDOWN_CHARACTERS],
        ("\\begin{a}" * MARKDOWN_CHARACTERS)[:MARKDOWN_CHARACTERS],
        ("\\(a" * MARKDOWN_CHARACTERS)[:MARKDOWN_CHARACTERS],
        ("*a **b " * MARKDOWN_CHARACTERS)[:MARKDOWN_CHARACTERS],
    ],
)
def test_hostile_markdown_takes_no_time_without_end(source: str) -> None:
    began = time.process_time()
    sanitise_markdown(source)
    # Some seconds on a machine of two cores; what is quadratic takes minutes.
    assert time.process_time() - began < 60


def test_styles_that_load_cover_or_lie_are_dropped_and_others_stay() -> None:
    assert styles.declarations("color: RED ; text-align:right !important") == (
        "color: RED; text-align: right"
    )
    for hostile in (
        "background: url(x)",
        "background: URL (x)",
        "background: u\\72l(x)",
        "background: image-set('x' 1x)",
        "width: attr(x)",
        "color: red /* */",
        "position: fixed",
        "margin: -9px",
        "margin: calc(0px - 9px)",
        "margin-left: 0 -1em",
        "z-index: 1",
        "transform: scale(9)",
        "box-shadow: 0 0 0 9999px #fff",
        "content: 'x'",
        "color: 'x",
        "-moz-binding: x",
    ):
        assert styles.declarations(hostile) == "", hostile


def test_commands_of_tex_that_act_are_no_commands() -> None:
    joined = f"\\{tex.JOINER}"
    assert tex.guarded("$\\href{x}{y} \\hrefx \\frac12 \\left( \\class{a}{b}$") == (
        f"${joined}href{{x}}{{y}} \\hrefx \\frac12 \\left( {joined}class{{a}}{{b}}$"
    )
    assert tex.guarded("C:\\data\\url") == "C:\\data\\url"
    assert tex.guarded("$$" + "\\url" * 3) == "$$" + f"{joined}url" * 3
