"""Each kind of message of a sandbox reaches a page as what may be shown, or not at all."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

import ipywidgets
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprise.jupyter.static.bundle import ORIGINAL, ORIGINAL_BYTES, WIDGET_VIEW, static_bundle
from reprise.jupyter.static.messages import (
    Wall,
    static_comm,
    static_output,
    static_question,
    static_reply,
)
from reprise.jupyter.static.screen import Screen
from reprise.jupyter.static.terminal import plain
from reprise.jupyter.static.widgets import CONTROLS, OUTPUT, VIEWS
from reprise.log.model import Actor, NewStep, Step
from reprise.replay.comms import Comms, Model
from reprise.replay.message import Message, make
from tests.static.looking import acting
from tests.static.vectors import HTML

HINT = "ask"
XSS = "<img src=x onerror=RAN()>"


@pytest.fixture
def wall() -> Wall:
    return Wall(Comms(), HINT)


def shown(kind: str, content: dict[str, Any], wall: Wall, **more: Any) -> dict[str, Any]:
    found = static_output(make(kind, content, **more), wall)
    assert found is not None
    return found.content()


def display(data: dict[str, Any], wall: Wall, **more: Any) -> dict[str, Any]:
    return shown("display_data", {"data": data, "metadata": {}, "transient": {}, **more}, wall)


# what is displayed ------------------------------------------------------------------------------


def test_text_and_pictures_pass_as_they_are(wall: Wall) -> None:
    data = {"text/plain": "<Figure>", "image/png": "iVBORw0KGgo=\n", "application/json": {"a": [1]}}
    found = display(data, wall, metadata={"image/png": {"width": 3, "height": 4}})
    assert found["data"] == data
    assert found["metadata"] == {"image/png": {"width": 3, "height": 4}}


def test_html_is_sanitised_and_its_original_kept_beside(wall: Wall) -> None:
    found = display({"text/html": f"<b>x</b>{XSS}", "text/plain": "x"}, wall)["data"]
    assert acting(found["text/html"]) == []
    assert found["text/html"].startswith("<b>x</b><img>")
    assert "held back: scripts" in found["text/html"]
    assert found["text/plain"] == "x"
    assert found[ORIGINAL] == {
        "version": 1,
        "data": {"text/html": f"<b>x</b>{XSS}"},
        "metadata": {},
    }


def test_a_data_frame_says_nothing_of_what_nobody_misses(wall: Wall) -> None:
    html = '<style scoped>.dataframe{}</style><table class="dataframe"><tbody></tbody></table>'
    found = display({"text/html": html, "text/plain": "df"}, wall)["data"]
    assert found["text/html"] == '<table class="dataframe"><tbody></tbody></table>'
    assert found[ORIGINAL]["data"] == {"text/html": html}


@pytest.mark.parametrize(
    ("mime", "value", "said"),
    [
        ("application/javascript", "RAN()", "JavaScript"),
        ("application/vnd.plotly.v1+json", {"data": []}, "a plotly chart"),
        ("application/vnd.bokehjs_exec.v0+json", "", "a bokeh chart"),
        ("application/vnd.vegalite.v5+json", {"data": {"url": "//remote.example"}}, "a Vega chart"),
        ("application/vnd.vega.v6.1+json", {}, "a Vega chart"),
        ("application/geo+json", {}, "a map"),
        ("application/pdf", "JVBERg==", "a PDF"),
        ("application/vdom.v1+json", {"tagName": "script"}, "application/vdom.v1+json"),
        ("text/vnd.unknown", "x", "text/vnd.unknown"),
        (WIDGET_VIEW, {"model_id": "nobody's"}, "a widget"),
        ("image/png", "data:text/html,<script>", "image/png"),
        ("image/png", ["iVBO", "<script>"], "image/png"),
    ],
)
def test_what_runs_code_or_loads_is_held_back_and_said(
    mime: str, value: Any, said: str, wall: Wall
) -> None:
    found = display({mime: value, "text/plain": "<Chart>"}, wall)["data"]
    assert mime not in found
    assert found["text/html"].startswith("<pre>&lt;Chart&gt;</pre>")
    for text in (found["text/html"], found["text/plain"]):
        assert said in text
        assert HINT in text
    assert found["text/plain"].startswith("<Chart>\n[Reprise: static output; held back:")
    assert found[ORIGINAL]["data"] == {mime: value}


def test_a_picture_beside_what_is_held_back_is_shown_with_the_line_that_says_so(wall: Wall) -> None:
    plotly = "application/vnd.plotly.v1+json"
    found = display({plotly: {}, "image/png": "iVBO\n", "text/plain": "Figure"}, wall)["data"]
    assert found["image/png"] == "iVBO\n"
    assert found["text/html"].startswith('<img src="data:image/png;base64,iVBO\n">')
    assert "a plotly chart" in found["text/html"]
    drawing = "<svg xmlns='http://www.w3.org/2000/svg' onload='RAN()'/>"
    found = display({"image/svg+xml": drawing}, wall)["data"]
    kept = re.search(r"data:image/svg\+xml;base64,([A-Za-z0-9+/=]+)", found["text/html"])
    assert kept is not None
    assert base64.b64decode(kept[1]).decode() == found["image/svg+xml"]
    assert "onload" not in found["image/svg+xml"]


def test_markdown_becomes_html_where_there_is_none(wall: Wall) -> None:
    found = display({"text/markdown": "*a* [x](javascript:RAN())"}, wall)["data"]
    assert "text/markdown" not in found
    assert found["text/html"].startswith("<p><em>a</em>")
    assert acting(found["text/html"]) == []
    both = display({"text/markdown": "*a*", "text/html": "<i>a</i>"}, wall)["data"]
    assert both["text/html"] == "<i>a</i>"


def test_what_a_sandbox_calls_an_original_is_none(wall: Wall) -> None:
    found = display({ORIGINAL: {"data": {"text/html": XSS}}, "text/plain": "x"}, wall)["data"]
    assert found == {"text/plain": "x"}


def test_an_original_that_is_too_large_is_left_out(wall: Wall) -> None:
    html = "<script>1</script>" + "x" * ORIGINAL_BYTES
    found = display({"text/html": html}, wall)["data"]
    assert found[ORIGINAL] == {"version": 1, "omitted": {"text/html": len(html)}}


def test_metadata_that_make_frames_are_dropped(wall: Wall) -> None:
    asked = {"isolated": True, "text/html": {"isolated": True}, "image/png": {"width": "1 onload"}}
    found = display({"text/html": "x", "image/png": "AAAA"}, wall, metadata=asked)
    assert found["metadata"] == {}


def test_a_session_that_used_up_its_time_gets_text_and_pictures() -> None:
    found = static_bundle(
        {"text/html": "<b>x</b>", "image/png": "AAAA", "text/plain": "x"},
        {},
        Comms(),
        rich=False,
        hint=HINT,
    ).data
    assert found["image/png"] == "AAAA"
    assert "<b>x</b>" not in found["text/html"]
    assert "took too long" in found["text/html"]


@given(
    st.dictionaries(
        st.sampled_from(
            ["text/html", "text/markdown", "text/plain", "image/svg+xml", "text/latex"]
        ),
        st.one_of(
            st.sampled_from(HTML),
            st.lists(st.sampled_from(HTML), max_size=3),
            st.text(max_size=20),
            st.none(),
            st.integers(),
            st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2),
        ),
    )
)
def test_whatever_a_bundle_holds_its_html_does_nothing(data: dict[str, Any]) -> None:
    found = static_bundle(data, {"text/html": {"isolated": True}}, Comms(), hint=HINT).data
    assert acting(found.get("text/html", "")) == []
    assert isinstance(found.get("text/plain", ""), str)
    assert found.keys() <= {*data, "text/html", "text/plain", ORIGINAL}


# other messages ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind",
    ["reprise_notice", "reprise_attached", "step_reply", "execute_reply", "iopub_welcome", "x_y"],
)
def test_kinds_that_no_page_needs_do_not_pass(kind: str, wall: Wall) -> None:
    assert static_output(make(kind, {"text": XSS}), wall) is None


def test_streams_and_errors_are_text_without_terminal_commands(wall: Wall) -> None:
    clipboard = "\x1b]52;c;cm0gLXJm\x07"
    link = "\x1b]8;;https://remote.example\x1b\\bank\x1b]8;;\x1b\\"
    red = "\x1b[31mred\x1b[0m"
    found = shown("stream", {"name": "stdout", "text": f"{clipboard}{link}{red}\x1b[2J"}, wall)
    assert found == {"name": "stdout", "text": f"bank{red}\x1b[2J"}
    found = shown("error", {"ename": clipboard, "evalue": XSS, "traceback": [red, 3, link]}, wall)
    assert found == {"ename": "", "evalue": XSS, "traceback": [red, "", "bank"]}


@given(st.text(alphabet="\x1b\x9b\x9d\x90[]0;m52c\\\x07P_^ aJ", max_size=40))
def test_no_control_sequence_but_colours_and_moves_is_left(text: str) -> None:
    found = plain(text)
    assert plain(found) == found
    assert not re.search(r"[\x80-\x9f]", found)
    assert "\x1b" not in re.sub(r"\x1b\[[0-9;:]*[mABCDEFGKJ]", "", found)


def test_a_status_keeps_nothing_but_its_state(wall: Wall) -> None:
    assert shown("status", {"execution_state": "idle", "x": XSS}, wall) == {
        "execution_state": "idle"
    }
    assert static_output(make("status", {"execution_state": XSS}), wall) is None


def test_a_question_is_plain_text() -> None:
    found = static_question(make("input_request", {"prompt": "\x1b]0;x\x07n? ", "password": "yes"}))
    assert found.content() == {"prompt": "n? ", "password": False}


def test_code_for_the_notebook_and_pages_of_html_are_held_back(wall: Wall) -> None:
    page = {"source": "page", "data": {"text/html": XSS, "text/plain": "help"}, "start": 0}
    cell = {"source": "set_next_input", "text": "evil()", "replace": True}
    exits = {"source": "ask_exit", "keepkernel": False}
    content = {
        "status": "ok",
        "execution_count": 3,
        "user_expressions": {"a": {"status": "ok", "data": {"text/html": XSS}, "metadata": {}}},
        "payload": [page, cell, exits, {"source": "edit_magic", "filename": "/etc/passwd"}, 7],
    }
    message, held = static_reply(make("execute_reply", content), wall)
    found = message.content()
    assert found["payload"] == [{"source": "page", "data": {"text/plain": "help"}, "start": 0}]
    assert found["user_expressions"]["a"]["data"] == {"text/html": "<img>"}
    assert held == ("text for a cell of the notebook (set_next_input)", "a payload")


def test_the_answer_to_a_cell_of_an_agent_is_measured_as_well(wall: Wall) -> None:
    result = {"status": "ok", "payload": [{"source": "set_next_input", "text": "x"}]}
    content = {"status": "ok", "seq": 3, "outcome": "ok", "result": result}
    message, held = static_reply(make("step_reply", content), wall)
    assert message.content()["result"]["payload"] == []
    assert message.content()["seq"] == 3
    assert held


def test_what_is_inspected_completed_and_linked_in_help_is_measured(wall: Wall) -> None:
    inspect = {"status": "ok", "found": True, "data": {"text/html": XSS}, "metadata": {}}
    assert _reply("inspect_reply", inspect, wall)["data"] == {"text/html": "<img>"}
    complete = {
        "status": "ok",
        "matches": ["a", {"x": XSS}],
        "cursor_start": 0,
        "cursor_end": 1,
        "metadata": {"_jupyter_types_experimental": [{"text": "a", "html": XSS}], "x": XSS},
    }
    found = _reply("complete_reply", complete, wall)
    assert found["matches"] == ["a"]
    assert found["metadata"] == {"_jupyter_types_experimental": [{"text": "a"}]}
    info = {
        "help_links": [
            {"text": "x", "url": "javascript:RAN()"},
            {"text": "y", "url": "https://a.b"},
        ],
        "banner": "\x1b]0;x\x07hello",
        "language_info": {"name": "python", "nbconvert_exporter": "os.path", "version": "3.11.2"},
    }
    found = _reply("kernel_info_reply", info, wall)
    assert found["help_links"] == [{"text": "y", "url": "https://a.b"}]
    assert found["banner"] == "hello"
    assert found["language_info"] == {"name": "python", "version": "3.11.2"}
    debug = {"type": "response", "body": {"data": {"text/html": XSS}, "metadata": {}}}
    assert _reply("debug_reply", debug, wall)["body"]["data"] == {"text/html": "<img>"}


def _reply(kind: str, content: dict[str, Any], wall: Wall) -> dict[str, Any]:
    return static_reply(make(kind, content), wall)[0].content()


# the screen --------------------------------------------------------------------------------------


def _step(actor: Actor) -> Step:
    return Step(0, 0, NewStep("cell", {}, "0" * 64, 0, actor), b"")


def test_messages_of_the_kernels_own_never_come_from_a_sandbox() -> None:
    screen = Screen("live", "default", Comms)
    for kind in ("reprise_notice", "reprise_attached", "reprise_progress", "step_reply"):
        assert screen.output(make(kind, {})) is None
    answer, _ = screen.reply(make("step_reply", {"status": "ok"}), "execute_request")
    assert answer.msg_type == json.loads(answer.raw_header)["msg_type"] == "execute_reply"


def test_before_an_agent_acts_every_message_passes_untouched() -> None:
    screen = Screen("auto", "default", Comms)
    message = make("display_data", {"data": {"text/html": XSS}})
    reply = make("execute_reply", {"payload": [{"source": "set_next_input"}]})
    screen.accepted(_step(Actor("user")))
    assert screen.output(message) is message
    assert screen.reply(reply, "execute_request") == (reply, None)
    screen.accepted(_step(Actor("agent", "c", 1)))
    written = screen.output(message)
    assert written is not None
    assert acting(written.content()["data"]["text/html"]) == []
    assert "`" not in written.content()["data"]["text/html"]
    assert "reprise env output default live" in written.content()["data"]["text/html"]
    told, before = screen.reply(reply, "execute_request")
    assert told.content()["payload"] == []
    assert before is not None
    assert "set_next_input" in before.content()["text"]


def test_outputs_that_take_too_long_use_up_what_a_session_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("reprise.jupyter.static.screen.BUDGET_S", 1e-9)
    screen = Screen("static", "default", Comms)
    message = make("display_data", {"data": {"text/html": "<b>x</b>", "text/plain": "x"}})
    first, second = screen.output(message), screen.output(message)
    assert first is not None
    assert first.content()["data"]["text/html"] == "<b>x</b>"
    assert second is not None
    assert "<b>" not in second.content()["data"]["text/html"]
    assert "took too long" in second.content()["data"]["text/html"]


def test_a_message_that_cannot_be_read_is_held_back() -> None:
    screen = Screen("static", "default", Comms)
    good = make("display_data", {})
    bad = Message(good.header, good.raw_header, good.raw_parent, b"{}", b"[]")
    assert screen.output(bad) is None
    reply = make("execute_reply", {})
    bad = Message(reply.header, reply.raw_header, reply.raw_parent, b"{}", b"[")
    assert screen.reply(bad, "execute_request")[0].content()["status"] == "error"


_JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(st.characters(), max_size=8),
        st.sampled_from(
            [*HTML[:20], "ok", "page", "update", "IPY_MODEL_s", "value", "static", "x"]
        ),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.one_of(
                st.sampled_from(
                    [
                        *("data", "metadata", "transient", "payload", "user_expressions", "state"),
                        *("text/html", "text/markdown", "image/svg+xml", "text/plain", WIDGET_VIEW),
                        *("method", "states", "buffer_paths", "status", "execution_state", "name"),
                        *(
                            "comm_id",
                            "target_name",
                            "_model_name",
                            "_model_module",
                            "value",
                            "text",
                        ),
                        *("traceback", "matches", "comms", "help_links", "language_info", "source"),
                        *("output_type", "outputs", "children", "target", "layout", "content"),
                    ]
                ),
                st.text(max_size=4),
            ),
            inner,
            max_size=5,
        ),
    ),
    max_leaves=20,
)
_KINDS = [
    *("status", "execute_input", "stream", "display_data", "execute_result", "error"),
    *("update_display_data", "clear_output", "comm_open", "comm_msg", "comm_close", "debug_event"),
    *("execute_reply", "inspect_reply", "complete_reply", "comm_info_reply", "kernel_info_reply"),
    *("debug_reply", "step_reply"),
]


@given(st.sampled_from(_KINDS), st.dictionaries(st.text(max_size=6), _JSON), _JSON, _JSON)
def test_whatever_a_message_holds_the_router_goes_on(
    kind: str, content: dict[str, Any], data: Any, state: Any
) -> None:
    screen = Screen("static", "default", Comms)
    whole = {**content, "data": data, "comm_id": "s", "state": state, "payload": state}
    header = make(kind, {}).header
    raw = json.dumps(whole).encode()
    message = Message(header, json.dumps(header).encode(), b"{}", b"{}", raw, (b"1",))
    if kind.endswith("_reply"):
        answer, _ = screen.reply(message, kind.removesuffix("_reply") + "_request")
        assert answer.content() is not None
    else:
        found = screen.output(message)
        assert found is None or isinstance(found.content(), dict)


# widgets -----------------------------------------------------------------------------------------


def test_the_table_of_widgets_is_that_of_ipywidgets() -> None:
    registry = ipywidgets.widgets.widget._registry._registry
    real = {
        Model(module, name): (view_module, view)
        for module, versions in registry.items()
        for names in versions.values()
        for name, view_modules in names.items()
        for view_module, view_versions in view_modules.items()
        for views in view_versions.values()
        for view in views
        if module.startswith("@jupyter-widgets/")
    }
    for model, view in VIEWS.items():
        assert real[model] == view, model
    held = {model.name for model in real.keys() - VIEWS.keys()}
    assert held == {
        "ControllerModel",
        "ControllerButtonModel",
        "ControllerAxisModel",
        "DOMWidgetModel",
    }


def _open(
    wall: Wall,
    comm: str,
    model: str,
    module: str = CONTROLS,
    buffers: tuple[bytes, ...] = (),
    paths: tuple[Any, ...] = (),
    **state: Any,
) -> dict[str, Any] | None:
    own = {"_model_module": module, "_model_name": model, **state}
    content = {
        "comm_id": comm,
        "target_name": "jupyter.widget",
        "target_module": "https://remote.example/x.js",
        "data": {"state": own, "buffer_paths": list(paths)},
    }
    wall.comms.opened(content)
    found = static_comm(make("comm_open", content, buffers=buffers), wall)
    if found is None:
        return None
    assert "target_module" not in found.content()
    state_sent: dict[str, Any] = found.content()["data"]["state"]
    return state_sent


def _update(wall: Wall, comm: str, **state: Any) -> dict[str, Any] | None:
    content = {"comm_id": comm, "data": {"method": "update", "state": state}}
    found = static_comm(make("comm_msg", content), wall)
    return None if found is None else found.content()["data"]["state"]


def test_a_slider_passes_and_its_view_can_be_displayed(wall: Wall) -> None:
    state = _open(
        wall,
        "s",
        "IntSliderModel",
        _view_module=CONTROLS,
        _view_name="IntSliderView",
        _model_module_version="2.0.0",
        value=3,
        description="drag",
        description_allow_html=True,
    )
    assert state == {
        "_model_module": CONTROLS,
        "_model_name": "IntSliderModel",
        "_view_module": CONTROLS,
        "_view_name": "IntSliderView",
        "_model_module_version": "2.0.0",
        "value": 3,
        "description": "drag",
        "description_allow_html": False,
    }
    assert _update(wall, "s", value=4) == {"value": 4}
    found = display({WIDGET_VIEW: {"model_id": "s", "x": XSS}, "text/plain": "IntSlider"}, wall)
    assert found["data"][WIDGET_VIEW] == {
        "version_major": 2,
        "version_minor": 0,
        "model_id": "s",
    }


@pytest.mark.parametrize(
    ("module", "model"),
    [
        ("anywidget", "AnyModel"),
        ("jupyter-leaflet", "LeafletMapModel"),
        (CONTROLS, "ControllerModel"),
        (CONTROLS, "NoSuchModel"),
        ("https://remote.example/x", "IntSliderModel"),
        ("__proto__", "x"),
    ],
)
def test_other_widgets_are_not_opened_and_say_so(module: str, model: str, wall: Wall) -> None:
    assert _open(wall, "a", model, module, _esm="RAN()") is None
    assert _update(wall, "a", _esm="RAN()") is None
    found = display({WIDGET_VIEW: {"model_id": "a"}, "text/plain": "A()"}, wall)["data"]
    assert WIDGET_VIEW not in found
    assert f"a widget of {module}".replace("<", "&lt;") in found["text/html"]


def test_a_view_of_another_model_cannot_be_borrowed(wall: Wall) -> None:
    """A Text's value is put into an input; under an HTML's view it would be HTML."""
    state = _open(wall, "t", "TextModel", _view_module=CONTROLS, _view_name="HTMLView", value=XSS)
    assert state is not None
    assert state["_view_name"] == "TextView"
    assert _update(wall, "t", _view_name="HTMLView") == {"_view_name": "TextView"}


@pytest.mark.parametrize("value", [XSS, [XSS], {"x": XSS}, 3, None])
@pytest.mark.parametrize("model", ["HTMLModel", "HTMLMathModel"])
def test_values_that_are_html_are_sanitised(model: str, value: Any, wall: Wall) -> None:
    state = _open(wall, "h", model, value=value)
    assert state is not None
    assert state["value"] in ("<img>", "")
    changed = _update(wall, "h", value=value)
    assert changed is not None
    assert changed["value"] in ("<img>", "")


def test_values_that_are_css_load_nothing(wall: Wall) -> None:
    loads = "url(https://remote.example/x)"
    state = _open(
        wall, "st", "HTMLStyleModel", background=loads, text_color="red", font_size=[loads]
    )
    assert state is not None
    assert (state["background"], state["text_color"], state["font_size"]) == (None, "red", None)
    areas = '"header header" "left right"'
    layout = _open(
        wall, "l", "LayoutModel", "@jupyter-widgets/base", grid_template_areas=areas, width="50%",
        border_top="1px solid red", height="calc(100% - 3px)", top=f"{loads}",
    )  # fmt: skip
    assert layout is not None
    assert layout["grid_template_areas"] == areas
    assert (layout["width"], layout["height"], layout["top"]) == ("50%", "calc(100% - 3px)", None)


def test_an_output_widget_shows_static_output(wall: Wall) -> None:
    outputs = [
        {"output_type": "display_data", "data": {"text/html": XSS}, "metadata": {"isolated": True}},
        {"output_type": "stream", "name": "stdout", "text": "x\x1b]0;x\x07"},
        {"output_type": "update_display_data", "data": {}},
        "x",
    ]
    state = _open(wall, "o", "OutputModel", OUTPUT, outputs=outputs)
    assert state is not None
    first, second = state["outputs"]
    assert acting(first["data"]["text/html"]) == []
    assert first["metadata"] == {}
    assert second == {"output_type": "stream", "name": "stdout", "text": "x"}


def test_pictures_are_bytes_and_no_addresses(wall: Wall) -> None:
    state = _open(
        wall, "i", "ImageModel", format="url", buffers=(b"//remote.example",), paths=(["value"],)
    )
    assert state is not None
    assert state["format"] == ""
    content = {"comm_id": "i", "data": {"method": "update", "state": {"format": "png"},
               "buffer_paths": [["value"], ["__proto__", "x"], ["format"]]}}  # fmt: skip
    found = static_comm(make("comm_msg", content, buffers=[b"1", b"2", b"3"]), wall)
    assert found is not None
    assert found.buffers == (b"1",)
    assert found.content()["data"]["buffer_paths"] == [["value"]]


def test_bytes_go_nowhere_else(wall: Wall) -> None:
    state = _open(wall, "h", "HTMLModel", buffers=(XSS.encode(),), paths=(["value"],))
    assert state == {"_model_module": CONTROLS, "_model_name": "HTMLModel"}


def test_links_between_numbers_pass_and_others_do_not(wall: Wall) -> None:
    for comm, model in (
        ("a", "IntSliderModel"),
        ("b", "PlayModel"),
        ("t", "TextModel"),
        ("h", "HTMLModel"),
    ):
        assert _open(wall, comm, model) is not None
    good = {"source": ["IPY_MODEL_b", "value"], "target": ["IPY_MODEL_a", "value"]}
    assert _open(wall, "l", "LinkModel", **good) is not None
    bad = {"source": ["IPY_MODEL_t", "value"], "target": ["IPY_MODEL_h", "value"]}
    assert _open(wall, "m", "DirectionalLinkModel", **bad) is None
    assert (
        _open(wall, "n", "LinkModel", **{**good, "target": ["IPY_MODEL_a", "_view_name"]}) is None
    )
    assert _update(wall, "l", target=bad["target"]) == {"target": None}
    assert _update(wall, "m", **good) is None


def test_a_box_holds_the_children_that_the_page_has(wall: Wall) -> None:
    _open(wall, "a", "IntSliderModel")
    _open(wall, "x", "AnyModel", "anywidget")
    state = _open(
        wall, "v", "VBoxModel", children=["IPY_MODEL_a", "IPY_MODEL_x", "IPY_MODEL_?", XSS],
        layout="IPY_MODEL_x", _dom_classes=["jp-Dialog"], __proto__={"x": 1},
    )  # fmt: skip
    assert state is not None
    assert state["children"] == ["IPY_MODEL_a"]
    assert state["layout"] is None
    assert state["_dom_classes"] == []
    assert "__proto__" not in state


def test_a_page_that_is_opened_anew_gets_the_states_it_may_have(wall: Wall) -> None:
    _open(wall, "h", "HTMLModel")
    _open(wall, "i", "ImageModel")
    _open(wall, "x", "AnyModel", "anywidget")
    states = {
        "h": {"model_name": "HTMLModel", "model_module": CONTROLS, "state": {"value": XSS}},
        "i": {"model_name": "HTMLModel", "model_module": CONTROLS, "state": {"format": "png"}},
        "x": {"model_name": "AnyModel", "model_module": "anywidget", "state": {"_esm": "RAN()"}},
        "?": {"model_name": "HTMLModel", "model_module": CONTROLS, "state": {"value": XSS}},
    }
    data = {
        "method": "update_states",
        "states": states,
        "buffer_paths": [["x", "_esm"], ["i", "value"], ["h", "value"]],
    }
    message = make("comm_msg", {"comm_id": "control", "data": data}, buffers=[b"1", b"2", b"3"])
    found = static_comm(message, wall)
    assert found is not None
    sent = found.content()["data"]
    assert sent["states"].keys() == {"h", "i"}
    assert sent["states"]["h"]["state"]["value"] == "<img>"
    assert sent["states"]["i"]["model_name"] == "ImageModel"
    assert (sent["buffer_paths"], found.buffers) == ([["i", "value"]], (b"2",))
    info = {"status": "ok", "comms": {"h": {"target_name": XSS}, "x": {}, "?": {}}}
    assert _reply("comm_info_reply", info, wall)["comms"] == {
        "h": {"target_name": "jupyter.widget"}
    }


def test_only_focus_is_a_message_of_a_widgets_own(wall: Wall) -> None:
    _open(wall, "s", "IntSliderModel")
    for content, passes in (({"do": "focus"}, True), ({"do": XSS}, False), ({"x": "RAN()"}, False)):
        data = {"method": "custom", "content": content}
        found = static_comm(make("comm_msg", {"comm_id": "s", "data": data}), wall)
        assert (found is not None) is passes


def test_other_comms_are_closed_to_the_page(wall: Wall) -> None:
    content = {"comm_id": "c", "target_name": "hv-extension-comm", "data": {}}
    wall.comms.opened(content)
    assert static_comm(make("comm_open", content), wall) is None
    assert static_comm(make("comm_msg", {"comm_id": "c", "data": {"x": "RAN()"}}), wall) is None
