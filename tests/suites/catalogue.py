"""What other projects' suites are run, how much of each must pass, and which tests may not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

#: Source archives that hold the tests (wheels do not).
ARCHIVES: Final = {"ipykernel": "7.4.0", "nbclient": "0.11.0"}

#: What the tests need beside the project they test. Pinned: a suite that changes under us would
#: say nothing about us.
REQUIREMENTS: Final = (
    *(f"{name}=={version}" for name, version in ARCHIVES.items()),
    "debugpy==1.8.22",
    "flaky==3.8.1",
    "ipywidgets==8.1.9",
    "jupyter-client==8.10.0",
    "jupyter-kernel-test==0.7.0",
    "nbconvert==7.17.2",
    "pytest==9.2.0",
    "pytest-asyncio==1.5.0",
    "pytest-cov==7.1.0",
    "pytest-timeout==2.4.0",
    "testpath==0.6.0",
    "xmltodict==1.0.4",
)


@dataclass(frozen=True)
class Suite:
    """Tests of one archive (or, without one, of ours around a library's), and the least that pass.

    least: how many a bare ipykernel 7.4.0 passes (`run.py --bare` counts them).
    """

    name: str
    archive: str | None
    tests: tuple[str, ...]
    least: int


SUITES: Final = (
    Suite("jupyter_kernel_test", None, ("kernel_under_test.py",), 13),
    Suite(
        "ipykernel",
        "ipykernel",
        ("tests/test_message_spec.py", "tests/test_kernel.py", "tests/test_async.py"),
        55,
    ),
    Suite("subshells", "ipykernel", ("tests/test_subshells.py",), 23),
    Suite("debugger", "ipykernel", ("tests/test_debugger.py",), 12),
    Suite("nbclient", "nbclient", ("tests/test_client.py",), 89),
)

#: Tests that cannot pass on a backend, and why (docs/conformance.md says it at length). Only such
#: as need the kernel to share the host's files: a sandbox must not.
EXCEPTED: Final[dict[str, dict[str, str]]] = {
    "process": {},
    "bubblewrap": {
        "tests/test_kernel.py::test_save_history": (
            "the cell writes into a folder of the host, where the test reads it"
        ),
        "tests/test_client.py::test_parallel_notebooks": (
            "two kernels wait for files that the other one writes into a folder of the host"
        ),
        "tests/test_client.py::test_async_parallel_notebooks": (
            "two kernels wait for files that the other one writes into a folder of the host"
        ),
    },
}
