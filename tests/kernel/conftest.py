"""A kernel that the tests of one module share, and environments with limits."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.fixtures.kernel import Client, Database, Kernel, Kernels


@pytest.fixture(scope="module")
def kernel(module_kernels: Kernels) -> Kernel:
    """On the process backend, where nothing but the router itself differs from ipykernel."""
    return module_kernels("process")


@pytest.fixture
def client(kernel: Kernel) -> Client:
    return kernel.client()


@pytest.fixture
def limited(database: Database) -> Callable[..., str]:
    """Writes a named environment with limits; its name is for REPRISE_ENVIRONMENT."""

    def write(name: str, **limits: float) -> str:
        folder = database.home / "environments"
        folder.mkdir(exist_ok=True)
        (folder / f"{name}.json").write_text(json.dumps({"limits": limits}))
        return name

    return write
