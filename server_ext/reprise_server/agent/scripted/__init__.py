"""A model that answers by a script, over the real wire: for tests, demos and one's own trials.

    from reprise_server.agent.scripted import ScriptedModel, calls, says

    with ScriptedModel([calls("run_cells", {"cells": ["a"]}), says("Done.")]) as model:
        ...  # base URL: model.url, key: model.key

What it takes, refuses and counts is what the Messages API does; what it *says* is the script's.
"""

from reprise_server.agent.scripted.exchange import Exchange, Request
from reprise_server.agent.scripted.replies import (
    HANG_UP,
    Asked,
    Break,
    Call,
    Failure,
    Hold,
    Raw,
    Reply,
    Result,
    Script,
    Send,
    Step,
    Text,
    Thought,
    by_answers,
    calls,
    error,
    overloaded,
    rate_limited,
    reply,
    says,
)
from reprise_server.agent.scripted.server import KEY, ScriptedModel
from reprise_server.agent.scripted.tokens import tokens

__all__ = [
    "HANG_UP",
    "KEY",
    "Asked",
    "Break",
    "Call",
    "Exchange",
    "Failure",
    "Hold",
    "Raw",
    "Reply",
    "Request",
    "Result",
    "Script",
    "ScriptedModel",
    "Send",
    "Step",
    "Text",
    "Thought",
    "by_answers",
    "calls",
    "error",
    "overloaded",
    "rate_limited",
    "reply",
    "says",
    "tokens",
]
