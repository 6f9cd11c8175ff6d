"""Leaves most of the suite out on gVisor, unless REPRISE_LONG asks for all of it."""

from __future__ import annotations

import os

import pytest

from tests.conformance.backends import SHORT_ON_GVISOR


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
    on_gvisor = any(
        isinstance(value, str) and value == "oci-runsc" for value in item.callspec.params.values()
    )
    suite = item.nodeid.startswith("tests/conformance/")
    return suite and on_gvisor and item.originalname not in SHORT_ON_GVISOR
