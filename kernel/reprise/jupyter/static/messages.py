"""What of a sandbox's Jupyter messages reaches clients while output is static (pure).

Each kind of message that a client may get is written anew from what it may hold; every other kind
is held back. The log has the messages as they came.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from reprise.jupyter.static import widgets
from reprise.jupyter.static.bundle import held_line, static_bundle
from reprise.jupyter.static.terminal import plain
from reprise.log.model import Json, canonical
from reprise.replay.comms import Comms, Model, model_of
from reprise.replay.message import Message, make, parse_object

#: As ipykernel writes most of its messages; they need no look inside.
_USUAL_STATUS: Final = frozenset(
    f'{{"execution_state": "{state}"}}'.encode() for state in ("busy", "idle", "starting")
) | frozenset(f'{{"execution_state":"{state}"}}'.encode() for state in ("busy", "idle", "starting"))

_STATES: Final = frozenset({"busy", "idle", "starting", "restarting", "dead"})
_WORD: Final = re.compile(r"[A-Za-z0-9_.+/-]{0,100}")
_LINK: Final = re.compile(r"https?://[A-Za-z0-9\[][^\s\"'<>\\]{0,2000}")


@dataclass(frozen=True)
class Wall:
    """What a message is measured by.

    comms: the comms of the language kernel.  hint: how to allow what is held back.
    rich: see `bundle.static_bundle`.
    """

    comms: Comms
    hint: str
    rich: bool = True


def static_output(message: Message, wall: Wall) -> Message | None:
    """An iopub message as pages get it; None when they do not. Raises Malformed."""
    kind = message.msg_type
    if kind == "status" and message.raw_content in _USUAL_STATUS:
        return _without_metadata(message)
    write = _WRITERS.get(kind)
    if write is None:
        return None
    written = write(message.content(), wall)
    if written is None:
        return None
    return replace(_without_metadata(message), raw_content=canonical(written), buffers=())


def static_comm(message: Message, wall: Wall) -> Message | None:
    """A widget's message as pages get it; None when they do not. Raises Malformed."""
    content = message.content()
    comm = content.get("comm_id")
    if not isinstance(comm, str):
        return None
    data = content.get("data")
    data = data if isinstance(data, dict) else {}
    if message.msg_type == "comm_close":
        return _comm(message, {"comm_id": comm, "data": {}}, ())
    if message.msg_type == "comm_open":
        return _comm_open(message, content, comm, data, wall)
    method = data.get("method")
    if method in ("update", "echo_update"):
        state = _object(data.get("state"))
        model = widgets.model_of_update(wall.comms, comm, state)
        if model is None:
            return None
        written, paths, buffers = _state(model, state, data, message.buffers, wall)
        sent = {"method": method, "state": written, "buffer_paths": paths}
        return _comm(message, {"comm_id": comm, "data": sent}, buffers)
    if method == "update_states":
        return _comm_states(message, comm, data, wall)
    focuses = method == "custom" and data.get("content") in ({"do": "focus"}, {"do": "blur"})
    if focuses and widgets.on_page(wall.comms, comm):
        sent = {"method": "custom", "content": data["content"]}
        return _comm(message, {"comm_id": comm, "data": sent}, ())
    return None


def static_reply(message: Message, wall: Wall) -> tuple[Message, tuple[str, ...]]:
    """A reply as its client gets it, and what was held back. Raises Malformed."""
    kind = message.msg_type
    if kind not in _REPLIES and kind != "step_reply":
        return message, ()
    content = message.content()
    held: tuple[str, ...] = ()
    if kind == "execute_reply":
        content, held = _execute_reply(content, wall)
    elif kind == "step_reply":
        # Ours; only what a cell answered came out of the sandbox.
        result = content.get("result")
        if isinstance(result, dict) and ("payload" in result or "user_expressions" in result):
            content["result"], held = _execute_reply(result, wall)
    else:
        content = _REPLIES[kind](content, wall)
    return replace(message, raw_content=canonical(content), buffers=()), held


