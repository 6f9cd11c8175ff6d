"""The tool `ask_user`: a question of the model's own to the person."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from reprise.log.model import Json
from reprise_server.agent.contract import Act, BadCall, Call, Result, Situation
from reprise_server.agent.tools.schemas import fields, texts
from reprise_server.agent.tools.shown import blocks, fitted, harmless

#: Characters of a question, options of one and characters of each.
MOST_QUESTION: Final = 4_000
MOST_OPTIONS: Final = 6
MOST_OPTION: Final = 200
#: Of an answer; a person may paste a whole file.
_MOST_ANSWER: Final = 12_000


class AskUser:
    """Waits for what the person says."""

    name = "ask_user"
    description = (
        "Ask the person a question and wait for the answer. Use it when a choice is theirs or a"
        " fact is missing. It approves nothing: tools that need approval ask by themselves."
    )
    schema = fields(
        {"question": texts("The question, in a few plain sentences.")},
        {
            "options": {
                "type": "array",
                "items": {"type": "string"},
                "description": f"Answers to choose from, at most {MOST_OPTIONS} short ones; the"
                " person may always answer in their own words.",
            }
        },
    )

    async def act(self, given: Mapping[str, Json], situation: Situation) -> Act:  # noqa: ARG002
        _asked(given)
        return Act(self.name, "ask", dict(given), "ask you a question")

    async def run(self, call: Call, act: Act) -> Result:  # noqa: ARG002
        question, options = _asked(call.input)
        decided = await call.ask(question, options)
        if decided.how == "timeout":
            said = "Nobody answered in time. Go on without it, or end and say what you need.\n"
        elif decided.how == "cancelled":
            said = "The person dismissed the question. Go on without it, or end.\n"
        else:
            answer = harmless(decided.decision)
            if decided.reason:
                answer += f"\n{harmless(decided.reason)}"
            where = "The rest is not here; ask for a file."
            said = f"The person answered: {fitted(answer, _MOST_ANSWER, where).text}\n"
        return Result(blocks(said))


def _asked(given: Mapping[str, Json]) -> tuple[str, tuple[str, ...]]:
    """The question and the options as they are shown. Raises BadCall."""
    question = harmless(given["question"]).strip()
    options = tuple(harmless(each).strip() for each in given.get("options") or ())
    if not question or len(question) > MOST_QUESTION:
        raise BadCall(f"`question` has {len(question):,} characters; 1 to {MOST_QUESTION:,} fit.")
    if len(options) > MOST_OPTIONS or any(not 1 <= len(each) <= MOST_OPTION for each in options):
        raise BadCall(
            f"`options` are at most {MOST_OPTIONS} texts of 1 to {MOST_OPTION} characters each."
        )
    if len(set(options)) != len(options):
        raise BadCall("`options` names one answer twice.")
    return question, options
