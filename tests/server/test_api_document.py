"""The OpenAPI document says what the handlers do, no more and no less."""

from __future__ import annotations

import io
import logging
import re
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from jupyter_events import EventLogger
from openapi_spec_validator import OpenAPIV31SpecValidator
from tornado.web import RequestHandler

from reprise_server.api import document, events, governance, parts
from reprise_server.api.base import Asked, Endpoint, path_names
from reprise_server.api.sending import Sending
from tests.fixtures.server import FRAME

DOCUMENT = parts.document().value
OPERATIONS = [
    (path, method, item[method])
    for path, item in DOCUMENT["paths"].items()
    for method in document.METHODS
    if method in item
]
NAMES = [f"{method} {path}" for path, method, _ in OPERATIONS]


def test_it_is_a_valid_document() -> None:
    OpenAPIV31SpecValidator(DOCUMENT).validate()


def test_every_path_has_a_handler_and_every_handler_a_path() -> None:
    assert {endpoint.path for endpoint in parts.ENDPOINTS} == set(DOCUMENT["paths"])
    assert len({endpoint.path for endpoint in parts.ENDPOINTS}) == len(parts.ENDPOINTS)


def test_every_method_is_in_it_and_every_method_of_it_is_there() -> None:
    handled = {
        (endpoint.path, method) for endpoint in parts.ENDPOINTS for method in endpoint.operations
    }
    assert handled == {(path, method) for path, method, _ in OPERATIONS}


def test_nothing_answers_but_what_was_made_by_operation() -> None:
    for endpoint in [*parts.ENDPOINTS, parts.routes()[-1][1]]:
        for method in RequestHandler.SUPPORTED_METHODS:
            if method == "OPTIONS" or method.lower() in endpoint.operations:
                continue
            found = getattr(endpoint, method.lower())
            assert found == RequestHandler._unimplemented_method, (endpoint, method)


def test_a_method_that_was_not_made_by_operation_cannot_be_written() -> None:
    async def get(self: Any, asked: Asked) -> None: ...

    for name in ("get", "head", "delete"):
        with pytest.raises(TypeError, match=name):
            type("Open", (Endpoint,), {"path": "/open", name: get})


def test_the_parts_say_nothing_twice_and_have_no_leftovers() -> None:
    text = str(DOCUMENT)
    for kind, found in DOCUMENT["components"].items():
        if kind == "securitySchemes":
            continue
        for name in found:
            # Results of jobs are named for people.
            named = f"#/components/{kind}/{name}'" in text or f"`{name}`" in text
            assert named, f"{kind} {name} is used by nothing"


@pytest.mark.parametrize(("path", "method", "said"), OPERATIONS, ids=NAMES)
def test_an_operation_says_all_that_a_client_needs(path: str, method: str, said: Any) -> None:
    assert re.fullmatch(r"[a-z][A-Za-z]+", said["operationId"])
    assert said["summary"]
    assert set(said["tags"]) <= {each["name"] for each in DOCUMENT["tags"]}
    assert said["responses"]["default"] == {"$ref": "#/components/responses/Refused"}
    (endpoint,) = [each for each in parts.ENDPOINTS if each.path == path]
    statuses = {int(each) for each in said["responses"] if each != "default"}
    assert endpoint.operations[method].status in statuses
    assert said["x-jupyter"]["resource"].startswith("reprise")
    known = parts.document().operations[path, method]
    assert {name for place, name in known.parameters if place == "path"} == set(path_names(path))
    for name, parameter in known.parameters.items():
        assert parameter.kind in ("string", "integer", "boolean"), name


def test_ids_of_operations_are_their_own() -> None:
    ids = [said["operationId"] for _, _, said in OPERATIONS]
    assert len(set(ids)) == len(ids)


def schemas(value: Any) -> list[dict[str, Any]]:
    """Every schema below a value, by what only schemas have."""
    if isinstance(value, dict):
        mine = [value] if value.get("type") == "object" or "object" in _types(value) else []
        return [*mine, *(found for each in value.values() for found in schemas(each))]
    if isinstance(value, list):
        return [found for each in value for found in schemas(each)]
    return []


def _types(value: dict[str, Any]) -> list[str]:
    found = value.get("type", [])
    return found if isinstance(found, list) else [found]


def requested(value: Any, seen: set[str]) -> list[dict[str, Any]]:
    """Every schema that a request's body is checked by, references followed."""
    found = schemas(value)
    for name in re.findall(r"'#/components/schemas/(\w+)'", str(value)):
        if name not in seen:
            seen.add(name)
            found += requested(DOCUMENT["components"]["schemas"][name], seen)
    return found