def static_question(message: Message) -> Message:
    """An input_request. Raises Malformed."""
    content = message.content()
    asked = {"prompt": _text(content.get("prompt")), "password": content.get("password") is True}
    return replace(message, raw_content=canonical(asked), raw_metadata=b"{}", buffers=())


def held_back(held: tuple[str, ...], wall: Wall, parent: bytes) -> Message:
    """Says in a cell's output what its reply held that was not passed on."""
    text = held_line(held, wall.hint)
    return make("stream", {"name": "stderr", "text": f"{text}\n"}, parent=parent)


# iopub ----------------------------------------------------------------------------------------


def _status(content: dict[str, Any], _: Wall) -> dict[str, Json] | None:
    state = content.get("execution_state")
    return {"execution_state": state} if isinstance(state, str) and state in _STATES else None


def _input(content: dict[str, Any], _: Wall) -> dict[str, Json]:
    return {"code": str(content.get("code", "")), "execution_count": _count(content)}


def _stream(content: dict[str, Any], _: Wall) -> dict[str, Json]:
    name = "stderr" if content.get("name") == "stderr" else "stdout"
    return {"name": name, "text": _text(content.get("text"))}


def _error(content: dict[str, Any], _: Wall) -> dict[str, Json]:
    lines = content.get("traceback")
    return {
        "ename": _text(content.get("ename")),
        "evalue": _text(content.get("evalue")),
        "traceback": [_text(line) for line in _list(lines)],
    }


def _display(content: dict[str, Any], wall: Wall) -> dict[str, Json]:
    found = static_bundle(
        content.get("data"), content.get("metadata"), wall.comms, rich=wall.rich, hint=wall.hint
    )
    shown: dict[str, Json] = {"data": found.data, "metadata": found.metadata, "transient": {}}
    display = _object(content.get("transient")).get("display_id")
    if isinstance(display, str):
        shown["transient"] = {"display_id": display}
    return shown


def _result(content: dict[str, Any], wall: Wall) -> dict[str, Json]:
    return {**_display(content, wall), "execution_count": _count(content)}


def _clear(content: dict[str, Any], _: Wall) -> dict[str, Json]:
    return {"wait": content.get("wait") is True}


def _debug_event(content: dict[str, Any], _: Wall) -> dict[str, Json] | None:
    """Events of the debugger's protocol: names, numbers and texts that pages show as text."""
    return content if content.get("type") == "event" else None


_WRITERS: Final[Mapping[str, Callable[[dict[str, Any], Wall], dict[str, Json] | None]]] = {
    "status": _status,
    "execute_input": _input,
    "stream": _stream,
    "error": _error,
    "display_data": _display,
    "update_display_data": _display,
    "execute_result": _result,
    "clear_output": _clear,
    "debug_event": _debug_event,
}


# widgets --------------------------------------------------------------------------------------


def _comm_open(
    message: Message, content: dict[str, Any], comm: str, data: dict[str, Any], wall: Wall
) -> Message | None:
    model = model_of(content)
    state = _object(data.get("state"))
    if (
        not widgets.allowed(model)
        or model is None
        or widgets.refused_open(model, state, wall.comms)
    ):
        wall.comms.refused.add(comm)
        return None
    written, paths, buffers = _state(model, state, data, message.buffers, wall)
    opened = {"comm_id": comm, "target_name": content["target_name"]}
    return _comm(message, {**opened, "data": {"state": written, "buffer_paths": paths}}, buffers)


