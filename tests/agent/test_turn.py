"""A turn keeps its order: an entry before each act, every call its end, whatever the model does."""

from __future__ import annotations

from reprise_server.agent.scripted import calls, says
from tests.fixtures.conversations import Doing, MakeTalk


async def test_each_thing_is_recorded_before_it_happens(talk: MakeTalk) -> None:
    note = Doing()
    made = await talk([calls("note", {"text": "a"}), says("Done.")], [note])
    assert (await made.turn("Note a."))["status"] == "done"
    assert await made.kinds() == [
        "begun",
        "session",
        "said",
        "asked",
        "answered",
        "called",
        "running",
        "result",
        "asked",
        "answered",
        "ended",
    ]
    assert note.ran == [{"text": "a"}]
    [result] = made.model.exchanges[-1].asked.results
    assert result.text == "noted a"
