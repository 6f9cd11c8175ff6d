"""What a step showed, as it is painted into the cell that it ran (pure)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from reprise.bundle.outputs import Message, Outputs

#: Of the outputs of one cell, as JSON. What is larger stays in the session's log.
PAINTED_BYTES: Final = 8 << 20


def painted(outputs: Iterable[Message], count: int | None, seq: int) -> list[dict[str, Any]]:
    """What a step showed, as nbformat outputs of its cell. seq: of the step, which has it all."""
    shown = Outputs({}, count)
    for message in outputs:
        shown.add(message)
    size = 0
    for at, output in enumerate(shown.list):
        size += len(json.dumps(output))
        if size > PAINTED_BYTES:
            left = len(shown.list) - at
            said = (
                f"[Reprise: the last {left} outputs are not shown here, since they are larger than "
                f"{PAINTED_BYTES:,} bytes. Step {seq} of the session has them.]\n"
            )
            return [*shown.list[:at], {"output_type": "stream", "name": "stderr", "text": said}]
    return shown.list
