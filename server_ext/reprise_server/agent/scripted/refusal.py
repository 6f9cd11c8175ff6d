"""How a request is refused as invalid, and the checks that every part of one shares (pure)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any


class Invalid(Exception):
    """The API answers this request with status 400 and these words."""


def known(given: Mapping[str, Any], names: Collection[str], where: str) -> None:
    """Raises Invalid for a field that has no meaning there."""
    for name in given:
        if name not in names:
            place = f"{where}.{name}" if where else name
            raise Invalid(f"{place}: Extra inputs are not permitted")


def object_of(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise Invalid(f"{where}: Input should be an object")
    return value


def text_of(given: Mapping[str, Any], name: str, where: str) -> str:
    value = given.get(name)
    if value is None:
        raise Invalid(f"{where}.{name}: Field required")
    if not isinstance(value, str):
        raise Invalid(f"{where}.{name}: Input should be a valid string")
    return value


def whole(value: Any, where: str, *, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise Invalid(f"{where}: Input should be a valid integer")
    if value < least:
        raise Invalid(f"{where}: Input should be greater than or equal to {least}")
    return value
