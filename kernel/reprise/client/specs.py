"""Where Jupyter's libraries find our kernel, installed or not: a kernelspec of this very Python."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from jupyter_client.kernelspec import KernelSpecManager

from reprise.jupyter.kernelspec import write_kernelspec


@contextlib.contextmanager
def kernel_path() -> Iterator[Path]:
    """A folder for JUPYTER_PATH that offers `reprise`, run by this Python, while the block runs.

    An installed kernelspec of that name may belong to another environment, or another version.
    """
    with tempfile.TemporaryDirectory(prefix="reprise-kernel-") as folder:
        write_kernelspec(Path(folder) / "kernels" / "reprise")
        yield Path(folder)


@contextlib.contextmanager
def kernel_specs() -> Iterator[KernelSpecManager]:
    """All kernels that Jupyter knows, with `reprise` run by this Python."""
    with kernel_path() as folder:
        known = KernelSpecManager()
        yield KernelSpecManager(kernel_dirs=[str(folder / "kernels"), *known.kernel_dirs])
