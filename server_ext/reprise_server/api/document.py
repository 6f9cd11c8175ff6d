"""The OpenAPI document: put together of its parts, served, and what every request is checked by."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final

import yaml
from jsonschema import Draft202012Validator, validators
from jsonschema.exceptions import ValidationError, best_match
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from reprise_server.api.refusals import Refused

FOLDER: Final = Path(__file__).with_name("openapi")

#: In C where it is there: ten times as fast, and the server's first request waits for it.
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

#: Under which name schemas refer to the document within our own process.
_SELF: Final = "urn:reprise:openapi"

#: Where websockets stand, for which OpenAPI has no word: paths, each with its `parameters`, and the
#: schemas of messages that it `takes` and `tells`, by their type.
SOCKETS: Final = "x-websockets"

METHODS: Final = ("get", "post", "put", "patch", "delete")

_INTEGER: Final = re.compile(r"-?[0-9]{1,18}")
_BOOLEANS: Final = {"true": True, "false": False}

#: Query parameters of Jupyter's own, allowed everywhere.
JUPYTERS: Final = frozenset({"token", "_xsrf", "no_track_activity"})

#: Errors among which the one that is told is chosen; a long list may have one for each item.
_LOOKED_AT: Final = 50

#: A checker's words repeat the value, which may be long.
_MOST_SAID: Final = 300


def _pattern(
    _: Any, pattern: str, instance: Any, __: Mapping[str, Any]
) -> Iterator[ValidationError]:
    """As JSON Schema means it (ECMA-262): `$` is the end, not the line feed before it."""
    if isinstance(instance, str) and not re.search(f"{pattern[:-1]}\\Z", instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


#: What everything is checked by. Patterns of the document are `^…$` (tests say so).
Checker: Final[type[Draft202012Validator]] = validators.extend(  # type: ignore[no-untyped-call]
    Draft202012Validator, {"pattern": _pattern}
)


@dataclass(frozen=True)
class Parameter:
    """A parameter of a path or a query. many: it may stand several times."""

    name: str
    place: str
    required: bool
    kind: str
    many: bool
    default: Any
    validator: Draft202012Validator


@dataclass(frozen=True)
class Operation:
    """One method of one path. bodies: by content type; a type without a validator is bytes."""

    parameters: Mapping[tuple[str, str], Parameter]
    bodies: Mapping[str, Draft202012Validator | None]
    body_required: bool
    responses: Mapping[str, Draft202012Validator] = field(default_factory=dict)

    def path(self, given: Mapping[str, str]) -> dict[str, Any]:
        """Raises Refused (404): what no path can be leads nowhere."""
        try:
            return {name: self._value("path", name, [text]) for name, text in given.items()}
        except Refused as error:
            raise Refused(404, "not-found", error.message) from None

    def query(self, given: Mapping[str, Sequence[str]]) -> dict[str, Any]:
        """Values by name, those that have a default filled in. Raises Refused (400)."""
        found: dict[str, Any] = {}
        for name, texts in given.items():
            if name in JUPYTERS:
                continue
            if ("query", name) not in self.parameters:
                known = ", ".join(sorted(n for place, n in self.parameters if place == "query"))
                raise _invalid(
                    f"There is no query parameter {name[:100]!r} here; there are {known or 'none'}."
                )
            found[name] = self._value("query", name, texts)
        for (place, name), parameter in self.parameters.items():
            if place == "query" and name not in found:
                if parameter.required:
                    raise _invalid(f"The query parameter {name!r} is missing.")
                found[name] = parameter.default
        return found

    def body(self, content_type: str, value: Any) -> None:
        """Check a body that came as JSON. Raises Refused (400) naming the field."""
        validator = self.bodies[content_type]
        if validator is not None:
            check(validator, value)

    def _value(self, place: str, name: str, texts: Sequence[str]) -> Any:
        parameter = self.parameters[place, name]
        if len(texts) > 1 and not parameter.many:
            raise _invalid(f"{name!r} stands {len(texts)} times.")
        values = [_read(parameter.kind, name, text) for text in texts]
        value = values if parameter.many else values[0]
        error = best_match(parameter.validator.iter_errors(value))
        if error is not None:
            raise _invalid(f"{name!r}: {error.message[:_MOST_SAID]}")
        return value


def check(validator: Draft202012Validator, value: Any) -> None:
    """Check a body or a message. Raises Refused (400) naming the field."""
    try:
        error = best_match(islice(validator.iter_errors(value), _LOOKED_AT))
    except RecursionError:
        raise _invalid("The body is nested too deep.") from None
    if error is not None:
        where = "/" + "/".join(str(each) for each in error.absolute_path)
        raise _invalid(f"The body at {where[:200]}: {error.message[:_MOST_SAID]}", where)


@dataclass(frozen=True)
class Socket:
    """A websocket. handshake: its path and query.  messages: that it takes, by type.
    told: that it sends, by type."""

    handshake: Operation
    messages: Mapping[str, Draft202012Validator]
    told: Mapping[str, Draft202012Validator]

    def path(self, given: Mapping[str, str]) -> dict[str, Any]:
        """Raises Refused (404)."""
        return self.handshake.path(given)

    def query(self, given: Mapping[str, Sequence[str]]) -> dict[str, Any]:
        """Raises Refused (400)."""
        return self.handshake.query(given)


class Document:
    """The whole document, as JSON and as what checks requests."""

    def __init__(self, value: Mapping[str, Any]) -> None:
        self.value = value
        self._registry: Registry[Any] = Registry().with_resource(
            _SELF, DRAFT202012.create_resource(value)
        )
        self.operations: dict[tuple[str, str], Operation] = {
            (path, method): self._operation(path, method)
            for path, item in value["paths"].items()
            for method in METHODS
            if method in item
        }
        self._sockets = {path: self._socket(path) for path in value.get(SOCKETS, {})}

    def socket(self, path: str) -> Socket:
        """What is said of a websocket."""
        return self._sockets[path]

    def _socket(self, path: str) -> Socket:
        at = f"/{SOCKETS}/{_escaped(path)}"
        said = self.value[SOCKETS][path]
        found = {}
        for number, each in enumerate(said["parameters"]):
            parameter = self._parameter(f"{at}/parameters/{number}", each)
            found[parameter.place, parameter.name] = parameter
        takes, tells = (
            {kind: self.validator(f"{at}/{way}/{kind}") for kind in said[way]}
            for way in ("takes", "tells")
        )
        return Socket(Operation(found, {}, body_required=False), takes, tells)

    def _operation(self, path: str, method: str) -> Operation:
        at = f"/paths/{_escaped(path)}/{method}"
        said = self.value["paths"][path][method]
        parameters = {}
        for place, given in (
            (f"/paths/{_escaped(path)}/parameters", self.value["paths"][path].get("parameters")),
            (f"{at}/parameters", said.get("parameters")),
        ):
            for number, each in enumerate(given or []):
                parameter = self._parameter(f"{place}/{number}", each)
                parameters[parameter.place, parameter.name] = parameter
        place, request = self.followed(f"{at}/requestBody", said.get("requestBody", {}))
        bodies = {
            kind: self.validator(f"{place}/content/{_escaped(kind)}/schema")
            if "json" in kind
            else None
            for kind in request.get("content", {})
        }
        responses = {}
        for status, each in said["responses"].items():
            place, answer = self.followed(f"{at}/responses/{status}", each)
            if "application/json" in answer.get("content", {}):
                pointer = f"{place}/content/application~1json/schema"
                responses[status] = self.validator(pointer)
        return Operation(parameters, bodies, bool(request.get("required")), responses)

    def _parameter(self, at: str, said: Mapping[str, Any]) -> Parameter:
        at, said = self.followed(at, said)
        schema = self._resolved(said["schema"])
        many = schema.get("type") == "array"
        kind = self._resolved(schema["items"] if many else schema).get("type", "string")
        default = schema.get("default", [] if many else None)
        return Parameter(
            said["name"],
            said["in"],
            bool(said.get("required")),
            kind,
            many,
            default,
            self.validator(f"{at}/schema"),
        )

    def followed(self, at: str, said: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
        """Where something stands, and what it says: there, or in the components."""
        if "$ref" not in said:
            return at, said
        kind, name = said["$ref"].split("/")[-2:]
        return f"/components/{kind}/{name}", self.value["components"][kind][name]

    def _resolved(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        """What a schema that only refers to another one says."""
        while "$ref" in schema:
            schema = self.value["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        return schema

    def validator(self, pointer: str) -> Draft202012Validator:
        """Checks a value by the schema at a JSON pointer of the document."""
        return Checker(
            {"$ref": f"{_SELF}#{pointer}"},
            registry=self._registry,
            format_checker=Draft202012Validator.FORMAT_CHECKER,
        )


def _escaped(name: str) -> str:
    """As part of a JSON pointer in a URI's fragment (RFC 6901, sections 3 and 6)."""
    pointer = name.replace("~", "~0").replace("/", "~1")
    return pointer.replace("{", "%7B").replace("}", "%7D")


