"""In JupyterLab's own page: what an output tries does not happen, and what it draws is there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from reprise.jupyter.static import sanitise, svg
from reprise.jupyter.static.sanitise import NotShown, sanitise_html, sanitise_markdown
from reprise.jupyter.static.svg import sanitise_svg
from tests.fixtures.browser import PANEL, Lab, Labs
from tests.static.vectors import HTML, MARKDOWN, SVG

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

#: Reads the server's token, opens a terminal, and presses what would approve something.
ATTACK = """<b class="mark">shown</b><script>
window.RAN = (window.RAN || 0) + 1
const config = JSON.parse(document.getElementById('jupyter-config-data').textContent)
fetch(config.baseUrl + 'api/terminals?token=' + config.token, {method: 'POST'})
  .then(answer => { window.OPENED = answer.status })
</script><img src="data:image/png;base64,AAAA" onerror="window.RAN = (window.RAN || 0) + 1">
<a data-commandlinker-command="terminal:create-new" data-commandlinker-args="{}" href="#">press</a>
<div id="jupyter-config-data">{}</div>"""

CELLS = [
    f"class Table:\n    def _repr_html_(self): return {ATTACK!r}",
    "Table()",
    """from IPython.display import Javascript, display
display(Javascript('window.RAN = (window.RAN || 0) + 1')); print('after')""",
    """import ipywidgets as w
s, h = w.IntSlider(value=3, description='drag me'), w.HTML('<i class=note>3</i>')
s.observe(lambda c: setattr(h, 'value', f'<i>{c.new}</i><img src=x onerror="window.RAN=1">'), 'value')
w.VBox([s, h])""",
    "import pandas as pd\npd.DataFrame({'a': [1, 2], 'b': ['x', '<y>']})",
    """from IPython.display import Markdown, SVG, display
display(Markdown('# A *heading*\\n\\n|a|b|\\n|-|-|\\n|1|$x_1$|\\n\\n[link](javascript:window.RAN=1)'))
display(SVG('<svg xmlns="http://www.w3.org/2000/svg" width="90" height="30" onload="window.RAN=1">'
            '<rect width="90" height="30" fill="teal"/></svg>'))""",
]


@pytest.fixture(scope="module")
def guarded(labs: Labs) -> Lab:
    """As `reprise lab` is without more."""
    return labs()


@pytest.fixture(scope="module")
def open_lab(labs: Labs) -> Lab:
    """Pages as Jupyter sends them."""
    return labs("--Reprise.page_policy=False")


def run_all(page: Page, cells: int) -> None:
    """Run every cell, and wait until the last has run."""
    page.evaluate("void window.jupyterapp.commands.execute('notebook:run-all-cells')")
    prompt = f"{PANEL} .jp-Cell >> nth={cells - 1} >> .jp-InputPrompt >> text=/\\[{cells}\\]/"
    page.wait_for_selector(prompt)
    page.wait_for_selector(f"{PANEL} .jp-Notebook-ExecutionIndicator[data-status=idle]")


def ran(page: Page) -> Any:
    """What scripts of outputs have left in the page."""
    return page.evaluate("[window.RAN ?? null, window.OPENED ?? null]")


def refusals(page: Page) -> list[str]:
    """What the page's policy refuses from now on."""
    found: list[str] = []
    page.on(
        "console",
        lambda message: (
            found.append(message.text) if "Content Security Policy" in message.text else None
        ),
    )
    return found


def test_scripts_of_live_outputs_run_where_nothing_stops_them(
    browser: Browser, open_lab: Lab
) -> None:
    """What the other tests say does not happen, does: the attack works on a page without walls."""
    open_lab.notebook("live.ipynb", *CELLS[:2])
    page = open_lab.open(browser, "live.ipynb")
    run_all(page, 2)
    page.wait_for_function("window.RAN === 2 && window.OPENED === 200")
    assert len(open_lab.get("api/terminals")) == 1
    page.close()