def _comm_states(message: Message, comm: str, data: dict[str, Any], wall: Wall) -> Message | None:
    """The states of all widgets, for a page that is opened anew; it asks over a comm of its own."""
    written: dict[str, Json] = {}
    paths: list[Json] = []
    buffers: list[bytes] = []
    asked = data.get("buffer_paths")
    pairs = list(zip(asked, message.buffers, strict=False)) if isinstance(asked, list) else []
    for name, about in _object(data.get("states")).items():
        state = _object(_object(about).get("state"))
        model = wall.comms.models.get(name)
        if model is None or not widgets.on_page(wall.comms, name):
            continue
        if widgets.refused_open(model, state, wall.comms):
            continue
        own = [
            (path[1:], buffer)
            for path, buffer in pairs
            if isinstance(path, list) and path[:1] == [name]
        ]
        within = {"buffer_paths": [path for path, _ in own]}
        kept, own_paths, own_buffers = _state(
            model, state, within, tuple(buffer for _, buffer in own), wall
        )
        version = _object(about).get("model_module_version")
        version = version if isinstance(version, str) and _WORD.fullmatch(version) else ""
        written[name] = {
            "model_name": model.name,
            "model_module": model.module,
            "model_module_version": version,
            "state": kept,
        }
        paths += [[name, *path] for path in own_paths]
        buffers += own_buffers
    sent = {"method": "update_states", "states": written, "buffer_paths": paths}
    return _comm(message, {"comm_id": comm, "data": sent}, tuple(buffers))


def _state(
    model: Model,
    state: dict[str, Any],
    data: Mapping[str, Json],
    buffers: tuple[bytes, ...],
    wall: Wall,
) -> tuple[dict[str, Json], list[Json], tuple[bytes, ...]]:
    written = widgets.static_state(model, state, wall.comms, lambda value: _outputs(value, wall))
    paths, kept = widgets.kept_buffers(model, state, data.get("buffer_paths"), buffers)
    return written, paths, tuple(kept)


def _outputs(value: Json, wall: Wall) -> list[Json]:
    """The outputs that an Output widget shows, in the form of notebooks."""
    kept: list[Json] = []
    for output in _list(value):
        if not isinstance(output, dict):
            continue
        kind = output.get("output_type")
        if kind in ("stream", "error", "display_data", "execute_result"):
            written = _WRITERS[kind](output, wall)
            if written is not None:
                written.pop("transient", None)
                kept.append({"output_type": kind, **written})
    return kept


def _comm(message: Message, content: dict[str, Json], buffers: tuple[bytes, ...]) -> Message:
    version = parse_object(message.raw_metadata, "metadata").get("version")
    metadata = {"version": version} if isinstance(version, str) and _WORD.fullmatch(version) else {}
    return replace(
        message,
        raw_content=canonical(content),
        raw_metadata=canonical(metadata),
        buffers=buffers,
    )


# replies --------------------------------------------------------------------------------------


def _execute_reply(content: dict[str, Any], wall: Wall) -> tuple[dict[str, Json], tuple[str, ...]]:
    """Payloads put text and HTML into pages and code into notebooks: plain text to read stays."""
    status = content.get("status")
    reply: dict[str, Json] = {"status": status if status in ("ok", "error", "aborted") else "error"}
    if "execution_count" in content:
        reply["execution_count"] = _count(content)
    if reply["status"] == "error" or "ename" in content:
        reply |= _error(content, wall)
    expressions = _object(content.get("user_expressions"))
    reply["user_expressions"] = {
        name: _error(value, wall) | {"status": "error"}
        if value.get("status") != "ok"
        else {"status": "ok", **_inner(value, wall)}
        for name, value in expressions.items()
        if isinstance(value, dict)
    }
    held: list[str] = []
    pages: list[Json] = []
    for payload in _list(content.get("payload")):
        source = payload.get("source") if isinstance(payload, dict) else None
        if source == "page":
            text = _text(_object(payload.get("data")).get("text/plain"))
            pages.append({"source": "page", "data": {"text/plain": text}, "start": 0})
        elif source == "set_next_input":
            held.append("text for a cell of the notebook (set_next_input)")
        elif source != "ask_exit":
            held.append("a payload")
    reply["payload"] = pages
    return reply, tuple(dict.fromkeys(held))


