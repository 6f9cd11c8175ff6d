"""The result of a call whose own result nobody has: what the session's log says of it (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from reprise.log.model import Json
from reprise.log.store import StepRecord
from reprise.replay.shown import pieces, plain
from reprise_server.agent.contract import CallEnd, TaintKind
from reprise_server.agent.course import CallState, result_body

#: Characters of what its steps showed.
SHOWN: Final = 6_000

_ENDS: Final = {
    "ok": "ended well",
    "error": "ended with an error",
    "interrupted": "was interrupted",
    "timeout": "ran out of its time",
    "died": "ended with its sandbox, and its effects on files and variables were rolled back",
    "lost": (
        "was lost with its kernel: it may have run, and its effects on files and variables were"
        " rolled back"
    ),
}


def lost_result(
    call: CallState,
    records: Sequence[StepRecord],
    *,
    cut: bool,
    abandoned: bool = False,
    taints: Sequence[tuple[TaintKind, str]] = (),
) -> dict[str, Json]:
    """The body of `result`. records: its steps with their outputs.  cut: the turn was stopped while
    it ran; else everything that ran it went.  abandoned: its end was not waited for.
    taints: what may be in it."""
    status: CallEnd = "cancelled" if cut else "lost"
    if not cut and call.own is not None and call.own[1] is not None:
        return _answered(call, call.own[1])
    if cut:
        words = "The person stopped the turn while this call ran."
        if abandoned:
            words += " Its end was not waited for: it may go on."
    else:
        words = (
            "The process that ran this call ended before the result was recorded. It is not run"
            " again by itself."
        )
    words += _of_steps(call, records)
    seqs: list[Json] = [record.step.seq for record in records]
    told: list[Json] = [{"kind": kind, "source": source} for kind, source in taints]
    outside: list[Json] = []
    act = (call.called or {}).get("act") or {}
    if act.get("effect") == "outside":
        outside.append(f"{act['tool']} may have been called")
    return result_body(call.id, status, words, steps=seqs, taints=told, outside=outside)


def _answered(call: CallState, decided: Any) -> dict[str, Json]:
    """A question of the model's own does nothing but ask, and the answer is there."""
    if decided["how"] in ("timeout", "cancelled"):
        return result_body(call.id, "error", "Nobody answered the question.")
    return result_body(call.id, "ok", f"The person answered: {decided['decision']}")


def _of_steps(call: CallState, records: Sequence[StepRecord]) -> str:
    effect = ((call.called or {}).get("act") or {}).get("effect")
    if not records:
        if effect in ("run", "write"):
            return " The session's log has no step of it: nothing of it was run."
        if effect == "edit":
            return " It may have changed the notebook: read it before you edit again."
        if effect == "outside":
            return " It may have done what it does, outside: nothing here can tell."
        return " The session's log has no step of it."
    words = ""
    room = SHOWN // len(records)
    for record in records:
        seq = record.step.seq
        if record.outcome is None:
            words += f"\nStep {seq} has not ended yet, as far as the log knows."
            continue
        words += f"\nStep {seq} {_ENDS[record.outcome.status]}."
        shown = "".join(plain(piece.text) for piece in pieces(record.outputs, room) if piece.text)
        if shown.strip():
            words += f" It showed:\n{shown.rstrip()}"
    if effect == "edit":
        words += "\nIt may also have changed the notebook: read it before you edit again."
    return words
