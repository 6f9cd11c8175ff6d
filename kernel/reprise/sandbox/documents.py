"""Small JSON files of REPRISE_HOME: written whole or not at all."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from reprise.errors import UnavailableError

#: Nothing kept so is larger: 100,000 packages, or a data directory's listing of that size.
MAX_BYTES = 64 << 20


def read_json(path: Path) -> Any:
    """The value in a file, or None when it is not there or cannot be used (a cache, then)."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        return None if len(data) > MAX_BYTES else json.loads(data)
    except (OSError, ValueError, RecursionError):
        return None


def write_json(
    path: Path, value: Any, *, indent: int | None = None, exclusive: bool = False
) -> None:
    """Replace a file atomically, making its directory (0700). Raises UnavailableError.

    exclusive: only where there is none yet; raises FileExistsError otherwise.
    """
    text = json.dumps(value, sort_keys=True, indent=indent) + "\n"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
        try:
            with os.fdopen(handle, "w", encoding="ascii") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            if exclusive:
                os.link(temporary, path)
                os.unlink(temporary)  # noqa: PTH108
            else:
                os.replace(temporary, path)  # noqa: PTH105
        except BaseException:
            os.unlink(temporary)  # noqa: PTH108
            raise
    except OSError as error:
        if exclusive and isinstance(error, FileExistsError):
            raise
        raise UnavailableError(
            f"{path} could not be written ({error.strerror}); what it held before is unchanged."
        ) from error
