"""What the model is sent of a conversation: its entries as messages of the Messages API (pure).

The messages of entries that are there never change when more are appended, so that each request
begins with the bytes of the one before (prompt caching). Nothing here knows the time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from reprise_server.agent.contract import Block, Entry, Prompt, Tool, text
from reprise_server.agent.course import CUT
from reprise_server.agent.model.compaction import opening

#: What a model is told when its answer was cut; a call that was cut is not in it any more.
CUT_SHORT: Final = (
    "[Reprise] Your answer was cut at its bound of tokens. If you were calling a tool, nothing of"
    " that call was run: call it again with less in it, or write the content in several calls."
    " Otherwise go on where it stops; do not repeat it."
)
NO_RESULT: Final = "No result of this call is recorded."
CONTINUED: Final = {
    "cancelled": "[Reprise] The person had stopped you, and now asks you to go on.",
    "budget": "[Reprise] The bound of this turn was reached; the person asks you to go on.",
    "failed": "[Reprise] The last request failed; the person asks you to go on.",
    "interrupted": (
        "[Reprise] The server that ran this turn ended and another one goes on with it. A call"
        " whose result says `lost` may have run; look before you do it again."
    ),
}


def prompt_of(
    entries: Sequence[Entry],
    tools: Iterable[Tool],
    system: Sequence[Block],
) -> Prompt:
    """The request that a conversation with these entries makes next."""
    return Prompt([described(tool) for tool in tools], list(system), messages_of(entries))


def described(tool: Tool) -> dict[str, Any]:
    """A tool as a request has it."""
    return {"name": tool.name, "description": tool.description, "input_schema": tool.schema}


def messages_of(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """The messages that these entries stand for."""
    made = _Messages()
    for entry in _from_compacted(entries):
        made.add(entry)
    return made.whole()


def _from_compacted(entries: Sequence[Entry]) -> Iterable[Entry]:
    """The newest compaction, and what it does not stand for."""
    for newest in reversed(entries):
        if newest.kind == "compacted":
            yield newest
            before = int(newest.body["before"])
            yield from (e for e in entries[before:] if e.kind != "compacted")
            return
    yield from entries


@dataclass
class _Messages:
    """Messages while they are put together, entry by entry.

    user: content of the user's message that is still open.  left: ids of calls of the newest
    answer that wait for their result, in its order.  results: those that have one.
    """

    made: list[dict[str, Any]] = field(default_factory=list)
    user: list[Block] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    results: dict[str, Block] = field(default_factory=dict)
    notes: list[Block] = field(default_factory=list)
    #: Where the turn at hand began in `made`, and what was open in `user` then; whether it has had
    #: a call, and how it ended last.
    began: int = 0
    before: list[Block] = field(default_factory=list)
    called: bool = False
    status: str = "done"

    def add(self, entry: Entry) -> None:
        body = entry.body
        match entry.kind:
            case "compacted":
                *self.made, last = opening(body["content"])
                self.user = list(last["content"])
                # The turn at hand goes on behind it: a refusal takes nothing of it away.
                self.began, self.before, self.called = len(self.made), list(self.user), False
            case "said":
                self._close_results()
                self.began, self.before, self.called = len(self.made), list(self.user), False
                self.user.append(text(str(body["text"])))
            case "answered" if not body.get("partial"):
                self._answered(body)
            case "result":
                if body["id"] in self.left:
                    self.results[body["id"]] = tool_result(body)
            case "ended":
                self.status = str(body["status"])
                if self.status == "refused" and not self.called:
                    # The API declines again as long as it sees what it declined.
                    del self.made[self.began :]
                    self.user = list(self.before)
            case "continued":
                self._note(CONTINUED.get(self.status, CONTINUED["failed"]))
            case "undone":
                self._note(undone_note(body))
            case _:
                pass

    def _answered(self, body: Mapping[str, Any]) -> None:
        reason = str(body.get("stop_reason"))
        if reason == "refusal":
            return
        content = [block for block in body["content"] if not _blank(block)]
        self._close_user()
        if content:
            self.made.append({"role": "assistant", "content": content})
        calls = [str(block["id"]) for block in content if block.get("type") == "tool_use"]
        if reason == "tool_use":
            self.called = self.called or bool(calls)
            self.left = calls
        else:
            # Whole ones before the cut; the API wants a result of each.
            self.user += [_tool_result(one, [text(NO_RESULT)], wrong=True) for one in calls]
            if reason in CUT:
                self.user.append(text(CUT_SHORT))

    def _note(self, words: str) -> None:
        """Behind the results of calls, which may come yet: they stand first (the API's rule)."""
        (self.notes if self.left else self.user).append(text(words))

    def _close_results(self) -> None:
        """All results of an answer in one message, in the order of its calls; the API takes no
        answer of which one is missing."""
        for one in self.left:
            absent = _tool_result(one, [text(NO_RESULT)], wrong=True)
            self.user.append(self.results.get(one, absent))
        self.user += self.notes
        self.left, self.results, self.notes = [], {}, []

    def _close_user(self) -> None:
        self._close_results()
        if self.user:
            self.made.append({"role": "user", "content": list(self.user)})
            self.user = []

    def whole(self) -> list[dict[str, Any]]:
        self._close_user()
        return self.made


def tool_result(body: Mapping[str, Any]) -> Block:
    """A result's entry as the model is sent it."""
    return _tool_result(str(body["id"]), body["content"], wrong=body["status"] != "ok")


def _tool_result(call: str, content: Sequence[Block], *, wrong: bool) -> Block:
    shown = [block for block in content if not _blank(block)] or [text("(nothing)")]
    found: dict[str, Any] = {"type": "tool_result", "tool_use_id": call, "content": shown}
    if wrong:
        found["is_error"] = True
    return found


def _blank(block: Block) -> bool:
    """A text that the API does not take: it has to have something to read."""
    return block.get("type") == "text" and not str(block.get("text", "")).strip()


def undone_note(body: Mapping[str, Any]) -> str:
    """What the model is told of an undo."""
    kept = body.get("kept") or []
    outside = body.get("outside") or []
    words = (
        f"[Reprise] The person undid turn {body['turn']}: the session's files and variables, and"
        " the notebook, are as before it."
    )
    if kept:
        words += f" Cells edited since stayed as they are: {', '.join(map(str, kept))}."
    if outside:
        words += " What it did outside is not undone."
    return words
