"""Which widgets static output has, and what of their states reaches a page (pure).

A widget's model decides which view draws it, and a few views put a text into the page as HTML or
CSS. So models are allowed by name, each with the view that is its own, and those texts are
sanitised. What is not in the table may run code of its author's (anywidget: of the cell's).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from reprise.jupyter.static import styles, tex
from reprise.jupyter.static.sanitise import NotShown, sanitise_html
from reprise.jupyter.static.words import words
from reprise.log.model import Json
from reprise.replay.comms import Comms, Model, model_named

BASE: Final = "@jupyter-widgets/base"
CONTROLS: Final = "@jupyter-widgets/controls"
OUTPUT: Final = "@jupyter-widgets/output"

#: Models whose view is named as they are: XModel, XView.
_NAMED_AS_VIEW: Final = words(
    """
    Accordion Audio Box Button Checkbox ColorPicker ColorsInput Combobox DatePicker Datetime
    Dropdown FileUpload FloatLogSlider FloatRangeSlider FloatSlider FloatText FloatsInput GridBox
    HBox HTML HTMLMath Image IntRangeSlider IntSlider IntText IntsInput Label Password Play
    RadioButtons Select SelectMultiple SelectionRangeSlider SelectionSlider Stack Tab TagsInput Text
    Textarea Time ToggleButton ToggleButtons VBox Valid Video
"""
)
_STYLES: Final = words(
    """
    ButtonStyle CheckboxStyle DescriptionStyle HTMLMathStyle HTMLStyle LabelStyle ProgressStyle
    SliderStyle TextStyle ToggleButtonStyle ToggleButtonsStyle
