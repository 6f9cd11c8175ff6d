"""The tools `fork_session` and `rewind_session`: another history from a past step on."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Final

from reprise.log.model import Json
from reprise_server.agent.contract import Act, BadCall, Call, Result, Situation
from reprise_server.agent.tools.outside import Traffic
from reprise_server.agent.tools.place import Place
from reprise_server.agent.tools.schemas import fields
from reprise_server.agent.tools.shown import blocks

#: Steps that are looked through for whose they are.
_LOOKED_AT: Final = 2_000
#: Names the forks of calls, so that one which is asked for twice is there once.
_FORKS: Final = uuid.UUID("5a0d3c64-1f0e-5c0a-9b51-6d0c7a4f2e11")

_AT: Final = {
    "type": "integer",
    "description": "The number of the last step to keep; -1 for none.",
}


def fork_id(call: Call) -> uuid.UUID:
    """The session that a call forks, or goes on in: the same however often it is tried."""
    return fork_of(call.key)


def fork_of(key: str) -> uuid.UUID:
    """The same, by the call's key."""
    return uuid.uuid5(_FORKS, key)


class ForkSession:
    """Makes a second session that shares the history up to a step."""

    name = "fork_session"
    description = (
        "Make a new session that shares this one's history up to a step, for the person to try"
        " something else in. This conversation and its notebook stay in the present session."
    )
    schema = fields(
        {}, {"at": {**_AT, "description": f"{_AT['description']} Default: the latest."}}
    )

    def __init__(self, place: Place) -> None:
        self._place = place

    async def act(self, given: Mapping[str, Json], situation: Situation) -> Act:  # noqa: ARG002
        at = given.get("at")
        if at is not None:
            await _check_step(self._place, at)
        where = "at its latest step" if at is None else f"after step {at}"
        return Act(self.name, "history", dict(given), f"fork the session {where}")

    async def run(self, call: Call, act: Act) -> Result:  # noqa: ARG002
        fork = await self._place.fork(call.input.get("at"), identity=fork_id(call))
        info = await (await self._place.log.reader(fork)).info()
        said = (
            f"Session {fork} shares the history up to step {info.steps - 1}. This conversation goes"
            " on where it was; the person can open the fork from the list of sessions.\n"
        )
        return Result(blocks(said), outside=(f"made session {fork}, a fork",))


class RewindSession:
    """Lets the notebook go on from a past step; what follows stays in the session that is left."""

    name = "rewind_session"
    description = (
        "Go back: the notebook and this conversation go on in a fork that shares the history up to"
        " a step, with files and variables as they were after it. The later steps stay in the"
        " session that is left. What was sent elsewhere is not undone. The notebook's cells stay as"
        " they are."
    )
    schema = fields({"at": _AT})

    def __init__(self, place: Place) -> None:
        self._place = place

    async def act(self, given: Mapping[str, Json], situation: Situation) -> Act:  # noqa: ARG002
        at = given["at"]
        steps = await _check_step(self._place, at)
        if at == steps - 1:
            raise BadCall(f"Step {at} is the latest one, so there is nothing to go back from.")
        theirs = 0
        reader = await self._place.reader()
        stop = min(steps, at + 1 + _LOOKED_AT)
        async for record in reader.records(at + 1, stop, outputs=False):
            theirs += record.step.new.actor.kind == "user"
        left = steps - 1 - at
        whose = f", {theirs}{'+' if stop < steps else ''} of them the person's" if theirs else ""
        title = f"go back to step {at} and leave {left} later steps{whose}"
        return Act(self.name, "history", dict(given), title)

    async def run(self, call: Call, act: Act) -> Result:  # noqa: ARG002
        at = call.input["at"]
        left = self._place.session
        traffic = Traffic()
        async for row in (await self._place.reader()).network(at + 1):
            traffic.add(row)
        fork = await self._place.rewind(at, identity=fork_id(call))
        said = f"At step {at}, in session {fork}. The later steps stay in session {left}.\n"
        for line in traffic.places_told():
            said += f"Not undone: what was sent, {line}\n"
        return Result(blocks(said[:8_000]), session=str(fork))


async def _check_step(place: Place, at: int) -> int:
    """How many steps there are. Raises BadCall for one that is not there."""
    steps = (await place.info()).steps
    if not -1 <= at < steps:
        raise BadCall(
            f"There is no step {at}; this session has steps 0 to {steps - 1} (-1 keeps none)."
            if steps
            else "This session has no steps yet, so there is nothing to go back to."
        )
    return steps
