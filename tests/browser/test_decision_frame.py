"""In a real browser: a person presses in the decision frame; a script of the page around it cannot."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.fixtures.kernel import PATIENCE, Database
from tests.fixtures.server import JupyterServer, Serve

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, FrameLocator, Page

PLACES = ["example.org"]
#: What the frame has to show: a terminal's escape, an override of direction, a tag, spaces at an end.
STRANGE = "a\x1b[2Kb\u202ec\U000e0041d  \n\te"

#: What a page does with a decision: asks for the act, shows the frame, hands in what was pressed.
PAGE = """() => {
  const xsrf = /_xsrf=([^;]+)/.exec(document.cookie)[1]
  window.MESSAGES = []
  window.addEventListener('message', event => MESSAGES.push({...event.data, origin: event.origin}))
  window.ask = async (path, method, body, headers) => {
    const answer = await fetch('/base/reprise/api/' + path, {
      method, body: body && JSON.stringify(body),
      headers: {'X-XSRFToken': xsrf, ...(body ? {'Content-Type': 'application/json'} : {}), ...headers}})
    const text = await answer.text()
    return [answer.status, text.startsWith('{') ? JSON.parse(text) : text]
  }
  window.show = (address, style) => {
    document.body.replaceChildren()
    const frame = document.createElement('iframe')
    frame.setAttribute('sandbox', 'allow-scripts')
    frame.style.cssText = style || 'width: 420px; height: 380px; border: 0'
    frame.src = address
    document.body.append(frame)
    return new Promise(loaded => frame.addEventListener('load', () => loaded(null)))
  }
}"""
ALLOW = "environments/default/network/allow"


@pytest.fixture(scope="module")
def server(serve: Serve, database: Database) -> JupyterServer:
    return serve(dsn=database.dsn, people=False)


@pytest.fixture(scope="module")
def context(browser: Browser, server: JupyterServer) -> Iterator[BrowserContext]:
    """Logged in, as a person's browser is."""
    context = browser.new_context(viewport={"width": 900, "height": 700})
    context.set_default_timeout(PATIENCE * 1000)
    page = context.new_page()
    page.goto(f"{server.url}login")
    page.goto(f"{server.url}login?token=t")
    page.close()
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext, server: JupyterServer) -> Iterator[Page]:
    """Any page of this server; this one has nothing on it."""
    page = context.new_page()
    page.goto(f"{server.url}nothing-here")
    page.evaluate(PAGE)
    yield page
    page.close()


def ask(page: Page, path: str, body: Any = None, method: str = "POST", **headers: str) -> Any:
    return page.evaluate("given => ask(...given)", [path, method, body, headers])


def asked(page: Page, places: list[str]) -> dict[str, Any]:
    """The decision that a page needs before hosts are allowed."""
    status, said = ask(page, ALLOW, {"places": places})
    assert (status, said["error"]["code"]) == (428, "decision-needed")
    found: dict[str, Any] = said["error"]
    return found


def shown(page: Page, address: str, style: str = "") -> FrameLocator:
    page.evaluate("given => show(...given)", [address, style])
    frame = page.frame_locator("iframe")
    frame.locator("main").wait_for()
    return frame


def message(page: Page) -> dict[str, Any]:
    """What a press handed out."""
    page.wait_for_function("MESSAGES.some(each => each.type === 'reprise-decision')")
    (found,) = pressed(page)
    return found


def pressed(page: Page) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = page.evaluate(
        "MESSAGES.filter(each => each.type === 'reprise-decision')"
    )
    return found


def until_counts(page: Page, frame: FrameLocator, press: Any) -> dict[str, Any]:
    """Press as a person does who is told that it was too soon."""
    for _ in range(200):
        press()
        page.wait_for_timeout(50)
        if pressed(page):
            return message(page)
        assert "Nothing was decided" in (frame.locator("#told").text_content() or "")
    raise AssertionError("no press counted")


def test_what_a_person_presses_happens_once(page: Page) -> None:
    needed = asked(page, PLACES)
    frame = shown(page, needed["frame"])
    assert "example.org" in (frame.locator(".scroll").text_content() or "")
    said = until_counts(page, frame, frame.get_by_role("button", name="Allow").click)
    # A sandboxed frame has no origin that a page could confuse with its own.
    assert (said["origin"], said["decision"]) == ("null", needed["decision"])
    press = {"nonce": said["nonce"]}
    status, decided = ask(page, f"decisions/{needed['decision']}", press)
    assert (status, decided["ended"]["option"]) == (200, "allow")
    # Again: the same press is none.
    status, refused = ask(page, f"decisions/{needed['decision']}", press)
    assert (status, refused["error"]["code"]) == (409, "decided")
    # It allows this very request, once.
    header = {"X-Reprise-Decision": needed["decision"]}
    status, other = ask(page, ALLOW, {"places": ["other.example"]}, **header)
    assert (status, other["error"]["code"]) == (428, "decision-needed")
    status, done = ask(page, ALLOW, {"places": PLACES}, **header)
    assert (status, done["network"]["allow"]) == (200, PLACES)
    status, again = ask(page, ALLOW, {"places": PLACES}, **header)
    assert (status, again["error"]["code"]) == (428, "decision-needed")
    assert again["error"]["decision"] != needed["decision"]
    # Whoever shows it again reads how it ended.
    page.evaluate("given => show(...given)", [needed["frame"], ""])
    assert "Allow." in (page.frame_locator("iframe").locator("main").text_content() or "")