"""
)
_LINKS: Final = frozenset({"LinkModel", "DirectionalLinkModel"})

#: (module, view) of each model that static output has; view None: it draws nothing.
#: Not among them: Controller, which reads the person's game pad.
VIEWS: Final[Mapping[Model, tuple[str, str | None]]] = {
    **{Model(CONTROLS, f"{name}Model"): (CONTROLS, f"{name}View") for name in _NAMED_AS_VIEW},
    **{Model(CONTROLS, f"{name}Model"): (BASE, "StyleView") for name in _STYLES},
    **{Model(CONTROLS, name): (CONTROLS, None) for name in _LINKS},
    Model(CONTROLS, "BoundedFloatTextModel"): (CONTROLS, "FloatTextView"),
    Model(CONTROLS, "BoundedIntTextModel"): (CONTROLS, "IntTextView"),
    Model(CONTROLS, "FloatProgressModel"): (CONTROLS, "ProgressView"),
    Model(CONTROLS, "IntProgressModel"): (CONTROLS, "ProgressView"),
    Model(CONTROLS, "NaiveDatetimeModel"): (CONTROLS, "DatetimeView"),
    Model(BASE, "LayoutModel"): (BASE, "LayoutView"),
    Model(OUTPUT, "OutputModel"): (OUTPUT, "OutputView"),
}

_HTML: Final = frozenset({"HTMLModel", "HTMLMathModel"})
_CSS: Final = frozenset({"LayoutModel", *(f"{name}Model" for name in _STYLES)})
_MEDIA: Final = frozenset({"ImageModel", "VideoModel", "AudioModel"})
_BYTES: Final = _MEDIA | {"FileUploadModel"}
#: What pages may link to each other by themselves: values that are numbers, or on and off. (A link
#: from a Text to an HTML would put on the page what nobody has looked at.)
_LINKED: Final = frozenset(
    f"{name}Model"
    for name in words(
        """
        BoundedFloatText BoundedIntText Checkbox FloatLogSlider FloatProgress FloatRangeSlider
        FloatSlider FloatText IntProgress IntRangeSlider IntSlider IntText Play ToggleButton Valid
    """
    )
)
_LINKED_TRAITS: Final = frozenset({"value", "min", "max", "step", "disabled", "interval"})

_NAMING: Final = ("_model_module", "_model_name", "_view_module", "_view_name")
_VERSIONS: Final = ("_model_module_version", "_view_module_version")
_VERSION: Final = re.compile(r"[\^~]?[0-9]{1,4}(?:\.[0-9]{1,4}){0,2}")
_ICON: Final = re.compile(r"[A-Za-z0-9-]{0,60}")
_QUOTES: Final = re.compile(r"[\"']")
_REFERENCE: Final = "IPY_MODEL_"


def allowed(model: Model | None) -> bool:
    """Whether static output has widgets of this model."""
    return model is not None and model in VIEWS


def on_page(comms: Comms, comm: str) -> bool:
    """Whether a widget is one that the page was told of."""
    return comm not in comms.refused and allowed(comms.models.get(comm))


def static_state(
    model: Model, state: Mapping[str, Json], comms: Comms, outputs: Callable[[Json], Json]
) -> dict[str, Json]:
    """What a page gets of a widget's state, or of an update to it.

    outputs: makes the list of outputs that an Output widget shows static.
    """
    kept: dict[str, Json] = {}
    for name, value in state.items():
        if name.startswith("__") or name in ("constructor", "prototype"):
            continue
        if name.startswith("_"):
            kept |= _own(model, name, value)
        else:
            kept[name] = _trait(model, name, value, comms, outputs)
    return kept


def refused_open(model: Model, state: Mapping[str, Json], comms: Comms) -> bool:
    """Whether a widget of an allowed model is not to be opened for what its first state says."""
    if model.name not in _LINKS:
        return False
    return not all(_linkable(state.get(end), comms) for end in ("source", "target"))


def kept_buffers(
    model: Model, state: Mapping[str, Json], paths: Json, buffers: Sequence[bytes]
) -> tuple[list[Json], list[bytes]]:
    """Those buffers that are values of bytes in a widget that shows bytes."""
    found_paths: list[Json] = []
    found: list[bytes] = []
    if not isinstance(paths, list) or model.name not in _BYTES:
        return found_paths, found
    for path, buffer in zip(paths, buffers, strict=False):
        if isinstance(path, list) and path[:1] == ["value"] and _is_path(path[1:], state):
            found_paths.append(path)
            found.append(buffer)
    return found_paths, found


def _is_path(rest: Sequence[Json], state: Mapping[str, Json]) -> bool:
    """Below `value`: nothing (bytes of a picture), or the content of a file in a list."""
    if not rest:
        return True
    return "value" in state and len(rest) == 2 and type(rest[0]) is int and rest[1] == "content"


def _own(model: Model, name: str, value: Json) -> dict[str, Json]:
    """Keys that ipywidgets itself uses."""
    if name in _NAMING:
        right = dict(zip(_NAMING, (model.module, model.name, *VIEWS[model]), strict=True))
        return {name: right[name]}
    if name in _VERSIONS:
        return {name: value} if isinstance(value, str) and _VERSION.fullmatch(value) else {}
    if name == "_dom_classes":
        # A class of the page's own would make the widget look, and lie, as a dialog of it.
        return {name: []}
    if isinstance(value, bool | int | float | None):
        return {name: value}
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return {name: value}
    return {}


def _trait(
    model: Model, name: str, value: Json, comms: Comms, outputs: Callable[[Json], Json]
) -> Json:
    if name == "description_allow_html":
        return False
    if name in ("layout", "style"):
        # They come before the widget that has them.
        return value if _refers(value, comms) else None
    if model.name in _CSS:
        return value if _is_css(value) else None
    if model.name in _HTML and name == "value":
        return _html(value)
    if model.name == "OutputModel" and name == "outputs":
        return outputs(value)
    if model.name in _MEDIA and name == "format":
        # `url` would load what the value names.
        return value if isinstance(value, str) and value != "url" else ""
    if model.name in _LINKS and name in ("source", "target"):
        return value if _linkable(value, comms) else None
    if name in ("icon", "icons"):
        return _icons(value)
    if name == "description" or (model.name == "LabelModel" and name == "value"):
        return tex.guarded(value) if isinstance(value, str) else ""
    if name == "children" and isinstance(value, list):
        return [child for child in value if _refers(child, comms)]
    if isinstance(value, str) and value.startswith(_REFERENCE):
        return value if _refers(value, comms) else None
    return value


def _html(value: Json) -> str:
    if not isinstance(value, str):
        return ""  # a page would write a list, too, as the text in it
    try:
        return sanitise_html(value).html
    except NotShown as error:
        return f"[Reprise: static output; not shown: {error}]"


def _is_css(value: Json) -> bool:
    if value is None or isinstance(value, bool | int | float):
        return True
    # Set as one property by a script, so that quotes (of grid areas) end nothing.
    return isinstance(value, str) and styles.safe_value(f"{_QUOTES.sub('', value)} ")


def _icons(value: Json) -> Json:
    if isinstance(value, list):
        return [_icons(each) for each in value]
    return value if isinstance(value, str) and _ICON.fullmatch(value) else ""


def _refers(value: Json, comms: Comms) -> bool:
    """Whether a value names a widget that the page has."""
    if not isinstance(value, str) or not value.startswith(_REFERENCE):
        return False
    return on_page(comms, value.removeprefix(_REFERENCE))


def _linkable(value: Json, comms: Comms) -> bool:
    if not isinstance(value, list) or len(value) != 2 or not _refers(value[0], comms):
        return False
    model = comms.models.get(str(value[0]).removeprefix(_REFERENCE))
    if model is None or model.name not in _LINKED:
        return False
    return isinstance(value[1], str) and value[1] in _LINKED_TRAITS


def model_of_update(comms: Comms, comm: str, state: Mapping[str, Json]) -> Model | None:
    """The model that an update is for, if static output has it."""
    model = comms.models.get(comm)
    if model is None and comm not in comms.models:
        # A whole state, as a page asks for when it is opened anew, names it.
        model = model_named(state)
    return model if allowed(model) and comm not in comms.refused else None
