"""Leaves most of the suite out on gVisor and on runc, unless REPRISE_LONG asks for all of it."""

from __future__ import annotations

import os

import pytest

from tests.conformance.backends import SHORT, SHORTENED


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if os.environ.get("REPRISE_LONG"):
        return
    long = {item for item in items if _is_long(item)}
    if long:
        config.hook.pytest_deselected(items=list(long))
        items[:] = [item for item in items if item not in long]


def _is_long(item: pytest.Item) -> bool:
    if not isinstance(item, pytest.Function) or not hasattr(item, "callspec"):
        return False
    shortened = any(
        isinstance(value, str) and value in SHORTENED for value in item.callspec.params.values()
    )
    suite = item.nodeid.startswith("tests/conformance/")
    return suite and shortened and item.originalname not in SHORT
