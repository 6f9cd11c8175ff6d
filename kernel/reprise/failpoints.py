"""Named points where a fault test makes this process die, raise or pause.

`REPRISE_FAILPOINT="name:action[:N]"` arms one point: at its N-th pass (default the first) the
process kills itself (`kill`, SIGKILL), raises `FailpointReached` (`raise`) or stops itself until
someone sends SIGCONT (`pause`, SIGSTOP). Several are separated by commas. With
`REPRISE_FAILPOINT="@PATH"` the point stands in that file, which is looked at anew at each pass
and removed when its point is reached: so a living process can be armed again and again. Unset,
which is the rule, `failpoint` is a function that does nothing.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

VARIABLE = "REPRISE_FAILPOINT"


class FailpointReached(Exception):
    """Raised at a failpoint armed with `raise`."""


class _Armed:
    """One armed point; counts its passes."""

    def __init__(self, spec: str) -> None:
        name, _, rest = spec.partition(":")
        action, _, nth = rest.partition(":")
        if action not in ("kill", "raise", "pause") or (nth and not nth.isdigit()):
            raise ValueError(f"{VARIABLE}: {spec!r} is not name:kill|raise|pause[:N]")
        self.name = name
        self.action = action
        self.passes_left = int(nth or 1)

    def passed(self) -> None:
        self.passes_left -= 1
        if self.passes_left != 0:
            return
        if self.action == "raise":
            raise FailpointReached(self.name)
        os.kill(os.getpid(), signal.SIGKILL if self.action == "kill" else signal.SIGSTOP)


def _unarmed(name: str) -> None:
    """Do nothing."""


def _in_file(path: Path) -> Callable[[str], None]:
    def check(name: str) -> None:
        try:
            point = _Armed(path.read_text("utf-8").strip())
        except FileNotFoundError:
            return
        if point.name == name:
            path.unlink()
            point.passed()

    return check


def arm(specs: str | None) -> Callable[[str], None]:
    """The function behind `failpoint` for one value of the variable."""
    if not specs:
        return _unarmed
    if specs.startswith("@"):
        return _in_file(Path(specs[1:]))
    armed = [_Armed(spec.strip()) for spec in specs.split(",")]

    def check(name: str) -> None:
        for point in armed:
            if point.name == name:
                point.passed()

    return check


failpoint: Callable[[str], None] = arm(os.environ.get(VARIABLE))