def test_the_keyboard_presses_as_well(page: Page) -> None:
    needed = asked(page, ["keyboard.example"])
    frame = shown(page, needed["frame"])
    page.keyboard.press("Tab")  # to the text that is to be read
    page.wait_for_timeout(0)
    for _ in range(20):
        focused = frame.locator(":focus")
        if focused.count() and "Allow" in (focused.text_content() or ""):
            break
        page.keyboard.press("Tab")
    assert "Allow" in (frame.locator("button:focus").text_content() or "")
    for _ in range(200):
        page.keyboard.press("Space")
        page.wait_for_timeout(50)
        if pressed(page):
            break
    status, _ = ask(page, f"decisions/{needed['decision']}", {"nonce": message(page)["nonce"]})
    assert status == 200
    # No key that was pressed in it reached the page.
    status, said = ask(page, f"decisions/{needed['decision']}", method="GET")
    assert (status, said["ended"]["option"]) == (200, "allow")


def test_a_refusal_allows_nothing(page: Page) -> None:
    needed = asked(page, ["refused.example"])
    frame = shown(page, needed["frame"])
    said = until_counts(page, frame, frame.get_by_role("button", name="Do not").click)
    status, decided = ask(page, f"decisions/{needed['decision']}", {"nonce": said["nonce"]})
    assert (status, decided["ended"]["option"]) == (200, "refuse")
    header = {"X-Reprise-Decision": needed["decision"]}
    assert ask(page, ALLOW, {"places": ["refused.example"]}, **header)[0] == 428


def test_a_script_of_the_page_can_neither_read_nor_fetch_nor_press_it(page: Page) -> None:
    needed = asked(page, ["stolen.example"])
    shown(page, needed["frame"])
    tried = page.evaluate(
        """async address => {
          const tried = {}
          const frame = document.querySelector('iframe')
          tried.document = frame.contentDocument
          for (const [name, reach] of Object.entries({
            read: () => frame.contentWindow.document.body.innerHTML,
            press: () => frame.contentWindow.document.querySelector('.accept').click(),
            script: () => frame.contentWindow.eval('1'),
          })) {
            try { tried[name] = String(reach()) } catch (error) { tried[name] = error.name }
          }
          const texts = []
          for (const init of [{}, {mode: 'no-cors'}, {mode: 'same-origin'}, {headers: {'Sec-Fetch-Dest': 'iframe'}}])
            texts.push(await (await fetch(address, init)).text())
          texts.push(await new Promise(done => {
            const request = new XMLHttpRequest()
            request.open('GET', address)
            request.onloadend = () => done(request.responseText)
            request.send()
          }))
          tried.texts = texts
          // What a script can send itself: events that are not trusted.
          frame.dispatchEvent(new MouseEvent('click', {bubbles: true}))
          frame.contentWindow.postMessage({type: 'press', option: 'allow'}, '*')
          return tried
        }""",
        needed["frame"],
    )
    assert tried["document"] is None
    assert {tried[name] for name in ("read", "press", "script")} == {"SecurityError"}
    for text in tried["texts"]:
        assert "data-nonce" not in text
        assert "not-a-frame" in text
    assert pressed(page) == []
    for guessed in ("x" * 43, needed["decision"]):
        status, said = ask(page, f"decisions/{needed['decision']}", {"nonce": guessed})
        assert (status, said["error"]["code"]) == (403, "no-such-press")
    status, said = ask(page, f"decisions/{needed['decision']}", method="GET")
    assert said["ended"] is None


@pytest.mark.parametrize("way", ["object", "embed", "window", "without a sandbox"])
def test_no_other_way_of_showing_it_gives_a_script_the_nonces(
    page: Page, context: BrowserContext, way: str
) -> None:
    needed = asked(page, [f"{way.replace(' ', '-')}.example"])
    found = page.evaluate(
        """async ([way, address]) => {
          if (way === 'window') {
            window.OPENED = open(address)
            return null
          }
          const made = document.createElement(way.startsWith('without') ? 'iframe' : way)
          made[way === 'object' ? 'data' : 'src'] = address
          made.type = 'text/html'
          document.body.append(made)
          await new Promise(done => { made.onload = made.onerror = done; setTimeout(done, 2000) })
          try { return String(made.contentDocument?.documentElement?.innerHTML ?? null) }
          catch (error) { return error.name }
        }""",
        [way, needed["frame"]],
    )
    if way == "window":
        page.wait_for_function(
            "() => { try { return OPENED.document.body.textContent.length > 10 }"
            " catch { return true } }"
        )
        found = page.evaluate(
            "() => { try { return OPENED.document.documentElement.innerHTML } catch (e) { return e.name } }"
        )
        page.evaluate("OPENED.close()")
    assert "nonce" not in (found or "")


def test_a_press_counts_only_after_a_while_in_full_view(page: Page) -> None:
    needed = asked(page, ["soon.example"])
    # The clock of the page stands still from here on: no while passes.
    page.context.clock if False else None
    frame = shown(page, needed["frame"], "width: 420px; height: 380px; margin-top: 3000px; border: 0")
    button = frame.get_by_role("button", name="Allow")
    page.evaluate("scrollTo(0, 2600)")  # half of it is below the window's end
    for _ in range(20):
        button.dispatch_event("click")  # not trusted
        page.wait_for_timeout(50)
    assert pressed(page) == []