def _inner(content: dict[str, Any], wall: Wall) -> dict[str, Json]:
    """A bundle that a page shows at once and keeps nowhere."""
    found = static_bundle(content.get("data"), content.get("metadata"), wall.comms, rich=wall.rich)
    return {"data": found.data, "metadata": found.metadata}


def _inspect_reply(content: dict[str, Any], wall: Wall) -> dict[str, Json]:
    if content.get("status") != "ok":
        return {"status": "error", **_error(content, wall)}
    return {"status": "ok", "found": content.get("found") is True, **_inner(content, wall)}


def _complete_reply(content: dict[str, Any], wall: Wall) -> dict[str, Json]:
    if content.get("status") != "ok":
        return {"status": "error", **_error(content, wall)}
    types = _object(content.get("metadata")).get("_jupyter_types_experimental")
    described = [
        {name: each[name] for name in _COMPLETION if isinstance(each.get(name), str | int)}
        for each in _list(types)
        if isinstance(each, dict)
    ]
    return {
        "status": "ok",
        "matches": [each for each in _list(content.get("matches")) if isinstance(each, str)],
        "cursor_start": _count(content, "cursor_start"),
        "cursor_end": _count(content, "cursor_end"),
        "metadata": {"_jupyter_types_experimental": described} if described else {},
    }


_COMPLETION: Final = ("start", "end", "text", "type", "signature")


def _comm_info_reply(content: dict[str, Any], wall: Wall) -> dict[str, Json]:
    there = _object(content.get("comms"))
    known = [name for name in there if widgets.on_page(wall.comms, name)]
    return {"status": "ok", "comms": {name: {"target_name": "jupyter.widget"} for name in known}}


def _kernel_info_reply(content: dict[str, Any], _: Wall) -> dict[str, Json]:
    """Links go into the page's Help menu; an exporter's name is imported by nbconvert."""
    info = dict(content)
    links = content.get("help_links")
    info["help_links"] = [
        {"text": str(each.get("text", "")), "url": each["url"]}
        for each in _list(links)
        if isinstance(each, dict) and isinstance(each.get("url"), str)
        and _LINK.fullmatch(each["url"])
    ]  # fmt: skip
    info["banner"] = _text(content.get("banner"))
    language = _object(content.get("language_info"))
    info["language_info"] = {
        name: value
        for name, value in language.items()
        if (isinstance(value, str) and _WORD.fullmatch(value) and "." not in value)
        or name in ("version", "file_extension", "codemirror_mode")
    }
    return info


def _debug_reply(content: dict[str, Any], wall: Wall) -> dict[str, Json]:
    """The one answer that pages render is a variable's bundle."""
    body = content.get("body")
    if not isinstance(body, dict) or not isinstance(body.get("data"), dict):
        return content
    return {**content, "body": {**body, **_inner(body, wall)}}


_REPLIES: Final[Mapping[str, Callable[[dict[str, Any], Wall], dict[str, Json]]]] = {
    "execute_reply": lambda content, wall: _execute_reply(content, wall)[0],
    "inspect_reply": _inspect_reply,
    "complete_reply": _complete_reply,
    "comm_info_reply": _comm_info_reply,
    "kernel_info_reply": _kernel_info_reply,
    "debug_reply": _debug_reply,
}


# parts ----------------------------------------------------------------------------------------


def _without_metadata(message: Message) -> Message:
    return message if message.raw_metadata == b"{}" else replace(message, raw_metadata=b"{}")


def _object(value: Json) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Json) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Json) -> str:
    if isinstance(value, list):
        value = "".join(line for line in value if isinstance(line, str))
    return plain(value) if isinstance(value, str) else ""


def _count(content: Mapping[str, Json], name: str = "execution_count") -> int | None:
    value = content.get(name)
    return value if type(value) is int else None
