"""Builds the lab extension into the wheel (pyproject.toml), trusting whom the machine trusts."""

from __future__ import annotations

import os
from typing import Any

from hatch_jupyter_builder import npm_builder


def build(target_name: str, version: str, **options: Any) -> None:
    """hatch-jupyter-builder's `npm_builder`, with the certificates of the system beside Node's own.

    pip asks the system which authorities it trusts; Node has a list of its own, so where a proxy
    looks into TLS the packages of the extension would not come though pip's did. Node before
    22.19 knows no such variable and is as it was.
    """
    os.environ.setdefault("NODE_USE_SYSTEM_CA", "1")
    npm_builder(target_name, version, **options)