@pytest.mark.parametrize("lab", ["guarded", "open_lab"])
def test_static_output_draws_and_does_nothing(
    browser: Browser, request: pytest.FixtureRequest, lab: str, tmp_path: Path
) -> None:
    there: Lab = request.getfixturevalue(lab)
    terminals = there.get("api/terminals")
    there.notebook("static.ipynb", *CELLS)
    page = there.open(browser, "static.ipynb")
    refused = refusals(page)
    there.let_an_agent_act("static.ipynb")
    run_all(page, len(CELLS))
    # A patched repr, a script, a widget, a table, Markdown with mathematics, and a drawing.
    assert page.inner_text(".jp-OutputArea-output b >> nth=0") == "shown"
    page.wait_for_selector("text=/held back: JavaScript/")
    page.wait_for_selector("table.dataframe >> text=<y>")
    page.wait_for_selector("h1 >> text=A heading")
    page.wait_for_selector("mjx-container")
    page.wait_for_selector("img[src^='data:image/svg+xml']")
    page.locator(".noUi-handle").focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_selector(".widget-html-content i >> text=4")
    page.click(".jp-OutputArea-output >> text=press")
    page.screenshot(path=tmp_path / f"{lab}.png", full_page=True)
    assert ran(page) == [None, None]
    assert there.get("api/terminals") == terminals
    assert page.locator("[data-commandlinker-command]").count() == 0
    assert page.evaluate("document.querySelectorAll('#jupyter-config-data').length") == 1
    # Nothing that reached the page had to be stopped by its policy, and JupyterLab works under it.
    assert refused == []
    page.close()


def test_under_the_policy_of_a_page_not_even_live_scripts_run(
    browser: Browser, guarded: Lab
) -> None:
    guarded.notebook("live.ipynb", *CELLS[:2])
    page = guarded.open(browser, "live.ipynb")
    refused = refusals(page)
    run_all(page, 2)
    page.wait_for_selector(".jp-OutputArea-output b.mark")
    assert ran(page) == [None, None]
    assert guarded.get("api/terminals") == []
    assert any("script" in each for each in refused)
    page.close()


LOOK = """sources => {
  const allowed = new Set(%s)
  const found = []
  for (const source of sources) {
    const host = document.createElement('div')
    document.body.replaceChildren(host)
    host.innerHTML = source
    for (const element of host.querySelectorAll('*')) {
      if (!allowed.has(element.localName)) found.push([source, element.localName])
      for (const {name, value} of element.attributes) {
        const link = /^(href|src|xlink:href)$/.test(name)
        if (name.startsWith('on') || (link && !/^(https?:|mailto:|data:(image|audio|video)|#)/.test(value)))
          found.push([source, name + '=' + value])
      }
    }
    const once = host.innerHTML
    const again = document.createElement('div')
    again.innerHTML = once
    if (again.innerHTML !== once) found.push([source, 'is read otherwise the second time: ' + once])
  }
  return found
}"""


def test_a_browser_reads_sanitised_html_as_we_do(browser: Browser) -> None:
    """Also after it wrote what it had read: what mutates does so here."""
    page = browser.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto("about:blank")
    page.evaluate("void (window.RAN = () => { window.HIT = true })")
    shown = [sanitise_html(source).html for source in HTML]
    shown += [sanitise_markdown(source).html for source in MARKDOWN]
    for source in SVG:
        try:
            shown.append(sanitise_svg(source).html)
        except NotShown:
            continue
    names = sorted(sanitise._TAGS | svg._ELEMENTS)
    assert page.evaluate(LOOK % names, shown) == []
    assert page.evaluate("window.HIT ?? null") is None
    assert [url for url in asked if not url.startswith(("data:", "about:"))] == []
    # What this would have noticed.
    assert page.evaluate(LOOK % names, ["<img src=x onerror=RAN()>"]) != []
    page.wait_for_function("window.HIT === true")
    page.close()
