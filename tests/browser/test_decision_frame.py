"""In a real browser: a person presses in the decision frame; a script of the page around it cannot."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from reprise_server.agent.scripted import calls, says
from reprise_server.api.decision_frame import decision_page
from reprise_server.api.matter import Choice, Matter
from tests.fixtures.agent_server import Agents, start_agents
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
  window.cover = (top, height) => {
    const over = document.createElement('div')
    over.id = 'over'
    over.style.cssText = 'position: fixed; left: 0; width: 500px; background: white; pointer-events: none'
    over.style.top = top
    over.style.height = height
    document.body.append(over)
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
def agents(serve: Serve, database: Database) -> Iterator[Agents]:
    """A server of one person, and its agent."""
    found, opened = start_agents(serve, database, people=False)
    with opened, found.lines:
        yield found


@pytest.fixture(scope="module")
def server(agents: Agents) -> JupyterServer:
    return agents.server


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


def click_at(page: Page, frame: FrameLocator, name: str) -> None:
    """With the mouse, wherever the button is and whatever lies over it."""
    box = frame.get_by_role("button", name=name).bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)


def test_a_press_that_comes_before_anybody_could_read_is_none(
    context: BrowserContext, server: JupyterServer
) -> None:
    page = context.new_page()
    # Time stands still within pages, so the 600 ms have not passed, however slow the machine is.
    page.clock.install()
    page.goto(f"{server.url}nothing-here")
    page.evaluate(PAGE)
    needed = asked(page, ["soon.example"])
    page.clock.pause_at(4_000_000_000)
    frame = shown(page, needed["frame"])
    for _ in range(10):
        click_at(page, frame, "Allow")
    assert "too soon" in (frame.locator("#told").text_content() or "")
    assert pressed(page) == []
    page.clock.resume()
    until_counts(page, frame, lambda: click_at(page, frame, "Allow"))
    page.close()


@pytest.mark.parametrize(
    ("hindrance", "mend"),
    [
        # Something that lets clicks through lies over the text.
        (
            "cover('0', '90px')",
            "document.getElementById('over').remove()",
        ),
        # The text is out of view, the button is not.
        (
            "document.querySelector('iframe').style.marginTop = '-120px'",
            "document.querySelector('iframe').style.marginTop = '0'",
        ),
        # Hardly to be seen.
        (
            "document.querySelector('iframe').style.opacity = '0.05'",
            "document.querySelector('iframe').style.opacity = '1'",
        ),
        (
            "document.querySelector('iframe').style.transform = 'scale(0.3)'",
            "document.querySelector('iframe').style.transform = ''",
        ),
        # So small that it shows nothing but a button.
        (
            "document.querySelector('iframe').style.height = '120px'",
            "document.querySelector('iframe').style.height = '380px'",
        ),
    ],
    ids=["covered", "cut", "faint", "shrunk", "small"],
)
def test_a_press_where_not_all_can_be_seen_is_none(page: Page, hindrance: str, mend: str) -> None:
    needed = asked(page, ["lured.example"])
    frame = shown(page, needed["frame"])
    page.evaluate(hindrance)
    # Longer than it has to be in view: what counts is what is seen then.
    page.wait_for_timeout(900)
    for _ in range(5):
        click_at(page, frame, "Allow")
        page.wait_for_timeout(50)
    assert pressed(page) == []
    page.evaluate(mend)
    until_counts(page, frame, lambda: click_at(page, frame, "Allow"))


def test_a_key_that_was_held_when_the_focus_came_presses_nothing(page: Page) -> None:
    needed = asked(page, ["held.example"])
    frame = shown(page, needed["frame"])
    button = frame.get_by_role("button", name="Allow")
    page.wait_for_timeout(900)
    page.evaluate(
        "() => { const field = document.createElement('input'); field.id = 'field';"
        " document.body.append(field); field.focus(); window.KEYS = [];"
        " addEventListener('keydown', event => KEYS.push(event.key), true) }"
    )
    for key in ("Space", "Enter"):
        page.locator("#field").focus()
        page.keyboard.down(key)
        button.focus()
        page.keyboard.down(key)  # it repeats
        page.keyboard.up(key)
        assert pressed(page) == []
    heard = page.evaluate("KEYS.length")
    for _ in range(200):
        page.keyboard.press("Enter")
        page.wait_for_timeout(50)
        if pressed(page):
            break
    assert message(page)["decision"] == needed["decision"]
    # What is typed in the frame stays there.
    assert page.evaluate("KEYS.length") == heard == 2


def test_it_shows_to_the_last_byte_what_was_asked_for(page: Page) -> None:
    body = {"scope": "personal", "policy": "rules: []", "note": f"{STRANGE} {'x' * 1500}"}
    status, said = ask(page, "policies", body, method="PUT")
    assert (status, said["error"]["code"]) == (428, "decision-needed")
    frame = shown(page, said["error"]["frame"])
    shows = frame.locator(".scroll").text_content() or ""
    for part in ("a\\x1b[2Kb", "\\u202ec", "\\U000e0041d", "\\x20\\x20\n\\te", "x" * 1500):
        assert part in shows, (part, shows)
    marked = frame.locator("pre b").all_text_contents()
    assert marked == ["\\x1b", "\\u202e", "\\U000e0041", "\\x20\\x20", "\\t"]
    # Long lines are folded, so that nothing of them is out of view to the right.
    assert frame.locator(".scroll").evaluate("each => each.scrollWidth <= each.clientWidth")


def test_each_theme_can_be_read(page: Page) -> None:
    """Contrast of text as WCAG 2.2 asks for it (1.4.3), computed from what the browser draws."""
    needed = asked(page, ["themes.example"])
    backs = set()
    for theme in ("light", "dark", "high-contrast"):
        frame = shown(page, f"{needed['frame']}?theme={theme}")
        ratios = frame.locator("main").evaluate(
            """main => {
              const channels = text => text.match(/[0-9.]+/g).slice(0, 3).map(Number)
              const light = text => {
                const [r, g, b] = channels(text).map(c => c / 255).map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
                return 0.2126 * r + 0.7152 * g + 0.0722 * b
              }
              const behind = each => {
                for (let at = each; at; at = at.parentElement) {
                  const color = getComputedStyle(at).backgroundColor
                  if (color !== 'rgba(0, 0, 0, 0)') return color
                }
                return 'rgb(255, 255, 255)'
              }
              return [...main.querySelectorAll('h1, h2, p, pre, b, button')].map(each => {
                const [a, b] = [light(getComputedStyle(each).color), light(behind(each))]
                return [each.tagName, (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)]
              })
            }"""
        )
        assert len(ratios) > 6
        for name, ratio in ratios:
            assert ratio >= 4.5, (theme, name, ratio)
        backs.add(frame.locator("body").evaluate("b => getComputedStyle(b).backgroundColor"))
    assert len(backs) == 3


def test_a_long_title_leaves_room_for_what_was_asked_and_the_buttons(page: Page) -> None:
    """It may hold paths, and the reason hosts, which others have named."""
    long = f"folder{'/folder' * 500}"
    choices = (Choice("once", "Allow once", "accept"), Choice("deny", "Deny", "reject"))
    matter = Matter(f"Agent wants to {long}", (("tool", "x"),), f"it asks: {long}", choices, "No.")
    made = decision_page("1", matter, {"once": "a", "deny": "b"}, 60.0, "light")
    page.set_viewport_size({"width": 260, "height": 340})
    page.set_content(made.page.decode("ascii"))
    for each in (".scroll", "footer button >> nth=0", "footer button >> nth=1"):
        box = page.locator(each).bounding_box()
        assert box is not None
        assert box["height"] > 20
        assert 0 <= box["y"] <= box["y"] + box["height"] <= 340
        assert 0 <= box["x"] <= box["x"] + box["width"] <= 260


def test_it_fits_a_narrow_panel_and_says_how_high_it_would_be(page: Page) -> None:
    needed = asked(page, [f"host-{number}.example" for number in range(40)])
    frame = shown(page, needed["frame"], "width: 250px; height: 300px; border: 0")
    page.wait_for_function("MESSAGES.some(each => each.type === 'reprise-decision-size')")
    wanted = page.evaluate(
        "MESSAGES.findLast(each => each.type === 'reprise-decision-size').height"
    )
    assert wanted > 300
    assert frame.locator("main").evaluate("m => m.scrollWidth <= m.clientWidth")
    # As high as it asks for, nothing scrolls; and it asks for no more then.
    page.evaluate(
        "height => { document.querySelector('iframe').style.height = height + 'px' }", wanted
    )
    page.wait_for_timeout(200)
    assert frame.locator(".scroll").evaluate("s => s.scrollHeight <= s.clientHeight")
    again = page.evaluate("MESSAGES.findLast(each => each.type === 'reprise-decision-size').height")
    assert again == wanted


# Approvals of the agent ---------------------------------------------------------------------------


def waiting(agents: Agents, line: str) -> tuple[str, dict[str, Any]]:
    """A conversation whose agent wants to run a command line, and its question."""
    conversation, words = agents.begin(calls("run_command", {"command": line}), says("I see."))
    agents.say(conversation, words)
    (question,) = agents.once(conversation, lambda now: now["questions"])["questions"]
    return conversation, question


def decided(agents: Agents, conversation: str) -> dict[str, Any]:
    agents.ended(conversation)
    entries = agents.client.get(f"conversations/{conversation}/entries?limit=500").json()["entries"]
    (found,) = [each["body"] for each in entries if each["kind"] == "decided"]
    return dict(found)


def test_an_approval_is_pressed_in_the_frame_and_is_part_of_the_turn(
    page: Page, agents: Agents
) -> None:
    conversation, question = waiting(agents, "printf 'a\\tb\\033[1m'; echo \x1b]0;title\x07")
    # No request of the page's own approves it.
    status, said = ask(
        page, f"conversations/{conversation}/questions/{question['id']}", {"decision": "once"}
    )
    assert (status, said["error"]["decision"]) == (428, question["decision"])
    frame = shown(page, said["error"]["frame"])
    text = frame.locator("main > .scroll").text_content() or ""
    assert "printf 'a\\tb\\033[1m'; echo \\x1b]0;title\\x07" in text
    assert frame.locator("pre b").all_text_contents() == ["\\x1b", "\\x07"]
    press = until_counts(page, frame, frame.get_by_role("button", name="Allow once").click)
    status, _ = ask(page, f"decisions/{press['decision']}", {"nonce": press["nonce"]})
    assert status == 200
    found = decided(agents, conversation)
    assert (found["decision"], found["how"]) == ("once", "frame")


def test_a_denial_takes_a_reason_along(page: Page, agents: Agents) -> None:
    conversation, question = waiting(agents, "rm data.csv")
    frame = shown(page, question["frame"])
    until_opened = frame.get_by_label("Reason")
    for _ in range(200):
        frame.get_by_role("button", name="Deny\u2026").click()
        if until_opened.is_visible():
            break
        page.wait_for_timeout(50)
    until_opened.fill("Keep <it> & go on.")
    press = until_counts(page, frame, frame.get_by_role("button", name="Yes: Deny").click)
    body = {"nonce": press["nonce"], "reason": press["reason"]}
    assert ask(page, f"decisions/{press['decision']}", body)[0] == 200
    found = decided(agents, conversation)
    assert (found["decision"], found["reason"]) == ("deny", "Keep <it> & go on.")


def test_a_pattern_is_shown_whole_before_it_can_be_pressed(page: Page, agents: Agents) -> None:
    conversation, question = waiting(agents, "head -n 5 data.csv")
    frame = shown(page, question["frame"])
    part = frame.locator("#part-pattern")
    assert not part.is_visible()
    for _ in range(200):
        frame.get_by_role("button", name="Pattern\u2026").click()
        if part.is_visible():
            break
        page.wait_for_timeout(50)
    text = part.text_content() or ""
    assert '"head"' in text
    assert "Of the calls before, this would have matched" in text
    # A second press of the button that opened it closes it, and nothing is decided.
    assert pressed(page) == []
    press = until_counts(page, frame, part.get_by_role("button").click)
    assert ask(page, f"decisions/{press['decision']}", {"nonce": press["nonce"]})[0] == 200
    found = decided(agents, conversation)
    assert (found["decision"], found["grant"]["scope"]) == ("pattern", "pattern")
