"""A conversation as lines of a terminal: what is said, each call and its end, what it took."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from reprise.commands.terminal import Terminal, printable
from reprise_server.agent.exact import escaped
from reprise_server.agent.model.prices import total_tokens

#: Lines of what a call shows, while it runs and at its end.
SHOWN: Final = 20
#: Characters of a call's line.
_LINE: Final = 160

_MARKS: Final = {"ok": "ok", "error": "failed", "denied": "denied", "lost": "lost"}
_ENDS: Final = {
    "cancelled": "Stopped.",
    "refused": "The model declined.",
    "failed": "Failed.",
    "budget": "The bound of this turn is reached.",
    "interrupted": "Interrupted.",
}


class Transcript:
    """Writes what `running.Told` tells, as it comes."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._streamed = ""
        self._lines: dict[str, int] = {}
        self._told_why = False
        self._tokens = 0
        self._cost: dict[str, Decimal] = {}

    def told(self, told: Mapping[str, Any]) -> None:
        match told["type"]:
            case "entry":
                self._entry(told["entry"]["kind"], told["entry"]["body"])
            case "delta":
                self._delta(told["delta"])
            case "again":
                self._break("\n(again)\n")
            case "shown":
                self._shown(told["call"], told["text"])
            case "stopping":
                self._terminal.progress("Stopping: what runs is ended first …")
            case "note" | "cut":
                self._terminal.warn(told["text"])
            case _:
                pass

    # what the model says ------------------------------------------------------------------------

    def _delta(self, delta: Mapping[str, Any]) -> None:
        if delta.get("type") == "text":
            piece = str(delta.get("text") or "")
            self._terminal.piece(printable(piece))
            self._terminal.out.flush()
            self._streamed += piece
        elif delta.get("type") == "thinking" and not self._streamed:
            self._terminal.status("thinking …")

    def _break(self, words: str) -> None:
        if self._streamed:
            self._terminal.piece(words)
            self._streamed = ""

    def _answered(self, body: Mapping[str, Any]) -> None:
        words = "".join(str(b.get("text", "")) for b in body["content"] if b["type"] == "text")
        if self._streamed.endswith(words) or body.get("partial"):
            words = ""
        if words:
            self._terminal.piece(printable(words))
        if words or self._streamed:
            ends = (words or self._streamed).endswith("\n")
            self._terminal.piece("" if ends else "\n")
        self._streamed = ""
        self._tokens += total_tokens(body.get("usage") or {})
        cost = body.get("cost")
        if cost:
            spent = self._cost.get(cost["currency"], Decimal(0))
            self._cost[cost["currency"]] = spent + Decimal(cost["amount"])

    # entries ------------------------------------------------------------------------------------

    def _entry(self, kind: str, body: Mapping[str, Any]) -> None:
        line = self._terminal.line
        match kind:
            case "answered":
                self._answered(body)
            case "called":
                line(self._paint(_called(body)))
            case "decided":
                line(f"    {_decided(body)}")
                self._told_why = body["decision"] == "deny"
            case "result":
                self._result(body)
            case "waiting":
                seconds = round(body["seconds"])
                self._terminal.progress(
                    f"waiting {seconds} s: {body['why']} (attempt {body['attempt']})"
                )
            case "compacted":
                line(self._paint("· the conversation was summarised to fit the model's context"))
            case "session":
                if body["why"] != "begun":
                    line(self._paint(f"· goes on in session {body['session']}"))
            case "continued":
                line(self._paint("· continued"))
            case "ended":
                self._ended(body)
            case _:
                pass

    def _paint(self, text: str) -> str:
        return self._terminal.paint(text, "dim")

    def _shown(self, call: str, text: str) -> None:
        for each in printable(text).splitlines():
            count = self._lines.get(call, 0)
            self._lines[call] = count + 1
            if count < SHOWN:
                self._terminal.line(self._paint(f"  | {each}"))

    def _result(self, body: Mapping[str, Any]) -> None:
        more = self._lines.pop(str(body["id"]), 0) - SHOWN
        if more > 0:
            self._terminal.line(self._paint(f"  | … {more} more lines"))
        steps = ", ".join(map(str, body["steps"]))
        at = f"step{'s' if len(body['steps']) > 1 else ''} {steps}  " if steps else ""
        status = body["status"]
        words = f"    {at}{_MARKS.get(status, status)}"
        told_why, self._told_why = self._told_why, False
        if status != "ok" and not (status == "denied" and told_why):
            said = next((b["text"] for b in body["content"] if b["type"] == "text"), "")
            words += f": {_short(said)}"
        self._terminal.line(self._terminal.paint(words, "dim" if status == "ok" else "yellow"))
        for each in body["outside"]:
            self._terminal.line(self._paint(f"    outside: {each}"))

    def _ended(self, body: Mapping[str, Any]) -> None:
        words = _ENDS.get(body["status"])
        if words is not None:
            why = f" {body['why']}" if body.get("why") else ""
            self._terminal.line(self._terminal.paint(f"{words}{why}", "yellow"))
        cost = "".join(f", {amount:f} {currency}" for currency, amount in self._cost.items())
        self._terminal.progress(f"{self._tokens:,} tokens{cost}")


def _called(body: Mapping[str, Any]) -> str:
    act, verdict = body.get("act"), body.get("verdict") or {}
    if act is None:
        return f"- {body['tool']}: {_short(str(body.get('problem')))}"
    what = act.get("code") or ", ".join(act.get("paths") or ()) or ""
    words = f"- {act['title']}" + (f": {_short(what)}" if what else "")
    if verdict.get("decision") != "allow" or verdict.get("grant") is not None:
        words += f"  [{verdict.get('decision')}: {verdict.get('rule')}]"
    return words


def _decided(body: Mapping[str, Any]) -> str:
    if body["how"] == "timeout":
        return "nobody answered in time"
    if body["how"] == "cancelled":
        return "not answered"
    reason = f": {body['reason']}" if body.get("reason") else ""
    parts = [str(each["part"]) for each in body.get("rejected") or ()]
    reason += f", but not {escaped(', '.join(parts))}" if parts else ""
    words = {"once": "allowed once", "session": "allowed for this conversation"}
    words |= {"pattern": "allowed for this pattern", "deny": "denied"}
    return f"{words.get(body['decision'], 'answered')}{reason}"


def _short(text: str) -> str:
    line = text.strip().splitlines()[0] if text.strip() else ""
    more = len(text.strip()) > len(line) or len(line) > _LINE
    return escaped(line[:_LINE]) + (" …" if more else "")