@pytest.mark.parametrize(("path", "method", "said"), OPERATIONS, ids=NAMES)
def test_a_body_has_no_field_that_nobody_knows(path: str, method: str, said: Any) -> None:
    for kind, content in said.get("requestBody", {}).get("content", {}).items():
        if "json" not in kind:
            continue
        Draft202012Validator.check_schema(content["schema"])
        for schema in requested(content["schema"], set()):
            closed = schema.get("additionalProperties", True) is not True or not schema.get(
                "properties"
            )
            assert closed, f"{method} {path}: {schema}"


@pytest.mark.parametrize(("path", "method", "said"), OPERATIONS, ids=NAMES)
def test_texts_and_lists_of_a_request_are_bounded(path: str, method: str, said: Any) -> None:
    def look(value: Any, seen: frozenset[str]) -> None:
        if isinstance(value, list):
            for each in value:
                look(each, seen)
        if not isinstance(value, dict):
            return
        reference = value.get("$ref")
        if isinstance(reference, str) and reference not in seen:
            kind, name = reference.split("/")[-2:]
            look(DOCUMENT["components"][kind][name], seen | {reference})
        types = _types(value)
        if "string" in types and "enum" not in value and "const" not in value:
            bounded = "maxLength" in value or "pattern" in value or "format" in value
            assert bounded, f"{method} {path}: {value}"
        if "array" in types:
            assert "maxItems" in value, f"{method} {path}: {value}"
        if "integer" in types:
            assert "maximum" in value, f"{method} {path}: {value}"
        for each in value.values():
            look(each, seen)

    look([said.get("parameters", []), DOCUMENT["paths"][path].get("parameters", [])], frozenset())
    look(said.get("requestBody", {}), frozenset())


def test_patterns_are_of_whole_texts() -> None:
    def look(value: Any) -> None:
        for each in value.values() if isinstance(value, dict) else value:
            if isinstance(each, dict | list):
                look(each)
        if isinstance(value, dict) and isinstance(value.get("pattern"), str):
            pattern = value["pattern"]
            assert re.fullmatch(r"\^[^$]*\$", pattern), pattern

    look(DOCUMENT)
    checker = document.Checker({"pattern": "^(a|b)$"})
    assert [checker.is_valid(each) for each in ("a", "b", "ab", "a\n", "\na", "")] == [
        True,
        True,
        *([False] * 4),
    ]


def test_acts_that_widen_rights_say_so() -> None:
    """Each such method goes through the gate; what the gate calls widening is offered as that."""
    widening = {said["operationId"] for _, _, said in OPERATIONS if said["x-jupyter"]["widens"]}
    assert "allowHosts" in widening
    for path, method, said in OPERATIONS:
        if said["x-jupyter"]["widens"]:
            assert method != "get", path
            assert said["x-jupyter"]["action"] != "read", path
    assert set(governance.WIDENING) <= set(governance.Verb.__args__)  # type: ignore[attr-defined]


def test_events_have_a_schema_each_with_a_version_that_is_a_text() -> None:
    logger = EventLogger()
    events.register(logger)
    files = {path.stem for path in events.FOLDER.glob("*.yaml")}
    assert {"skill", "environment"} <= files
    for name in files:
        schema = logger.schemas.get(events.schema_id(name))
        assert schema.version == "1"
        assert schema._schema["additionalProperties"] is False


def test_an_event_that_fits_no_schema_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    logger = EventLogger()
    logger.register_handler(logging.StreamHandler(io.StringIO()))  # without one, nothing is checked
    events.register(logger)
    events.emit(logger, "skill", {"action": "nonsense"}, logging.getLogger("said"))
    assert "does not fit its schema" in caplog.text


def test_no_answer_is_a_page_but_the_decision_frame() -> None:
    """What a new route sends is JSON, or bytes for saving; `tests.fixtures.server.conforms` holds
    each answer of every test to what that means."""
    pages = {
        (method, path, kind)
        for path, method, said in OPERATIONS
        for answer in said["responses"].values()
        for kind in parts.document().followed("", answer)[1].get("content", {})
        if kind not in ("application/json", "application/octet-stream")
    }
    assert pages == {("get", FRAME, "text/html")}
    own = {
        endpoint.path
        for endpoint in parts.ENDPOINTS
        if {"content_security_policy", "set_default_headers"} & set(vars(endpoint))
    }
    assert own <= {FRAME}, "nobody else has headers of its own"


def test_nothing_but_json_is_sent_without_a_name_to_save_it_under() -> None:
    async def nothing() -> AsyncGenerator[bytes, None]:
        yield b""

    with pytest.raises(ValueError, match="offered for saving"):
        Sending(nothing(), 0, None, "text/html")
    with pytest.raises(ValueError, match="offered for saving"):
        Sending(nothing(), 0, None)
