"""Why a sandbox went, in words for people (pure)."""

from __future__ import annotations

from reprise.sandbox.contract import DeathCause

_SIGNALS = {11: "a segmentation fault", 9: "it was killed", 6: "it aborted", 7: "a bus error"}


def why(cause: object, killed: str | None = None) -> str:
    """One clause. killed: what we ended it for, if we did."""
    if killed == "timeout":
        return "it ran over its time limit and did not react to an interrupt"
    if killed == "never sent":
        return "its sandbox was gone before it could begin"
    if killed == "shutdown":
        return "the kernel was shut down while it ran"
    return _cause(cause) if isinstance(cause, DeathCause) else "its sandbox vanished"


def _cause(cause: DeathCause) -> str:
    if cause.what == "memory":
        limit = "" if cause.limit is None else f" of {cause.limit / (1 << 30):.2f} GiB"
        return f"out of memory (over the limit{limit}; `reprise env limit memory` raises it)"
    if cause.what == "signal":
        return f"{_SIGNALS.get(cause.signal or 0, 'it was ended')} (signal {cause.signal})"
    if cause.what == "exit":
        return f"the language kernel exited by itself (code {cause.code})"
    if cause.what == "violation":
        return f"the sandbox broke the protocol and was ended ({cause.detail})"
    if cause.what == "killed":
        return "its sandbox was ended"
    return f"its sandbox vanished{f' ({cause.detail})' if cause.detail else ''}"