def _read(kind: str, name: str, text: str) -> Any:
    if kind == "integer":
        if not _INTEGER.fullmatch(text):
            raise _invalid(f"{name!r} is no whole number.")
        return int(text)
    if kind == "boolean":
        if text not in _BOOLEANS:
            raise _invalid(f"{name!r} is neither true nor false.")
        return _BOOLEANS[text]
    return text


def _invalid(message: str, where: str | None = None) -> Refused:
    details = {} if where is None else {"where": where}
    return Refused(400, "invalid-request", message, details=details)


def assembled(parts: Iterable[str]) -> Document:
    """The document of these parts: files of the folder, named without their ending.

    A part holds `paths`, and `components` that no other part has. Every operation may also be
    answered by an error, which no part need say.
    """
    whole = _part("base")
    for name in parts:
        part = _part(name)
        _merge(whole, part, "paths", name)
        _merge(whole, part, SOCKETS, name)
        whole.setdefault("tags", []).extend(part.get("tags", []))
        for kind in part.get("components", {}):
            _merge(whole["components"], part["components"], kind, name)
    for item in whole["paths"].values():
        for method in METHODS:
            if method in item:
                item[method]["responses"].setdefault(
                    "default", {"$ref": "#/components/responses/Refused"}
                )
    return Document(whole)


def _part(name: str) -> dict[str, Any]:
    with (FOLDER / f"{name}.yaml").open("rb") as file:
        found: dict[str, Any] = yaml.load(file, _LOADER)  # noqa: S506
    return found


def _merge(whole: dict[str, Any], part: Mapping[str, Any], kind: str, name: str) -> None:
    known = whole.setdefault(kind, {})
    for key, value in part.get(kind, {}).items():
        if key in known:
            raise ValueError(f"openapi/{name}.yaml: {kind} {key} is in another part already")
        known[key] = value


def parts_paths(paths: Iterable[str]) -> list[str]:
    """Templates in the order in which they are to be tried: concrete ones first (OpenAPI 3.1,
    "Path Templating Matching")."""
    return sorted(paths, key=lambda path: [("{" in each, each) for each in path.split("/")])
