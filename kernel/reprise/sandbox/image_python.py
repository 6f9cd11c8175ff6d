"""Which Python of an image runs the guest: found out by running it, once for an image."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from reprise.errors import SandboxError
from reprise.sandbox.contract import LanguageKernel
from reprise.sandbox.documents import read_json, write_json
from reprise.sandbox.images import Image

#: Where images have one, beside the language kernel's own.
_USUAL = (
    "/usr/local/bin/python3",
    "/opt/venv/bin/python3",
    "/opt/conda/bin/python3",
    "/usr/bin/python3",
)

#: What the guest is written for, and needs.
_OLDEST = (3, 11)
_ASK = (
    "import json, sys; v = list(sys.version_info[:2])\n"
    "try: import zmq; z = zmq.__version__\n"
    "except ImportError: z = ''\n"
    "print(json.dumps([v, z]))"
)

#: Runs a program in the image: (exit code, the end of what it wrote to stdout, … to stderr).
Run = Callable[[Sequence[str]], tuple[int, str, str]]


def guest_python(image: Image, kernel: LanguageKernel, run: Run) -> str:
    """The path in the image of the Python that runs the guest. Blocks.

    The language kernel's own where it will do. Raises SandboxError that names what is missing.
    """
    file = image.folder / "python.json"
    asked = [kernel.argv[0]] if kernel.language == "python" else []
    known = read_json(file)
    if not isinstance(known, dict):
        known = {}
    key = asked[0] if asked else ""
    if isinstance(found := known.get(key), str):
        return found
    reasons = []
    for python in dict.fromkeys([*asked, *_USUAL]):
        if reason := _wrong(python, run):
            reasons.append(f"{python}: {reason}")
            continue
        write_json(file, {**known, key: python})
        return python
    raise SandboxError(
        f"Nothing in the image {image.digest[:12]} can run Reprise's guest, which needs Python "
        f"{'.'.join(map(str, _OLDEST))} or newer with pyzmq ({'; '.join(reasons)}). Build the "
        "image with `pip install ipykernel` (it brings pyzmq) for such a Python. Nothing was "
        "started."
    )


def _wrong(python: str, run: Run) -> str:
    """Why a Python cannot run the guest; "" when it can."""
    code, told, said = run([python, "-I", "-c", _ASK])
    try:
        version, zmq = json.loads(told)
        old = tuple(version) < _OLDEST
    except (ValueError, TypeError):
        return _short(said) or f"it ends with code {code}"
    if old:
        return f"it is Python {'.'.join(map(str, version))}"
    return "" if zmq else "it has no pyzmq"


def _short(said: str) -> str:
    return said.strip().splitlines()[-1][:200] if said.strip() else ""
