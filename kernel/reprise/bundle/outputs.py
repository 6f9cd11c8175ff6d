"""What a cell shows at its end, as nbformat has it, by its messages in their order (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from reprise.log.model import Json


class Message(Protocol):
    """An output as it came: of the log (`OutputEntry`) or of a client (`client.results.Output`)."""

    @property
    def type(self) -> str: ...

    @property
    def content(self) -> Mapping[str, Json]: ...


class Outputs:
    """The outputs of one cell in `list`, whatever a sandbox sent.

    displays: outputs by display id, shared by the cells of a notebook: a later one may update them.
    count: the cell's prompt number.
    """

    def __init__(self, displays: dict[str, list[dict[str, Json]]], count: int | None) -> None:
        self.list: list[dict[str, Json]] = []
        self._displays = displays
        self._count = count
        self._clear = False

    def add(self, entry: Message) -> None:
        content = entry.content
        if entry.type == "clear_output":
            self._clear = bool(content.get("wait"))
            if not self._clear:
                self.list.clear()
        elif entry.type == "stream":
            self._stream(str(content.get("name")), str(content.get("text")))
        elif entry.type in ("display_data", "execute_result", "update_display_data"):
            self._display(entry)
        elif entry.type == "error":
            lines = content.get("traceback")
            self._append(
                {
                    "output_type": "error",
                    "ename": clean(str(content.get("ename"))),
                    "evalue": clean(str(content.get("evalue"))),
                    "traceback": [
                        clean(str(line)) for line in (lines if isinstance(lines, list) else [])
                    ],
                }
            )

    def _stream(self, name: str, text: str) -> None:
        name = "stderr" if name == "stderr" else "stdout"
        last = self.list[-1] if self.list and not self._clear else None
        if last is not None and last["output_type"] == "stream" and last["name"] == name:
            last["text"] += clean(text)
        else:
            self._append({"output_type": "stream", "name": name, "text": clean(text)})

    def _display(self, entry: Message) -> None:
        data, metadata = _bundle(entry.content.get("data")), entry.content.get("metadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        transient = entry.content.get("transient")
        display = transient.get("display_id") if isinstance(transient, dict) else None
        if entry.type == "update_display_data":
            for output in self._displays.get(str(display), ()):
                output["data"], output["metadata"] = data, metadata
            return
        output = {"output_type": entry.type, "data": data, "metadata": metadata}
        if entry.type == "execute_result":
            output["execution_count"] = self._count
        if display is not None:
            self._displays.setdefault(str(display), []).append(output)
        self._append(output)

    def _append(self, output: dict[str, Json]) -> None:
        if self._clear:
            self.list.clear()
            self._clear = False
        self.list.append(output)


def _bundle(data: Json) -> dict[str, Json]:
    """A MIME bundle as nbformat takes it: JSON under JSON types, text under all others."""
    if not isinstance(data, dict):
        return {}
    return {
        str(mime): value if _is_json(str(mime)) else clean(_text(value))
        for mime, value in data.items()
    }


def _is_json(mime: str) -> bool:
    return mime == "application/json" or mime.endswith("+json")


def _text(value: Json) -> str:
    return "".join(map(str, value)) if isinstance(value, list) else str(value)


def clean(text: str) -> str:
    """Text without lone surrogates, which no file in UTF-8 can hold."""
    return text.encode("utf-8", "replace").decode("utf-8")
